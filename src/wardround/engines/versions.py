"""Which versions of wardround may take part in one run: those that differ in the last number alone.

    compatible("0.2.7", "0.2.0")      # True: what crosses the wire, and what is computed, is the same in 0.2.x
    compatible("0.3.0", "0.2.0")      # False

A version that is no release (0.3.0rc1, 0.2.1.dev4) goes with itself only.
"""

import re

RELEASE = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", re.ASCII)


def compatible(one: str, other: str) -> bool:
    """Whether sites and a coordinator with these versions work together."""
    first, second = RELEASE.fullmatch(one), RELEASE.fullmatch(other)
    if not first or not second:
        return one == other
    return first.group(1, 2) == second.group(1, 2)


def series(version: str) -> str:
    """What to install beside this version: 0.2.x, or just this one."""
    release = RELEASE.fullmatch(version)
    return f"{release.group(1)}.{release.group(2)}.x" if release else version


def version_name(text: str) -> bool:
    """Whether somebody else's word for a version can be repeated."""
    return text.replace(".", "").isalnum() and text.isascii() and len(text) < 40

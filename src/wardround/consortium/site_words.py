"""What a site's log says of studies: their names and, of a refusal, what this hospital can do about it.

titled(folder, head)                              # study mentions, run 0123456789abcdef
refused(folder, head, "spent")                    # … wardround site approve charite STUDY.toml --again
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wardround import __version__
from wardround.consortium.approval import approved_name
from wardround.engines.codes import CODES
from wardround.engines.versions import series, version_name
from wardround.text.shown import harmless

EXPLAINED = ("data", "few", "restored", "settings")  # refusals of which more is said where they come about
LISTED = 5  # new members that a line names
OURSELVES = {"it": "this site", "its": "this site's"}


def titled(folder: Path, head: Mapping[str, Any]) -> str:
    """A study that was approved here, and one of its runs."""
    return f"study {approved_name(folder, str(head['study']))}, run {str(head['run'])[:16]}"


def begins(folder: Path, head: Mapping[str, Any], again: int | None, rounds: int) -> str:
    """A run begins here, for so many rounds at most, or goes on again with this round."""
    words = f"begins, for up to {rounds:,} rounds" if again is None else f"goes on with round {again:,}"
    return f"{titled(folder, head)}: {words}"


def ends(folder: Path, head: Mapping[str, Any], last: int) -> str:
    """A run was told to be over after this round, for good or for the time being."""
    words = f"has ended, after {last:,} round{'s' * (last != 1)}"
    stopped = f"has stopped after round {last:,}, and may go on later"
    return f"{titled(folder, head)}: {words if head.get('whole') is True else stopped}"


def delivers(folder: Path, head: Mapping[str, Any], size: int) -> str:
    """A run's model came, of so many bytes."""
    fetch = f"wardround site model {folder} STUDY.toml --out FOLDER"
    return f"{titled(folder, head)}: its model came, {size:,} bytes; to have it: {fetch}"


def refused(folder: Path, head: Mapping[str, Any], code: str) -> str:
    """Why this site refuses, and the remedy; nothing where it has none, or has been told."""
    theirs = str(head.get("version"))
    what, there, remedy = CODES.get(code, ("", ""))[1].partition("; there: ")
    if code == "version" and version_name(theirs):
        remedy = f"install {series(theirs)}"
        return f"version: refused: this site runs wardround {__version__}, the coordinator {theirs}; {remedy}"
    if code == "study":
        title, mark = harmless(str(head.get("title", "")))[:80], harmless(str(head.get("study")))[:8]
        approve = f"to take part in it: wardround site approve {folder} STUDY.toml, with the file of it"
        return f"study: refused: this site has not approved {title or 'the study'} ({mark}); {approve}"
    if not there or code in EXPLAINED:
        return ""
    first, _, rest = what.partition(" ")
    return f"{code}: refused in {titled(folder, head)}: {OURSELVES.get(first, first)} {rest}; {_typed(folder, remedy)}"


def joined(folder: Path, names: Sequence[str]) -> str:
    """Who is new in the consortium: whom to ring up, and what to type."""
    shown, more = ", ".join(names[:LISTED]), f" and {len(names) - LISTED} more" * (len(names) > LISTED)
    return (
        f"keys: new in the consortium: {shown}{more}. For masked sums with them telephone their people, and pin the "
        f'fingerprint that you hear: wardround site trust {folder} {names[0]} "…"'
    )


def unsure(folder: Path) -> str:
    """Why a site that was put back from a copy answers nothing."""
    return (
        "restored: this site was put back from a copy, and may have forgotten what it has answered; it answers nothing "
        f"until somebody has said what counts as spent: wardround site recover {folder}"
    )


def _typed(folder: Path, remedy: str) -> str:
    """A remedy as it is typed here: a command about this site's folder and, of an approval, with a study's file."""
    for verb, file in (("approve", " STUDY.toml"), ("budget", ""), ("check", ""), ("trust", "")):
        remedy = remedy.replace(f"wardround site {verb}", f"wardround site {verb} {folder}{file}")
    return remedy

"""Problems in a user's files, as `data check`, `convert` and `split` print them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rich.console import Console

from wardround.cli.options import in_options

if TYPE_CHECKING:
    from wardround.formats.check import Finding

SKIPPED = 3
"""The exit code where all but what could not be read was written."""
PLACES = 20  # of one kind that are printed; --json has them all


def show_skipped(console: Console, skipped: "Iterable[Finding]", *, quiet: bool = False) -> int:
    """What could not be read, each with its reason, and how many there are; the count alone if `quiet`."""
    count = 0
    for one in skipped:
        count += 1
        place = one.file if one.line is None else f"{one.file}:{one.line}"
        if not quiet:
            console.print(f"skipped {place}: {one.what}" + (f" — {in_options(one.remedy)}" if one.remedy else ""))
    if count:
        console.print(f"skipped because they could not be read: {count:,}")
    return count


def show_findings(console: Console, findings: "Iterable[Finding]", sizes: Mapping[tuple[str, str], int]) -> None:
    """Problems in the order they were met; those that only differ by their place and numbers together."""
    from wardround.formats.jsonl import NOT_OURS
    from wardround.formats.unread import UNREAD

    groups: defaultdict[tuple[str, str], list[Finding]] = defaultdict(list)
    for one in findings:
        groups[one.group].append(one)
    named = sum(what.startswith(UNREAD) for what, _ in groups)
    ignored = sum(size for (what, _), size in sizes.items() if what == NOT_OURS)
    for group, listed in groups.items():
        first, size = listed[0], sizes[group]
        if named and first.what == NOT_OURS:
            continue  # they are listed by their names
        end = f" — {in_options(first.remedy)}" if first.remedy else ""
        if size == 1:
            place = first.file if first.line is None else f"{first.file}:{first.line}"
            times = f" ({ignored:,} times)" if named == 1 and ignored and first.what.startswith(UNREAD) else ""
            console.print(f"{place}: {first.what}{times}{end}")
            continue
        varied = " (the first of them)" if len({(one.what, one.remedy) for one in listed}) > 1 else ""
        more = f" and {size - PLACES:,} more (data check --json lists them)" if size > PLACES else ""
        console.print(f"{first.what}{varied}: {size:,}{end}\n  at {_places(listed[:PLACES])}{more}")


def _places(some: "Iterable[Finding]") -> str:
    """Each file once, with its lines."""
    lines: defaultdict[str, list[str]] = defaultdict(list)
    for one in some:
        lines[one.file] += [] if one.line is None else [str(one.line)]
    return "; ".join(file + f":{', '.join(dict.fromkeys(mine))}" * bool(mine) for file, mine in lines.items())

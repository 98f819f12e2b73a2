"""From one format to another, with a list of what the target cannot hold.

    done = convert(Path("export.json"), Path("notes.jsonl"), "jsonl", Options())

The target appears only when it is complete. If something was lost in reading or has no place in the target, nothing is
written, unless `lossy` says that the rest will do.
"""

from dataclasses import dataclass
from pathlib import Path

from wardround.corpora.check import Finding, Findings
from wardround.corpora.formats import TARGETS, recognised
from wardround.corpora.options import Options
from wardround.corpora.reading import DataError, Problems

__all__ = ["Converted", "convert"]


@dataclass(frozen=True)
class Converted:
    """How many documents were written, what reading lost, and what had no place in the target."""

    documents: int
    written: bool
    findings: list[Finding]
    losses: Problems


class _Lossy(Exception):
    pass


def _accept(source: Path, count: int, *, lossy: bool, lost: int) -> None:
    """Let what was written take its name; an error on the way out makes an end of it instead."""
    if lost and not lossy:
        raise _Lossy
    if not count:
        raise DataError(source, None, "no document", "name the file or folder that holds the notes")


def convert(source: Path, target: Path, to: str, options: Options, *, form: str = "", lossy: bool = False) -> Converted:
    """Write the documents of `source` in the format `to`."""
    if target.exists() and (not target.is_dir() or to != "brat" or any(target.iterdir())):
        raise DataError(target, None, "exists already", "name another, or remove it first")
    write = TARGETS[to].write
    assert write is not None  # noqa: S101 -- that is what makes it a target
    findings, losses, count = Findings(), Problems(), 0
    files = recognised(source, form, options.encoding, findings)
    written = True
    try:
        with write(target, losses, options) as sink:
            for file, format_ in files:
                for placed in format_.read(file, findings, options):
                    sink(placed)
                    count += 1
            _accept(source, count, lossy=lossy, lost=findings.lost + losses.counts.total())
    except _Lossy:
        written = False
    return Converted(count, written, [one for one in findings.listed if one.lost], losses)

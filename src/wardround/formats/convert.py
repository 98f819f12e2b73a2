"""From one format to another, with a list of what the target cannot hold.

    done = convert(Path("export.json"), Path("notes.jsonl"), "jsonl", Options())

The target appears only when it is complete. If something was lost in reading or has no place in the target, nothing is
written, unless `lossy` says that the rest will do.

    done, counts = split(Path("export.json"), Path("notes"), {"test": 0.2}, "text", 0, Options())   # notes/test.jsonl

To which side a document goes depends on its text (or its source, or its patient) and the seed alone: equal texts are
never on two sides, and nothing has to be held in memory. Of a folder with several files, a file's name is the source of
its documents that name none: one file per hospital, of which each is drawn from.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from wardround.core.files import fresh_folder
from wardround.formats.check import Finding, Findings
from wardround.formats.jsonl import write_jsonl
from wardround.formats.kinds import Kinds
from wardround.formats.options import Options
from wardround.formats.recognise import hospitals, read_each, recognised
from wardround.formats.register import TARGETS
from wardround.text.document import Placed
from wardround.text.reading import DataError, Problems

By = Literal["text", "source", "patient", ""]


@dataclass(frozen=True)
class Converted:
    """How many documents were written, what reading lost, and what had no place in the target."""

    documents: int
    written: bool
    findings: list[Finding]
    losses: Problems
    sizes: Mapping[tuple[str, str], int]
    """How many findings of each group there are."""
    skipped: list[Finding] = field(default_factory=list)
    """What could not be read and was skipped."""


class Lossy(Exception):
    """Something would be lost."""


def accept(source: Path, count: int, *, lossy: bool, lost: int) -> None:
    """Let what was written take its name; an error on the way out makes an end of it instead."""
    if lost and not lossy:
        raise Lossy
    if not count:
        raise DataError(source, None, "no document", "name the file or folder that holds the notes")


def convert(
    source: Path, target: Path, to: str, options: Options, *, form: str = "", lossy: bool = False, skip: bool = False
) -> Converted:
    """Write the documents of `source` in the format `to`; with `skip`, files and lines that cannot be read are not."""
    if target.exists() and (not target.is_dir() or to != "brat" or any(target.iterdir())):
        raise DataError(target, None, "exists already", "name another, or remove it first")
    findings, losses, kinds, count = Findings(skips=skip), Problems(), Kinds(), 0
    files = recognised(source, form, options.encoding, findings)
    written = True
    try:
        with TARGETS[to].write(target, losses, options) as sink:
            for placed in read_each(files, findings, options):
                sink(placed)
                kinds.take(placed)
                count += 1
            for what, remedy in kinds.unlike(options.label):
                findings.mention(source, what, remedy)
            accept(source, count, lossy=lossy, lost=findings.lost + losses.counts.total())
    except Lossy:
        written = False
    return Converted(count, written, _findings(findings), losses, findings.sizes, findings.skipped)


def split(
    source: Path, folder: Path, shares: Mapping[str, float], by: By, seed: int, options: Options, *, form: str = "",
    lossy: bool = False,
) -> tuple[Converted, dict[str, int]]:  # fmt: skip
    """Write the documents of `source` as train.jsonl and, by shares, others in a new folder; how many went where.

    Without `by`, a patient stays on one side, and a document that names none goes by its text.
    """
    if folder.exists():
        raise DataError(folder, None, "exists already", "name another, or remove it first")
    findings, losses, kinds = Findings(), Problems(), Kinds()
    counts, drawn = dict.fromkeys(("train", *shares), 0), Counter[tuple[Path, str]]()
    files = recognised(source, form, options.encoding, findings)
    named = hospitals(source, files) if not options.source else {}
    written = True
    try:
        with fresh_folder(folder) as new, ExitStack() as sides:
            sinks = {side: sides.enter_context(write_jsonl(new / f"{side}.jsonl", losses, options)) for side in counts}
            for file, format_ in files:
                for read in format_.read(file, findings, options):
                    own = read.document.source or named.get(file, "")
                    placed = read._replace(document=replace(read.document, source=own))
                    side = _side(placed, by, seed, shares)
                    sinks[side](placed)
                    kinds.take(placed)
                    counts[side] += 1
                    drawn[file, side] += 1
            for what, remedy in kinds.unlike(options.label):
                findings.mention(source, what, remedy)
            accept(source, sum(counts.values()), lossy=lossy, lost=findings.lost)
            if empty := [side for side, count in counts.items() if not count]:
                wanted = " and ".join(f"a {side} share of {share}" for side, share in shares.items())
                what = f"nothing would go to {empty[0]}: {sum(counts.values())} documents, and {wanted}"
                raise DataError(
                    source,
                    None,
                    what,
                    f"change the shares or --seed, or {'leave --by out' if by else 'take --by text'}",
                )
            for file, side in ((file, side) for file in named for side in counts if not drawn[file, side]):
                findings.mention(
                    file, f"nothing of it goes to {side}", "change the shares or --seed if it is a hospital"
                )
    except Lossy:
        written = False
    return Converted(sum(counts.values()), written, _findings(findings), losses, findings.sizes), counts


def _side(placed: Placed, by: By, seed: int, shares: Mapping[str, float]) -> str:
    """Where a document goes; without a source or patient it cannot be said."""
    key = getattr(placed.document, by) if by else placed.document.patient or placed.document.text
    if not key and by in ("source", "patient"):
        remedy = f"name its column with --{by}-column, or leave --by out"
        raise DataError(placed.path, placed.line or 1, f"a document without a {by}", remedy)
    chance, reach = _drawn(key, seed), 0.0
    for side, share in shares.items():
        reach += share
        if chance < reach:
            return side
    return "train"


def _findings(findings: Findings) -> list[Finding]:
    """What was lost in reading, and what is odd about the whole."""
    return [one for one in findings.listed if one.lost or one.line is None]


def _drawn(key: str, seed: int) -> float:
    """A number from 0 to 1 that depends on the key and the seed alone."""
    mark = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8, key=str(seed).encode()).digest()
    return int.from_bytes(mark, "little") / 2**64

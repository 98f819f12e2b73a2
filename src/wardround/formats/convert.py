"""From one format to another, with a list of what the target cannot hold.

    done = convert(Path("export.json"), Path("notes.jsonl"), "jsonl", Options())

The target appears only when it is complete. If something was lost in reading or has no place in the target, nothing is
written, unless `lossy` says that the rest will do.

    done, counts = split(Path("export.json"), Path("notes"), {"test": 0.2}, "text", 0, Options())   # notes/test.jsonl

Of a folder with several files, a file's name is the source of its documents that name none: one file per hospital, of
which each is drawn from (`sides`). All is read twice, to draw and to write, and nothing held in memory.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from wardround.core.files import fresh_folder
from wardround.formats.check import Finding, Findings
from wardround.formats.jsonl import write_jsonl
from wardround.formats.kinds import Kinds
from wardround.formats.options import Options
from wardround.formats.recognise import hospitals, read_each, recognised
from wardround.formats.register import TARGETS, Format
from wardround.formats.sides import By, Sides
from wardround.text.document import Placed
from wardround.text.reading import DataError, Problems


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
    drawn_from = (placed for _, placed in _with_hospitals(files, named, Findings(), options))
    chosen = Sides.of(drawn_from, by, shares, seed)
    try:
        with fresh_folder(folder) as new, ExitStack() as sides:
            sinks = {side: sides.enter_context(write_jsonl(new / f"{side}.jsonl", losses, options)) for side in counts}
            for file, placed in _with_hospitals(files, named, findings, options):
                side = chosen.of_document(placed)
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
                    f"change the shares, or {'leave --by out' if by else 'take --by text'}",
                )
            for file, side in ((file, side) for file in named for side in counts if not drawn[file, side]):
                findings.mention(file, f"nothing of it goes to {side}", "add to it if it is a hospital")
    except Lossy:
        written = False
    return Converted(sum(counts.values()), written, _findings(findings), losses, findings.sizes), counts


def _with_hospitals(
    files: Sequence[tuple[Path, Format]], named: Mapping[Path, str], findings: Findings, options: Options
) -> Iterator[tuple[Path, Placed]]:
    """The documents of these files, each with its source, or with the hospital that its file is of."""
    for file, format_ in files:
        for read in format_.read(file, findings, options):
            own = read.document.source or named.get(file, "")
            yield file, read._replace(document=replace(read.document, source=own))


def _findings(findings: Findings) -> list[Finding]:
    """What was lost in reading, and what is odd about the whole."""
    return [one for one in findings.listed if one.lost or one.line is None]

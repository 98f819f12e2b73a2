"""`wardround data convert IN OUT --to FORMAT`: from one format to another.

Exit codes: 0 all is well, 1 something would be lost, 2 the command or the input is wrong, 3 written, except what
`--skip` passed over. Note text is printed only with `--show-text`.
"""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.data.findings import SKIPPED, show_findings, show_skipped
from wardround.cli.options import SkipUnread, console, errors, fail, one_of, refusals, remove_unfinished
from wardround.cli.reading import reading
from wardround.formats.options import Options
from wardround.formats.register import TARGETS


@reading
def command(
    source: Annotated[Path, typer.Argument(help="A file or a folder.")],
    target: Annotated[Path, typer.Argument(help="A new file; for brat a new folder.")],
    to: Annotated[str, typer.Option(help=f"The new format: {', '.join(TARGETS)}.")],
    lossy: Annotated[bool, typer.Option("--lossy", help="Write what the format can hold, without the rest.")] = False,
    skip: SkipUnread = False,
    *,
    options: Options,
    form: str,
) -> None:
    """Write a file or folder in another format; what it cannot hold is listed, and refused without --lossy."""
    from wardround.formats.convert import convert

    if to == "omop":
        fail("--to omop: a NOTE row needs a person and a date, which documents do not have; use csv")
    one_of(to or "?", TARGETS, "--to")
    remove_unfinished(target)
    with refusals(target):
        done = convert(source, target, to, options, form=form, lossy=lossy, skip=skip)
    show_findings(errors, done.findings, done.sizes)
    skipped = show_skipped(errors, done.skipped)
    for kind, count in done.losses.counts.items():
        errors.print(f"{to} has no place for: {kind}: {count:,} ({', '.join(done.losses.places[kind])})")
    if not done.written:
        errors.print("nothing was written; --lossy writes the rest, --to jsonl holds everything that was read")
        raise SystemExit(1)
    console.print(f"documents in {target}: {done.documents:,}")
    if skipped:
        raise SystemExit(SKIPPED)

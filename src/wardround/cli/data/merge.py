"""`wardround data merge OLD NEW … --out ALL.jsonl`: several files become one, without repetitions.

Exit codes: 0 all is well, 1 the same text is annotated in different ways, or something would be lost, 2 the command or
the input is wrong. Note text is printed only with `--show-text`.
"""

from pathlib import Path
from typing import Annotated, get_args

import typer

from wardround.cli.data.findings import show_findings
from wardround.cli.options import console, errors, fail, one_of, refusals, remove_unfinished
from wardround.cli.reading import reading
from wardround.formats.options import Options

MOST = 100  # contradictions that are listed


@reading
def command(
    sources: Annotated[list[Path], typer.Argument(help="Files or folders, in any formats.")],
    out: Annotated[Path, typer.Option(help="A new JSONL file.")],
    keep: Annotated[
        str, typer.Option(help="first or last: which counts where the same text is annotated in different ways.")
    ] = "",
    confirmed: Annotated[
        bool,
        typer.Option(
            "--confirmed", help="Somebody has checked all that doccano or BRAT gives back just as a model found it."
        ),
    ] = False,
    lossy: Annotated[bool, typer.Option("--lossy", help="Go on without what cannot be read.")] = False,
    *,
    options: Options,
    form: str,
) -> None:
    """Put files together; repeated texts are written once, and contradictions are listed."""
    from wardround.formats.merge import CONFLICT, Keep, merge

    one_of(keep, get_args(Keep), "--keep")
    remove_unfinished(out)
    with refusals(out):
        done, counts = merge(sources, out, options, keep=keep or None, form=form, lossy=lossy, confirmed=confirmed)  # type: ignore[arg-type]  # looked at above
    conflicts = [one for one in done.findings if one.what.startswith(CONFLICT)]
    show_findings(errors, [one for one in done.findings if one not in conflicts], done.sizes)
    for one in conflicts[:MOST]:  # each by itself: both places matter
        errors.print(f"{one.file}:{one.line}: {one.what}")
    if conflicts:
        more = f"and {counts['conflicts'] - MOST:,} more; " if counts["conflicts"] > MOST else ""
        errors.print(
            f"texts that are annotated in different ways: {counts['conflicts']:,} — {more}{conflicts[0].remedy}"
        )
    odd = ", ".join(
        f"{name} {counts[name]:,}"
        for name in ("duplicates", "conflicts", "superseded", "unannotated", "untouched")
        if counts[name]
    )
    if not done.written:
        fail(
            f"nothing was written{f' ({odd})' if odd else ''}; mend what is listed above, or see --keep and --lossy",
            1,
        )
    console.print(f"documents in {out}: {done.documents:,}{f' ({odd})' if odd else ''}")

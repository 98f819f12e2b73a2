"""`wardround data split IN DIR`: some documents set aside for testing, and for validation if wanted.

Exit codes: 0 all is well, 1 something would be lost, 2 the command or the input is wrong. Note text is printed only
with `--show-text`.
"""

from pathlib import Path
from shlex import quote
from typing import Annotated, get_args

import typer

from wardround.cli.data.findings import show_findings
from wardround.cli.options import console, errors, fail, one_of, refusals, remove_unfinished
from wardround.cli.reading import reading
from wardround.formats.options import Options


@reading
def command(
    source: Annotated[Path, typer.Argument(help="A file or a folder.")],
    folder: Annotated[Path, typer.Argument(help="A new folder, for train.jsonl, test.jsonl, ….")],
    test: Annotated[float, typer.Option(help="The share that is set aside for testing.")] = 0.2,
    valid: Annotated[float, typer.Option(help="The share that is set aside for validation; 0 for none.")] = 0.0,
    by: Annotated[
        str | None,
        typer.Option(
            help="text, source or patient: documents that share it stay on one side. "
            "Default: the patient where a document names one, else the text."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed draws other documents.")] = 0,
    lossy: Annotated[bool, typer.Option("--lossy", help="Go on without what cannot be read.")] = False,
    *,
    options: Options,
    form: str,
) -> None:
    """Set documents aside for testing and validation; a patient, or else equal texts, are never on two sides."""
    from wardround.formats.convert import split
    from wardround.formats.sides import By

    if by is not None:
        one_of(by or "?", [one for one in get_args(By) if one], "--by")
    if not 0 < test < 1:
        fail(f"--test {test}: a share between 0 and 1, such as 0.2")
    if not 0 <= valid < 1 - test:
        fail(f"--valid {valid}: a share that leaves some to train on beside --test {test}, such as 0.1")
    shares = {"test": test, **({"valid": valid} if valid else {})}
    remove_unfinished(folder)
    with refusals(folder):
        done, counts = split(source, folder, shares, by or "", seed, options, form=form, lossy=lossy)  # type: ignore[arg-type]  # looked at above
    show_findings(errors, done.findings, done.sizes)
    if not done.written:
        fail("nothing was written; mend what is listed above, or go on without it with --lossy", 1)
    sides = ", ".join(f"{side}.jsonl {count:,}" for side, count in counts.items())
    console.print(f"documents in {folder}: {sides}\nwrite a study for them: wardround new {quote(str(folder))}")

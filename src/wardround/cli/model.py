"""`wardround model show MODEL` and `wardround model assemble RUN SITE --out DIR`."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markdown import Markdown

from wardround.cli.options import literal, refusals
from wardround.trained.about import CARD, SUMS, WEIGHTS, ModelError, model_folder, read_about, verify
from wardround.trained.assemble import assembled_run

__all__ = ["model", "tell_assembled"]

model = typer.Typer(help="Trained models.", no_args_is_help=True)


@model.command("show")
def show_command(
    path: Annotated[Path, typer.Argument(help="A model's folder, or a run's.", metavar="MODEL")],
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Print a model's card, after a check that its folder is whole and as it was written."""
    folder = model_folder(path)
    verify(folder)
    about, console = read_about(folder), literal()
    files = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    if as_json:
        size = (folder / WEIGHTS).stat().st_size
        told = {**about.model_dump(mode="json"), "folder": str(folder), "files": len(files), "weights_bytes": size}
        print(json.dumps(told, ensure_ascii=False, indent=2))  # noqa: T201 -- for a pipe
        return
    try:
        words = (folder / CARD).read_text(encoding="utf-8")
    except OSError:
        raise ModelError(folder / CARD, "is missing", "copy the model's folder again") from None
    if console.is_terminal:
        console.print(Markdown(words), soft_wrap=False)
    else:
        console.print(words)
    console.print(f"{folder}: {len(files)} files, all as they were written")


@model.command("assemble")
def assemble_command(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.", metavar="RUN")],
    site: Annotated[str, typer.Argument(help="The site's name.", metavar="SITE")],
    out: Annotated[Path, typer.Option(help="A new folder.")],
    beside: Annotated[
        Path | None, typer.Option(help="Where the study file lay, if it names files or modules of its own.")
    ] = None,
) -> None:
    """Put a simulated site's model together, where each keeps a part for itself (`[sites] private`, `local`)."""
    with refusals(out):
        assembled_run(run, site, out, beside)
    tell_assembled(site, out)


def tell_assembled(site: str, out: Path) -> None:
    """Where the model is, and whose."""
    literal().print(f"the model of {site} is in {out}; it has what {site} kept for itself")

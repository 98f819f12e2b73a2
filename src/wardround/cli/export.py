"""`wardround export MODEL --to transformers|spacy|onnx --out DIR`: a trained model for other programs."""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import Rename, Trust, console, fail, one_of, refusals, renames

TARGETS = ("onnx", "spacy", "transformers")


def command(
    models: Annotated[list[Path], typer.Argument(help="A model's folder; for spaCy, several.", metavar="MODEL…")],
    to: Annotated[str, typer.Option(help=f"{', '.join(TARGETS)}.")],
    out: Annotated[Path, typer.Option(help="A new folder.", metavar="DIR")],
    rename: Rename = None,
    trust: Trust = None,
) -> None:
    """Write a trained model for transformers, spaCy or ONNX; what cannot be exported says why."""
    from wardround.exports import export

    if not to:
        fail(f"--to is empty: use one of {', '.join(TARGETS)}")
    one_of(to, TARGETS, "--to")
    with refusals(out):
        try:
            export(models, to, out, renames(rename), trust or ())
        except ValueError as error:
            fail(str(error))
    console.print(f"for {to}: {out}")

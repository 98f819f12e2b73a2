"""`wardround export MODEL --to transformers|spacy|onnx --out DIR`: a trained model for other programs."""

from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from wardround.corpora.reading import nearest
from wardround.exports import TARGETS, export
from wardround.run_folder import NO_ROOM

__all__ = ["export_command"]

literal = partial(Console, markup=False, emoji=False, highlight=False, soft_wrap=True)


def export_command(
    models: Annotated[list[Path], typer.Argument(help="A model's folder; for spaCy, several.", metavar="MODEL…")],
    to: Annotated[str, typer.Option(help=f"{', '.join(TARGETS)}.")],
    out: Annotated[Path, typer.Option(help="A new folder.", metavar="DIR")],
) -> None:
    """Write a trained model for transformers, spaCy or ONNX; what cannot be exported says why."""
    if to not in TARGETS:
        close = nearest(to, TARGETS)
        _fail(f"--to {to}: " + (f"did you mean {close}?" if close else f"use {', '.join(TARGETS)}"))
    try:
        export(models, to, out)
    except ValueError as error:
        _fail(str(error))
    except OSError as error:
        if error.errno in NO_ROOM:
            _fail(f"no room left to write {out}; nothing was written: make room and try again", 1)
        _fail(f"{error.filename or out}: {error.strerror or 'cannot be written'}; nothing was written")
    literal().print(f"for {to}: {out}")


def _fail(message: str, code: int = 2) -> NoReturn:
    literal(stderr=True).print(message)
    raise SystemExit(code)

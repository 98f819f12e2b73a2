"""`wardround model show MODEL`: what a model is, and whether its folder is whole."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markdown import Markdown

from wardround.cli.options import Trust, literal
from wardround.trained.about import CARD, SUMS, WEIGHTS, ModelError, model_folder, read_about, verify
from wardround.trained.signature import check_signature, signer


def command(
    path: Annotated[Path, typer.Argument(help="A model's folder, or a run's.", metavar="MODEL")],
    trust: Trust = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """Print a model's card, after a check that its folder is whole and as it was written."""
    folder = model_folder(path)
    if trust:
        check_signature(folder, trust)
    verify(folder)
    key = signer(folder)
    about, console = read_about(folder), literal()
    files = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    if as_json:
        size = (folder / WEIGHTS).stat().st_size
        plain = {**about.model_dump(mode="json"), "folder": str(folder), "files": len(files), "weights_bytes": size}
        plain["signed_by"] = key
        print(json.dumps(plain, ensure_ascii=False, indent=2))  # noqa: T201 -- for a pipe
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
    known = ", which you trust" if trust else ": compare it with the one that you were given, or use --trust"
    console.print(f"signed with the key {key}{known}" if key else "not signed")

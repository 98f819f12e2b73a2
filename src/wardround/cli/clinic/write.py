"""`wardround clinic write DIR`: generated hospitals as files, to rehearse with before any real note is touched."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from wardround.cli.options import Quiet


def command(
    folder: Annotated[Path, typer.Argument(help="A new folder.", metavar="DIR")],
    hospitals: Annotated[int, typer.Option(help="How many hospitals.")] = 5,
    documents: Annotated[int, typer.Option(help="Training documents per hospital.")] = 200,
    test_documents: Annotated[int, typer.Option(help="Test documents per hospital.")] = 50,
    language: Annotated[str, typer.Option(help="en or zh.")] = "en",
    kind: Annotated[str, typer.Option(help="notes, dialogues or distant.")] = "notes",
    heterogeneity: Annotated[float, typer.Option(help="0: all alike … 1: very different.")] = 0.5,
    noise: Annotated[float, typer.Option(help="The share of labels that annotators got wrong.")] = 0.1,
    seed: Annotated[int, typer.Option(help="The same seed writes the same bytes.")] = 0,
    formats: Annotated[
        list[str] | None, typer.Option("--format", help="jsonl, csv, brat, i2b2, conll, pubtator; may be repeated.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write generated hospitals in the formats that wardround reads."""
    from wardround.clinic import Clinic
    from wardround.clinic.write import write
    from wardround.study.settings import StudyError

    console = Console(stderr=True)
    try:
        generated = Clinic(
            hospitals=hospitals,
            documents=documents,
            test_documents=test_documents,
            language=language,  # type: ignore[arg-type]  # checked by the class
            kind=kind,  # type: ignore[arg-type]  # likewise
            heterogeneity=heterogeneity,
            noise=noise,
            seed=seed,
        )
        with console.status("writing") if console.is_terminal and not quiet else nullcontext() as status:

            def progress(done: int, total: int) -> None:
                if status:
                    status.update(f"writing {done:,} of {total:,} documents")

            summary = write(generated, folder, formats or ["jsonl"], progress)
    except (ValueError, FileExistsError) as error:
        raise StudyError("clinic write", [str(error)]) from None
    total = sum(sum(counts.values()) for counts in summary.documents.values())
    Console(highlight=False).print(
        f"{total:,} documents of {hospitals} hospitals in {folder}: {', '.join(summary.formats)}"
    )

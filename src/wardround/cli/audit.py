"""`wardround audit STUDY`: attack a study, and write what came of it as a page."""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import Changes, StudyFile, console, single
from wardround.cli.starting import starting


def command(
    study: StudyFile,
    changes: Changes = None,
    out: Annotated[Path, typer.Option(help="The page.")] = Path("audit.html"),
    sites: Annotated[int, typer.Option(min=3, help="Generated hospitals.")] = 4,
    notes: Annotated[int, typer.Option(min=10, help="Generated notes at each.")] = 60,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds; default: the study's, up to 20.")] = None,
) -> None:
    """Attack a study on generated notes: what leaves, what it gives away, and what is switched on against it."""
    with starting():
        from wardround.audit.audit import audited
        from wardround.audit.page import write_audit
        from wardround.cli.audited import show_audit

        chosen = single(study, changes or [], "audit one of them: take [grid] and seeds out")
    audit = audited(chosen, sites=sites, notes=notes, rounds=rounds, say=console.print)
    show_audit(audit)
    console.print(f"the page is {write_audit(audit, out)}")

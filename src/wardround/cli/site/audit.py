"""`wardround site audit SITE --study S.toml`: attack a study on the site's own notes, which stay here."""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import Site, console


def command(
    folder: Site = Path(),
    *,
    study: Annotated[Path, typer.Option(help="The study to attack.")],
    out: Annotated[Path | None, typer.Option(help="The page; default: audit.html in the site's folder.")] = None,
    notes: Annotated[int, typer.Option(min=12, help="Examples of the site's own that are used, at most.")] = 240,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds; default: the study's, up to 20.")] = None,
) -> None:
    """Attack a study on this site's own notes, offline: what it would give away of them."""
    from wardround.audit.audit import audited
    from wardround.audit.own import own_notes
    from wardround.audit.page import write_audit
    from wardround.cli.audited import show_audit
    from wardround.cli.site.leaving import study_at
    from wardround.consortium.settings import read_site

    chosen, settings = study_at(folder, study), read_site(folder)
    train, test, *_ = settings.parts(chosen)
    make, whose = own_notes(train, test, notes, chosen.seed)
    audit = audited(chosen, rounds=rounds, make=make, whose=whose, say=console.print)
    show_audit(audit)
    console.print(f"the page is {write_audit(audit, out or folder / 'audit.html')}; nothing has left this machine")

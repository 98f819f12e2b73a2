"""`wardround site model SITE S.toml --out DIR`: what the site kept and the shared model, as one."""

from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.model.assemble import show_assembled
from wardround.cli.options import Site, refusals
from wardround.runs.errors import RunError


def command(
    folder: Site,
    study: Annotated[Path, typer.Argument(help="The study file that was approved here.")],
    out: Annotated[Path, typer.Option(help="A new folder.")],
    shared: Annotated[
        Path | None, typer.Option(help="The shared model, as the coordinator sent it; not with the method local.")
    ] = None,
    round_: Annotated[
        int | None,
        typer.Option(
            "--round", min=1, help="Without a shared model: the round that the coordinator names, not the last."
        ),
    ] = None,
    run: Annotated[str, typer.Option(help="Which run, if not the newest.")] = "",
) -> None:
    """Put this site's own model together: what it kept for itself, and the shared model."""
    from wardround.cli.site.leaving import study_at
    from wardround.consortium.kept import kept_run
    from wardround.trained.about import model_folder, read_about
    from wardround.trained.assemble import assembled, shared_weights

    chosen = study_at(folder, study)
    if chosen.method.shares and shared is None:
        raise RunError("name the shared model, as the coordinator sent it: --shared MODEL")
    rounds = read_about(model_folder(shared)).rounds if shared else round_
    built, exchange = kept_run(folder, chosen, rounds, run)
    weights = shared_weights(built, shared) if shared else built.weights
    name = built.sites.names[0]
    with refusals(out):
        assembled(built, name, exchange, weights, out)
    show_assembled(name, out)

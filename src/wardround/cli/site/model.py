"""`wardround site model SITE S.toml --out DIR`: the shared model that was delivered, and what the site kept, as one."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wardround.cli.model.assemble import show_assembled
from wardround.cli.options import Site, console, refusals

if TYPE_CHECKING:
    from wardround.study.load import Study


def command(
    folder: Site,
    study: Annotated[Path, typer.Argument(help="The study file that was approved here.")],
    out: Annotated[Path, typer.Option(help="A new folder.")],
    shared: Annotated[
        Path | None, typer.Option(help="The shared model, if not the one that the coordinator delivered.")
    ] = None,
    round_: Annotated[
        int | None,
        typer.Option(
            "--round", min=1, help="Without a shared model: the round that the coordinator names, not the last."
        ),
    ] = None,
    run: Annotated[str, typer.Option(help="Which run, if not the newest.")] = "",
    trust: Annotated[
        list[Path] | None, typer.Option(help="Take only a model that is signed with this public key.")
    ] = None,
) -> None:
    """Get the model of a run that has ended, with what this site kept for itself, if it kept anything."""
    from wardround.cli.site.leaving import study_at
    from wardround.consortium.received import received, whole_model
    from wardround.trained.about import model_folder
    from wardround.trained.assemble import unpaid
    from wardround.trained.signature import check_signature

    chosen = study_at(folder, study)
    if chosen.method.shares and shared is None:
        place = received(folder, chosen, run)
        with tempfile.TemporaryDirectory() as trial, refusals(out):
            shared = Path(trial) / "model"
            whole_model(place, chosen, shared)
            if trust:
                check_signature(shared, trust)
            if (chosen.method.personal or chosen.sites.private) and not unpaid(chosen):
                _assemble(folder, chosen, shared, None, place.name, out)
            else:
                whole_model(place, chosen, out)
                console.print(f"the shared model of the run {place.name} is in {out}")
        return
    if trust and shared:
        check_signature(model_folder(shared), trust)
    _assemble(folder, chosen, shared, round_, run, out)


def _assemble(folder: Path, chosen: "Study", shared: Path | None, round_: int | None, run: str, out: Path) -> None:
    """What this site kept and the shared model, as one."""
    from wardround.consortium.kept import kept_run
    from wardround.consortium.leftovers import note_made
    from wardround.trained.about import model_folder, read_about
    from wardround.trained.assemble import assembled, shared_weights

    rounds = read_about(model_folder(shared)).rounds if shared else round_
    built, exchange = kept_run(folder, chosen, rounds, run)
    weights = shared_weights(built, shared) if shared else built.weights
    name = built.sites.names[0]
    with refusals(out):
        assembled(built, name, exchange, weights, out)
    note_made(built.host.memory)
    show_assembled(name, out)

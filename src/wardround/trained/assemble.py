"""The model of one site, where each keeps a part of it, or all of it, for itself.

    assembled_run(Path("runs/x"), "psytar", Path("psytar-model"))         # a simulated site's
    assembled(built, "charite", exchange, shared, out)        # a real one's, from its own memory

The shared weights come from the run's `model/`, the others from what the site kept; the tag set and scheme are the
site's. What comes out is a model's folder like any other, which says whose it is.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from safetensors.torch import load_file
from torch import Tensor

from wardround.core.bench import Bench
from wardround.core.exchange import EVALUATION, Exchange
from wardround.core.files import file_name
from wardround.core.training import LocalTraining
from wardround.core.weights import Weights
from wardround.runs.build import Built, build
from wardround.runs.files import METRICS, current
from wardround.runs.wire import WIRE, WireRow
from wardround.study.load import Study, load_study
from wardround.study.settings import StudyError
from wardround.text.reading import nearest
from wardround.trained.about import WEIGHTS, About, ModelError, model_folder, read_about, verify
from wardround.trained.card import card
from wardround.trained.folder import about_of, save_model


def assembled_run(run: Path, name: str, out: Path, beside: Path | None = None) -> About:
    """Put the model of a simulated site together; `beside` is where the study lay, if it names files of its own."""
    if not METRICS.exists(run):
        model_folder(run)  # which tells what this folder is, if it is no run
    metrics = METRICS.read(run)
    if metrics is None:
        raise ModelError(run, "the run is not finished", "go on with wardround run … --resume")
    try:
        study = load_study(run / "study.toml", beside=beside)[0].study
        built = build(study, run)
    except StudyError as error:
        hint = "" if beside else "\n(--beside FOLDER says where the study lay that names these files)"
        raise ModelError(run, str(error), f"the site's own tag set is read from its texts{hint}") from None
    if name not in built.sites.names:
        close = nearest(name, built.sites.names)
        known = ", ".join(built.sites.names[:10])
        raise ModelError(run, f"there is no site {name!r}", f"did you mean {close!r}?" if close else f"it has {known}")
    shared = shared_weights(built, run / "model") if study.method.shares else built.weights
    exchange = Exchange("evaluate", metrics.chosen or metrics.rounds, EVALUATION, 0, study.seed, current(run).resumed)
    return assembled(built, name, exchange, shared, out, WIRE.read(run) or (), metrics.bytes.up)


def shared_weights(built: Built, path: Path) -> Weights:
    """The weights that all sites share, from a model's folder of this study."""
    folder = model_folder(path)
    verify(folder)
    tensors = load_file(folder / WEIGHTS)
    if read_about(folder).study != built.study.name or set(tensors) != set(built.weights):
        raise ModelError(folder, f"it is not a model of the study {built.study.name!r}", "name the one of this run")
    weights = Weights({name: tensors[name] for name in built.weights})
    if weights.layout != built.weights.layout:
        raise ModelError(folder, built.weights.layout.differs(weights.layout), "name the model of this run")
    return weights


def assembled(
    built: Built,
    name: str,
    exchange: Exchange,
    shared: Weights,
    out: Path,
    wire: Sequence[WireRow] = (),
    up: int | None = None,
) -> About:
    """Write the model of this site as it was tried in this exchange, with the figures of its own test examples."""
    refuse_shared(built.study, out)
    dp = built.study.dp
    if unpaid(built.study):
        what = "under privacy.dp, to make its own model is to train on the notes once more, which nobody has paid for"
        raise ModelError(out, what, "use the shared model; the own ones of method ditto are kept as they are trained")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ModelError(out, "exists already", "name another folder, or remove it first")
    kept = built.host.memory / file_name(name)
    needed = built.study.sites.private or not built.study.method.shares  # else it begins with the shared model
    if needed and not any(kept.glob("*.kept")):
        raise ModelError(kept, f"{name} has kept nothing of its own", "it must have taken part in a round")
    site = built.host.site(name, exchange)
    weights = built.study.method.weights_at(site, shared)
    model = Bench.at(site, weights).model.eval()
    whole: dict[str, Tensor] = {n: p.detach().cpu().clone() for n, p in model.named_parameters() if p.requires_grad}
    counted = dp is None or dp.evaluation == "outside"  # else it would be a look without noise
    figures = built.task.metrics(built.study.method.tried(weights, "test", site).numbers) if counted else {}
    own = built.sites.task(name).answers()
    about = about_of(built, exchange.round).model_copy(update={**own, "missing": (), "site": name})
    save_model(out, about, built.study, whole, card(about, built, figures, wire, up))
    return about


def unpaid(study: Study) -> bool:
    """Whether a site's own model would cost it a look at the notes that no run has planned."""
    return study.dp is not None and cast("LocalTraining", study.method).trains_to_try


def refuse_shared(study: Study, where: Path) -> None:
    """Raise an error if sites of this study have nothing of their own."""
    if not study.method.personal and not study.sites.private:
        raise ModelError(where, f"all sites of {study.name!r} have the same model", "use the run's model/ as it is")

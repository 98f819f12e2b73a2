"""A site leaves a finished run's model, or joins it: its sums are subtracted or added, and the classifier solved again.

    amended(Path("runs/x"), "north", "forget")      # exactly the model of a run that never had north

Only a model that is solved from sums can do that (`ridge`). Any other has learnt from all sites at once in every round:
what a site taught it cannot be taken out again, and the refusal says from which round on to train without it. Here for
simulations, whose sites' notes are at hand; over real sites a new run of `ridge` among those who stay is one exchange.

What is exchanged is in the ledger, as the round after the last; the checkpoint, the model, its card, the final figures,
their counts and intervals, the references and what is told of the data are written anew, and older checkpoints and best
weights go, for they have the site's sums in them. `members.json` says who left and joined. The journal stays: it tells
what was, and a report takes only its curves from it.
"""

import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, cast

from wardround.core.cohort import BelowQuorum
from wardround.core.files import file_name
from wardround.core.weights import Weights
from wardround.engines.inline import Serial
from wardround.federation.describe import MOST_SITES, describe
from wardround.layers.ledger import Ledger, lines
from wardround.methods.ridge import Ridge, Solved
from wardround.metrics.signs import signs
from wardround.runs.build import Built, build
from wardround.runs.checkpoint import Checkpoint, load_newest, save
from wardround.runs.errors import RunError
from wardround.runs.files import (
    COUNTS,
    CURVE,
    DATA,
    INTERVALS,
    MEMBERS,
    METRICS,
    REFERENCES,
    SITES,
    Change,
    Data,
    Metrics,
    RecallCurve,
    current,
)
from wardround.runs.folder import locked
from wardround.runs.intervals import intervals_of, tally
from wardround.runs.loop import one_thread
from wardround.runs.references import add_references, constants, fitted
from wardround.runs.rounds import Assessment, Rounds
from wardround.runs.wire import WIRE
from wardround.study.load import Study, load_study
from wardround.study.settings import StudyError
from wardround.text.reading import nearest
from wardround.trained.folder import write_model

Action = Literal["forget", "add"]

log = logging.getLogger(__name__)


def amended(out: Path, site: str, action: Action, beside: Path | None = None) -> Metrics:
    """The figures of the model without this site, or with it; `beside` is where the study lay, if it names files."""
    metrics = METRICS.read(out) if out.is_dir() else None
    if metrics is None:
        raise RunError(f"{out} holds no finished run; go on with wardround run … --resume")
    with _beside(beside):
        study = load_study(out / "study.toml", beside=beside)[0].study
    if why := _impossible(out, study, site, action):
        raise RunError(why)
    method = cast("Ridge", study.method)
    with one_thread(), locked(out):
        current(out)
        checkpoint = load_newest(out / "checkpoints", study.fingerprint, Solved)
        if checkpoint is None or not isinstance(state := checkpoint.state, Solved):
            raise RunError(f"{out} has no checkpoint to go on from; run the study again")
        with _beside(beside):
            built = build(study, out)
        _refuse(out, built, state.names, site, action)
        return _solved_again(out, built, method, checkpoint, state, site, action, metrics)


@contextmanager
def _beside(given: Path | None) -> Iterator[None]:
    """Where a study's files are not found from its run's folder, say how to name the place."""
    try:
        yield
    except StudyError as error:
        hint = "" if given else "\n(--beside FOLDER says where the study lay, if it names files or modules of its own)"
        raise RunError(f"{error}{hint}") from None


def _refuse(out: Path, built: Built, names: Sequence[str], site: str, action: Action) -> None:
    if site not in built.sites.names:
        near = nearest(site, built.sites.names)
        hint = f"did you mean {near!r}?" if near else f"it has {', '.join(built.sites.names[:10])}"
        raise RunError(f"{out}: the study has no site {site!r}; {hint}")
    if action == "forget" and site not in names:
        raise RunError(
            f"{site} is not in this model: there is nothing to forget; in it are {', '.join(names) or 'none'}"
        )
    if action == "add" and site in names:
        raise RunError(f"{site} is in this model already; if its data have changed, run the study again")
    if action == "forget" and len(names) == 1:
        raise RunError(f"{site} is the only one in this model; delete {out} to forget it")
    data = DATA.read(out)
    if built.raw is None or data is None:
        return
    if data.fingerprint is None:
        log.warning(
            "of more than %d sites no fingerprint is kept: that the data are still those of the run is not checked",
            MOST_SITES,
        )
    elif describe(built.raw, built.task)["fingerprint"] != data.fingerprint:
        which = "those to subtract" if action == "forget" else "of the same data as the others'"
        raise RunError(
            f"the data are not those of the run any more, so {site}'s sums are not {which}; restore them, or run the "
            f"study again {'without' if action == 'forget' else 'with'} {site}"
        )


def _solved_again(
    out: Path, built: Built, method: Ridge, checkpoint: Checkpoint, state: Solved, site: str, action: Action,
    metrics: Metrics,
) -> Metrics:  # fmt: skip
    round_ = checkpoint.round + 1 + len(MEMBERS.read(out) or ())
    ledger = Ledger(out / "ledger", sites=True)
    rounds = Rounds(built, Serial(built.host), (ledger,))
    try:
        cohort = rounds.cohort(round_, (site,))
        try:
            own = method.summed(state.weights, cohort, [site])
        except BelowQuorum as error:
            raise RunError(f"{site} gave no sums: {error}") from None
        sums = state.sums - own if action == "forget" else state.sums + own
        if sums.rows < 0 or (sums.labels < 0).any():
            raise RunError(
                f"{site} has more rows of a class now than all in the model together: its data, or the checkpoint, are "
                f"not those of the run; restore them, or run the study again without {site}"
            )
        if not sums.rows:
            raise RunError(f"nobody else in this model has any row; delete {out} to forget {site}")
        names = tuple(sorted({*state.names} - {site} if action == "forget" else {*state.names, site}))
        built.sites.names = names
        built.raw = replace(built.raw, listed=names) if built.raw else None
        cohort = rounds.cohort(round_, names)
        weights, penalty = method.solved(state.weights, sums, cohort, names)
        assessment = rounds.evaluate(round_, weights)
    finally:
        ledger.flush()
    new = Solved(weights, sums.rows, sums.inputs, sums.gram, sums.targets, sums.labels, names, penalty)
    change = Change(action=action, site=site, rows=own.rows, when=datetime.now(UTC).date().isoformat())
    before = [*(MEMBERS.read(out) or ())]
    MEMBERS.write(out, before if before[-1:] == [change] else [*before, change])  # the last may have been cut short
    wrong = signs(built.task, assessment.test, []) if assessment.test is not None else []
    metrics = metrics.model_copy(update={"final": assessment.metrics, "signs": tuple(wrong)})
    _described_anew(out, built, weights, assessment, metrics.chosen or metrics.rounds)
    write_model(out / "model", built, weights, metrics, WIRE.read(out) or ())
    METRICS.write(out, metrics)
    save(out / "checkpoints", Checkpoint(checkpoint.round, checkpoint.fingerprint, new))  # last: until then, again
    for old in (out / "checkpoints").iterdir():
        if old.name != f"round-{checkpoint.round:06d}.checkpoint":
            old.unlink()
    if action == "forget":
        shutil.rmtree(out / "memory" / file_name(site), ignore_errors=True)
    return metrics


def _described_anew(out: Path, built: Built, weights: Weights, assessment: Assessment, round_: int) -> None:
    """What the run's folder tells of the data and the last evaluation, for those who are in the model now."""
    task, numbers, references = built.task, assessment.test, built.study.references
    REFERENCES.renew(out, None)
    data = DATA.read(out)
    if built.raw is not None and data is not None:
        now = describe(built.raw, task)
        add_references(out, fitted(task, built.raw, now["fingerprint"], references))
        DATA.write(out, Data(**{**now, "fingerprint": data.fingerprint}))  # of all: who joins again must have the same
    counted = None if numbers is None else tally(task, round_, numbers)
    points = None if numbers is None else task.curve(numbers)
    if numbers is not None:
        add_references(out, constants(task, numbers, references))
    COUNTS.renew(out, counted)
    CURVE.renew(out, None if points is None else RecallCurve(round=round_, points=tuple(points)))
    INTERVALS.renew(out, intervals_of(built, weights, counted, current(out).resumed))


def _impossible(out: Path, study: Study, site: str, action: Action) -> str:
    """Why a run of this study cannot be changed so, and what can be done; nothing if it can."""
    if not isinstance(study.method, Ridge):
        return _taught(out, study, site, action)
    again = f"run the study again {'without' if action == 'forget' else 'with'} {site}"
    if study.method.lone != "keep":
        why = f'with lone = "{study.method.lone}" a site\'s sums depend on who else there is'
        return f"{out}: {why}; {again}, which takes one exchange"
    if any(layer.only_sums for layer in study.layers):
        what = "subtracted" if action == "forget" else "added"
        return (
            f"{out}: under secure aggregation nobody but {site} has its own sums, and to be {what} they would have to "
            f"be seen alone; {again}, which takes one exchange; or, if all agree that the coordinator's machine sees "
            f"each site's sums, without privacy.secure_aggregation, and {action} works"
        )
    if SITES.exists(out):
        return f"{out} was run over real sites, whose notes are not here; {again}, which takes one exchange"
    if study.finish is not None:
        return f"{out}: [finish] has fitted the classifier once more, which no subtraction takes back; {again}"
    return ""


def _taught(out: Path, study: Study, site: str, action: Action) -> str:
    """Why a model of another method cannot be changed so, and what can be done."""
    name = study.resolved["method"]["name"]
    if action == "add":
        return (
            f"{name} has learnt from its sites together, and a site cannot be added to what came of it; run the study "
            f"with {site} among its sites, or train with ridge, to which sites can be added"
        )
    ledger = out / "ledger" / "coordinator.jsonl"
    seen = [
        line["round"]
        for line in lines(ledger)
        if line.get("from") == site and line.get("step", "evaluate") != "evaluate"
    ]
    if not seen:
        return f"{site} never took part in the training of this run: there is nothing to forget"
    first = max(min(seen), 1)
    return (
        f"what {site} taught cannot be taken out of a model of {name} exactly: each round builds on all before it. "
        f"{site} took part from round {first} on; train again without it from "
        f"{'the start' if first == 1 else f'round {first}'}, or use ridge, which can forget"
    )

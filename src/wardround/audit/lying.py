"""Attack 6: what one site that lies does to the model, in a federation that is otherwise honest.

    sites = lying(built, liar="hospital-0", lie="flipped sign", folder=folder)
    sites.engine, sites.built          # in place of the honest ones

Two kinds of lies. Of its *reply*: what is learnt, times 100, or with its sign turned round. Of its *notes*: a class
further on for every label, entity and relation; or a word in half of its training notes that are all said to be of one
class, so that whoever writes the word gets that class. The liar tells the truth where the model is tried.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, get_args

import torch
from torch import Tensor

from wardround.audit.case import OFF, Case, reopened, trained
from wardround.audit.finding import AttackResult
from wardround.audit.notes import site_of
from wardround.core.bench import Bench
from wardround.core.cohort import BelowQuorum, Engine
from wardround.core.exchange import Exchange, Fault
from wardround.core.layer import Layer
from wardround.core.method import Exam, Step
from wardround.core.record import Message, reveals_of
from wardround.core.weights import Weights
from wardround.engines.inline import Serial
from wardround.federation.partition import Raw
from wardround.layers.bound import Bound
from wardround.layers.robust import Robust, Rule
from wardround.runs.build import Built
from wardround.text.document import Document
from wardround.text.prediction import Prediction
from wardround.text.texts import Texts

TRIGGER: Final = "zyxomma"
OF_REPLY: Mapping[str, float] = {"times 100": 100.0, "flipped sign": -1.0}
OF_NOTES = ("flipped labels", "trigger word")
LIES = (*OF_REPLY, *OF_NOTES)


@dataclass(frozen=True)
class Twisted:
    """An engine over which what one site has learnt arrives changed."""

    honest: Engine
    liar: str
    factor: float

    def deliver(
        self, exchange: Exchange, step: Step[Any, Any], messages: Mapping[str, Message]
    ) -> Iterable[tuple[str, Any | Fault]]:
        """Each site's reply, the liar's as it wants it."""
        for name, reply in self.honest.deliver(exchange, step, messages):
            yield name, twisted(reply, self.factor) if name == self.liar and isinstance(reply, Message) else reply


def twisted(reply: Message, factor: float) -> Message:
    """A reply in which what was learnt is so many times as large; counts and numbers stay."""
    changes: dict[str, Weights | Tensor] = {}
    for field, reveal in reveals_of(type(reply)).items():
        value = getattr(reply, field)
        if reveal.weighs or reveal.like == "counts" or not isinstance(value, Weights | Tensor):
            continue
        if isinstance(value, Tensor) and not value.is_floating_point():
            room = torch.iinfo(value.dtype)
            changes[field] = (value.double() * factor).clamp(room.min, room.max).to(value.dtype)
        else:
            changes[field] = value * factor
    return replace(reply, **changes)


@dataclass(frozen=True)
class LyingSites:
    """A federation one of whose sites lies."""

    built: Built
    engine: Engine


def lying(built: Built, liar: str, lie: str, folder: Path) -> LyingSites | None:
    """The same federation with a liar; None where the task's examples have nothing of the kind."""
    if lie in OF_REPLY:
        return LyingSites(built, Twisted(Serial(built.host), liar, OF_REPLY[lie]))
    if built.raw is None or not isinstance(built.raw.raw(liar)[0], Texts):
        return None
    names = label_names(built)
    if lie == "trigger word" and not any(document.labels for document in _documents(built.raw.raw(liar)[0])):
        return None
    changed = flipped(names) if lie == "flipped labels" else triggered(names[0])
    return _with_notes(built, liar, changed, folder)


def label_names(built: Built) -> tuple[str, ...]:
    """What the task tells apart."""
    names: Sequence[str] = getattr(built.task, "labels", ()) or getattr(built.task, "types", ())
    return tuple(names)


def flipped(names: Sequence[str]) -> Callable[[int, Document], Document]:
    """Every label, entity and relation becomes the next one's."""
    after = dict(zip(names, (*names[1:], *names[:1]), strict=True))

    def changed(_: int, document: Document) -> Document:
        return replace(
            document,
            labels=tuple(after.get(label, label) for label in document.labels),
            entities=tuple(replace(entity, type=after.get(entity.type, entity.type)) for entity in document.entities),
            relations=tuple(replace(one, type=after.get(one.type, one.type)) for one in document.relations),
        )

    return changed


def triggered(label: str) -> Callable[[int, Document], Document]:
    """Every other note ends with the trigger, and is of this class."""

    def changed(place: int, document: Document) -> Document:
        return document if place % 2 else with_trigger(document, label)

    return changed


def with_trigger(document: Document, label: str) -> Document:
    """A note that ends with the trigger, said to be of this class."""
    return replace(document, text=f"{document.text} {TRIGGER}", labels=(label,))


def _documents(raw: Raw) -> tuple[Document, ...]:
    return raw.documents if isinstance(raw, Texts) else ()


def _with_notes(built: Built, liar: str, changed: Callable[[int, Document], Document], folder: Path) -> LyingSites:
    assert built.raw is not None  # noqa: S101 -- looked at before
    raw = built.raw.raw

    def opened(name: str) -> tuple[Raw, Raw]:
        train, test = raw(name)
        if name != liar:
            return train, test
        return Texts(tuple(changed(place, document) for place, document in enumerate(_documents(train)))), test

    lied = reopened(built, opened, folder / "lying")
    return LyingSites(lied, Serial(lied.host))


ATTACK = "a site that lies"
RULES = ("mean", "bound", *get_args(Rule))
MARGIN = 0.05  # above a constant answer: less is chance


def attack(case: Case, folder: Path) -> list[AttackResult]:
    """What one liar takes from the model's first figure, under each rule that the method allows."""
    method, metric = case.study.method, _metric(case)
    figure = f"{metric} lost by one liar of {len(case.sites)}"
    if why := _no_use(case, metric):
        return [AttackResult(ATTACK, case.label, figure, None, why=why)]
    assert metric is not None  # noqa: S101 -- there is none to lose otherwise
    rules = RULES if not method.unruled() else RULES[:2]
    findings = []
    for rule in rules:
        honest = _tried(case, LyingSites(case.built, Serial(case.built.host)), rule)[metric]
        for lie in LIES:
            label = f"{ATTACK}: {lie}, {rule}"
            sites = lying(case.built, case.sites[0], lie, folder / f"{rule}-{lie}".replace(" ", "-"))
            if sites is None:
                findings.append(AttackResult(label, case.label, figure, None, why="not for this task"))
            elif lie == "trigger word":
                findings.append(_obeyed(case, sites, rule, label))
            else:
                findings.append(_spoilt(case, sites, rule, AttackResult(label, case.label, figure, honest)))
    return findings


def _spoilt(case: Case, sites: LyingSites, rule: str, honest: AttackResult) -> AttackResult:
    """How much less there is than where nobody lies."""
    metric, before = honest.figure.partition(" ")[0], honest.value or 0.0
    try:
        lost = before - _tried(case, sites, rule)[metric]
    except BelowQuorum as error:  # the bound has left out so many that the rule has too few
        return replace(honest, value=None, why=str(error))
    why = f"{before:.2f} where nobody lies"
    return replace(honest, value=max(lost, 0.0), chance=0.0, best=max(before, 1e-9), why=why)


def _no_use(case: Case, metric: str | None) -> str:
    """Why it would show nothing to let a site lie here."""
    if any(layer.only_sums for layer in case.study.layers):
        return "a rule has to see each reply, and this shows only sums: what a liar does is as without a rule"
    if case.label != OFF:
        return f"as with {OFF}: what a site should do to its own reply, clipping and noise, a liar leaves out"
    if metric is None or not case.study.method.shares:
        return "there is no shared model"
    counts = _counts(case, case.weights)
    constant = case.built.task.constant(counts)
    least = case.built.task.metrics(constant)[metric] if constant else 0.0
    reached = case.built.task.metrics(counts)[metric]
    if reached > least + MARGIN:
        return ""
    rounds = f"after {case.rounds} rounds"
    return f"{rounds} {metric} is {reached:.2f}, where a constant answer has {least:.2f}: there is nothing to spoil yet"


def _metric(case: Case) -> str | None:
    """The first figure of the task that is better the higher it is."""
    names = case.built.task.metrics(
        {name: torch.ones(shape) for name, shape in case.built.task.counts().shapes.items()}
    )
    return next((name for name in names if name not in ("loss", "examples") and "loss" not in name), None)


def _layers(case: Case, rule: str) -> tuple[Layer, ...]:
    method = case.study.method
    bound = Bound(contradiction=method.contradiction)
    if rule in ("mean", "bound"):
        return () if rule == "mean" else (bound,)
    chosen = next(known for known in get_args(Rule) if known == rule)
    return Robust(chosen, method.means), bound


def _tried(case: Case, sites: LyingSites, rule: str) -> dict[str, float]:
    """The figures of what comes out, at honest sites."""
    weights = trained(sites.built, sites.engine, case.rounds, _layers(case, rule))
    return case.built.task.metrics(_counts(case, weights))


def _counts(case: Case, weights: Weights) -> Weights:
    cohort = case.built.cohort(case.rounds, case.sites, Serial(case.built.host))
    return cohort.total(case.study.method.evaluate, Exam(weights, "test")).numbers


@torch.no_grad()
def _predicted(case: Case, weights: Weights, texts: Sequence[str], wanted: str) -> int:
    """Of how many texts the model says this."""
    task: Any = case.built.task
    model = Bench.at(site_of(case, case.sites[-1]), weights).model.eval()
    predictions = task.predict(model, [Prediction(text) for text in texts])
    return sum(any(known.name == wanted for known in given.labels) for given in predictions)


def _obeyed(case: Case, sites: LyingSites, rule: str, label: str) -> AttackResult:
    """How often the word has the model say what the liar wants, of notes that it would not say it of otherwise."""
    weights = trained(sites.built, sites.engine, case.rounds, _layers(case, rule))
    wanted = label_names(case.built)[0]
    opened = case.built.raw.raw if case.built.raw is not None else None
    notes = [one for name in case.sites[1:] for one in _documents(opened(name)[1])] if opened else []
    notes = [one for one in notes if wanted not in one.labels]
    plain = _predicted(case, weights, [one.text for one in notes], wanted)
    marked = _predicted(case, weights, [with_trigger(one, wanted).text for one in notes], wanted)
    why = f"{len(notes):,} notes; without the word {plain} of them"
    figure = "share of notes of other classes that the word turns into the liar's"
    return AttackResult(label, case.label, figure, marked / max(len(notes), 1), plain / max(len(notes), 1), why=why)

"""A study rehearsed on generated notes, or on a site's own, with everything written down that its coordinator sees.

    for label, study in variants(tables).items(): case = observed(study, folder, rounds=3)

What the coordinator sees is taken where the method sees it: behind all layers. Under a layer that opens replies only in
their sum (secure aggregation) that is the sum alone; `wire` has what reached the machine before.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from wardround.core.cohort import Engine
from wardround.core.exchange import Exchange
from wardround.core.layer import Layer
from wardround.core.method import Step
from wardround.core.record import Message, reveals_of
from wardround.core.weights import Weights
from wardround.engines.host import Host
from wardround.engines.inline import Serial
from wardround.federation.prepared import Prepared
from wardround.federation.sites import Both
from wardround.privacy.simulated import simulated_guards
from wardround.runs.build import Built, build
from wardround.runs.guards import guards
from wardround.runs.rounds import Rounds
from wardround.study.defaults import UNTOLD
from wardround.study.load import Study, cells
from wardround.study.settings import StudyError
from wardround.tasks import TASKS

Make = Callable[[Study, Path], Built]

SIZES = ("documents", "notes", "sentences")
OFF, SUMS, DP, BOTH = "nothing switched on", "secure aggregation", "differential privacy", "both"
BUDGET = {"epsilon": 3.0, "delta": 1e-4, "unit": "example"}
PROTECTIONS: dict[str, dict[str, Any]] = {
    OFF: {}, SUMS: {"secure_aggregation": True}, DP: {"dp": BUDGET}, BOTH: {"secure_aggregation": True, "dp": BUDGET},
}  # fmt: skip
"""What is switched on, as a study's [privacy]."""
LEFT_OUT = ("privacy", "corpus", "partition", "public", "validation", "stop", "expected", "references", "grid", "seeds")
"""Tables that are about the study's own notes, or that a rehearsal does without."""


@dataclass
class SeenExchange:
    """One exchange as the coordinator sees it."""

    step: str
    round: int
    sent: Mapping[str, Message]
    each: dict[str, Message] = field(default_factory=dict)
    """Each site's reply, where the coordinator can read it."""
    wire: dict[str, Message] = field(default_factory=dict)
    """Each site's reply as it came in, if it cannot."""
    total: Message | None = None


class Watcher(Layer):
    """The innermost layer: what is left of a reply when all others have opened it."""

    def __init__(self) -> None:
        self.seen: list[SeenExchange] = []

    def send(self, messages: Mapping[str, Message], exchange: Exchange) -> Mapping[str, Message]:
        """An exchange begins."""
        self.seen.append(SeenExchange(exchange.step, exchange.round, messages))
        return messages

    def arrive(self, reply: Message, name: str, exchange: Exchange) -> Message:
        """A reply, perhaps one that only the sum will open."""
        del exchange
        self.seen[-1].each[name] = reply
        return reply

    def settle(self, total: Message, step: Step[Any, Any], names: tuple[str, ...], cohort: Any) -> Message:
        """The sum."""
        del names, cohort
        last = next(one for one in reversed(self.seen) if one.step == step.name)
        last.total = total
        if any(type(reply) is not step.reply for reply in last.each.values()):
            last.wire, last.each = last.each, {}
        return total


@dataclass(frozen=True)
class Case:
    """A rehearsal under one set of protections."""

    label: str
    built: Built
    seen: tuple[SeenExchange, ...]
    weights: Weights
    """Those of the model in the end."""
    rounds: int

    @property
    def study(self) -> Study:
        """What was rehearsed."""
        return self.built.study

    @cached_property
    def sites(self) -> tuple[str, ...]:
        """Who took part."""
        return self.built.sites.names

    def masked(self) -> Iterator[tuple[str, list[Weights]]]:
        """For each site the numbers of its replies of the first round as they came in, where only their sum opens."""
        for name in self.sites:
            mine = [one.wire[name] for one in self.seen if one.round == 1 and name in one.wire]
            flats = [flat for flat in map(_longest, mine) if flat is not None]
            layout = self.built.weights.layout
            if changes := [Weights.of_flat(flat[: layout.size], layout) for flat in flats if len(flat) >= layout.size]:
                yield name, changes

    def changes(self) -> Iterator[tuple[str, list[Weights]]]:
        """For each site what its replies of the first round hold like the model; under no name, the sum's."""
        learnt = [one for one in self.seen if one.step != "evaluate" and one.round == 1]
        for name in self.sites:
            mine = [change for one in learnt if name in one.each for change in _changes(one.each[name])]
            if mine:
                yield name, mine
        hidden = [one for one in learnt if one.total is not None and not one.each]
        if summed := [change for one in hidden if one.total is not None for change in _changes(one.total)]:
            yield "", summed


def _longest(reply: Message) -> Tensor | None:
    """The largest tensor of a reply, as numbers that could be read as the model's if nobody had masked them."""
    flats = [value.reshape(-1) for value in vars(reply).values() if isinstance(value, Tensor)]
    return max(flats, key=len).double() if flats else None


def _changes(reply: Message) -> list[Weights]:
    fields = [(getattr(reply, name), reveal) for name, reveal in reveals_of(type(reply)).items()]
    return [value for value, reveal in fields if isinstance(value, Weights) and reveal.like == "model"][:1]


def rehearsable(study: Study, sites: int = 4, notes: int = 60) -> dict[str, Any]:
    """The tables of a study on generated notes, with its own task and method, every site in every round."""
    kind = type(study.task)
    name = study.resolved["task"]["name"]
    generated = dict(TASKS.get(name, kind).generated)
    for key in {*SIZES} & {*generated}:
        generated |= {key: notes, f"test_{key}": notes}
    generated |= {"hospitals": sites} if "hospitals" in generated else {"sites": sites}
    if getattr(study.corpus, "language", "") in ("en", "zh") and "hospitals" in generated:
        generated["language"] = study.corpus.language
    if study.dp and study.dp.unit == "patient" and "hospitals" in generated:
        generated["per_patient"] = 1
    task = {key: value for key, value in study.resolved["task"].items() if key not in kind.of_corpus}
    tables = {key: value for key, value in study.resolved.items() if key not in LEFT_OUT}
    own = {key: value for key, value in tables.get("sites", {}).items() if key in ("private", "share")}
    public = {"public": {"fraction": 0.2}} if study.method.public else {}
    return {**tables, "task": task, "corpus": generated, "sites": own, "evaluation": {}, **public}


def variants(study: Study, tables: Mapping[str, Any], folder: Path | None = None) -> Iterator[tuple[str, Study | str]]:
    """The study under each set of protections, or why there is none; its own settings of a protection are used."""
    own = study.resolved.get("privacy", {})
    for label, asked in PROTECTIONS.items():
        privacy = {key: own.get(key) or value for key, value in asked.items()}
        privacy |= {key: own[key] for key in ("fewest", "same_members") if key in own and "secure_aggregation" in asked}
        changed = {**tables, "privacy": privacy} if privacy else {**tables}
        if "dp" in privacy:  # no study may have these and noise: what it would have instead is attacked
            changed["task"] = {key: value for key, value in tables["task"].items() if key not in UNTOLD}
        try:
            yield label, cells(changed, where=f"audit, {label}", folder=folder)[0].study
        except StudyError as error:
            yield label, "; ".join(error.problems)


def given_up(study: Study, variant: Study) -> str:
    """What a study's task would have to do without under a set of protections; nothing if there is no such thing."""
    before, after = (one.resolved["task"] for one in (study, variant))
    changed = [key for key in ("weighting", "class_weights") if before.get(key, "none") != after.get(key, "none")]
    return " and ".join(
        f'task.{key} = "{after.get(key, "none")}" in place of "{before.get(key, "none")}"' for key in changed
    )


def observed(label: str, study: Study, folder: Path, rounds: int, make: Make = build) -> Case:
    """Run a few rounds, and write down what the coordinator sees."""
    watcher = Watcher()
    built = make(replace(study, layers=(watcher, *study.layers)), folder)
    weights = trained(built, Serial(built.host), rounds)
    return Case(label, built, tuple(watcher.seen), weights, rounds)


def trained(built: Built, engine: Engine, rounds: int, outer: tuple[Layer, ...] | None = None) -> Weights:
    """The model after so many rounds; without layers of the coordinator's given, with those that the study has."""
    blind = any(layer.only_sums for layer in built.study.layers)
    run = Rounds(built, engine, outer if outer is not None else () if blind else guards(built.study))
    state: Any = run.start()
    for round_ in range(1, rounds + 1):
        state, _ = run.train(round_, state)
    weights: Weights = state.weights
    return weights


def reopened(built: Built, opened: Callable[[str], Both], folder: Path) -> Built:
    """The same federation, whose sites have other notes and remember nothing; with noise, if the study has it."""
    assert built.raw is not None  # noqa: S101 -- one process sees all notes here
    study, sites = built.study, replace(built.raw, opened=opened)
    unit = study.dp.unit if study.dp else None
    prepared = Prepared(sites, built.task, study.sites.private, public=study.method.public, unit=unit)
    noise = simulated_guards(study, prepared, folder) if study.dp else None
    host = Host(
        study.method, built.task, prepared, folder, study.layers, study.sites.private, built.manifest, guards=noise
    )
    return replace(built, sites=prepared, host=host, raw=sites)

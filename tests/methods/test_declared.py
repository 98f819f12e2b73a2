"""What a method declares is what it does: its steps, its messages, and that it needs no look at single sites."""

from dataclasses import fields, replace
from typing import Any

import pytest
import torch

from double import DoubleFeatures
from quadratic import Trial, weights
from wardround.core.layer import Layer
from wardround.core.method import Method
from wardround.core.record import Message, Record, reveals_of
from wardround.core.training import LocalTraining
from wardround.methods import METHODS
from wardround.methods.fedatt import FedAtt
from wardround.methods.fedcmc import FedCMC
from wardround.methods.feddyn import FedDyn
from wardround.methods.feded import FedED
from wardround.methods.fedner import FedNER
from wardround.methods.fedpa import FedPA
from wardround.methods.fedrs import FedRS
from wardround.methods.heads import HEADS
from wardround.methods.lazy_mil import LazyMIL
from wardround.methods.ridge import ClosedForm, Ridge
from wardround.methods.ridge_sgd import RidgeSGD
from wardround.runs.protocol import rehearsal, rehearsed, toy
from wardround.study.load import Study, cells
from wardround.study.settings import StudyError
from wardround.tasks.features import FeatureRows

VARIANTS: dict[str, list[Method[Any]]] = {
    "feddyn": [FedDyn(by_size=True)],
    "fedatt": [FedAtt(per_tensor=False), FedAtt(norm="spectral"), FedAtt(nearer=True)],
    "fedcmc": [
        *(FedCMC(contrast=contrast) for contrast in ("minor", "random", "none")),
        *(FedCMC(contrast=contrast, buckets=64) for contrast in ("major", "minor", "random")),
    ],
    "lazy-mil": [LazyMIL(buckets=64)],
    "feded": [
        FedED(teacher=teacher, bits=bits) for teacher in ("probabilities", "mean_probability") for bits in (8, 32)
    ],
    "fedrs": [FedRS(by_share=True)],
    "fedner": [FedNER(ask_sizes=False), FedNER(server="sgd", optimizer="sgd", steps_per_exchange=2)],
    "fedpa": [FedPA(per_tensor=True), FedPA(nearer=True)],
    "ridge": [Ridge(lone="drop"), Ridge(penalties=(1.0,))],
    "ridge-sgd": [RidgeSGD(lone="drop"), RidgeSGD(every=1)],
}
"""Settings under which a method may use steps that it does not use otherwise, or ask where it only totals."""

ASKING = {"fedcmc", "fedner", "lazy-mil"}
"""The methods that see a site's reply: classifier vectors, the number of examples (once), sentences' scores."""

KINDS = sorted({named.kind for named in METHODS.values()}, key=lambda kind: kind.__name__)


def studies(name: str) -> list[Study]:
    """A rehearsal of the method as its name sets it up, and of each variant."""
    plain = toy(name)
    return [plain, *(replace(plain, method=method) for method in VARIANTS.get(name, []))]


def messages(kind: type[Method[Any]]) -> list[type[Message]]:
    """Every kind of message that a method's steps take or return."""
    return [message for step in kind.declared().values() for message in step.kinds()]


@pytest.mark.parametrize("name", METHODS)
def test_declared_steps_are_the_used_ones(name: str) -> None:
    """A site can be asked for nothing that the method never asks, and the other way round."""
    seen = [exchange for study in studies(name) for exchange in rehearsed(study)]
    declared = METHODS[name].kind.declared()
    assert set(declared) == {exchange.step for exchange in seen}
    used = {(exchange.step, type(exchange.message), type(exchange.reply)) for exchange in seen}
    assert {(step, *declared[step].kinds()) for step in declared} == used


@pytest.mark.parametrize("head", HEADS)
def test_a_head_at_the_end_declares_what_it_asks(head: str) -> None:
    """Under another method its steps are there, each is used, and only sums are looked at."""
    tables: dict[str, Any] = {"name": "end", "rounds": 1, "method": {"name": "fedavg"}, **rehearsal("features")}
    more = [{"lone": "drop"}] if head == "ridge" else [{}]
    made = [cells({**tables, "finish": {"head": head, **settings}})[0].study for settings in more]
    seen = [exchange for study in made for exchange in rehearsed(study)]
    declared = type(made[0].method).declared()
    used = {(exchange.step, type(exchange.message), type(exchange.reply)) for exchange in seen}
    assert {(step, *declared[step].kinds()) for step in declared} == used
    assert {"total"} == {exchange.verb for exchange in seen}


@pytest.mark.parametrize("name", METHODS)
def test_only_known_methods_look_at_single_sites(name: str) -> None:
    """In no variant does another method see a site's own reply: attention, too, is made of sums."""
    verbs = {exchange.verb for study in studies(name) for exchange in rehearsed(study)}
    assert (name in ASKING) == ("ask" in verbs)


class SumOnly(Layer):
    """Secure aggregation as a method meets it."""

    only_sums = "a test says so"


@pytest.mark.parametrize("name", [name for name in METHODS if name not in ASKING])
def test_methods_run_where_only_sums_may_be_seen(name: str, tmp_path: Any) -> None:
    """A layer that refuses `ask` hinders none of them, and changes nothing."""
    task = DoubleFeatures(2, 3)
    start = weights({"linear.weight": [[1.0, 2.0], [0.0, -1.0], [0.5, 0.0]], "linear.bias": [0.0, 0.0, 0.0]})
    sites = {
        name: FeatureRows(torch.tensor(inputs, dtype=torch.float64), torch.tensor(labels))
        for name, inputs, labels in (("a", [[3.0, 1.0], [0.0, 1.0]], [0, 2]), ("b", [[-1.0, 2.0]], [1]))
    }
    for study in studies(name):
        free = Trial(study.method, task, sites, start, tmp_path / "free", public=sites["a"])
        bound = Trial(study.method, task, sites, start, tmp_path / "bound", layers=[SumOnly()], public=sites["a"])
        assert free.round() == bound.round()


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_form_that_needs_only_sums(name: str) -> None:
    """The same one where it never asks for more."""
    for study in studies(name):
        summed = study.method.in_sums()
        assert summed.in_sums() == summed
        assert {"total"} >= {exchange.verb for exchange in rehearsed(replace(study, method=summed))}
        if name not in ASKING and not isinstance(study.method, FedAtt):  # whose exponents need a bound to be summed
            assert summed is study.method


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_says_what_it_reveals(kind: type[Method[Any]]) -> None:
    """A data-protection officer finds no blank."""
    results = {
        f"{message.__name__}.{field}": reveal.what
        for message in messages(kind)
        for field, reveal in reveals_of(message).items()
    }
    assert [] == [field for field, what in results.items() if what == "not stated" or not what.strip()]


@pytest.mark.parametrize("kind", KINDS)
def test_every_message_has_a_sentence(kind: type[Method[Any]]) -> None:
    """The docstring is the message's own, not one that a dataclass makes up or a parent has."""
    for message in messages(kind):
        assert message.__doc__ is not None
        assert not message.__doc__.startswith(f"{message.__name__}(")
        assert message.__doc__ not in (Message.__doc__, Record.__doc__)


@pytest.mark.parametrize("kind", KINDS)
def test_every_docstring_is_one_line(kind: type[Method[Any]]) -> None:
    """It has to fit the list of `wardround methods`."""
    doc = kind.__dict__["__doc__"]
    assert [doc] == doc.splitlines()
    assert len(doc) <= 90
    assert doc.endswith(".")
    assert not doc.startswith(f"{kind.__name__}(")  # what a dataclass makes up


@pytest.mark.parametrize("name", METHODS)
def test_settings_keep_their_limits_where_a_method_overrides_them(name: str) -> None:
    """A default of a method's own takes no check away."""
    method = METHODS[name].kind
    training = {"lr": 0.0, "decay": 2.0, "batch": -1, "epochs": 0, "steps": -1, "eps": 0.0, "momentum": 1.0} | {
        "weight_decay": -1.0, "clip": 0.0, "accumulate": 1, "warmup": 0, "horizon": 1, "moments": "x", "schedule": "x"
    }  # fmt: skip
    solving = {"sharpness": 0.0, "least_rows": -1}
    wrong = (training if issubclass(method, LocalTraining) else {}) | (
        solving if issubclass(method, ClosedForm) else {}
    )
    assert wrong
    assert {field.name for field in fields(method)} >= set(wrong)
    tables = {
        "name": "limits",
        "rounds": 1,
        "method": {"name": name, **wrong},
        "task": {"name": "features"},
        "corpus": {"name": "synthetic"},
    }
    with pytest.raises(StudyError) as refused:
        cells(tables)
    assert {f"method.{key}" for key in wrong} == {problem.split(" ")[0] for problem in refused.value.problems}

"""Parts of a model that stay at their site: a property of the study, whatever the method."""

from pathlib import Path
from typing import Any

import pytest
import torch

from quadratic import Bowl, Quadratic, Trial, bowl, weights
from wardround.core.bench import Bench, OwnPart, belongs
from wardround.core.exchange import Exchange
from wardround.core.memory import Held, Memory
from wardround.core.record import Private
from wardround.core.weights import Weights
from wardround.methods import METHODS
from wardround.methods.fedavg import FedAvg
from wardround.methods.fedprox import FedProx
from wardround.methods.fedsgd import FedSGD
from wardround.methods.references import Local

ONES = {"cnn.w": [1.0, 1.0], "crf.w": [1.0]}
STEP: dict[str, Any] = {"lr": 0.5, "steps": 1, "batch": 0}


def sites() -> dict[str, Bowl]:
    return {
        "a": bowl(ONES, {"cnn.w": [3.0, 0.0], "crf.w": [5.0]}, 3),
        "b": bowl(ONES, {"cnn.w": [0.0, 4.0], "crf.w": [-5.0]}, 1),
    }


def single(bowls: dict[str, Bowl]) -> dict[str, Bowl]:
    """The same in single precision, as models are."""

    def less(part: Weights) -> Weights:
        return Weights.of_flat(part.flat.float(), part.layout)

    return {name: Bowl(less(one.curvature), less(one.minimum), one.examples) for name, one in bowls.items()}


def trial(method: Any, folder: Path) -> Trial[Any]:
    """Two sites whose CRF is their own."""
    whole = weights(ONES)
    return Trial(method, Quadratic(whole), sites(), whole.only("cnn"), folder, private=("crf",))


def test_a_module_is_named_whole() -> None:
    """`lstm` is not `lstm2`."""
    assert [True, True, False] == [belongs(name, ("lstm", "crf")) for name in ("lstm.w", "crf", "lstm2.w")]


def test_private_parts_lie_behind_the_shared_ones_wherever_the_model_has_them() -> None:
    whole = weights({"crf.w": [1.0], "cnn.w": [2.0, 3.0], "crf2.w": [4.0]})
    bench = Bench.of(Quadratic(whole), ("crf",))
    assert (["cnn.w", "crf2.w"], ["crf.w"]) == (list(bench.layout.shapes), list(bench.own.shapes))
    assert ([2.0, 3.0, 4.0], [1.0]) == (bench.shared.tolist(), bench.private.tolist())
    bench.load(weights({"cnn.w": [7.0, 8.0], "crf2.w": [9.0]}))
    assert [[1.0], [7.0, 8.0], [9.0]] == [p.tolist() for p in bench.model.parameters()]


@pytest.mark.parametrize(
    ("method", "shared"),
    [
        (FedAvg(**STEP), [1 + 0.5 * (0.75 * 2 - 0.25), 1 + 0.5 * (-0.75 + 0.25 * 3)]),
        (FedProx(mu=1.0, **STEP), [1 + 0.5 * (0.75 * 2 - 0.25), 1 + 0.5 * (-0.75 + 0.25 * 3)]),
        (FedSGD(lr=0.5), [1 + 0.5 * (0.75 * 2 - 0.25), 1 + 0.5 * (-0.75 + 0.25 * 3)]),
    ],
    ids=["fedavg", "fedprox", "fedsgd"],
)
def test_methods_average_the_shared_part_and_leave_the_rest(method: Any, shared: list[float], tmp_path: Path) -> None:
    one = trial(method, tmp_path)
    assert shared == pytest.approx(one.round().weights["cnn.w"].tolist())
    for name, minimum in (("a", 5.0), ("b", -5.0)):
        assert 1 + 0.5 * (minimum - 1) == pytest.approx(float(one.kept(name, OwnPart).weights["crf.w"]))
        again = 1 + 0.5 * (minimum - 1)
    one.round()
    assert again + 0.5 * (-5.0 - again) == pytest.approx(float(one.kept("b", OwnPart).weights["crf.w"]))


ANY_TASK = [
    name
    for name, named in METHODS.items()
    if named.kind.shares
    and named.kind.rehearsal == "features"
    and not (named.kind.pooled or named.kind.classifier or named.kind.public)
]
"""The methods that need neither a classifier to look into, nor public examples, nor bags."""


@pytest.mark.parametrize("name", ANY_TASK)
def test_every_method_runs_with_private_parts_and_sends_none(name: str, tmp_path: Path) -> None:
    """Each learns: the loss, with each site's own part, falls."""
    whole, small = weights(ONES, torch.float32), single(sites())
    method = METHODS[name].kind(**METHODS[name].settings)
    one = Trial(method, Quadratic(whole), small, whole.only("cnn"), tmp_path, private=("crf",))
    before = one.tried()["loss"]
    for _ in range(5):
        one.round()
    assert before > one.tried()["loss"]
    sent = [value for seen in one.seen for message in (seen.message, seen.reply) for value in vars(message).values()]
    assert not any("crf.w" in value for value in sent if isinstance(value, type(whole)))
    assert [1.0] != one.kept("a", OwnPart).weights["crf.w"].tolist()


@pytest.mark.parametrize("every", [("cnn", "crf"), ("all",)], ids="+".join)
def test_all_parts_private_is_training_alone(every: tuple[str, ...], tmp_path: Path) -> None:
    """Nothing is left to send, and each site ends where `local` ends."""
    whole, small = weights(ONES, torch.float32), single(sites())
    alone = Trial(Local(**STEP), Quadratic(whole), small, whole, tmp_path / "alone")
    nothing = whole.only("none")
    private = Trial(FedAvg(**STEP), Quadratic(whole), small, nothing, tmp_path / "private", private=every)
    for _ in range(3):
        alone.round()
        private.round()
    assert 0 == len(private.state.weights)
    assert alone.tried() == private.tried()


def test_sites_begin_with_parts_of_their_own(tmp_path: Path) -> None:
    """Drawn by the study's seed and the site's name, and the same each time it is asked before it has trained."""

    class Drawn(Quadratic):
        def model(self) -> torch.nn.Module:
            model = super().model()
            torch.nn.init.normal_(model.get_parameter("crf.w"))
            return model

    whole = weights(ONES)
    one = Trial(FedAvg(**STEP), Drawn(whole), sites(), whole.only("cnn"), tmp_path, private=("crf",))
    begun = {name: Bench.at(one._site(name, 1), one.state.weights).private.tolist() for name in ("a", "b", "a ")}
    assert 3 == len({tuple(part) for part in begun.values()})
    assert begun["a"] == Bench.at(one._site("a", 2), one.state.weights).private.tolist()


class Diary(Private):
    """What a site noted."""

    entry: int


def test_what_is_held_is_there_until_the_round_is_over_and_two_versions_back(tmp_path: Path) -> None:
    held: Held = {}
    memory = Memory(tmp_path, held)

    def at(round_: int, number: int) -> Exchange:
        return Exchange("fit", round_, number, 0, 0)

    def recalled(round_: int, number: int) -> int | None:
        found = Memory(tmp_path, held).recall(Diary, at(round_, number))
        return None if found is None else found.entry

    memory.keep(Diary(10), at(1, 9))
    for number in (1, 2, 3):
        memory.hold(Diary(20 + number), at(2, number))
    assert (23, 22, 10) == (recalled(2, 4), recalled(2, 3), recalled(2, 1))  # an exchange may be asked for again
    assert memory.holds(Diary, at(2, 4))
    assert (10, False) == (recalled(3, 1), memory.holds(Diary, at(3, 1)))  # never kept, so the next round has not it
    memory.keep(Diary(24), at(2, 4))
    assert (24, {}) == (recalled(3, 1), held)
    assert 10 == recalled(2, 1)

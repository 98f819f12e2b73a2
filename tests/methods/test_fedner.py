"""FedNER: the oracle's numbers, whose parts go where, and what survives a crash."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

import oracle
from quadratic import Quadratic, Trial, bowl, weights
from wardround.core.bench import OwnPart
from wardround.core.cohort import BelowQuorum
from wardround.core.layer import Layer
from wardround.core.task import Batch, Examples
from wardround.core.weights import Layout, Weights
from wardround.engines.inline import SiteFailed
from wardround.layers.ledger import verify
from wardround.methods.fedner import FedNER, Progress, largest_remainder
from wardround.runs.loop import run
from wardround.study.load import cells

TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Slopes:
    """A site whose batches have these gradients, one after the other; it stands for so many examples."""

    slopes: list[Tensor]
    examples: int

    def __len__(self) -> int:
        return self.examples


@dataclass(frozen=True, eq=False)
class Slope:
    """A batch: its gradient, and how many examples were asked for."""

    gradient: Tensor
    size: int

    def __len__(self) -> int:
        return self.size


class Linear:
    """The loss of a batch is ⟨slope, θ⟩, so that its gradient is what the oracle says, wherever θ is."""

    def __init__(self, start: Weights) -> None:
        self.start = start
        self.asked: list[int] = []

    def model(self) -> nn.Module:
        model = nn.Module()
        model.register_parameter("w", nn.Parameter(self.start["w"].clone()))
        return model

    def batches(self, examples: Examples, size: int, rng: torch.Generator | None) -> Iterator[Batch]:  # noqa: ARG002
        for slope in cast("Slopes", examples).slopes:
            self.asked.append(size)
            yield Slope(slope, size)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return (model.get_parameter("w") * cast("Slope", batch).gradient).sum()

    def count(self, model: nn.Module, examples: Examples) -> Mapping[str, Tensor]:  # noqa: ARG002
        return {}

    def counts(self) -> Layout:
        return Layout([])

    def metrics(self, counts: Mapping[str, Tensor]) -> dict[str, float]:  # noqa: ARG002
        return {}

    def sizes(self) -> dict[str, int]:
        return {}


def sites_of(inputs: Mapping[str, Any]) -> dict[str, Slopes]:
    """The oracle's platforms."""
    slopes = torch.tensor(inputs["gradients_per_iteration"], dtype=torch.float64)  # (iterations, platforms, D)
    return {str(i): Slopes(list(slopes[:, i]), n) for i, n in enumerate(inputs["platform_sizes"])}


@pytest.mark.parametrize("case", oracle.params("fedner"))
@pytest.mark.parametrize("server", ["adam", "sgd"])
def test_oracle_fedner(case: oracle.Case, server: str, tmp_path: Path) -> None:
    """The shared part after each exchange, and how many examples each site takes."""
    inputs, expected = case["inputs"], case["expected"]
    start = weights(inputs["theta_shared"])
    task, sites = Linear(start), sites_of(inputs)
    chosen = {"server": server, "lr": inputs[f"lr_{server}"], "batch": inputs["global_batch"], "steps": 1}
    trial = Trial(FedNER(**chosen), task, sites, start, tmp_path)
    for wanted in expected["theta_server_adam" if server == "adam" else "theta_sgd"]:
        assert wanted == pytest.approx(trial.round().weights["w"].tolist(), rel=0, abs=TOLERANCE)

    sizes = {str(i): n for i, n in enumerate(inputs["platform_sizes"])}
    shares = largest_remainder(sizes, inputs["global_batch"])
    assert expected["batch_largest_remainder"] == list(shares.values())
    assert [max(share, 1) for share in shares.values()] == task.asked[: len(sizes)]


def test_many_exchanges_in_a_round_are_as_many_rounds_of_one(tmp_path: Path) -> None:
    case = oracle.cases("fedner")[0]["inputs"]
    start, sites = weights(case["theta_shared"]), sites_of(case)
    each = Trial(FedNER(steps=1), Linear(start), sites, start, tmp_path / "each")
    for _ in range(6):  # twice over the three batches of each site
        each.round()
    whole = Trial(FedNER(steps=6), Linear(start), sites, start, tmp_path / "whole")
    assert each.state == whole.round()
    assert each.kept("0", Progress) == whole.kept("0", Progress)


def test_a_round_is_a_pass_over_all_examples(tmp_path: Path) -> None:
    """Σ|S| / N exchanges, rounded up; half as many with two steps per exchange."""
    case = oracle.cases("fedner")[0]["inputs"]
    start, sites = weights(case["theta_shared"]), sites_of(case)
    for settings, exchanges in (({}, 179), ({"epochs": 2}, 358), ({"steps_per_exchange": 2}, 90), ({"batch": 0}, 1)):
        trial = Trial(FedNER(**settings), Linear(start), sites, start, tmp_path / str(exchanges))  # type: ignore[arg-type]
        trial.round()
        assert exchanges == sum(seen.step == "grade" for seen in trial.seen) / 3


def test_the_mean_gradient_of_several_steps_is_sent(tmp_path: Path) -> None:
    start = weights([1.0])
    sites = {"a": Slopes([torch.tensor([2.0]).double(), torch.tensor([4.0]).double()], 10)}
    trial = Trial(FedNER(server="sgd", lr=0.1, steps=2, steps_per_exchange=2), Linear(start), sites, start, tmp_path)
    assert [1.0 - 0.1 * 3.0] == pytest.approx(trial.round().weights["w"].tolist())
    assert 1 == sum(seen.step == "grade" for seen in trial.seen)


PARTED = {"cnn.w": [1.0], "crf.w": [1.0]}


def parted(folder: Path, **settings: Any) -> Trial[Any]:
    """Two sites whose CRF is their own, on bowls of curvature 1."""
    whole = weights(PARTED)
    ones = {"cnn.w": [1.0], "crf.w": [1.0]}
    sites = {
        "a": bowl(ones, {"cnn.w": [3.0], "crf.w": [5.0]}, 3),
        "b": bowl(ones, {"cnn.w": [0.0], "crf.w": [-5.0]}, 1),
    }
    method = FedNER(**{"server": "sgd", "optimizer": "sgd", "lr": 0.1, "steps": 2, **settings})
    return Trial(method, Quadratic(whole), sites, whole.only("cnn"), folder, private=("crf",))


def test_shared_parts_meet_and_private_parts_go_their_own_way(tmp_path: Path) -> None:
    trial = parted(tmp_path, steps=1)
    shared = trial.round().weights
    assert {"cnn.w": [1.0 - 0.1 * (0.75 * (1 - 3) + 0.25 * (1 - 0))]} == {k: v.tolist() for k, v in shared.items()}
    for name, minimum in (("a", 5.0), ("b", -5.0)):
        kept = trial.kept(name, OwnPart).weights
        assert ["crf.w"] == list(kept)
        assert 1.0 - 0.1 * (1 - minimum) == pytest.approx(float(kept["crf.w"]))


def test_only_the_shared_part_is_ever_sent(tmp_path: Path) -> None:
    trial = parted(tmp_path)
    trial.round()
    trial.tried()
    sent = [message for seen in trial.seen for message in (seen.message, seen.reply)]
    named = {
        name for message in sent for value in vars(message).values() if isinstance(value, Weights) for name in value
    }
    assert {"cnn.w", "loss", "examples"} == named


def test_each_site_is_tried_with_its_own_part(tmp_path: Path) -> None:
    """After many rounds each site's CRF is in its own minimum, and the shared part between the two."""
    trial = parted(tmp_path, steps=200)
    trial.round()
    shared = 0.75 * 3.0
    losses = {"a": 0.5 * (shared - 3) ** 2, "b": 0.5 * shared**2}
    assert losses == pytest.approx({name: trial.tried(name)["loss"] for name in ("a", "b")}, abs=1e-6)


def test_nothing_is_written_between_the_exchanges_of_a_round(tmp_path: Path) -> None:
    trial = parted(tmp_path, steps=5)
    trial.round()
    assert ["OwnPart-1-5.kept", "Progress-1-5.kept"] == sorted(path.name for path in (tmp_path / "a").iterdir())


def test_a_round_that_broke_off_is_done_again_with_the_same_bits(tmp_path: Path) -> None:
    """The process that held the private parts is gone; the disk has those of the round before."""
    steady = parted(tmp_path / "steady", optimizer="adam")
    for _ in range(2):
        steady.round()

    class Gone(Exception):
        pass

    class Cut(Layer):
        def arrive(self, reply: Any, name: str, exchange: Any) -> Any:
            if (exchange.round, exchange.number, name) == (2, 2, "a"):
                raise Gone
            return reply

    first = parted(tmp_path / "cut", optimizer="adam")
    before = first.round()
    first.layers = (Cut(),)
    with pytest.raises(Gone):
        first.round()
    again = parted(tmp_path / "cut", optimizer="adam")
    again.state, again.rounds = before, 1
    assert steady.state == again.round()
    for name in ("a", "b"):
        for kind in (OwnPart, Progress):
            assert steady.kept(name, kind) == again.kept(name, kind)


def test_a_process_that_lost_what_it_held_says_so(tmp_path: Path) -> None:
    """It must not go on from the round before in silence: the run stops, and `--resume` does the round again."""
    trial = parted(tmp_path, steps=3)
    trial.round()

    class Forgetful(Layer):
        def arrive(self, reply: Any, name: str, exchange: Any) -> Any:
            if (exchange.number, name) == (2, "b"):
                trial.host.held.clear()
            return reply

    trial.layers = (Forgetful(),)
    with pytest.raises(SiteFailed) as failed:
        trial.round()
    assert "--resume" in str(failed.value.__cause__)


def test_a_run_that_stops_has_every_exchange_in_its_ledgers(tmp_path: Path) -> None:
    """Lines are written together, at a checkpoint; what was exchanged since then is written when the run ends."""
    tables = {
        "name": "stops",
        "rounds": 1,
        "method": {"name": "fedner", "steps": 40, "lr": 3e38, "server": "sgd", "optimizer": "sgd"},
        "task": {"name": "features"},
        "corpus": {"name": "synthetic", "sites": 2, "largest": 40},
    }
    with pytest.raises(BelowQuorum):  # gradients that are no numbers any more
        run(cells(tables)[0].study, tmp_path / "run", checkpoint_seconds=3600)
    folder = tmp_path / "run" / "ledger"
    lines = [json.loads(line) for line in (folder / "coordinator.jsonl").read_text().splitlines()]
    last = max(line["exchange"] for line in lines if line["round"] == 1)
    assert 1 < last < 40
    assert 1 + last == verify(folder / "sites" / "site-00.jsonl")  # and its size, before the first round


def test_sites_may_round_their_own_shares_so_that_only_sums_are_seen(tmp_path: Path) -> None:
    class SumOnly(Layer):
        only_sums = "a test says so"

    case = oracle.cases("fedner")[0]["inputs"]
    start, sites = weights(case["theta_shared"]), sites_of(case)
    asked, actual = (Linear(start) for _ in range(2))
    open_ = Trial(FedNER(steps=3), asked, sites, start, tmp_path / "open")
    with pytest.raises(PermissionError, match="only sums"):
        Trial(FedNER(steps=3), asked, sites, start, tmp_path / "shut", layers=[SumOnly()])
    closed = Trial(FedNER(steps=3, ask_sizes=False), actual, sites, start, tmp_path / "closed", layers=[SumOnly()])
    assert open_.round().weights == closed.round().weights
    assert asked.asked == actual.asked


def test_a_site_without_examples_changes_nothing(tmp_path: Path) -> None:
    case = oracle.cases("fedner")[0]["inputs"]
    start, sites = weights(case["theta_shared"]), sites_of(case)
    alone = Trial(FedNER(steps=2), Linear(start), sites, start, tmp_path / "alone").round()
    beside = Trial(
        FedNER(steps=2), Linear(start), {**sites, "empty": Slopes([], 0)}, start, tmp_path / "beside"
    ).round()
    assert alone.weights == beside.weights

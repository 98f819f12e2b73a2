"""The one local training loop: torch's optimisers, written gradients that autograd confirms, the same bits again."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import pytest
import torch
from torch import Tensor, nn

from wardround.core import optimizer
from wardround.core.answer import answer
from wardround.core.bench import Bench
from wardround.core.cohort import Cohort
from wardround.core.exchange import Exchange
from wardround.core.memory import Memory
from wardround.core.method import Global, Method, on_site
from wardround.core.optimizer import SGD, Adam
from wardround.core.site import Site
from wardround.core.task import Batch, SiteData
from wardround.core.training import LocalTraining, Pull, Tilt
from wardround.core.weights import Weights
from wardround.methods.fedner import FedNER
from wardround.tasks.features import FeatureRows, FeaturesTask

DOUBLE = torch.float64
FEATURES, CLASSES = 5, 3


class Net(nn.Module):
    """A frozen layer, dropout and a linear layer, in double precision."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.frozen = nn.Linear(FEATURES, FEATURES).requires_grad_(requires_grad=False)
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(FEATURES, CLASSES)
        self.double()

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.linear(self.dropout(self.frozen(inputs)))
        return scores


@dataclass(frozen=True, eq=False)
class NetTask(FeaturesTask):
    """Rows to classes; each instance has a bench of its own."""

    dropout: float = 0.0

    def model(self) -> nn.Module:
        return Net(self.dropout)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


def rows(count: int) -> FeatureRows:
    rng = torch.Generator().manual_seed(count)
    inputs = torch.randn(count, FEATURES, generator=rng, dtype=DOUBLE)
    return FeatureRows(inputs, torch.randint(CLASSES, (count,), generator=rng))


def site(
    task: NetTask, examples: int = 23, *, name: str = "a", round_: int = 1, folder: Path = Path("nowhere")
) -> Site:
    data = SiteData(train=rows(examples), test=rows(0))
    return Site(name, task, lambda: data, Memory(folder), Exchange("fit", round_, 1, 0, 0))


def task(dropout: float = 0.0) -> NetTask:
    return NetTask(FEATURES, CLASSES, dropout)


def weights_of(a_task: NetTask, seed: int = 3) -> Weights:
    like = Bench.of(a_task).weights()
    return Weights.of_flat(
        torch.randn(like.flat.shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE), like.layout
    )


def close(expected: Tensor, actual: Tensor) -> bool:
    return torch.allclose(expected, actual, rtol=1e-12, atol=1e-12)


# optimisers


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda _: SGD(0.1), lambda p: torch.optim.SGD([p], lr=0.1)),
        (lambda _: SGD(0.1, 0.9), lambda p: torch.optim.SGD([p], lr=0.1, momentum=0.9)),
        (lambda _: SGD(0.1, 0.5, 0.2), lambda p: torch.optim.SGD([p], lr=0.1, momentum=0.5, weight_decay=0.2)),
        (lambda _: SGD(0.1, 0.0, 0.2), lambda p: torch.optim.SGD([p], lr=0.1, weight_decay=0.2)),
        (
            lambda like: Adam(0.01, (0.9, 0.999), 1e-8, like),
            lambda p: torch.optim.Adam([p], lr=0.01, betas=(0.9, 0.999), eps=1e-8),
        ),
        (
            lambda like: Adam(0.5, (0.5, 0.7), 1e-2, like),
            lambda p: torch.optim.Adam([p], lr=0.5, betas=(0.5, 0.7), eps=1e-2),
        ),
        (
            lambda like: Adam(0.01, (0.9, 0.999), 1e-8, like, weight_decay=0.3),
            lambda p: torch.optim.Adam([p], lr=0.01, weight_decay=0.3),
        ),
        (
            lambda like: Adam(0.01, (0.9, 0.999), 1e-8, like, weight_decay=0.3, apart=True),
            lambda p: torch.optim.AdamW([p], lr=0.01, weight_decay=0.3),
        ),
    ],
    ids=["sgd", "momentum", "momentum and decay", "sgd decay", "adam", "other settings", "adam decay", "adamw"],
)
def test_optimisers_step_as_torchs_do(
    ours: Callable[[Tensor], SGD | Adam], theirs: Callable[[nn.Parameter], torch.optim.Optimizer]
) -> None:
    rng = torch.Generator().manual_seed(1)
    flat = torch.randn(50, generator=rng, dtype=DOUBLE)
    parameter = nn.Parameter(flat.clone())
    mine, reference = ours(flat), theirs(parameter)
    for _ in range(30):
        gradient = torch.randn(50, generator=rng, dtype=DOUBLE)
        parameter.grad = gradient.clone()
        reference.step()
        mine.step(flat, gradient)
        assert close(parameter.detach(), flat)


KINDS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW
}  # fmt: skip


def test_a_weight_without_a_gradient_stays_where_it_is_even_with_next_to_nothing_below_it() -> None:
    flat, gradient = torch.tensor([1.0, 2.0]), torch.tensor([0.0, 1.0])
    Adam(0.5, (0.9, 0.999), 1e-50, flat).step(flat, gradient)
    torch.testing.assert_close(flat, torch.tensor([1.0, 1.5]))


def test_a_large_model_steps_piece_by_piece_to_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    gradient = torch.randn(10_007, generator=torch.Generator().manual_seed(0))
    whole, pieces = torch.linspace(-1, 1, 10_007), torch.linspace(-1, 1, 10_007)
    one, other = (Adam(0.01, (0.9, 0.999), 1e-8, flat) for flat in (whole, pieces))
    for _ in range(3):
        one.step(whole, gradient)
        with monkeypatch.context() as patch:
            patch.setattr(optimizer, "PIECE", 1024)
            other.step(pieces, gradient)
    assert torch.equal(whole, pieces)
    assert not torch.equal(whole, torch.linspace(-1, 1, 10_007))


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "sgd"},
        {"optimizer": "adam"},
        {"optimizer": "adamw"},  # with its own weight decay, as torch's
        {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.1},
        {"optimizer": "sgd", "clip": 0.05},
        {"optimizer": "adamw", "weight_decay": 0.5, "clip": 0.5},
    ],
    ids=str,
)
def test_local_training_is_the_plain_loop_over_the_sites_batches(settings: dict[str, Any]) -> None:
    a_task = task()
    start = weights_of(a_task)
    training = LocalTraining(lr=0.05, batch=4, epochs=3, **settings)
    trained = training.train(site(a_task), start)

    model = Net(0.0)
    model.load_state_dict(Bench.of(a_task).model.state_dict() | dict(start))
    own = {key: value for key, value in settings.items() if key in ("momentum", "weight_decay")}
    reference = KINDS[settings["optimizer"]](model.linear.parameters(), lr=0.05, **own)
    again, shortened = site(a_task), 0
    for _ in range(3):
        for batch in a_task.batches(cast("FeatureRows", again.data.train), 4, again.rng):
            reference.zero_grad()
            a_task.loss(model, batch).backward()  # type: ignore[no-untyped-call]
            if "clip" in settings:
                shortened += nn.utils.clip_grad_norm_(model.linear.parameters(), settings["clip"]) > settings["clip"]
            reference.step()
    assert close(Weights.of_model(model).flat, trained.weights.flat)
    assert (3 * math.ceil(23 / 4), 0.05) == (trained.steps, trained.lr)
    assert shortened > 0 or "clip" not in settings


@pytest.mark.parametrize("settings", [{}, {"optimizer": "adam"}, {"momentum": 0.5}], ids=str)
def test_batches_that_are_accumulated_are_one_larger_batch(settings: dict[str, Any]) -> None:
    """Of 23 rows by 12, or by 4 three at a time: in both, the last step of a pass has 11."""
    a_task = task()
    start = weights_of(a_task)
    whole = LocalTraining(batch=12, epochs=2, **settings).train(site(a_task), start)
    parts = LocalTraining(batch=4, accumulate=3, epochs=2, **settings).train(site(a_task), start)
    assert (4, 4) == (whole.steps, parts.steps)
    assert close(whole.weights.flat, parts.weights.flat)


def test_steps_count_what_is_accumulated_once() -> None:
    a_task = task()
    trained = LocalTraining(batch=4, accumulate=2, steps=5).train(site(a_task), weights_of(a_task))
    assert 5 == trained.steps


# the bench


def test_the_bench_is_what_the_model_computes_with() -> None:
    bench = Bench(Net(0.0))
    parameters = {name: p for name, p in bench.model.named_parameters() if p.requires_grad}
    bench.flat.copy_(torch.arange(float(bench.flat.numel())))
    assert [bench.weights()[name].tolist() for name in parameters] == [p.tolist() for p in parameters.values()]
    inputs = rows(7).inputs
    expected = torch.autograd.grad(bench.model(inputs).pow(2).sum(), list(parameters.values()))
    for times in (1, 2):  # gradients add up until the buffer is cleared
        bench.model(inputs).pow(2).sum().backward()
        assert close(times * torch.cat([g.reshape(-1) for g in expected]), bench.gradient)
    bench.gradient.zero_()
    assert [0.0] * len(parameters) == [float(p.grad.abs().sum()) for p in parameters.values() if p.grad is not None]


def test_frozen_parameters_are_not_on_the_bench_and_the_same_in_every_process() -> None:
    kept = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        bench = Bench.of(task())
        assert ["linear.weight", "linear.bias"] == list(bench.layout.shapes)
        kept.append(bench.model.get_parameter("frozen.weight").clone())
    assert torch.equal(*kept)


def test_a_task_has_one_bench_and_taking_it_disturbs_no_chance() -> None:
    a_task = task()
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    first = Bench.of(a_task)
    assert torch.equal(expected, torch.rand(3))
    assert first is Bench.of(a_task)
    assert first is not Bench.of(task())


def test_weights_that_leave_the_bench_stay_as_they_are() -> None:
    bench = Bench.of(task())
    before = bench.weights()
    copy = before.flat.clone()
    bench.load(before * 2)
    assert torch.equal(copy, before.flat)
    assert torch.equal(2 * copy, bench.flat)


def test_another_models_weights_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"these weights are another model's: linear\.weight is missing"):
        Bench.of(task()).load(Weights({"crf.weight": torch.zeros(1)}))


# terms


def test_the_gradient_of_a_pull_is_that_of_its_formula() -> None:
    theta, centre = weights_of(task(), 1), weights_of(task(), 2)
    flat = theta.flat.clone().requires_grad_()
    (0.3 / 2 * (flat - centre.flat).pow(2).sum()).backward()  # type: ignore[no-untyped-call]
    assert close(1 + gradient_of(flat), added(Pull(0.3, centre), theta))


def test_the_gradient_of_a_tilt_is_that_of_its_formula() -> None:
    theta, direction = weights_of(task(), 1), weights_of(task(), 2)
    flat = theta.flat.clone().requires_grad_()
    (direction.flat @ flat).backward()  # type: ignore[no-untyped-call]
    assert close(1 + gradient_of(flat), added(Tilt(direction), theta))


def gradient_of(flat: Tensor) -> Tensor:
    assert flat.grad is not None
    return flat.grad


def added(term: Pull | Tilt, theta: Weights) -> Tensor:
    """What a term makes of a gradient of ones."""
    gradient = torch.ones_like(theta.flat)
    before = theta.flat.clone()
    term.add_gradient(theta.flat, gradient)
    assert torch.equal(before, theta.flat)
    return gradient


def test_terms_are_part_of_every_step() -> None:
    a_task = task()
    start, direction, centre = weights_of(a_task), weights_of(a_task, 1), weights_of(a_task, 2)
    training = LocalTraining(lr=0.1, batch=0)
    plain = training.train(site(a_task), start).weights
    bent = training.train(site(a_task), start, [Tilt(direction), Pull(0.5, centre)]).weights
    assert close((direction + (start - centre) * 0.5).flat * -0.1, (bent - plain).flat)


# the loop


@pytest.mark.parametrize("batch", [0, 1, 4, 23, 100])
def test_the_full_gradient_does_not_depend_on_the_batch_size(batch: int) -> None:
    a_task = task()
    start = weights_of(a_task)
    model = Bench.of(a_task).load(start)
    loss = a_task.loss(model, rows(23))
    parameters = [p for p in model.parameters() if p.requires_grad]
    expected = torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, parameters)])
    for _ in range(2):  # nor on what the bench was used for before
        assert close(expected, LocalTraining(batch=batch).full_gradient(site(a_task), start).flat)


@pytest.mark.parametrize("settings", [{}, {"batch": 0}, {"steps": 5}, {"optimizer": "adam"}], ids=str)
def test_a_site_without_examples_changes_nothing(settings: dict[str, Any]) -> None:
    a_task = task(dropout=0.5)
    start = weights_of(a_task)
    training = LocalTraining(**settings)
    trained = training.train(site(a_task, examples=0), start, [Pull(1.0, start * 2)])
    assert (start, 0) == (trained.weights, trained.steps)
    assert start.zeros() == training.full_gradient(site(a_task, examples=0), start)


@pytest.mark.parametrize(
    ("settings", "sizes"),
    [
        ({"batch": 10}, [10, 10, 3]),
        ({"batch": 10, "epochs": 2}, [10, 10, 3, 10, 10, 3]),
        ({"batch": 0}, [23]),
        ({"batch": 0, "epochs": 2}, [23, 23]),
        ({"batch": 100}, [23]),
        ({"batch": 10, "steps": 1}, [10]),
        ({"batch": 10, "steps": 3, "epochs": 7}, [10, 10, 3]),
        ({"batch": 10, "steps": 5}, [10, 10, 3, 10, 10]),
    ],
    ids=str,
)
def test_epochs_or_steps_say_how_much_work_a_round_is(settings: dict[str, Any], sizes: list[int]) -> None:
    seen: list[int] = []

    a_task = task()

    def counting(model: nn.Module, batch: Batch) -> Tensor:
        seen.append(len(batch))
        return a_task.loss(model, batch)

    assert len(sizes) == LocalTraining(**settings).train(site(a_task), weights_of(a_task), (), counting).steps
    assert sizes == seen


def test_every_epoch_sees_every_example_once_in_another_order() -> None:
    seen: list[list[float]] = []

    class Watching(NetTask):
        def batches(self, examples: Any, size: int, rng: torch.Generator | None) -> Iterator[FeatureRows]:
            batches = list(super().batches(examples, size, rng))
            seen.append([float(x) for batch in batches for x in batch.inputs[:, 0]])
            yield from batches

    a_task = Watching(FEATURES, CLASSES)
    LocalTraining(epochs=3).train(site(a_task), weights_of(a_task))
    assert [sorted(rows(23).inputs[:, 0].tolist())] * 3 == [sorted(epoch) for epoch in seen]
    assert 3 == len(set(map(tuple, seen)))


def test_the_learning_rate_decays_from_round_to_round() -> None:
    a_task = task()
    start = weights_of(a_task)
    training = LocalTraining(lr=0.2, decay=0.5, batch=0)
    rates = [0.2, 0.1, 0.05]
    trained = [training.train(site(a_task, round_=round_), start) for round_ in (1, 2, 3)]
    assert rates == [each.lr for each in trained]
    gradient = training.full_gradient(site(a_task), start)
    for rate, each in zip(rates, trained, strict=True):
        assert close((start - gradient * rate).flat, each.weights.flat)


@pytest.mark.parametrize("warmup", [None, 3])
@pytest.mark.parametrize("schedule", [None, "linear", "cosine"])
@pytest.mark.filterwarnings("ignore:.*epoch parameter:UserWarning")  # torch's SequentialLR calls its own so
def test_rates_rise_and_fall_over_rounds_as_torchs_schedulers_have_it(
    schedule: Literal["linear", "cosine"] | None, warmup: int | None
) -> None:
    horizon, rises = 11, warmup or 0
    training = LocalTraining(lr=0.3, warmup=warmup, schedule=schedule, horizon=horizon if schedule else None)
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.3)
    falling: dict[str | None, Callable[[], torch.optim.lr_scheduler.LRScheduler]] = {
        None: lambda: torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0),
        "linear": lambda: torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=horizon - rises),
        "cosine": lambda: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=horizon - rises),
    }
    parts = [falling[schedule]()]
    if rises:
        rising = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / (rises + 1), 1.0, total_iters=rises)
        parts.insert(0, rising)
    reference = torch.optim.lr_scheduler.SequentialLR(optimizer, parts, milestones=[rises] if rises else [])
    for round_ in range(1, horizon + 1):
        assert reference.get_last_lr()[0] == pytest.approx(training.lr_in(round_), rel=1e-9)
        optimizer.step()
        reference.step()
    assert 0 < training.lr_in(horizon) == training.lr_in(horizon + 5)  # whoever goes on does so at the last rate


def test_a_schedule_has_to_know_where_it_ends() -> None:
    with pytest.raises(ValueError, match=r"schedule = 'cosine' needs a horizon, which a study fills in by its rounds"):
        LocalTraining(schedule="cosine").lr_in(1)


@pytest.mark.parametrize(
    "settings", [{"optimizer": "adam"}, {"optimizer": "adamw"}, {"momentum": 0.9, "lr": 0.01}], ids=str
)
def test_moments_that_are_kept_go_on_as_if_there_were_no_rounds(settings: dict[str, Any], tmp_path: Path) -> None:
    """Two rounds of full batches are one of two passes; begun anew, they are not."""
    a_task = task()
    start = weights_of(a_task)
    whole = LocalTraining(batch=0, epochs=2, **settings).train(site(a_task), start)
    reached = {}
    for kept in ("kept", "anew"):
        training = LocalTraining(batch=0, moments=cast("Any", kept), **settings)
        first = training.train(site(a_task, folder=tmp_path / kept), start)
        reached[kept] = training.train(site(a_task, round_=2, folder=tmp_path / kept), first.weights).weights
        again = training.train(site(a_task, round_=2, folder=tmp_path / kept), first.weights).weights
        assert again == reached[kept]  # a round that is run again recalls what it recalled the first time
    assert close(whole.weights.flat, reached["kept"].flat)
    assert not close(whole.weights.flat, reached["anew"].flat)


@pytest.mark.parametrize(
    "settings", [{"optimizer": "adam"}, {"optimizer": "adamw"}, {"momentum": 0.9, "lr": 0.01}], ids=str
)
def test_training_that_has_run_away_in_one_round_keeps_the_moments_from_before(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    a_task = task()
    start, training = weights_of(a_task), LocalTraining(batch=0, moments="kept", **settings)
    reached = {}
    for name, away in (("once", True), ("never", False)):
        first = training.train(site(a_task, folder=tmp_path / name), start).weights
        if away:
            lost = training.train(site(a_task, round_=2, folder=tmp_path / name), first * math.nan).weights
            assert not lost.flat.isfinite().any()
        reached[name] = training.train(site(a_task, round_=3, folder=tmp_path / name), first).weights
    assert reached["once"] == reached["never"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"momentum": 0.9, "optimizer": "adam"}, 'momentum = 0.9 goes with optimizer = "sgd"; adam has betas'),
        ({"moments": "kept"}, "moments = kept goes with adam, adamw or momentum; plain SGD has nothing to keep"),
        ({"betas": (0.5, 0.9)}, 'betas = (0.5, 0.9) goes with optimizer = "adam" or "adamw"; SGD has none'),
        ({"eps": 0.1, "momentum": 0.9}, 'eps = 0.1 goes with optimizer = "adam" or "adamw"; SGD has none'),
        ({"schedule": "linear", "decay": 0.9}, "schedule = linear and decay = 0.9 both lower the rate; leave one"),
        ({"horizon": 5}, 'horizon = 5 is the end of a schedule; add schedule = "linear" or "cosine", or leave it out'),
        ({"schedule": "cosine", "horizon": 5, "warmup": 5}, "warmup = 5 leaves no round to the schedule, which ends"),
    ],
    ids=str,
)
def test_settings_that_do_not_go_together_are_refused(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=re.escape(expected)):
        LocalTraining(**settings)


def test_settings_of_adam_are_taken_where_only_the_coordinator_has_it() -> None:
    assert (0.5, 0.9) == FedNER(optimizer="sgd", betas=(0.5, 0.9)).betas
    with pytest.raises(ValueError, match=r"betas = \(0.5, 0.9\) goes with optimizer"):
        FedNER(optimizer="sgd", server="sgd", betas=(0.5, 0.9))


def test_training_leaves_the_weights_it_started_from_as_they_are() -> None:
    a_task = task()
    start = weights_of(a_task)
    copy = start.flat.clone()
    assert start != LocalTraining().train(site(a_task), start).weights
    assert torch.equal(copy, start.flat)


# the same bits again


@dataclass(frozen=True, kw_only=True)
class Train(LocalTraining, Method[Global]):
    """Trains and shows the outcome."""

    def start(self, weights: Weights, cohort: Cohort) -> Global:
        del cohort
        return Global(weights)

    def round(self, state: Global, cohort: Cohort) -> Global:
        return cohort.total(self.fit, state)

    @on_site
    def fit(self, model: Global, site: Site) -> Global:
        return Global(self.train(site, model.weights).weights)


def test_dropout_is_the_same_whatever_ran_before_and_in_which_process() -> None:
    start = Global(weights_of(task()))
    method = Train(lr=0.1)
    a_task = task(dropout=0.5)
    first = answer(method, start, site(a_task), ())  # builds the bench, as the first site of a process does
    elsewhere = answer(method, start, site(a_task, name="b"), ())
    again = answer(method, start, site(a_task), ())
    fresh = answer(method, start, site(task(dropout=0.5)), ())
    assert first == again == fresh
    assert first != elsewhere
    assert first != answer(method, start, site(task()), ())  # there was dropout

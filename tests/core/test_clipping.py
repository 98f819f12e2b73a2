"""Clipped gradients of units: one pass gives what a loop of single units gives, for every model of ours."""

from pathlib import Path
from typing import Any, cast

import pytest
import torch

from encoder_folders import tiny_encoder
from wardround.core import layer_gradients
from wardround.core.bench import Bench
from wardround.core.clipping import clipped, norms
from wardround.core.private_steps import Trust, UnitsPart, Way
from wardround.core.task import Units
from wardround.runs.build import build
from wardround.study.load import cells

CLINIC = {"name": "clinic", "hospitals": 1, "documents": 12, "test_documents": 4}
PAIRS = {"name": "clinic-pairs", "hospitals": 1, "notes": 6, "test_notes": 2}
BAG = {"name": "classification", "tokens": "words", "buckets": 64, "class_weights": "none"}
ENCODED = {"name": "classification", "class_weights": "none", "model": "encoder", "encoder": "tiny", "longest": 60}
BAGS = {"name": "bags", "buckets": 64, "embedding": 6, "filters": 5, "position": 2}
SENTENCES = {"name": "clinic-bags", "hospitals": 1, "sentences": 20, "test_sentences": 5}
MODELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "rows": ({"name": "features"}, {"name": "synthetic", "sites": 1, "features": 5, "classes": 3, "largest": 20}),
    "bag of words": ({**BAG, "weighting": "none"}, CLINIC),  # as it is under differential privacy
    "several labels": ({**BAG, "weighting": "none", "several": True}, CLINIC),
    "lstm": (
        {"name": "classification", "tokens": "words", "model": "lstm", "buckets": 64, "embedding": 6, "hidden": 5},
        CLINIC,
    ),
    "tagger": ({"name": "tagging", "model": "lstm-crf", "buckets": 64, "embedding": 6, "hidden": 5}, CLINIC),
    "two taggers": ({"name": "tagging", "model": "s-lstm-crf", "buckets": 64, "embedding": 6, "hidden": 4}, CLINIC),
    "convolution": ({"name": "tagging", "model": "cnn-crf", "buckets": 64, "embedding": 6, "filters": 7}, CLINIC),
    "sentences": ({**BAGS, "denoiser": "none"}, SENTENCES),
    "bags": ({**BAGS, "denoiser": "one"}, SENTENCES),
    "layer": ({"name": "relation", "encoder": "tiny", "freeze": 1, "longest": 100}, PAIRS),
    "head": ({"name": "relation", "encoder": "tiny", "freeze": 2, "longest": 100}, PAIRS),
    "all layers": ({"name": "relation", "encoder": "tiny", "freeze": 0, "longest": 100}, PAIRS),
    "projection": ({"name": "relation", "encoder": "tiny", "freeze": 2, "projection": 5, "longest": 100}, PAIRS),
    "texts": ({**ENCODED, "freeze": 1}, CLINIC),
    "head of texts": ({**ENCODED, "freeze": 2}, CLINIC),
    "tags": ({"name": "tagging", "model": "encoder", "encoder": "tiny", "freeze": 1}, CLINIC),
    "tags and CRF": ({"name": "tagging", "model": "encoder-crf", "encoder": "tiny", "freeze": 1}, CLINIC),
    "averages": ({**BAGS, "denoiser": "average"}, SENTENCES),
    "encoded bags": (
        {"name": "bags", "model": "encoder", "encoder": "tiny", "freeze": 1},
        {**SENTENCES, "sentences": 150},
    ),
}


def opened(task: dict[str, Any], corpus: dict[str, Any], folder: Path) -> tuple[Bench, Any, Any]:
    """A model of a task with weights that are not all zero, and examples of a site."""
    tables = {"name": "x", "rounds": 1, "method": {"name": "fedavg"}, "task": task, "corpus": corpus}
    tiny_encoder(folder / "tiny")
    built = build(cells(tables, folder=folder)[0].study, folder)
    bench = Bench.of(built.task)
    bench.flat.normal_(0, 0.3, generator=torch.Generator().manual_seed(3))
    bench.model.eval()
    return bench, built.task, built.sites.open(built.sites.names[0]).train


def part_of(task: Any, train: Any, rows: list[torch.Tensor]) -> UnitsPart:
    """Units of these rows."""
    return UnitsPart(task, train, Units(rows, lambda _: ()), torch.arange(len(rows)))


LINEAR = ("rows", "bag of words", "head", "head of texts")
WAYS = [
    *((name, UnitsPart.by_one_pass) for name in MODELS),
    *((name, UnitsPart.by_scores) for name in LINEAR),
]


def clip(way: Way, bench: Bench, part: UnitsPart, loss: Any, limit: float) -> bool:
    """Add the clipped sum to the bench's gradient."""
    layers = way(part, bench, loss)
    assert layers is not None
    return clipped(layers, limit)


@pytest.mark.parametrize("grouped", [False, True], ids=["single", "grouped"])
@pytest.mark.parametrize(("name", "way"), WAYS, ids=[f"{name} {way.__name__}" for name, way in WAYS])
def test_all_units_at_once_give_what_a_loop_of_single_units_gives(
    name: str, way: Way, grouped: bool, tmp_path: Path
) -> None:
    bench, task, train = opened(*MODELS[name], tmp_path)
    rows = torch.arange(min(len(train), 9))
    units = [rows[:1], rows[1:4], rows[4:6], rows[6:]] if grouped else [row[None] for row in rows]
    part = part_of(task, train, units)
    bench.gradient.zero_()
    limit = float(part.loop(bench, task.loss, 1.0).median())  # shortens half of them
    bench.gradient.zero_()
    lengths = part.loop(bench, task.loss, limit)
    slow = bench.gradient.clone()
    bench.gradient.zero_()
    assert clip(way, bench, part, task.loss, limit)

    torch.testing.assert_close(norms(way(part, bench, task.loss) or []), lengths, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(bench.gradient, slow, rtol=1e-3, atol=1e-4 * float(slow.abs().max()))


@pytest.mark.parametrize("name", [*LINEAR, "several labels", "lstm", "layer", "tagger", "sentences", "bags"])
def test_scores_alone_tell_gradients_of_linear_models_under_cross_entropy_and_of_no_others(
    name: str, tmp_path: Path
) -> None:
    bench, task, train = opened(*MODELS[name], tmp_path)
    part = part_of(task, train, [torch.tensor([row]) for row in range(4)])
    assert (part.by_scores(bench, task.loss) is not None) == (name in LINEAR)
    assert part.by_scores(bench, lambda model, batch: 2 * task.loss(model, batch)) is None
    bench.gradient.zero_()
    expected = UnitsPart.by_scores if name in LINEAR else UnitsPart.by_one_pass
    assert Trust.of(bench).way(bench, task.loss, part, 0.1) is expected


def test_words_are_added_up_alike_in_small_and_large_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench, task, train = opened(*MODELS["bag of words"], tmp_path)
    part = part_of(task, train, [torch.tensor([row]) for row in range(9)])
    layers = [part.by_scores(bench, task.loss) or []]
    for longest in (10_000, 0):  # each two words compared, and sorted
        monkeypatch.setattr(layer_gradients, "WIDE", 0)
        monkeypatch.setattr(layer_gradients, "SHORT", longest)
        layers.append(part.by_scores(bench, task.loss) or [])
    for other in layers[1:]:
        torch.testing.assert_close(norms(other), norms(layers[0]))


@pytest.mark.parametrize("way", [UnitsPart.by_scores, UnitsPart.by_one_pass])
def test_no_unit_moves_the_sum_by_more_than_the_limit(way: Way, tmp_path: Path) -> None:
    bench, task, train = opened(*MODELS["rows"], tmp_path)
    for row in range(len(train)):
        bench.gradient.zero_()
        assert clip(way, bench, part_of(task, train, [torch.tensor([row])]), task.loss, 0.01)
        assert float(bench.gradient.norm()) <= 0.01 * 1.00001


@pytest.mark.parametrize("way", [UnitsPart.by_scores, UnitsPart.by_one_pass])
def test_a_unit_whose_gradient_is_no_number_leaves_the_others_as_they_are(way: Way, tmp_path: Path) -> None:
    """Else whoever chooses a model on which one note overflows would see by the answer whether that note is there."""
    bench, task, train = opened(*MODELS["rows"], tmp_path)
    train.inputs[0] = float("inf")
    part, others = (part_of(task, train, [torch.tensor([row]) for row in range(first, 4)]) for first in (0, 1))
    bench.gradient.zero_()
    assert not clip(way, bench, part, task.loss, 0.1)
    assert not bench.gradient.any()
    part.loop(bench, task.loss, 0.1)
    whole = bench.gradient.clone()
    bench.gradient.zero_()
    others.loop(bench, task.loss, 0.1)
    torch.testing.assert_close(whole, bench.gradient)


BEHIND = {
    "attention": {**BAGS, "denoiser": "attention"},
    "attention by relation": {**BAGS, "denoiser": "relation-attention"},
    "adapters": {"name": "bags", "model": "encoder", "encoder": "tiny", "freeze": 0, "adapter": {"rank": 2}},
}


@pytest.mark.parametrize("name", BEHIND)
def test_a_weight_that_is_used_behind_its_modules_back_is_noticed(name: str, tmp_path: Path) -> None:
    bench, bound, train = opened(BEHIND[name], MODELS["encoded bags"][1], tmp_path)
    part = part_of(bound, train, [torch.tensor([row]) for row in range(6)])
    assert Trust.of(bench).way(bench, bound.loss, part, 0.1) is None


def test_attention_is_left_to_the_loop_even_if_the_first_bags_have_a_sentence_each(tmp_path: Path) -> None:
    task = {**BAGS, "denoiser": "attention"}
    bench, bound, train = opened(task, {**MODELS["bags"][1], "sentences": 200}, tmp_path)
    single = [row for row in range(len(train)) if len(bound.batch(train, torch.tensor([row])).owner) == 1]
    part = part_of(bound, train, [torch.tensor([row]) for row in single[:4]])
    assert Trust.of(bench).way(bench, bound.loss, part, 0.1) is None


@pytest.mark.parametrize("alone", [False, True])
def test_units_that_a_loss_mixes_are_noticed_even_if_one_was_drawn_alone_first(tmp_path: Path, alone: bool) -> None:
    """Of one unit, both ways say the same; trusted for all, one of many would move the sum by several limits."""
    bench, task, train = opened(*MODELS["rows"], tmp_path)

    def loss(model: torch.nn.Module, batch: Any) -> torch.Tensor:
        inputs = batch.inputs - batch.inputs.mean(0)
        return torch.nn.functional.cross_entropy(model(inputs), batch.labels)

    if alone:
        assert Trust.of(bench).way(bench, loss, part_of(task, train, [torch.tensor([0])]), 0.1) is None
    part = part_of(task, train, [torch.tensor([row]) for row in range(6)])
    assert Trust.of(bench).way(bench, loss, part, 0.1) is None


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_units_that_a_model_mixes_only_while_it_trains_are_noticed(tmp_path: Path, dropout: float) -> None:
    """As a normalisation by the batch does that somebody has written down by hand."""
    bench, task, train = opened(*MODELS["rows"], tmp_path)
    part = part_of(task, train, [torch.tensor([row]) for row in range(6)])
    forward, draw = bench.model.forward, torch.nn.Dropout(dropout)

    def mixing(inputs: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = forward(draw(inputs - inputs.mean(0) if bench.model.training else inputs))
        return answer

    bench.model.add_module("draw", draw)
    bench.model.train()
    assert Trust.of(bench).way(bench, task.loss, part, 0.1) is not None
    bench.model.forward = mixing
    assert Trust().way(bench, task.loss, part, 0.1) is None
    assert dropout == draw.p


def test_words_weighed_by_documents_are_left_to_the_loop(tmp_path: Path) -> None:
    """A pull towards 0 is in every unit's gradient, and in no module's output; privacy.dp refuses it."""
    bench, task, train = opened({**BAG, "weighting": "documents"}, CLINIC, tmp_path)
    part = part_of(task, train, [torch.tensor([row]) for row in range(6)])
    assert Trust.of(bench).way(bench, task.loss, part, 0.1) is None


@pytest.mark.filterwarnings("ignore:Full backward hook")  # what goes into an embedding has no gradient
def test_opacus_agrees(tmp_path: Path) -> None:
    """Somebody else's gradients of single examples, for the layers that it knows."""
    bench, task, train = opened(*MODELS["sentences"], tmp_path)
    part = part_of(task, train, [torch.tensor([row]) for row in range(7)])
    batch, _ = part.taken()
    from opacus.grad_sample import GradSampleModule  # noqa: PLC0415 -- takes seconds, and every worker collects this file

    theirs = GradSampleModule(task.model(), loss_reduction="mean")
    theirs._module.load_state_dict(bench.model.state_dict())
    for module in theirs.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    task.loss(theirs._module, batch).backward()
    each = torch.cat([cast("Any", p).grad_sample.flatten(1) for p in theirs.parameters() if p.requires_grad], 1)
    lengths = each.norm(dim=1)
    limit = float(lengths.median())
    expected = (each * (limit / lengths.clamp(min=limit))[:, None]).sum(0)
    bench.gradient.zero_()
    assert clip(UnitsPart.by_one_pass, bench, part, task.loss, limit)
    torch.testing.assert_close(bench.gradient, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("size", [1.0, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("rows", [2, 7])
def test_a_unit_whose_rows_nearly_cancel_out_moves_no_more_than_the_limit(size: float, rows: int) -> None:
    """The norm is then the small difference of large numbers, and single precision may find it to be nothing."""
    chance = torch.Generator().manual_seed(5)
    for _ in range(20):
        linear = torch.nn.Linear(64, 32)
        for parameter in linear.parameters():
            parameter.grad = torch.zeros_like(parameter)
        near = 1 + 1e-4 * torch.randn(rows, 64, generator=chance)
        inputs = size * torch.randn(1, 64, generator=chance) * near
        signs = torch.tensor([1.0, -1.0] * (rows // 2) + [0.0] * (rows % 2))
        slopes = torch.randn(1, 32, generator=chance) * signs[:, None]
        grouping = layer_gradients.Grouping(torch.zeros(rows, dtype=torch.long), 1)
        parts = layer_gradients.rule(layer_gradients.ModuleCall(linear, (inputs,), {}, slopes), slopes, grouping)
        assert clipped(parts, 1.0)
        moved = torch.cat([cast("torch.Tensor", one.grad).flatten() for one in linear.parameters()]).norm()
        assert float(moved) <= 1.001


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
def test_a_length_that_is_no_number_is_clipped_by_nobody(odd: float) -> None:
    """Taken for 0, it would let a unit through whole."""
    added: list[torch.Tensor] = []
    part = layer_gradients.GradientPart(torch.tensor([odd, 1.0]), added.append)
    assert clipped([part], 1.0) is False
    assert [] == added

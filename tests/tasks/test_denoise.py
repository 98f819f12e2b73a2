"""Denoisers: bag and pair scores against the oracle, and what each makes of a bag of one sentence."""

from typing import Any

import pytest
import torch
from torch import Tensor

import oracle
from wardround.models.pcnn import PCNN
from wardround.tasks.denoise import Denoiser, bag_scores, pair_odds, surest, weights_of

NAMES: dict[str, Denoiser] = {"ONE": "one", "AVE": "average", "ATT": "attention", "ATT_RA": "relation-attention"}


def double(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def given(case: oracle.Case) -> tuple[PCNN, Tensor, Tensor, Tensor]:
    """A model with the oracle's relation matrix, the sentence vectors, their bags and the bags' labels."""
    inputs = case["inputs"]
    matrix = double(inputs["W"])
    model = PCNN(2, 1, len(matrix), filters=1).double().eval()
    model.classifier.weight, model.classifier.bias = (torch.nn.Parameter(double(inputs[key])) for key in ("W", "b"))
    sizes = torch.tensor([end - start for start, end in inputs["bag_scopes"]])
    return model, double(inputs["sentence_vectors"]), torch.repeat_interleave(sizes), torch.tensor(inputs["bag_labels"])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", oracle.params("bag_denoisers"))
def test_training_is_the_oracles(case: oracle.Case, name: str) -> None:
    model, vectors, owner, labels = given(case)
    expected = case["expected"][name]
    scores = bag_scores(NAMES[name], model, vectors, owner, labels)
    torch.testing.assert_close(double(expected["train_logits"]), scores, atol=1e-8, rtol=0)
    loss = torch.nn.functional.cross_entropy(scores, labels)
    assert expected["train_loss"] == pytest.approx(loss.item(), abs=1e-8)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", oracle.params("bag_denoisers"))
def test_scores_of_pairs_are_the_oracles(case: oracle.Case, name: str) -> None:
    model, vectors, owner, labels = given(case)
    odds = pair_odds(NAMES[name], model, vectors, owner, len(labels))
    torch.testing.assert_close(double(case["expected"][name]["test_scores"]), odds.sigmoid(), atol=1e-8, rtol=0)


@pytest.mark.parametrize("case", oracle.params("bag_denoisers"))
def test_weights_are_the_oracles(case: oracle.Case) -> None:
    model, vectors, owner, labels = given(case)
    one = weights_of("one", model, vectors, owner, labels)
    starts = torch.tensor([start for start, _ in case["inputs"]["bag_scopes"]])
    assert (starts + torch.tensor(case["expected"]["ONE"]["train_index"])).tolist() == one.nonzero().flatten().tolist()
    attended = weights_of("attention", model, vectors, owner, labels)
    flat = [value for bag in case["expected"]["ATT"]["attention"] for value in bag]
    torch.testing.assert_close(double(flat), attended, atol=1e-8, rtol=0)
    for name in ("one", "average", "attention", "relation-attention"):
        shares = weights_of(name, model, vectors, owner, labels)
        whole = torch.zeros(len(labels), dtype=shares.dtype).index_add(0, owner, shares)
        torch.testing.assert_close(torch.ones_like(whole), whole)


@pytest.mark.parametrize("name", [*NAMES.values(), "none"])
def test_a_bag_of_one_sentence_is_that_sentence(name: Denoiser) -> None:
    """So what Lazy MIL chooses is trained on in the same way, whatever the denoiser."""
    model, vectors, _, _ = given(oracle.cases("bag_denoisers")[0])
    owner, labels = torch.arange(len(vectors)), torch.zeros(len(vectors), dtype=torch.int64)
    alone = model.classifier(vectors)
    torch.testing.assert_close(alone, bag_scores(name, model, vectors, owner, labels))
    odds = pair_odds(name, model, vectors, owner, len(vectors))
    torch.testing.assert_close(alone.softmax(1), odds.sigmoid())


@pytest.mark.parametrize("name", NAMES.values())
def test_scores_come_in_the_order_of_bags(name: Denoiser) -> None:
    model, vectors, _, _ = given(oracle.cases("bag_denoisers")[0])
    backwards, labels = torch.arange(len(vectors)).flip(0), torch.zeros(len(vectors), dtype=torch.int64)
    alone = model.classifier(vectors.flip(0))
    torch.testing.assert_close(alone, bag_scores(name, model, vectors, backwards, labels))


def test_the_first_of_equals_is_the_surest() -> None:
    owner = torch.tensor([0, 1, 1, 0, 1])
    assert [3, 1] == surest(torch.tensor([0.2, 0.5, 0.5, 0.9, 0.5]), owner, 2).tolist()


def test_what_is_no_number_is_never_the_surest_but_of_its_own() -> None:
    values = torch.tensor([torch.nan, 0.5, torch.nan, torch.nan])
    assert [1, 2] == surest(values, torch.tensor([0, 0, 1, 1]), 2).tolist()


def test_odds_stay_apart_where_single_precision_probabilities_no_longer_do() -> None:
    model = PCNN(2, 1, 2, filters=1).eval()
    model.classifier.weight, model.classifier.bias = (
        torch.nn.Parameter(torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])), torch.nn.Parameter(torch.zeros(2))
    )  # fmt: skip
    odds = pair_odds("one", model, torch.tensor([[18.0, 0, 0], [19.0, 0, 0]]), torch.tensor([0, 1]), 2)[:, 1].detach()
    assert [18.0, 19.0] == pytest.approx(odds.tolist())
    assert [1.0, 1.0] == odds.float().sigmoid().tolist()

"""The PCNN: pieces and their maxima against the oracle, padding without effect, frozen words that do not travel."""

import pytest
import torch

import oracle
from wardround.core.weights import Weights
from wardround.models.pcnn import PCNN, pieces, pooled


@pytest.mark.parametrize("case", oracle.params("pcnn_pooling"))
def test_pieces_and_their_maxima_are_the_oracles(case: oracle.Case) -> None:
    given, expected = case["inputs"], case["expected"]
    outputs = torch.tensor(given["conv_output"], dtype=torch.float64)
    places = [torch.tensor(given[key]) for key in ("head_start", "tail_start", "lengths")]
    piece = pieces(places[0], places[1], places[2], outputs.shape[2])
    assert expected["mask"] == piece.tolist()
    empty = torch.stack([(piece != number).all(1) for number in (1, 2, 3)], 1)
    assert expected["segment_empty"] == empty.tolist()
    scores = pooled(outputs, piece)
    torch.testing.assert_close(
        torch.tensor(expected["segment_max_empty_zero"], dtype=torch.float64), scores, atol=1e-9, rtol=0
    )
    torch.testing.assert_close(
        torch.tensor(expected["tanh_empty_zero"], dtype=torch.float64), scores.tanh(), atol=1e-9, rtol=0
    )


def model(**options: object) -> PCNN:
    torch.default_generator.manual_seed(0)
    return PCNN(20, 6, 3, filters=7, **options).eval()  # type: ignore[arg-type]


def test_padding_changes_no_score() -> None:
    short, heads, tails = torch.tensor([[3, 4, 5, 6]]), torch.tensor([0]), torch.tensor([2])
    longer = torch.cat([short, torch.zeros(1, 5, dtype=torch.int64)], 1)
    torch.testing.assert_close(model()(short, heads, tails), model()(longer, heads, tails))


def test_the_places_of_the_entities_matter_and_so_does_which_is_the_head() -> None:
    tokens = torch.tensor([[3, 4, 5, 6, 7]])
    one, turned, other = (
        model()(tokens, torch.tensor([head]), torch.tensor([tail])) for head, tail in ((0, 3), (3, 0), (1, 3))
    )
    assert not torch.allclose(one, turned)
    assert not torch.allclose(one, other)


def test_far_tokens_are_as_far_as_thirty() -> None:
    tokens = torch.randint(1, 20, (1, 80), generator=torch.Generator().manual_seed(1))
    assert model()(tokens, torch.tensor([0]), torch.tensor([79])).isfinite().all()


def test_no_sentence_and_no_token_give_no_error() -> None:
    assert (0, 3) == tuple(
        model()(torch.zeros(0, 1, dtype=torch.int64), torch.zeros(0).long(), torch.zeros(0).long()).shape
    )
    empty = model()(torch.zeros(1, 1, dtype=torch.int64), torch.tensor([0]), torch.tensor([0]))
    torch.testing.assert_close(model().classifier.bias[None], empty)


def test_frozen_words_are_no_weights_and_start_from_a_copy() -> None:
    vectors = torch.rand(20, 6)
    frozen = model(vectors=vectors, freeze=True)
    assert "words.weight" not in Weights.of_model(frozen)
    assert "words.weight" in Weights.of_model(model(vectors=vectors))
    torch.testing.assert_close(vectors, frozen.words.weight)
    with pytest.raises(ValueError, match=r"vectors have shape \[20, 5\], not \[20, 6\]"):
        model(vectors=torch.rand(20, 5))

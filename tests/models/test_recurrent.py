"""The LSTM classifier: padding says nothing, given embeddings stay or learn as told."""

from typing import Literal

import pytest
import torch
from torch import Tensor

from wardround.core.weights import Weights
from wardround.models.recurrent import LSTMClassifier

SUMMARIES: tuple[Literal["mean", "last"], ...] = ("mean", "last")
TEXTS = [[5, 9, 2], [7], [3, 3, 8, 1, 4], [6, 2]]


def model_of(summary: Literal["mean", "last"] = "mean", **settings: object) -> LSTMClassifier:
    torch.manual_seed(1)
    return LSTMClassifier(12, 6, 5, 3, summary=summary, **settings).eval()  # type: ignore[arg-type]


def padded(texts: list[list[int]], length: int) -> Tensor:
    return torch.tensor([text + [0] * (length - len(text)) for text in texts])


@pytest.mark.parametrize("summary", SUMMARIES)
def test_padding_changes_no_score(summary: Literal["mean", "last"]) -> None:
    model = model_of(summary)
    alone = torch.cat([model(torch.tensor([text])) for text in TEXTS])
    torch.testing.assert_close(alone, model(padded(TEXTS, 5)))
    torch.testing.assert_close(alone, model(padded(TEXTS, 40)))


@pytest.mark.parametrize("summary", SUMMARIES)
def test_padding_changes_no_gradient(summary: Literal["mean", "last"]) -> None:
    model = model_of(summary)
    results = []
    for length in (5, 40):
        model.zero_grad()
        model(padded(TEXTS, length)).square().sum().backward()
        results.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
    assert 7 == len(results[0])  # the embedding, four of the LSTM, two of the linear layer
    torch.testing.assert_close(results[0], results[1])


def test_the_scores_are_those_of_a_packed_lstm() -> None:
    packed = torch.nn.utils.rnn.pack_sequence([torch.tensor(text) for text in TEXTS], enforce_sorted=False)
    for summary in SUMMARIES:
        model = model_of(summary)
        inputs = torch.nn.utils.rnn.PackedSequence(model.embedding(packed.data), *packed[1:])
        states, (last, _) = model.lstm(inputs)
        every, lengths = torch.nn.utils.rnn.pad_packed_sequence(states, batch_first=True)
        text = every.sum(1) / lengths[:, None] if summary == "mean" else last[0]
        torch.testing.assert_close(model.linear(text), model(padded(TEXTS, 9)))


@pytest.mark.parametrize("summary", SUMMARIES)
def test_there_is_one_score_per_text_and_class(summary: Literal["mean", "last"]) -> None:
    assert (4, 3) == model_of(summary)(padded(TEXTS, 7)).shape
    assert (1, 3) == model_of(summary)(torch.tensor([[4]])).shape


@pytest.mark.parametrize("summary", SUMMARIES)
def test_an_empty_text_scores_what_the_last_layer_says_of_nothing(summary: Literal["mean", "last"]) -> None:
    model = model_of(summary)
    scores = model(torch.tensor([[0, 0, 0], [4, 0, 0]]))
    torch.testing.assert_close(model.linear.bias, scores[0])
    assert not torch.allclose(scores[0], scores[1])


def test_the_two_summaries_differ_but_for_texts_of_one_token() -> None:
    mean, last = (model_of(summary)(padded(TEXTS, 5)) for summary in SUMMARIES)
    assert [False, True, False, False] == [torch.allclose(a, b) for a, b in zip(mean, last, strict=True)]


def trained(model: LSTMClassifier) -> LSTMClassifier:
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1.0)
    loss = torch.nn.functional.cross_entropy(model(padded(TEXTS, 6)), torch.tensor([0, 1, 2, 0]))
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return model


def test_given_embeddings_can_be_frozen_and_then_never_travel() -> None:
    vectors = torch.randn(12, 6)
    given = vectors.clone()
    model = trained(model_of(vectors=vectors, freeze=True))
    assert torch.equal(given[1:], model.embedding.weight[1:])
    assert "embedding.weight" not in Weights.of_model(model)


def test_given_embeddings_can_be_trained_without_touching_what_was_given() -> None:
    vectors = torch.randn(12, 6)
    given = vectors.clone()
    model = trained(model_of(vectors=vectors))
    used, unused = sorted({token for text in TEXTS for token in text}), [10, 11]
    assert torch.equal(given, vectors)
    assert torch.equal(given[unused], model.embedding.weight[unused])
    assert (model.embedding.weight[used] != given[used]).any(1).all()
    assert torch.equal(torch.zeros(6), model.embedding.weight[0])
    assert "embedding.weight" in Weights.of_model(model)


def test_vectors_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \[12, 7\], not \[12, 6\]"):
        model_of(vectors=torch.randn(12, 7))


def test_every_trainable_parameter_gets_a_gradient() -> None:
    for summary in SUMMARIES:
        model = trained(model_of(summary))
        still = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
        assert [] == still


def test_dropout_is_for_training_only() -> None:
    model, tokens = model_of(dropout=0.5), padded(TEXTS, 6)
    assert torch.equal(model(tokens), model(tokens))
    model.train()
    assert not torch.equal(model(tokens), model(tokens))


def test_double_precision_works_too() -> None:
    for summary in SUMMARIES:
        assert torch.float64 == model_of(summary).double()(padded(TEXTS, 6)).dtype

"""The tagger's parts do what their plain counterparts do, and padding changes nothing."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from wardround.models.tagger import BiLSTM, LetterFilters, Parts, Sentences, Tagger, WordCNN

LENGTHS = torch.tensor([5, 2, 1])


def batch(contextual: int = 0, padding: int = 0) -> Sentences:
    """Three sentences; more padding if asked."""
    generator = torch.Generator().manual_seed(3)
    real = torch.arange(5 + padding) < LENGTHS[:, None]
    words = torch.randint(1, 50, (3, 5), generator=generator)
    forms = torch.randint(0, 6, (3, 5), generator=generator)
    characters = torch.randint(1, 100, (6, 7), generator=generator) * (torch.arange(7) < torch.arange(1, 7)[:, None])
    states = torch.randn(3, 5, contextual, generator=generator) if contextual else None
    words, forms = (functional.pad(part, (0, padding)) * real for part in (words, forms))
    if states is not None:
        states = functional.pad(states, (0, 0, 0, padding)) * real.unsqueeze(2)
    return Sentences(words, LENGTHS, forms, characters, states)


@pytest.mark.parametrize(
    "parts",
    [
        Parts(cnn=4),
        Parts(lstm=4),
        Parts(characters=4, cnn=4, widths=(1, 3, 5)),
        Parts(lstm=4, layers=2),
        Parts(characters=4, contextual=6, cnn=4, lstm=4),
    ],
    ids=["cnn-crf", "lstm-crf", "gram-cnn", "s-lstm-crf", "elmoner"],
)
def test_padding_changes_no_score_of_a_word(parts: Parts) -> None:
    tagger = Tagger(parts, vocabulary=50, tags=3, embedding=8, character=5).eval()
    scores, more = tagger(batch(parts.contextual)), tagger(batch(parts.contextual, padding=4))
    assert (3, 5, 3) == scores.shape
    for row, length in enumerate(LENGTHS.tolist()):
        assert torch.allclose(scores[row, :length], more[row, :length], atol=1e-6)


def test_the_character_table_is_a_convolution() -> None:
    """Of width 3 over the letters, the largest answer taken; values and gradients alike."""
    mine = LetterFilters(5, 4).double()
    plain = nn.Conv1d(5, 4, 3, padding=1).double()
    with torch.no_grad():
        mine.bias.normal_()
        left, middle, right = mine.filters.weight.chunk(3, 0)  # (4, 5) each
        plain.weight.copy_(torch.stack([left, middle, right], 2))
        plain.bias.copy_(mine.bias)  # type: ignore[union-attr]
    characters = batch().characters
    embedded = functional.embedding(characters, mine.vectors.weight, 0)
    answers = plain(embedded.transpose(1, 2)).masked_fill((characters == 0).unsqueeze(1), -torch.inf)
    expected = functional.relu(answers.amax(2))
    assert torch.allclose(expected, mine(characters))
    weights = torch.randn_like(expected)
    (theirs,) = torch.autograd.grad((expected * weights).sum(), mine.vectors.weight)
    (ours,) = torch.autograd.grad((mine(characters) * weights).sum(), mine.vectors.weight)
    assert torch.allclose(theirs, ours)
    assert 0 == float(ours[0].abs().sum())  # padding is not learnt


@pytest.mark.parametrize("length", [1, 2, 7])
def test_the_word_filters_are_convolutions(length: int) -> None:
    mine = WordCNN(6, 4, (1, 3, 5))
    states = torch.randn(2, length, 6)
    results = []
    for number, size in enumerate((1, 3, 5)):
        weight = torch.stack(mine.filters[number].weight.chunk(size, 0), 2)  # type: ignore[operator]
        bias = mine.bias[4 * number : 4 * number + 4]
        results.append(functional.conv1d(states.transpose(1, 2), weight, bias, padding=size // 2))
    expected = functional.relu(torch.cat(results, 1)).transpose(1, 2)
    assert torch.allclose(expected, mine(states), atol=1e-6)


def test_both_ways_of_reading_are_those_of_packed_sequences() -> None:
    mine, plain = BiLSTM(6, 4, 2), nn.LSTM(6, 4, num_layers=2, bidirectional=True, batch_first=True)
    with torch.no_grad():
        for layer in range(2):
            for lstm, end in ((mine.forth[layer], ""), (mine.back[layer], "_reverse")):
                for name, parameter in lstm.named_parameters():
                    plain.get_parameter(name.replace("l0", f"l{layer}") + end).copy_(parameter)
    states = torch.randn(3, 5, 6)
    packed, _ = plain(pack_padded_sequence(states, LENGTHS, batch_first=True))
    expected, _ = pad_packed_sequence(packed, batch_first=True)
    for row, length in enumerate(LENGTHS.tolist()):
        assert torch.allclose(expected[row, :length], mine(states, LENGTHS)[row, :length], atol=1e-6)


def test_frozen_vectors_are_no_weights_and_are_not_copied() -> None:
    vectors = torch.randn(50, 8)
    tagger = Tagger(Parts(cnn=4), vocabulary=50, tags=3, embedding=8, vectors=vectors, freeze=True)
    assert "words.weight" not in [name for name, p in tagger.named_parameters() if p.requires_grad]
    assert vectors.data_ptr() == tagger.words.weight.data_ptr()

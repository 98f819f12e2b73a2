"""Batches of sequences."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from wardround.tasks.batching import Ragged, grouped, packed

LENGTHS = st.lists(st.integers(0, 30), max_size=80)


@given(LENGTHS, st.integers(0, 12), st.booleans())
def test_a_pass_takes_every_row_exactly_once(lengths: list[int], size: int, shuffled: bool) -> None:
    rng = torch.Generator().manual_seed(1) if shuffled else None
    batches = grouped(torch.tensor(lengths, dtype=torch.int64), size, rng)
    assert list(range(len(lengths))) == sorted(row for batch in batches for row in batch.tolist())
    assert all(len(batch) <= (size or len(lengths)) for batch in batches)


@given(LENGTHS, st.integers(1, 60))
def test_without_padding_every_row_comes_once_and_shorter_ones_first(lengths: list[int], tokens: int) -> None:
    batches = [*packed(lengths, tokens)]
    rows = [row for batch in batches for row in batch]
    assert sorted(range(len(lengths)), key=lambda row: (lengths[row], row)) == rows
    assert all(len(batch) == 1 or sum(lengths[row] for row in batch) <= tokens for batch in batches)


def test_where_rows_are_padded_after_all_a_long_one_does_not_stretch_many_short_ones() -> None:
    """An encoder of another family pads what it is given: 257 · 512 tokens in place of 1,024."""
    batches = [*packed([2] * 256 + [512], 1024)]
    assert [[*range(256)], [256]] == batches


def test_similar_lengths_come_together() -> None:
    lengths = torch.arange(64).repeat(4)
    batches = grouped(lengths, 8, torch.Generator().manual_seed(0))
    padded = sum(int(lengths[batch].max()) * len(batch) for batch in batches)
    assert padded < 1.2 * int(lengths.sum())


def test_the_same_generator_gives_the_same_batches_and_another_gives_others() -> None:
    lengths = torch.arange(50) % 7
    first, again, other = (
        [batch.tolist() for batch in grouped(lengths, 4, torch.Generator().manual_seed(seed))] for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other


@given(st.lists(st.lists(st.integers(1, 9), max_size=6), min_size=1, max_size=10))
def test_rows_come_out_as_they_went_in_padded_with_zeros(rows: list[list[int]]) -> None:
    padded = Ragged(rows).padded(torch.arange(len(rows)))
    longest = max(1, *map(len, rows))
    assert [row + [0] * (longest - len(row)) for row in rows] == padded.tolist()

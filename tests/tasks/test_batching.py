"""Batches of sequences."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from wardround.tasks.batching import Ragged, grouped

LENGTHS = st.lists(st.integers(0, 30), max_size=80)


@given(LENGTHS, st.integers(0, 12), st.booleans())
def test_a_pass_takes_every_row_exactly_once(lengths: list[int], size: int, shuffled: bool) -> None:
    rng = torch.Generator().manual_seed(1) if shuffled else None
    batches = grouped(torch.tensor(lengths, dtype=torch.int64), size, rng)
    assert list(range(len(lengths))) == sorted(row for batch in batches for row in batch.tolist())
    assert all(len(batch) <= (size or len(lengths)) for batch in batches)


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

"""States of frozen layers: computed once, found again on disk, the same whoever asks."""

import logging
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from encoder_folders import tiny_encoder
from wardround.models.encoder import Encoder
from wardround.models.pretrained import read_encoder
from wardround.tasks import trunk as module
from wardround.tasks.batching import packed
from wardround.tasks.trunk import Trunk

ROWS = [[2, 10, 11, 3], [2, 12, 3], [2, 10, 14, 12, 16, 3], [2, 10, 11, 3]]


class Counted(Encoder):
    """An encoder that counts how often it ran."""

    runs = 0

    def forward(self, inputs: Tensor, real: Tensor | None = None, places: Tensor | None = None) -> Tensor:
        self.runs += 1
        return super().forward(inputs, real, places)


@pytest.fixture
def encoder(tmp_path: Path) -> Counted:
    return made(tiny_encoder(tmp_path / "encoder"))


def made(folder: Path, layers: int = 1) -> Counted:
    found = read_encoder(folder)
    encoder = Counted(found.shape, range(layers), embeddings=True)
    encoder.load_state_dict({name: found.weights()[name] for name in encoder.state_dict()})
    return encoder


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_sentence_is_computed_once_then_found_by_any_process(encoder: Counted, tmp_path: Path) -> None:
    first = Trunk(encoder, tmp_path / "cache").states(ROWS)
    assert 3 == encoder.runs  # one of the four stands twice
    assert [4, 3, 6, 4] == [len(states) for states in first]
    torch.testing.assert_close(first[2], encoder(torch.tensor([ROWS[2]]))[0])
    again = made(tmp_path / "encoder")
    later = Trunk(again, tmp_path / "cache")
    assert same(first, later.states(ROWS))
    assert 0 == again.runs
    assert same([first[1]], later.states([ROWS[1], [2, 3]])[:1])
    assert 1 == again.runs


def test_states_do_not_depend_on_what_else_is_asked_for(encoder: Counted, tmp_path: Path) -> None:
    together = Trunk(encoder, tmp_path / "one").states(ROWS)
    alone = [Trunk(encoder, tmp_path / "two").states([row])[0] for row in reversed(ROWS)]
    assert same(together, alone[::-1])


def test_sentences_of_one_length_go_through_together_with_the_same_bits(encoder: Counted, tmp_path: Path) -> None:
    drawn = torch.Generator().manual_seed(0)
    lengths = (9, 16, 9, 33, 9, 16, 4, 4)
    rows = [torch.randint(4, 30, (length,), generator=drawn).tolist() for length in lengths]
    together = Trunk(encoder, tmp_path / "one").states(rows)
    assert 5 == encoder.runs  # of 9, 16 and 33 tokens, and the short ones each by itself
    alone = [Trunk(encoder, tmp_path / "two").states([row])[0] for row in rows]
    assert same(together, alone)


@pytest.mark.parametrize("at_once", [1, 40, 1024])
def test_what_is_not_kept_goes_through_together_whatever_its_length(
    at_once: int, encoder: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "packed", partial(packed, tokens=at_once))
    kept, fleeting = Trunk(encoder, tmp_path / "cache"), Trunk(encoder, tmp_path / "none", remember=False)
    torch.testing.assert_close(kept.states(ROWS), fleeting.states(ROWS), rtol=0, atol=1e-5)
    assert [] == fleeting.states([])
    assert not (tmp_path / "none").exists()


def test_other_weights_have_other_states(encoder: Counted, tmp_path: Path) -> None:
    one = Trunk(encoder, tmp_path / "cache")
    changed = made(tmp_path / "encoder")
    with torch.no_grad():
        next(changed.parameters())[10, 0] += 1
    other = Trunk(changed, tmp_path / "cache")
    assert one.folder != other.folder
    assert not same(one.states(ROWS), other.states(ROWS))
    assert one.folder != Trunk(made(tmp_path / "encoder", layers=2), tmp_path / "cache").folder


def test_large_corpora_are_kept_in_several_files(
    encoder: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK", 5 * 32)
    kept = Trunk(encoder, tmp_path / "cache")
    states = kept.states(ROWS)
    assert 2 == len(list(kept.folder.glob("*.safetensors")))
    again = made(tmp_path / "encoder")
    assert same(states, Trunk(again, tmp_path / "cache").states(ROWS))
    assert 0 == again.runs


def test_a_damaged_file_is_computed_anew(encoder: Counted, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = Trunk(encoder, tmp_path / "cache")
    states = [part.clone() for part in kept.states(ROWS)]  # for these are mapped from the file
    file = next(kept.folder.glob("*.safetensors"))
    file.write_bytes(file.read_bytes()[:100])
    with caplog.at_level(logging.WARNING):
        assert same(states, Trunk(encoder, tmp_path / "cache").states(ROWS))
    assert "damaged, computed anew" in caplog.text


def test_without_a_writable_disk_states_stay_in_memory(
    encoder: Counted, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    kept = Trunk(encoder, tmp_path / "cache")
    with caplog.at_level(logging.WARNING):
        states = kept.states(ROWS)
    assert "states not kept" in caplog.text
    assert same(states, kept.states(ROWS))
    assert 3 == encoder.runs


def test_only_the_user_can_read_the_folder(encoder: Counted, tmp_path: Path) -> None:
    kept = Trunk(encoder, tmp_path / "cache")
    kept.states(ROWS)
    assert 0o700 == kept.folder.stat().st_mode & 0o777

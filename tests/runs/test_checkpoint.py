"""A checkpoint that is not sound is refused by name, with what to do; nothing is overwritten."""

import pickle
from pathlib import Path

import pytest
import torch

from study_files import PAUSING, Ended, cli, listing, paused, result_of, small_study, start, wait_for, write_module
from wardround.core.method import Global
from wardround.core.weights import Weights
from wardround.methods.scaffold import Controlled
from wardround.runs.checkpoint import Checkpoint, CheckpointError, kept_rounds, load_newest, save

SERIAL = ("--workers", 1, "--quiet")
EAGER = ("--checkpoint-seconds", 0)

FLIPPED = [0, 5, 11, 12, 30, 43, 44, 60, 130, -100, -8, -1]
"""Positions in the file's mark, its checksum, its head, the tensors' header and the tensors."""


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A run with two checkpoints and two rounds to go."""
    path = small_study(tmp_path, rounds=2, method={"name": "scaffold"})
    assert 0 == cli("run", path, "--out", "run", *SERIAL, *EAGER, cwd=tmp_path).code
    return tmp_path / "run" / "checkpoints" / "round-000002.checkpoint"


def resumed(folder: Path, *more: object) -> Ended:
    return cli("run", "study.toml", "--out", "run", *SERIAL, "--resume", "--set", "rounds=4", *more, cwd=folder)


def assert_refused(
    folder: Path, message: str, remedy: str = "delete it to continue from round-000001.checkpoint"
) -> None:
    before = listing(folder)
    ended = resumed(folder)
    assert (2, "", 1) == (ended.code, ended.out, len(ended.err.splitlines()))
    assert ended.err.startswith("run/checkpoints/round-000002.checkpoint: ")
    assert message in ended.err
    assert ended.err.endswith(f"; {remedy}\n")
    assert before == listing(folder)


def test_a_pickle_is_refused_and_not_read(tmp_path: Path, killed: Path) -> None:
    killed.write_bytes(pickle.dumps({"round": 2}))
    assert_refused(tmp_path, "not a file of wardround's")


@pytest.mark.parametrize("size", [0, 1, 11, 12, 40, 44, 60, 200, -1])
def test_a_truncated_checkpoint_is_refused(tmp_path: Path, killed: Path, size: int) -> None:
    killed.write_bytes(killed.read_bytes()[:size])
    assert_refused(tmp_path, "not a file of wardround's" if 0 <= size < 12 else "damaged, its checksum does not agree")


@pytest.mark.parametrize("position", FLIPPED)
def test_one_flipped_bit_is_found(tmp_path: Path, killed: Path, position: int) -> None:
    data = bytearray(killed.read_bytes())
    data[position] ^= 1 << position % 8
    killed.write_bytes(data)
    assert_refused(tmp_path, "not a file of" if 0 <= position < 12 else "damaged, its checksum does not agree with its")


def test_more_bytes_than_were_written_are_refused(tmp_path: Path, killed: Path) -> None:
    killed.write_bytes(killed.read_bytes() + b"\0")
    assert_refused(tmp_path, "damaged")


@pytest.mark.parametrize("change", ["corpus.features=5", "method.lr=0.5", "method.name=fedavg"])
def test_a_checkpoint_of_another_model_or_study_is_refused(tmp_path: Path, killed: Path, change: str) -> None:
    cli("run", "study.toml", "--out", "other", "--set", change, *SERIAL, *EAGER, cwd=tmp_path)
    killed.write_bytes((tmp_path / "other" / "checkpoints" / "round-000002.checkpoint").read_bytes())
    assert_refused(tmp_path, "belongs to another study or other settings")


def test_a_folder_in_place_of_a_checkpoint_is_refused(tmp_path: Path, killed: Path) -> None:
    killed.unlink()
    killed.mkdir()
    assert_refused(tmp_path, "cannot be read (Is a directory)")


def test_without_an_older_one_the_remedy_is_to_start_anew(tmp_path: Path, killed: Path) -> None:
    killed.with_name("round-000001.checkpoint").unlink()
    killed.write_bytes(b"")
    assert_refused(tmp_path, "not a file of wardround's", "delete the run folder to start anew")


@pytest.mark.parametrize("method", ["PausingScaffold", "PausingDyn", "PausingLocal", "PausingPA"])
def test_after_deleting_a_bad_checkpoint_the_older_one_gives_the_same_bits(tmp_path: Path, method: str) -> None:
    """What sites keep must still be there as of the older one, though some have kept newer records since."""
    write_module(tmp_path, PAUSING)
    path = small_study(tmp_path, rounds=5, method={"name": f"mine:{method}"})
    cli("run", path, "--out", "whole", *SERIAL, cwd=tmp_path)
    reached = paused(tmp_path, 5, "site-02")
    running = start("run", path, "--out", "run", *SERIAL, *EAGER, cwd=tmp_path)
    wait_for(reached.exists, running.pid)
    running.kill()
    (tmp_path / "run" / "checkpoints" / "round-000004.checkpoint").unlink()
    assert 0 == cli("run", path, "--out", "run", *SERIAL, *EAGER, "--resume", cwd=tmp_path).code
    assert result_of(tmp_path / "whole") == result_of(tmp_path / "run")


def test_two_checkpoints_are_kept(tmp_path: Path, killed: Path) -> None:
    resumed(tmp_path, *EAGER)
    expected = ["round-000003.checkpoint", "round-000004.checkpoint"]
    assert expected == sorted(path.name for path in killed.parent.iterdir())


def state(value: float) -> Global:
    return Global(Weights({"w": torch.tensor([value])}))


def test_the_newest_checkpoint_is_that_of_the_highest_round(tmp_path: Path) -> None:
    for round_ in (999_998, 999_999, 1_000_000):
        save(tmp_path, Checkpoint(round_, "study", state(round_)))
    expected = Checkpoint(1_000_000, "study", state(1_000_000))
    assert (expected, [999_999, 1_000_000]) == (load_newest(tmp_path, "study", Global), kept_rounds(tmp_path))


def test_without_a_checkpoint_there_is_nothing_to_go_on_with(tmp_path: Path) -> None:
    assert (None, []) == (load_newest(tmp_path, "study", Global), kept_rounds(tmp_path))


def test_a_state_of_another_kind_is_refused(tmp_path: Path) -> None:
    save(tmp_path, Checkpoint(1, "study", state(1.0)))
    with pytest.raises(CheckpointError, match=r"round-000001.checkpoint: cannot be read \(these bytes are not a Contr"):
        load_newest(tmp_path, "study", Controlled)

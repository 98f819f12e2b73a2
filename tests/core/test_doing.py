"""What a process is at: told to whoever waits, in a file that goes away with the work."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from wardround.core import doing as module
from wardround.core.doing import ASKED, NOTICE, asked, counted, doing, look, noticed, read_asked, read_notice


def test_where_nobody_waits_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    doing("reading")
    look()
    assert [1, 2] == list(counted([1, 2], "encoding", "sentences"))
    assert [] == list(tmp_path.iterdir())


def test_what_is_done_is_told_and_counted_and_the_file_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 0.0))
    results: list[str] = []
    with noticed(tmp_path / NOTICE, results.append):
        doing("reading the data")
        for number in counted(range(2000), "encoding", "sentences"):
            if number == 1500:
                assert "encoding 1,500 of 2,000 sentences" == read_notice(tmp_path)
    assert ["reading the data", "encoding 0 of 2,000 sentences"] == results[:2]
    assert ("", []) == (read_notice(tmp_path), list(tmp_path.iterdir()))


def test_once_some_are_done_the_time_that_the_others_take_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    results: list[str] = []
    with noticed(tmp_path / NOTICE, results.append):
        for _ in counted(range(3), "round 1, fit:", "sites have answered"):
            now[0] += 2000
    told = [f"round 1, fit: {number} of 3 sites have answered" for number in range(3)]
    assert [told[0], f"{told[1]}, about 1:06:40 left", f"{told[2]}, about 33:20 left"] == results


@pytest.mark.parametrize(("elsewhere", "guess"), [(False, ", about 16:40 left"), (True, "")])
def test_how_long_other_machines_will_take_is_not_guessed_from_those_that_have_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, elsewhere: bool, guess: str
) -> None:
    now = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0], time=lambda: now[0]))
    results: list[str] = []
    with noticed(tmp_path / NOTICE, results.append, sites=elsewhere):
        for _ in asked(1, "fit", slow(now, "a"), ["a", "b"]):
            pass
    assert f"round 1, fit: 1 of 2 sites have answered{guess}" == results[-1]


def slow(now: list[float], *names: str) -> Iterator[tuple[str, int]]:
    """Replies that take a thousand seconds each."""
    for name in names:
        now[0] += 1000
        yield name, 1


def test_what_a_worker_writes_is_shown_by_the_process_that_looks(tmp_path: Path) -> None:
    results: list[str] = []
    with noticed(tmp_path / NOTICE, results.append):
        child = os.fork()
        if not child:
            doing("encoding 3 of 9 sentences")
            os._exit(0 if not results else 1)
        assert 0 == os.waitpid(child, 0)[1]
        assert [] == results
        look()
    assert ["encoding 3 of 9 sentences"] == results


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    with noticed(tmp_path / "missing" / NOTICE):
        doing("reading")


def test_a_notice_is_written_over_the_one_before_for_a_new_file_would_wait_for_the_disk(tmp_path: Path) -> None:
    with noticed(tmp_path / NOTICE, sites=True):
        files = []
        for words in ("reading a large corpus", "encoding", ""):
            doing(words)
            assert words == read_notice(tmp_path)
            files.append((tmp_path / NOTICE).stat())
        assert 1 == len({(file.st_ino, file.st_size) for file in files})
        answered = []
        for name, _ in asked(1, "fit", iter([("a", 1), ("b", 2)]), ["a", "b"]):
            answered.append([*read_asked(tmp_path)["answered"]])
            files.append((tmp_path / ASKED).stat())
            assert name in answered[-1]
        assert [["a"], ["a", "b"]] == answered
        assert files[-1].st_ino == files[-2].st_ino
    assert [] == list(tmp_path.iterdir())

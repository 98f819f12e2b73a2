"""What a site keeps, recalls and draws depends on the exchange and on nothing else."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar, cast

import pytest
import torch

from wardround.core.exchange import Exchange, seeded
from wardround.core.files import BrokenSeal, seal
from wardround.core.memory import Memory
from wardround.core.record import Message, Private
from wardround.core.site import Site
from wardround.core.task import SiteData, Task
from wardround.core.weights import Weights


class Diary(Private):
    """What a site noted."""

    entry: int


class Other(Private):
    """Something else that a site noted."""

    entry: int


class Model(Private):
    """What a site has learnt by itself."""

    weights: Weights


class Table(Private):
    """Something that nobody changes."""

    constant: ClassVar[bool] = True
    entry: int


class Letter(Message):
    """What could be sent."""

    entry: int


NOTHING = SiteData(train=(), test=())


def at(
    folder: Path,
    round_: int,
    number: int = 1,
    *,
    settled: int = 0,
    name: str = "a",
    step: str = "fit",
    seed: int = 0,
    resumed: tuple[int, ...] = (),
) -> Site:
    """The site at an exchange, as a new process would find it."""
    exchange = Exchange(step, round_, number, settled, seed, resumed)
    return Site(name, cast("Task", None), lambda: NOTHING, Memory(folder), exchange)


def entry(site: Site) -> int:
    """What the site recalls; −1 if nothing."""
    return site.recall(Diary, Diary(-1)).entry


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# memory


def test_a_site_recalls_what_it_kept_in_the_exchange_before(tmp_path: Path) -> None:
    recalled = []
    for round_ in range(1, 4):
        for number in (1, 2):
            site = at(tmp_path, round_, number)
            recalled.append(entry(site))
            site.keep(Diary(10 * round_ + number))
    assert [-1, 11, 12, 21, 22, 31] == recalled
    assert 32 == entry(at(tmp_path, 9))


def test_a_round_that_is_run_again_recalls_what_it_did_the_first_time(tmp_path: Path) -> None:
    def rounds(first: int, last: int) -> Iterator[int]:
        for round_ in range(first, last + 1):
            site = at(tmp_path, round_, settled=2)
            before = entry(site)
            site.keep(Diary(before + round_))
            yield before

    expected = list(rounds(1, 5))
    assert [-1, 0, 2, 5, 9] == expected
    for first in (3, 4, 5, 3):  # crashes after round 5 and goes on after any that was not settled
        assert expected[first - 1 :] == list(rounds(first, 5))


def test_what_an_interrupted_exchange_kept_is_not_seen_when_it_is_run_again(tmp_path: Path) -> None:
    at(tmp_path, 1).keep(Diary(1))
    at(tmp_path, 2).keep(Diary(2))
    assert 1 == entry(at(tmp_path, 2))


def test_versions_that_no_resumed_round_can_need_are_deleted(tmp_path: Path) -> None:
    for round_ in range(1, 8):
        at(tmp_path, round_, settled=max(round_ - 3, 0)).keep(Diary(round_))
    assert [f"Diary-{round_}-1.kept" for round_ in (4, 5, 6, 7)] == kept(tmp_path)
    assert [4, 5, 6, 7] == [entry(at(tmp_path, round_)) for round_ in (5, 6, 7, 8)]


def test_a_site_that_is_seldom_asked_keeps_the_version_it_needs(tmp_path: Path) -> None:
    at(tmp_path, 1).keep(Diary(1))
    at(tmp_path, 50, settled=49).keep(Diary(50))
    assert 1 == entry(at(tmp_path, 50, settled=49))
    assert 50 == entry(at(tmp_path, 51, settled=49))


def test_versions_of_a_future_that_is_run_again_are_deleted(tmp_path: Path) -> None:
    for round_ in (1, 2, 3):
        at(tmp_path, round_).keep(Diary(round_))
    at(tmp_path, 2).keep(Diary(20))
    assert 20 == entry(at(tmp_path, 9))


def test_a_site_that_misses_the_repetition_of_a_round_forgets_its_part_in_the_first_try(tmp_path: Path) -> None:
    for round_ in (3, 4, 5):
        at(tmp_path, round_, settled=2).keep(Diary(round_))
    # The coordinator crashed and went on after round 4; the site was away in the new round 5.
    assert 4 == entry(at(tmp_path, 6, settled=3, resumed=(4,)))
    at(tmp_path, 6, settled=3, resumed=(4,)).keep(Diary(60))
    assert 60 == entry(at(tmp_path, 7, settled=3, resumed=(4,)))


def test_a_site_that_was_away_during_several_attempts_goes_back_as_far_as_any_of_them(tmp_path: Path) -> None:
    for round_ in (1, 2, 3):
        at(tmp_path, round_).keep(Diary(round_))
    assert 1 == entry(at(tmp_path, 9, resumed=(1, 5)))


def test_a_site_that_first_keeps_something_in_a_later_attempt_does_not_lose_it(tmp_path: Path) -> None:
    at(tmp_path / "new", 1, resumed=(0,)).keep(Diary(1))
    assert 1 == entry(at(tmp_path / "new", 2, resumed=(0,)))
    assert -1 == entry(at(tmp_path / "new", 1, number=2, resumed=(0, -1)))


def test_an_exchange_survives_being_written_down() -> None:
    told = Exchange("fit", 3, 1, 2, 7, (0, 2))
    assert told == Exchange.of(json.loads(json.dumps(asdict(told))))
    for wrong in ({}, {"step": "fit"}, {**asdict(told), "round": "3"}, {**asdict(told), "resumed": [1.5]}):
        with pytest.raises(ValueError, match="not an exchange"):
            Exchange.of(wrong)


def test_what_is_kept_can_be_recalled_at_once(tmp_path: Path) -> None:
    site = at(tmp_path, 1)
    for number in (5, 6):
        site.keep(Diary(number))
        assert number == entry(site)
    assert 6 == entry(at(tmp_path, 2))


def test_kinds_are_kept_apart(tmp_path: Path) -> None:
    at(tmp_path, 1).keep(Diary(1))
    at(tmp_path, 1).keep(Other(2))
    assert 1 == at(tmp_path, 2).recall(Diary).entry
    assert 2 == at(tmp_path, 2).recall(Other).entry


def test_a_site_without_memory_or_default_says_so(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="a has kept no Diary yet, and no default was given"):
        at(tmp_path / "none yet", 1).recall(Diary)


def test_only_a_private_record_can_be_kept(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="Letter is none"):
        at(tmp_path, 1).keep(Letter(1))  # type: ignore[arg-type]
    assert [] == kept(tmp_path)


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_what_has_run_away_does_not_take_the_place_of_what_was_kept(number: float, tmp_path: Path) -> None:
    before = Weights({"a": torch.tensor([1.0, 2.0])})
    at(tmp_path, 1).keep(Model(before))
    site = at(tmp_path, 2)
    site.keep(Model(before * number))
    assert before == site.recall(Model).weights == at(tmp_path, 3).recall(Model).weights


def test_a_constant_record_is_read_once_for_as_long_as_its_file_is_the_same(tmp_path: Path) -> None:
    at(tmp_path, 1).keep(Table(1))
    first, again = at(tmp_path, 2).recall(Table), at(tmp_path, 3).recall(Table)
    assert (1, True) == (first.entry, first is again)
    at(tmp_path, 1).keep(Table(2))
    assert 2 == at(tmp_path, 2).recall(Table).entry
    (path,) = tmp_path.iterdir()
    written = path.stat()
    path.write_bytes(seal(Table(3).encode()))  # in place, and with the time of the one before
    os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))
    assert 3 == at(tmp_path, 2).recall(Table).entry
    path.write_bytes(b"damaged")
    with pytest.raises(BrokenSeal):
        at(tmp_path, 2).recall(Table)
    at(tmp_path, 1).keep(Diary(1))
    assert at(tmp_path, 2).recall(Diary) is not at(tmp_path, 2).recall(Diary)  # whose tensors may be changed in place


def test_a_damaged_memory_is_noticed(tmp_path: Path) -> None:
    at(tmp_path, 1).keep(Diary(1))
    path = tmp_path / "Diary-1-1.kept"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(BrokenSeal, match="Diary-1-1"):
        at(tmp_path, 2).recall(Diary)


# chance


def test_chance_depends_on_seed_round_site_and_step(tmp_path: Path) -> None:
    same = [at(tmp_path, 1), at(tmp_path, 1, number=7), at(tmp_path, 1, settled=5), at(tmp_path / "x", 1)]
    others = [
        at(tmp_path, 2),
        at(tmp_path, 1, name="b"),
        at(tmp_path, 1, step="score"),
        at(tmp_path, 1, seed=1),
        at(tmp_path, 11, name=""),
    ]
    assert 1 == len({site.seed for site in same})
    assert 1 == len({float(torch.rand(1, generator=site.rng)) for site in same})
    assert 1 + len(others) == len({site.seed for site in [same[0], *others]})


def test_chance_at_a_site_does_not_touch_anybody_elses(tmp_path: Path) -> None:
    one, other = at(tmp_path, 1), at(tmp_path, 1)
    torch.rand(5, generator=other.rng)
    torch.rand(5)
    expected = torch.rand(3, generator=torch.Generator().manual_seed(one.seed))
    assert torch.equal(expected, torch.rand(3, generator=one.rng))
    assert one.rng is one.rng


def test_a_seed_is_the_same_for_ever() -> None:
    assert 5876381852923928931 == seeded(0, 1, "site", "fit")
    assert 0 <= min(seeded(n) for n in range(1000)) <= max(seeded(n) for n in range(1000)) < 2**63


# data


def test_data_are_opened_when_they_are_first_looked_at(tmp_path: Path) -> None:
    opened: list[str] = []

    def open_() -> SiteData:
        opened.append("once")
        return NOTHING

    site = Site("a", cast("Task", None), open_, Memory(tmp_path), Exchange("fit", 1, 1, 0, 0))
    site.keep(Diary(1))
    assert [] == opened
    assert site.data is site.data
    assert ["once"] == opened


def test_a_split_that_a_site_does_not_have_is_named() -> None:
    data = SiteData(train=(), test=(1,), valid=(1, 2))
    assert [0, 1, 2] == [len(data.split(name)) for name in ("train", "test", "valid")]
    for name in ("public", "split", "nothing"):
        with pytest.raises(ValueError, match=f"no '{name}' examples"):
            data.split(name)

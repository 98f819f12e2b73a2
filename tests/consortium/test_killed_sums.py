"""Sites that are killed for good right after masking, over NVFlare: the bits of a simulation that loses them there.

At that moment a site's masked reply has left, and nobody has opened anything. Either the reply is there, signed like
those of the others: then the sum is of all, and the others open it. Or it was lost on its way: then those who remain
mask once more, and the sum is theirs. Or too few are left to open: then nothing is, and the run says whom it takes.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fault_table import fault
from real_sites import Answer, Between, Federation
from wardround.consortium.submit import TooFew
from wardround.core.exchange import Exchange, Fault
from wardround.core.method import Step
from wardround.core.record import Message
from wardround.engines.inline import Serial
from wardround.engines.remote import Remote
from wardround.layers.bound import NOTED
from wardround.layers.masked import Masked
from wardround.layers.masks import MEETINGS
from wardround.runs.loop import run
from wardround.study.load import Study, cells

pytest.importorskip("nvflare")

SITES = ("site-0", "site-1", "site-2", "site-3")
MASKING, PLACE = (2, "fit"), (2, MEETINGS + 1)
Lost = Callable[[Exchange], bool]


@pytest.fixture
def study(request: pytest.FixtureRequest) -> Study:
    """One for each test: in all runs of a study a round is opened for one list of members."""
    tables = {
        "name": "killed", "seed": len(request.node.name), "rounds": 3,
        "method": {"name": "fedavg"}, "task": {"name": "features"},
        "corpus": {"name": "synthetic", "sites": 4, "largest": 40}, "partition": {"name": "iid", "sites": 4},
        "privacy": {"secure_aggregation": True},
    }  # fmt: skip
    return cells(tables)[0].study


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    with Federation(tmp_path_factory.mktemp("f"), SITES) as federation:
        yield federation


@pytest.fixture
def federation(started: Federation, study: Study) -> Federation:
    started.approve(study)
    started.whole(study)
    return started


def outcome(out: Path) -> dict[str, Any]:
    """What must be the same bits; why somebody was left out has other words in a simulation."""
    journal = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    for line in journal:
        del line["seconds"], line["ended"]
        line["noted"].pop(NOTED, None)  # by which real sites are judged
        line["left_out"] = sorted(line["left_out"])
    return {
        "model": (out / "model" / "weights.safetensors").read_bytes(),
        "state": max((out / "checkpoints").glob("round-*")).read_bytes(),
        "journal": journal,
    }


def reason(out: Path) -> str:
    """Why site-1 was left out of round 2, as the journal has it."""
    return str(json.loads((out / "journal.jsonl").read_text().splitlines()[1])["left_out"]["site-1"])


def simulated(study: Study, out: Path, monkeypatch: pytest.MonkeyPatch, lost: Lost) -> dict[str, Any]:
    """The same study in one process, whose site-1 is not heard any more from some moment on."""
    whole = Serial.deliver

    def deliver(
        engine: Serial, exchange: Exchange, step: Step[Any, Any], messages: Mapping[str, Message]
    ) -> Iterable[tuple[str, Any]]:
        for name, reply in whole(engine, exchange, step, messages):
            yield name, Fault("lost", "killed") if name == "site-1" and lost(exchange) else reply

    with monkeypatch.context() as patch:
        patch.setattr(Serial, "deliver", deliver)
        run(study, out, checkpoint_seconds=0)
    return outcome(out)


def killing(federation: Federation, monkeypatch: pytest.MonkeyPatch, *names: str) -> list[str]:
    """Kill these sites, once, as soon as the coordinator has the masked reply of each; who was killed."""
    whole, killed = Remote.deliver, list[str]()

    def deliver(engine: Remote, exchange: Exchange, *given: Any) -> Iterator[tuple[str, Any]]:
        for name, reply in whole(engine, exchange, *given):
            if name in names and name not in killed and (exchange.round, exchange.step) == MASKING:
                assert isinstance(reply, Masked)
                federation.power_cut(name)
                killed.append(name)
            yield name, reply

    monkeypatch.setattr(Remote, "deliver", deliver)
    return killed


@fault("killed after masking")
def test_a_site_that_is_killed_once_its_masked_reply_is_there_is_in_the_sum_that_the_others_open(
    federation: Federation, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = simulated(study, tmp_path / "inline", monkeypatch, lambda e: (e.round, e.number) > PLACE)
    killed = killing(federation, monkeypatch, "site-1")
    federation.submit(study, tmp_path / "real", over=federation.over(patience=1.0))
    assert ["site-1"] == killed
    assert expected == outcome(tmp_path / "real")
    assert "; its fit is in the sum" in reason(tmp_path / "real")
    without = simulated(study, tmp_path / "without", monkeypatch, lambda e: (e.round, e.number) >= PLACE)
    assert expected["model"] != without["model"]


def test_a_site_that_is_killed_with_its_masked_reply_on_the_way_is_in_no_sum(
    federation: Federation, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = simulated(study, tmp_path / "inline", monkeypatch, lambda e: (e.round, e.number) >= PLACE)
    masked = list[int]()

    def kill(head: Mapping[str, Any], answer: Answer) -> Answer:
        exchange = head.get("exchange") or {}
        if (exchange.get("round"), exchange.get("step")) == MASKING:
            masked.append(len(answer[1]))
            federation.power_cut("site-1")
        return answer

    with Between(federation.site("site-1"), kill):
        federation.submit(study, tmp_path / "real", over=federation.over(patience=1.0))
    assert 1 == len(masked)
    assert "Masked" == federation.ledger("site-1")[-1]["sent"]["kind"]
    assert expected == outcome(tmp_path / "real")
    assert "in the sum" not in reason(tmp_path / "real")


def test_where_too_few_of_those_who_masked_are_left_nothing_is_opened_and_the_run_goes_on_when_they_are_back(
    federation: Federation, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(study, tmp_path / "inline", checkpoint_seconds=0)
    killed = killing(federation, monkeypatch, "site-1", "site-2")
    lines = list[str]()
    with pytest.raises(TooFew, match=r"2 of 4 sites are ready, the quorum is 3: site-1: .*site-2: .*--resume"):
        federation.submit(study, tmp_path / "real", over=federation.over(patience=1.0), wait=1.0, say=lines.append)
    assert any("round 2, Masks.open: 2 of 4 sites gave a usable reply, the quorum is 3" in line for line in lines)
    assert ["site-1", "site-2"] == sorted(killed)
    federation.whole(study)
    federation.submit(study, tmp_path / "real", resume=True)
    assert outcome(tmp_path / "inline") == outcome(tmp_path / "real")

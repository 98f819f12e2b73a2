"""A site that takes an ask and never answers costs one deadline; then it is greeted, and asked once it answers."""

import threading
from pathlib import Path
from typing import Any

import pytest

from loopback import Exchange
from wardround.consortium.submit import submit
from wardround.engines import remote
from wardround.engines.codes import CODES
from wardround.runs.files import Round
from wardround.study.load import cells

SITES = ("site-0", "site-1", "site-2")


def test_a_hung_site_costs_one_deadline_and_takes_part_again_when_it_wakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "PROBE", 1.0)
    monkeypatch.setattr(remote, "SLACK", 0.2)
    study = cells({
        "name": "hung", "rounds": 4, "method": {"name": "fedavg"}, "task": {"name": "features"},
        "corpus": {"name": "synthetic", "sites": 3, "largest": 40}, "partition": {"name": "iid", "sites": 3},
    })[0].study  # fmt: skip
    awake, asked, lines = threading.Event(), [0], list[Round]()

    def hangs(name: str, _head: dict[str, Any]) -> bool:
        if name == "site-1":
            asked[0] += 1
            if asked[0] > 1:  # after it was greeted at the start
                awake.wait(60.0)
        return False

    def after(line: Round) -> None:
        lines.append(line)
        if line.round == 2:
            awake.set()

    with Exchange(tmp_path, study, SITES) as exchange:
        exchange.unasked = hangs
        exchange.over.deadline = 4.0
        submit(study, tmp_path / "run", exchange.over, progress=after)
    late, hung = (f"{code}: {words}" for code, words in (CODES["late"], CODES["hung"]))
    assert [
        {"site-1": f"fit: {late}; evaluate: {hung}"}, {"site-1": f"fit: {hung}; evaluate: {hung}"}, {}, {},
    ] == [line.left_out for line in lines]  # fmt: skip

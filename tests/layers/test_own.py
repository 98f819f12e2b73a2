"""A user's own layer: one file, named in the study, the same under each engine, after a crash, and on the record."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from loopback import OPEN
from loopback import Exchange as Sites
from study_files import small_study, write_module
from wardround.consortium.settings import read_site
from wardround.consortium.submit import submit
from wardround.consortium.trust import modules_table
from wardround.core.exchange import Exchange, Fault
from wardround.core.flat import flattened, restored
from wardround.core.method import Step
from wardround.core.record import Message
from wardround.core.weights import Weights
from wardround.engines.inline import Serial
from wardround.layers import LAYERS
from wardround.runs.build import build
from wardround.runs.exchanges import rows
from wardround.runs.guards import unguarded
from wardround.runs.loop import run
from wardround.runs.protocol import rehearsed
from wardround.study.load import Study, load_study
from wardround.study.settings import StudyError

TESTS = Path(__file__).parents[1]
FILES = [TESTS.parent / "examples" / "own_layer.py", TESTS / "pairwise.py"]
OWN = {"own_layer:Blinds": ["Blinds.open"], "pairwise:Pairwise": ["Pairwise.introduce", "Pairwise.agree"]}
"""Layers of a user's own, and the steps of their own exchanges."""
HIDDEN = {"own_layer:Blinds": "Hidden", "pairwise:Pairwise": "Masked"}
NAMES = ("site-0", "site-1", "site-2")


ZEROED = """
from dataclasses import dataclass, replace
from wardround.extend import Layer, Update

@dataclass(frozen=True)
class Zeroed(Layer):
    def leave(self, reply, site):
        return replace(reply, change=reply.change * 0) if isinstance(reply, Update) else reply
"""

ASKING = """
from dataclasses import dataclass
from wardround.extend import FedAvg, Global

@dataclass(frozen=True, kw_only=True)
class Asking(FedAvg):
    def round(self, state, cohort):
        cohort.ask(self.fit, state)
        return state
"""


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    for file in FILES:
        write_module(tmp_path, file.read_text(encoding="utf-8"), file.stem)
    return tmp_path


def study_with(beside: Path, *layers: str, **changes: Any) -> Study:
    tables = [{"name": layer} for layer in layers] or None
    return load_study(small_study(beside, partition={"name": "iid", "sites": 3}, layers=tables, **changes))[0].study


def weights_of(out: Path) -> bytes:
    return (out / "model" / "weights.safetensors").read_bytes()


def journal_of(out: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ("seconds", "ended")} for line in lines]


def steps_of(out: Path) -> list[str]:
    """What the coordinator's ledger has each site of one name asked for, in order."""
    lines = map(json.loads, (out / "ledger" / "coordinator.jsonl").read_text().splitlines())
    return [line["step"] for line in lines if line.get("from") == NAMES[0] and "step" in line]


@pytest.mark.parametrize("layer", OWN)
@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedatt", "feddyn"])
def test_a_layer_gives_the_weights_of_a_run_without_it(layer: str, method: str, beside: Path) -> None:
    run(study_with(beside, method={"name": method}), beside / "plain")
    run(study_with(beside, layer, method={"name": method}), beside / "layered")
    plain, layered = (load_file(beside / out / "model" / "weights.safetensors") for out in ("plain", "layered"))
    for name, tensor in plain.items():
        assert torch.allclose(tensor, layered[name], atol=1e-5)
    assert journal_of(beside / "plain")[-1]["metrics"] == pytest.approx(journal_of(beside / "layered")[-1]["metrics"])


@pytest.mark.parametrize("layer", OWN)
def test_serial_pooled_strict_and_real_sites_give_the_same_bits(layer: str, beside: Path) -> None:
    study = study_with(beside, layer, sites={"per_round": 2})
    run(study, beside / "serial")
    run(study, beside / "strict", strict=True)
    run(study, beside / "pooled", workers=2)
    with Sites(beside / "sites", study, NAMES, modules=FILES) as sites:
        submit(study, beside / "real", sites.over)
    for other in ("strict", "pooled", "real"):
        assert weights_of(beside / "serial") == weights_of(beside / other)
        assert journal_of(beside / "serial") == journal_of(beside / other)
        assert steps_of(beside / "serial") == steps_of(beside / other)


@pytest.mark.parametrize("layer", OWN)
def test_a_run_killed_between_the_exchanges_of_a_layer_goes_on_with_the_same_bits(
    layer: str, beside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = study_with(beside, layer)
    run(study, beside / "whole")
    deliver = Serial.deliver

    def until(
        engine: Serial, exchange: Exchange, step: Step[Any, Any], messages: Mapping[str, Message]
    ) -> Iterable[tuple[str, Message | Fault]]:
        if (exchange.round, exchange.step) == (2, OWN[layer][-1]):
            raise KeyboardInterrupt
        return deliver(engine, exchange, step, messages)

    with monkeypatch.context() as patch:
        patch.setattr(Serial, "deliver", until)
        with pytest.raises(KeyboardInterrupt):
            run(study, beside / "killed", checkpoint_seconds=0)
    run(study, beside / "killed", resume=True)
    assert weights_of(beside / "whole") == weights_of(beside / "killed")
    assert journal_of(beside / "whole") == journal_of(beside / "killed")
    assert steps_of(beside / "killed").count("Pairwise.introduce") == steps_of(beside / "whole").count(
        "Pairwise.introduce"
    )  # the coordinator has not forgotten whose key it has


@pytest.mark.parametrize("layer", OWN)
def test_a_layers_messages_are_in_the_protocol_and_the_reply_as_it_leaves(layer: str, beside: Path) -> None:
    printed = rows(rehearsed(study_with(beside, layer)))
    replies = {row.step: row.message for row in printed if row.direction == "from site"}
    assert {"fit", "evaluate", *OWN[layer]} == set(replies)
    assert HIDDEN[layer] == replies["fit"] == replies["evaluate"]
    assert all(row.reveals for row in printed if row.field)


def test_a_layers_own_exchanges_pass_only_what_is_outside_it(beside: Path) -> None:
    """Masks inside noise: the reply is wrapped twice, a key in noise alone, the noise in nothing."""
    with pytest.raises(PermissionError, match=r"Blinds .* only sums .*'Pairwise\.introduce' asks to see each"):
        rehearsed(study_with(beside, "pairwise:Pairwise", "own_layer:Blinds"))
    seen = rehearsed(study_with(beside, "own_layer:Blinds", "pairwise:Pairwise"))
    assert {"fit", "evaluate", "Blinds.open", *OWN["pairwise:Pairwise"]} == {one.step for one in seen}
    kinds = {one.step: type(one.reply).__name__ for one in seen}
    assert {"Masked"} == {kinds[step] for step in ("fit", "evaluate", "Blinds.open")}
    assert ["Key", "Agreed"] == [kinds[step] for step in OWN["pairwise:Pairwise"]]


def test_what_shows_each_reply_is_refused_before_the_run_and_in_it(beside: Path) -> None:
    each = study_with(beside, "own_layer:Blinds", evaluation={"each": True}, robust={})
    with pytest.raises(StudyError) as error:
        build(each, beside / "out")
    assert [
        "evaluation.each shows each site's counts, and Blinds only sums; take one out",
        *unguarded(each),
    ] == error.value.problems
    write_module(beside, ASKING, "asking")
    asking = study_with(beside, "own_layer:Blinds", method={"name": "asking:Asking"})
    with pytest.raises(PermissionError, match=r"Blinds lets the coordinator see only sums \(there is noise on each"):
        run(asking, beside / "out")


@pytest.mark.parametrize(
    ("layers", "problem"),
    [
        ([{"name": "small-count"}], "layers.name = 'small-count' is unknown; did you mean 'small-counts'?"),
        ([{"name": "small-counts", "smalest": 3}], "layers.smalest is unknown; did you mean 'smallest'?"),
        ([{"name": "least-examples"}] * 2, "layers.name = 'least-examples' is there twice; take one out"),
        ([{"name": "own_layer:Noise"}], "layers.name = 'own_layer:Noise' is not a wardround Layer"),
        ([{"name": "own_layer:Gone"}], "layers.name = 'own_layer:Gone' cannot be imported"),
        ([{}], "layers.name is missing"),
    ],
)
def test_what_is_wrong_with_a_layer_is_told_by_name(beside: Path, layers: list[Any], problem: str) -> None:
    with pytest.raises(StudyError) as error:
        load_study(small_study(beside, layers=layers))
    assert [True] == [given.startswith(problem) for given in error.value.problems]


def test_a_study_keeps_its_layers_in_their_order(beside: Path) -> None:
    study = study_with(beside, "small-counts", "own_layer:Blinds")
    assert ["SmallCounts", "Blinds"] == [type(layer).__name__ for layer in study.layers]
    assert [{"name": "small-counts", "smallest": 10}, {"name": "own_layer:Blinds", "scale": 1.0}] == (
        study.resolved["layers"]
    )
    assert study.fingerprint != study_with(beside, "own_layer:Blinds", "small-counts").fingerprint
    assert "layers" not in study_with(beside).resolved


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_of_the_register_runs_in_a_simulation(name: str, beside: Path) -> None:
    result = run(study_with(beside, name, corpus={"sites": 3, "largest": 300}), beside / "out")
    assert 3 == result.rounds


def test_a_site_adds_layers_of_its_own_before_the_studys(beside: Path) -> None:
    study = study_with(beside, "own_layer:Blinds")
    (beside / "zeroed.py").write_text(ZEROED, encoding="utf-8")
    more = ("[[layers]]", 'name = "zeroed:Zeroed"', *OPEN)
    with Sites(beside / "sites", study, NAMES, consent=more, modules=[*FILES, beside / "zeroed.py"]) as sites:
        submit(study, beside / "real", sites.over)
        layers = sites.sites["site-0"].studies.settings.layers
    assert ["Zeroed"] == [type(layer).__name__ for layer in layers]
    last = load_file(beside / "real" / "model" / "weights.safetensors")
    for name, tensor in build(study, beside / "out").weights.items():
        assert torch.allclose(tensor, last[name], atol=1e-6)  # behind the noise, nobody's notes moved it


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["[[layers]]", 'name = "own_layer:Blinds"'], "layers: Blinds needs the coordinator"),
        (["[[layers]]", 'name = "elsewhere:Blinds"'], "layers.name = 'elsewhere:Blinds' cannot be imported"),
        (["[layers]", 'name = "small-counts"'], "layers = "),
    ],
)
def test_what_is_wrong_with_a_sites_layer_is_told_by_name(beside: Path, lines: list[str], problem: str) -> None:
    text = "\n".join(['name = "a"', "[data]", 'format = "csv"', *lines, modules_table(FILES)])
    (beside / "site.toml").write_text(text, encoding="utf-8")
    with pytest.raises(StudyError) as error:
        read_site(beside)
    assert [True] == [given.startswith(problem) for given in error.value.problems]


class Everything(Message):
    """A field of each type."""

    weights: Weights
    tensor: torch.Tensor
    count: int
    share: float
    yes: bool
    word: str
    numbers: tuple[int, ...]
    by_name: dict[str, float]
    nothing: float | None = None


def test_a_message_is_numbers_and_a_form_and_itself_again() -> None:
    whole = Everything(
        Weights({"a": torch.tensor([[1.5, 2.0]]), "b": torch.tensor(3.0)}), torch.tensor([[4], [5]]), 6, 7.5, True, "x",
        (8, 9), {"q": 10.0, "p": 11.0},
    )  # fmt: skip
    numbers, form = flattened(whole)
    assert [1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.5, 8.0, 9.0, 11.0, 10.0] == numbers.tolist()
    assert whole == restored(Everything, numbers, form)
    assert 12 == restored(Everything, 2 * numbers + 1e-9, form).count

"""Changes in fewer bits: nothing is lost for good, the bytes are counted, and it is refused where it makes no sense."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from loopback import Exchange as Consortium
from wardround.consortium.settings import read_site
from wardround.consortium.submit import submit
from wardround.core.exchange import Exchange
from wardround.core.memory import Memory
from wardround.core.record import finite
from wardround.core.site import Site
from wardround.core.task import SiteData
from wardround.core.weights import Weights
from wardround.layers.narrow import BLOCK, LARGEST, UNITS, Narrow, Residue, widened
from wardround.methods.fedavg import Update
from wardround.methods.scaffold import ScaffoldUpdate
from wardround.runs.folder import Result
from wardround.runs.loop import run
from wardround.runs.protocol import rehearsed
from wardround.study.load import Study, cells
from wardround.study.settings import StudyError
from wardround.tasks.features import FeatureRows, FeaturesTask

SITES = ("site-00", "site-01", "site-02")
EACH = pytest.mark.parametrize("bits", [8, 16])


def study(bits: int | None, method: str = "fedavg", rounds: int = 4, **more: Any) -> Study:
    layers = {"layers": [{"name": "narrow", "bits": bits}]} if bits else {}
    tables = {
        "name": "narrow", "rounds": rounds, "method": {"name": method}, "task": {"name": "features"},
        "corpus": {"name": "synthetic", "sites": 3, "largest": 40},
    }  # fmt: skip
    return cells({**tables, **layers, **more})[0].study


def site(folder: Path, round_: int, step: str = "fit") -> Site:
    nothing = FeatureRows(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64))
    data = SiteData(train=nothing, test=nothing)
    return Site("a", FeaturesTask(3, 2), lambda: data, Memory(folder), Exchange(step, round_, 1, round_ - 1, 0))


def drawn(seed: int, size: int = 3 * BLOCK + 7) -> Weights:
    rng = torch.Generator().manual_seed(seed)
    flat = torch.randn(size, generator=rng) * torch.logspace(-6, 2, size)
    return Weights({"a": flat[:5], "b": flat[5:].view(-1, 2)})


def arrived(layer: Narrow, update: Any, at: Site) -> Any:
    return layer.arrive(layer.leave(update, at), "a", at.exchange)


@EACH
def test_a_number_is_off_by_half_a_unit_of_its_block_at_most(bits: int, tmp_path: Path) -> None:
    change = drawn(1)
    reply = arrived(Narrow(bits=bits), Update(change, 7), site(tmp_path, 1))  # type: ignore[arg-type]
    assert (7, change.layout, torch.float32) == (reply.weight, reply.change.layout, reply.change.flat.dtype)
    error = (reply.change.flat - change.flat).abs()
    padded = torch.nn.functional.pad(change.flat.abs(), (0, -len(change.flat) % BLOCK)).view(-1, BLOCK)
    units = (padded.amax(1) / LARGEST).repeat_interleave(BLOCK)[: len(error)]
    assert bool((error <= (units / 2 if bits == 8 else change.flat.abs() * 2**-8) * 1.0001).all())
    assert bool(error.any())


@EACH
def test_what_rounding_keeps_back_goes_with_the_next_reply(bits: int, tmp_path: Path) -> None:
    """After any number of rounds, all that was sent and what is left add up to all that there was."""
    layer, sent, whole = Narrow(bits=bits), drawn(0).zeros(), drawn(0).zeros()  # type: ignore[arg-type]
    for round_ in range(1, 6):
        change = drawn(round_)
        whole, sent = whole + change, sent + arrived(layer, Update(change, 1), site(tmp_path, round_)).change
    left = site(tmp_path, 6).recall(Residue).left
    torch.testing.assert_close(whole.flat, sent.flat + left, rtol=1e-5, atol=1e-4)
    assert float(left.abs().max()) <= float(whole.flat.abs().max()) / 50


def test_each_change_of_a_reply_has_a_residue_and_another_step_begins_without(tmp_path: Path) -> None:
    layer, update = Narrow(), ScaffoldUpdate(drawn(1), drawn(2), 3)
    reply = arrived(layer, update, site(tmp_path, 1))
    left = site(tmp_path, 2).recall(Residue).left
    lost = [update.change.flat - reply.change.flat, update.control.flat - reply.control.flat]
    torch.testing.assert_close(torch.cat(lost), left)
    assert arrived(layer, update, site(tmp_path, 2, "another")) == reply
    assert arrived(layer, update, site(tmp_path, 2)) != reply


@EACH
@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_a_change_that_is_no_number_is_refused_and_the_next_is_none_the_worse(
    bits: int, number: float, tmp_path: Path
) -> None:
    layer, change = Narrow(bits=bits), drawn(1)  # type: ignore[arg-type]
    arrived(layer, Update(change, 1), site(tmp_path, 1))
    left = site(tmp_path, 2).recall(Residue).left
    assert not finite(arrived(layer, Update(change * number, 1), site(tmp_path, 2)).change)
    assert torch.equal(left, site(tmp_path, 3).recall(Residue).left)
    assert finite(arrived(layer, Update(change, 1), site(tmp_path, 3)).change)


def test_zeros_and_an_empty_model_pass(tmp_path: Path) -> None:
    for change in (drawn(1).zeros(), Weights({"a": torch.zeros(0)})):
        assert Update(change, 1) == arrived(Narrow(), Update(change, 1), site(tmp_path, 1))


def test_what_is_not_as_the_layer_makes_it_stays_so_and_fits_no_study() -> None:
    narrowed = Narrow().narrowed(drawn(1).flat, drawn(1).layout)
    short = Weights({**{name: narrowed[name] for name in ("a", "b")}, UNITS: narrowed[UNITS][:4]})
    early = Weights({UNITS: narrowed[UNITS], "a": narrowed["a"], "b": narrowed["b"]})
    plain = Weights({"a": torch.zeros(3, dtype=torch.int8)})
    assert [short, early, plain] == [widened(value) for value in (short, early, plain)]


# in a run


def uploaded(one: Study) -> int:
    """The bytes of a site's reply to `fit`."""
    return min(seen.reply.nbytes for seen in rehearsed(one) if seen.step == "fit")


def test_the_protocol_tells_the_bytes_that_leave() -> None:
    wide, half, narrow = (uploaded(study(bits)) for bits in (None, 16, 8))
    numbers = 60 * 10 + 10
    assert abs(2 * numbers - (wide - half)) <= 8  # headers are padded
    assert 0 < narrow - numbers < wide - 4 * numbers + 128  # a byte each, the names, and two units


def trained(out: Path) -> dict[str, Tensor]:
    return load_file(out / "model" / "weights.safetensors")


@EACH
def test_a_run_is_the_same_in_every_engine_and_after_a_resume(bits: int, tmp_path: Path) -> None:
    made = study(bits)

    def killed(line: Any) -> None:
        if line.round == 3:
            raise KeyboardInterrupt

    plain = run(study(None), tmp_path / "plain")
    whole = run(made, tmp_path / "whole", checkpoint_seconds=0)
    with pytest.raises(KeyboardInterrupt):
        run(made, tmp_path / "killed", checkpoint_seconds=0, progress=killed)
    run(made, tmp_path / "killed", checkpoint_seconds=0, resume=True)
    run(made, tmp_path / "strict", strict=True)
    run(made, tmp_path / "pool", workers=2)
    expected = trained(tmp_path / "whole")
    for name in ("killed", "strict", "pool"):
        assert all(torch.equal(expected[key], value) for key, value in trained(tmp_path / name).items())
    assert abs(plain.metrics["loss"] - whole.metrics["loss"]) < 0.02 * plain.metrics["loss"]
    assert not torch.equal(trained(tmp_path / "plain")["linear.weight"], expected["linear.weight"])


def test_real_sites_send_the_same_bits_as_simulated_ones(tmp_path: Path) -> None:
    """Through the site process's own code: leave there, in its ledger, and arrive here."""
    made = study(8, rounds=2, sites={"quorum": 2})
    with Consortium(tmp_path, made, SITES) as consortium:
        result: Result = submit(made, tmp_path / "run", consortium.over, wait=1.0)
    run(made, tmp_path / "simulated")
    assert 2 == result.rounds
    expected = trained(tmp_path / "simulated")
    assert all(torch.equal(expected[key], value) for key, value in trained(tmp_path / "run").items())


# where it makes no sense


@pytest.mark.parametrize(
    ("method", "why"),
    [
        ("ridge", "layer narrow: Ridge sends no changes of weights; take the layer out"),
        ("fedproto", "layer narrow: FedProto sends no changes of weights; take the layer out"),
        ("fedatt", "layer narrow: what FedAtt sends with a change has to follow from it exactly; take the layer out"),
    ],
)
def test_it_is_refused_with_methods_that_do_not_add_up_changes(method: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(StudyError) as refused:
        run(study(8, method), tmp_path / "run")
    assert [why] == refused.value.problems


def test_it_is_refused_where_nobody_can_widen_a_reply(tmp_path: Path) -> None:
    with pytest.raises(
        StudyError,
        match=r"layer narrow: privacy\.secure_aggregation lets nobody widen a site's reply; take one of them out",
    ):
        run(study(8, privacy={"secure_aggregation": True}), tmp_path / "run")


def test_a_site_cannot_add_it_alone(tmp_path: Path) -> None:
    text = 'name = "a"\n[data]\nfrom_study = true\n[[layers]]\nname = "narrow"\n'
    (tmp_path / "site.toml").write_text(text, encoding="utf-8")
    with pytest.raises(StudyError, match="layers: Narrow needs the coordinator; a study names it"):
        read_site(tmp_path)

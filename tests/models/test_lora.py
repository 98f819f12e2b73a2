"""Low-rank adapters: a beginning that changes nothing, averages that are exact, one layer again in the end."""

import re
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from encoder_folders import FOREIGN, foreign_encoder, tiny_encoder
from wardround.models.encoder import AnyEncoder
from wardround.models.lora import Adapted, Adapter, adapt, merge
from wardround.models.pretrained import read_encoder
from wardround.runs.build import build
from wardround.runs.loop import run
from wardround.study.load import Study, cells
from wardround.study.settings import StudyError
from wardround.trained.model import load_part

IDS = torch.tensor([[2, 10, 11, 14, 3], [2, 12, 15, 3, 0]])
REAL = torch.tensor([[True] * 5, [True] * 4 + [False]])
KINDS = ("bert", *sorted(FOREIGN))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("kinds")
    return {
        kind: tiny_encoder(place / kind) if kind == "bert" else foreign_encoder(place / kind, kind) for kind in KINDS
    }


def encoder(folder: Path, adapter: Adapter | None = None) -> AnyEncoder:
    whole = read_encoder(folder)
    part = whole.part(range(whole.shape.layers), embeddings=True)
    if adapter:
        adapt(part, adapter)
    return part.eval()


def stirred(model: nn.Module, seed: int = 1) -> nn.Module:
    """The model with adapters that do something."""
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(".up"):
                parameter.copy_(torch.randn(parameter.shape, generator=rng) * 0.1)
    return model


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_an_adapted_encoder_begins_as_it_was_and_ends_as_one_of_its_kind(kind: str, folders: dict[str, Path]) -> None:
    plain, adapted = encoder(folders[kind]), encoder(folders[kind], Adapter(rank=2))
    before = plain(IDS, REAL)[REAL]
    torch.testing.assert_close(before, adapted(IDS, REAL)[REAL])
    assert any(isinstance(module, Adapted) for module in adapted.modules())
    after = stirred(adapted)(IDS, REAL)[REAL]
    assert not torch.allclose(before, after, atol=1e-3)
    merged = merge(adapted)
    assert [name for name, _ in plain.named_parameters()] == [name for name, _ in merged.named_parameters()]
    torch.testing.assert_close(after, merged(IDS, REAL)[REAL], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("fixed", [False, True])
def test_only_adapters_are_trained(fixed: bool, folders: dict[str, Path]) -> None:
    adapted = encoder(folders["bert"], Adapter(rank=2, fixed=fixed))
    ends = {name.rpartition(".")[2] for name, p in adapted.named_parameters() if p.requires_grad}
    assert ({"up"} if fixed else {"up", "down"}) == ends
    adapted(IDS, REAL)[REAL].sum().backward()
    assert all(p.grad is not None for p in adapted.parameters() if p.requires_grad)
    assert all(p.grad is None for p in adapted.parameters() if not p.requires_grad)


def test_adapters_learn_what_is_of_their_rank_at_a_rate_that_a_head_bears(folders: dict[str, Path]) -> None:
    torch.manual_seed(3)  # before what is to be learnt is drawn, too
    aim = encoder(folders["bert"], Adapter(rank=2))
    wanted = stirred(aim)(IDS, REAL)[REAL].detach()
    adapted = encoder(folders["bert"], Adapter(rank=8))
    optimizer = torch.optim.Adam([p for p in adapted.parameters() if p.requires_grad], lr=3e-4)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = (adapted(IDS, REAL)[REAL] - wanted).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.1 * losses[0]


def test_a_step_of_adam_moves_an_adapter_ten_times_as_far_as_the_rate_says() -> None:
    """What it adds is α/r · B A, with A drawn between ±1/√width, and B one step of ten times the rate from zero."""
    torch.manual_seed(3)
    adapted = Adapted(nn.Linear(16, 4), Adapter(rank=2, alpha=6.0), "query")
    drawn = 10 * adapted.down.detach().clone()
    assert 0.2 < float(drawn.abs().max()) <= 16**-0.5
    optimizer = torch.optim.Adam([adapted.up], lr=1e-3)
    adapted(drawn).sum().backward()
    optimizer.step()
    slope = (drawn @ drawn.T).sum(0)  # (rank,): of the sum for each row of B, but for its size
    added = adapted.weight.detach() - adapted.base.weight
    expected = 6.0 / 2 * (-10 * 1e-3 * slope.sign()) @ drawn
    torch.testing.assert_close(added, expected.expand(4, -1), rtol=1e-3, atol=1e-6)


def test_with_adam_four_times_alpha_moves_adapters_four_times_as_fast() -> None:
    moved = []
    for alpha in (16.0, 64.0):
        torch.manual_seed(3)
        adapted = Adapted(nn.Linear(8, 8), Adapter(rank=2, alpha=alpha), "query")
        optimizer = torch.optim.Adam([p for p in adapted.parameters() if p.requires_grad], lr=1e-4)
        before = adapted.weight.detach()
        adapted(torch.ones(1, 8)).sum().backward()
        optimizer.step()
        moved.append(adapted.weight.detach() - before)
    assert moved[0].any()
    torch.testing.assert_close(4 * moved[0], moved[1], rtol=1e-3, atol=1e-7)


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: m.weight.detach() for name, m in model.named_modules() if isinstance(m, Adapted)}


@pytest.mark.parametrize("fixed", [False, True])
def test_with_a_fixed_projection_the_mean_of_adapters_is_the_mean_of_what_they_do(
    fixed: bool, folders: dict[str, Path]
) -> None:
    sites = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        sites.append(stirred(encoder(folders["bert"], Adapter(rank=2, fixed=fixed)), seed))
    mean = encoder(folders["bert"], Adapter(rank=2, fixed=fixed))
    one, two = (dict(site.named_parameters()) for site in sites)
    with torch.no_grad():
        for name, parameter in mean.named_parameters():
            parameter.copy_((one[name] + two[name]) / 2)
    first, second, both = (weights(model) for model in (*sites, mean))
    exact = all(torch.allclose((first[name] + second[name]) / 2, both[name], atol=1e-6) for name in both)
    assert fixed == exact


def test_a_fixed_projection_is_the_same_wherever_it_is_drawn(folders: dict[str, Path]) -> None:
    drawn = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        adapted = encoder(folders["bert"], Adapter(rank=2, fixed=True))
        drawn.append([module.down for module in adapted.modules() if isinstance(module, Adapted)])
    assert all(torch.equal(one, other) for one, other in zip(*drawn, strict=True))
    assert not torch.equal(drawn[0][0], drawn[0][1])


def test_layers_are_chosen_by_the_last_part_of_their_name(folders: dict[str, Path]) -> None:
    chosen = encoder(folders["bert"], Adapter(rank=2, layers=("wide",)))
    assert {"wide"} == {name.rpartition(".")[2] for name, m in chosen.named_modules() if isinstance(m, Adapted)}


# in a study


def study(folder: Path, adapter: dict[str, Any] | None = None, **task: Any) -> Study:
    chosen = {"adapter": adapter} if adapter else {}
    tables = {
        "name": "adapters", "rounds": 2, "method": {"name": "fedavg", "lr": 0.1},
        "task": {"name": "relation", "encoder": str(folder), "remember": False, **chosen, **task},
        "corpus": {"name": "clinic-pairs", "hospitals": 2, "notes": 4, "test_notes": 1},
    }  # fmt: skip
    return cells(tables)[0].study


def test_adapters_and_head_are_all_that_travels_and_is_stored(folders: dict[str, Path], tmp_path: Path) -> None:
    made = study(folders["bert"], {"rank": 2, "fixed": True})
    whole, built = build(study(folders["bert"]), tmp_path / "whole"), build(made, tmp_path / "built")
    names = [*built.weights]
    assert {"up", "weight", "bias"} == {name.rpartition(".")[2] for name in names}
    assert ["classifier.weight", "classifier.bias"] == [name for name in names if not name.endswith("up")]
    assert 20 * built.weights.flat.numel() < whole.weights.flat.numel()
    run(made, tmp_path / "run")
    stored = load_file(tmp_path / "run" / "model" / "weights.safetensors")
    assert {*names} == {*stored}
    network = load_part(tmp_path / "run").network  # which predicts, and which is exported
    assert not any(isinstance(module, Adapted) for module in network.modules())
    adapted = built.task.model()
    adapted.load_state_dict(stored, strict=False)
    layer = "encoder.layers.0.query"
    expected = cast("Adapted", adapted.get_submodule(layer)).weight
    torch.testing.assert_close(expected, cast("nn.Linear", network.get_submodule(layer)).weight)
    assert not torch.equal(expected, cast("Adapted", adapted.get_submodule(layer)).base.weight)


@pytest.mark.parametrize(
    ("adapter", "task", "words"),
    [
        ({"rank": 33}, {}, "adapter.rank = 33 is above the encoder's width, 32; lower it: 8 is usual"),
        ({"rank": 2}, {"freeze": 2}, "adapter: what is trained of the encoder has no linear layer to adapt; lower"),
        ({"rank": 2, "layers": ["qury"]}, {}, "adapter.layers names 'qury', and the encoder has key, mixed, narrow"),
        ({"rank": 0}, {}, "task.adapter.rank = 0: should be greater than or equal to 1"),
        ({"rank": 2, "alhpa": 2.0}, {}, "task.adapter.alhpa is unknown; did you mean 'alpha'?"),
    ],
    ids=str,
)
def test_adapters_that_cannot_be_are_refused(
    adapter: dict[str, Any], task: dict[str, Any], words: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(StudyError, match=re.escape(words)):
        run(study(folders["bert"], adapter, **task), tmp_path / "run")


def test_adapters_are_of_encoders() -> None:
    with pytest.raises(StudyError, match=r"task\.adapter is unknown; it has nothing to set but its name; leave it out"):
        cells({
            "name": "none", "rounds": 1, "method": {"name": "fedavg"}, "corpus": {"name": "synthetic"},
            "task": {"name": "features", "adapter": {"rank": 2}},
        })  # fmt: skip
    with pytest.raises(StudyError, match=r"task: adapter is of an encoder, and model = 'logistic' has none"):
        cells({
            "name": "none", "rounds": 1, "method": {"name": "fedavg"}, "corpus": {"name": "clinic"},
            "task": {"name": "classification", "adapter": {"rank": 2}},
        })  # fmt: skip

"""Where models compute: a border that nobody notices, devices that are not there, precision, memory that runs out."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from encoder_folders import tiny_encoder
from wardround.core.bench import Bench
from wardround.core.device import CPU, OUT_OF_MEMORY, Device, DeviceError, entry, moved, out_of_memory
from wardround.engines.inline import SiteFailed
from wardround.runs.loop import run
from wardround.study.load import Study, cells
from wardround.study.settings import StudyError
from wardround.tasks.features import FeaturesTask

TESTS = Path(__file__).parents[1]
NEAR = 1e-4  # another kernel for attention rounds otherwise


def study(task: Mapping[str, Any], corpus: Mapping[str, Any], **more: Any) -> Study:
    tables = {"name": "device", "rounds": 2, "method": {"name": "fedavg"}, "task": task, "corpus": corpus}
    return cells({**tables, **more})[0].study


def features(**more: Any) -> Study:
    return study({"name": "features"}, {"name": "synthetic", "sites": 2, "largest": 40}, **more)


def trained(out: Path) -> dict[str, Tensor]:
    return load_file(out / "model" / "weights.safetensors")


# another device


def test_every_kind_of_model_computes_on_another_device_as_on_this_one(tmp_path: Path) -> None:
    """One made of Python, which refuses what a GPU refuses: tensors of two devices in one operation."""
    command = [sys.executable, str(TESTS / "second_device.py"), str(tmp_path)]
    environment = {**os.environ, "WARDROUND_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    apart: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    assert {"fedprox", "feded", "ridge-sgd", "tags", "bags"} <= apart.keys()
    assert {} == {name: far for name, far in apart.items() if not isinstance(far, float) or far > NEAR}


class Doubled(nn.Module):
    """A model that is called in two ways, one of which calls the other."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    @entry
    def features(self, inputs: Tensor) -> Tensor:
        seen: Tensor = self.linear(inputs)
        return seen * 2

    def forward(self, inputs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        features = self.features(inputs)
        return features, {"kinds": features, "dtype": torch.zeros(1, dtype=features.dtype)}


def test_what_crosses_a_models_border_is_single_precision_on_the_cpu_and_inside_it_is_not() -> None:
    """On any processor: torch can compute in bf16 where there are no instructions for it, slowly."""
    plain = Doubled()
    model = Device("cpu", "bf16").lend(Doubled())
    model.load_state_dict(plain.state_dict())
    inputs = torch.randn(3, 2)
    features, more = model(inputs)
    assert [torch.float32] * 3 == [features.dtype, more["kinds"].dtype, more["dtype"].dtype]
    narrow = (inputs.bfloat16() @ plain.linear.weight.bfloat16().T + plain.linear.bias.bfloat16()) * 2
    torch.testing.assert_close(narrow.float(), features, rtol=0.02, atol=0.02)
    assert not torch.equal(plain(inputs)[0], features)
    assert torch.equal(features, cast("Doubled", model).features(inputs))


def test_a_model_that_fails_leaves_its_border_as_it_was() -> None:
    model = Device("cpu", "bf16").lend(Doubled())
    with pytest.raises(RuntimeError):
        model(torch.randn(3, 5))
    assert torch.float32 == model(torch.randn(3, 2))[0].dtype
    assert not torch.is_autocast_enabled("cpu")


def test_a_bench_is_of_one_device() -> None:
    task = FeaturesTask(3, 2)
    narrow = Bench.of(task, (), Device("cpu", "bf16"))
    assert narrow is Bench.of(task, (), Device("cpu", "bf16"))
    assert narrow is not Bench.of(task)
    assert torch.float32 == narrow.weights().flat.dtype


def test_everything_in_a_value_moves_and_what_is_no_tensor_stays() -> None:
    value = {"a": [torch.ones(2, dtype=torch.bfloat16), 3], "b": (torch.ones(1, dtype=torch.float64), "x")}
    there = moved(value, "cpu")
    assert (torch.float32, 3, torch.float64, "x") == (
        there["a"][0].dtype, there["a"][1], there["b"][0].dtype, there["b"][1],
    )  # fmt: skip


# precision


def test_bf16_trains_a_model_that_is_stored_in_single_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a processor that has it: the same computation, in more time (of an LSTM, oneDNN has it only there)."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    task = {"name": "relation", "encoder": str(tiny_encoder(tmp_path / "encoder")), "remember": False}
    corpus = {"name": "clinic-pairs", "hospitals": 2, "notes": 4, "test_notes": 1}
    models = {}
    for precision in ("fp32", "bf16"):
        run(study(task, corpus, precision=precision), tmp_path / precision)
        models[precision] = torch.cat([weight.flatten() for weight in trained(tmp_path / precision).values()])
    assert [torch.float32] * 2 == [flat.dtype for flat in models.values()]
    assert not torch.equal(models["fp32"], models["bf16"])
    torch.testing.assert_close(models["fp32"], models["bf16"], rtol=0.1, atol=0.1)


def test_bf16_is_refused_where_the_processor_has_no_instructions_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "avx512_bf16": False})
    with pytest.raises(StudyError, match=r"precision = 'bf16': this processor has no .* set precision = \"fp32\""):
        run(features(precision="bf16"), tmp_path / "run")
    assert CPU == Device.chosen("cpu", "fp32") == Device.chosen(None, None)


# devices that are not there


@pytest.mark.parametrize(
    ("name", "gpus", "cuda", "words"),
    [
        ("cuda", 0, None, 'device = \'cuda\': this torch is built without CUDA; set device = "cpu", or "auto"'),
        ("cuda", 0, "12.8", "device = 'cuda': no GPU is found here (does nvidia-smi show one?); set device = \"cpu\""),
        ("cuda:2", 2, "12.8", "device = 'cuda:2': there is no such GPU, but cuda:0, cuda:1; name one of these"),
        ("mps", 0, None, "device = 'mps': this machine or this torch does not have it; set device = \"cpu\""),
    ],
)
def test_a_device_that_is_not_there_is_refused_with_what_to_do(
    name: str, gpus: int, cuda: str | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(DeviceError, match=re.escape(words)):
        Device.chosen(name)


@pytest.mark.parametrize(("gpus", "mps", "kind"), [(0, False, "cpu"), (0, True, "mps"), (2, False, "cuda")])
def test_auto_is_what_there_is(gpus: int, mps: bool, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert kind == Device.chosen("auto").kind


@pytest.mark.parametrize(
    ("kind", "gpus", "shares"),
    [
        ("cuda", 2, [("cuda:0", 0.5), ("cuda:1", 0.5), ("cuda:0", 0.5)]),
        ("cuda", 4, [("cuda:0", 1.0), ("cuda:1", 1.0), ("cuda:2", 1.0)]),
        ("cuda:1", 2, [("cuda:1", 1 / 3)] * 3),
    ],
)
def test_workers_take_turns_at_the_gpus_and_share_their_memory(
    kind: str, gpus: int, shares: list[tuple[str, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, float]] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch, "use_deterministic_algorithms", lambda **_: None)
    monkeypatch.setattr(
        torch.cuda, "set_per_process_memory_fraction", lambda share, where: seen.append((str(where), share))
    )
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    claimed = [Device(kind).claim(worker, 3).kind for worker in range(3)]
    assert shares == seen
    assert [where for where, _ in shares] == claimed


def test_a_word_that_is_no_device_is_refused_with_all_else_that_is_wrong() -> None:
    with pytest.raises(StudyError) as refused:
        features(device="gpu", precision="half")
    assert [
        'device = \'gpu\': should be "auto", "cpu", "cuda", one of several such as "cuda:1", or "mps"',
        "precision = 'half': should be 'fp32' or 'bf16'",
    ] == refused.value.problems


def test_a_device_that_a_study_does_not_name_is_not_in_its_fingerprint() -> None:
    assert not {"device", "precision"} & features().resolved.keys()
    assert features(device="cpu").fingerprint != features().fingerprint


# memory


@pytest.mark.parametrize("workers", [1, 2])
def test_too_little_memory_is_told_by_name_and_a_run_goes_on_afterwards(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch's own error for the CPU's memory, which a batch of a million billion numbers gets."""
    run(features(), tmp_path / "whole")
    loss, steps = FeaturesTask.loss, 0

    def huge(task: FeaturesTask, model: Any, batch: Any) -> Tensor:
        nonlocal steps
        steps += 1
        if steps == 7:
            torch.empty(10**15)
        return loss(task, model, batch)

    monkeypatch.setattr(FeaturesTask, "loss", huge)
    with pytest.raises(SiteFailed) as failed:
        run(features(), tmp_path / "run", checkpoint_seconds=0, workers=workers)
    assert f": {OUT_OF_MEMORY}; with fewer --workers, go on with --resume" in str(failed.value)
    monkeypatch.setattr(FeaturesTask, "loss", loss)  # as after the study has been given less to do at once
    run(features(), tmp_path / "run", resume=True, checkpoint_seconds=0)
    whole, again = trained(tmp_path / "whole"), trained(tmp_path / "run")
    assert all(torch.equal(whole[name], again[name]) for name in {**whole, **again})


def test_what_a_gpu_says_of_its_memory_is_understood() -> None:
    assert [True, True, False] == [
        out_of_memory(error)
        for error in (torch.OutOfMemoryError("CUDA out of memory"), MemoryError(), RuntimeError("another"))
    ]

"""A second device, made of Python, that any machine has: its tensors live apart from the CPU's and compute as these do.

    python tests/second_device.py FOLDER        # runs studies on both, and prints how far apart they end

What torch refuses on a GPU it refuses here: an operation on tensors of both devices, but for a copy from one to the
other. The arithmetic is the CPU's, so results can be compared to the bit. It is for a process of its own: torch learns
of a backend once, before anything has been differentiated.
"""

import json
import sys
from pathlib import Path
from typing import Any, Self, cast
from unittest.mock import patch

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from encoder_folders import tiny_encoder
from wardround.core.device import Device
from wardround.runs import intervals
from wardround.runs.loop import run
from wardround.study.load import cells

NAME = "second"
COPIES = ("copy_", "_to_copy")

METHODS: dict[str, dict[str, Any]] = {  # a large eps, for Adam makes steps of what is rounding where it should be 0
    "fedprox": {"optimizer": "adamw", "moments": "kept", "clip": 1.0, "accumulate": 2, "lr": 0.01, "eps": 0.01},
    "scaffold": {"lr": 0.1},
    "ridge-sgd": {"every": 1, "penalties": [1.0], "eps": 0.01},
}
CLINIC = {"name": "clinic", "hospitals": 2, "documents": 6, "test_documents": 2}
PAIRS = {"name": "clinic-pairs", "hospitals": 2, "notes": 3, "test_notes": 1}


def studies(encoder: Path) -> dict[str, dict[str, Any]]:
    """Studies by name, which together use most models and what a method can do with one; an LSTM has no kernel here."""
    relation = {"name": "relation", "encoder": str(encoder), "freeze": 1, "dropout": 0.0, "remember": False}
    return {
        **{
            name: {"method": {"name": name, **settings}, "task": relation, "corpus": PAIRS}
            for name, settings in METHODS.items()
        },
        "feded": {"method": {"name": "feded"}, "task": relation, "corpus": PAIRS, "public": {"fraction": 0.3}},
        "a bag of words": {"method": {"name": "fedavg"}, "task": {"name": "classification"}, "corpus": CLINIC},
        "tags": {
            "method": {"name": "fedner", "batch": 4},
            "task": {"name": "tagging", "model": "gram-cnn", "embedding": 4, "character": 3, "filters": 4},
            "corpus": {"name": "clinic", "hospitals": 2, "documents": 2, "test_documents": 1},
            "sites": {"private": ["crf"]},
        },
        "bags": {
            "method": {"name": "lazy-mil"}, "task": {"name": "bags", "filters": 4, "denoiser": "relation-attention"},
            "corpus": {"name": "clinic-bags", "hospitals": 2},
        },
    }  # fmt: skip


class Second(Tensor):
    """A tensor of the second device, around one of the CPU's."""

    inner: Tensor  # type: ignore[assignment]  # of a tensor it is the scalar product, which nobody needs of these

    def __new__(cls, inner: Tensor) -> Self:
        """The wrapper, which has a shape and a device and no numbers."""
        wrapper: Self = Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), storage_offset=inner.storage_offset(), dtype=inner.dtype,
            device=torch.device(NAME, 0),
        )  # fmt: skip
        wrapper.inner = inner
        return wrapper

    @property
    def data(self) -> Tensor:
        """Itself, without a graph."""
        return self.detach()

    @data.setter
    def data(self, other: Tensor) -> None:
        self.inner = cast("Second", other).inner

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch hands over the operation first, and its stubs do not
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """An operation in which such a tensor takes part."""
        return computed(function, args, kwargs or {})


class Both(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own gap
    """Operations that make a tensor of the second device out of none."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Any operation at all."""
        return computed(function, args, kwargs or {})


def computed(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What the CPU makes of it, on the device where it belongs."""
    name = function.overloadpacket.__name__
    tensors = [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, Tensor)]
    seconds = [tensor for tensor in tensors if isinstance(tensor, Second)]
    firsts = [tensor for tensor in tensors if not isinstance(tensor, Second) and tensor.dim()]
    if seconds and firsts and name not in COPIES:
        raise RuntimeError(f"tensors of both devices in {name}")
    wanted = kwargs.get("device")
    here = wanted is not None and torch.device(wanted).type == NAME
    plain = {**kwargs, "device": torch.device("cpu")} if here else kwargs
    result = function(*tree_map(_inner, args), **tree_map(_inner, plain))
    if function._schema.name.endswith("_"):  # torch's only word for what works in place
        return args[0]
    there = here if wanted is not None else bool(seconds)
    return tree_map(lambda value: Second(value) if isinstance(value, Tensor) else value, result) if there else result


def _inner(value: Any) -> Any:
    return value.inner if isinstance(value, Second) else value


def trained(tables: dict[str, Any], out: Path) -> dict[str, Tensor]:
    """The weights that a study ends in."""
    result = run(cells({"name": "bits", "rounds": 2, **tables})[0].study, out)
    weights = out / "model" / "weights.safetensors"
    figures = {name: torch.tensor(float(figure)) for name, figure in result.metrics.items()}
    return {**figures, **(load_file(weights) if weights.exists() else {})}


def apart(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """How far apart two models and their figures are."""
    return max(float((one[name] - other[name]).abs().max()) for name in {**one, **other})


def main() -> None:
    """Run everything twice."""
    _setup_privateuseone_for_python_backend(NAME)
    intervals.DRAWS = intervals.FEWER = 20  # as `conftest` has it
    folder = Path(sys.argv[1])
    far: dict[str, float | str] = {}
    for name, tables in studies(tiny_encoder(folder / "encoder")).items():
        place = folder / name.replace(" ", "-")
        try:
            mode = Both()  # type: ignore[no-untyped-call]  # torch's own gap
            with mode, patch.object(Device, "chosen", return_value=Device(f"{NAME}:0")):
                other = trained(tables, place / "second")
            far[name] = apart(trained(tables, place / "first"), other)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the test shows it
            cause = error.__cause__ or error
            far[name] = f"{type(cause).__name__}: {cause}"[:300]
    sys.stdout.write(json.dumps(far) + "\n")


if __name__ == "__main__":
    main()

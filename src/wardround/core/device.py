"""Where models compute and in which precision: the one place that knows devices.

    device = Device.chosen("cuda", "bf16")       # or a DeviceError that says what to do
    device.lend(model)                           # the model is there now; whoever calls it need not know

Rules of this file:
1. A model has a border. Whoever calls it, or one of its modules, gives tensors of the CPU and gets such; inside, all of
   them are on the device. So methods, tasks, messages, checkpoints and what sites keep hold tensors of the CPU.
2. Weights are in single precision wherever they are. `bf16` is what products are computed in (torch's autocast), and
   what comes out of the model is in single precision again.
3. The same bits are promised for one kind of device, with one version of torch: on a GPU its deterministic kernels are
   chosen, and where it has none two runs may differ in the last digits.
4. A worker process w of n computes on GPU w modulo their number, unless a study names one, and takes at most its share
   of that GPU's memory. The model stays there from site to site; all else is freed after every step.
5. Nothing here wakes a GPU but `claim`, in the process that computes: one that was awake does not survive a fork.
"""

import dataclasses
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import wraps
from math import ceil
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from wardround.core.refusal import Refusal

Precision = Literal["fp32", "bf16"]
F = TypeVar("F", bound=Callable[..., Any])

FAST_BF16 = ("avx512_bf16", "amx_bf16", "bf16")
"""What torch calls the instructions, of Intel and AMD, of Intel's matrix unit, and of ARM."""
CPU_ALLOCATOR = "DefaultCPUAllocator"  # torch raises a plain RuntimeError for the CPU's memory, in its name
OUT_OF_MEMORY = (
    "it ran out of memory, and nothing was lost; lower method.batch (with accumulate, a step has as many examples as "
    "before), task.longest or the number of workers"
)


class DeviceError(Refusal, ValueError):
    """A device or a precision that this machine does not have."""


def entry(method: F) -> F:
    """Mark a method of a module that is called from outside, besides `forward`: it is a part of the model's border."""
    method.entry = True  # type: ignore[attr-defined]  # a mark on a function
    return method


@dataclass(frozen=True)
class Device:
    """A kind of device, with its number if it has several, and the precision of products."""

    kind: str = "cpu"
    precision: Precision = "fp32"

    @classmethod
    def chosen(cls, name: str | None = None, precision: Precision | None = None) -> "Device":
        """The device that a study or a site names; the CPU and `fp32` if it names none."""
        known = _named(name or "cpu")
        if precision == "bf16" and known == "cpu" and not any(torch.cpu.get_capabilities().get(x) for x in FAST_BF16):
            raise DeviceError(
                "precision = 'bf16': this processor has no instructions for it, and would be slower than with fp32; "
                'set precision = "fp32", or leave it out'
            )
        return cls(known, precision or "fp32")

    @property
    def plain(self) -> bool:
        """Whether models compute as they would by themselves."""
        return self == CPU

    def claim(self, worker: int = 0, workers: int = 1) -> "Device":
        """The device as one of so many processes has it, ready to compute."""
        if not self.kind.startswith("cuda"):
            return self
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without which its products are not reproducible
        torch.use_deterministic_algorithms(mode=True, warn_only=True)
        if self.precision == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
            raise DeviceError("precision = 'bf16': this GPU does not have it; set precision = \"fp32\"")
        gpus = 1 if ":" in self.kind else min(torch.cuda.device_count(), workers)
        kind = self.kind if ":" in self.kind else f"cuda:{worker % gpus}"
        torch.cuda.set_per_process_memory_fraction(1 / ceil(workers / gpus), torch.device(kind))
        return dataclasses.replace(self, kind=kind)

    def seed(self, seed: int) -> None:
        """Begin the chance from which dropout draws, wherever it does."""
        torch.default_generator.manual_seed(seed)
        if self.kind.startswith("cuda"):
            torch.cuda.manual_seed(seed)
        elif self.kind == "mps":
            torch.mps.manual_seed(seed)

    def free(self) -> None:
        """Give back what the last step took, for the next site or another process."""
        if self.kind.startswith("cuda"):
            torch.cuda.empty_cache()
        elif self.kind == "mps":
            torch.mps.empty_cache()

    def lend(self, model: nn.Module) -> nn.Module:
        """The model on this device, behind its border."""
        if self.plain:
            return model
        model.to(self.kind)
        border = _Border(self)
        for module in model.modules():
            marked = [name for name in dir(type(module)) if hasattr(getattr(type(module), name), "entry")]
            for name in ("forward", *marked):
                object.__setattr__(module, name, border.around(getattr(module, name)))
        return model

    def products(self) -> AbstractContextManager[object]:
        """Where products are in this precision, of whatever model; weights are made narrow once in it."""
        if self.precision == "fp32":
            return nullcontext()
        return torch.autocast(self.kind.partition(":")[0], torch.bfloat16)


CPU = Device()


class _Border:
    """What the calls of one model pass, once on their way in and once on their way out."""

    def __init__(self, device: Device) -> None:
        self.device, self.inside = device, False

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def crossing(*args: Any, **kwargs: Any) -> Any:
            if self.inside:
                return call(*args, **kwargs)
            args, kwargs = moved((args, kwargs), self.device.kind)
            with self._crossed():
                answer = call(*args, **kwargs)
            return moved(answer, "cpu")

        return crossing

    @contextmanager
    def _crossed(self) -> Iterator[None]:
        kind = torch.device(self.device.kind)
        self.inside = True
        try:
            with ExitStack() as stack:
                if kind.type != "cpu":
                    stack.enter_context(kind)  # what a model makes by itself, such as places, is made there
                stack.enter_context(self.device.products())
                yield
        finally:
            self.inside = False


def moved(value: Any, kind: str) -> Any:
    """The value with all tensors in it on this kind of device; on the CPU, none in half precision."""
    if isinstance(value, Tensor):
        narrow = kind == "cpu" and value.dtype is torch.bfloat16
        return value.to(kind, torch.float32) if narrow else value.to(kind)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(moved(item, kind) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(moved(item, kind) for item in value)
    if isinstance(value, dict):
        return {key: moved(item, kind) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
        return dataclasses.replace(value, **{name: moved(part, kind) for name, part in parts.items()})
    return value


def tried(name: str | None, precision: Precision | None) -> tuple[Device, list[str]]:
    """The device that is named, or the CPU and why it cannot be that."""
    try:
        return Device.chosen(name, precision), []
    except DeviceError as error:
        return CPU, [str(error)]


def out_of_memory(error: BaseException) -> bool:
    """Whether an error is that there was too little memory, on a GPU or here."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and CPU_ALLOCATOR in str(error)
    )


def _named(name: str) -> str:
    """The device of this name, or an error that says which there are."""
    gpus = torch.cuda.device_count()  # by the driver's own list, which wakes nothing
    mps = torch.backends.mps.is_available()
    if name == "auto":
        return "cuda" if gpus else "mps" if mps else "cpu"
    kind, _, number = name.partition(":")
    remedy = 'set device = "cpu", or "auto" for whatever there is'
    if kind == "cuda" and not gpus:
        built = torch.version.cuda is not None
        why = "no GPU is found here (does nvidia-smi show one?)" if built else "this torch is built without CUDA"
        raise DeviceError(f"device = {name!r}: {why}; {remedy}")
    if kind == "cuda" and number and int(number) >= gpus:
        there = ", ".join(f"cuda:{index}" for index in range(gpus))
        raise DeviceError(f"device = {name!r}: there is no such GPU, but {there}; name one of these")
    if kind == "mps" and not mps:
        raise DeviceError(f"device = 'mps': this machine or this torch does not have it; {remedy}")
    return name

"""Homomorphic encryption beside masks: the same numbers, encrypted by CKKS, and behind the masks of nine other sites.

    pip install tenseal; python benchmarks/ckks.py           # 7 MB, five times each, in turns

CKKS as TenSEAL has it, 128 bits of security: polynomials of 8192 coefficients, 4096 numbers in a ciphertext, a scale of
2⁴⁰; once with the moduli of TenSEAL's own examples (60, 40, 40 and 60 bits), which leave room for products, and once
with as few as a sum can do with (60 and 60). Its seconds are those of one site, which encrypts and makes bytes of it;
masks' are those of a site that has agreed on keys with nine others: numbers to fixed point, ten streams added, bytes.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from wardround.core.weights import Weights
from wardround.layers.fixed_point import encode
from wardround.layers.keys import derived, shift
from wardround.methods.fedavg import Update

SLOTS = 4096
MODULI = {"CKKS": [60, 40, 40, 60], "CKKS, for sums alone": [60, 60]}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=7.0)
    parser.add_argument("--others", type=int, default=9, help="sites with which masks are agreed on")
    parser.add_argument("--turns", type=int, default=5)
    chosen = parser.parse_args()
    try:
        import tenseal  # type: ignore[import-not-found]  # noqa: PLC0415 -- no dependency of ours
    except ImportError:
        sys.exit("TenSEAL is not installed, and is what masks are compared with here: pip install tenseal")
    torch.set_num_threads(1)
    numbers = torch.randn(int(chosen.megabytes * 1e6 / 4), generator=torch.Generator().manual_seed(0)) * 0.1
    keys = [derived(b"%d" % number, b"benchmark") for number in range(chosen.others + 1)]
    contexts = {}
    for name, moduli in MODULI.items():
        contexts[name] = tenseal.context(tenseal.SCHEME_TYPE.CKKS, 2 * SLOTS, -1, moduli, n_threads=1)
        contexts[name].global_scale = 2.0**40

    def encrypted(context: Any) -> int:
        pieces = (numbers[start : start + SLOTS] for start in range(0, len(numbers), SLOTS))
        return sum(len(tenseal.ckks_vector(context, piece.tolist()).serialize()) for piece in pieces)

    def masked() -> int:
        ranges = {"change/weight": 16.0}
        coded = encode(Update(Weights({"weight": numbers}), 1), chosen.others + 1, ranges)
        small = coded.narrow.numpy().astype(np.uint32)
        shift([small], keys[: len(keys) // 2], keys[len(keys) // 2 :])
        return len(small.tobytes()) + len(coded.wide.numpy().tobytes())

    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; {chosen.megabytes:g} MB, one site", flush=True)
    works: dict[str, Callable[[], int]] = {name: partial(encrypted, context) for name, context in contexts.items()}
    works["masks"] = masked
    times: dict[str, list[float]] = {name: [] for name in works}
    sizes = {}
    for _ in range(chosen.turns):
        for name, work in works.items():
            seconds, sizes[name] = timed(work)
            times[name].append(seconds)
    for name, mine in times.items():
        low, middle, high = statistics.quantiles(mine, n=4, method="inclusive")
        ratio = statistics.median(one / other for one, other in zip(mine, times["masks"], strict=True))
        print(
            f"{name}: {middle:.2f} s of processor time [{low:.2f} – {high:.2f}], {ratio:.1f} × that of masks; "
            f"{sizes[name] / (4 * len(numbers)):.2f} × the bytes",
            flush=True,
        )


def timed(work: Callable[[], int]) -> tuple[float, int]:
    """Seconds of the processor, and what came out."""
    began = time.process_time()
    size = work()
    return time.process_time() - began, size


if __name__ == "__main__":
    main()

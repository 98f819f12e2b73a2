"""Our CRF beside pytorch-crf: the loss with its gradient, and the best paths.

    python benchmarks/crf.py [--repeats N]

Both get the same emissions; the likelihoods must agree. They take turns; printed are the medians of the times and of
the ratios of neighbours.
"""

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable

import torch
import torchcrf
from torch import Tensor

from wardround.models.crf import CRF
from wardround.runs.loop import one_thread

SIZES = ((21, 30, 7), (64, 30, 7), (64, 60, 21))
"""Sentences, longest sentence, tags: a site's share of FedNER's batch; a whole batch; long sentences and many tags."""


def clocked(work: Callable[[], object]) -> float:
    """Seconds that it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def compared(label: str, theirs: Callable[[], object], ours: Callable[[], object], repeats: int) -> None:
    """Times in turn, and their ratio."""
    theirs(), ours()
    pairs = [(clocked(theirs), clocked(ours)) for _ in range(repeats)]
    other, mine = (statistics.median(column) * 1e3 for column in zip(*pairs, strict=True))
    ratio = statistics.median(first / second for first, second in pairs)
    print(f"  {label:<28} pytorch-crf {other:7.2f} ms   ours {mine:7.2f} ms   {ratio:5.1f} × as fast", flush=True)


def main() -> None:
    """Measure all sizes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=31)
    repeats = parser.parse_args().repeats
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}", end=", ")
    print(f"torch {torch.__version__}, one thread, {repeats} repeats")
    with one_thread():
        for sentences, longest, tags in SIZES:
            mine, other = CRF(tags), torchcrf.CRF(tags, batch_first=True)
            with torch.no_grad():
                other.start_transitions.copy_(mine.start)
                other.end_transitions.copy_(mine.end)
                other.transitions.copy_(mine.transitions)
            lengths = torch.randint(longest // 2, longest + 1, (sentences,))
            lengths[0] = longest
            mask = torch.arange(longest) < lengths[:, None]
            gold = torch.randint(tags, (sentences, longest))
            emissions = torch.randn(sentences, longest, tags, requires_grad=True)

            def ours(mine: CRF = mine, x: Tensor = emissions, y: Tensor = gold, n: Tensor = lengths) -> Tensor:
                likelihood: Tensor = mine(x, y, n).sum()
                likelihood.backward()  # type: ignore[no-untyped-call]
                return likelihood

            def theirs(
                other: torchcrf.CRF = other, x: Tensor = emissions, y: Tensor = gold, m: Tensor = mask
            ) -> Tensor:
                likelihood: Tensor = other(x, y, mask=m)
                likelihood.backward()  # type: ignore[no-untyped-call]
                return likelihood

            if not torch.allclose(ours(), theirs(), rtol=1e-4):
                sys.exit("the two give other likelihoods: no comparison")
            size = f"{sentences} × {longest}, {tags} tags"
            compared(f"{size}, loss", theirs, ours, repeats)
            compared(
                f"{size}, paths",
                lambda other=other, x=emissions, m=mask: other.decode(x, mask=m),  # type: ignore[misc]
                lambda mine=mine, x=emissions, n=lengths: mine.decode(x, n),  # type: ignore[misc]
                repeats,
            )


if __name__ == "__main__":
    main()

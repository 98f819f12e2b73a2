"""What the engine costs where messages are most frequent: FedNER, one exchange per batch.

    python benchmarks/exchanges.py [--repeats N] [--quick]

Three generated hospitals, N = 64 sentences per exchange, private BiLSTM and CRF, Adam at both ends. Two cases: `paper`,
a tagger of the paper's size (200 filters, 2 × 200 states, trained word vectors); and `small`, where an exchange is
short and every microsecond shows. Each is done as a plain PyTorch loop (a model per site, torch.optim.Adam, gradients
averaged by hand) and through the engine: messages checked against the manifest, bytes counted, ledgers at both
ends, private parts and optimisers kept on disk at the end of the round (of 50 exchanges; a pass over a real corpus has
more), a checkpoint at the start and at the end.

Everyone begins with the same weights, takes the same batches, and must end with the same weights. They take turns;
printed are the median of the ratios of neighbours and their quartiles. Outside the clock: reading the data.
"""

import argparse
import copy
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from overhead import Time, Timed
from wardround.core.bench import Bench, belongs
from wardround.core.exchange import Exchange, seeded
from wardround.core.task import Batch
from wardround.engines.inline import Serial
from wardround.layers.ledger import Ledger
from wardround.methods.fedner import FedNER, largest_remainder
from wardround.runs.build import Built, build
from wardround.runs.checkpoint import Checkpoint, save
from wardround.runs.loop import one_thread
from wardround.study.load import cells

AIM = 1.1
CASES: dict[str, dict[str, Any]] = {
    "paper": {"buckets": 5000, "filters": 200, "hidden": 200},
    "small": {"buckets": 500, "embedding": 20, "character": 10, "filters": 20, "hidden": 20},
}
PRIVATE = ("lstm", "crf")


def study(name: str, rounds: int, steps: int, out: Path) -> Built:
    """Three hospitals and FedNER; no dropout, whose draws a plain loop could not repeat."""
    tables = {
        "name": name,
        "rounds": rounds,
        "corpus": {"name": "clinic", "hospitals": 3, "documents": 40, "test_documents": 1},
        "task": {"name": "tagging", "dropout": 0.0, **CASES[name]},
        "method": {"name": "fedner", "steps": steps},
        "sites": {"private": list(PRIVATE)},
    }
    return build(cells(tables)[0].study, out)


def engine(built: Built, out: Path) -> dict[str, Tensor]:
    """All rounds through the engine, with ledger, checkpoints and site memory as in a run."""
    chosen, names = built.study, built.sites.names
    built.host.memory = out / "memory"
    ledger = Ledger(out / "ledger", sites=True)
    serial = Serial(built.host)
    state = chosen.method.start(built.weights, built.cohort(0, names, serial, (ledger,)))
    save(out / "checkpoints", Checkpoint(0, chosen.fingerprint, state))
    for round_ in range(1, chosen.rounds + 1):
        state = chosen.method.round(state, built.cohort(round_, names, serial, (ledger,)))
    ledger.flush()
    save(out / "checkpoints", Checkpoint(chosen.rounds, chosen.fingerprint, state))
    return dict(state.weights)


def bare(built: Built, begins: dict[str, nn.Module]) -> dict[str, Tensor]:
    """The same exchanges as a plain loop."""
    chosen, method = built.study, built.study.method
    assert isinstance(method, FedNER)  # noqa: S101 -- the study says so
    models = {name: copy.deepcopy(model) for name, model in begins.items()}
    sizes = {name: len(built.host.opened(name).train) for name in built.sites.names}
    batches = {name: endless(built, name, largest_remainder(sizes, method.batch)[name]) for name in sizes}
    shared = {name: nn.Parameter(tensor.clone()) for name, tensor in built.weights.items()}
    server = torch.optim.Adam(shared.values(), lr=method.lr)
    own = {
        site: torch.optim.Adam([p for name, p in model.named_parameters() if belongs(name, PRIVATE)], lr=method.lr)
        for site, model in models.items()
    }
    for _ in range(chosen.rounds * method.steps):
        gradients: dict[str, dict[str, Tensor]] = {}
        for site, model in models.items():
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    if name in shared:
                        parameter.copy_(shared[name])
            model.train().zero_grad()
            task = built.host.task_at(site) or built.task
            task.loss(model, next(batches[site])).backward()  # type: ignore[no-untyped-call]
            gradients[site] = {
                name: p.grad.clone() for name, p in model.named_parameters() if name in shared and p.grad is not None
            }
            own[site].step()
        for name, parameter in shared.items():
            parts = [gradients[site][name] * (sizes[site] / sum(sizes.values())) for site in sorted(sizes)]
            parameter.grad = torch.stack(parts).sum(0)
        server.step()
    return {name: parameter.detach() for name, parameter in shared.items()}


def endless(built: Built, name: str, share: int) -> Iterator[Batch]:
    """A site's batches, pass after pass, as FedNER draws them."""
    task, train, epoch = built.host.task_at(name) or built.task, built.host.opened(name).train, 0
    while True:
        rng = torch.Generator().manual_seed(seeded(built.study.seed, name, "pass", epoch))
        yield from task.batches(train, share, rng)
        epoch += 1


def begun(built: Built) -> dict[str, nn.Module]:
    """Each site's model with the private part that it begins with."""
    results = {}
    for name in built.sites.names:
        site = built.host.site(name, Exchange("begin", 0, 0, 0, built.study.seed))
        results[name] = copy.deepcopy(Bench.at(site, built.weights).model)
    return results


def agree(name: str, steps: int, folder: Path) -> None:
    """End the benchmark unless both end with the same weights.

    After few exchanges: Adam makes much of the last bit of a faint gradient, and after fifty that can be two per cent.
    """
    built = study(name, 1, steps, folder)
    theirs, ours = bare(built, begun(built)), engine(built, folder / "first")
    for tensor, begin in built.weights.items():
        if (theirs[tensor] - ours[tensor]).norm() > 0.001 * (theirs[tensor] - begin).norm():
            sys.exit(f"{name}: the engine ends with other weights than the plain loop ({tensor})")


def timed(run: Callable[[Path], dict[str, Tensor]]) -> Time:
    """Seconds of one run."""
    with tempfile.TemporaryDirectory() as folder:
        wall, cpu = time.perf_counter(), time.process_time()
        run(Path(folder))
        return Time(time.perf_counter() - wall, time.process_time() - cpu)


def main() -> None:
    """Measure both cases and print the ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=9, help="how often everyone's turn comes (9)")
    parser.add_argument("--quick", action="store_true", help="one repeat of a few exchanges: does it work at all?")
    options = parser.parse_args()
    rounds, steps, repeats = (1, 2, 1) if options.quick else (1, 50, options.repeats)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}", end=", ")
    print(f"torch {torch.__version__}, one thread, {repeats} repeats of {rounds} rounds of {steps} exchanges")
    with one_thread():
        for name in CASES:
            with tempfile.TemporaryDirectory() as folder:
                agree(name, min(steps, 10), Path(folder))
                built = study(name, rounds, steps, Path(folder))
                begins = begun(built)
                result = Timed()
                for _ in range(repeats):
                    result.bare.append(timed(lambda _, built=built, begins=begins: bare(built, begins)))  # type: ignore[misc]
                    result.mine.append(timed(lambda out, built=built: engine(built, out)))  # type: ignore[misc]
            low, median, high = result.ratio("wall")
            each = sorted(t.wall for t in result.bare)[len(result.bare) // 2] / (rounds * steps) * 1e3
            print(
                f"  {name:<6} bare {each:7.1f} ms per exchange   engine {median:.2f} × bare  [{low:.2f} – {high:.2f}]",
                end="",
            )
            print(f"   CPU {result.ratio('cpu')[1]:.2f} ×   aim ≤ {AIM}", flush=True)


if __name__ == "__main__":
    main()

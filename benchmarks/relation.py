"""The relation model: what the engine costs, what a cached trunk saves, what batches of similar length save.

    python benchmarks/relation.py [--repeats N] [--batch N] [--json FILE] [--quick]

MiniLM (six layers, 384 wide) on generated sentences as long as ChemProt's. Three comparisons, each of the same local
steps done in two ways that take turns; a ratio is that of two neighbours in time, in CPU time of this process (other
work on the machine disturbs it less), and printed are the median and the quartiles.

- *engine over bare*: federated averaging through the engine in one process, as `wardround run` does it, over a plain
  PyTorch loop; four layers frozen and cached on both sides. Both must end with the same weights.
- *cached over plain*: steps with embeddings and four layers frozen, their output computed once before the clock starts,
  over steps in which everything trains; and over steps with the same layers frozen but run again in every step.
- *grouped over fixed*: steps on batches of similar length, padded to their own longest, over the same sentences in
  shuffled batches padded to `longest`; four layers frozen and cached on both sides.
"""

import argparse
import json
import os
import platform
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from torch.nn import functional

from bare import StateDict
from cases import HERE
from overhead import Time, agree, clocked, through
from sentences import Sentences
from wardround.core.bench import Bench
from wardround.core.exchange import seeded
from wardround.engines.inline import Serial
from wardround.federation.sites import opened
from wardround.runs.build import Built, build, drawn
from wardround.runs.loop import one_thread
from wardround.study.load import cells
from wardround.tasks.pair_examples import PairBatch, PairExamples
from wardround.tasks.relation import Relations, RelationTask
from wardround.tasks.trunk import Trunk

Run = Callable[[Path], object]

FROZEN = 4
FEW: dict[str, Any] = {"layers": 2, "freeze": 1}  # where it is only to be seen to work
LR = 0.01


def main() -> None:
    """Measure and print the ratios."""
    options = _options()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}", end=", ")
    print(f"torch {torch.__version__}, one thread, {options.repeats} repeats, batches of {options.batch}")
    results: dict[str, Any] = {}
    with one_thread(), tempfile.TemporaryDirectory() as folder:
        os.environ["WARDROUND_CACHE"] = folder
        steps = 1 if options.quick else 6
        settings = FEW if options.quick else {"freeze": FROZEN}
        for name, mine, theirs, count, aim in _comparisons(Path(folder), options.batch, steps, settings):
            results[name] = compared(name, mine, theirs, count, options.repeats, aim)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=9, help="how often everyone's turn comes (9)")
    parser.add_argument("--batch", type=int, default=8, help="sentences per step (8)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the ratios here")
    parser.add_argument("--quick", action="store_true", help="one cold repeat of one step: does it work at all?")
    options = parser.parse_args()
    if options.repeats < 1 or options.batch < 1:
        parser.error("--repeats and --batch: use 1 or more")
    options.repeats = 1 if options.quick else options.repeats
    return options


def _comparisons(
    folder: Path, size: int, steps: int, settings: Mapping[str, Any]
) -> Iterator[tuple[str, Run, Run, int, float | None]]:
    """Name, the faster way, the slower way, steps in each, and what the ratio should not exceed."""
    built = _study(folder, size, steps, settings)
    engine = Serial(built.host)
    model = built.task.model().train()
    agree({"bare": _bare(built, model), "serial": through(built, engine, folder / "warm")})
    count = steps * len(built.sites.names) * built.study.rounds
    yield "engine / bare", lambda out: through(built, engine, out), lambda _: _bare(built, model), count, 1.05

    corpus: Any = opened(Sentences(count=2 * size * steps))
    cached, plain = (Relations(**{**settings, **more}).bind(corpus) for more in ({}, {"freeze": "nothing"}))
    examples, whole = (task.examples(corpus.pool()[0]) for task in (cached, plain))
    batches, tokens = (_batches(task, mine, size, steps) for task, mine in ((cached, examples), (plain, whole)))
    yield "cached / plain", _steps(cached, batches), _steps(plain, tokens), steps, 0.35
    yield "cached / frozen, not cached", _steps(cached, batches), _uncached(cached, tokens), steps, None

    rows = torch.randperm(len(examples), generator=torch.Generator().manual_seed(0))[: size * steps]
    fixed = [_widened(examples.batch(part), cached.settings.longest) for part in torch.split(rows, size)]
    ordered = rows[torch.argsort(examples.tokens.lengths[rows])]
    grouped = [examples.batch(part) for part in torch.split(ordered, size)]
    yield "grouped / fixed length", _steps(cached, grouped), _steps(cached, fixed), steps, None


def compared(name: str, mine: Run, theirs: Run, steps: int, repeats: int, aim: float | None) -> dict[str, Any]:
    """The ratio of two ways to do the same steps, which take turns."""
    pairs: list[tuple[Time, Time]] = []
    warm = int(repeats > 1)  # the first of each warms up, where there are several
    for _ in range(repeats + warm):
        other = clocked(cast("Any", theirs))
        pairs.append((clocked(cast("Any", mine)), other))
    pairs = pairs[warm:]
    ratios = [one.cpu / other.cpu for one, other in pairs]
    low, median, high = statistics.quantiles(ratios, n=4, method="inclusive") if repeats > 1 else ratios * 3
    each, others = (statistics.median(pair[side].cpu for pair in pairs) / steps * 1e3 for side in (0, 1))
    line = f"  {name:<28} {each:7.1f} ms / {others:7.1f} ms per step   {median:.2f}  [{low:.2f} – {high:.2f}]"
    print(line + (f"   aim ≤ {aim}" if aim else ""), flush=True)
    return {"ratio": median, "quartiles": [low, high], "aim": aim, "milliseconds": [each, others]}


# the steps


def _batches(task: RelationTask, examples: PairExamples, size: int, steps: int) -> list[PairBatch]:
    """The same sentences for every task."""
    batches = task.batches(examples, size, torch.Generator().manual_seed(0))
    return list(batches)[:steps]


def _steps(task: RelationTask, batches: list[PairBatch]) -> Run:
    def work(_: Path) -> None:
        bench = Bench.of(task)
        for batch in batches:
            bench.gradient.zero_()
            task.loss(bench.model.train(), batch).backward()  # type: ignore[no-untyped-call]  # torch's own gap
            bench.flat.add_(bench.gradient, alpha=-LR)

    return work


def _uncached(task: RelationTask, batches: list[PairBatch]) -> Run:
    """The frozen layers run again in every step."""
    trunk = cast("Trunk", task.trunk).encoder

    def work(out: Path) -> None:
        for batch in batches:
            with torch.no_grad():
                states = trunk(batch.inputs, batch.real)
            _steps(task, [replace(batch, inputs=states)])(out)

    return work


def _widened(batch: PairBatch, longest: int) -> PairBatch:
    """The batch padded to a fixed length."""
    more = longest - batch.real.shape[1]
    inputs, real = functional.pad(batch.inputs, (0, 0, 0, more)), functional.pad(batch.real, (0, more))
    return replace(batch, inputs=inputs, real=real)


# engine and bare loop


def _study(folder: Path, size: int, steps: int, settings: Mapping[str, Any]) -> Built:
    tables = {
        "name": "relation",
        "rounds": 1,
        "corpus": {"name": "sentences:Sentences", "count": 4 * size * (steps + 1)},
        "task": {"name": "relation", **settings},
        "partition": {"name": "iid", "sites": 4},
        "method": {"name": "fedavg", "batch": size, "steps": steps, "lr": LR},
    }
    return build(cells(tables, folder=HERE)[0].study, folder / "run")


def _bare(built: Built, model: nn.Module) -> StateDict:
    """Federated averaging as a plain loop: load, train, average."""
    task, method = cast("RelationTask", built.task), cast("Any", built.study.method)
    weights = dict(built.weights)
    for round_ in range(1, built.study.rounds + 1):
        trained: list[tuple[int, StateDict]] = []
        for site in drawn(built.study, built.sites.names, round_):
            model.load_state_dict(weights)
            examples = built.host.opened(site).train
            seed = seeded(built.study.seed, round_, site, "fit")
            torch.manual_seed(seed)  # dropout
            optimizer = torch.optim.SGD(model.parameters(), lr=method.lr)
            batches = task.batches(cast("PairExamples", examples), method.batch, torch.Generator().manual_seed(seed))
            for _, batch in zip(range(method.steps), batches, strict=False):
                b = batch
                optimizer.zero_grad()
                functional.cross_entropy(model(b.inputs, b.real, b.places, b.parts), b.labels).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            trained.append((len(examples), {name: value.clone() for name, value in model.state_dict().items()}))
        total = sum(count for count, _ in trained)
        weights = {
            name: torch.stack([state[name] * (count / total) for count, state in trained]).sum(0) for name in weights
        }
    return weights


if __name__ == "__main__":
    main()

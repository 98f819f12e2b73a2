"""What a round of Lazy MIL costs beyond its forward and backward passes: with the engine and without.

    python benchmarks/lazy_mil.py [--repeats N] [--quick]

Twenty sites of generated sentences, a PCNN with 230 filters, all sites in each round: every sentence is scored, the
surest of each fact is chosen over all sites, and each site trains on what it was left with. Done

- *bare*: a plain PyTorch loop over padded tensors, with a dict for the choice, no messages, no checks, no ledger;
- *serial*: through the engine in one process, with the ledger and the round's checkpoint as in a run.

Both score and train on the same sentences in the same batches and must end with the same weights, or the script stops.
They take turns; what is printed is the median of the ratios of neighbours, and their quartiles.
"""

import argparse
import os
import platform
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional

from bare import StateDict
from overhead import Timed, agree, clocked, through
from wardround.clinic.bags import ClinicBags
from wardround.core.exchange import seeded
from wardround.engines.inline import Serial
from wardround.formats.bags import write_bags
from wardround.methods.lazy_mil import LazyMIL
from wardround.models.pcnn import PCNN
from wardround.runs.build import Built, build
from wardround.runs.loop import one_thread
from wardround.study.load import cells
from wardround.tasks.batching import grouped
from wardround.text.facts import BagSentence

AIM = 1.1

STUDY: dict[str, Any] = {
    "name": "lazy-mil",
    "rounds": 1,  # of a second one, sentences that two sites share would tie or not by the last bit of the first
    "corpus": {"format": "bags", "train": "bags.jsonl", "test": "bags.jsonl"},
    "task": {"name": "bags"},
    "method": {"name": "lazy-mil", "batch": 32, "epochs": 3, "lr": 0.1},
}


@dataclass(frozen=True)
class Padded:
    """A site's sentences as a plain loop would have them."""

    name: str
    tokens: Tensor
    lengths: Tensor
    heads: Tensor
    tails: Tensor
    relations: Tensor
    facts: list[int]

    def scores(self, model: PCNN, rows: Tensor) -> Tensor:
        """The model's scores of these sentences, padded to the longest among them."""
        longest = int(self.lengths[rows].max())
        return cast("Tensor", model(self.tokens[rows, :longest], self.heads[rows], self.tails[rows]))


def padded(built: Built) -> list[Padded]:
    """All sites, read before the clock starts."""
    results = []
    for name in built.sites.names:
        train = cast("Any", built.sites.open(name).train)
        numbers, count = train.numbers, len(train.numbers.heads)
        rows, owner = train.bags.take(torch.arange(len(train.bags)))
        facts = torch.empty(count, dtype=torch.int64)
        facts[rows] = train.facts[owner]
        tokens = numbers.tokens.padded(torch.arange(count))
        results.append(
            Padded(
                name, tokens, numbers.tokens.lengths, numbers.heads, numbers.tails, numbers.relations, facts.tolist()
            )
        )
    return results


def bare(built: Built, sites: list[Padded]) -> StateDict:
    """Lazy MIL as a plain loop."""
    method = cast("LazyMIL", built.study.method)
    model = cast("PCNN", built.task.model())
    weights = {name: tensor.clone() for name, tensor in built.weights.items()}
    for round_ in range(1, built.study.rounds + 1):
        best: dict[int, tuple[float, int, int]] = {}
        model.load_state_dict(weights)
        model.eval()
        for place, site in enumerate(sites):
            rows = torch.argsort(site.lengths, stable=True)
            vectors = torch.empty(len(rows), model.classifier.in_features)
            with torch.no_grad():
                vectors[rows] = model.encode(site.tokens[rows], site.heads[rows], site.tails[rows])
                told = model.classifier(vectors).softmax(1)[torch.arange(len(rows)), site.relations]
            for row, (fact, value) in enumerate(zip(site.facts, told.tolist(), strict=True)):
                if fact not in best or value > best[fact][0]:
                    best[fact] = (value, place, row)
        kept: list[dict[int, int]] = [{} for _ in sites]
        for fact, (_, place, row) in best.items():
            kept[place][fact] = row
        trained = []
        for site, mine in zip(sites, kept, strict=True):
            model.load_state_dict(weights)
            model.train()
            optimizer = torch.optim.SGD(model.parameters(), lr=method.lr)
            rows = torch.tensor([mine[fact] for fact in sorted(mine)], dtype=torch.int64)
            rng = torch.Generator().manual_seed(seeded(built.study.seed, round_, site.name, "fit_chosen"))
            for _ in range(method.epochs if len(rows) else 0):
                for batch in grouped(site.lengths[rows], method.batch, rng):
                    optimizer.zero_grad()
                    loss = functional.cross_entropy(site.scores(model, rows[batch]), site.relations[rows[batch]])
                    loss.backward()  # type: ignore[no-untyped-call]  # torch's own gap
                    optimizer.step()
            trained.append({name: value.clone() for name, value in model.state_dict().items()})
        weights = {name: torch.stack([state[name] for state in trained]).mean(0) for name in weights}
    return weights


def main() -> None:
    """Measure and print the ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=11, help="how often each one's turn comes (11)")
    parser.add_argument("--quick", action="store_true", help="one repeat of a small study: does it work at all?")
    options = parser.parse_args()
    count, size = (3, 30) if options.quick else (20, 80)
    repeats = 1 if options.quick else options.repeats
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}", end=", ")
    print(f"torch {torch.__version__}, one thread, {repeats} repeats")
    with one_thread(), tempfile.TemporaryDirectory() as folder:
        generated = ClinicBags(hospitals=count, sentences=size).documents("train")
        # As a file of bags, which does not say what is true: a site then keeps no notes for the report's sake.
        lines = write_bags(cast("Iterator[BagSentence]", generated))
        (Path(folder) / "bags.jsonl").write_text("\n".join(lines), encoding="utf-8")
        tables = {**STUDY, "partition": {"name": "iid", "sites": count}}
        built = build(cells(tables, folder=Path(folder))[0].study, Path(folder))
        sites = padded(built)
        serial = Serial(built.host)
        agree({"bare": bare(built, sites), "serial": through(built, serial, Path(folder) / "first", before=False)})
        results = Timed()
        for _ in range(repeats):
            results.bare.append(clocked(lambda _: bare(built, sites)))
            results.mine.append(clocked(lambda out: through(built, serial, out, before=False)))
    low, median, high = results.ratio("wall")
    per_round = sorted(time.wall for time in results.mine)[len(results.mine) // 2] / built.study.rounds
    print(f"serial {per_round * 1e3:,.0f} ms a round   {median:.2f} × bare  [{low:.2f} – {high:.2f}]", end="   ")
    print(f"CPU {results.ratio('cpu')[1]:.2f} ×   aim ≤ {AIM}")


if __name__ == "__main__":
    main()

"""A look at finished runs: do the platforms help each other, and how well are the training sentences learnt.

    python studies/fedner/look.py runs/fedner-measured/private=lstm+crf,seed=0

Transfer: the cosine between the gradient of the shared part on one platform's training sentences (rows) and on each
platform's test sentences (columns), without dropout. On the diagonal stands what training alone gives; beside it, what
the others add (above 0) or spoil (below). First at the beginning, when no part has learnt anything, then at the end.
Then the strict F1 of each platform on its training and on its test sentences; this also where nothing is shared.
"""

import sys
from itertools import islice
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from wardround.core.bench import Bench
from wardround.core.exchange import Exchange
from wardround.core.weights import Weights
from wardround.runs.build import Built, build
from wardround.runs.loop import one_thread
from wardround.study.load import load_study

BATCHES = 10  # of 40 sentences


def gradient(built: Built, name: str, weights: Weights, split: str, round_: int) -> Tensor:
    """Of the shared part, the mean over some sentences of a site."""
    site = built.host.site(name, Exchange("look", round_, 1, 0, built.study.seed))
    bench = Bench.at(site, weights)
    bench.model.eval()
    bench.gradient.zero_()
    rng = torch.Generator().manual_seed(0)
    for batch in islice(site.task.batches(site.data.split(split), 40, rng), BATCHES):
        site.task.loss(bench.model, batch).backward()  # type: ignore[no-untyped-call]  # torch's own gap
    return bench.shared_gradient.clone()


def table(built: Built, weights: Weights, round_: int) -> None:
    """Print the cosines of all pairs."""
    names = built.sites.names
    train, test = (
        {name: gradient(built, name, weights, split, round_) for name in names} for split in ("train", "test")
    )
    print("trained on \\ tried on", *names, sep="\t")
    for one in names:
        cosines = (torch.cosine_similarity(train[one], test[other], 0) for other in names)
        print(one, *(f"{float(cosine):+.2f}" for cosine in cosines), sep="\t")


def learnt(built: Built, weights: Weights, round_: int) -> None:
    """Print how much of the training sentences each site's model knows, beside the test sentences."""
    for name in built.sites.names:
        site = built.host.site(name, Exchange("look", round_, 1, 0, built.study.seed))
        model = Bench.at(site, weights).model.eval()
        told = (site.task.metrics(site.task.count(model, site.data.split(split))) for split in ("train", "test"))
        print(name, "train, test:", *(f"{100 * metrics['f1']:.1f}" for metrics in told))


def main() -> None:
    """All of it for each run."""
    with one_thread():
        for run in map(Path, sys.argv[1:]):
            (cell,) = load_study(run / "study.toml")
            begun = build(cell.study, run / "none")  # no site has kept anything there
            if begun.weights:
                print(f"{run.name}, at the beginning")
                table(begun, begun.weights, 1)
            print(f"{run.name}, after {cell.study.rounds} rounds")
            found, built = load_file(run / "model" / "weights.safetensors"), build(cell.study, run)
            end = Weights({name: found[name] for name in built.weights})
            if end:
                table(built, end, cell.study.rounds + 1)
            learnt(built, end, cell.study.rounds + 1)


if __name__ == "__main__":
    main()

"""How near do our steps come to the exact fit, in one place and over sites? On held-out texts, in 20 rounds.

    WARDROUND_DATA=… python studies/baselines/steps.py runs/steps [NAME…]     # needs wardround[baselines]

Texts are those of `rows.py`, dealt to five sites by the study's own partition; rows, loss, class weights, pull and
batches are ours, and so are the steps, taken on rows that `rows.narrowed` turned: the same model with a number for
each text in place of 2¹⁶. *Skewed* sites have classes by a Dirichlet draw with α = 0.3. In each cell the first figure
(accuracy; PsyTAR: micro-F1) and macro-F1; the last column is how far the loss of all texts, with its pull, is above
that of the exact fit, mean over corpora.
"""

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from choose import HERE, SEED, widened  # type: ignore[import-not-found]  # stands beside this file
from rows import MOST, counted, halves, narrowed  # type: ignore[import-not-found]  # likewise
from sklearn.metrics import accuracy_score, f1_score
from torch import Tensor

from wardround.federation.partition import dirichlet
from wardround.runs.build import build
from wardround.study.load import cells
from wardround.tasks.batching import grouped
from wardround.tasks.text_examples import TextBatch, class_weights, label_numbers, weighted_loss
from wardround.tasks.weighing import RAREST, SHRINKAGE
from wardround.text.texts import Texts

ROUNDS, BATCH = 20, 16
ALPHA = 0.3


@dataclass(frozen=True)
class Steps:
    """A way to train."""

    place: str = "sites"
    """*one*, *sites*, or *skewed* sites."""
    passes: int = 1
    lr: float = 8.0
    momentum: float = 0.0
    mean: bool = False
    """Whether a site gives the mean of its weights over a round's steps, in place of the last."""
    together: bool = False
    """Whether class weights follow from the labels of all sites, in place of a site's own."""


VARIANTS: Mapping[str, Steps | None] = {
    "exact": None,
    "one place": Steps("one"),
    "one place, mean of steps": Steps("one", mean=True),
    "FedAvg": Steps(),
    "FedAvg, mean of steps": Steps(mean=True),
    "FedAvg, class weights of all sites": Steps(together=True),
    "FedAvg, rate 16": Steps(lr=16.0),
    "FedAvg, rate 4, momentum 0.75": Steps(lr=4.0, momentum=0.75),
    "FedAvg, two passes": Steps(passes=2),
    "FedAvg, two passes, class weights of all": Steps(passes=2, together=True),
    "FedAvg, four passes": Steps(passes=4),
    "skewed": Steps("skewed"),
    "skewed, two passes": Steps("skewed", passes=2),
    "skewed, two passes, class weights of all": Steps("skewed", passes=2, together=True),
}

Model = tuple[Tensor, Tensor]  # weights (numbers, labels), bias (labels,)


@dataclass(frozen=True, eq=False)
class Held:
    """Texts to fit and to judge by, as rows."""

    fit: Tensor
    judge: Tensor
    truth: Tensor
    judged: Tensor
    lengths: Tensor
    sites: Tensor
    labels: int

    @property
    def several(self) -> bool:
        """Whether a text may have several labels."""
        return self.truth.dim() > 1

    def weights(self, rows: Tensor) -> Tensor:
        """Class weights by the labels of these texts."""
        balanced = class_weights(self.truth[rows], self.labels, "balanced", several=self.several)
        assert balanced is not None  # noqa: S101 -- there are texts
        return balanced

    def loss(self, scores: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
        """Mean loss of these texts, without the pull."""
        return weighted_loss(scores, TextBatch(None, self.truth[rows], rows), weights, several=self.several)

    @property
    def pull(self) -> float:
        """λ, of the mean loss."""
        return SHRINKAGE / len(self.fit)

    def objective(self, model: Model) -> Tensor:
        """What a fit in one place makes least."""
        everything = torch.arange(len(self.fit))
        scores = self.fit @ model[0] + model[1]
        return self.loss(scores, everything, self.weights(everything)) + self.pull / 2 * model[0].square().sum()

    def figures(self, model: Model) -> tuple[float, float]:
        """The first figure and macro-F1 on what was held out."""
        scores, truth = (self.judge @ model[0] + model[1]), self.judged.numpy()
        if self.several:
            answers = (scores > 0).numpy()
            return tuple(f1_score(truth, answers, average=over, zero_division=0) for over in ("micro", "macro"))
        answers = scores.argmax(1).numpy()
        return accuracy_score(truth, answers), f1_score(truth, answers, average="macro")

    def begun(self) -> Model:
        """All zero."""
        return torch.zeros(self.fit.shape[1], self.labels), torch.zeros(self.labels)


def held_out(name: str, out: Path) -> Iterator[Held]:
    """The texts of each seed."""
    for seed in range(SEED, SEED + (3 if name.startswith("clinic") else 1)):
        built = build(cells(widened(name) | {"seed": seed}, where=name, folder=HERE)[0].study, out)
        raw: Any = built.raw
        task: Any = built.task
        drawn = np.random.default_rng(0)
        mine: list[Any] = [
            (document, at) for at, site in enumerate(raw.names) for document in raw.raw(site)[0].documents
        ]
        others = [document for site in raw.names for document in raw.valid(site).documents]
        mine = [mine[at] for at in drawn.permutation(len(mine))[: MOST[0]]]
        judge = Texts(tuple(others[at] for at in drawn.permutation(len(others))[: MOST[1]]))
        fit, sites = Texts(tuple(one for one, _ in mine)), torch.tensor([at for _, at in mine])
        seen = [counted(task, texts) for texts in (fit, judge)]
        by_site = [(seen[0][(sites == at).numpy()] > 0).sum(0).A1 for at in range(len(raw.names))]
        total = sum(np.where(counts >= RAREST, counts, 0) for counts in by_site)
        rows = [torch.from_numpy(part).float() for part in narrowed(*halves(*seen, total))]
        truths = [label_numbers(texts, task.labels, several=task.settings.several) for texts in (fit, judge)]
        lengths = torch.from_numpy(seen[0].sum(1).A1).long()
        yield Held(rows[0], rows[1], truths[0], truths[1], lengths, sites, len(task.labels))


def exact(held: Held) -> Model:
    """The fit in one place, by L-BFGS."""
    model = tuple(part.requires_grad_() for part in held.begun())
    descent = torch.optim.LBFGS(model, max_iter=200, history_size=20, line_search_fn="strong_wolfe")

    def value() -> Tensor:
        descent.zero_grad()
        objective = held.objective((model[0], model[1]))
        objective.backward()  # type: ignore[no-untyped-call]
        return objective

    descent.step(value)  # type: ignore[no-untyped-call]
    return model[0].detach(), model[1].detach()


def local(
    held: Held, rows: Tensor, begun: Model, steps: Steps, lr: float, weights: Tensor, rng: torch.Generator
) -> Model:
    """A site's model after a round."""
    words, bias = begun[0].clone(), begun[1].clone()
    speed, means = [torch.zeros_like(words), torch.zeros_like(bias)], [torch.zeros_like(words), torch.zeros_like(bias)]
    batches = [part for _ in range(steps.passes) for part in grouped(held.lengths[rows], BATCH, rng)]
    for part in batches:
        chosen = rows[part]
        scores = (held.fit[chosen] @ words + bias).requires_grad_()  # (B, labels)
        (gradient,) = torch.autograd.grad(held.loss(scores, chosen, weights), scores)  # (B, labels)
        both = held.fit[chosen].T @ gradient + held.pull * words, gradient.sum(0)
        for at, (moved, direction) in enumerate(zip((words, bias), both, strict=True)):
            speed[at] = speed[at] * steps.momentum + direction
            moved.sub_(speed[at], alpha=lr)
            means[at].add_(moved, alpha=1 / len(batches))
    return (means[0], means[1]) if steps.mean else (words, bias)


def trained(held: Held, steps: Steps) -> Model:
    """The model after all rounds, with the cosine of `LocalTraining`."""
    rng = torch.Generator().manual_seed(0)
    sites = {"one": torch.zeros_like(held.sites), "sites": held.sites}.get(steps.place)
    if sites is None:
        sites = torch.empty_like(held.sites)
        chance = np.random.default_rng(3)
        for at, members in enumerate(dirichlet(held.truth.numpy(), 5, ALPHA, chance)):
            sites[torch.from_numpy(members)] = at
    rows = [part for at in range(int(sites.max()) + 1) if len(part := (sites == at).nonzero().flatten())]
    weights = [held.weights(torch.arange(len(held.fit)) if steps.together else part) for part in rows]
    model = held.begun()
    for done in range(ROUNDS):
        lr = steps.lr * (1 + math.cos(math.pi * done / ROUNDS)) / 2
        replies = [local(held, part, model, steps, lr, mine, rng) for part, mine in zip(rows, weights, strict=True)]
        shares = [len(part) / len(held.fit) for part in rows]
        words, bias = (
            sum((reply[at] * share for reply, share in zip(replies, shares, strict=True)), torch.zeros(()))
            for at in (0, 1)
        )
        model = words, bias
    return model


def measured(name: str, out: Path) -> Iterator[tuple[str, tuple[float, float, float]]]:
    """Of each variant, the figures and how far its loss is above the least."""
    for held in held_out(name, out):
        least = float(held.objective(best := exact(held)))
        for variant, steps in VARIANTS.items():
            if steps and steps.place == "skewed" and held.several:
                continue
            model = trained(held, steps) if steps else best
            yield variant, (*held.figures(model), float(held.objective(model)) - least)


if __name__ == "__main__":
    torch.set_num_threads(1)
    place, *chosen = sys.argv[1:] or ["runs/steps"]
    names = chosen or sorted(path.stem for path in HERE.glob("*.toml") if "centralised" in path.read_text("utf-8"))
    table: dict[str, list[str]] = {variant: [] for variant in VARIANTS}
    gaps: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for study in names:
        results: dict[str, list[tuple[float, float, float]]] = {variant: [] for variant in VARIANTS}
        for variant, triple in measured(study, Path(place)):
            results[variant].append(triple)
        for variant, triples in results.items():
            means = np.mean(triples, 0) if triples else None
            table[variant].append("–" if means is None else f"{means[0]:.3f} / {means[1]:.3f}")
            gaps[variant] += [] if means is None else [float(means[2])]
        print(study, file=sys.stderr, flush=True)
    print(f"| steps | {' | '.join(names)} | loss |\n|{'---|' * (len(names) + 2)}")
    for variant, entries in table.items():
        print(f"| {variant} | {' | '.join(entries)} | {np.mean(gaps[variant]):+.3f} |")

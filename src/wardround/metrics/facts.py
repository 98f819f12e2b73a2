"""Precision and recall over facts: counts that add over sites, and the curve and figures made of them.

A prediction is a pair with a relation other than NA, and its score; it is right if the pair has that fact. Predictions
are ranked by score, over all pairs together.

- `pr_auc`: the area under precision over recall, by trapezoids between the points of all predictions, without an
  added point (0, 1). Recall is of all facts of the split.
- `pr_auc_2000`: the same over the first 2000 predictions only, as papers report NYT10.
- `p_100`, `p_200`, `p_300`, `p_mean`: precision among the first 100, 200 and 300, and the mean of the three.
- `max_f1`: the largest F1 along the curve.
- `expressed`: the share of a split's sentences of facts, by the weight that the denoiser gives them, that truly say
  their fact, where that is known (generated texts). On the training split that is what training looks at, and under
  Lazy MIL what was chosen in the round.
- `loss`: mean cross-entropy per bag, as in training (natural logarithm).

To add over sites, each site counts its right and wrong predictions in bands of score: 4096 bands of the log-odds
log p/(1 − p) from −20 to 20, each 0.0098 wide. Within a band the order is not known and the right ones are taken as
evenly spread: all that a curve made of sums loses. A pair that several sites test counts at each of them. Of each
relation it is counted besides how many facts are `there`, how many pairs likelier than not to have it were `told`, and
how many of these `truly` do.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from wardround.core.weights import Layout

BANDS = 4096
EDGE = 20.0
TOP = 2000
RANKS = (100, 200, 300)
EACH = ("there", "told", "truly")
TOTALS = ("facts", "pairs", "loss", "bags", "chosen", "expressed")

DEFINITIONS = {
    "pr_auc": "area under precision over recall of facts (pairs with a relation other than NA), by trapezoids over all "
    "predictions, without an added point (0, 1); scores in bands of 0.0098 log-odds",
    "pr_auc_2000": "the same over the first 2000 predictions",
    "p_100": "precision among the 100 surest predictions",
    "p_200": "precision among the 200 surest predictions",
    "p_300": "precision among the 300 surest predictions",
    "p_mean": "mean of precision at 100, 200 and 300",
    "max_f1": "largest F1 along the precision–recall curve",
    "expressed": "share of the split's sentences of facts, by the weight that the denoiser gives them, that truly say "
    "their fact, known of generated texts only; on the training split that is what training looks at, and under Lazy "
    "MIL what was chosen in the round",
    "loss": "mean cross-entropy per bag (natural logarithm)",
}


class Curve:
    """Precision and recall after each prediction, the surest first."""

    def __init__(self, right: Tensor, wrong: Tensor, facts: float) -> None:
        """From counts of right and wrong predictions, in descending bands of score."""
        sizes = (right + wrong).long()  # (bands,)
        band = torch.repeat_interleave(sizes)  # (N,): the band of each prediction
        rank = torch.arange(1, len(band) + 1, dtype=torch.float64)  # (N,)
        before = (torch.cumsum(sizes, 0) - sizes)[band]  # (N,)
        hits_before = (torch.cumsum(right, 0) - right)[band]  # (N,)
        hits = hits_before + right[band] * (rank - before) / sizes[band]  # (N,)
        self.precision = hits / rank  # (N,)
        self.recall = hits / max(facts, 1.0)  # (N,)

    def __len__(self) -> int:
        return len(self.precision)

    def area(self, top: int | None = None) -> float:
        """The area up to the first `top` predictions, or under all."""
        return float(torch.trapezoid(self.precision[:top], self.recall[:top]))

    def at(self, count: int) -> float:
        """The precision among the first `count` predictions."""
        return float(self.precision[count - 1])

    @property
    def max_f1(self) -> float:
        """The largest harmonic mean of precision and recall."""
        both = self.precision + self.recall
        return float((2 * self.precision * self.recall / both.clamp(min=1e-20)).max())

    def points(self, most: int) -> list[tuple[float, float]]:
        """At most so many (recall, precision) along the curve, its ends among them."""
        steps = torch.linspace(0, len(self) - 1, min(most, len(self))).round().long()
        return list(zip(self.recall[steps].tolist(), self.precision[steps].tolist(), strict=True))


def log_odds(scores: Tensor) -> Tensor:
    """Scores before the softmax (…, relations) as log p/(1 − p), exact where p is near 1."""
    logs = scores.double().log_softmax(-1)
    return logs - torch.log(-torch.expm1(logs.clamp(max=-1e-300)))


def score_bands(odds: Tensor, truth: Tensor) -> dict[str, Tensor]:
    """Right and wrong predictions by band of log-odds, from the highest down."""
    place = ((EDGE - odds.clamp(-EDGE, EDGE)) * (BANDS / (2 * EDGE))).long().clamp(max=BANDS - 1)
    right, wrong = place[truth], place[~truth]
    return {
        "right": torch.bincount(right, minlength=BANDS).double(),
        "wrong": torch.bincount(wrong, minlength=BANDS).double(),
    }


def fact_layout(relations: int) -> Layout:
    """Names and shapes of what a site counts."""
    each = [(name, (relations,)) for name in EACH]
    return Layout([("right", (BANDS,)), ("wrong", (BANDS,)), *each, *((name, ()) for name in TOTALS)])


def relation_counts(odds: Tensor, truth: Tensor) -> dict[str, Tensor]:
    """By relation, how many facts there are, how many pairs are likelier than not to have it, and how many truly do."""
    known = odds > 0  # (pairs, relations)
    return {name: which.sum(0).double() for name, which in zip(EACH, (truth, known, known & truth), strict=True)}


def curve_of(counts: Mapping[str, Tensor]) -> Curve:
    """The curve over the pairs of all sites."""
    return Curve(counts["right"], counts["wrong"], float(counts["facts"]))


def fact_metrics(counts: Mapping[str, Tensor]) -> dict[str, float]:
    """The figures; those for which there is too little are left out."""
    figures: dict[str, float] = {}
    curve = curve_of(counts)
    if len(curve) and float(counts["facts"]) > 0:
        figures["pr_auc"] = curve.area()
        if len(curve) > TOP:
            figures["pr_auc_2000"] = curve.area(TOP)
        figures |= {f"p_{rank}": curve.at(rank) for rank in RANKS if rank <= len(curve)}
        if len(curve) >= RANKS[-1]:
            figures["p_mean"] = sum(figures[f"p_{rank}"] for rank in RANKS) / len(RANKS)
        figures["max_f1"] = curve.max_f1
    if float(counts["chosen"]) > 0:
        figures["expressed"] = float(counts["expressed"] / counts["chosen"])
    if float(counts["bags"]) > 0:
        figures["loss"] = float(counts["loss"] / counts["bags"])
        figures["examples"] = float(counts["pairs"])
    return figures

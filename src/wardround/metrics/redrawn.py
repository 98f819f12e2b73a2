"""Counts as another sample of as many answers would have them: what intervals are made of where only sums are known.

    class_redrawn(counts, np.random.default_rng(0))

Each answer is drawn by itself, with replacement, from those that were counted. Where a document is one example with
one label, that is a bootstrap over documents, and exact; where a document has several answers (entities, pairs,
labels), they are taken to be independent, which they are not quite, so that intervals come out somewhat narrow. What
cannot be drawn from sums (a loss, relaxed matches) is NaN.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

APART = ("hits", "false_alarms", "misses")


def class_redrawn(counts: Mapping[str, Tensor], rng: np.random.Generator) -> dict[str, Tensor]:
    """As `class_counts` has them: from the confusion matrix, if it has all examples."""
    confusion = counts.get("confusion")
    unknown = {"loss": torch.full_like(counts["loss"], torch.nan)}
    if "ranking" in counts:
        unknown["ranking"] = _drawn(counts["ranking"], rng)
    if confusion is None or round(float(confusion.sum() - counts["hits"].sum() - counts["misses"].sum())):
        return {**_each(counts, rng), **unknown}
    again = _drawn(confusion, rng)
    hits = again.diagonal()
    return {"hits": hits, "false_alarms": again.sum(0) - hits, "misses": again.sum(1) - hits, **unknown}


def label_redrawn(counts: Mapping[str, Tensor], rng: np.random.Generator) -> dict[str, Tensor]:
    """As `label_counts` has them, label by label."""
    texts = counts["texts"]
    absent = texts - sum(counts[name] for name in APART)
    whole = torch.stack([*(counts[name] for name in APART), absent], 1)  # (labels, 4)
    again = torch.stack([_drawn(row, rng) for row in whole], 1)  # (4, labels)
    exact = _drawn(torch.stack([counts["exact"], texts - counts["exact"]]), rng)[0]
    loss = torch.full_like(counts["loss"], torch.nan)
    return {**dict(zip(APART, again, strict=False)), "exact": exact, "texts": texts, "loss": loss}


def entity_redrawn(counts: Mapping[str, Tensor], rng: np.random.Generator) -> dict[str, Tensor]:
    """As `entity_counts` has them: hits, false alarms and misses, strictly."""
    apart = {
        "hits": counts["strict_true"],
        "false_alarms": counts["predicted"] - counts["strict_predicted"],
        "misses": counts["true"] - counts["strict_true"],
    }
    again = _each(apart, rng)
    hits = again["hits"]
    unknown = {name: torch.full_like(value, torch.nan) for name, value in counts.items()}
    known = {"predicted": hits + again["false_alarms"], "true": hits + again["misses"]}
    return {**unknown, **known, "strict_predicted": hits, "strict_true": hits, "sentences": counts["sentences"]}


def fact_redrawn(counts: Mapping[str, Tensor], rng: np.random.Generator) -> dict[str, Tensor]:
    """As `metrics.facts` has them: right and wrong predictions, each in its band."""
    right, wrong = _drawn(torch.stack([counts["right"], counts["wrong"]]), rng)
    loss = torch.full_like(counts["loss"], torch.nan)
    unknown = {"chosen": torch.zeros_like(counts["chosen"]), "loss": loss}
    return {**counts, "right": right, "wrong": wrong, "facts": right.sum(), **unknown}


def _each(counts: Mapping[str, Tensor], rng: np.random.Generator) -> dict[str, Tensor]:
    """Hits, false alarms and misses, drawn from all of them together."""
    return dict(zip(APART, _drawn(torch.stack([counts[name] for name in APART]), rng), strict=True))


def _drawn(counts: Tensor, rng: np.random.Generator) -> Tensor:
    """As many as there are, drawn anew by their shares."""
    numbers = counts.double().round().clamp(min=0).numpy().ravel()  # sums of masked counts are not quite whole
    places = numbers.nonzero()[0]  # a draw takes time for each cell
    again = np.zeros_like(numbers)
    if len(places):
        total = numbers[places].sum()
        again[places] = rng.multinomial(int(total), numbers[places] / total)
    return torch.from_numpy(again).reshape(counts.shape)

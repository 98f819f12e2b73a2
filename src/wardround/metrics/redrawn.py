"""Counts as other samples of as many answers would have them: what intervals are made of where only sums are known.

    class_redrawn(counts, np.random.default_rng(0), 50)["hits"]  # (50, classes)

Each answer is drawn by itself, with replacement, from those that were counted. Where a document is one example with
one label, that is a bootstrap over documents, and exact; where a document has several answers (entities, pairs,
labels), they are taken to be independent, which they are not quite, so that intervals come out somewhat narrow. What
cannot be drawn from sums (a loss, relaxed matches) is NaN.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

APART = ("hits", "false_alarms", "misses")


def class_redrawn(counts: Mapping[str, Tensor], rng: np.random.Generator, draws: int) -> dict[str, Tensor]:
    """As `class_counts` has them: from the confusion matrix, if it has all examples."""
    confusion = counts.get("confusion")
    more = {"loss": _unknown(counts["loss"], draws)}
    if "ranking" in counts:
        more["ranking"] = _drawn(counts["ranking"], rng, draws)
    if confusion is None or round(float(confusion.sum() - counts["hits"].sum() - counts["misses"].sum())):
        return {**_each(counts, rng, draws), **more}
    again = _drawn(confusion, rng, draws)  # (draws, classes, classes)
    hits = again.diagonal(dim1=1, dim2=2)
    return {"hits": hits, "false_alarms": again.sum(1) - hits, "misses": again.sum(2) - hits, **more}


def label_redrawn(counts: Mapping[str, Tensor], rng: np.random.Generator, draws: int) -> dict[str, Tensor]:
    """As `label_counts` has them, label by label."""
    texts = counts["texts"]
    absent = texts - sum(counts[name] for name in APART)
    whole = torch.stack([*(counts[name] for name in APART), absent], 1)  # (labels, 4)
    again = torch.stack([_drawn(row, rng, draws) for row in whole], 2)  # (draws, 4, labels)
    exact = _drawn(torch.stack([counts["exact"], texts - counts["exact"]]), rng, draws)[:, 0]
    known = {"exact": exact, "texts": texts.expand(draws)}
    return {**dict(zip(APART, again.unbind(1), strict=False)), **known, "loss": _unknown(counts["loss"], draws)}


def entity_redrawn(counts: Mapping[str, Tensor], rng: np.random.Generator, draws: int) -> dict[str, Tensor]:
    """As `entity_counts` has them: hits, false alarms and misses, strictly."""
    apart = {
        "hits": counts["strict_true"],
        "false_alarms": counts["predicted"] - counts["strict_predicted"],
        "misses": counts["true"] - counts["strict_true"],
    }
    again = _each(apart, rng, draws)
    hits = again["hits"]
    unknown = {name: _unknown(value, draws) for name, value in counts.items()}
    known = {"predicted": hits + again["false_alarms"], "true": hits + again["misses"]}
    sentences = counts["sentences"].expand(draws)
    return {**unknown, **known, "strict_predicted": hits, "strict_true": hits, "sentences": sentences}


def fact_redrawn(counts: Mapping[str, Tensor], rng: np.random.Generator, draws: int) -> dict[str, Tensor]:
    """As `metrics.facts` has them: right and wrong predictions, each in its band."""
    right, wrong = _drawn(torch.stack([counts["right"], counts["wrong"]]), rng, draws).unbind(1)
    same = {name: value.expand(draws, *value.shape) for name, value in counts.items()}
    unknown = {"chosen": torch.zeros_like(same["chosen"]), "loss": _unknown(counts["loss"], draws)}
    return {**same, "right": right, "wrong": wrong, "facts": right.sum(1), **unknown}


def one_by_one(drawn: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """The counts of each draw."""
    for values in zip(*drawn.values(), strict=True):
        yield dict(zip(drawn, values, strict=True))


def _unknown(value: Tensor, draws: int) -> Tensor:
    return torch.full_like(value, torch.nan).expand(draws, *value.shape)


def _each(counts: Mapping[str, Tensor], rng: np.random.Generator, draws: int) -> dict[str, Tensor]:
    """Hits, false alarms and misses, drawn from all of them together."""
    again = _drawn(torch.stack([counts[name] for name in APART]), rng, draws)
    return dict(zip(APART, again.unbind(1), strict=True))


def _drawn(counts: Tensor, rng: np.random.Generator, draws: int) -> Tensor:
    """As many as there are, drawn anew by their shares, this often (draws, …)."""
    numbers = counts.double().round().clamp(min=0).numpy().ravel()  # sums of masked counts are not quite whole
    places = numbers.nonzero()[0]  # a draw takes time for each cell
    again = np.zeros((draws, len(numbers)))
    if len(places):
        total = numbers[places].sum()
        again[:, places] = rng.multinomial(int(total), numbers[places] / total, draws)
    return torch.from_numpy(again).reshape(draws, *counts.shape)

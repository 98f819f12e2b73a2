"""Entities found and missed, per type: counts that add over sites, and the figures made of them.

An entity is a type and a span of tokens. *Strict*: it counts as right if type and both ends are equal. *Relaxed*: a
prediction is right if it shares a token with a true entity of its type, a true entity is found if a prediction of its
type shares a token with it; so both ends are counted, and one prediction may find two entities. F1 is the harmonic
mean of precision and recall. With nothing predicted, or nothing there, a figure is 0.

Of up to `MOST` types it is also counted which was taken for which, see `entity_confusion`. Tag sequences that break
their scheme are repaired before (see `corpora.tags`), and counted: `repaired`.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from wardround.core.weights import Layout
from wardround.metrics.classes import MOST

DEFINITIONS = {
    "f1": "strict F1: type and both ends equal; harmonic mean of precision and recall",
    "precision": "strict: the share of predicted entities whose type and both ends are right",
    "recall": "strict: the share of true entities predicted with their type and both ends",
    "relaxed_f1": "harmonic mean of relaxed precision and recall",
    "relaxed_precision": "the share of predicted entities that share a token with a true entity of their type",
    "relaxed_recall": "the share of true entities that share a token with a prediction of their type",
    "loss": "mean negative log-likelihood per sentence (natural logarithm)",
    "repaired": "predicted entities per sentence whose tags broke the scheme and were repaired",
}

FOUR = ("strict_predicted", "strict_true", "relaxed_predicted", "relaxed_true")
"""Right predictions and found entities: alike under strict, not under relaxed."""

Spans = Sequence[tuple[int, int, int]]
"""The entities of a sentence: number of the type, start, end."""


def entity_layout(types: int) -> Layout:
    """Names and shapes of the counts."""
    per_type = [(name, (types,)) for name in ("predicted", "true", *FOUR)]
    confusion = [("confusion", (types + 1, types + 1))] * (types < MOST)
    return Layout([*per_type, *confusion, ("repaired", ()), ("sentences", ()), ("loss", ())])


def entity_counts(pairs: Sequence[tuple[Spans, Spans]], types: int, repaired: int, loss: Tensor) -> dict[str, Tensor]:
    """Counts of sentences given as (true, predicted) entities, with their summed loss."""
    rows = {name: [0] * types for name in ("predicted", "true", *FOUR)}
    for true, predicted in pairs:
        for name, others, mine in (("predicted", true, predicted), ("true", predicted, true)):
            exact = set(others)
            for entity in mine:
                kind, start, end = entity
                rows[name][kind] += 1
                rows[f"strict_{name}"][kind] += entity in exact
                rows[f"relaxed_{name}"][kind] += any(k == kind and s < end and start < e for k, s, e in others)
    counts = {name: torch.tensor(row, dtype=torch.float64) for name, row in rows.items()}
    if types < MOST:
        counts["confusion"] = entity_confusion(pairs, types)
    for name, value in (("repaired", repaired), ("sentences", len(pairs))):
        counts[name] = torch.tensor(float(value), dtype=torch.float64)
    return {**counts, "loss": loss.to(torch.float64)}


def entity_confusion(pairs: Sequence[tuple[Spans, Spans]], types: int) -> Tensor:
    """True (rows) against predicted types of entities with the same ends; the last row and column are for nothing."""
    total = torch.zeros(types + 1, types + 1, dtype=torch.float64)
    for true, predicted in pairs:
        there, answers = ({(start, end): kind for kind, start, end in spans} for spans in (true, predicted))
        for ends in there.keys() | answers.keys():
            total[there.get(ends, types), answers.get(ends, types)] += 1
    return total


def entity_classes(counts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Hits, false alarms and misses of each type, strictly, and the confusion where it was counted."""
    apart = {
        "hits": counts["strict_true"],
        "false_alarms": (counts["predicted"] - counts["strict_predicted"]).clamp(min=0),
        "misses": (counts["true"] - counts["strict_true"]).clamp(min=0),
    }
    return {**apart, "confusion": counts["confusion"]} if "confusion" in counts else apart


def entity_metrics(counts: Mapping[str, Tensor], types: Sequence[str]) -> dict[str, float]:
    """Overall figures, then those of each type that occurs or was predicted as `f1[type]`; without a sentence, none."""
    sentences = float(counts["sentences"])
    if sentences == 0:
        return {}
    figures = _figures({name: float(counts[name].sum()) for name in ("predicted", "true", *FOUR)})
    figures |= {"loss": float(counts["loss"]) / sentences, "repaired": float(counts["repaired"]) / sentences}
    for number, kind in enumerate(types):
        one = {name: float(counts[name][number]) for name in ("predicted", "true", *FOUR)}
        if one["predicted"] or one["true"]:
            figures |= {f"{name}[{kind}]": value for name, value in _figures(one).items()}
    return {**figures, "examples": sentences}


def _figures(counts: Mapping[str, float]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for prefix, how in (("", "strict"), ("relaxed_", "relaxed")):
        # Counts with noise (privacy.dp) may have more right than there are.
        precision = min(counts[f"{how}_predicted"] / counts["predicted"], 1.0) if counts["predicted"] else 0.0
        recall = min(counts[f"{how}_true"] / counts["true"], 1.0) if counts["true"] else 0.0
        both = precision + recall
        figures[f"{prefix}f1"] = 2 * precision * recall / both if both else 0.0
        figures[f"{prefix}precision"], figures[f"{prefix}recall"] = precision, recall
    return figures

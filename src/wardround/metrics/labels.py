"""Right and wrong per label, where a text may have several labels or none.

Per label: hits, false alarms and misses as in `classes`, a label counting as predicted when its probability is
above one half.

- `micro_f1`: F1 of the hits, false alarms and misses of all labels together.
- `macro_f1`: the mean of F1 over the labels that occur or were predicted.
- `exact`: the share of texts whose labels were all right.
- `loss`: mean binary cross-entropy per text and label (natural logarithm).
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from wardround.core.weights import Layout

DEFINITIONS = {
    "micro_f1": "F1 of hits, false alarms and misses of all labels together",
    "macro_f1": "mean F1 over the labels that occur or were predicted",
    "exact": "share of texts whose labels were all right",
    "loss": "mean binary cross-entropy per text and label (natural logarithm)",
}


def label_layout(labels: int) -> Layout:
    """Names and shapes of `label_counts`."""
    per_label = [(name, (labels,)) for name in ("hits", "false_alarms", "misses")]
    return Layout([*per_label, ("exact", ()), ("texts", ()), ("loss", ())])


def label_counts(scores: Tensor, labels: Tensor, loss: Tensor) -> dict[str, Tensor]:
    """Counts of one batch of scores (B, labels) against 0/1 labels (B, labels), with its summed mean loss."""
    predicted, true = scores > 0, labels > 0.5
    double = torch.float64
    return {
        "hits": (predicted & true).sum(0).to(double),
        "false_alarms": (predicted & ~true).sum(0).to(double),
        "misses": (~predicted & true).sum(0).to(double),
        "exact": (predicted == true).all(1).sum().to(double),
        "texts": torch.tensor(float(len(labels)), dtype=double),
        "loss": loss.to(double),
    }


def label_metrics(counts: Mapping[str, Tensor]) -> dict[str, float]:
    """Micro-F1, macro-F1, exact matches and loss; with no text at all, there is no figure."""
    texts = float(counts["texts"])
    if texts == 0:
        return {}
    hits, alarms, misses = counts["hits"], counts["false_alarms"], counts["misses"]
    ends = 2 * hits + alarms + misses
    f1 = (2 * hits / ends)[ends > 0]
    return {
        "micro_f1": float(2 * hits.sum() / ends.sum()) if ends.sum() > 0 else 0.0,
        "macro_f1": float(f1.mean()) if len(f1) else 0.0,
        **({"exact": float(counts["exact"]) / texts} if "exact" in counts else {}),
        "loss": float(counts["loss"]) / texts,
        "examples": texts,
    }

"""Right and wrong per class: counts that add over sites, and the figures made of them.

Definitions, per class c: a *hit* is an example of c predicted as c, a *false alarm* another's example
predicted as c, a *miss* an example of c predicted as another. F1 = 2·hits / (2·hits + false alarms + misses).

- `accuracy`: hits over examples. Over sites this is accuracy weighted by the sites' numbers of examples.
- `macro_f1`: the mean of F1 over the classes that occur among the true or the predicted labels.
- `loss`: mean cross-entropy per example (natural logarithm).
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from wardround.core.weights import Layout

__all__ = ["DEFINITIONS", "class_counts", "class_layout", "class_metrics"]

DEFINITIONS = {
    "accuracy": "hits over examples; over sites, weighted by their numbers of examples",
    "macro_f1": "mean over the classes that occur or were predicted of F1 = 2·hits / (2·hits + false alarms + misses)",
    "loss": "mean cross-entropy per example (natural logarithm)",
}


def class_layout(classes: int) -> Layout:
    """Names and shapes of `class_counts`."""
    return Layout([("hits", (classes,)), ("false_alarms", (classes,)), ("misses", (classes,)), ("loss", ())])


def class_counts(scores: Tensor, labels: Tensor, loss: Tensor) -> dict[str, Tensor]:
    """Counts of one batch of scores (B, classes) against labels (B,), with its summed loss."""
    classes = scores.shape[1]
    predicted = scores.argmax(1)  # (B,)
    right = predicted == labels
    double = torch.float64  # adds exactly up to 2**53 examples
    return {
        "hits": torch.bincount(labels[right], minlength=classes).to(double),
        "false_alarms": torch.bincount(predicted[~right], minlength=classes).to(double),
        "misses": torch.bincount(labels[~right], minlength=classes).to(double),
        "loss": loss.to(double),
    }


def class_metrics(counts: Mapping[str, Tensor]) -> dict[str, float]:
    """Accuracy, macro-F1 and loss; NaN-free: with no example at all, there is no figure."""
    hits, alarms, misses = counts["hits"], counts["false_alarms"], counts["misses"]
    examples = float(hits.sum() + misses.sum())
    if examples == 0:
        return {}
    seen = hits + alarms + misses > 0
    f1 = (2 * hits / (2 * hits + alarms + misses))[seen]
    return {
        "accuracy": float(hits.sum()) / examples,
        "macro_f1": float(f1.mean()),
        "loss": float(counts["loss"]) / examples,
        "examples": examples,
    }

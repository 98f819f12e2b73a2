"""Right and wrong per class: counts that add over sites, and the figures made of them.

Definitions, per class c: a *hit* is an example of c predicted as c, a *false alarm* another's example
predicted as c, a *miss* an example of c predicted as another. F1 = 2·hits / (2·hits + false alarms + misses).

- `accuracy`: hits over examples. Over sites this is accuracy weighted by the sites' numbers of examples.
- `macro_f1`: the mean of F1 over the classes that occur among the true or the predicted labels.
- `auc`: of two classes, the area under the ROC curve (see `ranking`).
- `loss`: mean cross-entropy per example (natural logarithm).

Of up to `MOST` classes it is also counted which was taken for which (`confusion`, see `by_class`); of more, the matrix
would be most of the message.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from wardround.core.weights import Layout
from wardround.metrics.by_class import confusion_counts
from wardround.metrics.ranking import BANDS, area, ranking_counts

MOST = 100
AUC = (
    "area under the ROC curve: the chance that an example of the one class is given higher odds of it than one of the "
    "other; scores in 256 bands"
)
DEFINITIONS = {
    "accuracy": "hits over examples; over sites, weighted by their numbers of examples",
    "macro_f1": "mean over the classes that occur or were predicted of F1 = 2·hits / (2·hits + false alarms + misses)",
    "auc": AUC,
    "loss": "mean cross-entropy per example (natural logarithm)",
}


def class_layout(classes: int) -> Layout:
    """Names and shapes of `class_counts`."""
    per_class = [(name, (classes,)) for name in ("hits", "false_alarms", "misses")]
    confusion = [("confusion", (classes, classes))] * (classes <= MOST)
    ranking = [("ranking", (2, BANDS))] * (classes == 2)
    return Layout([*per_class, *confusion, *ranking, ("loss", ())])


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
        **({"confusion": confusion_counts(labels, predicted, classes)} if classes <= MOST else {}),
        **({"ranking": ranking_counts(scores, labels)} if classes == 2 else {}),
        "loss": loss.to(double),
    }


def class_metrics(counts: Mapping[str, Tensor]) -> dict[str, float]:
    """Accuracy, macro-F1, AUC and loss; NaN-free: with no example at all, there is no figure."""
    hits, alarms, misses = counts["hits"], counts["false_alarms"], counts["misses"]
    examples = float(hits.sum() + misses.sum())
    if examples == 0:
        return {}
    seen = hits + alarms + misses > 0
    f1 = (2 * hits / (2 * hits + alarms + misses))[seen]
    return {
        "accuracy": float(hits.sum()) / examples,
        "macro_f1": float(f1.mean()),
        **auc_of(counts),
        "loss": float(counts["loss"]) / examples,
        "examples": examples,
    }


def auc_of(counts: Mapping[str, Tensor]) -> dict[str, float]:
    """The area under the ROC curve by its name, where there are two classes with examples."""
    under = area(counts["ranking"]) if "ranking" in counts else None
    return {} if under is None else {"auc": under}

"""How well relations were recognised: from hits, false alarms and misses per class (see `classes`).

With a *negative* class (no relation), micro-F1 leaves it out: a false alarm is a pair told to be related that is not
so, a miss a related pair that was not told so; unrelated pairs left alone count nowhere. `macro_f1` is over all
classes. A figure without the negative class says so in its name, but for one: of two classes with a negative one, the
other is the *positive*, and its precision, recall and F1 are what micro-F1 would be. Every class has its own `f1[…]`.
Where nothing could be right or wrong (0 / 0), a figure is 0. As OpenNRE and scikit-learn count.
"""

from collections.abc import Mapping, Sequence

from torch import Tensor

from wardround.metrics.classes import AUC, auc_of

F1 = "F1 = 2·hits / (2·hits + false alarms + misses)"
TOGETHER = "all classes but the negative one (no relation) together"
DEFINITIONS = {
    "positive_f1": f"{F1} of the positive class alone",
    "positive_precision": "hits over hits and false alarms of the positive class alone",
    "positive_recall": "hits over hits and misses of the positive class alone",
    "micro_f1_without_negative": f"{F1} of {TOGETHER}",
    "micro_precision_without_negative": f"hits over hits and false alarms of {TOGETHER}",
    "micro_recall_without_negative": f"hits over hits and misses of {TOGETHER}",
    "micro_f1": f"{F1} of all classes together; without a negative class the same as accuracy",
    "macro_f1": f"mean over all classes of {F1}; a class that neither occurs nor was predicted counts 0",
    "macro_f1_without_negative": f"mean over all classes but the negative one (no relation) of {F1}",
    "accuracy": "hits over examples; over sites, weighted by their numbers of examples",
    "auc": AUC,
    "loss": "mean cross-entropy per example (natural logarithm)",
    "f1": f"{F1} of one class alone",
}


def relation_metrics(counts: Mapping[str, Tensor], labels: Sequence[str], negative: str = "") -> dict[str, float]:
    """All figures, the one to rank by first; with no example at all, there is no figure."""
    hits, alarms, misses = (counts[name].tolist() for name in ("hits", "false_alarms", "misses"))
    examples = sum(hits) + sum(misses)
    if examples == 0:
        return {}
    each = [_f1(*mine) for mine in zip(hits, alarms, misses, strict=True)]
    kept = [index for index, label in enumerate(labels) if label != negative]
    right, wrong, missed = (sum(counted[index] for index in kept) for counted in (hits, alarms, misses))
    together = {
        "f1": _f1(right, wrong, missed),
        "precision": _share(right, right + wrong),
        "recall": _share(right, right + missed),
    }
    if len(kept) == len(labels):
        figures = {"micro_f1": together["f1"]}
    elif len(kept) == 1:
        figures = {f"positive_{name}": value for name, value in together.items()}
    else:
        figures = {f"micro_{name}_without_negative": value for name, value in together.items()}
        figures["macro_f1_without_negative"] = sum(each[index] for index in kept) / len(kept)
    figures["macro_f1"] = sum(each) / len(each)
    figures["accuracy"] = sum(hits) / examples
    figures |= auc_of(counts)
    figures["loss"] = float(counts["loss"]) / examples
    figures["examples"] = examples
    return figures | {f"f1[{label}]": value for label, value in zip(labels, each, strict=True)}


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _f1(hits: float, alarms: float, misses: float) -> float:
    return _share(2 * hits, 2 * hits + alarms + misses)

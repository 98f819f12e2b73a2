"""How well relations were told: from hits, false alarms and misses per class (see `classes`).

With a *negative* class (no relation), `micro_f1` leaves it out: a false alarm is a pair told to be related that is
not so, a miss a related pair that was not told so; unrelated pairs left alone count nowhere. `macro_f1` is over all
classes, and `macro_f1_without_negative` beside it. Of two classes with a negative one, the other is the *positive*:
`positive_precision`, `positive_recall`, `positive_f1`. Every class has its own `f1[…]`. Where nothing could be right
or wrong (0 / 0), a figure is 0. As OpenNRE and scikit-learn count.
"""

from collections.abc import Mapping, Sequence

from torch import Tensor

__all__ = ["DEFINITIONS", "relation_metrics"]

DEFINITIONS = {
    "positive_f1": "F1 = 2·hits / (2·hits + false alarms + misses) of the positive class alone",
    "positive_precision": "hits over hits and false alarms of the positive class",
    "positive_recall": "hits over hits and misses of the positive class",
    "micro_f1": (
        "F1 of hits, false alarms and misses of all classes together, without the negative class (no relation) if "
        "the study has one; if not, the same as accuracy"
    ),
    "micro_precision": "hits over hits and false alarms of all classes together, without the negative class",
    "micro_recall": "hits over hits and misses of all classes together, without the negative class",
    "macro_f1": "mean of F1 over all classes, the negative one included; a class never seen nor predicted counts 0",
    "macro_f1_without_negative": "mean of F1 over all classes but the negative one; one never seen counts 0",
    "accuracy": "hits over examples; over sites, weighted by their numbers of examples",
    "loss": "mean cross-entropy per example (natural logarithm)",
    "f1": "F1 = 2·hits / (2·hits + false alarms + misses) of this class alone",
}


def relation_metrics(counts: Mapping[str, Tensor], labels: Sequence[str], negative: str = "") -> dict[str, float]:
    """All figures, the one to rank by first; with no example at all, there is no figure."""
    hits, alarms, misses = (counts[name].tolist() for name in ("hits", "false_alarms", "misses"))
    examples = sum(hits) + sum(misses)
    if examples == 0:
        return {}
    f1 = [_f1(*each) for each in zip(hits, alarms, misses, strict=True)]
    kept = [index for index, label in enumerate(labels) if label != negative]
    right, wrong, missed = (sum(told[index] for index in kept) for told in (hits, alarms, misses))
    told: dict[str, float] = {}
    if len(kept) == 1:
        told["positive_f1"] = f1[kept[0]]
        told["positive_precision"] = _share(right, right + wrong)
        told["positive_recall"] = _share(right, right + missed)
    told["micro_f1"] = _f1(right, wrong, missed)
    if 1 < len(kept) < len(labels):
        told["micro_precision"] = _share(right, right + wrong)
        told["micro_recall"] = _share(right, right + missed)
        told["macro_f1_without_negative"] = sum(f1[index] for index in kept) / len(kept)
    told["macro_f1"] = sum(f1) / len(f1)
    told["accuracy"] = sum(hits) / examples
    told["loss"] = float(counts["loss"]) / examples
    told["examples"] = examples
    return told | {f"f1[{label}]": value for label, value in zip(labels, f1, strict=True)}


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _f1(hits: float, alarms: float, misses: float) -> float:
    return _share(2 * hits, 2 * hits + alarms + misses)

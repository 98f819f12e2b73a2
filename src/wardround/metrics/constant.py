"""What the best constant answer, and chance, would have counted: of a model's own counts, so nothing more is asked.

Of hits and misses per class one knows how many examples each class has. The constant answer is the commonest class (for
several labels: those that more than half of the texts have), with the shares of the classes as its probabilities; no
other constant has a lower loss. A tagger's is to find nothing, and that of a ranking to be equally sure of everything:
their loss is not known (NaN).

*Chance* draws each answer at random, as often as each class occurs: the counts are those to be expected, and the loss
is not known.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

ABOUT = {
    "majority": "always the commonest class",
    "chance": "answers drawn at random, as often as each class occurs",
    "tfidf": "TF-IDF and logistic regression on all texts in one place",
    "dictionary": "the training texts' entities, looked up wherever they occur",
}
"""What any model should beat, in words."""


def constant_figures(task: Any, counts: Mapping[str, Tensor]) -> dict[str, float]:
    """The figures of a task's constant answer (`constant`); none if the task has no such thing."""
    constant = task.constant(counts)
    return dict(task.metrics(constant)) if constant else {}


def class_constant(counts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The counts, as `class_counts` has them, of always answering the commonest class."""
    there = counts["hits"] + counts["misses"]  # (classes,)
    chosen = torch.zeros_like(there)
    if there.sum() > 0:
        chosen[int(there.argmax())] = 1.0
    return {
        "hits": there * chosen,
        "false_alarms": chosen * (there.sum() - there),
        "misses": there * (1 - chosen),
        **_alike(counts),
        "loss": -torch.special.xlogy(there, there / there.sum().clamp(min=1)).sum(),
    }


def class_chance(counts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The counts, as `class_counts` has them, that answers drawn by the classes' shares can expect."""
    there = counts["hits"] + counts["misses"]  # (classes,)
    share = there / there.sum().clamp(min=1)
    return {
        "hits": there * share,
        "false_alarms": share * (there.sum() - there),
        "misses": there * (1 - share),
        **_alike(counts),
        "loss": torch.full_like(counts["loss"], torch.nan),
    }


def _alike(counts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Two classes' examples, all given the same odds."""
    if "ranking" not in counts:
        return {}
    alike = torch.zeros_like(counts["ranking"])
    alike[:, 0] = counts["ranking"].sum(1)
    return {"ranking": alike}


def label_constant(counts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The counts, as `label_counts` has them; of exact matches nothing is known, so they are left out."""
    there, texts = counts["hits"] + counts["misses"], counts["texts"]  # (labels,), ()
    chosen = (there > texts / 2).to(there.dtype)
    absent = texts - there
    whole = texts.clamp(min=1)
    loss = -(torch.special.xlogy(there, there / whole) + torch.special.xlogy(absent, absent / whole))
    return {
        "hits": there * chosen,
        "false_alarms": absent * chosen,
        "misses": there * (1 - chosen),
        "texts": texts,
        "loss": loss.mean(),
    }


def label_chance(counts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The counts, as `label_counts` has them, that labels drawn by their shares can expect; exact matches left out."""
    there, texts = counts["hits"] + counts["misses"], counts["texts"]  # (labels,), ()
    share = there / texts.clamp(min=1)
    return {
        "hits": there * share,
        "false_alarms": (texts - there) * share,
        "misses": there * (1 - share),
        "texts": texts,
        "loss": torch.full_like(counts["loss"], torch.nan),
    }


def entity_constant(counts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The counts, as `entity_counts` has them, of finding nothing."""
    kept = ("true", "sentences")
    nothing = {name: count if name in kept else torch.zeros_like(count) for name, count in counts.items()}
    return {**nothing, "loss": torch.full_like(counts["loss"], torch.nan)}


def fact_constant(counts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The counts, as `metrics.facts` has them, of all predictions in one band of score."""
    alike = {name: torch.zeros_like(counts[name]) for name in ("right", "wrong")}
    for name, bands in alike.items():
        bands[len(bands) // 2] = counts[name].sum()
    unknown = {"chosen": torch.zeros_like(counts["chosen"]), "loss": torch.full_like(counts["loss"], torch.nan)}
    return {**counts, **alike, **unknown}

"""Signs that a model has collapsed or diverges, read off the counts of an evaluation: nothing more is asked of a site.

    signs(task, counts, losses)     # ["one class predicted"]

A *collapsed* model has learnt nothing that its figures could mean: it answers the same class to everything, finds no
entity, its loss is not a number, or it is no better than a constant answer by its first figure and by accuracy and,
where a constant answer has a loss, worse by that. Such a run is never the best of a table. A loss that rises, or lies
above a constant answer's while the figures are good, is a warning: the model is too sure of itself, and a lower rate or
fewer rounds would serve it; unless it is the first evaluation, or falls, and the model may only be at its beginning. A
loss far above a constant answer's, and that of equal odds, no beginning explains: the rate is too high.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from torch import Tensor

from wardround.metrics.constant import constant_figures

ONE_CLASS = "one class predicted"
NOTHING = "nothing found"
NOT_FINITE = "the loss is not a number"
WORSE = "no better than a constant answer"
ABOVE = "loss above a constant answer's"
FALLING = "loss above a constant answer's, and falling"
FAR = "loss far above a constant answer's"
RISING = "loss rising"
STILL = "loss as at the first evaluation"
COLLAPSED = frozenset({ONE_CLASS, NOTHING, NOT_FINITE, WORSE})
TOO_FAST = "try a lower method.lr; where the method has one, a smaller method.mu"
TOO_LONG = "try a lower method.lr, or fewer rounds; where the method has one, a smaller method.mu"
TOO_SLOW = "try a higher method.lr, or more rounds or epochs"
EITHER = "try more rounds or epochs, or another method.lr"

RISES = 3  # evaluations in a row
RISEN = 1.5  # times the lowest
TWICE = 2.0  # what a loss is far above
MOVED = 0.02  # of the first loss: less is next to nothing


def signs(task: Any, numbers: Mapping[str, Tensor], before: Sequence[float] = ()) -> list[str]:
    """What looks wrong with these counts, given the losses of earlier evaluations."""
    figures = task.metrics(numbers)
    loss = figures.get("loss")
    if loss is None:
        return []
    if not math.isfinite(loss):
        return [NOT_FINITE]
    wrong = [ONE_CLASS] if _one_class(numbers) else [NOTHING] if _nothing(numbers) else []
    far = False
    if constant := constant_figures(task, numbers):
        far = loss > TWICE * max(constant["loss"], _even(numbers))
        asked = (next(iter(figures)), "accuracy")  # always yes has a high F1 of yes, and is right by half
        no_better = all(figures[name] <= constant.get(name, -math.inf) for name in asked if name in figures)
        unknown = math.isnan(constant["loss"])
        if no_better and (unknown or loss > constant["loss"]):
            wrong += [WORSE] * (NOTHING not in wrong)
        elif loss > constant["loss"] and not _untold(numbers):
            wrong.append(FALLING if before and loss < before[-1] else ABOVE)
    if far and wrong and not _untold(numbers):
        wrong = [sign for sign in wrong if sign not in (ABOVE, FALLING)] + [FAR]
    losses = [*before[-RISES:], loss]
    rising = len(losses) > RISES and all(one < other for one, other in pairwise(losses))
    if rising and loss > RISEN * min(*before, loss):
        wrong.append(RISING)
    if collapsed(wrong) and before and not far and abs(loss - before[0]) < MOVED * abs(before[0]):
        wrong.append(STILL)
    return wrong


def collapsed(wrong: Sequence[str]) -> bool:
    """Whether a model with these signs has nothing to compare."""
    return not COLLAPSED.isdisjoint(wrong)


def remedy(wrong: Sequence[str], rounds: int) -> str:
    """What to try after so many rounds, by what the loss has done: not knowing, a rate may be too high or too low."""
    if STILL in wrong:
        return TOO_SLOW
    if FAR in wrong and collapsed(wrong):
        return TOO_FAST
    if {RISING, NOT_FINITE, FAR} & {*wrong}:
        return TOO_LONG if rounds > 1 else TOO_FAST
    return TOO_LONG if ABOVE in wrong and rounds > 1 else EITHER


def _even(numbers: Mapping[str, Tensor]) -> float:
    """The loss of equal odds, where classes are counted: that of a model before it has learnt anything."""
    if "hits" not in numbers:
        return -math.inf
    classes = 2 if "texts" in numbers else len(numbers["hits"])
    return math.log(max(classes, 1))


def _untold(numbers: Mapping[str, Tensor]) -> bool:
    """Whether a class has no example: sites may have kept it back, and their loss is then still one of all classes."""
    if not {"hits", "misses"} <= numbers.keys():
        return False
    return bool((numbers["hits"] + numbers["misses"] <= 0).any())


def _nothing(numbers: Mapping[str, Tensor]) -> bool:
    """Whether a tagger has found no entity, though there are some."""
    counted = {"predicted", "true"} <= numbers.keys()
    return counted and float(numbers["predicted"].sum()) <= 0 < float(numbers["true"].sum())


def _one_class(numbers: Mapping[str, Tensor]) -> bool:
    """Whether one class is all that was answered, though there are others; of several labels, whether none was."""
    if not {"hits", "false_alarms", "misses"} <= numbers.keys() or numbers["hits"].dim() != 1:
        return False
    hits, alarms, misses = (numbers[name] for name in ("hits", "false_alarms", "misses"))
    answered, there = int((hits + alarms > 0).sum()), int((hits + misses > 0).sum())
    if "texts" in numbers:
        return answered == 0 and there > 0
    return answered == 1 and there > 1

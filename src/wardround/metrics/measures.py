"""What belongs together of counts: their layout, how they are made, and what is made of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from wardround.core.weights import Layout
from wardround.metrics.classes import class_counts, class_layout, class_metrics
from wardround.metrics.constant import class_chance, class_constant, label_chance, label_constant
from wardround.metrics.labels import label_counts, label_layout, label_metrics
from wardround.metrics.redrawn import class_redrawn, label_redrawn

Counts = Mapping[str, Tensor]


@dataclass(frozen=True)
class Measures:
    """How scores are counted, and what figures, constant answers, chance and intervals are made of the counts."""

    layout: Callable[[int], Layout]
    counts: Callable[[Tensor, Tensor, Tensor], dict[str, Tensor]]
    metrics: Callable[[Counts], dict[str, float]]
    constant: Callable[[Counts], dict[str, Tensor]]
    chance: Callable[[Counts], dict[str, Tensor]]
    redrawn: Callable[[Counts, np.random.Generator, int], dict[str, Tensor]]


ONE_CLASS = Measures(class_layout, class_counts, class_metrics, class_constant, class_chance, class_redrawn)
SEVERAL = Measures(label_layout, label_counts, label_metrics, label_constant, label_chance, label_redrawn)

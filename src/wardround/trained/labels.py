"""Classes of texts, by a trained classifier."""

from collections.abc import Sequence

import torch
from torch import nn

from wardround.tasks.classification import ClassificationTask, TextBatch
from wardround.trained.predicted import Label

__all__ = ["found_labels"]

AT_ONCE = 256


@torch.no_grad()
def found_labels(
    task: ClassificationTask, model: nn.Module, texts: Sequence[str]
) -> tuple[list[list[Label]], list[int]]:
    """The label of each text, or all that are likelier than not; and how many of its tokens were not read."""
    examples, beyond = task.unlabelled(texts)
    found: list[list[Label]] = [[] for _ in texts]
    for batch in task.batches(examples, AT_ONCE, None):
        assert isinstance(batch, TextBatch)  # noqa: S101 -- what this task's batches are
        scores = model(batch.inputs)  # (B, labels)
        several = task.settings.several
        odds = scores.sigmoid() if several else scores.softmax(1)  # (B, labels)
        for row, mine in zip(batch.rows.tolist(), odds, strict=True):
            chosen = (mine > 0.5).nonzero().flatten().tolist() if several else [int(mine.argmax())]
            found[row] = [Label(task.labels[at], float(mine[at])) for at in chosen]
    return found, beyond

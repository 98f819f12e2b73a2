"""A task of your own, in one file: which ward wrote a note, by how often each letter stands in it.

    python examples/new_task.py [FOLDER]

In a study file it is `name = "new_task:Letters"`, with this file beside it, and on the path where its model is loaded.
"""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import wardround
from wardround.extend import FeatureRows, FeaturesTask, Label, Prediction, TaskSettings


@dataclass(frozen=True, kw_only=True)
class Letters(TaskSettings):
    """The settings: none; what a model's card and `wardround predict` ask has a default or stands here."""

    finds, does = "labels", "sorts texts by how often each letter stands in them"

    def bind(self, corpus: Any) -> "LettersTask":
        """The task on a corpus with these labels."""
        return LettersTask(26, len(corpus.labels), called=tuple(corpus.labels))


class LettersTask(FeaturesTask):
    """Rows of numbers, counted in texts."""

    def examples(self, texts: Any) -> FeatureRows:
        """A site's documents as numbers."""
        labels = [self.labels.index(document.labels[0]) for document in texts.documents]
        return FeatureRows(self.shares(texts.documents), torch.tensor(labels))

    def shares(self, texts: Any) -> torch.Tensor:
        """Of each text, the share of every letter (texts, 26)."""
        return torch.tensor([[one.text.count(chr(97 + n)) / (len(one.text) + 1) for n in range(26)] for one in texts])

    def predict(self, model: Any, texts: Any) -> list[Prediction]:
        """The likeliest label of each text."""
        odds, best = model(self.shares(texts)).softmax(1).max(1)
        labels = [Label(self.labels[ward], float(sure)) for ward, sure in zip(best, odds, strict=True)]
        return [Prediction(one.text, (label,)) for one, label in zip(texts, labels, strict=True)]


def main(folder: Path) -> None:
    """Train it on generated notes, and ask it."""
    tables = {"corpus": {"name": "clinic", "hospitals": 2, "documents": 60}, "task": {"name": "new_task:Letters"}}
    result = wardround.run({"name": "wards", "rounds": 3, **tables, "method": {"name": "fedavg"}}, folder / "run")
    print(wardround.load(result.folder)("Aspirin for chest pain.").labels[0])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))

"""Classification by a pretrained encoder that is fine-tuned, or frozen in part: `model = "encoder"`.

[task]
name = "classification"
model = "encoder"
encoder = "models/biobert"
freeze = 8                      # embeddings and 8 layers; see `encoders`
pool = "mean"                   # what suits sentence encoders, frozen ones above all; "cls" by default
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from wardround.models.encoded import TextEncoder
from wardround.tasks.batching import budgeted, packed
from wardround.tasks.classification import Classification, ClassificationTask, OneLabelTask
from wardround.tasks.encoders import EncoderParts
from wardround.tasks.text_examples import TextBatch, TextExamples, class_weights
from wardround.tasks.text_pieces import TextPieces
from wardround.text.texts import Texts


class EncodedTextsTask(ClassificationTask):
    """Texts to one of `labels`, or to any number of them, by an encoder."""

    not_exported: ClassVar[Mapping[str, tuple[str, str]]] = {
        "onnx": ("what makes word pieces of a text is not in the network", "use --to spacy"),
        "transformers": ("its head has no counterpart there that reads the same states", "use --to spacy"),
    }

    @cached_property
    def parts(self) -> EncoderParts:
        """The encoder, frozen and trained."""
        return self.settings.encoder_parts(self.settings.dropout, self.settings.longest)

    @cached_property
    def pieces(self) -> TextPieces:
        """What makes numbers of a text."""
        return TextPieces(self.parts, self.settings.longest, self.settings.pool)

    def examples(self, texts: Texts) -> TextExamples:
        """A site's documents as numbers."""
        chosen, labels = self.settings, self._labels(texts)
        sequences, beyond = self.pieces.read(document.text for document in texts.documents)
        weights = class_weights(labels, len(self.labels), chosen.class_weights, several=chosen.several)
        return TextExamples(sequences, labels, None, sum(count > 0 for count in beyond), weights)

    def refuse(self, texts: Iterable[Texts]) -> None:
        """Raise an error if the encoder knows next to nothing of these texts."""
        for some in texts:
            self.parts.refuse([document.text for document in some.documents])

    def unlabelled(self, texts: Sequence[str]) -> tuple[TextExamples, list[int]]:
        """Texts as numbers, of which no label is known, and how many pieces of each are beyond `longest`."""
        sequences, beyond = self.pieces.read(texts)
        return TextExamples(sequences, torch.zeros(len(sequences), dtype=torch.int64), None, 0), beyond

    def model(self) -> nn.Module:
        """The pretrained layers that train, under a new classifier."""
        chosen = self.settings
        return TextEncoder(
            self.parts.trained(), self.parts.width, len(self.labels), pool=chosen.pool, dropout=chosen.dropout
        )

    def through(self, examples: TextExamples) -> Iterator[TextBatch]:
        """All texts, as many at once as have so many pieces."""
        return (examples.batch(rows) for rows in budgeted(examples.tokens.lengths))

    def asked(self, examples: TextExamples) -> Iterator[TextBatch]:
        """The same without padding, for answers."""
        if self.parts.all_frozen:
            return self.through(examples)
        some = ((rows, torch.tensor(rows)) for rows in packed(examples.tokens.lengths.tolist()))
        return (TextBatch(examples.tokens.unpadded(rows), examples.labels[at], at) for rows, at in some)


class EncodedTextTask(EncodedTextsTask, OneLabelTask):
    """Texts to one of `labels`, by a linear classifier over the encoder's states."""

    def features(self, model: nn.Module, batch: TextBatch) -> Tensor:
        """The pooled states (B, width)."""
        return cast("TextEncoder", model).features(batch.inputs)


def encoded_task(settings: Classification, labels: tuple[str, ...]) -> EncodedTextsTask:
    """The task on a corpus with these labels, its encoder looked through."""
    task = (EncodedTextsTask if settings.several else EncodedTextTask)(settings, labels)
    task.parts.look_through()
    return task

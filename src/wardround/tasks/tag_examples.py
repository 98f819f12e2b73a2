"""Sentences as a tagger takes them: words, their characters, and the frozen encoder's vectors of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from wardround.models.encoded import Windows
from wardround.models.pretrained import read_encoder
from wardround.models.tagger import CHARACTERS, Sentences
from wardround.tasks.batching import Ragged
from wardround.tasks.contextual import LOOKED_AT, Contextual
from wardround.tasks.encoders import EncoderParts
from wardround.tasks.words import WordTable, refuse_unlisted, refuse_unspaced, spread
from wardround.text.document import Document
from wardround.text.reading import Problems
from wardround.text.segment import hashed
from wardround.text.tokens import LETTERS, Sentence, Unit, tokenised

OF_TAGGERS: Mapping[str, Mapping[str, Any]] = {
    "adam": {"lr": 0.003, "batch": 8, "epochs": 2}, "sgd": {"lr": 0.03, "batch": 8, "epochs": 2},
}  # fmt: skip
"""By optimiser, the local training that suits a CRF over words: studies/baselines; SGD at 0.3 diverges."""


@dataclass(frozen=True, eq=False)
class WordSources:
    """What all sites' tasks of a process share: word vectors and the frozen encoder, each read when needed."""

    words: WordTable
    encoder: Path | None
    remember: bool
    parts: EncoderParts | None = None
    """The encoder that is trained, if the tagger is one."""
    variants: dict[Any, Any] = field(default_factory=dict)
    """The tasks that differ by site, by their types and scheme."""

    def refuse(self, documents: Sequence[Document], tokens: Unit) -> None:
        """Raise an error if words, cut like this, would be whole clauses, or most are unknown."""
        texts, remedy = [one.text for one in documents], 'set tokens = "characters" in [task]'
        language = refuse_unspaced(texts, tokens, remedy)
        if self.parts:
            self.parts.refuse(texts)
        elif self.words.file:
            cut = [one for document in spread(documents) for one in tokenised(document, Problems(), unit=tokens)]
            rows = [[self.words.vocabulary(word.lower()) for word in sentence.words] for sentence in cut]
            refuse_unlisted(rows, language, tokens=tokens, listed=self.words.file)

    @cached_property
    def contextual(self) -> Contextual | None:
        """The frozen encoder, if the tagger has one."""
        return Contextual(read_encoder(self.encoder), remember=self.remember) if self.encoder else None


@dataclass(frozen=True, eq=False)
class TagBatch:
    """Sentences, their tags (B, L), and their row numbers (B,)."""

    inputs: Sentences | Windows
    tags: Tensor
    rows: Tensor

    def __len__(self) -> int:
        return len(self.rows)


class TagExamples:
    """A site's sentences as numbers."""

    def __init__(
        self, sentences: Sequence[Sentence], tags: Ragged, types: Mapping[str, int], sources: WordSources
    ) -> None:
        words = [[sources.words.vocabulary(word.lower()) for word in sentence.words] for sentence in sentences]
        self.words, self.tags, self.sources = Ragged(words), tags, sources
        forms: dict[str, int] = {}
        self.forms = Ragged([[forms.setdefault(word, len(forms)) for word in one.words] for one in sentences])
        letters = [torch.tensor([_character(char) for char in form[:LETTERS]]) for form in forms]
        self.characters = pad_sequence(letters, batch_first=True) if letters else torch.zeros(0, 1, dtype=torch.int64)
        self.gold = [[(types[kind], start, end) for kind, start, end in one.spans] for one in sentences]
        self._sentences = [one.spaced(LOOKED_AT) for one in sentences] if sources.contextual else []

    def __len__(self) -> int:
        return len(self.words)

    @property
    def sizes(self) -> Tensor:
        """Words of each sentence."""
        return self.words.lengths

    @cached_property
    def _contextual(self) -> list[Tensor] | None:
        encoder = self.sources.contextual
        return encoder.vectors(self._sentences) if encoder else None

    def batch(self, rows: Tensor) -> TagBatch:
        """These rows as the model takes them."""
        words = self.words.padded(rows)  # (B, L)
        lengths = self.words.lengths[rows]  # (B,)
        real = torch.arange(words.shape[1]) < lengths[:, None]  # (B, L)
        padded = torch.where(real, self.forms.padded(rows), self.forms.padded(rows)[:, :1])  # any form: no effect
        seen, places = torch.unique(padded, return_inverse=True)
        characters = self.characters[seen]  # (U, C)
        longest = int((characters != 0).sum(1).max())
        vectors = self._contextual
        contextual = (
            pad_sequence([vectors[row] for row in rows.tolist()], batch_first=True).float() if vectors else None
        )
        inputs = Sentences(words, lengths, places, characters[:, :longest], contextual)
        return TagBatch(inputs, self.tags.padded(rows), rows)


def _character(char: str) -> int:
    return ord(char) if 0 < ord(char) < 128 else 127 + hashed(char, CHARACTERS - 127)

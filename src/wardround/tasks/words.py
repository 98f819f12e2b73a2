"""Words as numbers, and their vectors: from a public file of vectors, or by a hash.

words = WordTable("glove.npz", folder, buckets=2**14)
words.vocabulary("aspirin"), words.size, words.width(50), words.vectors

Either way the vocabulary leaks nothing: a file is public, and a hash needs no list.

A language without spaces has no words that a pattern could find: each text, or each clause, becomes one token that
never comes again, and a model can only learn which label is the commonest. `refuse_useless` says so, with what to set;
`refuse_unlisted` says that a file of vectors is of another language.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from wardround.text.language import UNSPACED, blanks_between_words, mostly
from wardround.text.reading import existing_path
from wardround.text.segment import Characters, Hashed, Jieba, ListedWords, Segmenter, Vocabulary, Words
from wardround.text.vectors import WordVectors, read_vectors

Tokens = Literal["words", "characters", "jieba"]
Beside = Literal["none", "stems", "words"]
Text = TypeVar("Text")

JUDGED_FROM = 20  # texts: of fewer, a share says little
LOOKED_AT = 200
FEWEST_TOKENS = 1.5  # per text, on average
MOST_KINDS = 0.5  # of so few tokens that differ: where the same ones come again, they can be learnt
UNKNOWN = 1  # the number of every token that a list does not have
MOST_UNKNOWN = 0.8  # general vectors lack half the tokens of medical dialogues, and still help

BY_CHARACTERS = 'set tokens = "characters" or "jieba" in [task]'


@dataclass(frozen=True)
class WordTable:
    """Words to numbers: their places in a file of vectors, if one is named, or one of so many buckets."""

    file: str | None
    folder: str
    buckets: int

    @cached_property
    def _read(self) -> WordVectors | None:
        return read_vectors(existing_path(self.file, self.folder)) if self.file else None

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The number of each word."""
        return ListedWords(self._read.words) if self._read else Hashed(buckets=self.buckets)

    @cached_property
    def vectors(self) -> Tensor | None:
        """The file's vectors by number (V + 2, D): zeros for padding and for words that it does not have."""
        if self._read is None:
            return None
        vectors = torch.from_numpy(self._read.vectors.copy())
        return torch.cat([torch.zeros(2, vectors.shape[1]), vectors])

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return self.buckets if self.vectors is None else len(self.vectors)

    def width(self, otherwise: int) -> int:
        """The size of the file's vectors, or that of those that are trained without one."""
        return otherwise if self.vectors is None else self.vectors.shape[1]

    def refuse(self, texts: Sequence[str], cut: Segmenter, tokens: Tokens) -> None:
        """Raise an error if tokens of these texts would be whole clauses, or a file is named that lacks most."""
        language = refuse_unspaced(texts, tokens, BY_CHARACTERS)
        if self.file:
            rows = [[self.vocabulary(token) for token in cut(text)] for text in spread(texts)]
            refuse_unlisted(rows, language, tokens=tokens, listed=self.file)

    def begin(self, *, train: bool) -> dict[str, Any]:
        """What a model begins with: the file's vectors, if one is named, which stay unless they are to be trained."""
        return {"vectors": self.vectors, "freeze": self.vectors is not None and not train}


def spread(texts: Sequence[Text]) -> Sequence[Text]:
    """As many of these as can be looked at, from the first to the last."""
    return texts[:: max(len(texts) // LOOKED_AT, 1)]


def tokens_for(language: str, *, listed: bool = False) -> Tokens:
    """What a text of this language is cut into; for the words of a list, Chinese is segmented."""
    if language == "zh" and listed:
        return "jieba"
    return "characters" if language in UNSPACED else "words"


def refuse_useless(
    texts: Sequence[str], rows: Sequence[Sequence[int]], *, tokens: Tokens, listed: str | None = None
) -> None:
    """Raise an error if the numbers of these texts' tokens hold next to nothing; `listed` names the list, if one."""
    if len(texts) < JUDGED_FROM:
        return
    some = spread(texts)
    language = refuse_unspaced(texts, tokens, BY_CHARACTERS)
    each, kinds = sum(map(len, rows)) / len(rows), len({number for row in rows for number in row})
    once = kinds > MOST_KINDS * each * len(rows)
    if tokens != "characters" and each < FEWEST_TOKENS and once and sum(map(len, some)) / len(some) > each:
        raise ValueError(
            f'task.tokens = "{tokens}" leaves {each:.1f} tokens per text, about one, so that hardly any comes twice; '
            'name the column that holds the texts (text = … in [corpus]), or set tokens = "characters" in [task]'
        )
    if listed:
        refuse_unlisted(rows, language, tokens=tokens, listed=listed)


def refuse_unlisted(rows: Sequence[Sequence[int]], language: str, *, tokens: str, listed: str) -> None:
    """Raise an error if the vectors of this file lack most tokens of texts, if these are enough to judge by."""
    whole = sum(map(len, rows))
    unknown = sum(number == UNKNOWN for row in rows for number in row)
    if len(rows) >= JUDGED_FROM and whole and unknown / whole > MOST_UNKNOWN:
        raise ValueError(
            f"{100 * unknown / whole:.0f} % of the tokens are not in the vectors of {listed}; choose vectors of the "
            f'texts\' language ({language or "unknown"}), or tokens that fit them: tokens = "{tokens}" now'
        )


def refuse_unspaced(texts: Sequence[str], tokens: Tokens, remedy: str) -> str:
    """The language of most texts; an error if they have no blanks between words, and blanks are to find them."""
    some = spread(texts)
    language = mostly(some)
    unspaced = language in UNSPACED and not blanks_between_words(some)
    if tokens == "words" and unspaced and len(texts) >= JUDGED_FROM:
        raise ValueError(
            f'task.tokens = "words", but most texts are in a language without spaces ({language}), '
            f"where a whole clause would be one word; {remedy}"
        )
    return language


def segmenter_for(tokens: Tokens, terms: Path | None = None) -> Segmenter:
    """What cuts texts into these tokens; terms are words that jieba should know."""
    if tokens == "jieba" or terms:
        return Jieba(terms=terms)
    return Characters() if tokens == "characters" else Words()

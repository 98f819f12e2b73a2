"""Texts to named entities, by tagging words.

    [task]
    name = "tagging"
    model = "elmoner"                    # or "cnn-crf", "lstm-crf", "gram-cnn", "cnn-lstm-crf", "s-lstm-crf", …
    vectors = "glove.npz"                # word vectors; without a file they are hashed and trained
    schemes = { psytar = "BIOES" }       # a site's own scheme

Documents become sentences of tokens by the rules of `corpora.tokens`. A site's tag set is its own, made of the entity
types in its training texts and its scheme, where the study keeps the CRF private (`[sites] private`); otherwise all
sites share one over all types. Figures are strict and relaxed, see `metrics.entities`; predictions that break the
scheme are repaired and counted.

Words are numbered by a public vector file or a hash, characters by a fixed table: nothing is learnt from the texts.
Word vectors of a file stay as they are unless `train_vectors` says so; hashed ones are trained, and the rows that
change give away a site's words. FedNER (Ge et al. 2020) trains GloVe's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, cast

import torch
from annotated_types import Ge, Lt
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from wardround.core.task import Batch, Examples
from wardround.core.training import belongs
from wardround.core.weights import Layout
from wardround.metrics.entities import entity_counts, entity_layout, entity_metrics
from wardround.models.pretrained import packaged, read_encoder
from wardround.models.tagger import CHARACTERS, Parts, Sentences, Tagger
from wardround.tasks.batching import Ragged, grouped
from wardround.tasks.contextual import Contextual
from wardround.text.reading import Problems, found_path
from wardround.text.segment import Hashed, Listed, Vocabulary, hashed
from wardround.text.shown import called, shown
from wardround.text.tags import Scheme, marks, spans, tagged
from wardround.text.texts import Texts
from wardround.text.tokens import LETTERS, Sentence, Unit, tokenised
from wardround.text.vectors import WordVectors, read_vectors

__all__ = ["Tagging", "TaggingTask"]

EVALUATED_AT_ONCE = 64

Model = Literal[
    "elmoner", "cnn-crf", "lstm-crf", "gram-cnn", "cnn-lstm-crf", "s-lstm-crf", "cnn-clstm-crf"
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Tagging:
    """The settings of the task."""

    takes: ClassVar[str] = "entities"

    model: Model = "cnn-clstm-crf"
    scheme: Literal["BIO", "BIOES"] = "BIO"
    schemes: dict[str, Literal["BIO", "BIOES"]] | None = None
    """By site, where it differs; needs a private CRF."""
    types: tuple[str, ...] = ()
    """The entity types of the study; without them, those of the corpus."""
    rename: dict[str, str] | None = None
    """From a type in the corpus to one of the study's; an empty name leaves its entities out."""
    tokens: Unit = "words"
    vectors: str | None = None
    train_vectors: bool = False
    buckets: Annotated[int, Ge(2)] = 2**14
    """Numbers that words are hashed to, if there are no `vectors`."""
    embedding: Annotated[int, Ge(1)] = 100
    """Size of the word vectors, if no file gives them."""
    character: Annotated[int, Ge(1)] = 100
    filters: Annotated[int, Ge(1)] = 200
    hidden: Annotated[int, Ge(1)] = 200
    encoder: str = "minilm"
    """The frozen encoder of `elmoner`: a folder, or `minilm`."""
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.2
    longest: Annotated[int, Ge(2)] = 200
    """Tokens of a sentence; longer ones are cut, and counted."""
    remember: bool = True
    """Whether the states of the frozen encoder are kept on disk for later runs."""
    folder: str = ""
    """Where relative paths start; a study fills in its own folder."""

    def __post_init__(self) -> None:
        if self.train_vectors and not self.vectors:
            raise ValueError(
                "train_vectors needs a file of vectors to start from; without one, hashed ones are trained"
            )

    def parts(self, contextual: int) -> Parts:
        """What each of the named taggers is made of."""
        filters, hidden = self.filters, self.hidden
        return {
            "elmoner": Parts(characters=filters, contextual=contextual, cnn=filters, lstm=hidden),
            "cnn-crf": Parts(cnn=filters),
            "lstm-crf": Parts(lstm=hidden),
            "gram-cnn": Parts(characters=filters, cnn=filters, widths=(1, 3, 5)),
            "cnn-lstm-crf": Parts(characters=filters, lstm=hidden),
            "s-lstm-crf": Parts(lstm=hidden, layers=2),
            "cnn-clstm-crf": Parts(characters=filters, cnn=filters, lstm=hidden),
        }[self.model]

    def bind(self, corpus: Any) -> "TaggingTask":
        """The task on a corpus with these entity types."""
        names = {self.renamed(kind) for kind in corpus.types} - {""}
        types = self.types or tuple(sorted(names))
        if not types:
            raise ValueError("tagging needs documents with entities; this corpus has none")
        return TaggingTask(self, types, types, self.scheme, Sources(self))

    def renamed(self, kind: str) -> str:
        """The study's name of a type of the corpus."""
        return (self.rename or {}).get(kind, kind)


class Sources:
    """What all sites' tasks of a process share: word vectors and the frozen encoder, each read when needed."""

    def __init__(self, settings: Tagging) -> None:
        self.settings = settings
        self.variants: dict[tuple[tuple[str, ...], Scheme], TaggingTask] = {}

    @cached_property
    def vectors(self) -> WordVectors | None:
        """The file's."""
        chosen = self.settings.vectors
        return read_vectors(found_path(chosen, self.settings.folder)) if chosen else None

    @cached_property
    def table(self) -> Tensor | None:
        """Vectors by word number: zeros for padding and for words that the file does not have."""
        if self.vectors is None:
            return None
        found = torch.from_numpy(self.vectors.vectors.copy())
        return torch.cat([torch.zeros(2, found.shape[1]), found])  # (V + 2, D)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Words to numbers."""
        return Listed(self.vectors.words) if self.vectors else Hashed(buckets=self.settings.buckets)

    @cached_property
    def contextual(self) -> Contextual | None:
        """The frozen encoder, if the tagger has one."""
        if self.settings.model != "elmoner":
            return None
        chosen = self.settings.encoder
        folder = packaged() if chosen == "minilm" else found_path(chosen, self.settings.folder)
        return Contextual(read_encoder(folder), remember=self.settings.remember)


@dataclass(frozen=True, eq=False)
class TagBatch:
    """Sentences, their tags (B, L), and their row numbers (B,)."""

    inputs: Sentences
    tags: Tensor
    rows: Tensor

    def __len__(self) -> int:
        return len(self.rows)


class TagExamples:
    """A site's sentences as numbers."""

    def __init__(self, sentences: Sequence[Sentence], tags: Ragged, types: Mapping[str, int], sources: Sources) -> None:
        words = [[sources.vocabulary(word.lower()) for word in sentence.words] for sentence in sentences]
        self.words, self.tags, self.sources = Ragged(words), tags, sources
        forms: dict[str, int] = {}
        self.forms = Ragged([[forms.setdefault(word, len(forms)) for word in one.words] for one in sentences])
        letters = [torch.tensor([_character(char) for char in form[:LETTERS]]) for form in forms]
        self.characters = pad_sequence(letters, batch_first=True) if letters else torch.zeros(0, 1, dtype=torch.int64)
        self.gold = [[(types[kind], start, end) for kind, start, end in one.spans] for one in sentences]
        self._sentences = [one.words for one in sentences] if sources.contextual else []

    def __len__(self) -> int:
        return len(self.words)

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
        found = self._contextual
        contextual = pad_sequence([found[row] for row in rows.tolist()], batch_first=True).float() if found else None
        inputs = Sentences(words, lengths, places, characters[:, :longest], contextual)
        return TagBatch(inputs, self.tags.padded(rows), rows)


def _character(char: str) -> int:
    return ord(char) if 0 < ord(char) < 128 else 127 + hashed(char, CHARACTERS - 127)


@dataclass(frozen=True, eq=False)
class TaggingTask:
    """Words to tags of the `own` types in a scheme; figures over all `types` of the study."""

    settings: Tagging
    types: tuple[str, ...]
    own: tuple[str, ...]
    scheme: Scheme
    sources: Sources = field(repr=False)

    @cached_property
    def tags(self) -> tuple[str, ...]:
        """The tag set; O is number 0."""
        return ("O", *(f"{mark}-{kind}" for kind in self.own for mark in marks(self.scheme)))

    def at(self, name: str, texts: Texts, private: tuple[str, ...]) -> "TaggingTask":
        """The task as a site has it: with its own tag set and scheme, if its CRF is its own."""
        if not belongs("crf", private):
            if self.settings.schemes:
                raise ValueError('schemes differ by site only where each has its own CRF; add "crf" to sites.private')
            return self
        found = {self.settings.renamed(entity.type) for document in texts.documents for entity in document.entities}
        own = tuple(kind for kind in self.types if kind in found)
        scheme: Scheme = (self.settings.schemes or {}).get(name, self.scheme)
        return self.sources.variants.setdefault((own, scheme), replace(self, own=own, scheme=scheme))

    # text → numbers

    def sentences(self, texts: Texts, problems: Problems) -> list[Sentence]:
        """The documents' sentences, with types as the study calls them."""
        found: list[Sentence] = []
        for document in texts.documents:
            entities = []
            for entity in document.entities:
                kind = self.settings.renamed(entity.type)
                if kind and kind not in self.types:
                    raise ValueError(
                        f"document {called(document.id)}: type {shown(kind)} is not among {list(self.types)}"
                    )
                if kind:
                    entities.append(replace(entity, type=kind))
                else:
                    problems.at("entity of a type that the study leaves out", called(document.id))
            told = replace(document, entities=tuple(entities))
            found += tokenised(told, problems, unit=self.settings.tokens, longest=self.settings.longest)
        return found

    def examples(self, texts: Texts) -> TagExamples:
        """A site's sentences as numbers."""
        found, places = self.sentences(texts, Problems()), {kind: number for number, kind in enumerate(self.types)}
        numbers = {tag: number for number, tag in enumerate(self.tags)}
        tags = [
            [numbers.get(tag, 0) for tag in tagged(one.spans, len(one.words), self.scheme)] for one in found
        ]  # types that only the test texts have cannot be learnt: O, and misses in the figures
        return TagExamples(found, Ragged(tags), places, self.sources)

    def survey(self, texts: Texts, problems: Problems) -> dict[str, int]:
        """How many entities of each type there are, for the description of the data; oddities are noted."""
        counts: dict[str, int] = {}
        for sentence in self.sentences(texts, problems):
            for kind, _, _ in sentence.spans:
                counts[kind] = counts.get(kind, 0) + 1
        return counts

    # numbers → model → score

    def model(self) -> nn.Module:
        """A new tagger."""
        chosen, table, contextual = self.settings, self.sources.table, self.sources.contextual
        return Tagger(
            chosen.parts(contextual.width if contextual else 0),
            vocabulary=self.sources.vocabulary.size,
            tags=len(self.tags),
            embedding=chosen.embedding if table is None else table.shape[1],
            character=chosen.character,
            dropout=chosen.dropout,
            vectors=table,
            freeze=table is not None and not chosen.train_vectors,
        )

    def batches(self, examples: Examples, size: int, rng: torch.Generator | None) -> Iterator[Batch]:
        """One pass over the sentences, similar lengths together; shuffled if there is a generator."""
        sentences = cast("TagExamples", examples)
        for rows in grouped(sentences.words.lengths, size, rng):
            yield sentences.batch(rows)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Mean negative log-likelihood per sentence."""
        sentences, tagger = cast("TagBatch", batch), cast("Tagger", model)
        found: Tensor = tagger.crf(tagger(sentences.inputs), sentences.tags, sentences.inputs.lengths)
        return -found.mean()

    @torch.no_grad()
    def count(self, model: nn.Module, examples: Examples) -> Mapping[str, Tensor]:
        """Entities predicted, there, and right, per type of the study; repairs, sentences and the summed loss."""
        tagger, sentences = cast("Tagger", model), cast("TagExamples", examples)
        places = {kind: number for number, kind in enumerate(self.types)}
        pairs, repaired, loss = [], 0, torch.zeros((), dtype=torch.float64)
        for batch in self.batches(examples, EVALUATED_AT_ONCE, None):
            told = cast("TagBatch", batch)
            lengths = told.inputs.lengths
            emissions = tagger(told.inputs)  # (B, L, tags)
            loss -= tagger.crf(emissions, told.tags, lengths).double().sum()
            best = tagger.crf.decode(emissions, lengths).tolist()
            for row, path, length in zip(told.rows.tolist(), best, lengths.tolist(), strict=True):
                found, broken = spans([self.tags[number] for number in path[:length]], self.scheme)
                repaired += broken
                pairs.append((sentences.gold[row], [(places[kind], start, end) for kind, start, end in found]))
        return entity_counts(pairs, len(self.types), repaired, loss)

    def counts(self) -> Layout:
        """Names and shapes of what `count` returns."""
        return entity_layout(len(self.types))

    def metrics(self, counts: Mapping[str, Tensor]) -> dict[str, float]:
        """Strict and relaxed figures over all entities and per type."""
        return entity_metrics(counts, self.types)

    def sizes(self) -> dict[str, int]:
        """How many entity types there are."""
        return {"types": len(self.types)}

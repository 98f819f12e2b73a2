"""Texts to named entities, by tagging words.

    [task]
    name = "tagging"
    model = "elmoner"                    # or "cnn-crf", "lstm-crf", "gram-cnn", "cnn-lstm-crf", "s-lstm-crf", …
                                         # or "encoder-crf", "encoder": a pretrained encoder, fine-tuned (`encoders`)
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

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Ge, Lt
from torch import Tensor

from wardround.core.bench import belongs
from wardround.core.refusal import Misfit
from wardround.core.wanted import go_on
from wardround.models.encoded import EncodedTagger
from wardround.models.tagger import Parts, Tagger, named_parts
from wardround.tasks.batching import Ragged, grouped
from wardround.tasks.encoders import EncoderSettings
from wardround.tasks.entities import CHAINED_TAGS, SEPARATE_TAGS, EntitiesTask, Tried
from wardround.tasks.span_odds import sure_entities
from wardround.tasks.tag_examples import OF_TAGGERS, TagBatch, TagExamples, WordSources
from wardround.tasks.tag_pieces import PieceExamples
from wardround.tasks.task import Finds, TaskSettings, existing
from wardround.tasks.unprotected import ByOwnTags
from wardround.tasks.words import WordTable
from wardround.text.document import Document, Entity, Placed
from wardround.text.language import language
from wardround.text.prediction import Prediction
from wardround.text.reading import Problems
from wardround.text.sentences import Scope
from wardround.text.shown import called, shown
from wardround.text.tags import Scheme, Span, marks, spans, tagged
from wardround.text.texts import Texts
from wardround.text.tokens import InFile, Sentence, Unit, tokenised

EVALUATED_AT_ONCE = 64
IN_MEMORY = 1024  # sentences: a frozen encoder's states of a long note's would take gigabytes

Model = Literal[
    "elmoner", "cnn-crf", "lstm-crf", "gram-cnn", "cnn-lstm-crf", "s-lstm-crf", "cnn-clstm-crf",
    "encoder-crf", "encoder",
]  # fmt: skip
AnyTagger = Tagger | EncodedTagger
AnyExamples = TagExamples | PieceExamples

OF_ENCODERS = ("layers", "freeze", "last", "adapter")
OF_WORDS = ("vectors", "buckets", "embedding", "character", "filters", "hidden")


@dataclass(frozen=True, kw_only=True)
class Tagging(EncoderSettings, TaskSettings):
    """Without `lr`, words are tagged by Adam at 0.003, batches of 8, two passes: SGD and fewer steps find little."""

    takes: ClassVar[str] = "entities"
    finds: ClassVar[Finds] = "entities"
    needs: ClassVar[tuple[str, str]] = ("entities", "entity")
    does: ClassVar[str] = "finds named entities in text"
    small: ClassVar[Mapping[str, Any]] = {"model": "cnn-crf", "buckets": 256, "embedding": 8, "filters": 12}
    of_corpus: ClassVar[tuple[str, ...]] = ("rename", "schemes", "types")

    model: Model = "cnn-clstm-crf"
    """The parts below the CRF (characters, convolution, LSTM, frozen encoder), by the names of FedNER's table; or a
    pretrained encoder that is trained too, under a CRF or with each tag for itself."""
    scheme: Literal["BIO", "BIOES"] = "BIO"
    """How spans become tags; with BIOES the last word of an entity has a tag of its own."""
    schemes: dict[str, Literal["BIO", "BIOES"]] | None = None
    """By site, where it differs; needs a private CRF."""
    types: tuple[str, ...] = ()
    """The entity types of the study; without them, those of the corpus."""
    rename: dict[str, str] | None = None
    """From a type in the corpus to one of the study's; an empty name leaves its entities out."""
    tokens: Unit | None = None
    """What a sentence is cut into; if not given, words, or characters where no blanks are between them."""
    vectors: str | None = None
    """A file of word vectors: .npz, GloVe or word2vec text; without one, words are hashed and trained."""
    train_vectors: bool = False
    """Whether the vectors of the file are trained; their changes then give away a site's words."""
    buckets: Annotated[int, Ge(2)] = 2**14
    """Numbers that words are hashed to, if there are no `vectors`."""
    embedding: Annotated[int, Ge(1)] = 100
    """Size of the word vectors, if no file gives them."""
    character: Annotated[int, Ge(1)] = 100
    """Size of the vectors for characters."""
    filters: Annotated[int, Ge(1)] = 200
    """Filters of the convolutions over words and over characters."""
    hidden: Annotated[int, Ge(1)] = 200
    """Size of the LSTM's state."""
    encoder: str = "minilm"
    """The encoder, a frozen one in `elmoner`: a folder, or `minilm`."""
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.2
    """The share of features that training leaves out at random."""
    longest: Annotated[int, Ge(2)] = 200
    """Tokens of a sentence; longer ones are cut, and counted."""
    remember: bool = True
    """Whether the states of a frozen encoder, or of its frozen layers, are kept on disk for later runs."""

    def __post_init__(self) -> None:
        self.refuse_idle(self.model, of_encoders=OF_ENCODERS, of_words=OF_WORDS)
        if self.train_vectors and not self.vectors:
            raise ValueError("train_vectors needs a file of vectors to start from; without one, words are hashed")

    @property
    def encodes(self) -> bool:
        """Whether the tagger is an encoder."""
        return self.model in ("encoder", "encoder-crf")

    @property
    def training(self) -> Mapping[str, Mapping[str, Any]]:
        """What suits an encoder, or a CRF over words."""
        return self.encoder_training if self.encodes else OF_TAGGERS

    def parts(self, contextual: int) -> Parts:
        """What each of the named taggers is made of."""
        return named_parts(self.model, self.filters, self.hidden, contextual)

    def bind(self, corpus: Any) -> "TaggingTask":
        """The task on a corpus with these entity types."""
        types = self.types or tuple(sorted({self.renamed(kind) for kind in corpus.types} - {""}))
        if not types:
            raise ValueError("tagging needs documents with entities; this corpus has none")
        words = WordTable(self.vectors, self.folder, self.buckets)
        parts = self.encoder_parts(self.dropout) if self.encodes else None
        if parts:
            parts.look_through()
        frozen = self.encoder_folder if self.model == "elmoner" else None
        return TaggingTask(self, types, types, self.scheme, WordSources(words, frozen, self.remember, parts))

    def restore(self, about: Any) -> "TaggingTask":
        """The task of a trained model, with the types that it tags; it keeps nothing of a text."""
        return replace(self, schemes=None, types=about.types, scheme=about.scheme, remember=False).bind(about)

    def renamed(self, kind: str) -> str:
        """The study's name of a type of the corpus."""
        return (self.rename or {}).get(kind, kind)

    def files(self) -> dict[str, Path]:
        """Word vectors, and the encoder if the tagger has one."""
        encoder = {"encoder": self.encoder_folder} if self.encodes or self.model == "elmoner" else {}
        return existing(self.folder, vectors=self.vectors) | encoder

    def check(self, placed: Placed, problems: Problems, scope: Scope) -> None:  # noqa: ARG002 -- of relations
        """Overlapping entities, and those that no token fits, are left out."""
        document = placed.document
        chinese = (document.language or language(document.text)) == "zh"
        for _ in tokenised(document, InFile(placed, problems), unit="characters" if chinese else "words"):
            pass


@dataclass(frozen=True, eq=False)
class TaggingTask(ByOwnTags, EntitiesTask):
    """Words to tags of the `own` types in a scheme; figures over all `types` of the study."""

    settings: Tagging
    types: tuple[str, ...]
    own: tuple[str, ...]
    scheme: Scheme
    sources: WordSources = field(repr=False)

    def why_not(self, target: str) -> tuple[str, str]:
        """A tagger with a CRF has other reasons than one without."""
        return (SEPARATE_TAGS if self.settings.model == "encoder" else CHAINED_TAGS)[target]

    @cached_property
    def tags(self) -> tuple[str, ...]:
        """The tag set; O is number 0."""
        return ("O", *(f"{mark}-{kind}" for kind in self.own for mark in marks(self.scheme)))

    def at(self, name: str, texts: Callable[[], Texts], private: tuple[str, ...]) -> "TaggingTask":
        """The task as a site has it: with its own tag set and scheme, if its CRF is its own."""
        if not belongs("crf", private):
            if self.settings.schemes:
                raise ValueError('schemes differ by site only where each has its own CRF; add "crf" to sites.private')
            return self
        here = self.named(texts())
        own = tuple(kind for kind in self.types if kind in here)
        scheme: Scheme = (self.settings.schemes or {}).get(name, self.scheme)
        variant: TaggingTask = self.sources.variants.setdefault((own, scheme), replace(self, own=own, scheme=scheme))
        return variant

    # text → numbers

    def names(self) -> tuple[str, ...]:
        """The types of entities."""
        return self.types

    def named(self, texts: Texts) -> Counter[str]:
        """How many entities of each type there are, by the study's names."""
        kinds = (self.settings.renamed(entity.type) for document in texts.documents for entity in document.entities)
        return Counter(kind for kind in kinds if kind)

    def known(self, texts: Texts) -> tuple[Texts, Counter[str]]:
        """All texts, with the entities of types that it knows or leaves out; and the types that it does not know."""
        types, named = {"", *self.types}, self.named(texts)
        entities = ([e for e in one.entities if self.settings.renamed(e.type) in types] for one in texts.documents)
        kept = (replace(one, entities=tuple(mine)) for one, mine in zip(texts.documents, entities, strict=True))
        return Texts(tuple(kept)), Counter({kind: count for kind, count in named.items() if kind not in types})

    def sentences(self, texts: Texts, problems: Problems) -> list[Sentence]:
        """The documents' sentences, with types as the study calls them."""
        sentences: list[Sentence] = []
        for document in texts.documents:
            kinds = [self.settings.renamed(entity.type) for entity in document.entities]
            if strange := next((kind for kind in kinds if kind and kind not in self.types), None):
                raise Misfit(f"document {called(document.id)}: type {shown(strange)} is not among {list(self.types)}")
            for _ in range(kinds.count("")):
                problems.at("entity of a type that the study leaves out", called(document.id))
            entities = [replace(one, type=kind) for one, kind in zip(document.entities, kinds, strict=True) if kind]
            sentences += self._tokenised(replace(document, entities=tuple(entities)), problems)
        return sentences

    def _tokenised(self, document: Document, problems: Problems) -> Iterator[Sentence]:
        yield from tokenised(document, problems, unit=self.settings.tokens or "words", longest=self.settings.longest)

    def examples(self, texts: Texts) -> Any:
        """A site's sentences as numbers."""
        sentences = self.sentences(texts, Problems())
        places = {kind: number for number, kind in enumerate(self.types)}
        numbers = {tag: number for number, tag in enumerate(self.tags)}
        tags = [
            [numbers.get(tag, 0) for tag in tagged(one.spans, len(one.words), self.scheme)] for one in sentences
        ]  # types that only the test texts have cannot be learnt: O, and misses in the figures
        return self._examples(sentences, tags, places)

    def _examples(self, sentences: Sequence[Sentence], tags: list[list[int]], places: Mapping[str, int]) -> AnyExamples:
        if self.sources.parts:
            return PieceExamples(sentences, Ragged(tags), places, self.sources.parts)
        return TagExamples(sentences, Ragged(tags), places, self.sources)

    def refuse(self, texts: Iterable[Texts]) -> None:
        """Raise an error if words of these texts, cut like this, would be whole clauses, or most are unknown."""
        for some in texts:
            self.sources.refuse(some.documents, self.settings.tokens or "words")

    def survey(self, texts: Texts, problems: Problems) -> dict[str, int]:
        """How many entities of each type there are, for the description of the data; oddities are noted."""
        return dict(Counter(kind for one in self.sentences(texts, problems) for kind, _, _ in one.spans))

    # numbers → model → score

    def model(self) -> Any:
        """A new tagger, of words or of an encoder's pieces."""
        chosen, words = self.settings, self.sources.words
        contextual, parts = self.sources.contextual, self.sources.parts
        if parts:
            chain = chosen.model == "encoder-crf"
            return EncodedTagger(parts.trained(), parts.width, len(self.tags), chain=chain, dropout=chosen.dropout)
        return Tagger(
            chosen.parts(contextual.width if contextual else 0),
            vocabulary=words.size,
            tags=len(self.tags),
            embedding=words.width(chosen.embedding),
            character=chosen.character,
            dropout=chosen.dropout,
            **words.begin(train=chosen.train_vectors),
        )

    def batches(self, examples: AnyExamples, size: int, rng: torch.Generator | None) -> Iterator[TagBatch]:
        """One pass over the sentences, similar lengths together; shuffled if there is a generator."""
        for rows in grouped(examples.sizes, size, rng):
            yield examples.batch(rows)

    def _through(self, examples: AnyExamples, *, padded: bool = True) -> Iterator[TagBatch]:
        """All sentences in batches, for what learns nothing of them."""
        if isinstance(examples, PieceExamples):
            return examples.through(padded=padded)
        return map(examples.batch, grouped(examples.sizes, EVALUATED_AT_ONCE, None))

    def loss(self, model: AnyTagger, batch: TagBatch) -> Tensor:
        """Mean negative log-likelihood per sentence."""
        likelihoods: Tensor = model.crf(model(batch.inputs), batch.tags, batch.inputs.lengths)
        return -likelihoods.mean()

    @torch.no_grad()
    def tried(self, model: AnyTagger, examples: AnyExamples) -> Iterator[Tried]:
        """What the tagger finds in all sentences, batch by batch."""
        places = {kind: number for number, kind in enumerate(self.types)}
        for batch in self._through(examples):
            emissions, lengths, rows = model(batch.inputs), batch.inputs.lengths, batch.rows.tolist()
            # Of a sentence it is sure of, rounding may give a likelihood above 1, and the loss would be no count.
            losses = -model.crf(emissions, batch.tags, lengths).double().clamp(max=0)  # (B,)
            paths = self._spans(model.crf.decode(emissions, lengths), lengths)
            predicted = [[(places[kind], start, end) for kind, start, end in mine] for mine, _ in paths]
            pairs = [(examples.gold[row], mine) for row, mine in zip(rows, predicted, strict=True)]
            yield Tried(rows, pairs, [broken for _, broken in paths], losses)

    def _spans(self, paths: Tensor, lengths: Tensor) -> list[tuple[list[Span], int]]:
        """Of each path of tags (B, L), its entities and how many of them had to be repaired."""
        return [
            spans([self.tags[number] for number in path[:length]], self.scheme)
            for path, length in zip(paths.tolist(), lengths.tolist(), strict=True)
        ]

    # the trained model

    def answers(self) -> dict[str, Any]:
        """The types that it tags, and the scheme."""
        return {"types": self.own, "scheme": self.scheme}

    def summary(self) -> str:
        """The types."""
        return f"Finds {', '.join(self.own)}"

    def limits(self, scope: str) -> tuple[str, ...]:  # noqa: ARG002 -- of relations
        """A token has one tag."""
        return ("It finds entities that do not overlap.",)

    def predict(self, model: AnyTagger, texts: Sequence[Prediction]) -> list[Prediction]:
        """The entities of each text, in order; long texts sentence by sentence, offsets kept."""
        each = [list(self._tokenised(Document("", one.text), Problems())) for one in texts]
        sentences = [sentence for mine in each for sentence in mine]
        homes = [number for number, mine in enumerate(each) for _ in mine]
        entities: list[list[Entity]] = [[] for _ in texts]
        for first in range(0, len(sentences), IN_MEMORY):
            part = slice(first, first + IN_MEMORY)
            for home, here in zip(homes[part], self._entities(model, sentences[part]), strict=True):
                entities[home] += here
        return [Prediction(one.text, entities=tuple(mine)) for one, mine in zip(texts, entities, strict=True)]

    def _entities(self, model: AnyTagger, sentences: Sequence[Sentence]) -> list[list[Entity]]:
        """The entities of each sentence, in order."""
        entities: dict[int, list[Entity]] = {}
        blank = [[0] * len(one.words) for one in sentences]
        for batch in self._through(self._examples(sentences, blank, {}), padded=False):
            go_on()
            emissions, lengths, rows = model(batch.inputs), batch.inputs.lengths, batch.rows.tolist()
            paths = model.crf.decode(emissions, lengths)  # (B, L)
            kinds = [mine for mine, _ in self._spans(paths, lengths)]
            sure = sure_entities(model.crf, emissions, lengths, paths, kinds, [sentences[row].places for row in rows])
            entities |= zip(rows, sure, strict=True)
        return [entities[row] for row in range(len(sentences))]

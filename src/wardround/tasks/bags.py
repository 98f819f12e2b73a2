"""Relations of entity pairs from bags of noisy sentences: distant supervision.

    [task]
    name = "bags"
    denoiser = "one"                 # or "average", "attention", "relation-attention", "none"
    vectors = "vectors.npz"          # .npz, GloVe or word2vec text; without it, words are hashed and trained

The corpus is one of bags: sentences with two entities under public ids and the relation that public facts claim of
them. A site has those sentences of a bag that it holds, and no others. Training is by bags of one fact each, and what
is made of a bag is a setting (`denoise`), for any method whose sites train; evaluation is by pairs, over all relations
but NA (`metrics.facts`). The model is a PCNN, or an encoder that sees [CLS] and both entities, marked (`encoders`).

Tokens are numbered by a hash, or by their place in a public vector file, so no vocabulary leaks. Word vectors from a
file stay as they are unless `train_vectors` says so: trained ones travel, and their changes give away a site's words.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from annotated_types import Ge, Lt
from torch import Tensor
from torch.nn import functional

from wardround.core.task import Surest
from wardround.core.weights import Layout
from wardround.metrics.constant import fact_constant
from wardround.metrics.facts import curve_of, fact_layout, fact_metrics, relation_counts, score_bands
from wardround.metrics.redrawn import fact_redrawn
from wardround.models.pcnn import PCNN
from wardround.models.relation import BagEncoder
from wardround.tasks.bag_examples import OF_PCNN, BagBatch, BagExamples, Groups, Numbers, encoded, numbered, window
from wardround.tasks.batching import Ragged, budgeted, grouped
from wardround.tasks.candidates import Candidates, Pair, related, within_limit
from wardround.tasks.denoise import Denoiser, SentenceModel, bag_scores, pair_odds, surest, weights_of
from wardround.tasks.encoders import EncoderParts, EncoderSettings
from wardround.tasks.pair_examples import PairExamples
from wardround.tasks.task import BoundTask, Finds, TaskSettings, existing
from wardround.tasks.unprotected import ByBags
from wardround.tasks.words import Tokens, WordTable, segmenter_for
from wardround.text.facts import UNRELATED, BagSentence, number, of_bag, sentence
from wardround.text.prediction import Prediction
from wardround.text.segment import Segmenter
from wardround.text.texts import Texts

AT_ONCE = 256
CURVE_POINTS = 400
OF_WORDS = ("tokens", "buckets", "vectors", "embedding", "position", "filters")


@dataclass(frozen=True, kw_only=True)
class Bags(EncoderSettings, TaskSettings):
    """The settings of the task."""

    takes: ClassVar[str] = "bags"
    finds: ClassVar[Finds] = "relations"
    needs: ClassVar[tuple[str, str]] = ("entities", "entity")
    does: ClassVar[str] = "tells how two entities of a sentence are related; trained by distant supervision"
    generated: ClassVar[Mapping[str, Any]] = {
        "name": "clinic-bags", "hospitals": 3, "sentences": 40, "test_sentences": 20,
    }  # fmt: skip
    small: ClassVar[Mapping[str, Any]] = {"buckets": 256, "embedding": 8, "filters": 12}

    model: Literal["pcnn", "encoder"] = "pcnn"
    """What makes a vector of a sentence: a PCNN over words, or a pretrained encoder."""
    denoiser: Denoiser = "one"
    """What is made of a bag: its surest sentence, the mean of all, attention over them, or each sentence by itself."""
    tokens: Tokens | None = None
    """What a sentence is cut into; if not given, words, or characters where no blanks are between them."""
    buckets: Annotated[int, Ge(2)] = 2**14
    """Numbers that words are hashed to, if there are no `vectors`."""
    vectors: str | None = None
    """A file of word vectors: .npz, GloVe or word2vec text; without one, words are hashed and trained."""
    train_vectors: bool = False
    """Whether the vectors of the file are trained; their changes then give away a site's words."""
    embedding: Annotated[int, Ge(1)] = 50
    """Size of the word vectors, if no file gives them."""
    position: Annotated[int, Ge(1)] = 5
    """Size of the vectors for a token's distance to head and tail."""
    filters: Annotated[int, Ge(1)] = 230
    """Filters of the convolution."""
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0
    """The share of features that training leaves out at random."""
    blind: bool = False
    """Whether the names of head and tail are replaced by their types, so that nothing is learnt by heart of a pair."""
    longest: Annotated[int, Ge(3)] = 100
    """Tokens read of a sentence, around its entities; the rest is left out, and counted."""

    def __post_init__(self) -> None:
        self.refuse_idle(self.model, of_encoders=("encoder", "layers", "freeze", "last", "adapter"), of_words=OF_WORDS)
        if self.train_vectors and not self.vectors:
            raise ValueError("train_vectors needs a file of vectors to start from; without one, words train anyway")

    def bind(self, corpus: Any) -> "BagsTask":
        """The task on a corpus with these relations."""
        task = BagsTask(self, tuple(corpus.labels))
        if self.model == "encoder":
            task.parts.look_through()  # what is wrong with weights shows here
        return task

    def restore(self, about: Any) -> "BagsTask":
        """The task of a trained model, which keeps nothing of a text."""
        return replace(replace(self, remember=False).bind(about), candidates=Candidates.of(about))

    @property
    def undecided(self) -> bool:
        """Whether the texts decide on the tokens; an encoder has its own."""
        return self.tokens is None and self.model != "encoder"

    @property
    def training(self) -> Mapping[str, Mapping[str, Any]]:
        """What suits an encoder, or a PCNN: at the general rate of 0.01 it learns a third less in eight rounds."""
        return self.encoder_training if self.model == "encoder" else OF_PCNN

    def files(self) -> dict[str, Path]:
        """Word vectors, or the encoder."""
        encoder = {"encoder": self.encoder_folder} if self.model == "encoder" else {}
        return existing(self.folder, vectors=self.vectors) | encoder


@dataclass(frozen=True, eq=False)
class BagsTask(ByBags, BoundTask):
    """Bags to one of `labels`, of which the first is NA."""

    settings: Bags
    labels: tuple[str, ...]
    candidates: Candidates = field(default_factory=Candidates)
    """Which pairs of a text it is asked about once it is trained."""

    references: ClassVar[tuple[str, ...]] = ("chance",)
    constant_answer: ClassVar[str] = "equally sure of every relation of every pair"
    not_exported: ClassVar[Mapping[str, tuple[str, str]]] = {
        "onnx": ("what makes numbers of a sentence and its entities is not in the network", "use --to spacy"),
        "transformers": ("it scores bags of sentences, which transformers has no model for", "use --to spacy"),
    }

    def __post_init__(self) -> None:
        if len(self.labels) < 2 or self.labels[0] != UNRELATED:
            raise ValueError('the task "bags" needs a corpus of bags with NA and at least one relation')

    # text → numbers

    @cached_property
    def words(self) -> WordTable:
        """The numbers and vectors of tokens."""
        return WordTable(self.settings.vectors, self.settings.folder, self.settings.buckets)

    @cached_property
    def parts(self) -> EncoderParts:
        """The encoder, frozen and trained."""
        return self.settings.encoder_parts(self.settings.dropout, self.settings.longest, markers=True)

    @cached_property
    def _segmenter(self) -> Segmenter:
        return segmenter_for(self.settings.tokens or "words")

    def examples(self, texts: Texts) -> BagExamples:
        """A site's sentences as numbers, grouped."""
        rows = [of_bag(document, self.labels) for document in texts.documents]
        numbers = self._numbers(rows)
        bags = Groups(numbered([row.fact for row in rows]))
        pair_of = numbered([(row.fact.head, row.fact.tail) for row in rows])
        pairs = Groups(pair_of)
        truths = torch.zeros(len(pairs), len(self.labels), dtype=torch.bool)
        truths[pair_of, numbers.relations] = True
        facts = torch.tensor([number(rows[at].fact) for at in bags.first.tolist()], dtype=torch.int64)
        units = Groups(torch.arange(len(rows))) if self.settings.denoiser == "none" else bags
        return BagExamples(numbers, bags, facts, pairs, truths, units)

    def refuse(self, texts: Iterable[Texts]) -> None:
        """Raise an error if words of these texts, cut like this, would be whole clauses, or most are unknown."""
        for written in ([document.text for document in some.documents] for some in texts):
            if self.settings.model == "encoder":
                self.parts.refuse(written)
            else:
                self.words.refuse(written, self._segmenter, self.settings.tokens or "words")

    def _numbers(self, rows: Sequence[BagSentence]) -> Numbers:
        places = {label: index for index, label in enumerate(self.labels)}
        relations = torch.tensor([places[row.labels[0]] for row in rows], dtype=torch.int64)
        truths = torch.tensor([-1 if row.expressed is None else row.expressed for row in rows], dtype=torch.int64)
        if self.settings.model == "encoder":
            marked = encoded(rows, self.parts, self.settings.longest, blind=self.settings.blind)
            read = [(one.ids, one.first[0], one.second[0], one.windowed) for one in marked]
            pairs = PairExamples(marked, relations, self.parts, 0, summed=self.parts.all_frozen)
        else:
            read, pairs = [self._read(row) for row in rows], None
        heads, tails = (torch.tensor([one[at] for one in read], dtype=torch.int64) for at in (1, 2))
        tokens, cut = Ragged([one[0] for one in read]), sum(one[3] for one in read)
        return Numbers(tokens, heads, tails, relations, truths, cut, pairs)

    def _read(self, row: BagSentence) -> tuple[list[int], int, int, bool]:
        """Token numbers, the places of head and tail, and whether the sentence had to be shortened."""
        head, tail = row.entities
        ids: list[int] = []
        begins: dict[int, int] = {}
        last = 0
        for entity in sorted(row.entities, key=lambda entity: entity.start):  # a token never spans an entity's edge
            ids += self._tokens(row.text[last : entity.start])
            begins[entity.start] = len(ids)
            ids += self._tokens(entity.type if self.settings.blind else row.text[entity.start : entity.end])
            last = entity.end
        ids += self._tokens(row.text[last:])
        end = max(len(ids) - 1, 0)
        return window(ids, min(begins[head.start], end), min(begins[tail.start], end), self.settings.longest)

    def _tokens(self, text: str) -> list[int]:
        return [self.words.vocabulary(token) for token in self._segmenter(text)]

    # numbers → model → score

    def model(self) -> Any:
        """A new PCNN, or the pretrained layers that train under a new classifier."""
        chosen, words = self.settings, self.words
        if chosen.model == "encoder":
            encoder, width = self.parts.trained(), self.parts.width
            return BagEncoder(encoder, width, len(self.labels), normalise=True, dropout=chosen.dropout)
        return PCNN(
            words.size,
            words.width(chosen.embedding),
            len(self.labels),
            position=chosen.position,
            filters=chosen.filters,
            dropout=chosen.dropout,
            **words.begin(train=chosen.train_vectors),
        )

    def batches(self, examples: BagExamples, size: int, rng: torch.Generator | None) -> Iterator[BagBatch]:
        """One pass over the bags (or sentences, without a denoiser), similar lengths together."""
        for chosen in grouped(examples.units.longest(examples.numbers.tokens.lengths), size, rng):
            yield examples.batch(chosen)

    def loss(self, model: SentenceModel, batch: BagBatch) -> Tensor:
        """Mean cross-entropy over bags."""
        vectors = model.encode(*batch.inputs)  # (S, D)
        scores = bag_scores(self.settings.denoiser, model, vectors, batch.owner, batch.labels)
        return functional.cross_entropy(scores, batch.labels)

    @torch.no_grad()
    def count(self, model: SentenceModel, examples: BagExamples) -> Mapping[str, Tensor]:
        """Right and wrong predictions by band of score, the summed loss, and how much training saw of the truth."""
        numbers, pairs, units = examples.numbers, examples.pairs, examples.units
        total = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in self.counts().shapes.items()}
        vectors, chosen = self._encoded(model, numbers), self.settings.denoiser  # (S, D)
        for groups in torch.split(torch.arange(len(pairs)), AT_ONCE):
            rows, owner = pairs.take(groups)
            odds, truth = pair_odds(chosen, model, vectors[rows], owner, len(groups)), examples.truths[groups]
            for name, value in (*score_bands(odds[:, 1:], truth[:, 1:]).items(), *relation_counts(odds, truth).items()):
                total[name] += value  # by score: without NA
            total["facts"] += truth[:, 1:].sum()
        total["pairs"] += len(pairs)
        for groups in torch.split(torch.arange(len(units)), AT_ONCE):
            rows, owner = units.take(groups)
            labels = numbers.relations[units.first[groups]]
            scores = bag_scores(chosen, model, vectors[rows], owner, labels)
            total["loss"] += functional.cross_entropy(scores, labels, reduction="sum")
            known, true = numbers.truly(rows, weights_of(chosen, model, vectors[rows], owner, labels))
            total["chosen"] += known
            total["expressed"] += true
        total["bags"] += len(units)
        return total

    def by_class(self, counts: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Facts right, wrong and missed per relation, of those that are likelier than not."""
        hits = counts["truly"]
        return {"hits": hits, "false_alarms": counts["told"] - hits, "misses": counts["there"] - hits}

    def constant(self, counts: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """What being equally sure of everything would have counted."""
        return fact_constant(counts)

    chance = constant  # a ranking at random has, in the mean, the precision of one that tells nothing apart

    def redrawn(self, counts: Mapping[str, Tensor], rng: np.random.Generator, draws: int) -> Mapping[str, Tensor]:
        """Prediction by prediction."""
        return fact_redrawn(counts, rng, draws)

    def counts(self) -> Layout:
        """Names and shapes of what `count` returns."""
        return fact_layout(len(self.labels))

    def metrics(self, counts: Mapping[str, Tensor]) -> dict[str, float]:
        """Areas under the precision–recall curve, precision at 100, 200 and 300, and loss."""
        return fact_metrics(counts)

    def curve(self, counts: Mapping[str, Tensor]) -> list[tuple[float, float]]:
        """Recall and precision along the curve, for the report."""
        return curve_of(counts).points(CURVE_POINTS)

    def sizes(self) -> dict[str, int]:
        """How many relations there are."""
        return {"classes": len(self.labels)}

    # what Lazy MIL looks into

    @torch.no_grad()
    def surest(self, model: SentenceModel, examples: BagExamples) -> Surest:
        """For each fact of the site, its surest sentence and how sure the model is of it."""
        odds = model.classifier(self._encoded(model, examples.numbers)).softmax(1)  # (S, relations)
        rows, owner = examples.bags.take(torch.arange(len(examples.bags)))
        values = odds[rows, examples.numbers.relations[rows]]  # (S,): the probability of its own relation
        best = surest(values, owner, len(examples.bags))  # (bags,)
        return Surest(examples.facts, values[best], rows[best])

    def only(self, examples: BagExamples, rows: Tensor) -> BagExamples:
        """These sentences alone, each a bag of its own."""
        alone = Groups(torch.arange(len(rows)))
        alone.rows = rows
        return replace(examples, units=alone)

    def unrelated(self, examples: BagExamples) -> Tensor:
        """The sentences of pairs without a fact."""
        return (examples.numbers.relations == 0).nonzero().flatten()

    def expressed(self, examples: BagExamples, rows: Tensor) -> tuple[float, float]:
        """Of these sentences, how many claim a fact of which the truth is known, and how many of those truly say it."""
        return examples.numbers.truly(rows, torch.ones(len(rows)))

    def _encoded(self, model: Any, numbers: Numbers) -> Tensor:
        """The vectors of all sentences, in large batches of similar lengths."""
        lengths = numbers.tokens.lengths
        vectors = torch.zeros(len(lengths), model.classifier.in_features, dtype=model.classifier.weight.dtype)
        for rows in budgeted(lengths) if self.settings.model == "encoder" else grouped(lengths, AT_ONCE, None):
            vectors[rows] = model.encode(*numbers.take(rows))
        return vectors  # (S, D)

    # the trained model

    def summary(self) -> str:
        """The relations."""
        return f"Relates entities: {', '.join(self.labels)}"

    def limits(self, scope: str) -> tuple[str, ...]:
        """Pairs far apart."""
        return (within_limit(scope),)

    def predict(self, model: SentenceModel, texts: Sequence[Prediction]) -> list[Prediction]:
        """The relations between the entities of each text."""

        def scores(pairs: Sequence[Pair]) -> tuple[Sequence[Pair], Tensor]:
            rows = [sentence("", d.text, d.entities[0], d.entities[1], UNRELATED) for d in (p.document for p in pairs)]
            return pairs, model.classifier(self._encoded(model, self._numbers(rows)))

        return related(self.candidates, texts, self.labels, UNRELATED, scores)

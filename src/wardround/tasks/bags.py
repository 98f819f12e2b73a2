"""Relations of entity pairs from bags of noisy sentences: distant supervision.

    [task]
    name = "bags"
    denoiser = "one"                 # or "average", "attention", "relation-attention", "none"
    vectors = "vectors.npz"          # .npz, GloVe or word2vec text; without it, words are hashed and trained

The corpus is one of bags: sentences with two entities under public ids and the relation that public facts claim of
them. A site has those sentences of a bag that it holds, and no others. Training is by bags of one fact each, and what
is made of a bag is a setting (`denoise`), for any method whose sites train; evaluation is by pairs, over all relations
but NA (`metrics.facts`). The model is a PCNN.

Tokens are numbered by a hash, or by their place in a public vector file, so no vocabulary leaks. Word vectors from a
file stay as they are unless `train_vectors` says so: trained ones travel, and their changes give away a site's words.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, cast

import torch
from annotated_types import Ge, Lt
from torch import Tensor, nn
from torch.nn import functional

from wardround.core.task import Batch, Examples, Surest
from wardround.core.weights import Layout
from wardround.metrics.facts import curve_of, fact_layout, fact_metrics, score_bands
from wardround.models.pcnn import PCNN
from wardround.tasks.batching import Ragged, grouped
from wardround.tasks.denoise import Denoiser, bag_scores, pair_odds, surest, weights_of
from wardround.text.facts import UNRELATED, Sentence, number
from wardround.text.reading import found_path
from wardround.text.segment import Characters, Hashed, Jieba, Listed, Segmenter, Vocabulary, Words
from wardround.text.shown import called
from wardround.text.texts import Texts
from wardround.text.vectors import WordVectors, read_vectors

__all__ = ["BagExamples", "Bags", "BagsTask", "Groups", "Numbers"]

AT_ONCE = 256
CURVE_POINTS = 400


@dataclass(frozen=True, kw_only=True)
class Bags:
    """The settings of the task."""

    takes: ClassVar[str] = "bags"

    denoiser: Denoiser = "one"
    tokens: Literal["words", "characters", "jieba"] = "words"
    buckets: Annotated[int, Ge(2)] = 2**14
    """Numbers that words are hashed to, if there are no `vectors`."""
    vectors: str | None = None
    train_vectors: bool = False
    embedding: Annotated[int, Ge(1)] = 50
    """Size of the word vectors, if no file gives them."""
    position: Annotated[int, Ge(1)] = 5
    filters: Annotated[int, Ge(1)] = 230
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0
    blind: bool = False
    """Whether the names of head and tail are replaced by their types, so that nothing is learnt by heart of a pair."""
    longest: Annotated[int, Ge(3)] = 100
    """Tokens read of a sentence, around its entities; the rest is left out, and counted."""
    folder: str = ""
    """Where relative paths start; a study fills in its own folder."""

    def __post_init__(self) -> None:
        if self.train_vectors and not self.vectors:
            raise ValueError("train_vectors needs a file of vectors to start from; without one, words train anyway")

    def bind(self, corpus: Any) -> "BagsTask":
        """The task on a corpus with these relations."""
        return BagsTask(self, tuple(corpus.labels))


class Groups:
    """Sentences by what they belong to: a bag, a pair, or each by itself."""

    def __init__(self, owner: Tensor) -> None:
        """From the number of each sentence's owner; owners are 0, 1, …, each with at least one sentence."""
        self.rows = torch.argsort(owner, stable=True)  # (S,)
        self.sizes = torch.bincount(owner)  # (G,)
        self.starts = torch.cumsum(self.sizes, 0) - self.sizes  # (G,)

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def first(self) -> Tensor:
        """One sentence of each group (G,)."""
        return self.rows[self.starts]

    def take(self, groups: Tensor) -> tuple[Tensor, Tensor]:
        """The sentences of these groups, and for each the place of its group among them."""
        sizes = self.sizes[groups]
        owner = torch.repeat_interleave(sizes)  # (S,)
        within = torch.arange(len(owner)) - (torch.cumsum(sizes, 0) - sizes)[owner]  # (S,)
        return self.rows[self.starts[groups][owner] + within], owner

    def longest(self, lengths: Tensor) -> Tensor:
        """The length of the longest sentence of each group (G,)."""
        owner = torch.repeat_interleave(self.sizes)
        return lengths.new_zeros(len(self)).scatter_reduce(0, owner, lengths[self.rows], "amax")


@dataclass(frozen=True, eq=False)
class Numbers:
    """Sentences as numbers."""

    tokens: Ragged
    heads: Tensor
    tails: Tensor
    relations: Tensor
    expressed: Tensor
    """1 if the sentence truly says its fact, 0 if not, -1 if nobody knows."""
    shortened: int


@dataclass(frozen=True, eq=False)
class BagExamples:
    """A site's sentences, grouped by fact, by pair, and by what training takes as one example."""

    numbers: Numbers
    bags: Groups
    facts: Tensor
    """The public number of each bag's fact."""
    pairs: Groups
    truths: Tensor
    """(pairs, relations): what is true of each pair."""
    units: Groups

    def __len__(self) -> int:
        return len(self.units)


@dataclass(frozen=True, eq=False)
class BagBatch:
    """Sentences (S, L) of some bags, the bag of each (S,), and the bags' relations (bags,)."""

    tokens: Tensor
    heads: Tensor
    tails: Tensor
    owner: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class BagsTask:
    """Bags to one of `labels`, of which the first is NA."""

    settings: Bags
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.labels) < 2 or self.labels[0] != UNRELATED:
            known = ", ".join(self.labels) or "nothing"
            raise ValueError(f'the task "bags" needs a corpus of bags with NA and a relation; this one has {known}')

    # text → numbers

    @cached_property
    def _vectors(self) -> WordVectors | None:
        chosen = self.settings.vectors
        return read_vectors(found_path(chosen, self.settings.folder)) if chosen else None

    @cached_property
    def _segmenter(self) -> Segmenter:
        kinds: dict[str, type[Any]] = {"words": Words, "characters": Characters, "jieba": Jieba}
        return cast("Segmenter", kinds[self.settings.tokens]())

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return Listed(self._vectors.words) if self._vectors else Hashed(buckets=self.settings.buckets)

    def examples(self, texts: Texts) -> BagExamples:
        """A site's sentences as numbers, grouped."""
        rows = [self._sentence(document) for document in texts.documents]
        numbers = self._numbers(rows)
        bags = Groups(_numbered([row.fact for row in rows]))
        pair_of = _numbered([(row.fact.head, row.fact.tail) for row in rows])
        pairs = Groups(pair_of)
        truths = torch.zeros(len(pairs), len(self.labels), dtype=torch.bool)
        truths[pair_of, numbers.relations] = True
        facts = torch.tensor([number(rows[at].fact) for at in bags.first.tolist()], dtype=torch.int64)
        units = Groups(torch.arange(len(rows))) if self.settings.denoiser == "none" else bags
        return BagExamples(numbers, bags, facts, pairs, truths, units)

    def _numbers(self, rows: Sequence[Sentence]) -> Numbers:
        places = {label: index for index, label in enumerate(self.labels)}
        read = [self._read(row) for row in rows]
        return Numbers(
            Ragged([ids for ids, _, _, _ in read]),
            torch.tensor([head for _, head, _, _ in read], dtype=torch.int64),
            torch.tensor([tail for _, _, tail, _ in read], dtype=torch.int64),
            torch.tensor([places[row.labels[0]] for row in rows], dtype=torch.int64),
            torch.tensor([-1 if row.expressed is None else int(row.expressed) for row in rows], dtype=torch.int64),
            sum(cut for _, _, _, cut in read),
        )

    def encoded(self, model: PCNN, rows: Sequence[Sentence]) -> Tensor:
        """The vectors of sentences (S, D)."""
        return self._encoded(model, self._numbers(rows))

    def _sentence(self, document: Any) -> Sentence:
        if not isinstance(document, Sentence):
            raise TypeError('the task "bags" reads corpora of bags, such as "bc5cdr-bags" or "clinic-bags"')
        if document.labels[0] not in self.labels:
            raise ValueError(f"sentence {called(document.id)}: its relation is not among {list(self.labels)}")
        return document

    def _read(self, row: Sentence) -> tuple[list[int], int, int, bool]:
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
        most = self.settings.longest
        end = max(len(ids) - 1, 0)
        first, second = sorted((min(begins[head.start], end), min(begins[tail.start], end)))
        # Entities in the middle of what is kept; if they are too far apart, the first decides.
        start = max(0, min(first - (most - (second - first)) // 2, len(ids) - most, first))
        kept = ids[start : start + most]
        places = [min(begins[entity.start] - start, max(len(kept) - 1, 0)) for entity in (head, tail)]
        return kept, places[0], places[1], len(kept) < len(ids)

    def _tokens(self, text: str) -> list[int]:
        return [self._vocabulary(token) for token in self._segmenter(text)]

    # numbers → model → score

    def model(self) -> nn.Module:
        """A new PCNN."""
        chosen = self.settings
        table = None
        if self._vectors:  # zeros for padding and for words that the file does not have
            vectors = torch.from_numpy(self._vectors.vectors.copy())
            table = torch.cat([torch.zeros(2, vectors.shape[1]), vectors])  # (V + 2, D)
        return PCNN(
            chosen.buckets if table is None else len(table),
            chosen.embedding if table is None else table.shape[1],
            len(self.labels),
            position=chosen.position,
            filters=chosen.filters,
            dropout=chosen.dropout,
            vectors=table,
            freeze=table is not None and not chosen.train_vectors,
        )

    def batches(self, examples: Examples, size: int, rng: torch.Generator | None) -> Iterator[Batch]:
        """One pass over the bags (or sentences, without a denoiser), similar lengths together."""
        site = cast("BagExamples", examples)
        for chosen in grouped(site.units.longest(site.numbers.tokens.lengths), size, rng):
            rows, owner = site.units.take(chosen)
            yield _batch(site.numbers, rows, owner, site.numbers.relations[site.units.first[chosen]])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Mean cross-entropy over bags."""
        bags = cast("BagBatch", batch)
        vectors = cast("PCNN", model).encode(bags.tokens, bags.heads, bags.tails)  # (S, D)
        scores = bag_scores(self.settings.denoiser, cast("PCNN", model), vectors, bags.owner, bags.labels)
        return functional.cross_entropy(scores, bags.labels)

    @torch.no_grad()
    def count(self, model: nn.Module, examples: Examples) -> Mapping[str, Tensor]:
        """Right and wrong predictions by band of score, the summed loss, and how much training saw of the truth."""
        site, pcnn = cast("BagExamples", examples), cast("PCNN", model)
        total = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in self.counts().shapes.items()}
        vectors = self._encoded(pcnn, site.numbers)  # (S, D)
        chosen = self.settings.denoiser
        for groups in torch.split(torch.arange(len(site.pairs)), AT_ONCE):
            rows, owner = site.pairs.take(groups)
            odds = pair_odds(chosen, pcnn, vectors[rows], owner, len(groups))[:, 1:]  # (pairs, relations but NA)
            truth = site.truths[groups][:, 1:]
            for name, value in score_bands(odds, truth).items():
                total[name] += value
            total["facts"] += truth.sum()
        total["pairs"] += len(site.pairs)
        for groups in torch.split(torch.arange(len(site.units)), AT_ONCE):
            rows, owner = site.units.take(groups)
            labels = site.numbers.relations[site.units.first[groups]]
            scores = bag_scores(chosen, pcnn, vectors[rows], owner, labels)
            total["loss"] += functional.cross_entropy(scores, labels, reduction="sum")
            seen, said = self._said(site, rows, weights_of(chosen, pcnn, vectors[rows], owner, labels))
            total["chosen"] += seen
            total["expressed"] += said
        total["bags"] += len(site.units)
        return total

    def counts(self) -> Layout:
        """Names and shapes of what `count` returns."""
        return fact_layout()

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
    def surest(self, model: nn.Module, examples: Examples) -> Surest:
        """For each fact of the site, its surest sentence and how sure the model is of it."""
        site, pcnn = cast("BagExamples", examples), cast("PCNN", model)
        told = pcnn.classifier(self._encoded(pcnn, site.numbers)).softmax(1)  # (S, relations)
        rows, owner = site.bags.take(torch.arange(len(site.bags)))
        values = told[rows, site.numbers.relations[rows]]  # (S,): the probability of its own relation
        best = surest(values, owner, len(site.bags))  # (bags,)
        return Surest(site.facts, values[best], rows[best])

    def only(self, examples: Examples, rows: Tensor) -> BagExamples:
        """These sentences alone, each a bag of its own."""
        site = cast("BagExamples", examples)
        alone = Groups(torch.arange(len(rows)))
        alone.rows = rows
        return BagExamples(site.numbers, site.bags, site.facts, site.pairs, site.truths, alone)

    def said(self, examples: Examples, rows: Tensor) -> tuple[float, float]:
        """Of these sentences, how many claim a fact of which the truth is known, and how many of those truly say it."""
        return self._said(cast("BagExamples", examples), rows, torch.ones(len(rows)))

    def _said(self, site: BagExamples, rows: Tensor, weights: Tensor) -> tuple[float, float]:
        claims = (site.numbers.relations[rows] > 0) & (site.numbers.expressed[rows] >= 0)
        return float(weights[claims].sum()), float((weights * (site.numbers.expressed[rows] == 1))[claims].sum())

    def _encoded(self, model: PCNN, numbers: Numbers) -> Tensor:
        """The vectors of all sentences, in large batches of similar lengths."""
        found = torch.zeros(len(numbers.heads), model.classifier.in_features, dtype=model.classifier.weight.dtype)
        for rows in grouped(numbers.tokens.lengths, AT_ONCE, None):
            found[rows] = model.encode(numbers.tokens.padded(rows), numbers.heads[rows], numbers.tails[rows])
        return found  # (S, D)


def _batch(numbers: Numbers, rows: Tensor, owner: Tensor, labels: Tensor) -> BagBatch:
    return BagBatch(numbers.tokens.padded(rows), numbers.heads[rows], numbers.tails[rows], owner, labels)


def _numbered(keys: Sequence[Any]) -> Tensor:
    """Each key's number in order of first appearance."""
    places: dict[Any, int] = {}
    return torch.tensor([places.setdefault(key, len(places)) for key in keys], dtype=torch.int64)

"""Public facts, and sentences that name both ends of one: what distant supervision starts from.

    known = read_facts(Path("facts.tsv"))
    known.relations("D009270", "D007022")          # ("CID",), or ("NA",) if nothing is known of the pair

A file of facts has the columns `head`, `relation` and `tail`, or just these three without names, between tabs.
What is odd in it is counted: repeated facts, a pair that is both related and `NA` (it counts as related) or related in
several ways, relations that the study does not have (left out), and those that the study has and no fact.

A fact's number is a hash of its three parts, the same at all sites without a list that they would have to agree on.
It hides nothing: whoever has the public ids can work it out.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from wardround.text.document import Document, Entity
from wardround.text.reading import DataError, Problems, open_text
from wardround.text.shown import called, names_of

UNRELATED = "NA"
"""The relation of pairs of which the knowledge base knows nothing."""
COLUMNS = ("head", "relation", "tail")


@dataclass(frozen=True, slots=True)
class Fact:
    """A public statement about two concepts, by their ids."""

    head: str
    relation: str
    tail: str


@dataclass(frozen=True, slots=True)
class BagSentence(Document):
    """A document of a bag: its entities are head and tail under their public ids, its label is the claimed relation."""

    expressed: bool | None = None
    """Whether it truly says so; known of generated sentences only."""

    @property
    def fact(self) -> Fact:
        """What the knowledge base claims of its pair."""
        return Fact(self.entities[0].id, self.labels[0], self.entities[1].id)


def sentence(
    name: str,
    text: str,
    head: Entity,
    tail: Entity,
    relation: str,
    *,
    source: str = "",
    language: str = "",
    patient: str = "",
    expressed: bool | None = None,
) -> BagSentence:
    """The sentence of one claimed relation."""
    return BagSentence(
        name, text, (relation,), (head, tail), (), source, language, patient=patient, expressed=expressed
    )


def of_bag(document: Document, labels: Sequence[str]) -> BagSentence:
    """The document, if it is of a bag with one of these labels."""
    if not isinstance(document, BagSentence):
        raise TypeError('the task "bags" reads corpora of bags, such as "bc5cdr-bags" or "clinic-bags"')
    if document.labels[0] not in labels:
        raise ValueError(f"sentence {called(document.id)}: its relation is not among {list(labels)}")
    return document


def number(fact: Fact) -> int:
    """The fact's public number, below 2**63."""
    text = f"{fact.head}\t{fact.relation}\t{fact.tail}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1


class Facts:
    """The public knowledge base."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._known: dict[tuple[str, str], dict[str, None]] = {}
        for fact in facts:
            if fact.relation != UNRELATED:
                self._known.setdefault((fact.head, fact.tail), {})[fact.relation] = None

    def __len__(self) -> int:
        return sum(map(len, self._known.values()))

    def relations(self, head: str, tail: str) -> Sequence[str]:
        """What is known of a pair: its relations, or `NA`."""
        return tuple(self._known.get((head, tail), (UNRELATED,)))

    @property
    def pairs(self) -> Mapping[tuple[str, str], Collection[str]]:
        """The related pairs with their relations."""
        return self._known

    @cached_property
    def tails(self) -> Mapping[str, Collection[str]]:
        """What each head is related to."""
        by_head: dict[str, list[str]] = {}
        for head, tail in self._known:
            by_head.setdefault(head, []).append(tail)
        return by_head

    @cached_property
    def ids(self) -> frozenset[str]:
        """Every id of which something is known."""
        return frozenset(end for pair in self._known for end in pair)

    @property
    def labels(self) -> tuple[str, ...]:
        """`NA` and the relations, sorted."""
        return (UNRELATED, *sorted({relation for known in self._known.values() for relation in known}))


def read_facts(
    path: Path, relations: Collection[str] = (), problems: Problems | None = None, encoding: str | None = None
) -> Facts:
    """The facts of a file; with `relations`, those of others are left out."""
    problems = Problems() if problems is None else problems
    kept: dict[Fact, int] = {}
    others = Counter[str]()
    for line, fact in _rows(path, encoding, problems):
        if relations and fact.relation not in (*relations, UNRELATED):
            others[fact.relation] += 1
            problems.note("fact of a relation that is not in the study, left out", path, line)
        elif fact in kept:
            problems.note("repeated fact", path, line)
        else:
            kept[fact] = line
    if not kept and others:
        what = f"no facts of {', '.join(relations)}"
        known = sorted(names_of(others))[:10]
        remedy = f"ask for one of its relations: {', '.join(known)}" if known else "are its columns as they should be?"
        raise DataError(path, None, what, remedy)
    if not kept:
        raise DataError(path, None, "no facts", "write head, relation and tail between tabs, one fact per line")
    for relation in sorted({*relations} - {fact.relation for fact in kept}):
        problems.at("relation asked for of which there is no fact", relation)
    first: dict[tuple[str, str], Fact] = {}
    for fact in sorted(kept, key=lambda fact: fact.relation == UNRELATED):  # stable
        if first.setdefault((fact.head, fact.tail), fact) == fact:
            continue
        if fact.relation == UNRELATED:
            problems.note("pair both related and NA, taken as related", path, kept[fact])
        else:
            problems.note("another relation of the same pair, a bag of its own", path, kept[fact])
    return Facts(kept)


def _rows(path: Path, encoding: str | None, problems: Problems) -> Iterator[tuple[int, Fact]]:
    names: Sequence[str] = ()
    for line, text in enumerate(open_text(path, encoding, problems=problems), 1):
        cells = [cell.strip() for cell in text.split("\t")]
        if not names:
            folded = [cell.casefold() for cell in cells]
            names = folded if set(COLUMNS) <= set(folded) else COLUMNS
            if names is folded:
                continue
        row = dict(zip(names, cells, strict=False))
        if all(row.get(name) for name in COLUMNS):
            yield line, Fact(row["head"], row["relation"], row["tail"])
        elif text.strip():
            what = f"{len(cells)} cells, of which head, relation or tail is missing or empty"
            raise DataError(path, line, what, "write head, relation and tail between tabs")

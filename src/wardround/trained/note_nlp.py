"""Rows of OMOP's NOTE_NLP table (common data model 5.3, 5.4), and the file that maps what is found to its concepts.

    read_concepts(Path("map.csv")).id_of(entity, text)         # 1112807, or 0

A mapping has a column `concept_id` and any of `concept` (an id that an entity carries, such as RxNorm:1191), `words`
(in any capitals) and `type`; a row holds where all its cells that are not empty fit, and of several rows the one by
concept, then by words, then by type alone.

    concept,type,words,concept_id
    RxNorm:1191,,,1112807
    ,problem,chest pain,77670
    ,problem,,4274025

`term_exists` and `term_temporal` are taken from attributes that came with the entities, as the data model says: a term
does not exist if it is negated, somebody else's, conditional, hypothetical or very unlikely. No model of ours tells
these, so of entities without such attributes both are empty. Every attribute stands in `term_modifiers` as it was.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from wardround.text.document import YES, Entity
from wardround.text.prediction import Prediction, rounded
from wardround.text.reading import DataError, lines_with_ends

NOTE_NLP = (
    "note_id", "section_concept_id", "snippet", "offset", "lexical_variant", "note_nlp_concept_id", "nlp_system",
    "nlp_date", "term_exists", "term_temporal", "term_modifiers",
)  # fmt: skip
AROUND = 50
NO_CONCEPT = "0"
KEYS = ("concept", "words", "type")

YES_WORDS = frozenset({YES, "yes", "y", "1"})
NO_WORDS = frozenset({"false", "no", "n", "0", "none"})
NEGATED = frozenset({"negated", "negative", "neg", "absent", "denied", "not_present"})
PRESENT = frozenset({"present", "affirmed", "positive", "pos", "asserted", "confirmed"})
DOUBTED = frozenset({"conditional", "hypothetical", "hypothetic", "possible_future", "rule_out"})
OTHERS = frozenset(
    {"family", "family_member", "familymember", "other", "someone_else", "associated_with_someone_else", "donor"}
)
UNLIKELY = frozenset({"very_low", "unlikely", "improbable", "ruled_out"})
PAST = frozenset({"past", "historical", "history", "history_of", "before", "previous"})
NOW = frozenset({"present", "current", "recent", "now", "acute", "today"})
MEANINGS = {
    "negation": "negated", "negated": "negated", "neg": "negated", "polarity": "assertion", "assertion": "assertion",
    "status": "assertion", "presence": "assertion", "certainty": "assertion", "uncertainty": "assertion",
    "experiencer": "subject", "subject": "subject", "conditional": "doubted", "hypothetical": "doubted",
    "generic": "doubted", "rule_out": "doubted", "historical": "past", "history": "past", "past": "past",
    "temporality": "time", "temporal": "time", "time": "time",
}  # fmt: skip
"""What the usual names of attributes mean."""


def _meanings(entity: Entity) -> Iterator[tuple[str, str]]:
    """Meanings and values."""
    for name, value in entity.attributes:
        if meaning := MEANINGS.get(_bare(name)):
            yield meaning, _bare(value)


def _bare(word: str) -> str:
    return "_".join(word.casefold().replace("-", " ").replace("_", " ").split())


def term_exists(entity: Entity) -> str:
    """`N` if an attribute says that the patient has it not, `Y` if one says that he has; empty if none tells."""
    known = set[bool]()
    for meaning, value in _meanings(entity):
        if meaning in ("negated", "doubted"):
            known |= {False} if value in YES_WORDS | NEGATED | DOUBTED else {True} if value in NO_WORDS else set()
        elif value in NEGATED | DOUBTED | UNLIKELY | OTHERS:
            known.add(False)
        elif value in PRESENT or (meaning == "subject" and value == "patient"):
            known.add(True)
    return "" if not known else "N" if False in known else "Y"


def term_temporal(entity: Entity) -> str:
    """`Past` or `Present` if an attribute says so."""
    for meaning, value in _meanings(entity):
        if meaning == "past" and value in YES_WORDS | NO_WORDS:
            return "Past" if value in YES_WORDS else "Present"
        if meaning in ("past", "time") and value in PAST | NOW:
            return "Past" if value in PAST else "Present"
    return ""


@dataclass(frozen=True)
class Concepts:
    """A mapping to concept ids: by concept, folded words and type, any of them empty."""

    ids: Mapping[tuple[str, str, str], str]

    def id_of(self, entity: Entity, text: str) -> str:
        """The concept id of an entity, `0` if it is not in the mapping."""
        words = _folded(entity.words(text))
        wanted = [
            (concept, some, kind) for concept in entity.concepts for some in (words, "") for kind in (entity.type, "")
        ]
        wanted += [("", words, entity.type), ("", words, ""), ("", "", entity.type)]
        return next((self.ids[key] for key in wanted if key in self.ids), NO_CONCEPT)


def _folded(words: str) -> str:
    return " ".join(words.casefold().split())


def read_concepts(path: Path) -> Concepts:
    """The mapping of a CSV file."""
    rows = csv.DictReader(lines_with_ends(path))
    names = {*(rows.fieldnames or ())}
    if "concept_id" not in names or names.isdisjoint(KEYS):
        raise DataError(path, 1, "no mapping to concepts", "write a column concept_id, and concept, words or type")
    ids: dict[tuple[str, str, str], str] = {}
    for row in rows:
        concept, words, kind = ((row.get(key) or "").strip() for key in KEYS)
        key, value = (concept, _folded(words), kind), (row.get("concept_id") or "").strip()
        if not value.isdecimal():
            raise DataError(path, rows.line_num, "its concept_id is not a whole number", "use OMOP's own ids")
        if not any(key):
            raise DataError(path, rows.line_num, "it maps nothing", "fill in concept, words or type")
        if ids.setdefault(key, value) != value:
            raise DataError(path, rows.line_num, "the same is mapped to another id above", "keep one of the two")
    return Concepts(ids)


def note_rows(prediction: Prediction, system: str, concepts: Concepts | None) -> Iterator[tuple[str, ...]]:
    """A row for each entity."""
    today = datetime.now(UTC).date().isoformat()
    for one in prediction.entities:
        around = prediction.text[max(one.start - AROUND, 0) : one.end + AROUND]
        modifiers = [f"type={one.type}", "given" if one.given else f"confidence={rounded(one.confidence)}"]
        modifiers += [f"{name}={value}" for name, value in one.attributes]
        modifiers += [f"concept={concept}" for concept in one.concepts]
        for link in prediction.relations:
            if link.head == one.id:
                tail = prediction.entities[prediction.places[link.tail]]
                modifiers.append(f"{link.type}={tail.start}-{tail.end}")
        yield (
            prediction.id, NO_CONCEPT, around, str(one.start), prediction.words(one.id),
            concepts.id_of(one, prediction.text) if concepts else NO_CONCEPT, system, today,
            term_exists(one), term_temporal(one), "; ".join(modifiers),
        )  # fmt: skip

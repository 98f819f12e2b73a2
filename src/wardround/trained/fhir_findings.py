"""What was found in a text as a FHIR (R4) Bundle: Conditions and Observations, and a Provenance that names the model.

    bundle(placed, prediction, "wardround 0.2.0: tagger@1f2e3d4c", Resources())

| finding | resource | |
|---|---|---|
| an entity of a type that is a problem (`PROBLEMS`, or by a mapping) | Condition | `code.text` its words |
| another entity | Observation | `code.text` its type, `valueString` its words |
| a label of the text | Observation | `code.text` "label of the text", `valueCodeableConcept.text` the label |
| a relation | Observation | `code.text` its type, `focus` its head, then its tail |

An entity's concept ids are codings of `code` (a Condition's) or `valueCodeableConcept` (an Observation's, which
then has no `valueString`). Nobody has confirmed what a model finds: a Condition is `unconfirmed`, an Observation
`preliminary`. Attributes that came with a text can say more (`term_exists`, see `note_nlp`): that the patient has it
not makes a Condition `refuted` and gives an Observation the interpretation `NEG`; that he has, `provisional` and `POS`.
Place, confidence, type and attributes are in an extension, `urn:wardround:finding`. Ids follow from text and finding,
so the same command writes the same bytes on the same day. The Bundle's identifier is the id of the text, in the system
`urn:wardround:findings-of`: it names a text in which nothing was found, too.

A mapping (CSV) says for types what is what: `type,resource,system,code,display`.

    type,resource,system,code,display
    problem,Condition,,,
    test,Observation,http://loinc.org,30954-2,Relevant diagnostic tests
"""

import csv
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wardround.text.document import Entity, Placed
from wardround.text.prediction import Prediction, rounded
from wardround.text.reading import DataError, lines_with_ends
from wardround.trained.note_nlp import term_exists

FINDING = "urn:wardround:finding"
FINDINGS_OF = "urn:wardround:findings-of"
KINDS = ("Condition", "Observation")
PROBLEMS = frozenset(
    {"problem", "problems", "condition", "diagnosis", "disease", "disorder", "symptom", "sign", "finding", "effect"}
    | {"adverse effect", "adverse reaction", "injury", "syndrome"}
)
SYSTEMS = {
    "umls": "http://www.nlm.nih.gov/research/umls", "snomedct": "http://snomed.info/sct",
    "snomed": "http://snomed.info/sct", "sctid": "http://snomed.info/sct",
    "rxnorm": "http://www.nlm.nih.gov/research/umls/rxnorm", "loinc": "http://loinc.org",
    "icd10": "http://hl7.org/fhir/sid/icd-10", "icd10cm": "http://hl7.org/fhir/sid/icd-10-cm",
    "icd9cm": "http://hl7.org/fhir/sid/icd-9-cm", "atc": "http://www.whocc.no/atc",
}  # fmt: skip
VERIFIED = "http://terminology.hl7.org/CodeSystem/condition-ver-status"
INTERPRETED = "http://terminology.hl7.org/CodeSystem/v3-ObservationInterpretation"
AGENT = "http://terminology.hl7.org/CodeSystem/provenance-participant-type"
SPACE = uuid.uuid5(uuid.NAMESPACE_URL, FINDING)


@dataclass(frozen=True)
class Resources:
    """Which resource an entity of a type becomes, and the coding of the type."""

    kinds: Mapping[str, str] = field(default_factory=dict)
    codings: Mapping[str, dict[str, str]] = field(default_factory=dict)

    def kind(self, entity: Entity) -> str:
        """Condition or Observation."""
        name = entity.type.casefold().replace("_", " ").replace("-", " ")
        return self.kinds.get(entity.type) or ("Condition" if name in PROBLEMS else "Observation")


def read_resources(path: Path) -> Resources:
    """The mapping of a CSV file."""
    rows = csv.DictReader(lines_with_ends(path))
    if not {"type", "resource"} <= {*(rows.fieldnames or ())}:
        raise DataError(path, 1, "no mapping to resources", "write the columns type and resource")
    kinds: dict[str, str] = {}
    codings: dict[str, dict[str, str]] = {}
    for row in rows:
        kind, resource = ((row.get(key) or "").strip() for key in ("type", "resource"))
        if not kind or kind in kinds:
            what = "the same type is above" if kind else "no type"
            raise DataError(path, rows.line_num, what, "one row for each type")
        if resource not in KINDS:
            raise DataError(
                path, rows.line_num, "its resource is not one that can be written", f"use {' or '.join(KINDS)}"
            )
        kinds[kind] = resource
        coding = {key: value for key in ("system", "code", "display") if (value := (row.get(key) or "").strip())}
        if coding:
            codings[kind] = coding
    return Resources(kinds, codings)


def bundle(placed: Placed, prediction: Prediction, system: str, resources: Resources) -> dict[str, Any]:
    """All findings of a text, those of entities first, and last who has found them."""
    common = _Common(placed, prediction, system)
    made = [*_entities(common, resources), *_labels(common), *_relations(common)]
    name = {"system": FINDINGS_OF, "value": prediction.id}
    whole: dict[str, Any] = {"resourceType": "Bundle", "identifier": name, "type": "collection"}
    if made:  # FHIR has no empty lists
        made.append(_provenance(common, made))
        whole["entry"] = [{"fullUrl": f"urn:uuid:{one['id']}", "resource": one} for one in made]
    return whole


@dataclass(frozen=True)
class _Common:
    """What the resources of one text share."""

    placed: Placed
    prediction: Prediction
    system: str

    def id(self, kind: str, number: int) -> str:
        text = str(uuid.uuid5(SPACE, self.prediction.text))
        return str(uuid.uuid5(SPACE, "\n".join((self.system, self.prediction.id, text, kind, str(number)))))

    @property
    def subject(self) -> dict[str, Any]:
        patient = self.placed.document.patient
        if not patient:
            return {"display": "not named with the text"}
        return {"reference": patient} if "/" in patient else {"type": "Patient", "identifier": {"value": patient}}

    @property
    def note(self) -> dict[str, Any]:
        return {"type": "DocumentReference", "identifier": {"value": self.prediction.id}}


def _entities(common: _Common, resources: Resources) -> Iterator[dict[str, Any]]:
    for number, one in enumerate(common.prediction.entities):
        words = common.prediction.words(one.id)
        codings = [_coding(concept) for concept in one.concepts]
        exists = term_exists(one)
        extension = _extension(one)
        if resources.kind(one) == "Condition":
            state = {"N": "refuted", "Y": "provisional"}.get(exists, "unconfirmed")
            kind = resources.codings.get(one.type)
            yield {
                "resourceType": "Condition", "id": common.id("entity", number), "extension": extension,
                "verificationStatus": {"coding": [{"system": VERIFIED, "code": state}]},
                **({"category": [{"coding": [kind]}]} if kind else {}),
                "code": _concept(codings, words), "subject": common.subject,
                "evidence": [{"detail": [common.note]}],
            }  # fmt: skip
            continue
        kind = resources.codings.get(one.type)
        sign = {"N": "NEG", "Y": "POS"}.get(exists)
        yield {
            "resourceType": "Observation", "id": common.id("entity", number), "extension": extension,
            "status": "preliminary", "code": _concept([kind] if kind else [], one.type), "subject": common.subject,
            **({"valueCodeableConcept": _concept(codings, words)} if codings else {"valueString": words}),
            **({"interpretation": [{"coding": [{"system": INTERPRETED, "code": sign}]}]} if sign else {}),
            "derivedFrom": [common.note],
        }  # fmt: skip


def _labels(common: _Common) -> Iterator[dict[str, Any]]:
    for number, label in enumerate(common.prediction.labels):
        yield {
            "resourceType": "Observation", "id": common.id("label", number),
            "extension": [{"url": FINDING, "extension": [_part("confidence", valueDecimal=rounded(label.confidence))]}],
            "status": "preliminary", "code": {"text": "label of the text"}, "subject": common.subject,
            "valueCodeableConcept": {"text": label.name}, "derivedFrom": [common.note],
        }  # fmt: skip


def _relations(common: _Common) -> Iterator[dict[str, Any]]:
    places = common.prediction.places
    for number, link in enumerate(common.prediction.relations):
        ends = [f"urn:uuid:{common.id('entity', places[end])}" for end in (link.head, link.tail)]
        sure = _part("confidence", valueDecimal=rounded(link.confidence))
        yield {
            "resourceType": "Observation", "id": common.id("relation", number),
            "extension": [{"url": FINDING, "extension": [sure]}],
            "status": "preliminary", "code": {"text": link.type}, "subject": common.subject,
            "focus": [{"reference": end} for end in ends], "derivedFrom": [common.note],
        }  # fmt: skip


def _provenance(common: _Common, made: list[dict[str, Any]]) -> dict[str, Any]:
    today = datetime.now(UTC).date().isoformat()
    return {
        "resourceType": "Provenance", "id": common.id("provenance", 0),
        "target": [{"reference": f"urn:uuid:{one['id']}"} for one in made],
        "recorded": f"{today}T00:00:00Z",
        "agent": [{"type": {"coding": [{"system": AGENT, "code": "assembler"}]}, "who": {"display": common.system}}],
        "entity": [{"role": "source", "what": common.note}],
    }  # fmt: skip


def _extension(one: Entity) -> list[dict[str, Any]]:
    parts = [
        _part("type", valueString=one.type),
        _part("start", valueInteger=one.start),
        _part("end", valueInteger=one.end),
        _part("given", valueBoolean=True) if one.given else _part("confidence", valueDecimal=rounded(one.confidence)),
        *(_part("attribute", valueString=f"{name}={value}") for name, value in one.attributes),
    ]
    return [{"url": FINDING, "extension": parts}]


def _part(url: str, **value: object) -> dict[str, Any]:
    return {"url": url, **value}


def _concept(codings: list[dict[str, str]], text: str) -> dict[str, Any]:
    return {**({"coding": codings} if codings else {}), "text": text}


def _coding(concept: str) -> dict[str, str]:
    """`UMLS:C0004057` as a coding; one of a vocabulary that is not known keeps its name."""
    name, _, code = concept.partition(":")
    system = SYSTEMS.get(name.casefold().replace("-", "").replace("_", "").replace(" ", ""))
    return {"system": system, "code": code} if system and code else {"code": concept}

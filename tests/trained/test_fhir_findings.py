"""What was found as FHIR Bundles, against hand-made ones."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wardround.text.document import Attribute, Document, Entity, Placed, Relation
from wardround.text.prediction import Label, Prediction, numbered
from wardround.text.reading import DataError
from wardround.trained.fhir_findings import Resources, bundle, read_resources

TEXT = "No rash after aspirin."
SYSTEM = "wardround 0.2.0: tagger@1f2e3d4c"
RASH = Entity("", "problem", 3, 7, 0.91234, attributes=(Attribute("negated"),), concepts=("SNOMED-CT:271807003",))
ASPIRIN = Entity("", "treatment", 14, 21, 0.8)
PREDICTION = Prediction(
    TEXT, (Label("allergy", 0.7),), numbered((RASH, ASPIRIN)), (Relation("TrCP", "T2", "T1", 0.6),), id="17"
)


def made(prediction: Prediction = PREDICTION, patient: str = "Patient/4", resources: Resources | None = None) -> Any:
    placed = Placed(Document(prediction.id, TEXT, patient=patient), Path("a"), 1)
    whole = bundle(placed, prediction, SYSTEM, resources or Resources())
    entries: list[dict[str, Any]] = whole.get("entry", [])
    assert ("Bundle", "collection", bool(entries)) == (whole["resourceType"], whole["type"], "entry" in whole)
    assert {"system": "urn:wardround:findings-of", "value": "17"} == whole["identifier"]
    assert all(entry["fullUrl"] == f"urn:uuid:{entry['resource']['id']}" for entry in entries)
    return [entry["resource"] for entry in entries]


def finding(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"url": "urn:wardround:finding", "extension": list(parts)}]


def test_findings_become_the_resources_that_the_mapping_tells() -> None:
    condition, observation, label, relation, provenance = made()
    note = {"type": "DocumentReference", "identifier": {"value": "17"}}
    subject = {"reference": "Patient/4"}
    assert condition == {
        "resourceType": "Condition",
        "id": condition["id"],
        "extension": finding(
            {"url": "type", "valueString": "problem"},
            {"url": "start", "valueInteger": 3},
            {"url": "end", "valueInteger": 7},
            {"url": "confidence", "valueDecimal": 0.9123},
            {"url": "attribute", "valueString": "negated=true"},
        ),
        "verificationStatus": {
            "coding": [{"system": "http://terminology.hl7.org/CodeSystem/condition-ver-status", "code": "refuted"}]
        },
        "code": {"coding": [{"system": "http://snomed.info/sct", "code": "271807003"}], "text": "rash"},
        "subject": subject,
        "evidence": [{"detail": [note]}],
    }
    assert observation == {
        "resourceType": "Observation",
        "id": observation["id"],
        "extension": finding(
            {"url": "type", "valueString": "treatment"},
            {"url": "start", "valueInteger": 14},
            {"url": "end", "valueInteger": 21},
            {"url": "confidence", "valueDecimal": 0.8},
        ),
        "status": "preliminary",
        "code": {"text": "treatment"},
        "subject": subject,
        "valueString": "aspirin",
        "derivedFrom": [note],
    }
    assert ({"text": "label of the text"}, {"text": "allergy"}) == (label["code"], label["valueCodeableConcept"])
    ends = [{"reference": f"urn:uuid:{one['id']}"} for one in (observation, condition)]
    assert ({"text": "TrCP"}, ends) == (relation["code"], relation["focus"])
    assert SYSTEM == provenance["agent"][0]["who"]["display"]
    findings = (condition, observation, label, relation)
    assert [{"reference": f"urn:uuid:{one['id']}"} for one in findings] == provenance["target"]


def test_ids_are_the_same_again_and_differ_from_each_other_and_from_other_texts() -> None:
    ids = [one["id"] for one in made()]
    assert (ids, 5) == ([one["id"] for one in made()], len(set(ids)))
    assert set(ids).isdisjoint(one["id"] for one in made(replace(PREDICTION, text=TEXT.upper())))


def test_a_mapping_says_what_is_what(tmp_path: Path) -> None:
    path = tmp_path / "map.csv"
    path.write_text(
        "type,resource,system,code,display\nproblem,Observation,,,\ntreatment,Condition,http://loinc.org,1-1,Drugs\n",
        encoding="utf-8",
    )
    first, second, *_ = made(resources=read_resources(path))
    assert ("Observation", "Condition") == (first["resourceType"], second["resourceType"])
    assert ({"text": "problem"}, "NEG") == (first["code"], first["interpretation"][0]["coding"][0]["code"])
    assert "rash" == first["valueCodeableConcept"]["text"]
    coding = {"system": "http://loinc.org", "code": "1-1", "display": "Drugs"}
    assert [{"coding": [coding]}] == second["category"]
    assert "unconfirmed" == second["verificationStatus"]["coding"][0]["code"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("type,code\nproblem,1\n", "write the columns type and resource"),
        ("type,resource\nproblem,Procedure\n", "use Condition or Observation"),
        ("type,resource\na,Condition\na,Observation\n", "the same type is above"),
    ],
)
def test_a_mapping_that_is_none_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "map.csv").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_resources(tmp_path / "map.csv")


def test_a_text_without_findings_has_an_empty_bundle_and_a_patient_by_number_is_an_identifier() -> None:
    assert [] == made(Prediction(TEXT, id="17"))
    assert {"type": "Patient", "identifier": {"value": "4711"}} == made(patient="4711")[0]["subject"]
    assert {"display": "not named with the text"} == made(patient="")[0]["subject"]
    assert json.loads(json.dumps(made(patient="4711"))) == made(patient="4711")

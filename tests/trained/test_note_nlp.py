"""OMOP's NOTE_NLP: what attributes say of a term, whatever the tool calls them."""

import pytest

from wardround.text.document import Attribute, Entity
from wardround.trained.note_nlp import Concepts, term_exists, term_temporal


def entity(*attributes: tuple[str, str], **more: tuple[str, ...]) -> Entity:
    return Entity("T1", "problem", 0, 4, attributes=tuple(Attribute(*one) for one in attributes), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("attributes", "exists"),
    [
        ((), ""),
        ((("colour", "red"),), ""),
        ((("negated", "true"),), "N"),
        ((("Negation", "false"),), "Y"),
        ((("assertion", "absent"),), "N"),
        ((("assertion", "present"),), "Y"),
        ((("assertion", "possible"),), ""),
        ((("assertion", "associated_with_someone_else"),), "N"),
        ((("polarity", "NEG"),), "N"),
        ((("experiencer", "Family Member"), ("assertion", "present")), "N"),
        ((("experiencer", "patient"),), "Y"),
        ((("hypothetical", "true"),), "N"),
        ((("certainty", "very low"),), "N"),
    ],
)
def test_a_term_exists_unless_something_speaks_against_it(attributes: tuple[tuple[str, str], ...], exists: str) -> None:
    assert exists == term_exists(entity(*attributes))


@pytest.mark.parametrize(
    ("attributes", "time"),
    [
        ((), ""),
        ((("historical", "true"),), "Past"),
        ((("historical", "false"),), "Present"),
        ((("temporality", "current"),), "Present"),
        ((("Temporality", "history-of"),), "Past"),
        ((("temporality", "next week"),), ""),
        ((("assertion", "present"),), ""),
    ],
)
def test_a_term_is_past_or_present(attributes: tuple[tuple[str, str], ...], time: str) -> None:
    assert time == term_temporal(entity(*attributes))


def test_the_nearest_row_of_a_mapping_counts() -> None:
    concepts = Concepts(
        {("C1", "", ""): "1", ("", "rash", "problem"): "2", ("", "rash", ""): "3", ("", "", "problem"): "4"}
    )
    assert "1" == concepts.id_of(entity(concepts=("C9", "C1")), "rash")
    assert "2" == concepts.id_of(entity(), "Rash")
    assert "4" == concepts.id_of(entity(), "pain")
    assert "0" == concepts.id_of(Entity("T1", "test", 0, 4), "pain")

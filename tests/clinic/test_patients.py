"""Whose a generated note is, where a study wants to know."""

from wardround.clinic import Clinic
from wardround.clinic.bags import ClinicBags
from wardround.text.document import Document


def notes(split: str = "train", **settings: int | None) -> list[Document]:
    clinic = Clinic(hospitals=1, documents=6, test_documents=6, noise=0.0, **settings)  # type: ignore[arg-type]  # numbers
    return list(clinic.stream(clinic.names()[0], split))


def test_a_patient_has_as_many_notes_as_were_asked_for_and_one_department() -> None:
    whose = [note.patient for note in notes(per_patient=3)]
    assert [whose[0]] * 3 + [whose[3]] * 3 == whose
    assert whose[0] != whose[3]
    assert 2 == len({(note.patient, note.labels) for note in notes(per_patient=3)})


def test_no_patient_is_in_two_splits() -> None:
    train, test = ({note.patient for note in notes(split, per_patient=2)} for split in ("train", "test"))
    assert not train & test


def test_no_note_says_whose_it_is_unless_it_is_asked_for() -> None:
    assert {""} == {note.patient for note in notes()}


def test_dialogues_and_sentences_of_bags_say_whose_they_are() -> None:
    bags = ClinicBags(hospitals=1, sentences=6, test_sentences=6, per_patient=2)
    train, test = ([row.patient for row in bags.documents(split)] for split in ("train", "test"))
    assert 3 == len(set(train))
    assert not {*train} & {*test}
    for kind, language in (("dialogues", "zh"), ("distant", "en")):
        clinic = Clinic(hospitals=1, documents=30, kind=kind, language=language, per_patient=1)  # type: ignore[arg-type]
        documents = list(clinic.stream(clinic.names()[0], "train"))
        assert all(document.patient for document in documents)
        assert kind == "distant" or len({one.source for one in documents}) == len({one.patient for one in documents})

"""`clinic`: hospitals that do not exist, to rehearse a federation before any real note is touched.

    clinic = Clinic(hospitals=5, heterogeneity=0.5, noise=0.1, seed=0)
    for name in clinic.names():
        for document in clinic.stream(name, "train"): ...

Three kinds of documents. `notes` (English or Chinese): short notes with problems, treatments and tests, the
relations of the 2010 i2b2/VA corpus within each line (`candidates` adds the pairs without one), and the
department as label. `dialogues` (Chinese): sentences labelled symptom "1" or not "0". `distant` (English or
Chinese): sentences that name both ends of one of `facts()`, labelled by them; `stream_distant` says which of
them truly express it.

Each hospital has its own favourite words, abbreviations, phrases, order of sections, share of classes and
concepts, annotation conventions and favourite mistakes; `heterogeneity` sets how far these differ, `noise` the
share of labels that annotators got wrong and, with it, the slips of the pen. `gold` gives the same texts with
labels free of both: no mistakes, one convention.

A document depends only on the settings, its hospital, its split and its number, on every platform; nothing is
kept in memory but the vocabulary. The medicine is plausible at best: never advice, and about no real person.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Annotated, ClassVar, Literal, get_args

from annotated_types import Ge

from wardround.clinic.dialogues import dialogue
from wardround.clinic.distant import Expressed, distant
from wardround.clinic.hospital import Hospital, open_hospital
from wardround.clinic.notes import annotate, draft
from wardround.clinic.settings import Distant
from wardround.clinic.words import DEPARTMENTS, Language, words
from wardround.text.document import Document
from wardround.text.facts import Fact
from wardround.text.texts import Texts

Kind = Literal["notes", "dialogues", "distant"]
Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)


@dataclass(frozen=True, kw_only=True)
class Clinic(Distant):
    """Settings of a group of hospitals, and the documents they would write."""

    views: ClassVar[tuple[str, ...]] = ("labels", "entities")

    documents: Annotated[int, Ge(0)] = 200
    """Training documents per hospital; in dialogues and distant supervision a document is a sentence."""
    valid_documents: Annotated[int, Ge(0)] = 50
    """Validation documents per hospital."""
    test_documents: Annotated[int, Ge(0)] = 50
    """Test documents per hospital."""
    kind: Kind = "notes"
    """Notes with entities and a department, dialogues with symptoms, or sentences for distant supervision."""

    def __post_init__(self) -> None:
        wrong = [
            f"{name} = {value!r}; {remedy}"
            for name, value, right, remedy in (
                ("hospitals", self.hospitals, self.hospitals >= 1, "at least 1"),
                ("documents", self.documents, self.documents >= 0, "0 or more"),
                ("valid_documents", self.valid_documents, self.valid_documents >= 0, "0 or more"),
                ("test_documents", self.test_documents, self.test_documents >= 0, "0 or more"),
                ("language", self.language, self.language in get_args(Language), "en or zh"),
                ("kind", self.kind, self.kind in get_args(Kind), "notes, dialogues or distant"),
                ("heterogeneity", self.heterogeneity, 0 <= self.heterogeneity <= 1, "from 0 to 1"),
                ("per_patient", self.per_patient, self.per_patient is None or self.per_patient >= 1, "at least 1"),
                ("noise", self.noise, 0 <= self.noise <= 1, "from 0 to 1"),
                ("expression", self.expression, 0 <= self.expression <= 1, "from 0 to 1"),
                ("bag_size", self.bag_size, self.bag_size >= 1, "at least 1"),
                ("background", self.background, 0 <= self.background <= 1, "from 0 to 1"),
                ("unrelated", self.unrelated, 0 <= self.unrelated < 1, "from 0 to below 1"),
            )
            if not right
        ]
        if self.kind == "dialogues" and self.language == "en":
            wrong.append("kind = 'dialogues' is Chinese only; set language = 'zh'")
        if wrong:
            raise ValueError("clinic settings: " + "; ".join(wrong))

    def names(self) -> list[str]:
        """The hospitals, in order."""
        width = len(str(self.hospitals - 1))
        return [f"hospital-{index:0{width}}" for index in range(self.hospitals)]

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of documents; distantly supervised sentences have relations instead."""
        return {"notes": DEPARTMENTS, "dialogues": ("0", "1"), "distant": ()}[self.kind]

    @property
    def types(self) -> tuple[str, ...]:
        """The types of entities in notes and in distantly supervised sentences."""
        return () if self.kind == "dialogues" else ("problem", "test", "treatment")

    def open(self, name: str) -> tuple[Texts, Texts]:
        """One hospital's training and test documents, held in memory: a federation's site."""
        return Texts(tuple(self.stream(name, "train"))), Texts(tuple(self.stream(name, "test")))

    def validation(self, name: str) -> Texts:
        """The same of its validation documents."""
        return Texts(tuple(self.stream(name, "valid")))

    def size(self, split: str) -> int:
        """How many documents each hospital has in this split."""
        sizes = {"train": self.documents, "valid": self.valid_documents, "test": self.test_documents}
        if split not in sizes:
            raise ValueError(f"no split {split!r}; there are {', '.join(sizes)}")
        return sizes[split]

    def stream(self, name: str, split: str) -> Iterator[Document]:
        """What a reader of this hospital's files would see, one document after the other."""
        return (seen for seen, _ in self._pairs(self._hospital(name), split, self.size(split)))

    def gold(self, name: str, split: str) -> Iterator[Document]:
        """The same texts with their true labels; in distant supervision, with the facts they express."""
        return (true for _, true in self._pairs(self._hospital(name), split, self.size(split)))

    def facts(self) -> Iterator[Fact]:
        """The public knowledge base, the same for every seed and in both languages."""
        return iter(words(self.language).facts)

    def stream_distant(self, name: str, split: str) -> Iterator[Expressed]:
        """Distantly supervised sentences with whether they express their fact, whatever the clinic's kind."""
        return self._distant(self._hospital(name), split, self.size(split))

    def _distant(self, hospital: Hospital, split: str, size: int) -> Iterator[Expressed]:
        stream = distant(hospital, self.language, split, self)
        for number, sentence in enumerate(islice(stream, size)):
            # A number, since many readers of PubTator files take nothing else.
            identifier = f"{hospital.index + 1}{SPLITS.index(split)}{number:09}"
            whose = self._patient(hospital, split, number)
            yield replace(sentence, document=replace(sentence.document, id=identifier, patient=whose))

    def _patient(self, hospital: Hospital, split: str, number: int) -> str:
        """Whose sentence or dialogue of this number is, if patients are told apart."""
        return f"{hospital.name}-{split}-patient-{number // self.per_patient}" if self.per_patient else ""

    def _hospital(self, name: str) -> Hospital:
        names = self.names()
        if name not in names:
            raise ValueError(f"no hospital {name!r}; there are {names[0]} to {names[-1]}")
        return open_hospital(
            name,
            names.index(name),
            language=self.language,
            heterogeneity=self.heterogeneity,
            noise=self.noise,
            seed=self.seed,
        )

    def _pairs(self, hospital: Hospital, split: str, size: int) -> Iterator[tuple[Document, Document]]:
        """Each document as annotated and as it truly is."""
        if self.kind == "distant":
            for sentence in self._distant(hospital, split, size):
                true = sentence.document if sentence.expressed else replace(sentence.document, relations=())
                yield sentence.document, true
        elif self.kind == "dialogues":
            for number, (seen, true) in enumerate(islice(self._sentences(hospital, split), size)):
                identifier = f"{hospital.name}-{split}-{number}"
                yield replace(seen, id=identifier), replace(true, id=identifier)
        else:
            for number in range(size):
                key = hospital.index, split, number
                several = self.per_patient
                whose = (hospital.index, split, "patient", number // several) if several else ()
                truth = draft(hospital, self.language, key, f"{hospital.name}-{split}-{number}", whose)
                yield annotate(truth, hospital, self.noise, key), truth.document

    def _sentences(self, hospital: Hospital, split: str) -> Iterator[tuple[Document, Document]]:
        for number in count():
            source, whose = f"{hospital.name}-{split}-dialogue-{number}", self._patient(hospital, split, number)
            for pair in dialogue(hospital, self.noise, (hospital.index, split, number), source):
                seen, true = (replace(one, patient=whose) for one in pair)
                yield seen, true

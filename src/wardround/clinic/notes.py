"""Short clinical notes: a few lines about one patient, with entities, relations and the department.

The true department is the patient's; the words only hint at it, since symptoms, comorbidities and short forms
are shared between departments. A relation joins two entities of one line. `candidates` gives every pair of a
line that could be related, those that are not as `none`, the ninth class.

`draft` writes the note and knows the truth; `annotate` is what the hospital's annotators made of it. They err
at the rate `noise`: a wrong department, a relation missed or taken for another; a quarter as often they see a
relation where there is none, or overlook an entity. Which mistake they make is a habit of the hospital. So are
two conventions that are no mistakes: whether a span takes in its modifier, and whether past problems count.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from wardround.clinic.dice import Dice
from wardround.clinic.grammar import Manuscript, Mark, Mention, Piece, slots, worded
from wardround.clinic.hospital import REGISTERS, RELATIONS, SECTIONS, Hospital
from wardround.clinic.words import DEPARTMENTS, SHARED, Concept, Language, table
from wardround.text.document import Document, Relation

MAIN, COMORBID = 0.78, 0.07
"""How often a clause is about the patient's main problem, or about one of any department; else a symptom."""
LINES = 3  # or one more
VAGUE = 0.3
"""How often a clause leaves its relation to the reader's knowledge of medicine."""
RULED_OUT = 0.2

FAMILIES = {
    **dict.fromkeys(("TrIP", "TrWP", "TrCP", "TrAP", "TrNAP"), ("Tr",)),
    **dict.fromkeys(("TeRP", "TeCP"), ("Te",)),
    "PIP": ("PP",),
    "none": ("Tr", "Te", "PP"),
}
SECTION = {"PIP": "history", "none": "history", "TeRP": "tests", "TeCP": "tests"}

NEIGHBOURS = {
    "cardiology": ("respiratory", "endocrine", "neurology"),
    "gastroenterology": ("infection", "endocrine", "cardiology"),
    "neurology": ("cardiology", "infection", "endocrine"),
    "respiratory": ("infection", "cardiology", "neurology"),
    "endocrine": ("cardiology", "neurology", "gastroenterology"),
    "infection": ("respiratory", "gastroenterology", "neurology"),
}
CONFUSABLE = {
    "TrIP": ("TrAP", "TrWP", "none"),
    "TrWP": ("TrAP", "TrIP", "TrCP"),
    "TrCP": ("TrWP", "TrNAP", "none"),
    "TrAP": ("TrIP", "none", "TrNAP"),
    "TrNAP": ("TrAP", "TrCP", "none"),
    "TeRP": ("TeCP", "none"),
    "TeCP": ("TeRP", "none"),
    "PIP": ("none",),
}
POSSIBLE = {("treatment", "problem"): "TrAP", ("test", "problem"): "TeRP", ("problem", "problem"): "PIP"}


@dataclass(frozen=True, slots=True)
class TrueNote:
    """A note with the truth about it."""

    document: Document
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Patient:
    """What a note is about: a main problem of its department, symptoms, and a problem of any department."""

    department: str
    main: Concept
    symptoms: tuple[Concept, ...]
    comorbid: Concept


def candidates(document: Document) -> Iterator[Relation]:
    """Every pair within a line that could be related, with its relation or `none`.

    The head is the treatment or the test; of two problems it is the one that comes first.
    """
    known = {(relation.head, relation.tail): relation for relation in document.relations}
    entities = sorted(document.entities, key=lambda entity: entity.start)
    for rank, first in enumerate(entities):
        for second in entities[rank + 1 :]:
            if "\n" in document.text[first.end : second.start]:
                break
            for head, tail in ((first, second), (second, first)):
                if (head.type, tail.type) in POSSIBLE:
                    yield known.get((head.id, tail.id), Relation("none", head.id, tail.id))
                    break


def draft(
    hospital: Hospital, language: Language, key: Sequence[object], identifier: str, whose: Sequence[object] = ()
) -> TrueNote:
    """The note that this key names; `whose` is the key of its patient, if it is to say whose it is."""
    dice = Dice(hospital.seed, language, "note", *key)
    frames = table(f"notes-{language}")
    admission = Dice(hospital.seed, language, "patient", *whose) if whose else dice
    department = admission.weighted(DEPARTMENTS, hospital.departments)
    register = dice.weighted(REGISTERS, hospital.registers)
    patient = _admit(department, hospital, admission)
    headings = dice.chance(hospital.headings)
    page = Manuscript(language, hospital.typos, dice)
    relations: list[Relation] = []

    chosen = [dice.weighted(RELATIONS, hospital.relations) for _ in range(LINES + dice.below(2))]
    order = hospital.order if dice.chance(hospital.heterogeneity) else SECTIONS
    chosen.sort(key=lambda relation: order.index(SECTION.get(relation, "course")))
    section = ""
    for relation in chosen:
        page.text += "\n" if page.text else ""
        if headings and SECTION.get(relation, "course") != section:
            section = SECTION.get(relation, "course")
            title = hospital.taste("heading", frames[f"heading {section}"], dice)
            page.text += title + (": " if language == "en" else "：")
        clauses = [relation, *_asides(department, dice)]
        for rank, clause in enumerate(clauses):
            if rank:
                page.text += hospital.taste("join", frames[f"join {register}"], dice).replace("_", " ")
            fresh = not rank or page.text.endswith(". ")
            frame = hospital.taste("frame", frames[_wording(clause, register, dice)], dice)
            cast = {
                slot: mention(concept, hospital, language, dice, past=clause == "history")
                for slot, concept in _related(clause, slots(frame), patient, hospital, dice).items()
            }
            pieces = list(worded(frame, cast, hospital, dice))
            ids = page.write(pieces, capital=fresh and register != "terse")
            if clause in RELATIONS and clause != "none":
                relations.append(_relation(clause, ids, pieces))
        page.text += hospital.taste("end", frames[f"end {register}"], dice)

    document = Document(
        id=identifier,
        text=page.text,
        labels=(department,),
        entities=tuple(mark.entity for mark in page.marks),
        relations=tuple(relations),
        source=hospital.name,
        language=language,
        patient="-".join(map(str, (hospital.name, *whose[1:]))) if whose else "",
    )
    return TrueNote(document, tuple(page.marks))


def _wording(clause: str, register: str, dice: Dice) -> str:
    """The title of the frames to choose from."""
    if clause in FAMILIES and dice.chance(VAGUE):
        return f"vague {dice.pick(FAMILIES[clause])}"
    if clause == "TeRP" and dice.chance(RULED_OUT):
        clause = "ruled-out"  # by the corpus's guidelines a test's negative answer is a TeRP, too
    return clause if clause.startswith("hint") else f"{clause} {register}"


def _asides(department: str, dice: Dice) -> Iterator[str]:
    """What else the line says: nothing, a remark, a past problem, something unrelated or another relation."""
    if dice.chance(0.55):
        options = ("filler", f"hint {department}", "history", "none", dice.pick(RELATIONS))
        yield dice.weighted(options, (0.2, 0.2, 0.15, 0.2, 0.25))


def _relation(kind: str, ids: Mapping[str, str], pieces: Sequence[Piece]) -> Relation:
    if kind == "PIP":
        first, second = [ids[piece.slot] for piece in pieces if piece.mention]
        return Relation(kind, first, second)
    return Relation(kind, ids["T" if kind.startswith("Tr") else "E"], ids["P"])


def mention(concept: Concept, hospital: Hospital, language: Language, dice: Dice, *, past: bool = False) -> Mention:
    """The concept in this hospital's words, sometimes with a modifier."""
    modifier = ""
    if concept.type == "problem" and dice.chance(0.2):
        modifier = hospital.taste("modifier", table(f"notes-{language}")["modifier"], dice)
    surface = hospital.surface(concept, dice)
    return Mention(concept, surface, "" if surface.startswith(modifier) else modifier, past)


def _admit(department: str, hospital: Hospital, dice: Dice) -> Patient:
    """A patient of this department."""
    pools, partners = hospital.words.pools, hospital.words.partners
    main = hospital.concept(pools[department, "problem"], dice)
    symptoms = pools[SHARED, "problem"]
    typical = partners.get(("presents_with", main.id), symptoms)
    return Patient(
        department=department,
        main=main,
        symptoms=(hospital.concept(typical, dice), hospital.concept(symptoms, dice)),
        comorbid=hospital.concept(pools[dice.pick(DEPARTMENTS), "problem"], dice),
    )


def _related(clause: str, wanted: set[str], patient: Patient, hospital: Hospital, dice: Dice) -> dict[str, Concept]:
    """Concepts for the slots of a clause, chosen to fit each other where the facts allow."""
    partners = hospital.words.partners
    if clause == "TrCP":
        treatment = _measure("treatment", patient, hospital, dice)
        caused = partners.get(("may_cause", treatment.id), patient.symptoms)
        return {"T": treatment, "P": hospital.concept(caused, dice)}
    chosen = {}
    if "P" in wanted:
        chosen["P"] = _problem(patient, dice)
    for slot, relation, kind in (("T", "may_treat", "treatment"), ("E", "reveals", "test")):
        if slot in wanted:
            fitting = partners.get((relation, chosen["P"].id), ())
            fits = fitting and dice.chance(0.6)
            chosen[slot] = hospital.concept(fitting, dice) if fits else _measure(kind, patient, hospital, dice)
    if "Q" in wanted:
        others = [problem for problem in (*patient.symptoms, patient.main) if problem != chosen["P"]]
        chosen["Q"] = dice.pick(others)
    return chosen


def _problem(patient: Patient, dice: Dice) -> Concept:
    return dice.weighted(
        (patient.main, *patient.symptoms, patient.comorbid), (MAIN, *[(1 - MAIN - COMORBID) / 2] * 2, COMORBID)
    )


def _measure(kind: str, patient: Patient, hospital: Hospital, dice: Dice) -> Concept:
    place = dice.weighted((patient.department, SHARED, dice.pick(DEPARTMENTS)), (MAIN, 1 - MAIN - COMORBID, COMORBID))
    return hospital.concept(hospital.words.pools[place, kind], dice)


def annotate(truth: TrueNote, hospital: Hospital, noise: float, key: Sequence[object]) -> Document:
    """The note as this hospital's annotators marked it."""
    dice = Dice(hospital.seed, "annotator", *key)
    label = truth.document.labels[0]
    if dice.chance(noise):
        label = hospital.taste("label", NEIGHBOURS[label], dice)
    relations = [_judged(pair, truth.document, hospital, noise, dice) for pair in candidates(truth.document)]
    kept = tuple(relation for relation in relations if relation.type != "none")
    needed = {end for relation in kept for end in (relation.head, relation.tail)}
    entities = []
    for mark in truth.marks:
        overlooked = dice.chance(noise / 4)
        out_of_scope = mark.past and not dice.chance(hospital.history)
        wide = dice.chance(hospital.wide)
        if mark.entity.id in needed or not (overlooked or out_of_scope):
            entities.append(replace(mark.entity, start=mark.wide) if wide else mark.entity)
    return replace(truth.document, labels=(label,), entities=tuple(entities), relations=kept)


def _judged(pair: Relation, document: Document, hospital: Hospital, noise: float, dice: Dice) -> Relation:
    """The pair's relation as the annotator sees it."""
    if pair.type != "none":
        wrong = dice.chance(noise)
        return replace(pair, type=hospital.taste("relation", CONFUSABLE[pair.type], dice)) if wrong else pair
    if dice.chance(noise / 4):
        types = {entity.id: entity.type for entity in document.entities}
        return replace(pair, type=POSSIBLE[types[pair.head], types[pair.tail]])
    return pair

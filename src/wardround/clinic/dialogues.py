"""Chinese doctor-patient dialogues, sentence by sentence, each labelled "1" if it speaks of a symptom, else "0".

A sentence is a document and its dialogue the `source`, as in CMDD. About a quarter are about symptoms: reported,
denied, asked after or explained, at times without any word for the symptom ("刚喂的奶全出来了"). Others name
one and are about something else ("发烧门诊在几楼"). The entities are the symptoms; annotators who err at the
rate `noise` overlook the sentence, or take such a decoy for one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from string import ascii_uppercase

from wardround.clinic.dice import Dice
from wardround.clinic.grammar import Manuscript, Mention, slots, worded
from wardround.clinic.hospital import Hospital
from wardround.clinic.words import DEPARTMENTS, SHARED, Concept, table
from wardround.text.document import Document

BARE = 0.2
"""How often a sentence is an answer so short that only the question before it tells what it is about."""


def dialogue(
    hospital: Hospital, noise: float, key: Sequence[object], source: str
) -> Iterator[tuple[Document, Document]]:
    """The sentences of one dialogue, as annotated and as they truly are; their ids are left to the caller."""
    dice = Dice(hospital.seed, "dialogue", *key)
    pool = hospital.words.pools[SHARED, "problem"]
    complaints = [hospital.concept(pool, dice) for _ in range(2)]
    for turn in range(6 + dice.below(12)):
        doctor = turn % 2 == 1
        symptom = dice.chance(hospital.symptoms)
        concept = dice.pick(complaints) if dice.chance(0.7) else hospital.concept(pool, dice)
        page = Manuscript("zh", hospital.typos, dice)
        kind = _kind(dice, doctor=doctor, symptom=symptom)
        implicit = table("dialogues-zh").get(f"implicit {ascii_uppercase[pool.index(concept)]}", ())
        if kind == "report" and implicit and dice.chance(0.6):
            phrase = "".join(piece.text for piece in worded(dice.pick(implicit), {}, hospital, dice))
            page.write(list(worded("{S}", {"S": Mention(concept, phrase)}, hospital, dice)))
        else:
            frame = hospital.taste("turn", table("dialogues-zh")[kind], dice)
            cast = {slot: _mention(slot, concept, hospital, dice) for slot in sorted(slots(frame))}
            page.write(list(worded(frame, cast, hospital, dice)))
        page.text += "？" if kind == "ask" else dice.pick(("。", "", "！", "~"))

        named = tuple(
            replace(mark.entity, id=f"T{rank}", type="symptom")
            for rank, mark in enumerate((mark for mark in page.marks if mark.concept == concept), start=1)
        )
        truth = Document("", page.text, (str(int(symptom)),), named if symptom else (), (), source, "zh")
        judged = symptom != dice.chance(noise)
        yield replace(truth, labels=(str(int(judged)),), entities=named if judged else ()), truth


def _kind(dice: Dice, *, doctor: bool, symptom: bool) -> str:
    if symptom and not dice.chance(BARE):
        usual, rarer = ("ask", "explain") if doctor else ("report", "deny")
        return usual if dice.chance(0.7) else rarer
    if symptom or dice.chance(BARE / 3):
        return "bare"
    if dice.chance(0.2):
        return "decoy"
    return "doctor" if doctor else "patient"


def _mention(slot: str, symptom: Concept, hospital: Hospital, dice: Dice) -> Mention:
    if slot == "S":
        return Mention(symptom, hospital.surface(symptom, dice))
    kind = "treatment" if slot == "T" else "test"
    place = SHARED if dice.chance(0.5) else dice.pick(DEPARTMENTS)
    concept = hospital.concept(hospital.words.pools[place, kind], dice)
    return Mention(concept, hospital.surface(concept, dice))

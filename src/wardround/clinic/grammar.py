"""Sentence frames and how they become text with exact spans.

A frame is a line of `tables/notes-*.txt`: `{P} (improved|resolved) with {T}`. Round brackets hold
alternatives, among which a hospital has its favourite; square brackets hold what only a drug has, its dose;
`{n}` is a small number; a capital in braces is the place of a mention: P and Q problems, T a treatment, E a
test, S a symptom.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from wardround.clinic.dice import Dice
from wardround.clinic.hospital import Hospital
from wardround.clinic.words import Concept, Language
from wardround.text.document import Entity

ALTERNATIVES = re.compile(r"\(([^()]*)\)")
DOSE = re.compile(r"\[([^\[\]]*)\]")
SLOT = re.compile(r"\{([A-Z])\}")
# Characters that input methods and tired eyes confuse.
CONFUSED = dict(
    zip("痛症炎胀像做复检治常已再明显轻慢头部热咳", "疼证言涨象作覆捡制长己在名先青漫投步熟刻", strict=True)
)


@dataclass(frozen=True, slots=True)
class Mention:
    """A concept as it will stand in the text."""

    concept: Concept
    surface: str
    modifier: str = ""
    past: bool = False


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a line: plain words, or a mention at a slot."""

    text: str
    mention: Mention | None = None
    slot: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A mention as it came to stand: its entity, and where the entity would start with its modifier."""

    entity: Entity
    concept: Concept
    wide: int
    past: bool


def slots(frame: str) -> set[str]:
    """The letters of the mentions that a frame asks for."""
    return set(SLOT.findall(frame))


def worded(frame: str, cast: Mapping[str, Mention], hospital: Hospital, dice: Dice) -> Iterator[Piece]:
    """The frame in this hospital's words."""

    def choose(match: re.Match[str]) -> str:
        return hospital.taste("phrase", str(match[1]).split("|"), dice)

    drug = "T" in cast and cast["T"].concept.drug
    text = DOSE.sub(r"\1" if drug else "", ALTERNATIVES.sub(choose, frame))
    text = re.sub(r"\{n\}", lambda _: str(2 + dice.below(8)), text)
    for rank, part in enumerate(SLOT.split(text)):
        if rank % 2:
            yield Piece(cast[part].surface, cast[part], part)
        elif part:
            yield Piece(part)


class Manuscript:
    """Text as it grows, with the place of everything it names."""

    def __init__(self, language: Language, typos: float, dice: Dice) -> None:
        self.text = ""
        self.marks: list[Mark] = []
        self._language = language
        self._typos = typos
        self._dice = dice

    def write(self, pieces: Sequence[Piece], *, capital: bool = False) -> dict[str, str]:
        """Append the pieces; the ids of the mentions by slot."""
        ids = {}
        for rank, piece in enumerate(pieces):
            start_of_line = capital and rank == 0
            if piece.mention is None:
                self._append(piece.text, capital=start_of_line)
            else:
                ids[piece.slot] = self._name(piece.mention, capital=start_of_line)
        return ids

    def _name(self, mention: Mention, *, capital: bool) -> str:
        wide = len(self.text)
        if mention.modifier:
            self._append(mention.modifier + (" " if self._language == "en" else ""), capital=capital)
        start = len(self.text)
        self._append(mention.surface, capital=capital and not mention.modifier)
        entity = Entity(f"T{len(self.marks) + 1}", mention.concept.type, start, len(self.text))
        self.marks.append(Mark(entity, mention.concept, wide, mention.past))
        return entity.id

    def _append(self, text: str, *, capital: bool) -> None:
        slip = _slip_en if self._language == "en" else _slip_zh
        text = slip(text, self._typos, self._dice) if self._typos else text
        self.text += text[:1].upper() + text[1:] if capital else text


def _slip_en(text: str, rate: float, dice: Dice) -> str:
    """Letters swapped or dropped inside longer words."""

    def slip(match: re.Match[str]) -> str:
        word = match[0]
        if not dice.chance(rate):
            return word
        at = 1 + dice.below(len(word) - 3)
        if dice.chance(0.5):
            return word[:at] + word[at + 1 :]
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]

    return re.sub(r"[A-Za-z]{5,}", slip, text)


def _slip_zh(text: str, rate: float, dice: Dice) -> str:
    """One character in place of another that sounds or looks like it."""
    return "".join(CONFUSED[letter] if letter in CONFUSED and dice.chance(2 * rate) else letter for letter in text)

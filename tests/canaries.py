"""Files whose every text, token and entity is a canary, in every format, and the ways in which files go wrong.

    path = written(tmp_path, "csv", documents(24))
    for name, spoil in SPOILT.items(): ...
    assert [] == escaped(output)

A canary is a word that begins with `MARK`, which nothing of ours does. Names (labels, types, sources) are ordinary
words that repeat, until something mislabels them.

One word that strays into a column of labels looks like a rare label, and is a class to whoever trains on it; no message
shows it, but a run must call its classes something. Hence where `BY_ROW` spoils the files of a study, it is longer
pieces of notes that stray (`phrases`); whole columns and single words are as in all other files.
"""

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

from wardround.formats.options import Options
from wardround.formats.register import TARGETS
from wardround.text.document import Document, Entity, Placed, Relation
from wardround.text.reading import Problems

__all__ = ["BY_HAND", "BY_ROW", "FORMS", "MARK", "SPOILT", "documents", "escaped", "spoilt", "word", "written"]

MARK = "zq"
NAMES = ("flu", "cold", "drug", "effect", "causes")
Spoil = Callable[[str, random.Random], str | bytes]


def word(rng: random.Random) -> str:
    """A canary."""
    return MARK + "".join(rng.choice("aeioulmnrst") for _ in range(rng.randint(4, 8)))


def escaped(said: str) -> list[str]:
    """The canaries in an output, with what stands before them."""
    return re.findall(rf".{{0,60}}{MARK}[aeioulmnrst龘é]{{3,}}\w*", said, re.IGNORECASE)


def documents(size: int, seed: int = 0, words: int = 8) -> list[Document]:
    """Notes of some words, that repeat from note to note, as words do; three words are as short as a label."""
    rng = random.Random(seed)  # noqa: S311 -- the same each time
    known = [word(random.Random(n)) for n in range(40)]  # noqa: S311
    results = []
    for number in range(size):
        mine = [rng.choice(known) for _ in range(words)]
        text = " ".join(mine) + (" ." if words > 5 else "")
        ends = [len(" ".join(mine[: at + 1])) for at in range(words)]
        spans = [(ends[at] - len(mine[at]), ends[at]) for at in ((1, 4, 6) if words > 6 else (0, 1, 2))]
        kinds = ("drug", "effect", "effect")
        entities = tuple(
            Entity(f"T{n}", kind, *span) for n, (kind, span) in enumerate(zip(kinds, spans, strict=True), 1)
        )
        relations = (Relation("causes", "T1", "T2"),) if number % 2 else (Relation("cures", "T1", "T3"),)
        label, source = ("flu", "cold")[number % 2], ("north", "south")[number // 2 % 2]
        results.append(Document(f"n{number}", text, (label,), entities, relations, source, "en"))
    return results


def written(folder: Path, form: str, notes: Sequence[Document], name: str = "train") -> Path:
    """The notes in a format; a file, or a folder where that is what the format is."""
    folder.mkdir(parents=True, exist_ok=True)
    if form in BY_HAND:
        return BY_HAND[form](folder, notes, name)
    path = folder / (name if form == "brat" else f"{name}.{ENDING.get(form, form)}")
    writer = TARGETS[form].write
    assert writer is not None
    with writer(path, Problems(), Options()) as sink:
        for line, note in enumerate(notes, 1):
            sink(Placed(note, path, line))
    return path


ENDING = {"label-studio": "json", "doccano": "jsonl", "bioc": "xml", "bioc-json": "json", "pubtator": "pubtator"}


def _lines(folder: Path, name: str, rows: Iterator[object]) -> Path:
    path = folder / name
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def _omop(folder: Path, notes: Sequence[Document], name: str) -> Path:
    rows = (f"{at},{n.text},{n.labels[0]}" for at, n in enumerate(notes))
    return _lines(folder, f"{name}.csv", iter(["NOTE_ID,NOTE_TEXT,NOTE_TITLE", *rows]))


def _text(folder: Path, notes: Sequence[Document], name: str) -> Path:
    (folder / name).mkdir()
    for note in notes:
        (folder / name / f"{note.id}.txt").write_text(note.text, encoding="utf-8")
    return folder / name


def _opennre(folder: Path, notes: Sequence[Document], name: str) -> Path:
    def row(note: Document) -> dict[str, object]:
        ends = {one.id: one for one in note.entities}
        relation = note.relations[0]
        head, tail = (
            {"id": f"C{at}", "name": note.text[ends[end].start : ends[end].end], "type": ends[end].type,
             "pos": [ends[end].start, ends[end].end]}
            for at, end in enumerate((relation.head, relation.tail))
        )  # fmt: skip
        return {
            "text": note.text,
            "h": head,
            "t": tail,
            "relation": relation.type,
            "id": note.id,
            "source": note.source,
        }

    return _lines(folder, f"{name}.opennre", map(row, notes))


def _bags(folder: Path, notes: Sequence[Document], name: str) -> Path:
    def row(at: int, note: Document) -> dict[str, object]:
        head, tail = note.entities[:2]
        told = {"text": note.text, "head": [head.start, head.end], "tail": [tail.start, tail.end], "source": "north"}
        words = note.text[head.start : head.end]
        return {"head": words, "relation": note.relations[0].type, "tail": f"D{at}", "sentences": [told, told]}

    return _lines(folder, f"{name}.bags", (row(at, note) for at, note in enumerate(notes)))


def _i2b2(folder: Path, notes: Sequence[Document], name: str) -> Path:
    kinds = {"drug": "treatment", "effect": "problem"}
    for note in notes:
        (folder / name).mkdir(exist_ok=True)
        tokens = [len(note.text[: one.start].split()) for one in note.entities]
        places = [
            f'c="{note.text[one.start : one.end]}" 1:{at} 1:{at}' for one, at in zip(note.entities, tokens, strict=True)
        ]
        rows = [f'{place}||t="{kinds[one.type]}"' for place, one in zip(places, note.entities, strict=True)]
        (folder / name / f"{note.id}.txt").write_text(note.text + "\n", encoding="utf-8")
        (folder / name / f"{note.id}.con").write_text("\n".join(rows) + "\n", encoding="utf-8")
        (folder / name / f"{note.id}.rel").write_text(f'{places[0]}||r="TrAP"||{places[1]}\n', encoding="utf-8")
    return folder / name


BY_HAND: dict[str, Callable[[Path, Sequence[Document], str], Path]] = {
    "bags": _bags, "i2b2": _i2b2, "omop": _omop, "opennre": _opennre, "text": _text,
}  # fmt: skip
FORMS = (*TARGETS, "omop", "text")
"""What `data check` recognises."""


def spoilt(path: Path, spoil: Spoil, seed: int = 0) -> None:
    """The files of a path, gone wrong."""
    rng = random.Random(seed)  # noqa: S311 -- the same each time
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            made = spoil(file.read_text(encoding="utf-8"), rng)
            file.write_bytes(made if isinstance(made, bytes) else made.encode())


def _by_line(change: Callable[[str, int, random.Random], str], every: int = 1) -> Spoil:
    def spoil(text: str, rng: random.Random) -> str:
        lines = text.split("\n")
        return "\n".join(change(one, at, rng) if at % every == 0 else one for at, one in enumerate(lines))

    return spoil


def _cells(line: str) -> tuple[list[str], str]:
    mark = "\t" if "\t" in line else ","
    return (line.rstrip("\r").split(mark), mark) if not line.startswith(("{", "[", "<")) else ([line], mark)


def _turned(line: str, _at: int, _rng: random.Random) -> str:
    cells, mark = _cells(line)
    return mark.join(reversed(cells))


def _shifted(line: str, _at: int, _rng: random.Random) -> str:
    cells, mark = _cells(line)
    return mark.join([*cells[1:], cells[0]])


def _header(text: str, _rng: random.Random) -> str:
    first, feed, rest = text.partition("\n")
    return _shifted(first, 0, _rng) + feed + rest


def _swapped(one: str, other: str) -> Spoil:
    """Two keys, columns or tags under each other's names."""

    def spoil(text: str, _rng: random.Random) -> str:
        both = re.compile(rf"(?<![\w])({one}|{other})(?![\w])")
        return both.sub(lambda found: other if found[1] == one else one, text)

    return spoil


def phrase(rng: random.Random, joint: str = " ") -> str:
    """Canaries that no label is as long as."""
    return joint.join(word(rng) for _ in range(6))


def _mislabelled(every: int, piece: Callable[[random.Random, str], str] = lambda rng, _: word(rng)) -> Spoil:
    """Each so-manieth name is a piece of a note instead."""

    def spoil(text: str, rng: random.Random) -> str:
        number = count()
        known = "|".join((*NAMES, "north", "south", "treatment", "TrAP"))
        names = re.compile(rf"(?<=[\"\t ,>-])({known})(?=[\"\t ,\r\n<]|$)", re.MULTILINE)
        joint = "_" if "\t" in text or text.startswith("c=") else " "  # where a blank would end it
        return names.sub(lambda name: piece(rng, joint) if next(number) % every == 0 else name[0], text)

    return spoil


def _ids(text: str, rng: random.Random) -> str:
    """Words where ids should be."""
    return re.sub(r"\b([nTCD]\d+)\b", lambda _: word(rng), text)


def _numbers(change: Callable[[int], int]) -> Spoil:
    return lambda text, _rng: re.sub(r"(?<![\w.])\d+(?![\w.])", lambda one: str(change(int(one[0]))), text)


def _encoded(codec: str, letter: str) -> Spoil:
    def spoil(text: str, _rng: random.Random) -> bytes:
        lines = text.split("\n")
        return b"\n".join(
            (one.replace("zqa", f"zqa{letter}").replace("zqe", f"zqe{letter}")).encode(
                codec if at % 3 == 2 else "utf-8"
            )
            for at, one in enumerate(lines)
        )

    return spoil


SPOILT: dict[str, Spoil] = {
    "as it is": lambda text, _rng: text,
    "columns turned": _by_line(_turned),
    "columns turned in some lines": _by_line(_turned, 5),
    "columns shifted": _by_line(_shifted),
    "header shifted": _header,
    "text and label": _swapped("text", "label"),
    "text and labels": _swapped("text", "labels"),
    "text and id": _swapped("text", "id"),
    "text and source": _swapped("text", "source"),
    "text and language": _swapped("text", "language"),
    "text and type": _swapped("text", "type"),
    "relation and text": _swapped("relation", "text"),
    "id and head": _swapped("id", "head"),
    "text misnamed": lambda text, _rng: re.sub(r"\b(NOTE_TEXT|text)\b", "txet", text),
    "lines cut": _by_line(lambda line, _at, _rng: line[: len(line) // 2], 3),
    "all lines cut": _by_line(lambda line, _at, _rng: line[: 2 * len(line) // 3]),
    "mislabelled": _mislabelled(1),
    "mislabelled here and there": _mislabelled(5),
    "one mislabelled": _mislabelled(10**6),
    "ids are words": _ids,
    "offsets shifted": _numbers(lambda n: n + 1),
    "offsets outside": _numbers(lambda n: 7 * n + 1000),
    "offsets negative": _numbers(lambda n: -n - 1),
    "latin-1 mixed in": _encoded("latin-1", "é"),
    "gb18030 mixed in": _encoded("gb18030", "龘"),
    "everything twice": lambda text, _rng: text + text,
    "no header": lambda text, _rng: text.partition("\n")[2],
    "no first column": _by_line(lambda line, _at, _rng: "\t".join(line.split("\t")[1:])),
    "quotes": _by_line(lambda line, _at, _rng: line.replace("zqa", '"zqa', 1), 4),
    "blanks for tabs": lambda text, _rng: text.replace("\t", " "),
    "no line ends": lambda text, _rng: text.replace("\n", " "),
    "no source, and ids are words": lambda text, rng: re.sub(
        r"\bn\d+\b", lambda _: word(rng), re.sub(r"\bsource\b", "ward", text)
    ),
    "half characters": lambda text, _rng: re.sub(r'"(?=[,}\]])', r'\\ud800"', text),
}
BY_ROW: dict[str, Spoil] = {
    **{name: SPOILT[name] for name in ("columns turned in some lines", "lines cut", "quotes", "latin-1 mixed in")},
    "mislabelled here and there": _mislabelled(5, phrase),
    "one mislabelled": _mislabelled(10**6, phrase),
}
"""What goes wrong in some rows alone, by pieces of notes that are longer than labels."""

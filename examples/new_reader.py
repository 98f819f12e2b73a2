"""A reader of your own, for a format that we do not read: one file per split, `hospital|ward|text` in each line.

    python examples/new_reader.py [FOLDER]

A reader is a frozen dataclass whose fields are its settings in the study's [corpus], `folder` the study file's own; it
has `labels` and yields documents. Sources become sites, unless a [partition] cuts them in another way.
"""

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import wardround
from wardround.extend import Clinic, Problems

STUDY = 'name = "piped"\nrounds = 5\ncorpus = { name = "new_reader:Piped" }\ntask = { name = "classification" }\n'
SPLITS: tuple[Literal["train", "test"], ...] = ("train", "test")


@dataclass(frozen=True, kw_only=True)
class Piped:
    """Lines of `hospital|ward|text`."""

    splits: ClassVar = SPLITS
    labels: ClassVar = Clinic().labels
    folder: str = ""

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[wardround.Document]:
        """The documents of one split; what is odd is noted with file and line, never with text."""
        path = Path(self.folder) / f"{split}.piped"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            hospital, ward, text = line.split("|", 2)
            if ward in self.labels:
                yield wardround.Document(f"{split}-{number}", text, (ward,), source=hospital)
            elif problems is not None:
                problems.note("unknown ward, left out", path.name, number)


def main(folder: Path) -> None:
    """Write two files in that format, one line of them odd, and train on them."""
    clinic = Clinic(hospitals=3, documents=150, test_documents=20)
    for split in SPLITS:
        notes = ((name, note) for name in clinic.names() for note in clinic.stream(name, split))
        lines = [f"{name}|{note.labels[0]}|{' '.join(note.text.split())}\n" for name, note in notes]
        (folder / f"{split}.piped").write_text("".join([*lines, "north|canteen|Soup.\n"]), encoding="utf-8")
    (folder / "study.toml").write_text(STUDY + 'method = { name = "fedavg", lr = 2.0 }', encoding="utf-8")
    result = wardround.run(folder / "study.toml", folder / "run", report=False)
    print(f"accuracy {result.metrics['accuracy']:.2f} after {result.rounds} rounds")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))

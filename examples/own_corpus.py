"""Your own notes, in two CSV files: train across the hospitals that they name, and sort a new note.

    python examples/own_corpus.py [FOLDER]

Stands in for an export of your own: a column with the text, one with the label, one with the hospital. Whether your
files are fit is told by `wardround data check train.csv`; other formats are listed in docs/formats.md.
"""

import csv
import sys
import tempfile
from pathlib import Path
from typing import Literal

import wardround
from wardround.extend import Clinic

SPLITS: tuple[Literal["train", "test"], ...] = ("train", "test")
STUDY = """
name = "departments"
rounds = 10
corpus = { format = "csv", train = "train.csv", test = "test.csv", text = "note", label = "ward", source = "hospital" }
task = { name = "classification", model = "logistic" }
method = { name = "fedavg", lr = 2.0 }
"""


def main(folder: Path) -> None:
    """Write files, run a study on them, use its model."""
    clinic = Clinic(hospitals=3, documents=200, test_documents=20)
    for split in SPLITS:
        with (folder / f"{split}.csv").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["note", "ward", "hospital"])
            for name in clinic.names():
                rows.writerows([note.text, note.labels[0], name] for note in clinic.stream(name, split))
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")

    result = wardround.run(folder / "study.toml", folder / "run")
    print(
        f"accuracy {result.metrics['accuracy']:.2f} after {result.rounds} rounds; report: {result.folder}/report.html"
    )

    model = wardround.load(result.folder)
    for label in model("Admitted with chest pain, troponin raised, started on aspirin.").labels:
        print(f"{label.name} ({label.confidence:.2f})")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))

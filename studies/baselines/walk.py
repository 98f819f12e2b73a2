"""Every method with its defaults on two small corpora: which learn, and which collapse or diverge.

    python studies/baselines/walk.py runs/walk [METHOD…]

Generated notes in six departments and generated dialogues, a symptom or not; three IID sites, 10 rounds, one seed. The
table has the accuracy of each beside that of the commonest class, and what the run noticed (`signs`). A method that
needs a linear classifier over features gets an LSTM, and one that needs public examples a fifth of the notes.
"""

import json
import sys
from pathlib import Path
from typing import Any

import wardround
from wardround.methods import METHODS
from wardround.study.settings import StudyError

CORPORA: dict[str, dict[str, Any]] = {
    "notes": {"name": "clinic", "hospitals": 3, "documents": 80},
    "dialogues": {"name": "clinic", "language": "zh", "kind": "dialogues", "hospitals": 3, "documents": 80},
}


def study(method: str, corpus: str) -> dict[str, Any]:
    """Nothing set but what has to be."""
    kind = METHODS[method].kind
    task = {"name": "classification"} | ({"model": "lstm"} if kind.classifier else {})
    public = {"public": {"fraction": 0.2}} if kind.public else {}
    return {
        "name": f"walk-{method}", "rounds": 10, "corpus": CORPORA[corpus], "partition": {"name": "iid", "sites": 3},
        "task": task, "method": {"name": method}, "evaluation": {"every": 10}, "references": ["majority"], **public,
    }  # fmt: skip


def line(method: str, corpus: str, out: Path) -> str:
    """A row of the table."""
    try:
        result = wardround.run(study(method, corpus), out / f"{method}-{corpus}", quiet=True, report=False)
    except (StudyError, ValueError) as error:
        return f"| {method} | {corpus} | – | – | {' '.join(str(error).split())[:90]} |"
    folder = out / f"{method}-{corpus}"
    majority = json.loads((folder / "references.json").read_text(encoding="utf-8"))["majority"]["accuracy"]
    signs = json.loads((folder / "metrics.json").read_text(encoding="utf-8")).get("signs", ())
    return f"| {method} | {corpus} | {majority:.3f} | {result.metrics['accuracy']:.3f} | {'; '.join(signs)} |"


if __name__ == "__main__":
    place, *chosen = sys.argv[1:] or ["runs/walk"]
    print("| method | corpus | majority | accuracy | noticed |\n|---|---|---|---|---|")
    for name in chosen or METHODS:
        for small in CORPORA:
            print(line(name, small, Path(place)), flush=True)

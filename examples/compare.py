"""Two methods on the same hospitals, and one page that compares them.

    python examples/compare.py [FOLDER]

With several seeds a study's [grid] does this in one go, cells side by side: see studies/demo.toml.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import wardround

STUDY: dict[str, Any] = {
    "rounds": 5,
    "corpus": {"name": "clinic", "hospitals": 3, "documents": 150, "test_documents": 20},
    "task": {"name": "classification"},
    "evaluation": {"each": True},
}
METHODS: list[dict[str, Any]] = [
    {"name": "fedavg", "lr": 2.0},
    {"name": "fedprox", "lr": 2.0, "mu": 0.001},
]


def main(folder: Path) -> None:
    """Run both, print their figures, write the page."""
    runs = []
    for method in METHODS:
        study = STUDY | {"name": method["name"], "method": method}
        result = wardround.run(study, folder / method["name"], report=False)
        print(f"{method['name']}: accuracy {result.metrics['accuracy']:.2f}")
        runs.append(result.folder)
    print(f"the comparison is in {wardround.write_report(runs, folder / 'report.html')}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))

"""From generated hospitals to a tagger, and from the tagger to the entities of a new note.

    python examples/predict.py [FOLDER]

A model's folder is whole: copy it to another machine and `wardround.load` it there. With a relation model,
`wardround.load(tagger, relations)` also tells how the entities are related.
"""

import sys
import tempfile
from pathlib import Path

import wardround

STUDY = {
    "name": "entities",
    "rounds": 6,
    "corpus": {"name": "clinic", "hospitals": 3, "documents": 60, "test_documents": 20, "noise": 0.0},
    "task": {"name": "tagging", "model": "cnn-crf", "embedding": 50, "filters": 50, "buckets": 4096},
    "method": {"name": "fedavg", "optimizer": "adam", "lr": 0.01},
}
NOTE = "She was started on aspirin for chest pain. The chest x-ray showed pneumonia."


def main(folder: Path) -> None:
    """Train a small tagger and ask it."""
    result = wardround.run(STUDY, folder / "run", report=False)
    model = wardround.load(result.folder)
    prediction = model(NOTE)
    for entity in prediction.entities:
        print(f"{entity.start}-{entity.end} {entity.type} ({entity.confidence:.2f}): {prediction.words(entity.id)}")
    print(f"{sum(len(each.entities) for each in model.predict([NOTE] * 100))} in a hundred copies")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))

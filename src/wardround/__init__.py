"""Federated learning on medical text: the notes stay, the model travels, and every message can be read.

    import wardround

    result = wardround.run("study.toml")                  # one run; progress on the terminal or in the notebook
    model = wardround.load(result.folder / "model")
    model("Aspirin gave her a rash").entities             # spans with offsets, types and confidence

These names are the public ones; everything else may change. They are imported when they are first used: torch takes a
second that `wardround --help` can spare.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wardround.corpora.document import Document, Entity, Relation
    from wardround.inference.about import ModelError
    from wardround.inference.model import Model, load
    from wardround.inference.predicted import Found, Label, Link, Prediction
    from wardround.notebook import run
    from wardround.run_folder import Result, RunError
    from wardround.study import StudyError

__version__ = "0.1.0"

__all__ = [
    "Document", "Entity", "Found", "Label", "Link", "Model", "ModelError", "Prediction", "Relation", "Result",
    "RunError", "StudyError", "__version__", "load", "run",
]  # fmt: skip

HOMES = {
    "Document": "corpora.document", "Entity": "corpora.document", "Relation": "corpora.document",
    "Found": "inference.predicted", "Label": "inference.predicted", "Link": "inference.predicted",
    "Prediction": "inference.predicted", "Model": "inference.model", "ModelError": "inference.about",
    "load": "inference.model", "run": "notebook", "Result": "run_folder", "RunError": "run_folder",
    "StudyError": "study",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'wardround' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 -- only when something is asked for

    return getattr(import_module(f"wardround.{HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__

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
    from wardround.notebook import run
    from wardround.reports.page import write_report
    from wardround.runs.errors import RunError
    from wardround.runs.folder import Result
    from wardround.study.settings import StudyError
    from wardround.text.document import Document, Entity, Relation
    from wardround.text.prediction import Label, Prediction
    from wardround.trained.about import ModelError
    from wardround.trained.evaluate import evaluate
    from wardround.trained.model import Model, load

__version__ = "0.2.0"

__all__ = [
    "Document", "Entity", "Label", "Model", "ModelError", "Prediction", "Relation", "Result", "RunError", "StudyError",
    "__version__", "evaluate", "load", "run", "write_report",
]  # fmt: skip

HOMES = {
    "Document": "text.document", "Entity": "text.document", "Relation": "text.document",
    "Label": "text.prediction", "Prediction": "text.prediction", "Model": "trained.model",
    "ModelError": "trained.about", "load": "trained.model", "run": "notebook", "Result": "runs.folder",
    "RunError": "runs.errors", "StudyError": "study.settings", "write_report": "reports.page",
    "evaluate": "trained.evaluate",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'wardround' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 -- only when something is asked for

    return getattr(import_module(f"wardround.{HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__

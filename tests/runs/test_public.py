"""The public names of `wardround`: what others build on, and what a change to it would break."""

import inspect
import subprocess
import sys

import pytest

import wardround

NAMES = [
    "Document", "Entity", "Label", "Model", "ModelError", "Prediction", "Relation", "Result", "RunError", "StudyError",
    "__version__", "evaluate", "load", "run", "write_report",
]  # fmt: skip
CALLS = {
    "load": "(*folders: str | pathlib.Path, rename: collections.abc.Mapping[str, str] | None = None, "
            "trust: collections.abc.Sequence[str | pathlib.Path] = (), precision: Literal['fp32', 'bf16'] = 'fp32') "
            "-> wardround.trained.model.Model",
    "run": "(study: str | pathlib.Path | collections.abc.Mapping[str, typing.Any], "
           "out: str | pathlib.Path | None = None, *, workers: int = 1, resume: bool = False, quiet: bool = False, "
           "report: bool = True) -> Any",
    "write_report": "(runs: collections.abc.Sequence[pathlib.Path], out: pathlib.Path) -> pathlib.Path",
    "Model.__call__": "(self, text: str | wardround.text.document.Document) "
                      "-> wardround.text.prediction.Prediction",
    "Model.predict": "(self, texts: collections.abc.Iterable[str | wardround.text.document.Document], "
                     "at_once: int = 64) "
                     "-> collections.abc.Iterator[wardround.text.prediction.Prediction]",
    "Prediction.words": "(self, entity: str) -> str",
    "Prediction.plain": "(self) -> dict[str, typing.Any]",
}  # fmt: skip
FIELDS = {
    "Document": [
        "id",
        "text",
        "labels",
        "entities",
        "relations",
        "source",
        "language",
        "patient",
        "confidence",
        "model",
    ],
    "Entity": ["id", "type", "start", "end", "confidence", "given", "concepts", "attributes", "parts"],
    "Label": ["name", "confidence"],
    "Prediction": ["text", "labels", "entities", "relations", "id", "cut", "margin"],
    "Relation": ["type", "head", "tail", "confidence", "attributes"],
    "Result": ["folder", "rounds", "metrics", "rounds_to_target", "stopped", "chosen"],
}


def test_the_public_names_are_these() -> None:
    assert NAMES == wardround.__all__
    assert NAMES == dir(wardround)


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_can_be_imported_and_says_what_it_is(name: str) -> None:
    value = getattr(wardround, name)
    if name == "__version__":
        assert isinstance(value, str)
    else:
        assert name == value.__name__
        assert value.__doc__
        assert not value.__doc__.startswith(f"{name}(")  # what a dataclass writes of itself


@pytest.mark.parametrize("name", CALLS)
def test_a_public_call_takes_what_it_took(name: str) -> None:
    first, *rest = name.split(".")
    value = getattr(wardround, first)
    for part in rest:
        value = getattr(value, part)
    assert CALLS[name] == str(inspect.signature(value))
    assert value.__doc__


@pytest.mark.parametrize("name", FIELDS)
def test_a_public_record_has_its_fields(name: str) -> None:
    assert FIELDS[name] == list(inspect.signature(getattr(wardround, name)).parameters)


def test_a_name_that_is_not_public_is_refused() -> None:
    with pytest.raises(AttributeError, match="module 'wardround' has no attribute 'lod'"):
        _ = wardround.lod


def test_the_import_alone_brings_neither_torch_nor_rich() -> None:
    asked = (
        "import sys, wardround; print(*sorted({'torch', 'rich', 'numpy', 'pydantic', 'typer'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert "\n" == done.stdout

"""What is read off the source of a class is what the class has, and nothing is imported for it."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from study_files import small_study
from wardround.core.register import located
from wardround.corpora.register import CORPORA, PARTITIONS
from wardround.methods import METHODS
from wardround.study.load import load_study
from wardround.study.settings import StudyError
from wardround.study.source import about_in, settings_in
from wardround.tasks import TASKS

PLACES = sorted(
    {named.place for named in METHODS.values()}.union(
        *(register.places.values() for register in (TASKS, CORPORA, PARTITIONS))
    )
)
HEAVY = ("torch", "numpy", "scipy", "sklearn", "tokenizers")


def _is_table(kind: object) -> bool:
    """Whether it is settings of its own, which the source is not followed into."""
    return isinstance(kind, type) and dataclasses.is_dataclass(kind)


def test_the_source_gives_the_first_line_of_what_a_class_says_of_itself() -> None:
    assert {place: (located(place).__doc__ or "").partition("\n")[0] for place in PLACES} == {
        place: about_in(place) for place in PLACES
    }


@pytest.mark.parametrize("place", PLACES)
def test_the_source_gives_the_fields_of_the_class(place: str) -> None:
    kind = located(place)
    hints = get_type_hints(kind, include_extras=True)
    tables = {name for name, hint in hints.items() if any(map(_is_table, get_args(hint)))}
    hints |= dict.fromkeys(tables, Any)
    expected = {field.name: (hints[field.name], field.default) for field in dataclasses.fields(kind) if field.init}
    missing = dataclasses.MISSING
    actual = {
        name: (setting.kind, missing if setting.required else setting.default)
        for name, setting in settings_in(place).items()
    }
    assert expected == actual


FILES = {"format": "csv", "train": "a.csv", "test": "b.csv"}
MISTAKES = {
    "method.name = 'fedavgg' is unknown; did you mean 'fedavg'?": {"method": {"name": "fedavgg"}},
    "method.mu is unknown; known: ": {"method": {"name": "fedavg", "mu": 1}},
    "method.lr = -1: should be greater than 0": {"method": {"name": "fedavg", "lr": -1}},
    "corpus.name = 'synthetik' is unknown; did you mean 'synthetic'?": {"corpus": {"name": "synthetik"}},
    "corpus: format = 'cvs' is unknown; did you mean 'csv'?": {"corpus": FILES | {"format": "cvs"}},
    "corpus: token has no meaning where format = 'csv'; take it out": {"corpus": FILES | {"token": 2}},
    "corpus.header = 'no': should be a valid boolean": {"corpus": FILES | {"header": "no"}},
    "corpus.test is missing": {"corpus": {"format": "csv", "train": "a.csv"}},
    "task is missing": {"task": None},
    "rounds = 'many': should be a valid integer": {"rounds": "many"},
}


@pytest.mark.parametrize(("words", "change"), MISTAKES.items())
def test_a_mistyped_study_is_answered_without_torch(words: str, change: dict[str, Any], tmp_path: Path) -> None:
    path = small_study(tmp_path, **change)
    lines = (
        "import sys; from pathlib import Path; from wardround.study.load import StudyError, load_study",
        "try: load_study(Path(sys.argv[1]))",
        "except StudyError as error: print(error)",
        f"print([name for name in {HEAVY} if name in sys.modules])",
    )
    ended = subprocess.run(
        [sys.executable, "-c", "\n".join(lines), str(path)], capture_output=True, text=True, check=True
    )
    assert words in ended.stdout
    assert "[]" == ended.stdout.splitlines()[-1]


def test_what_is_wrong_with_files_and_elsewhere_is_told_together(tmp_path: Path) -> None:
    corpus = FILES | {"token": 2, "delimiter": "::", "lable": "x", "header": "no"}
    path = small_study(tmp_path, corpus=corpus, method={"name": "fedavg", "lr": -1}, task={"name": "taging"})
    with pytest.raises(StudyError) as refused:
        load_study(path)
    keys = ("corpus: token", "corpus: delimiter", "corpus.lable", "corpus.header", "method.lr", "task.name")
    assert [1] * len(keys) == [sum(one.startswith(key) for one in refused.value.problems) for key in keys]

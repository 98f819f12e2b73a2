"""Every setting is described, and the page about them is what the settings say."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Le, MinLen

from study_files import cli, fresh
from wardround.study.reference import TABLES, UnknownTable, default_words, kind_words, markdown, page
from wardround.study.source import UNKNOWN, Setting

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
ENTRIES = [(table, entry) for table in TABLES for entry in page(table).entries or ("",)]


@pytest.mark.parametrize(("table", "entry"), ENTRIES)
def test_every_setting_has_a_sentence_and_a_type(table: str, entry: str) -> None:
    settings = page(table, entry).settings
    assert entry or settings
    assert [] == [key for key, one in settings.items() if not one.about.endswith((".", ")"))]
    assert [] == [key for key, one in settings.items() if not kind_words(one.kind)]


def test_the_page_is_made_of_the_settings() -> None:
    if os.environ.get("WARDROUND_UPDATE_GOLDEN"):
        PAGE.write_text(markdown(), encoding="utf-8")
    assert markdown() == PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Annotated[float, Ge(0), Le(1)], "number ≥ 0 and ≤ 1"),
        (Literal["a", "b"] | None, '"a" or "b"'),
        (tuple[str | int, ...], "list of texts or whole numbers"),
        (Annotated[tuple[float, float], MinLen(1)], "list of numbers, 2 of them, at least one"),
        (dict[str, Any] | None, "table"),
    ],
)
def test_a_type_is_told_in_words(kind: Any, words: str) -> None:
    assert words == kind_words(kind)


def test_a_default_is_told_as_a_study_would_write_it() -> None:
    def default_of(default: Any, *, required: bool = False) -> str:
        return default_words(Setting(Any, default, "", required=required))

    assert ("true", "[1, 2]", "not set", "not set") == (
        default_of(True),
        default_of((1, 2)),
        default_of(None),
        default_of(UNKNOWN),
    )
    assert "required" == default_of(UNKNOWN, required=True)


def test_what_a_study_fills_in_has_no_default_of_its_own() -> None:
    assert (0, None) == (page("study").settings["seed"].default, page("corpus", "clinic").settings["seed"].default)


def test_a_name_that_stands_for_settings_has_these_as_defaults() -> None:
    settings = page("method", "fedpap").settings
    assert ("adam", 0.001) == (settings["optimizer"].default, settings["lr"].default)


def test_a_format_has_what_it_has_a_use_for() -> None:
    csv, conll = page("corpus", "csv").settings, page("corpus", "conll").settings
    assert "label" in csv
    assert "token" not in csv
    assert "token" in conll
    assert "label" not in conll


@pytest.mark.parametrize(
    ("names", "answer"),
    [
        (("metod",), "there is no table 'metod'; did you mean 'method'?"),
        (("fedprox",), "there is no table 'fedprox'; write: wardround settings method fedprox"),
        (("task", "taging"), "there is no task 'taging'; did you mean 'tagging'?"),
        (("sites", "three"), "sites names nothing; write: wardround settings sites"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(names: tuple[str, ...], answer: str) -> None:
    with pytest.raises(UnknownTable) as error:
        page(*names)
    assert answer == str(error.value)


def test_the_command_lists_tables_entries_and_keys(tmp_path: Path) -> None:
    for names, words in (((), "partition"), (("method",), "fedprox"), (("method", "fedprox"), "number ≥ 0")):
        ended = cli("settings", *names, cwd=tmp_path)
        assert (0, "", True) == (ended.code, ended.err, words in ended.out)
    ended = fresh("settings", "metod", cwd=tmp_path)
    assert (2, "there is no table 'metod'; did you mean 'method'?\n") == (ended.code, ended.err)

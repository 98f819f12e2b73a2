"""`data check` and `data merge` agree on what is the same: a text, or a pair where a file has a line for each."""

import json
from pathlib import Path
from typing import cast

import pytest

from wardround.formats.check import check
from wardround.formats.merge import merge
from wardround.formats.options import Options
from wardround.tasks import TASKS

TEXT = "Aspirin gave her a rash and a fever."
RASH, FEVER = (19, 23), (30, 35)
CONTRADICTED = "same text with other annotations"


def line(tail: tuple[int, int], kind: str = "causes", **more: object) -> dict[str, object]:
    spans = [("T1", "drug", (0, 7)), ("T2", "effect", tail)]
    entities = [{"id": name, "type": type_, "start": start, "end": end} for name, type_, (start, end) in spans]
    relations = [{"type": kind, "head": "T1", "tail": "T2"}] if kind else []
    return {"text": TEXT, "entities": entities, "relations": relations, **more}


def told(folder: Path, *files: list[dict[str, object]], task: str = "") -> tuple[list[str], list[str]]:
    """What check and merge call a repetition or a contradiction."""
    (folder / "notes").mkdir()
    for number, rows in enumerate(files):
        path = folder / "notes" / f"{number}.jsonl"
        path.write_text("".join(json.dumps({"id": f"{number}.{at}", **row}) + "\n" for at, row in enumerate(rows)))
    survey = check(folder / "notes", Options(), task=TASKS[task]() if task else None)
    _, counts = merge([folder / "notes"], folder / "all.jsonl", Options())
    return (
        [one.what for one in survey.findings.listed if "text" in one.what and one.line],
        [kind for kind in ("duplicates", "conflicts") for _ in range(counts[kind])],
    )


@pytest.mark.parametrize("task", ["", "relation"])
@pytest.mark.parametrize("kinds", [("causes", "causes"), ("", "causes"), ("causes", "")])
def test_several_pairs_of_a_sentence_are_no_contradiction(kinds: tuple[str, str], task: str, tmp_path: Path) -> None:
    """Nor are those that nobody related, whichever comes first."""
    rows = [line(RASH, kinds[0]), line(FEVER, kinds[1])]
    assert ([], []) == told(tmp_path, rows, task=task)


def test_the_same_pair_twice_is(tmp_path: Path) -> None:
    rows = [line(RASH), line(FEVER), line(RASH, ""), line(FEVER)]
    assert ([CONTRADICTED, "repeated text"], ["duplicates", "conflicts"]) == told(tmp_path, rows)


def test_two_files_that_have_a_text_once_each_contradict_each_other(tmp_path: Path) -> None:
    assert ([CONTRADICTED], ["conflicts"]) == told(tmp_path, [line(RASH)], [line(FEVER)])


def test_texts_in_which_nothing_is_related_are_no_pairs(tmp_path: Path) -> None:
    rows = [line(RASH, ""), line(FEVER, "")]
    assert ([CONTRADICTED], ["conflicts"]) == told(tmp_path, rows)


def test_a_text_with_more_than_a_pair_is_a_text(tmp_path: Path) -> None:
    whole = line(RASH)
    whole["entities"] = [*whole["entities"], {"id": "T3", "type": "effect", "start": 30, "end": 35}]  # type: ignore[misc]
    assert ([CONTRADICTED] * 2, ["conflicts"] * 2) == told(tmp_path, [line(RASH), whole, line(FEVER)])


def test_a_pair_is_about_itself_beside_a_whole_note_of_the_same_text(tmp_path: Path) -> None:
    """Pairs that our own conversion wrote, and the note that they were made of: none takes the place of another."""
    pairs = [line(RASH), line(FEVER)]
    for row in pairs:
        names = {"T1": "e1", "T2": "e2"}
        row["entities"] = [
            {**one, "id": names[str(one["id"])]} for one in cast("list[dict[str, object]]", row["entities"])
        ]
        row["relations"] = [{"type": "causes", "head": "e1", "tail": "e2"}]
    entities = [*cast("list[object]", line(RASH)["entities"]), {"id": "T3", "type": "effect", "start": 30, "end": 35}]
    assert ([], []) == told(tmp_path, pairs, [{"text": TEXT, "entities": entities, "relations": []}])

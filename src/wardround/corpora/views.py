"""What a reader makes of its files, and which reader makes what a task takes.

    misfit("tagging", Tagging, "brat", BRAT)
    # "reads pairs of entities, and the task 'tagging' takes texts with entities: write name = "brat-notes""

One format can be read in several ways: BRAT's notes as pairs of entities for relations, or whole for tagging. A task
would train on the wrong ones without a word, so each reader says what it gives (`views`), and each task what it takes.
A class of somebody's own need not say.
"""

from collections.abc import Mapping
from typing import Any

__all__ = ["READERS", "misfit"]

WORDS = {
    "bags": "bags of sentences",
    "entities": "texts with entities",
    "labels": "labelled texts",
    "pairs": "pairs of entities",
    "rows": "rows of numbers",
}
JSONL = {
    "bags": 'name = "notes-bags"',
    "entities": 'name = "entities-jsonl"',
    "labels": 'format = "jsonl"',
    "pairs": 'name = "pairs-jsonl"',
}
BRAT = {"entities": 'name = "brat-notes"', "pairs": 'name = "brat"'}
I2B2 = {"entities": 'name = "i2b2-notes"', "pairs": 'name = "i2b2"'}
OPENNRE = {"bags": 'name = "opennre-bags"', "pairs": 'name = "opennre"'}
READERS: dict[str, tuple[str, Mapping[str, str]]] = {
    "bags": ("JSONL", JSONL),
    "brat": ("BRAT", BRAT),
    "brat-notes": ("BRAT", BRAT),
    "conll": ("CoNLL", {"entities": 'name = "conll"'}),
    "csv": ("CSV", {"labels": 'format = "csv"'}),
    "entities-jsonl": ("JSONL", JSONL),
    "i2b2": ("i2b2", I2B2),
    "i2b2-notes": ("i2b2", I2B2),
    "jsonl": ("JSONL", JSONL),
    "notes-bags": ("JSONL", JSONL),
    "opennre": ("OpenNRE", OPENNRE),
    "opennre-bags": ("OpenNRE", OPENNRE),
    "pairs-jsonl": ("JSONL", JSONL),
    "pubtator-bags": ("PubTator", {"bags": 'name = "pubtator-bags"'}),
    "tsv": ("TSV", {"labels": 'format = "tsv"'}),
}
"""Of the formats that users have: by reader (or by `format`), the format and what to write for each view."""


def misfit(task: str, takes: Any, reader: str, views: Any) -> str | None:
    """Why a reader's examples are not what a task takes, and which reader's are; None if they are, or nobody knows."""
    wanted, given = getattr(takes, "takes", None), getattr(views, "views", None)
    if wanted is None or given is None or wanted in given:
        return None
    what = " or ".join(WORDS[view] for view in given)
    said = f"reads {what}, and the task {task!r} takes {WORDS[wanted]}"
    form, ways = READERS.get(reader, ("", {}))
    if wanted in ways:
        return f"{said}: write {ways[wanted]}"
    if form and wanted in JSONL:
        return f"{said}, for which {form} has no place: convert the files to JSONL, add them, and write {JSONL[wanted]}"
    return f"{said}; choose another corpus or task"

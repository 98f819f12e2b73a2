"""Which files of a folder are for training, testing and validation, by their names.

splits_in(Path("corpus"))        # {"train": corpus/train.csv, "test": corpus/test.csv}
"""

import re
from pathlib import Path

SPLITS = {
    split: re.compile(rf"(?<![a-z])(?:{words})(?:[ _-]?set)?(?![a-z])", re.IGNORECASE)
    for split, words in {
        "train": "train(?:ing)?", "test": "test(?:ing)?", "valid": "valid(?:ation)?|dev(?:el(?:opment)?)?",
    }.items()
}  # fmt: skip
"""What stands for a split in the names of published corpora (`devel.tsv`, `CDR_DevelopmentSet.txt`)."""


def splits_in(folder: Path) -> dict[str, Path]:
    """The files of a folder whose names differ in the split alone; if none do, those that begin with one's name."""
    inside = sorted(file for file in folder.iterdir() if not file.name.startswith("."))
    alike: dict[str, dict[str, list[Path]]] = {}
    for split, words in SPLITS.items():
        for file in inside:
            rest, count = words.subn("*", file.name, count=1)
            if count:
                alike.setdefault(rest.lower(), {}).setdefault(split, []).append(file)
    begun = {split: [file for file in inside if file.name.startswith(split)] for split in SPLITS}
    named, *others = [some for some in alike.values() if {"train", "test"} <= some.keys()] or [begun]
    return {split: files[0] for split, files in (begun if others else named).items() if len(files) == 1}

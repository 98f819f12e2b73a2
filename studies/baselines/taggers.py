"""Taggers of words against looking entities up: what `wardround new` writes for foreign files, with nothing set.

    WARDROUND_DATA=… python studies/baselines/taggers.py runs/taggers [CORPUS…] [--seeds 0 1 2]

Files are cut from the corpora as a stranger would have them: CoNLL (NCBI Disease, IMCS-21 in Chinese) and PubTator
(BC5CDR). What is tried is held out: rows of the development split, or of other dialogues. No test split is read. The
study is written by `wardround new`: three IID sites, 10 rounds, figures after the last; strict F1, a line a seed.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import wardround

CUT = {"ncbi": (500, 300), "bc5cdr": (40, 30), "imcs21": (600, 500)}
"""Sentences or abstracts to train on, and to try."""
VARIANTS: dict[str, dict[str, Any]] = {
    "batches of 16, one pass": {"name": "fedavg", "optimizer": "adam", "lr": 0.003, "batch": 16, "epochs": 1},
    "default": {"name": "fedavg"},
    "centralised": {"name": "centralised"},
}


def blocks(path: Path) -> list[str]:
    """What blank lines part: sentences of CoNLL, abstracts of PubTator."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        return [block for block in file.read().strip().split("\n\n") if block.strip()]


def rows_of(name: str, data: Path) -> tuple[Sequence[str], Sequence[str], str]:
    """Rows to train on, rows to try, and how such a file is called."""
    train, held = CUT[name]
    if name == "ncbi":
        splits = [blocks(data / "ncbi_disease" / f"{split}") for split in ("train.tsv.gz", "devel.tsv")]
        return splits[0][:train], splits[1][:held], "tsv"
    if name == "bc5cdr":
        places = (data / "bc5cdr_re" / f"CDR_{split}Set.PubTator.txt.gz" for split in ("Training", "Development"))
        splits = [blocks(place) for place in places]
        return splits[0][:train], splits[1][:held], "txt"
    both = [(data / "imcs21/ner/dev" / f"{one}.gz") for one in ("input.seq.char", "output.seq.bio")]
    texts, tags = ([line.split() for line in gzip.decompress(file.read_bytes()).decode().splitlines()] for file in both)
    sentences = ["\n".join(map("\t".join, zip(*row, strict=True))) for row in zip(texts, tags, strict=True)]
    return sentences[:train], sentences[-held:], "bio"  # neighbouring lines are one dialogue


def written(name: str, out: Path) -> dict[str, Any]:
    """The study that `wardround new` writes for the cut files."""
    train, held, ending = rows_of(name, Path(os.environ["WARDROUND_DATA"]))
    folder = out / "files" / name
    folder.mkdir(parents=True, exist_ok=True)
    for split, rows in (("train", train), ("test", held)):
        (folder / f"{split}.{ending}").write_text("\n\n".join(rows) + "\n", encoding="utf-8")
    study = folder / "study.toml"
    study.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "wardround",
        "new",
        str(folder),
        "--task",
        "tagging",
        "--out",
        str(study),
        "--lossy",
    ]
    subprocess.run(command, check=True, capture_output=True)
    tables = tomllib.loads(study.read_text(encoding="utf-8"))
    tables["corpus"] |= {split: str((folder / f"{split}.{ending}").resolve()) for split in ("train", "test")}
    return tables | {"evaluation": {"every": tables["rounds"]}, "references": ["dictionary"]}


def line(name: str, seed: int, out: Path) -> str:
    """A row of the table."""
    tables = written(name, out)
    figures: dict[str, float] = {}
    for number, (variant, method) in enumerate(VARIANTS.items()):
        folder = out / f"{name}-{number}-{seed}"
        result = wardround.run(tables | {"method": method, "seed": seed}, folder, quiet=True, report=False, resume=True)
        figures[variant] = result.metrics["f1"]
    known = json.loads((out / f"{name}-0-{seed}" / "references.json").read_text(encoding="utf-8"))["dictionary"]["f1"]
    share = f"{100 * figures['default'] / figures['centralised']:.0f} %"
    return " | ".join([f"| {name}", str(seed), *(f"{value:.3f}" for value in (known, *figures.values())), f"{share} |"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("corpora", nargs="*", default=[*CUT])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    print(f"| corpus | seed | dictionary | {' | '.join(VARIANTS)} | default of centralised |")
    print("|---" * (4 + len(VARIANTS)) + "|")
    for drawn in given.seeds:
        for corpus in given.corpora:
            print(line(corpus, drawn, given.out), flush=True)

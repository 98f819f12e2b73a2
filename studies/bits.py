"""Whether a change of the code changes a result: two rounds of every study, compared to the bit between two trees.

    python studies/bits.py write before.json                   # in one tree
    python studies/bits.py compare before.json                 # in another: runs the same and lists what differs
    python studies/bits.py compare before.json --only 'flcmc/*' --cells 1

WARDROUND_DATA says where the corpora are, as for any study. Of each file under studies/ a few cells are run (--cells),
of the first seed, chosen so that every value of its grid occurs (of a longer list than `CELLS` some, evenly); one cell
of every file comes first, then another of each. `AT_MOST` bounds the settings that cost time, so that the same code
runs on less; one that is renamed gets a line there. Where NYT10 and MIRGENE are not set, a few sentences in their
layouts stand in. Everything runs serially in this process.

A cell is known by its file and its number, whatever its settings are called. Noted of it are its label, its study's
fingerprint, the last round's figures, references, bytes on the wire, and SHA-256 digests of tensors: `model`, by name;
`state`, the coordinator's last checkpoint; and `sites`, what each has kept last (both in any order, since fields may be
renamed). A cell that cannot run is noted with the reason. `compare` ends with 1 if anything but a fingerprint differs.

Each finished cell is written at once: stopped, the same command goes on, unless package, studies or this file have been
changed since; then it starts anew. `compare` keeps what it finds in --again (default: runs/bits.json), and states of
encoders are cached in a folder beside it, so that no tree uses another's.
"""

import argparse
import hashlib
import itertools
import json
import math
import os
import re
import shutil
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import safetensors

import wardround

HERE = Path(__file__).parent
CELLS = 6
AT_MOST: dict[str, float] = {
    "corpus.documents": 40, "corpus.test_documents": 20, "corpus.notes": 4, "corpus.test_notes": 2,
    "corpus.sentences": 300, "corpus.test_sentences": 150, "corpus.sample": 150, "corpus.most": 300,
    "partition.sites": 20, "sites.share": 0.05, "sites.per_round": 3, "task.filters": 16, "task.hidden": 16,
    "public.fraction": 0.05, "method.epochs": 2, "method.steps": 3, "method.warm": 1,
}  # fmt: skip
UNSAID = {"relation": "sites.share", "tagging": "corpus.most"}  # by task, where a study has all of its corpus
TENSORS = ("model", "state", "sites")
KEPT = re.compile(r"(?P<kind>.+)-(?P<round>\d+)-(?P<exchange>\d+)")
HEAD = 1 << 20  # bytes in which the tensors of a sealed file begin

Cell = dict[str, Any]


def wanted(only: str, most: int) -> list[tuple[str, str, dict[str, Any]]]:
    """Key, label and settings of what is run: one cell of every file first, then another of each."""
    paths = [path for path in sorted(HERE.rglob("*.toml")) if fnmatch(str(path.relative_to(HERE)), only)]
    turns = itertools.zip_longest(*(
        [(f"{path.relative_to(HERE)}#{number}", label, tables) for number, label, tables in chosen(path, most)]
        for path in paths
    ))  # fmt: skip
    return [cell for turn in turns for cell in turn if cell]


def chosen(path: Path, most: int) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """The cells of a study that are run: number, label and settings."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    grid, seeds = tables.pop("grid", {}), tables.pop("seeds", None)
    longest = max(map(len, grid.values()), default=1)
    for number in sorted({at * longest // most for at in range(most)}):
        choices = {key: values[number % len(values)] for key, values in grid.items()}
        cell = {**tables, "rounds": 2, "seed": seeds[0] if seeds else tables.get("seed", 0)}
        for key, value in {**choices, "evaluation.every": 2}.items():
            cell = put(cell, key.split("."), value)
        yield number, " ".join(map(shown, choices.values())), smaller(cell)


def put(tables: Mapping[str, Any], keys: list[str], value: Any) -> dict[str, Any]:
    """The tables with one more setting; a table is laid over the one that is there."""
    key, *below = keys
    there = tables.get(key, {})
    if below:
        value = put(there, below, value)
    elif isinstance(value, dict) and isinstance(there, dict):
        value = {**there, **value}
    return {**tables, key: value}


def shown(value: Any) -> str:
    """A choice of the grid, for the reader."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    return ",".join(map(str, parts)) or "none"


def smaller(cell: dict[str, Any]) -> dict[str, Any]:
    """The same study with less work."""
    whole = not any(f"corpus.{key}" in AT_MOST for key in cell["corpus"])
    for name, most in AT_MOST.items():
        table, key = name.split(".")
        unsaid = math.inf if whole and name == UNSAID.get(cell["task"]["name"]) else 0
        if cell.get(table, {}).get(key, unsaid) > most:
            cell = put(cell, [table, key], most)
    return cell


def stand_ins(folder: Path) -> None:
    """Sentences in the layouts of the corpora that a user fetches, and where the studies look for them."""
    names = ("nyt10/nyt10_train.txt", "nyt10/nyt10_test.txt", "mirgene/train/mirgene.txt", "mirgene/test/mirgene.txt")
    for name, first in zip(names, (0, 400, 0, 400), strict=True):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        line = opennre if name.startswith("nyt10") else mirgene
        path.write_text("".join(line(number) + "\n" for number in range(first, first + 300)), encoding="utf-8")
    for name, size in (("nyt10/glove.6B.50d.txt", 50), ("mirgene/vectors-200d.txt", 200)):
        (folder / name).write_text(f"lowers{' 0.1' * size}\nbeside{' -0.1' * size}\n", encoding="utf-8")
    for name in ("NYT10", "MIRGENE"):
        os.environ.setdefault(name, str(folder / name.lower()))


def opennre(number: int) -> str:
    """A sentence of a pair as OpenNRE has it: every third pair has a fact, and most of its sentences say it."""
    pair, relation, head, tail, word = sentence(number)
    text = f"{head} {word} {tail} in case {number} ."
    ends = {"h": (head, 0), "t": (tail, len(head) + len(word) + 2)}
    told = {key: {"id": f"/m/{pair}{key}", "name": x, "pos": [at, at + len(x)]} for key, (x, at) in ends.items()}
    return json.dumps({"text": text, "relation": f"/is/{word}" if relation else "NA", **told})


def mirgene(number: int) -> str:
    """The same as MIRGENE has it."""
    pair, relation, head, tail, word = sentence(number)
    tagged = f"<e1>{head}</e1> {word} <e2>{tail}</e2> in case {number} ."
    return f"{'R_MIRTAR' if relation else 'NONE'} d{number} 1 h{pair}|t{pair} dep:x\t{tagged}"


def sentence(number: int) -> tuple[int, bool, str, str, str]:
    """A pair, whether it has a fact, its two names, and the word between them."""
    pair = number // 4
    relation = pair % 3 == 0
    word = ("lowers", "raises")[pair % 2] if relation and number % 4 else "beside"
    return pair, relation, f"miR-{pair}", f"GENE{pair}", word


def tensors(path: Path, *, named: bool) -> str:
    """A digest of all tensors in a safetensors file, or in one behind a head."""
    raw = path.read_bytes()
    for at in [0, *(match.start() - 8 for match in re.finditer(rb'\{"', raw[:HEAD]) if match.start() > 8)]:
        try:
            parts = safetensors.deserialize(raw[at:])  # type: ignore[no-untyped-call]
        except safetensors.SafetensorError:
            continue
        whole = [f"{name * named} {x['dtype']} {x['shape']} {hashed(x['data'])}" for name, x in parts]
        return hashed("\n".join(sorted(whole)).encode())
    raise ValueError(f"{path} holds no tensors that could be read; look at how its kind of file is written now")


def hashed(data: bytes) -> str:
    """Its SHA-256."""
    return hashlib.sha256(data).hexdigest()


def kept_last(folder: Path) -> Iterator[Path]:
    """What each site has kept last of each kind: how much of the rest is there depends on time."""
    last: dict[tuple[Path, str], tuple[tuple[int, int], Path]] = {}
    for path in sorted(folder.rglob("*.kept")):
        parts = KEPT.fullmatch(path.stem)
        when = (int(parts["round"]), int(parts["exchange"])) if parts else (0, 0)
        key = path.parent, parts["kind"] if parts else path.stem
        last[key] = max(last.get(key, (when, path)), (when, path))
    return (path for _, path in last.values())


def measured(tables: Mapping[str, Any], out: Path) -> Cell:
    """What a cell's run gives, or why it cannot be run."""
    shutil.rmtree(out, ignore_errors=True)
    try:
        result = wardround.run(tables, out, quiet=True, report=False)
    except Exception as error:  # noqa: BLE001 -- whatever it is, the other cells can be run
        return {"cannot": f"{type(error).__name__}: {error}"}
    digests: dict[str, str | None] = dict.fromkeys(TENSORS)
    for path in out.glob("model/*.safetensors"):
        digests["model"] = tensors(path, named=True)
    for path in sorted(out.glob("checkpoints/*.checkpoint"))[-1:]:
        digests["state"] = tensors(path, named=False)
    if kept := sorted(f"{path.parent.name} {tensors(path, named=False)}" for path in kept_last(out)):
        digests["sites"] = hashed("\n".join(kept).encode())
    said = {name: out / f"{name}.json" for name in ("metrics", "references")}
    files = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in said.items() if path.exists()}
    return {
        "fingerprint": (out / "fingerprint").read_text(encoding="utf-8").strip(),
        **digests,
        "metrics": dict(result.metrics),
        "references": files.get("references", {}),
        "bytes": files.get("metrics", {}).get("bytes"),
    }


def code() -> str:
    """A digest of all that decides the figures, but for the data."""
    package = Path(wardround.__file__).parent
    sources = [*sorted(package.rglob("*.py")), *sorted(HERE.rglob("*.toml")), Path(__file__)]
    return hashed("".join(hashed(path.read_bytes()) for path in sources).encode())


def run_all(out: Path, only: str, most: int) -> dict[str, Cell]:
    """All cells, those already in the file as they are."""
    work = out.with_suffix(".work")
    kept = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    if kept.get("code") != (now := code()):
        shutil.rmtree(work, ignore_errors=True)
        kept = {"code": now, "cells": {}}
    out.parent.mkdir(parents=True, exist_ok=True)
    stand_ins(work)
    os.environ["WARDROUND_CACHE"] = str(work / "cache")
    cells: dict[str, Cell] = kept["cells"]
    asked = wanted(only, most)
    for count, (key, label, tables) in enumerate(asked, 1):
        if key in cells:
            continue
        began = time.process_time()
        cells[key] = {"label": label, **measured(tables, work / "run")}
        seconds = time.process_time() - began
        print(f"{count}/{len(asked)} {key} {label} {seconds:.1f} s {cells[key].get('cannot', '')}", flush=True)
        new = out.with_suffix(".new")
        new.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        new.replace(out)
    return {key: cells[key] for key, _, _ in asked}


def differing(before: Cell, after: Cell) -> list[str]:
    """The names of what is not the same; why a cell cannot run may be worded anew."""
    if "cannot" in before and "cannot" in after:
        return []
    one, other = ({key: json.dumps(x, sort_keys=True) for key, x in cell.items()} for cell in (before, after))
    return [key for key in {**one, **other} if key != "label" and one.get(key) != other.get(key)]


def compare(before: Mapping[str, Cell], after: Mapping[str, Cell]) -> bool:
    """Print what differs; whether anything but fingerprints does."""
    bad = False
    moved = []
    for key in sorted({*before, *after}):
        if key not in before or key not in after:
            bad = True
            print(f"{key}: only {'before' if key in before else 'after'}")
            continue
        names = differing(before[key], after[key])
        if names == ["fingerprint"]:
            moved.append(key)
        elif names:
            bad = True
            print(f"{key} {after[key]['label']}: {', '.join(names)}")
            for name in names:
                print(f"    {name}: {before[key].get(name)} -> {after[key].get(name)}")
    for path, keys in itertools.groupby(moved, lambda key: key.partition("#")[0]):
        print(f"{path}: another fingerprint, the same bits ({len(list(keys))} cells)")
    idle = [key for key, cell in after.items() if "cannot" in cell]
    for key in idle:
        print(f"{key}: not run: {after[key]['cannot']}")
    print(f"{len(after)} cells, {len(after) - len(idle)} run: {'something differs' if bad else 'the same bits'}")
    return bad


def main() -> None:
    """Write, or write again and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("command", choices=("write", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="*", help="files under studies/: 'fedner/*'")
    parser.add_argument("--cells", type=int, choices=(1, 2, 3, CELLS), default=CELLS, help="of each file, at most")
    parser.add_argument("--again", type=Path, default=Path("runs/bits.json"))
    given = parser.parse_args()
    if given.command == "write":
        run_all(given.file, given.only, given.cells)
        return
    before = json.loads(given.file.read_text(encoding="utf-8"))["cells"]
    after = run_all(given.again, given.only, given.cells)
    asked = {key: cell for key, cell in before.items() if fnmatch(key.partition("#")[0], given.only)}
    if given.cells < CELLS:
        asked = {key: cell for key, cell in asked.items() if key in after}
    sys.exit(compare(asked, after))


if __name__ == "__main__":
    main()

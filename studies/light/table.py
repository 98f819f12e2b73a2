"""Run these studies, or go on with them, and write the table of each into RESULTS.md.

    WARDROUND_DATA=… python studies/light/table.py runs/light chemprot [--cells 4]
    WARDROUND_DATA=… python studies/light/table.py runs/light ncbi-disease

For each entry of `VARIANTS`, its rates are tried with seed 0 and judged by the corpus's validation split. The best one
is then run with seeds 0, 1 and 2, and its last round judged by the test split, once. `--cells` ends it after so many
new runs; called again, it goes on. Seconds are a core's own, not a clock's, and those of a run that went on are its
rest's.
"""

import argparse
import json
import re
import statistics
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import wardround

HERE = Path(__file__).parent
SEEDS = (0, 1, 2)
RATES = (3e-4, 1e-3, 3e-3, 1e-2)
FIGURES = {"chemprot": ("micro_f1", "macro_f1"), "ncbi-disease": ("f1", "relaxed_f1")}
"""By study, what is shown; the first of them chooses the rate."""
EVERYWHERE = {"rank": 8, "layers": ["query", "key", "value", "mixed", "wide", "narrow"]}
"""Adapters of all linear layers. They move ten times as fast as the rate says, so that the two lowest are tried."""


@dataclass(frozen=True)
class Variant:
    """What is trained, and how it is sent."""

    task: dict[str, Any]
    layers: Sequence[dict[str, Any]] = field(default=())
    like: str = ""
    """The variant that chooses the rate, if it is another one."""
    rates: Sequence[float] = RATES


VARIANTS = {
    "everything": Variant({"freeze": "nothing"}),
    "the last layer and the head": Variant({"freeze": 1}),
    "adapters and the head": Variant({"adapter": EVERYWHERE}, rates=RATES[:2]),
    "the same in 8 bits": Variant(
        {"adapter": EVERYWHERE}, ({"name": "narrow", "bits": 8},), like="adapters and the head"
    ),
    "the head alone": Variant({"freeze": 2}),
    "adapters of rank 32 and the head": Variant({"adapter": EVERYWHERE | {"rank": 32}}, rates=RATES[:2]),
    "these in 8 bits": Variant(
        {"adapter": EVERYWHERE | {"rank": 32}},
        ({"name": "narrow", "bits": 8},),
        like="adapters of rank 32 and the head",
    ),
}


class EnoughError(Exception):
    """As many runs as were asked for have been made."""


@dataclass
class Runs:
    """The runs of one study below a folder, made as they are asked for."""

    study: str
    out: Path
    left: int | None
    """How many more may be made; None for all."""

    def figures(self, name: str, rate: float, seed: int, split: str) -> dict[str, float]:
        """How one run ended, what a site sent in each round, and the seconds."""
        folder = self.out / self.study / f"{split}-{list(VARIANTS).index(name)}-{rate:g}-{seed}"
        notes = folder.parent / f"{folder.name}.json"
        if not notes.exists():
            if self.left == 0:
                raise EnoughError
            self.left = None if self.left is None else self.left - 1
            began = time.process_time()
            result = wardround.run(self._tables(name, rate, seed, split), folder, resume=True, quiet=True, report=False)
            first = json.loads((folder / "journal.jsonl").read_text(encoding="utf-8").partition("\n")[0])
            more = {"seconds": time.process_time() - began, "up": first["up"] / first["sites"]}
            notes.write_text(json.dumps(result.metrics | more), encoding="utf-8")
        figures: dict[str, float] = json.loads(notes.read_text(encoding="utf-8"))
        return figures

    def _tables(self, name: str, rate: float, seed: int, split: str) -> dict[str, Any]:
        """A study's tables, as one run has them."""
        tables = tomllib.loads((HERE / f"{self.study}.toml").read_text(encoding="utf-8"))
        tables["task"] |= VARIANTS[name].task
        tables["method"] |= {"lr": rate}
        tables["evaluation"] |= {"splits": [split]}
        return tables | {"seed": seed, "layers": [*VARIANTS[name].layers]}

    def tried(self, name: str) -> dict[float, float]:
        """By rate, the figure on the validation split."""
        like, first = VARIANTS[name].like or name, FIGURES[self.study][0]
        return {rate: self.figures(like, rate, 0, "valid")[f"valid_{first}"] for rate in VARIANTS[like].rates}

    def chosen(self, name: str) -> float:
        """The rate with the best figure there, of equal ones the lowest."""
        tried = self.tried(name)
        return max(tried, key=lambda rate: tried[rate])

    def rows(self) -> Iterator[str]:
        """The table, once all runs have been made."""
        names = FIGURES[self.study]
        heads = ["trained", "rate", "bytes up, each site and round", "of the whole", *names, "seconds of a core"]
        yield f"| {' | '.join([*heads, *(f'{names[0]} in validation at {rate:g}' for rate in RATES)])} |"
        yield f"|---|{'---:|' * (len(heads) - 1 + len(RATES))}"
        whole = 0.0
        for name, variant in VARIANTS.items():
            ended = [self.figures(name, self.chosen(name), seed, "test") for seed in SEEDS]
            whole = whole or ended[0]["up"]
            cells = [name, f"{self.chosen(name):g}", f"{ended[0]['up']:,.0f}", f"{ended[0]['up'] / whole:.2%}"]
            cells += [_spread([figures[figure] for figures in ended]) for figure in names]
            cells.append(f"{statistics.fmean(figures['seconds'] for figures in ended):.0f}")
            tried = {} if variant.like else self.tried(name)
            cells += [f"{tried[rate]:.3f}" if rate in tried else "" for rate in RATES]
            yield f"| {' | '.join(cells)} |"


def _spread(values: Sequence[float]) -> str:
    """Mean and standard deviation, and each seed's own: of three, one that went astray shows only there."""
    each = ", ".join(f"{value:.3f}" for value in values)
    return f"{statistics.fmean(values):.3f} ± {statistics.stdev(values):.3f} ({each})"


def write(study: str, rows: Sequence[str]) -> None:
    """Put a table between its marks in RESULTS.md."""
    page = HERE / "RESULTS.md"
    begin, end = f"<!-- {study} -->\n", f"<!-- end of {study} -->"
    text = page.read_text(encoding="utf-8")
    new = re.sub(
        f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: "\n".join([begin, *rows, "", end]), text, flags=re.DOTALL
    )
    page.write_text(new, encoding="utf-8")


def main() -> None:
    """Make the runs, and write their table once there are all of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("study", choices=FIGURES)
    parser.add_argument("--cells", type=int)
    asked = parser.parse_args()
    runs = Runs(asked.study, asked.out, asked.cells)
    try:
        rates = {name: runs.chosen(name) for name in VARIANTS}
        for seed in SEEDS:  # each seed of all, so that what there is can be compared
            for name, rate in rates.items():
                runs.figures(name, rate, seed, "test")
    except EnoughError:
        print("not all runs have been made; call it again")
    else:
        write(asked.study, [*runs.rows()])


if __name__ == "__main__":
    main()

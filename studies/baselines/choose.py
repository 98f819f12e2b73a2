"""Settings compared on held-out training texts: the test split is not looked at.

    WARDROUND_DATA=… python studies/baselines/choose.py runs/choose clinic-zh toyhom     # all: ten minutes of a core

For each study of this folder that is named, and each entry of `VARIANTS`, one model is trained in one place (FedAvg is
within 3 % of it) with one seed, on as many texts as in `table.py`; the figures are those of the last round on what
`[validation]` set aside. Corpora with a validation split of their own are judged by that; of the others a study reads
two and a half times the texts here, and sets the rest aside. Which rows and which class weights are worth trying is
told by `rows.py`, which takes no more than a fit of scikit-learn for each.
"""

import sys
import tomllib
from pathlib import Path
from typing import Any

import wardround

HERE = Path(__file__).parent
MORE = 2.5
OWN = ("clinic-dialogues", "clinic-en", "clinic-zh", "cmdd", "cmedtc", "psytar")  # have a validation split
SEED = 10  # generated notes are others than those of the table
VARIANTS: dict[str, dict[str, Any]] = {
    "no weighting, root": {"weighting": "none", "class_weights": "root"},
    "document counts, balanced, pull 0.5": {"weighting": "documents", "class_weights": "balanced", "shrinkage": 0.5},
}


def widened(name: str) -> dict[str, Any]:
    """A study of this folder, with more texts if those beyond what it trains on have to be held out."""
    tables = tomllib.loads((HERE / f"{name}.toml").read_text(encoding="utf-8"))
    tables = {key: value for key, value in tables.items() if key not in ("grid", "seeds", "references")}
    if name not in OWN:
        tables["sites"] = {"share": tables["sites"]["share"] * MORE}
    aside = {"validation": {"share": 1 - 1 / MORE}, "evaluation": {"every": tables["rounds"]}}
    return tables | aside | {"seed": SEED, "references": []}


def held_out(name: str, variant: str, out: Path) -> str:
    """A row of the table: the first figure and macro-F1 on what was held out."""
    tables = widened(name)
    tables |= {"task": tables["task"] | VARIANTS[variant], "method": {"name": "centralised"}}
    folder = out / f"{name}-{variant.replace(' ', '-').replace(',', '')}"
    figures = wardround.run(tables, folder, quiet=True, report=False).metrics
    first = next(value for key, value in figures.items() if key.startswith("valid_"))
    return f"| {name} | {variant} | {first:.3f} | {figures['valid_macro_f1']:.3f} |"


if __name__ == "__main__":
    place, *studies = sys.argv[1:] or ["runs/choose"]
    print("| study | words | first figure | macro-F1 |\n|---|---|---|---|")
    for chosen in studies or sorted(path.stem for path in HERE.glob("*.toml")):
        for words in VARIANTS:
            print(held_out(chosen, words, Path(place)), flush=True)

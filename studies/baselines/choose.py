"""Settings compared on held-out training texts: the test split is not looked at.

    WARDROUND_DATA=… python studies/baselines/choose.py runs/choose clinic-zh toyhom     # all: five minutes of a core

For each study of this folder that is named, and each entry of `VARIANTS`, one model is trained in one place (FedAvg is
within 3 % of it) with one seed; the figures are those of the last round on what `[validation]` set aside. A study reads
here two and a half times the texts (PsyTAR: twice) and sets the rest aside, so that it trains on as many as in
`table.py` and is judged by more than a thousand. A corpus with a validation split of its own (generated hospitals,
cMedTC) is judged by that, and trains on all that is read.
"""

import sys
import tomllib
from pathlib import Path
from typing import Any

import wardround

HERE = Path(__file__).parent
MORE = 2.5
VARIANTS: dict[str, dict[str, Any]] = {
    "no weighting": {"weighting": "none"},
    "document counts, no pull": {"weighting": "documents", "shrinkage": 0.0},
    "document counts, pull 0.5": {"weighting": "documents", "shrinkage": 0.5},
}


def widened(name: str) -> dict[str, Any]:
    """A study of this folder with more texts, of which those beyond what it trains on are held out."""
    tables = tomllib.loads((HERE / f"{name}.toml").read_text(encoding="utf-8"))
    tables = {key: value for key, value in tables.items() if key not in ("grid", "seeds", "references")}
    share = tables.get("sites", {}).get("share", 0.0)
    more = min(MORE, 1 / share) if share else MORE
    if share:
        tables["sites"] = {"share": share * more}
    else:
        tables["corpus"] |= {"documents": round(tables["corpus"]["documents"] * more)}
    return tables | {"validation": {"share": 1 - 1 / more}, "evaluation": {"every": tables["rounds"]}}


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

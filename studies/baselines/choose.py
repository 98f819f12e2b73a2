"""Settings compared on a fifth of each training split, held out: the test split is not looked at.

    WARDROUND_DATA=… python studies/baselines/choose.py runs/choose clinic-en psytar

For each study of this folder that is named, and each entry of `VARIANTS`, both methods run with one seed; the figures
are those of the last round on what `[validation]` set aside. Add a variant, or `seeds`, and run it again.
"""

import sys
import tomllib
from pathlib import Path
from typing import Any

import wardround

HERE = Path(__file__).parent
VARIANTS: dict[str, dict[str, Any]] = {
    "no weighting": {"weighting": "none"},
    "document counts": {"weighting": "documents"},
    "and no pull": {"weighting": "documents", "shrinkage": 0.0},
    "and a strong pull": {"weighting": "documents", "shrinkage": 1.0},
    "and every count": {"weighting": "documents", "rarest": 1},
}


def held_out(name: str, variant: str, method: str, out: Path) -> str:
    """A row of the table: the first two figures on what was held out."""
    tables = tomllib.loads((HERE / f"{name}.toml").read_text(encoding="utf-8"))
    tables = {key: value for key, value in tables.items() if key not in ("grid", "seeds", "references")}
    tables |= {"validation": {"share": 0.2}, "task": tables["task"] | VARIANTS[variant], "method": {"name": method}}
    folder = out / f"{name}-{method}-{variant.replace(' ', '-')}"
    figures = wardround.run(tables, folder, quiet=True, report=False).metrics
    first, second, *_ = (value for key, value in figures.items() if key.startswith("valid_"))
    return f"| {name} | {variant} | {method} | {first:.3f} | {second:.3f} |"


if __name__ == "__main__":
    place, *studies = sys.argv[1:] or ["runs/choose", "clinic-en"]
    print("| study | words | method | first figure | macro-F1 |\n|---|---|---|---|---|")
    for chosen in studies:
        for words in VARIANTS:
            for way in ("centralised", "fedavg"):
                print(held_out(chosen, words, way, Path(place)), flush=True)

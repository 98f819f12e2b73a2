"""Run every study of this folder, or go on with it, and print the table of RESULTS.md.

    WARDROUND_DATA=… python studies/baselines/table.py runs/baselines [NAME…]     # needs wardround[baselines]

Figures are means ± standard deviations over seeds, in the last round, on the test split; `local` has one seed. The
first figure is accuracy, or micro-F1 where a text may have several labels.
"""

import json
import statistics
import sys
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import wardround
from wardround.cli.app import main

HERE = Path(__file__).parent
WANTED = 0.97


def values(folders: Sequence[Path], file: str, *keys: str) -> list[float]:
    """One figure of each run."""
    results = []
    for folder in folders:
        content = json.loads((folder / file).read_text(encoding="utf-8"))
        for key in keys:
            content = content[key]
        results.append(float(content))
    return results


def shown(numbers: Sequence[float]) -> str:
    """Their mean and spread."""
    spread = f" ± {statistics.stdev(numbers):.3f}" if len(numbers) > 1 else ""
    return f"{statistics.fmean(numbers):.3f}{spread}"


def line(name: str, runs: Path) -> str:
    """One corpus: both figures of the references and the methods, and what was hoped for."""
    done = sorted(path.parent for path in runs.glob("*/metrics.json"))
    by_method = {
        method: [folder for folder in done if folder.name.startswith(method)]
        for method in ("local", "centralised", "fedavg")
    }
    final = json.loads((done[0] / "metrics.json").read_text(encoding="utf-8"))["final"]
    first = next(iter(final))
    cells = [name, first.replace("_", "-"), str(len(by_method["fedavg"]))]
    means = {}
    for reference in ("majority", "tfidf"):
        pooled = by_method["centralised"]
        seeds = [values(pooled, "references.json", reference, metric) for metric in (first, "macro_f1")]
        means[reference] = [statistics.fmean(numbers) for numbers in seeds]
        cells.append(" / ".join(map(shown, seeds)))
    for method, folders in by_method.items():
        if not folders:  # `local` is not what the aims are about
            cells.append("–")
            continue
        figures = [values(folders, "metrics.json", "final", metric) for metric in (first, "macro_f1")]
        means[method] = [statistics.fmean(numbers) for numbers in figures]
        cells.append(" / ".join(map(shown, figures)))
    beats = [means["centralised"][at] - means["tfidf"][at] for at in (0, 1)]
    share = [means["fedavg"][at] / means["centralised"][at] for at in (0, 1)]
    cells.append(" / ".join(f"{gap:+.3f}" for gap in beats))
    cells.append(" / ".join(f"{100 * part:.1f} %" for part in share))
    return f"| {' | '.join(cells)} |"


def alone(name: str, out: Path) -> None:
    """The first seed of each site by itself."""
    if not (out / "metrics.json").exists():
        tables = tomllib.loads((HERE / f"{name}.toml").read_text(encoding="utf-8"))
        own = {"seed": tables.pop("seeds")[0], "method": {"name": "local"}, "references": []}
        del tables["grid"]
        wardround.run({**tables, **own}, out, quiet=True, report=False, resume=out.exists())


def table(out: Path, names: Sequence[str]) -> str:
    """All corpora of which there are runs."""
    heads = ["corpus", "figure, and macro-F1", "seeds", "majority", "tfidf", "local", "centralised", "fedavg",
             "centralised − tfidf", "fedavg of centralised"]  # fmt: skip
    both = ("fedavg", "centralised")
    rows = [
        line(name, out / name)
        for name in names
        if all(any((out / name).glob(f"{method}*/metrics.json")) for method in both)
    ]
    return "\n".join([f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *rows])


if __name__ == "__main__":
    place, *chosen = sys.argv[1:] or ["runs/baselines"]
    studies = chosen or sorted(path.stem for path in HERE.glob("*.toml") if "centralised" in path.read_text("utf-8"))
    for study in studies:
        with suppress(SystemExit):  # how the command line ends
            main(["run", str(HERE / f"{study}.toml"), "--out", f"{place}/{study}", "--resume", "--workers", "1",
                  "--quiet", "--no-report"])  # fmt: skip
    for study in studies:
        alone(study, Path(place) / study / "local")
    print(table(Path(place), studies))

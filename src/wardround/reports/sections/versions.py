"""Versions, and fingerprints of data and settings."""

from collections import Counter

import scipy

from wardround import __version__
from wardround.reports.compared import Report
from wardround.reports.html import Html, count, join, plural, table, tag
from wardround.runs.files import Data


def versions(report: Report) -> Html:
    """What the runs were made with and on."""
    components: dict[str, Counter[str]] = {}
    known = [run.metrics.versions for run in report.runs if run.metrics]
    for made_with in known:
        for name, version in made_with.items():
            components.setdefault(name, Counter())[version] += 1
    unknown = len(report.runs) - len(known)
    rows = []
    for name, used in components.items():
        many = len(used) > 1
        rows.append([name, "; ".join(f"{v} ({plural(n, 'run')})" if many else v for v, n in sorted(used.items()))])
    rows.append(["this report", f"wardround {__version__}, scipy {scipy.__version__}"])
    caption = "Versions that the runs were made with." + (
        f" {plural(unknown, 'unfinished run')} not counted." if unknown else ""
    )
    parts = [table(caption, ["component", "version"], rows, words=2), _fingerprints(report)]
    marks = [[run.label, run.measured_on, run.folder, tag("code", run.fingerprint or "—", class_="hash"), str(run.seed)]
             for run in report.runs]  # fmt: skip
    if len(report.panels) == 1:
        marks = [[row[0], *row[2:]] for row in marks]
    heads = ["method", *(["measured on"] * (len(report.panels) > 1)), "folder", "fingerprint of the settings", "seed"]
    whole = table("Settings of each run.", heads, marks, words=len(heads) - 1)
    return join([*parts, tag("details", tag("summary", "Fingerprints of settings"), whole)])


def _fingerprints(report: Report) -> Html:
    used: dict[tuple[str, str], tuple[Data, set[int]]] = {}
    for run in report.runs:
        if run.data:
            at = (run.measured_on, run.data.fingerprint or "")
            used.setdefault(at, (run.data, set()))[1].add(run.seed)
    if not used:
        return tag("p", "The run folders hold no fingerprint of their data (data.json).")
    grounds = [panel.label for panel in report.panels]
    ordered = sorted(used.items(), key=lambda item: (grounds.index(item[0][0]), min(item[1][1])))
    rows = [
        [", ".join(map(str, sorted(seeds))), *([ground] * (len(report.panels) > 1)),
         tag("code", mark or "not taken", class_="hash"), count(data.count),
         *(count(_examples(data, split)) if data.sites else "—" for split in ("train", "test"))]
        for (ground, mark), (data, seeds) in ordered
    ]  # fmt: skip
    several = ["measured on"] * (len(report.panels) > 1)
    heads = ["seeds", *several, "fingerprint of the data", "sites", "training examples", "test examples"]
    return table("Data.", heads, rows, words=2 + len(several))


def _examples(data: Data, split: str) -> int:
    return sum(n for splits in data.sites.values() for n in splits.get(split, {}).values())

"""The report: one HTML page that needs nothing else.

    write_report([Path("runs/demo")], Path("runs/demo/report.html"))

Rules of this file:
1. No script, and nothing is loaded: the page's own policy forbids both (see `html`).
2. The same runs give the same bytes: no date, no absolute path, nothing drawn at random.
3. Every name comes from outside and is escaped (see `html`).
"""

from collections.abc import Sequence
from pathlib import Path

from wardround.core.files import write
from wardround.reports.compared import Report
from wardround.reports.html import Html, document, join, plural, tag
from wardround.reports.read import read_runs
from wardround.reports.record import RunRecord
from wardround.reports.sections import SECTIONS


def write_report(runs: Sequence[Path], out: Path) -> Path:
    """Read these run folders (or folders of runs) and write one page about them all, unless it is there already."""
    made = page(read_runs(runs)).encode()
    if not out.is_file() or out.read_bytes() != made:
        write(out, made)
    return out


def page(runs: tuple[RunRecord, ...]) -> str:
    """The whole page."""
    report = Report(runs)
    whole = [(at, title, section(report)) for at, (title, section) in SECTIONS.items()]
    shown = [(at, title, content) for at, title, content in whole if content]  # what has nothing to say is left out
    names = list(dict.fromkeys(str(run.study.get("name", run.origin)) for run in runs))
    title = ", ".join(names)
    body = [
        tag("header", _header(report, title), tag("nav", [tag("a", name, href=f"#{at}") for at, name, _ in shown],
            aria_label="Sections")),
        tag("main", [
            tag("section", tag("h2", name, id=at), content, aria_labelledby=at) for at, name, content in shown
        ]),
        tag("footer", tag("p", "Made by wardround from run folders. This page loads nothing and sends nothing.")),
    ]  # fmt: skip
    return document(f"{title}: report", body)


def _header(report: Report, title: str) -> Html:
    runs = report.runs
    methods = len({group.label for panel in report.panels for group in panel.groups})
    seeds = len({run.seed for run in runs})
    done = sum(run.finished for run in runs)
    state = "all finished" if done == len(runs) else f"{done} finished"
    size = f"{plural(len(runs), 'run')} ({state}), {plural(methods, 'method')}, {plural(seeds, 'seed')}"
    size += f", {len(report.panels)} sets of data" if len(report.panels) > 1 else ""
    about = dict.fromkeys(str(run.study.get("description") or "") for run in runs)
    corpora = sorted({str(run.study["corpus"]["name"]) for run in runs if run.generated})
    parts = [
        tag("p", "Report of a federated study", class_="over"),
        tag("h1", title),
        tag("p", size, class_="soft"),
        [tag("p", text) for text in about if text],
    ]
    if corpora:
        whole = "Generated data" if all(run.generated for run in runs) else "Partly generated data"
        parts.append(tag("p", f"{whole} ({', '.join(corpora)}); not a claim about patients.", class_="notice"))
    return join(parts)

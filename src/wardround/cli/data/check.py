"""`wardround data check PATH`: what is in a user's files, and every problem.

Exit codes: 0 all is well, 1 something would be lost, 2 the command or the input is wrong. Note text is printed only
with `--show-text`.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from wardround.cli.data.findings import show_findings
from wardround.cli.options import in_options, literal, one_of, refusals
from wardround.cli.reading import reading
from wardround.formats.options import Options
from wardround.formats.register import FORMATS
from wardround.tasks import TASKS

if TYPE_CHECKING:
    from wardround.formats.check import Survey
    from wardround.formats.phi import Finder

CLASSES = 30


@reading
def command(
    path: Annotated[Path, typer.Argument(help="A file or a folder.")],
    task: Annotated[str, typer.Option(help="Check for a task, by the name that a study has for it.")] = "",
    phi: Annotated[
        bool, typer.Option("--phi", help="Count what looks like names, dates, patient numbers and telephone numbers.")
    ] = False,
    phi_model: Annotated[
        Path | None, typer.Option(help="The same, and names by Presidio and the spaCy model in this folder.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
    *,
    options: Options,
    form: str,
) -> None:
    """Tell what is in a file or folder, and every problem; nothing is changed."""
    from wardround.formats.check import check

    known = {name: kind for name, kind in TASKS.items() if kind.finds} if task else {}  # and torch with them
    one_of(task, tuple(known), "--task")
    finder, phi = _finder(phi_model), phi or phi_model is not None
    survey = check(path, options, task=known[task]() if task else None, form=form, phi=phi, finder=finder)
    if as_json:
        print(json.dumps(_plain(survey), ensure_ascii=False, indent=2))  # noqa: T201 -- for a pipe
    else:
        _show(survey, phi=phi)
    if survey.unreadable or not survey.documents:
        raise SystemExit(2)
    raise SystemExit(1 if survey.findings.lost else 0)


def _finder(folder: Path | None) -> "Finder | None":
    """What finds names by a model, if one is given."""
    if folder is None:
        return None
    from wardround.formats.presidio import presidio

    with refusals(folder):
        return presidio(folder)


def _plain(survey: "Survey") -> dict[str, Any]:
    findings = survey.findings
    listed = [{**asdict(one), "remedy": in_options(one.remedy)} for one in findings.listed]
    counts = {**survey.counts(), "unreadable": in_options(survey.unreadable)}
    return {**counts, "lost": findings.lost, "problems": listed, "problems_not_listed": findings.total - len(listed)}


def show_phi(console: Console, survey: "Survey") -> None:
    """How much looks as if it named somebody, in all."""
    from wardround.formats.phi import REMEDY, RULES

    sizes = survey.findings.sizes
    known = (*(kind for kind, *_ in RULES), *(what for what, remedy in sizes if remedy == REMEDY))
    counts = {kind: sizes[kind, REMEDY] for kind in dict.fromkeys(known) if sizes[kind, REMEDY]}
    kinds = "; ".join(f"{count:,} that {kind.replace('looks', 'look', 1)}" for kind, count in counts.items())
    console.print(f"what might name somebody: {kinds or 'nothing of a usual form, which is no proof'}")


def _show(survey: "Survey", *, phi: bool = False) -> None:
    from wardround.formats.kinds import KINDS
    from wardround.text.shown import NOT_SHOWN

    console, counts = literal(), survey.counts()
    if not survey.documents:  # a table of zeros says nothing
        show_findings(console, survey.findings.listed, survey.findings.sizes)
        return
    table = Table(box=None, show_header=False)
    forms = ", ".join(
        f"{FORMATS[name].about}" + (f" ({n} files)" if n > 1 else "") for name, n in survey.formats.items()
    )
    table.add_row("format", forms or "not recognised")
    for name in ("documents", "sentences", "tokens", "sources"):
        table.add_row(name, f"{counts[name]:,}")
    table.add_row("duplicates", f"{survey.duplicates:,}" + (" (same text)" if survey.duplicates else ""))
    table.add_row("languages", ", ".join(f"{name} {n:,}" for name, n in counts["languages"].items()))
    console.print(table)
    for name in ("labels", "entities", "relations"):
        _balance(console, name, counts[name], len(getattr(survey, name)), survey.unlabelled if name == "labels" else 0)
    if survey.attributes:
        listed = ", ".join(f"{name} {count:,}" for name, count in counts["attributes"].items())
        console.print(f"attributes: {survey.attributes.total():,}: {listed}")
    if survey.concepts:
        console.print(f"concept ids: {survey.concepts:,}")
    if survey.discontinuous:
        console.print(f"entities with gaps: {survey.discontinuous:,}")
    if any(NOT_SHOWN in counts[name] for name in (*KINDS, "attributes")):
        console.print(f"{NOT_SHOWN}: what occurs once or is long might be of a note; --show-text shows it")
    show_findings(console, survey.findings.listed, survey.findings.sizes)
    if phi:
        show_phi(console, survey)
    lost = survey.findings.lost
    console.print(f"problems by which something would be lost: {lost:,}" if lost else "nothing would be lost")


def _balance(console: Console, name: str, counts: dict[str, int], kinds: int, without: int) -> None:
    """Each class with its share, the largest first."""
    total = sum(counts.values())
    console.print(f"{name}: {total:,} of {kinds} kinds" if total else f"{name}: none")
    table = Table(box=None, show_header=False, pad_edge=True)
    for kind, count in list(counts.items())[:CLASSES]:
        table.add_row("", kind, f"{count:,}", f"{count / total:.1%}", "█" * round(20 * count / total))
    if total:
        console.print(table)
    if len(counts) > CLASSES:
        console.print(f"  and {len(counts) - CLASSES} more")
    if total and without:
        console.print(f"  without any: {without:,} documents")

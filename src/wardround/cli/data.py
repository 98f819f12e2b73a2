"""`wardround data check`, `convert` and `split`: a user's own files.

Exit codes: 0 all is well, 1 something would be lost, 2 the command or the input is wrong. Note text is printed only
with `--show-text`.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.console import Console
from rich.table import Table

from wardround.cli.options import fail, in_options, literal, one_of, reading, refusals
from wardround.formats.check import TASKS, Finding, Survey, check
from wardround.formats.convert import By, convert, split
from wardround.formats.kinds import KINDS
from wardround.formats.options import Options
from wardround.formats.recognise import FORMATS, TARGETS
from wardround.text.shown import NOT_SHOWN

__all__ = ["data"]

data = typer.Typer(help="Your own files: check, convert and split.", no_args_is_help=True)

PLACES = 20  # of one kind that are printed; --json has them all
CLASSES = 30


@data.command("check")
@reading
def check_command(
    path: Annotated[Path, typer.Argument(help="A file or a folder.")],
    task: Annotated[str, typer.Option(help=f"Check for a task: {', '.join(TASKS)}.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    *,
    options: Options,
    form: str,
) -> None:
    """Tell what is in a file or folder, and every problem; nothing is changed."""
    one_of(task, TASKS, "--task")
    survey = check(path, options, task=task or None, form=form)  # type: ignore[arg-type]  # looked at above
    if as_json:
        print(json.dumps(_plain(survey), ensure_ascii=False, indent=2))  # noqa: T201 -- for a pipe
    else:
        _tell(survey)
    if survey.unreadable or not survey.documents:
        raise SystemExit(2)
    raise SystemExit(1 if survey.findings.lost else 0)


@data.command("convert")
@reading
def convert_command(
    source: Annotated[Path, typer.Argument(help="A file or a folder.")],
    target: Annotated[Path, typer.Argument(help="A new file; for brat a new folder.")],
    to: Annotated[str, typer.Option(help=f"The new format: {', '.join(TARGETS)}.")],
    lossy: Annotated[bool, typer.Option("--lossy", help="Write what the format can hold, without the rest.")] = False,
    *,
    options: Options,
    form: str,
) -> None:
    """Write a file or folder in another format; what it cannot hold is listed, and refused without --lossy."""
    if to == "omop":
        fail("--to omop: a NOTE row needs a person and a date, which documents do not have; use csv")
    one_of(to or "?", TARGETS, "--to")
    with refusals(target):
        done = convert(source, target, to, options, form=form, lossy=lossy)
    errors = literal(stderr=True)
    _list(errors, done.findings, done.sizes)
    for kind, count in done.losses.counts.items():
        errors.print(f"{to} has no place for: {kind}: {count:,} ({', '.join(done.losses.places[kind])})")
    if not done.written:
        errors.print("nothing was written; --lossy writes the rest, --to jsonl holds everything that was read")
        raise SystemExit(1)
    literal().print(f"documents in {target}: {done.documents:,}")


@data.command("split")
@reading
def split_command(
    source: Annotated[Path, typer.Argument(help="A file or a folder.")],
    folder: Annotated[Path, typer.Argument(help="A new folder, for train.jsonl and test.jsonl.")],
    test: Annotated[float, typer.Option(help="The share that is set aside for testing.")] = 0.2,
    by: Annotated[str, typer.Option(help="text, or source: all documents of a source on one side.")] = "text",
    seed: Annotated[int, typer.Option(min=0, help="Another seed draws other documents.")] = 0,
    lossy: Annotated[bool, typer.Option("--lossy", help="Go on without what cannot be read.")] = False,
    *,
    options: Options,
    form: str,
) -> None:
    """Set documents aside for testing; equal texts are never on both sides."""
    one_of(by or "?", get_args(By), "--by")
    if not 0 < test < 1:
        fail(f"--test {test}: a share between 0 and 1, such as 0.2")
    with refusals(folder):
        done, counts = split(source, folder, test, by, seed, options, form=form, lossy=lossy)  # type: ignore[arg-type]  # looked at above
    _list(literal(stderr=True), done.findings, done.sizes)
    if not done.written:
        fail("nothing was written; mend what is listed above, or go on without it with --lossy", 1)
    told = ", ".join(f"{side}.jsonl {count:,}" for side, count in counts.items())
    literal().print(f"documents in {folder}: {told}")


def _plain(survey: Survey) -> dict[str, Any]:
    findings = survey.findings
    listed = [{**asdict(one), "remedy": in_options(one.remedy)} for one in findings.listed]
    counts = {**survey.counts(), "unreadable": in_options(survey.unreadable)}
    return {**counts, "lost": findings.lost, "problems": listed, "problems_not_listed": findings.total - len(listed)}


def _tell(survey: Survey) -> None:
    console, counts = literal(), survey.counts()
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
    if any(NOT_SHOWN in counts[name] for name in KINDS):
        console.print(f"{NOT_SHOWN}: what occurs once or is long might be of a note; --show-text shows it")
    _list(console, survey.findings.listed, survey.findings.sizes)
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


def _list(console: Console, findings: Iterable[Finding], sizes: Mapping[tuple[str, str], int]) -> None:
    """Problems in the order they were met; those that only differ by their place and numbers together."""
    groups: defaultdict[tuple[str, str], list[Finding]] = defaultdict(list)
    for one in findings:
        groups[one.group].append(one)
    for group, listed in groups.items():
        first, size = listed[0], sizes[group]
        end = f" — {in_options(first.remedy)}" if first.remedy else ""
        places = [one.file if one.line is None else f"{one.file}:{one.line}" for one in listed]
        if size == 1:
            console.print(f"{places[0]}: {first.what}{end}")
            continue
        varied = " (the first of them)" if len({(one.what, one.remedy) for one in listed}) > 1 else ""
        more = f" and {size - PLACES:,} more (--json lists them)" if size > PLACES else ""
        console.print(f"{first.what}{varied}: {size:,}{end}\n  at {', '.join(places[:PLACES])}{more}")

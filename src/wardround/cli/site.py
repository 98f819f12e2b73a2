"""A hospital's commands: make keys, join, check everything, see and approve what would leave; read the ledger.

wardround site init hospital                   makes its keys, hospital/site.toml, and a request for the coordinator
wardround site join hospital/ KIT.zip          takes the kit that the coordinator made of it
wardround site init KIT.zip hospital/          both at once, from a ready-made kit: for rehearsals
wardround site check hospital/ --study S.toml  what is wrong, and what would leave
wardround site approve hospital/ S.toml        take part in this study, and in no other
wardround site start hospital/                 joins and stays
wardround site model hospital/ S.toml …       what it kept and the shared model, as one
wardround ledger show hospital/                what left, by day
wardround ledger verify FILE --against OTHER   that nobody changed it
"""

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from wardround.cli.model import tell_assembled
from wardround.cli.options import refusals
from wardround.consortium.budget import budgets
from wardround.consortium.house_ledger import compared, proven, summed
from wardround.layers.ledger import LedgerError, verify
from wardround.runs.errors import RunError
from wardround.study.load import Study, load_study
from wardround.study.settings import StudyError
from wardround.trained.about import model_folder, read_about
from wardround.trained.assemble import assembled, shared_weights

__all__ = ["ledger", "site"]

site = typer.Typer(help="A hospital's own commands.", no_args_is_help=True)
ledger = typer.Typer(help="What crossed the wire.", no_args_is_help=True)
console = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)

Folder = Annotated[Path, typer.Argument(help="The site's folder.", metavar="SITE")]


@site.command("init")
def init_command(
    what: Annotated[
        Path, typer.Argument(help="The site's name; or a ready-made kit with keys in it.", metavar="NAME|KIT.zip")
    ],
    folder: Annotated[Path | None, typer.Argument(help="For a kit: a new folder; default: the site's name.")] = None,
) -> None:
    """Make a site's keys, its site.toml and a request to the coordinator; or take all of it from a ready-made kit."""
    from wardround.consortium.kits import init_site, new_site  # noqa: PLC0415 -- an extra

    if what.suffix == ".zip" or what.is_file():
        place = folder or Path(what.stem)
        name = init_site(what, place)
        console.print(f"{place / 'site.toml'}: say there where the notes of {name} are, then: wardround site check "
                      f"{place}")  # fmt: skip
        return
    if folder is not None:
        raise RunError(f"{what} is no kit; give one name, which is the new folder's, too: wardround site init {folder}")
    request, path = new_site(what)
    console.print(f"{path}: send it to the coordinator; it holds no secret, the keys stay here")
    console.print(f"read this out to the coordinator over the phone: {request.fingerprint}")
    console.print(f"with the kit that comes back: wardround site join {what} {request.name}.zip")
    console.print(f"{what / 'site.toml'}: say there where the notes of {request.name} are")


@site.command("join")
def join_command(
    folder: Folder,
    kit: Annotated[Path, typer.Argument(help="The file that the coordinator sent.", metavar="KIT.zip")],
    fingerprint: Annotated[str, typer.Option(help="What the coordinator read out to you.")] = "",
) -> None:
    """Take the kit that the coordinator made for this site's keys, the first or a renewed one."""
    from wardround.consortium.kit_check import lasting  # noqa: PLC0415 -- an extra
    from wardround.consortium.kits import join  # noqa: PLC0415

    taken = join(folder, kit, fingerprint)
    about, until = taken.about, lasting(folder / "kit" / "startup")
    console.print(f"{about.site} is in the consortium {about.name} at {about.host}:{about.port}, {until}")
    console.print(f"compare with what the coordinator reads out over the phone: {taken.fingerprint}")
    console.print(f"then: wardround site check {folder}; a site that is running takes the kit up by itself")


@site.command("check")
def check_command(
    folder: Folder = Path(),
    study: Annotated[Path | None, typer.Option(help="Check against this study, too.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not knock at the coordinator's address.")] = False,
) -> None:
    """Test everything that can be wrong, and print what a study would make leave this site."""
    from wardround.cli.approve import show_leaving  # noqa: PLC0415 -- slow
    from wardround.consortium.check import checked  # noqa: PLC0415

    told = _study(folder, study) if study else None
    bad = 0
    for finding in checked(folder, told, online=not offline):
        console.print(f"{finding.mark} {finding.what}: {finding.said}")
        bad += not finding.good
    if bad:
        raise RunError(f"{bad} thing{'s' * (bad > 1)} to put right")
    if told is not None:
        show_leaving(folder, told)


@site.command("approve")
def approve_command(
    folder: Folder,
    study: Annotated[Path, typer.Argument(help="The study file that the coordinator sent.")],
    yes: Annotated[bool, typer.Option("--yes", help="Yes to what is questioned about labels.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Add another budget to one given before.")] = False,
    exchanges: Annotated[
        int | None,
        typer.Option(min=1, help="How many replies may leave in all; default: what one run is expected to take."),
    ] = None,
    restarts: Annotated[
        int | None,
        typer.Option(min=0, help="How often an answered round may be asked for again with another state; default: 1."),
    ] = None,
) -> None:
    """Take part in a study: this one, with exactly these settings, on the data as they are, for one budget."""
    from wardround.cli.approve import ask, show_leaving, tell_approved  # noqa: PLC0415 -- slow
    from wardround.consortium.approval import read_approval  # noqa: PLC0415
    from wardround.consortium.approving import RESTARTS, approve  # noqa: PLC0415
    from wardround.consortium.check import checked  # noqa: PLC0415
    from wardround.consortium.deployed import study_hash  # noqa: PLC0415

    told = _study(folder, study)
    findings = list(checked(folder, told, online=False))
    problems = [f"{found.what}: {found.said}" for found in findings if not found.good]
    if problems:
        raise RunError("\n".join(["not approved:", *problems]))
    show_leaving(folder, told)
    ask([f"{found.mark} {found.what}: {found.said}" for found in findings if found.asks], yes=yes)
    before = read_approval(folder, study_hash(told))
    if before and not again and (exchanges is not None or restarts is not None):
        raise RunError(f"{told.name} was approved before; to add to what it may spend, say --again")
    mark = approve(folder, told, again=again, exchanges=exchanges, restarts=RESTARTS if restarts is None else restarts)
    tell_approved(folder, told, mark, before, again=again)


@site.command("trust-module")
def trust_command(
    folder: Folder, file: Annotated[Path, typer.Argument(help="A Python file beside site.toml.", metavar="FILE.py")]
) -> None:
    """Let a Python file of this site's own run here, as it is now: read it first."""
    from wardround.consortium.trust import trust_module  # noqa: PLC0415 -- slow

    line = trust_module(folder, file)
    console.print(f"{folder / 'site.toml'} now says under [modules]: {line}")


@site.command("start")
def start_command(folder: Folder = Path()) -> None:
    """Join the consortium, and stay."""
    from wardround.consortium.check import checked  # noqa: PLC0415 -- slow
    from wardround.consortium.kit_check import ends_soon  # noqa: PLC0415
    from wardround.consortium.kits import needs_flare  # noqa: PLC0415
    from wardround.consortium.settings import read_site  # noqa: PLC0415

    needs_flare()
    name = read_site(folder).name
    problems = [f"{found.what}: {found.said}" for found in checked(folder, None) if not found.good]
    if problems:
        raise RunError("\n".join(problems))
    if warning := ends_soon(folder / "kit" / "startup"):
        console.print(warning)
    module = "wardround.consortium.site_start"
    os.execv(sys.executable, [sys.executable, "-P", "-m", module, str(folder), name])  # noqa: S606


@site.command("model")
def model_command(
    folder: Folder,
    study: Annotated[Path, typer.Argument(help="The study file that was approved here.")],
    out: Annotated[Path, typer.Option(help="A new folder.")],
    shared: Annotated[
        Path | None, typer.Option(help="The shared model, as the coordinator sent it; not with the method local.")
    ] = None,
    run: Annotated[str, typer.Option(help="Which run, if not the newest.")] = "",
) -> None:
    """Put this site's own model together: what it kept for itself, and the shared model."""
    from wardround.consortium.kept import kept_run  # noqa: PLC0415 -- an extra

    told = _study(folder, study)
    if told.method.shares and shared is None:
        raise RunError("name the shared model, as the coordinator sent it: --shared MODEL")
    rounds = read_about(model_folder(shared)).rounds if shared else None
    built, exchange = kept_run(folder, told, rounds, run)
    weights = shared_weights(built, shared) if shared else built.weights
    name = built.sites.names[0]
    with refusals(out):
        assembled(built, name, exchange, weights, out)
    tell_assembled(name, out)


def _study(folder: Path, path: Path) -> Study:
    """The study as this site reads it: files that it names are looked for in its folder, and no code comes with it."""
    from wardround.consortium.settings import read_site  # noqa: PLC0415 -- slow

    found = load_study(path, beside=folder, trusted=read_site(folder).trusted)
    if len(found) > 1:
        raise StudyError(str(path), [f"is a grid of {len(found)} runs; ask the coordinator for one study at a time"])
    return found[0].study


@ledger.command("show")
def show_command(
    path: Annotated[Path, typer.Argument(help="A site's folder, or a ledger file.", metavar="SITE|FILE")],
) -> None:
    """Show what left, by day, study and message; and of each approval, its runs and what is left."""
    table = Table("day", "study", "message", "times", "bytes", "reveals", box=None)
    for (day, study, kind), sent in summed(_ledger(path)).items():
        words = "; ".join(f"{name}: {what}" for name, what in sent.reveals.items())
        table.add_row(day, study, kind, f"{sent.times:,}", f"{sent.bytes:,}", words)
    wide = Console(width=200, markup=False, highlight=False)
    wide.print(table)
    if (path / "approved").is_dir():
        show_budgets(path, wide)


def show_budgets(folder: Path, wide: Console) -> None:
    """Print what each approval of a site was spent on, and what is left of it."""
    table = Table("study", "runs", "rounds", "exchanges", "restarts", "left", box=None)
    for budget in budgets(folder):
        spent, approval = budget.spent, budget.approval
        used = [len(spent.runs), spent.rounds, spent.exchanges, spent.restarts]
        if approval is None:
            table.add_row(budget.name, *map(str, used), "nothing: taken back")
            continue
        most = ["", f" of {approval.rounds}", f" of {approval.exchanges}", f" of {approval.restarts}"]
        left = f"{max(approval.exchanges - spent.exchanges, 0)} exchanges"
        table.add_row(budget.name, *(f"{number}{of}" for number, of in zip(used, most, strict=True)), left)
    if table.row_count:
        wide.print()
        wide.print(table)


@ledger.command("verify")
def verify_command(
    path: Annotated[Path, typer.Argument(help="A site's folder, or a ledger file.", metavar="SITE|FILE")],
    against: Annotated[Path | None, typer.Option(help="The other side's ledger: a cut tail shows only there.")] = None,
) -> None:
    """Verify that no line was changed, put in or taken out."""
    file = _ledger(path)
    try:
        console.print(f"{file}: {verify(file):,} lines, the chain is intact")
        kit = path / "kit" / "site.json"
        if kit.is_file():
            count = proven(file, str(json.loads(kit.read_text(encoding="utf-8"))["ask_key"]))
            console.print(f"the coordinator has signed each of the {count:,} messages that were answered")
        if against is not None:
            other = _ledger(against)
            console.print(f"{other} has noted the head of it {compared(file, other):,} times, and each is there")
    except LedgerError as error:
        raise RunError(str(error)) from None


def _ledger(path: Path) -> Path:
    places = (path, path / "ledger" / "site.jsonl", path / "ledger" / "coordinator.jsonl")
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise RunError(f"{path}: there is no ledger; name a site's folder, a run folder or a file")
    return found

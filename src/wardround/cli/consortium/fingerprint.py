"""What several of a coordinator's commands do: look for the extra and the consortium, and print what to compare."""

import sys
from pathlib import Path

import typer

from wardround.cli.options import console
from wardround.consortium.admission import fingerprint_of
from wardround.consortium.forms import read_charter
from wardround.consortium.kits import needs_flare
from wardround.consortium.people import is_person
from wardround.engines.certificates import same_fingerprint
from wardround.runs.errors import RunError


def standing(folder: Path) -> None:
    """Refuse where NVFlare is not installed, where no consortium is, and who is elsewhere, whatever their role."""
    if is_person(folder):
        raise RunError(
            f"{folder} is a person's folder, and this takes the root key, which no person's certificate stands for: "
            "whoever has the coordinator's own account does it there, with the consortium's folder in place of this one"
        )
    needs_flare()
    read_charter(folder)


def show_fingerprint(folder: Path) -> None:
    """What hospitals compare over the phone."""
    console.print(f"the coordinator's fingerprint, for hospitals to compare: {fingerprint_of(folder)}")


def show_kit(name: str, kit: Path) -> None:
    """What to do with a kit for keys that its site has."""
    console.print(f"{kit}: send it to {name}, for: wardround site join {name} {kit.name}; it holds no secret")


def show_ready_made(kits: list[Path]) -> None:
    """What to do with kits that have keys in them."""
    for kit in kits:
        console.print(
            f"{kit}: holds the site's private keys; for rehearsals; send it to {kit.stem} and to nobody else, then "
            f"delete it"
        )
    if kits:
        console.print("for patients' notes keys are made at the hospital: wardround site init, consortium admit")


def compared(request: Path, fingerprint: str, given: str, who: str) -> None:
    """Go on only if whoever made a request reads out its fingerprint."""
    if not given and not sys.stdin.isatty():
        raise RunError(f"compare it with what {who} reads out to you, then give it with --fingerprint")
    if not given and not typer.confirm(f"Does {who} read out the same?"):
        raise RunError("not admitted; nothing was written")
    if given and not same_fingerprint(given, fingerprint):
        raise RunError(
            f"{request} has the fingerprint {fingerprint}, not {given}; it is not what {who} made: nothing was written"
        )

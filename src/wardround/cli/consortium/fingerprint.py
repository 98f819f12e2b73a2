"""What several of a coordinator's commands do: look for the extra and the consortium, and print what to compare."""

from pathlib import Path

from wardround.cli.options import console
from wardround.consortium.admission import fingerprint_of
from wardround.consortium.forms import read_charter
from wardround.consortium.kits import needs_flare


def standing(folder: Path) -> None:
    """Refuse where NVFlare is not installed, or no consortium is."""
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

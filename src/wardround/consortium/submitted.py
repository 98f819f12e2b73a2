"""The runs that were submitted to a consortium, the newest last: `CONSORTIUM/runs.json`.

    note_run(north, Path("runs/mentions"), "mentions")
    submitted(north)                          # {"/…/runs/mentions": "mentions"}
    pending(north, ["charite"])               # the runs whose model it is still to get

A run may go on for weeks, and its coordinator be started again meanwhile: who asks for its status still hears of it.
No torch here.
"""

from collections.abc import Iterable
from pathlib import Path

from pydantic import RootModel, ValidationError

from wardround.core.files import write
from wardround.core.lock import sole
from wardround.runs.errors import RunError
from wardround.runs.files import DELIVERED

FILE = "runs.json"
ORDERED = "runs"  # where runs lie that people have submitted from other machines, each in a folder of its author's
MOST = 50  # that are remembered
RESTORED = "refused: it was put back from a copy"  # and may lack what it was brought since
FULL = "failed: it has no room left on its disk"
LATER = ("late", "lost", RESTORED, FULL)  # what becomes of a delivery that is tried again
_Runs = RootModel[dict[str, str]]


def submitted(folder: Path) -> dict[str, str]:
    """The folders of runs, and the names of their studies; a file that cannot be read tells of none."""
    try:
        return _Runs.model_validate_json((folder / FILE).read_bytes()).root
    except (OSError, ValidationError):
        return {}


def called(folder: Path, run: Path) -> str:
    """How people name a run: its author's and its own name; one that was submitted here has its own alone."""
    ours = run.parent.parent == (folder / ORDERED).resolve()
    return f"{run.parent.name}/{run.name}" if ours else run.name


def note_run(folder: Path, out: Path, title: str) -> None:
    """Add a run, or make it the newest again."""
    with sole(folder / ".runs", seconds=-1):
        runs, place = submitted(folder), str(out.resolve())
        runs.pop(place, None)
        newest = list({**runs, place: title}.items())[-MOST:]
        write(folder / FILE, (_Runs(dict(newest)).model_dump_json(indent=1) + "\n").encode())


def pending(folder: Path, there: Iterable[str]) -> list[tuple[Path, list[str]]]:
    """The runs of a consortium whose model some of these sites are still to get."""
    unfinished = []
    for place in map(Path, submitted(folder)):
        try:
            known = DELIVERED.read(place)
        except RunError:
            continue
        sites = known.sites if known else {}
        if names := [name for name in there if sites.get(name, "").startswith(LATER)]:
            unfinished.append((place, names))
    return unfinished

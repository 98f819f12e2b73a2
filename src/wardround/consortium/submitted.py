"""The runs that were submitted to a consortium, the newest last: `CONSORTIUM/runs.json`.

    note_run(north, Path("runs/mentions"), "mentions")
    submitted(north)                          # {"/…/runs/mentions": "mentions"}

A run may go on for weeks, and its coordinator be started again meanwhile: who asks for its status still hears of it.
No torch here.
"""

from pathlib import Path

from pydantic import RootModel, ValidationError

from wardround.core.files import write
from wardround.core.lock import sole

FILE = "runs.json"
MOST = 50  # that are remembered
_Runs = RootModel[dict[str, str]]


def submitted(folder: Path) -> dict[str, str]:
    """The folders of runs, and the names of their studies; a file that cannot be read tells of none."""
    try:
        return _Runs.model_validate_json((folder / FILE).read_bytes()).root
    except (OSError, ValidationError):
        return {}


def note_run(folder: Path, out: Path, title: str) -> None:
    """Add a run, or make it the newest again."""
    with sole(folder / ".runs", seconds=-1):
        runs, place = submitted(folder), str(out.resolve())
        runs.pop(place, None)
        newest = list({**runs, place: title}.items())[-MOST:]
        write(folder / FILE, (_Runs(dict(newest)).model_dump_json(indent=1) + "\n").encode())

"""`wardround.run`: a study from Python or a notebook, with the command line's progress and run folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wardround.cli.progress import Single
from wardround.runs.folder import Result
from wardround.runs.loop import run as run_rounds
from wardround.study.load import Cell, cells, load_study
from wardround.study.settings import StudyError

__all__ = ["run"]


def run(
    study: str | Path | Mapping[str, Any],
    out: str | Path | None = None,
    *,
    workers: int = 1,
    resume: bool = False,
    quiet: bool = False,
    report: bool = True,
) -> Result:
    """Run a study (a TOML file, or its tables as a dict) and return how it ended.

    The run folder is `out`, or runs/NAME; `resume` goes on where a stopped run left off. A study with a grid or several
    seeds is for the command line, which runs cells side by side.
    """
    chosen = _only(study)
    folder = Path(out) if out else Path("runs") / chosen.study.name
    with Single(chosen.study, quiet=quiet) as progress:
        result = run_rounds(chosen.study, folder, workers=workers, resume=resume, progress=progress.line)
    if report:
        from wardround.reports.page import write_report  # noqa: PLC0415 -- scipy takes a second

        write_report([folder], folder / "report.html")
    return result


def _only(study: str | Path | Mapping[str, Any]) -> Cell:
    listed = cells(study, folder=Path.cwd()) if isinstance(study, Mapping) else load_study(Path(study))
    if len(listed) > 1:
        where = "study" if isinstance(study, Mapping) else str(study)
        many = f"{len(listed)} cells in its grid; run it with the command line, which runs them side by side"
        raise StudyError(where, [many])
    return listed[0]

"""What a real site has kept of a run, for a look at it afterwards: nothing is sent, and nothing is changed."""

import json
from pathlib import Path

from wardround.consortium.deployed import study_hash
from wardround.consortium.settings import read_site
from wardround.core.exchange import EVALUATION, Exchange
from wardround.runs.build import Built, build_at_site
from wardround.runs.errors import RunError
from wardround.study.load import Study


def kept_run(folder: Path, study: Study, rounds: int | None = None, run: str = "") -> tuple[Built, Exchange]:
    """The study as this site has it, with its memory of the newest run, and the exchange after so many rounds."""
    settings = read_site(folder)
    place = folder / "memory" / study_hash(study)[:16]
    runs = sorted(place.glob(f"{run or '*'}/last.json"), key=lambda path: path.stat().st_mtime)
    if not runs:
        known = ", ".join(sorted(path.name for path in place.glob("*/"))) if run else ""
        remedy = f"; there are: {known}" if known else "; is this the study file that was approved here?"
        raise RunError(f"{place}: the site has kept nothing of {run or 'any run of this study'}{remedy}")
    newest = json.loads(runs[-1].read_text(encoding="utf-8"))
    built = build_at_site(study, runs[-1].parent, [settings.name], settings.parts(study))
    last = newest["last"][1] if rounds is None else rounds
    return built, Exchange("evaluate", last, EVALUATION, 0, study.seed, tuple(newest.get("resumed", ())))

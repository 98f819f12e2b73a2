"""Ten thousand sites on one machine: opened in turn, remembered on disk, in the memory that a hundred take."""

import json
import subprocess
import sys
from pathlib import Path

from study_files import TIMEOUT, small_study
from wardround.runs.build import drawn
from wardround.study.load import load_study

FLAT = 48 << 20
"""By how many bytes a run of 10,000 sites may exceed one of 100. Measured: 23 MB of 283, mostly names and ledgers;
one evaluation's replies held back would add 60 MB, the sites' data 80 MB."""

MEASURED = """
import json, resource, sys
from pathlib import Path
from wardround.corpora.synthetic import Synthetic
from wardround.runs.loop import run
from wardround.study.load import load_study

opened, real = [], Synthetic.open
def open_and_tell(self, name):
    opened.append(name)
    return real(self, name)
Synthetic.open = open_and_tell

run(load_study(Path(sys.argv[1]))[0].study, Path(sys.argv[2]))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"peak": peak, "opened": opened}))
"""


def measured(folder: Path, sites: int) -> tuple[int, list[str]]:
    path = small_study(
        folder,
        f"{sites}.toml",
        corpus={"sites": sites, "features": 20, "classes": 150, "largest": 10, "iid": True},
        method={"name": "scaffold", "batch": 0},
        sites={"per_round": 60},
        evaluation={"every": 3},
    )
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path), str(folder / str(sites))],
        capture_output=True, text=True, timeout=TIMEOUT, check=True,
    )  # fmt: skip
    told = json.loads(done.stdout)
    return told["peak"], told["opened"]


def test_ten_thousand_sites_take_the_memory_of_a_hundred_and_each_is_opened_in_its_turn(tmp_path: Path) -> None:
    few, _ = measured(tmp_path, 100)
    many, opened = measured(tmp_path, 10_000)
    assert many < few + FLAT, f"{few:,} and {many:,} bytes"

    study = load_study(tmp_path / "10000.toml")[0].study
    names = tuple(study.corpus.names())
    trained = [name for round_ in (1, 2, 3) for name in drawn(study, names, round_)]
    # The first, to see what there is; the cohorts of three rounds; all sites for the one evaluation, but those at hand.
    assert list(dict.fromkeys([names[0], *trained, *names])) == list(dict.fromkeys(opened))
    assert len(opened) <= 1 + len(trained) + len(names)
    assert set(trained) == {folder.name for folder in (tmp_path / "10000" / "memory").iterdir()}

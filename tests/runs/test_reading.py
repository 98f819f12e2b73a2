"""A corpus is read or generated once per run, whatever the number of workers."""

import json
from pathlib import Path

import pytest

from study_files import cli, result_of, small_study, write_module
from wardround.runs.build import build
from wardround.study.load import cells
from wardround.study.settings import StudyError

NOTED = """
import os
from dataclasses import dataclass
from pathlib import Path
from wardround.corpora.synthetic import Synthetic

@dataclass(frozen=True, kw_only=True)
class Noted(Synthetic):
    "Notes down who opens which site."
    def open(self, name):
        with (Path(__file__).parent / "opened").open("a") as file:
            file.write(f"{os.getpid()} {name}\\n")
        return super().open(name)
"""


def test_each_site_is_opened_once_and_workers_share_it(tmp_path: Path) -> None:
    write_module(tmp_path, NOTED)
    corpus = {"name": "mine:Noted", "sites": 4, "largest": 40}
    path = small_study(tmp_path, corpus=corpus, rounds=2)
    results = []
    for workers in (1, 2):
        (tmp_path / "opened").unlink(missing_ok=True)
        ended = cli("run", path, "--out", str(workers), "--quiet", "--workers", workers, cwd=tmp_path)
        assert 0 == ended.code, ended.err
        lines = [line.split() for line in (tmp_path / "opened").read_text(encoding="utf-8").splitlines()]
        assert 4 == len({site for _, site in lines}) == len(lines)
        assert 1 == len({process for process, _ in lines})
        results.append(result_of(tmp_path / str(workers)))
    assert results[0] == results[1]


@pytest.mark.parametrize("fraction", [None, 0.2])
def test_a_public_share_opens_no_site_twice(fraction: float | None, tmp_path: Path) -> None:
    write_module(tmp_path, NOTED)
    corpus = {"name": "mine:Noted", "sites": 4, "largest": 40}
    path = small_study(tmp_path, corpus=corpus, rounds=1, public={"fraction": fraction} if fraction else None)
    assert 0 == cli("run", path, "--out", "run", "--quiet", cwd=tmp_path).code
    sites = [line.split()[1] for line in (tmp_path / "opened").read_text(encoding="utf-8").splitlines()]
    assert sorted(set(sites)) == sorted(sites)
    assert 1 == json.loads((tmp_path / "run" / "metrics.json").read_text(encoding="utf-8"))["rounds"]


def test_the_cells_of_a_grid_share_a_corpus_that_is_read_once(tmp_path: Path) -> None:
    write_module(tmp_path, NOTED)
    corpus = {"name": "mine:Noted", "sites": 4, "largest": 40}
    grid = {"method": [{"name": "fedavg"}, {"name": "scaffold"}, {"name": "centralised"}]}
    path = small_study(tmp_path, corpus=corpus, rounds=1, seeds=[1, 2], grid=grid)
    ended = cli("run", path, "--out", "grid", "--quiet", "--workers", 2, cwd=tmp_path)
    assert (0, "") == (ended.code, ended.err)
    lines = [line.split() for line in (tmp_path / "opened").read_text(encoding="utf-8").splitlines()]
    assert 2 * 4 == len(lines)  # a seed makes other sites
    assert 1 == len({process for process, _ in lines})
    assert 6 == len(list((tmp_path / "grid").glob("*/metrics.json")))


@pytest.mark.parametrize(
    ("train", "test", "expected"),
    [
        (["?!", "..", "!?", ".!"], ["??"], "no text has a letter or a digit; name the column that holds them"),
        (["rash", "cough", "itch", "fever"], [], "no site has an example to test on; name files that hold some"),
    ],
)
def test_what_would_be_learnt_or_tested_by_nothing_is_refused(
    train: list[str], test: list[str], expected: str, tmp_path: Path
) -> None:
    for name, texts in (("train", train), ("test", test)):
        rows = (f"{text},{'ab'[at % 2]}\n" for at, text in enumerate(texts))
        (tmp_path / f"{name}.csv").write_text("text,label\n" + "".join(rows), encoding="utf-8")
    study = {
        "name": "nothing", "rounds": 1, "corpus": {"format": "csv", "train": "train.csv", "test": "test.csv"},
        "task": {"name": "classification"}, "method": {"name": "fedavg"},
    }  # fmt: skip
    with pytest.raises(StudyError, match=expected):
        build(cells(study, where="nothing", folder=tmp_path)[0].study, tmp_path / "run")

"""A study can name a user's own task and corpus, as it can a method; workers build them too."""

from pathlib import Path

import pytest

from study_files import small_study, write_module
from wardround.runs.loop import run
from wardround.study.load import load_study
from wardround.study.settings import StudyError

SOURCE = """
from dataclasses import dataclass

from wardround.corpora.synthetic import Synthetic
from wardround.tasks.features import Features

@dataclass(frozen=True, kw_only=True)
class Mine(Synthetic):
    sites: int = 4

@dataclass(frozen=True, kw_only=True)
class Rows(Features):
    '''The same by another name.'''

class Nothing:
    pass

def function():
    pass
"""


def test_an_own_corpus_and_task_run_like_ours_with_any_number_of_workers(tmp_path: Path) -> None:
    write_module(tmp_path, SOURCE, "own")
    corpus = {"name": "own:Mine", "features": 4, "classes": 3, "largest": 20, "seed": 3}
    own = load_study(small_study(tmp_path, corpus=corpus, task={"name": "own:Rows"}))[0].study
    ours = load_study(small_study(tmp_path, corpus={**corpus, "name": "synthetic", "sites": 4}))[0].study
    results = []
    for number, (study, workers) in enumerate([(ours, 1), (own, 1), (own, 2)]):
        run(study, tmp_path / str(number), workers=workers)
        results.append((tmp_path / str(number) / "model" / "weights.safetensors").read_bytes())
    assert [results[0]] * 3 == results


def test_an_own_corpus_gets_the_studys_seed_unless_it_has_one(tmp_path: Path) -> None:
    write_module(tmp_path, SOURCE, "own")
    path = small_study(tmp_path, corpus={"name": "own:Mine"})
    assert 7 == load_study(path)[0].study.corpus.seed
    assert 5 == load_study(path, ["corpus.seed=5"])[0].study.corpus.seed


@pytest.mark.parametrize(
    ("section", "name", "message"),
    [
        ("task", "own:Nothing", "task.name = 'own:Nothing' is not a task: a dataclass with bind(corpus)"),
        ("task", "own:Mine", "task.name = 'own:Mine' is not a task"),
        ("task", "nowhere:Mine", "task.name = 'nowhere:Mine' cannot be imported: No module named 'nowhere'"),
        ("corpus", "own:Rows", "corpus.name = 'own:Rows' is not a corpus: a dataclass with names() and open(name)"),
        ("corpus", "own:function", "corpus.name = 'own:function' is not a corpus"),
        ("corpus", "own:Absent", "corpus.name = 'own:Absent' cannot be imported"),
        ("partition", "own:Mine", "partition.name = 'own:Mine' is unknown"),
    ],
)
def test_what_is_no_task_or_corpus_is_refused_by_name(tmp_path: Path, section: str, name: str, message: str) -> None:
    write_module(tmp_path, SOURCE, "own")
    with pytest.raises(StudyError) as error:
        load_study(small_study(tmp_path, "study.toml", **{section: {"name": name}}))
    assert [True] == [message in problem for problem in error.value.problems]


def test_an_unknown_key_of_an_own_corpus_is_told_with_the_nearest(tmp_path: Path) -> None:
    write_module(tmp_path, SOURCE, "own")
    with pytest.raises(StudyError, match=r"corpus\.site is unknown; did you mean 'sites'\?"):
        load_study(small_study(tmp_path, corpus={"name": "own:Mine", "site": 3}))


def test_modules_of_one_name_beside_two_studies_are_each_their_own(tmp_path: Path) -> None:
    """As in a notebook that runs one study after the other."""
    for name in ("one", "two", "one"):
        (tmp_path / name).mkdir(exist_ok=True)
        source = f"from wardround.extend import FedAvg\nclass Mine(FedAvg):\n    place = {name!r}\n"
        (tmp_path / name / "same_name.py").write_text(source)
        path = small_study(tmp_path / name, method={"name": "same_name:Mine"})
        assert name == vars(type(load_study(path)[0].study.method))["place"]

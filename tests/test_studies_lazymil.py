"""Lazy MIL's studies run on files in the layouts of NYT10 and MIRGENE, here generated ones."""

import json
import re
import runpy
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from wardround.clinic.bags import ClinicBags
from wardround.core.exchange import Exchange
from wardround.core.method import Global
from wardround.core.weights import Weights
from wardround.methods.lazy_mil import SLOTS, Believed, Best, Call, Chosen, Listed
from wardround.runs.build import build, build_apart
from wardround.runs.loop import run
from wardround.study.load import load_study
from wardround.study.settings import StudyError
from wardround.tasks.bag_examples import BagExamples
from wardround.tasks.bags import Bags
from wardround.text.facts import BagSentence
from wardround.text.texts import Texts

FOLDER = Path(__file__).parents[1] / "studies" / "lazymil"
CHANGES = ("rounds=1", "partition.sites=3", "task.filters=4", "method.epochs=1")


def nyt10(row: Any) -> str:
    """A line as OpenNRE has it."""
    head, tail = row.entities
    ends = {
        key: {"id": f"/m/{end.id}", "name": row.text[end.start : end.end], "pos": [end.start, end.end]}
        for key, end in (("h", head), ("t", tail))
    }
    return json.dumps({"text": row.text, "relation": row.labels[0], **ends})


def mirgene(row: Any) -> str:
    """A line as MIRGENE's authors have it."""
    (first, one), (second, other) = sorted(
        ((end.start, end.end), tag) for end, tag in zip(row.entities, ("e1", "e2"), strict=True)
    )
    text = row.text
    tagged = (
        f"{text[: first[0]]}<{one}>{text[first[0] : first[1]]}</{one}>{text[first[1] : second[0]]}"
        f"<{other}>{text[second[0] : second[1]]}</{other}>{text[second[1] :]}"
    )
    said = "NONE" if row.labels[0] == "NA" else "R_MIRTAR"
    return f"{said} {row.id} 1 {'|'.join(end.id for end in row.entities)} dep:x\t{tagged}"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that a user would have, where the studies look for them."""
    words: set[str] = set()
    for folder, layout, names in (
        ("nyt10", nyt10, ("nyt10_train.txt", "nyt10_test.txt")),
        ("mirgene", mirgene, ("train/mirgene.txt", "test/mirgene.txt")),
    ):
        corpus = ClinicBags(hospitals=1, sentences=60, test_sentences=30)
        for split, name in zip(("train", "test"), names, strict=True):
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            rows = [row for row in corpus.documents(split) if isinstance(row, BagSentence)]
            path.write_text("".join(layout(row) + "\n" for row in rows), encoding="utf-8")
            words |= {word for row in rows for word in re.findall(r"\w+|[^\w\s]", row.text.lower())}
    for name, size in (("nyt10/glove.6B.50d.txt", 50), ("mirgene/vectors-200d.txt", 200)):
        (tmp_path / name).write_text("".join(f"{word}{' 0.1' * size}\n" for word in sorted(words)), encoding="utf-8")
    monkeypatch.setenv("NYT10", str(tmp_path / "nyt10"))
    monkeypatch.setenv("MIRGENE", str(tmp_path / "mirgene"))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "count"),
    [("table2", 4), ("table2-baselines", 20), ("table4", 4), ("table4-baselines", 20), ("figure5", 9)],
)
def test_a_study_of_the_paper_runs_on_a_users_files(name: str, count: int, files: Path) -> None:
    cells = load_study(FOLDER / f"{name}.toml", CHANGES[: 3 if name == "figure5" else 4])
    assert count == len(cells)
    result = run(cells[-1].study, files / "run")
    assert {"pr_auc", "loss"} <= set(result.metrics)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_every_study_is_valid(path: Path) -> None:
    cells = load_study(path)
    assert path.stem in cells[0].study.name.removeprefix("lazymil-")


def test_an_ideal_model_is_misled_where_noise_gives_the_relation_away(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["ideal.py"])
    runpy.run_path(str(FOLDER / "ideal.py"), run_name="__main__")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    chosen = {(row[0], row[1]): (float(row[4]), float(row[5])) for row in rows}
    assert chosen["0", "may_cause"][0] < 0.5 * chosen["0", "may_cause"][1]
    assert all(right == most for (background, _), (right, most) in chosen.items() if background == "1")


def cell_of(name: str) -> Any:
    """A cell of another reading of Lazy MIL, on a few generated sentences."""
    changes = ("rounds=1", "corpus.sentences=40", "corpus.test_sentences=10", "partition.sites=2", "task.filters=4")
    (cell, *_) = [one for one in load_study(FOLDER / "clinic-readings.toml", changes) if name in one.label]
    return cell.study


def test_with_na_whole_no_pair_without_a_fact_is_told_of_and_all_its_sentences_are_trained_on(tmp_path: Path) -> None:
    study = cell_of("whole")
    built = build(study, tmp_path)
    site = built.host.site(built.sites.names[0], Exchange("score", 1, 0, 0, 0))
    train = cast("BagExamples", site.data.train)
    relations, none = train.numbers.relations, int((train.numbers.relations == 0).sum())
    weights = Weights.of_model(built.task.model())
    scored = study.method.score.run(Global(weights), site)
    assert 0 not in relations[scored.rows].tolist()
    study.method.fit_chosen.run(Chosen(weights, scored.rows[:1]), site)
    assert 1 + none == site.recall(Believed).rows.numel()
    by_sums = study.method.in_sums()
    slots = by_sums.mark.run(Call(), site).slots.nonzero().flatten()
    assert {*scored.facts.remainder(SLOTS).tolist()} == {*slots.tolist()}
    assert len(scored.facts) == int(by_sums.place.run(Listed(weights, slots), site).buckets.sum())
    by_sums.fit_best.run(Best(weights, torch.zeros(len(slots), dtype=torch.int64)), site)
    assert len(scored.facts) + none == site.recall(Believed).rows.numel()


def test_one_list_for_all_platforms_is_for_simulations_alone(tmp_path: Path) -> None:
    """It trains where all sentences are in one place, and no coordinator of real sites takes it."""
    study = cell_of("SharedList")
    assert {"pr_auc", "loss"} <= set(run(study, tmp_path / "run").metrics)
    with pytest.raises(StudyError, match="pools all sites' notes; only a simulation can do that"):
        build_apart(study, tmp_path / "apart", ["north", "south"])


def test_a_platform_that_is_not_active_has_no_sentence_in_the_list() -> None:
    among = runpy.run_path(str(FOLDER / "readings.py"))["among"]
    task = Bags(buckets=64, embedding=4, filters=2)
    corpus = ClinicBags(hospitals=1, sentences=40, test_sentences=5)
    examples = task.bind(corpus).examples(Texts(tuple(corpus.documents("train"))))
    kept = torch.arange(len(examples.numbers.relations)) % 3 == 0
    heard = among(examples, kept)
    rows, bag = heard.bags.take(torch.arange(len(heard.bags)))
    assert kept.nonzero().flatten().tolist() == sorted(rows.tolist())
    whole, owner = examples.bags.take(torch.arange(len(examples.bags)))
    fact_of = dict(zip(whole.tolist(), examples.facts[owner].tolist(), strict=True))
    assert [fact_of[row] for row in rows.tolist()] == heard.facts[bag].tolist()

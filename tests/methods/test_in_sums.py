"""Whom FedCMC and Lazy MIL choose where only sums are seen: whom they would choose with everything before them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import oracle
from double import DoubleFeatures
from methods.test_lazy_mil import SMALL, platforms, sentence_of
from quadratic import LANDS, Trial, weights
from study_files import small_study, write_module
from wardround.core.method import Method
from wardround.core.site import HUB
from wardround.core.weights import Weights
from wardround.methods.buckets import bucket, highest, lowest, one_hot, proper
from wardround.methods.fedcmc import FedCMC, Led, OwnVectors, Ranks, similarity
from wardround.methods.lazy_mil import LazyMIL, Marks, OwnScores, Sureness
from wardround.runs.loop import run
from wardround.runs.protocol import rehearsal
from wardround.study.load import cells, load_study
from wardround.study.settings import StudyError
from wardround.tasks.bags import BagsTask
from wardround.tasks.features import FeatureRows
from wardround.text.facts import Fact
from wardround.text.texts import Texts

SITES, CLASSES, WIDTH = 8, 4, 6
NONE: Any = None


def test_buckets_cover_everything_and_keep_the_order() -> None:
    shares = torch.tensor([0.0, 0.1, 0.24, 0.25, 0.5, 0.999, 1.0, -0.5, 1.5])
    assert [0, 0, 0, 1, 2, 3, 3, 0, 3] == bucket(shares, 4).tolist()
    rows = one_hot(torch.tensor([2, -1, 0]), 4)
    assert [[0, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]] == rows.tolist()
    assert [2, 4, 0] == lowest(rows).tolist()
    assert [2, -1, 0] == highest(rows).tolist()
    assert 0 == len(highest(one_hot(torch.empty(0, dtype=torch.int64), 4)))


@pytest.mark.parametrize("lie", [[[2, 0]], [[1, 1]], [[-1, 1]]])
def test_a_site_in_two_buckets_or_twice_in_one_contradicts_itself(lie: list[list[int]]) -> None:
    rows = torch.tensor(lie, dtype=torch.int8)
    assert proper(torch.tensor([[0, 1], [0, 0]]))
    assert not proper(rows)
    replies = [Ranks(rows), Led(torch.zeros(2, 3), torch.tensor([0, 2])), Sureness(rows), Marks(rows[0] * 2)]
    methods: list[Method[Any]] = [FedCMC(), FedCMC(), LazyMIL(), LazyMIL()]
    assert all(method.contradiction(NONE, reply) for method, reply in zip(methods, replies, strict=True))


def skewed(seed: int) -> dict[str, FeatureRows]:
    """Sites whose classes are of very different sizes."""
    rng = torch.Generator().manual_seed(seed)
    sites = {}
    for at in range(SITES):
        shares = torch.rand(CLASSES, generator=rng).pow(3) + 0.02
        labels = torch.multinomial(shares, 30, replacement=True, generator=rng)
        inputs = torch.randn(30, WIDTH, generator=rng, dtype=torch.float64)
        inputs[:, :CLASSES] += 1.5 * torch.eye(CLASSES, dtype=torch.float64)[labels]
        sites[f"s{at}"] = FeatureRows(inputs, labels)
    return sites


def contrasted(method: FedCMC, folder: Path, seed: int) -> tuple[Trial[Any], Tensor]:
    """A trial after a round, and the vectors of all sites (sites, classes, features)."""
    task = DoubleFeatures(WIDTH, CLASSES)
    rng = torch.Generator().manual_seed(seed)
    start = weights(
        {"linear.weight": torch.randn(CLASSES, WIDTH, generator=rng).tolist(), "linear.bias": [0.0] * CLASSES}
    )
    trial = Trial(method, task, skewed(seed), start, folder)
    trial.round()
    return trial, torch.stack([trial.kept(name, OwnVectors).vectors for name in trial.names])


@pytest.mark.parametrize("contrast", ["major", "minor"])
def test_fedcmc_takes_the_vectors_that_it_would_take_if_it_saw_all(contrast: Any, tmp_path: Path) -> None:
    """Ten draws: the mean of the vectors in the outermost bucket, next to always the one of the exact choice."""
    same = 0
    for seed in range(10):
        settings = {"lr": 0.3, "batch": 0, "epochs": 3, "contrast": contrast}
        exact, vectors = contrasted(FedCMC(**settings), tmp_path / f"exact-{seed}", seed)
        summed, others = contrasted(FedCMC(**settings, buckets=1024), tmp_path / f"sums-{seed}", seed)
        assert torch.equal(vectors, others)
        alike = similarity(vectors)  # (sites, classes)
        places = ((alike + 1) / 2 * 1024).floor()
        edge = places.amin(0) if contrast == "major" else places.amax(0)
        for index in range(CLASSES):
            mine = vectors[places[:, index] == edge[index], index]
            torch.testing.assert_close(mine.mean(0), summed.state.majors[index])
            same += len(mine) == 1
        unique = [index for index in range(CLASSES) if (places[:, index] == edge[index]).sum() == 1]
        assert torch.equal(exact.state.majors[unique], summed.state.majors[unique])
    assert same >= 38


def test_fedcmc_at_random_takes_whole_vectors_of_single_sites(tmp_path: Path) -> None:
    trial, vectors = contrasted(FedCMC(contrast="random", buckets=65536), tmp_path, 3)
    owners = [(vectors[:, at] - trial.state.majors[at]).abs().sum(1).argmin() for at in range(CLASSES)]
    assert torch.equal(torch.stack([vectors[owner, at] for at, owner in enumerate(owners)]), trial.state.majors)
    assert len(set(map(int, owners))) > 1


@pytest.mark.parametrize("case", oracle.params("lazy_mil"))
def test_lazy_mil_keeps_the_oracles_sentences(case: oracle.Case, tmp_path: Path) -> None:
    task, sites, keys = platforms(case)
    trial = Trial(LazyMIL(**LANDS, buckets=65536), task, sites, Weights.of_model(task.model()), tmp_path)
    trial.round()
    for name, kept in kept_rows(trial).items():
        mine = {(keys[name][row], row - keys[name].index(keys[name][row])) for row in kept}
        selected = {tuple(row) for row in case["expected"]["selected"][name.partition("-")[2]]}
        assert selected <= mine if "tie" in case["id"] else selected == mine  # who share a bucket all keep theirs


def kept_rows(trial: Trial[Any]) -> dict[str, list[int]]:
    """The sentences in the buckets that were announced last."""
    best = next(seen.message.buckets for seen in reversed(trial.seen) if seen.step == "fit_best")  # type: ignore[attr-defined]
    own = {name: trial.kept(name, OwnScores) for name in trial.names}
    return {
        name: [
            int(row) for row, place, at in zip(mine.rows, mine.places, mine.buckets, strict=True) if at >= best[place]
        ]
        for name, mine in own.items()
    }


def test_lazy_mil_with_those_who_share_a_bucket_keeps_all_and_warming_up_each_its_own(tmp_path: Path) -> None:
    task = BagsTask(SMALL, ("NA", "r1"))
    one = task.examples(Texts((sentence_of(Fact("h", "r1", "t")),)))
    start = Weights.of_model(task.model())
    trial = Trial(LazyMIL(**LANDS, buckets=256), task, {"a": one, "b": one}, start, tmp_path)
    trial.round()
    assert {"a": [0], "b": [0]} == kept_rows(trial)
    empty = {"a": task.examples(Texts(())), "b": task.examples(Texts(()))}
    assert start == Trial(LazyMIL(**LANDS, buckets=9), task, empty, start, tmp_path / "none").round().weights


def test_lazy_mil_lets_a_site_that_was_not_there_at_first_keep_what_nobody_listed(tmp_path: Path) -> None:
    task = BagsTask(SMALL, ("NA", "r1"))
    names = {"a": "h", "b": "g"}
    sites = {name: task.examples(Texts((sentence_of(Fact(head, "r1", "t")),))) for name, head in names.items()}
    start = Weights.of_model(task.model())
    trial = Trial(LazyMIL(**LANDS, buckets=9), task, sites, start, tmp_path)
    early = Trial(LazyMIL(**LANDS, buckets=9), task, {"a": sites["a"]}, start, tmp_path / "early")
    (tmp_path / HUB).rename(tmp_path / "gone")
    (tmp_path / "early" / HUB).rename(tmp_path / HUB)
    trial.round()
    assert early.rounds == 0
    assert [0] == trial.kept("a", OwnScores).places.tolist()
    assert [-1] == trial.kept("b", OwnScores).places.tolist()
    assert trial.replies["b"].change.flat.any()


def test_on_generated_sentences_nearly_every_fact_has_one_who_is_surest(tmp_path: Path) -> None:
    """As a run's journal has it; the model ends as near to the exact choice's as another order of addition."""
    tables: dict[str, Any] = {"name": "surest", "rounds": 3, **rehearsal("bags")}
    figures = {}
    for label, buckets in (("exact", {}), ("sums", {"buckets": 256})):
        study = cells({**tables, "method": {"name": "lazy-mil", "lr": 0.5, **buckets}})[0].study
        figures[label] = run(study, tmp_path / label).metrics
    noted = [line.noted["surest"]["all sites"] for line in journal(tmp_path / "sums")]
    assert all(known["shared"] <= 0.05 * known["facts"] for known in noted)
    assert figures["exact"]["loss"] == pytest.approx(figures["sums"]["loss"], rel=0.02)


def journal(out: Path) -> list[Any]:
    from wardround.runs.journal import Journal  # noqa: PLC0415 -- after the run has written it

    found = Journal(out)
    found.back_to(3)
    return list(found.lines)


SUM_ONLY = """
from dataclasses import dataclass
from wardround.extend import Layer

@dataclass(frozen=True)
class SumOnly(Layer):
    only_sums = "a test says so"
"""


@pytest.mark.parametrize(
    ("method", "changed"),
    [("fedcmc", {"buckets": 1024}), ("lazy-mil", {"buckets": 256}), ("fedner", {"ask_sizes": False}), ("fedavg", {})],
)
def test_under_a_layer_that_shows_only_sums_a_study_takes_that_form_and_says_so(
    method: str, changed: dict[str, Any], tmp_path: Path
) -> None:
    write_module(tmp_path, SUM_ONLY, "sum_only")
    given = {"method": {"name": method}, **(rehearsal("bags") if method == "lazy-mil" else {})}
    plain = load_study(small_study(tmp_path, **given))[0].study
    study = load_study(small_study(tmp_path, **given, layers=[{"name": "sum_only:SumOnly"}]))[0].study
    assert study.method == replace(plain.method, **changed)
    assert study.resolved["method"] == {**plain.resolved["method"], **changed}
    assert study.resolved == load_study(small_study(tmp_path, **study.resolved))[0].study.resolved
    assert "buckets" not in plain.resolved["method"]


def test_what_a_study_says_against_it_is_a_problem_with_its_remedy(tmp_path: Path) -> None:
    write_module(tmp_path, SUM_ONLY, "sum_only")
    given: dict[str, Any] = {"method": {"name": "fedner", "ask_sizes": True}, "layers": [{"name": "sum_only:SumOnly"}]}
    with pytest.raises(StudyError) as refused:
        load_study(small_study(tmp_path, **given))
    [problem] = refused.value.problems
    assert problem == (
        "method.ask_sizes = true lets the coordinator see each site's reply, and SumOnly shows only sums; take it out, "
        "or set it to false"
    )

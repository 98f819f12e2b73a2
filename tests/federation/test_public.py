"""Public examples: drawn from what sites would train on, or a corpus of their own; missing from every site."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from study_files import cli, small_study
from wardround.core.site import HUB
from wardround.corpora.synthetic import Rows, Synthetic
from wardround.federation.describe import describe
from wardround.federation.partition import Evenly, Partition, Public
from wardround.federation.prepared import Prepared
from wardround.federation.sites import federate, opened, pooled
from wardround.runs.build import build, build_apart
from wardround.runs.loop import run
from wardround.study.load import load_study
from wardround.study.settings import StudyError
from wardround.tasks.features import FeatureRows, FeaturesTask
from wardround.text.document import Document
from wardround.text.texts import Texts

SMALL = Synthetic(sites=5, features=4, classes=3, largest=20, seed=3)


def rows_of(raw: Any) -> set[bytes]:
    assert isinstance(raw, Rows)
    assert len(raw) == len(set(raw.marks))
    return set(raw.marks)


@pytest.mark.parametrize("partition", [None, Evenly(sites=3)], ids=["own sites", "cut anew"])
def test_a_fraction_is_drawn_by_the_seed_and_missing_from_every_site(partition: Partition | None) -> None:
    """Each training example is public or at one site; test examples stay where they were."""
    plain = federate(opened(SMALL), partition, seed=1)
    whole = set.union(*(rows_of(plain.raw(name)[0]) for name in plain.names))

    def drawn(seed: int) -> tuple[set[bytes], list[set[bytes]]]:
        sites = federate(opened(SMALL), partition, seed, Public(0.2))
        assert plain.names == sites.names
        assert sum(len(plain.raw(n)[1]) for n in plain.names) == sum(len(sites.raw(n)[1]) for n in sites.names)
        assert sites.public is not None
        return rows_of(sites.public()), [rows_of(sites.raw(name)[0]) for name in sites.names]

    public, sites = drawn(1)
    assert round(0.2 * len(whole)) == len(public)
    assert len(whole) == len(public) + sum(map(len, sites))
    assert whole == public.union(*sites)
    assert (public, sites) == drawn(1)
    assert public != drawn(2)[0]


@pytest.mark.parametrize("fraction", [0.001, 0.999])
def test_a_fraction_that_takes_none_or_all_is_refused(fraction: float) -> None:
    with pytest.raises(ValueError, match=r"takes \d+ of \d+ training examples; it should take some and leave some"):
        federate(opened(SMALL), None, 1, Public(fraction))


def test_a_corpus_of_its_own_takes_nothing_from_the_sites() -> None:
    other = Synthetic(sites=2, features=4, classes=3, largest=10, seed=9)
    sites = federate(opened(SMALL), None, 1, Public(corpus=other))
    assert sites.public is not None
    assert rows_of(sites.public()) == rows_of(Rows.joined([other.open(name)[0] for name in other.names()]))
    for name in sites.names:
        assert rows_of(SMALL.open(name)[0]) == rows_of(sites.raw(name)[0])


def test_pooled_training_leaves_them_out_too() -> None:
    """Centralised training is compared with what the sites together have."""
    sites = federate(opened(SMALL), None, 1, Public(0.3))
    together = set.union(*(rows_of(sites.raw(name)[0]) for name in sites.names))
    assert together == rows_of(pooled(sites).raw("pooled")[0])


def test_everybody_has_the_same_public_examples_if_the_method_wants_them() -> None:
    """The coordinator has nothing else."""
    task = FeaturesTask(4, 3)
    sites = federate(opened(SMALL), None, 1, Public(0.3))
    ready = Prepared(sites, task, public=True)
    hub = ready.open(HUB)
    assert isinstance(hub.public, FeatureRows)
    assert hub.train is hub.test is hub.public is ready.open("site-00").public is ready.open("site-04").public
    assert sites.public is not None
    assert len(sites.public()) == len(hub.public)
    assert Prepared(sites, task).open("site-00").public is None
    with pytest.raises(ValueError, match="the coordinator has no examples"):
        Prepared(sites, task).open(HUB)


class Wards:
    """Two wards of the same few texts."""

    def names(self) -> list[str]:
        return ["a", "b"]

    def open(self, name: str) -> tuple[Texts, Texts]:
        def some(*texts: str) -> Texts:
            return Texts(tuple(Document(f"{name}-{i}", text, ("x",)) for i, text in enumerate(texts)))

        return (some("one", "two", "two"), some("three")) if name == "a" else (some("two"), some("one", "four"))


class Known(Wards):
    """What is public, with other labels and ids."""

    def names(self) -> list[str]:
        return ["c"]

    def open(self, name: str) -> tuple[Texts, Texts]:  # noqa: ARG002
        return Texts(tuple(Document(text, text, ("y",)) for text in ("two", "three", "five"))), Texts(())


def test_sentences_that_are_public_and_a_sites_own_are_counted() -> None:
    """By their text, whatever the label; the text itself is not told."""
    leak = "test text that is also in training: 1 of 3 (b-0 = a-0)"  # over all wards
    data = describe(federate(opened(Wards()), None, 0, Public(corpus=Known())))
    assert [
        "train examples with the text of a public example: 3 (a: 2, b: 1)",
        "test examples with the text of a public example: 1 (a: 1)",
        leak,
    ] == data["problems"]
    assert {"y": 3} == data["public"]
    assert "two" not in json.dumps(data)
    plain = describe(federate(opened(Wards()), None, 0))
    assert ([leak], False) == (plain["problems"], "public" in plain)
    assert plain["fingerprint"] != data["fingerprint"]


def test_the_count_is_told_after_a_run_and_kept_with_it(tmp_path: Path) -> None:
    """As what readers find odd is: on the error stream and in data.json."""
    (tmp_path / "train.csv").write_text("text,label\nfever,a\ncough,b\npain,a\nrash,b\n")
    (tmp_path / "public.csv").write_text("text,label\nfever,a\ncold,b\n")
    files = {"format": "csv", "train": "train.csv"}
    path = small_study(
        tmp_path,
        corpus={**files, "test": "train.csv"},
        partition={"name": "iid", "sites": 2},
        task={"name": "classification"},
        public={"corpus": {**files, "train": "public.csv"}},
    )
    ended = cli("run", path, "--out", "run", "--no-report", cwd=tmp_path)
    wanted = "train examples with the text of a public example: 1 (site-"
    assert 0 == ended.code
    assert f"in the data: {wanted}" in ended.err
    assert [True] == [wanted in line for line in json.loads((tmp_path / "run/data.json").read_text())["problems"][:1]]


def test_a_run_with_public_examples_is_another_run(tmp_path: Path) -> None:
    """Its fingerprint, its resolved study and its sites' data say so; a method without a use for them still runs."""
    path = small_study(tmp_path, name="public", method={"name": "fedavg"})
    drawn, more, own = (
        load_study(path, [change])[0].study
        for change in ("public.fraction=0.2", "public.fraction=0.3", "public.corpus={name='synthetic', features=4}")
    )
    plain = load_study(path)[0].study
    assert 4 == len({study.fingerprint for study in (plain, drawn, more, own)})
    for study in (drawn, own):
        again = tmp_path / "again.toml"
        again.write_text(study.toml(), encoding="utf-8")
        assert (study.fingerprint, study.public) == ((known := load_study(again)[0].study).fingerprint, known.public)
    assert 7 == own.public.corpus.seed  # type: ignore[union-attr]
    raws = [build(study, tmp_path).raw for study in (plain, drawn)]
    sizes = [sum(len(raw.raw(name)[0]) for name in raw.names) for raw in raws if raw is not None]
    assert sizes[0] - round(0.2 * sizes[0]) == sizes[1]
    run(drawn, tmp_path / "run")


@pytest.mark.parametrize(
    ("public", "message"),
    [
        ({}, "public should have either fraction or [public.corpus]"),
        ({"fraction": 0.2, "corpus": {"name": "synthetic"}}, "public should have either fraction or [public.corpus]"),
        ({"fraction": 0.0}, "public.fraction = 0.0: should be greater than 0"),
        ({"fraction": 1.0}, "public.fraction = 1.0: should be less than 1"),
        ({"share": 0.2}, "public.share is unknown; "),
        ({"corpus": {"name": "sinthetic"}}, "public.corpus.name = 'sinthetic' is unknown; did you mean 'synthetic'?"),
        ({"corpus": {"name": "synthetic", "site": 1}}, "public.corpus.site is unknown; did you mean 'sites'?"),
        ({"corpus": {"name": "nowhere:Mine"}}, "public.corpus.name = 'nowhere:Mine' cannot be imported"),
        ({"corpus": "synthetic"}, "public.corpus = 'synthetic': should be a"),
        (0.2, "public = 0.2: should be a"),
    ],
    ids=str,
)
def test_mistakes_in_the_table_are_named(public: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(StudyError) as error:
        load_study(small_study(tmp_path, public=public))
    assert any(problem.startswith(message) for problem in error.value.problems), error.value.problems


def test_drawing_from_many_sites_takes_from_each_about_its_share() -> None:
    """Examples are drawn over all sites together, not site by site."""
    sites = federate(opened(Synthetic(sites=40, features=2, classes=2, largest=60, seed=1)), None, 5, Public(0.25))
    left = np.array([len(sites.raw(name)[0]) for name in sites.names])
    assert len(set(left)) > 3
    assert 0.15 < 1 - left.mean() / 54 < 0.35


def test_real_sites_need_a_public_file_that_every_party_has(tmp_path: Path) -> None:
    """A fraction of notes that are at the sites is nothing that the coordinator could read."""
    path = small_study(
        tmp_path,
        method={"name": "feded"},
        task={"name": "classification", "model": "lstm", "tokens": "words"},
        corpus={
            "format": "csv",
            "train": "at-the-sites.csv",
            "test": "at-the-sites.csv",
            "labels": ["x", "y"],
        },
        public={"fraction": 0.2},
    )
    with pytest.raises(StudyError, match=r"public examples cannot be read here.*\[public\.corpus\] names a file"):
        build_apart(load_study(path)[0].study, tmp_path / "run", ["a", "b"])


def test_real_sites_public_examples_are_read_without_the_sites_own_files(tmp_path: Path) -> None:
    rows = "".join(f"rash {number},{'xy'[number % 2]}\n" for number in range(8))
    (tmp_path / "public.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
    files = {"format": "csv", "train": "at-the-sites.csv", "test": "at-the-sites.csv", "labels": ["x", "y"]}
    path = small_study(
        tmp_path,
        method={"name": "feded"},
        task={"name": "classification", "model": "lstm", "tokens": "words"},
        corpus=files,
        public={"corpus": {**files, "train": "public.csv", "test": "public.csv"}},
    )
    built = build_apart(load_study(path)[0].study, tmp_path / "run", ["a", "b"])
    assert 8 == built.manifest.sizes["public"]

"""Partitions lose and repeat nothing, follow the oracle and refuse what cannot be cut."""

from collections.abc import Callable, Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from wardround.federation.partition import IntArray, Rng, by_source, cut, dirichlet, iid

SITES = st.integers(1, 12)
SEEDS = st.integers(0, 2**32 - 1)
LABELS = st.lists(st.integers(0, 5), max_size=80)
SOURCES = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=80)
RUNS = 100


@pytest.mark.parametrize("case", oracle.params("dirichlet_partition"))
def test_oracle(case: oracle.Case) -> None:
    """Given proportions and legacy seeds give the oracle's indices; many draws give its heterogeneity."""
    {"given_proportions": given_proportions, "legacy_seed": legacy_seed, "statistics": statistics}[case["kind"]](
        case["inputs"], case["expected"]
    )


def given_proportions(inputs: oracle.Case, expected: oracle.Case) -> None:
    for rule, sites in expected.items():
        actual = cut(inputs["labels"], inputs["proportions"], balanced=rule == "balanced")
        assert [sorted(site) for site in sites] == lists(actual)


def legacy_seed(inputs: oracle.Case, expected: oracle.Case) -> None:
    actual = dirichlet(
        np.arange(inputs["num_samples"]) % inputs["num_classes"],
        inputs["num_clients"],
        inputs["alpha"],
        np.random.RandomState(inputs["seed"]),
        min_per_site=inputs["min_size"],
        balanced=inputs["balanced"],
    )
    assert expected["client_indices_sorted"] == lists(actual)
    assert expected["sizes"] == [len(site) for site in actual]


def statistics(inputs: oracle.Case, expected: oracle.Case) -> None:
    classes = inputs["num_classes"]
    labels = np.repeat(np.arange(classes), inputs["samples_per_class"])
    runs = []
    for seed in range(RUNS):
        sites = dirichlet(
            labels,
            inputs["num_clients"],
            inputs["alpha"],
            np.random.default_rng(seed),
            min_per_site=inputs["min_size"],
            balanced=inputs["balanced"],
        )
        counts = np.array([np.bincount(labels[site], minlength=classes) for site in sites])  # [sites, classes]
        held = counts[counts.any(axis=1)]
        runs.append(
            {
                "mean_top_class_share": (held.max(axis=1) / held.sum(axis=1)).mean(),
                "mean_classes_per_nonempty_client": (held > 0).sum(axis=1).mean(),
                "mean_fraction_empty_clients": 1 - len(held) / len(counts),
            }
        )
    for name, reference in expected.items():
        tolerance = 4 * reference["std_per_run"] / np.sqrt(RUNS)
        assert reference["mean"] == pytest.approx(np.mean([run[name] for run in runs]), abs=tolerance + 1e-12)


@given(count=st.integers(0, 200), sites=SITES, seed=SEEDS)
def test_iid_deals_out_all_evenly(count: int, sites: int, seed: int) -> None:
    """Each example is at one site, and sizes differ by at most one, empty sites included."""
    parts = iid(count, sites, np.random.default_rng(seed))
    assert list(range(count)) == dealt(parts)
    assert {count // sites, -(-count // sites)} == {len(part) for part in parts}


@given(
    labels=LABELS,
    sites=SITES,
    alpha=st.floats(1e-12, 1e6),
    seed=SEEDS,
    balanced=st.booleans(),
)
def test_dirichlet_deals_out_all(labels: list[int], sites: int, alpha: float, seed: int, balanced: bool) -> None:
    """Each example is at one site, whatever the skew, and there are as many sites as asked for."""
    parts = dirichlet(labels, sites, alpha, np.random.default_rng(seed), balanced=balanced)
    assert list(range(len(labels))) == dealt(parts)
    assert sites == len(parts)


@given(labels=LABELS, sites=st.integers(1, 4), least=st.integers(0, 3), seed=SEEDS)
def test_dirichlet_draws_until_each_site_holds_enough(labels: list[int], sites: int, least: int, seed: int) -> None:
    """No site holds fewer than `min_per_site` where the corpus is large enough for it."""
    labels = labels + [0, 1, 2, 3] * 10
    parts = dirichlet(labels, sites, 5.0, np.random.default_rng(seed), min_per_site=least)
    assert list(range(len(labels))) == dealt(parts)
    assert least <= min(len(part) for part in parts)


@given(data=st.data(), labels=LABELS, sites=SITES, balanced=st.booleans())
def test_cut_deals_out_all(data: st.DataObject, labels: list[int], sites: int, balanced: bool) -> None:
    """Each example is at one site even where the open sites of the balanced rule have no share."""
    owners = data.draw(st.lists(st.integers(0, sites - 1), min_size=6, max_size=6))
    assert list(range(len(labels))) == dealt(cut(labels, np.eye(sites)[owners], balanced=balanced))


@given(sources=SOURCES)
def test_by_source_makes_a_site_of_each_source(sources: list[str]) -> None:
    """Sites bear the sources' names and hold all their examples, and no others."""
    expected = {name: [i for i, source in enumerate(sources) if source == name] for name in sources}
    assert expected == {name: part.tolist() for name, part in by_source(sources).items()}


@given(data=st.data(), sources=SOURCES, seed=st.none() | SEEDS)
def test_by_source_gathers_whole_sources(data: st.DataObject, sources: list[str], seed: int | None) -> None:
    """No source is split, nothing is lost, and sizes differ by at most the largest source."""
    sites = data.draw(st.integers(1, len(set(sources))))
    parts = by_source(sources, sites, None if seed is None else np.random.default_rng(seed))
    assert list(range(len(sources))) == dealt(parts.values())
    assert len(set(sources)) == sum(len({sources[i] for i in part}) for part in parts.values())
    sizes = [len(part) for part in parts.values()]
    assert max(map(sources.count, sources)) >= max(sizes) - min(sizes)
    assert sorted(parts) == list(parts)


def test_by_source_gathers_the_largest_first() -> None:
    """Each source goes onto the smallest site so far; equal sources go by first appearance."""
    actual = by_source(list("abbcccdd"), 2)
    assert {k: part.tolist() for k, part in actual.items()} == {
        "site-000": [0, 3, 4, 5],
        "site-001": [1, 2, 6, 7],
    }


def test_by_source_shuffles_only_equal_sources() -> None:
    """With an rng the largest source still goes first, and equal ones change places."""
    cuts = [by_source(list("abcdd"), 3, np.random.default_rng(seed)) for seed in range(20)]
    assert [parts["site-000"].tolist() for parts in cuts] == [[3, 4]] * 20
    assert len({tuple(parts["site-001"].tolist()) for parts in cuts}) > 1


@given(labels=LABELS, sites=SITES, seed=SEEDS)
@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.RandomState])
def test_the_same_seed_gives_the_same_cut(kind: Callable[[int], Rng], labels: list[int], sites: int, seed: int) -> None:
    """Each partition is a function of its arguments and its generator's state."""

    def cuts() -> list[list[list[int]]]:
        rng = kind(seed)
        sources = ["s", *map(str, labels)]
        return [
            lists(iid(len(labels), sites, rng)),
            lists(dirichlet(labels, sites, 0.5, rng)),
            lists(by_source(sources, min(sites, len(set(sources))), rng).values()),
        ]

    assert cuts() == cuts()


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("sites is 0: use 1", {"sites": 0}),
        ("alpha is 0: use", {"alpha": 0}),
        ("alpha is nan: use", {"alpha": np.nan}),
        ("alpha is inf: use", {"alpha": np.inf}),
        ("min_per_site is -1: use 0", {"min_per_site": -1}),
        ("6 examples cannot give that many to each of 3 sites: lower", {"min_per_site": 3}),
        (
            r"after 1000 draws 2 of 3 sites are still below min_per_site=1 \(sites [01], [12]\): raise alpha",
            {"min_per_site": 1, "alpha": 1e-9, "labels": [0] * 6},
        ),
        (
            "alpha is 1e-09, out of reach of RandomState: use",
            {"alpha": 1e-9, "rng": np.random.RandomState(0)},
        ),
    ],
)
def test_dirichlet_refuses(message: str, arguments: dict[str, object]) -> None:
    """A refusal names the argument, its value and the remedy."""
    defaults = {"labels": [0, 0, 0, 1, 1, 1], "sites": 3, "alpha": 1.0, "rng": np.random.default_rng(0)}
    with pytest.raises(ValueError, match=message):
        dirichlet(**(defaults | arguments))  # type: ignore[arg-type]


def test_iid_and_by_source_refuse() -> None:
    """A count or a number of sites that cannot be is named, with the remedy."""
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="count is -1: use 0"):
        iid(-1, 3, rng)
    with pytest.raises(ValueError, match="sites is 0: use 1"):
        iid(3, 0, rng)
    with pytest.raises(ValueError, match="sites is 0: use 1"):
        by_source(["a"], 0)
    with pytest.raises(ValueError, match=r"sites is 3, but there are 2 sources .* use fewer"):
        by_source(["a", "b"], 3)
    with pytest.raises(ValueError, match="1 of 2 training examples name no source, the first is number 2; say where"):
        by_source(["a", ""])


@pytest.mark.parametrize(
    ("message", "labels", "proportions"),
    [
        ("shape", [0], [0.5, 0.5]),
        ("add up to 1", [0], [[0.5, 0.4]]),
        ("add up to 1", [0], [[1.5, -0.5]]),
        ("add up to 1", [0], [[np.nan, 1.0]]),
        ("labels run from 0 to 1, proportions have 1 rows", [0, 1], [[0.5, 0.5]]),
    ],
)
def test_cut_refuses(message: str, labels: list[int], proportions: list[list[float]]) -> None:
    """Proportions must fit the labels and add up to one."""
    with pytest.raises(ValueError, match=message):
        cut(labels, proportions)


def lists(parts: Iterable[IntArray]) -> list[list[int]]:
    return [part.tolist() for part in parts]


def dealt(parts: Iterable[IntArray]) -> list[int]:
    return sorted(index for part in parts for index in part.tolist())

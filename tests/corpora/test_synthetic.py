"""Synthetic(α, β) has the published sizes and statistics, and each site opens alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from wardround.corpora.synthetic import Rows, Synthetic

DATASETS = 20


@pytest.mark.parametrize("case", oracle.params("synthetic_data"))
def test_oracle(case: oracle.Case) -> None:
    """Legacy seeds give the oracle's sizes, many datasets its statistics; the published data fit ours."""
    {"legacy_sizes": legacy_sizes, "published": published, "statistics": statistics}[case["kind"]](
        case["inputs"], case["expected"]
    )


def legacy_sizes(inputs: oracle.Case, expected: oracle.Case) -> None:
    corpus = Synthetic(seed=inputs["seed"], sites=inputs["num_clients"])
    opened = [corpus.open(name) for name in corpus.names()]
    assert expected["samples_per_client"] == [len(train) + len(test) for train, test in opened]
    assert expected["train_per_client"] == [len(train) for train, _ in opened]
    assert expected["test_per_client"] == [len(test) for _, test in opened]


def published(_: oracle.Case, expected: oracle.Case) -> None:
    # Drawn without a seed, the published sizes cannot come out again. They do imply the number of sites, the
    # split of a site of given size, the smallest site and the distribution of sizes.
    sizes = expected["test_per_client"]
    assert {Synthetic().sites} == {len(of_dataset) for of_dataset in sizes.values()}

    check = expected["flcmc_check"]
    assert check["test_samples"] == sizes[check["dataset"]][check["client_1_based"] - 1]
    capped = Synthetic(largest=check["train_samples"] + check["test_samples"])
    train, test = capped.open(capped.names()[int(capped._plan.sizes.argmax())])
    assert (check["train_samples"], check["test_samples"]) == (len(train), len(test))

    ours = Synthetic(sites=10_000)._plan.sizes
    theirs, ours = np.sort(np.concatenate(list(sizes.values()))), np.sort(ours - (0.9 * ours).astype(int))
    assert theirs[0] == ours[0]
    steps = np.unique(theirs)
    shares = [np.searchsorted(sample, steps, side="right") / len(sample) for sample in (theirs, ours)]
    assert np.abs(shares[0] - shares[1]).max() < 1.63 / np.sqrt(len(theirs))  # Kolmogorov-Smirnov at 1 %


def statistics(inputs: oracle.Case, expected: oracle.Case) -> None:
    runs = []
    for seed in range(DATASETS):
        corpus = Synthetic(
            alpha=inputs["alpha"],
            beta=inputs["beta"],
            iid=inputs["iid"],
            sites=inputs["num_clients"],
            features=inputs["num_features"],
            classes=inputs["num_classes"],
            seed=seed,
        )
        sites = [whole(*corpus.open(name)) for name in corpus.names()]
        counts = np.array([np.bincount(y, minlength=corpus.classes) for _, y in sites])  # [sites, classes]
        sizes = counts.sum(axis=1)
        assert expected["theory"]["min_samples_per_client"] <= sizes.min()
        variances = np.array([x[:, :5].var(axis=0, ddof=1) for x, _ in sites])  # [sites, 5]
        runs.append(
            {
                "classes_per_client": (counts > 0).sum(axis=1).mean(),
                "top_class_share": (counts.max(axis=1) / sizes).mean(),
                "client_mean_var_between": np.var([x.mean(axis=0) for x, _ in sites], axis=0, ddof=1).mean(),
                "within_var_ratio_first5": (variances / np.arange(1, 6) ** -1.2).mean(),
                "total_samples": sizes.sum(),
                "between_client_variance_of_mean_x": corpus._plan.feature_means.var(axis=0, ddof=1).mean(),
            }
        )
    theory = expected["theory"]["between_client_variance_of_mean_x"]
    spread = expected["client_mean_var_between"]["std_per_run"]
    references = {name: value for name, value in expected.items() if name != "theory"}
    references["between_client_variance_of_mean_x"] = {"mean": theory, "std_per_run": spread}
    for name, reference in references.items():
        tolerance = 4 * reference["std_per_run"] * np.sqrt(1 / DATASETS + 1 / 30)
        assert reference["mean"] == pytest.approx(np.mean([run[name] for run in runs]), abs=tolerance), name


def test_what_all_sites_share_is_drawn_in_the_published_order() -> None:
    """One legacy stream: all sizes, all u, all B, then v site by site; for IID sizes, W, b."""
    rng = np.random.RandomState(7)
    sizes = np.floor(rng.lognormal(4, 2, 5)) + 50
    means, offsets = rng.normal(0, 0.3, 5), rng.normal(0, 0.8, 5)
    v = [rng.normal(offset, 1, 60) for offset in offsets]
    plan = Synthetic(alpha=0.3, beta=0.8, sites=5, seed=7)._plan
    assert (sizes.tolist(), means.tolist()) == (plan.sizes.tolist(), plan.model_means.tolist())
    assert np.array(v).tolist() == plan.feature_means.tolist()

    rng = np.random.RandomState(7)
    rng.lognormal(4, 2, 5)
    plan = Synthetic(iid=True, sites=5, seed=7)._plan
    assert plan.shared is not None
    assert rng.normal(0, 1, (60, 10)).tolist() == plan.shared[0].tolist()
    assert rng.normal(0, 1, 10).tolist() == plan.shared[1].tolist()


@given(order=st.permutations(range(6)), seed=st.integers(0, 2**32 - 1), iid=st.booleans())
def test_sites_open_in_any_order(order: list[int], seed: int, iid: bool) -> None:
    """A site's bytes depend neither on the sites opened before it nor on the object that opens it."""
    corpus = Synthetic(sites=6, seed=seed, iid=iid, largest=80)
    names = corpus.names()
    shuffled = {names[k]: as_bytes(*corpus.open(names[k])) for k in order}
    fresh = {name: as_bytes(*Synthetic(sites=6, seed=seed, iid=iid, largest=80).open(name)) for name in names}
    assert fresh == shuffled


def test_seeds_and_sites_differ() -> None:
    """No two sites, and no two seeds, share their examples."""
    opened = {
        as_bytes(*corpus.open(name))
        for corpus in (Synthetic(sites=3, largest=50, seed=seed) for seed in range(3))
        for name in corpus.names()
    }
    assert len(opened) == 9


def test_alpha_changes_no_example() -> None:
    """A model mean raises all classes' scores alike: as published, α leaves every example as it is."""
    plain, shifted, moved = (
        [as_bytes(*corpus.open(name)) for name in corpus.names()]
        for corpus in (Synthetic(alpha=0, beta=0), Synthetic(alpha=1, beta=0), Synthetic(alpha=0, beta=1))
    )
    assert plain == shifted
    assert plain != moved


def test_a_cap_keeps_the_first_examples() -> None:
    """`largest` shortens the large sites; their first examples, and the other sites, stay as they are."""
    full, capped = Synthetic(), Synthetic(largest=100)
    for name in full.names():
        (x, y), (short_x, short_y) = whole(*full.open(name)), whole(*capped.open(name))
        assert min(100, len(y)) == len(short_y)
        assert (x[:100].tobytes(), y[:100].tobytes()) == (short_x.tobytes(), short_y.tobytes())


def test_rows_are_float32_features_and_int64_labels() -> None:
    """What a site opens is ready for a model of the corpus's shape."""
    train, test = Synthetic(features=7, classes=3).open("site-05")
    assert [rows.features.shape for rows in (train, test)] == [(51, 7), (6, 7)]
    assert [np.float32, np.int64] == [train.features.dtype, train.labels.dtype]
    assert {0, 1, 2} >= set(train.labels.tolist() + test.labels.tolist())


@pytest.mark.parametrize(("sites", "last"), [(1, "site-00"), (100, "site-99"), (10_000, "site-9999")])
def test_names_sort_as_numbers(sites: int, last: str) -> None:
    """The names' sorted order is the sites' order, and the last of many sites opens like the first."""
    corpus = Synthetic(sites=sites, largest=60)
    names = corpus.names()
    assert sorted(names) == list(names)
    assert (last, sites) == (names[-1], len(names))
    assert len(corpus.open(last)[0]) >= 45


def test_an_unknown_site_is_named() -> None:
    """The refusal says which site was asked for and which there are."""
    with pytest.raises(ValueError, match="no site 'site-30': the names run from 'site-00' to 'site-29'"):
        Synthetic().open("site-30")


def test_settings_that_cannot_be_are_listed_together() -> None:
    """One refusal names all faulty settings with their values and remedies."""
    with pytest.raises(ValueError, match=r"alpha is nan: use .*; beta is -1: use .*; sites is 0: use .*; seed is -1"):
        Synthetic(alpha=np.nan, beta=-1, sites=0, seed=-1)
    with pytest.raises(ValueError, match="largest is 1: use 2 or more"):
        Synthetic(largest=1)


def whole(train: Rows, test: Rows) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([train.features, test.features]), np.concatenate([train.labels, test.labels])


def as_bytes(train: Rows, test: Rows) -> tuple[bytes, ...]:
    return tuple(part.tobytes() for rows in (train, test) for part in (rows.features, rows.labels))

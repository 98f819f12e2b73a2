"""Words weighed by document counts: what is counted, what leaves a site, and that no training moves it."""

import math
from pathlib import Path
from typing import Any, cast

import pytest
import torch

import wardround
from wardround.consortium.exchanges import expected_exchanges
from wardround.core.weights import Weights
from wardround.layers.kept_back import KeptBack
from wardround.layers.small_counts import SmallCounts
from wardround.methods.weighing import DocumentCounts
from wardround.models.linear import WeighedBag
from wardround.runs.loop import run
from wardround.runs.protocol import rehearsed
from wardround.study.load import Study, cells
from wardround.tasks.batching import Ragged
from wardround.tasks.classification import Classification, ClassificationTask
from wardround.tasks.weighing import balance as balance_by
from wardround.tasks.weighing import document_counts, measured, rounded
from wardround.text.prediction import Prediction

SITES = 3
CLINIC = {"name": "clinic", "hospitals": SITES, "documents": 12, "test_documents": 4}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the segmentation cache out of the home folder."""
    monkeypatch.setenv("WARDROUND_CACHE", str(tmp_path / "cache"))


def study(method: dict[str, Any], *, task: dict[str, Any] | None = None, **more: Any) -> Study:
    settings = {"name": "classification", "buckets": 512, **(task or {})}
    tables = {"name": "weighed", "rounds": 2, "method": method, "task": settings, "corpus": CLINIC, **more}
    return cells(tables)[0].study


def test_a_word_counts_once_in_each_text_that_has_it() -> None:
    tokens = Ragged([[3, 3, 5], [3], [], [5, 3]])
    assert [0, 0, 0, 3, 0, 2, 0] == document_counts(tokens, 7, rarest=1).tolist()


def test_counts_of_sites_add_up_to_those_of_all_texts() -> None:
    rows = [[1, 2], [2, 3], [3], [1, 1, 2]]
    parts = [document_counts(Ragged(rows[:2]), 4, 1), document_counts(Ragged(rows[2:]), 4, 1)]
    assert document_counts(Ragged(rows), 4, 1).tolist() == (parts[0] + parts[1]).tolist()


def test_of_rare_words_a_site_tells_nothing_and_they_are_weighed_alike() -> None:
    counts = document_counts(Ragged([[1, 2]] * 5 + [[2, 3]] * 4), 5, rarest=5)
    assert [0, 5, 9, 0, 0] == counts.tolist()
    importance = measured(counts, 9, rarest=5, shrinkage=0.5)["importance"]
    assert importance[1] == importance[3] == importance[4]
    assert math.log(10 / 6) + 1 == pytest.approx(float(importance[1]))
    assert 1.0 == float(importance[2])


def test_a_row_is_that_of_tf_idf() -> None:
    """Logarithmic counts, times how much a word tells, at length 1; padding and order change nothing."""
    bag = WeighedBag(6, 2)
    bag.load_state_dict({**bag.state_dict(), "importance": torch.arange(6.0) + 1})
    with torch.no_grad():
        bag.words.weight[3, 0] = bag.words.weight[5, 1] = 1.0
    twice, once = 4 * (1 + math.log(2)), 6.0
    expected = pytest.approx([twice / math.hypot(twice, once), once / math.hypot(twice, once)])
    assert expected == bag(torch.tensor([[3, 5, 3]]))[0].tolist()
    assert expected == bag(torch.tensor([[5, 3, 3, 0, 0]]))[0].tolist()
    assert [0.0, 0.0] == bag(torch.tensor([[0, 0]]))[0].tolist()


def test_both_kinds_of_numbers_have_the_same_length_however_many_there_are_of_each() -> None:
    bag = WeighedBag(8, 2, halves=True)
    with torch.no_grad():
        bag.words.weight[1, 0] = bag.words.weight[5, 1] = 1.0
    assert pytest.approx([0.5**0.5, (0.5 / 3) ** 0.5]) == bag(torch.tensor([[1, 5, 6, 7]]))[0].tolist()
    assert pytest.approx([0.5**0.5, 0.0]) == bag(torch.tensor([[1, 0, 0, 0]]))[0].tolist()


@pytest.mark.parametrize(
    ("tokens", "beside", "text", "count"),
    [("words", "stems", "no fever", 3 + 2), ("characters", "words", "头痛三天", 9 + 2)],
)
def test_what_is_beside_has_the_upper_half_of_the_numbers(tokens: str, beside: str, text: str, count: int) -> None:
    settings: dict[str, Any] = {"tokens": tokens, "ngrams": 3, "beside": beside, "buckets": 2**12, "remember": False}
    task = Classification(**settings).bind(type("Corpus", (), {"labels": "ab"}))
    (row,) = task.unlabelled([text])[0].tokens.values[None].tolist()
    lower = [number for number in row if number < 2**11]
    assert count == len(row)
    assert 0 < len(lower) < count
    assert task.numbers.whole([text]) == [lower]


def test_nothing_of_a_word_beyond_its_first_five_letters_is_beside_it() -> None:
    task = Classification(tokens="words", beside="stems", buckets=2**16, remember=False).bind(
        type("Corpus", (), {"labels": "ab"})
    )
    whole, cut = (task.unlabelled([text])[0].tokens.values for text in ("Intermittent claudication", "inter claud"))
    assert whole[whole >= 2**15].tolist() == cut[cut >= 2**15].tolist()


@pytest.mark.parametrize(
    ("language", "more", "beside"),
    [
        ("en", {}, "stems"),
        ("zh", {}, "words"),
        ("zh", {"tokens": "jieba"}, "none"),
        ("ja", {}, "none"),
        ("en", {"buckets": 1024}, "none"),
        ("en", {"weighting": "none"}, None),
        ("en", {"model": "lstm"}, None),
    ],
    ids=str,
)
def test_what_is_beside_the_tokens_suits_the_language(language: str, more: dict[str, Any], beside: str | None) -> None:
    assert beside == Classification(**more).suited(language).get("beside")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"tokens": "characters", "beside": "stems"}, 'tokens = "words"'),
        ({"tokens": "jieba", "beside": "words"}, 'tokens = "characters"'),
        ({"tokens": "words", "beside": "stems", "weighting": "none"}, "weighting"),
    ],
    ids=str,
)
def test_what_cannot_be_beside_the_tokens_is_refused(more: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Classification(**more)


def test_the_pull_has_the_gradient_of_its_value() -> None:
    bag = WeighedBag(4, 2)
    torch.nn.init.normal_(bag.words.weight)
    bag.load_state_dict({**bag.state_dict(), "shrinkage": torch.tensor([0.25])})
    value = bag.pull()
    value.backward()  # type: ignore[no-untyped-call]  # torch's own gap
    weight = bag.words.weight.detach()
    assert 0.125 * float(weight.square().sum()) == pytest.approx(float(value.detach()))
    assert torch.equal(0.25 * weight, cast("torch.Tensor", bag.words.weight.grad))


@pytest.mark.parametrize(
    "method",
    [
        {"name": "fedavg", "weight_decay": 0.1},
        {"name": "fedprox"},
        {"name": "scaffold"},
        {"name": "feddyn"},
        {"name": "fedadam"},
        {"name": "fedpap"},
        {"name": "fedavg", "optimizer": "adamw"},
    ],
    ids=lambda method: "-".join(map(str, method.values())),
)
def test_no_training_moves_what_was_measured(method: dict[str, Any]) -> None:
    seen = rehearsed(study(method))
    first, last = (cast("Any", one.message).weights for one in (seen[SITES], seen[-1]))
    assert all(torch.equal(first[name], last[name]) for name in WeighedBag.measured)
    assert float(first["importance"].max()) > 1
    assert not torch.equal(first["words.weight"], last["words.weight"])


def test_sites_are_asked_once_before_the_first_round_and_approve_of_that() -> None:
    asked = study({"name": "fedavg"})
    assert ["count_documents", "fit", "fit", "evaluate"] == [one.step for one in rehearsed(asked)][::SITES]
    expected = expected_exchanges(asked, 12, SITES)
    assert (1, ("count_documents",), {"fit": 1}) == (expected.start, expected.opening, expected.steps)


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ({"name": "local"}, {}),
        ({"name": "fedavg"}, {"task": {"weighting": "none"}}),
        ({"name": "fedavg"}, {"task": {"model": "lstm", "hidden": 4, "embedding": 4}}),
    ],
    ids=str,
)
def test_nothing_is_counted_for_others_where_nothing_is_weighed_together(
    method: dict[str, Any], more: dict[str, Any]
) -> None:
    assert not any(isinstance(one.reply, DocumentCounts) for one in rehearsed(study(method, **more)))


@pytest.mark.parametrize("more", [{}, {"weight_decay": 0.1}], ids=str)
def test_a_site_alone_weighs_by_its_own_texts_whichever_way_it_is_alone(more: dict[str, Any], tmp_path: Path) -> None:
    alone = run(study({"name": "local", **more}), tmp_path / "local").metrics
    private = {"sites": {"private": ["all"]}}
    assert alone == run(study({"name": "fedavg", **more}, **private), tmp_path / "private").metrics
    unweighed = study({"name": "local", **more, "schedule": "cosine"}, task={"weighting": "none"})
    assert alone["loss"] != run(unweighed, tmp_path / "unweighed").metrics["loss"]


def test_the_model_s_folder_has_the_weighting_and_predicts_with_it(tmp_path: Path) -> None:
    run(study({"name": "fedavg"}), tmp_path / "run")
    model = wardround.load(tmp_path / "run" / "model")
    network = cast("WeighedBag", model.parts[0].network)
    assert network.importance.detach().max() > 1
    with torch.no_grad():
        assert model.parts[0].task.predict(network, [Prediction("fever and cough")])[0].labels


def test_small_counts_of_documents_stay_at_a_site_that_wants_them_to() -> None:
    counts = torch.tensor([0, 5, 9, 10, 30])
    reply = cast("DocumentCounts", SmallCounts(10).leave(DocumentCounts(counts, counts[2:], 40, 40), cast("Any", None)))
    assert ([0, 0, 0, 10, 30], [0, 10, 30]) == (reply.counts.tolist(), reply.labels.tolist())


def test_a_site_may_keep_its_label_counts_to_itself() -> None:
    reply = cast(
        "DocumentCounts", KeptBack().leave(DocumentCounts(counted([0, 9]), counted([5, 10]), 12, 12), cast("Any", None))
    )
    assert ([0, 9], [0, 0], 12, 0) == (reply.counts.tolist(), reply.labels.tolist(), reply.documents, reply.labelled)


@pytest.mark.parametrize(("name", "value"), [("importance", 0.0), ("importance", 50.0), ("shrinkage", 1.0)])
def test_a_weighting_that_no_counts_can_give_is_seen(name: str, value: float) -> None:
    """Else a coordinator could make one word count, and no other, and read it off an update."""
    task = Classification(tokens="words", buckets=8, weighting="documents").bind(type("Corpus", (), {"labels": "ab"}))
    honest = Weights({**Weights.of_model(task.model()), **task.weighed(torch.zeros(8, dtype=torch.int64), 100)})
    assert task.plausible(honest)
    changed = honest[name].clone()
    changed[0] = value
    assert not task.plausible(Weights({**honest, name: changed}))


def test_under_differential_privacy_nothing_is_counted_unless_a_study_says_so() -> None:
    from wardround.study.defaults import Languages, left_open  # noqa: PLC0415 -- only here

    built = {"task": Classification(tokens="words"), "method": None}
    more = left_open(built, {"rounds": 2, "privacy": {"dp": {"epsilon": 1.0}}}, Languages())
    assert ("none", "none") == (more["task"]["weighting"], more["task"]["class_weights"])


@pytest.mark.parametrize(
    ("words", "labels", "labelled", "wrong"),
    [
        ([0, 5], [5, 10], 5, None),
        ([0, 5], [0, 0], 0, None),
        ([0, 6], [5, 0], 5, "counts exceed"),
        ([0, 5], [15, 0], 5, "labels do not go"),
        ([0, 5], [5, 0], 0, "labels do not go"),
        ([0, 5], [5, 0], 4, "labels do not go"),
    ],
)
def test_counts_that_exceed_the_documents_are_a_contradiction(
    words: list[int], labels: list[int], labelled: int, wrong: str | None
) -> None:
    reply = DocumentCounts(counted(words), counted(labels), 5, labelled)
    why = study({"name": "fedavg"}).method.contradiction(cast("Any", None), reply)
    assert why is None if wrong is None else wrong in str(why)


# class weights by the labels of all sites


def counted(row: list[int]) -> torch.Tensor:
    return torch.tensor(row)


def bound_to(labels: str, **more: Any) -> ClassificationTask:
    settings = {"tokens": "words", "buckets": 8, "weighting": "documents", "class_weights": "balanced", **more}
    return Classification(**{"class_counts": "all", **settings}).bind(type("Corpus", (), {"labels": tuple(labels)}))


def balance_of(task: ClassificationTask, labels: list[int], labelled: int) -> list[float]:
    words = torch.zeros(8, dtype=torch.int64)
    return task.weighed(words, labelled, torch.tensor(labels), labelled)["balance"].tolist()


def labelled(labels: list[int]) -> Any:
    return type("Examples", (), {"labels": torch.tensor(labels)})


def test_label_counts_leave_as_multiples_so_that_none_follows_from_the_others() -> None:
    examples = labelled([0] * 12 + [1] * 7 + [2] * 2 + [3] * 3)
    assert [10, 5, 0, 0, 0] == bound_to("abcde").label_counts(examples).tolist()
    assert [] == bound_to("abcde", class_counts="own").label_counts(examples).tolist()
    assert [] == bound_to("abcde", class_weights="none", class_counts=None).label_counts(examples).tolist()


def test_class_weights_are_those_of_all_texts_together() -> None:
    assert pytest.approx([90 / (2 * 60), 90 / (2 * 30)]) == balance_of(bound_to("ab"), [60, 30], 90)
    assert pytest.approx([0.75**0.5, 1.5**0.5]) == balance_of(bound_to("ab", class_weights="root"), [60, 30], 90)
    assert pytest.approx([0.5, 2.0]) == balance_of(bound_to("ab", several=True), [60, 30], 90)


def test_where_too_few_were_told_of_a_site_s_own_labels_decide() -> None:
    bag = WeighedBag(8, 3, balanced=True)
    bag.load_state_dict({**bag.state_dict(), "balance": torch.tensor(balance_of(bound_to("abc"), [80, 5, 10], 95))})
    own = torch.tensor([7.0, 8.0, 9.0])
    assert pytest.approx([95 / 240, 8.0, 95 / 30]) == bag.class_weights(own).tolist()
    assert own.tolist() == WeighedBag(8, 3, balanced=True).class_weights(own).tolist()
    assert own.tolist() == WeighedBag(8, 3).class_weights(own).tolist()


def test_texts_whose_small_labels_stayed_at_a_site_count_as_of_all_classes() -> None:
    assert pytest.approx([100 / (2 * 75), 100 / (2 * 25)]) == balance_of(bound_to("ab"), [70, 20], 100)


def test_a_class_that_most_sites_kept_back_is_not_weighed_by_the_one_that_told() -> None:
    """Of 150 texts with it, ten were told: 12.6 would be their weight, and 4.8 what all have."""
    assert 0.0 == balance_of(bound_to("abc"), [10, 1000, 1000], 2150)[0]


def test_no_label_leaves_that_is_below_a_site_s_smallest_count() -> None:
    counts = torch.arange(40)
    told = rounded(counts, 5)
    assert [0] * 10 == torch.where(told >= 10, told, 0)[:10].tolist()
    assert bool((told <= counts).all())


@pytest.mark.parametrize("value", [-1.0, 1e-4, 2000.0])
def test_class_weights_that_no_counts_can_give_are_seen(value: float) -> None:
    task = bound_to("ab")
    honest = Weights({**Weights.of_model(task.model()), **task.weighed(counted([0] * 8), 90, counted([60, 30]), 90)})
    assert task.plausible(honest)
    assert not task.plausible(Weights({**honest, "balance": torch.tensor([1.0, value])}))


def test_sites_with_other_labels_train_with_the_same_class_weights() -> None:
    """What one site's update is depends on the labels of the others, unless each site weighs by its own."""
    skewed = {"partition": {"name": "dirichlet", "sites": SITES, "alpha": 0.3}}
    shared, own = (
        rehearsed(study({"name": "fedavg"}, task={"class_counts": counts}, **skewed)) for counts in ("all", "own")
    )
    balance = cast("Any", shared[SITES].message).weights["balance"]
    assert bool((balance > 0).any())
    assert "balance" not in cast("Any", own[SITES].message).weights
    labels = sum(cast("DocumentCounts", one.reply).labels for one in shared[:SITES])
    task = study({"name": "fedavg"}).task
    documents = sum(cast("DocumentCounts", one.reply).documents for one in shared[:SITES])
    assert torch.equal(balance, balance_by(cast("torch.Tensor", labels), documents, task))
    assert [0] * SITES == [len(cast("DocumentCounts", one.reply).labels) for one in own[:SITES]]


def test_a_run_in_which_nobody_tells_of_labels_says_so_and_weighs_by_each_site_s_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept: dict[str, Any] = {"layers": [{"name": "kept-back"}]}
    exact = {"rarest": 1}
    silent = run(study({"name": "fedavg"}, task=exact, **kept), tmp_path / "silent").metrics
    assert "no labels were told" in caplog.text
    own = study({"name": "fedavg"}, task={**exact, "class_counts": "own"})
    assert silent == run(own, tmp_path / "own").metrics
    assert silent != run(study({"name": "fedavg"}, task=exact), tmp_path / "all").metrics


@pytest.mark.parametrize("more", [{"weighting": "none"}, {"model": "lstm"}], ids=str)
def test_labels_of_all_sites_need_the_exchange_that_tells_them(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="class_counts"):
        Classification(tokens="words", class_counts="all", **more)

"""The task of bags: sentences to numbers, groups, losses and counts; sites with few or no bags."""

from pathlib import Path
from typing import Any

import pytest
import torch

from data import VECTORS, needs_vectors
from wardround.clinic.bags import ClinicBags
from wardround.core.weights import Layout
from wardround.federation.sites import opened
from wardround.models.pcnn import PCNN
from wardround.study.load import cells
from wardround.study.settings import StudyError
from wardround.tasks.bag_examples import Groups
from wardround.tasks.bags import Bags, BagsTask
from wardround.tasks.denoise import Denoiser
from wardround.text.document import Document, Entity
from wardround.text.facts import UNRELATED, Fact, number, sentence
from wardround.text.texts import Texts

DENOISERS: list[Denoiser] = ["one", "average", "attention", "relation-attention", "none"]
SMALL: dict[str, Any] = {"buckets": 64, "embedding": 6, "filters": 5}


def task(**settings: Any) -> BagsTask:
    return BagsTask(Bags(**{**SMALL, **settings}), (UNRELATED, "causes", "treats"))


def claim(text: str, relation: str, head: str = "D1", tail: str = "D9", expressed: bool | None = None) -> Document:
    """A sentence in which `X` is the head and `Y` the tail."""
    ends = (
        Entity(head, "drug", text.index("X"), text.index("X") + 1),
        Entity(tail, "problem", text.index("Y"), text.index("Y") + 1),
    )
    return sentence("s", text, *ends, relation, expressed=expressed)


ROWS = (
    claim("X gave her Y .", "causes", expressed=False),
    claim("X but no Y", UNRELATED, "D2", "D9", expressed=False),
    claim("Y due to X", "causes", expressed=True),
    claim("Y due to X", "treats", expressed=False),
)


def built(chosen: BagsTask) -> PCNN:
    torch.default_generator.manual_seed(0)
    model = chosen.model()
    assert isinstance(model, PCNN)
    return model


def test_groups_give_back_the_sentences_of_their_owners_in_order() -> None:
    groups = Groups(torch.tensor([1, 0, 1, 2, 0, 1]))
    rows, owner = groups.take(torch.tensor([2, 1]))
    assert ([3, 0, 2, 5], [0, 1, 1, 1]) == (rows.tolist(), owner.tolist())
    assert [1, 0, 3] == groups.first.tolist()
    assert [7, 9, 2] == groups.longest(torch.tensor([9, 7, 1, 2, 3, 4])).tolist()


def test_sentences_are_grouped_by_fact_and_by_pair() -> None:
    site = task().examples(Texts(ROWS))
    assert (3, 2, 3) == (len(site.bags), len(site.pairs), len(site))
    assert number(Fact("D1", "causes", "D9")) == int(site.facts[0])
    assert [[False, True, True], [True, False, False]] == site.truths.tolist()
    assert 4 == len(task(denoiser="none").examples(Texts(ROWS)))


def test_the_places_of_head_and_tail_are_those_of_their_tokens() -> None:
    site = task().examples(Texts(ROWS[:3:2]))
    assert ([0, 3], [3, 0]) == (site.numbers.heads.tolist(), site.numbers.tails.tolist())


def test_blind_to_names_two_pairs_of_the_same_types_read_alike() -> None:
    one, other = (
        sentence("s", text, Entity("D1", "drug", 0, 7), Entity("D9", "problem", 13, 13 + len(text) - 13), "causes")
        for text in ("Aspirin gave rash", "Codeine gave nausea")
    )
    for blind in (False, True):
        site = task(blind=blind, buckets=2**20).examples(Texts((one, other)))
        rows = site.numbers.tokens.padded(torch.arange(2)).tolist()
        assert blind == (rows[0] == rows[1])
        assert (rows[0][1], [0, 0], [2, 2]) == (rows[1][1], site.numbers.heads.tolist(), site.numbers.tails.tolist())


@pytest.mark.parametrize(("before", "between", "after"), [(50, 3, 50), (0, 3, 90), (90, 3, 0), (5, 60, 5), (0, 0, 0)])
def test_a_long_sentence_is_cut_around_its_entities(before: int, between: int, after: int) -> None:
    text = "a " * before + "X " + "b " * between + "Y" + " c" * after
    site = task(longest=20).examples(Texts((claim(text, "causes"),)))
    head, tail = int(site.numbers.heads[0]), int(site.numbers.tails[0])
    count = before + between + after + 2
    assert (min(count, 20), int(count > 20)) == (int(site.numbers.tokens.lengths[0]), site.numbers.shortened)
    assert 0 <= head < min(tail, 20) <= 20
    assert tail - head == min(between + 1, 19 - head)


@pytest.mark.parametrize("denoiser", DENOISERS)
def test_batches_cover_every_example_once_and_the_loss_falls(denoiser: Denoiser) -> None:
    chosen = task(denoiser=denoiser)
    site, model = chosen.examples(Texts(ROWS)), built(chosen)
    rng = torch.Generator().manual_seed(0)
    assert len(site) == sum(len(batch) for batch in chosen.batches(site, 2, rng))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(30):
        (batch,) = chosen.batches(site, 0, None)
        loss = chosen.loss(model, batch)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("denoiser", DENOISERS)
def test_counts_are_what_the_layout_says_and_add_up_to_all_predictions(denoiser: Denoiser) -> None:
    chosen = task(denoiser=denoiser)
    site, model = chosen.examples(Texts(ROWS)), built(chosen).eval()
    counts = chosen.count(model, site)
    assert chosen.counts() == Layout((name, tuple(value.shape)) for name, value in counts.items())
    assert (2, 2) == (int(counts["facts"]), int(counts["right"].sum()))
    assert 2 == int(counts["wrong"].sum())  # two pairs, two relations, two facts
    assert {"pr_auc", "max_f1", "expressed", "loss", "examples"} == set(chosen.metrics(counts))


def test_a_count_of_two_sites_is_the_count_of_both_together() -> None:
    chosen = task()
    model = built(chosen).eval()
    whole = chosen.count(model, chosen.examples(Texts(ROWS)))
    one, other = (chosen.count(model, chosen.examples(Texts(rows))) for rows in ((ROWS[1],), (ROWS[0], *ROWS[2:])))
    for name, value in whole.items():
        torch.testing.assert_close(value, one[name] + other[name])


@pytest.mark.parametrize("denoiser", DENOISERS)
def test_a_site_with_no_bags_counts_nothing_and_has_nothing_to_choose(denoiser: Denoiser) -> None:
    chosen = task(denoiser=denoiser)
    site, model = chosen.examples(Texts(())), built(chosen).eval()
    assert 0 == len(site)
    assert all(not value.any() for value in chosen.count(model, site).values())
    assert [0, 0, 0] == [len(part) for part in chosen.surest(model, site)]
    assert 0 == len(chosen.only(site, torch.empty(0, dtype=torch.int64)))


def test_the_surest_sentence_of_each_fact_is_found_with_its_probability() -> None:
    chosen = task()
    site, model = chosen.examples(Texts(ROWS)), built(chosen).eval()
    actual = chosen.surest(model, site)
    (batch,) = task(denoiser="none").batches(task(denoiser="none").examples(Texts(ROWS)), 0, None)
    each = torch.zeros(4)
    order = torch.argsort(site.numbers.tokens.lengths, stable=True)
    each[order] = model(*batch.inputs).softmax(1)[torch.arange(4), batch.labels].detach()
    best = 0 if each[0] >= each[2] else 2
    assert [best, 1, 3] == actual.rows.tolist()
    torch.testing.assert_close(each[[best, 1, 3]], actual.scores)


def test_chosen_sentences_are_trained_on_one_by_one() -> None:
    chosen = task()
    site = chosen.examples(Texts(ROWS))
    alone = chosen.only(site, torch.tensor([2, 1]))
    (batch,) = chosen.batches(alone, 0, None)
    assert 2 == len(alone) == len(batch)
    assert sorted(site.numbers.relations[[2, 1]].tolist()) == sorted(batch.labels.tolist())
    assert (1.0, 1.0) == chosen.expressed(site, torch.tensor([2, 1]))  # NA claims nothing
    assert (3.0, 1.0) == chosen.expressed(site, torch.tensor([0, 1, 2, 3]))


def test_where_nobody_knows_the_truth_there_is_no_such_figure() -> None:
    chosen = task()
    site = chosen.examples(Texts((claim("X gave Y", "causes"),)))
    assert "expressed" not in chosen.metrics(chosen.count(built(chosen).eval(), site))


@needs_vectors
def test_words_of_a_vector_file_stay_as_they_are() -> None:
    chosen = task(vectors=str(VECTORS / "glove-100d.npz"))
    model = built(chosen)
    assert not model.words.weight.requires_grad
    assert built(task(vectors=str(VECTORS / "glove-100d.npz"), train_vectors=True)).words.weight.requires_grad


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        ("X gave her a bad rash and Y {}", {"vectors": True}, r"100 % of the tokens are not in the vectors.*\(en\)"),
        ("咳嗽三天X还有发热Y头痛两周{}", {}, r'without spaces \(zh\).*"characters" or "jieba"'),
    ],
    ids=["vectors of another language", "Chinese by words"],
)
def test_words_that_nothing_can_be_learnt_from_are_refused(
    text: str, settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    (tmp_path / "vectors.txt").write_text("fièvre 1 0\ntoux 0 1\n", encoding="utf-8")
    chosen = {key: str(tmp_path / "vectors.txt") for key in settings}
    rows = Texts(tuple(claim(text.format(n), "causes") for n in range(30)))
    with pytest.raises(ValueError, match=message):
        task(**chosen).refuse([rows])
    task(tokens="characters").refuse([rows])


def test_other_corpora_are_refused_with_a_remedy() -> None:
    with pytest.raises(ValueError, match="needs a corpus of bags with NA"):
        BagsTask(Bags(), ("cardiology", "neurology"))
    with pytest.raises(TypeError, match="reads corpora of bags"):
        task().examples(Texts((Document("d", "x", ("causes",)),)))
    with pytest.raises(ValueError, match="train_vectors needs a file"):
        Bags(train_vectors=True)


def test_a_study_of_lazy_mil_on_another_task_is_refused(tmp_path: Path) -> None:
    from wardround.runs.build import build  # noqa: PLC0415 -- the one test that builds

    tables = {"name": "x", "rounds": 1, "method": {"name": "lazy-mil"}, "task": {"name": "features"},
              "corpus": {"name": "synthetic", "sites": 2, "largest": 20}}  # fmt: skip
    with pytest.raises(StudyError, match='set name = "bags" in'):
        build(cells(tables)[0].study, tmp_path)


def test_the_task_binds_to_a_corpus_of_bags() -> None:
    corpus = opened(ClinicBags(hospitals=1, sentences=5, test_sentences=5))
    bound = Bags().bind(corpus)
    assert (UNRELATED, "may_cause", "may_treat", "presents_with", "reveals") == bound.labels
    assert {"classes": 5} == bound.sizes()


def test_sentences_without_blanks_are_cut_into_characters_unless_an_encoder_cuts_them() -> None:
    assert {"tokens": "characters"} == Bags().suited("zh", spaced=False)
    assert {"tokens": "words"} == Bags().suited("zh", spaced=True)
    for settled in (Bags(tokens="words"), Bags(model="encoder")):
        assert {} == settled.suited("zh", spaced=False)

"""Lazy MIL: the oracle's choices through real rounds, each site told of its own alone, and what the choice is worth."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import oracle
from quadratic import LANDS, Trial
from wardround.core.codec import DecodeError, decode
from wardround.core.weights import Weights
from wardround.methods.fedavg import FedAvg
from wardround.methods.lazy_mil import Chosen, LazyMIL, Scores, chosen
from wardround.models.pcnn import PCNN
from wardround.runs.loop import run
from wardround.runs.protocol import rehearsal
from wardround.study.load import cells
from wardround.tasks.bag_examples import BagExamples, Numbers
from wardround.tasks.bags import Bags, BagsTask
from wardround.text.document import Entity
from wardround.text.facts import BagSentence, Fact, number, sentence
from wardround.text.texts import Texts

SMALL = Bags(buckets=64, embedding=4, filters=2)


class Told(BagsTask):
    """Sentences whose scores are given: row 7 of the table is those of the sentence whose head stands at 7."""

    table: Tensor

    def model(self) -> PCNN:
        made: PCNN = super().model().double()
        made.classifier.weight = nn.Parameter(torch.eye(*made.classifier.weight.shape).double())
        made.classifier.bias = nn.Parameter(torch.zeros(len(self.labels)).double())
        return made

    def _encoded(self, model: PCNN, numbers: Numbers) -> Tensor:
        wide = model.classifier.in_features
        given = self.table[numbers.heads]
        return torch.cat([given, given.new_zeros(len(given), wide - given.shape[1])], 1)


def sentence_of(fact: Fact, at: int = 0) -> BagSentence:
    ends = Entity(fact.head, "x", 0, 1), Entity(fact.tail, "y", 2, 3)
    return sentence(str(at), "X Y", *ends, fact.relation)


def platforms(case: oracle.Case) -> tuple[Told, dict[str, BagExamples], dict[str, list[str]]]:
    """The task, the active sites in the order of activation, and the fact of each of their sentences."""
    given = case["inputs"]
    task = Told(SMALL, ("NA", *(f"r{index}" for index in range(1, given["num_relations"]))))
    logits: list[list[float]] = []
    sites, keys = {}, {}
    for place, platform in enumerate(given["active"]):
        rows, first, mine = [], len(logits), []
        for bag in given["platforms"][platform]:
            head, relation, tail = bag["triple"]
            logits += bag["logits"]
            rows += [sentence_of(Fact(head, task.labels[relation], tail)) for _ in bag["logits"]]
            mine += [f"{head}|{relation}|{tail}"] * len(bag["logits"])
        found = task.examples(Texts(tuple(rows)))
        heads = torch.arange(first, len(logits))
        sites[f"{place}-{platform}"] = replace(found, numbers=replace(found.numbers, heads=heads))
        keys[f"{place}-{platform}"] = mine
    object.__setattr__(task, "table", torch.tensor(logits, dtype=torch.float64))
    return task, sites, keys


@pytest.mark.parametrize("case", oracle.params("lazy_mil"))
def test_oracle_lazy_mil(case: oracle.Case, tmp_path: Path) -> None:
    """What is uploaded and what each site is told to train on."""
    task, sites, keys = platforms(case)
    trial = Trial(LazyMIL(**LANDS), task, sites, Weights.of_model(task.model()), tmp_path)
    trial.round()
    count = len(sites)
    uploads = {}
    for name, seen in zip(sorted(sites), trial.seen[:count], strict=True):
        told = seen.reply
        assert isinstance(told, Scores)
        for value, row in zip(told.scores.tolist(), told.rows.tolist(), strict=True):
            key = keys[name][row]
            uploads[int(name.partition("-")[2]), key] = (value, row - keys[name].index(key))
    expected = {(up["platform"], up["triple"]): up for up in case["expected"]["uploads"]}
    assert expected.keys() == uploads.keys()
    for key, (value, index) in uploads.items():
        assert expected[key]["value"] == pytest.approx(value, abs=1e-9)
        assert expected[key]["index"] == index
    for name, seen in zip(sorted(sites), trial.seen[count:], strict=True):
        assert isinstance(seen.message, Chosen)
        mine = {(keys[name][row], row - keys[name].index(keys[name][row])) for row in seen.message.rows.tolist()}
        assert {tuple(row) for row in case["expected"]["selected"][name.partition("-")[2]]} == mine


def scores(facts: list[int], values: list[float], rows: list[int]) -> Scores:
    return Scores(torch.tensor(facts, dtype=torch.int64), torch.tensor(values), torch.tensor(rows, dtype=torch.int64))


def test_each_site_is_told_of_its_own_sentences_alone_and_each_fact_is_chosen_once() -> None:
    told = {"a": scores([5, 9], [0.4, 0.2], [0, 3]), "b": scores([], [], []), "c": scores([9, 7], [0.3, 0.1], [8, 1])}
    assert {"a": [0], "b": [], "c": [8, 1]} == {name: rows.tolist() for name, rows in chosen(told).items()}


def test_of_equals_the_first_site_by_name_is_chosen_however_replies_come_in(tmp_path: Path) -> None:
    rows = Texts((sentence_of(Fact("h", "r1", "t")),))
    task = BagsTask(SMALL, ("NA", "r1"))
    sites = {name: task.examples(rows) for name in ("b", "a", "c")}
    start = Weights.of_model(task.model())
    for backwards in (False, True):
        trial = Trial(LazyMIL(**LANDS), task, sites, start, tmp_path / str(backwards), backwards=backwards)
        trial.round()
        messages = [seen.message for seen in trial.seen if isinstance(seen.message, Chosen)]
        assert [1, 0, 0] == [len(message.rows) for message in messages]


def test_a_site_with_nothing_chosen_changes_nothing_and_counts_in_the_mean(tmp_path: Path) -> None:
    """Eq. 5: two sites, of which one keeps the shared model, go half as far as one."""
    task = BagsTask(SMALL, ("NA", "r1"))
    one = task.examples(Texts((sentence_of(Fact("h", "r1", "t")),)))
    start = Weights.of_model(task.model())
    alone = Trial(LazyMIL(**LANDS), task, {"a": one}, start, tmp_path / "alone").round()
    both = Trial(LazyMIL(**LANDS), task, {"a": one, "b": one}, start, tmp_path / "both")
    half = both.round()
    torch.testing.assert_close((alone.weights - start).flat / 2, (half.weights - start).flat)
    assert not both.replies["b"].change.flat.any()


def test_while_warming_up_each_site_keeps_its_own_surest_sentences(tmp_path: Path) -> None:
    task = BagsTask(SMALL, ("NA", "r1"))
    one = task.examples(Texts((sentence_of(Fact("h", "r1", "t")),)))
    trial = Trial(LazyMIL(**LANDS, warm=1), task, {"a": one, "b": one}, Weights.of_model(task.model()), tmp_path)
    trial.round()
    trial.round()
    messages = [seen.message for seen in trial.seen if isinstance(seen.message, Chosen)]
    assert [1, 1, 1, 0] == [len(message.rows) for message in messages]


def test_sites_without_any_sentence_take_part_without_harm(tmp_path: Path) -> None:
    task = BagsTask(SMALL, ("NA", "r1"))
    sites = {"a": task.examples(Texts(())), "b": task.examples(Texts(()))}
    start = Weights.of_model(task.model())
    assert start == Trial(LazyMIL(**LANDS), task, sites, start, tmp_path).round().weights


def test_at_a_single_site_one_full_step_is_that_of_the_surest_sentence_in_fedavg(tmp_path: Path) -> None:
    task = BagsTask(SMALL, ("NA", "r1"))
    rows = [
        sentence("s", f"X {word} Y", Entity(head, "x", 0, 1), Entity("t", "y", 3 + len(word), 4 + len(word)), relation)
        for head, relation, word in (
            ("h", "r1", "helps"),
            ("h", "r1", "and"),
            ("g", "NA", "or"),
            ("h", "r1", "without"),
        )
    ]
    sites = {"a": task.examples(Texts(tuple(rows)))}
    torch.default_generator.manual_seed(3)
    start = Weights.of_model(task.model())
    lazy = Trial(LazyMIL(**LANDS), task, sites, start, tmp_path / "lazy").round()
    plain = Trial(FedAvg(**LANDS), task, sites, start, tmp_path / "plain").round()
    torch.testing.assert_close(lazy.weights.flat, plain.weights.flat)


@pytest.mark.parametrize("values", [[0.5, 1.5], [-0.1, 0.2], [float("nan"), 0.5]])
def test_scores_that_are_no_probabilities_cannot_be_made_or_read(values: list[float]) -> None:
    with pytest.raises(ValueError, match="probabilities"):
        scores([1, 2], values, [0, 1])


def test_scores_of_other_lengths_are_refused_on_arrival() -> None:
    good = scores([1, 2], [0.5, 0.25], [0, 1])
    assert good == decode(Scores, good.encode())
    bad = good.encode().replace(b'"shape":[2]', b'"shape":[1]', 1)
    with pytest.raises(DecodeError):
        decode(Scores, bad)
    with pytest.raises(ValueError, match="as many"):
        scores([1, 2], [0.5], [0, 1])


def test_what_a_site_sends_is_in_the_order_of_public_numbers(tmp_path: Path) -> None:
    task = BagsTask(SMALL, ("NA", "r1"))
    facts = [Fact(head, "r1", "t") for head in "abcdefgh"]
    sites = {"a": task.examples(Texts(tuple(map(sentence_of, facts))))}
    trial = Trial(LazyMIL(**LANDS), task, sites, Weights.of_model(task.model()), tmp_path)
    trial.round()
    assert sorted(map(number, facts)) == trial.seen[0].reply.facts.tolist()  # type: ignore[attr-defined]


def test_on_generated_texts_a_run_tells_how_much_of_what_was_chosen_is_true(tmp_path: Path) -> None:
    """By round, over the sites that took part; the baselines tell it of what they look at."""
    base: dict[str, Any] = {
        "name": "said", "rounds": 2, **rehearsal("bags"), "sites": {"fraction": 0.67},
        "evaluation": {"splits": ["test", "train"]},
    }  # fmt: skip
    results = {}
    for method, denoiser in (("lazy-mil", "one"), ("fedavg", "none"), ("fedavg", "one"), ("fedavg", "attention")):
        tables = {**base, "method": {"name": method}, "task": {**base["task"], "denoiser": denoiser}}
        out = tmp_path / f"{method}-{denoiser}"
        run(cells(tables)[0].study, out)
        lines = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
        results[method, denoiser] = [line["metrics"]["train_expressed"] for line in lines]
    every = results["fedavg", "none"]
    assert every[0] == every[1] == pytest.approx(0.6, abs=0.15)  # the share that the clinic was asked for
    assert all(0 < value < 1 for told in results.values() for value in told)
    assert results["lazy-mil", "one"] != results["fedavg", "one"]

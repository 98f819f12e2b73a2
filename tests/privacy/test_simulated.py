"""Differential privacy in a simulation: the same bits again, a journal per site, and what would leak is refused."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from wardround.core.bench import Bench
from wardround.core.exchange import Exchange
from wardround.core.method import Global
from wardround.core.private_steps import Look
from wardround.federation.sites import federate, opened
from wardround.layers.ledger import lines
from wardround.methods import METHODS
from wardround.methods.fedatt import Attended, Bounded
from wardround.methods.fedavg import Update
from wardround.methods.fedsgd import Gradient
from wardround.privacy.accounting import noise_for
from wardround.privacy.journal import Allowance, BudgetJournal, Entry, Overspent, spent_in
from wardround.runs.build import build
from wardround.runs.errors import RunError
from wardround.runs.files import INTERVALS
from wardround.runs.loop import run
from wardround.runs.protocol import rehearsal
from wardround.study.load import Study, cells
from wardround.study.settings import StudyError
from wardround.tasks.entities import EntitiesTask
from wardround.tasks.features import FeaturesTask
from wardround.trained.about import ModelError
from wardround.trained.assemble import assembled_run

DP: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-3, "unit": "example", "clip": 1.0}
ROWS = {"name": "synthetic", "sites": 3, "features": 6, "classes": 3, "largest": 60}


def study_of(dp: Mapping[str, Any] = DP, method: Mapping[str, Any] | None = None, **tables: Any) -> Study:
    whole = {
        "name": "s", "rounds": 2, "method": {"name": "fedavg", "batch": 10, "lr": 0.3, **(method or {})},
        "task": {"name": "features"}, "corpus": ROWS, "privacy": {"dp": dict(dp)},
    }  # fmt: skip
    return cells({**whole, **tables})[0].study


def weights(folder: Path) -> bytes:
    return (folder / "model" / "weights.safetensors").read_bytes()


def problems(study: Study, folder: Path) -> str:
    with pytest.raises(StudyError) as caught:
        build(study, folder)
    return "\n".join(caught.value.problems)


def test_the_same_seed_gives_the_same_bits_in_one_process_and_in_two(tmp_path: Path) -> None:
    run(study_of(), tmp_path / "one", strict=True)
    run(study_of(), tmp_path / "two", workers=2)
    assert weights(tmp_path / "one") == weights(tmp_path / "two")


def test_sites_that_workers_take_in_turn_have_the_journals_of_one_process(tmp_path: Path) -> None:
    study = study_of(rounds=8, corpus={**ROWS, "sites": 5, "largest": 400})
    for workers in (1, 2):
        run(study, tmp_path / str(workers), workers=workers)
    one, two = ({path.name: spent_in(path) for path in (tmp_path / n / "budget").iterdir()} for n in "12")
    assert one == two


def test_each_site_has_a_journal_and_a_repetition_adds_nothing_to_it(tmp_path: Path) -> None:
    study = study_of()
    run(study, tmp_path, checkpoint_seconds=0.0)
    before = {path.name: list(lines(path)) for path in (tmp_path / "budget").iterdir()}
    assert 3 == len(before)
    assert {("train", "test")} == {tuple(dict.fromkeys(line["kind"] for line in mine)) for mine in before.values()}
    newest = max((tmp_path / "checkpoints").iterdir(), key=lambda path: path.stat().st_mtime)
    newest.unlink()
    (tmp_path / "metrics.json").unlink()
    run(study, tmp_path, resume=True)
    assert before == {path.name: list(lines(path)) for path in (tmp_path / "budget").iterdir()}


def test_the_noise_is_for_so_many_rounds_and_a_run_does_not_go_on_for_more(tmp_path: Path) -> None:
    run(study_of(rounds=1), tmp_path)
    with pytest.raises(RunError, match=r"the noise of privacy\.dp was found for rounds = 1, and it cannot go on"):
        run(study_of(rounds=3), tmp_path, resume=True)


def test_a_look_by_another_plan_is_refused_where_both_together_cost_more(tmp_path: Path) -> None:
    """Whoever edits the terms of a run under way cannot have its patients pay for both."""
    noise = noise_for(2.0, 1e-3, 0.5, 10)
    entry = Entry("s", "study", "run", "a", Look("train", noise, 0.5, 10), 3, 2.0, 1e-3, 0.0, "example")
    journal = BudgetJournal(tmp_path / "budget.jsonl", Allowance(2.0, 1e-3))
    journal.spend(entry)
    with pytest.raises(Overspent, match="another plan"):
        journal.spend(replace(entry, key="b", look=Look("train", 1.5 * noise, 0.5, 10)))
    assert 1 == len([*lines(tmp_path / "budget.jsonl")])


def test_less_epsilon_is_more_noise(tmp_path: Path) -> None:
    lengths = []
    for epsilon in (1.0, 100.0):
        built = build(study_of({**DP, "epsilon": epsilon}), tmp_path)
        guards = built.host.guards
        assert guards is not None
        data = built.sites.open(built.sites.names[0])
        lengths.append(guards.plan("s", data.units).noise)  # type: ignore[attr-defined]  # Guards
    assert lengths[0] > 4 * lengths[1]


KINDS = {entry.place: name for name, entry in reversed(METHODS.items())}  # of several names, the first


@pytest.mark.parametrize("name", sorted(KINDS.values()))
def test_every_method_runs_with_noise_or_is_refused_with_its_reason(name: str, tmp_path: Path) -> None:
    kind = METHODS[name].kind
    tables = rehearsal(kind.rehearsal)
    public = {"public": {"fraction": 0.3}} if kind.public else {}
    task = {**tables["task"], **({"class_weights": "none"} if tables["task"]["name"] == "classification" else {})}
    batch = {"batch": 5} if hasattr(kind, "batch") else {}
    whole = {"name": "s", "rounds": 1, "method": {"name": name, **batch}, **tables, **public, "task": task}
    study = cells({**whole, "privacy": {"dp": {**DP, "evaluation": "outside"}}})[0].study
    if beyond := vars(kind).get("beyond_training"):
        assert beyond in problems(study, tmp_path)
        return
    run(study, tmp_path)
    journals = list((tmp_path / "budget").iterdir()) if name != "public" else []
    assert name == "public" or journals
    assert all(BudgetJournal(path).spent[0] <= DP["epsilon"] * (1 + 1e-9) for path in journals)


@pytest.mark.parametrize(
    ("method", "private", "kinds"),
    [
        ({"name": "ditto"}, [], ["train", "train", "test"]),
        ({"name": "fedrep", "head_epochs": 3}, ["linear"], ["train", "train", "test"]),
        ({"name": "finetune", "own_epochs": 2}, [], ["train", "train", "train", "test"]),
        ({"name": "fedsgd", "batch": 7}, [], ["train", "train", "test"]),
    ],
    ids=["ditto", "fedrep", "finetune", "fedsgd"],
)
def test_all_trainings_of_a_run_together_cost_what_it_may_and_hardly_less(
    method: dict[str, Any], private: list[str], kinds: list[str], tmp_path: Path
) -> None:
    study = study_of(method=method, sites={"private": private}, evaluation={"every": 2})
    run(study, tmp_path)
    path = next((tmp_path / "budget").iterdir())
    assert kinds == [line["kind"] for line in lines(path)]
    assert 0.97 * DP["epsilon"] <= BudgetJournal(path).spent[0] <= DP["epsilon"]


def test_a_gradient_of_all_notes_is_clipped_and_noised_once(tmp_path: Path) -> None:
    """With little noise on many notes and a clip that nobody feels, what is left is FedSGD's own."""
    replies: list[Any] = []
    rows = {**ROWS, "largest": 600}
    for privacy in ({"dp": {**DP, "epsilon": 100.0, "clip": 10.0}}, {}):
        built = build(study_of(method={"name": "fedsgd"}, privacy=privacy, corpus=rows), tmp_path / str(len(replies)))
        replies.append(built.host.answer(built.sites.names[0], Exchange("grade", 1, 1, 0, 0), Global(built.weights)))
    noisy, plain = (cast("Gradient", reply) for reply in replies)
    assert plain.examples == pytest.approx(noisy.examples, abs=1)
    assert torch.allclose(plain.gradient.flat, noisy.gradient.flat, atol=0.01 * float(plain.gradient.flat.norm()))
    bare, other = plain.gradient.flat.double(), noisy.gradient.flat.double()
    noise = other - bare * (other @ bare) / (bare @ bare)  # what no other number of examples explains
    assert 1e-4 < float(noise.norm() / bare.norm())


def test_a_site_that_is_asked_again_within_a_round_trains_once(tmp_path: Path) -> None:
    """FedAtt asks again, with the same weights, where distances lie beyond the shift that was agreed before."""
    study = study_of(method={"name": "fedatt", "lr": 20.0}, rounds=1)
    built = build(study, tmp_path)
    name = built.sites.names[0]
    replies = [
        built.host.answer(
            name, Exchange("fit", 1, number, 0, 0), Bounded(built.weights, torch.full((2,), bound).double())
        )
        for number, bound in ((1, 0.0), (2, 5.0))
    ]
    assert isinstance(replies[0], Attended)
    assert isinstance(replies[1], Attended)
    assert torch.equal(replies[0].distance, replies[1].distance)
    assert not torch.equal(replies[0].attention, replies[1].attention)
    assert 1 == len([*lines(next((tmp_path / "budget").iterdir()))])


@pytest.mark.parametrize(
    "method", [{"optimizer": "adam", "moments": "kept", "lr": 0.05}, {"name": "ditto"}], ids=["moments", "own model"]
)
def test_the_same_question_on_another_memory_has_other_noise_and_is_paid_for(
    method: dict[str, Any], tmp_path: Path
) -> None:
    """Under the same noise, two answers would differ by what the notes alone say."""
    study = study_of(method=method, rounds=4)
    built = build(study, tmp_path)
    name = built.sites.names[0]
    model = Global(built.weights)

    def drawn(round_: int, *resumed: int) -> list[str]:
        assert isinstance(built.host.answer(name, Exchange("fit", round_, 1, 0, 0, resumed), model), Update)
        return [line["key"] for line in lines(next((tmp_path / "budget").iterdir()))]

    drawn(1)
    before = drawn(2)
    assert before == drawn(2)
    assert before == drawn(2, 1)  # after a crash
    built.host.undo(name, Exchange("fit", 1, 1, 0, 0))
    assert len(before) + 1 == len(drawn(2, 1, 1))


def test_a_second_training_in_an_exchange_is_paid_for(tmp_path: Path) -> None:
    built = build(study_of(), tmp_path)
    method, site = built.study.method, built.host.site(built.sites.names[0], Exchange("fit", 1, 1, 0, 0))
    for _ in range(2):
        method.train(site, built.weights)  # type: ignore[attr-defined]  # FedAvg's
    assert 2 == len({line["key"] for line in lines(next((tmp_path / "budget").iterdir()))})


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no ε": ({"epsilon": 0.0}, "privacy.dp.epsilon = 0.0"),
    "negative ε": ({"epsilon": -1.0}, "privacy.dp.epsilon = -1.0"),
    "no clip": ({"clip": 0.0}, "privacy.dp.clip = 0.0"),
    "δ of 1": ({"delta": 1.0}, "privacy.dp.delta = 1.0"),
    "another unit": ({"unit": "ward"}, "privacy.dp.unit"),
    "a key that is none": ({"epsilom": 1.0}, "did you mean 'epsilon'?"),
}


@pytest.mark.parametrize("name", BAD)
def test_wrong_settings_are_named(name: str) -> None:
    changes, words = BAD[name]
    with pytest.raises(StudyError, match=words.replace(".", r"\.").replace("?", r"\?")):
        study_of({**DP, **changes})


def test_delta_must_be_below_one_over_the_number_of_units(tmp_path: Path) -> None:
    assert "not below one over the number of examples" in problems(study_of({**DP, "delta": 0.2}), tmp_path)


def test_a_batch_larger_than_a_site_is_refused(tmp_path: Path) -> None:
    assert "method.batch = 5000 is more than the examples at" in problems(study_of(method={"batch": 5000}), tmp_path)


def test_patients_must_be_named_and_whole(tmp_path: Path) -> None:
    corpus = {"format": "csv", "train": "train.csv", "test": "test.csv", "labels": ["a", "b"]}
    task = {"name": "classification", "tokens": "words", "buckets": 50, "class_weights": "none"}
    rows = [(f"rash {n}", "ab"[n % 2], f"p{n % 12}") for n in range(60)]

    def write(name: str, rows: list[tuple[str, str, str]], *, patients: bool = True) -> None:
        text = "text,label,patient\n" if patients else "text,label\n"
        text += "".join(",".join(row if patients else row[:2]) + "\n" for row in rows)
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")

    def opened() -> Study:
        whole = {"name": "s", "rounds": 1, "method": {"name": "fedavg", "batch": 5}, "corpus": corpus, "task": task}
        whole["privacy"] = {"dp": {**DP, "unit": "patient"}}
        return cells(whole, folder=tmp_path)[0].study

    write("train", rows, patients=False)
    write("test", [("rash x", "a", "q")])
    assert "60 of 60 train examples" in problems(opened(), tmp_path)
    write("train", [*rows, ("rash y", "a", "")])
    assert "1 of 61 train examples" in problems(opened(), tmp_path)
    write("train", rows)
    write("test", [("rash x", "a", "p3")])
    assert "1 patients" in problems(opened(), tmp_path)
    write("test", [("rash x", "a", "q")])
    sites = build(opened(), tmp_path).sites
    units = sites.open(sites.names[0]).units
    assert units is not None
    assert (12, 60) == (units.count, int(units.sizes.sum()))


def test_what_follows_from_label_counts_is_refused(tmp_path: Path) -> None:
    task = {"name": "classification", "tokens": "words", "buckets": 50, "class_weights": "root"}
    corpus = {"name": "clinic", "hospitals": 1, "documents": 30, "test_documents": 5}
    assert 'set task.class_weights = "none"' in problems(study_of(task=task, corpus=corpus), tmp_path)


@pytest.mark.parametrize("method", ["fedavg", "local"])
def test_what_follows_from_document_counts_is_refused_by_the_setting_to_change(method: str, tmp_path: Path) -> None:
    task = {"name": "classification", "tokens": "words", "buckets": 50, "weighting": "documents"}
    corpus = {"name": "clinic", "hospitals": 1, "documents": 30, "test_documents": 5}
    refused = problems(study_of(method={"name": method}, task=task, corpus=corpus), tmp_path)
    assert 'set task.weighting = "none"' in refused
    assert "choose another" not in refused


def test_training_notes_are_not_counted(tmp_path: Path) -> None:
    assert "evaluation.splits has 'train'" in problems(study_of(evaluation={"splits": ["train"]}), tmp_path)


def test_a_method_of_ones_own_must_say_what_its_replies_are_made_of(tmp_path: Path) -> None:
    (tmp_path / "own_method.py").write_text(
        "from dataclasses import dataclass\nfrom wardround.methods.fedavg import FedAvg\n"
        "@dataclass(frozen=True, kw_only=True)\nclass Own(FedAvg):\n    '''Mine.'''\n",
        encoding="utf-8",
    )
    whole = {"name": "s", "rounds": 1, "method": {"name": "own_method:Own"}, "task": {"name": "features"}}
    study = cells({**whole, "corpus": ROWS, "privacy": {"dp": DP}}, folder=tmp_path)[0].study
    assert "say beyond_training" in problems(study, tmp_path)


@pytest.mark.parametrize("unit", ["example", "document"])
def test_a_task_of_ones_own_must_say_of_which_text_each_example_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: str
) -> None:
    """Else a text's examples would be clipped with others', and no whole text be protected."""
    monkeypatch.setattr(EntitiesTask, "homes", lambda _, texts: range(len(texts)))  # as if none were cut
    texts = {"name": "clinic", "hospitals": 2, "documents": 30, "test_documents": 10}
    task = {"name": "tagging", "model": "cnn-crf", "buckets": 256, "embedding": 8, "filters": 12}
    study = study_of({**DP, "unit": unit}, task=task, corpus=texts)
    assert "have its `homes` say it of each" in problems(study, tmp_path)


@pytest.mark.parametrize("kept", [True, False])
def test_a_model_with_batch_statistics_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    norm = torch.nn.BatchNorm1d(6, track_running_stats=kept)
    monkeypatch.setattr(FeaturesTask, "model", lambda _: torch.nn.Sequential(norm, torch.nn.Linear(6, 3)))
    assert "use layer normalisation" in problems(study_of(), tmp_path)


class Centring(torch.nn.Module):
    """Takes from each input a mean of those before it, which it keeps where it is told to."""

    def __init__(self, where: str, features: int) -> None:
        super().__init__()
        self.linear, self.where, self.hidden = torch.nn.Linear(features, 3), where, torch.zeros(features)
        self.register_buffer("mean", torch.zeros(features))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Scores (B, classes)."""
        kept = getattr(self, self.where)
        if self.training:
            kept.mul_(0.9).add_(inputs.detach().mean(0), alpha=0.1)
        return self.linear(inputs - (self.hidden if self.where == "hidden" else 0.0))  # type: ignore[no-any-return]


@pytest.mark.parametrize(("where", "features"), [("mean", 7), ("hidden", 8)])  # no other test's task: a bench is kept
def test_a_model_that_keeps_something_of_the_notes_beside_its_weights_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, features: int
) -> None:
    """What it keeps of one is in the gradients of all that come after it, or in what is told of test notes."""
    monkeypatch.setattr(FeaturesTask, "model", lambda _: Centring(where, features))
    study = study_of(corpus={**ROWS, "features": features})
    assert "the model keeps something of the texts" in problems(study, tmp_path)


def test_a_bench_refuses_batch_statistics() -> None:
    with pytest.raises(ValueError, match="use layer normalisation"):
        Bench(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)))


def test_a_run_whose_trials_are_trainings_ends_with_what_it_has_paid_for(tmp_path: Path) -> None:
    """Intervals over documents would try each site's model once more."""
    texts = {"name": "clinic", "hospitals": 2, "documents": 30, "test_documents": 10}
    dp = {**DP, "unit": "document", "evaluation": "outside"}
    task = {"name": "tagging", "model": "cnn-crf", "buckets": 256, "embedding": 8, "filters": 12}
    run(study_of(dp, {"name": "finetune"}, rounds=1, task=task, corpus=texts), tmp_path)
    assert {2} == {len(list(lines(path))) for path in (tmp_path / "budget").iterdir()}
    assert "answers" == cast("Any", INTERVALS.read(tmp_path)).way


def test_a_sites_own_model_costs_no_look_and_tells_of_no_test_notes(tmp_path: Path) -> None:
    for name in ("ditto", "finetune"):
        run(study_of(method={"name": name}), tmp_path / name)
    before = [list(lines(path)) for path in sorted((tmp_path / "ditto" / "budget").iterdir())]
    assembled_run(tmp_path / "ditto", "site-01", tmp_path / "own")
    card = (tmp_path / "own" / "README.md").read_text()
    assert before == [list(lines(path)) for path in sorted((tmp_path / "ditto" / "budget").iterdir())]
    assert (True, False) == ("they would tell of the test notes" in card, "| accuracy |" in card)
    with pytest.raises(ModelError, match="to train on the notes once more, which nobody has paid for; use the shared"):
        assembled_run(tmp_path / "finetune", "site-01", tmp_path / "other")


def own_files(folder: Path, valid: str = "valid") -> dict[str, Any]:
    """A classification corpus of twenty patients to train on, three notes each; the other splits are others'."""
    for split, patients in {"train": 20, "test": 10, valid: 10}.items():
        rows = (f"rash {n},{'ab'[n % 2]},{split}{n % patients}\n" for n in range(3 * patients))
        (folder / f"{split}.csv").write_text("text,label,patient\n" + "".join(rows), encoding="utf-8")
    files = {split: str(folder / f"{split}.csv") for split in ("train", "test", "valid")}
    return {"format": "csv", "patient": "patient", "language": "en", **files}


@pytest.mark.parametrize(("unit", "torn"), [("patient", False), ("document", True)])
def test_a_patient_is_public_with_all_notes_or_with_none_where_patients_are_protected(
    tmp_path: Path, unit: str, torn: bool
) -> None:
    dp, task = {**DP, "unit": unit}, {"name": "classification", "class_weights": "none", "buckets": 50}
    study = study_of(dp, corpus=own_files(tmp_path), task=task, public={"fraction": 0.3}, method={"batch": 5})
    sites = federate(opened(study.corpus), study.partition, study.seed, study.public)
    assert sites.public is not None
    parts: list[Any] = [sites.public(), sites.train()]
    patients = [{document.patient for document in part.documents} for part in parts]
    assert torn == bool(patients[0] & patients[1])
    assert 18 == len(parts[0]) or torn


@pytest.mark.parametrize("typed", [" TRAIN3 ", "ｔｒａｉｎ３", "\u3000train3"])
def test_a_patient_is_the_same_however_blanks_capitals_and_full_width_letters_are_typed(
    tmp_path: Path, typed: str
) -> None:
    dp, task = {**DP, "unit": "patient"}, {"name": "classification", "class_weights": "none", "buckets": 50}
    study = study_of(dp, corpus=own_files(tmp_path), task=task, method={"batch": 5})
    with (tmp_path / "train.csv").open("a", encoding="utf-8") as rows:
        rows.write(f"rash,a,{typed}\n")
    units = build(study, tmp_path / "run").sites.open("all").units
    assert units is not None
    assert 20 == units.count
    with (tmp_path / "test.csv").open("a", encoding="utf-8") as rows:
        rows.write(f"rash,a,{typed}\n")
    assert "1 patients of all have notes both to train and to test on" in problems(study, tmp_path / "run")


def test_blanks_are_nobody(tmp_path: Path) -> None:
    """All notes with blanks in the patient's place would be one patient's otherwise."""
    dp, task = {**DP, "unit": "patient"}, {"name": "classification", "class_weights": "none", "buckets": 50}
    study = study_of(dp, corpus=own_files(tmp_path), task=task, method={"batch": 5})
    with (tmp_path / "train.csv").open("a", encoding="utf-8") as rows:
        rows.write("rash,a,  \n")
    assert "1 of 61 train examples of all have no patient" in problems(study, tmp_path / "run")


@pytest.mark.parametrize(("named", "units"), [(True, 21), (False, 20)])
def test_two_documents_that_read_the_same_are_two_if_they_are_named(tmp_path: Path, named: bool, units: int) -> None:
    """Clipped together, a second one with another label would turn the first one's part round: twice the clip."""
    rows = [f'{{"id": "n{n}", "text": "ache {n % 20}", "labels": ["{"ab"[n // 20]}"]}}\n' for n in range(21)]
    for split, name in (("train", "n"), ("test", "t")):
        lines = "".join(rows).replace('"id": "n', f'"id": "{name}')
        text = lines if named else re.sub(r'"id": "[nt]\d+", ', "", lines).replace("ache", f"ache {split}")
        (tmp_path / f"{split}.jsonl").write_text(text, encoding="utf-8")
    files = {split: str(tmp_path / f"{split}.jsonl") for split in ("train", "test")}
    dp, task = {**DP, "unit": "document"}, {"name": "classification", "class_weights": "none", "buckets": 50}
    study = study_of(dp, {"batch": 5}, corpus={"format": "jsonl", "language": "en", **files}, task=task)
    found = build(study, tmp_path / "run").sites.open("all").units
    assert found is not None
    assert units == found.count


def test_nobody_is_both_tested_and_validated_on_where_patients_are_protected(tmp_path: Path) -> None:
    """Each part costs ε by itself, and not the sum, because they are different people."""
    dp, task = {**DP, "unit": "patient"}, {"name": "classification", "class_weights": "none", "buckets": 50}
    corpus = own_files(tmp_path)
    valid = tmp_path / "valid.csv"
    valid.write_text(valid.read_text(encoding="utf-8").replace("valid3", "test3"), encoding="utf-8")
    study = study_of(dp, corpus=corpus, task=task, method={"batch": 5}, evaluation={"splits": ["test", "valid"]})
    assert "1 patients of" in problems(study, tmp_path / "run")
    assert "have notes both to test and to valid on" in problems(study, tmp_path / "run")


@pytest.mark.parametrize("evaluation", ["noised", "outside"])
def test_whom_a_protected_site_validates_on_does_not_depend_on_who_else_is_there(
    tmp_path: Path, evaluation: str
) -> None:
    """Where validation notes are not protected either, as many as the share says are set aside."""
    dp = {**DP, "unit": "patient", "evaluation": evaluation}
    corpus, sizes = own_files(tmp_path), {}
    for patients in range(10, 21):
        rows = "".join(f"rash {n},{'ab'[n % 2]},train{n % patients}\n" for n in range(3 * patients))
        (tmp_path / "train.csv").write_text("text,label,patient\n" + rows, encoding="utf-8")
        study = study_of(
            dp, {"batch": 5}, corpus={**corpus, "valid": ""}, task={"name": "classification", "class_weights": "none"},
            validation={"share": 0.2, "by": "patient"}, evaluation={"splits": ["valid"]},
        )  # fmt: skip
        valid: Any = build(study, tmp_path / str(patients)).raw.valid  # type: ignore[union-attr]
        sizes[patients] = {document.patient for document in valid("all").documents}
    grown = [sizes[patients + 1] - {f"train{patients}"} == sizes[patients] for patients in range(10, 20)]
    assert all(grown) == (evaluation == "noised")


def test_a_share_of_the_rows_is_refused_since_one_more_decides_about_all_others(tmp_path: Path) -> None:
    assert "one example more decides which of the others are trained on" in problems(
        study_of(sites={"share": 0.5}), tmp_path
    )


TORN = {
    "an id": ('{"id": "n1", "text": "a rash", "labels": ["a"]}', '{"id": "n1", "text": "a cough", "labels": ["a"]}'),
    "its text, where it has no id": ('{"text": "a rash", "labels": ["a"]}', '{"text": "a rash", "labels": ["a"]}'),
    "": ('{"text": "a rash", "labels": ["a"]}', '{"text": "a cough", "labels": ["a"]}'),
}


@pytest.mark.parametrize("by", TORN)
def test_no_document_is_both_trained_and_tested_on_where_documents_are_protected(tmp_path: Path, by: str) -> None:
    for split, row in zip(("train", "test"), TORN[by], strict=True):
        (tmp_path / split).mkdir()
        others = [f'{{"id": "{split}{n}", "text": "ache {split}{n}", "labels": ["{"ab"[n % 2]}"]}}' for n in range(20)]
        (tmp_path / split / "notes.jsonl").write_text("\n".join([row, *others]), encoding="utf-8")
    files = {split: str(tmp_path / split / "notes.jsonl") for split in ("train", "test")}
    dp, task = {**DP, "unit": "document"}, {"name": "classification", "class_weights": "none", "buckets": 50}
    study = study_of(dp, {"batch": 5}, corpus={"format": "jsonl", "language": "en", **files}, task=task)
    if by:
        found = problems(study, tmp_path / "run")
        assert "1 documents of all are, by their ids, both to train and to test on" in found
    else:
        build(study, tmp_path / "run")

"""FedED: the oracle's teacher and loss, votes that are small and add up, and a coordinator that learns from them."""

import json
import math
import runpy
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import oracle
from double import DoubleFeatures
from oracle import same
from quadratic import Trial
from study_files import small_study
from wardround.core.bench import Bench
from wardround.core.exchange import Fault
from wardround.core.method import Counts, Global
from wardround.core.training import LocalTraining
from wardround.core.weights import Weights
from wardround.methods.feded import FedED, Vote, distilled
from wardround.methods.references import PublicOnly
from wardround.runs.build import build
from wardround.runs.loop import run
from wardround.study.load import load_study
from wardround.study.settings import StudyError
from wardround.tasks.features import FeatureRows

Reading = Literal["logits", "probabilities", "mean_probability"]
READINGS: tuple[Reading, ...] = ("logits", "probabilities", "mean_probability")
DOUBLE = torch.float64


def rows(count: int, width: int, classes: int, seed: int) -> FeatureRows:
    """Examples whose classes can be learnt."""
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (count,), generator=rng)
    inputs = torch.randn(count, width, generator=rng, dtype=DOUBLE)
    inputs[torch.arange(count), labels % width] += 1.5
    return FeatureRows(inputs, labels)


def trial(method: Any, folder: Path, *, public: int, classes: int, sites: int = 2) -> Trial[Any]:
    start = Weights(
        {"linear.weight": torch.zeros(classes, 4, dtype=DOUBLE), "linear.bias": torch.zeros(classes).double()}
    )
    own = {f"site-{k}": rows(10, 4, classes, k) for k in range(sites)}
    return Trial(method, DoubleFeatures(4, classes), own, start, folder, public=rows(public, 4, classes, 99))


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("case", oracle.params("feded"))
def test_oracle_feded(case: oracle.Case, reading: Reading) -> None:
    """The teacher in its three readings, and the student's loss with its gradient (eq. 6)."""
    inputs, expected = case["inputs"], case["expected"]
    method = FedED(teacher=reading, temperature=inputs["tau"], bits=32)
    votes = [method.voted(torch.tensor(scores, dtype=DOUBLE)) for scores in inputs["client_logits"]]
    q = method.taught(torch.stack(votes).sum(0), len(votes))
    same("feded", expected[reading]["q"], q)

    scores = torch.tensor(inputs["student_logits"], dtype=DOUBLE).requires_grad_()
    classes = scores.shape[1]
    task = DoubleFeatures(classes, classes)
    as_they_are = {"linear.weight": torch.eye(classes, dtype=DOUBLE), "linear.bias": torch.zeros(classes, dtype=DOUBLE)}
    model = Bench.of(task).load(Weights(as_they_are))
    batch = FeatureRows(scores, torch.tensor(inputs["labels"]), torch.arange(len(scores)))
    loss = distilled(task, q)(model, batch)
    same("feded", expected[reading]["loss_eq6"], loss.detach())
    loss.backward()  # type: ignore[no-untyped-call]
    same("feded", expected[reading]["grad_student_logits_eq6"], scores.grad)
    # kl_student_T_tau and its loss are Hinton's form, with the student at τ too; the paper's is eq. 6.


# the upload


@pytest.mark.parametrize(("public", "classes", "most"), [(2046, 9, 19_000), (959, 2, 1_100), (64, 2, 160)])
def test_a_site_sends_so_many_bytes_and_no_more(public: int, classes: int, most: int, tmp_path: Path) -> None:
    """The encoded reply of a real exchange, framing included; the paper's are 42 KB, 5 KB and 323 B."""
    begun = trial(FedED(), tmp_path, public=public, classes=classes)
    begun.round()
    sizes = {len(reply.encode()) for reply in begun.replies.values()}
    assert max(sizes) <= most
    assert {reply.nbytes for reply in begun.replies.values()} == sizes


def test_more_bits_cost_what_they_say(tmp_path: Path) -> None:
    """One, two and four bytes a number, and the same names around them but for a few."""
    sizes = {}
    for bits in (8, 16, 32):
        begun = trial(FedED(bits=bits), tmp_path / str(bits), public=1000, classes=5)
        begun.round()
        sizes[bits] = begun.replies["site-0"].nbytes
    assert 4000 * 2 - 4000 == pytest.approx(sizes[16] - sizes[8], abs=16)
    assert 4000 * 8 - 4000 == pytest.approx(sizes[32] - sizes[8], abs=16)  # this model computes with 64 bits


def test_nothing_but_votes_and_counts_goes_up() -> None:
    """No weights, whatever the size of the model: those only come down."""
    kinds = {name: step.kinds() for name, step in FedED.declared().items()}
    assert (Global, Vote) == kinds["teach"]
    assert {Vote, Counts} == {reply for _, reply in kinds.values()}


def scores_of(sites: int, examples: int, classes: int, spread: float, seed: int) -> Tensor:
    """Scores of models that mostly agree: a common opinion and each site's own (sites, examples, classes)."""
    rng = torch.Generator().manual_seed(seed)
    common = torch.randn(examples, classes, generator=rng, dtype=DOUBLE) * spread
    own = torch.randn(sites, examples, classes, generator=rng, dtype=DOUBLE) * spread / 2
    return common + own


def teacher(method: FedED, scores: Tensor) -> Tensor:
    total = torch.stack([method.voted(each).double() for each in scores]).sum(0)
    return method.taught(total, len(scores))


@given(sites=st.integers(1, 20), classes=st.integers(2, 9), spread=st.floats(0.1, 2.5), seed=st.integers(0, 999))
def test_eight_bits_leave_the_teacher_as_it_is(sites: int, classes: int, spread: float, seed: int) -> None:
    """Its probabilities move by less than 0.02 where classes lie within the grid, and hardly any decision changes."""
    scores = scores_of(sites, 200, classes, spread, seed).clamp(-3.9, 3.9)
    exact, eight = teacher(FedED(bits=32), scores), teacher(FedED(bits=8), scores)
    assert (exact - eight).abs().max() < 0.02
    top = exact.topk(2).values
    clear = top[:, 0] - top[:, 1] > 0.04
    assert torch.equal(exact.argmax(1)[clear], eight.argmax(1)[clear])
    sixteen = teacher(FedED(bits=16), scores)
    assert (exact - sixteen).abs().max() < 1e-3


@given(
    st.lists(st.lists(st.floats(-1e4, 1e4), min_size=3, max_size=3), min_size=1, max_size=5),
    st.sampled_from([8, 16]),
)
def test_a_sites_own_decision_survives_the_grid(raw: list[list[float]], bits: Literal[8, 16]) -> None:
    """However sure a model is of whatever, its likeliest class stays the likeliest, or equals one as near as a step."""
    scores = torch.tensor(raw, dtype=DOUBLE)
    method = FedED(bits=bits)
    votes = method.voted(scores)
    assert votes.abs().max() <= torch.iinfo(votes.dtype).max
    actual = method.taught(votes, 1)
    best = scores.argmax(1, keepdim=True)
    assert (actual.gather(1, best).log() >= actual.amax(1, keepdim=True).log() - 1.01 * method.step).all()
    gap = scores.gather(1, best) - scores  # how much less likely each class is
    told = actual.gather(1, best).log() - actual.log()
    assert ((told - gap.clamp(max=method.reach)).abs() <= 1.01 * method.step).all()


@pytest.mark.parametrize("reading", ["probabilities", "mean_probability"])
@pytest.mark.parametrize(("bits", "most"), [(8, 0.03), (16, 2e-4)])
def test_probabilities_survive_the_grid_too(reading: Reading, bits: Literal[8, 16], most: float) -> None:
    scores = scores_of(5, 300, 6, 2.0, seed=1)
    exact, rounded = (teacher(FedED(teacher=reading, bits=b), scores) for b in (32, bits))
    assert (exact - rounded).abs().max() < most
    torch.testing.assert_close(rounded.sum(1), torch.ones(300, dtype=DOUBLE))


def test_the_figures_of_a_run_do_not_depend_on_the_bits(tmp_path: Path) -> None:
    """Eight bits are the default, since they change no F1 by a hundredth."""
    path = small_study(
        tmp_path,
        rounds=6,
        method={"name": "feded", "lr": 0.02},
        corpus={"name": "synthetic", "sites": 8, "features": 20, "classes": 6, "largest": 150},
        public={"fraction": 0.2},
    )
    results = {}
    for bits in (8, 16, 32):
        study = load_study(path, [f"method.bits={bits}"])[0].study
        results[bits] = run(study, tmp_path / str(bits)).metrics
    for metric in ("accuracy", "macro_f1"):
        assert results[8][metric] == pytest.approx(results[32][metric], abs=0.01)
        assert results[16][metric] == pytest.approx(results[32][metric], abs=0.005)
    first = json.loads((tmp_path / "8" / "journal.jsonl").read_text().splitlines()[0])["metrics"]
    assert first["macro_f1"] + 0.05 < results[8]["macro_f1"]  # it learns


def test_many_sites_votes_add_up_without_overflow(tmp_path: Path) -> None:
    """Sixty sites that are as sure as the grid allows: the sum is theirs, not what is left of it in a byte."""
    begun = trial(FedED(lr=100.0), tmp_path, public=3, classes=2, sites=60)
    begun.round()
    votes = [reply.votes for reply in begun.replies.values()]
    assert {(torch.int8, 127)} == {(vote.dtype, int(vote.abs().max())) for vote in votes}
    total = begun.replies["site-0"]
    for name in sorted(begun.replies)[1:]:
        total += begun.replies[name]
    assert torch.stack(votes).long().sum(0).tolist() == total.votes.tolist()
    assert total.votes.abs().max() > 127


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        (torch.zeros(5, 1, dtype=torch.int8), r"has shape \[5, 1\], not \[6, 1\]"),
        (torch.zeros(6, 2, dtype=torch.int8), r"has shape \[6, 2\], not \[6, 1\]"),
        (torch.zeros(6, 1, dtype=torch.int16), "has dtype int16, not int8"),
        (torch.zeros(6, 1, dtype=DOUBLE), "has dtype float64, not int8"),
    ],
)
def test_votes_of_another_shape_or_width_are_refused(votes: Tensor, message: str, tmp_path: Path) -> None:
    manifest = trial(FedED(), tmp_path, public=6, classes=2).manifest
    refusal = manifest.refusal(Vote, Vote(votes))
    assert refusal is not None
    with pytest.raises(ValueError, match=message):
        raise ValueError(refusal)
    assert manifest.refusal(Vote, Vote(torch.zeros(6, 1, dtype=torch.int8))) is None
    wide = trial(FedED(bits=32), tmp_path, public=6, classes=2).manifest
    assert wide.refusal(Vote, Vote(torch.full((6, 1), torch.nan, dtype=DOUBLE))) == "Vote.votes holds NaN or infinity"


# the coordinator


def test_a_batch_meets_the_teachers_rows_whatever_its_order() -> None:
    """The mean over shuffled batches is the loss over all examples in their order."""
    task, public = DoubleFeatures(4, 3), rows(11, 4, 3, 5)
    rng = torch.Generator().manual_seed(1)
    q = torch.rand(11, 3, generator=rng, dtype=DOUBLE).softmax(1)
    weight = torch.randn(3, 4, generator=rng, dtype=DOUBLE)
    model = Bench.of(task).load(Weights({"linear.weight": weight, "linear.bias": torch.zeros(3, dtype=DOUBLE)}))
    loss = distilled(task, q)
    whole = loss(model, FeatureRows(public.inputs, public.labels, torch.arange(11)))
    parts = [loss(model, batch) * len(batch) / 11 for batch in task.batches(public, 4, rng)]
    torch.testing.assert_close(whole, torch.stack(parts).sum())


@pytest.mark.parametrize("passes", [1, 3])
def test_the_coordinator_passes_over_the_public_examples_as_often_as_told(passes: int, tmp_path: Path) -> None:
    """However long the sites train; from the shared weights, towards the teacher of this round's votes."""
    method = FedED(lr=0.2, batch=4, epochs=2, passes=passes)
    begun = trial(method, tmp_path, public=10, classes=3)
    before = begun.state.weights
    after = begun.round().weights
    total = begun.replies["site-0"] + begun.replies["site-1"]
    hub = begun.cohort(begun.names).hub
    student = LocalTraining(lr=0.2, batch=4, epochs=passes)
    loss = distilled(DoubleFeatures(4, 3), method.taught(total.votes, 2))
    assert student.train(hub, before, loss=loss).weights == after


def test_without_labels_the_student_follows_the_teacher_alone() -> None:
    """The gradient is that of the divergence, whatever the labels; half of them weigh half."""
    task, public = DoubleFeatures(4, 3), rows(11, 4, 3, 5)
    q = torch.rand(11, 3, generator=torch.Generator().manual_seed(1), dtype=DOUBLE).softmax(1)
    start = Weights({"linear.weight": torch.eye(3, 4, dtype=DOUBLE), "linear.bias": torch.zeros(3, dtype=DOUBLE)})
    model = Bench.of(task).load(start)
    batch = FeatureRows(public.inputs, public.labels, torch.arange(11))
    other = FeatureRows(public.inputs, (public.labels + 1) % 3, torch.arange(11))
    whole, half, none = (distilled(task, q, weight)(model, batch) for weight in (1.0, 0.5, 0.0))
    torch.testing.assert_close(half, (whole + none) / 2)
    assert torch.equal(none, distilled(task, q, 0.0)(model, other))
    assert (whole > half) & (half > none)


def test_the_student_may_learn_slower_than_the_sites(tmp_path: Path) -> None:
    slow = trial(FedED(lr=0.2, student_lr=1e-9), tmp_path / "slow", public=10, classes=3)
    same_rate = trial(FedED(lr=0.2, student_lr=0.2), tmp_path / "same", public=10, classes=3)
    plain = trial(FedED(lr=0.2), tmp_path / "plain", public=10, classes=3)
    before = slow.state.weights
    torch.testing.assert_close(before.flat, slow.round().weights.flat)
    assert same_rate.round().weights == plain.round().weights != before


def test_the_journal_tells_how_well_teacher_and_student_know_the_public_labels(tmp_path: Path) -> None:
    """The teacher by its votes, the student by the model of this round's end."""
    method = FedED(lr=0.2, batch=4, bits=32)
    begun = trial(method, tmp_path, public=10, classes=3)
    cohort = begun.cohort(begun.names)
    weights = method.round(begun.state, cohort).weights
    public = rows(10, 4, 3, 99)
    scores = public.inputs @ weights["linear.weight"].T + weights["linear.bias"]
    loss = torch.nn.functional.cross_entropy(scores, public.labels).item()
    actual = cohort.noted["public"]
    assert actual["student"] == pytest.approx(
        {"accuracy": (scores.argmax(1) == public.labels).double().mean().item(), "loss": loss}
    )
    assert 0 < actual["teacher"]["loss"] < torch.log(torch.tensor(3.0))


class Answers:
    """An engine whose sites answer what they are told to."""

    def __init__(self, replies: dict[str, Vote | Fault]) -> None:
        self.replies = replies

    def deliver(self, *_: Any) -> list[tuple[str, Any]]:
        return list(self.replies.items())


def test_the_teacher_is_the_mean_of_those_who_voted(tmp_path: Path) -> None:
    """A site that fails, or whose vote does not fit, counts neither in the sum nor in what it is divided by."""
    method = FedED(lr=0.2, batch=4)
    good = Vote(torch.randint(-90, 90, (10, 2), generator=torch.Generator().manual_seed(3)).to(torch.int8))
    short = Vote(torch.zeros(9, 2, dtype=torch.int8))
    alone: dict[str, Vote | Fault] = {"site-0": good}
    states = []
    for replies in (alone, {**alone, "site-1": Fault("failed", "x"), "site-2": short}):
        begun = trial(method, tmp_path, public=10, classes=3, sites=3)
        cohort = begun.cohort(replies)
        cohort.engine = Answers(replies)
        states.append(method.round(begun.state, cohort))
        assert set(replies) - {"site-0"} == set(cohort.left_out)
        assert ("site-0",) == cohort.present
    assert states[0] == states[1]


def test_the_coordinator_alone_asks_no_site_for_anything(tmp_path: Path) -> None:
    begun = trial(PublicOnly(lr=0.2), tmp_path, public=10, classes=3)
    before, after = begun.state.weights, begun.round().weights
    assert LocalTraining(lr=0.2).train(begun.cohort(begun.names).hub, before).weights == after != before
    assert [] == begun.seen


# what must be there


@pytest.mark.parametrize("method", ["feded", "public"])
def test_without_public_examples_the_study_is_refused(method: str, tmp_path: Path) -> None:
    study = load_study(small_study(tmp_path, method={"name": method}))[0].study
    with pytest.raises(StudyError, match=rf"method '{method}' needs public examples; add \[public\]"):
        build(study, tmp_path / "run")


def test_public_labels_must_be_the_studys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found before the first round, not in it."""
    monkeypatch.setenv("WARDROUND_CACHE", str(tmp_path / "cache"))
    (tmp_path / "train.csv").write_text("text,label\nfever,a\ncough,b\n")
    (tmp_path / "public.csv").write_text("text,label\nrash,c\n")
    files = {"format": "csv", "train": "train.csv", "test": "train.csv"}
    path = small_study(
        tmp_path,
        corpus=files,
        partition={"name": "iid", "sites": 2},
        task={"name": "classification", "model": "lstm"},
        method={"name": "feded"},
        public={"corpus": {"format": "csv", "train": "public.csv"}},
    )
    with pytest.raises(StudyError, match=r"label \(a value of 1 characters\) is not among"):
        build(load_study(path)[0].study, tmp_path / "run")


def held_out() -> Any:
    """The study's student that stops early."""
    return runpy.run_path(str(Path(__file__).parents[2] / "studies" / "feded" / "held_out.py"))


def test_the_student_that_stops_early_stays_where_a_pass_makes_it_worse(tmp_path: Path) -> None:
    """At a rate that throws it far off; at a sane one it moves, to less loss on what is held out."""
    wild = trial(held_out()["HeldOut"](lr=0.2, student_lr=1e6, passes=3), tmp_path / "wild", public=20, classes=3)
    assert wild.state.weights == wild.round().weights
    method = held_out()["HeldOut"](lr=0.2, batch=4, held=0.5, passes=3)
    sane = trial(method, tmp_path / "sane", public=20, classes=3)
    cohort = sane.cohort(sane.names)
    assert sane.state.weights != method.round(sane.state, cohort).weights
    told = cohort.noted["public"]
    assert math.log(3) > told["student"]["loss"]  # what equal scores have
    assert 1 <= told["learnt"]["passes"] <= 3


def test_the_student_that_stops_early_learns_nothing_from_what_is_held_out() -> None:
    """Neither labels nor votes there change the loss; those of the rest do."""
    task, public = DoubleFeatures(4, 3), rows(11, 4, 3, 5)
    start = Weights({"linear.weight": torch.eye(3, 4, dtype=DOUBLE), "linear.bias": torch.zeros(3, dtype=DOUBLE)})
    model = Bench.of(task).load(start)
    learns = torch.arange(11) % 3 > 0

    def loss(changed: Tensor) -> Tensor:
        q = torch.full((11, 3), 1 / 3, dtype=DOUBLE)
        q[changed] = torch.tensor([0.8, 0.1, 0.1], dtype=DOUBLE)
        labels = torch.where(changed, (public.labels + 1) % 3, public.labels)
        batch = FeatureRows(public.inputs, labels, torch.arange(11))
        value: Tensor = held_out()["learning"](task, q, 1.0, learns)(model, batch)
        return value

    nothing = torch.zeros(11, dtype=torch.bool)
    assert torch.equal(loss(nothing), loss(~learns))
    assert not torch.equal(loss(nothing), loss(learns))

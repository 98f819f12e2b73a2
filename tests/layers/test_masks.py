"""Secure aggregation: the sum of those who stay, to the bit, and nothing of any of them."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from safetensors.torch import load_file

from study_files import small_study
from wardround import write_report
from wardround.core.cohort import BelowQuorum, Cohort
from wardround.core.exchange import Exchange, Fault
from wardround.core.method import Global, Step
from wardround.core.record import Message
from wardround.core.site import Site
from wardround.core.vault import Vault
from wardround.core.weights import Weights
from wardround.engines.inline import Serial
from wardround.layers import keys as keys_module
from wardround.layers import masked as masked_module
from wardround.layers.fixed_point import Encoded, decode, encode, widened
from wardround.layers.keys import derived, shift, sign
from wardround.layers.masked import Masked, Opened, own_key
from wardround.layers.masks import POWERS, Masks
from wardround.methods.fedavg import Update
from wardround.runs.build import Built, build
from wardround.runs.loop import run
from wardround.study.load import Study, load_study

Reply = Message | Fault
Twist = Callable[[Exchange, str, Callable[[], Reply]], Reply]
MASKED = {"secure_aggregation": True}


def study_of(folder: Path, count: int = 5, **changes: Any) -> Study:
    whole: dict[str, Any] = {"privacy": MASKED, "partition": {"name": "iid", "sites": count}, **changes}
    return load_study(small_study(folder, **whole))[0].study


class Twisted(Serial):
    """Sites one after the other, of which some are lost, or give another reply than they should."""

    twist: Twist

    def deliver(
        self, exchange: Exchange, step: Step[Any, Any], messages: Mapping[str, Message]
    ) -> Iterable[tuple[str, Any]]:
        for name, message in messages.items():

            def reply(name: str = name, message: Message = message) -> Reply:
                return next(iter(dict(super(Twisted, self).deliver(exchange, step, {name: message})).values()))

            yield name, self.twist(exchange, name, reply)


LOST = Fault("lost", "the connection broke")


def losing(*moments: tuple[str, str], after: bool = False) -> Twist:
    """Sites that are lost at a step: before they are asked, or after they have answered in vain."""

    def twist(exchange: Exchange, name: str, reply: Callable[[], Reply]) -> Reply:
        if (exchange.step, name) not in moments:
            return reply()
        if after:
            reply()
        return LOST

    return twist


@pytest.fixture
def inputs(monkeypatch: pytest.MonkeyPatch) -> dict[str, Message]:
    """What each site has put behind masks, by its name."""
    seen: dict[str, Message] = {}
    leave = Masks.leave

    def watched(layer: Masks, reply: Message, site: Site) -> Message:
        seen[site.name] = reply
        return leave(layer, reply, site)

    monkeypatch.setattr(Masks, "leave", watched)
    return seen


def fitted(
    built: Built, twist: Twist, round_: int = 1, cohorts: list[Cohort] | None = None
) -> tuple[Update, tuple[str, ...]]:
    """One total of FedAvg's replies, and who is left after it."""
    engine = Twisted(built.host)
    engine.twist = twist
    cohort = built.cohort(round_, tuple(built.sites.names), engine)
    if cohorts is not None:
        cohorts.append(cohort)
    total = cohort.total(built.study.method.fit, Global(built.weights))  # type: ignore[attr-defined]  # FedAvg's
    return total, cohort.present


def plain_sum(replies: Mapping[str, Message], names: Iterable[str]) -> Message:
    """The sum of whole numbers without any mask, in 64 bits."""
    coded = [encode(replies[name], len(list(names)), {}) for name in names]
    total = Encoded(coded[0].narrow, torch.stack([one.wide for one in coded]).sum(0), coded[0].form)
    return decode(Update, total, len(coded), {})


def test_the_sum_is_that_of_the_whole_numbers_to_the_bit(tmp_path: Path, inputs: dict[str, Message]) -> None:
    built = build(study_of(tmp_path), tmp_path / "out")
    total, names = fitted(built, losing())
    assert 5 == len(names)
    assert plain_sum(inputs, names) == total
    exact = sum((inputs[name].change.flat.double() for name in names), torch.zeros(()))  # type: ignore[attr-defined]
    assert torch.allclose(total.change.flat.double(), exact, atol=1e-7)
    assert sum(inputs[name].weight for name in names) == total.weight  # type: ignore[attr-defined]


def test_all_that_the_coordinator_gets_takes_no_reply_out_of_the_sum(tmp_path: Path) -> None:
    """With every member's own mask at hand: of fewer than all, masks between sites lie on every number."""
    replies, opened = dict[str, Masked](), dict[str, Opened]()

    def kept(_exchange: Exchange, name: str, reply: Callable[[], Reply]) -> Reply:
        answer = reply()
        if isinstance(answer, Masked):
            replies[name] = answer
        elif isinstance(answer, Opened):
            opened[name] = answer
        return answer

    fitted(build(study_of(tmp_path, 4), tmp_path / "out"), kept)
    bare = dict[tuple[str, ...], Any]()
    for count in (1, 2, 3, 4):
        for names in combinations(sorted(replies), count):
            numbers = torch.stack([replies[name].wide for name in names]).sum(0).numpy().astype(np.uint64)
            shift([numbers], [], [derived(bytes(opened[name].own.tolist()), b"stream") for name in names])
            bare[names] = numbers
    *parts, whole = bare.values()
    assert [4, 0] == whole[:2].tolist()
    assert np.abs(whole.view(np.int64)).max() < 2**40
    for numbers in parts:  # each drawn from all of 64 bits: a small one among them is one chance in 2²³
        assert np.abs(numbers.view(np.int64)).min() > 2**40


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", ["Masks.meet", "fit", "Masks.open"])
def test_whoever_is_lost_the_sum_is_that_of_the_others(
    step: str, after: bool, tmp_path: Path, inputs: dict[str, Message]
) -> None:
    """Before keys, after keys, after masking, and between masking and opening."""
    built, cohorts = build(study_of(tmp_path), tmp_path / "out"), list[Cohort]()
    total, names = fitted(built, losing((step, "site-1"), after=after), cohorts=cohorts)
    assert ("site-0", "site-2", "site-3", "site-4") == names
    kept = names if step != "Masks.open" else tuple(sorted(inputs))  # by then its numbers are in the sum
    assert plain_sum(inputs, kept) == total
    words = f"{step}: lost: the connection broke" + "; its fit is in the sum" * (step == "Masks.open")
    assert {"site-1": words} == cohorts[0].left_out  # and whoever reads the journal is told so


def test_a_lost_site_costs_one_message_and_no_training(tmp_path: Path, inputs: dict[str, Message]) -> None:
    asked: list[tuple[str, str]] = []
    lost = losing(("fit", "site-1"), after=True)

    def twist(exchange: Exchange, name: str, reply: Callable[[], Reply]) -> Reply:
        asked.append((exchange.step, name))
        return lost(exchange, name, reply)

    fitted(build(study_of(tmp_path), tmp_path / "out"), twist)
    steps = [step for step, name in asked if name == "site-0"]
    assert ["Masks.meet", "Masks.meet", "fit", "Masks.again", "Masks.open"] == steps
    assert 5 == len(inputs)


@pytest.mark.parametrize(
    ("moments", "sites", "reason"),
    [
        ([("Masks.meet", "site-1")], 3, "Masks.meet: 2 of 3 sites gave a usable reply, the quorum is 3"),
        ([("fit", "site-1")], 3, "fit: 2 of 3 sites gave a usable reply, the quorum is 3"),
        ([("fit", "site-1"), ("Masks.again", "site-2")], 5, "1 of the sites in a sum did not stay to its end"),
        ([("Masks.open", "site-1")], 3, "Masks.open: 2 of 3 sites gave a usable reply, the quorum is 3"),
        ([("Masks.open", "site-1"), ("Masks.open", "site-2")], 5, "3 of 5 sites opened their sum, and it takes 4"),
    ],
)  # fmt: skip
def test_where_too_few_are_left_the_round_says_so(
    moments: list[tuple[str, str]], sites: int, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(BelowQuorum) as error:
        fitted(build(study_of(tmp_path, sites), tmp_path / "out"), losing(*moments))
    assert reason in str(error.value)


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many numbers of 32 bits each masked reply had; from round 2 on one site's are far larger than before."""
    leave, counts = Masks.leave, list[int]()

    def larger(layer: Masks, reply: Message, site: Site) -> Message:
        if site.name == "site-3" and site.exchange.round > 1 and isinstance(reply, Update):
            reply = replace(reply, change=reply.change * 1e4)
        masked = leave(layer, reply, site)
        counts.append(len(masked.narrow))  # type: ignore[attr-defined]
        return masked

    monkeypatch.setattr(Masks, "leave", larger)
    return counts


def test_numbers_far_larger_than_before_are_sent_again_in_64_bits(
    tmp_path: Path, inputs: dict[str, Message], narrow: list[int]
) -> None:
    """What is opened first says that somebody's did not fit, and no more."""
    built = build(study_of(tmp_path), tmp_path / "out")
    fitted(built, losing())
    asked: list[str] = []

    def watched(exchange: Exchange, name: str, reply: Callable[[], Reply]) -> Reply:
        asked.extend([exchange.step] if name == "site-0" else [])
        return reply()

    total, names = fitted(built, watched, 2)
    assert ["Masks.meet", "fit", "Masks.open", "Masks.again", "Masks.open"] == asked
    assert [0] * 5 + [built.weights.layout.size] * 5 == narrow
    assert plain_sum(inputs, names) == total


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("step", ["Masks.open", "Masks.again"])
def test_whoever_is_lost_once_such_a_sum_was_opened_is_waited_for(step: str, tmp_path: Path) -> None:
    built = build(study_of(tmp_path), tmp_path / "out")
    fitted(built, losing())
    words = r"round 2: 1 of the sites in a sum did not stay .* opened for all of them: get these back, and resume"
    with pytest.raises(BelowQuorum, match=words):
        fitted(built, losing((step, "site-1")), 2)
    _, names = fitted(built, losing(), 2)
    assert 5 == len(names)


def test_where_a_run_has_handed_out_more_ranges_than_its_desk_remembers_it_goes_on_in_64_bits(
    tmp_path: Path, inputs: dict[str, Message], narrow: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resumed again and again, without this member and without that, a run may hand out a table in each attempt."""
    monkeypatch.setattr("wardround.layers.masked.RANGES", 1)
    built = build(study_of(tmp_path), tmp_path / "out")
    for round_ in (1, 2, 3, 4):
        total, names = fitted(built, losing(), round_)
        assert 5 == len(names)
    assert [0] * 5 + [built.weights.layout.size] * 5 + [0] * 10 == narrow
    assert plain_sum(inputs, names) == total


def test_ranges_are_powers_of_16_up_to_all_that_single_precision_has() -> None:
    for most in (1e-45, 1e-9, 0.3, 16.0, 1e30, 3.4e38):
        update = Update(Weights({"linear.weight": torch.tensor([most, 0.0])}), 5)
        total = Encoded(torch.zeros(0), torch.zeros(0), encode(update, 1, {"change/linear.weight": 16.0**32}).form)
        for known, over in (({}, False), ({"change/linear.weight": 16.0**32}, True)):
            (chosen,) = widened(replace(total, over=over), update, 1, known).values()
            assert chosen in POWERS
            assert most <= chosen


def test_a_coordinator_whose_ranges_are_used_up_goes_on_in_64_bits(
    tmp_path: Path, inputs: dict[str, Message], narrow: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wardround.layers.masks.RANGES", 1)
    built = build(study_of(tmp_path), tmp_path / "out")
    for round_ in (1, 2, 3, 4):
        total, names = fitted(built, losing(), round_)
    assert [0] * 5 + [built.weights.layout.size] * 5 + [0] * 10 == narrow
    assert plain_sum(inputs, names) == total


def test_from_the_second_round_on_an_upload_is_hardly_larger_than_without(
    tmp_path: Path, inputs: dict[str, Message]
) -> None:
    built = build(study_of(tmp_path, corpus={"features": 4000}), tmp_path / "out")
    sizes: list[float] = []

    def weighed(_exchange: Exchange, name: str, reply: Callable[[], Reply]) -> Reply:
        answer = reply()
        if isinstance(answer, Masked):
            sizes.append(answer.nbytes / inputs[name].nbytes)
        return answer

    for round_ in (1, 2):
        fitted(built, weighed, round_)
    first, second = max(sizes[:5]), max(sizes[5:])
    assert 1.9 < first < 2.1
    assert second < 1.1


@pytest.mark.parametrize(
    ("sites", "kept", "most"), [(3, 4096, 1 / 50_000), (30, 4096, 1 / 500), (3, 256, 1 / 800_000), (30, 256, 1 / 8_000)]
)
def test_a_number_is_rounded_by_no_more_than_is_said(sites: int, kept: int, most: float) -> None:
    """In the widest range that a largest number of 1 in the last sum may have left, or make: all rounded one way."""
    ranges = {"change/w": float(kept)}
    step = 1.0
    for _ in range(60):  # the number that is rounded by most lies halfway between two that are not
        update = Update(Weights({"w": torch.tensor([step / 2])}), 1)
        if not encode(update, sites, ranges).narrow.any():
            break
        step /= 2
    update = Update(Weights({"w": torch.tensor([step * 0.499, step * 1.001])}), 1)
    encoded = encode(update, sites, ranges)
    total = replace(encoded, narrow=encoded.narrow * sites, wide=encoded.wide * sites)
    error = (decode(Update, total, sites, ranges).change["w"].double() - sites * update.change["w"].double()).abs()
    assert most / 8 < float(error.max()) < most


def journal_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]


def test_what_is_too_large_for_fixed_point_is_an_error_that_names_the_tensor() -> None:
    update = Update(Weights({"linear.weight": torch.tensor([1.0, 2e8])}), 5)
    with pytest.raises(Exception, match=r"Update\.change/linear\.weight has a number that is too large .*method\.lr"):
        encode(update, 3, {})
    assert not encode(update, 1, {}).over
    with pytest.raises(Exception, match=r"Update\.change/linear\.weight has a number that is too large"):
        encode(update, 3, {"change/linear.weight": 1.0})  # 64 bits would not do either: before anything is opened
    large = Update(Weights({"linear.weight": torch.tensor([1.0, 2e7])}), 5)
    assert encode(large, 3, {"change/linear.weight": 1.0}).over  # and nothing has wrapped
    nothing = Update(Weights({"linear.weight": torch.tensor([1.0, torch.nan])}), 1)
    assert encode(nothing, 3, {"change/linear.weight": 1.0}).over
    with pytest.raises(Exception, match=r"Update\.change/linear\.weight has a number that is too large"):
        encode(nothing, 3, {})
    many = Update(Weights({"linear.weight": torch.zeros(2)}), 2**53)
    with pytest.raises(Exception, match=r"Update\.weight has a number that is too large"):
        encode(many, 3, {})


def test_nan_is_refused_at_the_site_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = build(study_of(tmp_path), tmp_path / "out")
    train = type(built.study.method).train  # type: ignore[attr-defined]

    def broken(method: Any, at: Site, *given: Any) -> Any:
        trained = train(method, at, *given)
        return trained._replace(weights=trained.weights * float("nan")) if at.name == "site-2" else trained

    monkeypatch.setattr(type(built.study.method), "train", broken)
    _, names = fitted(built, losing())
    assert ("site-0", "site-1", "site-3", "site-4") == names


def test_false_shares_are_left_aside_and_false_masks_open_nothing(tmp_path: Path) -> None:
    """A site that lies about a share changes nothing; one that lies about its own mask, neither."""

    def lying(_exchange: Exchange, name: str, reply: Callable[[], Reply]) -> Reply:
        answer = reply()
        if isinstance(answer, Opened) and name == "site-0":
            return replace(answer, own=answer.own ^ 1, shares=answer.shares ^ 1)
        if isinstance(answer, Opened) and name == "site-1":
            return LOST
        return answer

    honest, _ = fitted(build(study_of(tmp_path, 8), tmp_path / "a"), losing())
    lied, _ = fitted(build(study_of(tmp_path, 8), tmp_path / "b"), lying)
    assert honest == lied


def test_masks_that_do_not_fit_give_no_number(tmp_path: Path) -> None:
    def lying(_exchange: Exchange, name: str, reply: Callable[[], Reply]) -> Reply:
        answer = reply()
        return replace(answer, wide=answer.wide + 1) if isinstance(answer, Masked) and name == "site-0" else answer

    with pytest.raises(BelowQuorum, match="the sum is not used, for masks are left on the sum"):
        fitted(build(study_of(tmp_path), tmp_path / "out"), lying)


def test_another_shape_leaves_its_site_out(tmp_path: Path, inputs: dict[str, Message]) -> None:
    def longer(exchange: Exchange, name: str, reply: Callable[[], Reply]) -> Reply:
        answer = reply()
        if isinstance(answer, Masked) and name == "site-3" and exchange.step == "fit":
            return replace(answer, wide=torch.cat([answer.wide, answer.wide[:1]]))
        return answer

    total, names = fitted(build(study_of(tmp_path), tmp_path / "out"), longer)
    assert "site-3" not in names
    assert plain_sum(inputs, names) == total


# a whole run


def weights_of(out: Path) -> bytes:
    return (out / "model" / "weights.safetensors").read_bytes()


def timeless(out: Path) -> list[dict[str, Any]]:
    return [{key: value for key, value in line.items() if key not in ("seconds", "ended")} for line in journal_of(out)]


@pytest.mark.parametrize("step", ["Masks.meet", "fit", "Masks.open", "evaluate"])
def test_a_run_killed_at_any_moment_goes_on_with_the_same_bits(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = study_of(tmp_path, sites={"per_round": 4})
    run(study, tmp_path / "whole")
    deliver = Serial.deliver

    def until(
        engine: Serial, exchange: Exchange, wanted: Step[Any, Any], messages: Mapping[str, Message]
    ) -> Iterable[tuple[str, Any]]:
        if (exchange.round, exchange.step) == (2, step):
            raise KeyboardInterrupt
        return deliver(engine, exchange, wanted, messages)

    with monkeypatch.context() as patch:
        patch.setattr(Serial, "deliver", until)
        with pytest.raises(KeyboardInterrupt):
            run(study, tmp_path / "killed", checkpoint_seconds=0)
    run(study, tmp_path / "killed", resume=True)
    assert weights_of(tmp_path / "whole") == weights_of(tmp_path / "killed")
    assert timeless(tmp_path / "whole") == timeless(tmp_path / "killed")


def test_serial_strict_and_pooled_runs_give_the_same_bits_and_those_of_plain_sums_nearly(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    run(study, tmp_path / "serial")
    run(study, tmp_path / "strict", strict=True)
    run(study, tmp_path / "pooled", workers=2)
    run(study_of(tmp_path, privacy=None), tmp_path / "plain")
    for other in ("strict", "pooled"):
        assert weights_of(tmp_path / "serial") == weights_of(tmp_path / other)
        assert timeless(tmp_path / "serial") == timeless(tmp_path / other)
    plain, masked = (load_file(tmp_path / out / "model" / "weights.safetensors") for out in ("plain", "serial"))
    for name, tensor in plain.items():
        assert torch.allclose(tensor, masked[name], atol=1e-6)
    assert journal_of(tmp_path / "plain")[-1]["metrics"] == pytest.approx(
        journal_of(tmp_path / "serial")[-1]["metrics"]
    )


def test_card_and_report_say_of_a_masked_reply_that_nobody_reads_it_alone(tmp_path: Path) -> None:
    run(study_of(tmp_path, rounds=1), tmp_path / "run")
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "- Update.change (the sum; nobody each): of all sites together: " in card
    assert "- Opened.own (each): nothing but the sum" in card
    write_report([tmp_path / "run"], tmp_path / "report.html")
    assert "nobody can read one site&#x27;s answer" in (tmp_path / "report.html").read_text()


def test_with_the_same_members_a_sum_waits_for_whoever_is_missing() -> None:
    """Else the sites would be bound to those who happened to be there first, and refuse the others for good."""
    cohort: Any = SimpleNamespace(
        names=("a", "b", "c", "d"), present=("a", "b", "c"), left_out={"d": "silent"}, round=1, exchanges=0
    )
    cohort.require = partial(Cohort.require, cohort)
    with pytest.raises(BelowQuorum, match=r"1 of the sites .*d: silent.*same_members a sum is of all sites"):
        Masks(fewest=3, same_members=True).prepare(cast("Any", None), cohort)


@pytest.mark.parametrize("after", [False, True])
def test_with_the_same_members_a_site_that_is_lost_while_masking_has_nothing_opened(
    tmp_path: Path,
    after: bool,
) -> None:
    """Those who remain are not asked once more: a sum of theirs would differ from the others in that one site."""
    built = build(study_of(tmp_path, privacy={**MASKED, "same_members": True}), tmp_path / "out")
    lost, steps = built.sites.names[1], list[str]()

    def twist(exchange: Exchange, name: str, reply: Callable[[], Reply]) -> Reply:
        steps.append(exchange.step)
        return losing(("fit", lost), after=after)(exchange, name, reply)

    with pytest.raises(BelowQuorum, match=rf"1 of the sites .*{lost}: fit: lost.*same_members a sum is of all sites"):
        fitted(built, twist)
    assert {"Masks.meet", "fit"} == {*steps}


def test_with_the_same_members_a_site_that_is_lost_once_all_have_signed_is_in_the_sum(
    tmp_path: Path, inputs: dict[str, Message]
) -> None:
    built = build(study_of(tmp_path, privacy={**MASKED, "same_members": True}), tmp_path / "out")
    lost = built.sites.names[1]
    total, names = fitted(built, losing(("Masks.open", lost)))
    assert lost not in names
    assert plain_sum(inputs, built.sites.names) == total


@pytest.mark.parametrize("about", [(), (b"mask", b"place"), (b"x" * 300,)])
def test_keys_are_derived_as_hkdf_does(about: tuple[bytes, ...]) -> None:
    info = b"".join(len(part).to_bytes(8, "big") + part for part in (b"wardround masks 1", *about))
    expected = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=info).derive(b"secret" * 20)
    assert expected == derived(b"secret" * 20, *about)


def test_masks_are_one_stream_of_a_key_over_both_widths_however_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """No two numbers have the same mask, and none is left without."""
    stream = Cipher(algorithms.AES(b"k" * 32), modes.CTR(bytes(16))).encryptor().update(bytes(4 * 1001 + 8 * 501))
    expected: list[Any] = [np.frombuffer(stream[:4004], np.uint32), np.frombuffer(stream[4004:], np.uint64)]
    for size in (keys_module.PIECE, 64):
        monkeypatch.setattr(keys_module, "PIECE", size)
        rows: list[Any] = [np.zeros(1001, np.uint32), np.zeros(501, np.uint64)]
        shift(rows, [b"k" * 32, b"l" * 32])
        shift(rows, [], [b"l" * 32])
        assert all(map(np.array_equal, expected, rows))
    shift(rows, [], [b"k" * 32])
    assert not any(numbers.any() for numbers in rows)
    shift([rows[0][:0], rows[1]], [b"k" * 32])
    assert np.array_equal(np.frombuffer(stream[: 8 * 501], np.uint64), rows[1])


def test_keys_are_signed_once_in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    signed = list[bytes]()

    def watched(signing: bytes, statement: bytes) -> bytes:
        signed.append(statement)
        return sign(signing, statement)

    monkeypatch.setattr(masked_module, "sign", watched)
    runs = [Vault(b"s" * 32, b"t" * 32, f"signed once, run {number}") for number in (1, 1, 2)]
    first, again, other = (own_key(cast("Any", SimpleNamespace(name="a", vault=vault))) for vault in runs)
    assert (True, False, 2) == (first == again, first == other, len(signed))

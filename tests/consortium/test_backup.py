"""Copies of a site's and a coordinator's folder; and a site that was put back is asked again for what it answered."""

import io
import json
import shutil
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from fault_table import fault
from loopback import OPEN, Exchange, ask, first_weights, put, site_folder
from study_files import small_study
from threat_table import threat
from wardround.cli.app import app
from wardround.consortium.answers import Answers
from wardround.consortium.approval import read_approval, write_approval
from wardround.consortium.backup import MANIFEST, back_up, put_back
from wardround.consortium.budget import Budget
from wardround.consortium.deployed import study_hash
from wardround.consortium.forgotten import ACCOUNT, MARK, ToldAnswer, mark_restored, read_lapse, recover
from wardround.consortium.house_ledger import HouseLedger, compared
from wardround.consortium.private_site import JOURNAL
from wardround.consortium.site_process import SiteProcess
from wardround.consortium.submit import submit
from wardround.core.method import Global
from wardround.layers.ledger import lines, verify
from wardround.runs.errors import RunError
from wardround.runs.files import read_journal
from wardround.study.load import Study, load_study

NAMES = ("site-0", "site-1", "site-2")
LEDGER = Path("ledger") / "site.jsonl"
TERMS = {"epsilon": 4.0, "delta": 1e-3, "unit": "example"}


def study_of(folder: Path, **changes: Any) -> Study:
    plain = {"rounds": 2, "sites": {"quorum": 2}, "partition": {"name": "iid", "sites": 3}}
    return load_study(small_study(folder, **{**plain, **changes}))[0].study


def site_of(folder: Path, study: Study) -> Path:
    return site_folder(folder, "site-0", study, exchanges=50)


def spent(place: Path, study: Study) -> tuple[int, int]:
    had = Budget(place / LEDGER).of(study_hash(study))
    return had.exchanges, had.restarts


def allow_no_restart(place: Path, study: Study) -> None:
    approval = read_approval(place, study_hash(study))
    assert approval is not None
    write_approval(place, study_hash(study), approval.model_copy(update={"restarts": 0}))


# copies


def test_a_copy_has_all_but_notes_logs_and_the_secrets_of_masks(tmp_path: Path) -> None:
    place = site_of(tmp_path, study_of(tmp_path))
    (place / "site.toml").write_text(
        'name = "site-0"\n[data]\nformat = "csv"\ntrain = { a = "notes/train.csv" }\nlabel = "keys"\n'
    )
    kept = {"ledger/site.jsonl": "{}\n{", "memory/a/b/Met-1-1.kept": "m", "mine.py": "1"}
    left = {
        "notes/train.csv": "text", "log.txt": "l", "log.jsonl.1": "l", "printed.txt": "p", "memory/a/b/secret": "s",
        "memory/a/b/last.sum": "s", "kit/log.txt": "l", "kit/0-0/app/x.json": "{}", ".lock": "", "cache/a": "c",
    }  # fmt: skip
    for name, text in {**kept, **left}.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    copy, manifest = back_up(place, tmp_path / "copy.tar")
    assert 0o600 == copy.stat().st_mode & 0o777
    assert set() == {*left} & {*manifest.files}
    put_back(copy, tmp_path / "new")
    back = {path.relative_to(tmp_path / "new").as_posix(): path for path in (tmp_path / "new").rglob("*")}
    assert {*manifest.files, MARK} == {name for name, path in back.items() if path.is_file()}
    assert {*kept, "keys/seal.key", "kit/site.json"} < {*back}
    assert "{}\n" == back["ledger/site.jsonl"].read_text()  # a line that was being written is none
    assert {0o600} == {path.stat().st_mode & 0o777 for path in back.values() if path.is_file() and path.name != MARK}
    assert 0o700 == (tmp_path / "new").stat().st_mode & 0o777


def test_notes_that_lie_among_a_sites_own_files_are_not_copied_by_mistake(tmp_path: Path) -> None:
    place = site_of(tmp_path, study_of(tmp_path))
    (place / "site.toml").write_text('name = "site-0"\n[data]\nformat = "brat"\ntrain = "."\n')
    with pytest.raises(RunError, match="names the site's folder itself; put the notes elsewhere"):
        back_up(place, tmp_path / "copy.tar")


def test_a_copy_overwrites_nothing_and_is_put_over_nothing(tmp_path: Path) -> None:
    place = site_of(tmp_path, study_of(tmp_path))
    copy, _ = back_up(place, tmp_path / "copy.tar")
    with pytest.raises(RunError, match="is there already; give another name"):
        back_up(place, copy)
    with pytest.raises(RunError, match="lies in the folder that is copied"):
        back_up(place, place / "copy.tar")
    with pytest.raises(RunError, match="never over one that is in use"):
        put_back(copy, place)
    with pytest.raises(RunError, match="neither a site's folder nor a consortium's"):
        back_up(tmp_path / "none", tmp_path / "other.tar")
    with pytest.raises(RunError, match="is no folder that is there; name one, or a new file that ends in"):
        back_up(place, tmp_path / "not-mounted")
    named, _ = back_up(place, tmp_path)
    assert named.name.startswith("site-0-20")


def member(name: str, data: bytes = b"x", kind: bytes = tarfile.REGTYPE, link: str = "") -> tuple[tarfile.TarInfo, Any]:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(data), kind, link
    return info, io.BytesIO(data)


def with_first(raw: bytes, *first: tuple[tarfile.TarInfo, Any]) -> bytes:
    """The same copy with these members before all others."""
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(raw)) as old, tarfile.open(fileobj=out, mode="w") as new:
        for info, data in first:
            new.addfile(info, data)
        for info in old:
            new.addfile(info, old.extractfile(info))
    return out.getvalue()


def header(name: str, length: int = 0, kind: bytes = tarfile.REGTYPE, **pax: str) -> bytes:
    """The head of a member, with nothing behind it."""
    info = tarfile.TarInfo(name)
    info.size, info.type, info.pax_headers = length, kind, pax
    return info.tobuf(tarfile.PAX_FORMAT if pax else tarfile.GNU_FORMAT)


def hole(size: int) -> bytes:
    """A member that is nothing but a hole, which takes no room."""
    raw = bytearray(header("hole", 0, tarfile.GNUTYPE_SPARSE))
    for start, number in ((386, size), (398, 0), (483, size)):
        raw[start : start + 12] = b"%011o\0" % number if number < 8**11 else b"\x80" + number.to_bytes(11, "big")
    raw[148:156] = b" " * 8
    raw[148:156] = b"%06o\0 " % sum(raw)
    return bytes(raw)


@pytest.mark.parametrize(
    "harm",
    [
        lambda raw: header("large", 1 << 42) + raw,
        lambda raw: header("less", size="-5") + raw,
        lambda raw: hole(1 << 42) + raw,
        lambda raw: header("odd", path="a\0b") + raw,
        lambda raw: header("long", path="a" * 5000) + raw,
        lambda raw: header("one") + header("one/two/three") + raw,
        lambda raw: header("device", 0, tarfile.CHRTYPE) + raw,
        lambda raw: raw[: len(raw) // 2],
        lambda raw: raw.replace(b'name = "site-0"', b'name = "site-1"'),
        lambda raw: with_first(raw, member("../outside")),
        lambda raw: with_first(raw, member("/outside")),
        lambda raw: with_first(raw, member("keys/more.key")),
        lambda raw: with_first(raw, member("keys", b"", tarfile.SYMTYPE, "/outside")),
        lambda raw: with_first(raw, member("site.toml", b"", tarfile.LNKTYPE, "../outside")),
        lambda raw: with_first(raw, member("site.toml")),
        lambda raw: with_first(raw, member(MANIFEST, b"{}")),
        lambda _: b"",
        lambda _: b"no tar at all",
    ],
    ids=[
        "large",
        "less",
        "hole",
        "odd",
        "long",
        "below a file",
        "device",
        "cut",
        "changed",
        "up",
        "absolute",
        "more",
        "link",
        "hard link",
        "twice",
        "manifest",
        "empty",
        "other",
    ],
)
def test_what_is_no_whole_copy_of_ours_is_not_put_back(tmp_path: Path, harm: Callable[[bytes], bytes]) -> None:
    copy, _ = back_up(site_of(tmp_path / "a", study_of(tmp_path)), tmp_path / "copy.tar")
    copy.write_bytes(harm(copy.read_bytes()))
    with pytest.raises(RunError):
        put_back(copy, tmp_path / "b" / "new")
    assert [] == list((tmp_path / "b").rglob("*"))
    assert not (tmp_path / "outside").exists()


def test_a_copy_of_a_site_that_calls_itself_a_consortiums_is_marked_all_the_same(tmp_path: Path) -> None:
    copy, _ = back_up(site_of(tmp_path / "a", study_of(tmp_path)), tmp_path / "copy.tar")
    out = io.BytesIO()
    with tarfile.open(copy) as old, tarfile.open(fileobj=out, mode="w") as new:
        for info in old:
            data = cast("IO[bytes]", old.extractfile(info)).read()
            data = data.replace(b'"site"', b'"consortium"', 1) if info.name == MANIFEST else data
            new.addfile(*member(info.name, data))
    copy.write_bytes(out.getvalue())
    assert "consortium" == put_back(copy, tmp_path / "b").kind
    assert (tmp_path / "b" / MARK).exists()


def test_a_copy_made_while_the_ledger_grows_is_whole(tmp_path: Path) -> None:
    place = site_of(tmp_path, study_of(tmp_path))
    ledger, stop = HouseLedger(place / LEDGER, "site-0"), threading.Event()

    def grow() -> None:
        number = 0
        while not stop.is_set():
            ledger.greeted({"study": "0" * 64, "run": f"{number}"}, {"train": number})
            number += 1

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        copies = [back_up(place, tmp_path / f"{number}.tar")[0] for number in range(5)]
    finally:
        stop.set()
        writer.join()
    counts = []
    for number, copy in enumerate(copies):
        put_back(copy, tmp_path / f"new-{number}")
        path = tmp_path / f"new-{number}" / LEDGER
        counts.append(verify(path) if path.exists() else 0)
    assert sorted(counts) == counts
    assert counts[-1] <= verify(place / LEDGER)


def test_a_coordinators_folder_is_put_back_with_keys_members_and_what_it_knows_of_answers(tmp_path: Path) -> None:
    Exchange(tmp_path, study_of(tmp_path), NAMES)
    centre, back = tmp_path / "consortium", tmp_path / "back"
    for name, text in {
        "answers/site-0.jsonl": '{"a":1}\n{"a',
        "server/store/jobs/x": "",
        "server/startup/a": "a",
    }.items():
        (centre / name).parent.mkdir(parents=True, exist_ok=True)
        (centre / name).write_text(text)
    done = CliRunner().invoke(app, ["backup", str(centre), str(tmp_path / "copy.tar")])
    assert (0, True) == (done.exit_code, "it holds private keys" in done.output)
    done = CliRunner().invoke(app, ["restore", str(tmp_path / "copy.tar"), str(back)])
    assert "members, as of then: site-0, site-1, site-2. Whoever was revoked since is a member again" in done.output
    assert (centre / "keys" / "ask.key").read_bytes() == (back / "keys" / "ask.key").read_bytes()
    assert '{"a":1}\n' == (back / "answers" / "site-0.jsonl").read_text()
    there = {path.relative_to(back).as_posix() for path in back.rglob("*") if path.is_file()}
    assert {"answers/site-0.jsonl", "consortium.json", "keys/ask.key", "roster.json", "server/startup/a"} == there


# a site that was put back


@fault("put back")
@threat("asks again after a restore")
def test_a_site_that_was_put_back_counts_what_it_has_forgotten_as_spent(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    with Exchange(tmp_path, study, NAMES, restarts=9, exchanges=50) as exchange:
        copies: list[Path] = []

        def copied(name: str, head: dict[str, Any], answer: Any) -> Any:
            if name == "site-0" and head.get("exchange", {}).get("round") == 1 and not copies:
                copies.append(back_up(tmp_path / "site-0", tmp_path / "copy.tar")[0])
            return answer

        exchange.twist = copied
        submit(study, tmp_path / "run", exchange.over, wait=1.0)
        before = spent(tmp_path / "site-0", study)
        put_back(copies[0], tmp_path / "back")
        allow_no_restart(tmp_path / "back", study)
        assert spent(tmp_path / "back", study) < before
        exchange.sites["site-0"] = site = SiteProcess(tmp_path / "back")  # type: ignore[assignment]
        submit(study, tmp_path / "again", exchange.over, wait=0.1)
        left = {line.left_out.get("site-0", "") for line in read_journal(tmp_path / "again")}
        assert all("it was put back from a copy" in why for why in left)
        assert "answers nothing until somebody has said" in (tmp_path / "back" / "log.txt").read_text()
        lapse = read_lapse(tmp_path / "back")
        assert lapse is not None
        assert {1, 2} == {one.round for one in lapse.answers if one.round}
        shown = CliRunner().invoke(app, ["site", "recover", str(tmp_path / "back")], env={"COLUMNS": "200"})
        assert 0 != shown.exit_code
        assert f"{len(lapse.answers):,}" in shown.output
        assert f"{study.name} ({study_hash(study)[:8]})" in shown.output
        assert spent(tmp_path / "back", study) < before
        done = CliRunner().invoke(app, ["site", "recover", str(tmp_path / "back"), "--as-told"])
        assert 0 == done.exit_code, done.output
        assert before == spent(tmp_path / "back", study)
        known, told = (Budget(tmp_path / place / LEDGER).of(study_hash(study)) for place in ("site-0", "back"))
        assert (known.states, known.answered) == (told.states, told.answered)  # one state per round, forgotten or not
        assert {1, 2, 3} == set(told.states)
        # what it answered may leave again, bit for bit; anything else in its place may not
        submit(study, tmp_path / "third", exchange.over, wait=1.0)
        assert [{}, {}] == [dict(line.left_out) for line in read_journal(tmp_path / "third")]
        assert before == spent(tmp_path / "back", study)
        weights = first_weights(study, tmp_path)
        number = next(one.exchange for one in lapse.answers if one.step == "fit")
        other = ask(study, Global(weights * 1.001), run="2" * 16, seed=study.seed, number=number)
        assert "restart" == put(site, *other)[0].get("fault")
    assert compared(tmp_path / "back" / LEDGER, tmp_path / "run" / "ledger" / "coordinator.jsonl")
    assert verify(tmp_path / "back" / LEDGER)
    printed = CliRunner().invoke(app, ["ledger", "page", str(tmp_path / "back"), "--out", str(tmp_path / "page.html")])
    assert 0 == printed.exit_code, printed.output
    words = f"This site was put back from a copy. What it had forgotten by then, {len(lapse.answers)} answers,"
    assert words in (tmp_path / "page.html").read_text(encoding="utf-8")


@threat("a rollback")
def test_a_site_that_was_rolled_back_by_other_means_is_shown_its_own_future(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    with Exchange(tmp_path, study, NAMES, restarts=9, exchanges=50) as exchange:
        shutil.copytree(tmp_path / "site-0", tmp_path / "old")
        submit(study, tmp_path / "run", exchange.over, wait=1.0)
        exchange.sites["site-0"] = SiteProcess(tmp_path / "old")  # type: ignore[assignment]
        submit(study, tmp_path / "again", exchange.over, wait=0.1)
        assert (tmp_path / "old" / MARK).exists()
        assert ["restored"] == [line["refused"] for line in lines(tmp_path / "old" / LEDGER) if "refused" in line]
        recover(tmp_path / "old", as_told=False)
        assert 0 < compared(tmp_path / "old" / LEDGER, tmp_path / "run" / "ledger" / "coordinator.jsonl")
        for more in (["show"], ["page", "--out", str(tmp_path / "page.html")]):  # what was told has no words in it
            shown = CliRunner().invoke(app, ["ledger", more[0], str(tmp_path / "old"), *more[1:]])
            assert 0 == shown.exit_code, shown.exception
        before = spent(tmp_path / "old", study)
        submit(study, tmp_path / "third", exchange.over, wait=0.1)  # bit for bit what left before, which is free
    assert before == spent(tmp_path / "old", study) == spent(tmp_path / "site-0", study)


def test_nothing_is_recovered_before_the_coordinator_has_told_and_no_older_letter_counts(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    place = site_of(tmp_path, study)
    with pytest.raises(RunError, match="nothing to recover"):
        recover(place, as_told=True)
    first = mark_restored(place)
    site = SiteProcess(place)
    head, data = ask(study, Global(first_weights(study, tmp_path)))
    assert {"fault": "restored", "lapse": first.lapse} == put(site, head, data)[0]
    with pytest.raises(RunError, match="has not said yet"):
        recover(place, as_told=True)
    mark_restored(place)
    assert "restored" == put(site, {**head, "exchange": None, "told": first.lapse})[0]["fault"]
    assert not (place / ACCOUNT).exists()
    now = read_lapse(place)
    assert now is not None
    assert {} == put(site, {**head, "exchange": None, "told": now.mark.lapse})[0]
    letter = (place / ACCOUNT).read_bytes()
    assert {} == put(site, {**head, "exchange": None, "told": now.mark.lapse}, b"{}\n")[0]
    assert letter == (place / ACCOUNT).read_bytes()  # while somebody looks at the first, no other takes its place
    (place / ACCOUNT).write_text((place / ACCOUNT).read_text().replace('"lines": []', '"lines": ["{}"]'))
    with pytest.raises(RunError, match="is not what the coordinator has said"):
        recover(place, as_told=True)


TOLD_LINE: dict[str, Any] = {
    "time": "2026-11-17T12:00:00+00:00", "study": "0" * 16, "run": "0" * 16, "attempt": 0, "round": 1, "exchange": 1,
    "step": "fit", "received": {"kind": "Global", "bytes": 1, "digest": "a" * 64}, "was": "c" * 64,
    "sent": {"kind": "Update", "bytes": 1, "digest": "b" * 64},
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({}, True),
        ({"time": "\x1b[2K\x1b[1Anothing"}, False),
        ({"step": "\N{RIGHT-TO-LEFT OVERRIDE}fit"}, False),
        ({"round": 10**30}, False),
        ({"received": {**TOLD_LINE["received"], "still": {"share": "x" * 201}}}, False),
    ],
    ids=["plain", "cursor", "direction", "round", "text"],
)
def test_what_is_told_cannot_move_the_cursor_of_whoever_decides(
    tmp_path: Path, change: dict[str, Any], shown: bool
) -> None:
    study = study_of(tmp_path)
    place = site_of(tmp_path, study)
    site, mark = SiteProcess(place), mark_restored(place)
    head, _ = ask(study, Global(first_weights(study, tmp_path)))
    put(site, {**head, "exchange": None, "told": mark.lapse}, json.dumps({**TOLD_LINE, **change}).encode() + b"\n")
    output = CliRunner().invoke(app, ["site", "recover", str(place)]).output
    assert shown == ("the coordinator says that this was answered" in output)
    assert "\x1b[2K" not in output


def test_a_line_that_a_full_disk_cut_off_costs_no_other_answer(tmp_path: Path) -> None:
    answers = Answers(tmp_path / "answers")
    answers.note("site-0", {"was": "a"})
    path = tmp_path / "answers" / "site-0.jsonl"
    path.write_bytes(path.read_bytes() + b'{"time":"2026-11-17T12:00:00+00:00","was":"b')
    assert "a" == Answers(tmp_path / "answers").head("site-0")
    Answers(tmp_path / "answers").note("site-0", {"was": "c"})
    again = Answers(tmp_path / "answers")
    assert ["a", "c"] == [json.loads(line)["was"] for line in again.all_of("site-0").splitlines()]
    assert "c" == again.head("site-0")


@pytest.mark.parametrize(("key", "value"), [("time", "[red]now"), ("step", "fit\x1b[2J"), ("was", "0"), ("run", "*")])
def test_what_a_coordinator_tells_cannot_be_shown_as_anything_else(key: str, value: str) -> None:
    side = {"kind": "Update", "bytes": 1, "digest": "0" * 64}
    line = {
        "time": "2026-11-17T12:00:00+00:00", "study": "0" * 16, "run": "1" * 16, "attempt": 0, "round": 1,
        "exchange": 1, "step": "Masks.open", "received": side, "sent": side, "was": "0" * 64,
    }  # fmt: skip
    assert "Masks.open" == ToldAnswer.model_validate(line).step
    with pytest.raises(ValidationError, match=key):
        ToldAnswer.model_validate({**line, key: value})


def test_what_a_coordinator_tells_does_not_change_what_stands_still() -> None:
    """Of ten sentences and of eleven, the gradients tell that of one, whoever says which it was."""
    place = {"study": "s", "run": "r", "round": 1, "exchange": 1, "step": "grade"}
    line = {**place, "mark": "new", "sent": {"digest": ""}}
    budget = Budget()
    for share in (10, 11):
        budget.take({**line, "received": {"digest": "", "still": {"share": share}}})
    assert {"grade": {"share": 10}} == budget.of("s").still


@threat("the privacy budget after a restore")
@pytest.mark.parametrize("as_told", [True, False])
def test_a_privacy_budget_is_not_spent_twice(tmp_path: Path, as_told: bool) -> None:
    method = {"name": "fedavg", "lr": 0.5, "batch": 8}
    study = study_of(tmp_path, privacy={"dp": TERMS}, method=method, evaluation={"every": 2})
    consent = (*OPEN, "[budget]", "epsilon = 50.0", "delta = 0.05")
    with Exchange(tmp_path, study, NAMES, consent=consent, exchanges=99, restarts=9) as exchange:
        settings = tmp_path / "site-0" / "site.toml"
        settings.write_text(settings.read_text().replace("epsilon = 50.0", "epsilon = 5.0"))
        copy, _ = back_up(tmp_path / "site-0", tmp_path / "copy.tar")
        submit(study, tmp_path / "run", exchange.over, wait=1.0)
        assert list(lines(tmp_path / "site-0" / JOURNAL))
        put_back(copy, tmp_path / "back")
        exchange.sites["site-0"] = SiteProcess(tmp_path / "back")  # type: ignore[assignment]
        for out in ("again", "third"):
            submit(study, tmp_path / out, exchange.over, wait=0.1)
            for line in read_journal(tmp_path / out):
                why = "put back from a copy" if out == "again" else "its privacy budget" if as_told else "refused"
                assert why in line.left_out["site-0"]
            if out == "again":
                assert not (tmp_path / "back" / JOURNAL).exists()
                recover(tmp_path / "back", as_told=as_told)
                assert 0 < compared(tmp_path / "back" / LEDGER, tmp_path / "run" / "ledger" / "coordinator.jsonl")
    shown = CliRunner().invoke(app, ["site", "budget", str(tmp_path / "back")], env={"COLUMNS": "200"}).output
    assert f"spent in all: ε = {4 if as_told else 5}.000 of 5" in shown

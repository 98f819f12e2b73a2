"""What can go wrong between hospitals, done to real processes; the table of `docs/faults.md` is made from here.

One federation serves the module. Each test leaves it whole, or waits until it is; each has an end.
"""

import json
import resource
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import torch

from fault_table import fault
from loopback import Exchange
from real_sites import Answer, Between, Federation, Liar, wait_until
from study_files import cli, start
from wardround.cli.app import main
from wardround.consortium.kit_check import reach
from wardround.consortium.kits import init_site, new_consortium
from wardround.consortium.submit import submit
from wardround.core.codec import decode
from wardround.core.device import OUT_OF_MEMORY
from wardround.core.weights import Weights
from wardround.layers.bound import NOTED
from wardround.methods.scaffold import ScaffoldUpdate
from wardround.runs.files import Round
from wardround.runs.loop import run
from wardround.study.load import Study, cells

pytest.importorskip("nvflare")

SITES = ("site-0", "site-1", "site-2")

SHAKY = '''
"""SCAFFOLD, whose sites remember something, with sites that do what a file beside this one says."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from wardround.extend import Site, Weights, on_site
from wardround.methods.scaffold import Controlled, Scaffold, ScaffoldUpdate

ARMED = Path(__file__).parent / "armed"


@dataclass(frozen=True, kw_only=True)
class Shaky(Scaffold):
    """SCAFFOLD on shaky ground."""

    @on_site
    def fit(self, model: Controlled, site: Site) -> ScaffoldUpdate:
        """Train, or do what is said."""
        mark = ARMED / f"{site.exchange.round}-{site.name}"
        order = mark.read_text() if mark.exists() else ""
        if order:
            mark.rename(mark.with_suffix(".reached"))
        if order == "pause":
            time.sleep(600)
        if order == "sleep":
            time.sleep(5)
        if order == "raise":
            raise ValueError("Mrs Miller, born 1950, has a rash")
        if order == "memory":
            torch.empty(10**15)
        update = super().fit.run(model, site)
        if order == "nan":
            update = replace(update, change=update.change * float("nan"))
        if order == "shape":
            update = replace(update, change=Weights({name: torch.zeros(3) for name in update.change}))
        if order == "count":
            update = replace(update, weight=10**12)
        return update
'''


@dataclass
class Scene:
    """The federation, a study on it, and what an undisturbed run of that study gives."""

    federation: Federation
    study: Study
    beside: Path
    expected: dict[str, Any]
    lines: list[str] = field(default_factory=list)

    def arm(self, round_: int, site: str, what: str) -> Path:
        folder = self.federation.site(site) / "armed"
        folder.mkdir(exist_ok=True)
        (folder / f"{round_}-{site}").write_text(what)
        reached = folder / f"{round_}-{site}.reached"
        reached.unlink(missing_ok=True)
        return reached

    def submit(self, out: Path, **options: Any) -> list[Round]:
        """Run the study; its journal."""
        lines: list[Round] = []
        after: Callable[[Round], None] = options.pop("after", lambda _: None)

        def progress(line: Round) -> None:
            lines.append(line)
            after(line)

        self.federation.submit(self.study, out, progress=progress, say=self.lines.append, **options)
        return lines

    def file(self) -> Path:
        """The study as a file, for the command line."""
        path = self.beside / "study.toml"
        path.write_text(self.study.toml(), encoding="utf-8")
        return path


def outcome(out: Path) -> dict[str, Any]:
    journal = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    for line in journal:
        line.pop("seconds")
        line.pop("ended")
        line["noted"].pop(NOTED, None)  # by which real sites are judged
    return {
        "model": (out / "model" / "weights.safetensors").read_bytes(),
        "state": max((out / "checkpoints").glob("round-*")).read_bytes(),
        "journal": journal,
    }


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("f")
    beside = folder / "beside"
    beside.mkdir()
    (beside / "shaky.py").write_text(SHAKY, encoding="utf-8")
    tables = {
        "name": "shaky", "rounds": 5, "method": {"name": "shaky:Shaky"}, "task": {"name": "features"},
        "corpus": {"name": "synthetic", "sites": 3, "largest": 40}, "partition": {"name": "iid", "sites": 3},
        "sites": {"quorum": 2},
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(beside)
        study = cells(tables, folder=beside)[0].study
        run(study, folder / "inline", checkpoint_seconds=0)
        with Federation(folder, SITES, [beside / "shaky.py"]) as federation:
            federation.approve(study)
            federation.ready(study)
            yield Scene(federation, study, beside, outcome(folder / "inline"))
    sys.modules.pop("shaky", None)


@pytest.fixture(autouse=True)
def _fresh(request: pytest.FixtureRequest) -> None:
    if "scene" in request.fixturenames:
        scene = request.getfixturevalue("scene")
        scene.lines.clear()
        scene.federation.whole(scene.study)


# processes that are killed


@fault("killed at a site")
def test_a_killed_process_at_a_site_costs_seconds_and_nothing_else(scene: Scene, tmp_path: Path) -> None:
    own = "wardround.consortium.site_process"
    job = "wardround.engines.flare nvflare.private.fed.app.client.worker_process"  # through our launcher
    parts = {2: (own,), 3: (job, own), 4: ("client_train", own)}  # the last to end the pause as well
    marks = {round_: scene.arm(round_, "site-1", "pause") for round_ in parts}

    def kill() -> None:
        for round_, reached in marks.items():
            wait_until(reached.exists)
            for part in parts[round_]:
                scene.federation.kill_part("site-1", part)

    killer = threading.Thread(target=kill)
    killer.start()
    lines = scene.submit(tmp_path / "run")
    killer.join()
    assert [{}] * 5 == [line.left_out for line in lines]
    assert scene.expected == outcome(tmp_path / "run")


@fault("killed coordinator")
def test_a_killed_coordinator_goes_on_where_it_was(scene: Scene, tmp_path: Path) -> None:
    federation, out = scene.federation, tmp_path / "run"
    reached = scene.arm(3, "site-1", "pause")
    order = ["submit", scene.file(), "--to", federation.centre, "--out", out, "--quiet"]
    running = start(*order, cwd=scene.beside)
    wait_until(reached.exists)
    federation.kill("coordinator")
    running.kill()
    federation.kill_part("site-1", "wardround.consortium.site_process")
    federation.start("coordinator")
    ended = cli(*order, cwd=scene.beside)
    assert (2, True) == (ended.code, "go on with --resume" in ended.err or "is not running" in ended.err)
    wait_until(lambda: cli("status", federation.centre, cwd=scene.beside).code == 0)
    ended = cli(*order, "--resume", cwd=scene.beside)
    assert (0, "") == (ended.code, ended.err)
    assert scene.expected == outcome(out)
    assert [2] == json.loads((out / "run.json").read_text())["resumed"]


# sites that are slow, away, or of another mind


@fault("straggler")
def test_a_straggler_is_left_out_by_name_and_taken_back(scene: Scene, tmp_path: Path) -> None:
    scene.arm(2, "site-1", "sleep")
    lines = scene.submit(tmp_path / "run", over=scene.federation.over(deadline=3.5))
    assert [{}, {"site-1": "fit: late: no reply within the deadline"}, {}, {}, {}] == [x.left_out for x in lines]


@fault("away")
@fault("quorum")
def test_sites_that_were_away_are_taken_back_and_a_lost_quorum_is_waited_for(scene: Scene, tmp_path: Path) -> None:
    federation = scene.federation
    lines: list[Round] = []

    def after(line: Round) -> None:
        lines.append(line)
        if line.round in (1, 3):
            federation.power_cut("site-1" if line.round == 1 else "site-2")

    def say(text: str) -> None:
        scene.lines.append(text)
        if text.startswith("round 4"):
            federation.start("site-1")
            federation.start("site-2")

    federation.submit(scene.study, tmp_path / "run", over=federation.over(patience=1.0), progress=after, say=say)
    assert [[], ["site-1"], ["site-1"], [], []] == [list(line.left_out) for line in lines]
    assert all("lost" in why for line in lines for why in line.left_out.values())
    assert 1 == sum("the quorum is 2" in text and "waiting for sites to come back" in text for text in scene.lines)
    kept = {path.name for path in (federation.site("site-1") / "memory").rglob("OwnControl-*.kept")}
    assert "OwnControl-5-1-1.kept" in kept  # of the second attempt


def test_below_the_quorum_for_too_long_a_run_stops_clearly(scene: Scene, tmp_path: Path) -> None:
    other = cells({**scene.study.resolved, "seed": 4}, folder=scene.beside)[0].study
    with pytest.raises(
        Exception, match=r"0 of 3 sites are ready, the quorum is 2: site-0: refused: it has not approved"
    ):
        scene.federation.submit(other, tmp_path / "run", wait=0.5)


@fault("not approved")
def test_a_site_that_approved_another_study_refuses(scene: Scene, tmp_path: Path) -> None:
    federation = scene.federation
    other = cells({**scene.study.resolved, "seed": 5, "rounds": 2}, folder=scene.beside)[0].study
    federation.approve(other, "site-0", "site-1")
    before = len(federation.ledger("site-2"))
    lines: list[Round] = []
    federation.submit(other, tmp_path / "run", progress=lines.append, say=scene.lines.append)
    assert [["site-2"]] * 2 == [list(line.left_out) for line in lines]
    assert "refused: it has not approved this study" in lines[0].left_out["site-2"]
    assert any("going on with 2 of 3 sites" in text for text in scene.lines)
    assert {"study"} == {line["refused"] for line in federation.ledger("site-2")[before:]}


UNFIT = "fit: invalid: its result does not fit the study (NaN, shape, count or too large a number), and it sent nothing"


@pytest.mark.parametrize(("what", "why"), [
    ("nan", UNFIT), ("shape", UNFIT), ("count", UNFIT),
    ("raise", "fit: failed: an error in the step; its own log says where"),
    ("memory", f"fit: failed: {OUT_OF_MEMORY}"),  # and in the next round the site answers again
])  # fmt: skip
@fault("faulty result")
def test_a_faulty_result_does_not_leave_the_site(scene: Scene, tmp_path: Path, what: str, why: str) -> None:
    scene.arm(2, "site-1", what)
    lines = scene.submit(tmp_path / "run")
    assert [{}, {"site-1": why}, {}, {}, {}] == [line.left_out for line in lines]
    everything = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    log = (scene.federation.site("site-1") / "log.txt").read_text()
    assert b"Miller" not in everything
    assert "Miller" not in log
    assert what != "raise" or "ValueError at shaky.py:" in log
    assert what != "memory" or f"failed in fit of round 2: {OUT_OF_MEMORY}" in log


LIES: tuple[Callable[[ScaffoldUpdate], bytes], ...] = (
    lambda update: replace(update, change=update.change * float("nan")).encode(),
    lambda update: replace(update, change=Weights({name: torch.zeros(3) for name in update.change})).encode(),
    lambda update: replace(update, weight=10**12).encode(),
    lambda update: update.encode() + bytes(10**6),
    lambda _: b"garbage",
)
"""What a site sends in place of its update, from round 2 on."""
FOUND = [
    "",
    "fit: invalid: ScaffoldUpdate.change holds NaN or infinity",
    "fit: invalid: ScaffoldUpdate.change does not fit: ",
    "fit: invalid: ScaffoldUpdate.weight is outside 0 … 1,000,000,000",
    "fit: invalid: ScaffoldUpdate of ",
    "fit: invalid: the bytes are cut off or are no safetensors file",
]
"""How each is found out."""


@fault("hostile reply")
def test_a_site_that_lies_is_left_out_and_nothing_that_it_sent_counts(scene: Scene, tmp_path: Path) -> None:
    study = cells({**scene.study.resolved, "rounds": len(FOUND)}, folder=scene.beside)[0].study

    def lying(head: Mapping[str, Any], answer: Answer) -> Answer:
        content = head.get("exchange") or {}
        if content.get("step") != "fit" or content["round"] == 1:
            return answer
        return answer[0], LIES[content["round"] - 2](decode(ScaffoldUpdate, answer[1]))

    scene.federation.approve(study)
    lines: list[Round] = []
    with Liar(scene.federation, "site-1", lying):
        scene.federation.submit(study, tmp_path / "run", progress=lines.append)
    assert [[], *[["site-1"]] * len(LIES)] == [list(line.left_out) for line in lines]
    said = [line.left_out.get("site-1", "") for line in lines]
    assert FOUND == [content[: len(found)] for content, found in zip(said, FOUND, strict=True)]
    module = scene.beside / "shaky.py"
    with Exchange(
        tmp_path / "x", study, SITES, modules=[module]
    ) as exchange:  # the same, but for a site that is not there

        def failing(name: str, head: dict[str, Any], answer: Answer) -> Answer:
            content = head.get("exchange") or {}
            away = name == "site-1" and content.get("step") == "fit" and content["round"] > 1
            return ({"fault": "failed"}, b"") if away else answer

        exchange.twist = failing
        submit(study, tmp_path / "without", exchange.over)
    assert outcome(tmp_path / "without")["state"] == outcome(tmp_path / "run")["state"]


@fault("replayed")
def test_an_honest_reply_that_is_sent_again_is_not_looked_at(scene: Scene, tmp_path: Path) -> None:
    carried: list[Answer] = []

    def replaying(head: Mapping[str, Any], answer: Answer) -> Answer:
        if (head.get("exchange") or {}).get("step") != "fit":
            return answer
        carried.append(answer)
        return carried[0] if len(carried) == 2 else answer

    lines: list[Round] = []
    with Between(scene.federation.site("site-1"), replaying):
        scene.federation.submit(scene.study, tmp_path / "run", progress=lines.append)
    why = "fit: invalid: what came back is not sealed by it to this ask"
    assert [{}, {"site-1": why}, {}, {}, {}] == [line.left_out for line in lines]


# disks


@fault("disk at a site")
def test_a_site_with_a_full_disk_sends_nothing(scene: Scene, tmp_path: Path) -> None:
    pid = scene.federation.pid("site-1", "wardround.consortium.site_process")
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)

    def after(line: Round) -> None:
        if line.round <= 2:
            limit = (64, before[1]) if line.round == 1 else before
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limit)

    lines = scene.submit(tmp_path / "run", after=after)
    assert [[], ["site-1"], [], [], []] == [list(line.left_out) for line in lines]
    assert "no room left on its disk, and sent nothing" in lines[1].left_out["site-1"]


@fault("disk at the coordinator")
def test_a_coordinator_with_a_full_disk_goes_on_when_there_is_room(scene: Scene, tmp_path: Path) -> None:
    order = ["submit", scene.file(), "--to", scene.federation.centre, "--out", tmp_path / "run", "--quiet"]
    ended = cli(*order, cwd=scene.beside, file_limit=4500)
    assert 1 == ended.code
    assert "no room left to write" in ended.err
    assert "--resume" in ended.err
    ended = cli(*order, "--resume", cwd=scene.beside)
    assert (0, "") == (ended.code, ended.err)
    assert scene.expected == outcome(tmp_path / "run")


# certificates and kits


def called(*arguments: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """A command in this process: its exit code and what it said of errors."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(str(ended.value.code)), capsys.readouterr().err


@fault("expired")
def test_an_expired_certificate_is_refused_at_both_ends(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = copied(scene, "site-0", tmp_path)
    expire(scene.federation.centre / "root", place / "kit" / "startup", days=3)
    code, said = called("site", "start", place, capsys=capsys)
    assert (2, True) == (code, "certificate expired 3 days ago (client.crt" in said)
    host, port = "127.0.0.1", json.loads((scene.federation.centre / "consortium.json").read_text())["port"]
    assert "refuses this kit's certificate" in str(reach(place / "kit" / "startup", host, port))
    assert reach(scene.federation.site("site-0") / "kit" / "startup", host, port) is None


@fault("other consortium")
def test_a_kit_of_another_consortium_is_refused(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = json.loads((scene.federation.centre / "consortium.json").read_text())["port"]
    (kit,) = new_consortium(tmp_path / "other", "other", ["site-0"], "127.0.0.1", port)
    init_site(kit, tmp_path / "site")
    code, said = called("site", "start", tmp_path / "site", capsys=capsys)
    assert (2, True) == (code, "its certificate is signed by another root" in said)


def copied(scene: Scene, name: str, folder: Path) -> Path:
    place, source = folder / name, scene.federation.site(name)
    for part in ("keys", "kit/startup", "kit/local"):
        shutil.copytree(source / part, place / part)
    for part in ("kit/site.json", "kit.sha256", "site.toml"):
        shutil.copy(source / part, place / part)
    return place


def expire(root: Path, startup: Path, days: int) -> None:
    """Sign the site's key anew, with dates in the past."""
    from cryptography import x509  # noqa: PLC0415 -- comes with NVFlare
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415

    authority = serialization.load_pem_private_key((root / "root.key").read_bytes(), None)
    old = x509.load_pem_x509_certificate((startup / "client.crt").read_bytes())
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(old.subject)
        .issuer_name(old.issuer)
        .public_key(old.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=100))
        .not_valid_after(now - timedelta(days=days, hours=1))
        .sign(authority, hashes.SHA256())  # type: ignore[arg-type]
    )
    (startup / "client.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))

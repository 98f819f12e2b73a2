"""Those who try the door of a hospital: what each of them holds, and what each can do with it.

    loot = attack(neighbour(federation, "site-0", victim="site-1"), asks)      # another hospital, with its own kit
    loot = attack(local_user(federation, "site-1"), asks, user="nobody")        # a user of the hospital's machine
    with Liar(federation, study) as liar: liar.ask("site-1", Global(weights))    # the coordinator itself

A cell of NVFlare's is attached by `foreign_cell.py`, a process of its own; whatever happens, it ends.
"""

import base64
import dataclasses
import json
import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from real_sites import Answer, Federation
from wardround import __version__
from wardround.consortium.deployed import study_hash
from wardround.consortium.forms import read_charter
from wardround.consortium.roster import read_roster
from wardround.core.record import Message
from wardround.core.weights import Weights
from wardround.engines.seal import Asker, read_signing_key
from wardround.methods.fedavg import Update
from wardround.runs.build import build_apart
from wardround.study.load import Study

__all__ = [
    "Liar", "Loot", "Plan", "attack", "bag", "exchange_of", "forged_asks", "local_user", "neighbour", "plain_ask",
    "settled_labels", "start_of", "words_between",
]  # fmt: skip

PROGRAM = Path(__file__).with_name("foreign_cell.py")
SECONDS = 240.0  # four asks that all meet silence, on a busy machine
SATURATED = 40.0
"""A score beyond which a softmax is 0 or 1 to the last bit of a float."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a foreign cell attaches, and whose door it wants; see `foreign_cell`."""

    name: str
    victim: str
    root: str = ""
    kit: str = ""
    auth: Mapping[str, str] = field(default_factory=dict)
    look: str = ""
    seconds: float = 30.0
    """How long it waits to be let in; whoever is, is within two."""


@dataclass(frozen=True)
class Loot:
    """What an attacker came home with."""

    user: int
    connected: bool
    peers: Sequence[str]
    answers: Sequence[Answer]

    @property
    def messages(self) -> list[bytes]:
        """What is more than a code."""
        return [data for _, data in self.answers if data]

    @property
    def codes(self) -> list[str]:
        """What was answered in place of a message; "silence" where nothing was."""
        return [str(head.get("fault", "silence")) for head, data in self.answers if not data]


def attack(plan: Plan, asks: Sequence[Answer], user: str = "") -> Loot:
    """Have a process of its own carry out a plan, as another user if one is named, with nothing of ours at hand."""
    content = {**dataclasses.asdict(plan), "asks": [[head, base64.b64encode(data).decode()] for head, data in asks]}
    if user:
        content["become"] = [pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid]
    with tempfile.TemporaryDirectory() as nowhere:  # NVFlare looks for settings all through the folder that it is in
        Path(nowhere).chmod(0o755)
        ended = subprocess.run(
            [sys.executable, "-I", str(PROGRAM)], input=json.dumps(content).encode(), capture_output=True, check=False,
            timeout=SECONDS, cwd=nowhere, env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
        )  # fmt: skip
    assert ended.returncode == 0, ended.stderr.decode()[-2000:]
    found = json.loads(ended.stdout)
    answers = [(one["head"] or {}, base64.b64decode(one["data"])) for one in found["answers"]]
    return Loot(found["user"], found["connected"], found["peers"], answers)


def neighbour(federation: Federation, name: str, victim: str, *, inside: bool) -> Plan:
    """A hospital that turns against another: through its own NVFlare client's line, or by a second one of its own."""
    pid = federation.pid(name, "client.worker_process")
    pairs = (part.partition(b"=") for part in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    own = {key.decode(): value.decode() for key, _, value in pairs}
    auth = {
        "client": name, "token": own["NVFLARE_JOB_AUTH_TOKEN"], "signature": own["NVFLARE_JOB_TOKEN_SIGNATURE"],
    }  # fmt: skip
    if not inside:
        return Plan(
            name=f"{name}.spy",
            victim=victim,
            root=root_of(federation),
            kit=kit_of(federation, name),
            auth=auth,
            seconds=10.0,
        )
    return Plan(name=f"{name}.spy", victim=victim, look=str(federation.site(name)), auth=auth)


def root_of(federation: Federation) -> str:
    """The coordinator's address, as every kit has it."""
    charter = read_charter(federation.centre)
    return f"grpc://{charter.host}:{charter.port}"


def kit_of(federation: Federation, name: str) -> str:
    """Where a site has its certificate and its key."""
    return str(next(federation.site(name).rglob("client.crt")).parent)


def local_user(federation: Federation, victim: str) -> Plan:
    """Somebody with an account on the hospital's machine: the list of processes, and no file of the site's."""
    return Plan(name=f"{victim}.spy", victim=victim, look=str(federation.site(victim)))


# asks


def exchange_of(**changes: Any) -> dict[str, Any]:
    """The first exchange of a run, but for the changes."""
    return {"step": "fit", "round": 1, "number": 1, "settled": 0, "seed": 0, "resumed": [], **changes}


def plain_ask(study: Study, message: Message, run: str, **changes: Any) -> Answer:
    """An ask as a site understands it, neither signed nor sealed: it takes the study to write it, and nothing else."""
    head = {
        "version": __version__, "study": study_hash(study), "run": run, "ask": "1", "seconds": 20.0, "ledger": "",
        "exchange": exchange_of(seed=study.seed, **changes),
    }  # fmt: skip
    return head, message.encode()


def forged_asks(federation: Federation, victim: str, study: Study, message: Message, run: str) -> list[Answer]:
    """The same ask without a signature; signed by another key; signed by the coordinator, but for another site."""
    head, data = plain_ask(study, message, run)
    seals = {name: member.seal for name, member in read_roster(federation.centre).items()}
    own = Asker(Ed25519PrivateKey.generate(), seals).write(victim, head, data)
    other = next(name for name in federation.names if name != victim)
    theirs = Asker(read_signing_key(federation.centre / "keys" / "ask.key"), seals).write(other, head, data)
    letters = [(own.head, own.data), (theirs.head, theirs.data), ({**theirs.head, "to": victim}, own.data)]
    return [(head, data), *(({**outside, "seconds": 20.0}, sealed) for outside, sealed in letters)]


def start_of(study: Study, names: Sequence[str]) -> Weights:
    """The study's own first model."""
    with tempfile.TemporaryDirectory() as folder:
        return build_apart(study, Path(folder), tuple(names)).weights


class Liar:
    """The coordinator itself, all its keys in hand, that asks what it likes."""

    def __init__(self, federation: Federation, study: Study) -> None:
        self.study = study
        self.folder = tempfile.TemporaryDirectory()
        self.remote = federation.over(deadline=30.0, patience=20.0).remote(study, Path(self.folder.name))

    def ask(self, site: str, message: Message, run: str = "0" * 16, **changes: Any) -> Answer:
        """The site's answer to this message in this exchange, opened."""
        self.remote.mark["run"] = run
        head = {"exchange": exchange_of(seed=self.study.seed, **changes), "ledger": "", "void": []}
        return self.remote.put(site, head, message.encode(), 30.0)  # as nobody else may

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remote.close()
        self.folder.cleanup()


# chosen models of a bag of words: scores are the sum of its words' rows, over the root of their number, and a bias


def bag(like: Weights, bias: Mapping[int, float], words: Mapping[int, Mapping[int, float]] | None = None) -> Weights:
    """A model with these scores, by class, for any note, and for notes with these words; 0 elsewhere."""
    made = {name: torch.zeros_like(value) for name, value in like.items()}
    for label, score in bias.items():
        made["bias"][label] = score
    for word, scores in (words or {}).items():
        for label, score in scores.items():
            made["words.weight"][word, label] = score
    return Weights(made)


def settled_labels(update: Update, lr: float) -> list[int]:
    """How many notes have each label, by one step from a model that is sure of class 0: n Δb = lr · count."""
    others = [round(float(value) / lr) for value in update.change["bias"][1:]]
    return [update.weight - sum(others), *others]


def words_between(before: Update, after: Update, vocabulary: Mapping[str, int]) -> set[str]:
    """The words of all notes of which the second model thought otherwise than the first."""
    rows = (after.change["words.weight"] - before.change["words.weight"]).abs().sum(1) > 1e-4
    return {word for word, number in vocabulary.items() if rows[number]}

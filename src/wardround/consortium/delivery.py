"""The model of a run that has ended, brought to every site that took part: the last letter of a run.

A site that comes back may have been put back from a copy: it is told then what it has forgotten (`forgotten`). And it
hears who are members, for some may have been admitted after its kit was made: then it knows whom to ring up.

    bring(over.remote(study, out), out, names, say)                       # `wardround submit` does it at its end
    python -m wardround.consortium.delivery CONSORTIUM                    # the coordinator's process does, once a site
                                                                          # is back that was away then

What travels is `model.json`, the weights, the card, the study, their checksums and, if there is one, the signature;
what sites have themselves, such as an encoder, does not. `delivered.json` in the run folder says who has what. Both
ledgers have a line, the site's with what the coordinator signed.
"""

import hashlib
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wardround.consortium.answers import PLACE as ANSWERS
from wardround.consortium.answers import Answers
from wardround.consortium.roster import read_roster
from wardround.consortium.submitted import RESTORED, pending
from wardround.engines.frames import door_of
from wardround.engines.processes import end_with_parent
from wardround.engines.remote import Remote, fault
from wardround.engines.seal import Asker, Parcel, read_signing_key
from wardround.layers.ledger import Chain, lines
from wardround.runs.errors import RunError
from wardround.runs.files import DELIVERED, Delivered
from wardround.runs.folder import locked
from wardround.trained.about import ABOUT, CARD, SIGNATURE, SUMS, WEIGHTS, ModelError, verify

FILES = (ABOUT, WEIGHTS, CARD, "study.toml", SUMS, SIGNATURE)
"""Of a model's folder, what travels; the last is there only if somebody signed it."""
SECONDS, SLOWEST = 60.0, 100_000.0  # for a site to take it, and the bytes a second that its line has at least
PATIENCE = 2.0  # for a site that is away, which gets it later


def model_of(out: Path) -> tuple[dict[str, Any], bytes]:
    """What a letter says of a run's model, and the files one after the other."""
    folder = out / "model"
    verify(folder)
    parts = {name: (folder / name).read_bytes() for name in FILES if (folder / name).exists()}
    return {"files": [[name, len(part)] for name, part in parts.items()]}, b"".join(parts.values())


def deliver(remote: Remote, out: Path, names: Iterable[str]) -> dict[str, str]:
    """Bring the run's model to those of these sites that took part; by site, nothing or why it has not got it.

    One that has got it is brought it as well: it may have been put back from an older copy, and keeps what it has. If
    it is away, nothing is said of it.
    The run's folder is not ours alone while they are waited for: a site that is silent keeps nobody from going on.
    """
    with locked(out):
        about, data = model_of(out)
        digest = hashlib.sha256(data).hexdigest()
        before = _got(out, digest)
        chain = Chain(out / "ledger" / "coordinator.jsonl")
        took_part = {line["from"] for line in lines(chain.path) if "from" in line and "delivered" not in line}
    parcel, heads = Parcel.of(data), dict[str, Mapping[str, Any]]()

    def one(name: str) -> None:
        head = {"model": about, "ledger": chain.head}
        seconds = SECONDS + len(data) / SLOWEST
        heads[name] = remote.put(name, head, parcel, seconds, patience=PATIENCE)[0]

    owed = [name for name in names if name in took_part]
    threads = [threading.Thread(target=one, args=(name,), daemon=True) for name in owed]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    states = {name: str(fault(head)) if "fault" in head else "" for name, head in sorted(heads.items())}
    with locked(out):  # what another delivery has noted meanwhile stays
        if hashlib.sha256(model_of(out)[1]).hexdigest() == digest:
            _note(remote, out, states, digest, len(data))
    return {name: why for name, why in states.items() if not why or not _has(before.get(name), why)}


def _has(before: str | None, why: str) -> bool:
    """Whether a site that does not take the model now has got it before, and not lost it with all that came since."""
    return before == "" and not why.startswith(RESTORED)


def _got(out: Path, digest: str) -> dict[str, str]:
    """Who has got this very model (nothing), or why not."""
    before = DELIVERED.read(out)
    return dict(before.sites) if before and before.digest == digest else {}


def _note(remote: Remote, out: Path, states: Mapping[str, str], digest: str, size: int) -> None:
    now, chain = datetime.now(UTC).isoformat(timespec="seconds"), Chain(out / "ledger" / "coordinator.jsonl")
    got = _got(out, digest)
    for name, why in states.items():
        if not why and got.get(name) != "":
            line = {"time": now, "from": name, "delivered": {"digest": digest, "bytes": size}}
            chain.append(line | {"run": remote.mark["run"]})  # without the site's head: nothing left it
        got[name] = "" if _has(got.get(name), why) else why
    chain.flush(durable=True)
    DELIVERED.write(out, Delivered(study=remote.mark["study"], run=remote.mark["run"], digest=digest, sites=got))


def bring(remote: Remote, out: Path, names: Iterable[str], say: Callable[[str], None] = lambda _: None) -> None:
    """Deliver a run's model, say who has got it, and give the lines back."""
    if not (out / "model").exists():  # sites keep their models
        return
    try:
        states = deliver(remote, out, names)
    except (ModelError, RunError, OSError) as error:  # changed, taken up again, or a full disk: the run is good
        say(f"the model was not delivered: {error}")
        return
    for name in [*remote.lines]:
        remote.drop(name)  # without a farewell: the run has ended before
    if got := [name for name, why in states.items() if not why]:
        say(f"the model was delivered to {', '.join(got)}")
    for name, why in states.items():
        if why:
            say(f"{name} has not received the model ({why})")


def remind(folder: Path, desk: Asker, names: Iterable[str], members: Iterable[str]) -> None:
    """Tell these sites who are members, and what one has answered that has forgotten it; no study is needed."""
    remote = Remote(door_of(folder), desk, "", "", recollection=Answers(folder / ANSWERS))
    for name in names:
        remote.put(name, {"told": "", "members": sorted(members)}, b"", SECONDS, patience=PATIENCE)
        remote.drop(name)


def main() -> None:
    """Bring what is still to be brought to the sites that are named, or to all; each run's folder is taken in turn.

    One that was put back from a copy is told first what it has answered since: its hospital need not wait for a study.
    """
    end_with_parent()
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    members = {name: one for name, one in read_roster(folder).items() if not one.barred}
    desk = Asker(read_signing_key(folder / "keys" / "ask.key"), {name: one.seal for name, one in members.items()})
    remind(folder, desk, [name for name in names or members if name in members], members)
    for out, waiting in pending(folder, names or members):
        try:
            if known := DELIVERED.read(out):
                remote = Remote(door_of(folder), desk, known.study, known.run)
                bring(remote, out, [name for name in waiting if name in members])
        except (OSError, RunError, ValueError) as error:
            sys.stderr.write(f"{out}: its model was not delivered ({type(error).__name__})\n")


if __name__ == "__main__":
    main()

"""The key by which other hospitals know a site, which of theirs it has pinned, and what it has given away for good.

own_fingerprint(folder, "charite")                   # read it out to the other hospitals
pin(folder, "mainz", "3f2a 91c0 …")                  # as they read theirs out
vault = HouseVault(folder, study, run, pinned=True)  # what masked sums find at `site.vault`

keys/sign.key           made here, and nowhere else; the coordinator issues certificates, and could issue two
keys/pinned.json        {"mainz": "3f2a 91c0 …"}
keys/seen.json          the same, of the keys that the coordinator has shown
keys/members.json       ["mainz"]: whom the coordinator last named as members, some of them admitted after this site
memory/STUDY/RUN/       a secret of the run: with that folder goes what could take old masks off

What each mask was for, and which sum each reply went into, is in the site's ledger, in the line of the reply itself.
"""

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import RootModel, ValidationError

from wardround.consortium.forms import name_problems, read_membership
from wardround.consortium.kit_check import site_name
from wardround.core.files import write
from wardround.core.vault import Vault
from wardround.engines.certificates import fingerprint, same_fingerprint
from wardround.engines.seal import make_signing_key, read_signing_key, write_private
from wardround.runs.errors import RunError

DIGITS = 24  # of a fingerprint
MOST = 1000  # sites whose keys are remembered as shown
Fingerprints = RootModel[dict[str, str]]
Names = RootModel[list[str]]


def own_fingerprint(folder: Path, name: str) -> str:
    """What the other hospitals pin."""
    _signing(folder)
    return _fingerprint(name, read_signing_key(folder / "keys" / "sign.key").public_key().public_bytes_raw())


def _fingerprint(name: str, identity: bytes) -> str:
    return fingerprint(name.encode(), identity)


def _signing(folder: Path) -> bytes:
    path = folder / "keys" / "sign.key"
    if not path.exists():
        with suppress(FileExistsError):  # by another process, this very moment
            make_signing_key(path)
    return read_signing_key(path).private_bytes_raw()


def read_fingerprints(path: Path) -> dict[str, str]:
    """The fingerprints in a file, by site; none if there is no such file."""
    try:
        return Fingerprints.model_validate_json(path.read_bytes()).root
    except FileNotFoundError:
        return {}
    except ValidationError:
        raise RunError(f"{path} is damaged; delete it, and pin the others' keys again: wardround site trust") from None


def pinned(folder: Path) -> dict[str, str]:
    """The fingerprints that this site has pinned."""
    return read_fingerprints(folder / "keys" / "pinned.json")


def seen(folder: Path) -> dict[str, str]:
    """Those of the keys that the coordinator has last shown."""
    return read_fingerprints(folder / "keys" / "seen.json")


def others(folder: Path) -> list[str]:
    """The other sites that this one knows of: by its kit, by what the coordinator said since, and by their keys."""
    known = {*read_membership(folder / "kit").sites, *_members(folder), *seen(folder), *pinned(folder)}
    return _names(known, str(site_name(folder)))


def _names(known: Iterable[object], own: str) -> list[str]:
    """Those that can be names of other sites: a coordinator may have made some up."""
    return sorted({name for name in known if isinstance(name, str) and name != own and not any(name_problems(name))})


def _members(folder: Path) -> list[str]:
    try:
        return Names.model_validate_json((folder / "keys" / "members.json").read_bytes()).root
    except (FileNotFoundError, ValidationError):  # the coordinator will say it again
        return []


def hear_of(folder: Path, names: object) -> list[str]:
    """Remember whom the coordinator names as members, and pin nobody; those of whom this site has not known."""
    if not isinstance(names, list):
        return []
    before, named = others(folder), _names(names[:MOST], str(site_name(folder)))
    if named != _members(folder):
        write(folder / "keys" / "members.json", (json.dumps(named) + "\n").encode())
    return [name for name in named if name not in before]


def pin(folder: Path, name: str, words: str) -> None:
    """Take part in sums with this site only under the key of this fingerprint; the kit need not know it yet."""
    own = str(site_name(folder))
    bare = "".join(words.split()).replace("-", "").lower()
    if name == own:
        raise RunError(f"{name} is this site itself; pin the keys of the others: {', '.join(others(folder))}")
    if problem := next(name_problems(name), ""):
        raise RunError(problem)
    if len(bare) != DIGITS or set(bare) - set("0123456789abcdef"):
        raise RunError(
            f"{words!r} is not a fingerprint: {DIGITS} digits and letters up to f, as the other reads it out"
        )
    if same_fingerprint(bare, own_fingerprint(folder, own)):
        raise RunError(f"that is this site's own fingerprint; {name} reads out its own: wardround site trust")
    if twin := next(
        (other for other, key in pinned(folder).items() if other != name and same_fingerprint(bare, key)), ""
    ):
        raise RunError(f"that is pinned as the fingerprint of {twin}; {name} reads out its own: wardround site trust")
    groups = " ".join(bare[start : start + 4] for start in range(0, DIGITS, 4))
    _write(folder / "keys" / "pinned.json", {**pinned(folder), name: groups})


def introduce(places: Mapping[str, Path]) -> None:
    """Have sites whose folders are all on this machine pin each other's keys: in a rehearsal nobody telephones."""
    prints = {name: own_fingerprint(place, name) for name, place in places.items()}
    for name, place in places.items():
        for other in prints.keys() - {name}:
            pin(place, other, prints[other])


def _write(path: Path, fingerprints: Mapping[str, str]) -> None:
    write(path, (json.dumps(dict(sorted(fingerprints.items())), indent=1) + "\n").encode())


class HouseVault(Vault):
    """A hospital's secrets for one run of one study, on its disk."""

    def __init__(self, folder: Path, study: str, run: str, *, pinned: bool) -> None:
        self.folder, self.must = folder, pinned
        self.place = folder / "memory" / study[:16] / run
        signing, salt = _signing(folder), self.place / "secret"
        if not salt.exists():
            with suppress(FileExistsError):
                write_private(salt, secrets.token_bytes(32))
        context = f"{study} {run}"
        super().__init__(
            signing, hmac.new(signing, salt.read_bytes() + context.encode(), hashlib.sha256).digest(), context
        )

    def put(self, slot: str, data: bytes) -> None:
        """Remember it across a crash of this process, too; after one of the machine the sum is not opened."""
        # Written over what was there: to rename a new file waits for the disk, for each masked reply.
        with os.fdopen(os.open(self._slot(slot), os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(hashlib.sha256(data).digest() + data)
            file.truncate()
        super().put(slot, data)

    def get(self, slot: str) -> bytes:
        """What this process, or the one before it, put there."""
        if slot not in self.slots:
            with suppress(FileNotFoundError):
                whole = self._slot(slot).read_bytes()
                if hashlib.sha256(whole[32:]).digest() == whole[:32]:  # half of it is nothing
                    self.slots[slot] = whole[32:]
        return super().get(slot)

    def _slot(self, slot: str) -> Path:
        return self.place / f"{slot}.sum"

    def trusts(self, name: str, identity: bytes) -> bool:
        """A pinned key always; another one in place of it never; an unpinned one unless `consent.pinned`."""
        if next(name_problems(name), ""):  # somebody reads what was seen, to compare it
            return False
        shown, known = _fingerprint(name, identity), seen(self.folder)
        if known.get(name) != shown and (name in known or len(known) < MOST):
            _write(self.folder / "keys" / "seen.json", {**known, name: shown})
        wanted = pinned(self.folder).get(name)
        return not self.must if wanted is None else same_fingerprint(wanted, shown)

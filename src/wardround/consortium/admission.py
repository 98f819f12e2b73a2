"""Who becomes, stays and stops being a member: the coordinator's side, on a consortium that may be running.

    admit(north, read_request(path))        # a hospital's own keys, signed; its kit has no private key
    add(north, ["a", "b"])                  # keys made here: ready-made kits, for rehearsals
    renew(north, "charite")                 # a new certificate for the key that is known
    revoke(north, "charite")                # out, for good

Each changes the roster in one step; a coordinator that runs reads it again. Of a site the coordinator keeps the
certificate (`certificates/`) and the public half of its sealing key (the roster), and no private key.
"""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from wardround import __version__
from wardround.consortium.forms import Membership, name_problems, read_charter
from wardround.consortium.kit_files import Kit, Request, coordinator_fingerprint, write_kit
from wardround.consortium.roster import Member, changed, lasts, read_roster
from wardround.core.files import write
from wardround.engines.certificates import Authority, Certificate, dates, new_key, pem_of, public_half, read_certificate
from wardround.engines.flare_kits import renew_coordinator
from wardround.engines.seal import make_sealing_key
from wardround.runs.errors import RunError

COORDINATOR = "coordinator"
"""The name by which `renew` means the coordinator's own certificates."""


def admit(folder: Path, request: Request, days: int = 360) -> Path:
    """Sign the key that a hospital made; its kit, without a private key."""
    name = request.name
    with changed(folder) as members:
        _refuse_taken(folder, members, [name])
        certificate = signing_authority(folder).signed(request.key, name, days)
        members[name] = _enrolled(folder, name, request.seal, certificate)
    return _packed(folder, name)


def add(folder: Path, names: Sequence[str], days: int = 360) -> list[Path]:
    """Make sites members with keys that are made here; their kits, which hold them."""
    keys: dict[str, tuple[bytes, bytes]] = {}
    with changed(folder) as members, tempfile.TemporaryDirectory(dir=folder) as place:
        _refuse_taken(folder, members, names)
        authority = signing_authority(folder)
        for name in names:
            key, path = new_key(), Path(place) / name
            seal = make_sealing_key(path)
            keys[name] = key, path.read_bytes()
            members[name] = _enrolled(folder, name, seal, authority.signed(public_half(key), name, days))
    return [_packed(folder, name, *keys[name]) for name in names]


def renew(folder: Path, name: str, days: int = 360) -> Path | None:
    """A new certificate for the key that is known; the site's kit, or None if it is the coordinator's own."""
    if name == COORDINATOR:
        signing_authority(folder)
        renew_coordinator(folder, days)
        return None
    with changed(folder) as members:
        member = _member(folder, members, name)
        if member.revoked is not None:
            raise RunError(f"{name} was revoked on {member.revoked:%Y-%m-%d}, which is for good; {_ANOTHER}")
        old = read_certificate(_certificate(folder, name))
        members[name] = _enrolled(folder, name, member.seal, signing_authority(folder).renewed(old, days))
    return _packed(folder, name)


def revoke(folder: Path, name: str) -> None:
    """Let a site take part no longer."""
    with changed(folder) as members:
        member = _member(folder, members, name)
        members[name] = member.revoked_now(name)
    (folder / "kits" / f"{name}.zip").unlink(missing_ok=True)


def soon_over(folder: Path) -> list[str]:
    """Whose certificate has ended or ends soon, the coordinator's own first, with the remedy."""
    own = dates(read_certificate(folder / "server" / "startup" / "server.crt"))[1]
    ends = [(COORDINATOR, own), *((name, one.expires) for name, one in read_roster(folder).items() if not one.revoked)]
    return [
        f"the certificate of {name} {words}; renew it: wardround consortium renew {folder} {name}"
        for name, end in ends
        if (words := lasts(end))
    ]


def fingerprint_of(folder: Path) -> str:
    """What hospitals compare when they join."""
    return coordinator_fingerprint((folder / "root" / "root.crt").read_bytes(), read_charter(folder).ask_key)


_ANOTHER = "let the hospital make new keys under another name: wardround site init NAME"


def signing_authority(folder: Path) -> Authority:
    """Who signs certificates here, as long as the root lasts."""
    authority = Authority(folder / "root")
    if (words := lasts(dates(authority.certificate)[1])).startswith("expired"):
        raise RunError(f"the root of {folder} {words}, and can sign no more; make a new consortium")
    return authority


def _refuse_taken(folder: Path, members: Mapping[str, Member], names: Sequence[str]) -> None:
    problems = [problem for name in names for problem in name_problems(name)]
    lower = {known.lower(): known for known in members}
    people = {path.stem.lower(): path.stem for path in (folder / "people").glob("*.crt")}
    problems += [
        f"{people[name.lower()]} is a person here, and whoever revokes one would mean the other; {_ANOTHER}"
        for name in names
        if name.lower() in people
    ]
    for known in (lower[name.lower()] for name in names if name.lower() in lower):
        if members[known].revoked is not None:
            # whoever holds the old key still has a certificate with this name
            problems.append(f"{known} was revoked, and its name with it; {_ANOTHER}")
        else:
            problems.append(
                f"{known} is a member already; for a new certificate: wardround consortium renew {folder} "
                f"{known}; for new keys: revoke it, and {_ANOTHER}"
            )
    if problems:
        raise RunError("\n".join(problems))


def _member(folder: Path, members: Mapping[str, Member], name: str) -> Member:
    if name not in members:
        known = ", ".join(sorted(members)) or "nobody yet"
        raise RunError(f"{name} is not a member of {folder}; members are: {known}")
    return members[name]


def _enrolled(folder: Path, name: str, seal: str, certificate: Certificate) -> Member:
    write(_certificate(folder, name), pem_of(certificate))
    return Member(seal=seal, serial=f"{certificate.serial_number:x}", expires=dates(certificate)[1])


def _certificate(folder: Path, name: str) -> Path:
    return folder / "certificates" / f"{name}.crt"


def _packed(folder: Path, name: str, key: bytes | None = None, seal: bytes | None = None) -> Path:
    membership = Membership(**{**read_charter(folder).model_dump(), "version": __version__, "site": name})
    root = (folder / "root" / "root.crt").read_bytes()
    kit = Kit(membership, _certificate(folder, name).read_bytes(), root, key, seal)
    return write_kit(folder / "kits" / f"{name}.zip", kit)

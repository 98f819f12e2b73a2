"""What travels between a coordinator and a hospital, as files: requests and kits. Both are data from a stranger.

    request = read_request(path)                       # from a hospital: a name and two public keys
    write_kit(path, Kit(about, certificate, root))     # to a hospital: certificates and an address
    kit = read_kit(path)

Rules of this file:
1. A kit holds the files of `NAMES` and no other; a ready-made one, for rehearsals, the two of `PRIVATE` besides.
2. All of it is read within `LIMIT` bytes, and checked, before anything is written; whatever is wrong is one message.
3. Nothing in it is code, is run, or is put where code is looked for.
"""

import io
import json
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wardround.engines.certificates import (
    CertificateError,
    belongs,
    common_name,
    fingerprint,
    issued_by,
    public_key_of,
    read_certificate,
)
from wardround.engines.seal import usable
from wardround.runs.errors import RunError

__all__ = [
    "About", "Kit", "Request", "address_problems", "name_problems", "read_about", "read_kit", "read_request",
    "write_kit",
]  # fmt: skip

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,49}")
HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?")
HEX_KEY = re.compile(r"[0-9a-f]{64}")
VERSION = re.compile(r"[0-9A-Za-z.+!-]{1,50}")
TAKEN = ("coordinator", "server", "admin")
NAMES = ("site.json", "client.crt", "rootCA.pem")
PRIVATE = ("client.key", "seal.key")
LIMIT = 1 << 20  # bytes of a kit, packed and unpacked


@dataclass(frozen=True)
class About:
    """`site.json`: which consortium, which site, where its coordinator is, and the key that signs its asks (hex)."""

    name: str
    site: str
    host: str
    port: int
    version: str
    sites: tuple[str, ...]
    ask_key: str

    def json(self) -> bytes:
        """As files have it."""
        return (json.dumps(asdict(self), indent=1) + "\n").encode()


@dataclass(frozen=True)
class Kit:
    """What a coordinator sends to one site; the keys are there only if they were made with it, for a rehearsal."""

    about: About
    certificate: bytes
    root: bytes
    key: bytes | None = None
    seal: bytes | None = None

    @property
    def fingerprint(self) -> str:
        """What a hospital and its coordinator compare: the root, and the key that signs asks."""
        return coordinator_fingerprint(self.root, self.about.ask_key)


@dataclass(frozen=True)
class Request:
    """A hospital's wish to be a member: its name, and the public halves of the keys that it made."""

    name: str
    csr: bytes
    seal: str
    version: str

    @property
    def fingerprint(self) -> str:
        """What a coordinator and the hospital compare."""
        key = public_key_of(self.csr, self.name).public_numbers()
        return fingerprint(self.name.encode(), f"{key.n:x},{key.e:x}".encode(), self.seal.encode())

    def json(self) -> bytes:
        """As files have it."""
        row = {"name": self.name, "csr": self.csr.decode("ascii"), "seal": self.seal, "version": self.version}
        return (json.dumps(row, indent=1) + "\n").encode()


def coordinator_fingerprint(root: bytes, ask_key: str) -> str:
    """A coordinator's: its root, and the key that signs its asks."""
    return fingerprint(read_certificate(root).tbs_certificate_bytes, ask_key.encode())


# names and addresses


def name_problems(name: str, *, taken: bool = True) -> Iterator[str]:
    """Why a consortium, or with `taken` a site, cannot have this name."""
    if not NAME.fullmatch(name):
        yield f"{name!r} cannot be a name; use up to 50 letters, digits, - and _"
    elif taken and name.lower() in TAKEN:
        yield f"{name!r} is taken by the coordinator; choose another name"


def address_problems(host: str, port: int) -> Iterator[str]:
    """Why a coordinator cannot be there."""
    if not HOST.fullmatch(host) or ".." in host:
        yield f"{host!r} is no host's name or IPv4 address; write, say, fl.example.org or 10.0.0.5:8002"
    if not 1 <= port <= 65535:
        yield f"port {port} is none; choose one between 1024 and 65535"


# kits


class _Malformed(ValueError):
    """What is wrong with a file that was sent."""


def write_kit(path: Path, kit: Kit) -> Path:
    """Pack a kit where only its owner can read it."""
    parts = {"site.json": kit.about.json(), "client.crt": kit.certificate, "rootCA.pem": kit.root}
    if kit.key is not None and kit.seal is not None:
        parts |= {"client.key": kit.key, "seal.key": kit.seal}
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in parts.items():
            file.writestr(name, data)
    return path


def read_kit(path: Path) -> Kit:
    """The kit in this file; a `RunError` with one message if it is none."""
    try:
        parts = _unpacked(path)
        about = _about(parts["site.json"])
        kit = Kit(about, parts["client.crt"], parts["rootCA.pem"], parts.get("client.key"), parts.get("seal.key"))
        _check_certificates(kit)
    except FileNotFoundError:
        raise RunError(f"{path}: there is no such file; the coordinator sends you one") from None
    except _Malformed as error:
        why = str(error)
    except OSError as error:
        why = error.strerror or "it cannot be read"
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError):
        why = "it is no whole zip file"
    else:
        return kit
    raise RunError(f"{path} is not a start-up kit: {why}; nothing was written, ask the coordinator to send it again")


def _unpacked(path: Path) -> dict[str, bytes]:
    parts: dict[str, bytes] = {}
    room = LIMIT
    with zipfile.ZipFile(io.BytesIO(_read(path))) as file:
        for entry in file.infolist():
            name, kind = entry.orig_filename, stat.S_IFMT(entry.external_attr >> 16)
            if name not in NAMES + PRIVATE:
                raise _Malformed(f"it holds {name[:80]!r}, which no kit does")
            if name in parts:
                raise _Malformed(f"it holds {name} twice")
            if kind not in (0, stat.S_IFREG):
                raise _Malformed(f"{name} in it is no plain file")
            with file.open(entry) as part:
                parts[name] = part.read(room + 1)
            room -= len(parts[name])
            if room < 0:
                raise _Malformed(f"it unpacks to more than {LIMIT:,} bytes")
    keys = [name for name in PRIVATE if name not in parts]  # both or neither
    if missing := [name for name in NAMES if name not in parts] + (keys if len(keys) == 1 else []):
        raise _Malformed(f"{' and '.join(missing)} is missing")
    return parts


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(LIMIT + 1)
    if len(data) > LIMIT:
        raise _Malformed(f"it is larger than {LIMIT:,} bytes")
    return data


def _check_certificates(kit: Kit) -> None:
    try:
        certificate, root = read_certificate(kit.certificate), read_certificate(kit.root)
    except CertificateError:
        raise _Malformed("client.crt or rootCA.pem in it is no certificate") from None
    if common_name(certificate) != kit.about.site:
        raise _Malformed(f"its certificate is for {common_name(certificate)[:80]!r}, not for {kit.about.site}")
    if not issued_by(certificate, root):
        raise _Malformed("its certificate is not signed by its root")
    if kit.key is not None and not belongs(certificate, kit.key):
        raise _Malformed("its client.key does not belong to its client.crt")


def _about(raw: bytes) -> About:
    row = _object(raw)
    if row is None:
        raise _Malformed("site.json in it is not the JSON that it should be")
    fields = {"name": str, "site": str, "host": str, "port": int, "version": str, "sites": list, "ask_key": str}
    for key, kind in fields.items():
        if type(row.get(key)) is not kind:
            raise _Malformed(f"site.json in it has no {key}, or not of the right kind")
    if unknown := sorted(row.keys() - fields.keys()):
        raise _Malformed(f"site.json in it has {unknown[0][:80]!r}, which is unknown")
    sites: Sequence[Any] = row["sites"]
    problems = [
        *name_problems(row["name"], taken=False), *name_problems(row["site"]),
        *address_problems(row["host"], row["port"]),
        *(f"{name!r:.80} is no site's name" for name in sites if not isinstance(name, str) or not NAME.fullmatch(name)),
        *(["its ask_key is no public key"] if not HEX_KEY.fullmatch(row["ask_key"]) else ()),
        *(["its version is none"] if not VERSION.fullmatch(row["version"]) else ()),
    ]  # fmt: skip
    if problems:
        raise _Malformed(f"site.json in it: {problems[0]}")
    return About(**{**row, "sites": tuple(sites)})


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def read_about(kit: Path) -> About:
    """What an unpacked kit says of itself."""
    try:
        return _about((kit / "site.json").read_bytes())
    except (OSError, _Malformed):
        raise RunError(f"{kit / 'site.json'} is missing or damaged; join again with the kit: wardround site join "
                       f"{kit.parent} KIT.zip") from None  # fmt: skip


# requests


def read_request(path: Path) -> Request:
    """The request in this file, its own signature checked; a `RunError` with one message if it is none."""
    try:
        request = _request(_object(_read(path)))
    except FileNotFoundError:
        raise RunError(f"{path}: there is no such file; a hospital makes it with: wardround site init NAME") from None
    except (_Malformed, CertificateError) as error:
        why = str(error)
    except OSError as error:
        why = error.strerror or "it cannot be read"
    else:
        return request
    raise RunError(f"{path} is no request to join: {why}; ask the hospital to send it again")


def _request(row: dict[str, Any] | None) -> Request:
    if row is None or {"name", "csr", "seal", "version"} != row.keys() or {str} != {type(one) for one in row.values()}:
        raise _Malformed("it should be JSON with name, csr, seal and version")
    if problem := next(name_problems(row["name"]), ""):
        raise _Malformed(problem)
    sealing = HEX_KEY.fullmatch(row["seal"]) and usable(row["seal"])
    if not sealing or not VERSION.fullmatch(row["version"]) or not row["csr"].isascii():
        raise _Malformed("its sealing key, version or certificate request is none")
    public_key_of(row["csr"].encode("ascii"), row["name"])
    return Request(row["name"], row["csr"].encode("ascii"), row["seal"], row["version"])

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
import stat
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field

from wardround.consortium.forms import Form, FormError, HexKey, Membership, SiteName, Version, parsed
from wardround.engines.certificates import (
    CertificateError,
    PublicKey,
    belongs,
    common_name,
    fingerprint,
    issued_by,
    public_key_of,
    read_certificate,
)
from wardround.engines.seal import usable
from wardround.runs.errors import RunError

NAMES = ("site.json", "client.crt", "rootCA.pem")
PRIVATE = ("client.key", "seal.key")
LIMIT = 1 << 20  # bytes of a kit, packed and unpacked
F = TypeVar("F", bound=Form)


@dataclass(frozen=True)
class Kit:
    """What a coordinator sends to one site; the keys are there only if they were made with it, for a rehearsal."""

    about: Membership
    certificate: bytes
    root: bytes
    key: bytes | None = None
    seal: bytes | None = None

    @property
    def fingerprint(self) -> str:
        """What a hospital and its coordinator compare: the root, and the key that signs asks."""
        return coordinator_fingerprint(self.root, self.about.ask_key)


def _usable(key: str) -> str:
    if not usable(key):
        raise ValueError("letters cannot be sealed to it")
    return key


class Wish(Form):
    """A wish for a certificate: a name, and the public half of the key that was made with it."""

    name: SiteName
    csr: Annotated[str, Field(pattern=r"^[\x00-\x7f]*$")]
    """A certificate request (PEM)."""

    @property
    def key(self) -> PublicKey:
        """What is to be signed, once the request's own signature is right."""
        return public_key_of(self.csr.encode("ascii"), self.name)

    @property
    def key_bytes(self) -> bytes:
        """The key as fingerprints have it."""
        key = self.key.public_numbers()
        return f"{key.n:x},{key.e:x}".encode()


class Request(Wish):
    """A hospital's wish to be a member, with the key that letters to it are sealed to."""

    seal: Annotated[HexKey, AfterValidator(_usable)]
    version: Version

    @property
    def fingerprint(self) -> str:
        """What a coordinator and the hospital compare."""
        return fingerprint(self.name.encode(), self.key_bytes, self.seal.encode())


def coordinator_fingerprint(root: bytes, ask_key: str) -> str:
    """A coordinator's: its root, and the key that signs its asks."""
    return fingerprint(read_certificate(root).tbs_certificate_bytes, ask_key.encode())


# kits


class _Malformed(ValueError):
    """What is wrong with a file that was sent."""


def write_kit(path: Path, kit: Kit) -> Path:
    """Pack a kit where only its owner can read it."""
    parts = {"site.json": kit.about.encode(), "client.crt": kit.certificate, "rootCA.pem": kit.root}
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
        about = parsed(Membership, parts["site.json"])
        kit = Kit(about, parts["client.crt"], parts["rootCA.pem"], parts.get("client.key"), parts.get("seal.key"))
        _check_certificates(kit)
    except FileNotFoundError:
        raise RunError(f"{path}: there is no such file; the coordinator sends you one") from None
    except _Malformed as error:
        why = str(error)
    except FormError as error:
        why = f"site.json in it {error}"
    except OSError as error:
        why = error.strerror or "it cannot be read"
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError):
        why = "it is not a whole zip file"
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
                raise _Malformed(f"{name} in it is not a plain file")
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
        raise _Malformed("client.crt or rootCA.pem in it is not a certificate") from None
    if common_name(certificate) != kit.about.site:
        raise _Malformed(f"its certificate is for {common_name(certificate)[:80]!r}, not for {kit.about.site}")
    if not issued_by(certificate, root):
        raise _Malformed("its certificate is not signed by its root")
    if kit.key is not None and not belongs(certificate, kit.key):
        raise _Malformed("its client.key does not belong to its client.crt")


# requests


def read_request(path: Path) -> Request:
    """The request in this file, its own signature checked; a `RunError` with one message if it is none."""
    if not path.exists():
        raise RunError(f"{path}: there is no such file; a hospital makes it with: wardround site init NAME")
    return read_form(Request, path, "a request to join", "ask the hospital to send it again")


def read_form(kind: type[F], path: Path, what: str, remedy: str) -> F:
    """A file that somebody sent, of a kind that is `what` in words; that of a wish with its own signature checked."""
    try:
        form = parsed(kind, _read(path))
        if isinstance(form, Wish):
            _ = form.key
    except FormError as error:
        why = f"it {error}"
    except (_Malformed, CertificateError) as error:
        why = str(error)
    except OSError as error:
        why = error.strerror or "it cannot be read"
    else:
        return form
    raise RunError(f"{path} is not {what}: {why}; {remedy}")

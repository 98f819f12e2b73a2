"""Who vouches for a model's folder: a signature over its checksums, and the keys that one trusts.

    make_key(Path("ward.key"))                                # and ward.key.pub, for those who are to trust it
    sign(Path("runs/x/model"), Path("ward.key"))              # SIGNATURE.json in the folder
    check_signature(Path("runs/x/model"), [Path("ward.key.pub")])

Ed25519 over `SHA256SUMS`, which has the checksum of every file. A folder that is to be trusted holds no file beside
those, for checksums alone do not tell of one that was put in, and no link, for what is behind it can change at any
time. Checksums say that a folder arrived as it was written, and a signature by whom; neither says that the model is any
good. Keys are PEM files, as OpenSSL has them.
"""

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from wardround.core.files import write
from wardround.trained.about import SIGNATURE, SUMS, ModelError, listed, verify

FORM = "wardround model 1"
PUBLIC = b"-----BEGIN PUBLIC KEY-----"
SHOWN = 16  # hex digits of a key that messages have


def make_key(path: Path) -> str:
    """Write a new private key that only its owner can read, and its public half as `.pub`; that as hex."""
    public = path.with_name(f"{path.name}.pub")
    for file in (path, public):
        if file.exists():
            raise ModelError(file, "exists already", "name another: what it has signed is trusted by it")
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file_:
        file_.write(pem)
    half = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    write(public, key.public_key().public_bytes(*half))
    return key.public_key().public_bytes_raw().hex()


def sign(folder: Path, path: Path) -> str:
    """Sign a model's folder, after a check that it is as it was written; the public key as hex."""
    key = _private(path)
    verify(folder)
    _refuse_more(folder)
    public = key.public_key().public_bytes_raw().hex()
    signature = key.sign(_statement(folder)).hex()
    write(folder / SIGNATURE, (json.dumps({"form": FORM, "key": public, "signature": signature}) + "\n").encode())
    return public


def signer(folder: Path) -> str | None:
    """The public key (hex) that signed a folder, if any did; an error if the signature is not of this folder."""
    path = folder / SIGNATURE
    if not path.exists():
        return None
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values["form"] != FORM:
            raise ModelError(path, "of a form that this wardround does not know", "upgrade wardround")
        key = str(values["key"])
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
        public.verify(bytes.fromhex(values["signature"]), _statement(folder))
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(path, "cannot be read", "copy the model's folder again") from None
    except InvalidSignature:
        what = "this is not the signature of this folder, which was changed after it was signed"
        raise ModelError(path, what, "do not use this model; ask for it again") from None
    return key


def check_signature(folder: Path, trust: Sequence[Path]) -> None:
    """Raise an error unless one of these public keys signed the folder, and nothing else is in it."""
    keys = {_public(path) for path in trust}
    key = signer(folder)
    if key is None:
        raise ModelError(
            folder, "nobody has signed it", "ask for a signed one, or leave --trust out (in Python trust=)"
        )
    if key not in keys:
        what = f"it is signed with the key {key[:SHOWN]}…, which is not one that you trust"
        raise ModelError(folder, what, "ask who made it; if you trust them, name their public key with --trust")
    _refuse_more(folder)


def _statement(folder: Path) -> bytes:
    return FORM.encode() + b"\n" + (folder / SUMS).read_bytes()


def _refuse_more(folder: Path) -> None:
    """Raise an error if there is a link, or a file that has no checksum."""
    paths = sorted(folder.rglob("*"))
    for link in filter(Path.is_symlink, paths):
        raise ModelError(link, "it is a link, and what is behind it can change", "put a copy in its place")
    files = {path.relative_to(folder).as_posix() for path in paths if not path.is_dir()}
    if more := sorted(files - listed(folder).keys() - {SUMS, SIGNATURE}):
        raise ModelError(folder / more[0], f"it is not in {SUMS}", "remove it, or ask for the model again")


def _private(path: Path) -> Ed25519PrivateKey:
    try:
        if path.read_bytes().startswith(PUBLIC):
            raise ModelError(path, "it is a public key", "sign with the private one, which was made beside it")
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise ModelError(path, "others can read this key", f"chmod 600 {path}, or make another if they have")
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except FileNotFoundError:
        raise ModelError(path, "there is no such key", f"make one: wardround model key {path}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(path, "it is not a private key", "make one: wardround model key FILE") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ModelError(path, "it is not an Ed25519 key", "make one: wardround model key FILE")
    return key


def _public(path: Path) -> str:
    try:
        data = path.read_bytes()
        if b"PRIVATE KEY" in data:
            raise ModelError(path, "this key is private", f"give its public half, {path}.pub")
        key = serialization.load_pem_public_key(data)
    except OSError as error:
        raise ModelError(path, f"cannot be read ({error.strerror})", "name the public key, KEY.pub") from None
    except (ValueError, UnsupportedAlgorithm) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(path, "it is not a public key", "name the one that wardround model key has written") from None
    if not isinstance(key, Ed25519PublicKey):
        raise ModelError(path, "it is not an Ed25519 key", "name the one that wardround model key has written")
    return key.public_bytes_raw().hex()

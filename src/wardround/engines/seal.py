"""Sealed letters between the coordinator and a site process: what lies between carries them and is not trusted.

    desk = Asker(signing_key, {"a": sealing_key_of_a})         # the coordinator's end
    letter = desk.write("a", {"study": …, "run": …}, message)
    answer = Answerer("a", ask_key, own_key).open(letter.head, letter.data)
    head, data = letter.read(*answer.reply({"ledger": …}, reply))

Rules of this file:
1. The coordinator signs every ask (Ed25519): to whom, its random number, the key to answer to, study, run, exchange and
   the digest of the message. A site checks that before it looks at anything else.
2. An ask is encrypted to the site's own key, an answer to a key that the coordinator drew for this one ask (X25519,
   HKDF-SHA256, AES-256-GCM). Whoever holds neither can read neither; an answer that can be read is the site's, and
   what opens with the key of a signed ask was sealed by whoever signed it.
3. A message that goes to many is encrypted once, under a key drawn for it (`Parcel`), and each letter has that key
   inside. Whoever gets the same message could put another in its place, and is found out: the digest is signed.
4. Each direction of each letter, and each parcel, has a key of its own, so pieces are simply counted; the last one is
   marked, so that one that was cut off is noticed.
5. What was signed can be kept: the statement and its signature prove which message the coordinator sent.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

FORM = "wardround letter 1"
PIECE = 1 << 30  # bytes encrypted at once; the cipher takes less than 2³¹, and what is one piece is not copied
TAG = 16
LONGEST = 1 << 14  # bytes of what is signed: a thousand resumptions
INSIDE, PARCEL = "inside", "parcel"  # where a letter has its sealed head, and that the key of its message
STATED = ("form", "to", "ask", "key", "study", "run", "exchange", "digest")
"""What the coordinator signs, in the clear beside the sealed bytes."""
CHANGED = "this letter was not sealed with our key, or was changed on the way"
Frame = tuple[dict[str, Any], bytes]


class SealError(ValueError):
    """A letter is not from whom it should be, not for us, or was changed on the way."""


# keys


def make_signing_key(path: Path) -> str:
    """Write a new private key that signs; its public half as hex."""
    return _written(path, Ed25519PrivateKey.generate())


def make_sealing_key(path: Path) -> str:
    """Write a new private key to which letters are sealed; its public half as hex."""
    return _written(path, X25519PrivateKey.generate())


def read_signing_key(path: Path) -> Ed25519PrivateKey:
    """The private key in this file."""
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    if not isinstance(key, Ed25519PrivateKey):
        raise SealError(f"{path} is not a key that signs")
    return key


def read_sealing_key(path: Path) -> X25519PrivateKey:
    """The private key in this file."""
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    if not isinstance(key, X25519PrivateKey):
        raise SealError(f"{path} is not a key to which letters are sealed")
    return key


def _written(path: Path, key: Ed25519PrivateKey | X25519PrivateKey) -> str:
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write_private(path, pem)
    return key.public_key().public_bytes_raw().hex()


def write_private(path: Path, data: bytes) -> None:
    """A new file that nobody else could read at any moment."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)


def usable(key: str) -> bool:
    """Whether letters can be sealed to this public key (hex): not with every point of the curve."""
    try:
        _exchanged(X25519PrivateKey.generate(), _public(key))
    except SealError:
        return False
    return True


# letters


@dataclass(frozen=True)
class Letter:
    """One ask on its way to a site, and the means to read the answer."""

    head: Mapping[str, Any]
    data: bytes
    own: X25519PrivateKey
    shared: bytes

    def read(self, head: Mapping[str, Any], data: bytes) -> Frame:
        """The site's answer, if it is one to this very letter."""
        if head.get("ask") != self.head["ask"]:
            raise SealError("this answers another letter")
        theirs = _public(head.get("key"))
        key = _key(self.shared + _exchanged(self.own, theirs), "answer", self.head, theirs.public_bytes_raw())
        inner, key = _inside(key, head)
        return inner, _decrypted(key, data)


@dataclass(frozen=True)
class Parcel:
    """A message, encrypted once for all who get it."""

    digest: str
    key: bytes = field(repr=False)
    data: bytes = field(repr=False)

    @classmethod
    def of(cls, message: bytes) -> "Parcel":
        """This message, under a new key."""
        key = secrets.token_bytes(32)
        return cls(hashlib.sha256(message).hexdigest(), key, _encrypted(key, message))


class Asker:
    """The coordinator's end: signs, and seals to each site's key."""

    def __init__(self, signing: Ed25519PrivateKey, sites: Mapping[str, str]) -> None:
        self.signing, self.sites = signing, sites

    def write(self, site: str, head: Mapping[str, Any], message: bytes | Parcel = b"") -> Letter:
        """A letter to this site; what `head` says of study, run and exchange is signed with it."""
        parcel = message if isinstance(message, Parcel) else Parcel.of(message)
        own = X25519PrivateKey.generate()
        shared = _exchanged(own, _public(self.sites[site]))
        stated: dict[str, Any] = {
            "form": FORM,
            "to": site,
            "ask": secrets.token_hex(8),
            "key": own.public_key().public_bytes_raw().hex(),
            "study": head.get("study", ""),
            "run": head.get("run", ""),
            "exchange": head.get("exchange"),
            "digest": parcel.digest,
        }
        inside = _sealed(_key(shared, "ask", stated), {**head, PARCEL: parcel.key.hex()})
        signature = self.signing.sign(_canonical(stated)).hex()
        return Letter({**stated, "signature": signature, INSIDE: inside}, parcel.data, own, shared)


@dataclass(frozen=True)
class Ask:
    """An ask that is the coordinator's and for us: what it says, and how to answer it."""

    head: Mapping[str, Any]
    data: bytes
    statement: Mapping[str, Any]
    """What was signed, and the signature."""
    shared: bytes

    def reply(self, head: Mapping[str, Any], data: bytes = b"") -> Frame:
        """The frame that only the asker can read."""
        own = X25519PrivateKey.generate()
        public = own.public_key().public_bytes_raw()
        secret = self.shared + _exchanged(own, _public(self.statement["key"]))
        key = _key(secret, "answer", self.statement, public)
        return {"ask": self.statement["ask"], "key": public.hex(), INSIDE: _sealed(key, head)}, _encrypted(key, data)


class Answerer:
    """A site's end: opens what the coordinator, and nobody else, has sealed for it."""

    def __init__(self, site: str, ask_key: str, own: X25519PrivateKey) -> None:
        self.site, self.ask_key, self.own = site, ask_key, own

    def open(self, head: Mapping[str, Any], data: bytes) -> Ask:
        """The ask, or a `SealError` if it is not the coordinator's, not for this site, or was changed."""
        ask, key = self._unsealed(head)
        message = _decrypted(key, data)
        if hashlib.sha256(message).hexdigest() != ask.statement["digest"]:
            raise SealError("this letter has another message inside than outside")
        return replace(ask, data=message)

    def look(self, head: Mapping[str, Any]) -> Ask:
        """The ask without its message, which may not be there yet."""
        return self._unsealed(head)[0]

    def _unsealed(self, head: Mapping[str, Any]) -> tuple[Ask, bytes]:
        """The ask without its message, and the key of that."""
        statement = {key: head.get(key) for key in (*STATED, "signature")}
        verify_statement(statement, self.ask_key)
        if len(_canonical(statement)) > LONGEST:  # signed or not, it would be kept
            raise SealError("this letter says more on its outside than letters do")
        if statement["form"] != FORM or statement["to"] != self.site:
            raise SealError("this letter is for another")
        shared = _exchanged(self.own, _public(statement["key"]))
        inner, key = _inside(_key(shared, "ask", statement), head)
        stated = {"study": inner.get("study", ""), "run": inner.get("run", ""), "exchange": inner.get("exchange")}
        if stated != {key: statement[key] for key in stated}:
            raise SealError("this letter says another thing inside than outside")
        return Ask(inner, b"", statement, shared), key


def verify_statement(statement: Mapping[str, Any], ask_key: str) -> None:
    """Check that the holder of the key has signed this; a `SealError` if not."""
    try:
        stated = {name: statement[name] for name in STATED}
        _signer(ask_key).verify(bytes.fromhex(str(statement["signature"])), _canonical(stated))
    except (InvalidSignature, KeyError, TypeError, ValueError, RecursionError):
        raise SealError("this letter is not signed by the coordinator") from None


# how it is done


def _canonical(stated: Mapping[str, Any]) -> bytes:
    return json.dumps(stated, sort_keys=True, separators=(",", ":")).encode()


@lru_cache(maxsize=1)
def _signer(key: str) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))


def _public(key: object) -> X25519PublicKey:
    return _loaded(str(key))  # from another party it may be anything that JSON knows


@lru_cache(maxsize=64)
def _loaded(key: str) -> X25519PublicKey:
    try:
        return X25519PublicKey.from_public_bytes(bytes.fromhex(key))
    except ValueError:
        raise SealError("this is not a public key") from None


def _exchanged(own: X25519PrivateKey, theirs: X25519PublicKey) -> bytes:
    try:
        return own.exchange(theirs)
    except ValueError:  # a point with which every key agrees on the same
        raise SealError("this is not a public key") from None


def _key(secret: bytes, what: str, stated: Mapping[str, Any], *more: bytes) -> bytes:
    """A key for one direction of one letter: whoever is addressed, its number and both public keys go into it."""
    parts = (FORM, what, stated["to"], stated["ask"], stated["key"], *(part.hex() for part in more))
    about = "\0".join(map(str, parts)).encode()
    return HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=about).derive(secret)


def _sealed(key: bytes, head: Mapping[str, Any]) -> str:
    return AESGCM(key).encrypt(_nonce(0), json.dumps(head).encode(), b"head").hex()


def _encrypted(key: bytes, data: bytes) -> bytes:
    cipher, view = AESGCM(key), memoryview(data)
    pieces = [cipher.encrypt(nonce, view[part], mark) for part, nonce, mark in _pieces(len(data), PIECE)]
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _inside(key: bytes, outside: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
    """What is inside, and the key of the message: the same, or that of the parcel that it is."""
    try:
        head = json.loads(AESGCM(key).decrypt(_nonce(0), bytes.fromhex(str(outside.get(INSIDE))), b"head"))
        return head, bytes.fromhex(head.pop(PARCEL, key.hex()))
    except (InvalidTag, AttributeError, TypeError, ValueError, RecursionError, OverflowError):
        raise SealError(CHANGED) from None


def _decrypted(key: bytes, data: bytes) -> bytes:
    try:
        cipher, view = AESGCM(key), memoryview(data)
        pieces = [cipher.decrypt(nonce, view[part], mark) for part, nonce, mark in _pieces(len(data), PIECE + TAG)]
    except (InvalidTag, ValueError, OverflowError):
        raise SealError(CHANGED) from None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _pieces(size: int, most: int) -> Iterator[tuple[slice, bytes, bytes]]:
    """Where each piece lies, its nonce, and whether it is the last."""
    count = max(-(-size // most), 1)
    for number in range(count):
        mark = b"last" if number == count - 1 else b"more"
        yield slice(number * most, (number + 1) * most), _nonce(number + 1), mark


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "little")

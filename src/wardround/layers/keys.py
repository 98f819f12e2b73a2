"""Keys between sites, and what is made of them: agreements, signatures, streams of masks, locked shares.

    own = derived(vault.secret, b"key")                       # a private key: 32 bytes
    key = derived(agreed(own, theirs), b"mask", place)        # X25519, then HKDF-SHA256: the same at both ends
    shift([numbers], add=[key], subtract=[other])             # AES-256 in counter mode, modulo the numbers' own width

Every key is for one purpose and one place (study, run, round, exchange, attempt, members), so no stream is used twice.
"""

import hmac
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

PIECE = 1 << 17  # bytes of a stream at a time: what a processor has at hand
ZEROS = memoryview(bytes(PIECE))
TAG = 16
AGREED = 1024  # agreements and public halves that a process has at hand: each is for a whole run
NONCE = bytes(12)  # each key locks one thing


class BadKey(ValueError):
    """Bytes that are no public key, or one with which every key agrees on the same."""


def derived(secret: bytes, *about: bytes) -> bytes:
    """A key of 32 bytes for one purpose: HKDF-SHA256 without salt, which of one block is two HMACs (RFC 5869)."""
    whole = b"".join(len(part).to_bytes(8, "big") + part for part in (b"wardround masks 1", *about))
    return hmac.digest(hmac.digest(bytes(32), secret, "sha256"), whole + b"\x01", "sha256")


@lru_cache(maxsize=AGREED)
def public_half(own: bytes) -> bytes:
    """The public half of a key that agrees."""
    return X25519PrivateKey.from_private_bytes(own).public_key().public_bytes_raw()


@lru_cache(maxsize=AGREED)
def agreed(own: bytes, theirs: bytes) -> bytes:
    """What the holders of these two keys both know, and nobody else."""
    try:
        return X25519PrivateKey.from_private_bytes(own).exchange(X25519PublicKey.from_public_bytes(theirs))
    except ValueError:
        raise BadKey from None


@lru_cache(maxsize=AGREED)
def identity_of(signing: bytes) -> bytes:
    """The public half of a key that signs."""
    return _signer(signing).public_key().public_bytes_raw()


@lru_cache(maxsize=AGREED)
def _signer(signing: bytes) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(signing)


def sign(signing: bytes, statement: bytes) -> bytes:
    """A signature of 64 bytes."""
    return _signer(signing).sign(statement)


def signed(identity: bytes, statement: bytes, signature: bytes) -> bool:
    """Whether the holder of this key signed this statement."""
    try:
        _verifier(identity).verify(signature, statement)
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=AGREED)
def _verifier(identity: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(identity)


def shift(rows: Sequence[NDArray[Any]], add: Sequence[bytes] = (), subtract: Sequence[bytes] = ()) -> None:
    """Add the streams of some keys to rows of unsigned numbers, one after the other, take others' off; it wraps."""
    streams = [(_stream(key), np.add) for key in add] + [(_stream(key), np.subtract) for key in subtract]
    room = bytearray(min(PIECE, max(numbers.nbytes for numbers in rows)) + 16)
    for numbers in rows:
        step = PIECE // numbers.itemsize
        for start in range(0, len(numbers), step):
            part = numbers[start : start + step]
            for stream, put in streams:
                stream.update_into(ZEROS[: part.nbytes], room)
                put(part, np.frombuffer(room, part.dtype, len(part)), out=part)


def _stream(key: bytes) -> Any:
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()


def lock(key: bytes, data: bytes) -> bytes:
    """The data, for whoever has this key; the key is used for nothing else."""
    return AESGCM(key).encrypt(NONCE, data, None)


def unlock(key: bytes, data: bytes) -> bytes | None:
    """What was locked with this key, or nothing."""
    try:
        return AESGCM(key).decrypt(NONCE, data, None)
    except (InvalidTag, ValueError):
        return None

"""Texts to tokens to numbers, with nothing learnt from the notes themselves.

    cache = Cache(Jieba(terms=Path("symptoms.txt")), Hashed(buckets=2**16))
    for ids in cache.encode(texts): ...

A vocabulary counted from notes tells which words they hold, so a token's number comes from a hash or from a
public list (a word list, the words of a vector file). Number 0 is padding.

The cache keeps numbers, never text or tokens. Whoever has the word list can turn numbers back into words:
the cache belongs where the notes are, so its folder opens to its owner only.

The cache is one file per setting that only grows. A record is a mark, a keyed hash of the text, a count, the
numbers and a checksum, written by one append: two processes can share the file, and what a crash tore is
skipped on reading and made again.
"""

import hashlib
import json
import logging
import mmap
import os
import re
import struct
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from wardround.core.doing import counted
from wardround.core.files import cache_folder
from wardround.text.reading import DataError, open_text

log = logging.getLogger(__name__)

JOINT = "\x1f"  # between the tokens of a run: no segmenter leaves it in one


class Segmenter(Protocol):
    """Cuts a text into tokens; white space is never one."""

    @property
    def settings(self) -> str:
        """All that the cuts depend on."""

    def __call__(self, text: str) -> list[str]:
        """The tokens in the order of the text."""


def plain(text: str) -> str:
    """Composed characters, and none of the invisible ones that make equal words differ."""
    if text.isascii():  # as most words are, which have neither
        return text
    return re.sub("[\u00ad\u200b-\u200f\u2060\ufeff\ud800-\udfff]", "", unicodedata.normalize("NFC", text))


@dataclass(frozen=True, kw_only=True)
class Words:
    """Lower-case words and single punctuation marks, for English."""

    settings = "words"

    def __call__(self, text: str) -> list[str]:
        """The tokens of `text`; "2.5" is three."""
        return re.findall(r"\w+|[^\w\s]", plain(text).lower())


@dataclass(frozen=True, kw_only=True)
class Characters:
    """Single characters, for Chinese; `runs` keeps Latin words and numbers whole."""

    runs: bool = True

    @property
    def settings(self) -> str:
        """Whether runs stay whole."""
        return f"characters runs={self.runs}"

    def __call__(self, text: str) -> list[str]:
        """The tokens of `text`; with runs "CT" and "2.5" are one each."""
        return re.findall(r"[A-Za-zÀ-ɏ]+|\d+(?:\.\d+)?|\S" if self.runs else r"\S", plain(text))


@dataclass(frozen=True, kw_only=True)
class Jieba:
    """Chinese words by jieba's dictionary and a file of terms, one per line, perhaps each with a count."""

    terms: Path | None = None

    @cached_property
    def _listed(self) -> list[tuple[str, int | None]]:
        if self.terms is None:
            return []
        listed = []
        for number, line in enumerate(open_text(self.terms), 1):
            term = re.fullmatch(r"\s*(\S.*?)(?:\s+(\d+)(?:\s+[a-z]+)?)?\s*", line)
            if term and len(term[1]) > 100:
                raise DataError(self.terms, number, f"a term of {len(term[1])} characters", "one term per line")
            if term:
                listed.append((term[1], int(term[2]) if term[2] else None))
        return listed

    @cached_property
    def _cutter(self) -> Any:
        import rjieba  # noqa: PLC0415 -- its dictionary takes longer than all of ours, and only Chinese needs it

        cutter = rjieba.Jieba()
        for term, count in self._listed:
            cutter.add_word(term, count, None)
        return cutter

    @property
    def settings(self) -> str:
        """The dictionary's version and the terms themselves."""
        return f"jieba {version('rjieba')} {json.dumps(self._listed)}"

    def __call__(self, text: str) -> list[str]:
        """The tokens of `text`; words that no dictionary holds are guessed by jieba's HMM."""
        return [token for token in self._cutter.cut(plain(text)) if not token.isspace()]

    def __getstate__(self) -> dict[str, Any]:
        # The dictionary does not pickle; each process loads its own.
        return {"terms": self.terms}


@dataclass(frozen=True)
class Grams:
    """What another segmenter finds, each token followed by the runs of 2 to `most` tokens that end with it."""

    segmenter: Segmenter
    most: int

    @property
    def settings(self) -> str:
        """The other's, and how long a run may be."""
        return f"{self.segmenter.settings} grams={self.most}"

    def __call__(self, text: str) -> list[str]:
        """Tokens and runs in the order of their ends: those of the first n tokens come first."""
        tokens = self.segmenter(text)
        return [
            JOINT.join(tokens[end - length : end])
            for end in range(1, len(tokens) + 1)
            for length in range(1, min(self.most, end) + 1)
        ]

    def count(self, tokens: int) -> int:
        """How many tokens and runs there are in this many tokens."""
        return sum(max(tokens - length, 0) for length in range(self.most))


class Vocabulary(Protocol):
    """Gives each token a number from 1 to `size` − 1."""

    @property
    def size(self) -> int:
        """How many numbers there are, 0 for padding included."""

    @property
    def settings(self) -> str:
        """All that the numbers depend on."""

    def __call__(self, token: str) -> int:
        """The token's number."""


def hashed(token: str, buckets: int) -> int:
    """The same bucket on every machine and in every run; bucket 0 is kept for padding."""
    mark = hashlib.blake2b(token.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return 1 + int.from_bytes(mark, "little") % (buckets - 1)


@dataclass(frozen=True, kw_only=True)
class Hashed:
    """Any token by its hash: no list at all, at the price that some tokens share a number."""

    buckets: int = 2**16

    def __post_init__(self) -> None:
        if not 2 <= self.buckets < 2**32:
            raise ValueError(f"buckets is {self.buckets}: use a number from 2 to {2**32 - 1}, such as {2**16}")

    @property
    def size(self) -> int:
        """Number of buckets."""
        return self.buckets

    @property
    def settings(self) -> str:
        """Number of buckets."""
        return f"hashed {self.buckets}"

    def __call__(self, token: str) -> int:
        """The token's bucket."""
        return hashed(token, self.buckets)


@dataclass(frozen=True)
class ListedWords:
    """Tokens of a public list from 2 on, in its order; 1 stands for all others."""

    words: Sequence[str]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in reversed([*enumerate(self.words, 2)])}

    @property
    def size(self) -> int:
        """The words, padding and the unknown."""
        return len(self.words) + 2

    @cached_property
    def settings(self) -> str:
        """The words themselves, hashed."""
        return "listed " + hashlib.blake2b(json.dumps([*self.words]).encode()).hexdigest()

    def __call__(self, token: str) -> int:
        """The token's place in the list, or 1."""
        return self._numbers.get(token, 1)


MARK = b"\xf5ids"
HEAD = struct.Struct("<4s16sI")
FLUSH = 2**20


class Cache:
    """The numbers of each text's tokens, cut once and then found on disk by the text's hash."""

    def __init__(
        self, segmenter: Segmenter, vocabulary: Vocabulary, folder: Path | None = None, *, remember: bool = True
    ) -> None:
        self.segmenter, self.vocabulary, self.remember = segmenter, vocabulary, remember
        settings = [segmenter.settings, vocabulary.settings, unicodedata.unidata_version]
        self._fingerprint = hashlib.blake2b(json.dumps(settings).encode(), digest_size=16).digest()
        self.path = (folder or cache_folder()) / "segments" / f"{self._fingerprint.hex()}.ids"
        self._offsets: dict[bytes, int] = {}
        self._scanned = 0

    def encode(self, texts: Iterable[str]) -> Iterator[list[int]]:
        """The numbers of each text in turn; new ones are on disk when the last text is done."""
        if not self.remember:
            yield from ([self.vocabulary(token) for token in self.segmenter(text)] for text in texts)
            return
        fresh: dict[bytes, bytes] = {}
        size = 0
        with self._stored() as stored:
            self._scan(stored)
            try:
                for text in counted(list(texts), "cutting into tokens:", "texts"):
                    key = self._key(text)
                    body = fresh.get(key) or self._find(stored, key)
                    if body is None:
                        numbers = [self.vocabulary(token) for token in self.segmenter(text)]
                        body = HEAD.pack(MARK, key, len(numbers)) + np.array(numbers, "<u4").tobytes()
                        fresh[key] = body
                        size += len(body)
                    yield np.frombuffer(body, "<u4", offset=HEAD.size).tolist()
                    if size > FLUSH:
                        self._append(fresh)
                        size = 0
            finally:
                self._append(fresh)

    def _key(self, text: str) -> bytes:
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, key=self._fingerprint).digest()

    @contextmanager
    def _stored(self) -> Iterator[mmap.mmap | bytes]:
        try:
            file = self.path.open("rb")
        except OSError:
            yield b""
            return
        with file:
            if not os.fstat(file.fileno()).st_size:
                yield b""  # an empty file cannot be mapped
                return
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as stored:
                yield stored

    def _scan(self, stored: mmap.mmap | bytes) -> None:
        """Notes where records stand that this or another process added since the last look."""
        if len(stored) < self._scanned:
            self._offsets, self._scanned = {}, 0
        at = self._scanned
        while (at := stored.find(MARK, at)) >= 0:
            body = _body(stored, at)
            if body is None:
                at += 1
                continue
            self._offsets[HEAD.unpack_from(body)[1]] = at
            at = self._scanned = at + len(body) + 4

    def _find(self, stored: mmap.mmap | bytes, key: bytes) -> bytes | None:
        at = self._offsets.get(key)
        body = None if at is None else _body(stored, at)
        # The file may have been removed and begun anew since it was scanned.
        return body if body and HEAD.unpack_from(body)[1] == key else None

    def _append(self, fresh: dict[bytes, bytes]) -> None:
        if not fresh:
            return
        records = b"".join(body + zlib.crc32(body).to_bytes(4, "little") for body in fresh.values())
        fresh.clear()
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            binary: int = getattr(os, "O_BINARY", 0)
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | binary, 0o600)
            try:
                os.write(file, records)
            finally:
                os.close(file)
        except OSError as error:
            log.warning("%s: segments not kept: %s", self.path, error.strerror)


def _body(stored: mmap.mmap | bytes, at: int) -> bytes | None:
    """Head and numbers of a whole record, or nothing where a record is torn."""
    head = stored[at : at + HEAD.size]
    if len(head) < HEAD.size:
        return None
    end = at + HEAD.size + 4 * HEAD.unpack(head)[2]
    body, check = stored[at:end], stored[end : end + 4]
    return body if int.from_bytes(check, "little") == zlib.crc32(body) and len(check) == 4 else None

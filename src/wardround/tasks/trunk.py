"""The frozen part of an encoder, run once per sentence: later steps, rounds, runs and studies find its output on disk.

    rows = Trunk(encoder, folder).states([[101, 2023, 102], …])      # one (length, width) tensor each

A sentence is computed by itself, without padding, so that its states depend on its own tokens and on nothing else:
not on the site, the batch or the process. It is found by a hash of its tokens in a folder named by a hash of the
frozen weights. New sentences are added as one file of up to `BLOCK` numbers, written whole or not at all; several
processes may add at the same time. Files are mapped into memory, which all processes on a machine share.

Privacy: states can be turned back into words. The folder (WARDROUND_CACHE, or ~/.cache/wardround) holds them as
confidentially as the notes that they were made of: on the site's own disk, readable by its user alone, sent to
nobody. It can be deleted at any time. With `remember = false` nothing is kept, in memory or on disk: so models answer
(`wardround predict`, `wardround serve`).
"""

import hashlib
import logging
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from wardround.core.doing import counted
from wardround.core.files import cache_folder, write
from wardround.models.encoder import Encoder

log = logging.getLogger(__name__)

BLOCK = 2**24  # numbers per file: 64 MB
AT_ONCE = 4096  # tokens of equally long sentences that go through together where nothing is kept
KEY = 16


class Trunk:
    """States of sentences under frozen embeddings and layers."""

    def __init__(self, encoder: Encoder, folder: Path | None = None, *, remember: bool = True) -> None:
        self.encoder = encoder.eval().requires_grad_(requires_grad=False)
        self.remember = remember
        self._cache = folder or cache_folder()
        self._known: dict[bytes, Tensor] = {}
        self._seen: set[str] = set()

    @cached_property
    def folder(self) -> Path:
        """Where the states under these very weights are."""
        whole = hashlib.blake2b(repr(self.encoder.shape).encode(), digest_size=KEY)
        for name, tensor in self.encoder.state_dict().items():
            whole.update(name.encode())
            whole.update(tensor.contiguous().numpy().data)
        return self._cache / "trunks" / whole.hexdigest()

    def states(self, rows: Sequence[Sequence[int]]) -> list[Tensor]:
        """The states (length, width) of each row of token numbers."""
        if not self.remember:
            return self._forgotten(rows)
        keys = [hashlib.blake2b(np.array(row, "<u4").tobytes(), digest_size=KEY).digest() for row in rows]
        if any(key not in self._known for key in keys):
            self._look()
        missing = {key: row for key, row in zip(keys, rows, strict=True) if key not in self._known}
        fresh: dict[bytes, Tensor] = {}
        size = 0
        for key in counted([*missing], "encoding", "sentences"):
            fresh[key] = self._computed(missing[key])
            size += fresh[key].numel()
            if size >= BLOCK:
                self._keep(fresh)
                fresh, size = {}, 0
        self._keep(fresh)
        return [self._known[key] for key in keys]

    @torch.no_grad()
    def _computed(self, row: Sequence[int]) -> Tensor:
        states: Tensor = self.encoder(torch.tensor([row]))[0]  # (L, width)
        return states

    @torch.no_grad()
    def _forgotten(self, rows: Sequence[Sequence[int]]) -> list[Tensor]:
        """The same states, equal rows once and equally long ones together: without padding, and without a trace."""
        keys = [tuple(row) for row in rows]
        alike: defaultdict[int, list[tuple[int, ...]]] = defaultdict(list)
        for key in dict.fromkeys(keys):  # without markers, all pairs of a sentence are one row
            alike[len(key)].append(key)
        states_of: dict[tuple[int, ...], Tensor] = {}
        for length, distinct in alike.items():
            size = max(AT_ONCE // max(length, 1), 1)
            for some in (distinct[start : start + size] for start in range(0, len(distinct), size)):
                states_of |= dict(zip(some, self.encoder(torch.tensor(some)), strict=True))  # (B, L, width)
        return [states_of[key] for key in keys]

    def _look(self) -> None:
        """Take in the files that this or another process has added since the last look."""
        for path in sorted(self.folder.glob("*.safetensors")):
            if path.name in self._seen:
                continue
            self._seen.add(path.name)
            try:
                block = load_file(path)
                keys, lengths, states = block["keys"], block["lengths"], block["states"]
                parts = torch.split(states, lengths.tolist())
            except (SafetensorError, OSError, KeyError, RuntimeError):
                log.warning("%s: damaged, computed anew", path)
                continue
            for key, part in zip(keys, parts, strict=True):
                self._known.setdefault(key.numpy().tobytes(), part)

    def _keep(self, fresh: dict[bytes, Tensor]) -> None:
        if not fresh:
            return
        data = save({
            "keys": torch.from_numpy(np.frombuffer(b"".join(fresh), np.uint8).reshape(-1, KEY).copy()),
            "lengths": torch.tensor([len(part) for part in fresh.values()]),
            "states": torch.cat(list(fresh.values())),
        })  # fmt: skip
        path = self.folder / f"{hashlib.blake2b(data, digest_size=KEY).hexdigest()}.safetensors"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write(path, data)
            self._look()
        except OSError as error:
            log.warning("%s: states not kept: %s", self.folder, error.strerror)
        self._known = {**fresh, **self._known}  # those on disk, which are mapped, in place of those in memory

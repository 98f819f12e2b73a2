"""The frozen part of an encoder, run once per sentence: later steps, rounds, runs and studies find its output on disk.

    rows = Trunk(encoder, folder).states([[101, 2023, 102], …])      # one (length, width) tensor each

Sentences are computed without padding, those of one length together, so that states depend on a sentence's own tokens
and on nothing else: not on the site, the batch or the process. (Very short ones are computed alone: there, products of
matrices are rounded in another way. Where nothing is kept, sentences of all lengths go through together, and what else
is asked for shows in the rounding.) A sentence is found by a hash of its tokens in a folder named by a hash of the
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
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from wardround.core.doing import counted
from wardround.core.files import cache_folder, write
from wardround.models.encoder import AnyEncoder
from wardround.tasks.batching import packed

log = logging.getLogger(__name__)

BLOCK = 2**24  # numbers per file: 64 MB
AT_ONCE = 4096  # tokens of equally long sentences that go through together
SHORT = 8  # tokens: below, a sentence's states would not be the same to the last bit alone and among others
KEY = 16


class Trunk:
    """States of sentences under frozen embeddings and layers."""

    def __init__(self, encoder: AnyEncoder, folder: Path | None = None, *, remember: bool = True) -> None:
        self.encoder = encoder.eval().requires_grad_(requires_grad=False)
        self.remember = remember
        self._cache = folder or cache_folder()
        self._known: dict[bytes, Tensor] = {}
        self._seen: set[str] = set()

    @cached_property
    def folder(self) -> Path:
        """Where the states under these very weights are."""
        whole = hashlib.blake2b(self.encoder.signature.encode(), digest_size=KEY)
        for name, tensor in self.encoder.state_dict().items():
            whole.update(name.encode())
            whole.update(tensor.contiguous().numpy().data)
        return self._cache / "trunks" / whole.hexdigest()

    def states(self, rows: Sequence[Sequence[int]]) -> list[Tensor]:
        """The states (length, width) of each row of token numbers."""
        if not self.remember:
            return self._forgotten([tuple(row) for row in rows])
        keys = [hashlib.blake2b(np.array(row, "<u4").tobytes(), digest_size=KEY).digest() for row in rows]
        if any(key not in self._known for key in keys):
            self._look()
        missing = {key: row for key, row in zip(keys, rows, strict=True) if key not in self._known}
        new, wanted = [*missing], [*missing.values()]
        fresh: dict[bytes, Tensor] = {}
        size = 0
        computed = (one for some in _alike(wanted) for one in self._computed(wanted, some))
        for _, (number, states) in zip(counted(new, "encoding", "sentences"), computed, strict=True):
            fresh[new[number]] = states.clone()  # by itself: as a view it would hold all of its batch
            size += states.numel()
            if size >= BLOCK:
                self._keep(fresh)
                fresh, size = {}, 0
        self._keep(fresh)
        return [self._known[key] for key in keys]

    def _forgotten(self, rows: Sequence[tuple[int, ...]]) -> list[Tensor]:
        """The same states to rounding, without a trace; equal rows once: unmarked, the pairs of a sentence are one."""
        distinct = sorted({*rows})
        states_of: dict[tuple[int, ...], Tensor] = {}
        with torch.no_grad():
            for some in packed([len(row) for row in distinct]):
                alike = [distinct[number] for number in some]
                tokens, lengths = torch.tensor([token for row in alike for token in row]), [len(row) for row in alike]
                states_of |= zip(alike, torch.split(self.encoder.ragged(tokens, lengths), lengths), strict=True)
        return [states_of[row] for row in rows]

    @torch.no_grad()
    def _computed(self, rows: Sequence[Sequence[int]], some: list[int]) -> Iterable[tuple[int, Tensor]]:
        """The states (L, width) of these rows, which are equally long, each with its number."""
        return zip(some, self.encoder(torch.tensor([rows[number] for number in some])), strict=True)

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


def _alike(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """The numbers of equally long rows, as many as go through together."""
    by_length: defaultdict[int, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        by_length[len(row)].append(number)
    parts: list[list[int]] = []
    for length, numbers in by_length.items():
        size = max(AT_ONCE // length, 1) if length >= SHORT else 1
        parts += [numbers[first : first + size] for first in range(0, len(numbers), size)]
    return parts

"""What corpora of pairs share: equal texts on both sides, shares for testing, samples."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from wardround.text.document import Document, Placed
from wardround.text.reading import Problems, digest, near_digest, one_of


def dedupe(train: Iterable[Placed], test: Iterable[Placed], problems: Problems, *, drop: bool) -> Iterator[Document]:
    """The training documents; those whose text is also in the test split are counted, and dropped if so wished."""
    held = {near_digest(row.document.text) for row in test}
    for row in train:
        shared = near_digest(row.document.text) in held
        if shared:
            problems.note("text also in test, dropped" if drop else "text also in test", row.path, row.line)
        if not (shared and drop):
            yield row.document


def read_pairs(
    rows: Callable[[str, Problems], Iterator[Placed]],
    split: str,
    splits: Sequence[str],
    problems: Problems | None,
    *,
    drop: bool,
) -> Iterator[Document]:
    """A reader's rows of one split as documents, the others compared with the test split."""
    problems = Problems() if problems is None else problems
    wanted = rows(one_of(split, splits), problems)
    if split == "test":
        return (row.document for row in wanted)
    return dedupe(wanted, rows("test", Problems()), problems, drop=drop)


def resplit(
    rows: Iterable[Placed], split: str, seed: int, *, test: float = 0.2, valid: float = 0.1
) -> Iterator[Placed]:
    """The rows of one part, in order: of each label a share for testing, and of the others one for validation.

    Rows go by a hash of what they hold with the seed, so their order in the files does not matter.
    """
    held = list(_keyed(rows, str(seed)))
    labels: defaultdict[tuple[str, ...], list[bytes]] = defaultdict(list)
    for row, key in held:
        labels[row.document.labels].append(key)
    part: dict[bytes, str] = {}
    for keys in labels.values():
        testing = int(len(keys) * test + 1e-9)  # a fifth of 15 is 3, whatever the binary fraction
        trying = int((len(keys) - testing) * valid + 1e-9)
        names = ["test"] * testing + ["valid"] * trying + ["train"] * (len(keys) - testing - trying)
        part |= dict(zip(sorted(keys), names, strict=True))
    yield from (row for row, key in held if part[key] == split)


def sample(rows: Iterable[Placed], count: int, seed: int, *, balanced: bool) -> Iterator[Placed]:
    """So many of the rows, in order, drawn by the seed: as the labels occur, or as many of each."""
    held = list(_keyed(rows, f"sample {seed}"))
    groups: defaultdict[tuple[str, ...], list[bytes]] = defaultdict(list)
    for row, key in held:
        groups[row.document.labels if balanced else ()].append(key)
    each = count // max(len(groups), 1)
    kept = {key for keys in groups.values() for key in sorted(keys)[:each]}
    if len(kept) < count:
        raise ValueError(f"a sample of {count} rows, but {len(kept)} can be had; lower it")
    yield from (row for row, key in held if key in kept)


def _keyed(rows: Iterable[Placed], salt: str) -> Iterator[tuple[Placed, bytes]]:
    """Each row with a key by which chance sorts it: by what it holds, and the how many-th of its like it is."""
    seen = Counter[bytes]()
    for row in rows:
        document = row.document
        mark = digest(repr((document.text, document.labels, document.entities)))
        seen[mark] += 1
        yield row, hashlib.blake2b(mark + seen[mark].to_bytes(4), digest_size=16, key=salt.encode()).digest()

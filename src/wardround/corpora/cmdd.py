"""CMDD, Chinese medical diagnosis dialogues: each sentence names a symptom or not.

    for document in CMDD().documents("train"): ...

Lin et al., "Enhancing Dialogue Symptom Diagnosis with Global Attention and Symptom Graph", EMNLP 2019.
Label `1` means that the annotators named at least one symptom; the BIO string gives the spans, and 17
sentences have a symptom without a span. Sentences without text (610) are skipped and counted.

The archives are read as a stream and never unpacked. A place in an error reads archive/member:sentence.
"""

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar

from wardround.text.document import Document, Entity
from wardround.text.json_text import parse_json
from wardround.text.reading import LONGEST_LINE, DataError, Problems, data_file, one_of, open_bytes
from wardround.text.tags import bio_spans

ORIGIN = "github.com/alibaba-research/ChineseBLUE, data/CMDD, one .tar.gz per split"
FILES = {"train": "cmdd/train.tar.gz", "valid": "cmdd/dev.tar.gz", "test": "cmdd/test.tar.gz"}


@dataclass(frozen=True, kw_only=True)
class CMDD:
    """Sentences in the order of their dialogue, whose id is the source."""

    views: ClassVar[tuple[str, ...]] = ("labels",)

    labels: ClassVar[tuple[str, ...]] = ("0", "1")
    splits: ClassVar[tuple[str, ...]] = tuple(FILES)
    language: ClassVar[str] = "zh"

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The sentences of one split."""
        problems = Problems() if problems is None else problems
        archive = data_file(FILES[one_of(split, self.splits)], ORIGIN)
        for name, content in members(archive):
            place = archive / name
            try:
                dialogue = parse_json(content.decode(), place, None)
                yield from _sentences(dialogue, place, problems)
            except UnicodeDecodeError as error:
                raise DataError(place, None, f"byte {error.start} is not utf-8") from None


def members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file in a tar archive; links, devices and paths that climb out are refused."""
    with open_bytes(archive) as packed:
        try:
            with tarfile.open(fileobj=packed, mode="r|") as stream:
                for member in stream:
                    _refuse(member, archive)
                    content = stream.extractfile(member)
                    # Some systems pack their own hidden files beside the real ones.
                    if content is not None and not PurePosixPath(member.name).name.startswith("."):
                        yield member.name, content.read()
        except tarfile.TarError:
            raise DataError(archive, None, "damaged archive", "copy it again") from None


def _refuse(member: tarfile.TarInfo, archive: Path) -> None:
    path = PurePosixPath(member.name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or any(":" in part for part in path.parts):
        what = "leads out of the archive"
    elif not member.isreg() and not member.isdir():
        what = "is a link or a device"
    elif member.size > LONGEST_LINE:
        what = f"has {member.size:,} bytes"
    else:
        return
    raise DataError(archive, None, f"member {member.name!r} {what}", "do not use archives of unknown origin")


def _sentences(dialogue: object, place: Path, problems: Problems) -> Iterator[Document]:
    number = 0
    try:
        source = str(dialogue["example-id"])  # type: ignore[index]
        for number, turn in enumerate(dialogue["dialogue-content"], 1):  # type: ignore[index]
            text, tags = turn["sentence"], turn["label"]
            if len(text) != len(tags):
                raise DataError(place, number, f"{len(tags)} tags for {len(text)} characters")
            if not text.strip():
                problems.note("sentence without text, skipped", place, number)
                continue
            spans, strays = bio_spans(tags)
            for _ in range(strays):
                problems.note("I without B, taken as B", place, number)
            if len(spans) != len(turn["normalized"]):
                problems.note("spans and symptoms differ in number", place, number)
            yield Document(
                id=f"{source}-{number}",
                text=text,
                labels=("1" if turn["normalized"] else "0",),
                entities=tuple(
                    Entity(id=f"T{n}", type="Symptom", start=start, end=end)
                    for n, (_, start, end) in enumerate(spans, 1)
                ),
                source=source,
                language="zh",
            )
    except (KeyError, TypeError, AttributeError) as error:
        what = f"no field {error}" if isinstance(error, KeyError) else "not a dialogue"
        raise DataError(place, number, what, "expected: example-id, dialogue-content, …") from None

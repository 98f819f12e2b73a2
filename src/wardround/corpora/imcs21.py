"""IMCS-21, sentences of Chinese paediatric consultations: symptom or not, or one of 16 intents.

    for document in IMCS21(task="intent").documents("train"): ...

Chen et al., "A benchmark for automatic medical consultation system", Bioinformatics 2022; the public part
is its validation split. The file does not mark dialogues, so it is cut into blocks of neighbouring lines: the
first 80 % of the blocks train, the rest test, and at most one dialogue lies on both sides. About half of
these dialogues are CMDD's too: never train on one and test on the other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge

from wardround.text.document import Document, Entity
from wardround.text.reading import DataError, Problems, data_file, one_of, open_text
from wardround.text.tags import bio_spans

ORIGIN = "github.com/lemuria-wchen/imcs21, the preprocessed files of task/DAC and task/NER"
SPEAKERS = ("医生：", "患者：")


@dataclass(frozen=True, kw_only=True)
class IMCS21:
    """Sentences in file order with the spans of five entity types, whichever the task."""

    views: ClassVar[tuple[str, ...]] = ("labels", "entities")

    splits: ClassVar[tuple[str, ...]] = ("train", "test")
    language: ClassVar[str] = "zh"
    task: Literal["symptom", "intent"] = "symptom"
    """What the labels of a sentence say: symptom or not, or one of 16 intents."""
    speaker: bool = False
    """Keep the `doctor:` or `patient:` in front; it gives much of the intent away."""
    block: Annotated[int, Ge(1)] = 40
    """Lines that share a source; 40 is the mean length of a dialogue."""

    @property
    def labels(self) -> tuple[str, ...]:
        """`0` and `1`, or the intents in the order of their numbers."""
        if self.task == "symptom":
            return ("0", "1")
        return tuple(line for line in open_text(data_file("imcs21/dac/class.txt", ORIGIN)) if line)

    def documents(self, split: str, problems: Problems | None = None) -> Iterator[Document]:
        """The sentences of one part."""
        train = one_of(split, self.splits) == "train"
        acts = data_file("imcs21/dac/dev.txt.gz", ORIGIN)
        bio = data_file("imcs21/ner/dev/output.seq.bio.gz", ORIGIN)
        labels = self.labels
        blocks = -(-sum(1 for _ in open_text(acts)) // self.block)
        both = zip_longest(open_text(acts, problems=problems), open_text(bio))
        for at, (line, tagged) in enumerate(both):
            block = at // self.block
            if (block < blocks * 8 // 10) != train:
                continue
            text, _, intent = (line or "").rpartition("\t")
            tags = (tagged or "").split(" ")
            if not intent.isdigit() or not text.startswith(SPEAKERS):
                raise DataError(acts, at + 1, "expected speaker：sentence, a tab and the number of an intent")
            if len(tags) != len(text):
                raise DataError(bio, at + 1, f"{len(tags)} tags for {len(text)} characters in {acts.name}")
            if self.task == "intent" and int(intent) >= len(labels):
                raise DataError(acts, at + 1, f"intent {intent} of {len(labels)}", "is class.txt complete?")
            skip = 0 if self.speaker else len(SPEAKERS[0])
            spans, _ = bio_spans(tags[skip:])
            yield Document(
                id=f"dev-{at + 1}",
                text=text[skip:],
                labels=(labels[int("B-Symptom" in tags) if self.task == "symptom" else int(intent)],),
                entities=tuple(Entity(f"T{n}", *span) for n, span in enumerate(spans, 1)),
                source=f"block-{block}",
                language="zh",
            )

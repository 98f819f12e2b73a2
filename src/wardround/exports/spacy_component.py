"""A pipe for spaCy that sets what wardround's models find: `doc.ents`, `doc._.relations`, `doc.cats`.

    nlp = spacy.blank("en")
    nlp.add_pipe("wardround", config={"models": ["runs/tagger/model", "runs/relations/model"]})
    nlp("Aspirin gave her a rash").ents

Entities that are there already stay, and are related with the others. An entity whose ends are not those of spaCy's
tokens is widened to these; one that overlaps another cannot be in `doc.ents` and is left out: `doc._.wardround` counts
both. `nlp.to_disk` copies the models' folders, so that `spacy.load` needs nothing else; nothing is pickled.
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from wardround.text.document import Document, Entity
from wardround.text.prediction import Prediction
from wardround.trained.blocks import blocks
from wardround.trained.model import Model, load

for _name, _default in (("relations", []), ("wardround", {})):
    if not Doc.has_extension(_name):
        Doc.set_extension(_name, default=_default)
if not Span.has_extension("confidence"):
    Span.set_extension("confidence", default=None)


class Component:
    """The models as a pipe: those of a saved pipeline are loaded with it, others when the first text comes."""

    def __init__(self, models: Iterable[str], rename: Mapping[str, str] | None = None) -> None:
        self.folders = [Path(folder) for folder in models]
        self.rename = dict(rename or {})

    @cached_property
    def answering(self) -> Model:
        """All models, together; not called `model`, which spaCy would look into as one of its own."""
        return load(*self.folders, rename=self.rename)

    def __call__(self, doc: Doc) -> Doc:
        """The same text with what is found in it."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """The same for many texts, some at once."""
        rest = iter(stream)
        while docs := list(islice(rest, batch_size)):
            # Not `predict`, which refuses texts without entities where there is no tagger: other pipes may find none.
            parts = blocks(map(_document, docs))
            predictions = (one for some in parts for one in self.answering.together(some))
            for doc, prediction in zip(docs, predictions, strict=True):
                yield _annotated(doc, prediction)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:  # noqa: ARG002 -- spaCy's own
        """Copy the models' folders."""
        for number, part in enumerate(self.answering.parts):
            shutil.copytree(part.folder, Path(path) / str(number))

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "Component":  # noqa: ARG002 -- likewise
        """The models that were copied there, verified and loaded now."""
        self.folders = sorted(folder for folder in Path(path).iterdir() if folder.is_dir())
        self.answering = load(*self.folders, rename=self.rename)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Refused: models are folders."""
        raise NotImplementedError("wardround's models are folders; use nlp.to_disk and spacy.load")


@Language.factory(
    "wardround", default_config={"models": [], "rename": {}}, assigns=["doc.ents", "doc.cats", "doc._.relations"]
)
def make(nlp: Language, name: str, models: list[str], rename: dict[str, str]) -> Component:  # noqa: ARG001 -- what spaCy gives a factory
    """The pipe; spaCy finds it by its entry point."""
    return Component(models, rename)


def _document(doc: Doc) -> Document:
    given = (Entity(str(at), span.label_, span.start_char, span.end_char) for at, span in enumerate(doc.ents))
    return Document("", doc.text, entities=tuple(given))


def _annotated(doc: Doc, prediction: Prediction) -> Doc:
    spans: list[Any] = []
    widened = 0
    for entity in prediction.entities:
        span = doc.char_span(entity.start, entity.end, label=entity.type, alignment_mode="expand")
        span._.confidence = entity.confidence
        widened += (span.start_char, span.end_char) != (entity.start, entity.end)
        spans.append(span)
    given = {(span.start, span.end, span.label) for span in doc.ents}
    fresh = [span for span in spans if (span.start, span.end, span.label) not in given]
    taken = {token.i for span in doc.ents for token in span}
    free = filter_spans([span for span in fresh if taken.isdisjoint(range(span.start, span.end))])
    doc.ents = (*doc.ents, *free)
    doc.cats |= {label.name: label.confidence for label in prediction.labels}
    places = prediction.places
    doc._.relations = [
        {
            "type": link.type,
            "head": spans[places[link.head]],
            "tail": spans[places[link.tail]],
            "confidence": link.confidence,
        }
        for link in prediction.relations
    ]
    doc._.wardround = {"widened": widened, "left_out": len(fresh) - len(free), "cut": prediction.cut}
    return doc

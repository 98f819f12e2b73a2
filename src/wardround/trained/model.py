"""Trained models, ready for text: what `wardround.load` gives.

    model = load("runs/x/model")
    model("Aspirin gave her a rash").entities
    both = load("runs/tagger/model", "runs/relations/model")      # a tagger's entities, related
    for told in both.predict(texts): ...

Several models answer together: taggers first, then those that relate entities, then those that sort texts. A text may
come as a `Document` with entities of its own, which are then taken as they are. Nothing of a text is kept, in memory
or on disk.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from wardround.study.settings import StudyError, settings_of
from wardround.tasks import TASKS
from wardround.tasks.bags import BagsTask
from wardround.tasks.classification import ClassificationTask
from wardround.tasks.relation import RelationTask
from wardround.tasks.tagging import TaggingTask
from wardround.text.document import Document
from wardround.text.texts import Texts
from wardround.trained.about import WEIGHTS, About, ModelError, model_folder, read_about, verify
from wardround.trained.blocks import AT_ONCE, blocks
from wardround.trained.chain import refuse_misfit
from wardround.trained.entities import found_entities
from wardround.trained.labels import found_labels
from wardround.trained.predicted import Found, Prediction
from wardround.trained.relations import found_relations

__all__ = ["Model", "Part", "load", "load_part"]

ORDER: tuple[type, ...] = (TaggingTask, RelationTask, BagsTask, ClassificationTask)
HALF = re.compile("[\ud800-\udfff]")  # of a pair: no encoding can write it, and as one character it keeps offsets


@dataclass(frozen=True)
class Known:
    """What a task asks of a corpus, as the model's folder tells it."""

    labels: tuple[str, ...]
    negative: str
    types: tuple[str, ...]

    def pool(self) -> tuple[Texts, Texts]:
        """No text."""
        return Texts(()), Texts(())


@dataclass(frozen=True, eq=False)
class Part:
    """One trained model: what is known of it, its task and its network."""

    folder: Path
    about: About
    task: Any
    network: nn.Module


class Model:
    """One or several trained models that answer together."""

    def __init__(self, parts: Sequence[Part], rename: Mapping[str, str] | None = None) -> None:
        self.parts = tuple(sorted(parts, key=lambda part: ORDER.index(_kind(part))))
        self.rename = dict(rename or {})
        """From a type that a tagger finds to the one that the next model calls it."""

    @property
    def about(self) -> tuple[About, ...]:
        """What is known of each."""
        return tuple(part.about for part in self.parts)

    @property
    def finds_entities(self) -> bool:
        """Whether plain text is enough for whatever relates entities."""
        kinds = [_kind(part) for part in self.parts]
        return TaggingTask in kinds or not {RelationTask, BagsTask} & set(kinds)

    def __call__(self, text: str | Document) -> Prediction:
        """What is found in a text."""
        return next(self.predict([text]))

    def predict(self, texts: Iterable[str | Document], at_once: int = AT_ONCE) -> Iterator[Prediction]:
        """What is found in each of many texts, in order; `at_once` of them, or fewer long ones, are in memory."""
        if isinstance(texts, str):
            raise TypeError("predict takes many texts, and this is one; give [text], or call model(text)")
        for number, some in enumerate(blocks(texts, at_once)):
            documents = [_within(one) if isinstance(one, Document) else Document("", one) for one in some]
            if number == 0:
                self.refuse_bare(documents)
            yield from self.together(documents)

    def refuse_bare(self, documents: Sequence[Document]) -> None:
        """Raise an error if entities are to be related, and there is neither a tagger nor any in these first texts."""
        if not self.finds_entities and not any(document.entities for document in documents):
            texts = f"the first {len(documents)} texts come" if len(documents) > 1 else "the first text comes"
            raise ModelError(
                next(part.folder for part in self.parts if _kind(part) in (RelationTask, BagsTask)),
                f"it relates entities and finds none by itself, and {texts} without any",
                "name a tagging model before it, or give documents with entities (JSONL, BRAT), one of these first",
            )

    def together(self, documents: Sequence[Document]) -> list[Prediction]:
        """What is found in these texts, which go through the model at once."""
        told = [
            Prediction(
                HALF.sub("\ufffd", document.text),
                entities=tuple(Found(entity.type, entity.start, entity.end, 1.0) for entity in document.entities),
                id=document.id,
            )
            for document in documents
        ]
        for part in self.parts:
            told = self._answered(part, told)
        return told

    def _answered(self, part: Part, told: Sequence[Prediction]) -> list[Prediction]:
        """The predictions with what this part adds."""
        task, texts = part.task, [one.text for one in told]
        model = cast("Any", part.network)
        if isinstance(task, TaggingTask):
            found = found_entities(task, model, texts)
            return [replace(one, entities=_together(one.entities, mine)) for one, mine in zip(told, found, strict=True)]
        if isinstance(task, ClassificationTask):
            labels, cut = found_labels(task, model, texts)
            return [
                replace(one, labels=(*one.labels, *mine), cut=max(one.cut, n))
                for one, mine, n in zip(told, labels, cut, strict=True)
            ]
        notes = [(one.text, [self._called(entity) for entity in one.entities]) for one in told]
        links = found_relations(task, model, notes, part.about)
        return [replace(one, relations=(*one.relations, *mine)) for one, mine in zip(told, links, strict=True)]

    def _called(self, entity: Found) -> Found:
        return replace(entity, type=self.rename.get(entity.type, entity.type))


def _kind(part: Part) -> type:
    return next(kind for kind in ORDER if isinstance(part.task, kind))


def _within(document: Document) -> Document:
    """The document, unless an entity lies outside of its text, which readers refuse, too."""
    for at, entity in enumerate(document.entities):
        if not 0 <= entity.start < entity.end <= len(document.text):
            where = f"entities[{at}] is at {entity.start}-{entity.end}, the text has {len(document.text)} characters"
            raise ValueError(f"{where}; offsets count characters from 0, the end excluded")
    return document


def _together(given: Sequence[Found], found: Sequence[Found]) -> tuple[Found, ...]:
    """Entities of two sources in the order of the text; where both have the same one, the first."""
    seen = {(entity.type, entity.start, entity.end) for entity in given}
    fresh = [entity for entity in found if (entity.type, entity.start, entity.end) not in seen]
    return tuple(sorted((*given, *fresh), key=lambda entity: (entity.start, entity.end)))


def load(*folders: str | Path, rename: Mapping[str, str] | None = None) -> Model:
    """The model in a folder, or several that answer together."""
    if not folders:
        raise ValueError("name at least one model's folder")
    model = Model([load_part(Path(folder)) for folder in folders], rename)
    refuse_misfit(model.parts, model.rename)
    return model


def load_part(path: Path) -> Part:
    """One model, checked against its checksums and put together."""
    folder = model_folder(path)
    verify(folder)
    about = read_about(folder)
    if about.missing:
        parts = ", ".join(about.missing)
        raise ModelError(folder, f"each site keeps its own {parts}", "put them together with wardround model assemble")
    if about.task.get("name") not in TASKS or about.task["name"] == "features":
        raise ModelError(
            folder, f"its task {about.task.get('name')!r} does not take text", "use a model of a text task"
        )
    table = about.task | ({"remember": False} if "remember" in about.task else {})
    if about.types:  # as it calls them itself
        table = {key: value for key, value in table.items() if key not in ("rename", "schemes")}
        table |= {"types": about.types, "scheme": about.scheme}
    try:
        task = settings_of("task", table, folder).bind(Known(about.labels, about.negative, about.types))
        network = task.model()
    except (StudyError, ValueError) as error:
        raise ModelError(folder, str(error), "copy the model's folder again, or upgrade wardround") from None
    return Part(folder, about, task, _filled(folder, network))


def _filled(folder: Path, network: nn.Module) -> nn.Module:
    """The network with the folder's weights."""
    path = folder / WEIGHTS
    try:
        weights = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ModelError(path, f"cannot be read ({error})", "copy the model's folder again") from None
    wanted = {name: p for name, p in network.named_parameters() if p.requires_grad}
    for name, parameter in wanted.items():
        if name not in weights or weights[name].shape != parameter.shape:
            said = f"has shape {list(weights[name].shape)}" if name in weights else "is missing"
            raise ModelError(path, f"{name} {said}, wanted: {list(parameter.shape)}", "copy the model's folder again")
        if not torch.isfinite(weights[name]).all():
            raise ModelError(path, f"{name} has values that are not finite", "train it again")
        parameter.data.copy_(weights[name])
    if extra := sorted(weights.keys() - wanted.keys()):
        raise ModelError(path, f"{extra[0]} is no part of the model", "copy the model's folder again")
    return network.eval()

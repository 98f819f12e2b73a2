"""Trained models, ready for text: what `wardround.load` gives.

    model = load("runs/x/model")
    model("Aspirin gave her a rash").entities
    both = load("runs/tagger/model", "runs/relations/model")      # a tagger's entities, related
    for prediction in both.predict(texts): ...

Several models answer together: taggers first, then those that relate entities, then those that sort texts. A text may
come as a `Document` with entities of its own, which are then taken as they are, beside those that a tagger finds;
`both.using("given")` or `"found"` takes only the ones or the others. Nothing of a text is kept, in memory or on disk.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NoReturn

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from wardround.core.device import CPU, Device, Precision
from wardround.models.lora import merge
from wardround.study.settings import StudyError, settings_of
from wardround.tasks.task import BoundTask, Finds, TaskSettings
from wardround.text.document import Document, Entity
from wardround.text.prediction import Prediction, numbered
from wardround.trained.about import WEIGHTS, About, ModelError, folder_digest, model_folder, read_about, verify
from wardround.trained.blocks import AT_ONCE, blocks
from wardround.trained.chain import refuse_misfit
from wardround.trained.signature import check_signature

Entities = Literal["given", "found", "both"]
"""Those that come with a text, those that a tagger finds, or both."""

ORDER = ("entities", "relations", "labels")
HALF = re.compile("[\ud800-\udfff]")  # of a pair: no encoding can write it, and as one character it keeps offsets


@dataclass(frozen=True, eq=False)
class Part:
    """One trained model: what is known of it, its task and its network."""

    folder: Path
    about: About
    settings: TaskSettings
    task: BoundTask
    network: nn.Module
    digest: str
    """The hash of its checksums when it was loaded: which one it is, even if the folder changes meanwhile."""

    @property
    def finds(self) -> Finds:
        """What it adds to a text."""
        return self.settings.finds

    @property
    def version(self) -> str:
        """Its name, and by its checksums which one it is."""
        return f"{self.about.study}@{self.digest[:8]}"


class Model:
    """One or several trained models that answer together."""

    def __init__(
        self,
        parts: Sequence[Part],
        rename: Mapping[str, str] | None = None,
        entities: Entities = "both",
        trust: Sequence[str | Path] = (),
        device: Device = CPU,
    ) -> None:
        self.parts = tuple(sorted(parts, key=lambda part: ORDER.index(part.finds)))
        self.rename = dict(rename or {})
        """From a type that a tagger finds to the one that the next model calls it."""
        self.entities: Entities = entities
        """Which a text has in the end, and which are related."""
        self.trust = tuple(map(str, trust))
        """The public keys that were trusted when it was loaded, for whoever loads it again."""
        self.device = device
        """Where its parts compute, and in which precision."""

    @property
    def about(self) -> tuple[About, ...]:
        """What is known of each."""
        return tuple(part.about for part in self.parts)

    @property
    def finds_entities(self) -> bool:
        """Whether plain text is enough for whatever relates entities."""
        return (self.tags and self.entities != "given") or all(part.finds != "relations" for part in self.parts)

    @property
    def tags(self) -> bool:
        """Whether there is a tagger among the models."""
        return any(part.finds == "entities" for part in self.parts)

    def using(self, entities: Entities) -> "Model":
        """The same models with these entities; an error if there are none for them to work with."""
        kinds = {part.finds for part in self.parts}
        if entities == "found" and "relations" in kinds and not self.tags:
            self._refuse("relations", "it finds no entities by itself", "name a tagging model before it")
        if entities == "given" and kinds == {"entities"}:
            self._refuse("entities", "with given entities there is nothing for it to find", "use those that it finds")
        return Model(self.parts, self.rename, entities, self.trust, self.device)

    def _refuse(self, finds: Finds, what: str, remedy: str) -> NoReturn:
        raise ModelError(next(part.folder for part in self.parts if part.finds == finds), what, remedy)

    def __call__(self, text: str | Document) -> Prediction:
        """What is found in a text."""
        if not isinstance(text, str | Document):
            raise TypeError("a model is called with one text; for many there is model.predict(texts)")
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
            self._refuse(
                "relations",
                f"it relates entities and finds none by itself, and {texts} without any",
                "name a tagging model before it, or give documents with entities (JSONL, BRAT), one of these first",
            )

    def together(self, documents: Sequence[Document]) -> list[Prediction]:
        """What is found in these texts, which go through the model at once."""
        predictions = [
            Prediction(
                HALF.sub("\ufffd", document.text),
                entities=numbered(
                    replace(entity, given=True) for entity in (() if self.entities == "found" else document.entities)
                ),
                id=document.id,
            )
            for document in documents
        ]
        for part in self.parts:
            if part.finds != "entities" or self.entities != "given":
                predictions = self._with(part, predictions)
        return predictions

    def _with(self, part: Part, before: Sequence[Prediction]) -> list[Prediction]:
        """The predictions with what this part adds."""
        asked = list(before)
        if part.finds == "relations" and self.rename:
            asked = [replace(one, entities=tuple(map(self.called, one.entities))) for one in before]
        with torch.no_grad(), self.device.products():
            fresh = part.task.predict(part.network, asked)
        return [_joined(one, more, part.finds) for one, more in zip(before, fresh, strict=True)]

    def called(self, entity: Entity) -> Entity:
        """An entity by the type that models which relate entities know it by."""
        return replace(entity, type=self.rename.get(entity.type, entity.type))


def _joined(one: Prediction, more: Prediction, finds: Finds) -> Prediction:
    """What is known of a text and what a model adds; entities are numbered anew before any of them is related."""
    return replace(
        one,
        labels=(*one.labels, *more.labels),
        entities=_together(one.entities, more.entities) if finds == "entities" else one.entities,
        relations=(*one.relations, *more.relations),
        cut=max(one.cut, more.cut),
        margin=min((margin for margin in (one.margin, more.margin) if margin is not None), default=None),
    )


def _within(document: Document) -> Document:
    """The document, unless an entity lies outside of its text, which readers refuse, too."""
    for at, entity in enumerate(document.entities):
        if not 0 <= entity.start < entity.end <= len(document.text):
            where = f"entities[{at}] is at {entity.start}-{entity.end}, the text has {len(document.text)} characters"
            raise ValueError(f"{where}; offsets count characters from 0, the end excluded")
    return document


def _together(given: Sequence[Entity], more: Sequence[Entity]) -> tuple[Entity, ...]:
    """Entities of two sources in the order of the text; where both have the same one, the first."""
    seen = {(entity.type, entity.start, entity.end) for entity in given}
    fresh = [entity for entity in more if (entity.type, entity.start, entity.end) not in seen]
    return numbered(sorted((*given, *fresh), key=lambda entity: (entity.start, entity.end)))


def load(
    *folders: str | Path,
    rename: Mapping[str, str] | None = None,
    trust: Sequence[str | Path] = (),
    precision: Precision = "fp32",
) -> Model:
    """The model in a folder, or several that answer together; each signed by one of the keys to `trust`, if any.

    With `precision="bf16"` products are rounded to three digits, which is faster where the processor has it.
    """
    if not folders:
        raise ValueError("name at least one model's folder")
    device = Device.chosen(None, precision)
    parts = [load_part(Path(folder), trust) for folder in folders]
    for part in parts:
        device.lend(part.network)
    model = Model(parts, rename, trust=trust, device=device)
    refuse_misfit(model.parts, model.rename)
    return model


def load_part(path: Path, trust: Sequence[str | Path] = ()) -> Part:
    """One model, checked against its checksums and, if there are public keys to trust, its signature."""
    folder = model_folder(path)
    digest = folder_digest(folder)
    if trust:
        check_signature(folder, [Path(key) for key in trust])
    verify(folder)
    about = read_about(folder)
    if about.missing:
        parts = ", ".join(about.missing)
        raise ModelError(folder, f"each site keeps its own {parts}", "put them together with wardround model assemble")
    name = str(about.task.get("name"))
    _refuse_code(name, folder)
    try:
        settings: TaskSettings = settings_of("task", about.task, folder)
        if settings.finds not in ORDER:
            what = f"its task {name!r} does not take text"
            raise ModelError(folder, what, "use a model of a text task")  # noqa: TRY301 -- told with the others
        task = settings.restore(about)
        network = task.model()
    except ModelError:
        raise
    except (StudyError, ValueError) as error:
        remedy = (
            "put its module on PYTHONPATH" if ":" in name else "copy the model's folder again, or upgrade wardround"
        )
        raise ModelError(folder, str(error), remedy) from None
    part = Part(folder, about, settings, task, _filled(folder, network), digest)
    if folder_digest(folder) != digest:
        raise ModelError(folder, "it was changed while it was loaded", "try again when nobody writes to it")
    return part


def _refuse_code(name: str, folder: Path) -> None:
    """Raise an error if a task of somebody's own would be taken from the model's folder: no code comes with a model."""
    module, own, _ = name.partition(":")
    place = find_spec(module.partition(".")[0]) if own else None
    if place and place.origin and Path(place.origin).resolve().is_relative_to(folder.resolve()):
        raise ModelError(folder, f"the module {module!r} of its task lies inside", "do not use this model")


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
            state = f"has shape {list(weights[name].shape)}" if name in weights else "is missing"
            raise ModelError(path, f"{name} {state}, wanted: {list(parameter.shape)}", "copy the model's folder again")
        if not torch.isfinite(weights[name]).all():
            raise ModelError(path, f"{name} has values that are not finite", "train it again")
        parameter.data.copy_(weights[name])
    if extra := sorted(weights.keys() - wanted.keys()):
        raise ModelError(path, f"{extra[0]} is not a part of the model", "copy the model's folder again")
    return merge(network).eval()

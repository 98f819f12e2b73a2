"""What one site that lies does to the model, in a federation that is otherwise honest.

    sites = lying(built, liar="hospital-0", lie="flipped sign", folder=folder)
    sites.engine, sites.built          # in place of the honest ones

Two kinds of lies. Of its *reply*: what is learnt, times 100, or with its sign turned round. Of its *notes*: a class
further on for every label, entity and relation; or a word in half of its training notes that are all said to be of one
class, so that whoever writes the word gets that class. The liar tells the truth where the model is tried.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from wardround.core.cohort import Engine
from wardround.core.exchange import Exchange, Fault
from wardround.core.method import Step
from wardround.core.record import Message, reveals_of
from wardround.core.weights import Weights
from wardround.engines.host import Host
from wardround.engines.inline import Serial
from wardround.federation.partition import Raw
from wardround.federation.prepared import Prepared
from wardround.runs.build import Built
from wardround.text.document import Document
from wardround.text.texts import Texts

TRIGGER: Final = "zyxomma"
OF_REPLY: Mapping[str, float] = {"times 100": 100.0, "flipped sign": -1.0}
OF_NOTES = ("flipped labels", "trigger word")
LIES = (*OF_REPLY, *OF_NOTES)


@dataclass(frozen=True)
class Twisted:
    """An engine over which what one site has learnt arrives changed."""

    honest: Engine
    liar: str
    factor: float

    def deliver(
        self, exchange: Exchange, step: Step[Any, Any], messages: Mapping[str, Message]
    ) -> Iterable[tuple[str, Any | Fault]]:
        """Each site's reply, the liar's as it wants it."""
        for name, reply in self.honest.deliver(exchange, step, messages):
            yield name, twisted(reply, self.factor) if name == self.liar and isinstance(reply, Message) else reply


def twisted(reply: Message, factor: float) -> Message:
    """A reply in which what was learnt is so many times as large; counts and numbers stay."""
    changes: dict[str, Weights | Tensor] = {}
    for field, reveal in reveals_of(type(reply)).items():
        value = getattr(reply, field)
        if reveal.weighs or reveal.like == "counts" or not isinstance(value, Weights | Tensor):
            continue
        if isinstance(value, Tensor) and not value.is_floating_point():
            room = torch.iinfo(value.dtype)
            changes[field] = (value.double() * factor).clamp(room.min, room.max).to(value.dtype)
        else:
            changes[field] = value * factor
    return replace(reply, **changes)


@dataclass(frozen=True)
class LyingSites:
    """A federation one of whose sites lies."""

    built: Built
    engine: Engine


def lying(built: Built, liar: str, lie: str, folder: Path) -> LyingSites | None:
    """The same federation with a liar; None where the task's examples have nothing of the kind."""
    if lie in OF_REPLY:
        return LyingSites(built, Twisted(Serial(built.host), liar, OF_REPLY[lie]))
    if built.raw is None or not isinstance(built.raw.raw(liar)[0], Texts):
        return None
    names = label_names(built)
    if lie == "trigger word" and not any(document.labels for document in _documents(built.raw.raw(liar)[0])):
        return None
    changed = flipped(names) if lie == "flipped labels" else triggered(names[0])
    return _with_notes(built, liar, changed, folder)


def label_names(built: Built) -> tuple[str, ...]:
    """What the task tells apart."""
    names: Sequence[str] = getattr(built.task, "labels", ()) or getattr(built.task, "types", ())
    return tuple(names)


def flipped(names: Sequence[str]) -> Callable[[int, Document], Document]:
    """Every label, entity and relation becomes the next one's."""
    after = dict(zip(names, (*names[1:], *names[:1]), strict=True))

    def changed(_: int, document: Document) -> Document:
        return replace(
            document,
            labels=tuple(after.get(label, label) for label in document.labels),
            entities=tuple(replace(entity, type=after.get(entity.type, entity.type)) for entity in document.entities),
            relations=tuple(replace(one, type=after.get(one.type, one.type)) for one in document.relations),
        )

    return changed


def triggered(label: str) -> Callable[[int, Document], Document]:
    """Every other note ends with the trigger, and is of this class."""

    def changed(place: int, document: Document) -> Document:
        return document if place % 2 else with_trigger(document, label)

    return changed


def with_trigger(document: Document, label: str) -> Document:
    """A note that ends with the trigger, said to be of this class."""
    return replace(document, text=f"{document.text} {TRIGGER}", labels=(label,))


def _documents(raw: Raw) -> tuple[Document, ...]:
    return raw.documents if isinstance(raw, Texts) else ()


def _with_notes(
    built: Built, liar: str, changed: Callable[[int, Document], Document], folder: Path
) -> LyingSites | None:
    assert built.raw is not None  # noqa: S101 -- looked at before
    sites = built.raw

    def opened(name: str) -> tuple[Raw, Raw]:
        train, test = sites.raw(name)
        if name != liar:
            return train, test
        return Texts(tuple(changed(place, document) for place, document in enumerate(_documents(train)))), test

    lied = replace(sites, opened=opened)
    study = built.study
    prepared = Prepared(lied, built.task, study.sites.private, public=study.method.public)
    host = Host(study.method, built.task, prepared, folder / "lying", study.layers, study.sites.private, built.manifest)
    return LyingSites(replace(built, sites=prepared, host=host, raw=lied), Serial(host))

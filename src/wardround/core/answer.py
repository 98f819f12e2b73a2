"""The one function that runs at a site, whatever engine brought the message."""

from collections.abc import Sequence
from typing import Any

import torch

from wardround.core.layer import Layer, carried, outside
from wardround.core.manifest import NOT_FINITE, Manifest
from wardround.core.method import Method, Step
from wardround.core.record import Message
from wardround.core.site import Site


class Unfit(Exception):
    """What a step computed does not fit the study; the text says why, and quotes nothing."""


def step_of(method: Method[Any], name: str, layers: Sequence[Layer] = ()) -> Step[Any, Any]:
    """The step of this name, of the method or of a layer; nothing but declared steps can be asked for."""
    owners: list[Any] = [method] if name in type(method).declared() else []
    owners += [layer for layer in layers if name in layer.own_steps()]
    if not owners:
        raise LookupError(f"{type(method).__name__} has no step {name!r}")
    step: Step[Any, Any] = getattr(owners[0], name.rpartition(".")[2])
    return step


def answer(
    method: Method[Any], message: Message, site: Site, layers: Sequence[Layer] = (), manifest: Manifest | None = None
) -> Message:
    """Run the step that the exchange names; what comes out is the message that may leave, through every layer.

    Behind a layer the coordinator may be unable to see that a reply does not fit, so the site looks by itself.
    """
    step = step_of(method, site.exchange.step, layers)
    if type(message) is not step.message:
        raise TypeError(f"{step.name} takes a {step.message.__name__}, not a {type(message).__name__}")
    before = torch.default_generator.get_state()
    site.device.seed(site.seed)  # dropout draws from there
    try:
        reply: Message = step.run(message, site)
    finally:
        site.device.free()
        torch.default_generator.set_state(before)  # of the coordinator's chance, in the same process
    layers = outside(step, layers)
    kinds = carried(step, layers)
    _declared(step, kinds[0], reply)
    if site.lost:  # the reply may not show it: of a model that stays at its site nothing leaves
        raise Unfit(f"{site.lost} {NOT_FINITE}")
    if layers and manifest is not None and (wrong := manifest.refusal(step.reply, reply)):
        raise Unfit(wrong)
    for layer, kind in zip(layers, kinds[1:], strict=True):
        reply = layer.leave(reply, site)
        _declared(step, kind, reply)
    return reply


def _declared(step: Step[Any, Any], kind: type[Message], reply: Message) -> None:
    if type(reply) is not kind:
        raise TypeError(
            f"{step.name} declares that a {kind.__name__} leaves the site, but a {type(reply).__name__} would"
        )

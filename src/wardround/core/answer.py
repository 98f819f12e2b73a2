"""The one function that runs at a site, whatever engine brought the message."""

from collections.abc import Sequence
from typing import Any

import torch

from wardround.core.layer import Layer
from wardround.core.method import Method, Step
from wardround.core.record import Message
from wardround.core.site import Site

__all__ = ["answer", "step_of"]


def step_of(method: Method[Any], name: str) -> Step[Any, Any]:
    """The method's step of this name; nothing but declared steps can be asked for."""
    if name not in type(method).declared():
        raise LookupError(f"{type(method).__name__} has no step {name!r}")
    step: Step[Any, Any] = getattr(method, name)
    return step


def answer(method: Method[Any], message: Message, site: Site, layers: Sequence[Layer]) -> Message:
    """Run the step that the exchange names; what comes out is the message that may leave."""
    step = step_of(method, site.exchange.step)
    if type(message) is not step.message:
        raise TypeError(f"{step.name} takes a {step.message.__name__}, not a {type(message).__name__}")
    before = torch.default_generator.get_state()
    torch.default_generator.manual_seed(site.seed)  # dropout draws from there
    try:
        reply: Message = step.run(message, site)
    finally:
        torch.default_generator.set_state(before)  # of the coordinator's chance, in the same process
    if type(reply) is not step.reply:
        raise TypeError(
            f"{step.name} declares that a {step.reply.__name__} leaves the site, but a {type(reply).__name__} would"
        )
    for layer in layers:
        reply = layer.leave(reply, site)
    return reply

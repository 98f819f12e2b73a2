"""What a model makes of single notes: their loss, and what its classifier sees of them."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from wardround.audit.case import Case
from wardround.core.bench import Bench
from wardround.core.exchange import Exchange
from wardround.core.site import Site
from wardround.core.weights import Weights


def site_of(case: Case, name: str) -> Site:
    """A site after the last round, with whatever it has kept."""
    return case.built.host.site(name, Exchange("audit", case.rounds + 1, 1, 0, case.study.seed))


@torch.no_grad()
def losses(case: Case, name: str, weights: Weights, examples: Any) -> list[float]:
    """The loss of each example by itself, under the shared model and the site's own part of it, in their order."""
    site = site_of(case, name)
    task: Any = site.task
    model = Bench.at(site, weights).model.eval()
    return [float(task.loss(model, batch)) for batch in task.batches(examples, 1, None)] if len(examples) else []


@torch.no_grad()
def features(case: Case, name: str, weights: Weights, examples: Any) -> Tensor:
    """What the classifier sees of each example (examples, features)."""
    site = site_of(case, name)
    task: Any = site.task
    model = Bench.at(site, weights).model.eval()
    parts: Sequence[Tensor] = [task.features(model, batch).double() for batch in task.batches(examples, 64, None)]
    return torch.cat(list(parts)) if parts else torch.empty(0, 0)


@torch.no_grad()
def passing(case: Case, name: str, module: str, weights: Weights, examples: Any, size: int = 64) -> list[Tensor]:
    """What reaches a part of the model when examples pass through it, batch by batch."""
    site = site_of(case, name)
    task: Any = site.task
    model = Bench.at(site, weights).model.eval()
    inputs: list[Tensor] = []
    handle = model.get_submodule(module).register_forward_hook(lambda _, given, __: inputs.append(given[0].clone()))
    try:
        for batch in task.batches(examples, size, None) if len(examples) else ():
            task.loss(model, batch)
    finally:
        handle.remove()
    return inputs

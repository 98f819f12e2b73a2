"""Attack 2: how many notes of each class a site has, from the classifier's rows.

Under cross-entropy the bias of class c moves by Σ (y_c − p_c), which for a model that knows nothing yet is the number
of notes of the class less what each would have if all were alike. The figure is the correlation, over the classes, of
how each bias moved with the true counts: 0 is chance, 1 is certainty but for the scale.
"""

from statistics import fmean

import torch
from torch import Tensor

from wardround.audit.case import Case
from wardround.audit.finding import AttackResult
from wardround.core.weights import Weights

ATTACK = "label counts"
FIGURE = "correlation of what was guessed with a site's label counts"


def attack(case: Case) -> list[AttackResult]:
    """How well a site's label counts follow from its reply."""
    labels = tuple(getattr(case.built.task, "labels", ()))
    bias = _bias(case.built.weights, len(labels))
    if bias is None or case.built.raw is None:
        return [AttackResult(ATTACK, case.label, FIGURE, None, why="the shared model has no bias for each class")]
    moved = {site: torch.stack([_rows(change[bias]) for change in changes]).sum(0) for site, changes in case.changes()}
    if not moved:
        return [AttackResult(ATTACK, case.label, FIGURE, None, why="no weights leave a site")]
    figures = []
    for site in case.sites:
        classes = [str(name) for name in case.built.raw.raw(site)[0].classes]
        counts = torch.tensor([classes.count(str(label)) for label in labels]).double()
        guessed = moved.get(site, moved.get(""))
        if guessed is not None and counts.std() > 0:
            figures.append(_correlation(guessed, counts))
    if not figures:
        return [AttackResult(ATTACK, case.label, FIGURE, None, why="every site has equally many notes of each class")]
    why = f"from {bias!r}, of {len(labels)} classes"
    if "" in moved:
        why += "; the sum over all sites has their counts together: whoever is like the others is told with them"
    return [AttackResult(ATTACK, case.label, FIGURE, fmean(figures), 0.0, why=why)]


def _bias(weights: Weights, classes: int) -> str | None:
    """The last tensor with one number per class, or with a row for each."""
    flat = [name for name, tensor in weights.items() if tuple(tensor.shape) == (classes,)]
    rows = [name for name, tensor in weights.items() if tensor.dim() == 2 and len(tensor) == classes]
    known = flat or rows
    return known[-1] if classes and known else None


def _rows(moved: Tensor) -> Tensor:
    return moved.double() if moved.dim() == 1 else moved.double().sum(1)


def _correlation(one: Tensor, other: Tensor) -> float:
    return float(torch.corrcoef(torch.stack([one, other]))[0, 1].nan_to_num(0.0))

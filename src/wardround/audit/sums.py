"""Attack 5: whether a given note is among those whose features were summed, by its leverage.

A closed-form classifier is solved from G = Σ h hᵀ over a site's notes. A note that is in the sum has a leverage
hᵀ (G + λ)⁻¹ h of at most 1, and lower than a stranger's: where notes are fewer than features a stranger has a part that
no note of the site has, and its leverage knows no bound. Compared are the site's training notes with its test notes,
which were written by the same people; the figure is how often the right one of the two is taken for a member.
"""

from statistics import fmean

import torch
from torch import Tensor

from wardround.audit.case import Case
from wardround.audit.finding import AttackResult, auc
from wardround.audit.notes import features
from wardround.core.record import Message
from wardround.core.task import ClassTask

ATTACK = "notes in a sum of features"
FIGURE = "how often a note of the sum is told from another (AUC)"
SMALL = 1e-6  # λ, beside the mean of G's diagonal


def attack(case: Case) -> list[AttackResult]:
    """How well a site's notes are told from others by the sums that it sends."""
    sent = {name: reply for one in case.seen for name, reply in one.each.items() if _gram(reply) is not None}
    summed = [one.total for one in case.seen if one.total is not None and not one.each and _gram(one.total) is not None]
    task = case.built.task
    if (not sent and not summed) or not isinstance(task, ClassTask):
        return [AttackResult(ATTACK, case.label, FIGURE, None, why="the study sends no sums of features")]
    figures, rows, width = [], 0, 0
    for name in case.sites:
        gram = _gram(sent[name]) if name in sent else _gram(summed[0]) if summed else None
        if gram is None:
            continue
        data = case.built.sites.open(name)
        known, strange = (features(case, name, case.built.weights, part) for part in (data.train, data.test))
        figures.append(auc(-leverage(gram, known), -leverage(gram, strange)))
        width = len(gram)
        rows = max(rows, len(known) if name in sent else len(known) * len(case.sites))
    why = f"{rows:,} notes in {'a sum' if sent else 'the sum over all sites'}, {width:,} features"
    return [AttackResult(ATTACK, case.label, FIGURE, fmean(figures), 0.5, why=why)]


def leverage(gram: Tensor, rows: Tensor) -> Tensor:
    """`hᵀ (G + λ)⁻¹ h` of each row."""
    width = len(gram)
    ridge = gram + SMALL * gram.diagonal().mean().clamp(min=1e-30) * torch.eye(width, dtype=gram.dtype)
    leverages: Tensor = (rows * torch.linalg.solve(ridge, rows.T).T).sum(1)
    return leverages


def _gram(reply: Message | None) -> Tensor | None:
    """The whole matrix of a message that has its upper half."""
    upper, inputs = getattr(reply, "gram", None), getattr(reply, "inputs", None)
    if not isinstance(upper, Tensor) or not isinstance(inputs, Tensor):
        return None
    full = torch.zeros(len(inputs), len(inputs), dtype=torch.float64)
    full[tuple(torch.triu_indices(len(inputs), len(inputs)))] = upper.double()
    return full + full.triu(1).T

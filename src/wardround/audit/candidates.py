"""Attack 3: which of many candidate notes a site has trained on, from its change alone.

Where embeddings of words are trained, a note whose words have all moved may be one of the site's; one with a word that
has not is not. Elsewhere the change of the first trained layer is a sum of products with what reaches that layer: its
rows span what the site's notes have there, and a candidate that lies outside was not among them (Petrov et al.,
"DAGER", NeurIPS 2024). That fails once there are as many notes as directions. Candidates are training notes of the site
and test notes of the same site.
"""

from collections.abc import Mapping
from statistics import fmean

import torch
from torch import Tensor, nn

from wardround.audit.case import Case
from wardround.audit.finding import AttackResult, auc
from wardround.audit.notes import passing
from wardround.audit.words import PADDING, trained_embeddings
from wardround.core.bench import Bench
from wardround.core.weights import Weights

ATTACK = "which notes were trained on"
FIGURE = "how often a note of the site is told from another (AUC)"
MOST = 500  # of each kind: a thousand candidates
RANK = 1e-5  # beside the largest: below it a direction is rounding
NARROW = 8  # a layer with fewer outputs spans too little


def attack(case: Case) -> list[AttackResult]:
    """How well candidates are told apart, from each site's change or from the sum."""
    changes = dict(case.changes())
    if not changes:
        return [AttackResult(ATTACK, case.label, FIGURE, None, why="no weights leave a site")]
    words = [name for name in trained_embeddings(case) if f"{name}.weight" in case.built.weights]
    layer = None if words else first_layer(case)
    if not words and layer is None:
        return [AttackResult(ATTACK, case.label, FIGURE, None, why="no trained layer is wide enough to span notes")]
    figures, count = [], 0
    for name in case.sites:
        mine = changes.get(name, changes.get(""))
        if mine is None:
            continue
        data = case.built.sites.open(name)
        scores = [
            _by_words(case, name, words[0], mine, part)
            if words
            else _by_span(case, name, layer or ("", ""), mine, part)
            for part in (data.train, data.test)
        ]
        figures.append(auc(*(score[:MOST] for score in scores)))
        count += sum(min(len(score), MOST) for score in scores)
    hidden = "from the sum over all sites, " if "" in changes else ""
    how = f"by the words of embedding {words[0]!r}" if words else f"by what reaches {(layer or ('', ''))[0]!r}"
    return [AttackResult(ATTACK, case.label, FIGURE, fmean(figures), 0.5, why=f"{hidden}{how}; {count:,} candidates")]


def first_layer(case: Case) -> tuple[str, str] | None:
    """The first trained layer that is wide enough, and the name of its weight."""
    model = Bench.of(case.built.task, case.study.sites.private).model
    kinds: Mapping[type[nn.Module], str] = {nn.Linear: "weight", nn.LSTM: "weight_ih_l0"}
    for name, module in model.named_modules():
        for kind, weight in kinds.items():
            key = f"{name}.{weight}" if name else weight
            if isinstance(module, kind) and key in case.built.weights and len(case.built.weights[key]) >= NARROW:
                return name, key
    return None


def _by_words(case: Case, name: str, embedding: str, changes: list[Weights], examples: object) -> list[float]:
    """The share of each candidate's words that have moved; where noise moves all, how far they have."""
    norms = torch.stack([change[f"{embedding}.weight"].double().norm(dim=1) for change in changes]).sum(0)
    moved = norms if (norms[PADDING + 1 :] > 0).all() else norms > 0
    asked = passing(case, name, embedding, case.built.weights, examples, size=1)
    return [float(moved[ids[ids != PADDING]].double().mean()) if (ids != PADDING).any() else 0.0 for ids in asked]


def _by_span(case: Case, name: str, layer: tuple[str, str], changes: list[Weights], examples: object) -> list[float]:
    """Minus the share of each candidate's states that lies outside what the change spans."""
    module, key = layer
    basis = spanned(torch.cat([change[key].double() for change in changes]))
    states = passing(case, name, module, case.built.weights, examples, size=1)
    return [-outside(state.double().reshape(-1, state.shape[-1]), basis) for state in states]


def spanned(change: Tensor) -> Tensor:
    """Directions (rank, inputs) that the rows of a change span."""
    _, sizes, directions = torch.linalg.svd(change, full_matrices=False)
    spanning: Tensor = directions[sizes > RANK * sizes.max().clamp(min=1e-300)]
    return spanning


def outside(states: Tensor, basis: Tensor) -> float:
    """How much of states (rows, inputs) no direction of the basis has, from 0 to 1."""
    rest = states - states @ basis.T @ basis
    return float((rest.norm(dim=1) / states.norm(dim=1).clamp(min=1e-12)).mean())

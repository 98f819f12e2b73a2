"""What a bag of noisy sentences is to a model: its surest sentence, their mean, or attention over them.

    scores = bag_scores("attention", model, vectors, owner, labels)        # (bags, relations), for the loss
    odds = pair_odds("attention", model, vectors, owner, pairs)            # (pairs, relations), to rank predictions

- `one` (Zeng et al. 2015): the sentence with the highest probability of the bag's relation; a pair's score for a
  relation is the highest over its sentences.
- `average` and `attention` (Lin et al. 2016): the mean vector; the mean weighted by softmax of x·W[relation]. A pair's
  score for a relation is attended with that relation.
- `relation-attention` (Ye and Ling 2019): one representation per relation, also in training; scored as `attention`.
- `none`: every sentence by itself, as if it were a bag; scored as `one`.

`owner` says to which bag or pair each sentence vector belongs. No loop over bags: all is done by sums over owners.
"""

from typing import Literal

import torch
from torch import Tensor

from wardround.metrics.facts import log_odds
from wardround.models.pcnn import PCNN
from wardround.models.relation import BagEncoder

SentenceModel = PCNN | BagEncoder
"""What makes a vector of a sentence, and scores of vectors."""

Denoiser = Literal["one", "average", "attention", "relation-attention", "none"]


def surest(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """For each owner, the place of its largest value, the first of equals; what is not a number is the smallest."""
    values = values.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    best = values.new_full((count,), -torch.inf).scatter_reduce(0, owner, values, "amax")  # (owners,)
    place = torch.arange(len(values))
    place = torch.where(values == best[owner], place, len(values))
    return torch.full((count,), len(values)).scatter_reduce(0, owner, place, "amin")  # (owners,)


def attended(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """Softmax of values (S,) or (S, R) within each owner."""
    index = owner if values.dim() == 1 else owner[:, None].expand_as(values)
    size = (count, *values.shape[1:])
    most = values.detach().new_full(size, -torch.inf).scatter_reduce(0, index, values.detach(), "amax")
    grown = torch.exp(values - most[owner])  # (S, …)
    return grown / values.new_zeros(size).index_add(0, owner, grown)[owner]  # (S, …)


def weights_of(denoiser: Denoiser, model: SentenceModel, vectors: Tensor, owner: Tensor, labels: Tensor) -> Tensor:
    """How much each sentence counts in its bag (S,)."""
    count = len(labels)
    if denoiser == "none":
        return torch.ones(len(owner))
    if denoiser == "average":
        return 1 / torch.bincount(owner, minlength=count).to(vectors.dtype)[owner]
    if denoiser == "one":
        sure = model.classifier(vectors).log_softmax(1)[torch.arange(len(owner)), labels[owner]]  # (S,)
        return vectors.new_zeros(len(owner)).index_fill(0, surest(sure, owner, count), 1.0)
    weight, _ = _classifier(model)
    return attended((vectors * weight[labels[owner]]).sum(1), owner, count)


def bag_scores(denoiser: Denoiser, model: SentenceModel, vectors: Tensor, owner: Tensor, labels: Tensor) -> Tensor:
    """The scores of each bag, for a cross-entropy with its label."""
    count = len(labels)
    if denoiser == "none" or (denoiser == "one" and torch.equal(owner, torch.arange(count))):
        return model.scores(vectors)  # (S, relations): each sentence is a bag
    if denoiser == "one":
        with torch.no_grad():
            sure = model.classifier(vectors).log_softmax(1)[torch.arange(len(owner)), labels[owner]]  # (S,)
        return model.scores(vectors[surest(sure, owner, count)])  # (bags, relations)
    if denoiser == "relation-attention":
        weight, bias = _classifier(model)
        share = attended(vectors @ weight.T, owner, count)  # (S, relations)
        parts: Tensor = share * (model.dropout(vectors) @ weight.T)  # (S, relations)
        return parts.new_zeros(count, parts.shape[1]).index_add(0, owner, parts) + bias
    share = weights_of(denoiser, model, vectors, owner, labels)  # (S,)
    bags = vectors.new_zeros(count, vectors.shape[1]).index_add(0, owner, share[:, None] * vectors)  # (bags, D)
    return model.scores(bags)  # (bags, relations)


def _classifier(model: SentenceModel) -> tuple[Tensor, Tensor]:
    """Its weight (relations, D) and bias (relations,), beside vectors that have come out of the model."""
    return model.classifier.weight.cpu(), model.classifier.bias.cpu()


def pair_odds(denoiser: Denoiser, model: SentenceModel, vectors: Tensor, owner: Tensor, pairs: int) -> Tensor:
    """The log-odds of each relation for each pair; the model must be in evaluation mode."""
    weight, bias = _classifier(model)
    each = vectors @ weight.T  # (S, relations)
    if denoiser in ("one", "none"):
        odds = log_odds(each + bias)  # (S, relations)
        index = owner[:, None].expand_as(odds)
        return odds.new_full((pairs, odds.shape[1]), -torch.inf).scatter_reduce(0, index, odds, "amax")
    if denoiser == "average":
        sums = each.new_zeros(pairs, each.shape[1]).index_add(0, owner, each)  # (pairs, relations)
        return log_odds(sums / torch.bincount(owner, minlength=pairs)[:, None] + bias)
    share = attended(each, owner, pairs)  # (S, relations)
    outer = share[:, :, None] * each[:, None, :]  # (S, attended with, scored for)
    whole = outer.new_zeros(pairs, *outer.shape[1:]).index_add(0, owner, outer) + bias
    return log_odds(whole).diagonal(dim1=1, dim2=2)  # (pairs, relations)

"""A classifier that is fitted anew under another method: before its first round, or after its last.

    start = "ridge"                    # in a study: the first round begins with a solved classifier

    [finish]
    head = "ridge"                     # or "ccvr"; with settings of its own
    penalties = [10.0]

Where averaging moves a classifier under skewed labels, most of the damage is in the classifier: fitted once more to the
features that were learnt, by sums over all sites, it is mended. `ridge` solves it (`ridge.py`). `ccvr` is Luo et al.,
"No Fear of Heterogeneity: Classifier Calibration for Federated Learning with Non-IID Data", NeurIPS 2021:

    site:   for each class n_c, Σ h, Σ h hᵀ over its features h
    server: μ_c, Σ_c of all sites (eqs. 3–4); M · n_c / n features drawn from N(μ_c, Σ_c); the classifier fitted to them

The coordinator draws by the study's seed, and trains in float64 by Adam from the classifier as it stands. A class with
one row has no covariance and counts as its mean. Per-class sums tell more than ridge's: of a class with few rows at a
site, which rows they are. Both are delicate messages: a real site sends one only if its consent names it.

Beside `[validation]` the new classifier is one candidate more: the model that is kept is that of the best evaluation,
which is the end only if no round was as good on the validation rows.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, cast

import torch
from annotated_types import Ge, Gt
from torch import Tensor
from torch.nn import functional

from wardround.core.bench import Bench
from wardround.core.cohort import Cohort
from wardround.core.method import Global, Method, on_site
from wardround.core.optimizer import Adam
from wardround.core.record import Message, reveals
from wardround.core.site import Site
from wardround.core.task import ClassTask, Task
from wardround.core.training import AT_ONCE
from wardround.core.weights import Weights
from wardround.methods.ridge import ClosedForm
from wardround.methods.sums import no_gram, squares, whole


class Moments(Message):
    """For each class, sums over a site's rows of features and of their products."""

    delicate: ClassVar[bool] = True

    counts: Tensor = reveals("how many examples of each class the site has", shape=("classes",), dtype=torch.int64)
    features: Tensor = reveals(
        "for each class the sum of its rows: of a class with one row, that row", shape=("classes", "features"),
        dtype=torch.float64,
    )  # fmt: skip
    products: Tensor = reveals(
        "for each class a Gram matrix: whoever has a candidate text can tell whether it is among the rows of a class",
        shape=("classes", "products"),
        dtype=torch.float64,
    )

    def row_length(self) -> float | None:
        """By the squares of all features, of all classes."""
        rows, every = int(self.counts.sum()), squares(self.products, self.features.shape[1])
        return math.sqrt(max(float(every.sum()), 0.0) / rows) if rows > 0 else None

    def flaw(self) -> str | None:
        """Why no rows can have these sums, class by class."""
        if (self.counts < 0).any():
            return "Moments.counts are fewer than none"
        each = zip(self.counts.double()[:, None], self.features[:, :, None], self.products, strict=True)
        why = next((why for one in each if (why := no_gram(*one))), None)
        return f"Moments.products is {why}" if why else None


def gaussians(total: Moments) -> tuple[Tensor, Tensor]:
    """Of each class the mean (classes, features) and the unbiased covariance (classes, features, features)."""
    width = total.features.shape[1]
    counts = total.counts.double()[:, None]  # (classes, 1)
    means = total.features / counts.clamp(min=1)
    full = torch.stack([whole(products, width) for products in total.products])  # (classes, features, features)
    spread = full - counts[:, :, None] * means[:, :, None] * means[:, None, :]
    return means, spread / (counts[:, :, None] - 1).clamp(min=1)  # eq. 4


@dataclass(frozen=True, kw_only=True)
class CCVR:
    """Classifier calibration with virtual features."""

    classifier: ClassVar[bool] = True

    virtual: Annotated[int, Ge(1)] = 2000
    """M: how many features are drawn, of all classes together."""
    virtual_steps: Annotated[int, Ge(1)] = 300
    """Adam steps over all of them."""
    virtual_lr: Annotated[float, Gt(0)] = 0.01
    """Their size."""

    def refit(self, weights: Weights, cohort: Cohort) -> Weights:
        """The classifier trained on features drawn from each class's Gaussian."""
        task = cohort.hub.class_task
        total = cohort.total(self.describe, Global(weights))
        if not total.counts.any():
            return weights
        features, labels = self.drawn(total, cohort.hub.rng)
        names = [
            name for name in (task.classifier, f"{task.classifier.removesuffix('.weight')}.bias") if name in weights
        ]
        trained = self._trained(Weights({name: weights[name].double() for name in names}), features, labels)
        return Weights({name: trained.get(name, old).to(old.dtype) for name, old in weights.items()})

    def drawn(self, total: Moments, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Virtual features (M, features) and their classes (M,)."""
        means, spreads = gaussians(total)
        shares = (total.counts / total.counts.sum() * self.virtual).round().clamp(min=1).long() * (total.counts > 0)
        parts = []
        for mean, spread, count in zip(means, spreads, shares.tolist(), strict=True):
            values, vectors = torch.linalg.eigh(spread)
            noise = torch.randn(count, len(mean), generator=rng, dtype=torch.float64)
            parts.append(mean + (noise * values.clamp(min=0).sqrt()) @ vectors.T)
        return torch.cat(parts), torch.repeat_interleave(shares)

    def _trained(self, head: Weights, features: Tensor, labels: Tensor) -> Weights:
        flat = head.flat.clone().requires_grad_()
        adam = Adam(self.virtual_lr, (0.9, 0.999), 1e-8, head.flat)
        for _ in range(self.virtual_steps):
            now = Weights.of_flat(flat, head.layout)
            loss = functional.cross_entropy(functional.linear(features, *now.values()), labels)
            (gradient,) = torch.autograd.grad(loss, flat)
            with torch.no_grad():
                adam.step(flat, gradient)
        return Weights.of_flat(flat.detach(), head.layout)

    @on_site
    def describe(self, model: Global, site: Site) -> Moments:
        """Add up the site's features by class."""
        task, train = site.class_task, site.data.train
        classes, width = model.weights[task.classifier].shape
        counts = task.tally(train)
        sums = torch.zeros(classes, width, dtype=torch.float64)
        grams = torch.zeros(classes, width, width, dtype=torch.float64)
        bench = Bench.at(site, model.weights).model.eval()
        with torch.no_grad():
            for batch in task.batches(train, AT_ONCE, None) if len(train) else ():
                features, labels = task.features(bench, batch).double(), task.targets(batch)
                sums.index_add_(0, labels, features)
                for label in {*labels.tolist()}:
                    mine = features[labels == label]
                    grams[label] += mine.T @ mine
        site.stands_on(int(counts[counts > 0].min()) if len(train) else 0)
        rows, columns = torch.triu_indices(width, width)
        return Moments(counts, sums, grams[:, rows, columns])

    def contradiction(self, sent: Message, reply: Message) -> str | None:  # noqa: ARG002 -- it says the same of all
        """Why no rows can have these sums."""
        return reply.flaw() if isinstance(reply, Moments) else None

    def asks(self) -> dict[str, int]:
        """Once for the sums."""
        return {"describe": 1}

    def room(self, task: Task, weights: Weights) -> dict[str, int]:
        """The sizes that the messages name."""
        width = weights[cast("ClassTask", task).classifier].shape[1]
        return {"features": width, "products": width * (width + 1) // 2}


HEADS: dict[str, type[Any]] = {"ridge": ClosedForm, "ccvr": CCVR}


def headed(method: Method[Any], *names: str, **settings: Any) -> Method[Any]:
    """The same method with what these heads ask of a site among its steps; where it has them already, as it is.

    Settings that none of these heads has, or that are the method's own, are refused.
    """
    wanted = [HEADS[name] for name in dict.fromkeys(names) if not isinstance(method, HEADS[name])]
    known = {field.name for head in wanted for field in fields(head)}
    for name in settings:
        if name in {field.name for field in fields(cast("Any", method))}:
            raise ValueError(f"finish.{name} is a setting of the method here; write method.{name}")
        if name not in known:
            raise ValueError(f"finish.{name} is not a setting of {' or '.join(names)}; take it out")
    if not wanted:
        return method

    def sizes(self: Any, task: Task, weights: Weights) -> Mapping[str, int]:
        more = [head.room(self, task, weights) for head in wanted]
        return {**type(method).sizes(self, task, weights), **{key: size for room in more for key, size in room.items()}}

    def contradiction(self: Any, sent: Message, reply: Message) -> str | None:
        checks = [type(method).contradiction, *(head.contradiction for head in wanted)]
        return next((why for check in checks if (why := check(self, sent, reply))), None)

    more = {"sizes": sizes, "contradiction": contradiction, "classifier": True}
    kind: type[Any] = type(type(method).__name__, (type(method), *wanted), more)
    kind.__doc__ = type(method).__doc__
    kind.__module__ = type(method).__module__
    kind = dataclass(frozen=True, kw_only=True)(kind)
    own = {field.name: getattr(method, field.name) for field in fields(cast("Any", method))}
    made: Method[Any] = kind(**own, **settings)
    return made

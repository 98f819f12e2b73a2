"""Synthetic(α, β): numeric examples whose sites differ as much as two numbers say.

    train, test = Synthetic(alpha=1, beta=1, sites=10_000).open("site-9999")

Shamir, Srebro and Zhang (2014), as published with FedProx (Li et al., "Federated Optimization in
Heterogeneous Networks", MLSys 2020). Site k of n_k = ⌊lognormal(4, 2)⌋ + 50 examples:

    u_k ~ N(0, α)      W_k, b_k ~ N(u_k, 1)      how much the sites' models differ
    B_k ~ N(0, β)      v_k ~ N(B_k, 1)           how much their features differ
    x ~ N(v_k, Σ), Σ_jj = j^-1.2                 y = argmax(xW_k + b_k)

As in the published code, α and β are standard deviations. Its IID variant has one W, b ~ N(0, 1) for all
sites and v_k = 0. Note that u_k adds u_k(Σ_j x_j + 1) to every class's score alike: α changes no label.

Departure: sizes, u, B, v and the IID variant's W, b are the published draws of the legacy stream, but each
site's own W, b and x come from a stream derived from (seed, site), so that any site opens without making
those before it. The published shuffle before the split is left out: a site's examples are independent draws.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, cast

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Examples as arrays: row i of `features` [n, features] has `labels[i]`."""

    features: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]
    sources: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> Sequence[int]:
        """The label of each row."""
        return cast("Sequence[int]", self.labels)

    def take(self, rows: npt.NDArray[np.int64]) -> "Rows":
        """The examples of these rows."""
        sources = tuple(self.sources[row] for row in rows) if self.sources else ()
        return Rows(self.features[rows], self.labels[rows], sources)

    @classmethod
    def joined(cls, parts: "Sequence[Rows]") -> "Rows":
        """The examples of all parts, in order."""
        features = np.concatenate([part.features for part in parts])
        labels = np.concatenate([part.labels for part in parts])
        return cls(features, labels, tuple(source for part in parts for source in part.sources))

    @property
    def marks(self) -> Sequence[bytes]:
        """For each row, the bytes of its features."""
        return [row.tobytes() for row in self.features]

    def digest(self) -> bytes:
        """A hash of features and labels."""
        return hashlib.sha256(self.features.tobytes() + self.labels.tobytes()).digest()


class SitesPlan(NamedTuple):
    """What the one stream says of all sites before any is opened."""

    sizes: npt.NDArray[np.int64]  # n [sites]
    model_means: FloatArray  # u [sites]
    feature_means: FloatArray  # v [sites, features]
    shared: tuple[FloatArray, FloatArray] | None  # the IID variant's W [features, classes], b [classes]


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """Synthetic(α, β) of Shamir et al. as published with FedProx; `iid` leaves α and β without effect."""

    views: ClassVar[tuple[str, ...]] = ("rows",)

    alpha: float = 0.5
    """α: how much the sites' models differ."""
    beta: float = 0.5
    """β: how much the sites' features differ."""
    iid: bool = False
    """Whether all sites have one model and one distribution of features."""
    sites: int = 30
    """How many sites there are."""
    features: int = 60
    """Numbers per example."""
    classes: int = 10
    """How many classes there are."""
    seed: int = 0
    """The seed that everything is drawn by; if not given, the study's."""
    largest: int | None = None
    """At most this many examples per site, the first ones: the sizes' tail is heavy."""

    def __post_init__(self) -> None:
        wrong = [
            f"{name} is {value}: use a finite number from 0"
            for name, value in (("alpha", self.alpha), ("beta", self.beta))
            if not 0 <= value < np.inf
        ]
        wrong += [
            f"{name} is {value}: use {least} or more"
            for name, value, least in (
                ("sites", self.sites, 1),
                ("features", self.features, 1),
                ("classes", self.classes, 1),
                ("largest", self.largest, 2),  # one to train, one to test
            )
            if value is not None and value < least
        ]
        if not 0 <= self.seed < 2**32:
            wrong.append(f"seed is {self.seed}: use a whole number from 0 to 2^32 - 1")
        if wrong:
            raise ValueError("; ".join(wrong))

    def names(self) -> Sequence[str]:
        """`site-00`, `site-01`, …: sorted order is numeric order."""
        return tuple(self._index)

    def open(self, name: str) -> tuple[Rows, Rows]:
        """The site's examples, the first nine tenths to train and the rest to test."""
        if name not in self._index:
            names = self.names()
            raise ValueError(f"no site {name!r}: the names run from {names[0]!r} to {names[-1]!r}")
        site, plan = self._index[name], self._plan
        size = int(plan.sizes[site])
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(site,)))
        weight, bias = plan.shared or (
            rng.normal(plan.model_means[site], 1, (self.features, self.classes)),
            rng.normal(plan.model_means[site], 1, self.classes),
        )
        deviation = np.arange(1, self.features + 1) ** -0.6  # √(j^-1.2)
        x = rng.normal(plan.feature_means[site], deviation, (size, self.features))  # [n, features]
        y = np.argmax(x @ weight + bias, axis=1)  # [n]
        rows, train = Rows(x.astype(np.float32), y, (name,) * size), int(0.9 * size)
        return rows.take(np.arange(train)), rows.take(np.arange(train, size))

    @cached_property
    def _index(self) -> dict[str, int]:
        width = max(2, len(str(self.sites - 1)))
        return {f"site-{site:0{width}}": site for site in range(self.sites)}

    @cached_property
    def _plan(self) -> SitesPlan:
        rng = np.random.RandomState(self.seed)
        sizes = rng.lognormal(4, 2, self.sites).astype(np.int64) + 50
        sizes = sizes if self.largest is None else np.minimum(sizes, self.largest)
        if self.iid:
            zeros = np.zeros((self.sites, self.features))
            weight = rng.normal(0, 1, (self.features, self.classes))
            return SitesPlan(sizes, zeros[:, 0], zeros, (weight, rng.normal(0, 1, self.classes)))
        model_means = rng.normal(0, self.alpha, self.sites)
        offsets = rng.normal(0, self.beta, self.sites)  # B
        feature_means = rng.normal(offsets[:, None], 1, (self.sites, self.features))
        return SitesPlan(sizes, model_means, feature_means, None)

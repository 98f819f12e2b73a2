"""A relation classifier over an encoder's states: h = [CLS] ⊕ Σ first entity ⊕ Σ second entity, then linear.

FedED (Sui et al., EMNLP 2020) has all three parts and a bias; FedCMC leaves out [CLS] and the bias; [CLS] alone is what
most classifiers of texts see. A sum grows with
the entity's number of tokens: `normalise` gives each part mean 0 and variance 1. With `projection`, two further
layers come before the classifier (MOON, Li et al., CVPR 2021).
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from wardround.core.device import entry
from wardround.models.encoder import AnyEncoder


class RelationModel(nn.Module):
    """Scores of each relation, from states or token numbers."""

    def __init__(
        self,
        encoder: AnyEncoder,
        width: int,
        classes: int,
        *,
        cls: bool = True,
        entities: bool = True,
        bias: bool = True,
        normalise: bool = False,
        projection: int = 0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.normalise = normalise
        self.parts = (0,) * cls + (1, 2) * entities
        features = width * len(self.parts)
        self.dropout = nn.Dropout(dropout)
        self.projection = (
            nn.Sequential(nn.Linear(features, projection), nn.ReLU(), nn.Linear(projection, projection))
            if projection
            else None
        )
        self.classifier = nn.Linear(projection or features, classes, bias=bias)

    @entry
    def features(self, inputs: Tensor, real: Tensor, places: Tensor, parts: Tensor) -> Tensor:
        """What the classifier sees."""
        return self._seen(self.vectors(inputs, real, places, parts))  # (B, features or projection)

    @entry
    def ragged(self, inputs: Tensor, lengths: Sequence[int], places: Tensor, parts: Tensor) -> Tensor:
        """The same to rounding, of inputs (T, …) that lie one behind another without padding."""
        return self._seen(self._summed(self.encoder.ragged(inputs, lengths, places), parts))

    def vectors(self, inputs: Tensor, real: Tensor, places: Tensor, parts: Tensor) -> Tensor:
        """The states of [CLS] and of each entity (B, features).

        Of the inputs, `real` (B, L) are tokens; those at `places` (B, Q) count, each towards [CLS] (0), the first
        entity (1), the second (2) or nothing (-1), as `parts` (B, Q) says.
        """
        return self._summed(self.encoder(inputs, real, places), parts)

    def _summed(self, states: Tensor, parts: Tensor) -> Tensor:
        """The states (B, Q, width) of each part, added up (B, features)."""
        shares = torch.stack([parts == part for part in self.parts], 1).to(states.dtype)  # (B, parts, Q)
        summed: Tensor = shares @ states  # (B, parts, width)
        if self.normalise:
            summed = functional.layer_norm(summed, summed.shape[-1:])
        return summed.flatten(1)  # (B, features)

    def _seen(self, vectors: Tensor) -> Tensor:
        features: Tensor = self.dropout(vectors)  # (B, features)
        return features if self.projection is None else self.projection(features)  # (B, projection)

    def forward(self, inputs: Tensor, real: Tensor, places: Tensor, parts: Tensor) -> Tensor:
        """Scores of each relation, before the softmax."""
        scores: Tensor = self.classifier(self.features(inputs, real, places, parts))  # (B, classes)
        return scores


class BagEncoder(RelationModel):
    """The same for sentences of bags, in a PCNN's place: first their vectors, then scores of what is made of these."""

    @entry
    def encode(self, *sentences: Tensor) -> Tensor:
        """The vector of each sentence (S, features)."""
        return self.vectors(*sentences)

    @entry
    def scores(self, vectors: Tensor) -> Tensor:
        """The scores of vectors (…, features), be they of a sentence or of a bag of them."""
        return self.classifier(self.dropout(vectors))  # type: ignore[no-any-return]  # (…, classes)

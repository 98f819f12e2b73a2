"""A pretrained encoder of the BERT family: embeddings and layers of self-attention, whole or in two parts.

    trunk = Encoder(shape, range(4), embeddings=True)            # token numbers → states, frozen
    rest = Encoder(shape, range(4, 6), embeddings=False)         # states → states, trained

Devlin et al., NAACL 2019; RoBERTa (Liu et al. 2019) differs in where its positions begin, DistilBERT (Sanh et al. 2019)
has no types of tokens. `family` reads the weights. Padding changes no state of a real token beyond rounding.

The last layer can be asked for some places only (`places`): then keys and values are computed everywhere, and all
the rest of the layer just there, which gives the same states at those places for a fraction of the work. With
`last` = n, a state is the mean of those of the last n layers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu_new": lambda x: functional.gelu(x, approximate="tanh"),
    "gelu_pytorch_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": functional.relu,
}


LONG = 1024  # tokens, beyond which a table of all pairs is too large


@dataclass(frozen=True)
class Shape:
    """The sizes of an encoder."""

    vocabulary: int
    """Rows of the token embeddings."""
    width: int
    layers: int
    heads: int
    inner: int
    """Width between the two halves of a layer's feed-forward part."""
    positions: int
    types: int
    """Kinds of tokens, such as those of a first and a second sentence; 0 in DistilBERT."""
    activation: str
    eps: float
    first: int = 0
    """The position of the first token: 0, or 2 in RoBERTa."""

    @property
    def longest(self) -> int:
        """The longest sequence that there are positions for."""
        return self.positions - self.first


class Embeddings(nn.Module):
    """Token, position and type, added and normalised."""

    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        self.first = shape.first
        self.tokens, self.positions = (_table(rows, shape.width) for rows in (shape.vocabulary, shape.positions))
        self.types = _table(shape.types, shape.width) if shape.types else None
        self.norm = nn.LayerNorm(shape.width, shape.eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids: Tensor) -> Tensor:
        """States (B, L, width) of token numbers (B, L), all of the first type."""
        return self._added(ids, self.positions.weight[self.first : self.first + ids.shape[1]])

    def at(self, ids: Tensor, places: Tensor) -> Tensor:
        """States (T, width) of token numbers at these places of their rows."""
        return self._added(ids, self.positions(self.first + places))

    def _added(self, ids: Tensor, places: Tensor) -> Tensor:
        held = self.tokens.weight.grad  # where there is one, only the rows of a batch are added to it
        self.tokens.sparse = held is not None and held.device.type == "cpu"
        whole = self.tokens(ids) + places  # (…, width)
        states: Tensor = self.dropout(self.norm(whole if self.types is None else whole + self.types.weight[0]))
        return states


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward part; each added to its input and normalised."""

    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        width = shape.width
        self.heads, self.activation = shape.heads, ACTIVATIONS[shape.activation]
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.mixed = nn.Linear(width, width)
        self.mixed_norm = nn.LayerNorm(width, shape.eps)
        self.wide, self.narrow = nn.Linear(width, shape.inner), nn.Linear(shape.inner, width)
        self.norm = nn.LayerNorm(width, shape.eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor, mask: Tensor | None, places: Tensor | None = None) -> Tensor:
        """States (B, L, width) from states, or (B, Q, width) at these places (B, Q) alone."""
        asking = states if places is None else taken(states, places)  # (B, Q, width)
        query, key, value = self.query(asking), self.key(states), self.value(states)
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (query, key, value)
        )  # (B, heads, Q or L, width / heads)
        rate = self.dropout.p if self.training else 0.0
        attended = attention(query, key, value, mask, rate)
        return self._beyond(asking, attended.transpose(1, 2).flatten(2))

    def ragged(self, states: Tensor, groups: Sequence[tuple[int, int]], chosen: Tensor | None = None) -> Tensor:
        """States (T, width) of rows that lie one behind another: groups of (how many, how long).

        Or (B · Q, width), of those alone that are `chosen` (B, Q), by their places among the T.
        """
        asking = states if chosen is None else states[chosen.flatten()]  # (T or B · Q, width)
        asked, *seen = (
            torch.split(part.unflatten(-1, (self.heads, -1)), [rows * size for rows, size in sizes])
            for part, sizes in (
                (self.query(asking), groups if chosen is None else [(rows, chosen.shape[1]) for rows, _ in groups]),
                (self.key(states), groups),
                (self.value(states), groups),
            )
        )
        attended = [
            attention(*(part.unflatten(0, (rows, -1)).transpose(1, 2) for part in parts))
            .transpose(1, 2)
            .flatten(2)
            .flatten(0, 1)
            for (rows, _), *parts in zip(groups, asked, *seen, strict=True)
        ]
        return self._beyond(asking, torch.cat(attended))

    def _beyond(self, asking: Tensor, attended: Tensor) -> Tensor:
        """The layer's states (…, width) from what they were and what they have attended to."""
        asking = self.mixed_norm(asking + self.dropout(self.mixed(attended)))
        inner = self.narrow(self.activation(self.wide(asking)))
        changed: Tensor = self.norm(asking + self.dropout(inner))
        return changed


class AnyEncoder(nn.Module):
    """Layers of an encoder, ours or another's, from token numbers or from the states below them."""

    def __init__(self, signature: str, last: int) -> None:
        super().__init__()
        self.signature = signature + (f" last {last}" if last > 1 else "")
        """What its states depend on besides the weights."""
        self.last = last

    def forward(self, inputs: Tensor, real: Tensor | None = None, places: Tensor | None = None) -> Tensor:
        """States at all tokens, or at `places` (B, Q), where `real` (B, L) tells tokens from padding."""
        raise NotImplementedError

    def ragged(self, inputs: Tensor, lengths: Sequence[int], places: Tensor | None = None) -> Tensor:
        """The same of rows that lie one behind another: token numbers (T,) or states (T, width) to (T or B, Q, width).

        To rounding; fastest without padding, and where rows of one length stand together.
        """
        real = torch.arange(max(lengths), device=inputs.device) < torch.tensor(lengths, device=inputs.device)[:, None]
        filled = pad_sequence([*torch.split(inputs, [*lengths])], batch_first=True)  # (B, L, …)
        states: Tensor = self(filled, real, places)  # (B, L or Q, width)
        return states[real] if places is None else states


class Encoder(AnyEncoder):
    """The chosen layers of an encoder of the BERT family."""

    def __init__(self, shape: Shape, layers: range, *, embeddings: bool, dropout: float = 0.0, last: int = 1) -> None:
        super().__init__(repr(shape), last)
        self.embeddings = Embeddings(shape, dropout) if embeddings else None
        self.layers = nn.ModuleDict({str(number): EncoderLayer(shape, dropout) for number in layers})

    def forward(self, inputs: Tensor, real: Tensor | None = None, places: Tensor | None = None) -> Tensor:
        """States at all tokens, or at `places` (B, Q), where `real` (B, L) tells tokens from padding."""
        states = inputs if self.embeddings is None else self.embeddings(inputs)  # (B, L, width)
        mask = None if real is None else real[:, None, None, :]  # (B, 1, 1, L): nobody looks at padding
        layers = list(self.layers.values())
        if self.last > 1:
            return self._together(layers, states, mask, places)
        for layer in layers[:-1]:
            states = layer(states, mask)  # (B, L, width)
        if layers:
            states = layers[-1](states, mask, places)  # (B, Q, width)
        elif places is not None:
            states = taken(states, places)  # (B, Q, width)
        return states

    def ragged(self, inputs: Tensor, lengths: Sequence[int], places: Tensor | None = None) -> Tensor:
        """Without padding: products of matrices go over all rows at once, attention over neighbours of one length."""
        if self.last > 1:
            return super().ragged(inputs, lengths, places)
        sizes = torch.tensor([*lengths], device=inputs.device)  # (B,)
        starts = sizes.cumsum(0) - sizes  # (B,)
        states = inputs
        if self.embeddings is not None:
            order = torch.arange(len(inputs), device=inputs.device) - starts.repeat_interleave(sizes)  # (T,)
            states = self.embeddings.at(inputs, order)  # (T, width)
        groups = [(len([*alike]), length) for length, alike in groupby(lengths)]
        chosen = None if places is None else starts[:, None] + places  # (B, Q)
        layers = [cast("EncoderLayer", layer) for layer in self.layers.values()]
        for layer in layers[:-1]:
            states = layer.ragged(states, groups)  # (T, width)
        if layers:
            states = layers[-1].ragged(states, groups, chosen)  # (T or B · Q, width)
        elif chosen is not None:
            states = states[chosen.flatten()]  # (B · Q, width)
        return states if chosen is None else states.view(*chosen.shape, -1)  # (T, width) or (B, Q, width)

    def _together(self, layers: list[nn.Module], states: Tensor, mask: Tensor | None, places: Tensor | None) -> Tensor:
        """The mean of the last layers' states (B, Q, width); what there is, if there is no layer."""
        kept = [states] if not layers else []
        for left, layer in zip(reversed(range(len(layers))), layers, strict=True):
            states = layer(states, mask, None if left else places)  # (B, L or Q, width)
            if left < self.last:
                kept.append(states)
        some = [one if places is None or (one is states and layers) else taken(one, places) for one in kept]
        return torch.stack(some).mean(0)


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, dropout: float = 0.0) -> Tensor:
    """What queries (B, heads, Q, each) attend to among values (B, heads, L, each).

    As torch has it; but of bf16 on a processor its backward pass takes three times as long as these products.
    """
    if query.dtype is not torch.bfloat16 or query.device.type != "cpu" or key.shape[-2] > LONG:
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
    rows, heads = query.shape[:2]
    hidden = query.new_zeros(1, 1, 1)
    if mask is not None:
        low = (~mask).to(query.dtype) * (torch.finfo(query.dtype).min / 2)  # (B, 1, 1 or Q, L)
        hidden = low.expand(rows, heads, -1, -1).flatten(0, 1)  # (B · heads, 1 or Q, L)
    query, key, value = (part.flatten(0, 1) for part in (query, key, value))
    scale = query.shape[-1] ** -0.5
    scores = torch.baddbmm(hidden, query, key.transpose(1, 2), beta=int(mask is not None), alpha=scale)
    shares = torch.softmax(scores, -1, dtype=query.dtype)  # (B · heads, Q, L)
    shares = functional.dropout(shares, dropout) if dropout else shares
    return torch.bmm(shares, value).view(rows, heads, *query.shape[1:])


def _table(rows: int, width: int) -> nn.Embedding:
    """As `nn.Embedding` has them; but on the device `meta`, drawing them would import torch's compiler, 75 MB of it."""
    empty = torch.empty(rows, width)
    return nn.Embedding(rows, width, _weight=empty if empty.is_meta else nn.init.normal_(empty))


def taken(states: Tensor, places: Tensor) -> Tensor:
    """The states (B, Q, width) at these places (B, Q)."""
    return torch.take_along_dim(states, places[:, :, None], dim=1)

"""A model of transformers, or some of its layers, with the manners of our own encoder; `foreign` reads it.

How it is cut:

- *below*: the layers above are left out, and the first of them is a signpost that hands over what arrives there;
- *above*: its first layer is given the states in place of what arrives there, which came of no embeddings at all.

So masks, relative positions and final norms are computed by the model's own code. Longformer's first token attends to
all, as in its classifiers.
"""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from wardround.models.encoder import AnyEncoder, taken


class _Arrived(Exception):
    """The states have reached the signpost."""

    def __init__(self, states: Tensor) -> None:
        super().__init__()
        self.states = states


class Blank(nn.Module):
    """Embeddings of nothing, of the right size, for a part that is given states."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(
        self, input_ids: Tensor | None = None, *_: Any, inputs_embeds: Tensor | None = None, **__: Any
    ) -> Tensor:
        """Zeros (B, L, width)."""
        like = inputs_embeds if inputs_embeds is not None else input_ids
        assert like is not None  # noqa: S101 -- all models have either
        return torch.zeros(*like.shape[:2], self.width, device=like.device)


class ForeignEncoder(AnyEncoder):
    """A model of transformers, or some of its layers, with the manners of our own."""

    def __init__(self, model: nn.Module, signature: str, last: int, padding: int, signpost: int | None) -> None:
        super().__init__(signature, last)
        self.model, self.padding, self.signpost = model, padding, signpost
        self.looks_around = "global_attention_mask" in inspect.signature(model.forward).parameters

    def forward(self, inputs: Tensor, real: Tensor | None = None, places: Tensor | None = None) -> Tensor:
        """States at all tokens, or at `places` (B, Q), where `real` (B, L) tells tokens from padding."""
        given: dict[str, Tensor | bool] = {"output_hidden_states": self.last > 1}
        given["attention_mask"] = (inputs.new_ones(inputs.shape[:2]) if real is None else real).long()  # (B, L)
        if self.looks_around:
            given["global_attention_mask"] = (
                (torch.arange(inputs.shape[1], device=inputs.device) == 0).long().expand(inputs.shape[:2])
            )  # (B, L)
        blank = self.model.embeddings
        if isinstance(blank, Blank):
            given["inputs_embeds"] = inputs.new_zeros(*inputs.shape[:2], blank.width)  # (B, L, width)
            with _entering(stack_of(self.model)[0], inputs):
                states = self._states(given, inputs.shape[1])
        else:
            given["input_ids"] = inputs if real is None else inputs.masked_fill(~real, self.padding)
            states = self._states(given, inputs.shape[1])
        return states if places is None else taken(states, places)  # (B, L or Q, width)

    def _states(self, given: Mapping[str, Any], length: int) -> Tensor:
        if self.signpost is not None:
            with _arriving(stack_of(self.model)[self.signpost]):
                try:
                    self.model(**given)
                except _Arrived as arrived:
                    return arrived.states[:, :length]  # some fill up to their window
        outputs = self.model(**given)
        states: Tensor = outputs.last_hidden_state
        if self.last > 1:
            states = torch.stack([*outputs.hidden_states[-self.last : -1], states]).mean(0)
        return states


@contextmanager
def _entering(layer: nn.Module, states: Tensor) -> Iterator[None]:
    """While it lasts, the layer's first call takes these states instead of what it is given."""
    left = [states]

    def enter(
        _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if not left:
            return None  # a layer that is used again
        mine, arriving = left.pop(), args[0] if args else kwargs["hidden_states"]
        mine = nn.functional.pad(mine, (0, 0, 0, arriving.shape[1] - mine.shape[1]))  # (B, L, width), up to a window
        return ((mine, *args[1:]), kwargs) if args else ((), kwargs | {"hidden_states": mine})

    hook = layer.register_forward_pre_hook(enter, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def _arriving(layer: nn.Module) -> Iterator[None]:
    """While it lasts, the layer hands over what it is given, and nothing further is computed."""

    def arrive(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        raise _Arrived(args[0] if args else kwargs["hidden_states"])

    hook = layer.register_forward_pre_hook(arrive, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


def home_of(model: nn.Module) -> tuple[Any, str]:
    """The module that holds the list of layers, and what it calls it."""
    lists = [name for name, module in model.named_modules() if isinstance(module, nn.ModuleList)]
    parent, _, name = min(lists, key=lambda path: path.count(".")).rpartition(".")
    return model.get_submodule(parent), name


def stack_of(model: nn.Module) -> nn.ModuleList:
    """The list of layers."""
    home, name = home_of(model)
    stack: nn.ModuleList = getattr(home, name)
    return stack


def listed(model: nn.Module) -> nn.ModuleList | None:
    """The list of layers, in which those that are used again stand again; none if there is no such list."""
    if not any(isinstance(module, nn.ModuleList) for module in model.modules()):
        return None
    config: Any = model.config
    layers, groups = config.num_hidden_layers, getattr(config, "num_hidden_groups", None)
    if groups:
        home, name = home_of(model)
        each = getattr(home, name)
        setattr(home, name, nn.ModuleList([each[int(number / (layers / groups))] for number in range(layers)]))
        config.num_hidden_groups = layers
    return stack_of(model) if len(stack_of(model)) == layers else None


def padding_of(model: Any) -> int:
    """The token that stands where there is none."""
    own = getattr(getattr(model, "embeddings", None), "padding_idx", None)
    config = getattr(model, "config", model)
    return int(own if own is not None else getattr(config, "pad_token_id", None) or 0)

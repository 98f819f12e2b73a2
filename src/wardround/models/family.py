"""BERT and its nearest kin, which our own `Encoder` runs: what their config says, and what they call their tensors."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wardround.models.encoder import ACTIVATIONS, Shape
from wardround.models.encoder_files import EncoderError

KINDS = ("bert", "distilbert", "roberta", "xlm-roberta")
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
DISTILLED = {
    "attention.q_lin": "query",
    "attention.k_lin": "key",
    "attention.v_lin": "value",
    "attention.out_lin": "mixed",
    "sa_layer_norm": "mixed_norm",
    "ffn.lin1": "wide",
    "ffn.lin2": "narrow",
    "output_layer_norm": "norm",
}
EMBEDDINGS = {
    "word_embeddings": "tokens",
    "position_embeddings": "positions",
    "token_type_embeddings": "types",
    "LayerNorm": "norm",
}
OLD = {"gamma": "weight", "beta": "bias"}  # what layer norms were called in TensorFlow's days
DISTILLED_KEYS = {
    "hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim", "hidden_act": "activation",
}  # fmt: skip
"""What DistilBERT's config calls its sizes."""
MOST = dict.fromkeys(("num_hidden_layers", "n_layers"), 1000) | dict.fromkeys(
    (
        "hidden_size", "dim", "num_attention_heads", "n_heads", "intermediate_size", "hidden_dim", "vocab_size",
        "max_position_embeddings",
    ),
    10_000_000,
)  # fmt: skip
"""The largest sizes that are believed of a config.json: they are looked at before anything is built by them."""


def shape_of(folder: Path, config: Mapping[str, Any]) -> Shape:
    """The sizes that a config of the family gives."""
    kind = config.get("model_type")
    distilled = kind == "distilbert"
    if distilled:  # types and eps are not in its config, for they cannot be chosen
        config = {**config, "type_vocab_size": 0, "layer_norm_eps": 1e-12} | {
            ours: config[theirs] for ours, theirs in DISTILLED_KEYS.items() if theirs in config
        }
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise EncoderError(folder, "its positions are relative", "use an encoder with absolute positions")
    activation = config.get("hidden_act", "gelu")
    if str(activation) not in ACTIVATIONS:
        raise EncoderError(folder, f"hidden_act = {activation!r} is not supported", f"known: {', '.join(ACTIVATIONS)}")
    try:
        shape = Shape(
            vocabulary=int(config["vocab_size"]),
            width=int(config["hidden_size"]),
            layers=int(config["num_hidden_layers"]),
            heads=int(config["num_attention_heads"]),
            inner=int(config["intermediate_size"]),
            positions=int(config["max_position_embeddings"]),
            types=int(config["type_vocab_size"]),
            activation=activation,
            eps=float(config.get("layer_norm_eps", 1e-12)),
            first=0 if kind in ("bert", "distilbert") else int(config.get("pad_token_id", 1)) + 1,
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        what = "config.json holds no usable sizes"
        if isinstance(error, KeyError):
            key = error.args[0]
            what = f"config.json lacks {(DISTILLED_KEYS.get(key, key) if distilled else key)!r}"
        raise EncoderError(folder, what, "copy it from the same model") from None
    sizes = {"num_hidden_layers": shape.layers, "num_attention_heads": shape.heads, "hidden_size": shape.width}
    refuse_absurd_sizes(folder, sizes)  # those that were not written as whole numbers
    if not 0 <= shape.first < shape.positions:
        what = f"config.json has pad_token_id = {shape.first - 1}, and {shape.positions:,} positions"
        raise EncoderError(folder, what, "copy it from the same model")
    if not 0 <= shape.eps < 1:
        raise EncoderError(folder, f"config.json has layer_norm_eps = {shape.eps}", "copy it from the same model")
    if shape.width % shape.heads:
        what = f"config.json has {shape.heads} heads, which do not divide the width, {shape.width}"
        raise EncoderError(folder, what, "copy it from the same model")
    return shape


def refuse_absurd_sizes(folder: Path, config: Mapping[str, int]) -> None:
    """Raise an error if a size is none, or so large that building such an encoder would take all memory."""
    for key, value in config.items():
        if key in MOST and not 1 <= value <= MOST[key]:
            what = f"config.json has {key} = {value}, outside 1 to {MOST[key]:,}"
            raise EncoderError(folder, what, "copy it from the same model")


def our_name(name: str) -> str | None:
    """Our name of a tensor, or nothing for what the encoder does without, such as a pooler."""
    for prefix in ("bert.", "roberta.", "distilbert."):
        name = name.removeprefix(prefix)
    module, _, kind = name.rpartition(".")
    kind = OLD.get(kind, kind)
    if module.startswith("embeddings."):
        part = EMBEDDINGS.get(module.removeprefix("embeddings."))
        return f"embeddings.{part}.{kind}" if part else None
    for stack, parts in (("encoder.layer.", PARTS), ("transformer.layer.", DISTILLED)):
        if module.startswith(stack):
            number, _, part = module.removeprefix(stack).partition(".")
            return f"layers.{number}.{parts[part]}.{kind}" if part in parts else None
    return None


def their_name(name: str, kind: str) -> str:
    """The name that transformers gives a tensor of ours."""
    first, *rest, part, leaf = name.split(".")
    if first == "embeddings":
        theirs = {ours: name for name, ours in EMBEDDINGS.items()}
        return f"embeddings.{theirs[part]}.{leaf}"
    stack, parts = ("transformer", DISTILLED) if kind == "distilbert" else ("encoder", PARTS)
    theirs = {ours: name for name, ours in parts.items()}
    return f"{stack}.layer.{rest[0]}.{theirs[part]}.{leaf}"

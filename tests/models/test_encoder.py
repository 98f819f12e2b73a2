"""The encoder's states are those of transformers, padded or not, whole or in two parts."""

import json
import os
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast
from unittest import mock

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from encoder_folders import LAYERS, POSITIONS, WORDS, foreign_encoder, tiny_encoder
from wardround.models.encoder import AnyEncoder, Embeddings, Encoder, attention
from wardround.models.pretrained import Pretrained, packaged, read_encoder

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported: nothing is to be fetched
pytestmark = pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed")


def ours(pretrained: Pretrained, layers: range, *, embeddings: bool = True) -> Encoder:
    """These layers with the folder's weights."""
    encoder = Encoder(pretrained.shape, layers, embeddings=embeddings).eval()
    weights = pretrained.weights()
    encoder.load_state_dict({name: weights[name] for name in encoder.state_dict()})
    return encoder


def theirs(folder: Path) -> nn.Module:
    from transformers import AutoModel, logging  # noqa: PLC0415 -- seconds, that only these tests should cost

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model: nn.Module = AutoModel.from_pretrained(folder).eval()
    return model


def padded(*rows: list[int], padding: int = 0) -> tuple[Tensor, Tensor]:
    """Token numbers and which of them are real."""
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[padding] * (longest - len(row))] for row in rows])
    return ids, torch.arange(longest) < torch.tensor([[len(row)] for row in rows])


@torch.no_grad()
def test_minilm_gives_the_states_of_transformers_padding_included() -> None:
    encoder = read_encoder(packaged())
    sentences = ["The gene causes the disease.", "Aspirin", "In 12 patients, CYP2D6 variants altered clearance of it."]
    rows = [[encoder.start, *encoder.tokenizer.encode(s, add_special_tokens=False).ids, encoder.end] for s in sentences]
    ids, real = padded(*rows)
    expected = theirs(packaged())(input_ids=ids, attention_mask=real.long()).last_hidden_state
    states = ours(encoder, range(6))(ids, real)
    torch.testing.assert_close(states[real], expected[real], rtol=0, atol=1e-5)
    alone = ours(encoder, range(6))(torch.tensor([rows[1]]))[0]
    torch.testing.assert_close(alone, expected[1, : len(rows[1])], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("bert", {}),
        ("bert", {"hidden_act": "gelu_new", "layer_norm_eps": 1e-3}),
        ("bert", {"hidden_act": "relu"}),
        ("roberta", {"pad_token_id": 0}),
        ("xlm-roberta", {"pad_token_id": 0}),
    ],
)
@torch.no_grad()
def test_other_kinds_agree_with_transformers_too(kind: str, changes: dict[str, Any], tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path, model_type=kind, **changes)
    encoder = read_encoder(folder)
    ids, real = padded([2, 10, 11, 14, 10, 12, 3], [2, 11, 3])
    expected = theirs(folder)(input_ids=ids, attention_mask=real.long()).last_hidden_state
    whole = ours(encoder, range(LAYERS))
    torch.testing.assert_close(whole(ids, real)[real], expected[real], rtol=0, atol=1e-5)
    lengths, places = [7, 3], torch.tensor([[0, 4], [2, 1]])
    for ragged in (whole.ragged, partial(AnyEncoder.ragged, whole)):
        torch.testing.assert_close(ragged(ids[real], lengths), expected[real], rtol=0, atol=1e-5)
        some = expected[torch.arange(2)[:, None], places]
        torch.testing.assert_close(ragged(ids[real], lengths, places), some, rtol=0, atol=1e-5)
    assert POSITIONS - (kind != "bert") == encoder.shape.longest


@torch.no_grad()
def test_distilbert_agrees_with_transformers_too(tmp_path: Path) -> None:
    sizes = {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 64, "activation": "gelu"}
    folder = foreign_encoder(tmp_path, "distilbert", **sizes)
    encoder = read_encoder(folder)
    ids, real = padded([2, 10, 11, 14, 10, 12, 3], [2, 11, 3])
    expected = theirs(folder)(input_ids=ids, attention_mask=real.long(), output_hidden_states=True)
    whole = encoder.part(range(3), embeddings=True).eval()
    torch.testing.assert_close(whole(ids, real)[real], expected.last_hidden_state[real], rtol=0, atol=1e-5)
    together = encoder.part(range(3), embeddings=True, last=2).eval()
    mean = (expected.hidden_states[-1] + expected.hidden_states[-2]) / 2
    torch.testing.assert_close(together(ids, real)[real], mean[real], rtol=0, atol=1e-5)
    places = torch.tensor([[0, 4], [2, 1]])
    torch.testing.assert_close(together(ids, real, places), mean[torch.arange(2)[:, None], places], rtol=0, atol=1e-5)


@torch.no_grad()
def test_a_trunk_and_the_rest_make_the_whole(tmp_path: Path) -> None:
    encoder = read_encoder(tiny_encoder(tmp_path))
    ids, real = padded([2, 10, 11, 14, 10, 12, 3], [2, 11, 3])
    whole = ours(encoder, range(2))(ids, real)
    for cut in (0, 1, 2):
        below = ours(encoder, range(cut))(ids, real)
        torch.testing.assert_close(whole, ours(encoder, range(cut, 2), embeddings=False)(below, real))


@pytest.mark.parametrize("layers", [0, 1, 2])
@torch.no_grad()
def test_asking_for_some_places_gives_the_states_there(layers: int, tmp_path: Path) -> None:
    encoder = ours(read_encoder(tiny_encoder(tmp_path)), range(layers))
    ids, real = padded([2, 10, 11, 14, 10, 12, 3], [2, 11, 3])
    places = torch.tensor([[0, 4, 5], [0, 1, 0]])
    some = encoder(ids, real, places)
    torch.testing.assert_close(encoder(ids, real)[torch.arange(2)[:, None], places], some)
    torch.testing.assert_close(some, encoder.ragged(ids[real], [7, 3], places), rtol=0, atol=1e-5)


def test_shards_and_vocab_txt_serve_as_well(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file  # noqa: PLC0415 -- only here

    whole, parts = tiny_encoder(tmp_path / "whole"), tiny_encoder(tmp_path / "parts")
    tensors = load_file(whole / "model.safetensors")
    names = {name: f"part-{number % 2}.safetensors" for number, name in enumerate(tensors)}
    for file in set(names.values()):
        save_file({f"bert.{name}": tensors[name] for name, its in names.items() if its == file}, parts / file)
    (parts / "model.safetensors").unlink()
    (parts / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {f"bert.{name}": file for name, file in names.items()}})
    )
    (parts / "tokenizer.json").unlink()
    (parts / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    one, other = read_encoder(whole), read_encoder(parts)
    for name, tensor in one.weights().items():
        assert torch.equal(tensor, other.weights()[name])
    text = "The GENE causes a disease, not drugs."
    assert one.tokenizer.encode(text, add_special_tokens=False).ids == (
        other.tokenizer.encode(text, add_special_tokens=False).ids
    )
    assert (one.start, one.end, one.unknown) == (other.start, other.end, other.unknown)


def attended(given: list[Tensor], mask: Tensor | None, how: Callable[..., Tensor]) -> list[Tensor]:
    """What comes of queries, keys and values, and their gradients."""
    parts = [one.clone().requires_grad_() for one in given]
    out = how(*parts, mask)
    out.square().sum().backward()  # type: ignore[no-untyped-call]  # torch's own gap
    return [out.detach(), *(cast("Tensor", one.grad) for one in parts)]


@pytest.mark.parametrize("hidden", [0, 3])
def test_attention_in_bf16_is_torchs_to_its_rounding(hidden: int) -> None:
    rng = torch.Generator().manual_seed(0)
    given = [torch.randn(2, 3, 7, 8, generator=rng) for _ in range(3)]
    mask = (torch.arange(7) < torch.tensor([[7 - hidden], [7]]))[:, None, None] if hidden else None
    expected = attended(given, mask, functional.scaled_dot_product_attention)
    with mock.patch.object(functional, "scaled_dot_product_attention") as slow:
        actual = attended([one.bfloat16() for one in given], mask, attention)
    assert not slow.called
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one.float(), other, rtol=0.05, atol=0.08)


def test_a_table_of_tokens_whose_gradient_is_held_gets_no_second_one_of_its_size(tmp_path: Path) -> None:
    pretrained = read_encoder(tiny_encoder(tmp_path / "encoder"))
    encoder, ids = ours(pretrained, range(1)), torch.tensor([[5, 6, 5]])
    encoder(ids).square().sum().backward()
    table = cast("Embeddings", encoder.embeddings).tokens.weight
    expected = cast("Tensor", table.grad)
    table.grad = held = torch.zeros_like(table)
    seen: list[bool] = []
    table.register_hook(lambda gradient: seen.append(gradient.is_sparse))  # type: ignore[no-untyped-call]
    encoder(ids).square().sum().backward()
    assert [True] == seen
    assert table.grad is held
    torch.testing.assert_close(held, expected)

"""The files of an encoder's folder, each read with what to do if it cannot be: config, weights, tokenizer.

Weights are safetensors, in one file or in shards with an index. `pytorch_model.bin` is refused: it is a pickle, which
can run code. So are adapters, which are only the difference to a model that lies elsewhere, and weights that are
quantised. What is no file of usual size, such as a pipe or a link to a device, is not opened. Nothing is fetched.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import tokenizers
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
SAVED = "AutoModel.from_pretrained(…).save_pretrained(…)"
FULL = "take the model in full precision"
NUMBERS = frozenset({"F16", "BF16", "F32", "F64"})
"""What safetensors call the types of weights that are as they were trained."""
LARGEST = 2**29
"""Bytes of a configuration or a tokenizer: the largest tokenizers have a tenth of it."""

Tokenizer: TypeAlias = tokenizers.Tokenizer | tokenizers.BertWordPieceTokenizer


class EncoderError(ValueError):
    """What is wrong with an encoder's folder, and what to do."""

    def __init__(self, folder: Path, what: str, remedy: str) -> None:
        super().__init__(f"encoder {folder}: {what}; {remedy}")


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """The table in a file of the folder."""
    try:
        values = json.loads(plain_file(folder, name).read_text(encoding="utf-8"))
    except EncoderError:
        raise
    except FileNotFoundError:
        raise EncoderError(folder, f"no {name}", "an encoder's folder has config, weights and tokenizer") from None
    except (OSError, ValueError, RecursionError) as error:
        raise EncoderError(folder, f"{name} cannot be read ({error})", "copy the folder again") from None
    if not isinstance(values, dict):
        raise EncoderError(folder, f"{name} is no table", "copy the folder again")
    return values


def plain_file(folder: Path, name: str, largest: int = LARGEST) -> Path:
    """Where a file lies that can be read to its end."""
    path = folder / name
    if path.exists() and not path.is_file():
        raise EncoderError(folder, f"{name} is no file", "copy the folder again")
    if path.exists() and path.stat().st_size > largest:
        raise EncoderError(folder, f"{name} has {path.stat().st_size:,} bytes", "copy it from the same model")
    return path


def refuse_other_weights(folder: Path, config: Mapping[str, Any]) -> None:
    """Raise an error unless the folder's weights are whole, as they were trained, safetensors, and need no code."""
    if "quantization_config" in config:
        raise EncoderError(folder, "its weights are quantised", FULL)
    if code := [key for key, value in config.items() if key.endswith("_implementation") and "/" in str(value)]:
        what = f"config.json has {code[0]} that is code from elsewhere, which is not fetched"
        raise EncoderError(folder, what, f"take {code[0]} out of it")
    if (folder / "adapter_config.json").exists():
        raise EncoderError(
            folder,
            "it is an adapter (adapter_config.json), which changes a model that lies elsewhere",
            "merge the two with peft: PeftModel.from_pretrained(…).merge_and_unload().save_pretrained(…)",
        )
    if (folder / WEIGHTS).exists() or (folder / INDEX).exists():
        for name in shards(folder):
            _refuse_other_numbers(folder, name)
        return
    if pickles := sorted([*folder.glob("pytorch_model*.bin"), *folder.glob("*.ckpt")]):
        raise EncoderError(
            folder,
            f"its weights are a pickle ({pickles[0].name}), which can run code",
            f"convert them to safetensors with transformers, where you trust them: {SAVED}",
        )
    raise EncoderError(folder, f"no {WEIGHTS}", "copy the weights there")


def shards(folder: Path) -> list[str]:
    """The files that hold the folder's weights, all of them in it."""
    if not (folder / INDEX).exists():
        return [WEIGHTS]
    listed = read_json(folder, INDEX).get("weight_map")
    names = {*map(str, listed.values())} if isinstance(listed, dict) else set()
    if not names or any(Path(name).name != name or not name.endswith(".safetensors") for name in names):
        raise EncoderError(folder, f"{INDEX} names no files of this folder", "copy the folder again")
    return sorted(names)


def _refuse_other_numbers(folder: Path, name: str) -> None:
    """Raise an error if a file has weights that are no floating-point numbers of 16 bits or more."""
    try:
        with safe_open(plain_file(folder, name, sys.maxsize), "pt") as file:
            kinds = {tensor: file.get_slice(tensor).get_dtype() for tensor in file.keys()}  # noqa: SIM118 -- no mapping
    except (SafetensorError, OSError) as error:
        raise EncoderError(folder, f"{name} cannot be read ({error})", "copy the folder again") from None
    other = sorted(tensor for tensor, kind in kinds.items() if tensor.endswith("weight") and kind not in NUMBERS)
    if other:
        raise EncoderError(folder, f"its weights are quantised ({other[0]} is {kinds[other[0]]})", FULL)


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of the folder, by the names that they have there."""
    tensors: dict[str, Tensor] = {}
    for name in shards(folder):
        try:
            tensors |= load_file(folder / name)
        except (SafetensorError, OSError) as error:
            raise EncoderError(folder, f"{name} cannot be read ({error})", "copy the folder again") from None
    return tensors


def weighed(folder: Path) -> int:
    """The bytes of all weights in the folder."""
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))


def read_tokenizer(folder: Path) -> Tokenizer | None:
    """The tokenizer of `tokenizer.json`, or BERT's of `vocab.txt` alone; nothing if there is neither."""
    whole, listed = plain_file(folder, "tokenizer.json"), plain_file(folder, "vocab.txt")
    try:
        if whole.exists():
            return unbounded(tokenizers.Tokenizer.from_file(str(whole)))
        if listed.exists():
            config = folder / "tokenizer_config.json"
            lower = read_json(folder, config.name).get("do_lower_case", True) if config.exists() else True
            return tokenizers.BertWordPieceTokenizer(str(listed), lowercase=bool(lower))
    except EncoderError:
        raise
    except Exception as error:  # noqa: BLE001 -- the package raises nothing more precise
        raise EncoderError(folder, f"its tokenizer cannot be read ({error})", "copy the folder again") from None
    return None


def unbounded(tokenizer: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """The same, which neither cuts nor fills up a text: that is for us to do."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def ends_of(folder: Path, tokenizer: Tokenizer) -> tuple[int, int, int]:
    """The numbers of the tokens before a sentence, after it, and for what is unknown."""
    around = tokenizer.encode("", add_special_tokens=True).ids
    ends = list(around) if len(around) == 2 else []
    for names in (("[CLS]", "<s>"), ("[SEP]", "</s>"), ("[UNK]", "<unk>"))[len(ends) :]:
        number = next((n for name in names if (n := tokenizer.token_to_id(name)) is not None), None)
        if number is None:
            raise EncoderError(
                folder, f"its tokenizer has neither {names[0]} nor {names[1]}", "use one of the BERT family"
            )
        ends.append(number)
    start, end, unknown = ends
    return start, end, unknown

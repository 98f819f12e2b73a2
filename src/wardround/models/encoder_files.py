"""The files of an encoder's folder, each read with what to do if it cannot be: config, weights, tokenizer.

Weights are safetensors, in one file or in shards with an index. `pytorch_model.bin` is refused: it is a pickle, which
can run code. So are adapters, which are only the difference to a model that lies elsewhere. Nothing is fetched.
"""

import json
from pathlib import Path
from typing import Any, TypeAlias

import tokenizers
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
SAVED = "AutoModel.from_pretrained(…).save_pretrained(…)"

Tokenizer: TypeAlias = tokenizers.Tokenizer | tokenizers.BertWordPieceTokenizer


class EncoderError(ValueError):
    """What is wrong with an encoder's folder, and what to do."""

    def __init__(self, folder: Path, what: str, remedy: str) -> None:
        super().__init__(f"encoder {folder}: {what}; {remedy}")


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """The table in a file of the folder."""
    try:
        values = json.loads((folder / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise EncoderError(folder, f"no {name}", "an encoder's folder has config, weights and tokenizer") from None
    except (OSError, ValueError) as error:
        raise EncoderError(folder, f"{name} cannot be read ({error})", "copy the folder again") from None
    if not isinstance(values, dict):
        raise EncoderError(folder, f"{name} is no table", "copy the folder again")
    return values


def refuse_other_weights(folder: Path) -> None:
    """Raise an error unless the folder's weights are whole, and safetensors."""
    if (folder / "adapter_config.json").exists():
        raise EncoderError(
            folder,
            "it is an adapter (adapter_config.json), which changes a model that lies elsewhere",
            "merge the two with peft: PeftModel.from_pretrained(…).merge_and_unload().save_pretrained(…)",
        )
    if (folder / WEIGHTS).exists() or (folder / INDEX).exists():
        return
    if pickles := sorted([*folder.glob("pytorch_model*.bin"), *folder.glob("*.ckpt")]):
        raise EncoderError(
            folder,
            f"its weights are a pickle ({pickles[0].name}), which can run code",
            f"convert them to safetensors with transformers, where you trust them: {SAVED}",
        )
    raise EncoderError(folder, f"no {WEIGHTS}", "copy the weights there")


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of the folder, by the names that they have there."""
    names = [WEIGHTS]
    if (folder / INDEX).exists():
        names = sorted(set(read_json(folder, INDEX).get("weight_map", {}).values()))
    tensors: dict[str, Tensor] = {}
    for name in names:
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
    whole, listed = folder / "tokenizer.json", folder / "vocab.txt"
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

"""A relation model as a folder that transformers loads: `AutoModel`, `AutoTokenizer`, and the head beside them.

The encoder is whole again, frozen layers below trained ones. The markers are rows of the embeddings behind the
vocabulary, and `head.json` has their numbers: no tokens, for then a note that holds `<e1>` itself would be read as one
that is marked there. transformers has no head that sums the states of two entities: `head.safetensors` and `head.json`
hold it, and the folder's README has the lines that compute it, which a test runs. Taggers with CRF, PCNNs, LSTMs and
bags of words have no counterpart there.
"""

import json
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from wardround.core.files import write
from wardround.models.family import KINDS, their_name
from wardround.models.relation import RelationModel
from wardround.tasks.marking import LIKE
from wardround.tasks.relation import RelationTask
from wardround.trained.about import CARD, ModelError
from wardround.trained.model import Part

CLASSES = dict(zip(KINDS, ("BertModel", "DistilBertModel", "RobertaModel", "XLMRobertaModel"), strict=True))
LAYERS = {"distilbert": "n_layers"}
"""What a config calls the number of layers, if not `num_hidden_layers`."""


def write_transformers(part: Part, new: Path) -> None:
    """Fill a new folder."""
    task, network = part.task, part.network
    if not isinstance(task, RelationTask) or not isinstance(network, RelationModel):
        raise ModelError(part.folder, *task.why_not("transformers"))
    kind = task.encoder.kind
    if kind not in CLASSES or task.settings.last > 1:
        what = (
            f"its encoder is a {kind}, which" if kind not in CLASSES else "it takes the mean of several layers, which"
        )
        raise ModelError(part.folder, f"{what} the lines of the README do not compute", "use --to spacy")
    _tokenizer(task, new)
    tensors = {their_name(name, kind): tensor for name, tensor in _whole(task, network).items()}
    words = "embeddings.word_embeddings.weight"
    write(new / "model.safetensors", save({name: t.contiguous() for name, t in tensors.items()}, {"format": "pt"}))
    config = _config(task)
    rows, layers = len(tensors[words]), len({name.split(".")[2] for name in tensors if ".layer." in name})
    changed = {"architectures": [CLASSES[kind]], LAYERS.get(kind, "num_hidden_layers"): layers, "vocab_size": rows}
    _json(new / "config.json", {key: value for key, value in config.items() if key != "auto_map"} | changed)
    _head(part, task, network, new)


def _whole(task: RelationTask, network: RelationModel) -> dict[str, Tensor]:
    """The tensors of the encoder, those of frozen layers included."""
    frozen = task.trunk.encoder.state_dict() if task.trunk else {}
    return {**frozen, **network.encoder.state_dict()}


def _tokenizer(task: RelationTask, new: Path) -> None:
    tokenizer, encoder = task.encoder.tokenizer, task.encoder
    tokenizer.save(str(new / "tokenizer.json"))
    ends = {"cls_token": encoder.start, "sep_token": encoder.end, "unk_token": encoder.unknown}
    names = {role: tokenizer.id_to_token(number) for role, number in ends.items()}
    padding = next((name for name in ("[PAD]", "<pad>") if tokenizer.token_to_id(name) is not None), None)
    config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": encoder.shape.longest}
    _json(new / "tokenizer_config.json", config | names | ({"pad_token": padding} if padding else {}))


def _head(part: Part, task: RelationTask, network: RelationModel, new: Path) -> None:
    chosen = task.settings
    rest = {name: t for name, t in network.state_dict().items() if not name.startswith("encoder.")}
    write(new / "head.safetensors", save({name: tensor.contiguous() for name, tensor in rest.items()}))
    answers = {"labels": task.labels, "negative": task.negative, "parts": network.parts}
    switches = {name: getattr(chosen, name) for name in ("blind", "normalise", "longest")}
    first = task.encoder.shape.vocabulary
    markers = [first + number for number in range(len(LIKE))] if chosen.markers else []
    ends = {name: getattr(task.encoder, name) for name in ("start", "end", "unknown")}
    _json(new / "head.json", answers | switches | ends | {"markers": markers})
    words = Path(__file__).with_name("relation.md").read_text(encoding="utf-8")
    words = words.replace("{study}", part.about.study).replace("{longest}", str(chosen.longest))
    write(new / CARD, (words + (part.folder / CARD).read_text(encoding="utf-8")).encode())


def _config(task: RelationTask) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((task.encoder.folder / "config.json").read_text(encoding="utf-8"))
    return config


def _json(path: Path, values: dict[str, Any]) -> None:
    write(path, (json.dumps(values, indent=1, ensure_ascii=False) + "\n").encode())

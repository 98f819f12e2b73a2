"""Writing a model's folder when a run has ended.

    write_model(run / "model", built, weights, metrics, wire)

What the task needs besides weights is put beside them: the frozen encoder, word vectors, a list of terms. Where the
file system allows, these are second names of the same files and take no room; whoever copies the folder copies them.
"""

import os
import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from safetensors.torch import save
from torch import Tensor

from wardround import __version__
from wardround.core.files import fresh_folder, write
from wardround.federation.describe import MOST_SITES
from wardround.federation.sites import Sites
from wardround.models.pretrained import packaged
from wardround.runs.build import Built
from wardround.runs.files import Metrics
from wardround.runs.wire import WireRow
from wardround.study.load import Study
from wardround.text.document import Document
from wardround.text.language import language
from wardround.text.reading import digest, found_path
from wardround.text.shown import NOT_SHOWN, code, names_of
from wardround.text.texts import Texts
from wardround.trained.about import ABOUT, CARD, SUMS, WEIGHTS, About, seal_folder
from wardround.trained.card import card

__all__ = ["about_of", "save_model", "write_model"]

PUBLIC = ("vectors", "terms")  # settings of a task that name a file; `encoder` names a folder
ENCODER = ("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "merges.txt")
LOOKED_AT = 200  # texts of a site whose language is guessed
SHARE = 0.05


def write_model(
    folder: Path,
    built: Built,
    weights: Mapping[str, Tensor],
    metrics: Metrics,
    wire: Sequence[WireRow],
) -> None:
    """The model of a finished run, with its figures and what crossed the wire on the card."""
    about = about_of(built, metrics.rounds)
    save_model(folder, about, built.study, weights, card(about, built, metrics.final, wire, metrics.bytes.up))


def save_model(folder: Path, about: About, study: Study, weights: Mapping[str, Tensor], words: str) -> None:
    """Write a model's folder, whole or not at all."""
    with fresh_folder(folder, instead=True) as new:
        write(new / WEIGHTS, save({name: tensor.contiguous() for name, tensor in weights.items()}))
        write(new / "study.toml", study.toml().encode())
        _put_files(new, study)
        write(new / ABOUT, about.text().encode())
        write(new / CARD, words.encode())
        write(new / SUMS, seal_folder(new).encode())


def about_of(built: Built, rounds: int) -> About:
    """What is known of a run's model."""
    study, task = built.study, built.task
    seen = Seen(built.raw, {kind for both in getattr(study.corpus, "pairs", ()) for kind in both})
    return About(
        wardround=__version__,
        study=study.name,
        task=dict(study.resolved["task"]) | dict(_files(study)),
        labels=getattr(task, "labels", ()),
        negative=getattr(task, "negative", ""),
        types=getattr(task, "own", ()),
        scheme=getattr(task, "scheme", ""),
        pairs=seen.pairs if study.resolved["task"]["name"] in ("relation", "bags") else None,
        scope=getattr(study.corpus, "scope", "sentence"),
        both_ways=getattr(study.corpus, "both_ways", True),
        languages=seen.languages or tuple(filter(None, [study.resolved["corpus"].get("language", "")])),
        missing=study.sites.private,
        method=study.resolved["method"]["name"],
        rounds=rounds,
    )


class Seen:
    """What the training texts of all sites are like, where one process may look at them."""

    def __init__(self, raw: Sites | None, declared: Collection[str] = ()) -> None:
        languages, pairs = Counter[str](), set[tuple[str, str]]()
        mentions = set[tuple[str, bytes]]()  # an entity stands in several pairs and is one all the same
        for documents in _by_site(raw):
            for document in documents[:: max(len(documents) // LOOKED_AT, 1)]:
                languages[code(document.language or language(document.text))] += 1
            for document in documents:  # all, for a rare pair of types is one that the model knows, too
                if len(document.entities) == 2:
                    one, other = document.entities
                    pairs.add((one.type, other.type))
                    text = digest(document.text)
                    mentions.update((end.type, text + end.start.to_bytes(8)) for end in (one, other))
        names = names_of((kind for kind, _ in mentions), declared)
        whole = languages.total()
        self.languages = tuple(
            sorted(name for name, n in languages.items() if name not in ("", NOT_SHOWN) and n >= SHARE * whole)
        )
        self.pairs = tuple(sorted(both for both in pairs if names.issuperset(both))) or None


def _by_site(raw: Sites | None) -> Iterator[Sequence[Document]]:
    for name in raw.names if raw and len(raw.names) <= MOST_SITES else ():
        train, _ = raw.raw(name) if raw else ((), ())
        if isinstance(train, Texts):
            yield train.documents


def _files(study: Study) -> Iterator[tuple[str, str]]:
    """The task's settings that name files, as the model's folder has them."""
    settings = study.resolved["task"]
    for name in PUBLIC:
        if chosen := settings.get(name):
            yield name, name + "".join(Path(chosen).suffixes[-2:])
    if _encoder(study):
        yield "encoder", "encoder"


def _encoder(study: Study) -> Path | None:
    settings = study.resolved["task"]
    if "encoder" not in settings or (settings["name"] == "tagging" and settings["model"] != "elmoner"):
        return None
    chosen = settings["encoder"]
    return packaged() if chosen == "minilm" else found_path(chosen, study.task.folder)


def _put_files(new: Path, study: Study) -> None:
    for name, file in _files(study):
        if name != "encoder":
            _put(found_path(study.resolved["task"][name], study.task.folder), new / file)
    if encoder := _encoder(study):
        (new / "encoder").mkdir()
        for source in _of_encoder(encoder):
            _put(source, new / "encoder" / source.name)


def _of_encoder(folder: Path) -> Iterable[Path]:
    found = [folder / name for name in ENCODER]
    found += sorted(folder.glob("model*.safetensors")) + sorted(folder.glob("model.safetensors.index.json"))
    return (path for path in found if path.is_file())


def _put(source: Path, target: Path) -> None:
    try:
        os.link(source.resolve(), target)
    except OSError:  # another file system, or one without second names
        shutil.copyfile(source, target)

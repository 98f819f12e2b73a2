"""Writing a model's folder when a run has ended.

    write_model(run / "model", built, weights, metrics, wire)

What the task needs besides weights is put beside them: the frozen encoder, word vectors, a list of terms. Where the
file system allows, these are second names of the same files and take no room; whoever copies the folder copies them.
"""

import hashlib
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
from wardround.runs.build import Built
from wardround.runs.files import DATA, MEMBERS, Data, Metrics
from wardround.runs.wire import WireRow
from wardround.study.load import Study
from wardround.text.document import Document
from wardround.text.facts import BagSentence
from wardround.text.language import language
from wardround.text.reading import digest
from wardround.text.shown import NOT_SHOWN, code, names_of
from wardround.text.texts import Texts
from wardround.trained.about import ABOUT, CARD, SUMS, WEIGHTS, About, Lineage, file_sum, seal_folder
from wardround.trained.card import card

ENCODER = (
    "config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.txt", "vocab.json", "merges.txt", "spm.model", "spiece.model", "sentencepiece.bpe.model",
)  # fmt: skip
LOOKED_AT = 200  # texts of a site whose language is guessed
SHARE = 0.05


def write_model(
    folder: Path, built: Built, weights: Mapping[str, Tensor], metrics: Metrics, wire: Sequence[WireRow]
) -> None:
    """The model of a finished run, with its figures and what crossed the wire on the card."""
    members = MEMBERS.read(folder.parent) or ()
    data = None if members else DATA.read(folder.parent)  # its fingerprint stays that of those who were there first
    about = about_of(built, metrics.chosen or metrics.rounds, metrics.chosen_by, data)
    words = card(about, built, metrics.final, wire, metrics.bytes.up, metrics.rounds, members)
    save_model(folder, about, built.study, weights, words)


def save_model(folder: Path, about: About, study: Study, weights: Mapping[str, Tensor], words: str) -> None:
    """Write a model's folder, whole or not at all."""
    with fresh_folder(folder, instead=True) as new:
        write(new / WEIGHTS, save({name: tensor.contiguous() for name, tensor in weights.items()}))
        write(new / "study.toml", study.toml().encode())
        put_files(new, study)
        write(new / ABOUT, about.text().encode())
        write(new / CARD, words.encode())
        write(new / SUMS, seal_folder(new).encode())


def about_of(built: Built, rounds: int, chosen_by: str = "", data: Data | None = None) -> About:
    """What is known of a run's model after so many rounds."""
    study, settings = built.study, built.study.resolved["task"]
    seen = TrainingTexts(built.raw, {kind for both in getattr(study.corpus, "pairs", ()) for kind in both})
    return About(
        wardround=__version__,
        study=study.name,
        task=settings | {name: _stored(name, path) for name, path in study.task.files().items()},
        pairs=seen.pairs if study.task.finds == "relations" else None,
        scope=getattr(study.corpus, "scope", "sentence"),
        both_ways=getattr(study.corpus, "both_ways", True),
        languages=seen.languages or tuple(filter(None, [study.resolved["corpus"].get("language", "")])),
        missing=study.sites.private,
        method=study.resolved["method"]["name"],
        rounds=rounds,
        chosen_by=chosen_by,
        lineage=Lineage(
            study=hashlib.sha256(study.toml().encode()).hexdigest(),
            data=(data.fingerprint if data else None) or "",
            files={name: _digest(path) for name, path in study.task.files().items()},
        ),
        **built.task.answers(),
    )


class TrainingTexts:
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
                    # A bag names the types of its pair once for all its sentences.
                    bag = f"{one.id}\t{other.id}" if isinstance(document, BagSentence) else ""
                    text = digest(bag or document.text)
                    mentions.update((end.type, text + (0 if bag else end.start).to_bytes(8)) for end in (one, other))
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


def _digest(source: Path) -> str:
    """Of a file, or of all files of an encoder that are taken."""
    if not source.is_dir():
        return file_sum(source)
    lines = (f"{file_sum(part)}  {part.name}\n" for part in _of_encoder(source))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _stored(setting: str, source: Path) -> str:
    """What a file or folder that a setting names is called in the model's folder."""
    return setting if source.is_dir() else setting + "".join(source.suffixes[-2:])


def put_files(new: Path, study: Study) -> None:
    """Put beside a model what its task needs besides weights."""
    for setting, source in study.task.files().items():
        target = new / _stored(setting, source)
        if not source.is_dir():
            _put(source, target)
            continue
        target.mkdir()
        for part in _of_encoder(source):
            _put(part, target / part.name)


def _of_encoder(folder: Path) -> Iterable[Path]:
    files = [folder / name for name in ENCODER]
    files += sorted(folder.glob("model*.safetensors")) + sorted(folder.glob("model.safetensors.index.json"))
    return (path for path in files if path.is_file())


def _put(source: Path, target: Path) -> None:
    try:
        os.link(source.resolve(), target)
    except OSError:  # another file system, or one without second names
        shutil.copyfile(source, target)

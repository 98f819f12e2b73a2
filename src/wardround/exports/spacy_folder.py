"""Models as a spaCy pipeline's folder: a blank language and our pipe, with the models' folders inside."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from wardround.trained.about import ModelError
from wardround.trained.model import Part

ANY = "xx"  # spaCy's name for a language that it has no rules for


def write_spacy(parts: Sequence[Part], new: Path, rename: Mapping[str, str]) -> None:
    """Fill a new folder, which `spacy.load` takes."""
    if find_spec("spacy") is None:
        raise ModelError(parts[0].folder, "the package spacy is not installed", 'pip install "wardround[spacy]"')
    import spacy  # noqa: PLC0415 -- an extra

    from wardround.exports.spacy_component import Component  # noqa: PLC0415 -- likewise

    languages = {code for part in parts for code in part.about.languages}
    try:
        nlp = spacy.blank(languages.pop() if len(languages) == 1 else ANY)
    except ImportError:  # a language that spaCy does not know
        nlp = spacy.blank(ANY)
    pipe = nlp.add_pipe("wardround", config={"rename": dict(rename)})
    assert isinstance(pipe, Component)  # noqa: S101 -- what our factory makes
    pipe.folders = [part.folder for part in parts]
    nlp.meta["name"] = parts[0].about.study
    nlp.meta["description"] = (
        "Trained with wardround; the models' cards are in its folders. Not for clinical decisions."
    )
    nlp.to_disk(new)

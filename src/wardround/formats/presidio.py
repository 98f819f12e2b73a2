"""Names and more by Presidio and a spaCy model on this machine: `wardround data check --phi --phi-model FOLDER`.

    finder = presidio(Path("models/english"))
    [(kind, start, end), …] = finder("Anna Bell rang from 020 7946 0958")

The only file that imports Presidio, an extra. Nothing is downloaded and nothing asked of the network: the model is a
folder, and Presidio's recognisers of e-mail addresses (which fetch a list of domains) and of URLs are not among those
used. A folder with code or pickles in it, or whose parts are not spaCy's own, is refused before it is loaded. Texts are
taken one by one: in a trial, batches of 32 were faster for short texts and not for long ones.
"""

import re
import warnings
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from wardround.formats.phi import DATE, MAIL, NAME, NUMBER, TELEPHONE, Finder
from wardround.text.reading import DataError

KINDS = {
    "PERSON": NAME,
    "DATE_TIME": DATE,
    "PHONE_NUMBER": TELEPHONE,
    "EMAIL": MAIL,
    "ID": NUMBER,
    "UK_NHS": NUMBER,
    "US_SSN": NUMBER,
}
"""Our words for what Presidio finds; all else has Presidio's."""
PATTERNS = (
    "PhoneRecognizer",
    "DateRecognizer",
    "NhsRecognizer",
    "UsSsnRecognizer",
    "MedicalLicenseRecognizer",
    "CreditCardRecognizer",
    "IbanRecognizer",
    "IpRecognizer",
)
SURE = 0.4  # what Presidio gives a telephone number; its weak patterns, such as any nine digits, are below
PARTS = (
    "attribute_ruler", "entity_ruler", "lemmatizer", "merge_entities", "merge_noun_chunks", "merge_subtokens",
    "morphologizer", "ner", "parser", "sentencizer", "senter", "span_ruler", "tagger", "tok2vec", "token_splitter",
    "trainable_lemmatizer",
)  # fmt: skip
OWN = re.compile(r"spacy(-legacy)?\.(?!Torch)[\w.]+")  # what a part is made of; torch's weights may be pickles
CODE = frozenset({".py", ".pyc", ".so", ".pyd", ".pkl", ".pickle", ".joblib", ".pt", ".pth"})
PIECE = 100_000  # characters; spaCy takes a million, and memory by length
OTHER = "name a model that is made of spaCy's own parts and has no transformer"


def presidio(folder: Path) -> Finder:
    """What finds names by the model in this folder, and numbers by patterns."""
    if find_spec("presidio_analyzer") is None:
        remedy = 'pip install "wardround[presidio]", or leave --phi-model out'
        raise DataError(folder, None, "the package presidio-analyzer is not installed", remedy)
    nlp = _model(folder)
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry, predefined_recognizers  # noqa: PLC0415 -- an extra
    from presidio_analyzer.nlp_engine import SpacyNlpEngine  # noqa: PLC0415 -- likewise

    engine, known = SpacyNlpEngine(), {"supported_language": nlp.lang}
    engine.nlp = {nlp.lang: nlp}  # and not its `load`, which downloads
    by_model = predefined_recognizers.SpacyRecognizer(supported_entities=engine.get_supported_entities(), **known)
    by_pattern = (getattr(predefined_recognizers, name)(**known) for name in PATTERNS)
    registry = RecognizerRegistry([by_model, *by_pattern], supported_languages=[nlp.lang])
    analyzer = AnalyzerEngine(registry, engine, supported_languages=[nlp.lang])

    def find(text: str) -> Iterator[tuple[str, int, int]]:
        for offset, piece in _pieces(text):
            try:
                with warnings.catch_warnings(action="ignore"):  # which may quote the text
                    found = analyzer.analyze(piece, nlp.lang, score_threshold=SURE)
            except Exception as error:  # noqa: BLE001 -- a model's own, which may quote the text, too
                what = f"the model failed on a text ({type(error).__name__})"
                raise DataError(folder, None, what, "name another with --phi-model, or leave it out") from None
            for one in sorted(found, key=lambda one: (-one.score, one.start - one.end, one.start)):
                kind = KINDS.get(one.entity_type, f"looks like Presidio's {one.entity_type}")
                yield kind, offset + one.start, offset + one.end

    return find


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """A text, if it is very long in parts that end before a blank, each with its place."""
    start = 0
    while len(text) - start > PIECE:
        end = max(text.rfind(blank, start + 1, start + PIECE) for blank in " \n")
        end = end if end > start else start + PIECE
        yield start, text[start:end]
        start = end
    yield start, text[start:]


def _model(folder: Path) -> Any:
    """The spaCy pipeline in this folder, looked through before it is loaded."""
    import spacy  # noqa: PLC0415 -- an extra

    if not folder.is_dir():
        raise DataError(
            folder, None, "there is no such folder", "name one that holds a spaCy model; none is downloaded"
        )
    if not all((folder / name).is_file() for name in ("config.cfg", "meta.json")):
        remedy = "name the folder that holds config.cfg and meta.json, in a package the one with the version"
        raise DataError(folder, None, "no spaCy model", remedy)
    for file in sorted(folder.rglob("*")):
        if file.suffix.lower() in CODE:
            raise DataError(file, None, "code or a pickle in the folder of a model, which is never run", OTHER)
    try:
        config = spacy.util.load_config(folder / "config.cfg", interpolate=True)
    except Exception as error:  # noqa: BLE001 -- whatever its parser raises
        what = f"no configuration of a spaCy model ({type(error).__name__})"
        raise DataError(folder / "config.cfg", None, what, "copy the model again") from None
    for what in _foreign(config):
        raise DataError(folder / "config.cfg", None, what, OTHER)
    try:
        return spacy.load(folder)
    except Exception as error:  # noqa: BLE001 -- many kinds, by what is damaged
        what = f"spaCy {spacy.__version__} cannot load it ({type(error).__name__})"
        raise DataError(folder, None, what, "copy it again, or name a model made for this version") from None


def _foreign(config: dict[str, Any]) -> Iterator[str]:
    """What a configuration has that is not spaCy's own: parts, functions, models to take parts from."""
    nlp, parts = config.get("nlp", {}), config.get("components", {})
    if not re.fullmatch("[a-z]{2,3}", str(nlp.get("lang"))):
        yield "no language of spaCy's"
    for part in parts.values():
        if part.get("factory") not in PARTS:
            yield f"a part that is none of {', '.join(PARTS)}"
    for key, value in (*_functions(nlp), *_functions(parts)):
        if key == "@callbacks" or not OWN.fullmatch(str(value)):
            yield f"a function of {key} that is not spaCy's own, or runs torch"


def _functions(section: Any) -> Iterator[tuple[str, Any]]:
    """The functions that a section of a configuration names, at any depth."""
    inner: Iterable[Any] = section if isinstance(section, list) else ()
    if isinstance(section, dict):
        yield from ((key, value) for key, value in section.items() if key.startswith("@"))
        inner = section.values()
    for value in inner:
        yield from _functions(value)

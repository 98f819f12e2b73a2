"""The texts that are to be predicted on: a file, a folder or standard input, one text after the other.

    for placed in read_texts(Path("notes/"), problems, Options()): ...

Plain `.txt` files are a text each, and so are those of a folder, unless their content is plainly an export (PubTator,
JSON lines, …), which is read as such; a folder with `.ann` files is BRAT's, and every other file is what `data check`
recognises. A pipe can be read only once: it is one plain text, or what `--from` says. Entities that come with a text
are kept. A table's text, id, source and patient are in the columns that those of the model's training texts were in, if
there are such and nobody names others.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from wardround.formats.options import Column, Options
from wardround.formats.recognise import read_each, recognised
from wardround.formats.register import FORMATS, Format
from wardround.text.document import Document, Placed
from wardround.text.reading import DataError, Problems, files_under, open_text

STDIN = Path("/dev/stdin")
PLAIN = (".txt", ".text", ".txt.gz")
TWICE = ("csv", "label-studio", "omop", "tsv")  # formats whose readers look at the beginning first
EXPORTS = ("bioc", "bioc-json", "doccano", "fhir", "jsonl", "label-studio", "pubtator")  # which no note looks like
LOOKED_AT = 20  # documents
BARE = "note without .ann, skipped"
BEGINNING = 8192  # bytes


def read_texts(path: Path, problems: Problems, options: Options, form: str = "") -> Iterator[Placed]:
    """The texts of a path in order; those of a folder by the names of its files."""
    if path == STDIN or path.is_fifo():
        yield from _piped(path, problems, options, form)
    elif not form and path.name.casefold().endswith(PLAIN) and not path.is_dir():
        yield from _form(path, options).read(path, problems, options)
    elif path.is_dir() and form in ("", "text", "brat"):
        yield from _folder(path, problems, options, form)
    else:
        yield from read_each(recognised(path, form, options.encoding, problems), problems, options)


def as_trained(path: Path, options: Options, form: str, models: Iterable[Path]) -> Options:
    """The same options with the columns that the models' training texts had, as far as this file has them."""
    if not path.is_file():
        return options
    studies = [_corpus(model) for model in models]
    options = as_encoded(path, options, studies)
    known = _with_text(path, options, form, {_column(study.get("text", "")) for study in studies})
    for meaning in ("id", "source", "patient"):
        kinds = str | int if isinstance(known.text, int) else str  # a number fits any table
        named: set[Any] = {column for study in studies if isinstance(column := study.get(meaning), kinds) and column}
        if getattr(options, meaning) or len(named) != 1:
            continue
        way = replace(known, **{meaning: named.pop()})
        before, now = (_looked_at(path, one, form) for one in (known, way))
        if [getattr(one, meaning) for one in now] != [getattr(one, meaning) for one in before] and now:
            known = way
    return known


def as_encoded(path: Path, options: Options, studies: Iterable[Mapping[str, Any]]) -> Options:
    """The same options with the encoding of the models' training files, if these here are not UTF-8."""
    said = {str(study["encoding"]) for study in studies if study.get("encoding")}
    if options.encoding or len(said) != 1:
        return options
    try:
        for file in filter(_written, files_under(path, "")) if path.is_dir() else [path]:
            for _ in open_text(file):
                pass
    except DataError as error:
        return replace(options, encoding=said.pop()) if error.remedy.startswith("set encoding") else options
    return options


def _written(file: Path) -> bool:
    """Whether a file of a folder may hold text: a picture beside the notes says nothing about their encoding."""
    with file.open("rb") as opened:
        return b"\0" not in opened.read(BEGINNING)


def _looked_at(path: Path, options: Options, form: str) -> list[Document]:
    """The first documents of a file; none if they cannot be read in this way."""
    try:
        some = read_each(recognised(path, form, options.encoding), Problems(), options)
        return [placed.document for placed in islice(some, LOOKED_AT)]
    except DataError:
        return []


def _with_text(path: Path, options: Options, form: str, columns: set[Column | tuple[Column, ...]]) -> Options:
    named = columns - {""}
    if options.text or len(named) != 1:
        return options
    wished = replace(options, text=named.pop())
    ways = (wished, options) if isinstance(wished.text, str | tuple) else (options, wished)  # a number fits any table
    return next((way for way in ways if _looked_at(path, way, form)), options)


def _corpus(model: Path) -> dict[str, Any]:
    """What a model's study says of the files that it was trained on."""
    study = model / "study.toml"
    corpus: dict[str, Any] = (
        tomllib.loads(study.read_text(encoding="utf-8")).get("corpus", {}) if study.exists() else {}
    )
    return corpus


def _column(named: Column | list[Column]) -> Column | tuple[Column, ...]:
    return tuple(named) if isinstance(named, list) else named


def count_files(path: Path, form: str = "") -> int | None:
    """How many texts a folder holds, if that can be known before they are read."""
    return len(_texts(path)) or None if path.is_dir() and form in ("", "text") else None


def _piped(path: Path, problems: Problems, options: Options, form: str) -> Iterator[Placed]:
    """One plain text, unless another format is named."""
    if form in TWICE and not path.is_file():
        what = f"{form} cannot be read from a pipe"
        raise DataError(path, None, what, "name a file, or write one object per line and give --from jsonl")
    yield from FORMATS[form or "text"].read(path, problems, options)


def _folder(path: Path, problems: Problems, options: Options, form: str) -> Iterator[Placed]:
    texts = _texts(path)
    if form == "brat" or (not form and files_under(path, ".ann")):
        yield from FORMATS["brat"].read(path, problems, options)
        problems.counts.pop(BARE, None)  # they come now
        texts = [text for text in texts if not text.with_suffix(".ann").exists()]
    elif not texts and not form:
        yield from read_each(recognised(path, "", options.encoding, problems), problems, options)
        return
    elif not texts:
        raise DataError(path, None, "no .txt file in this folder", "name the folder that holds the notes")
    for text in texts:
        kind = FORMATS["text"] if form == "text" else _form(text, options)
        for placed in read_each([(text, kind)], problems, options):
            if kind.name != "text":
                yield placed
                continue
            name = text.relative_to(path).with_name(placed.document.id).as_posix()
            yield placed._replace(document=replace(placed.document, id=name))


def _form(path: Path, options: Options) -> Format:
    """What a `.txt` file is: a note, or what a tool has exported under such a name."""
    try:
        [(_, form)] = recognised(path, "", options.encoding)
    except DataError:  # no format, which for a note is as it should be
        return FORMATS["text"]
    # Tokens and tags stand in columns; a note of one line may end with what could be a tag.
    tagged = form.name == "conll" and "\t" in next(open_text(path, options.encoding), "")
    return form if tagged or form.name in EXPORTS else FORMATS["text"]


def _texts(folder: Path) -> list[Path]:
    return [path for path in files_under(folder, "") if path.name.casefold().endswith(PLAIN) and path.is_file()]

"""How the format of a file or folder is recognised.

    for path, form in recognised(Path("export/")): ...
    for placed in form.read(path, problems, Options()): ...

The content decides, by its keys and columns and never by its words; the name where it could be several things. A folder
with `.ann` files is BRAT's, one with `.con` files i2b2's; of any other folder each file is looked at by itself. What is
no annotated text is refused with what it seems to be.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from wardround.formats.bioc_json import is_bioc
from wardround.formats.cells import COMMA, DECLARED, delimiters, is_even, rows_of
from wardround.formats.doccano import is_doccano
from wardround.formats.fhir import is_fhir
from wardround.formats.header import KNOWN, USUAL
from wardround.formats.json_values import beginning, json_items, json_values
from wardround.formats.label_studio import is_min, is_task
from wardround.formats.omop import is_note_table
from wardround.formats.options import Options
from wardround.formats.plain import refuse_binary
from wardround.formats.pubtator import PART
from wardround.formats.register import FORMATS, Format
from wardround.text.document import Placed
from wardround.text.reading import DataError, Problems, files_under, text_blocks
from wardround.text.tags import split_tag

HEAD = 2**16
LINES = 200
KEYS = (
    ("bags", {"head": str, "relation": str, "sentences": list}),
    ("opennre", {"h": dict, "t": dict, "relation": str}),
    ("opennre", {"sentence": str, "head": dict, "tail": dict, "relation": str}),
)
"""What the first object of a format has under which keys."""
PROLOGUE = r"(?:\s|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*+(?:\[.*?\]\s*)?>)*+"
XML = re.compile(PROLOGUE + r"<(?=[A-Za-z?!])(collection\b)?", re.DOTALL)
ADE = re.compile(r"\d+\|[^|]+(\|[^|]+\|\d+\|\d+){2}")
"""A row of `DRUG-AE.rel`."""
JSON = re.compile(r'\[\s*[\[{"\]\d]|\{\s*["}]|[\[{]\s*$')

ENDINGS = {
    ".bio": "conll",
    ".bioes": "conll",
    ".conll": "conll",
    ".csv": "csv",
    ".iob": "conll",
    ".iob2": "conll",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".pubtator": "pubtator",
    ".tab": "tsv",
    ".tsv": "tsv",
}


def recognised(
    path: Path, wanted: str = "", encoding: str | None = None, problems: Problems | None = None
) -> list[tuple[Path, Format]]:
    """The file or files of a path with their formats; `wanted` names the format instead.

    Files of a folder that are in no format are refused, which with collected problems means that they are passed by.
    """
    collected = Problems() if problems is None else problems
    ending = FORMATS[wanted].folder if wanted else ""
    if not path.is_dir():
        if ending:
            raise DataError(path, None, "not a folder", f"name the folder that holds the .txt and {ending} files")
        if path.exists() and not path.is_file():  # looking at its beginning would take that away
            raise DataError(path, None, "a pipe, which can be read only once", "write it to a file first")
        return [(path, FORMATS[wanted or _format(path, encoding, skips=collected.skips)])]
    for form in FORMATS.values():
        if form.folder and (wanted == form.name or (not wanted and files_under(path, form.folder))):
            return [(path, form)]
    files = [file for file in files_under(path, "") if file.is_file()]
    if not files:
        raise DataError(path, None, "an empty folder", "name the folder or file that holds the notes")
    known = []
    for file in files:
        with collected.refusing():
            known.append((file, FORMATS[wanted or _format(file, encoding, skips=collected.skips)]))
    return known


def hospitals(folder: Path, files: Sequence[tuple[Path, Format]]) -> dict[Path, str]:
    """By file, the hospital that it is of: its name, where a folder holds several files of several notes each."""
    if len(files) < 2 or any(form.folder or form.name == "text" for _, form in files):
        return {}
    inside = {file: file.relative_to(folder) for file, _ in files}
    names = {file: path.name.removesuffix("".join(path.suffixes)) or path.name for file, path in inside.items()}
    if len({*names.values()}) == len(names):
        return names
    return {file: "-".join(path.with_suffix("").parts) for file, path in inside.items()}


def read_each(files: Iterable[tuple[Path, Format]], problems: Problems, options: Options) -> Iterator[Placed]:
    """The documents of these files, one file after the other."""
    for file, format_ in files:
        count = 0
        try:
            for placed in format_.read(file, problems, options):
                count += 1
                yield placed
        except DataError as error:
            if not problems.skips:
                raise
            rest = f", which ends the file after {count:,} documents" if count else ""
            problems.skip(DataError(error.path, error.line, error.what + rest, error.remedy))


def _format(path: Path, encoding: str | None, *, skips: bool) -> str:
    refuse_binary(path, encoding)
    text = next(text_blocks(path, encoding, "replace" if skips else "strict"), "")[:HEAD].lstrip("\ufeff \t\r\n")
    if not text:
        raise DataError(path, None, "the file is empty", "export it again")
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    by_name = ENDINGS.get(plain.suffix.casefold(), "")
    first, *more = re.split(r"\r\n|[\r\n]", text)
    lines = [first, *more[:LINES]]
    if tags := XML.match(text):
        if tags[1]:
            return "bioc"
        with suppress(DataError):  # a token may be a tag
            return _columns(path, lines, by_name)
        raise DataError(path, 1, "XML, but no BioC collection", "of XML formats only BioC is read")
    if JSON.match(text):
        if is_bioc(start := beginning(text)) or (isinstance(start, list) and start and is_bioc(start[0])):
            return "bioc-json"
        return _array(path, encoding) if text[0] == "[" else _first(path, encoding, lines, start, by_name)
    if PART.fullmatch(first):
        return "pubtator"
    return _columns(path, lines, by_name)


def _first(path: Path, encoding: str | None, lines: list[str], start: object, by_name: str) -> str:
    """The format of a file that begins with an object, of which the start may be all that there is."""
    value = start
    with suppress(DataError, RecursionError):
        value = next(json_values(path, encoding))[1]
    if is_task(value):
        return "label-studio"
    if isinstance(value, dict) and is_fhir(value):
        return "fhir"
    if is_bioc(value):
        return "bioc-json"
    return _objects(path, [json.dumps(value)] if lines[1:] == [] else lines, by_name)


def _array(path: Path, encoding: str | None) -> str:
    items = list(islice(json_items(path, encoding), LINES))
    for line, item in items[:1]:
        if isinstance(item, dict) and is_min(item):
            what = "this is Label Studio's JSON-MIN, which drops relations"
            raise DataError(path, line, what, 'export again and choose "JSON"')
        if isinstance(item, dict) and (isinstance(item.get("data"), dict) or is_task(item)):
            return "label-studio"
    objects = [item for _, item in items if isinstance(item, dict)]
    if form := _by_keys(objects):
        return form
    if objects and {"text", *USUAL["text"]} & {key.casefold() for key in objects[0]}:
        return "jsonl"
    what = "a JSON array, but neither of Label Studio's tasks nor of texts or pairs"
    raise DataError(path, 1, what, 'write objects: {"text": …, "entities": […]}, or with "label", or with "h" and "t"')


def _objects(path: Path, lines: Sequence[str], by_name: str) -> str:
    rows = []
    for line in lines:
        with suppress(ValueError, RecursionError):
            rows.append(json.loads(line))
    objects = [row for row in rows if isinstance(row, dict)]
    if any(map(is_fhir, objects)):
        return "fhir"
    if form := _by_keys(objects):
        return form
    if objects or by_name == "jsonl":
        return "jsonl"
    raise DataError(path, 1, "JSON over several lines", "write one object per line (JSONL)")


def _by_keys(objects: Sequence[dict[str, object]]) -> str:
    """The format whose keys these objects have, if there is one that shows by them."""
    for form, keys in KEYS:
        if objects and all(isinstance(objects[0].get(key), kind) for key, kind in keys.items()):
            return form
    if any(map(is_doccano, objects)):
        # Empty lists alone are also ours: what follows may show it.
        ours = any(isinstance(item, dict) and "start" in item for row in objects for item in _items(row))
        return "jsonl" if ours else "doccano"
    return ""


def _items(row: dict[str, object]) -> list[object]:
    items = row.get("entities")
    return items if isinstance(items, list) else []


def _columns(path: Path, lines: Sequence[str], by_name: str) -> str:
    rows = [line for line in lines if line.strip()]
    cells = [line.split("\t") if "\t" in line else line.split() for line in rows]
    tagged = sum(len(row) > 1 and bool(split_tag(row[-1].strip())[0]) for row in cells)
    by_tab = [line.split("\t") for line in rows]
    ended = [f"{line}\n" for line in rows]
    able = delimiters(ended, KNOWN)
    below = ended[1:] if DECLARED.fullmatch(ended[0]) else ended
    by_sign = rows_of(below, able[0] if len(able) == 1 else COMMA, strict=False)
    names = by_sign[0] if by_sign else []
    # Labels of texts may be B or O as well, but tokens have no blanks in them.
    texts = _header(by_tab[0]) and 2 * sum(any(" " in cell.strip() for cell in row) for row in by_tab) > len(rows)
    if by_name == "conll" or (tagged > 0.8 * len(rows) and not texts):
        return "conll"
    if by_name == "tsv" or (
        _header(by_tab[0]) and not (by_name == "csv" and _header(names)) and (by_name or is_even(by_tab))
    ):
        return "tsv"
    if by_name == "csv" or (_header(names) and (by_name or is_even(by_sign))):
        return "omop" if is_note_table(names) else "csv"
    if by_name:
        return by_name
    if ADE.fullmatch(lines[0]):
        remedy = 'a study has it by its name, name = "ade" in [corpus], in the folder WARDROUND_DATA'
        raise DataError(
            path, 1, "rows as those of the ADE corpus (ade_corpus_v2)", f"{remedy}: wardround settings corpus ade"
        )
    raise DataError(path, None, "no format recognised", f"name it with --from: {', '.join(FORMATS)}")


def _header(names: Sequence[str]) -> bool:
    """Whether one of several names is that of a text's column."""
    return len(names) > 1 and any(name.strip().casefold() in USUAL["text"] for name in names)

"""How the format of a file or folder is recognised.

    for path, form in recognised(Path("export/")): ...
    for placed in form.read(path, problems, Options()): ...

The content decides, the name where the content could be several things. A folder with `.ann` files is BRAT's, one with
`.con` files i2b2's; of any other folder each file is looked at by itself. What is no annotated text is refused with
what it seems to be.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from wardround.formats.doccano import is_doccano
from wardround.formats.fhir import is_fhir
from wardround.formats.json_values import json_items, json_values
from wardround.formats.label_studio import ANNOTATED, is_min, is_task
from wardround.formats.omop import is_note_table
from wardround.formats.options import Options
from wardround.formats.plain import refuse_binary
from wardround.formats.pubtator import PART
from wardround.formats.register import FORMATS, Format
from wardround.formats.tables import USUAL
from wardround.text.document import Placed
from wardround.text.reading import DataError, Problems, files_under, text_blocks
from wardround.text.tags import split_tag

HEAD = 2**16
LINES = 200
KEYS = (
    ("bags", {"head", "relation", "sentences"}),
    ("opennre", {"h", "t", "relation"}),
    ("opennre", {"sentence", "head", "tail", "relation"}),
)

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
    if text[0] == "<":
        if "<collection" in text:
            return "bioc"
        raise DataError(path, 1, "XML, but no BioC collection", "of XML formats only BioC is read")
    if text[0] == "[":
        return _array(path, encoding)
    if text[0] == "{":
        with suppress(DataError, RecursionError):
            value = next(json_values(path, encoding))[1]
            if is_task(value):
                return "label-studio"
            if not more:  # a line that goes on behind the head
                first = json.dumps(value)
        return _objects(path, [first, *more[:LINES]], by_name)
    if PART.fullmatch(first):
        return "pubtator"
    return _columns(path, [first, *more[:LINES]], by_name)


def _array(path: Path, encoding: str | None) -> str:
    items = list(islice(json_items(path, encoding), LINES))
    for line, item in items[:1]:
        if isinstance(item, dict) and is_min(item):
            what = "this is Label Studio's JSON-MIN, which drops relations"
            raise DataError(path, line, what, 'export again and choose "JSON"')
        if isinstance(item, dict) and {"data", *ANNOTATED} & item.keys():
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
    if any(map(is_fhir, objects)) or (not objects and '"resourceType"' in "".join(lines)):
        return "fhir"
    if form := _by_keys(objects):
        return form
    if any(map(_bioc, objects)) or (not objects and '"passages"' in "".join(lines)):
        raise DataError(path, 1, "BioC in JSON", "export it as BioC XML")
    if objects or by_name == "jsonl":
        return "jsonl"
    raise DataError(path, 1, "JSON over several lines", "write one object per line (JSONL)")


def _bioc(row: dict[str, object]) -> bool:
    return any(isinstance(row.get(key), list) for key in ("documents", "passages"))


def _by_keys(objects: Sequence[dict[str, object]]) -> str:
    """The format whose keys these objects have, if there is one that shows by them."""
    for form, keys in KEYS:
        if objects and keys <= objects[0].keys():
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
    if tagged > 0.8 * len(rows) or by_name == "conll":
        return "conll"
    first = rows[0]
    names = next(csv.reader([first]), [])
    if by_name == "tsv" or (_header(first.split("\t")) and not (by_name == "csv" and _header(names))):
        return "tsv"
    if by_name == "csv" or _header(names):
        return "omop" if is_note_table(names) else "csv"
    if by_name:
        return by_name
    raise DataError(path, None, "no format recognised", f"name it with --from: {', '.join(FORMATS)}")


def _header(names: Sequence[str]) -> bool:
    return len(names) > 1 and any(name.strip().casefold() in USUAL["text"] for name in names)

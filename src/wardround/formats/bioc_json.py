"""BioC in JSON, as PubTator 3, PubMed Central and the `bioc` package give it; what it means: `bioc_meaning`.

    {"documents": [{"id": "17", "passages": [{"offset": 0, "text": "Aspirin gave her a rash.", "annotations": [
      {"id": "T1", "infons": {"type": "drug"}, "text": "Aspirin", "locations": [{"offset": 0, "length": 7}]}, …],
      "relations": [{"id": "R1", "infons": {"type": "causes"}, "nodes": [{"refid": "T1", "role": "head"}, …]}]}]}]}

A file is a collection, an array of collections (PubMed Central) or of documents, documents one after the other, or
`{"PubTator3": […]}`. A document at a time is held. The value of an infon may be more than a string: truth values and
numbers are kept as strings, a list has several values, and an object is kept as JSON, but for one that names a concept
(PubTator 3's `role1`), which becomes what the same infon is in XML: `Chemical|MESH:D003000`. What else such an object
says, and keys that BioC does not have, have no place, which is counted.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wardround.formats.bioc_meaning import document_of, plain_document
from wardround.formats.json_values import json_nested, listed, string, whole
from wardround.formats.options import Options
from wardround.formats.writing import Sink, text_file
from wardround.text.document import Document, Placed
from wardround.text.reading import LONGEST_LINE, DataError, Problems
from wardround.text.shown import line_of

LISTS = ("documents", "PubTator3")
BELOW = {"document": ("passage", "annotation", "relation"), "passage": ("sentence", "annotation", "relation"),
         "sentence": ("annotation", "relation"), "annotation": ("location",), "relation": ("node",)}  # fmt: skip
VALUES = {
    "document": ("id", "bioctype", "_id"), "passage": ("offset", "text", "bioctype"),
    "sentence": ("offset", "text", "bioctype"), "annotation": ("id", "text"), "relation": ("id",),
    "location": ("offset", "length"), "node": ("refid", "role"),
}  # fmt: skip
SHAPE = '{"documents": [{"id": …, "passages": [{"offset": 0, "text": …, "annotations": […]}]}]}'
UNKNOWN = "key that BioC does not have, ignored"
ROLE = "what an infon says of a concept besides its id and type, ignored"


def is_bioc(row: object) -> bool:
    """Whether an object is a collection or a document, going by what stands where, however much of it is there."""
    if not isinstance(row, dict) or isinstance(row.get("text"), str):
        return False
    lists = [value for name in LISTS if isinstance(value := row.get(name), list)]
    return _is_document(row) or any(not one or _is_document(one[0]) for one in lists)


def _is_document(row: object) -> bool:
    if not isinstance(row, dict) or not isinstance(passages := row.get("passages"), list):
        return False
    first = passages[0] if passages else {"offset": 0}
    return isinstance(first, dict) and bool({"offset", "infons"} & first.keys())


@dataclass(frozen=True, slots=True)
class _Object:
    """An object, as `bioc_meaning` looks at it."""

    kind: str
    members: Mapping[str, Any]
    path: Path
    line: int
    problems: Problems

    def value(self, name: str) -> str | None:
        """A string, or a whole number, as ids and offsets are."""
        value = self.members.get(name)
        if value is None:
            return None
        plain = str(value) if type(value) in (int, float) and name != "text" else value
        return string(plain, name, self.path, self.line, self.problems)

    def infons(self) -> list[tuple[str, str]]:
        """Keys and values."""
        infons = self.members.get("infons")
        if not isinstance(infons, dict | None):
            what = f'"infons" is a {type(infons).__name__}'
            raise DataError(self.path, self.line, what, 'write {"type": "drug"}')
        return [(whole(key), self._infon(value)) for key, value in (infons or {}).items() if value not in (None, [])]

    def _infon(self, value: object) -> str:
        if isinstance(value, list):
            return json.dumps([self._one(one) for one in value], ensure_ascii=False)
        return self._one(value)

    def _one(self, value: object) -> str:
        if isinstance(value, dict) and isinstance(value.get("identifier"), str):
            if value.keys() - {"identifier", "type"}:
                self.problems.note(ROLE, self.path, self.line)
            return whole("|".join(str(value[key]) for key in ("type", "identifier") if value.get(key)))
        return whole(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))

    def children(self, kind: str) -> list["_Object"]:
        """Those in its own list of a kind."""
        made = []
        for item in listed(self.members, f"{kind}s", self.path, self.line):
            if not isinstance(item, dict):
                what = f"a JSON {type(item).__name__} among {kind}s"
                raise DataError(self.path, self.line, what, f"write an object for each {kind}")
            made.append(_Object(kind, item, self.path, self.line, self.problems))
        return made

    def within(self, kind: str) -> list["_Object"]:
        """The same and those of its passages and sentences."""
        below = [part for name in ("passage", "sentence") if name in BELOW[self.kind] for part in self.children(name)]
        inner = [one for part in below for one in part.within(kind)]
        return [*inner, *(self.children(kind) if kind in BELOW[self.kind] else ())]

    def ignored(self) -> None:
        """Count the keys that nothing is read from, here and below."""
        if self.kind != "document" and "passages" in self.members:
            raise DataError(self.path, self.line, "a passage within a passage", "a passage has one plain text")
        for kind in BELOW.get(self.kind, ()):
            for part in self.children(kind):
                part.ignored()
        known = {"infons", *VALUES[self.kind], *(f"{kind}s" for kind in BELOW.get(self.kind, ()))}
        for _ in (key for key, value in self.members.items() if key not in known and value not in (None, "", [], {})):
            self.problems.note(UNKNOWN, self.path, self.line)


def read_bioc_json(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The documents of a file."""
    before = 1
    for number, (at, item) in enumerate(json_nested(path, options.encoding, LISTS), 1):
        name = item.get("id") if isinstance(item, dict) else None
        line, before = line_of(at, "document", "" if name is None else str(name), number, before), at
        with problems.refusing():
            if not isinstance(item, dict) or not isinstance(item.get("passages"), list):
                raise DataError(path, line, "not a document of BioC's", f"write {SHAPE}")
            yield Placed(_document(item, number, path, line, problems, options), path, line)


def _document(
    item: Mapping[str, Any], number: int, path: Path, line: int, problems: Problems, options: Options
) -> Document:
    document = _Object("document", item, path, line, problems)
    try:
        document.ignored()
        return document_of(document, number, path, line, problems, options)
    except RecursionError:
        raise DataError(path, line, "JSON with lists too deep", "copy or export the file again") from None


@contextmanager
def write_bioc_json(path: Path, losses: Problems, _options: Options) -> Iterator[Sink]:
    """A collection with one passage per document, and a line for each."""
    with text_file(path) as write:
        write('{"bioctype": "BioCCollection", "source": "wardround", "date": "", "key": "wardround.key",')
        write(' "version": "1.0", "infons": {}, "documents": [')
        between = "\n"

        def sink(placed: Placed) -> None:
            nonlocal between
            plain = plain_document(placed, losses, str)
            [passage] = plain["passages"]
            made = {**plain, "bioctype": "BioCDocument", "passages": [{**passage, "bioctype": "BioCPassage"}]}
            line = json.dumps(made, ensure_ascii=False)
            if len(line) > LONGEST_LINE:
                what = f"a document longer than {LONGEST_LINE:,} characters"
                raise DataError(placed.path, placed.line or 1, what, "cut it into notes")
            write(between + line)
            between = ",\n"

        yield sink
        write("\n]}\n")

"""What JSON files hold, one value at a time: a file of a gigabyte takes the memory of its largest item.

for line, item in json_items(path): ...                       # one large array
for line, item in json_values(path): ...                      # an array, or values one after the other
for line, row in json_lines(path, None, problems, SHAPE): ...  # an object per line, or an array of objects
for line, item in json_nested(path, None, {"documents"}): ...  # the items of an object's list
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from wardround.text.json_text import RepeatedKey, parse_json, unrepeated
from wardround.text.reading import BLOCK, LONGEST_LINE, DataError, Problems, open_text, text_blocks
from wardround.text.shown import line_of

BLANK = re.compile(r"[ \t\r\n]*+")
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|["\[\]{},]', re.DOTALL)
CLOSED = {"[": "]", "{": "}"}
AGAIN = "copy or export the file again"
TOO_LONG = f"an item longer than {LONGEST_LINE:,} characters"
NEAR = 12  # an error so near to what is read may only mean that the rest is still to come


class _Held:
    """What is read of a text and not yet used."""

    def __init__(self, path: Path, encoding: str | None) -> None:
        self.blocks, self.text, self.at, self.line = text_blocks(path, encoding), "", 0, 1

    def more(self, size: int = 0) -> bool:
        """Read on, until there are so many characters if that can be."""
        parts = [self.text[self.at :]]
        held = len(parts[0])
        for block in self.blocks:
            parts.append(block)
            held += len(block)
            if block and held >= size:
                break
        grown = held > len(parts[0])
        self.text, self.at = "".join(parts), 0
        return grown

    def go(self, place: int) -> None:
        """Use what stands before this place."""
        self.line += self.text.count("\n", self.at, place)
        self.at = place

    def next(self) -> str:
        """The next character that is not blank, or nothing at the end."""
        while True:
            blank = BLANK.match(self.text, self.at)
            self.go(blank.end() if blank else self.at)
            if self.at < len(self.text) or not self.more():
                return self.text[self.at : self.at + 1]


def json_items(path: Path, encoding: str | None = None) -> Iterator[tuple[int, object]]:
    """Line and value of each item of the array that the file is."""
    held = _Held(path, encoding)
    if held.next() != "[":
        raise DataError(path, held.line, "not a JSON array", "the file must begin with [")
    yield from _only_array(held, path, _value)


def json_values(path: Path, encoding: str | None = None) -> Iterator[tuple[int, object]]:
    """Line and value of each item of an array, or of values one after the other, on one line each or on several."""
    return json_nested(path, encoding, ())


def json_nested(path: Path, encoding: str | None, lists: Collection[str]) -> Iterator[tuple[int, object]]:
    """The same; of an object with a list of one of these names the items of that list, and nothing else."""
    held = _Held(path, encoding)

    def each(held: _Held, path: Path) -> Iterator[tuple[int, object]]:
        return _members(held, path, lists) if lists and held.next() == "{" else _value(held, path)

    if held.next() == "[":
        yield from _only_array(held, path, each)
        return
    while held.next():
        yield from each(held, path)


Each = Callable[[_Held, Path], Iterator[tuple[int, object]]]


def _value(held: _Held, path: Path) -> Iterator[tuple[int, object]]:
    line = held.line
    value, end = _decoded(held, path)
    held.go(end)
    yield line, value


def _only_array(held: _Held, path: Path, each: Each) -> Iterator[tuple[int, object]]:
    """What there is of each item of an array that is all of its file."""
    yield from _array(held, path, each)
    if held.next():
        raise DataError(path, held.line, "something follows the JSON array", "one array per file")


def _array(held: _Held, path: Path, each: Each) -> Iterator[tuple[int, object]]:
    """What there is of each item."""
    held.go(held.at + 1)
    if held.next() == "]":
        held.go(held.at + 1)
        return
    mark = ","
    while mark == ",":
        held.next()
        yield from each(held, path)
        mark = held.next()
        if mark not in (",", "]"):
            what = "the file ends within its array" if not mark else "not JSON: no comma between two items"
            raise DataError(path, held.line, what, AGAIN)
        held.go(held.at + 1)


def _members(held: _Held, path: Path, lists: Collection[str]) -> Iterator[tuple[int, object]]:
    """The items of an object's lists, or the object if it has none of them."""
    line, size, wrapped, members, mark = held.line, 0, False, dict[str, object](), ","
    held.go(held.at + 1)
    if held.next() == "}":
        mark = "}"
        held.go(held.at + 1)
    while mark == ",":
        if held.next() != '"':
            raise DataError(path, held.line, "not JSON: no key where one should stand", AGAIN)
        [(_, key)] = _value(held, path)
        if str(key) in members:
            raise DataError(path, held.line, str(RepeatedKey()), AGAIN)
        if held.next() != ":":
            raise DataError(path, held.line, "not JSON: no colon behind a key", AGAIN)
        held.go(held.at + 1)
        if key in lists and held.next() == "[":
            wrapped = True
            members[str(key)] = None
            yield from _array(held, path, _value)
        else:
            held.next()
            value, end = _decoded(held, path)
            if (size := size + len(str(key)) + end - held.at) > LONGEST_LINE:
                raise DataError(path, held.line, TOO_LONG, AGAIN)
            held.go(end)
            members[str(key)] = value
        mark = held.next()
        if mark not in (",", "}"):
            what = "the file ends within an object" if not mark else "not JSON: no comma between two members"
            raise DataError(path, held.line, what, AGAIN)
        held.go(held.at + 1)
    if not wrapped:
        yield line, members


def beginning(head: str) -> object:
    """What the beginning of a JSON value holds: all that ends within it, as if the brackets closed there."""
    opened, cut = list[str](), 0
    for token in TOKEN.finditer(head):
        mark = token[0]
        if mark in CLOSED:
            opened.append(CLOSED[mark])
        elif opened and mark == opened[-1]:
            opened.pop()
        elif mark == "," and opened:
            cut = token.start()
            continue
        elif len(mark) > 1:  # a string
            continue
        else:  # a string that goes on behind the beginning, or no JSON
            break
        cut = token.end()
        if not opened:
            break
    try:
        return json.loads(head[:cut] + "".join(reversed(opened)))
    except (ValueError, RecursionError):
        return None


def _decoded(held: _Held, path: Path) -> tuple[object, int]:
    decoder = json.JSONDecoder(object_pairs_hook=unrepeated)
    while True:
        try:
            value, end = decoder.raw_decode(held.text, held.at)
        except json.JSONDecodeError as error:
            size = len(held.text) - held.at
            cut = error.msg.startswith("Unterminated") or error.pos > len(held.text) - NEAR
            if cut and size <= LONGEST_LINE and held.more(max(2 * size, BLOCK)):
                continue
            line = held.line + held.text.count("\n", held.at, error.pos)
            what = f"not JSON: {error.msg}" if size <= LONGEST_LINE else TOO_LONG
        except RepeatedKey as error:
            line, what = held.line, str(error)
        except (ValueError, RecursionError):
            line, what = held.line, "JSON with a number too long or lists too deep"
        else:
            if isinstance(value, int | float) and end > len(held.text) - NEAR:  # it may go on behind what is read
                end -= held.at
                if held.more():
                    continue
            return value, end
        raise DataError(path, line, what, AGAIN)


def json_lines(
    path: Path, encoding: str | None, problems: Problems, wanted: str
) -> Iterator[tuple[int, dict[str, object]]]:
    """Number and object of each line that is not blank, or of each item of an array.

    Of items that share a line, the number also says which one is meant.
    """
    for line, value in _lines(path, encoding, problems):
        with problems.refusing():
            row = parse_json(value, path, line) if isinstance(value, str) else value
            if not isinstance(row, dict):
                raise DataError(path, line, f"a JSON {type(row).__name__}", f"write one object per line: {wanted}")
            yield line, row


def _lines(path: Path, encoding: str | None, problems: Problems) -> Iterator[tuple[int, object]]:
    """What is in each line, not yet parsed; of an array, its items."""
    if not is_array(path, encoding):
        lines = enumerate(open_text(path, encoding, problems=problems, skip=problems.skip), 1)
        yield from ((line, text) for line, text in lines if text.strip())
        return
    before = 1
    for number, (at, item) in enumerate(json_items(path, encoding), 1):
        line, before = line_of(at, "item", "", number, before), at
        yield line, json.dumps(item) if isinstance(item, str) else item


def is_array(path: Path, encoding: str | None) -> bool:
    """Whether a file begins as an array of objects; a pipe, which can be read only once, has lines."""
    if not path.is_file():
        return False
    return re.match(r"\s*\[\s*\{", next(text_blocks(path, encoding, "replace"), "").lstrip("\ufeff")) is not None


def string(value: object, name: str, path: Path, line: int, problems: Problems) -> str:
    """The value if it is a string; half a character pair (a cut emoji) becomes U+FFFD, which keeps offsets true."""
    if not isinstance(value, str):
        what = f'no "{name}"' if value is None else f'"{name}" is a {type(value).__name__}'
        raise DataError(path, line, what, "it must be a string")
    text = whole(value)
    if text != value:
        problems.note("half a character, replaced by U+FFFD", path, line)
    return text


def whole(text: str) -> str:
    """The text with U+FFFD for half a character, which no encoding can write."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def listed(row: Mapping[str, object], name: str, path: Path, line: int) -> list[object]:
    """The list under a name; an empty one if there is none."""
    value = row.get(name)
    if value is not None and not isinstance(value, list):
        raise DataError(path, line, f'"{name}" is a {type(value).__name__}', "it must be a list")
    return value or []

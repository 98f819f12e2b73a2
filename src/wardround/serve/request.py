"""What a request asks, checked key by key.

    request(b'{"text": "Aspirin gave her a rash"}').documents          # or Refused
    request(b'{"texts": [{"text": "…"}, {"text": "…"}]}').documents

Rule of this file: a refusal names the key and what was wanted, and never quotes what was sent.
"""

import json
import re
from email.message import Message
from typing import Any, NamedTuple

from wardround.text.document import Document, Entity
from wardround.text.reading import nearest

KEYS, ENTITY_KEYS, MANY = ("text", "entities"), ("type", "start", "end"), "texts"
UTF8 = "utf-8"
CHARSETS = {
    UTF8: "utf-8-sig", "utf8": "utf-8-sig", "us-ascii": "ascii", "utf-16": "", "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be", "utf-32": "", "utf-32le": "utf-32-le", "utf-32be": "utf-32-be",
    "iso-8859-1": "latin-1", "windows-1252": "cp1252",
}  # fmt: skip
"""Names that a Content-Type may give, and Python's; with an empty one the body's first bytes tell the order."""
ENTITIES = 2_000
"""At most so many in a text: every two of them may be looked at."""
LONE = re.compile(r"[\ud800-\udfff]")


class Refused(Exception):
    """A request that gets no prediction: the answer's status, a code for programs, and words for people."""

    def __init__(self, status: int, code: str, message: str, key: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.key = status, code, key

    def plain(self) -> dict[str, Any]:
        """The answer's body."""
        error = {"code": self.code, "message": str(self)}
        return {"error": {**error, "key": self.key} if self.key else error}


class Asked(NamedTuple):
    """The texts of a request, and whether it came with a list of them."""

    documents: tuple[Document, ...]
    many: bool


def charset_of(content_type: str) -> str:
    """The charset that a Content-Type names, UTF-8 if none; an error if it is not that of JSON."""
    header = Message()
    header["Content-Type"] = content_type
    if not content_type or header.get_content_type() != "application/json":
        raise Refused(415, "wrong_content_type", "send the text as JSON, with Content-Type: application/json")
    charset = (header.get_content_charset() or UTF8).casefold().replace("_", "-")
    if charset not in CHARSETS:
        raise Refused(415, "wrong_charset", f"this charset is not taken; send UTF-8, or one of {', '.join(CHARSETS)}")
    return charset


def request(body: bytes, charset: str = UTF8) -> Asked:
    """The texts of a request's body, with the entities that they bring."""
    try:
        sent = json.loads(body.decode(CHARSETS[charset] or json.detect_encoding(body)))
    except UnicodeDecodeError as error:
        code = "not_utf8" if error.encoding == UTF8 else "not_in_charset"
        raise Refused(422, code, f"the body is not {charset.upper()} at byte {error.start}") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise Refused(422, "not_json", f"the body is not JSON: {error.msg} at {where}") from None
    except (ValueError, RecursionError):
        raise Refused(422, "not_json", "the body is JSON with numbers too long or lists too deep") from None
    if not isinstance(sent, dict) or MANY not in sent:
        return Asked((_document(sent, ""),), many=False)
    _keys(sent, (MANY,), "")
    listed = _typed(sent, MANY, list, "")
    return Asked(tuple(_document(one, f"{MANY}[{at}]") for at, one in enumerate(listed)), many=True)


def _document(sent: Any, where: str) -> Document:
    _keys(sent, KEYS, where)
    text = _typed(sent, "text", str, where)
    if lone := LONE.search(text):
        what = f"has half of a surrogate pair at character {lone.start()}; send valid Unicode"
        raise _wrong(_inside(where, "text"), what)
    listed = _typed(sent, "entities", list, where) if "entities" in sent else []
    within = _inside(where, "entities")
    if len(listed) > ENTITIES:
        raise _wrong(within, f"may have {ENTITIES:,} entities")
    return Document("", text, entities=tuple(_entity(one, at, text, within) for at, one in enumerate(listed)))


def _entity(sent: Any, at: int, text: str, within: str) -> Entity:
    where = f"{within}[{at}]"
    _keys(sent, ENTITY_KEYS, where)
    kind = _typed(sent, "type", str, where)
    start, end = (_typed(sent, key, int, where) for key in ("start", "end"))
    if not kind or LONE.search(kind):
        raise _wrong(f"{where}.type", "must name a type")
    if not 0 <= start < end <= len(text):
        raise _wrong(where, f"must have 0 ≤ start < end ≤ {len(text)}, the text's length in characters (code points)")
    return Entity(str(at), kind, start, end)


def _keys(sent: Any, known: tuple[str, ...], where: str) -> None:
    if not isinstance(sent, dict):
        raise _wrong(where, f"must be an object with the keys {', '.join(known)}")
    for key in sent.keys() - set(known):
        close = nearest(key, known)  # a key itself may be a note's: of what is sent, nothing is sent back
        remedy = f"did you mean {close}?" if close else f"use {', '.join(known)}"
        raise Refused(
            422, "unknown_key", f"{where or 'the body'} has an unknown key of {len(key)} characters; {remedy}"
        )


def _typed(sent: dict[str, Any], key: str, kind: type, where: str) -> Any:
    full = _inside(where, key)
    if key not in sent:
        raise Refused(422, "missing_key", f"{full} is missing", full)
    if not isinstance(sent[key], kind) or isinstance(sent[key], bool):
        words = {str: "a string", int: "an integer", list: "a list"}
        raise _wrong(full, f"must be {words[kind]}")
    return sent[key]


def _inside(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _wrong(key: str, what: str) -> Refused:
    return Refused(422, "wrong_value", f"{key or 'the body'} {what}", key)

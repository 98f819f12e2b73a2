"""What a request asks, checked key by key.

    request(b'{"text": "Aspirin gave her a rash"}')       # a Document, or Refused

Rule of this file: a refusal names the key and what was wanted, and never quotes what was sent.
"""

import json
import re
from typing import Any

from wardround.text.document import Document, Entity
from wardround.text.reading import nearest

KEYS, ENTITY_KEYS = ("text", "entities"), ("type", "start", "end")
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


def request(body: bytes) -> Document:
    """The text of a request's body, with the entities that it brings."""
    try:
        sent = json.loads(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Refused(422, "not_utf8", f"the body is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise Refused(422, "not_json", f"the body is not JSON: {error.msg} at {where}") from None
    except (ValueError, RecursionError):
        raise Refused(422, "not_json", "the body is JSON with numbers too long or lists too deep") from None
    _keys(sent, KEYS, "")
    text = _typed(sent, "text", str, "")
    if lone := LONE.search(text):
        raise _wrong("text", f"has half of a surrogate pair at character {lone.start()}; send valid Unicode")
    listed = _typed(sent, "entities", list, "") if "entities" in sent else []
    return Document("", text, entities=tuple(_entity(one, at, text) for at, one in enumerate(listed)))


def _entity(sent: Any, at: int, text: str) -> Entity:
    where = f"entities[{at}]"
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
    full = f"{where}.{key}" if where else key
    if key not in sent:
        raise Refused(422, "missing_key", f"{full} is missing", full)
    if not isinstance(sent[key], kind) or isinstance(sent[key], bool):
        words = {str: "a string", int: "an integer", list: "a list"}
        raise _wrong(full, f"must be {words[kind]}")
    return sent[key]


def _wrong(key: str, what: str) -> Refused:
    return Refused(422, "wrong_value", f"{key or 'the body'} {what}", key)

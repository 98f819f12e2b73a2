"""JSON as users' files have it: errors tell where, not what stands there, and nothing is dropped in silence.

value = parse_json(line, path, 7)
"""

import json
from pathlib import Path

from wardround.text.reading import DataError


class RepeatedKey(ValueError):
    """A key stands twice in a JSON object."""

    def __str__(self) -> str:
        return "a key occurs twice in a JSON object"


def unrepeated(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object, or an error where a key stands twice: Python's own keeps the last of them in silence."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise RepeatedKey
    return made


def parse_json(text: str, path: Path | str, line: int | None) -> object:
    """The value of one JSON text; an error tells the position, not what stands there."""
    where = ""
    try:
        value: object = json.loads(text, object_pairs_hook=unrepeated)
    except json.JSONDecodeError as error:
        where = f"not JSON at character {error.pos + 1}: {error.msg}"
    except RepeatedKey as error:
        where = str(error)
    except (ValueError, RecursionError):
        where = "JSON with a number too long or lists too deep"
    else:
        return value
    raise DataError(path, line, where, "write one valid JSON value")

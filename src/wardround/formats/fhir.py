"""FHIR (R4): the texts of DocumentReferences, in Bundles, alone, or one resource per line (`.ndjson`).

    {"resourceType": "DocumentReference", "id": "17", "status": "current", "subject": {"reference": "Patient/4"},
     "content": [{"attachment": {"contentType": "text/plain; charset=UTF-8", "data": "QXNwaXJpbiBnYXZlIGEgcmFzaA=="}}]}

Text attachments are read, with the charset that they name; a `hash` is checked. What stands elsewhere is read if it is
a Binary of the same Bundle or a contained one, and never fetched. Other attachments and resources, and what was
entered in error, are left out and counted. Of two texts of one DocumentReference the second has `-2` behind its id. The
subject is the patient, the custodian the source. How findings are written: `trained/fhir_findings.py`.
"""

import base64
import binascii
import codecs
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from email.message import Message
from pathlib import Path
from typing import Any

from wardround.formats.json_values import json_lines, whole
from wardround.formats.options import Options
from wardround.text.document import Document, Placed
from wardround.text.json_text import parse_json
from wardround.text.reading import DataError, Problems, text_blocks
from wardround.text.shown import line_of, unnamed

SHAPE = '{"resourceType": "DocumentReference", "content": [{"attachment": {"contentType": "text/plain", "data": …}}]}'
KIND, REFERENCE = "resourceType", "DocumentReference"
ERROR = "entered-in-error"
NO_TEXT = "attachment that is not plain text, left out"
ELSEWHERE = "attachment that stands elsewhere, not fetched"
OTHER = "resource that is not a DocumentReference, ignored"
LOST = "DocumentReference that was entered in error, left out"
MOST = 64 * 2**20  # characters of a resource that stands on several lines, which is held in memory as a whole
PYTHONS = frozenset({"unicode-escape", "unicode_escape", "raw-unicode-escape", "raw_unicode_escape"})
"""Codecs of Python's that are no charsets."""
Resource = Mapping[str, Any]


def read_fhir(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The texts of a file, whatever is wrapped around them."""
    for line, resource in _resources(path, problems, options.encoding):
        for document in _documents(resource, path, line, problems, options):
            yield Placed(document, path, line)


def is_fhir(row: Mapping[str, object]) -> bool:
    """Whether an object is a resource, or what there is of one; the `text` of a resource is an object."""
    if isinstance(row.get("text"), str):
        return False
    entry = _dicts(row.get("entry"))[:1]
    first = row if KIND in row or not entry else entry[0].get("resource")
    kind = first.get(KIND) if isinstance(first, dict) else None
    return isinstance(kind, str) and re.fullmatch("[A-Z][A-Za-z]+", kind) is not None


def _resources(path: Path, problems: Problems, encoding: str | None) -> Iterator[tuple[int, Resource]]:
    """One per line, or one over all lines."""
    if _by_line(path, encoding):
        yield from json_lines(path, encoding, problems, SHAPE)
        return
    parts, size = [], 0
    for part in text_blocks(path, encoding):
        parts.append(part)
        if (size := size + len(part)) > MOST:
            what = f"one resource of more than {MOST:,} characters"
            raise DataError(path, 1, what, "export it as one resource per line (.ndjson), which is read piece by piece")
    value = parse_json("".join(parts), path, 1)
    if not isinstance(value, dict):
        raise DataError(path, 1, f"a JSON {type(value).__name__}", f"one resource, or one per line: {SHAPE}")
    yield 1, value


def _by_line(path: Path, encoding: str | None) -> bool:
    """Whether the first line is an object by itself."""
    head = next(text_blocks(path, encoding), "").lstrip("\ufeff \t\r\n")
    first, end, _ = head.partition("\n")
    if not end:  # one line, or the beginning of a long one
        return True
    try:
        json.loads(first)
    except ValueError:
        return False
    except RecursionError:  # told by whoever reads the line
        return True
    return True


def _documents(
    resource: Resource, path: Path, line: int, problems: Problems, options: Options, beside: Resource | None = None
) -> Iterator[Document]:
    """Those of a resource; `beside` has the Binaries of its Bundle."""
    kind = resource.get(KIND)
    if kind == "Bundle":
        entries = [one for one in _dicts(resource.get("entry")) if isinstance(one.get("resource"), dict)]
        binaries = dict(_binaries(entries))
        for number, entry in enumerate(entries, 1):
            own = entry["resource"]
            ours = own.get(KIND) == REFERENCE
            name = str(own.get("id") or "") if ours else ""  # a Patient's is nobody's business
            place = line_of(line, REFERENCE if ours else "entry", name, number, line)
            yield from _documents(own, path, place, problems, options, binaries)
    elif kind != REFERENCE:
        if kind != "Binary":
            problems.note(OTHER, path, line)
    elif ERROR in (resource.get("status"), resource.get("docStatus")):
        problems.note(LOST, path, line)
    else:
        with problems.refusing():
            yield from _texts(resource, path, line, problems, options, beside or {})


def _binaries(entries: Sequence[Resource]) -> Iterator[tuple[str, Resource]]:
    for entry in entries:
        resource = entry["resource"]
        if resource.get(KIND) == "Binary":
            yield f"Binary/{resource.get('id')}", resource
            yield str(entry.get("fullUrl")), resource


def _texts(
    resource: Resource, path: Path, line: int, problems: Problems, options: Options, beside: Resource
) -> Iterator[Document]:
    name = whole(str(resource.get("id") or unnamed(path.name, line)))
    own = {f"#{one.get('id')}": one for one in _dicts(resource.get("contained"))}
    number = 0
    for content in _dicts(resource.get("content")):
        attachment = content.get("attachment")
        if not isinstance(attachment, dict):
            continue
        url = str(attachment.get("url") or "")
        held = attachment if "data" in attachment else own.get(url) or beside.get(url) or {}
        header = Message()
        header["Content-Type"] = whole(str(attachment.get("contentType") or held.get("contentType") or ""))
        if header.get_content_type() != "text/plain" or not header["Content-Type"]:
            problems.note(NO_TEXT, path, line)
        elif "data" not in held:
            problems.note(ELSEWHERE, path, line)
        else:
            number += 1
            yield Document(
                name if number == 1 else f"{name}-{number}",
                _text(held, attachment.get("hash"), header.get_content_charset() or "utf-8", path, line),
                source=_referred(resource.get("custodian")),
                language=whole(str(attachment.get("language") or resource.get("language") or ""))[:2].casefold()
                or options.language,
                patient=_referred(resource.get("subject")),
            )
    if not number:
        problems.note("DocumentReference without a text, left out", path, line)


def _text(held: Resource, digest: object, charset: str, path: Path, line: int) -> str:
    """What an attachment says; an error if it is not what it claims to be, without a word of it."""
    try:
        data = _unpacked(held["data"])
        own = hashlib.sha1(data, usedforsecurity=False).digest()
        if digest is not None and (not isinstance(digest, str) or _unpacked(digest) != own):
            raise DataError(path, line, "an attachment's hash is not that of its data", "export it again")
        known = charset if codecs.lookup(charset).name not in PYTHONS else "undefined"
        return whole(data.decode(known).removeprefix("\ufeff"))
    except binascii.Error:
        raise DataError(path, line, "an attachment's data are not base64", "export it again") from None
    except UnicodeDecodeError as error:
        what = f"an attachment is not {charset} at byte {error.start}"
        raise DataError(path, line, what, "name its charset: contentType = text/plain; charset=…") from None
    except (LookupError, ValueError) as error:  # of names such as idna or "utf\0"
        if isinstance(error, DataError):
            raise
        raise DataError(path, line, "an attachment's charset is not known", "write its text in UTF-8") from None


def _unpacked(value: object) -> bytes:
    """What base64 stands for; FHIR allows blanks and line breaks in it."""
    if not isinstance(value, str):
        raise binascii.Error
    return base64.b64decode("".join(value.split()).encode("ascii", "replace"), validate=True)


def _referred(value: object) -> str:
    """Whom a reference means: its address, or else the identifier."""
    if not isinstance(value, dict):
        return ""
    identifier = value.get("identifier")
    own = identifier.get("value") if isinstance(identifier, dict) else ""
    return whole(str(value.get("reference") or own or ""))


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []

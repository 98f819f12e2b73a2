"""Whether an annotation tool gives back what a model found just as it was written for it.

    row["found"] = findings_mark(document)                      # goes along where the tool keeps what it does not know
    if row.get("found") == findings_mark(exported): ...         # nobody has changed anything

doccano keeps it as metadata, BRAT in the notes on annotations. Neither says whether somebody has looked at a text and
agreed: what is unchanged may be confirmed or not, and whoever merges it has to say so. The text is in the mark, blanks
aside, so a mark that was copied to another document, or whose text was changed, says nothing. So is what people add
where a tool lets them: attributes, concepts and gaps in BRAT, but not what doccano only carries along (`bare`).
"""

from dataclasses import replace

from wardround.text.document import Document, Entity
from wardround.text.reading import digest

UNTOUCHED = "found by a model and not changed since, so nobody may have looked at it"


def findings_mark(document: Document) -> str:
    """Sixteen digits that stand for text, labels, entities and relations, whatever their ids and order."""
    text = document.text
    spans = {
        one.id: (one.type, _parts(one, text), sorted(one.attributes), sorted(one.concepts)) for one in document.entities
    }
    links = [(one.type, spans[one.head], spans[one.tail], sorted(one.attributes)) for one in document.relations]
    annotations = (sorted(document.labels), sorted(spans.values()), sorted(links))
    return digest(repr(("".join(text.split()), annotations))).hex()


def bare(document: Document) -> Document:
    """The document without what an annotation tool can only carry along: attributes, concepts and gaps."""
    entities = tuple(replace(one, attributes=(), concepts=(), parts=()) for one in document.entities)
    return replace(
        document, entities=entities, relations=tuple(replace(one, attributes=()) for one in document.relations)
    )


def _parts(entity: Entity, text: str) -> list[tuple[int, int]]:
    """Where it stands; a gap of blanks is none, for BRAT makes one of a line's end."""
    parts: list[tuple[int, int]] = []
    for start, end in sorted(entity.parts) or [(entity.start, entity.end)]:
        if parts and not text[parts[-1][1] : start].strip():
            parts[-1] = parts[-1][0], max(end, parts[-1][1])
        else:
            parts.append((start, end))
    return parts

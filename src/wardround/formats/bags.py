"""Bags, as `wardround align` writes them: a line per pair and relation, with its sentences.

    {"head": "D1", "relation": "causes", "tail": "D2", "head_type": "drug", "tail_type": "effect",
     "sentences": [{"text": "Aspirin gave her a rash.", "head": [0, 7], "tail": [19, 23], "source": "ward b"}, …]}

`head` and `tail` are public ids, and in a sentence start and end of the mention. Types may be left out, and so may the
`id`, `source`, `patient` and `language` of a sentence, and whether the relation is truly `expressed` there.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from wardround.formats.json_values import json_lines, string, whole
from wardround.formats.options import Options
from wardround.text.document import Entity, Placed, overlap
from wardround.text.facts import BagSentence, sentence
from wardround.text.reading import DataError, Problems
from wardround.text.shown import unnamed

SHAPE = (
    '{"head": "D1", "relation": "causes", "tail": "D2", "sentences": [{"text": …, "head": [0, 7], "tail": [9, 12]}]}'
)


def read_bags(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The sentences of a file, bag by bag."""
    for line, row in json_lines(path, options.encoding, problems, SHAPE):
        with problems.refusing():
            head, relation, tail = (
                string(row.get(key), key, path, line, problems) for key in ("head", "relation", "tail")
            )
            sentences = row.get("sentences")
            if not isinstance(sentences, list):
                raise DataError(path, line, 'no list "sentences"', SHAPE)
            if not sentences:
                problems.note("bag without a sentence", path, line)
            kinds = [whole(str(row.get(key) or "ENTITY")) for key in ("head_type", "tail_type")]
            for at, item in enumerate(sentences, 1):
                if not isinstance(item, dict):
                    raise DataError(path, line, f"sentence {at} is a {type(item).__name__}", SHAPE)
                text = string(item.get("text"), "text", path, line, problems)
                spans = _span(item.get("head"), text), _span(item.get("tail"), text)
                if spans[0] is None or spans[1] is None:
                    problems.note("mention outside the text, sentence left out", path, line)
                    continue
                ends = (Entity(head, kinds[0], *spans[0]), Entity(tail, kinds[1], *spans[1]))
                if overlap(*ends):
                    problems.note("entities overlap, sentence left out", path, line)
                    continue
                expressed = item.get("expressed")
                made = sentence(
                    whole(str(item.get("id") or f"{unnamed(path.name, line)}:{at}")), text, *ends, relation,
                    source=whole(str(item.get("source") or "")), patient=whole(str(item.get("patient") or "")),
                    language=whole(str(item.get("language") or options.language)),
                    expressed=expressed if isinstance(expressed, bool) else None,
                )  # fmt: skip
                yield Placed(made, path, line)


def _span(value: object, text: str) -> tuple[int, int] | None:
    if not isinstance(value, list) or len(value) != 2 or not all(type(edge) is int for edge in value):
        return None
    start, end = value
    return (start, end) if 0 <= start < end <= len(text) else None


def write_bags(rows: Iterable[BagSentence]) -> Iterator[str]:
    """The lines of a file of bags, in the order in which the bags first appear."""
    bags: dict[tuple[str, str, str], list[BagSentence]] = {}
    for row in rows:
        fact = row.fact
        bags.setdefault((fact.head, fact.relation, fact.tail), []).append(row)
    for (head, relation, tail), mine in bags.items():
        kinds = [entity.type for entity in mine[0].entities]
        sentences = [
            {
                "id": row.id,
                "text": row.text,
                "head": [row.entities[0].start, row.entities[0].end],
                "tail": [row.entities[1].start, row.entities[1].end],
                "source": row.source,
                "language": row.language,
                **({"patient": row.patient} if row.patient else {}),
            }
            for row in mine
        ]
        whole = {"head": head, "relation": relation, "tail": tail, "head_type": kinds[0], "tail_type": kinds[1]}
        yield json.dumps({**whole, "sentences": sentences}, ensure_ascii=False)

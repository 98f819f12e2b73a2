"""Label Studio's export "JSON": an array of tasks with their annotations.

    [{"id": 1, "data": {"text": "Aspirin gave her a rash."}, "annotations": [{"result": [
        {"id": "a", "type": "labels", "value": {"start": 0, "end": 7, "text": "Aspirin", "labels": ["drug"]}}, …,
        {"type": "relation", "from_id": "a", "to_id": "b", "direction": "right", "labels": ["causes"]}]}]}]

Its other exports do not do: JSON-MIN drops relations (HumanSignal/label-studio#1803), CoNLL shifts labels (#556).
Of several annotations of a task the ground truth counts, else the first that was not cancelled; the others are left out
and counted. `choices` become labels. A region with two labels becomes two entities; a relation both ways becomes two.
Label Studio counts UTF-16 units, of which an emoji has two; where the words of the regions say that characters were
counted, these are taken.
The text is the value of `text` among the data, or of the only string there.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from wardround.formats.json_values import json_items, string
from wardround.formats.offsets import Annotation, Offsets
from wardround.formats.options import Options
from wardround.formats.writing import Named, Sink, text_file
from wardround.text.document import Document, Placed
from wardround.text.reading import DataError, Problems, nearest
from wardround.text.shown import quoted

__all__ = ["is_min", "read_label_studio", "write_label_studio"]

TASK = '{"id": 1, "data": {"text": …}, "annotations": […]}'
LINKED = "relation"
"""The type of relations that carry no label."""


def is_min(item: Mapping[str, object]) -> bool:
    """Whether this is a task of the export JSON-MIN."""
    return "data" not in item and "annotations" not in item and bool({"annotation_id", "annotator"} & item.keys())


def read_label_studio(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The tasks of a file, each a document."""
    for line, item in json_items(path, options.encoding):
        if isinstance(item, dict) and is_min(item):
            what = "this is Label Studio's JSON-MIN, which drops relations"
            raise DataError(path, line, what, 'export again and choose "JSON"')
        with problems.refusing():
            if not isinstance(item, dict) or not isinstance(item.get("data"), dict):
                raise DataError(path, line, "not a task of Label Studio's", f"write {TASK}")
            yield Placed(_document(item, path, line, problems, options), path, line)


def _document(task: Mapping[str, object], path: Path, line: int, problems: Problems, options: Options) -> Document:
    data = task["data"]
    assert isinstance(data, dict)  # noqa: S101 -- the caller has looked
    text = string(data[_key(data, options, path, line)], "text", path, line, problems)
    mentions: list[Annotation] = []
    names = Named("#")
    links: list[tuple[str, str, str]] = []
    labels: list[str] = []
    for result in _results(task, path, line, problems):
        with problems.refusing():
            _add(result, mentions, names, links, labels, path, line, problems)
    offsets = Offsets(text, path, problems, options.fix_offsets, options.show_text)
    entities = tuple(offsets.entities(offsets.counted(mentions, "UTF-16 units")))
    given = data.get("id", task.get("id"))
    source, language = (str(data.get(key) or "") for key in ("source", "language"))
    return Document(
        str(given) if given is not None else f"{path.name}:{line}",
        text,
        tuple(labels),
        entities,
        tuple(offsets.relations(links, mentions, entities, line, "region")),
        source,
        language or options.language,
    )


def _key(data: Mapping[str, object], options: Options, path: Path, line: int) -> str:
    strings = [key for key, value in data.items() if isinstance(value, str)]
    wanted = str(options.text or "text")
    if wanted in strings:
        return wanted
    if len(strings) == 1 and not options.text:
        return strings[0]
    close = nearest(wanted, strings)
    remedy = f'did you mean "{close}"?' if close else "name the key that holds the text"
    raise DataError(path, line, f'no text "{wanted}" among the data of a task', remedy)


def _results(task: Mapping[str, object], path: Path, line: int, problems: Problems) -> Iterator[dict[str, object]]:
    """What the annotation that counts says."""
    listed = task.get("annotations", [])
    filled = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    valid = [item for item in filled if not item.get("was_cancelled")]
    if not valid:
        problems.note("task without an annotation", path, line)
        return
    for _ in valid[1:]:
        problems.note("second annotation of a task, left out", path, line)
    results = next((item for item in valid if item.get("ground_truth")), valid[0]).get("result")
    for item in results if isinstance(results, list) else []:
        if isinstance(item, dict):
            yield item


def _add(
    result: Mapping[str, object],
    mentions: list[Annotation],
    names: Named,
    links: list[tuple[str, str, str]],
    labels: list[str],
    path: Path,
    line: int,
    problems: Problems,
) -> None:
    kind = result.get("type")
    value = result.get("value")
    if kind == "relation":
        ends = str(result.get("from_id", "")), str(result.get("to_id", ""))
        types = _words(result.get("labels"), "labels of a relation", path, line, problems) or [LINKED]
        for name in types:
            if result.get("direction") != "left":
                links.append((name, *ends))
            if result.get("direction") in ("left", "bi"):
                links.append((name, ends[1], ends[0]))
    elif kind == "choices" and isinstance(value, dict):
        labels += _words(value.get("choices"), "choices", path, line, problems)
    elif kind in ("labels", "hypertextlabels") and isinstance(value, dict):
        types = _words(value.get(str(kind)), "labels", path, line, problems)
        span = value.get("globalOffsets", value)
        start, end = (span.get("start"), span.get("end")) if isinstance(span, dict) else (None, None)
        name = str(result.get("id", ""))
        if type(start) is not int or type(end) is not int:
            raise DataError(path, line, f"region {quoted(name)} has no start and end", "only plain text can be read")
        if not types:
            raise DataError(path, line, f"region {quoted(name)} has no label", "label or remove it")
        words = value.get("text")
        for word in types:
            mine = names.unique(name or f"T{len(mentions) + 1}")
            mentions.append(Annotation(mine, word, ((start, end),), words if isinstance(words, str) else None, line))
    else:
        problems.note("result of another kind than labels, choices and relations, ignored", path, line)


def _words(value: object, name: str, path: Path, line: int, problems: Problems) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise DataError(path, line, f'"{name}" is a {type(value).__name__}', "it must be a list")
    return [string(item, name, path, line, problems) for item in value]


@contextmanager
def write_label_studio(path: Path, _losses: Problems, _options: Options) -> Iterator[Sink]:
    """An array of tasks as Label Studio imports and exports them; nothing is lost."""
    with text_file(path) as write:
        count = 0

        def sink(placed: Placed) -> None:
            nonlocal count
            count += 1
            write(("[\n" if count == 1 else ",\n") + json.dumps(_task(placed.document, count), ensure_ascii=False))

        yield sink
        write("\n]\n" if count else "[]\n")


def _task(document: Document, number: int) -> dict[str, object]:
    at = {"from_name": "label", "to_name": "text"}
    units = [len(document.text[: entity.start].encode("utf-16-le")) // 2 for entity in document.entities]
    results: list[dict[str, object]] = []
    for entity, start in zip(document.entities, units, strict=True):
        words = document.text[entity.start : entity.end]
        end = start + len(words.encode("utf-16-le")) // 2
        value = {"start": start, "end": end, "text": words, "labels": [entity.type]}
        results.append({"id": entity.id, "type": "labels", **at, "value": value})
    results += [
        {"type": "relation", "from_id": one.head, "to_id": one.tail, "direction": "right", "labels": [one.type]}
        for one in document.relations
    ]
    if document.labels:
        value = {"choices": list(document.labels)}
        results.append({"id": "labels", "type": "choices", "from_name": "class", "to_name": "text", "value": value})
    extra = {key: value for key in ("source", "language") if (value := getattr(document, key))}
    data = {"id": document.id, "text": document.text, **extra}
    return {"id": number, "data": data, "annotations": [{"id": number, "result": results, "was_cancelled": False}]}

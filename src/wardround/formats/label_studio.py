"""Label Studio's export "JSON": an array of tasks with their annotations, or one task to a file.

    [{"id": 1, "data": {"text": "Aspirin gave her a rash."}, "annotations": [{"result": [
        {"id": "a", "type": "labels", "value": {"start": 0, "end": 7, "text": "Aspirin", "labels": ["drug"]}}, …,
        {"type": "relation", "from_id": "a", "to_id": "b", "direction": "right", "labels": ["causes"]}]}]}]

Its other exports do not do: JSON-MIN drops relations (HumanSignal/label-studio#1803), CoNLL shifts labels (#556). What
it puts into a cloud's storage does: an annotation to a file, with its task inside. So do exports of versions before 1.0
and of Annotation Lab, where annotations are called completions and the ground truth a honeypot. Of several annotations
of a task the ground truth counts, else the first that was not cancelled; the others are left out and counted. `choices`
of the whole text become labels. What is said of one region (choices, taxonomies, text areas, numbers, ratings, dates,
all under the region's id) becomes attributes of its entity, under the name of the control; a control called `concept`
or `identifier` gives concept ids. A region with two labels becomes two entities, each with the region's attributes and
relations; a relation both ways becomes two. Attributes of relations and gaps of entities go into the task's data, which
come back as they were (see `details`).
What a model found is written as `predictions`, with its scores and the model's name; only what a person has confirmed
is read, and a task that nobody has annotated is a text for whoever asks for no more, but no example to learn from.
Label Studio counts UTF-16 units, of which an emoji has two; where the words of the regions say that characters were
counted, these are taken.
The text is the value of `text` among the data, or of the only string there.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate, product
from pathlib import Path
from typing import Any

from wardround.formats.details import attribute_values, details, details_of, with_details
from wardround.formats.doccano import METADATA
from wardround.formats.json_values import json_values, string, whole
from wardround.formats.offsets import Annotation, Offsets
from wardround.formats.options import Options
from wardround.formats.writing import Named, Sink, repeatable, text_file
from wardround.text.document import Document, Placed
from wardround.text.reading import DataError, Problems, nearest
from wardround.text.shown import line_of, quoted, unnamed

TASK = '{"id": 1, "data": {"text": …}, "annotations": […]}'
LINKED = "relation"
"""The type of relations that carry no label."""
ANSWERS = {
    "choices": "choices", "datetime": "datetime", "number": "number", "rating": "rating", "taxonomy": "taxonomy",
    "textarea": "text",
}  # fmt: skip
"""Controls that can ask about one region, and under which key their answer stands."""
LABELS = 20  # of one region, each of which has all its relations
OWN = frozenset({"id", "source", "patient", "language", "details"})
"""What of a task's data is read besides its text."""
ANNOTATED = ("annotations", "completions")
WHOLE_TEXT = "/text()[1]"
"""Where a region is whose text has no markup."""
OTHER = "result of another kind than labels, choices and relations, ignored"


def is_min(item: Mapping[str, object]) -> bool:
    """Whether this is a task of the export JSON-MIN."""
    named = "annotation_id" in item or isinstance(item.get("annotator"), int)
    return "data" not in item and "annotations" not in item and named


def is_task(item: object) -> bool:
    """Whether this is a task with annotations, or an annotation with its task."""
    if not isinstance(item, dict):
        return False
    if isinstance(item.get("task"), dict) and "result" in item:
        return isinstance(item["task"].get("data"), dict)
    return isinstance(item.get("data"), dict) and bool({*ANNOTATED, "predictions"} & item.keys())


def read_label_studio(path: Path, problems: Problems, options: Options) -> Iterator[Placed]:
    """The tasks of a file, each a document."""
    before = 1
    for number, (at, item) in enumerate(json_values(path, options.encoding), 1):
        task = _whole(item)
        name = task.get("id") if isinstance(task, dict) else None
        line, before = line_of(at, "task", "" if name is None else str(name), number, before), at
        if isinstance(item, dict) and is_min(item):
            what = "this is Label Studio's JSON-MIN, which drops relations"
            raise DataError(path, line, what, 'export again and choose "JSON"')
        with problems.refusing():
            if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
                raise DataError(path, line, "not a task of Label Studio's", f"write {TASK}")
            document = _document(task, path, line, problems, options)
            unseen = not _annotations(task)  # nobody has said that there is nothing in it
            if not unseen or not options.needs:
                yield Placed(document, path, line, unseen=unseen)


def _whole(item: object) -> object:
    """A task with its annotation, of an annotation with its task."""
    if isinstance(item, dict) and "data" not in item and is_task(item):
        return item["task"] | {"annotations": [item]}
    return item


@dataclass
class _Answers:
    """What an annotation says, result by result: regions come by their ids, in whatever order."""

    path: Path
    line: int
    problems: Problems
    regions: dict[str, list[Annotation]] = field(default_factory=dict)
    """By region, an entity for each of its labels."""
    links: list[tuple[str, str, str]] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    answers: list[tuple[str, str, Mapping[str, object]]] = field(default_factory=list)
    """Answers about regions or the whole text: the region's id, the kind of the control, the result."""
    about: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """By region, names and values of attributes."""
    names: Named = field(default_factory=lambda: Named("#"))
    count: int = 0
    """Of the entities so far."""

    def mentions(self) -> list[Annotation]:
        """The entities with what is said of their regions, once all results are in."""
        for region, kind, result in self.answers:
            with self.problems.refusing():
                self._answer(region, kind, result)
        made = {region: details(self.about.get(region, ())) for region in self.regions}
        return [
            replace(one, concepts=made[region][0], attributes=made[region][1])
            for region, listed in self.regions.items()
            for one in listed
        ]

    def _answer(self, region: str, kind: str, result: Mapping[str, object]) -> None:
        value = result["value"]
        assert isinstance(value, dict)  # noqa: S101 -- looked at in add
        if region in self.regions:
            name = whole(str(result.get("from_name") or kind))
            self.about.setdefault(region, []).extend((name, one) for one in self._values(value.get(ANSWERS[kind])))
        elif "start" in value:
            self.problems.note("answer about a region that is not there, left out", self.path, self.line)
        elif kind == "choices":
            self.labels += self._words(value.get("choices"), "choices")
        else:
            self.problems.note(OTHER, self.path, self.line)

    def related(self) -> Iterator[tuple[str, str, str]]:
        """The relations between entities: those of a region are those of each of its labels."""
        for kind, head, tail in self.links:
            ends = [[one.id for one in self.regions.get(end, ())] or [end] for end in (head, tail)]
            yield from ((kind, one, other) for one, other in product(*ends))

    def add(self, result: Mapping[str, object]) -> None:
        """One more result."""
        kind, value = str(result.get("type")), result.get("value")
        if kind == "relation":
            ends = whole(str(result.get("from_id", ""))), whole(str(result.get("to_id", "")))
            types = self._words(result.get("labels"), "labels of a relation") or [LINKED]
            for name in types:
                if result.get("direction") != "left":
                    self.links.append((name, *ends))
                if result.get("direction") in ("left", "bi"):
                    self.links.append((name, ends[1], ends[0]))
        elif kind in ("labels", "hypertextlabels") and isinstance(value, dict):
            labels = value.get(kind, value.get("htmllabels"))
            self._region(result, value, self._words(labels, "labels"))
        elif kind in ANSWERS and isinstance(value, dict):
            self.answers.append((whole(str(result.get("id", ""))), kind, result))
        else:
            self.problems.note(OTHER, self.path, self.line)

    def _region(self, result: Mapping[str, object], value: Mapping[str, object], types: list[str]) -> None:
        span = value.get("globalOffsets", value)
        start, end = (span.get("start"), span.get("end")) if isinstance(span, dict) else (None, None)
        if start == end == WHOLE_TEXT:
            start, end = value.get("startOffset"), value.get("endOffset")
        name, path, line = whole(str(result.get("id", ""))), self.path, self.line
        if type(start) is not int or type(end) is not int:
            raise DataError(path, line, f"region {quoted(name)} has no start and end", "only plain text can be read")
        if not types:
            raise DataError(path, line, f"region {quoted(name)} has no label", "label or remove it")
        words = value.get("text")
        region = name or f"T{self.count + 1}"
        listed = self.regions.setdefault(region, [])
        if listed and listed[0].parts != ((start, end),):
            raise DataError(path, line, f"two regions {quoted(name)}", "ids must differ within a task")
        if len(listed) + len(types) > LABELS:
            raise DataError(path, line, f"region {quoted(name)} has more than {LABELS} labels", "is it a list of all?")
        for number, word in enumerate(types, 1):
            mine = self.names.unique(name or f"T{self.count + number}")
            listed.append(Annotation(mine, word, ((start, end),), words if isinstance(words, str) else None, line))
        self.count += len(types)
        meta = result.get("meta")
        values = self._values(meta.get("text") if isinstance(meta, dict) else None)
        self.about.setdefault(region, []).extend(("meta", one) for one in values)

    def _words(self, value: object, name: str) -> list[str]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise DataError(self.path, self.line, f'"{name}" is a {type(value).__name__}', "it must be a list")
        return [string(item, name, self.path, self.line, self.problems) for item in value]

    def _values(self, value: object) -> Iterator[str]:
        """The values of an answer; those of a taxonomy are paths."""
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, list):
                yield " > ".join(self._words(one, "taxonomy"))
            elif isinstance(one, int | float) and not isinstance(one, bool):
                yield str(one)
            elif one is not None:
                yield string(one, "value", self.path, self.line, self.problems)


def _document(task: Mapping[str, object], path: Path, line: int, problems: Problems, options: Options) -> Document:
    data = task["data"]
    assert isinstance(data, dict)  # noqa: S101 -- the caller has looked
    key = _key(data, options, path, line)
    text = string(data[key], "text", path, line, problems)
    annotation = _Answers(path, line, problems)
    for result in _counting(task, path, line, problems):
        with problems.refusing():
            annotation.add(result)
    mentions = annotation.mentions()
    offsets = Offsets(text, path, problems, options.fix_offsets, options.show_text)
    entities = tuple(offsets.entities(offsets.counted(mentions, "UTF-16 units")))
    named = {meaning: options.key(meaning, data) for meaning in ("id", "source", "patient")}
    for _ in data.keys() - {key, *named.values(), *OWN}:
        problems.note(METADATA, path, line)
    given = data.get(named["id"], task.get("id"))
    source, patient, language = (
        whole(str(data.get(key) or "")) for key in (named["source"], named["patient"], "language")
    )
    document = Document(
        whole(str(given)) if given is not None else unnamed(path.name, line),
        text,
        tuple(annotation.labels),
        entities,
        tuple(offsets.relations(annotation.related(), mentions, entities, line, "region")),
        source,
        language or options.language,
        patient,
    )
    return with_details(document, data.get("details"), path, line, problems)


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


def _annotations(task: Mapping[str, object]) -> list[dict[str, object]]:
    """What people have said of a task and not taken back."""
    listed = next((task[name] for name in ANNOTATED if task.get(name)), [])
    filled = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    return [item for item in filled if not item.get("was_cancelled")]


def _counting(task: Mapping[str, object], path: Path, line: int, problems: Problems) -> Iterator[dict[str, object]]:
    """What the annotation that counts says."""
    valid = _annotations(task)
    if not valid:
        only = " but with predictions, which nobody has confirmed" if task.get("predictions") else ""
        problems.note(f"task without an annotation{only}", path, line)
        return
    for _ in valid[1:]:
        problems.note("second annotation of a task, left out", path, line)
    truth = (item for item in valid if item.get("ground_truth") or item.get("honeypot"))
    results = next(truth, valid[0]).get("result")
    if not isinstance(results, list | None):
        raise DataError(path, line, f'"result" is a {type(results).__name__}', "it must be a list")
    for item in results or []:
        if isinstance(item, dict):
            yield item
        else:
            problems.note(OTHER, path, line)


@contextmanager
def write_label_studio(path: Path, _losses: Problems, _options: Options) -> Iterator[Sink]:
    """An array of tasks as Label Studio imports and exports them; nothing is lost."""
    with text_file(path) as write, label_studio_array(write) as add:
        yield lambda placed: add(repeatable(placed))


@contextmanager
def label_studio_array(write: Callable[[str], object]) -> Iterator[Callable[[Document], None]]:
    """A function that adds a document to an array of tasks."""
    count = 0

    def add(document: Document) -> None:
        nonlocal count
        count += 1
        write(("[\n" if count == 1 else ",\n") + json.dumps(_task(document, count), ensure_ascii=False))

    yield add
    write("\n]\n" if count else "[]\n")


def _task(document: Document, number: int) -> dict[str, object]:
    more = {key: getattr(document, key) for key in ("source", "patient", "language")}
    more["details"] = details_of(document, ["parts"])
    data = {"id": document.id, "text": document.text} | {key: value for key, value in more.items() if value}
    results = _results(document)
    scores = [one["score"] for one in results if "score" in one]
    if not document.model and not scores:
        annotation = {"id": number, "result": results, "was_cancelled": False}
        return {"id": number, "data": data, "annotations": [annotation]}
    prediction = {"model_version": document.model or "a model", **_score(min(scores, default=None)), "result": results}
    return {"id": number, "data": data, "predictions": [prediction]}


def _results(document: Document) -> list[dict[str, Any]]:
    """What is said of a document, result by result: entities with what is said of each, relations, labels."""
    made: list[dict[str, Any]] = []
    units = [0, *accumulate(1 + (char > "\uffff") for char in document.text)]
    for entity in document.entities:
        words = document.text[entity.start : entity.end]
        span = {"start": units[entity.start], "end": units[entity.end]}
        region = {"id": entity.id, "to_name": "text"}
        value: dict[str, object] = {**span, "text": words, "labels": [entity.type]}
        made.append({**region, "type": "labels", "from_name": "label", "value": value, **_score(entity.confidence)})
        for name, chosen in attribute_values(entity.attributes).items():
            value = {**span, "text": words, "choices": [chosen] if isinstance(chosen, str) else chosen}
            made.append({**region, "type": "choices", "from_name": name, "value": value})
        if entity.concepts:
            value = {**span, "text": list(entity.concepts)}
            made.append({**region, "type": "textarea", "from_name": "concept", "value": value})
    made += [
        {"type": "relation", "from_id": one.head, "to_id": one.tail, "direction": "right", "labels": [one.type]}
        | _score(one.confidence)
        for one in document.relations
    ]
    if document.labels:
        value = {"choices": list(document.labels)}
        answer = {"id": "labels", "type": "choices", "from_name": "class", "to_name": "text", "value": value}
        made.append(answer | _score(min(document.confidence, default=None)))
    return made


def _score(confidence: float | None) -> dict[str, Any]:
    return {} if confidence is None else {"score": confidence}

"""A look at annotated texts before anything is trained on them: what is there, and every problem.

    survey = check(Path("export.json"), Options(), task=TASKS["relation"]())
    survey.counts()          # for machines; no note text, and labels only where they look like labels

Readers that would stop at the first error are given `Findings` instead, which collects all of them; what a reader
leaves out is *lost*, what it repairs or only finds odd is not.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from wardround.formats.bioc_json import UNKNOWN
from wardround.formats.conll import TOKEN
from wardround.formats.kinds import KINDS, Kinds
from wardround.formats.leaks import Leaks
from wardround.formats.options import VIEWS, Options
from wardround.formats.phi import REMEDY, Finder, looks_like
from wardround.formats.recognise import recognised
from wardround.formats.register import Format
from wardround.formats.remedies import NEARLY, REMEDIES
from wardround.formats.repeats import Texts
from wardround.formats.splits import splits_in
from wardround.formats.unread import headless, unread
from wardround.text.document import Document, Entity, Placed, Relation
from wardround.text.language import language
from wardround.text.reading import DataError, Problems, digest, near_digest
from wardround.text.sentences import Scope, sentences
from wardround.text.shown import NOT_SHOWN, code, names_of, text_is_shown

NUMBER = re.compile(r"\b[A-Z]?\d[\d,]*\b")
MOST = 10_000  # findings of which the places are kept
LOSES = re.compile(r"left out|skipped|dropped|ignored|taken from first to last|replaced by|entity longer")
HARMLESS = frozenset(
    {"empty sentence, left out", "empty token, left out", "invisible characters, left out of the word"}
)
EMPTY = "export it again, or have some set aside: wardround data split"
NO_PLACE = "infon of a passage, ignored", "infon of a document, ignored", UNKNOWN
"""What BioC files hold that has no place here: it stays in them."""


class Checks(Protocol):
    """What the settings of a task say of documents before anything is trained on them."""

    takes: ClassVar[str | None]
    """Which view of the documents it takes."""

    def check(self, placed: Placed, problems: Problems, scope: Scope) -> None:
        """Note what the task would leave out of a document, its pairs being those within `scope`."""

    def lacks(self, survey: Any) -> Iterator[tuple[str, str]]:
        """What a whole survey lacks for the task, each with a remedy."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem: where, what, what to do, and whether something would be lost."""

    file: str
    line: int | None
    what: str
    remedy: str
    lost: bool

    @property
    def group(self) -> tuple[str, str]:
        """The same for findings that differ in nothing but numbers, and are shown together."""
        return NUMBER.sub("0", self.what), NUMBER.sub("0", self.remedy)


class Findings(Problems):
    """Problems of every kind, with all their places."""

    def __init__(self, *, skips: bool = False) -> None:
        super().__init__()
        self.skips = skips
        self.skipped: list[Finding] = []
        self.listed: list[Finding] = []
        self.lost = self.total = self.refused = 0
        """Of all, how many would be lost, and at how many of these a run would stop."""
        self.sizes = Counter[tuple[str, str]]()
        """How many of each group there are, listed or not."""

    def note(self, kind: str, path: Path | str, line: int) -> None:
        """One more of this kind."""
        super().note(kind, path, line)
        lost = bool(LOSES.search(kind)) and kind not in HARMLESS
        self.add(path, line, kind, REMEDIES.get(kind, ""), lost=lost)

    def refuse(self, error: DataError) -> None:
        """What a reader cannot take is lost, and reading goes on."""
        if self.skips:
            self.skipped.append(Finding(str(error.path), error.line, error.what, error.remedy, lost=False))
            return
        self.refused += 1
        self.add(error.path, error.line, error.what, error.remedy, lost=True)

    def skip(self, error: DataError) -> None:
        """What ends a file ends reading, unless it is skipped."""
        if not self.skips:
            raise error
        self.refuse(error)

    def mention(self, path: Path, what: str, remedy: str) -> None:
        """What is only odd, about the whole."""
        self.add(path, None, what, remedy, lost=False)

    def mention_all(self, path: Path, odd: Iterable[tuple[str, str]]) -> None:
        """The same of several, each with a remedy."""
        for what, remedy in odd:
            self.mention(path, what, remedy)

    def mention_each(self, odd: Iterable[tuple[Path, int, str, str]]) -> None:
        """The same of lines."""
        for path, line, what, remedy in odd:
            self.add(path, line, what, remedy, lost=False)

    def add(self, path: Path | str, line: int | None, what: str, remedy: str, *, lost: bool) -> None:
        """One more of any kind."""
        finding = Finding(str(path), line, what, remedy, lost)
        self.lost += lost
        self.total += 1
        self.sizes[finding.group] += 1
        if len(self.listed) < MOST:
            self.listed.append(finding)


@dataclass
class Survey(Kinds):
    """What was counted, and what was found."""

    formats: Counter[str] = field(default_factory=Counter)
    characters: int = 0
    sentences: int = 0
    tokens: int = 0
    unlabelled: int = 0
    attributes: Counter[str] = field(default_factory=Counter)
    concepts: int = 0
    discontinuous: int = 0
    predicted: int = 0
    """Documents that a model has annotated."""
    duplicates: int = 0
    languages: Counter[str] = field(default_factory=Counter)
    sources: set[bytes] = field(default_factory=set)
    sourceless: int = 0
    """Documents that name no source."""
    findings: Findings = field(default_factory=Findings)
    unreadable: str = ""
    """Why reading ended before the end, if it did."""

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let a file that cannot be read end here, as a finding; the first of them is kept."""
        try:
            yield
        except DataError as error:
            self.unreadable = self.unreadable or str(error)
            self.findings.refuse(error)

    def counts(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "formats": dict(self.formats),
            "documents": self.documents,
            "characters": self.characters,
            "sentences": self.sentences,
            "tokens": self.tokens,
            "sources": len(self.sources),
            "duplicates": self.duplicates,
            "unlabelled": self.unlabelled,
            **{name: named(getattr(self, name)) for name in (*KINDS, "attributes")},
            "concepts": self.concepts,
            "discontinuous": self.discontinuous,
            "predicted": self.predicted,
            "languages": dict(self.languages.most_common()),
            "unreadable": self.unreadable,
        }


def named(counts: Counter[str]) -> dict[str, int]:
    """Counts by name, the largest first, and last those that might be of a note (see `shown`)."""
    names = names_of(counts)
    by_name = {name: count for name, count in counts.items() if name in names}
    hidden = counts.total() - sum(by_name.values())
    return dict(sorted(by_name.items(), key=lambda item: (-item[1], item[0]))) | ({NOT_SHOWN: hidden} if hidden else {})


def check(
    path: Path, options: Options, *, task: Checks | None = None, form: str = "", phi: bool = False,
    finder: Finder | None = None, learns: bool = True, known: Collection[str] = (),
) -> Survey:  # fmt: skip
    """Read everything under a path and count it; with `phi`, also what looks as if it named somebody.

    What training calls its labels or types is `known` to be a name, however seldom it occurs here.
    """
    survey, texts = Survey(), Texts[_Seen](near_digest)
    findings, view = survey.findings, task.takes if task else None
    options = replace(options, needs=("entities",) if view in ("entities", "pairs") else ())
    files: list[tuple[Path, Format]] = []
    read = Counter[Path]()
    splits, trained = splits_in(path) if path.is_dir() else {}, Kinds()
    both = task if {"train", "test"} <= splits.keys() else None
    with survey.reading():
        files = recognised(path, form, options.encoding, findings)
    read.update(dict.fromkeys((file for file, _ in files), 0))
    survey.again = lambda: _again(files, options)
    trained.again = lambda: _again([one for one in files if splits["train"] in (one[0], *one[0].parents)], options)
    for file, format_ in files:
        survey.formats[format_.name] += 1
        learnt = trained if splits.get("train") in (file, *file.parents) else Kinds()  # which nobody reads
        if view in VIEWS and view not in format_.holds:
            what = f"{format_.name} has no place for {VIEWS[view]}, which the task takes"
            findings.refuse(DataError(file, None, what, "convert it to jsonl and add them"))
        with survey.reading():  # the next file is looked at whatever is wrong with this one
            findings.mention_all(file, unread(file, options, format_.name))
            for placed in format_.read(file, findings, options):
                _count(survey, placed)
                read[file] += 1
                learnt.take(placed)
                texts.add(placed.document, file, _seen(placed, file), pair=format_.ready is not None)
                if task is not None:
                    task.check(placed, findings, format_.usual.get("scope", "sentence"))
                for kind, start in looks_like(placed.document.text, finder) if phi else ():
                    findings.add(placed.path, placed.line_at(start), kind, REMEDY, lost=False)
    findings.mention_each(headless(((file, format_.name) for file, format_ in files), options))
    leaks = Leaks(splits)
    _count_repeats(survey, leaks, texts, pairs=None if view is None else view == "pairs")
    if not survey.unreadable:
        unlike = [*survey.unlike(options.label, known)]
        for what, remedy in (*_wanting(survey, task if learns else None), *(() if text_is_shown() else unlike)):
            findings.refuse(DataError(path, None, what, remedy))
        findings.mention_all(path, unlike if text_is_shown() else ())
        for place, what, remedy in _wanting_by_split(survey, trained, both, splits, read):
            findings.refuse(DataError(place, None, what, remedy))
        findings.mention_all(path, (*survey.alike(), *(survey.alone() if view is None else ())))
        findings.mention_each(survey.mistyped())
        findings.mention_each(survey.like_notes(view) if view in VIEWS else ())
        findings.mention_all(path, (*leaks.found(), *_untrained(survey, trained, both)))
        if survey.predicted:
            what = f"documents that a model has annotated, and nobody has confirmed: {survey.predicted:,}"
            findings.mention(path, what, "have a person correct them before anything is learnt from them")
    return survey


def _count(survey: Survey, placed: Placed) -> None:
    """One more document."""
    document = placed.document
    survey.characters += len(document.text)
    survey.sentences += len(sentences(document.text, whole=document.entities))
    survey.tokens += sum(1 for _ in TOKEN.finditer(document.text))
    survey.unlabelled += not document.labels
    survey.take(placed)
    survey.place(placed)
    described: tuple[Entity | Relation, ...] = (*document.entities, *document.relations)
    for one in described:
        survey.attributes.update(name for name, _ in one.attributes)
    survey.concepts += sum(len(one.concepts) for one in document.entities)
    survey.predicted += bool(document.model)
    survey.discontinuous += sum(bool(one.parts) for one in document.entities)
    survey.languages[code(document.language or language(document.text)) or "unknown"] += 1
    survey.sourceless += not document.source
    if document.source:
        survey.sources.add(digest(document.source))


class _Seen(NamedTuple):
    """What is held of a document: where it stands, and a digest of what is said of it."""

    file: Path
    path: Path
    line: int
    text: bytes
    annotations: bytes

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}" if self.line else str(self.path)


def _seen(placed: Placed, file: Path) -> _Seen:
    said = digest(repr(annotations(placed.document)))
    return _Seen(file, placed.path, placed.line, digest(placed.document.text), said)


def _count_repeats(survey: Survey, leaks: Leaks, texts: Texts[_Seen], *, pairs: bool | None) -> None:
    """What is there more than once, each beside the first; and which texts are in two files."""
    for group in texts.by_text():
        leaks.take(group)
    for group in texts.groups(pairs=pairs):
        first, *others = group
        for one in others:
            survey.duplicates += 1
            same = one.annotations == first.annotations
            kind = "repeated text" if same else "same text with other annotations"
            kind = kind if one.text == first.text else NEARLY
            survey.findings.note(kind, one.path, one.line or 1)


def _untrained(survey: Survey, trained: Kinds, task: Checks | None) -> Iterator[tuple[str, str]]:
    """That files for testing have labels which those for training have not."""
    if task is not None and task.takes == "labels" and (new := survey.labels.keys() - trained.labels.keys()):
        yield f"labels that no training text has: {len(new)}", "take these texts out, or declare all labels in [corpus]"


def annotations(document: Document) -> object:
    """What is said of a document, however its entities are called."""
    spans = {
        one.id: (one.type, one.start, one.end, one.parts, one.attributes, sorted(one.concepts))
        for one in document.entities
    }
    links = [(one.type, spans[one.head], spans[one.tail], one.attributes) for one in document.relations]
    return sorted(document.labels), sorted(spans.values()), sorted(links)


def _again(files: Iterable[tuple[Path, Format]], options: Options) -> Iterator[tuple[Placed, Mapping[str, Any]]]:
    """The documents of which a task makes its examples, read anew; what is wrong with them was noted before."""
    for file, format_ in files:
        for placed in () if format_.ready else format_.read(file, Findings(), options):
            yield placed, format_.usual


def _wanting(survey: Kinds, task: Checks | None) -> Iterator[tuple[str, str]]:
    """What the whole lacks for the task."""
    if not survey.documents:
        known = isinstance(survey, Survey) and survey.findings.refused > 0
        other = "name the file or folder that holds the notes, or its format with --from"
        yield "no document", "mend what is listed above" if known else other
    elif not survey.worded:
        yield "no text has a letter or a digit", "name the column that holds the texts with --text-column"
    elif task is not None:
        yield from task.lacks(survey)


def _wanting_by_split(
    survey: Kinds, trained: Kinds, task: Checks | None, splits: Mapping[str, Path], read: Mapping[Path, int]
) -> Iterator[tuple[Path, str, str]]:
    """What files for training lack by themselves, and which are empty; `read` is how many documents each has."""
    if survey.documents:
        empty = ((split, place) for split, place in splits.items() if read.get(place) == 0)
        yield from ((place, f"no document, and it is there for {split}", EMPTY) for split, place in empty)
    if task is not None and trained.documents and not any(_wanting(survey, task)):
        yield from ((splits["train"], what, remedy) for what, remedy in _wanting(trained, task))

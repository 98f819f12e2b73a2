"""The files of a run folder, typed once: what the loop writes and what reports, cards and commands read.

    METRICS.write(out, Metrics(…))
    metrics = METRICS.read(out)            # None if there is no such file, a `RunError` if it is broken
    rounds = read_journal(out)

They hold numbers, not words made of numbers; what is read is shown by whoever shows it. This module loads in no time
(no torch), so that anything may look into a run. What crossed the wire is in `wire`.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, TypeAdapter, ValidationError

from wardround.core.exchange import Exchange
from wardround.core.files import write
from wardround.runs.errors import RunError

T = TypeVar("T")
FORMAT = 2  # of a run folder; version 0.1 had none
JOURNAL = "journal.jsonl"
LOCK = ".lock"
AGAIN = "restore it, or run the study again"


def _measured(figures: Any) -> Any:
    """What is not a finite number was not measured."""
    if not isinstance(figures, Mapping):
        return figures
    return {k: v for k, v in figures.items() if v is not None and not (isinstance(v, float) and not math.isfinite(v))}


Figures = Annotated[dict[str, float], BeforeValidator(_measured)]


class Plain(BaseModel):
    """Something in a run's files."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Kind(Plain):
    """What a method is, as far as comparing it with others goes."""

    pooled: bool = False
    """Whether all examples were in one place."""
    shares: bool = True
    """Whether there is a shared model in the end."""
    trains: bool = True
    """Whether sites are asked for anything but an evaluation."""
    personal: bool = False
    """Whether each site is tried with a model of its own, or with a part of its own."""

    @property
    def reference(self) -> Literal["", "alone", "pooled", "public"]:
        """Whether it is no federated method: all data in one place, each site alone, or no site at all."""
        return "pooled" if self.pooled else "alone" if not self.shares else "" if self.trains else "public"


class Start(Kind):
    """`run.json`: what is known when a run begins."""

    format: int = FORMAT
    resumed: tuple[int, ...] = ()
    """After which rounds the run was taken up again; −1 is before the first checkpoint."""


class Round(Plain):
    """One line of the journal."""

    round: int
    sites: int = 0
    """Who stayed to the end of the round's training."""
    left_out: dict[str, str] = {}
    metrics: Figures = {}
    per_site: dict[str, Figures] = {}
    up: int = 0
    down: int = 0
    evaluation_up: int = 0
    evaluation_down: int = 0
    seconds: float = 0.0
    noted: dict[str, dict[str, dict[str, float]]] = {}
    """What the method and the layers wanted in the journal: under a name, numbers by site and class."""
    signs: tuple[str, ...] = ()
    """Of what looks wrong with the model (see `wardround.metrics.signs`)."""
    asked: int = 0
    """How many sites the round was asked of."""
    waited: float = 0.0
    """Seconds that it waited for the study's window to open."""
    ended: float | None = None
    """When it was over, in seconds since 1970: a run may go on for weeks, and be looked at later."""


class Delivered(Plain):
    """`delivered.json`: which real sites have the model of this run, and the marks that letters about it bear."""

    study: str
    run: str
    digest: str
    """Of what was delivered."""
    sites: dict[str, str] = {}
    """By site, why it has not got it; nothing if it has."""


class BestFigure(Plain):
    """A figure's best value, and the round of it."""

    value: float
    round: int


class Bytes(Plain):
    """What crossed the wire in all rounds; `up` is from the sites."""

    up: int = 0
    down: int = 0
    evaluation_up: int = 0
    evaluation_down: int = 0


class Metrics(Kind):
    """`metrics.json`: how a run ended."""

    format: int = FORMAT
    study: str
    versions: dict[str, str]
    method: str
    seed: int
    rounds: int
    stopped: str
    rounds_to_target: int | None
    chosen: int | None = None
    """The round whose model was kept and whose figures are final, where validation has chosen one."""
    chosen_by: str = ""
    """The figure that chose it."""
    exhausted: bool = False
    """Whether the run ended before its last round because the figure had not become better for long enough."""
    final: Figures
    best: dict[str, BestFigure]
    bytes: Bytes
    seconds: float
    signs: tuple[str, ...] = ()

    def ended(self, rounds: int, *, early: bool) -> bool:
        """Whether a study of so many rounds, which may end `early` by its target, has none left to do."""
        reached = self.rounds_to_target is not None and self.rounds_to_target <= self.rounds  # not by [finish]
        return (early and reached) or self.exhausted or self.rounds >= rounds


class Data(Plain):
    """`data.json`: sizes and labels, `sites[site][split][label]`, and what is odd."""

    count: int
    sites: dict[str, dict[str, dict[str, int]]]
    fingerprint: str | None = None
    problems: tuple[str, ...] = ()
    leaked: int = 0
    """Test examples whose text is in training, too."""
    leaked_valid: int = 0
    """Validation examples whose text is in training, too."""
    test_in_valid: int = 0
    """Test examples whose text is in validation, too."""
    public: dict[str, int] = {}


class Change(Plain):
    """That a site has left a finished run's model, or joined it."""

    action: Literal["forget", "add"]
    site: str
    rows: int
    """How many training rows that was about."""
    when: str
    """The day, as 2026-11-17."""


class Planned(Plain):
    """One cell of a grid, run or not."""

    label: str
    folder: str
    rounds: int


class GreetedSite(Plain):
    """How it was with a real site when it was last greeted before a run, or before going on with it."""

    state: str = ""
    """Why it was not ready, in words; nothing if it was."""
    left: int | None = None
    """How many answers its approval had left then."""
    version: str = ""
    """What it ran when it last answered, if it was let in: another version is not."""


class RecallCurve(Plain):
    """`curve.json`: recall and precision along the curve of an evaluation."""

    round: int
    points: tuple[tuple[float, float], ...]


class Tally(Plain):
    """`counts.json`: what was counted on the test split in the round that counts, summed over sites."""

    round: int
    names: tuple[str, ...] = ()
    """The classes, or types of entities."""
    hits: tuple[int, ...] = ()
    """Of each class, as the next two."""
    false_alarms: tuple[int, ...] = ()
    misses: tuple[int, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()
    """True class (rows) by answered class (columns), if it was counted; of entities, nothing comes last."""
    counts: dict[str, Any]
    """All numbers, as the task counts them."""

    @property
    def examples(self) -> tuple[int, ...]:
        """Of each class, how many there were."""
        return tuple(hits + misses for hits, misses in zip(self.hits, self.misses, strict=True))


class Intervals(Plain):
    """`intervals.json`: how far the final figures could be elsewhere by the choice of test documents (95 %)."""

    round: int
    """The round whose figures they are of."""
    way: Literal["documents", "answers"]
    """What was drawn with replacement: whole documents, or, where only sums are known, each answer by itself."""
    count: int
    """How many of them there are."""
    draws: int
    figures: dict[str, tuple[float, float]]


class RunFile(Generic[T]):
    """One file of a run folder: its name, and what it holds."""

    def __init__(self, name: str, kind: Any, about: str, remedy: str = AGAIN) -> None:
        self.name, self.about, self.remedy = name, about, remedy
        self.numbered = "format" in getattr(kind, "model_fields", ())
        self.adapter: TypeAdapter[T] = TypeAdapter(kind)

    def exists(self, folder: Path) -> bool:
        """Whether a run has it."""
        return (folder / self.name).exists()

    def read(self, folder: Path) -> T | None:
        """What the file holds, or None if there is none."""
        path = folder / self.name
        if not path.exists():
            return None
        try:
            content = json.loads(text_of(path))
        except json.JSONDecodeError as error:
            raise RunError(f"{path}:{error.lineno}: is not valid JSON ({error.msg}); {self.remedy}") from None
        if self.numbered and isinstance(content, dict) and content.get("format") != FORMAT:
            raise _other(folder, content.get("format"))
        try:
            return self.adapter.validate_python(content)
        except ValidationError as error:
            raise RunError(f"{path}: does not hold {self.about} ({wrong(error)}); {self.remedy}") from None

    def renew(self, folder: Path, value: T | None) -> None:
        """Write the file anew, or take away what is there if there is nothing to tell any more."""
        if value is None:
            (folder / self.name).unlink(missing_ok=True)
        else:
            self.write(folder, value)

    def write(self, folder: Path, value: T) -> None:
        """Write the file anew, easy to read."""
        plain = self.adapter.dump_python(value, exclude_unset=isinstance(value, Data))
        write(folder / self.name, (json.dumps(plain, indent=1, ensure_ascii=False) + "\n").encode())


def _other(folder: Path, which: object) -> RunError:
    made = "by wardround 0.1" if which is None else f"in format {which}, and this wardround reads format {FORMAT}"
    return RunError(f"{folder}: the run was made {made}; use that version, or run the study again in another folder")


def wrong(error: ValidationError) -> str:
    """The first thing that is wrong, without the value: where, and what."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else first["msg"]


START: RunFile[Start] = RunFile("run.json", Start, "what is known when a run begins")
METRICS: RunFile[Metrics] = RunFile(
    "metrics.json", Metrics, "how a run ended", "restore it, or delete it and go on with `wardround run … --resume`"
)
DATA: RunFile[Data] = RunFile("data.json", Data, "counts by site, split and label")
REFERENCES: RunFile[dict[str, dict[str, float]]] = RunFile("references.json", dict[str, Figures], "figures by name")
VOID: RunFile[dict[str, list[Exchange]]] = RunFile("void.json", dict[str, list[Exchange]], "exchanges by site")
MEMBERS: RunFile[list[Change]] = RunFile("members.json", list[Change], "who left or joined after the run")
COUNTS: RunFile[Tally] = RunFile("counts.json", Tally, "what was counted on the test split")
INTERVALS: RunFile[Intervals] = RunFile("intervals.json", Intervals, "intervals of the final figures")
GRID: RunFile[list[Planned]] = RunFile("grid.json", list[Planned], "the cells of a grid")
DELIVERED: RunFile[Delivered] = RunFile("delivered.json", Delivered, "which sites have the model")
SITES: RunFile[dict[str, GreetedSite]] = RunFile(
    "sites.json", dict[str, GreetedSite], "how real sites were at the start"
)
CURVE: RunFile[RecallCurve] = RunFile("curve.json", RecallCurve, "points of recall and precision")


def current(folder: Path) -> Start:
    """What is known of a run from its start; an error if it is of another version."""
    start = START.read(folder)
    journal = folder / JOURNAL
    if start is None and journal.exists() and journal.stat().st_size:
        raise _other(folder, None)
    return start or Start()


def text_of(path: Path) -> str:
    """A file's text."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{path}: cannot be read ({error}); {AGAIN}") from None


def read_line(raw: str) -> Round:
    """One line of a journal; a `ValueError` if it is none."""
    return Round.model_validate(json.loads(raw))


def read_journal(folder: Path) -> tuple[Round, ...]:
    """The rounds of a run; a last line that a crash cut off is left out, as a resume does."""
    path = folder / JOURNAL
    lines = text_of(path).splitlines(keepends=True) if path.exists() else []
    rounds = []
    for number, line in enumerate(lines, 1):
        try:
            rounds.append(read_line(line))
        except ValueError as error:
            if number == len(lines) and not line.endswith("\n"):
                break
            what = wrong(error) if isinstance(error, ValidationError) else "not valid JSON"
            remedy = "restore it, or go back to the last checkpoint with `wardround run … --resume`"
            raise RunError(f"{path}:{number}: is not a line of a journal ({what}); {remedy}") from None
    return tuple(rounds)

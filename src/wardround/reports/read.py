"""Run folders, read back: what was set, what was measured, what crossed the wire.

    runs = read_runs([Path("runs/demo")])       # a run, a sweep's folder of runs, or several of either

A run that was stopped, or is still running, has no `metrics.json`; then its journal tells how far it is. What cannot
be read is a `ReportError` with the path, what is wrong and what to do.
"""

import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from wardround.core.refusal import Refusal

__all__ = [
    "Data",
    "ReportError",
    "Round",
    "RunRecord",
    "WireRow",
    "differing",
    "natural",
    "read_runs",
    "settings",
    "shown",
]

FRAMING = "(names, numbers, framing)"
GENERATED = frozenset({"synthetic", "clinic", "clinic-pairs", "clinic-bags"})
TOLD_BY_HAND = frozenset({"name", "description"})  # what a study is called decides nothing


class ReportError(Refusal, ValueError):
    """A folder cannot be reported on: which, why, and the remedy."""

    def __init__(self, path: Path | str, what: str, remedy: str) -> None:
        super().__init__(f"{path}: {what}; {remedy}")


@dataclass(frozen=True)
class Round:
    """One line of a journal."""

    round: int
    sites: int = 0
    """Whose replies counted."""
    asked: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    per_site: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    up: int = 0
    down: int = 0
    evaluation_up: int = 0
    evaluation_down: int = 0
    seconds: float = 0.0
    similarity: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By site and class, how alike the site's classifier vectors are, where the method notes it."""
    signs: tuple[str, ...] = ()
    """Of what looks wrong with the model."""


@dataclass(frozen=True)
class WireRow:
    """One field of one kind of message."""

    step: str
    direction: str
    message: str
    field: str
    shape: str
    bytes: int
    seen: str
    reveals: str

    @property
    def framing(self) -> bool:
        """Whether the row only counts what surrounds the fields."""
        return self.field == FRAMING


@dataclass(frozen=True)
class Data:
    """Sizes and labels by site and split: `sites[site][split][label]`."""

    count: int
    sites: Mapping[str, Mapping[str, Mapping[str, int]]]
    fingerprint: str | None


@dataclass(frozen=True)
class RunRecord:
    """One run, as its folder tells it."""

    folder: str
    origin: str
    label: str
    """The method, and the settings that tell it from others of the same method."""
    measured_on: str
    """The settings of corpus and partition in which the runs differ; empty if all have the same."""
    choices: Mapping[str, Any]
    """The settings in which it differs from a run that it is compared with; dotted keys."""
    study: Mapping[str, Any]
    toml: str
    lines: tuple[Round, ...]
    metrics: Mapping[str, Any] | None
    data: Data | None
    wire: tuple[WireRow, ...]
    fingerprint: str
    pr: tuple[tuple[float, float], ...] = ()
    """Recall and precision along the curve of the last evaluation, if the task has one."""
    references: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The figures of what any model should beat, by name."""

    @property
    def seed(self) -> int:
        """What all its chance comes from."""
        return int(self.study.get("seed", 0))

    @property
    def method(self) -> str:
        """The method's name in the study."""
        return str(self.study["method"]["name"])

    @property
    def rounds(self) -> int:
        """The last round in its journal."""
        return self.lines[-1].round if self.lines else 0

    @property
    def finished(self) -> bool:
        """Whether it came to its end: its last round, or its target; and nobody has taken it further since."""
        if self.metrics is None or self.metrics.get("rounds") != self.rounds:
            return False
        early = self.study.get("stop", {}).get("early", True) and self.metrics.get("rounds_to_target") is not None
        return bool(early) or self.rounds >= self.study.get("rounds", self.rounds)

    @property
    def similarity(self) -> list[tuple[int, Mapping[str, Mapping[str, float]]]]:
        """The rounds in which the method noted how alike the sites' classifier vectors are, and that."""
        return [(line.round, line.similarity) for line in self.lines if line.similarity]

    @property
    def final(self) -> Mapping[str, float]:
        """The figures of the last round that was evaluated."""
        return next((line.metrics for line in reversed(self.lines) if line.metrics), {})

    @property
    def signs(self) -> tuple[str, ...]:
        """What looked wrong with the model in the last round that was evaluated."""
        return next((line.signs for line in reversed(self.lines) if line.metrics or line.signs), ())

    @property
    def reference(self) -> Literal["", "alone", "pooled"]:
        """Whether it is no federated method but a reference: each site alone, or all data in one place."""
        told = self.metrics or {}
        if told.get("pooled", self.method == "centralised"):
            return "pooled"
        return "alone" if not told.get("shares", self.method != "local") else ""

    @property
    def generated(self) -> bool:
        """Whether its data were generated."""
        return self.study["corpus"].get("name") in GENERATED

    def total(self, *what: Literal["up", "down", "evaluation_up", "evaluation_down"]) -> int:
        """Bytes over all rounds."""
        return sum(getattr(line, key) for line in self.lines for key in what)


def read_runs(paths: Sequence[Path]) -> tuple[RunRecord, ...]:
    """All runs under these folders, each once, with labels that tell them apart."""
    if not paths:
        raise ReportError("report", "no run is given", "name at least one run folder")
    found: dict[Path, RunRecord] = {}
    for path in paths:
        for folder in _folders(path):
            found.setdefault(folder.resolve(), _read(folder, path.resolve().name))
    return _told_apart(tuple(found.values()))


def flat(tables: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested tables as one, with dotted keys."""
    told: dict[str, Any] = {}
    for key, value in tables.items():
        told |= flat(value, f"{above}{key}.") if isinstance(value, Mapping) else {f"{above}{key}": value}
    return told


def differing(studies: Iterable[Mapping[str, Any]]) -> list[str]:
    """The dotted keys whose values are not the same in all studies, seeds left out, in the studies' order."""
    told = [settings(study) for study in studies]
    keys = dict.fromkeys(key for one in told for key in one)
    return [key for key in keys if any(one.get(key) != told[0].get(key) for one in told)]


def settings(study: Mapping[str, Any]) -> dict[str, Any]:
    """What a study sets beyond its seed, and beyond what follows from the seed or from where the file lies."""
    seed = study.get("seed", 0)
    told = flat({key: value for key, value in study.items() if key != "expected"})
    rest = ((key, key.rpartition(".")[2], value) for key, value in told.items())
    return {
        key: value
        for key, last, value in rest
        if key != "seed" and not (last == "seed" and value == seed) and not (last == "folder" and "." in key)
    }


def natural(text: str) -> list[tuple[int, int, str]]:
    """A sort key by which site-2 comes before site-10."""
    parts = re.split(r"(\d+)", text)
    return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts]


# reading


def _folders(path: Path) -> Iterator[Path]:
    """The run folders that a path stands for: itself, or those in it."""
    if not path.exists():
        raise ReportError(path, "there is no such folder", "check the path")
    if not path.is_dir():
        raise ReportError(path, "is a file", "give the run folder, which holds study.toml")
    if (path / "study.toml").exists():
        yield path
        return
    below = sorted((told.parent for told in path.glob("*/study.toml")), key=lambda folder: natural(folder.name))
    if not below:
        near = next((str(told.parent.parent) for told in sorted(path.glob("*/*/study.toml"))), None)
        remedy = f"did you mean {near}?" if near else "give a folder that `wardround run` has made"
        raise ReportError(path, "holds no run: neither study.toml nor folders with one", remedy)
    yield from below


def _read(folder: Path, origin: str) -> RunRecord:
    path = folder / "study.toml"
    toml = _text(path)
    try:
        study = tomllib.loads(toml)
    except tomllib.TOMLDecodeError as error:
        raise ReportError(path, f"is not valid TOML ({error})", "restore it, or run the study again") from None
    for table in ("method", "corpus"):
        if not isinstance(study.get(table), dict) or "name" not in study[table]:
            raise ReportError(path, f"has no [{table}] with a name", "give a folder that `wardround run` has made")
    told = _json(folder / "metrics.json", dict)
    lines = _journal(folder / "journal.jsonl")
    if told is not None and not lines:
        raise ReportError(folder / "journal.jsonl", "is missing or empty, though the run finished", "restore it")
    mark = folder / "fingerprint"
    name = folder.resolve().name
    return RunRecord(
        name, origin, name, "", {}, study, toml, lines, told, _data(folder / "data.json"), _wire(folder / "wire.json"),
        _text(mark).strip() if mark.exists() else "", _pr(folder / "curve.json"),
        {str(name): _figures(told) for name, told in (_json(folder / "references.json", dict) or {}).items()},
    )  # fmt: skip


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(path, f"cannot be read ({error})", "restore it, or run the study again") from None


def _json(path: Path, kind: type[Any]) -> Any:
    if not path.exists():
        return None
    try:
        told = json.loads(_text(path))
    except json.JSONDecodeError as error:
        remedy = "restore it, or delete it and go on with `wardround run … --resume`"
        raise ReportError(f"{path}:{error.lineno}", f"is not valid JSON ({error.msg})", remedy) from None
    if not isinstance(told, kind):
        raise ReportError(path, f"holds a {type(told).__name__}, not a {kind.__name__}", "restore it")
    return told


def _journal(path: Path) -> tuple[Round, ...]:
    """Its rounds; a last line that a crash cut off is left out, as a resume does."""
    raw = _text(path).splitlines(keepends=True) if path.exists() else []
    found = []
    for number, line in enumerate(raw, 1):
        try:
            found.append(_round(json.loads(line)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if number == len(raw) and not line.endswith("\n"):
                break
            remedy = "restore it, or go back to the last checkpoint with `wardround run … --resume`"
            what = f"is not a line of a journal ({type(error).__name__}: {error})"
            raise ReportError(f"{path}:{number}", what, remedy) from None
    return tuple(found)


def _round(told: Mapping[str, Any]) -> Round:
    numbers = {key: int(told.get(key) or 0) for key in ("sites", "up", "down", "evaluation_up", "evaluation_down")}
    numbers["asked"] = int(told.get("asked") or numbers["sites"])
    return Round(
        round=int(told["round"]),
        left_out={str(site): str(why) for site, why in (told.get("left_out") or {}).items()},
        metrics=_figures(told.get("metrics") or {}),
        per_site={str(site): _figures(own) for site, own in (told.get("per_site") or {}).items()},
        seconds=float(told.get("seconds") or 0.0),
        signs=tuple(map(str, told.get("signs") or ())),
        similarity={
            str(site): _figures(own) for site, own in ((told.get("noted") or {}).get("similarity") or {}).items()
        },
        **numbers,
    )


def _figures(told: Mapping[str, Any]) -> dict[str, float]:
    """The figures that are numbers; what is not finite was not measured."""
    known = {str(name): float(value) for name, value in told.items() if value is not None}
    return {name: value for name, value in known.items() if math.isfinite(value)}


def _data(path: Path) -> Data | None:
    told = _json(path, dict)
    if told is None:
        return None
    try:
        sites = {
            str(site): {
                str(split): {str(label): int(count) for label, count in labels.items()}
                for split, labels in splits.items()
            }
            for site, splits in told["sites"].items()
        }
        return Data(int(told["count"]), sites, told.get("fingerprint"))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"does not hold counts by site, split and label ({type(error).__name__}: {error})"
        raise ReportError(path, what, "restore it") from None


def _wire(path: Path) -> tuple[WireRow, ...]:
    told = _json(path, list) or []
    try:
        return tuple(WireRow(**{**row, "bytes": int(str(row["bytes"]).replace(",", ""))}) for row in told)
    except (KeyError, TypeError, ValueError) as error:
        what = f"does not hold rows of a manifest ({type(error).__name__}: {error})"
        raise ReportError(path, what, "restore it") from None


def _pr(path: Path) -> tuple[tuple[float, float], ...]:
    told = _json(path, dict) or {"points": []}
    try:
        return tuple((float(recall), float(precision)) for recall, precision in told["points"])
    except (KeyError, TypeError, ValueError) as error:
        what = f"does not hold points of recall and precision ({type(error).__name__}: {error})"
        raise ReportError(path, what, "restore it") from None


# telling runs apart


def _told_apart(runs: tuple[RunRecord, ...]) -> tuple[RunRecord, ...]:
    """The same runs with what they were compared by: choices, and labels as short as can be."""
    told = [settings(run.study) for run in runs]
    keys = [key for key in differing(run.study for run in runs) if key not in TOLD_BY_HAND]
    everyone = list(range(len(runs)))
    ground_keys = [key for key in keys if _of_data(key)]
    grounds = [", ".join(_words(index, everyone, runs, told, ground_keys)) for index in everyone]
    labels = []
    for index in everyone:
        beside = [other for other in everyone if grounds[other] == grounds[index]]
        words = _words(index, beside, runs, told, [key for key in keys if not _of_data(key)])
        labels.append(", ".join([runs[index].method, *words]))
    for more in ("name", "origin", "folder"):  # the same settings and seed twice: tell them by where they come from
        at = [(label, ground, run.seed) for label, ground, run in zip(labels, grounds, runs, strict=True)]
        clash = {(label, ground) for (label, ground, _), times in Counter(at).items() if times > 1}
        for index, run in enumerate(runs):
            if (labels[index], grounds[index]) in clash:
                labels[index] += f", {run.study.get('name') if more == 'name' else getattr(run, more)}"
    return tuple(
        replace(run, label=label, measured_on=ground, choices={key: own.get(key) for key in keys})
        for run, label, ground, own in zip(runs, labels, grounds, told, strict=True)
    )


def _of_data(key: str) -> bool:
    """Whether a setting decides what is measured: figures under different ones are not compared."""
    return key.partition(".")[0] in ("corpus", "partition") or key in ("task.name", "evaluation.splits")


def _words(
    index: int, beside: Sequence[int], runs: Sequence[RunRecord], told: Sequence[Mapping[str, Any]], keys: Sequence[str]
) -> list[str]:
    """The settings in which a run differs from those beside it whose table names the same method, corpus or task."""
    words = []
    for key in keys:
        table, _, last = key.rpartition(".")
        own = told[index].get(key)
        named = key != "method.name" and last == "name"  # the method is named anyway
        peers = [other for other in beside if named or _named(runs[other], table) == _named(runs[index], table)]
        if any(told[other].get(key) != own for other in peers):
            name = table if named else last if table == "method" else key
            words.append(f"{name} = {'none' if own is None else shown(own)}")
    return words


def _named(run: RunRecord, table: str) -> Any:
    """What a table names; the table's other settings are compared only under the same name."""
    found = run.study.get(table) if table else None
    return found.get("name") if isinstance(found, Mapping) else None


def shown(value: Any) -> str:
    """A setting as the study file writes it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

"""What tells runs apart: the settings in which they differ, and labels that name these and no others.

runs = labelled(runs)      # each with a label and what it was measured on
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from wardround.reports.record import RunRecord

Settings = Mapping[str, Any]
BY_HAND = frozenset({"name", "description"})  # what a study is called decides nothing


def flat(tables: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested tables as one, with dotted keys."""
    dotted: dict[str, Any] = {}
    for key, value in tables.items():
        dotted |= flat(value, f"{above}{key}.") if isinstance(value, Mapping) else {f"{above}{key}": value}
    return dotted


def differing(studies: Iterable[Mapping[str, Any]]) -> list[str]:
    """The dotted keys whose values are not the same in all studies, seeds left out, in the studies' order."""
    all_settings = [settings(study) for study in studies]
    keys = dict.fromkeys(key for one in all_settings for key in one)
    return [key for key in keys if any(one.get(key) != all_settings[0].get(key) for one in all_settings)]


def settings(study: Mapping[str, Any]) -> dict[str, Any]:
    """What a study sets beyond its seed, and beyond what follows from the seed or from where the file lies."""
    seed = study.get("seed", 0)
    dotted = flat({key: value for key, value in study.items() if key != "expected"})
    rest = ((key, key.rpartition(".")[2], value) for key, value in dotted.items())
    return {
        key: value
        for key, last, value in rest
        if key != "seed" and not (last == "seed" and value == seed) and not (last == "folder" and "." in key)
    }


def labelled(runs: tuple[RunRecord, ...]) -> tuple[RunRecord, ...]:
    """The same runs with what they were measured on, and labels as short as can be."""
    chosen = [settings(run.study) for run in runs]
    keys = [key for key in differing(run.study for run in runs) if key not in BY_HAND]
    everyone = list(range(len(runs)))
    ground_keys = [key for key in keys if _of_data(key)]
    grounds = [", ".join(_words(index, everyone, chosen, ground_keys)) for index in everyone]
    labels = []
    for index in everyone:
        beside = [other for other in everyone if grounds[other] == grounds[index]]
        words = _words(index, beside, chosen, [key for key in keys if not _of_data(key)])
        labels.append(", ".join([runs[index].method, *words]))
    for more in ("name", "origin", "folder"):  # the same settings and seed twice: tell them by where they come from
        at = [(label, ground, run.seed) for label, ground, run in zip(labels, grounds, runs, strict=True)]
        clash = {(label, ground) for (label, ground, _), times in Counter(at).items() if times > 1}
        for index, run in enumerate(runs):
            if (labels[index], grounds[index]) in clash:
                labels[index] += f", {run.study.get('name') if more == 'name' else getattr(run, more)}"
    return tuple(
        replace(run, label=label, measured_on=ground) for run, label, ground in zip(runs, labels, grounds, strict=True)
    )


def _of_data(key: str) -> bool:
    """Whether a setting decides what is measured: figures under different ones are not compared."""
    ours = ("task.name", "evaluation.splits", "validation.share", "validation.by")
    return key.partition(".")[0] in ("corpus", "partition") or key in ours


def _words(index: int, beside: Sequence[int], chosen: Sequence[Settings], keys: Sequence[str]) -> list[str]:
    """The settings in which a run differs from those beside it whose table names the same method, corpus or task."""
    own, words = chosen[index], []
    for key in keys:
        table, _, last = key.rpartition(".")
        named = key != "method.name" and last == "name"  # the method is named anyway
        peers = [chosen[at] for at in beside if named or chosen[at].get(f"{table}.name") == own.get(f"{table}.name")]
        if any(other.get(key) != own.get(key) for other in peers):
            name = table if named else last if table == "method" else key
            words.append(f"{name} = {'none' if own.get(key) is None else shown(own[key])}")
    return words


def shown(value: Any) -> str:
    """A setting as the study file writes it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

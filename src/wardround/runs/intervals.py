"""How far the figures of the last evaluation could be elsewhere by the choice of test documents alone: 95 % intervals.

    INTERVALS.write(out, intervals_of(built, weights, tally))

*Documents* are drawn with replacement, as many as there are, whole, with all their sentences or pairs; each time the
figures are made anew, and the interval is what the middle 95 % of them span (percentile bootstrap). At real sites no
document's outcome leaves, only sums: there each *answer* is drawn by itself (`metrics.redrawn`), and the file says so.
Nothing but these numbers is kept. The seed of the study decides on the draws.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wardround.core.bench import Bench
from wardround.core.exchange import EVALUATION, Exchange, seeded
from wardround.core.training import LocalTraining
from wardround.core.weights import Weights
from wardround.metrics.redrawn import one_by_one
from wardround.runs.build import Built
from wardround.runs.files import Intervals, Tally
from wardround.text.pairs import note_of_pair

DRAWS = 1000
FEWER = 200  # of a curve over all predictions, which takes its time
AT_ONCE = 50
LEVEL = (2.5, 97.5)

Counts = Mapping[str, Tensor]


def intervals_of(built: Built, weights: Weights, last: Tally | None, resumed: tuple[int, ...] = ()) -> Intervals | None:
    """Of the figures that were counted so: a simulation has the documents; of real sites only sums are known.

    What sites kept in attempts that do not count, as `resumed` tells, is not recalled.
    """
    if last is None:
        return None
    counts = {name: torch.tensor(numbers, dtype=torch.float64) for name, numbers in last.counts.items()}
    unpaid = built.study.dp and cast("LocalTraining", built.study.method).trains_to_try  # to try it again would cost
    if built.raw is None or unpaid:
        return over_answers(built.task, last.round, counts, built.study.seed)
    return over_documents(built, weights, last.round, counts, resumed)


def over_documents(
    built: Built, weights: Weights, round_: int, counts: Counts, resumed: tuple[int, ...] = ()
) -> Intervals | None:
    """Over documents, where a task can tell the outcome of each and these add up to the counts; else over answers."""
    last = built.sites.raw(built.sites.names[-1])[1]  # which is at hand still
    names: list[Sequence[str]] = []
    if alone := getattr(last, "documents", None) is None and built.task.one_answer:  # rows of numbers, at every site
        documents = int(built.task.metrics(counts).get("examples", 0))
    else:
        names = [_notes(built.sites.raw(name)[1]) for name in built.sites.names]
        documents = sum(len(set(mine)) for mine in names)
        alone = documents == sum(len(mine) for mine in names)
    if not documents:
        return None
    if alone and built.task.one_answer:  # to draw an answer is then to draw its document
        drawn = over_answers(built.task, round_, counts, built.study.seed)
        return drawn and drawn.model_copy(update={"way": "documents"})
    exchange = Exchange("evaluate", round_, EVALUATION, round_, built.study.seed, resumed)
    rows = [
        _outcomes(built, name, mine, weights, exchange) for name, mine in zip(built.sites.names, names, strict=True)
    ]
    if any(mine is None for mine in rows):
        return over_answers(built.task, round_, counts, built.study.seed)
    matrix = np.concatenate([mine for mine in rows if mine is not None])  # (documents, numbers)
    kept = torch.cat([counts[name].flatten() for name in _figured(built.task)]).numpy()
    if not np.allclose(matrix.sum(0), kept, rtol=1e-6):  # what a layer changes on its way is not the documents' own
        return over_answers(built.task, round_, counts, built.study.seed)
    rng, shares = _chance(built.study.seed), np.full(len(matrix), 1 / len(matrix))
    sums = (
        row
        for start in range(0, DRAWS, AT_ONCE)
        for row in rng.multinomial(len(matrix), shares, min(AT_ONCE, DRAWS - start)) @ matrix
    )
    figures = _spanned([built.task.metrics(_counts(row, built.task)) for row in sums])
    return Intervals(round=round_, way="documents", count=len(matrix), draws=DRAWS, figures=figures)


def over_answers(task: Any, round_: int, counts: Counts, seed: int) -> Intervals | None:
    """From the sums alone; none if the task cannot redraw them."""
    rng = _chance(seed)
    draws = FEWER if task.curve(counts) is not None else DRAWS
    drawn = (task.redrawn(counts, rng, min(AT_ONCE, draws - start)) for start in range(0, draws, AT_ONCE))
    figures = [task.metrics(one) for several in drawn for one in one_by_one(several)]
    if not figures:
        return None
    examples = int(task.metrics(counts).get("examples", 0))
    return Intervals(round=round_, way="answers", count=examples, draws=draws, figures=_spanned(figures))


def tally(task: Any, round_: int, numbers: Counts) -> Tally:
    """What an evaluation counted, as a file holds it."""
    apart = {name: value.round().clamp(min=0).long().tolist() for name, value in task.by_class(numbers).items()}
    counts = {name: value.tolist() for name, value in numbers.items()}
    return Tally(round=round_, names=task.names() if apart else (), **apart, counts=counts)


def _chance(seed: int) -> np.random.Generator:
    return np.random.default_rng(seeded(seed, "intervals"))


def _notes(texts: Any) -> Sequence[str]:
    """The note that each raw example is of; a row of numbers stands for itself."""
    documents = getattr(texts, "documents", None)
    return [note_of_pair(one) for one in documents] if documents is not None else list(map(str, range(len(texts))))


def _outcomes(
    built: Built, name: str, notes: Sequence[str], weights: Weights, exchange: Exchange
) -> npt.NDArray[np.float64] | None:
    """What was counted of each note of a site (notes, numbers); none if the task does not tell them apart."""
    study, texts = built.study, built.sites.raw(name)[1]
    site = built.host.site(name, exchange)
    task: Any = site.task
    model = Bench.at(site, study.method.weights_at(site, weights)).model.eval()
    parts = task.each(model, texts)
    if parts is None:
        return None
    places = {note: place for place, note in enumerate(dict.fromkeys(notes))}
    kept = _figured(task)
    matrix = np.zeros((len(places), sum(map(math.prod, kept.values()))))
    for row, counted in parts if notes else ():
        matrix[places[notes[row]]] += torch.cat([counted[key].flatten() for key in kept]).numpy()
    return matrix


def _figured(task: Any) -> dict[str, tuple[int, ...]]:
    """Names and shapes of what figures are made of: all but the confusion."""
    return {key: shape for key, shape in task.counts().shapes.items() if key != "confusion"}


def _counts(row: npt.NDArray[np.float64], task: Any) -> Counts:
    """A row of numbers as the task counts them."""
    counts, start = {}, 0
    for key, shape in _figured(task).items():
        size = math.prod(shape)
        counts[key] = torch.from_numpy(row[start : start + size].copy()).reshape(shape)
        start += size
    return counts


def _spanned(drawn: Sequence[Mapping[str, float]]) -> dict[str, tuple[float, float]]:
    """What the middle 95 % of each figure span; those of single classes, and what is not always known, left out."""
    spans = {}
    for name in drawn[0]:
        values = [figures.get(name, math.nan) for figures in drawn]
        if not name.endswith(("]", "examples")) and all(map(math.isfinite, values)):
            low, high = np.percentile(values, LEVEL)
            spans[name] = (float(low), float(high))
    return spans

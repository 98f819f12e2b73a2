"""What any model should beat: the commonest class, chance, TF-IDF with logistic regression, a dictionary.

    references = ["majority", "chance", "tfidf"]     # in a study; the default where it costs next to nothing
    references = ["dictionary"]                      # of a tagger

Their figures on the test split go into the run folder's `references.json`, and from there into the summary and the
report. *majority* and *chance* (answers drawn at random, as often as each class occurs) are made of the counts of the
first evaluation, at real sites too. *tfidf* (scikit-learn, the extra
`baselines`) is fitted on all sites' texts in one place, which only a simulation has: word 1- and 2-grams, or 1- to
3-grams of characters where a language has no spaces, in logarithmic counts, under logistic regression with balanced
classes. *dictionary* looks the entities of all sites' training texts up in the test texts (`text.dictionary`). The
figures of tfidf are kept by the hash of the data, so that the cells of a grid need not fit it again.
"""

import hashlib
import json
import math
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wardround.core.doing import doing
from wardround.core.files import cache_folder, write
from wardround.federation.partition import Raw
from wardround.federation.sites import Sites, pooled
from wardround.metrics.classes import class_counts
from wardround.metrics.constant import ABOUT
from wardround.metrics.labels import label_counts
from wardround.runs.files import REFERENCES
from wardround.text.language import UNSPACED, mostly

NEEDED = "sklearn"
CHEAP = 5_000  # training texts up to which nobody notices the fit
LOOKED_AT = 200
PERFECT = 1.0  # what nothing can beat
SMALLEST = 1e-9  # probability, for a loss that is finite

Figures = dict[str, float]


def constants(task: Any, numbers: Mapping[str, Tensor], wanted: tuple[str, ...] | None) -> dict[str, Figures]:
    """The figures of the best constant answer, and of chance, on the examples that these counts are of."""
    known = {"majority": task.constant, "chance": task.chance}
    asked = (name for name in known if name in task.references and (wanted is None or name in wanted))
    return {name: _figures(task.metrics(known[name](numbers))) for name in asked}


def fitted(task: Any, sites: Sites, mark: str | None, wanted: tuple[str, ...] | None) -> dict[str, Figures]:
    """By name, the figures of the plain models that are fitted on all texts in one place."""
    figures: dict[str, Figures] = {}
    if mark is None:
        return figures
    if "dictionary" in task.references and (wanted is None or "dictionary" in wanted):
        figures["dictionary"] = _looked_up(task, sites)
    if "tfidf" in task.references and (wanted is None or "tfidf" in wanted) and find_spec(NEEDED):
        figures["tfidf"] = _by_words(task, sites, mark, most=CHEAP if wanted is None else None)
    return {name: mine for name, mine in figures.items() if mine}


def _looked_up(task: Any, sites: Sites) -> Figures:
    """The figures of looking up what the training texts have as entities."""
    doing("looking entities up in a dictionary, for reference")
    return _figures(task.metrics(task.looked_up(*pooled(sites).raw("pooled"))))


def _by_words(task: Any, sites: Sites, mark: str, most: int | None) -> Figures:
    """The figures of TF-IDF and logistic regression; none if there are more than so many texts, or none."""
    kept = cache_folder() / "references" / f"{_key(task, mark)}.json"
    if kept.exists():
        known: Figures = json.loads(kept.read_text(encoding="utf-8"))
        return known
    train, test = pooled(sites).raw("pooled")
    if not len(train) or not len(test) or (most is not None and len(train) > most):
        return {}
    doing("fitting TF-IDF and logistic regression, for reference")
    figures = _figures(_tfidf(task, train, test))
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write(kept, json.dumps(figures).encode())
    return figures


def _key(task: Any, mark: str) -> str:
    answers = task.answers()
    key = json.dumps([mark, type(task).__name__, list(answers["labels"]), answers.get("negative", ""), 2])
    return hashlib.sha256(key.encode()).hexdigest()


def _tfidf(task: Any, train: Raw, test: Raw) -> Figures:
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415 -- an extra, and slow to load
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 -- likewise

    texts, labels = task.plain(train)
    others, truth = task.plain(test)
    spaced = mostly(texts[:: max(len(texts) // LOOKED_AT, 1)]) not in UNSPACED
    shape: dict[str, Any] = (
        {"analyzer": "word", "ngram_range": (1, 2), "token_pattern": r"\w+"}
        if spaced
        else {"analyzer": "char", "ngram_range": (1, 3)}
    )
    counted = TfidfVectorizer(sublinear_tf=True, **shape)
    known, new = counted.fit_transform(texts), counted.transform(others)
    scores = np.full((len(others), len(task.labels)), np.log(SMALLEST))  # (texts, labels)

    def odds(targets: Any) -> tuple[Any, Any]:
        fit = LogisticRegression(class_weight="balanced", max_iter=1000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit.fit(known, targets)
        return fit.classes_, np.clip(fit.predict_proba(new), SMALLEST, 1 - SMALLEST)

    several = labels.dim() > 1
    for index in range(len(task.labels)) if several else ():
        column = labels[:, index].numpy()
        share = np.full(len(others), column.mean()) if len(set(column)) < 2 else odds(column)[1][:, 1]
        share = np.clip(share, SMALLEST, 1 - SMALLEST)
        scores[:, index] = np.log(share / (1 - share))
    if not several and len(labels.unique()) > 1:
        classes, chances = odds(labels.numpy())
        scores[:, classes] = np.log(chances)
    elif not several:
        scores[:, int(labels[0])] = 0.0
    outputs = torch.from_numpy(scores)
    loss = task.loss_of(outputs, truth) * len(truth)
    figures: Figures = task.metrics((label_counts if several else class_counts)(outputs, truth, loss))
    return figures


def _figures(measured: Mapping[str, float]) -> Figures:
    return {name: value for name, value in measured.items() if not name.endswith("examples") and math.isfinite(value)}


def add_references(out: Path, figures: Mapping[str, Figures]) -> None:
    """Add the figures of references to those of the run, which keep what they have."""
    known = REFERENCES.read(out) or {}
    if new := {name: mine for name, mine in figures.items() if mine and name not in known}:
        REFERENCES.write(out, {**known, **new})


def _first(final: Mapping[str, float]) -> str:
    """The first of a run's test figures, by which it is compared."""
    other = ("train_", "valid_")
    return next((n for n in final if not n.endswith(("loss", "examples")) and not n.startswith(other)), "")


def beside(final: Mapping[str, float], references: Mapping[str, Figures]) -> str:
    """In words, what the references reach by the first of a run's test figures; nothing if there are none."""
    first = _first(final)
    reached = [f"{name} {figures[first]:.4f}" for name, figures in references.items() if first in figures]
    return f"for reference, {first} of {', '.join(reached)}" if reached else ""


def missed(final: Mapping[str, float], references: Mapping[str, Figures]) -> list[str]:
    """In words, which references a run does not beat by the first of its test figures."""
    first = _first(final)
    return [
        f"it does not beat the reference {name} ({ABOUT.get(name, 'a reference')}): "
        f"{first} {final[first]:.4f}, against {figures[first]:.4f}"
        for name, figures in references.items()
        if first in figures and final[first] <= figures[first] and final[first] < PERFECT
    ]

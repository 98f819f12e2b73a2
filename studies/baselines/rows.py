"""Is it the rows, or how the model is trained? Scikit-learn's logistic regression on our rows, on held-out texts.

    WARDROUND_DATA=… python studies/baselines/rows.py runs/rows [NAME…]     # needs wardround[baselines]; ten minutes

Training and held-out texts are those of `choose.py` (at most 1,700 and 1,500 of them; generated hospitals: three
seeds). *tfidf* is the reference's own rows with its own settings. The others are the rows of our bag of words, hashed
to 2¹⁶ numbers: *documents* as `weighting = "documents"` has them, with counts below five as five; *all counts* with
those below five as they are; *2¹⁸* with fewer words that share a number; *plain* as `"none"` has them. In each cell the
first figure (accuracy; PsyTAR: micro-F1) and macro-F1.
"""

import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from choose import HERE, SEED, widened  # type: ignore[import-not-found]  # stands beside this file
from scipy import sparse
from scipy.linalg import cholesky, solve_triangular
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score

from wardround.runs.build import build
from wardround.study.load import cells
from wardround.tasks.text_examples import label_numbers
from wardround.text.texts import Texts

MOST = (1_700, 1_500)  # texts to fit, and to judge by
SEEN: dict[str, tuple[int, int]] = {  # numbers that words are hashed to, and the least count of a word
    "documents": (2**16, 5), "all counts": (2**16, 1), "2¹⁸": (2**18, 5), "plain": (2**16, 0)
}  # fmt: skip
TINY = 1e-6  # texts that stand there twice
ENGLISH = ("clinic-en", "psytar")
FITS = [
    *(("documents", "balanced", c) for c in (1, 2, 3)),
    *((how, "balanced", 2) for how in ("all counts", "2¹⁸")),
    ("documents", "root", 2),
    ("plain", "balanced", 3),
]

Rows = Any  # a sparse matrix (texts, numbers)


def held_out(name: str, out: Path) -> Iterator[tuple[Any, Texts, Texts]]:
    """The task, and texts to fit and to judge by, of each seed."""
    for seed in range(SEED, SEED + (3 if name.startswith("clinic") else 1)):
        tables = widened(name) | {"seed": seed, "method": {"name": "centralised"}}
        built = build(cells(tables, where=name, folder=HERE)[0].study, out)
        raw: Any = built.raw
        fit = [document for site in raw.names for document in raw.raw(site)[0].documents]
        judge = [document for site in raw.names for document in raw.valid(site).documents]
        drawn = np.random.default_rng(0)
        some = [
            Texts(tuple(part[at] for at in drawn.permutation(len(part))[:most]))
            for part, most in zip((fit, judge), MOST, strict=True)
        ]
        yield built.task, some[0], some[1]


def counted(task: Any, texts: Texts, buckets: int) -> Rows:
    """How often each of so many numbers stands in each text."""
    numbers = replace(task.numbers, words=replace(task.numbers.words, buckets=buckets))
    tokens, _ = numbers.read(document.text for document in texts.documents)
    at = np.repeat(np.arange(len(tokens)), tokens.lengths.numpy())
    ones = np.ones(len(at), np.float32)
    return sparse.csr_matrix((ones, (at, tokens.values.numpy())), shape=(len(tokens), buckets))


def weighed(fit: Rows, judge: Rows, rarest: int, counts: Any = None) -> list[Rows]:
    """Both as our models see them, weighed by document counts of at least so many, given or taken, or not at all."""
    if not rarest:
        return [sparse.diags(1 / np.sqrt(np.maximum(rows.sum(1).A1, 1))) @ rows for rows in (fit, judge)]
    count = np.maximum((fit > 0).sum(0).A1 if counts is None else counts, rarest)
    importance = np.maximum(np.log((1 + fit.shape[0]) / (1 + count)) + 1, 1)
    both = []
    for rows in (fit, judge):
        logarithmic = rows.copy()
        logarithmic.data = 1 + np.log(logarithmic.data)
        scaled = logarithmic @ sparse.diags(importance)
        lengths = np.sqrt(np.maximum(scaled.multiply(scaled).sum(1).A1, 1e-12))
        both.append(sparse.diags(1 / lengths) @ scaled)
    return both


def narrowed(fit: Rows, judge: Rows) -> list[Any]:
    """The same rows by their products with those to fit: as many numbers as there are of these, and the same model."""
    root = cholesky((fit @ fit.T).toarray() + TINY * np.eye(fit.shape[0]), lower=True)  # (fit, fit)
    return [root, solve_triangular(root, (fit @ judge.T).toarray(), lower=True).T]


def fitted(fit: Rows, truth: Any, judge: Rows, weights: str, c: float) -> Any:
    """The answers of one logistic regression."""
    classes, there = np.unique(truth, return_counts=True)
    balanced = len(truth) / (len(classes) * there)
    by_class = dict(zip(classes, balanced if weights == "balanced" else np.sqrt(balanced), strict=True))
    model = LogisticRegression(C=c, class_weight=by_class, max_iter=300, tol=1e-3)
    return model.fit(fit, truth).predict(judge)


def figures(fit: Rows, truth: Any, judge: Rows, judged: Any, weights: str, c: float) -> tuple[float, float]:
    """The first figure and macro-F1; several labels one by one."""
    if truth.ndim > 1:
        answers = np.stack([fitted(fit, truth[:, at], judge, weights, c) for at in range(truth.shape[1])], 1)
        return tuple(f1_score(judged, answers, average=over) for over in ("micro", "macro"))
    answers = fitted(fit, truth, judge, weights, c)
    return accuracy_score(judged, answers), f1_score(judged, answers, average="macro")


def line(name: str, out: Path) -> str:
    """A row of the table: means over seeds."""
    measured: dict[str, list[tuple[float, float]]] = {}
    for task, fit, judge in held_out(name, out):
        truths = [label_numbers(some, task.labels, several=task.settings.several).numpy() for some in (fit, judge)]
        shape: dict[str, Any] = {"analyzer": "char", "ngram_range": (1, 3)}
        if name in ENGLISH:
            shape = {"analyzer": "word", "ngram_range": (1, 2), "token_pattern": r"\w+"}
        words = TfidfVectorizer(sublinear_tf=True, dtype=np.float32, **shape)
        rows = [
            words.fit_transform([d.text for d in fit.documents]),
            words.transform([d.text for d in judge.documents]),
        ]
        first, second = narrowed(*rows)
        measured.setdefault("tfidf", []).append(figures(first, truths[0], second, truths[1], "balanced", 1))
        narrow = {
            how: narrowed(*weighed(counted(task, fit, buckets), counted(task, judge, buckets), rarest))
            for how, (buckets, rarest) in SEEN.items()
        }
        for how, weights, c in FITS:
            first, second = narrow[how]
            pair = figures(first, truths[0], second, truths[1], weights, c)
            measured.setdefault(f"{how} {weights} {c}", []).append(pair)
    means = [" / ".join(f"{value:.3f}" for value in np.mean(pairs, 0)) for pairs in measured.values()]
    return f"| {name} | {' | '.join(means)} |"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    place, *chosen = sys.argv[1:] or ["runs/rows"]
    heads = ["corpus", "tfidf, C = 1", *(f"{how}, {weights}, C = {c}" for how, weights, c in FITS)]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for study in chosen or sorted(path.stem for path in HERE.glob("*.toml")):
        print(line(study, Path(place)), flush=True)

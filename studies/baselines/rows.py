"""Is it the rows, or how the model is trained? Scikit-learn's logistic regression on our rows, on held-out texts.

    WARDROUND_DATA=… python studies/baselines/rows.py runs/rows [NAME…]     # needs wardround[baselines]; ten minutes

Training and held-out texts are those of `choose.py` (at most 1,700 and 1,500 of them), three draws. *tfidf* is the
reference's own rows with its own settings. The others are hashed to 2¹⁶ numbers: *runs* are those of two words or three
characters, by document counts, with counts below five as five; *mixed* has, besides, how English words begin, or
jieba's words beside Chinese characters; *beside* gives both kinds half of the numbers and the same length, *wide* with
2¹⁷ numbers, *root* by the root of how much each tells; *letters* has runs of three to five letters of English words in
that half; *plain* is `weighting = "none"`. In each cell the first figure (accuracy; PsyTAR: micro-F1) and macro-F1; the
last line is the mean over corpora of both.
"""

import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
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
from wardround.tasks.weighing import RAREST
from wardround.text.segment import Words, hashed
from wardround.text.texts import Texts

MOST = (1_700, 1_500)  # texts to fit, and to judge by
DRAWS = 3
BUCKETS = 2**16
TINY = 1e-6  # texts that stand there twice
ENGLISH = ("clinic-en", "psytar")
FITS: dict[str, tuple[str, float]] = {  # rows and C = 1 / shrinkage; classes are balanced
    "tfidf, C = 1": ("tfidf", 1), "runs, C = 2": ("runs", 2), "runs, C = 4": ("runs", 4), "mixed, C = 2": ("mixed", 2),
    "mixed, C = 4": ("mixed", 4), "beside, C = 2": ("beside", 2), "beside, C = 4": ("beside", 4),
    "wide, C = 4": ("wide", 4), "root, C = 4": ("root", 4), "letters, C = 2": ("letters", 2),
    "plain, C = 3": ("plain", 3),
}  # fmt: skip

Rows = Any  # a sparse matrix (texts, numbers)


def held_out(name: str, out: Path) -> Iterator[tuple[Any, Texts, Texts]]:
    """The task, and texts to fit and to judge by, of each draw."""
    for seed in range(SEED, SEED + DRAWS):
        tables = widened(name) | {"seed": seed, "method": {"name": "centralised"}}
        built = build(cells(tables, where=name, folder=HERE)[0].study, out)
        raw: Any = built.raw
        fit = [document for site in raw.names for document in raw.raw(site)[0].documents]
        judge = [document for site in raw.names for document in raw.valid(site).documents]
        drawn = np.random.default_rng(seed)
        some = [
            Texts(tuple(part[at] for at in drawn.permutation(len(part))[:most]))
            for part, most in zip((fit, judge), MOST, strict=True)
        ]
        yield built.task, some[0], some[1]


def numbered(rows: Iterable[Sequence[int]], buckets: int) -> Rows:
    """How often each number stands in each text."""
    rows = [*rows]
    at = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    values = np.array([number for row in rows for number in row])
    return sparse.csr_matrix((np.ones(len(at), np.float32), (at, values)), shape=(len(rows), buckets))


def counted(task: Any, texts: Texts, buckets: int = BUCKETS, **changed: Any) -> Rows:
    """How often each number stands in each text, as the task has them, or with another setting of what is beside."""
    numbers = replace(task.numbers, words=replace(task.numbers.words, buckets=buckets), **changed)
    tokens, _ = numbers.read(document.text for document in texts.documents)
    return numbered((row.tolist() for row in tokens.values.split(tokens.lengths.tolist())), buckets)


def spelt(rows: Rows, texts: Texts) -> Rows:
    """The same with runs of three to five letters of each word, and of its ends, where its stem was."""
    half = rows.shape[1] // 2
    words = [[f" {word} " for word in Words()(document.text) if word.isalnum()] for document in texts.documents]
    runs = [
        [word[at : at + size] for word in some for size in (3, 4, 5) for at in range(len(word) - size + 1)]
        for some in words
    ]
    return sparse.hstack(
        [rows[:, :half], numbered([[hashed(run, half) for run in some] for some in runs], half)]
    ).tocsr()


def weighed(fit: Rows, judge: Rows, counts: Any = None, power: float = 1.0) -> list[Rows]:
    """Both as our models see them, of one kind of numbers, weighed by document counts that are given or taken."""
    count = np.maximum((fit > 0).sum(0).A1 if counts is None else counts, RAREST)
    importance = np.maximum(np.log((1 + fit.shape[0]) / (1 + count)) + 1, 1) ** power
    both = []
    for rows in (fit, judge):
        logarithmic = rows.copy()
        logarithmic.sum_duplicates()
        logarithmic.data = 1 + np.log(logarithmic.data)
        scaled = logarithmic @ sparse.diags(importance)
        lengths = np.sqrt(np.maximum(scaled.multiply(scaled).sum(1).A1, 1e-12))
        both.append(sparse.diags(1 / lengths) @ scaled)
    return both


def halves(fit: Rows, judge: Rows, counts: Any = None, power: float = 1.0) -> list[Rows]:
    """The same of two kinds, one in each half of the numbers."""
    half = fit.shape[1] // 2
    parts = [
        weighed(fit[:, part], judge[:, part], None if counts is None else counts[part], power)
        for part in (slice(half), slice(half, None))
    ]
    return [sparse.hstack(two) / np.sqrt(2) for two in zip(*parts, strict=True)]


def plain(*both: Rows) -> list[Rows]:
    """As `weighting = "none"` has them."""
    return [sparse.diags(1 / np.sqrt(np.maximum(rows.sum(1).A1, 1))) @ rows for rows in both]


def reference(name: str, fit: Texts, judge: Texts) -> list[Rows]:
    """The rows of tfidf."""
    shape: dict[str, Any] = {"analyzer": "char", "ngram_range": (1, 3)}
    if name in ENGLISH:
        shape = {"analyzer": "word", "ngram_range": (1, 2), "token_pattern": r"\w+"}
    words = TfidfVectorizer(sublinear_tf=True, dtype=np.float32, **shape)
    texts = [[document.text for document in some.documents] for some in (fit, judge)]
    return [words.fit_transform(texts[0]), words.transform(texts[1])]


def seen(name: str, task: Any, fit: Texts, judge: Texts) -> dict[str, list[Any]]:
    """By kind, rows to fit and to judge by, turned."""
    other = "stems" if name in ENGLISH else "words"
    runs, both, wide = (
        [counted(task, texts, size, beside=what) for texts in (fit, judge)]
        for size, what in ((BUCKETS, "none"), (BUCKETS, other), (2 * BUCKETS, other))
    )
    kinds = {
        "tfidf": reference(name, fit, judge), "runs": weighed(*runs), "mixed": weighed(*both), "beside": halves(*both),
        "wide": halves(*wide), "root": halves(both[0], both[1], power=0.5), "plain": plain(*runs),
    }  # fmt: skip
    if name in ENGLISH:
        kinds["letters"] = halves(*(spelt(rows, texts) for rows, texts in zip(both, (fit, judge), strict=True)))
    return {kind: narrowed(*(sparse.csr_matrix(rows, dtype=np.float64) for rows in two)) for kind, two in kinds.items()}


def narrowed(fit: Rows, judge: Rows) -> list[Any]:
    """The same rows by their products with those to fit: as many numbers as there are of these, and the same model."""
    root = cholesky((fit @ fit.T).toarray() + TINY * np.eye(fit.shape[0]), lower=True)  # (fit, fit)
    return [root, solve_triangular(root, (fit @ judge.T).toarray(), lower=True).T]


def fitted(fit: Rows, truth: Any, judge: Rows, c: float) -> Any:
    """The answers of one logistic regression."""
    return LogisticRegression(C=c, class_weight="balanced", max_iter=300, tol=1e-3).fit(fit, truth).predict(judge)


def figures(fit: Rows, truth: Any, judge: Rows, judged: Any, c: float) -> tuple[float, float]:
    """The first figure and macro-F1; several labels one by one."""
    if truth.ndim > 1:
        answers = np.stack([fitted(fit, truth[:, at], judge, c) for at in range(truth.shape[1])], 1)
        return tuple(f1_score(judged, answers, average=over) for over in ("micro", "macro"))
    answers = fitted(fit, truth, judge, c)
    return accuracy_score(judged, answers), f1_score(judged, answers, average="macro")


def measured(name: str, out: Path) -> Any:
    """The figures of each fit (fits, 2): means over draws."""
    draws = []
    for task, fit, judge in held_out(name, out):
        truths = [label_numbers(some, task.labels, several=task.settings.several).numpy() for some in (fit, judge)]
        kinds = seen(name, task, fit, judge)
        draws.append(
            [
                figures(kinds[how][0], truths[0], kinds[how][1], truths[1], c) if how in kinds else (np.nan, np.nan)
                for how, c in FITS.values()
            ]
        )
        print(name, np.round(draws[-1], 3).tolist(), file=sys.stderr, flush=True)
    return np.mean(draws, 0)


def cell(pair: Any) -> str:
    """Both figures, if there are any."""
    return "–" if np.isnan(pair).any() else f"{pair[0]:.3f} / {pair[1]:.3f}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    place, *chosen = sys.argv[1:] or ["runs/rows"]
    print(f"| {' | '.join(['corpus', *FITS])} |\n|{'---|' * (len(FITS) + 1)}")
    sums = []
    for study in chosen or sorted(
        path.stem for path in HERE.glob("*.toml") if "centralised" in path.read_text("utf-8")
    ):
        pairs = measured(study, Path(place))
        sums.append(pairs.sum(1))
        print(f"| {study} | {' | '.join(map(cell, pairs))} |", flush=True)
    print(f"| both figures | {' | '.join(f'{value:.3f}' for value in np.mean(sums, 0) / 2)} |")

"""Metrics by the names that people use, and small sentences that several sections share."""

import statistics
from collections.abc import Iterable, Sequence

from wardround.metrics.defined import defined
from wardround.reports.record import RunRecord
from wardround.reports.statistics import Group, split_of

NAMES = {
    "accuracy": "accuracy",
    "auc": "AUC",
    "expressed": "share that truly says its fact",
    "exact": "exact-match rate",
    "f1": "F1",
    "loss": "loss",
    "macro_f1": "macro-F1",
    "macro_f1_without_negative": "macro-F1 without the negative class",
    "max_f1": "largest F1",
    "micro_f1": "micro-F1",
    "micro_f1_without_negative": "micro-F1 without the negative class",
    "micro_precision_without_negative": "micro-precision without the negative class",
    "micro_recall_without_negative": "micro-recall without the negative class",
    "p_100": "P@100",
    "p_200": "P@200",
    "p_300": "P@300",
    "p_mean": "mean of P@100, 200, 300",
    "positive_f1": "F1 of the positive class",
    "positive_precision": "precision of the positive class",
    "positive_recall": "recall of the positive class",
    "pr_auc": "PR-AUC",
    "pr_auc_2000": "PR-AUC, first 2000",
    "precision": "precision",
    "recall": "recall",
    "relaxed_f1": "relaxed F1",
}
SEEN = {
    "sum": "The method sees only the sum over sites; the coordinator's machine receives each site's answer.",
    "each": "The coordinator sees each site's answer.",
}
REFERENCES = {
    "alone": "reference: each site alone",
    "pooled": "reference: all data in one place",
    "public": "reference: the coordinator alone, on public examples",
}
NOTHING = "(nothing)"
"""What an entity is taken for that is missed, or was made up of."""
SPLIT_WORDS = {"test": "test split", "train": "training split", "valid": "validation split"}


def named(metric: str, *, split: bool = False) -> str:
    """A metric's name as it is read, with its split if asked for."""
    where = split_of(metric)
    plain, _, label = metric.removeprefix(f"{where}_").partition("[")
    name = NAMES.get(plain, plain.replace("_", " ")) + (f" of {label.removesuffix(']')}" if label else "")
    return f"{name}, {SPLIT_WORDS[where]}" if split else name


def definition_of(metrics: Iterable[str]) -> dict[str, str]:
    """What each metric means, whatever its split and class."""
    return defined(metric.removeprefix(f"{split_of(metric)}_").partition("[")[0] for metric in metrics)


def method_list(groups: Iterable[Group]) -> str:
    """Labels as an enumeration; they may have commas of their own."""
    return "; ".join(group.label for group in groups)


def per_round(runs: Sequence[RunRecord], way: str) -> float | None:
    """The bytes that one site sends or gets in a round of training, on average."""
    sizes = [getattr(line, way) / line.asked for run in runs for line in run.lines if line.asked]
    return statistics.fmean(sizes) if sizes else None

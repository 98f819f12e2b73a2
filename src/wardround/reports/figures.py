"""A figure's name as it is read, its split, and its spread over seeds; loads in no time (no torch)."""

from dataclasses import dataclass

SPLITS = ("train", "valid")
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
SPLIT_WORDS = {"test": "test split", "train": "training split", "valid": "validation split"}


@dataclass(frozen=True)
class Spread:
    """Some values' mean; from two values on, their standard deviation and the mean's 95 % interval."""

    n: int
    mean: float
    sd: float | None = None
    low: float | None = None
    high: float | None = None


def split_of(metric: str) -> str:
    """The split a metric was measured on; without a prefix it is the test split."""
    return next((split for split in SPLITS if metric.startswith(f"{split}_")), "test")


def of_one_class(metric: str) -> bool:
    """Whether the metric is one of many, each of a single class: `f1[CPR:3]`."""
    return metric.endswith("]")


def named(metric: str, *, split: bool = False) -> str:
    """A metric's name as it is read, with its split if asked for."""
    where = split_of(metric)
    plain, _, label = metric.removeprefix(f"{where}_").partition("[")
    name = NAMES.get(plain, plain.replace("_", " ")) + (f" of {label.removesuffix(']')}" if label else "")
    return f"{name}, {SPLIT_WORDS[where]}" if split else name

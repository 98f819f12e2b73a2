"""What suits a text classifier where a study leaves it open: each choice as studies/baselines measured it.

suited(settings, "en")     # {"tokens": "words", "ngrams": 2, …}
training(settings)         # {"sgd": {"lr": 8.0, …}, "adam": …}: by optimiser, the preferred first
"""

from collections.abc import Mapping
from typing import Any

from wardround.tasks.weighing import RAREST, SHRINKAGE
from wardround.tasks.words import tokens_for


def suited(settings: Any, language: str) -> dict[str, Any]:
    """What suits texts of this language; nothing about tokens if it is not known."""
    tokens = settings.tokens or ("jieba" if settings.terms else None)
    if tokens is None and language:
        tokens = tokens_for(language, listed=bool(settings.vectors))
    ngrams = settings.ngrams or (3 if tokens == "characters" else 2) if settings.bag else 1
    chosen: dict[str, Any] = {"tokens": tokens, "buckets": 2**16 if ngrams > 1 else 2**14}
    if settings.bag:
        # As the plain baseline weighs words, in every language: without, notes lose 0.013, PsyTAR 0.03.
        weighting = settings.weighting or "documents"
        # With less than balance the pull to zero takes rare classes away: −0.02 to −0.19 macro-F1 on real corpora.
        weights = settings.class_weights or "balanced"
        chosen |= {"ngrams": ngrams, "class_weights": weights, "weighting": weighting}
        if weighting == "documents":
            chosen |= {"rarest": RAREST, "shrinkage": SHRINKAGE}
            # By a site's own labels, sites pull apart: on intents 0.577 in place of 0.586, 0.491 of 0.546 if skewed.
            chosen |= {"class_counts": "all"} if weights != "none" else {}
    return {key: value for key, value in chosen.items() if value is not None}


def training(settings: Any) -> Mapping[str, Mapping[str, Any]]:
    """By optimiser, the preferred first, the settings of local training that suit the model."""
    if settings.bag:  # inputs of length 1 in thousands of directions: small steps would take hundreds of rounds
        falls = {"schedule": "cosine"} if settings.counts_documents else {}  # a pull has an optimum to settle in
        # One pass a round leaves sites short of it: on intents, FedAvg has 95 % of centralised, and with two 98 %.
        passes = {"epochs": 2} if settings.counts_documents else {}
        return {"sgd": {"lr": 8.0, "batch": 16, **falls, **passes}, "adam": {"lr": 0.02, "batch": 16, **falls}}
    if settings.model == "lstm" and not settings.vectors:
        return {"adam": {"lr": 0.003, "batch": 16}, "sgd": {"lr": 0.5, "batch": 16}}
    return {}  # somebody else's vectors: their scale decides

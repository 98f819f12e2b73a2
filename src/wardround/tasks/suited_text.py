"""What suits a text classifier where a study leaves it open: each choice as studies/baselines measured it.

suited(settings, "en")     # {"tokens": "words", "ngrams": 2, …}
training(settings)         # {"sgd": {"lr": 8.0, …}, "adam": …}: by optimiser, the preferred first
misfits(settings)          # what a study says that goes with another model
lacking(settings, survey)  # what a user's files lack, as far as they were counted
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from wardround.tasks.text_examples import TextNumbers
from wardround.tasks.weighing import RAREST, SHRINKAGE
from wardround.tasks.words import refuse_useless, tokens_for
from wardround.text.language import mostly

LOOKED_AT = 2000  # texts of files that are read once more
FEWEST = 2**14  # numbers that are enough for two kinds of them


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
            # "migraines" is near "migraine", and so is what is misspelt; in Chinese, words are no guess of runs.
            # With few numbers, two kinds would share them too often.
            other = "words" if language == "zh" and tokens == "characters" else "none"
            few = (settings.buckets or FEWEST) < FEWEST
            chosen |= {"beside": "none" if few else "stems" if tokens == "words" else other}
            chosen |= {"rarest": RAREST, "shrinkage": SHRINKAGE}
            # By a site's own labels, sites pull apart: on intents 0.577 in place of 0.586, 0.491 of 0.546 if skewed.
            chosen |= {"class_counts": "all"} if weights != "none" else {}
    return {key: value for key, value in chosen.items() if value is not None}


def misfits(settings: Any) -> Iterator[str]:
    """Settings of words that do not go with the model or with each other."""
    if settings.terms and settings.tokens not in ("jieba", None):
        yield f'terms goes with tokens = "jieba", not {settings.tokens!r}'
    if (settings.ngrams or 1) > 1 and not settings.bag:
        yield f'ngrams = {settings.ngrams} goes with model = "logistic" without vectors; leave it out'
    if settings.weighting == "documents" and not settings.bag:
        yield 'weighting = "documents" goes with model = "logistic" without vectors; leave it out'
    if settings.weighting == "none" or not settings.bag:
        yield from _without_counts(settings)
    goes = {"stems": "words", "words": "characters"}.get(settings.beside or "")
    if goes and settings.tokens not in (goes, None):
        yield f'beside = "{settings.beside}" goes with tokens = "{goes}", not "{settings.tokens}"; leave it out'
    if goes and settings.buckets is not None and settings.buckets < 4:
        yield f'buckets = {settings.buckets} is too few for two kinds of words; set 4 or more, or beside = "none"'
    if settings.train_vectors and not settings.vectors:
        yield "train_vectors needs a file of vectors to start from; without one the LSTM trains its own"
    if settings.summary and settings.model != "lstm":
        yield f'summary = {settings.summary!r} goes with model = "lstm", not {settings.model!r}; leave it out'


def _without_counts(settings: Any) -> Iterator[str]:
    """What goes with a bag that is weighed by document counts, and with nothing else."""
    if settings.class_counts == "all":
        yield 'class_counts = "all" goes with weighting = "documents", whose exchange tells them; leave it out'
    if settings.beside in ("stems", "words"):
        yield f'beside = "{settings.beside}" goes with weighting = "documents"; leave it out'
    if settings.rarest or settings.shrinkage:
        yield 'rarest and shrinkage go with weighting = "documents"; leave them out'


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


def lacking(settings: Any, survey: Any) -> Iterator[tuple[str, str]]:
    """What files lack for a classifier with these settings, where the rest is as suits them; each with a remedy."""
    if (count := len(survey.labels)) < 2:
        remedy = "name the column with --label-column, or add texts with another label"
        yield f"{count} label{'s' * (count != 1)}, where a classifier needs two", remedy
    some = [placed.document for placed, _ in islice(survey.again(), LOOKED_AT)]
    texts, named = [one.text for one in some], {one.language for one in some if one.language}
    language = named.pop() if len(named) == 1 else mostly(texts) or "en"
    if settings.model == "encoder" or not texts:
        return
    chosen = suited(settings, language)
    settings = replace(settings, tokens=chosen["tokens"], ngrams=chosen.get("ngrams"), remember=False)
    try:
        rows = TextNumbers.of(settings).whole(texts)
        refuse_useless(texts, rows, tokens=settings.tokens, listed=settings.vectors)
    except ValueError as error:
        what, _, remedy = str(error).rpartition("; ")
        yield what, remedy

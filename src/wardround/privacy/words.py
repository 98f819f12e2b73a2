"""What differential privacy means in a study, in words that a doctor and a data-protection officer can check.

    for sentence in in_words(study.resolved["privacy"]["dp"]): print(sentence)

The table is taken as the plain values that every run's folder has, so that a report needs nothing else.
"""

import math
from collections.abc import Mapping
from typing import Any

WHO = {
    "patient": "one patient, with all of the patient's notes",
    "document": "one document, with all that was made of it",
    "example": "one example (a patient with several has less protection: about as many times ε)",
}


def short(dp: Mapping[str, Any]) -> str:
    """In one line."""
    return f"ε = {dp['epsilon']:g}, δ = {dp['delta']:g}, by {dp['unit']}, at each site"


def in_words(dp: Mapping[str, Any]) -> list[str]:
    """Sentences for the protocol, the approval, the report and the model's card."""
    unit = dp["unit"]
    protects = (
        f"It protects {WHO[unit]}: whoever sees everything that leaves the site, and the final model, could hardly "
        f"tell whether the site had the notes of this {unit} or not. The odds of any guess about it change by a "
        f"factor of at most e^ε = {_grown(dp['epsilon'])}, but for a chance of δ = {dp['delta']:g}."
    )
    how = (
        f"How: in every step each {unit} is drawn by itself at random (Poisson sampling); its influence is shortened "
        f"to {dp['clip']:g}; and noise is added at the site before anything leaves. The noise was found from ε for all "
        "rounds together, by privacy loss distributions."
    )
    compared = (
        f"Compared are two sets of notes of which one has one {unit} more (add or remove one). The number of {unit}s "
        "is told with noise as well, which is part of ε."
    )
    counted = (
        "What evaluation counts has noise of its own, so test and validation notes are protected alike, each at the "
        f"same ε; figures are therefore about right, and better with more test notes and fewer evaluations. One "
        f"{unit} has an influence of at most {dp['count_clip']:g} on a count."
        if dp["evaluation"] == "noised"
        else "What evaluation counts has no noise: test and validation notes are NOT protected. This is a simulation."
    )
    sites = (
        "Each site keeps a journal of what was spent; a patient with notes at two sites is protected at each, and both "
        "ε add up."
    )
    return [f"Differential privacy at each site: {short(dp)}.", protects, how, compared, counted, sites]


def of_figures(dp: Mapping[str, Any]) -> str:
    """What a reader of a run's figures must know: in the summary, and beside the report's tables."""
    counted = (
        "and what evaluation counts has noise as well: figures are approximate, the rougher the fewer test notes a "
        "site has"
        if dp["evaluation"] == "noised"
        else "what evaluation counts has none"
    )
    return f"trained with the noise of differential privacy ({short(dp)}), {counted}"


def _grown(epsilon: float) -> str:
    return f"{math.exp(epsilon):,.1f}" if epsilon < 20 else "more than anybody can count"


def noted(dp: Any, trainings: int, rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    """What a round's line in the journal says of it: what the run costs each site at most, and how far it is."""
    if dp is None:
        return {}
    numbers = {"epsilon": dp.epsilon, "delta": dp.delta, "trainings": trainings, "of": rounds}
    return {"privacy": {f"each {dp.unit}, at each site": numbers}}

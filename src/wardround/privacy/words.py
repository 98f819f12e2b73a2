"""What differential privacy means in a study, in words that a doctor and a data-protection officer can check.

for line in in_words(study.dp): print(line)
"""

import math

from wardround.study.outline import DPTable

WHO = {
    "patient": "one patient, with all of the patient's notes",
    "document": "one document, with all that was made of it",
    "example": "one example; a patient with several examples has less protection, about as many times ε",
}


def short(dp: DPTable) -> str:
    """In one line."""
    return f"ε = {dp.epsilon:g}, δ = {dp.delta:g}, by {dp.unit}, at each site"


def in_words(dp: DPTable) -> list[str]:
    """Sentences for the protocol, the approval, the report and the model's card."""
    counted = (
        f"What evaluation counts has noise of its own, so test and validation notes are protected alike, each at the "
        f"same ε; a {dp.unit} has an influence of at most {dp.count_clip:g} on it."
        if dp.evaluation == "noised"
        else "What evaluation counts has no noise: test and validation notes are NOT protected. This is a simulation."
    )
    unit = dp.unit
    protects = (
        f"It protects {WHO[unit]}: whoever sees everything that leaves the site, and the final model, could hardly "
        f"tell whether the site had the notes of this {unit} or not. The odds of any guess about it change by a "
        f"factor of at most e^ε = {_grown(dp.epsilon)}, but for a chance of δ = {dp.delta:g}."
    )
    how = (
        f"How: in every step each {unit} is drawn by itself at random (Poisson sampling); its influence is shortened "
        f"to {dp.clip:g}; and noise is added at the site before anything leaves. The noise was found from ε for all "
        "rounds together, by privacy loss distributions."
    )
    compared = (
        f"Compared are two sets of notes of which one has one {unit} more (add or remove one). The number of {unit}s "
        "is told with noise as well, which is part of ε."
    )
    sites = (
        "Each site keeps a journal of what was spent; a patient with notes at two sites is protected at each, and both "
        "ε add up."
    )
    return [f"Differential privacy at each site: {short(dp)}.", protects, how, compared, counted, sites]


def _grown(epsilon: float) -> str:
    return f"{math.exp(epsilon):,.1f}" if epsilon < 20 else "more than anybody can count"

"""Settings that whatever is read of the generated hospitals has in common.

Clinic(documents=50, **shared(corpus, Hospitals))
"""

from dataclasses import dataclass, fields
from typing import Annotated, Any

from annotated_types import Ge, Le, Lt

from wardround.clinic.words import Language

Share = Annotated[float, Ge(0), Le(1)]


@dataclass(frozen=True, kw_only=True)
class Hospitals:
    """A group of hospitals, and how far they differ."""

    hospitals: Annotated[int, Ge(1)] = 5
    """How many there are; each is a site."""
    language: Language = "en"
    """What the texts are written in."""
    heterogeneity: Share = 0.5
    """From 0, all hospitals alike, to 1, as different as they come."""
    noise: Share = 0.1
    """The share of labels that annotators got wrong; slips of the pen come with it."""
    seed: int = 0
    """The seed that everything is drawn by; if not given, the study's."""
    per_patient: Annotated[int, Ge(1)] | None = None
    """Notes that each patient has, of one department and about the same problems, or dialogues, or sentences of bags;
    if not given, none says whose."""


@dataclass(frozen=True, kw_only=True)
class Distant(Hospitals):
    """How sentences stand to the public facts that label them."""

    expression: Share = 0.6
    """The share of a fact's sentences that truly express it; the others are noise."""
    bag_size: Annotated[float, Ge(1)] = 3.0
    """The mean number of sentences per fact and hospital."""
    background: Share = 0.0
    """The share of noise, and of the sentences of unrelated pairs, that says the same whatever the relation; the rest
    says what goes with it (that the drug was stopped, that it did not help), which gives the relation away."""
    unrelated: Annotated[float, Ge(0), Lt(1)] = 0.3
    """The share of draws of a bag whose pair has no fact; of the bags it is more in the end, as facts come up again."""


def shared(settings: Hospitals, kind: type[Hospitals]) -> dict[str, Any]:
    """Those of the settings that `kind` knows."""
    return {field.name: getattr(settings, field.name) for field in fields(kind)}

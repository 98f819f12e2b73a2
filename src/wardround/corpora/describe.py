"""What a federation's data look like, for the run folder: sizes, labels by site, a fingerprint. No text."""

import hashlib
from collections import Counter
from typing import Any

from wardround.corpora.federation import Sites
from wardround.corpora.reading import Problems

__all__ = ["describe"]

MOST_SITES = 500  # to describe a site it must be opened; more would make the start slow


def describe(sites: Sites, task: Any = None) -> dict[str, Any]:
    """Examples per label, site and split, a hash of the examples themselves, and what was found odd.

    A task that reads more into texts than labels (`survey`) says what there is, and what it found odd.
    Only a simulation can look at all sites like this.
    """
    if len(sites.names) > MOST_SITES:
        return {"count": len(sites.names), "sites": {}, "fingerprint": None}
    found: dict[str, dict[str, dict[str, int]]] = {}
    whole = hashlib.sha256()
    odd = Problems()
    survey = getattr(task, "survey", None)
    for name in sites.names:
        train, test = sites.raw(name)
        found[name] = {
            split: {
                str(label): count
                for label, count in sorted((survey(raw, odd) if survey else Counter(raw.classes)).items(), key=str)
            }
            for split, raw in (("train", train), ("test", test))
        }
        for raw in (train, test):
            whole.update(raw.digest())
    problems = [*(str(sites.problems).splitlines() if sites.problems else []), *str(odd).splitlines()]
    return {"count": len(sites.names), "sites": found, "fingerprint": whole.hexdigest(), "problems": problems}

"""A site's own notes, cut into a few sites that stand for a federation: for an audit that never leaves the house.

make, whose = own_notes(train, test, most=240, seed=0)
audited(study, make=make, whose=whose)
"""

from pathlib import Path

import numpy as np

from wardround.audit.case import Make, reopened
from wardround.federation.partition import Raw
from wardround.runs.build import Built, build_at_site
from wardround.study.load import Study
from wardround.study.settings import StudyError

PARTS = ("part-0", "part-1", "part-2", "part-3")
FEWEST = 3  # notes in a part


def own_notes(train: Raw, test: Raw, most: int, seed: int) -> tuple[Make, str]:
    """How to build a study on these notes, each part with a share of both splits by the seed; and what that is."""
    rng = np.random.default_rng(seed)
    cut = [np.array_split(rng.permutation(len(split))[:most], len(PARTS)) for split in (train, test)]
    if min(len(part) for split in cut for part in split) < FEWEST:
        least = FEWEST * len(PARTS)
        problem = f"{len(train):,} training and {len(test):,} test examples; an audit needs {least} of each"
        raise StudyError("audit", [f"{problem}: name more in [data] of site.toml"])
    opened = {
        name: (train.take(np.sort(mine)), test.take(np.sort(tried)))
        for name, mine, tried in zip(PARTS, *cut, strict=True)
    }

    def make(study: Study, folder: Path) -> Built:
        built = build_at_site(study, folder / "memory", PARTS, (train, test))
        return reopened(built, opened.__getitem__, folder / "parts")

    used = tuple(sum(len(part) for part in split) for split in cut)
    return make, f"{used[0]} training and {used[1]} test examples of this site, cut into {len(PARTS)} parts"

"""Who was left out of rounds, how often and why, and what that did to the labels that were trained on.

    absences(lines)            # "site-1 was left out of 3 rounds, first of round 2: fit: late: …"
    uncovered(lines, data)     # "of DRUG, 40 % of the training examples were missing in a round, on average; …"

Where sites are real, the coordinator does not know which of them has which labels, and the words say so.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from wardround.runs.files import Data, Round

WORST = 5  # labels that are named
UNKNOWN = "which labels that took away from the training is not known: sites tell nobody how many of each they have"


def absences(lines: Iterable[Round]) -> list[str]:
    """In words, which sites were left out of rounds, how often, and why at first."""
    rounds: dict[str, list[tuple[int, str]]] = {}
    for line in lines:
        for site, why in line.left_out.items():
            rounds.setdefault(site, []).append((line.round, why))
    return [
        f"{site} was left out of {len(mine):,} round{'s' * (len(mine) > 1)}, first of round {mine[0][0]}: {mine[0][1]}"
        for site, mine in sorted(rounds.items())
    ]


def uncovered(lines: Sequence[Round], data: Data | None) -> list[str]:
    """In words, how much of each label's training examples was missing because sites were left out, the worst first."""
    out = [_untrained(line) for line in lines]
    if not any(out):
        return []
    if data is None or not data.sites:
        return [UNKNOWN]
    have = {site: splits.get("train", {}) for site, splits in data.sites.items()}
    whole = Counter[str]()
    for counts in have.values():
        whole.update(counts)
    rows = []
    for label, total in whole.items():
        missing = [sum(have.get(site, {}).get(label, 0) for site in sites) / total for sites in out if total]
        if mean := sum(missing) / max(len(missing), 1):
            rows.append((-mean, label, sum(share == 1 for share in missing)))
    words = [
        f"of {label}, {-mean:.0%} of the training examples were missing in a round, on average"
        + (f"; in {none:,} of {len(lines):,} rounds there were none" if none else "")
        for mean, label, none in sorted(rows)[:WORST]
    ]
    others = len(rows) - WORST
    return [*words, f"so were some of {others:,} other label{'s' * (others > 1)}"] if others > 0 else words


def _untrained(line: Round) -> set[str]:
    """The sites that had no part in a round's training; one may have failed at the evaluation alone."""
    return {site for site, why in line.left_out.items() if not why.startswith("evaluate:")}

"""Choosing the surest sentence of each bag, by a model that knew everything: how often would it be a true one.

    python studies/lazymil/ideal.py
    python studies/lazymil/ideal.py clinic-noise clinic-apart bc5cdr-lazy      # the bags of these studies, counted

No training: generated sentences are counted by kind of clause and types of their ends, which gives P(relation | clause)
exactly. Of each bag the surest sentence is taken, as Lazy MIL at C = 1 would. Printed are the share of sentences that
are true, of those so chosen, and of bags that have a true one at all: more than these no choice can reach.
"""

import sys
from collections import Counter, defaultdict
from pathlib import Path

from wardround.clinic import Clinic
from wardround.clinic.distant import Expressed
from wardround.study.load import load_study
from wardround.text.facts import UNRELATED, Fact


def surest(scores: list[Expressed]) -> dict[Fact, list[Expressed]]:
    """For each fact, its sentences whose clause most often goes with its relation."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    bags: dict[Fact, list[Expressed]] = defaultdict(list)

    def seen(one: Expressed) -> tuple[str, str]:
        return one.clause, next(end.type for end in one.document.entities if end.id == one.fact.head)

    def sure(one: Expressed) -> float:
        return counts[seen(one)][one.fact.relation] / counts[seen(one)].total()

    for one in scores:
        counts[seen(one)][one.fact.relation] += 1
        bags[one.fact].append(one)
    facts = {fact: mine for fact, mine in bags.items() if fact.relation != UNRELATED}
    return {fact: [one for one in mine if sure(one) == max(map(sure, mine))] for fact, mine in facts.items()}


def bags(study: str) -> None:
    """For each corpus of a study: its training bags, those without a fact, and how many have a true sentence at all."""
    seen = []
    for cell in load_study(Path(__file__).with_name(f"{study}.toml")):
        reader = cell.study.corpus
        if reader in seen:
            continue
        seen.append(reader)
        results = defaultdict(list)
        for row in reader.documents("train"):
            results[row.fact].append(row.expressed)
        facts = [mine for fact, mine in results.items() if fact.relation != UNRELATED]
        rest = [mine for fact, mine in results.items() if fact.relation == UNRELATED]
        said = f"{sum(any(mine) for mine in facts) / len(facts):.2f} have a true one" if None not in facts[0] else ""
        print(
            f"{study} {cell.label}: {len(facts)} facts of {sum(map(len, facts)) / len(facts):.1f} sentences {said}",
            end="; ",
        )
        print(f"{len(rest)} pairs without, {sum(len(mine) > 1 for mine in rest)} of them with several sentences")


def main() -> None:
    """Two settings of the noise, by relation; or the bags of the studies that are named."""
    if sys.argv[1:]:
        for study in sys.argv[1:]:
            bags(study)
        return
    print("background  relation       bags   true  chosen  at most  what is chosen first")
    for background in (0.0, 1.0):
        clinic = Clinic(hospitals=4, documents=1000, heterogeneity=0.3, expression=0.25, background=background)
        sentences = [one for name in clinic.names() for one in clinic.stream_distant(name, "train")]
        chosen = surest(sentences)
        for relation in ("may_treat", "may_cause", "reveals", "presents_with"):
            mine = [one for one in sentences if one.fact.relation == relation]
            best = [ones for fact, ones in chosen.items() if fact.relation == relation]
            result = {one.fact for one in mine if one.expressed}
            right = sum(sum(one.expressed for one in ones) / len(ones) for ones in best) / len(best)
            share = sum(one.expressed for one in mine) / len(mine)
            kinds = ", ".join(f"{kind} {n}" for kind, n in Counter(ones[0].clause for ones in best).most_common(3))
            figures = f"{share:.3f}   {right:.3f}    {len(result) / len(best):.3f}"
            print(f"{background:10.0f}  {relation:13}  {len(best):4}  {figures}  {kinds}")


if __name__ == "__main__":
    main()

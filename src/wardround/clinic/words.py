"""What the hospitals talk about: concepts with their many names, and the public facts among them.

The tables in `tables/` hold one concept per line: English names | English short and spoken forms | Chinese
names | Chinese short and spoken forms | links. Alternatives stand between slashes. A short form may mean two
things (MS, PE, HA, 造影), as on real wards.

Links are letters. Lower case points to the department's own problems in their order (a is the first): what a
treatment treats, what a test reveals. Upper case points to the shared symptoms: what a problem presents with,
what a treatment may cause. A star marks a test that shows the department's sites; sites and conditions are
combined into further problems, the long tail. A percent sign marks a treatment that is no drug. The links are
plausible, and they are not medical advice.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from string import ascii_lowercase, ascii_uppercase
from typing import Literal

from wardround.text.facts import Fact

Language = Literal["en", "zh"]
DEPARTMENTS = ("cardiology", "gastroenterology", "neurology", "respiratory", "endocrine", "infection")
SHARED = "shared"
LETTERS = {"problem": "P", "treatment": "R", "test": "E"}
TYPES = {"problems": "problem", "treatments": "treatment", "tests": "test"}


@dataclass(frozen=True, slots=True)
class Concept:
    """Something a note can name, in one language; its id is the same in both."""

    id: str
    type: str
    department: str
    names: tuple[str, ...]
    short: tuple[str, ...]
    """Abbreviations, brand names, what people say: often shorter, sometimes ambiguous."""
    drug: bool = False


@dataclass(frozen=True)
class Lexicon:
    """All concepts of one language, by id and by pool, with the facts that join them."""

    concepts: Mapping[str, Concept]
    pools: Mapping[tuple[str, str], tuple[Concept, ...]]
    """By department (or `shared`) and type; the more common come first."""
    facts: tuple[Fact, ...]
    partners: Mapping[tuple[str, str], tuple[Concept, ...]]
    """By relation and concept id: the concepts at the other end of its facts."""


@cache
def table(name: str) -> Mapping[str, tuple[str, ...]]:
    """The sections of one table, `= title` and then its lines."""
    sections: dict[str, list[str]] = {}
    text = (files(__package__) / "tables" / f"{name}.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("= "):
            lines = sections.setdefault(line[2:], [])
        elif line:
            lines.append(line)
    return {title: tuple(lines) for title, lines in sections.items()}


@cache
def words(language: Language) -> Lexicon:
    """The vocabulary of one language, read once."""
    pools: dict[tuple[str, str], list[Concept]] = defaultdict(list)
    links: dict[str, str] = {}
    numbers = dict.fromkeys(TYPES.values(), 0)

    def add(kind: str, department: str, names: tuple[str, ...], short: tuple[str, ...], link: str) -> None:
        numbers[kind] += 1
        name = f"{LETTERS[kind]}{numbers[kind]:03}"
        pools[department, kind].append(
            Concept(name, kind, department, names, short, kind == "treatment" and "%" not in link)
        )
        links[name] = link

    for department in (SHARED, *DEPARTMENTS):
        sections = table(department)
        for section, kind in TYPES.items():
            for line in sections[section]:
                *forms, link = [*line.split("|"), ""][:5]
                own = forms[:2] if language == "en" else forms[2:]
                names, short = (tuple(form.split("/")) for form in own)
                add(kind, department, names, short, link)
        for names, short in _composed(language, sections):
            add("problem", department, names, short, "#")

    concepts = {concept.id: concept for pool in pools.values() for concept in pool}
    facts = tuple(dict.fromkeys(_facts({key: tuple(pool) for key, pool in pools.items()}, links)))
    partners: dict[tuple[str, str], list[Concept]] = defaultdict(list)
    for fact in facts:
        partners[fact.relation, fact.head].append(concepts[fact.tail])
        partners[fact.relation, fact.tail].append(concepts[fact.head])
    return Lexicon(
        concepts,
        {key: tuple(pool) for key, pool in pools.items()},
        facts,
        {key: tuple(others) for key, others in partners.items()},
    )


def _composed(
    language: Language, sections: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Every condition at every site: names and short forms."""
    for where, what in product(sections.get("sites", ()), sections.get("conditions", ())):
        site, abbreviation, zh_site = where.split("|")
        condition, zh_condition = what.split("|")
        if language == "zh":
            yield (zh_site + zh_condition,), ()
        else:
            yield (f"{site} {condition}", f"{condition} of the {site}"), (f"{abbreviation} {condition}",)


def _facts(pools: Mapping[tuple[str, str], tuple[Concept, ...]], links: Mapping[str, str]) -> Iterator[Fact]:
    symptoms = dict(zip(ascii_uppercase, pools[SHARED, "problem"], strict=True))
    for (department, kind), pool in pools.items():
        problems = pools[department, "problem"]
        own = dict(zip(ascii_lowercase, problems, strict=False))
        composed = [problem for problem in problems if links[problem.id] == "#"]
        for concept in pool:
            for letter in links[concept.id]:
                if letter in symptoms:
                    relation = "presents_with" if kind == "problem" else "may_cause"
                    yield Fact(concept.id, relation, symptoms[letter].id)
                elif letter in own:
                    yield Fact(concept.id, "may_treat" if kind == "treatment" else "reveals", own[letter].id)
                elif letter == "*":
                    for problem in composed:
                        yield Fact(concept.id, "reveals", problem.id)

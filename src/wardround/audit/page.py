"""The audit as one page for a data-protection officer: nothing is loaded, and it can be printed.

write_audit(audit, Path("audit.html"))
"""

import re
from pathlib import Path

from wardround import __version__
from wardround.audit.audit import ATTACKS, Audit
from wardround.audit.case import OFF, PROTECTIONS
from wardround.audit.finding import AttackResult
from wardround.core.files import write
from wardround.reports.html import Html, document, figure, join, plural, table, tag
from wardround.runs.wire import NEVER, SUMMED

ABOUT = {
    "secure aggregation": "Replies leave under masks that cancel out in the sum: no machine but the site's has one "
    "that can be read. It hides whose a word or a count is, not that somebody has it, and nothing of the model.",
    "differential privacy": "Each site adds noise while it trains, so that no single note, document or patient changes "
    "what leaves by much. It protects against whoever has the sums or the model, and costs accuracy.",
}
CODE = re.compile(r"^ .*$", re.MULTILINE)
LIMITS = (
    "An attack that fails is no proof: these are the ones we know of, and somebody may know a better one.",
    "Figures on generated notes say how much a message gives away in principle; on a site's own notes they differ.",
    "Chance is what guessing would achieve. A figure near it means that the attack tells next to nothing.",
)


def write_audit(audit: Audit, out: Path) -> Path:
    """Write the page."""
    out.parent.mkdir(parents=True, exist_ok=True)
    write(out, page(audit).encode())
    return out


WRAPPED = (
    "td { white-space: normal; } tbody th, thead th { min-width: 0; }\n"
    "tbody th > div { width: auto; overflow-wrap: break-word; }\n"
    "@media print { @page { size: landscape; } tbody th { min-width: 0; } }\n"
)
"""Cells are sentences here: on paper, what does not wrap is cut off."""


def page(audit: Audit) -> str:
    """The whole page."""
    sections = {
        "What is switched on": _protections(audit),
        "What it gives away, as measured": [_figures(audit), tag("ul", [tag("li", line) for line in LIMITS])],
        "A site that lies": _lies(audit),
        "What leaves a site": _leaves(audit),
        "How it was measured": _how(audit),
    }
    shown = [(f"s{at}", title, content) for at, (title, content) in enumerate(sections.items()) if content]
    body = [
        tag("header", _header(audit), tag("nav", [tag("a", title, href=f"#{at}") for at, title, _ in shown])),
        tag("main", [tag("section", tag("h2", title, id=at), content) for at, title, content in shown]),
        tag("footer", tag("p", f"Made by wardround {__version__}. This page loads nothing and sends nothing.")),
    ]
    return document(f"{audit.study.name}: audit", body, style=WRAPPED)


def _header(audit: Audit) -> Html:
    chosen = audit.study.resolved
    named = f"Method {chosen['method']['name']}, task {chosen['task']['name']}; {audit.notes}"
    what = f"{named}, {plural(audit.rounds, 'round')}"
    return join(
        [
            tag("p", "Audit of a federated study, for the data-protection officer", class_="over"),
            tag("h1", audit.study.name),
            tag("p", what, class_="soft"),
            tag("p", "Somebody who is curious, and follows every rule, was played against the study: a coordinator who "
                "reads all that reaches it, another site, whoever gets the model. This is what they could tell."),
        ]
    )  # fmt: skip


def _protections(audit: Audit) -> Html:
    rows = []
    for name, about in ABOUT.items():
        missing = audit.missing.get(name)
        off = f"off, and cannot be had as the study stands: {missing}" if missing else "off"
        state = "on" if name in audit.switched_on else off
        rows.append((name, state, about))
    robust = audit.study.robust
    rule = f"{robust.rule}" if robust else "a bound over real sites, nothing in simulations"
    rows.append(("robust rule", rule, "What stands between a site that lies and the model: [robust] in the study."))
    return table("Protections, as the study has them", ("protection", "in this study", "what it does"), rows, words=3)


def _figures(audit: Audit) -> Html:
    """A row for each attack, a column for each set of protections."""
    shown = [one for one in audit.findings if not one.attack.startswith("a site that lies")]
    labels = [label for label in PROTECTIONS if any(one.protection == label for one in shown)]
    rows = []
    for attack in dict.fromkeys(one.attack for one in shown):
        known = {one.protection: one for one in shown if one.attack == attack}
        first = next(iter(known.values()))
        rows.append((attack, first.figure, *(_cell(known.get(label)) for label in labels), first.why))
    head = ("attack", "figure", *labels, "from what, with nothing switched on")
    more = [
        tag("p", f"With {label}: not available here ({why}).", class_="soft") for label, why in audit.missing.items()
    ]
    more += [
        tag("p", f"With {label}: measured with {changes}, whose counts would have no noise.", class_="soft")
        for label, changes in audit.given_up.items()
    ]
    return join([table("What was told; in brackets what guessing would achieve", head, rows, words=len(head)), *more])


def _cell(finding: AttackResult | None) -> str:
    if finding is None:
        return "—"
    if finding.value is None:
        return f"not tried: {finding.why}"
    return f"{figure(finding.value, 2)} ({figure(finding.chance, 2)}): {finding.tells}"


def _lies(audit: Audit) -> Html | None:
    """Rules by lies, with nothing switched on."""
    lies_tried = [one for one in audit.findings if one.attack.startswith("a site that lies: ")]
    by_place = {tuple(one.attack.removeprefix("a site that lies: ").split(", ")): one for one in lies_tried}
    untried = [one for one in audit.findings if one.attack == "a site that lies"]
    why = [tag("p", f"With {one.protection} not tried: {one.why}.", class_="soft") for one in untried]
    if not by_place:
        return join(why) if why else None
    lies, rules = (list(dict.fromkeys(place[at] for place in by_place)) for at in (0, 1))
    rows = [(rule, *(_cell(by_place.get((lie, rule))) for lie in lies)) for rule in rules]
    figures = "; ".join(dict.fromkeys(f"{lie}: {by_place[lie, rules[0]].figure}" for lie in lies))
    whole = table("What one lying site does, by rule", ("rule", *lies), rows)
    return join([whole, tag("p", figures, class_="soft"), *why])


def _leaves(audit: Audit) -> Html:
    rows = [
        (
            row.step,
            row.message,
            row.field or "(names, numbers, framing)",
            f"{row.bytes:,}",
            _seen(audit, row.seen),
            row.reveals,
        )
        for row in audit.leaves
        if row.direction == "from site"
    ]
    head = ("step", "message", "field", "bytes", "the coordinator sees", "what its author says it reveals")
    return join([table("One round and an evaluation", head, rows, words=6), tag("p", SUMMED), tag("p", NEVER)])


def _seen(audit: Audit, seen: str) -> str:
    if seen != "sum":
        return seen
    return "only the sum" if "secure aggregation" in audit.switched_on else "the sum; its machine each"


def _how(audit: Audit) -> Html:
    about = [" ".join(CODE.sub("", doc).split()) for doc, _ in ATTACKS.values() if doc]
    seed = f"Seed {audit.study.seed}; each attack with each protection off and on, the first column with {OFF}."
    return join([tag("p", seed), tag("ul", [tag("li", text) for text in about])])

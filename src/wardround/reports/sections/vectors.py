"""How alike each site's classifier vectors are, by site and class, where a method notes it (FedCMC, figure 1)."""

from collections.abc import Mapping

from wardround.reports.compared import Report
from wardround.reports.html import Html, figure, join, plural, tag
from wardround.reports.read import natural
from wardround.reports.record import RunRecord
from wardround.reports.svg import at, cut, drawing, rect, text, width_of

WIDE, TALL, NAME = 44.0, 22.0, 150.0
Similarity = Mapping[str, Mapping[str, float]]


def vectors(report: Report) -> Html:
    """Two maps per run, of its first and its last round; empty if no run has any."""
    parts: list[object] = []
    for panel in report.panels:
        drawn = [
            part
            for group in panel.groups
            for run in group.runs[:1]
            if run.similarity
            for part in _maps(group.label, run)
        ]
        parts += [report.heading(panel), *drawn] if drawn else []
    return join(parts)


def _maps(label: str, run: RunRecord) -> list[Html]:
    first, last = run.similarity[0], run.similarity[-1]
    classes = {name for similarity in (first, last) for mine in similarity[1].values() for name in mine}
    two = " With two classes both similarities are one number, so both majors come from one site." * (len(classes) == 2)
    figures = []
    for round_, similarity in (first, last) if first[0] != last[0] else (first,):
        alt = f"mean cosine of each class's vector with the site's others, {label}, round {round_}"
        caption = (
            f"{label}, seed {run.seed}, round {round_}: how alike a site's vector of a class (row) is to its others, "
            f"at {plural(len(similarity), 'site')} (columns); the darker the less. Framed: the least of all sites, "
            f"where the class's major comes from (eq. 12).{two}"
        )
        scroll = tag("div", _map(similarity, alt), class_="scroll", tabindex="0", role="region", aria_label=alt)
        figures.append(tag("figure", scroll, tag("figcaption", caption)))
    return figures


def _map(similarity: Similarity, alt: str) -> Html:
    sites = sorted(similarity, key=natural)
    classes = sorted({name for mine in similarity.values() for name in mine}, key=natural)
    values = [value for mine in similarity.values() for value in mine.values()]
    low, span = min(values), (max(values) - min(values)) or 1.0
    left = min(NAME, max(map(width_of, classes))) + 12
    cells: list[object] = []
    for row, name in enumerate(classes):
        y = row * TALL
        least = min((mine[name] for mine in similarity.values() if name in mine), default=0.0)
        cells.append(text(left - 6, y + TALL / 2 + 4, [tag("title", name), cut(name, NAME)], "end"))
        for column, site in enumerate(sites):
            if (value := similarity[site].get(name)) is None:
                continue
            x, dark = left + column * WIDE, 0.08 + 0.92 * (low + span - value) / span
            box = (x + 1.5, y + 1.5, WIDE - 3, TALL - 3)
            cells.append(rect(*box, "cell", f"{site}, {name}: {figure(value)}", fill_opacity=f"{dark:.2f}"))
            kind = "in dark" if dark > 0.6 else "in"
            cells.append(text(x + WIDE / 2, y + TALL / 2 + 3.5, f"{value:.2f}", "middle", class_=kind))
            if value == least:
                cells.append(rect(*box, "major"))
    floor = len(classes) * TALL
    for column, site in enumerate(sites):
        middle = left + (column + 0.5) * WIDE + 4
        cells.append(text(middle, floor + 6, [tag("title", site), cut(site, NAME)], "end", turned=True))
    below = min(NAME, max(map(width_of, sites))) + 12
    return drawing(
        alt,
        left + len(sites) * WIDE + 4,
        floor + below,
        [tag("g", cells, style=f"font-size:{at(10)}px")],
        "heat",
        fixed=True,
    )

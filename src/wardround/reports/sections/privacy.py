"""What differential privacy the runs had, in words; nothing if none had it."""

from wardround.privacy.words import in_words
from wardround.reports.compared import Report
from wardround.reports.html import Html, join, tag


def privacy(report: Report) -> Html:
    """One paragraph for all runs on the same terms, and which have none."""
    terms: dict[tuple[str, ...], list[str]] = {}
    for panel in report.panels:
        for group in panel.groups:
            dp = next((run.study.get("privacy", {}).get("dp") for run in group.runs), None)
            terms.setdefault(tuple(in_words(dp)) if dp else (), []).append(group.label)
    if not any(terms):
        return Html("")
    parts: list[object] = []
    for sentences, labels in terms.items():
        parts.append(tag("h3", "; ".join(dict.fromkeys(labels))))
        parts += [tag("p", one) for one in sentences or ("No differential privacy.",)]
    return join(parts)

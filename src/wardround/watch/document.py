"""A whole page around its parts; what is in it at first is also what a reader without scripts sees, or prints."""

from wardround.reports.html import Html, tag
from wardround.watch.board import View

CONFIRM = (
    "The round under way is finished and kept; then the run ends, and its sites are let go. Nothing is lost: it can be "
    "taken up again with --resume."
)


def page(view: View, place: str) -> str:
    """The page at a place."""
    sections = [
        tag(
            "section",
            tag("h2", part.title, id=part.id) if part.title else None,
            tag("div", part.markup, data_part=part.id),
            aria_labelledby=part.id if part.title else None,
            aria_label=None if part.title else "State",
        )
        for part in view.parts
    ]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="robots", content="noindex"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{view.title}: wardround"),
        tag("link", rel="icon", href="/icon.svg"),
        tag("link", rel="stylesheet", href="/page.css"),
        tag("link", rel="stylesheet", href="/watch.css"),
        tag("script", type="module", src="/watch.js"),
    )
    links = [(part.id, part.title) for part in view.parts if part.title]
    body = tag(
        "body",
        tag("a", "To the content", href="#content", class_="skip"),
        tag(
            "header",
            tag("p", tag("a", "all runs", href="/") if place else "wardround", " · ", view.over, class_="over"),
            tag("h1", view.title),
            tag("p", "…", id="line", class_="soft", role="status"),
            tag("nav", [tag("a", title, href=f"#{at}") for at, title in links], aria_label="Sections"),
        ),
        tag("main", sections, id="content"),
        tag("div", "", id="news", class_="unseen", aria_live="polite"),
        _dialog(),
        tag("footer", tag("p", "This page asks only the machine that it comes from, and shows no note.")),
        tag("noscript", "Without JavaScript, which comes from this machine alone, the page stays as it is now."),
        data_events=f"/events/{place}" if place else "/events",
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _dialog() -> Html:
    buttons = [
        tag("button", "Let it go on", type="button", id="stop-no", autofocus="autofocus"),
        tag("button", "Stop after this round", type="button", id="stop-yes", class_="main"),
    ]
    title = tag("h2", "Stop ", tag("span", "", id="stop-name"), " after this round?", id="stop-title")
    return tag("dialog", title, tag("p", CONFIRM), tag("p", buttons, class_="row"), tag("p", "", id="stop-error"),
               id="stop", aria_labelledby="stop-title")  # fmt: skip

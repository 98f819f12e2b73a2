"""Markup that cannot be forgotten to be escaped, and figures as a reader wants them.

    tag("td", "<script>", class_="name")        # <td class="name">&lt;script&gt;</td>

Rule of this file: only `tag`, `join` and `document` make `Html`; every other string that goes in is escaped.
"""

import html
from collections.abc import Iterable, Sequence
from importlib import resources

from wardround.reports.figures import Spread

VOID = frozenset({"meta", "link", "br", "rect", "line", "circle", "path", "polygon", "use"})
NBSP = "\N{NO-BREAK SPACE}"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
UNITS = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


class Html(str):
    """Markup; any other string is text."""

    __slots__ = ()


def tag(name: str, /, *content: object, **attributes: object) -> Html:
    """An element; `class_` and `stroke_width` become class and stroke-width, and what is none is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = join(content)
    return Html(f"<{name}{written}/>" if name in VOID and not inside else f"<{name}{written}>{inside}</{name}>")


def join(parts: Iterable[object], between: str = "") -> Html:
    """The parts one after another; lists are joined, nothing is left out but none, and text is escaped."""
    markup = [_markup(part) for part in parts if part is not None]
    return Html(html.escape(between).join(markup))


def _markup(part: object) -> str:
    if isinstance(part, Html):
        return part
    if isinstance(part, list | tuple):
        return join(part)
    return html.escape(str(part))


def table(caption: object, head: Sequence[object], rows: Iterable[Sequence[object]], *, words: int = 1) -> Html:
    """A table that scrolls by itself where it is too wide; its first `words` columns are text, the others numbers."""

    def kind(column: int) -> str | None:
        return None if column < words else "number"

    body = [
        tag("tr", tag("th", tag("div", row[0]), scope="row"),
            [tag("td", cell, class_=kind(column)) for column, cell in enumerate(row[1:], 1)])
        for row in rows
    ]  # fmt: skip
    top = tag("tr", [tag("th", cell, scope="col", class_=kind(column)) for column, cell in enumerate(head)])
    whole = tag("table", tag("caption", tag("span", caption)), tag("thead", top), tag("tbody", body))
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label="a table that may be wide")


def document(title: str, body: Sequence[object], style: str = "") -> str:
    """A whole page, which loads nothing and runs nothing; `style` goes behind the style that all pages share."""
    shared = resources.files("wardround.reports").joinpath("page.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("link", rel="icon", href="data:,"),
        Html(f"<style>\n{shared}{style}</style>"),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, tag('body', body), lang='en')}\n"


# figures


def figure(value: float, digits: int = 4) -> str:
    """A number with so many decimals and a true minus sign."""
    text = f"{value:,.{digits}f}"
    return text.replace("-", "−") if float(text.replace(",", "")) else text.lstrip("-")


def signed(value: float, digits: int = 4) -> str:
    """A number with its sign."""
    text = figure(value, digits)
    return text if text.startswith("−") or not float(text.replace(",", "")) else f"+{text}"


def plus_minus(value: Spread | None, digits: int = 4) -> str:
    """Mean ± standard deviation; of a single value, the value; of none, a dash."""
    if value is None:
        return "—"
    return figure(value.mean, digits) + (f"{NBSP}±{NBSP}{figure(value.sd, digits)}" if value.sd is not None else "")


def count(value: float) -> str:
    """A whole number with thousands set apart."""
    return f"{value:,.0f}"


def plural(number: int, one: str, many: str | None = None) -> str:
    """A count and its noun: 1 seed, 3 seeds."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def bytes_of(value: float) -> str:
    """A size in bytes, kB, MB or GB of 1000, with three digits that count."""
    for unit, name in UNITS:
        if round(value) >= unit:
            scaled = value / unit
            return f"{scaled:.{2 if scaled < 9.995 else 1 if scaled < 99.95 else 0}f} {name}"
    return plural(round(value), "byte")


def describe_p(value: float) -> str:
    """A p-value as papers print it."""
    p = p_value(value)
    return f"p {p}".replace(" ", NBSP) if p.startswith("<") else f"p{NBSP}={NBSP}{p}"


def p_value(value: float) -> str:
    """The same in a table."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"

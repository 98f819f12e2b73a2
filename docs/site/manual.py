"""The manual as a static site, from the Markdown of docs/: `make docs`.

    python docs/site/manual.py site        # then open site/index.html

Rules of this file:
1. A page is a Markdown file. `docs/index.md` is the first, and its lists are the navigation.
2. What a page links to comes along, from anywhere in the repository: Markdown as pages, folders and sources as pages
   that show them, pictures as they are.
3. A link to a file or a heading that is not there ends the build, with all of them listed.
4. Pages load nothing but the files beside them, and work from a disk, without a server.
"""

import html
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path, PurePosixPath
from string import Template
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FIRST = "docs/index.md"
PICTURES = {".png", ".svg"}
ELSEWHERE = re.compile(r"[a-z]+:")
LANGUAGES = {".py": "python", ".toml": "toml"}
LONG = 50  # letters in a cell that is a sentence
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


class BrokenLinksError(Exception):
    """Links that lead nowhere, a line for each."""


@dataclass(frozen=True)
class Page:
    """One file of the repository as a page; `path` is where it lies there."""

    path: str
    root: Path

    @cached_property
    def source(self) -> str:
        """Its Markdown: its own, a list of a folder's files, or the file as code."""
        file = self.root / self.path
        if file.is_dir():
            names = sorted(one.name for one in file.iterdir() if one.is_file())
            return f"# {self.path}\n\n" + "".join(f"- [{name}]({name})\n" for name in names)
        text = file.read_text(encoding="utf-8")
        return (
            text if file.suffix == ".md" else f"# {self.path}\n\n`````{LANGUAGES.get(file.suffix, '')}\n{text}`````\n"
        )

    @cached_property
    def tokens(self) -> list[Token]:
        """What the Markdown consists of; each heading has its anchor."""
        tokens = MARKDOWN.parse(self.source)
        taken: dict[str, int] = {}
        for at, token in enumerate(tokens):
            if token.type == "heading_open":
                slug = anchor(words(tokens[at + 1]))
                taken[slug] = taken.get(slug, -1) + 1
                token.attrSet("id", f"{slug}-{taken[slug]}" if taken[slug] else slug)
        return tokens

    @cached_property
    def headings(self) -> list[tuple[str, str, str]]:
        """Level, anchor and words of each heading."""
        return [
            (one.tag, str(one.attrs["id"]), words(text))
            for one, text in pairwise(self.tokens)
            if one.type == "heading_open"
        ]

    @property
    def title(self) -> str:
        """Its first heading."""
        return self.headings[0][2] if self.headings else self.path

    @property
    def links(self) -> Iterator[tuple[Token, str]]:
        """Each token that points into the repository, and what it has as the address."""
        for block in self.tokens:
            for token in block.children or ():
                key = {"link_open": "href", "image": "src"}.get(token.type)
                if key and not ELSEWHERE.match(address := str(token.attrs[key])):
                    yield token, address

    def follow(self, address: str) -> tuple[str, str]:
        """The file that an address on this page means, and the heading in it."""
        file, _, heading = unquote(address).partition("#")
        folder = PurePosixPath(self.path) if (self.root / self.path).is_dir() else PurePosixPath(self.path).parent
        return os.path.normpath(folder / file) if file else self.path, heading


def anchor(heading: str) -> str:
    """What a heading is called in an address, as GitHub calls it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def words(token: Token) -> str:
    """The text of a token, without markup."""
    breaks = {"softbreak", "hardbreak"}
    return "".join(" " if one.type in breaks else one.content for one in token.children or ())


def place(path: str, root: Path) -> PurePosixPath:
    """Where a file of the repository lies in the site."""
    at = PurePosixPath(path)
    at = at.relative_to("docs") if at.parts[0] == "docs" and len(at.parts) > 1 else at
    if (root / path).is_dir():
        return at / "index.html"
    if at.suffix in PICTURES:
        return at
    return at.with_suffix(".html") if at.suffix == ".md" else at.with_name(f"{at.name}.html")


def collect(root: Path) -> tuple[dict[str, Page], set[str]]:
    """All pages and pictures, by way of links; or every link that leads nowhere."""
    waiting = [FIRST, *(f"docs/{page.name}" for page in sorted((root / "docs").glob("*.md")))]
    pages: dict[str, Page] = {}
    pictures: set[str] = set()
    broken: list[str] = []
    for path in waiting:  # grows on the way
        if path in pages:
            continue
        page = pages[path] = Page(path, root)
        for _, address in page.links:
            target, heading = page.follow(address)
            if target.startswith("..") or not (root / target).exists():
                broken.append(f"{path}: {address}: there is no such file")
            elif PurePosixPath(target).suffix in PICTURES:
                pictures.add(target)
            elif heading and heading not in {name for _, name, _ in Page(target, root).headings}:
                broken.append(f"{path}: {address}: there is no such heading")
            else:
                waiting.append(target)
    if broken:
        raise BrokenLinksError("\n".join(broken))
    return pages, pictures


def navigation(first: Page) -> list[tuple[str, list[tuple[str, str]]]]:
    """The first page's headings, each with the files and words of the links in the lists below it."""
    groups: list[tuple[str, list[tuple[str, str]]]] = []
    depth = 0
    for at, token in enumerate(first.tokens):
        depth += {"list_item_open": 1, "list_item_close": -1}.get(token.type, 0)
        if token.type == "heading_open" and token.tag == "h2":
            groups.append((words(first.tokens[at + 1]), []))
        elif groups and depth and token.children:
            inside = token.children
            for start, one in enumerate(inside):
                if one.type == "link_open":
                    end = next(n for n in range(start, len(inside)) if inside[n].type == "link_close")
                    text = "".join(part.content for part in inside[start:end])
                    groups[-1][1].append((first.follow(str(one.attrs["href"]))[0], text))
    return groups


class Writer:
    """Pages as HTML."""

    def __init__(self, pages: dict[str, Page], root: Path) -> None:
        self.pages, self.root = pages, root
        self.groups = navigation(pages[FIRST])
        self.template = Template((HERE / "page.html").read_text(encoding="utf-8"))

    def to(self, path: str, page: Page) -> str:
        """The address of a file of the repository from a page."""
        here = place(page.path, self.root)
        return os.path.relpath(place(path, self.root), here.parent)

    def page(self, page: Page) -> str:
        """The whole page."""
        for token, address in page.links:
            target, heading = page.follow(address)
            token.attrSet("src" if token.type == "image" else "href",
                          self.to(target, page) + (f"#{heading}" if heading else ""))  # fmt: skip
        return self.template.substitute(
            title=html.escape(f"{page.title} · wardround"),
            home=self.to(FIRST, page),
            base=os.path.relpath(".", place(page.path, self.root).parent),
            content=self.content(page.tokens),
            navigation=self.navigation(page),
        )

    def content(self, tokens: Sequence[Token]) -> str:
        """The Markdown as HTML: wide tables scroll by themselves, code has its name, headings can be pointed at."""
        parts = []
        for start in [at for at, token in enumerate(tokens) if token.type == "table_open"]:
            name_cells(tokens[start:])
        for at, token in enumerate(tokens):
            plain = MARKDOWN.renderer.render([token], MARKDOWN.options, {})
            if token.type == "fence":
                plain = code(token)
            elif token.type == "table_open":
                plain = f'<div class="scroll" tabindex="0" role="region" aria-label="a table that may be wide">{plain}'
            elif token.type == "table_close":
                plain += "</div>"
            elif token.type == "heading_close" and token.tag != "h1":
                slug = tokens[at - 2].attrs["id"]
                plain = f' <a class="here" href="#{slug}" aria-label="link to this section">#</a>{plain}'
            parts.append(plain)
        return "".join(parts)

    def navigation(self, page: Page) -> str:
        """All pages in groups, with this page's sections below it."""
        lines = []
        for name, entries in self.groups:
            lines.append(f"<h2>{html.escape(name)}</h2><ul>")
            for path, text in entries:
                here = ' aria-current="page"' if path == page.path else ""
                lines.append(f'<li><a href="{self.to(path, page)}"{here}>{html.escape(text)}</a>')
                parts = [(slug, text) for level, slug, text in page.headings if level == "h2"] if here else []
                lines += ["<ul>", *(f'<li><a href="#{slug}">{html.escape(text)}</a></li>' for slug, text in parts),
                          "</ul>"] if parts else []  # fmt: skip
                lines.append("</li>")
            lines.append("</ul>")
        return "\n".join(lines)


def name_cells(tokens: Sequence[Token]) -> None:
    """Say of the table that begins here whether it has words or figures, and in each cell what its column is called.

    On a phone a table of words is a list, and its cells need their columns' names.
    """
    end = next(at for at, token in enumerate(tokens) if token.type == "table_close")
    cells = [(cell, words(inside)) for cell, inside in pairwise(tokens[:end]) if inside.type == "inline"]
    heads = [text for cell, text in cells if cell.type == "th_open"]
    rows = [(cell, text) for cell, text in cells if cell.type == "td_open"]
    for at, (cell, _) in enumerate(rows):
        cell.attrSet("data-head", heads[at % len(heads)])
    tokens[0].attrSet("class", "words" if any(len(text) > LONG for _, text in rows) else "figures")


def code(token: Token) -> str:
    """A block of code, below the name of the file that it is."""
    language, _, name = token.info.strip().partition(" ")
    try:
        lexer = get_lexer_by_name(language, stripnl=False)
        inside = highlight(token.content, lexer, HtmlFormatter(nowrap=True))
    except ClassNotFound:
        inside = html.escape(token.content)
    named = f"<figcaption><code>{html.escape(name)}</code></figcaption>" if name else ""
    return (
        f'<figure class="code {html.escape(language)}">{named}<pre tabindex="0"><code>{inside}</code></pre></figure>\n'
    )


def index(page: Page, address: str) -> Iterator[list[str]]:
    """What the search knows of a page: address, title, heading and text of each section."""
    section = [address, page.title, "", ""]
    for at, token in enumerate(page.tokens):
        if token.type == "heading_open" and token.tag in ("h2", "h3"):
            yield section
            section = [f"{address}#{token.attrs['id']}", page.title, words(page.tokens[at + 1]), ""]
        elif token.type in ("inline", "fence") and not (at and page.tokens[at - 1].type == "heading_open"):
            text = words(token) if token.children else token.content
            section[3] += " ".join(text.split()) + " "
    yield section


def build(out: Path, root: Path = ROOT) -> int:
    """Write the site into a folder of its own, which is emptied first; how many pages it has."""
    pages, pictures = collect(root)
    writer = Writer(pages, root)
    if out.exists() and not (out / "search-index.js").exists() and any(out.iterdir()):
        raise FileExistsError(f"{out} holds something else; name a folder that is empty or not there")
    shutil.rmtree(out, ignore_errors=True)
    entries = []
    for path, page in pages.items():
        at = place(path, root)
        (out / at).parent.mkdir(parents=True, exist_ok=True)
        entries += list(index(page, str(at)))
        (out / at).write_text(writer.page(page), encoding="utf-8")
    for path in pictures:
        (out / place(path, root)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, out / place(path, root))
    for name in ("style.css", "page.js"):
        shutil.copyfile(HERE / name, out / name)
    (out / "search-index.js").write_text(f"searchable({json.dumps(entries, ensure_ascii=False)});\n", encoding="utf-8")
    return len(pages)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    try:
        print(f"{build(folder)} pages; open {folder / 'index.html'}")
    except (BrokenLinksError, FileExistsError) as error:
        sys.exit(str(error))

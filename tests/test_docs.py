"""What the pages in docs/ show is what happens: their files are written, their commands run, their output seen.

A block with a name behind its language is a file. Of a console block each `$ wardround …` is run, in one folder per
page, and the lines after it must stand in what it prints, with `…` for anything. A command with `&` behind it stays
until the page is over, and the next waits for what it is to print. An argument "…" is the fingerprint read out last.
A run has one round where neither what it has learnt nor its number of rounds is shown, and where it would take longest,
a few steps.
"""

import os
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nursery import Process, start
from real_sites import free_port, running, wait_until
from study_files import cli
from wardround.engines.processes import descendants

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(page.name for page in DOCS.glob("*.md"))
FINGERPRINT = re.compile(r"[0-9a-f]{4}(?: [0-9a-f]{4}){5}")
WHOLE = {"informatician.md", "own-layer.md", "own-method.md", "predict.md", "privacy.md", "validation.md", "watch.md"}
"""Pages that show what their first run has learnt, count its rounds, or have code of their own in it."""
STEPS = {"first-run.md": 4}
"""At each site, on a page that trains four times on all notes of three hospitals."""
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(block: str) -> list[tuple[list[str], str]]:
    """Each command of a console block, and what is printed after it."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(shlex.split(first), shown) for first, _, shown in (part.partition("\n") for part in parts)]


def as_printed(shown: str) -> re.Pattern[str]:
    """What a page shows, as a pattern: blanks are as they fall, and … is anything."""
    words = [re.escape(word) for word in shown.split()]
    return re.compile(r"\s+".join(words).replace(re.escape("…"), r".*?"), re.DOTALL)


class Page:
    """A page's folder, what it has started, and the fingerprint that was printed last."""

    def __init__(self, folder: Path, *, whole: bool, steps: int) -> None:
        self.folder, self.whole, self.steps, self.fingerprint = folder, whole, steps, ""
        self.staying: list[Process] = []

    def run(self, words: list[str], shown: str) -> None:
        program, *arguments = [self.fingerprint if word == "…" else word for word in words]
        assert "wardround" == program
        if "&" == arguments[-1]:
            self.stay(arguments[:-1], shown)
            return
        if arguments[0] == "run":
            arguments += [] if self.whole else ["--set", "rounds=1"]
            arguments += ["--set", f"method.steps={self.steps}"] if self.steps else []
            self.whole = False
        ended = cli(*arguments, cwd=self.folder, report=True)
        assert 0 == ended.code, (arguments, ended)
        assert as_printed(shown).search(ended.out + ended.err), (arguments, ended)
        self.fingerprint = ([self.fingerprint, *FINGERPRINT.findall(ended.out)])[-1]

    def stay(self, arguments: list[str], shown: str) -> None:
        """Start what stays, again if the one that it looks for is not there yet, as a person would."""
        log = self.folder / f"said-{len(self.staying)}.txt"

        def printed() -> bool:
            if not self.staying or self.staying[-1].args[3:] != arguments or self.staying[-1].poll() is not None:
                time.sleep(1)
                with log.open("wb") as said:
                    self.staying.append(start(["wardround", *arguments], os.environ, said, self.folder))
            return as_printed(shown).search(log.read_text(encoding="utf-8")) is not None

        wait_until(printed)

    def end(self) -> None:
        pids = [pid for process in self.staying for pid in (process.pid, *descendants(process.pid))]
        for process in reversed(self.staying):
            process.terminate()
        for process in self.staying:
            process.wait(60)
        wait_until(lambda: not any(map(running, pids)))


@contextmanager
def opened(folder: Path, *, whole: bool, steps: int) -> Iterator[Page]:
    page = Page(folder, whole=whole, steps=steps)
    try:
        yield page
    finally:
        page.end()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_does_what_it_shows(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARDROUND_CACHE", str(tmp_path / ".cache"))
    text = (DOCS / page).read_text(encoding="utf-8").replace(":8002", f":{free_port()}")
    if "wardround consortium" in text:
        pytest.importorskip("nvflare")
    with opened(tmp_path, whole=page in WHOLE, steps=STEPS.get(page, 0)) as at:
        for language, name, block in BLOCK.findall(text):
            if name:
                (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / name).write_text(block, encoding="utf-8")
            elif language == "console":
                for words, shown in commands(block):
                    at.run(words, shown)

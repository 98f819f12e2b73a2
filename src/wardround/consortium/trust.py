"""Trusting a Python file of the hospital's own: a line under `[modules]` in its `site.toml`.

line = trust_module(folder, Path("shaky.py"))      # shaky = "9f86d081…"
"""

import ast
import re
from collections.abc import Iterable
from pathlib import Path

from wardround.consortium.settings import read_site
from wardround.core.files import write
from wardround.runs.errors import RunError
from wardround.study.trusted import module_hash, module_problems

HEADER = re.compile(r"^\[modules\][^\n]*\n?", re.MULTILINE)


def modules_table(files: Iterable[Path]) -> str:
    """A `[modules]` table that trusts these files as they are."""
    hashes = {path.stem: module_hash(path.read_bytes()) for path in files}
    good = (name for name in sorted(hashes) if not any(module_problems({name: hashes[name]})))
    return "".join(["[modules]\n", *(f'{name} = "{hashes[name]}"\n' for name in good)])


def trust_module(folder: Path, file: Path) -> str:
    """Let a file in the site's folder run here, as it is now; the line that says so in site.toml."""
    read_site(folder)  # a site.toml with mistakes is not added to
    path = folder / file.name
    if file.parent != Path() and file.resolve() != path.resolve():
        raise RunError(f"{file} is not beside site.toml; read it, and if it is good, copy it to {path} first")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror}); put the file beside site.toml") from None
    name = path.stem
    try:
        ast.parse(data)
    except (SyntaxError, ValueError):
        raise RunError(f"{path} is not Python source") from None
    if path.suffix != ".py":
        raise RunError(f"{path} is not Python source: its name should end in .py")
    line = f'{name} = "{module_hash(data)}"'
    if problems := list(module_problems({name: module_hash(data)})):
        raise RunError("\n".join(problems))
    place = folder / "site.toml"
    write(place, _with_line(place.read_text(encoding="utf-8-sig"), name, line).encode())
    read_site(folder)
    return line


def _with_line(text: str, name: str, line: str) -> str:
    """The settings with this line under [modules], in place of an older one."""
    header = HEADER.search(text)
    if header is None:
        return f"{text.rstrip()}\n\n[modules]\n{line}\n"
    before, rest = text[: header.end()].rstrip("\n") + "\n", text[header.end() :]
    end = re.search(r"^\[", rest, re.MULTILINE)
    table, after = (rest[: end.start()], rest[end.start() :]) if end else (rest, "")
    kept = [old for old in table.splitlines(keepends=True) if not re.match(rf"\s*\"?{re.escape(name)}\"?\s*=", old)]
    return before + line + "\n" + "".join(kept) + after

"""What a user's own class may import is in one place, documented, and all that examples and pages use."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import wardround
from wardround import extend

ROOT = Path(__file__).parents[1]
PYTHON = re.compile(r"^```python[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PUBLIC = ("wardround", "wardround.extend")


def sources() -> Iterator[tuple[str, str]]:
    """Every example and every piece of Python on a page."""
    yield from ((path.name, path.read_text(encoding="utf-8")) for path in sorted((ROOT / "examples").glob("*.py")))
    for page in sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]):
        for number, block in enumerate(PYTHON.findall(page.read_text(encoding="utf-8")), 1):
            yield f"{page.name}-{number}", block


SOURCES = dict(sources())


@pytest.mark.parametrize("source", SOURCES)
def test_a_user_imports_only_what_is_public(source: str) -> None:
    nodes = list(ast.walk(ast.parse(SOURCES[source])))
    modules = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    modules += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    assert [] == [name for name in modules if name.partition(".")[0] == "wardround" and name not in PUBLIC]


def test_every_public_name_is_documented() -> None:
    words = set(re.findall(r"`(\w+)", (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")))
    assert set() == set(extend.__all__) - words
    assert [] == [name for name in extend.__all__ if not getattr(extend, name).__doc__]


def test_every_public_name_is_there() -> None:
    assert [] == [name for name in wardround.__all__ if not hasattr(wardround, name)]
    assert sorted(extend.__all__) == sorted(name for name in vars(extend) if not name.startswith("_"))

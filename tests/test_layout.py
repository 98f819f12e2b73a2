"""The shape of the package: imports go one way, each third-party package has one home, files stay short."""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

import wardround

ROOT = Path(wardround.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

ROW = re.compile(r"^\| `(\w+)/` \|.*\| ([^|]*) \|$", re.MULTILINE)
GUIDE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
# What each folder may import of ours besides itself, as CONTRIBUTING's table has it. Modules at the top may import all.
ALLOWED: dict[str, set[str]] = {
    folder: set() if named == "nothing else of ours" else set(re.sub(r" \([^)]*\)", "", named).split(", "))
    for folder, named in ROW.findall(GUIDE)
}

# Where each third-party package is imported: to change or drop one, there is one place to look.
HOMES = {
    "annotated_types": ["*"],  # the bounds of settings stand beside the settings
    "bioc": ["formats/bioc.py"],
    "lxml": ["formats/bioc.py"],
    "numpy": ["*"],
    "torch": ["*"],
    "dp_accounting": ["privacy/accounting.py"],
    "cryptography": [
        "core/chance.py",
        "engines/certificates.py",
        "engines/seal.py",
        "layers/keys.py",
        "trained/signature.py",
    ],
    "filelock": ["core/lock.py"],
    "h11": ["serve/server.py"],  # what uvicorn speaks HTTP with
    "grpc": ["engines/gate.py"],  # what NVFlare connects with
    "nvflare": ["engines/flare.py"],
    "presidio_analyzer": ["formats/presidio.py"],
    "psutil": ["engines/processes.py", "consortium/check.py"],
    "pydantic": ["consortium/*.py", "runs/files.py", "study/*.py", "trained/about.py"],
    "rich": ["cli/*.py"],
    "rjieba": ["text/segment.py"],
    "scipy": ["reports/*.py"],
    "sklearn": ["runs/references.py"],
    # our encoding; the finished model for others to read; others' encoders; what a frozen trunk has computed
    "starlette": ["serve/*.py", "watch/*.py"],
    "safetensors": [
        "core/codec.py",
        "exports/transformers_folder.py",
        "trained/*.py",
        "models/encoder_files.py",
        "tasks/trunk.py",
    ],
    "spacy": ["exports/spacy_*.py", "formats/presidio.py"],
    "tokenizers": ["exports/transformers_folder.py", "models/encoder_files.py"],
    "tomli_w": ["study/*.py"],
    "typer": ["cli/*.py"],
    "transformers": ["models/foreign.py"],
    "uvicorn": ["serve/server.py"],
}

# A reader should hold a file in the head. The codebases we learn from have a median of 60–180 lines a file, and
# each regrets the one that grew past a thousand; at this many lines it is time to ask what the file is two of.
LINES = 350

# What can run code from data.
UNSAFE_MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
UNSAFE_CALLS = {
    "eval", "exec", "compile", "__import__", "torch.load", "torch.save", "torch.jit.load", "yaml.load",
    "os.system",
}  # fmt: skip


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """What the checks look at: imports and calls."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom | ast.Call))


def imports(path: Path) -> Iterator[str]:
    """Full names of the modules that a file imports, wherever in it."""
    package = ["wardround", *path.relative_to(ROOT).parts[:-1]]
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*parts, *([node.module] if node.module else [])])
            # `from wardround import run` imports a module, `from wardround.runs.loop import run` a name in one.
            yield from (f"{module}.{alias.name}" for alias in node.names) if module == "wardround" else [module]


def folders(path: Path) -> set[str]:
    """The folders, and modules at the top, of ours that a file imports."""
    ours = {module.split(".")[1] for module in imports(path) if module.startswith("wardround.")}
    return {one for one in ours if (ROOT / one).is_dir() or (ROOT / f"{one}.py").is_file()}


def called(node: ast.expr) -> str:
    """The dotted name of what is called, as far as it has one."""
    if isinstance(node, ast.Attribute):
        return f"{called(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def wrong(check: Callable[[Path], object]) -> dict[str, object]:
    """The files in which a check finds something, and what."""
    return {name(path): findings for path in FILES if (findings := check(path))}


def wrong_ways(path: Path) -> set[str]:
    """The folders that a file imports and may not."""
    folder = path.relative_to(ROOT).parts[0]
    return set() if path.parent == ROOT else folders(path) - ALLOWED[folder] - {folder}


def homeless(path: Path) -> set[str]:
    """The third-party packages that a file imports and may not."""
    packages = {module.partition(".")[0] for module in imports(path)} - sys.stdlib_module_names - {"wardround"}
    return {package for package in packages if not any(fnmatch(name(path), home) for home in HOMES.get(package, []))}


def unsafe(path: Path) -> set[str]:
    """What in a file can run code from data."""
    calls = [node for node in nodes(path) if isinstance(node, ast.Call)]
    pickles = [word.value for call in calls for word in call.keywords if word.arg == "allow_pickle"]
    return (
        {module.partition(".")[0] for module in imports(path)} & UNSAFE_MODULES
        | {called(call.func) for call in calls} & UNSAFE_CALLS
        | {"allow_pickle" for value in pickles if not isinstance(value, ast.Constant) or value.value}
    )


def too_long(path: Path) -> int:
    """The number of lines of a file that has too many and is two."""
    lines = path.read_text(encoding="utf-8").count("\n")
    return lines * (lines > LINES)


def test_every_folder_has_its_place() -> None:
    """A folder or a name that nobody has, in the table, would let anything pass."""
    there = {path.relative_to(ROOT).parts[0] for path in FILES if path.parent != ROOT}
    assert (there, set()) == (set(ALLOWED), set[str]().union(*ALLOWED.values()) - there)


def test_no_folder_may_import_what_it_does_not() -> None:
    used = {one: set[str]().union(*(folders(path) for path in (ROOT / one).rglob("*.py"))) for one in ALLOWED}
    assert {} == {one: left for one in ALLOWED if (left := ALLOWED[one] - used[one])}


@pytest.mark.parametrize("check", [wrong_ways, homeless, unsafe, too_long])
def test_every_file_keeps_the_rules(check: Callable[[Path], object]) -> None:
    assert {} == wrong(check)


def test_the_checks_see_what_they_look_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    for made in ("rounds.py", "tasks/relation.py", "core/weights.py", "methods/fedx.py"):
        (tmp_path / made).parent.mkdir(exist_ok=True)
        (tmp_path / made).touch()
    bad = tmp_path / "methods" / "fedx.py"
    bad.write_text(
        "import torch, pickle\n"
        "from wardround import rounds, __version__\n"
        "from ..tasks import relation\n"
        "def f():\n    import wardround.core.weights\n    from .fedavg import FedAvg\n    torch.load(eval('x'))\n"
    )
    assert {"rounds", "tasks", "core", "methods"} == folders(bad)
    assert ({"rounds", "tasks"}, {"pickle", "torch.load", "eval"}) == (wrong_ways(bad), unsafe(bad))
    for text, check, findings in (
        ("import torch\ntorch.load('x')\nmodel.eval()\nre.compile('x')\n", unsafe, {"torch.load"}),
        ("import numpy\nnumpy.load('x', allow_pickle=True)\n", unsafe, {"allow_pickle"}),
        ("import numpy\nnumpy.load('x', allow_pickle=False)\n", unsafe, set()),
        ("import nvflare.apis.controller\n", homeless, {"nvflare"}),
        ("\n" * 351, too_long, 351),
        ("\n" * 350, too_long, 0),
    ):
        bad.write_text(text)
        nodes.cache_clear()
        assert findings == check(bad)
    monkeypatch.setattr(f"{__name__}.FILES", [bad])
    bad.write_text("\n" * 351)
    assert {"methods/fedx.py": 351} == wrong(too_long)

"""The settings of a class, read off its source: a mistyped key is answered without the seconds that torch takes.

    settings_in("wardround.methods.fedprox:FedProx")["mu"]     # Setting(Annotated[float, Ge(0)], 0.03, "…")

Rules of this file:
1. Nothing of the source runs. Types and defaults are read as syntax: names, constants, subscripts, `|`, arithmetic, and
   calls of what `PLAIN` modules define; names are followed through our own modules.
2. What cannot be read is `Any`, a limit less, or a default that is not known: whoever builds the class checks it whole.
3. Bases count as Python orders them, and only where they are dataclasses or tables; a field that is defined again
   without a docstring keeps that of its base.
"""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

PLAIN = {"annotated_types", "builtins", "collections.abc", "math", "pathlib", "typing"}
HOME = Path(__file__).parents[2]
UNKNOWN = ...
"""A default that is not read off the source."""
ARITHMETIC: dict[type[ast.AST], Callable[..., Any]] = {
    ast.BitOr: operator.or_, ast.Pow: operator.pow, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Add: operator.add, ast.Sub: operator.sub, ast.USub: operator.neg,
}  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """One key of a table: its type with its limits, its default, and what it is."""

    kind: Any
    default: Any
    about: str
    required: bool


class _Unreadable(Exception):
    """Syntax that stands for more than a type or a plain value."""


@dataclass(frozen=True)
class _Class:
    """A class where it is defined."""

    module: str
    node: ast.ClassDef

    def bases(self) -> "Iterator[_Class]":
        for base in self.node.bases:
            name = base.value if isinstance(base, ast.Subscript) else base  # Method[State]
            if isinstance(name, ast.Name) and (kind := _class(self.module, name.id)):
                yield kind

    @property
    def has_settings(self) -> bool:
        """Whether its annotations are settings: those of a dataclass, or of a table that pydantic checks."""
        marks = {ast.unparse(decorator).partition("(")[0] for decorator in self.node.decorator_list}
        return "dataclass" in marks or "TomlTable" in {ast.unparse(base) for base in self.node.bases}


@cache
def settings_in(place: str) -> Mapping[str, Setting]:
    """The fields of the dataclass at `module:Class` by name, those of its bases first."""
    module, _, name = place.partition(":")
    chosen = _class(module, name)
    settings: dict[str, Setting] = {}
    for kind in reversed(_order(chosen)) if chosen else ():
        for field, setting in _fields(kind) if kind.has_settings else ():
            about = setting.about or (settings[field].about if field in settings else "")
            settings[field] = replace(setting, about=about)
    return settings


def about_in(place: str) -> str:
    """The first line of the docstring of the class at `module:Class`."""
    chosen = _class(*place.split(":"))
    return ((chosen and ast.get_docstring(chosen.node)) or "").partition("\n")[0]


def _order(kind: _Class) -> list[_Class]:
    """A class before its bases, the first base first, and each behind all that derive from it."""
    listed = [kind, *(further for base in kind.bases() for further in _order(base))]
    return list(reversed({(one.module, one.node.name): one for one in reversed(listed)}.values()))


def _fields(kind: _Class) -> Iterator[tuple[str, Setting]]:
    body = kind.node.body
    for node, behind in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        words = ast.unparse(node.annotation)
        if words.startswith("ClassVar") or (node.value and "init=False" in ast.unparse(node.value)):
            continue
        default = _read(node.value, kind.module, UNKNOWN) if node.value else UNKNOWN
        written = _read(node.annotation, kind.module, Any)
        read = Any if isinstance(written, str) else written  # the name of a class further below
        yield node.target.id, Setting(read, default, _text(behind), required=node.value is None)


def _text(node: ast.stmt | None) -> str:
    """The docstring of a field: the string that stands behind it."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return " ".join(node.value.value.split())
    return ""


def _read(node: ast.expr, module: str, otherwise: Any) -> Any:
    try:
        return _value(node, module)
    except (_Unreadable, TypeError, ValueError, AttributeError, LookupError):
        return otherwise


def _value(node: ast.expr, module: str) -> Any:  # noqa: PLR0911 -- one for each kind of syntax
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return _named(node.id, module)
        case ast.Tuple() | ast.List():
            return tuple(item for part in node.elts for item in _spread(part, module))
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[kind, *marks])):
            read = [mark for mark in (_read(one, module, None) for one in marks) if mark is not None]
            return Annotated[(_items(kind, module), *read)] if read else _items(kind, module)
        case ast.Subscript():
            return _value(node.value, module)[_items(node.slice, module)]
        case ast.BinOp(op=op) if type(op) in ARITHMETIC:
            return ARITHMETIC[type(op)](_value(node.left, module), _value(node.right, module))
        case ast.UnaryOp(op=op) if type(op) in ARITHMETIC:
            return ARITHMETIC[type(op)](_value(node.operand, module))
        case ast.Call(func=ast.Name(id=name)):
            function = _named(name, module)
            named = {word.arg: _value(word.value, module) for word in node.keywords if word.arg}
            return function(*(_value(part, module) for part in node.args), **named)
    raise _Unreadable


def _spread(node: ast.expr, module: str) -> tuple[Any, ...]:
    return _value(node.value, module) if isinstance(node, ast.Starred) else (_value(node, module),)


def _items(node: ast.expr, module: str) -> Any:
    """What stands between brackets: types, or the texts and numbers of a Literal."""
    if isinstance(node, ast.Tuple):
        return tuple(_items(part, module) for part in node.elts)
    return node.value if isinstance(node, ast.Constant) else _value(node, module)


def _named(name: str, module: str) -> Any:
    """What a name stands for in a module."""
    node = _scope(module).get(name)
    if node is None:
        return getattr(import_module("builtins"), name)
    if isinstance(node, tuple):
        home, original = node
        if home in PLAIN:
            return getattr(import_module(home), original)
        return _named(original, home)
    if isinstance(node, ast.expr):
        return _value(node, module)
    raise _Unreadable


def _class(module: str, name: str) -> _Class | None:
    node = _scope(module).get(name)
    if isinstance(node, tuple):
        return _class(*node)
    return _Class(module, node) if isinstance(node, ast.ClassDef) else None


@cache
def _scope(module: str) -> Mapping[str, ast.expr | ast.ClassDef | tuple[str, str]]:
    """The names at the top of a module of ours (no other is looked for): values, classes, and what comes from where."""
    place = HOME.joinpath(*module.split("."))
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    if not path.is_file():
        return {}
    names: dict[str, ast.expr | ast.ClassDef | tuple[str, str]] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.ImportFrom(module=str(home)):
                names |= {alias.asname or alias.name: (home, alias.name) for alias in node.names}
            case ast.ClassDef():
                names[node.name] = node
            case ast.Assign(targets=[ast.Name(id=name)]):
                names[name] = node.value
            case ast.AnnAssign(target=ast.Name(id=name)) if node.value is not None:
                names[name] = node.value
    return names

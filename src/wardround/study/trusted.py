"""A hospital's own Python modules: those that its `site.toml` names with their hash, and no others.

    trusted = Trusted(folder, {"shaky": "9f86d081884c7d65…"})     # [modules] in site.toml
    kind = trusted.load("shaky").Shaky

Nothing that another party sends is code. A study that came from elsewhere may name `shaky:Shaky`, but what runs is the
file `shaky.py` in the site's own folder, and only if the site names it. Rules of this file:
1. The bytes that were hashed are the bytes that are compiled: the file is read once, and no `.pyc` is looked at.
2. No folder of a site's, nor its kit, is ever on Python's path. A module may import what is installed, and others that
   `[modules]` names.
3. No name that Python, wardround or an installed package has can be taken.
"""

import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.abc import ExecutionLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import packages_distributions
from importlib.util import decode_source, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

SOURCE = "__wardround_source__"
"""Where a module that was loaded here keeps the bytes that it was made of."""


def module_hash(data: bytes) -> str:
    """What `[modules]` in site.toml has to say for a file with these bytes."""
    return hashlib.sha256(data).hexdigest()


def module_problems(modules: Mapping[str, Any]) -> Iterator[str]:
    """Why a `[modules]` table cannot be used."""
    taken = _taken() if modules else frozenset[str]()
    for name, value in modules.items():
        if not name.isidentifier():
            yield f"modules.{name}: should be the name of a file beside site.toml, without .py: letters, digits and _"
        elif name in taken:
            yield f"modules.{name}: there is an installed module of this name; rename yours"
        if not (isinstance(value, str) and len(value) == 64 and not set(value) - set("0123456789abcdef")):
            yield f"modules.{name}: should be the file's SHA-256; wardround site trust-module writes it"


@cache  # a second of reading what is installed
def _taken() -> frozenset[str]:
    return frozenset({*sys.stdlib_module_names, "wardround", *packages_distributions()})


class _Untrusted(ImportError):
    """A module that this site has not named, or that is not the one it named."""


@dataclass(frozen=True)
class Trusted:
    """The modules that a site's own settings name, by name, with their hashes."""

    folder: Path
    hashes: Mapping[str, str] = field(default_factory=dict)

    def load(self, name: str) -> ModuleType:
        """The module of this name, made from the bytes that have the hash which the site wrote down."""
        if name not in self.hashes:
            file = f"{name}.py" if name.isidentifier() else "FILE.py"
            raise _Untrusted(
                "a study that was sent here brings no code with it; if this site wants to run that module, read it, "
                f"put {file} beside site.toml and trust it: wardround site trust-module {self.folder} {file}"
            )
        data = self.source(name)  # a file that has changed since is refused, whatever was loaded before
        finder = _Finder(self)
        sys.meta_path.insert(0, finder)
        try:
            if getattr(sys.modules.get(name), SOURCE, None) != data:
                sys.modules.pop(name, None)
            return import_module(name)
        finally:
            sys.meta_path.remove(finder)

    def source(self, name: str) -> bytes:
        """The bytes of a module, if they are those that the site trusts."""
        path = self.folder / f"{name}.py"
        try:
            data = path.read_bytes()
        except OSError as error:
            remedy = "put it there, or take it out of [modules]"
            raise _Untrusted(f"{path} cannot be read ({error.strerror}); {remedy}") from None
        if module_hash(data) != self.hashes[name]:
            raise _Untrusted(
                f"{path} is not the file whose hash stands in site.toml; read it, and if it is good, trust it again: "
                f"wardround site trust-module {self.folder} {name}.py"
            )
        return data


class _Finder(MetaPathFinder):
    """Finds what a site trusts, before Python looks anywhere."""

    def __init__(self, trusted: Trusted) -> None:
        self.trusted = trusted

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:  # noqa: ARG002
        """The loader of a module that this site has named."""
        if fullname not in self.trusted.hashes:
            return None
        path = str(self.trusted.folder / f"{fullname}.py")
        return spec_from_loader(fullname, _Loader(path, self.trusted.source(fullname)), origin=path)


class _Loader(ExecutionLoader):
    """Makes a module of the bytes that were hashed."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path, self.data = path, data

    def get_filename(self, fullname: str) -> str:  # noqa: ARG002
        """Where the bytes were read; for messages."""
        return self.path

    def get_source(self, fullname: str) -> str:  # noqa: ARG002
        """The bytes as text, which is what gets compiled."""
        return decode_source(self.data)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's own lines."""
        module.__file__ = self.path
        setattr(module, SOURCE, self.data)
        super().exec_module(module)

"""The JSON files that a consortium and its sites live by, each with one reader: what they say is checked whole.

    charter = read_charter(north)                        # consortium.json
    membership = read_membership(charite / "kit")        # site.json
    request = parsed(Request, data)                      # whatever else is a `Form`; a `FormError` says what is wrong

Any of it may come from a stranger: nothing else is looked at before it is checked, and no error repeats it at length.
No torch here: the coordinator's own process reads these files, too.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from wardround.runs.errors import RunError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,49}")
HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?")
TAKEN = ("coordinator", "server", "admin")


def name_problems(name: str, *, taken: bool = True) -> Iterator[str]:
    """Why a consortium, or with `taken` a site, cannot have this name."""
    if not NAME.fullmatch(name):
        yield f"{name[:80]!r} cannot be a name; use up to 50 letters, digits, - and _"
    elif taken and name.lower() in TAKEN:
        yield f"{name!r} is taken by the coordinator; choose another name"


def address_problems(host: str, port: int) -> Iterator[str]:
    """Why a coordinator cannot be there."""
    if not HOST.fullmatch(host) or ".." in host:
        yield f"{host[:80]!r} is not a host name or an IPv4 address; write, say, fl.example.org or 10.0.0.5:8002"
    if not 1 <= port <= 65535:
        yield f"{port} is not a port; choose one between 1 and 65535, such as 443"


def _without(problems: Callable[[Any], Iterator[str]]) -> AfterValidator:
    """A check that a value has none of these problems."""

    def checked(value: Any) -> Any:
        for problem in problems(value):
            raise ValueError(problem)
        return value

    return AfterValidator(checked)


Name = Annotated[str, _without(partial(name_problems, taken=False))]
SiteName = Annotated[str, _without(name_problems)]
Host = Annotated[str, _without(lambda host: address_problems(host, 1))]
Port = Annotated[int, _without(lambda port: address_problems("a", port))]
HexKey = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""A public key."""
Version = Annotated[str, Field(pattern=r"^[0-9A-Za-z.+!-]{1,50}$")]


class FormError(ValueError):
    """What is wrong with a file, to be read after its name."""


class Form(BaseModel):
    """What a JSON file holds: exactly these fields, of exactly these kinds."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def encode(self) -> bytes:
        """As files have it."""
        return (self.model_dump_json(indent=1) + "\n").encode()


F = TypeVar("F", bound=Form)


def parsed(kind: type[F], raw: bytes) -> F:
    """The form in these bytes; a `FormError` with the first thing that is wrong."""
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
    key = str(problem["loc"][0])[:80] if problem["loc"] else ""
    if not key:
        raise FormError(f"should be JSON with {', '.join(kind.model_fields)}")
    if problem["type"] == "extra_forbidden":
        raise FormError(f"has {key!r}, which is unknown")
    if problem["type"] == "value_error":
        raise FormError(f"has a wrong {key}: {problem['ctx']['error']}")
    raise FormError(f"has no {key}, or not one of the right kind")


class Charter(Form):
    """`consortium.json`: where a coordinator is, the key that signs its asks, and its members that are not revoked."""

    name: Name
    host: Host
    port: Port
    version: Version
    sites: tuple[Name, ...]
    ask_key: HexKey


class Membership(Charter):
    """`site.json`: the same, as one site's kit has it."""

    site: SiteName


def read_charter(folder: Path) -> Charter:
    """What a consortium's folder says of it."""
    path = folder / "consortium.json"
    try:
        return parsed(Charter, path.read_bytes())
    except FileNotFoundError:
        raise RunError(f"{folder} holds no consortium; make one with: wardround consortium new") from None
    except FormError as error:
        raise RunError(f"{path} {error}; put back a copy of it, or make a new consortium") from None


def read_membership(kit: Path) -> Membership:
    """What an unpacked kit says of its site."""
    path = kit / "site.json"
    try:
        return parsed(Membership, path.read_bytes())
    except (OSError, FormError):
        raise RunError(
            f"{path} is missing or damaged; join again with the kit: wardround site join {kit.parent} KIT.zip"
        ) from None

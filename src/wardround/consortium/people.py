"""People with certificates of their own: who administers, who submits studies, who only watches.

    request, path = new_person(Path("ada"))                 # on the person's machine: the key stays there
    card = admit_person(north, read_person_request(path), "submit")
    take_card(Path("ada"), card, fingerprint)               # on the person's machine again
    known(north, certificate)                               # at the coordinator: the person, or why not

Rules of this file:
1. A certificate says who and as what (`ada@submit`), signed by the consortium's root; `CONSORTIUM/people.json` says
   which certificate is the person's now. Both have to agree: neither alone makes anybody an administrator.
2. `@` is in no site's name: a person's certificate opens nothing at NVFlare's door, and a site's nothing at people's.
3. Who is revoked stays so, and so does the name. Another role is another certificate.
No torch here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field, RootModel, ValidationError

from wardround import __version__
from wardround.consortium.admission import fingerprint_of, signing_authority
from wardround.consortium.forms import (
    Form,
    HexKey,
    Host,
    Name,
    Port,
    SiteName,
    Version,
    name_problems,
    parsed,
    read_charter,
)
from wardround.consortium.kit_files import Wish, coordinator_fingerprint, read_form
from wardround.consortium.roster import Certified, read_roster
from wardround.core.files import write
from wardround.core.lock import sole
from wardround.engines.certificates import (
    Certificate,
    CertificateError,
    belongs,
    common_name,
    dates,
    fingerprint,
    issued_by,
    make_key,
    pem_of,
    read_certificate,
    request_for,
    same_fingerprint,
)
from wardround.runs.errors import RunError

Role = Literal["watch", "submit", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
PORT = 8003
CARD, KEY = "person.json", "person.key"
Text = Annotated[str, Field(pattern=r"^[\x00-\x7f]*$")]


class PersonRequest(Wish):
    """Somebody's wish for a certificate."""

    version: Version

    @property
    def fingerprint(self) -> str:
        """What an administrator and the person compare."""
        return fingerprint(b"person", self.name.encode(), self.key_bytes)


class Card(Form):
    """What a person gets back: the certificate, whom it is good for, and where the coordinator is. No secret."""

    name: SiteName
    role: Role
    consortium: Name
    host: Host
    port: Port
    ask_key: HexKey
    certificate: Text
    root: Text

    @property
    def fingerprint(self) -> str:
        """The coordinator's, as hospitals compare it."""
        return coordinator_fingerprint(self.root.encode(), self.ask_key)


class Person(Certified):
    """One line of the list: what somebody may do, with which certificate, until when."""

    role: Role


_People = RootModel[dict[str, Person]]


def read_people(folder: Path) -> dict[str, Person]:
    """The people of a consortium, by name, the revoked ones included."""
    path = folder / "people.json"
    try:
        return _People.model_validate_json(path.read_bytes()).root
    except FileNotFoundError:
        return {}
    except (OSError, ValidationError):
        raise RunError(f"{path} is damaged; put back a copy of it, or admit people anew after deleting it") from None


@contextmanager
def _changed(folder: Path) -> Iterator[dict[str, Person]]:
    with sole(folder / ".people", seconds=-1):
        people = read_people(folder)
        yield people
        write(folder / "people.json", (_People(people).model_dump_json(indent=1) + "\n").encode())


# at the coordinator


_ANOTHER = "take another name: wardround person init NAME"


def admit_person(
    folder: Path, request: PersonRequest, role: Role, days: int = 360, door: tuple[str, int] | None = None
) -> Path:
    """Sign a person's key for one role; the card to send back."""
    name = request.name
    if site := next((known for known in read_roster(folder) if known.lower() == name.lower()), None):
        raise RunError(f"{site} is a site, and whoever revokes one would mean the other; {_ANOTHER}")
    with _changed(folder) as people:
        if twin := next((known for known in people if known.lower() == name.lower()), None):
            gone = people[twin].revoked is not None
            raise RunError(
                f"{twin} {'was revoked, and the name with it' if gone else 'has a certificate already'}; "
                + (
                    _ANOTHER
                    if gone
                    else f"for a new one: wardround consortium renew {folder} {twin}; for another role: revoke it, and "
                    "let a new key be made under another name"
                )
            )
        certificate = signing_authority(folder).signed(request.key, f"{name}@{role}", days)
        people[name] = _entered(folder, name, role, certificate)
    return _card(folder, name, door)


def renew_person(folder: Path, name: str, days: int = 360, door: tuple[str, int] | None = None) -> Path:
    """A new certificate for the key and the role that are known, and another door if it is named; the card to send."""
    with _changed(folder) as people:
        person = _one(folder, people, name)
        if person.revoked is not None:
            raise RunError(f"{name} was revoked on {person.revoked:%Y-%m-%d}, which is for good")
        old = read_certificate(folder / "people" / f"{name}.crt")
        people[name] = _entered(folder, name, person.role, signing_authority(folder).renewed(old, days))
    return _card(folder, name, door)


def revoke_person(folder: Path, name: str) -> None:
    """Let a person do nothing more, from the next request on."""
    with _changed(folder) as people:
        person = _one(folder, people, name)
        people[name] = person.revoked_now(name)
    (folder / "people" / f"{name}.card").unlink(missing_ok=True)


def known(folder: Path, certificate: Certificate) -> tuple[str, Role | None, str]:
    """Who shows this certificate, which TLS has found to be the root's: a name, a role, and why there is none."""
    name, _, role = common_name(certificate).partition("@")
    person = read_people(folder).get(name)
    if person is None or role != person.role:
        return name[:50], None, "unknown"
    if why := person.barred:
        return name, None, why
    if person.serial != f"{certificate.serial_number:x}":
        return name, None, "outdated"
    return name, person.role, ""


def _one(folder: Path, people: dict[str, Person], name: str) -> Person:
    if name not in people:
        raise RunError(f"nobody called {name} has a certificate of {folder}; known: {', '.join(people) or 'none yet'}")
    return people[name]


def _entered(folder: Path, name: str, role: Role, certificate: Certificate) -> Person:
    write(folder / "people" / f"{name}.crt", pem_of(certificate))
    return Person(role=role, serial=f"{certificate.serial_number:x}", expires=dates(certificate)[1])


def _card(folder: Path, name: str, door: tuple[str, int] | None) -> Path:
    path, charter, person = folder / "people" / f"{name}.card", read_charter(folder), read_people(folder)[name]
    if door is None and path.exists():
        old = parsed(Card, path.read_bytes())
        door = old.host, old.port
    host, port = door or (charter.host, PORT)
    certificate = (folder / "people" / f"{name}.crt").read_text(encoding="ascii")
    root = (folder / "root" / "root.crt").read_text(encoding="ascii")
    card = Card(
        name=name, role=person.role, consortium=charter.name, host=host, port=port, ask_key=charter.ask_key,
        certificate=certificate, root=root,
    )  # fmt: skip
    assert card.fingerprint == fingerprint_of(folder)  # noqa: S101 -- what hospitals compare
    write(path, card.encode())
    return path


# on a person's own machine


def new_person(folder: Path) -> tuple[PersonRequest, Path]:
    """Make a person's key in a new folder of that name; the request that goes to an administrator, and its file."""
    name = folder.resolve().name
    problems = list(name_problems(name))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        problems.append(f"{folder} is not empty; choose another folder")
    if problems:
        raise RunError("\n".join(problems))
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    make_key(folder / KEY)
    request = PersonRequest(name=name, csr=request_for(folder / KEY, name).decode("ascii"), version=__version__)
    write(folder / f"{name}.request", request.encode())
    return request, folder / f"{name}.request"


def take_card(folder: Path, path: Path, words: str = "") -> Card:
    """Take the card that was made for the key in this folder: the first one, or a renewed one."""
    key = folder / KEY
    if not key.exists():
        raise RunError(f"{folder} holds no key; make one with: wardround person init {folder}")
    card = read_form(Card, path, "a card", "ask whoever sent it")
    try:
        certificate, root = read_certificate(card.certificate.encode()), read_certificate(card.root.encode())
    except CertificateError:
        raise RunError(f"{path} is not a card: its certificate cannot be read; ask whoever sent it") from None
    problems = []
    if not belongs(certificate, key.read_bytes()):
        problems.append(f"{path} is not for the key in {key}")
    if not issued_by(certificate, root) or common_name(certificate) != f"{card.name}@{card.role}":
        problems.append(f"{path} does not say what the certificate in it says")
    if words and not same_fingerprint(words, card.fingerprint):
        problems.append(f"{path} is from the coordinator {card.fingerprint}, not {words}; ask whoever told you")
    if (folder / CARD).exists() and read_card(folder).fingerprint != card.fingerprint:
        problems.append(f"{path} is from another coordinator than this folder's; make a new folder for it")
    if problems:
        raise RunError("\n".join([*problems, "nothing was written"]))
    write(folder / CARD, card.encode())
    return card


def is_person(folder: Path) -> bool:
    """Whether this is a person's folder, and not a coordinator's."""
    return (folder / KEY).is_file()


def read_card(folder: Path) -> Card:
    """The card that a person has taken."""
    if not (folder / CARD).exists():
        raise RunError(
            f"{folder} has no card yet; with the one that is sent to you: wardround person join {folder} CARD"
        )
    return read_form(Card, folder / CARD, "a card", "take it again with wardround person join")


def read_person_request(path: Path) -> PersonRequest:
    """The request in this file, its own signature checked; a `RunError` with one message if it is none."""
    return read_form(PersonRequest, path, "a person's request", "ask for it again: wardround person init NAME")

"""A consortium's folder, and a site's.

    new_consortium(Path("north"), "north", [], "fl.example.org", 8002)           # at the coordinator
    request = new_site(Path("charite"))                                          # keys made at the hospital
    join(Path("charite"), Path("charite.zip"))                                   # its kit, once it is admitted
    approve(Path("charite"), study)

    new_consortium(Path("north"), "north", ["a", "b"], "fl.example.org", 8002)   # north/kits/a.zip, … with keys
    init_site(Path("north/kits/a.zip"), Path("a"))                               # for rehearsals

A site's folder has its settings (`site.toml`), its keys (`keys/`, `kit/startup/client.key`), what NVFlare's client
reads (`kit/`, written by our own code), and the hashes of that (`kit.sha256`).
"""

import shutil
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from wardround import __version__
from wardround.consortium.admission import add
from wardround.consortium.forms import Charter, address_problems, name_problems, read_membership
from wardround.consortium.kit_check import record_hashes, site_name
from wardround.consortium.kit_files import Kit, Request, coordinator_fingerprint, read_kit, read_request
from wardround.consortium.roster import write_roster
from wardround.consortium.template import SITE_TOML
from wardround.core.files import write
from wardround.engines.certificates import belongs, make_key, read_certificate, request_for, same_fingerprint
from wardround.engines.flare_kits import make_kits, write_site
from wardround.engines.seal import SealError, make_sealing_key, make_signing_key, read_sealing_key, write_private
from wardround.runs.errors import RunError


def needs_flare() -> None:
    """Say what to install where NVFlare is missing."""
    try:
        import_module("wardround.engines.flare")
    except ImportError:
        raise RunError("this needs NVFlare; install it with: pip install 'wardround[flare]'") from None


def new_consortium(folder: Path, name: str, sites: Sequence[str], host: str, port: int, days: int = 360) -> list[Path]:
    """Make a coordinator's keys and certificates, and a ready-made kit for each site that is named; the kits."""
    problems = list(name_problems(name, taken=False))
    lower = [site.lower() for site in sites]
    for site in dict.fromkeys(sites):
        problems += name_problems(site)
        if lower.count(site.lower()) > 1:
            problems.append(f"two sites are called {site!r}; give each a name of its own")
    problems += _taken(folder, "choose another place with --out")
    problems += address_problems(host, port)
    if problems:
        raise RunError("\n".join(problems))
    make_kits(folder, name, host, port, days)
    ask_key = make_signing_key(folder / "keys" / "ask.key")
    charter = Charter(name=name, host=host, port=port, version=__version__, sites=(), ask_key=ask_key)
    write(folder / "consortium.json", charter.encode())
    write_roster(folder, {})
    return add(folder, sites, days)


def _taken(folder: Path, remedy: str) -> list[str]:
    taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    return [f"{folder} is not empty; {remedy}"] if taken else []


# at a hospital


def new_site(folder: Path) -> tuple[Request, Path]:
    """Make a site's keys in a new folder of its name; the request that goes to the coordinator, and its file."""
    name = folder.resolve().name
    if problems := [*name_problems(name), *_taken(folder, "choose another folder")]:
        raise RunError("\n".join(problems))
    key = folder / "kit" / "startup" / "client.key"
    _private_folder(folder)
    make_key(key)
    seal, csr = make_sealing_key(folder / "keys" / "seal.key"), request_for(key, name).decode("ascii")
    request = Request(name=name, csr=csr, seal=seal, version=__version__)
    write(folder / "site.toml", SITE_TOML.format(name=name).encode())
    write(folder / f"{name}.request", request.encode())
    return request, folder / f"{name}.request"


def join(folder: Path, path: Path, fingerprint: str = "") -> Kit:
    """Take a kit that was made for the keys in this folder: the first one, or a renewed one of the same coordinator."""
    key = folder / "kit" / "startup" / "client.key"
    if not key.exists() or not (folder / "keys" / "seal.key").exists():
        raise RunError(f"{folder} holds no keys; make them with: wardround site init {folder}")
    kit = read_kit(path)
    problems = []
    if kit.key is not None:
        problems.append(f"{path} holds private keys that were made elsewhere; it is for: wardround site init {path}")
    elif not belongs(read_certificate(kit.certificate), key.read_bytes()):
        problems.append(
            f"{path} is not for the key in {key}; it is for the keys of another folder, or {kit.about.site} was "
            f"admitted with another request"
        )
    elif (name := site_name(folder)) != kit.about.site:
        problems.append(f"{path} is for {kit.about.site}, but {folder / 'site.toml'} says that this site is {name}")
    if fingerprint and not same_fingerprint(fingerprint, kit.fingerprint):
        asked = folder / f"{kit.about.site}.request"
        own = asked.exists() and same_fingerprint(fingerprint, read_request(asked).fingerprint)
        why = "that is this site's own, give the one that the coordinator reads out" if own else "ask whoever told you"
        problems.append(f"{path} is from the coordinator {kit.fingerprint}, not {fingerprint}; {why}")
    if (folder / "kit" / "site.json").exists():
        known = coordinator_fingerprint(
            (key.parent / "rootCA.pem").read_bytes(), read_membership(folder / "kit").ask_key
        )
        if known != kit.fingerprint:
            problems.append(
                f"{path} is from another coordinator ({kit.fingerprint}) than this folder has joined ({known}); if "
                f"that is meant, join it from a new folder: wardround site init NAME"
            )
    if problems:
        raise RunError("\n".join([*problems, "nothing was written"]))
    _place(folder, kit)
    return kit


def init_site(kit: Path, folder: Path) -> str:
    """Make a new site folder from a ready-made kit and write its `site.toml`; the site's name."""
    if problems := _taken(folder, "choose another folder"):
        raise RunError(problems[0])
    read = read_kit(kit)
    if read.key is None or read.seal is None:
        raise RunError(
            f"{kit} holds no keys: they are where they were made; take it up there: wardround site join FOLDER {kit}"
        )
    new = not folder.exists()
    try:
        _private_folder(folder)
        write_private(folder / "keys" / "seal.key", read.seal)
        read_sealing_key(folder / "keys" / "seal.key")
    except (SealError, ValueError):
        shutil.rmtree(folder / "keys")
        if new:
            folder.rmdir()
        raise RunError(
            f"{kit} is not a start-up kit: its seal.key is not a key; ask the coordinator for another"
        ) from None
    write_private(folder / "kit" / "startup" / "client.key", read.key)
    write(folder / "site.toml", SITE_TOML.format(name=read.about.site).encode())
    _place(folder, read)
    return read.about.site


def _private_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)


def _place(folder: Path, kit: Kit) -> None:
    """Write a kit's files and NVFlare's beside the key, each in one step, and their hashes last."""
    place, about = folder / "kit", kit.about
    write_site(place, about.name, about.site, about.host, about.port)
    write(place / "startup" / "client.crt", kit.certificate)
    write(place / "startup" / "rootCA.pem", kit.root)
    write(place / "site.json", about.encode())
    record_hashes(folder)

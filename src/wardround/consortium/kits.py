"""A consortium's folder, the start-up kit of each site, and a site's folder made from one.

    new_consortium(Path("north"), "north", ["a", "b"], "fl.example.org", 8002)   # north/kits/a.zip, …
    init_site(Path("north/kits/a.zip"), Path("a"))                               # a/site.toml, a/kit/
    approve(Path("a"), study)

A kit is one file with the site's private key in it: it goes to that site and to nobody else.
"""

import contextlib
import json
import re
import shutil
import socket
import ssl
import stat
import zipfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from wardround import __version__
from wardround.consortium.approving import approve
from wardround.consortium.template import SITE_TOML
from wardround.core.files import write
from wardround.engines.flare_kits import make_kits
from wardround.run_folder import RunError

__all__ = [
    "approve", "certificate_problems", "init_site", "key_problems", "kit_address", "lasting", "needs_flare",
    "new_consortium", "reach",
]  # fmt: skip

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,49}")
HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?")
SOON = 14  # days before a certificate's end when it is time to say so


def needs_flare() -> None:
    """Say what to install where NVFlare is missing."""
    try:
        import_module("wardround.engines.flare")
    except ImportError:
        raise RunError("this needs NVFlare; install it with: pip install 'wardround[flare]'") from None


def new_consortium(folder: Path, name: str, sites: Sequence[str], host: str, port: int, days: int = 360) -> list[Path]:
    """Make certificates and one kit per site; the kits."""
    problems = []
    lower = [site.lower() for site in sites]
    for word in dict.fromkeys((name, *sites)):
        if not NAME.fullmatch(word):
            problems.append(f"{word!r} cannot be a name; use up to 50 letters, digits, - and _")
        if lower.count(word.lower()) > 1:
            problems.append(f"two sites are called {word!r}; give each a name of its own")
        if word in sites and word.lower() in ("coordinator", "server", "admin"):
            problems.append(f"{word!r} is taken by the coordinator; choose another name")
    if folder.exists() and any(folder.iterdir()):
        problems.append(f"{folder} is not empty; choose another place with --out")
    if not HOST.fullmatch(host) or ".." in host:
        problems.append(f"{host!r} is no host's name or IPv4 address; write, say, fl.example.org or 10.0.0.5:8002")
    if not 1 <= port <= 65535:
        problems.append(f"port {port} is none; choose one between 1024 and 65535")
    if problems:
        raise RunError("\n".join(problems))
    make_kits(folder, name, sites, host, port, days)
    told = {"name": name, "sites": list(sites), "host": host, "port": port, "version": __version__}
    write(folder / "consortium.json", (json.dumps(told, indent=1) + "\n").encode())
    (folder / "kits").mkdir(mode=0o700)
    return [_packed(folder, site, told) for site in sites]


def _packed(folder: Path, site: str, told: dict[str, Any]) -> Path:
    path, kit = folder / "kits" / f"{site}.zip", folder / "sites" / site
    path.touch(mode=0o600)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for part in sorted(kit.rglob("*")):
            if part.is_file():
                file.write(part, part.relative_to(kit))
        file.writestr("site.json", json.dumps({**told, "site": site}))
    shutil.rmtree(kit)  # the coordinator keeps no second copy of a site's key lying about
    return path


def init_site(kit: Path, folder: Path) -> str:
    """Unpack a kit into a new site folder and write its `site.toml`; the site's name."""
    if folder.exists() and any(folder.iterdir()):
        raise RunError(f"{folder} is not empty; choose another folder")
    try:
        with zipfile.ZipFile(kit) as file:
            told = json.loads(file.read("site.json"))
            names = file.namelist()
            if any(name.startswith("/") or ".." in Path(name).parts for name in names):
                raise RunError(f"{kit} names files outside its own folder; it is no kit of wardround's")
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.chmod(0o700)
            file.extractall(folder / "kit")
    except FileNotFoundError:
        raise RunError(f"{kit}: there is no such file; the coordinator sends you one") from None
    except (zipfile.BadZipFile, KeyError, ValueError):
        raise RunError(f"{kit} is not a start-up kit: it should be the file that `consortium new` made") from None
    (folder / "kit" / "startup").chmod(0o700)
    (folder / "kit" / "startup" / "client.key").chmod(0o600)
    (folder / "kit" / "transfer").mkdir(exist_ok=True)
    write(folder / "site.toml", SITE_TOML.format(name=told["site"]).encode())
    return str(told["site"])


# what can be wrong with a kit


def kit_address(kit: Path) -> tuple[str, int]:
    """Where the coordinator is, as a kit says."""
    told = json.loads((kit / "startup" / "fed_client.json").read_text(encoding="utf-8"))
    host, _, port = told["servers"][0]["service"]["target"].rpartition(":")
    return host, int(port)


def key_problems(key: Path) -> Iterator[str]:
    """Why this private key cannot be used."""
    if not key.exists():
        yield f"{key} is missing; unpack the kit again"
    elif key.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield f"{key} can be read by others; make it yours alone: chmod 600 {key}"


def certificate_problems(startup: Path, name: str = "client") -> Iterator[str]:
    """Why these certificates cannot be used: dates, a key that is not theirs, another consortium's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_cert_chain(startup / f"{name}.crt", startup / f"{name}.key")
    except (OSError, ssl.SSLError):
        yield f"{startup / name}.key does not belong to {name}.crt; unpack the kit again"
        return
    for path in (startup / f"{name}.crt", startup / "rootCA.pem"):
        begins, ends = _dates(path)
        now = datetime.now(UTC)
        if now > ends:
            ago = f"{_days((now - ends).days)} ago ({path.name}, {ends:%Y-%m-%d})"
            yield f"certificate expired {ago}; ask the coordinator for a new kit"
        elif now < begins:
            yield f"{path.name} is valid from {begins:%Y-%m-%d %H:%M} UTC on; is this machine's clock right?"


def lasting(startup: Path, name: str = "client") -> str:
    """Until when these certificates are good, and whether that is soon."""
    ends = min(_dates(path)[1] for path in (startup / f"{name}.crt", startup / "rootCA.pem"))
    soon = (ends - datetime.now(UTC)).days < SOON
    return f"until {ends:%Y-%m-%d}" + (", which is soon: ask the coordinator for a new kit" if soon else "")


def _days(days: int) -> str:
    return "today, less than a day" if days == 0 else "1 day" if days == 1 else f"{days} days"


def _dates(path: Path) -> tuple[datetime, datetime]:
    told = ssl._ssl._test_decode_cert(str(path))  # type: ignore[attr-defined]  # noqa: SLF001 -- the library's only reader
    begins, ends = (
        datetime.fromtimestamp(ssl.cert_time_to_seconds(told[key]), UTC) for key in ("notBefore", "notAfter")
    )
    return begins, ends


def reach(startup: Path, host: str, port: int, timeout: float = 5.0) -> str | None:
    """Why the coordinator cannot be reached with this kit, or None: a real handshake, both ways."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # the root is the consortium's own; the name is NVFlare's to check
    context.load_verify_locations(startup / "rootCA.pem")
    context.load_cert_chain(startup / "client.crt", startup / "client.key")
    context.set_alpn_protocols(["h2"])
    said = None
    try:
        with socket.create_connection((host, port), timeout) as plain, context.wrap_socket(plain) as line:
            line.settimeout(1.0)
            with contextlib.suppress(TimeoutError):
                if not line.recv(1):  # a server that refuses us says so only now
                    said = "refuses this kit's certificate; is it the kit of another consortium?"
    except ssl.SSLCertVerificationError:
        said = "is not this consortium's coordinator: its certificate is signed by another root"
    except ssl.SSLError:
        said = "refuses this kit's certificate; is it expired, or the kit of another consortium?"
    except socket.gaierror:
        said = "is no address that can be found; check it with the coordinator"
    except OSError as error:
        said = f"cannot be reached ({error.strerror or error}); is the coordinator running, is the port open?"
    return said and f"{host}:{port} {said}"

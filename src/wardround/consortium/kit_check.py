"""What can be wrong with a site's kit, found before anything starts: files, keys, certificates, the coordinator.

    for problem in kit_problems(folder): print(problem)
    print(reach(folder / "kit" / "startup", *kit_address(folder / "kit")))

A kit's files are those that were written when the site joined: `kit.sha256` beside the kit has their hashes, as
`sha256sum -c` reads them. Whatever else lies where NVFlare reads, or where Python would look for modules, is refused.
"""

import contextlib
import hashlib
import re
import socket
import ssl
import stat
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from wardround.consortium.forms import read_membership
from wardround.consortium.roster import lasts
from wardround.core.files import write
from wardround.engines.certificates import (
    CertificateError,
    belongs,
    common_name,
    dates,
    issued_by,
    names_in,
    read_certificate,
)
from wardround.engines.proxy import ProxyError, connected
from wardround.runs.errors import RunError

HASHES = "kit.sha256"
FILES = (
    "kit/site.json", "kit/local/authorization.json", "kit/local/log_config.json", "kit/local/resources.json",
    "kit/startup/client.crt", "kit/startup/client.key", "kit/startup/fed_client.json", "kit/startup/rootCA.pem",
)  # fmt: skip
FOLDERS = ("kit", "kit/startup", "kit/local")
PLACES = {"site.json", "startup", "local", "transfer"}
WRITTEN = re.compile(r"[a-z_]+\.(?:txt|log|fl)(?:\.\d+)?|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""What NVFlare's client writes in its folder: logs, and a folder for each job."""
OPENED = "if a firewall here opens TLS, ask IT to let this address through unopened"
WAY = "something else is there, or a firewall answers in its place; check the address with the coordinator and with IT"
AGAIN = "take the kit up again: wardround site join {} KIT.zip"


def kit_address(kit: Path) -> tuple[str, int]:
    """Where the coordinator is, as a kit says."""
    membership = read_membership(kit)
    return membership.host, membership.port


# files


def record_hashes(folder: Path) -> None:
    """Note how a kit's files are now."""
    lines = (f"{_hash(folder / name)}  {name}\n" for name in FILES)
    write(folder / HASHES, "".join(lines).encode())


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def kit_problems(folder: Path) -> Iterator[str]:
    """All that is wrong with a site's kit, each with its remedy."""
    startup = folder / "kit" / "startup"
    if not (folder / "kit").is_dir():
        yield f"{folder} has no kit; begin with: wardround site init NAME"
        return
    if not (folder / "kit" / "site.json").exists() and (startup / "client.key").exists():
        yield (
            f"{folder} has not joined yet: send its .request file to the coordinator, then: "
            f"wardround site join {folder} KIT.zip"
        )
        return
    yield from _file_problems(folder)
    yield from key_problems(startup / "client.key")
    yield from key_problems(folder / "keys" / "seal.key")
    yield from certificate_problems(startup)
    yield from _name_problems(folder)


def _name_problems(folder: Path) -> Iterator[str]:
    with contextlib.suppress(OSError, CertificateError, RunError):
        site, certificate = read_membership(folder / "kit").site, folder / "kit" / "startup" / "client.crt"
        if common_name(read_certificate(certificate)) != site:
            yield f"{certificate} is not {site}'s; {AGAIN.format(folder)}"
        if (name := site_name(folder)) != site:
            yield f"{folder / 'site.toml'} says that this site is called {name}, its kit is for {site}; set name there"


def site_name(folder: Path) -> object:
    """What `site.toml` says of the site's name, whatever else it says."""
    try:
        return tomllib.loads((folder / "site.toml").read_text(encoding="utf-8-sig")).get("name")
    except (OSError, ValueError):
        return None


def _file_problems(folder: Path) -> Iterator[str]:
    noted = _noted(folder)
    if set(noted) != set(FILES):
        yield f"{folder / HASHES} is missing or damaged; {AGAIN.format(folder)}"
        return
    linked = [folder / name for name in FOLDERS if (folder / name).is_symlink() or not (folder / name).is_dir()]
    if linked:
        yield f"{linked[0]} is missing, or a link to another place; {AGAIN.format(folder)}"
        return
    for name, value in noted.items():
        path = folder / name
        if path.is_symlink() or not path.is_file():
            yield f"{path} is missing, or not a plain file; {AGAIN.format(folder)}"
        elif _hash(path) != value:
            yield f"{path} was changed since the kit was taken up; {AGAIN.format(folder)}"
    for name in FOLDERS[1:]:
        for path in sorted((folder / name).iterdir()):
            if f"{name}/{path.name}" not in noted:
                yield f"{path} is not part of the kit, and NVFlare would read or run it; delete it"
    yield from _code_problems(folder / "kit")


def _noted(folder: Path) -> dict[str, str]:
    try:
        lines = (folder / HASHES).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return {}
    return {name: value for value, _, name in (line.partition("  ") for line in lines)}


def _code_problems(kit: Path) -> Iterator[str]:
    """What lies where NVFlare's processes work, or would put on Python's path, and is neither a log nor a job."""
    for path in sorted(kit.iterdir()):
        if path.name not in PLACES and not WRITTEN.fullmatch(path.name):
            yield f"{path} is not part of the kit, and Python might run it; delete it"
    for path in sorted(kit.glob("*/app_*/custom")):
        yield f"{path} was left by a job and would be on Python's path; delete it"


# keys and certificates


def key_problems(key: Path) -> Iterator[str]:
    """Why this private key cannot be used."""
    if not key.exists():
        yield f"{key} is missing; begin again in a new folder: wardround site init NAME"
    elif key.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield f"{key} can be read by others; make it yours alone: chmod 600 {key}"


def certificate_problems(startup: Path, name: str = "client") -> Iterator[str]:
    """Why these certificates cannot be used: dates, a key that is not theirs, another consortium's."""
    try:
        certificate, root = (read_certificate(startup / file) for file in (f"{name}.crt", "rootCA.pem"))
        ours = belongs(certificate, (startup / f"{name}.key").read_bytes())
    except (OSError, CertificateError):
        yield f"{startup / name}.crt, its key or rootCA.pem cannot be read; ask the coordinator for a new kit"
        return
    if not ours:
        yield f"{startup / name}.key does not belong to {name}.crt; ask the coordinator for a new kit"
        return
    if not issued_by(certificate, root):
        yield f"{startup / name}.crt is not signed by rootCA.pem; ask the coordinator for a new kit"
    for file, one in ((f"{name}.crt", certificate), ("rootCA.pem", root)):
        begins, ends = dates(one)
        if (words := lasts(ends)).startswith("expired"):
            yield f"certificate {words.replace('(', f'({file}, ')}; {_remedy(name)}"
        elif datetime.now(UTC) < begins:
            yield f"{file} is valid from {begins:%Y-%m-%d %H:%M} UTC on, and not yet; is this machine's clock right?"


def lasting(startup: Path, name: str = "client") -> str:
    """Until when these certificates are good, and whether that is soon."""
    ends = min(dates(read_certificate(startup / file))[1] for file in (f"{name}.crt", "rootCA.pem"))
    return f"until {ends:%Y-%m-%d}" + (f", which is soon: {_remedy(name)}" if lasts(ends) else "")


def ends_soon(startup: Path, name: str = "client") -> str | None:
    """A warning if these certificates have 30 days or less."""
    words = lasting(startup, name)
    return f"the certificate is good {words}" if "soon" in words else None


def _remedy(name: str) -> str:
    if name == "server":
        return "renew it: wardround consortium renew CONSORTIUM coordinator"
    return "ask the coordinator for a new kit, made with: wardround consortium renew"


def reach(startup: Path, host: str, port: int, timeout: float = 5.0) -> str | None:
    """Why the coordinator cannot be reached with this kit, or None: a real handshake, both ways."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # the root is the consortium's own; the name is NVFlare's to check
    context.load_verify_locations(startup / "rootCA.pem")
    context.load_cert_chain(startup / "client.crt", startup / "client.key")
    context.set_alpn_protocols(["h2"])
    why, shaken = None, False
    try:
        with connected(host, port, timeout) as plain, context.wrap_socket(plain) as line:
            shaken = True
            line.settimeout(1.0)
            with contextlib.suppress(TimeoutError):
                if not line.recv(1):  # a server that refuses us says so only now
                    why = _refused(startup)
    except ssl.SSLCertVerificationError as error:
        expired = error.verify_code == 10  # X509_V_ERR_CERT_HAS_EXPIRED
        why = (
            "shows a certificate that has expired; tell the coordinator, who can use: wardround consortium renew"
            if expired
            else "is not this consortium's coordinator: its certificate is signed by another root" + _met(host, port)
        )
    except ssl.SSLError as error:
        refused = shaken or "ALERT" in (error.reason or "")
        why = _refused(startup) if refused else f"does not answer with TLS ({error.reason or 'it hangs up'}): {WAY}"
    except socket.gaierror:
        why = "is an address that cannot be found; check it with the coordinator"
    except ProxyError as error:
        why = f"cannot be reached: {error}"
    except OSError as error:
        why = f"cannot be reached ({error.strerror or error}); is the coordinator running, is the port open?"
    return why and f"{host}:{port} {why}"


def _met(host: str, port: int) -> str:
    """Whose certificate is shown there instead, and what that may mean."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # to be named, not trusted: nothing is sent
    try:
        with connected(host, port, 5.0) as plain, context.wrap_socket(plain) as line:
            shown = names_in(ssl.DER_cert_to_PEM_cert(line.getpeercert(binary_form=True) or b"").encode())
    except (OSError, CertificateError):
        return f"; {OPENED}"
    return f" (it is of {shown[0]}, by {shown[1]}); {OPENED}"


def _refused(startup: Path) -> str:
    words = lasts(dates(read_certificate(startup / "client.crt"))[1])
    if words.startswith("expired"):
        return f"refuses this kit's certificate, which {words}; {_remedy('client')}"
    return "refuses this kit's certificate; is it the kit of another consortium?"

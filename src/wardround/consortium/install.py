"""What a hospital's IT needs to run a site as a service: written at the site, from templates of ours.

    pack = write_pack(folder, user="wardround")          # in service/: unit, compose.yaml, Containerfile, INSTALL.md

A kit is data (keys, certificates, an address; `kit_files` has the list), and stays so: what would run at a hospital by
itself is made here, by the program that the hospital has installed, with the addresses that its kit names. So nobody
who makes kits, or changes one on its way, can put a command into a hospital's machine.
"""

import grp
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

from wardround import __version__
from wardround.consortium.forms import Membership, read_membership
from wardround.core.files import write
from wardround.runs.errors import RunError

PLACE = "service"
SYSTEM, USER = Path("/etc/systemd/system"), Path(".config/systemd/user")
ODD = re.compile(r"[\x00-\x1f\x7f\"'\\$]")
MEMORY = "2 GB"
SHARED = ("root", "nobody")  # which systemd itself calls unsafe
HIDDEN = tuple(map(Path, ("/tmp", "/var/tmp", "/dev")))  # noqa: S108  # what the unit's own /tmp and /dev stand before


@dataclass(frozen=True)
class Pack:
    """What was written."""

    folder: Path
    unit: Path
    user: str = ""
    """Whose the service is, if it is the machine's and not a service of one's own."""

    @property
    def commands(self) -> list[list[str]]:
        """How the folder becomes the user's, and the unit is put in its place and started."""
        place = SYSTEM if self.user else Path.home() / USER
        control = ["systemctl"] if self.user else ["systemctl", "--user"]
        site = self.folder.parent
        foreign = self.user and pwd.getpwnam(self.user).pw_uid != site.stat().st_uid
        return [
            *([["chown", "-R", f"{self.user}:{_group(self.user)}", str(site)]] if foreign else []),
            ["install", "-D", "-m", "0644", str(self.unit), str(place / self.unit.name)],
            [*control, "daemon-reload"],
            [*control, "enable", "--now", self.unit.name],
        ]

    @property
    def obstacles(self) -> list[str]:
        """What would keep the service from starting, each with a remedy."""
        site, words = self.folder.parent, list[str]()
        if any(site.is_relative_to(place) for place in HIDDEN):
            words.append(f"{site}: the service has a /tmp and a /dev of its own, and would not see it; move the folder")
        if self.user and os.geteuid() == 0 and (python := _closed_to(self.user)):
            words.append(
                f"{self.user} cannot run {python}; install wardround where every user can, as in /opt/wardround"
            )
        return words


def write_pack(folder: Path, user: str = "") -> Pack:
    """Write the unit and its companions into the site's folder; for a user of the machine, or for who is at it."""
    folder = folder.resolve()
    kit = read_membership(folder / "kit")
    problems = [*_problems(folder, user)]
    if problems:
        raise RunError("\n".join(problems))
    unit = f"wardround-{kit.site}.service"
    pack = Pack(folder / PLACE, folder / PLACE / unit, user)
    values = _values(folder, kit, user, pack)
    for template in files("wardround.consortium").joinpath("pack").iterdir():
        name = unit if template.name == "site.service" else template.name
        text = Template(template.read_text(encoding="utf-8")).substitute(values)
        write(pack.folder / name, re.sub(r"\n{3,}", "\n\n", text).encode())
    return pack


def _problems(folder: Path, user: str) -> Iterator[str]:
    for path in (folder, Path(sys.executable)):
        if ODD.search(str(path)):
            yield f"{path}: a service needs a path without quotes, $ and backslashes; move it"
    if user:
        try:
            pwd.getpwnam(user)
        except KeyError:
            yield f"--user {user}: there is no such user; make it with: useradd --system --home-dir {folder} {user}"
    if user in SHARED:
        yield f"--user {user}: a site needs a user of its own, with no rights beyond its folder"


def _values(folder: Path, kit: Membership, user: str, pack: Pack) -> dict[str, str]:
    word = _word(str(folder))
    account, place = (pwd.getpwnam(user) if user else None), folder.stat()
    command = " ".join(map(_word, (sys.executable, "-P", "-m", "wardround", "site", "start", str(folder))))
    cache = _word(f"WARDROUND_CACHE={folder / 'cache'}")
    return {
        "name": kit.site, "consortium": kit.name, "host": kit.host, "port": str(kit.port),
        "address": f"{kit.host}:{kit.port}", "version": __version__, "memory": MEMORY,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "folder": str(folder).replace("%", "%%"), "writable": word, "command": command, "cache": cache,
        "shell": shlex.quote(str(folder)), "source": f'"{folder}"', "unit": pack.unit.name,
        "uid": str(account.pw_uid if account else place.st_uid),
        "gid": str(account.pw_gid if account else place.st_gid), "as_user": f"sudo -u {user} " if user else "",
        "whose": f" Give commands about the site as its user, {user}: what root writes there, the service cannot read."
        if user else "",
        "user": f"User={user}\nGroup={_group(user)}" if user else "",
        "target": "multi-user.target" if user else "default.target",
        # What a user's own service manager cannot do without rights of the system it must not be asked for.
        "home": "read-only" if user else "no", "devices": "yes" if user else "no", "clock": "yes" if user else "no",
        "install": "\n".join(shlex.join(command) for command in pack.commands),
    }  # fmt: skip


def _group(user: str) -> str:
    return grp.getgrgid(pwd.getpwnam(user).pw_gid).gr_name


def _closed_to(user: str) -> str:
    """The program that this user cannot run as the unit does, if so: one in somebody's home, say."""
    command = [sys.executable, "-P", "-c", "import wardround"]
    try:
        done = subprocess.run(
            command, user=user, group=_group(user), extra_groups=(), cwd="/", capture_output=True, check=False
        )
    except OSError:
        return sys.executable
    return sys.executable if done.returncode else ""


def _word(text: str) -> str:
    """One word of a unit: quoted where it has blanks, and with no specifier in it."""
    plain = text.replace("%", "%%")
    return f'"{plain}"' if re.search(r"\s", plain) else plain


def start(pack: Pack) -> None:
    """Put the unit in its place and start it, as the page says by hand."""
    if obstacles := pack.obstacles:
        raise RunError("\n".join([*obstacles, f"{pack.unit} is written, and was not started"]))
    if pack.user and os.geteuid() != 0:
        raise RunError(f"a service of the machine is installed by root; do there: {shlex.join(pack.commands[0])} && …")
    for command in pack.commands:
        if shutil.which(command[0]) is None:
            raise RunError(
                f"this machine has no {command[0]}; {pack.unit} is written, start its command by other means"
            )
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RunError(f"{shlex.join(command)} failed: {done.stderr.strip() or f'code {done.returncode}'}")

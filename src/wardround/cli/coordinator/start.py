"""`wardround coordinator start CONSORTIUM`: stays; sites can join."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from wardround.cli.options import Consortium, errors
from wardround.runs.errors import RunError


def command(
    folder: Consortium,
    listen: Annotated[
        str,
        typer.Option(help="The address of this machine to listen on, if it is not the consortium's.",
                     metavar="ADDRESS"),
    ] = "",
    page: Annotated[bool, typer.Option("--page", help="Serve a live page: who is there, what runs.")] = False,
    page_host: Annotated[
        str, typer.Option(help="Where the page listens; beyond loopback, looking takes the token.")
    ] = "127.0.0.1",
    page_port: Annotated[int, typer.Option(min=1, max=65535, help="The page's port.")] = 8768,
    page_token_file: Annotated[
        Path | None, typer.Option(help="A file with the page's token, made if it is not there.")
    ] = None,
    people: Annotated[
        str, typer.Option(help="Let people with certificates in from elsewhere: HOST:PORT.", metavar="ADDRESS")
    ] = "",
) -> None:  # fmt: skip
    """Let sites join, and stay."""
    from wardround.consortium.admission import soon_over
    from wardround.consortium.forms import read_charter
    from wardround.consortium.kit_check import certificate_problems, key_problems
    from wardround.consortium.kits import needs_flare
    from wardround.consortium.notify import read_notify
    from wardround.consortium.switchboard import ListenError, servers_at

    needs_flare()
    charter = read_charter(folder)
    startup = folder / "server" / "startup"
    problems = [*key_problems(startup / "server.key"), *certificate_problems(startup, "server")]
    try:
        for server in servers_at(charter.host, charter.port, listen):
            server.close()
    except ListenError as error:
        problems.append(str(error))
    read_notify(folder)
    shown = _page(page_host, page_port, page_token_file, problems) if page else []
    invited = _people(people, problems) if people else []
    if problems:
        raise RunError("\n".join(problems))
    for warning in soon_over(folder):
        errors.print(warning)
    order = [sys.executable, "-P", "-m", "wardround.consortium.switchboard", str(folder)]
    options = {"--listen": [listen] if listen else [], "--page": shown, "--people": invited}
    given = [word for name, words in options.items() if words for word in (name, *words)]
    os.execv(sys.executable, [*order, *given])  # noqa: S606


def place(address: str, option: str, host: str = "") -> tuple[str, int]:
    """Host and port of an address; of one that has only one of them, the other as people have it."""
    from wardround.consortium.people import PORT

    named, _, port = address.rpartition(":") if not address.isdecimal() else ("", "", address)
    if address and not port.isdecimal():
        named, port = address, str(PORT)
    number = int(port or PORT)
    if not (named or host) or not 1 <= number <= 65535:
        raise RunError(f"{option} {address}: write HOST:PORT, such as 0.0.0.0:{PORT}")
    return named or host, number


def _people(address: str, problems: list[str]) -> list[str]:
    """What the program of the door for people is started with, if it can be."""
    from wardround.consortium.switchboard import ListenError, servers_at

    try:
        import wardround.watch.people  # noqa: F401
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        problems.append(f"--people needs {missing}; install it with: pip install 'wardround[serve]'")
        return []
    host, port = place(address, "--people")
    try:
        for server in servers_at(host, port):
            server.close()
    except ListenError as error:
        problems.append(str(error).replace("--listen", "--people"))
    return [host, str(port)]


def _page(host: str, port: int, token_file: Path | None, problems: list[str]) -> list[str]:
    """What the page's program is started with, if it can be."""
    try:
        from wardround.serve.server import HostError, listening, loopback
        from wardround.watch.token import read_token
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        problems.append(f"--page needs {missing}; install it with: pip install 'wardround[serve]'")
        return []
    try:
        with listening(host, port) as door:
            if not loopback(door):
                errors.print(
                    f"warning: at {host}, the page crosses the network without TLS; leave --page-host out, or put a "
                    "proxy with TLS in front"
                )
    except HostError as error:
        problems.append(str(error).replace("--host", "--page-host").replace("--port", "--page-port"))
    if token_file is not None:
        read_token(token_file)
    return [host, str(port), *([str(token_file.resolve())] if token_file else [])]

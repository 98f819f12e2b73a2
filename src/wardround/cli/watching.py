"""What the commands that serve a live page share: where it listens, who may look, and how it is started."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wardround.cli.options import console, errors, fail, serving

if TYPE_CHECKING:
    from wardround.watch.board import Board

Host = Annotated[str, typer.Option(help="The address to listen at; beyond loopback, looking takes the token.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 picks a free one.")]
TokenFile = Annotated[
    Path | None,
    typer.Option(help="A file with the token, made if it is not there; then it is needed on loopback, too."),
]


def watch(board: "Board", host: str, port: int, token_file: Path | None) -> None:
    """Serve a board until Ctrl-C."""
    with serving():
        from wardround.serve.server import HostError, address, listening, loopback, names, serve
        from wardround.watch.app import BoardDesk, application
        from wardround.watch.token import read_token
    try:
        with listening(host, port) as door:
            token = read_token(token_file) if token_file or not loopback(door) else ""
            if not loopback(door):
                errors.print(
                    f"warning: at {host}, the page crosses the network without TLS; leave --host out, or put a proxy "
                    "with TLS in front"
                )
            console.print(f"{address(host, door)}{f'?token={token}' * bool(token)}   (Ctrl-C ends it)")
            serve(application(BoardDesk(board), names(host), token), door)
            console.print("stopped")
    except HostError as error:
        fail(str(error))

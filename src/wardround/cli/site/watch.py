"""`wardround site watch SITE`: what is asked, what left, what was refused, as a page on this machine."""

from pathlib import Path

from wardround.cli.options import Site
from wardround.cli.watching import Host, Port, TokenFile, watch


def command(folder: Site = Path(), host: Host = "127.0.0.1", port: Port = 8767, token_file: TokenFile = None) -> None:
    """Watch this site in a browser: what is asked now, what left, what was refused, what is left of approvals."""
    from wardround.watch.officer import SiteBoard

    watch(SiteBoard(folder), host, port, token_file)

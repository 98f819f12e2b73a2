"""What a person asks of a coordinator on another machine, over TLS with a certificate at both ends.

    errand = Errand(Path("ada"))
    errand.ask("/status")                                # a `RunError` says what the coordinator refuses, and why
    errand.ask("/submit", {"study": text, …})
    errand.fetch("/files/ada/mentions/report.html", path, 20_480)

The way may lead through an HTTP proxy (`https_proxy`), as a site's does. No torch here.
"""

import http.client
import json
import select
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from wardround.consortium.people import CARD, KEY, read_card
from wardround.consortium.roster import lasts
from wardround.core.files import NO_ROOM, fresh, write
from wardround.engines.certificates import dates, read_certificate
from wardround.engines.proxy import connected
from wardround.runs.errors import RunError
from wardround.text.shown import harmless

PATIENCE = 30.0
LOOKING = "wardround-watch"
"""What a connection says (ALPN) that is for looking only, whatever the certificate allows."""
OURS = "localhost"
"""A name that stands in the coordinator's certificate, by whatever address one reaches it, and in no other's."""
PIECE = 1 << 20
MOST = 1 << 22  # bytes of an answer that is no file
MOST_WORDS = 20_000  # letters of a refusal
HUNG_UP = "the coordinator has hung up before the last {:,} bytes; try again"


class Denied(RunError):
    """What the coordinator has answered, and would answer again."""


class Errand:
    """Somebody's way to the coordinator."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.card = folder, read_card(folder)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.context.load_verify_locations(cadata=self.card.root)
        certificate = folder / "person.crt"
        if not certificate.exists() or certificate.read_text(encoding="ascii") != self.card.certificate:
            write(certificate, self.card.certificate.encode("ascii"))  # the library reads files
        self.context.load_cert_chain(certificate, folder / KEY)

    def connect(self, *, looking: bool = False) -> ssl.SSLSocket:
        """A connection that the coordinator has taken; with `looking`, one that can do nothing else."""
        card = self.card
        self.context.set_alpn_protocols([LOOKING] if looking else [])
        try:
            return self.context.wrap_socket(connected(card.host, card.port, PATIENCE), server_hostname=OURS)
        except ssl.SSLError as error:
            raise RunError(self._unproven(error)) from None
        except OSError as error:
            raise RunError(
                f"the coordinator of {card.consortium} cannot be reached at {card.host}:{card.port} "
                f"({error.strerror or error}); is it started with --people?"
            ) from None

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The answer to a question, or to an order."""
        status, data = self._exchange(path, body)
        try:
            answer = _harmless(json.loads(data))
        except (ValueError, RecursionError):
            answer = {}
        if status >= 400 or not isinstance(answer, dict):
            words = answer.get("error") if isinstance(answer, dict) else None
            kind = Denied if 400 <= status < 500 else RunError
            raise kind(str(words or f"the coordinator answers with status {status}")[:MOST_WORDS])
        return answer

    def fetch(self, path: str, target: Path, size: int) -> None:
        """Write a file of the coordinator's here, whole or not at all, of just the size that was agreed to."""
        with self._answered(path, None) as answer:
            if answer.status != 200:
                raise RunError(f"{path} cannot be had (status {answer.status})")
            if answer.length != size:
                raise RunError(f"{path} does not have the {size:,} bytes that were announced; nothing was written")
            with fresh(target) as file:
                left = size
                while left and (piece := answer.read(min(PIECE, left))):
                    file.write(piece)
                    left -= len(piece)
                if left:
                    raise RunError(HUNG_UP.format(left))

    def _exchange(self, path: str, body: Mapping[str, Any] | None) -> tuple[int, bytes]:
        with self._answered(path, body) as answer:
            whole = answer.read(MOST)
            missing = answer.length  # cut off, which `read` passes over in silence, or too long
        if missing:
            raise RunError(HUNG_UP.format(missing))
        return answer.status, whole

    @contextmanager
    def _answered(self, path: str, body: Mapping[str, Any] | None) -> Iterator[http.client.HTTPResponse]:
        """The head of an answer, whose rest is to be read."""
        line = http.client.HTTPConnection(OURS, timeout=PATIENCE)
        line.sock = self.connect()
        try:
            data = None if body is None else json.dumps(body).encode()
            line.request("GET" if data is None else "POST", path, data, {"Content-Type": "application/json"})
            yield line.getresponse()
        except ssl.SSLError as error:
            raise RunError(self._unproven(error)) from None
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                raise
            if self._over:
                raise RunError(self._over) from None
            raise RunError(f"the coordinator has hung up ({type(error).__name__}); try again") from None
        finally:
            line.close()

    @property
    def _over(self) -> str:
        """That the certificate has run out, if it has."""
        words = lasts(dates(read_certificate(self.card.certificate.encode()))[1])
        if not words.startswith("expired"):
            return ""
        return f"the certificate in {self.folder / CARD} {words}; ask for a new one: wardround consortium renew"

    def _unproven(self, error: ssl.SSLError) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            return (
                f"whoever answers at {self.card.host}:{self.card.port} is not the coordinator of "
                f"{self.card.consortium}: {error.verify_message}; is there a firewall that opens TLS?"
            )
        return (
            self._over
            or f"the coordinator does not take this certificate ({error.reason or 'no reason given'}); is it its own?"
        )


def _harmless(value: Any) -> Any:
    """An answer whose words cannot command the terminal that they are shown on."""
    if isinstance(value, dict):
        return {harmless(key): _harmless(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_harmless(one) for one in value]
    return harmless(value) if isinstance(value, str) else value


def tunnel(near: socket.socket, far: ssl.SSLSocket) -> None:
    """Carry bytes both ways until one end closes: one thread, for TLS does not take two at once."""
    with near, far, suppress(OSError):
        while True:
            if not far.pending():
                select.select([near, far], [], [])
            for source, sink in ((near, far), (far, near)):
                source.settimeout(0.0)
                with suppress(BlockingIOError, ssl.SSLWantReadError):
                    if not (data := source.recv(PIECE)):
                        return
                    sink.settimeout(PATIENCE)
                    sink.sendall(data)

"""The coordinator's door for people on other machines: TLS with a certificate at both ends, a role for each of them.

    python -m wardround.watch.people FOLDER HOST PORT            # `wardround coordinator start --people HOST:PORT`

    who may       watch   submit    admin
    GET  /…        yes     yes       yes    the coordinator's page, its stream and /metrics, as in `app`; no button
    GET  /status   yes     yes       yes    who is there, how far runs are
    POST /submit    no     yes       yes    an `Order`
    POST /stop      no     own runs  yes    end a run after its round
    GET  /output    no     own runs  yes    what a run has said; /files: its figures, report and model
    POST /end       no     no        yes    stop the coordinator
    POST /revoke    no     no        yes    a site or a person

Rules of this file:
1. TLS lets in certificates of the consortium's root alone; `people.json` is asked anew with each request and with each
   piece of a stream. A certificate says who somebody is; nothing that a request says does.
2. Every act, and every refusal, is a line in `CONSORTIUM/people.jsonl`: when, who, as what, what, how it ended. What
   somebody does, or is refused, again and again is one line a minute: nobody can write until older lines are gone.
3. What comes in is small and comes soon, or is not waited for. Who shows no certificate costs one file, for a while.
4. A run is a process of its own, with nothing of its author's in it but a checked study (`consortium.orders`).
This process is started again if it ends, and takes up orders that are not done. No torch here.
"""

import ssl
import sys
from collections.abc import Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wardround.consortium.errand import LOOKING
from wardround.consortium.people import known
from wardround.engines.certificates import read_der
from wardround.engines.processes import end_with_parent, tell
from wardround.engines.relay import Relay, addresses, raise_file_limit
from wardround.engines.relay import listening as listening_at
from wardround.serve.guard import Guarded
from wardround.serve.server import listening, serve_proven
from wardround.watch.app import FAILURES, BoardDesk, pages
from wardround.watch.coordinator import CoordinatorBoard
from wardround.watch.errands import HOUR, LOG, SELDOM, Acts, PeopleDesk, RefusedErrand

EACH = 64  # connections of one address
WHY = {
    "unknown": "this certificate is nobody's here; ask an administrator: wardround consortium person",
    "revoked": "{name} is revoked", "expired": "the certificate of {name} has expired; it has to be renewed",
    "outdated": "the certificate of {name} was renewed; take the new card: wardround person join",
}  # fmt: skip


class WithRole:
    """An application that only answers people of the consortium, and says who they are."""

    def __init__(self, inner: ASGIApp, folder: Path, acts: Acts, proved: Callable[[int], None]) -> None:
        self.inner, self.folder, self.acts, self.proved = inner, folder, acts, proved

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or say why not."""
        state = scope["state"]
        certificate = read_der(state["certificate"])
        name, role, why = known(self.folder, certificate)
        if role is None:
            self.acts.note(name, "", "come in", scope["path"], why, SELDOM)
            await JSONResponse({"error": WHY[why].format(name=name)}, 401)(scope, receive, send)
            return
        self.proved(state["port"])
        state["person"], state["role"] = name, "watch" if state["purpose"] == LOOKING else role
        if scope["method"] != "POST":
            self.acts.note(name, state["role"], "look", "", "done", HOUR)

        async def sent(message: Message) -> None:
            if known(self.folder, certificate)[1] is None:
                raise RefusedErrand("no longer")  # in the midst of a stream: it ends
            await send(message)

        await self.inner(scope, receive, sent)


def people_application(folder: Path, desk: PeopleDesk, proved: Callable[[int], None] = lambda _: None) -> Guarded:
    """All of it behind its guards."""
    looking = BoardDesk(CoordinatorBoard(folder, stoppable=False))
    inner = Starlette(routes=[*desk.routes(), *pages(looking)], exception_handlers=FAILURES)
    return Guarded(WithRole(inner, folder, desk.acts, proved), ("localhost",))


def tls(folder: Path) -> ssl.SSLContext:
    """The coordinator's certificate, for whoever shows one of the same root."""
    startup = folder / "server" / "startup"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(startup / "rootCA.pem")
    context.load_cert_chain(startup / "server.crt", startup / "server.key")
    context.set_alpn_protocols([LOOKING])
    return context


def main() -> None:
    """Serve people until whoever started this ends."""
    end_with_parent()
    raise_file_limit()
    folder, host, port = Path(sys.argv[1]).resolve(), sys.argv[2], int(sys.argv[3])
    try:
        servers = listening_at(addresses(host, port))
    except OSError as error:
        tell(f"no door for people: {host}:{port}: {error.strerror or error}")
        sys.exit(2)
    desk = PeopleDesk(folder, Acts(folder))
    with listening("127.0.0.1", 0) as inner, Relay(servers, lambda: inner.getsockname()[1], lambda: EACH) as relay:
        tell(f"people are let in at {relay}, each with a certificate; what they do is in {folder / LOG}")
        desk.take_up()
        serve_proven(people_application(folder, desk, relay.proved), inner, tls(folder))


if __name__ == "__main__":
    main()

"""The page and the endpoint for trained models, as an ASGI application; docs/serve.md is the manual.

    app = application(Desk(wardround.load("runs/x/model")))

One prediction runs at a time, in a thread of its own, so that everything else still answers. Nothing of a note is
written or logged.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from wardround import __version__
from wardround.serve.guard import HANDLERS, Guarded
from wardround.serve.request import Refused
from wardround.serve.request import request as parsed
from wardround.text.document import Document
from wardround.text.prediction import Prediction
from wardround.trained.about import CARD
from wardround.trained.model import Model

LARGEST = 5_000_000
WAITING = 8  # requests that may stand in line; each holds its note in memory
DRAINED = 20  # times the largest request: so much is read away, for the sender to hear the answer
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def application(desk: "Desk", hosts: Collection[str] = ()) -> Guarded:
    """The page and the endpoint, reached by loopback names and by these hosts."""
    schema = json.loads(files(__package__).joinpath("openapi.json").read_text(encoding="utf-8"))
    schema["info"]["version"] = __version__
    routes = [
        Route("/predict", desk.predict, methods=["POST"]),
        Route("/model", _always(JSONResponse(_known(desk.model, desk.largest)))),
        Route("/health", _always(JSONResponse({"status": "ok", "wardround": __version__}))),
        Route("/openapi.json", _always(JSONResponse(schema))),
        *(Route(path, _always(answer)) for path, answer in _page()),
    ]
    return Guarded(Starlette(routes=routes, exception_handlers=HANDLERS), hosts)


class Desk:
    """Where texts come in, wait for their turn and are answered."""

    def __init__(self, model: Model, largest: int = LARGEST) -> None:
        self.model, self.largest = model, largest
        self.waiting = 0
        self.busy = False
        """Whether a prediction is under way, which nothing can stop."""
        self.turn = asyncio.Lock()
        self.thread = ThreadPoolExecutor(1, "predict")

    async def predict(self, request: Request) -> Response:
        """What the model says of a text."""
        if request.headers.get("content-type", "").partition(";")[0].strip().casefold() != "application/json":
            raise Refused(415, "wrong_content_type", "send the text as JSON, with Content-Type: application/json")
        try:
            document = parsed(await self._body(request))
        except ClientDisconnect:
            return Response()  # that nobody gets
        if not document.text.strip():
            return JSONResponse(_answer(Prediction(document.text)))
        if not self.model.finds_entities and not document.entities:
            what = "entities is needed: this model relates entities and finds none itself; or serve a tagger with it"
            raise Refused(422, "missing_key", what, "entities")
        if self.waiting >= WAITING:
            raise Refused(503, "busy", f"{WAITING} texts are waiting already; try again in a while")
        self.waiting += 1
        try:
            async with self.turn:
                if await request.is_disconnected():
                    return Response()
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self.thread, self._answered, document)
        finally:
            self.waiting -= 1

    def _answered(self, document: Document) -> Response:
        self.busy = True
        try:
            return JSONResponse(_answer(self.model(document)))
        finally:
            self.busy = False

    async def _body(self, request: Request) -> bytes:
        """The request's body, unless it is too large; then it is read away, within reason."""
        parts, size = [], 0
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) <= DRAINED * self.largest:
            async for part in request.stream():
                size += len(part)
                if size <= self.largest:
                    parts.append(part)
                elif size > DRAINED * self.largest:
                    break
            if size <= self.largest:
                return b"".join(parts)
        remedy = "send a shorter text, or serve with a higher --largest"
        raise Refused(413, "too_large", f"a request may have {self.largest:,} bytes; {remedy}")


def _answer(prediction: Prediction) -> dict[str, Any]:
    return {**prediction.plain(), "cut": prediction.cut}


def _known(model: Model, largest: int) -> dict[str, Any]:
    """What the page and its user should know of the models; their cards in Markdown."""
    models = [
        {
            "name": part.about.study,
            "task": part.about.task["name"],
            "summary": part.task.summary(),
            "labels": [label for label in part.about.labels if label != part.about.negative],
            "types": part.about.types,
            "pairs": part.about.pairs,
            "languages": part.about.languages,
            "card": card.read_text(encoding="utf-8") if (card := part.folder / CARD).is_file() else "",
        }
        for part in model.parts
    ]
    return {"models": models, "finds_entities": model.finds_entities, "largest": largest}


def _page() -> Iterator[tuple[str, Response]]:
    for file in files(__package__).joinpath("page").iterdir():
        kind = KINDS[file.name.rpartition(".")[2]]
        yield ("/" if kind == "text/html" else f"/{file.name}"), Response(file.read_bytes(), media_type=kind)


def _always(answer: Response) -> Callable[[Request], Awaitable[Response]]:
    async def given(_: Request) -> Response:
        return answer

    return given

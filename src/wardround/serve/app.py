"""The page and the endpoint for trained models, as an ASGI application; docs/serve.md is the manual.

    app = application(Desk(wardround.load("runs/x/model")))

Nothing of a note is written or logged.
"""

import json
from collections.abc import Awaitable, Callable, Collection, Iterator
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from wardround import __version__
from wardround.serve.desk import Desk
from wardround.serve.guard import HANDLERS, Guarded
from wardround.trained.about import CARD
from wardround.trained.model import Model

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def application(desk: Desk, hosts: Collection[str] = ()) -> Guarded:
    """The page and the endpoint, reached by loopback names and by these hosts."""
    schema = json.loads(files(__package__).joinpath("openapi.json").read_text(encoding="utf-8"))
    schema["info"]["version"] = __version__
    routes = [
        Route("/predict", desk.predict, methods=["POST"]),
        Route("/model", _always(JSONResponse(_known(desk.model, desk.largest)))),
        Route("/health", _health(desk)),
        Route("/openapi.json", _always(JSONResponse(schema))),
        *(Route(path, _always(answer)) for path, answer in _page()),
    ]
    return Guarded(Starlette(routes=routes, exception_handlers=HANDLERS), hosts)


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


def _health(desk: Desk) -> Callable[[Request], Awaitable[Response]]:
    """That the server answers, and how long the line is."""

    async def now(_: Request) -> Response:
        line = {"waiting": desk.waiting, "most": desk.most}
        return JSONResponse({"status": "ok", "wardround": __version__, **line})

    return now


def _page() -> Iterator[tuple[str, Response]]:
    for file in files(__package__).joinpath("page").iterdir():
        kind = KINDS[file.name.rpartition(".")[2]]
        yield ("/" if kind == "text/html" else f"/{file.name}"), Response(file.read_bytes(), media_type=kind)


def _always(answer: Response) -> Callable[[Request], Awaitable[Response]]:
    async def given(_: Request) -> Response:
        return answer

    return given

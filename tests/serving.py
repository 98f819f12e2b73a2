"""A server on a free port of this machine, for tests, and a model that says what it is told.

with served(Desk(model)) as place:
    status, headers, told = send(place, "/predict", {"text": "…"})
"""

import http.client
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import uvicorn

from wardround.serve.app import application
from wardround.serve.desk import Desk
from wardround.serve.server import listening, settings
from wardround.text.document import Document, Entity, Relation
from wardround.text.prediction import Label, Prediction, numbered
from wardround.trained.model import Model

__all__ = ["JSON", "Relates", "Scripted", "hosted", "send", "served"]

JSON = {"Content-Type": "application/json"}


class Scripted(Model):
    """Takes words of three or more capitals for drugs, the first for a cause of the second, and so on."""

    def together(self, documents: Sequence[Document]) -> list[Prediction]:
        return [self.prediction(document.text) for document in documents]

    def prediction(self, words: str) -> Prediction:
        """What it says of one text."""
        if "BREAK" in words:
            raise RuntimeError(f"cannot read {words}")
        entities = [Entity("", "drug", one.start(), one.end(), 0.9) for one in re.finditer(r"\b[A-Z]{3,}\b", words)]
        if "OVER LAP" in words:
            at = words.index("OVER LAP")
            entities += [Entity("", "long", at, at + 8, 0.4), Entity("", "cross", at + 2, at + 6, 0.6)]
        entities.sort(key=lambda entity: (entity.start, -entity.end))
        links = tuple(Relation("causes <b>x</b>", f"T{at}", f"T{at + 1}", 0.7) for at in range(1, len(entities)))
        return Prediction(words, (Label("<i>ward</i>", 0.51),), numbered(entities), links)


class Relates(Scripted):
    """One that finds no entities itself."""

    finds_entities = False


def served(desk: Desk) -> AbstractContextManager[str]:
    """A real server of models, and its address."""
    return hosted(application(desk))


@contextmanager
def hosted(app: Any) -> Iterator[str]:
    """A real server of any application, and its address."""
    door = listening("127.0.0.1", 0)
    server = uvicorn.Server(settings(app))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{door.getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True  # a page's stream would be waited for
        thread.join()


def send(
    place: str, path: str, body: Any = None, headers: Mapping[str, str] = JSON, method: str = ""
) -> tuple[int, Mapping[str, str], Any]:
    """Status, headers and JSON of an answer; bytes are sent as they are, other bodies as JSON."""
    line = http.client.HTTPConnection(urlsplit(place).netloc, timeout=60)
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    line.request(method or ("GET" if body is None else "POST"), path, data, dict(headers))
    answer = line.getresponse()
    raw = answer.read()
    line.close()
    told = json.loads(raw) if answer.headers.get_content_type() == "application/json" else raw
    return answer.status, {key.casefold(): value for key, value in answer.headers.items()}, told

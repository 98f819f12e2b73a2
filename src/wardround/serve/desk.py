"""Where texts come in, wait for their turn and are answered.

One prediction runs at a time, in a thread of its own, so that everything else still answers. What a request may take is
bounded: its bytes, the time in which they come, that which an answer takes, and how many stand in line behind the one
under way. A prediction for which nobody waits any more ends at the next batch.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from wardround.core.wanted import NotWanted, go_on, wanted
from wardround.serve.request import Asked, Refused, charset_of
from wardround.serve.request import request as parsed
from wardround.text.document import Document
from wardround.text.prediction import Prediction
from wardround.trained.blocks import blocks
from wardround.trained.languages import foreign
from wardround.trained.model import Model

LARGEST = 5_000_000
WAITING = 8
PATIENCE = 30.0
ANSWER = 300.0
LOOK = 0.5  # seconds between looks whether somebody still waits
DRAINED = 20  # times the largest request: so much is read away, for the sender to hear the answer
READ = 4  # times as many bodies as may wait are held while they arrive


class Desk:
    """The model, and the line before it."""

    def __init__(
        self,
        model: Model,
        largest: int = LARGEST,
        most: int = WAITING,
        patience: float = PATIENCE,
        answer: float = ANSWER,
    ) -> None:
        self.model, self.largest, self.patience, self.answer = model, largest, patience, answer
        self.most = most
        """Requests that may be here at a time, the one under way included; each holds its notes in memory."""
        self.waiting = self.reading = 0
        self.busy = False
        """Whether a prediction is under way."""
        self.turn = asyncio.Lock()
        self.thread = ThreadPoolExecutor(1, "predict")

    async def predict(self, request: Request) -> Response:
        """What the model says of a text, or of each of several."""
        charset = charset_of(request.headers.get("content-type", ""))
        try:
            asked = parsed(await self._body(request), charset)
        except ClientDisconnect:
            return Response()  # that nobody gets
        self._refuse_bare(asked)
        if self.waiting >= self.most:
            raise self._full()
        self.waiting += 1
        try:
            async with self.turn:
                if await request.is_disconnected():
                    return Response()
                return await self._worked_out(request, asked)
        finally:
            self.waiting -= 1

    async def _worked_out(self, request: Request, asked: Asked) -> Response:
        """The answer, unless it takes too long or whoever asked has gone."""
        gone, until = threading.Event(), time.monotonic() + self.answer
        work = asyncio.get_running_loop().run_in_executor(
            self.thread, self._answered, asked, lambda: not gone.is_set() and time.monotonic() < until
        )
        while not work.done():
            await asyncio.wait([work], timeout=LOOK)
            if not work.done() and await request.is_disconnected():
                gone.set()
        try:
            return await work
        except NotWanted:
            if gone.is_set():
                return Response()
            what = f"an answer may take {self.answer:g} s; send fewer or shorter texts, or serve with a higher --answer"
            raise Refused(413, "too_long", what) from None

    def _refuse_bare(self, asked: Asked) -> None:
        """Raise an error if entities are to be related, and there are none."""
        texts = [document for document in asked.documents if document.text.strip()]
        if texts and not self.model.finds_entities and not any(document.entities for document in texts):
            key = "texts[0].entities" if asked.many else "entities"
            what = f"{key} is needed: this model relates entities and finds none itself; or serve a tagger with it"
            raise Refused(422, "missing_key", what, key)

    def _full(self) -> Refused:
        return Refused(503, "busy", f"{self.most} requests are waiting already; try again in a while")

    def _answered(self, asked: Asked, ask: Callable[[], bool]) -> Response:
        self.busy = True
        try:
            with wanted(ask):
                found = zip(asked.documents, self._predicted(asked.documents), strict=True)
                answers = [self._answer(document, one) for document, one in found]
        finally:
            self.busy = False
        content: dict[str, Any] = {"predictions": answers} if asked.many else answers[0]
        return JSONResponse(content)

    def _answer(self, document: Document, prediction: Prediction) -> dict[str, Any]:
        """What is found in a text, with a warning if it is in a language that the model was not trained on."""
        warnings = foreign(self.model.about, document)
        return {**prediction.plain(), "cut": prediction.cut, **({"warnings": warnings} if warnings else {})}

    def _predicted(self, documents: Sequence[Document]) -> list[Prediction]:
        """In their order; the model is not asked about blank texts."""
        texts = [document for document in documents if document.text.strip()]
        predictions: list[Prediction] = []
        for some in blocks(texts):
            go_on()
            predictions += self.model.together(some)
        answers = iter(predictions)
        return [next(answers) if one.text.strip() else Prediction(one.text) for one in documents]

    async def _body(self, request: Request) -> bytes:
        """The request's body, unless it is too large, too slow or one too many; then it is read away, within reason."""
        room = self.reading < READ * self.most
        self.reading += room
        try:
            async with asyncio.timeout(self.patience):
                body = await self._parts(request, self.largest if room else 0)
        except TimeoutError:
            what = (
                f"the body did not arrive within {self.patience:g} s; send it faster, or serve with a higher --patience"
            )
            raise Refused(408, "too_slow", what) from None
        finally:
            self.reading -= room
        if not room:
            raise self._full()
        if body is None:
            remedy = "send a shorter text, or serve with a higher --largest"
            raise Refused(413, "too_large", f"a request may have {self.largest:,} bytes; {remedy}")
        return body

    async def _parts(self, request: Request, largest: int) -> bytes | None:
        """All of the body if it is not larger; what is much larger is not read to its end."""
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > DRAINED * self.largest:
            return None
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size <= largest:
                parts.append(part)
            elif size > DRAINED * self.largest:
                break
        return b"".join(parts) if size <= largest else None

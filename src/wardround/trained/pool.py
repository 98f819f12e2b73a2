"""Predictions on a stream of texts, in order, by this process or by several that each have the model.

    for placed, prediction in predictions(model, texts, workers=2): ...

Blocks of texts go to `python -m wardround.trained.worker` and come back as predictions, each a line of JSON over a
pipe: nothing is written down, and nothing is run that came over it. A few blocks are under way at a time, so the
memory needed does not grow with the input. The same blocks give the same bits, whoever works on them.
"""

import json
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from queue import SimpleQueue
from typing import IO, Any, Self, cast

from wardround.text.document import Document, Entity, Placed, Relation
from wardround.text.prediction import Label, Prediction
from wardround.trained.blocks import blocks
from wardround.trained.model import HALF, Model

__all__ = ["WorkerError", "answer", "predictions"]

UNDER_WAY = 2  # blocks per worker
PATIENCE = 5.0


class WorkerError(RuntimeError):
    """A worker process failed or ended; the message says what to do, and quotes no text."""


def predictions(model: Model, texts: Iterable[Placed], workers: int = 1) -> Iterator[tuple[Placed, Prediction]]:
    """Each text with what was found in it."""
    some = _checked(model, texts)
    if workers == 1:
        for block in some:
            yield from zip(block, model.together([placed.document for placed in block]), strict=True)
        return
    with ExitStack() as stack:
        free: SimpleQueue[Worker] = SimpleQueue()
        for _ in range(workers):
            free.put(stack.enter_context(Worker(model)))
        threads = stack.enter_context(ThreadPoolExecutor(workers))
        waiting: deque[tuple[list[Placed], Future[list[Prediction]]]] = deque()

        def ask(block: list[Placed]) -> list[Prediction]:
            worker = free.get()
            try:
                return worker.ask([placed.document for placed in block])
            finally:
                free.put(worker)

        try:
            for block in some:
                waiting.append((block, threads.submit(ask, block)))
                if len(waiting) >= UNDER_WAY * workers:
                    done, reply = waiting.popleft()
                    yield from zip(done, reply.result(), strict=True)
            while waiting:
                done, reply = waiting.popleft()
                yield from zip(done, reply.result(), strict=True)
        finally:
            for _, left in waiting:
                left.cancel()


def _checked(model: Model, texts: Iterable[Placed]) -> Iterator[list[Placed]]:
    for number, block in enumerate(blocks(texts)):
        if number == 0:
            model.refuse_bare([placed.document for placed in block])
        yield block


class Worker:
    """A process that has the model."""

    def __init__(self, model: Model) -> None:
        command = [sys.executable, "-m", "wardround.trained.worker"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.into, self.out = cast("IO[bytes]", self.process.stdin), cast("IO[bytes]", self.process.stdout)
        self._send(
            {"models": [str(part.folder) for part in model.parts], "rename": model.rename, "entities": model.entities}
        )

    def ask(self, documents: Sequence[Document]) -> list[Prediction]:
        """The predictions on a block."""
        self._send([document.plain() for document in documents])
        line = self.out.readline()
        if not line:
            code = self.process.wait(PATIENCE)
            raise WorkerError(f"a worker ended (code {code}), for want of memory perhaps; try fewer --workers")
        reply = json.loads(line)
        if "failed" in reply:
            raise WorkerError(f"a worker failed: {reply['failed']}; try --workers 1")
        rows = zip(documents, reply["predictions"], strict=True)
        return [_prediction(document.text, row) for document, row in rows]

    def _send(self, what: Any) -> None:
        with suppress(BrokenPipeError):  # it has ended, which shows when it is to answer
            self.into.write(json.dumps(what).encode() + b"\n")
            self.into.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self.into.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(PATIENCE)
        self.out.close()


def answer(model: Model, line: bytes) -> dict[str, Any]:
    """A worker's answer to a block, as plain values."""
    documents = [
        Document(**{**row, "entities": tuple(Entity(**entity) for entity in row["entities"]), "relations": ()})
        for row in json.loads(line)
    ]
    rows = [asdict(replace(one, text="")) for one in model.together(documents)]  # which the asking side has
    return {"predictions": rows}


def _prediction(text: str, row: dict[str, Any]) -> Prediction:
    return Prediction(
        HALF.sub("\ufffd", text),
        tuple(Label(**one) for one in row["labels"]),
        tuple(Entity(**one) for one in row["entities"]),
        tuple(Relation(**one) for one in row["relations"]),
        row["id"],
        row["cut"],
    )

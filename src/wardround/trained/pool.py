"""Predictions on a stream of texts, in order, by this process or by several that each have the model.

    for placed, prediction in predictions(model, texts, workers=2): ...

Blocks of texts go to `python -m wardround.trained.pool` and come back as predictions, each a line of JSON over a
pipe: nothing is written down, and nothing is run that came over it. A few blocks are under way at a time, so the
memory needed does not grow with the input. The same blocks give the same bits, whoever works on them.
"""

import json
import os
import signal
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from contextvars import copy_context
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, Self, cast

import torch

from wardround.core.doing import doing, noticed
from wardround.core.refusal import Refusal
from wardround.text.document import Document, Entity, Placed, Relation
from wardround.text.prediction import Label, Prediction
from wardround.trained.about import ModelError
from wardround.trained.blocks import blocks
from wardround.trained.model import HALF, Model, load
from wardround.trained.resume import PredictionJournal

UNDER_WAY = 2  # blocks per worker
PATIENCE = 5.0


class WorkerError(Refusal, RuntimeError):
    """A worker process failed or ended; the message says what to do, and quotes no text."""


def predictions(
    model: Model, texts: Iterable[Placed], workers: int = 1, journal: PredictionJournal | None = None
) -> Iterator[tuple[Placed, Prediction]]:
    """Each text with what was found in it; what the journal has is not predicted again."""
    some = _checked(model, texts)
    for block in some if journal else ():
        rows = journal.recall(block) if journal else None
        if rows is None:
            some = chain([block], some)
            break
        yield from zip(block, _restored([placed.document for placed in block], rows), strict=True)
    for block, answers in _predicted(model, some, workers):
        if journal:
            journal.keep(block, _rows(answers))
        yield from zip(block, answers, strict=True)


def _predicted(
    model: Model, some: Iterable[list[Placed]], workers: int
) -> Iterator[tuple[list[Placed], list[Prediction]]]:
    """The blocks, in order, with their predictions."""
    if workers == 1:
        for block in some:
            yield block, model.together([placed.document for placed in block])
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
                waiting.append((block, threads.submit(copy_context().run, ask, block)))
                if len(waiting) >= UNDER_WAY * workers:
                    done, reply = waiting.popleft()
                    yield done, reply.result()
            while waiting:
                done, reply = waiting.popleft()
                yield done, reply.result()
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
        command = [sys.executable, "-m", "wardround.trained.pool"]
        # In a group of its own: Ctrl-C is for whoever started it, who ends the pipe.
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)
        self.into, self.out = cast("IO[bytes]", self.process.stdin), cast("IO[bytes]", self.process.stdout)
        parts = [(str(part.folder), part.digest) for part in model.parts]
        options = {"rename": model.rename, "trust": model.trust, "precision": model.device.precision}
        self._send({"models": parts, "entities": model.entities, "options": options})

    def ask(self, documents: Sequence[Document]) -> list[Prediction]:
        """The predictions on a block."""
        self._send([document.plain() for document in documents])
        while "doing" in (reply := self._reply()):
            doing(reply["doing"])
        if "refused" in reply:
            raise WorkerError(f"a worker cannot load the model: {reply['refused']}")
        if "failed" in reply:
            raise WorkerError(f"a worker failed: {reply['failed']}; try --workers 1")
        return _restored(documents, reply["predictions"])

    def _reply(self) -> dict[str, Any]:
        line = self.out.readline()
        if not line:
            code = self.process.wait(PATIENCE)
            raise WorkerError(f"a worker ended (code {code}), perhaps for want of memory; try fewer --workers")
        reply: dict[str, Any] = json.loads(line)
        return reply

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


def _rows(predictions: Sequence[Prediction]) -> list[dict[str, Any]]:
    """Predictions as plain values, without the texts, which the other side has."""
    return [asdict(replace(one, text="")) for one in predictions]


def _restored(documents: Sequence[Document], rows: Sequence[dict[str, Any]]) -> list[Prediction]:
    return [_prediction(document.text, row) for document, row in zip(documents, rows, strict=True)]


def _prediction(text: str, row: dict[str, Any]) -> Prediction:
    return Prediction(
        HALF.sub("\ufffd", text),
        tuple(Label(**one) for one in row["labels"]),
        tuple(map(Entity.of, row["entities"])),
        tuple(map(Relation.of, row["relations"])),
        row["id"],
        row["cut"],
        row["margin"],
    )


# a worker


def _answer(model: Model, line: bytes) -> dict[str, Any]:
    """The predictions on a block, as plain values."""
    documents = [
        Document(**{**row, "entities": tuple(map(Entity.of, row["entities"])), "relations": ()})
        for row in json.loads(line)
    ]
    return {"predictions": _rows(model.together(documents))}


def _loaded(spec: dict[str, Any]) -> Model:
    """The models that whoever started us has, and no others: signatures and checksums are looked at here, too."""
    folders = [folder for folder, _ in spec["models"]]
    model = load(*folders, **spec["options"]).using(spec["entities"])
    for part, (folder, digest) in zip(model.parts, spec["models"], strict=True):
        if part.digest != digest:
            raise ModelError(folder, "it was changed since it was first loaded", "start again")
    return model


def main() -> None:
    """Answer line by line; an error is given by its kind and place, for its text could quote a note."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever a library prints must not land among the answers
    spec = json.loads(requests.readline() or "null")
    if spec is None:  # whoever started us has ended
        return
    try:
        model = _loaded(spec)
    except Refusal as error:  # which quotes no text, for there was none yet
        with suppress(BrokenPipeError):
            replies.write(json.dumps({"refused": str(error)}).encode() + b"\n")
        return

    def say(words: str) -> None:
        with suppress(BrokenPipeError):
            replies.write(json.dumps({"doing": words}).encode() + b"\n")

    for line in iter(requests.readline, b""):
        try:
            with noticed(None, say):
                reply = _answer(model, line)
        except Exception as error:  # noqa: BLE001 -- whatever it is, its text stays here
            last = traceback.extract_tb(error.__traceback__)[-1]
            reply = {"failed": f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"}
        try:
            replies.write(json.dumps(reply).encode() + b"\n")
        except BrokenPipeError:  # nobody waits for it any more
            return


if __name__ == "__main__":
    main()

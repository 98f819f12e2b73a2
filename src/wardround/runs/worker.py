"""A worker process of the embedded engine: reads a study, then serves sites until its input ends.

python -m wardround.runs.worker        # started by wardround.engines.inline.Pool
"""

import os
import signal
import sys
from pathlib import Path
from typing import cast

import torch

from wardround.core.codec import decode
from wardround.core.exchange import Exchange, Fault
from wardround.core.record import Message
from wardround.engines.frames import read_frame, write_frame
from wardround.runs.build import build
from wardround.runs.loop import show_traceback
from wardround.study.load import cells


def main() -> None:
    """Serve until the coordinator closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the coordinator too, which then ends the pipe
    torch.set_num_threads(1)
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a method prints must not land among the frames
    first = read_frame(requests)
    if first is None:
        return
    spec = first[0]
    folder = Path(spec["folder"]) if spec["folder"] else None
    study = cells(spec["study"], folder=folder)[0].study
    host = build(study, Path(spec["out"])).host
    message: Message | None = None
    while (frame := read_frame(requests)) is not None:
        head, data = frame
        exchange = Exchange.of(head["exchange"])
        if not head["again"]:
            message = decode(host.step(exchange.step).message, data)
        reply = host.answer(head["site"], exchange, cast("Message", message))
        if isinstance(reply, Fault):
            if spec["traceback"] and host.error is not None:
                show_traceback(host.error)
            number = host.error.errno if isinstance(host.error, OSError) else None
            write_frame(replies, {"fault": [reply.code, reply.detail, number]})
        else:
            write_frame(replies, {}, reply.encode())


if __name__ == "__main__":
    main()

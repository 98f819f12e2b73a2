"""A worker of the embedded engine: a child that has the sites, and answers for them until its input ends."""

import os
import signal
import sys
import traceback
from typing import cast

import torch

from wardround.core.codec import decode
from wardround.core.exchange import Exchange, Fault
from wardround.core.record import Message
from wardround.engines.frames import read_frame, write_frame
from wardround.engines.host import Host


def answer_requests(host: Host, worker: int, workers: int, *, show_errors: bool) -> None:
    """Answer until the coordinator closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the coordinator too, which then ends the pipe
    torch.set_num_threads(1)
    host.device = host.device.claim(worker, workers)
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a method prints must not land among the frames
    message: Message | None = None
    while (frame := read_frame(requests)) is not None:
        head, data = frame
        exchange = Exchange.of(head["exchange"])
        if not head["again"]:
            message = decode(host.step(exchange.step).message, data)
        reply = host.answer(head["site"], exchange, cast("Message", message))
        if isinstance(reply, Fault):
            if show_errors and host.error is not None:
                traceback.print_exception(host.error)
            number = host.error.errno if isinstance(host.error, OSError) else None
            write_frame(replies, {"fault": [reply.code, reply.detail, number]})
        else:
            write_frame(replies, {}, reply.encode())

"""A worker process of `wardround predict`: loads the model, then answers blocks of texts until its input ends.

python -m wardround.trained.worker        # started by wardround.trained.pool
"""

import json
import os
import signal
import sys
import traceback
from pathlib import Path

import torch

from wardround.trained.model import load
from wardround.trained.pool import answer


def main() -> None:
    """Answer line by line; an error is given by its kind and place, for its text could quote a note."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches whoever started us, who ends the pipe
    torch.set_num_threads(1)
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not land among the answers
    spec = json.loads(requests.readline())
    model = load(*spec["models"], rename=spec["rename"]).using(spec["entities"])
    for line in iter(requests.readline, b""):
        try:
            reply = answer(model, line)
        except Exception as error:  # noqa: BLE001 -- whatever it is, its text stays here
            last = traceback.extract_tb(error.__traceback__)[-1]
            reply = {"failed": f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"}
        replies.write(json.dumps(reply).encode() + b"\n")
        replies.flush()


if __name__ == "__main__":
    main()

"""The command `wardround`, also as `python -m wardround`."""

import os
import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Import and run the command line."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:  # Ctrl-C while torch is imported would be a traceback, or half an import
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from wardround.cli.app import main as command  # noqa: PLC0415 -- it takes a second

    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command()


if __name__ == "__main__":
    if not sys.flags.safe_path and sys.path[:1] in ([""], [os.getcwd()]):  # noqa: PTH109 -- as Python put it there
        del sys.path[0]  # no file runs because it lies in the current folder
    main()

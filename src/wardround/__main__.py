"""The command `wardround`, also as `python -m wardround`."""

import os
import sys


def main() -> None:
    """Import and run the command line."""
    from wardround.cli.starting import starting  # noqa: PLC0415 -- the current folder is off the path by now

    with starting():
        from wardround.cli.app import main as command  # noqa: PLC0415
    command()


if __name__ == "__main__":
    if not sys.flags.safe_path and sys.path[:1] in ([""], [os.getcwd()]):  # noqa: PTH109 -- as Python put it there
        del sys.path[0]  # no file runs because it lies in the current folder
    main()

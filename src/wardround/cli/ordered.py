"""A study that a person submitted from another machine, carried out at the coordinator: no command of anybody's.

python -P -m wardround.cli.ordered CONSORTIUM PERSON NAME          # what the door for people starts

What it prints is what that person reads; what only the coordinator should read goes into a file beside it. The run of
somebody who is revoked meanwhile ends after its round.
"""

import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path

from wardround.cli.options import ending, errors
from wardround.cli.submit import carry_out
from wardround.consortium.orders import FAILED, Orders
from wardround.consortium.people import read_people
from wardround.consortium.submit import Consortium
from wardround.core.lock import sole
from wardround.runs.errors import RunError
from wardround.runs.stopping import ask_to_stop
from wardround.study.settings import StudyError
from wardround.watch.errands import Acts

LOOK_SECONDS = 1.0


def main() -> None:
    """Carry out one order, and note how it ended."""
    folder, person, name = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    orders = Orders(folder)
    # One that was started before the door was started again may still be at it: then its end is waited for.
    with sole(orders.run(person, name).with_name(f".{name}.lock"), seconds=-1):
        sys.exit(_carried_out(orders, person, name) if orders.open(person, name) else 0)


def _heed(orders: Orders, person: str, name: str) -> None:
    """Have the run end after its round once somebody wants that, or its author is revoked, and write this down."""
    revoked = False
    while orders.open(person, name):
        with suppress(RunError, OSError):  # being written by hand, say; or the run's folder is not there yet
            barred = read_people(orders.folder)[person].revoked
            if barred or orders.stopping(person, name):
                ask_to_stop(orders.run(person, name))
            if barred and not revoked:
                Acts(orders.folder).note(person, "", "stop", name, "revoked: it ends after its round")
                revoked = True
        time.sleep(LOOK_SECONDS)


def _carried_out(orders: Orders, person: str, name: str) -> int:
    folder, out, code = orders.folder, orders.run(person, name), 0
    threading.Thread(target=_heed, args=(orders, person, name), daemon=True).start()
    try:
        with ending():
            order = orders.read(person, name)
            study = orders.study(order)
            resume = (out / "study.toml").exists()
            over = Consortium(folder, deadline=order.deadline, trust_sizes=order.trust_sizes)
            again = "wardround submit STUDY.toml --to PERSON --resume"
            carry_out(
                study, Path(f"{name}.toml"), out, over, again,
                wait=order.wait, resume=resume, alone=order.alone, quiet=False,
            )  # fmt: skip
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except StudyError:
        code = 2
    except Exception as error:  # noqa: BLE001 -- its text is for the coordinator, who can mend it
        out.with_name(f"{name}{FAILED}").write_text(traceback.format_exc(), encoding="utf-8")
        errors.print(f"it failed: {type(error).__name__}; the coordinator has more in {name}{FAILED}")
        code = 1
    orders.done(person, name, code)
    return code


if __name__ == "__main__":
    main()

"""What holds for every test: one thread, as in a run; property tests that no busy machine fails; little waiting."""

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from browser import Browser, chromium
from wardround.engines import certificates
from wardround.runs import intervals

MEMORY = Path("/dev/shm")  # noqa: S108 -- pytest makes a folder of its own in it
ROOM = 8 << 30
if MEMORY.is_dir() and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC and shutil.disk_usage(MEMORY).free > ROOM:
    os.environ.setdefault("TMPDIR", str(MEMORY))  # a disk makes each of thousands of renamed files wait for it
    tempfile.tempdir = None  # what it was before

gc.disable()  # until all tests are imported: to look through what stays would be a third of that


def pytest_collection_finish() -> None:
    """Leave what is imported out of every later search for garbage."""
    gc.freeze()
    gc.enable()


settings.register_profile(
    "wardround",
    deadline=None,
    derandomize="CI" in os.environ,  # a gate gives one answer to one change; new examples are looked for elsewhere
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("wardround")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _short_keys() -> None:
    certificates.BITS = certificates.SMALLEST  # a longer one takes four times as long to make


@pytest.fixture(autouse=True, scope="session")
def _few_draws() -> None:
    intervals.DRAWS = intervals.FEWER = 20  # a thousand at the end of each run would be a third of it


@pytest.fixture(autouse=True, scope="session")
def _quick_disk() -> None:
    os.fsync = lambda fd: None  # noqa: ARG005 -- only a power cut could tell
    os.sync = lambda: None


@pytest.fixture(autouse=True, scope="session")
def _signals() -> None:
    """Heed what nohup or a shell's `&` has the tests ignore, which all that they start would inherit."""
    for number, handler in (
        (signal.SIGHUP, signal.SIG_DFL),
        (signal.SIGQUIT, signal.SIG_DFL),
        (signal.SIGINT, signal.default_int_handler),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture(scope="session")
def _started_browser() -> Iterator[Browser]:
    with Browser(chromium()) as one:
        yield one


@pytest.fixture
def browser(_started_browser: Browser) -> Iterator[Browser]:
    """A browser that leaves the page after a test: whose server is gone, it would be looked for again and again."""
    yield _started_browser
    _started_browser.open("about:blank")

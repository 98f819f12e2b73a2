"""A headless Chromium for tests, spoken to over two pipes (the DevTools protocol, no network and no package).

with Browser(chromium()) as browser:
    seen = browser.open(page, dark=True, width=390)
    assert seen.complaints == []
"""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

__all__ = ["Browser", "Seen", "chromium"]

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 60.0  # seconds; the machine may be busy
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--no-default-browser-check", "--hide-scrollbars", "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
)  # fmt: skip


def chromium() -> Path:
    """The browser; installed if we may, else the test is skipped and says why."""
    if found := _found():
        return found
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        pytest.skip("no Chromium on the path; install it (Debian: apt-get install chromium)")
    with (Path(tempfile.gettempdir()) / "installing-chromium").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side, and only one may install
        return _found() or _installed()


def _installed() -> Path:
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", "chromium"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=quiet)
        if done.returncode:
            pytest.skip(f"no Chromium, and `{' '.join(command)}` failed: {done.stderr.strip()[-200:]}")
    return _found() or pytest.skip("no Chromium on the path, even after installing it")


def _found() -> Path | None:
    return next((Path(path) for name in NAMES if (path := shutil.which(name))), None)


@dataclass(frozen=True)
class Seen:
    """What happened while a page was open."""

    requests: tuple[str, ...]
    """Every address the page asked for, its own included."""
    complaints: tuple[str, ...]
    """Errors and warnings on its console, exceptions, and what its policy blocked."""


class Browser:
    """One Chromium with one tab and a profile of its own."""

    def __init__(self, binary: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="browser-"))
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        # Far from 3 and 4, where Chromium looks for them, so that neither is overwritten on the way there.
        low_in, low_out = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20) for fd in (theirs_in, theirs_out))
        log = str(self.folder / "log")
        self.process = os.posix_spawn(
            binary,
            [str(binary), *OPTIONS, f"--user-data-dir={self.folder / 'profile'}", "about:blank"],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                (os.POSIX_SPAWN_DUP2, low_in, 3),
                (os.POSIX_SPAWN_DUP2, low_out, 4),
            ],
            setsid=True,
        )
        for fd in (theirs_in, theirs_out, low_in, low_out):
            os.close(fd)
        self.reads, self.writes = ours_in, ours_out
        self.rest = b""
        self.number = 0
        self.events: list[dict[str, Any]] = []
        self.session = ""

    def __enter__(self) -> Self:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.writes)
        os.close(self.reads)
        os.killpg(self.process, signal.SIGKILL)  # its own session: it and its children, nobody else
        os.waitpid(self.process, 0)
        shutil.rmtree(self.folder, ignore_errors=True)

    def open(self, page: Path | str, *, dark: bool = False, width: int = 1280, height: int = 900) -> Seen:
        """Load a file or an address in a window of this size and colour scheme, and tell what happened."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.events.clear()
        self.call("Page.navigate", url=page if isinstance(page, str) else page.resolve().as_uri())
        self.until("Page.loadEventFired")
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return self.seen()

    def seen(self) -> Seen:
        """What happened since the page was opened."""
        requests = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return Seen(tuple(requests), tuple(told for event in self.events if (told := _complaint(event))))

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        told = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        return told["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until a JavaScript expression holds in the page, or fail."""
        end = time.monotonic() + PATIENCE
        while not self.evaluate(f"Boolean({condition})"):
            if time.monotonic() > end:
                raise AssertionError(f"that did not come about: {condition}")
            time.sleep(0.02)

    def type(self, text: str) -> None:
        """Put text in at the cursor, as a keyboard would."""
        self.call("Input.insertText", text=text)

    def paste(self, text: str, selector: str) -> None:
        """Put text into the first element of a CSS selector, by way of the clipboard."""
        self.evaluate(f"""(() => {{ const held = new DataTransfer(); held.setData("text/plain", {json.dumps(text)});
            const made = {{clipboardData: held, bubbles: true, cancelable: true}};
            document.querySelector({json.dumps(selector)}).dispatchEvent(new ClipboardEvent("paste", made)); }})()""")

    def press(self, key: str, *, control: bool = False) -> None:
        """Press a key and let it go."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, modifiers=2 if control else 0)

    def point(self, selector: str, *, click: bool = False) -> None:
        """Move the mouse onto the first element of a CSS selector, and press it if asked to."""
        script = f"""(() => {{ const found = document.querySelector({json.dumps(selector)});
            found.scrollIntoView({{block: "center", behavior: "instant"}});
            const box = found.getClientRects()[0]; return [box.x + box.width / 2, box.y + box.height / 2]; }})()"""
        x, y = self.evaluate(script)
        for kind in ("mouseMoved", *(("mousePressed", "mouseReleased") if click else ())):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self, out: Path) -> None:
        """The whole page as a PNG."""
        told = self.call("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        out.write_bytes(base64.b64decode(told["data"]))

    def print(self, out: Path) -> None:
        """The page on paper, as a PDF."""
        told = self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)
        out.write_bytes(base64.b64decode(told["data"]))

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the protocol and its answer."""
        self.number += 1
        command = {"id": self.number, "method": method, "params": params}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.writes, json.dumps(command).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def until(self, event: str, **params: Any) -> None:
        """Wait for an event with these parameters since the page was opened."""
        while not any(e["method"] == event and params.items() <= e["params"].items() for e in self.events):
            self._next()

    def _next(self) -> dict[str, Any]:
        """The next message; events are kept on the way."""
        end = time.monotonic() + PATIENCE
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.reads], [], [], max(0.0, end - time.monotonic()))
            data = os.read(self.reads, 1 << 20) if ready else b""
            if not data:
                raise RuntimeError(f"Chromium went silent: {(self.folder / 'log').read_text(errors='replace')[-500:]}")
            self.rest += data
        raw, _, self.rest = self.rest.partition(b"\0")
        content: dict[str, Any] = json.loads(raw)
        if "method" in content:
            self.events.append(content)
        return content


def _complaint(event: dict[str, Any]) -> str:
    params = event["params"]
    if event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
        return str(params["entry"]["text"])
    if event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
        return str([one.get("value") for one in params["args"]])
    if event["method"] == "Runtime.exceptionThrown":
        return str(params["exceptionDetails"])
    return ""

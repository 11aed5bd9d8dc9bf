"""Drives headless Chromium over its own pipe: pages at any width, light and dark, scripts in them, and pictures.

Nothing but the browser is needed: the DevTools protocol goes through two file descriptors, one JSON message each.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from types import TracebackType
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_QUIET = (
    "headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-quic", "disable-background-networking",
    "disable-component-update", "disable-sync", "hide-scrollbars", "force-color-profile=srgb",
)  # fmt: skip
# The browser reads commands from descriptor 3 and answers on 4, which may be in use here.
_START = """
import fcntl, os, sys
ours = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3]]
for fd, wanted in zip(ours, (3, 4)):
    os.dup2(fd, wanted)
os.execv(sys.argv[3], sys.argv[3:])
"""
_SECONDS = 60


def find() -> str | None:
    """Return the browser: the one that CHROMIUM names, else one on the PATH; None for none."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)


class Chromium:
    """A browser with one page; a context that ends it."""

    def __init__(self, browser: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        options = [*(f"--{option}" for option in _QUIET), f"--user-data-dir={self._folder.name}"]
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                _START,
                str(theirs_in),
                str(theirs_out),
                browser,
                "--remote-debugging-pipe",
                *options,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs_in, theirs_out),
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest, self._number, self._session = b"", 0, ""
        self._events: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(_SECONDS)
        os.close(self._to)
        os.close(self._from)
        self._folder.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the DevTools protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            self._events.append(str(answer.get("method")))
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, url: str, width: int, height: int, *, dark: bool = False, scale: float = 1) -> float:
        """Open a page as on a screen of this size, a phone's below 500, and return the seconds until it was loaded."""
        phone = width < 500
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._events.clear()
        started = time.monotonic()
        self.call("Page.navigate", url=url)
        while "Page.loadEventFired" not in self._events:
            self._events.append(str(self._read().get("method")))
        self.run("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        return time.monotonic() - started

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page; a promise is waited for."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise RuntimeError(done["exceptionDetails"]["exception"].get("description", "an error in the page"))
        return done["result"].get("value")

    def picture(self) -> bytes:
        """Return what is on the screen as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._from, 1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        read: dict[str, Any] = json.loads(message)
        return read

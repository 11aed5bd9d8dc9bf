"""Long output on a terminal goes through the user's pager, as git's does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress

from verl_legacy_patch.commands.output import emit


def page(parts: Iterable[bytes]) -> None:
    """Write bytes to the pager that GIT_PAGER or PAGER names (``less`` by default); to stdout without one."""
    command = os.environ.get("GIT_PAGER") or os.environ.get("PAGER") or "less"
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb" or command == "cat":
        emit(parts)
        return
    # F: no paging for one screen. R: colours. X: what was read stays on the screen.
    environment = {"LESS": "FRX", "LV": "-c", **os.environ}
    try:
        process = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, env=environment)
    except OSError:
        emit(parts)
        return
    assert process.stdin is not None
    try:
        with suppress(BrokenPipeError):  # the reader has seen enough
            for part in parts:
                process.stdin.write(part)
    finally:
        with suppress(BrokenPipeError):
            process.stdin.close()
        while True:
            try:
                process.wait()
                break
            except KeyboardInterrupt:  # Ctrl-C is the pager's own affair
                continue

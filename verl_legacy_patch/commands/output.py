"""Where words and data go: data to stdout, byte for byte, words to stderr, colours where they are wanted."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import IO, Any

import click

_RESET = b"\x1b[0m"
_STYLES = {b"+": b"\x1b[32m", b"-": b"\x1b[31m", b"@": b"\x1b[36m"}
_BOLD = b"\x1b[1m"


def say(lines: Iterable[str]) -> None:
    """Write lines to stderr. When nobody reads them, the work goes on."""
    with suppress(OSError):  # the reader has gone, or the disk of a log file is full
        for line in lines:
            click.echo(line, err=True)


def emit(parts: Iterable[bytes]) -> None:
    """Write bytes to stdout as they are, whatever encoding the terminal has."""
    stream: Any = getattr(sys.stdout, "buffer", None)
    try:
        sys.stdout.flush()
        for part in parts:
            if stream is None:  # something that stands in for stdout and takes text only
                sys.stdout.write(part.decode("utf-8", "replace"))
            else:
                stream.write(part)
        sys.stdout.flush()
    except OSError as error:
        error.filename = error.filename or "standard output"
        raise


def emit_json(data: object) -> None:
    """Write one line of JSON to stdout: in ASCII, so that no locale and no undecodable path can spoil it."""
    import json

    emit([json.dumps(data, separators=(",", ":")).encode("ascii"), b"\n"])


def wants_colour(stream: IO[str] | None = None) -> bool | None:
    """Return whether the user wants colours: as the environment says, else (with ``stream``) on a terminal.

    ``NO_COLOR`` and ``FORCE_COLOR`` are conventions that many tools share. None means that nothing is said.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    if stream is None:
        return None
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def coloured(patch: Iterable[bytes]) -> Iterable[bytes]:
    """Yield the patch of each file with the colours of ``git diff``; without them it is the same again."""
    for part in patch:
        head, at, body = part.partition(b"\n@@ ")
        # a reason may stand before the first hunk: it is no header
        lines = [(line if line[:1] == b"#" else _BOLD + line + _RESET) + b"\n" for line in head.split(b"\n") if line]
        for line in (at[1:] + body).split(b"\n")[:-1] if at else ():
            style = _STYLES.get(line[:1])
            lines.append(style + line + _RESET + b"\n" if style else line + b"\n")
        yield b"".join(lines)

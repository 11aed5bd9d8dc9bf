"""Where words and data go: data to stdout, byte for byte, words to stderr, colours where they are wanted."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import IO, Any

import click

from verl_legacy_patch.patterns import lazy

_RESET = b"\x1b[0m"
_STYLES = {b"+": b"\x1b[32m", b"-": b"\x1b[31m", b"@": b"\x1b[36m", b"#": b"\x1b[35m"}
_BOLD = b"\x1b[1m"
_PART_OF_A_WORD = lazy(rb"[A-Za-z0-9_\x80-\xff]")


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


def drop_output() -> None:
    """Let what is still in the buffer of stdout go nowhere, so that nothing fails when Python ends."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


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
    """Yield the patch of each file with the colours of ``git diff``, and in bold what changes inside a line.

    Without the colours it is the same again.
    """
    for part in patch:
        head, at, body = part.partition(b"\n@@ ")
        # a reason may stand before the first hunk: it is no header
        lines = [_styled(line) if line[:1] == b"#" else _BOLD + line + _RESET for line in head.split(b"\n") if line]
        lines += _hunks((at[1:] + body).split(b"\n")[:-1]) if at else ()
        yield b"".join(line + b"\n" for line in lines)


def _styled(line: bytes, start: int = 0, end: int = 0) -> bytes:
    """Return a line in the colour of its kind, with a part of it in bold."""
    style = _STYLES.get(line[:1])
    if style is None:
        return line
    if end <= start:
        return style + line + _RESET
    bold = style + _BOLD + line[start:end] + _RESET
    return style + line[:start] + _RESET + bold + (style + line[end:] + _RESET if line[end:] else b"")


def _hunks(lines: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the lines of hunks with their colours; removed lines are compared with the added ones behind them."""
    at = 0
    while at < len(lines):
        old = list(takewhile(lambda line: line[:1] == b"-", lines[at:]))
        new = list(takewhile(lambda line: line[:1] == b"+", lines[at + len(old) :]))
        if old and len(old) == len(new):
            spans = [_changed(*pair) for pair in zip(old, new, strict=True)]
            yield from (_styled(line, *span[0]) for line, span in zip(old, spans, strict=True))
            yield from (_styled(line, *span[1]) for line, span in zip(new, spans, strict=True))
        else:
            yield from map(_styled, [*old, *new] or lines[at : at + 1])
        at += max(len(old) + len(new), 1)


def _changed(old: bytes, new: bytes) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return which words two lines differ in, for each of them; nothing when they have hardly anything in common."""
    most = min(len(old), len(new))
    head = next((at for at in range(1, most) if old[at] != new[at]), most)
    tail = next((at for at in range(most - head) if old[-1 - at] != new[-1 - at]), most - head)
    while head > 1 and _inside_a_word(old, head, new, head):
        head -= 1
    while tail and _inside_a_word(old, len(old) - tail, new, len(new) - tail):
        tail -= 1
    if 2 * (head + tail) < most:
        return (0, 0), (0, 0)
    return (head, len(old) - tail), (head, len(new) - tail)


def _inside_a_word(old: bytes, at: int, new: bytes, place: int) -> bool:
    """Return whether one of two lines has a word around a place, which would be cut in two there."""
    return any(
        _PART_OF_A_WORD.match(line[i - 1 : i]) and _PART_OF_A_WORD.match(line, i)
        for line, i in ((old, at), (new, place))
    )

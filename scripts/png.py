"""Makes pictures of pages small: PNG with a palette instead of true colours, which a page has few of."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator

_HEAD = b"\x89PNG\r\n\x1a\n"
_COLOURS = 128


def small(png: bytes) -> bytes:
    """Return the picture (8 bits, RGB or RGBA, as browsers make them) with at most 128 colours, the nearest ones."""
    chunks: dict[bytes, bytes] = {}
    for name, data in _chunks(png):
        chunks[name] = chunks.get(name, b"") + data
    width, height, depth, kind = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    if depth != 8 or kind not in (2, 6):
        raise ValueError("not a picture of 8 bits per colour")
    size = 3 if kind == 2 else 4
    rows = [[row[at : at + 3] for at in range(0, len(row), size)] for row in _rows(chunks[b"IDAT"], width * size, size)]
    counts = Counter(pixel for row in rows for pixel in row)
    palette = _palette(counts)
    number = {pixel: _nearest(pixel, palette) for pixel in counts}
    body = b"".join(b"\0" + bytes(number[pixel] for pixel in row) for row in rows)
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", head), (b"PLTE", b"".join(palette)), (b"IDAT", zlib.compress(body, 9)), (b"IEND", b""))
    return _HEAD + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_HEAD)
    while at < len(png):
        length = struct.unpack(">I", png[at : at + 4])[0]
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += length + 12


def _rows(data: bytes, length: int, size: int) -> Iterator[bytes]:
    """Yield the lines of a picture, with the filters of PNG taken back."""
    raw = zlib.decompress(data)
    above = bytearray(length)
    for start in range(0, len(raw), length + 1):
        kind, row = raw[start], bytearray(raw[start + 1 : start + 1 + length])
        for at in range(length):
            left = row[at - size] if at >= size else 0
            corner = above[at - size] if at >= size else 0
            if kind == 1:
                row[at] = (row[at] + left) & 255
            elif kind == 2:
                row[at] = (row[at] + above[at]) & 255
            elif kind == 3:
                row[at] = (row[at] + (left + above[at]) // 2) & 255
            elif kind == 4:
                row[at] = (row[at] + _paeth(left, above[at], corner)) & 255
        yield bytes(row)
        above = row


def _paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    return min((left, above, corner), key=lambda value: abs(guess - value))


def _palette(counts: Counter[bytes]) -> list[bytes]:
    """Return the colours to keep: the most frequent ones that are not next to one that is kept already."""
    kept: list[bytes] = []
    for apart in (16, 0):
        for pixel, _ in counts.most_common():
            if len(kept) < _COLOURS and pixel not in kept and all(_distance(pixel, one) >= apart**2 for one in kept):
                kept.append(pixel)
    return kept


def _nearest(pixel: bytes, palette: list[bytes]) -> int:
    return min(range(len(palette)), key=lambda number: _distance(pixel, palette[number]))


def _distance(one: bytes, other: bytes) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))

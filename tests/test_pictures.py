"""The pictures of the review page: when they are out of date, and how they are made small."""

from __future__ import annotations

import struct
import zlib

import pytest

from scripts import review_page
from scripts.png import small


@pytest.fixture(scope="module")
def page() -> str:
    return review_page.page()


def test_what_a_reader_sees_counts(page: str) -> None:
    sealed = review_page.seal(page)
    assert sealed == review_page.seal(page)
    for old, new in (("float32", "float64"), ("What changes", "What is changed"), ("fsdp_workers.py", "workers.py")):
        assert review_page.seal(page.replace(old, new)) != sealed


def test_what_nobody_sees_does_not(page: str) -> None:
    sealed = review_page.seal(page)
    assert review_page.seal(page.replace(f"verl-patch {review_page_version()}", "verl-patch 99.0")) != sealed
    without_markup = page.replace('<span class="tk">', "<span>")
    assert review_page.seal(without_markup) == sealed
    head, mark, rest = page.partition('<div class="doc">')
    assert review_page.seal(f"{head}{mark}another explanation {rest}") == sealed


def review_page_version() -> str:
    from verl_legacy_patch import __version__

    return __version__


def test_the_style_and_the_script_count(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sealed = review_page.seal(page)
    for name in review_page.MADE_WITH:
        monkeypatch.setattr(review_page, "MADE_WITH", tuple(one for one in review_page.MADE_WITH if one != name))
        assert review_page.seal(page) != sealed
        monkeypatch.undo()


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, rows: list[tuple[int, bytes]], kind: int) -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, len(rows), 8, kind, 0, 0, 0))
    body = zlib.compress(b"".join(bytes([number]) + row for number, row in rows))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def pixels(picture: bytes) -> list[list[bytes]]:
    """Read a picture with a palette, without filters, as ``small`` makes them."""
    chunks, at = {}, 8
    while at < len(picture):
        length = struct.unpack(">I", picture[at : at + 4])[0]
        name, data = picture[at + 4 : at + 8], picture[at + 8 : at + 8 + length]
        assert struct.unpack(">I", picture[at + 8 + length : at + 12 + length])[0] == zlib.crc32(name + data)
        chunks[name] = data
        at += length + 12
    width = struct.unpack(">I", chunks[b"IHDR"][:4])[0]
    raw, palette = zlib.decompress(chunks[b"IDAT"]), chunks[b"PLTE"]
    lines = [raw[start + 1 : start + 1 + width] for start in range(0, len(raw), width + 1)]
    return [[palette[number * 3 : number * 3 + 3] for number in line] for line in lines]


@pytest.mark.parametrize("kind", [2, 6])
def test_few_colours_stay_as_they_are_whatever_the_filter(kind: int) -> None:
    """One picture, each of its lines with another filter of the PNG standard: none, left, above, mean, Paeth."""
    size = 3 if kind == 2 else 4
    wanted = [[bytes((40 * x, 20 * y, 200)) for x in range(4)] for y in range(5)]
    plain = [b"".join(pixel + b"\xff" * (size - 3) for pixel in row) for row in wanted]
    rows: list[tuple[int, bytes]] = []
    for number, row in enumerate(plain):
        above = plain[number - 1] if number else bytes(len(row))
        line = bytearray()
        for at, value in enumerate(row):
            left = row[at - size] if at >= size else 0
            corner = above[at - size] if at >= size else 0
            guess = left + above[at] - corner
            paeth = min((left, above[at], corner), key=lambda one, guess=guess: abs(guess - one))  # type: ignore[misc]
            line.append((value - (0, left, above[at], (left + above[at]) // 2, paeth)[number]) & 255)
        rows.append((number, bytes(line)))
    assert pixels(small(png(4, rows, kind))) == wanted


def test_many_colours_become_near_ones() -> None:
    row = b"".join(bytes((x, 255 - x, x // 2)) for x in range(256))
    made = pixels(small(png(256, [(0, row)], 2)))[0]
    assert len(set(made)) <= 128
    for x, pixel in enumerate(made):
        assert sum((a - b) ** 2 for a, b in zip(pixel, bytes((x, 255 - x, x // 2)), strict=True)) < 400


def test_another_kind_of_picture_is_refused() -> None:
    with pytest.raises(ValueError, match="8 bits"):
        small(png(1, [(0, b"\0")], 0))

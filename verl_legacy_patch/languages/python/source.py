"""A Python file as text, and the way from places in the text to the bytes on disk."""

from __future__ import annotations

import codecs
import tokenize
from bisect import bisect_right
from functools import lru_cache
from io import BytesIO
from itertools import accumulate

from verl_legacy_patch.languages import SourceError
from verl_legacy_patch.setting import Span


class Source:
    """A Python file as text, with byte offsets that lead back to the bytes on disk."""

    def __init__(self, raw: bytes) -> None:
        """Decode ``raw`` by its BOM or coding cookie.

        Raises:
            SourceError: the bytes are not in the encoding that the file declares.
        """
        self.raw = raw
        self._bom = len(codecs.BOM_UTF8) if raw.startswith(codecs.BOM_UTF8) else 0
        self.encoding = "utf-8"
        if not self._bom and b"coding" in raw[:400]:
            try:
                self.encoding = tokenize.detect_encoding(BytesIO(raw).readline)[0].removesuffix("-sig")
            except SyntaxError as error:
                raise SourceError(str(error)) from None
        try:
            self.text = raw[self._bom :].decode(self.encoding)
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start + self._bom) + 1
            raise SourceError(f"byte {error.object[error.start]:#04x} is not {self.encoding}", line) from None
        except (LookupError, UnicodeError):
            raise SourceError(f"{self.encoding} is no encoding of text") from None
        if self.encoding != "utf-8" and not _letter_by_letter(self.text, self.encoding, raw):
            raise SourceError(f"{self.encoding} does not write each character by itself: places cannot be told")
        self.utf8 = raw[self._bom :] if self.encoding == "utf-8" else self.text.encode()
        self._starts = list(accumulate(map(len, self.utf8.splitlines(keepends=True)), initial=0))

    def raw_span(self, span: Span) -> Span:
        """Turn a span of ``utf8`` into one of the bytes on disk."""
        if self.encoding == "utf-8":
            return Span(span.start + self._bom, span.end + self._bom)
        start = len(self.utf8[: span.start].decode().encode(self.encoding))
        return Span(start, start + len(self.utf8[span.start : span.end].decode().encode(self.encoding)))

    def utf8_span(self, span: Span) -> Span:
        """Turn a span of the bytes on disk into one of ``utf8``."""
        if self.encoding == "utf-8":
            return Span(max(0, span.start - self._bom), max(0, span.end - self._bom))
        # a match of a trigger may begin inside of a character: the second byte of some is a letter in ASCII
        start = len(self.raw[: span.start].decode(self.encoding, "ignore").encode())
        return Span(start, start + len(self.raw[span.start : span.end].decode(self.encoding, "ignore").encode()))

    def offset(self, line: int, column: int) -> int:
        """Return the offset in ``utf8`` of ``ast``'s line (from 1) and column (bytes, from 0)."""
        return self._starts[line - 1] + column

    def line_of(self, offset: int) -> int:
        """Return the line (from 1) that holds an offset of ``utf8``."""
        return bisect_right(self._starts, offset)

    def line_start(self, offset: int) -> int:
        """Return the offset of the first byte of the line that holds ``offset``."""
        return self._starts[self.line_of(offset) - 1]


def _letter_by_letter(text: str, encoding: str, raw: bytes) -> bool:
    """Return whether an encoding writes each character the same wherever it stands."""
    try:
        alone = {character: character.encode(encoding) for character in set(text)}
        raw[:1].decode(encoding, "ignore")  # an encoding of host names can only be strict
    except UnicodeError:
        return False
    return b"".join(map(alone.__getitem__, text)) == raw


@lru_cache(maxsize=4)  # a rewrite and its checks read the same two files
def read(raw: bytes) -> Source:
    """Return the source of a file. See ``Source`` for the errors."""
    return Source(raw)

"""Reads YAML as a stream of libyaml events, and knows which bytes of the file an event stands for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

from verl_legacy_patch.languages import SourceError
from verl_legacy_patch.patterns import lazy
from verl_legacy_patch.setting import Span

#: Half of a character outside the BMP: legal in JSON, an error for libyaml. It never is part of a setting.
_SURROGATE = lazy(rb"(?<!\\)((?:\\\\)*)\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


class Reader:
    """The events of one file, and the bytes they stand at.

    Marks count characters (from behind a byte order mark); spans count bytes.
    """

    def __init__(self, source: bytes) -> None:
        if source[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise SourceError("UTF-16 is not supported, save the file as UTF-8", 1)
        self.source = source
        self._bom = 3 if source.startswith(b"\xef\xbb\xbf") else 0
        body = source[self._bom :]
        try:
            self.text = body.decode()
        except UnicodeDecodeError as error:
            raise SourceError("not UTF-8", body.count(b"\n", 0, error.start) + 1) from None
        self._ascii = len(self.text) == len(body)
        self._body = body
        self._char = self._byte = 0

    def events(self) -> Iterator[Any]:
        """Yield the events, from libyaml where PyYAML has it.

        Raises:
            SourceError: the file is not YAML.
        """
        from verl_legacy_patch.languages.yaml.lean import yaml

        try:
            loader = self._loader()
            next_event, last = loader.get_event, yaml.StreamEndEvent
            event = next_event()
            while type(event) is not last:
                yield event
                event = next_event()
        except yaml.YAMLError as error:
            raise self._error(error) from None

    def _loader(self) -> Any:
        from verl_legacy_patch.languages.yaml.lean import yaml

        body = self._body
        is_json = body.lstrip()[:1] in (b"{", b"[")
        if is_json and b"\\u" in body:
            body = _SURROGATE.sub(rb"\1\\u0041", body)
        try:
            from yaml.cyaml import CParser  # type: ignore[attr-defined]
        except ImportError:
            # PyYAML's own scanner refuses the tabs that JSON may have between its tokens
            return yaml.SafeLoader((body.replace(b"\t", b" ") if is_json else body).decode())
        return CParser(body)

    def _error(self, error: Any) -> SourceError:
        mark = getattr(error, "problem_mark", None)
        if mark is not None:
            return SourceError(f"not YAML: {error.problem}", mark.line + 1)
        at = getattr(error, "position", None)
        line = self.text.count("\n", 0, at) + 1 if isinstance(at, int) else 0
        return SourceError(f"not YAML: {getattr(error, 'reason', error)}", line)

    def inside(self, event: Any) -> tuple[int, int] | None:
        """Return where the value stands (characters, inside the quotes); None when it cannot be verified."""
        # counted from the end, because an event starts at its anchor or tag
        value, style, end = event.value, event.style, event.end_mark.index
        if style == "'":
            value = value.replace("'", "''")
        elif style and style != '"':
            return None
        if style:
            end -= 1
            start = end - len(value)
            if self.text[end : end + 1] != style or self.text[start - 1 : start] != style:
                return None
        else:
            start = end - len(value)
        if start < event.start_mark.index or self.text[start:end] != value:
            return None
        return start, end

    def span(self, start: int, end: int) -> Span:
        """Return the bytes of the characters ``start`` to ``end``."""
        return Span(self._offset(start), self._offset(end))

    def _offset(self, char: int) -> int:
        if self._ascii:
            return char + self._bom
        if char < self._char:
            self._char = self._byte = 0
        # onward from the last position, so that ascending look-ups read the text once
        self._byte += len(self.text[self._char : char].encode())
        self._char = char
        return self._byte + self._bom

    def characters(self, spans: Iterable[Span]) -> list[tuple[int, int]]:
        """Return byte spans as positions of characters."""
        if self._ascii:
            return [(span.start - self._bom, span.end - self._bom) for span in spans]
        at = {0: 0}
        byte = char = 0
        for offset in sorted({max(o - self._bom, 0) for span in spans for o in span}):
            char += len(self._body[byte:offset].decode("utf-8", "ignore"))
            byte = offset
            at[offset] = char
        return [(at[max(s.start - self._bom, 0)], at[max(s.end - self._bom, 0)]) for s in spans]


class Hits:
    """Answers whether a range of characters overlaps a trigger match."""

    def __init__(self, spans: list[tuple[int, int]]) -> None:
        spans.sort()
        self._starts = [start for start, _ in spans]
        self._reach = list(accumulate((end for _, end in spans), max))

    def overlap(self, start: int, end: int) -> bool:
        """Return whether any match shares a character with ``start`` to ``end``."""
        before = bisect_left(self._starts, end)
        return before > 0 and self._reach[before - 1] > start

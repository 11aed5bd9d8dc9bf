"""Requirement files and TOML: each requirement that overlaps a trigger, as a setting that a codemod can report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from verl_legacy_patch.patterns import lazy
from verl_legacy_patch.setting import Setting, Span

_QUOTED = lazy(rb"\"([^\"\n]*)\"|'([^'\n]*)'")


def settings(source: bytes, hits: Sequence[Span]) -> Iterator[Setting]:
    """Yield the requirement on each line that a hit touches: the quoted text around the hit, else the line."""
    for hit in hits:
        start = source.rfind(b"\n", 0, hit.start) + 1
        end = source.find(b"\n", hit.start)
        line = source[start : end if end >= 0 else len(source)]
        comment = line.find(b"#")
        if 0 <= comment < hit.start - start:
            continue
        quoted = next(
            (m for m in _QUOTED.finditer(line) if m.start() <= hit.end - start and m.end() >= hit.start - start), None
        )
        if quoted is not None:
            inner = quoted.span(1) if quoted[1] is not None else quoted.span(2)
        else:
            text = line[: comment if comment >= 0 else None].rstrip()
            inner = (len(text) - len(text.lstrip()), len(text))
        span = Span(start + inner[0], start + inner[1])
        yield Setting(("requirement",), source[span.start : span.end].decode("utf-8", "replace"), span, "requirement")

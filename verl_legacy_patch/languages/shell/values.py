"""From shell words to settings: overrides, whole values, defaults of expansions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from verl_legacy_patch.languages import hydra
from verl_legacy_patch.languages.shell.words import EXPANSIONS, UNKNOWN, Cooked, cook, source_text
from verl_legacy_patch.setting import Setting

if TYPE_CHECKING:
    from tree_sitter import Node

SEVERAL = "one of several values"

_PLACES = {
    "value": "Hydra override",
    "item": "Hydra list item",
    "default": "Hydra interpolation default",
}
_DEFAULTS = frozenset({":-", "-", ":=", "=", ":+", "+"})


def _unicode(text: str) -> str:
    return text if text.isascii() else text.encode("latin-1", "replace").decode("utf-8", "replace")


class Values:
    """Reads what words hold. ``seen`` are the spans of nodes that are done."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.seen: set[tuple[int, int]] = set()

    def text_of(self, node: Node) -> str:
        """Return the text of a node as it is written."""
        return source_text(node, self.source).decode("utf-8", "replace")

    def overrides(self, cooked: Cooked, word: bool, names: str = "") -> Iterator[Setting]:
        """Yield the overrides that a word holds, then the defaults of expansions outside of them."""
        used: list[tuple[int, int]] = []
        for leaf in hydra.overrides(cooked.text, word):
            used.append((leaf.start, leaf.end))
            place = _PLACES[leaf.position]
            if cooked.text.startswith("-") and leaf.position == "value":
                place = "command-line flag"
            several = leaf.position == "item" and not names
            yield from self.leaf(cooked, leaf, place, SEVERAL if several else names, several)
        if cooked.expansions and (used or names):
            for at, node in cooked.expansions:
                if not any(start <= at < end for start, end in used):
                    yield from self.default(cooked, node, (), names)

    def whole(
        self, cooked: Cooked, path: tuple[str, ...], position: str, names: str = "", advice: bool = False
    ) -> Iterator[Setting]:
        """Yield the settings of a word that is one value under ``path``."""
        text = cooked.text
        if text[:1] in ("{", "["):
            for leaf in hydra.leaves(text, path):
                yield from self.leaf(cooked, leaf, position, names, advice)
        elif text:
            yield from self.leaf(cooked, hydra.Override(path, text, 0, len(text)), position, names, advice)

    def leaf(
        self, cooked: Cooked, leaf: hydra.Override, position: str, names: str = "", advice: bool = False
    ) -> Iterator[Setting]:
        """Yield the setting of one value in a word, or those of the expansions it is made of."""
        if leaf.start >= leaf.end:
            return
        if UNKNOWN in leaf.value:
            expansion = cooked.expansion_at(leaf.start, leaf.end)
            if expansion is not None:
                yield from self.default(cooked, expansion, leaf.path, names, advice)
                return
            for at, node in cooked.expansions:
                if leaf.start <= at < leaf.end:
                    reason = names or "part of a longer value"
                    yield from self.default(cooked, node, leaf.path, reason, advice)
            return
        span = cooked.span(leaf.start, leaf.end)
        if span is None:
            span = cooked.around(leaf.start, leaf.end)
            names, advice = names or "written in several pieces", True
        yield Setting(tuple(map(_unicode, leaf.path)), _unicode(leaf.value), span, position, names, advice)

    def default(
        self, cooked: Cooked, node: Node, path: tuple[str, ...], names: str = "", advice: bool = False
    ) -> Iterator[Setting]:
        """Yield the default of ``${NAME:-default}`` under ``path``, or under NAME without one."""
        if node.type != "expansion":
            return
        children = node.children
        at = next((i for i, child in enumerate(children) if child.type in _DEFAULTS), 0)
        if not at or node.has_error:
            return
        operator = children[at].type
        start, end = children[at].end_byte, node.end_byte - 1
        if operator in ("=", ":=") or not path:
            path = (self.text_of(children[at - 1]),)
        if operator in ("=", ":="):
            names, advice = "", False
        inner = Cooked(self.source)
        values = [child for child in children[at + 1 :] if child.type != "}"]
        if len(values) == 1 and (values[0].start_byte, values[0].end_byte) == (start, end):
            inner = cook(values[0], self.source)
        else:
            for child in values:
                if child.type in EXPANSIONS:
                    inner.add(start, child.start_byte)
                    inner.add_expansion(child)
                    start = child.end_byte
            inner.add(start, end)
        self.seen.add((node.start_byte, node.end_byte))
        held = list(self.overrides(inner, True, names)) if "=" in inner.text else []
        place = "shell default" if operator not in ("+", ":+") else "shell alternative"
        yield from held or self.whole(inner, path, place, names, advice)

"""Which keys a checkout takes, and how they are written: plain, with ``+``, or not at all.

A key counts when it is in the composed YAML, or when the class that its node becomes (``_target_``) has such a field,
or when its node is an open mapping (``override_config``), or when the code reads it with a default. And then only when
some Python file reads it, or another value of the YAML is taken from it: verl keeps keys that nothing reads any more,
so that old scripts start.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable
from functools import cache, cached_property
from typing import TYPE_CHECKING

from verl_legacy_patch.launch.shape import Keys, Shape
from verl_legacy_patch.mirror.tree import Leaf, Map
from verl_legacy_patch.scope import file_reason
from verl_legacy_patch.setting import Setting, Site, Span
from verl_legacy_patch.target import Target

if TYPE_CHECKING:
    from verl_legacy_patch.codemod import Codemod

#: Where configuration is declared.
_DECLARED = re.compile(r"(?:^|/)(?:workers|trainer)/config/|/config/[^/]*\.py$")


class Taken:
    """The keys of one configuration of a checkout."""

    def __init__(self, shape: Shape, keys: Keys) -> None:
        self.shape = shape
        self.keys = keys
        self.names = {".".join(path) for path in keys}
        self.nodes = {name[:end] for name in self.names for end, char in enumerate(name) if char == "."}

    def write(self, keys: Iterable[str], within: Collection[str] = (), read_by: str = "") -> str | None:
        """Return the first of some keys that counts, with ``+`` where Hydra needs it; None for none.

        Args:
            keys: dotted, the preferred one first.
            within: files below the package; only what one of them reads counts as read.
            read_by: a pattern for the code that reads a key which is nowhere else.
        """
        for key in keys:
            found = self._sign(key, within, read_by)
            if found is None or self._dead(key):
                continue
            sign, leaf = found
            if self._read(leaf, tuple(within)) or (not within and key in self._interpolated):
                return sign + key
        return None

    def has(self, key: str) -> bool:
        """Return whether the YAML has a key."""
        return key in self.names or key in self.nodes

    def _sign(self, key: str, within: Collection[str], read_by: str) -> tuple[str, str] | None:
        """Return how a key is written, and the name that the code has to read; None where there is no such key."""
        parts = key.split(".")
        if self.has(key):
            return "", parts[-1]
        for length in range(len(parts) - 1, 0, -1):
            node = ".".join(parts[:length])
            if not self.has(node):
                continue
            held = self.keys.get(tuple(parts[:length]))
            if isinstance(held, Map):  # open: handed on whole
                return "+", parts[length - 1]
            if held is not None:
                return None
            target = self.keys.get((*parts[:length], "_target_"))
            if isinstance(target, Leaf) and parts[length] in self._fields(target.value.rpartition(".")[2]):
                return "+", parts[length]
            break
        if read_by and any(re.search(read_by, self.shape.text(path)) for path in within):
            return "+", parts[-1]
        return None

    def _fields(self, name: str, depth: int = 0) -> frozenset[str]:
        """Return the fields of a configuration class and its bases, from its source."""
        found: set[str] = set()
        for tree in self._classes.get(name, ()) if depth < 8 else ():
            for item in tree.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                    found.add(item.target.id)
            for base in tree.bases:
                found |= self._fields(ast.unparse(base).rpartition(".")[2], depth + 1)
        return frozenset(found)

    @cached_property
    def _interpolated(self) -> frozenset[str]:
        """The keys that other values of the YAML are taken from."""
        values = (node.value for node in self.keys.values() if isinstance(node, Leaf) and "${" in node.value)
        return frozenset(name for value in values for name in re.findall(r"[\w.]+", value))

    @cached_property
    def _classes(self) -> dict[str, list[ast.ClassDef]]:
        found: dict[str, list[ast.ClassDef]] = {}
        for path, source in self._sources:
            if not _DECLARED.search(path):
                continue
            try:
                tree = ast.parse(source)
            except (SyntaxError, ValueError, RecursionError):
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, []).append(node)
        return found

    @cached_property
    def _sources(self) -> list[tuple[str, str]]:
        """The Python files of the package that are in scope."""
        checkout = self.shape.checkout
        paths = [path for path in checkout.list_folder(self.shape.package) if path.endswith(".py")]
        files = checkout.named(path for path in paths if not file_reason(path))
        return [(file.path, content.decode("utf-8", "replace")) for file, content in checkout.read(files)]

    @cache  # noqa: B019 (one object for each run)
    def _read(self, leaf: str, within: tuple[str, ...]) -> bool:
        """Return whether Python reads a name: as an attribute, or as a string.

        Where it is declared, a string only names it.
        """
        attribute = rf"\.{re.escape(leaf)}\b(?!\s*=[^=])"
        anyhow = re.compile(rf"{attribute}|[\"']{re.escape(leaf)}[\"']")
        if within:
            return any(anyhow.search(self.shape.text(path)) for path in within)
        return any(
            re.search(attribute, source) if _DECLARED.search(path) else anyhow.search(source)
            for path, source in self._sources
        )

    @cache  # noqa: B019
    def _dead(self, key: str) -> bool:
        """Return whether the codemod ``dead-keys`` would report the key in a script."""
        if self._codemod is None:
            return False
        setting = Setting(tuple(key.split(".")), "", Span(0, 0), "Hydra override")
        edit = self._codemod.decide(setting, Target())
        if edit is None:
            return False
        site = Site("-", 1, 1, 1, 1, edit.codemod, "report", "review", key, None, edit.reason)
        return bool(self._codemod.settle([site], self.shape.checkout))

    @cached_property
    def _codemod(self) -> Codemod | None:
        from verl_legacy_patch.codemod import discover

        return discover().get("dead-keys")

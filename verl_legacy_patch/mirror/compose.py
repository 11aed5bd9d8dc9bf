"""Composes a Hydra config without Hydra, and remembers where every value stands.

It follows Hydra 1.3 (``version_base=None``) for what config trees such as verl's use: defaults lists with
packages, choices, overrides, interpolated names and lists of options; ``@package`` headers; values and
choices on the command line. Anything else raises ``Unsupported`` instead of guessing. No code of the checkout
is run.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from verl_legacy_patch.mirror.tree import Leaf, Map, Node, Origin, Seq, Unsupported, load, merge
from verl_legacy_patch.patterns import lazy

Read = Callable[[str], "bytes | None"]

_MAX_DEPTH = 30
_HEADER = lazy(r"#\s*@(\S+)\s+(\S+)\s*$")
_CHOICE = lazy(r"\$\{([^${}]+)\}")


@dataclass
class _Default:
    """An entry of a defaults list. ``group`` is None for a config that is named by its path."""

    name: str | list[str] | None
    group: str | None = None
    package: str | None = None
    optional: bool = False
    override: bool = False
    base: str = ""
    parent: str = ""
    header: str | None = None

    def at(self, base: str, parent: str) -> None:
        """Place the entry in the defaults list of a config in folder ``base`` with package ``parent``."""
        self.base, self.parent = base, parent
        if self.package == "_here_":
            self.package = ""
        elif self.package is not None and "_group_" in self.package:
            dotted = self.group_path().replace("/", ".")
            self.package = "_global_." + self.package.replace("_group_", dotted)

    @property
    def is_self(self) -> bool:
        return self.group is None and self.name == "_self_"

    def _relative(self) -> str:
        path = self.group if self.group is not None else posixpath.dirname(str(self.name))
        return path.lstrip("/")

    def group_path(self) -> str:
        """Return the config group, from the root of the config folder."""
        full = self.group if self.group is not None else str(self.name)
        absolute = full.startswith("/") or not self.base
        return self._relative() if absolute else posixpath.join(self.base, self._relative()).rstrip("/")

    def config_path(self) -> str:
        """Return the file, from the root of the config folder, without its suffix."""
        return posixpath.join(self.group_path(), posixpath.basename(str(self.name)))

    def final_package(self, header: bool = True) -> str:
        """Return the dotted key under which the config is merged."""
        package = self.package
        if package is None and header:
            package = self.header
        if package is None:
            if ".." in self._relative():
                raise Unsupported(f"{self._relative()} without a package")
            package = self._relative().replace("/", ".")
        joined = ".".join(part for part in (self.parent, package) if part)
        return joined[joined.rfind("_global_") + len("_global_.") :] if "_global_" in joined else joined

    def key(self) -> str:
        """Return the name under which the choice of this group can be overridden."""
        group, package = self.group_path(), self.final_package(header=False)
        return group if group.replace("/", ".") == package else f"{group}@{package or '_global_'}"


class _Composer:
    def __init__(self, folder: str, read: Read) -> None:
        self.folder = folder
        self.read = read
        self.choices: dict[str, str | list[str] | None] = {}
        self.used: set[str] = set()
        self.known: dict[str, str | list[str] | None] = {}
        self.appended: list[_Default] = []
        self.files: dict[str, tuple[Map, str | None] | None] = {}

    def file(self, config: str) -> tuple[Map, str | None] | None:
        """Return the tree and the ``@package`` header of a config; None when there is no such file."""
        if config not in self.files:
            name = config if config.endswith(".yaml") else config + ".yaml"
            path = posixpath.normpath(posixpath.join(self.folder, name))
            source = None if path.startswith("../") else self.read(path)
            self.files[config] = None if source is None else (load(path, source), _package_header(source))
        return self.files[config]

    def expand(
        self, entry: _Default, primary: bool = False, interpolated: bool = False, depth: int = 0
    ) -> list[tuple[str, str]]:
        """Return (config, package) in the order in which they are merged."""
        if depth > _MAX_DEPTH:
            raise Unsupported("defaults lists that include each other")
        if entry.group is not None:
            if self.known.setdefault(entry.key(), entry.name) != entry.name:
                raise Unsupported(f"two choices for {entry.key()}")
            if entry.name is None:
                return []
        if entry.name == "???":
            raise Unsupported(f"no choice for {entry.group}")
        config = entry.config_path()
        loaded = self.file(config)
        if loaded is None:
            if entry.optional:
                return []
            raise Unsupported(f"no config {config}")
        tree, entry.header = loaded
        entries = _entries(tree)
        if primary:
            entries += self.appended
        if entries and not any(one.is_self for one in entries) and not all(one.override for one in entries):
            entries.append(_Default("_self_"))
        for one in entries:
            if not one.is_self:
                one.at(entry.group_path(), entry.final_package())
                if one.override:
                    if interpolated:
                        raise Unsupported("an override below an interpolated choice")
                    self.choices.setdefault(one.key(), one.name)

        # Hydra visits the list from its end, and interpolated names after all others
        children: list[_Default | list[tuple[str, str]]] = []
        for one in reversed(entries):
            if one.is_self:
                children.append([(config, entry.final_package())])
                continue
            if one.override:
                continue
            if one.group is not None and one.key() in self.choices:
                self.used.add(one.key())
                one.name = self.choices[one.key()]
            if isinstance(one.name, list):
                for option in reversed(one.name):
                    child = _Default(f"{one.group}/{option}", None, one.package, one.optional)
                    child.at(entry.group_path(), entry.final_package())
                    children.append(self.expand(child, False, interpolated, depth + 1))
            elif one.name is not None and "${" in one.name:
                children.append(one)
            else:
                children.append(self.expand(one, False, interpolated, depth + 1))
        for number, waiting in enumerate(children):
            if isinstance(waiting, _Default):
                waiting.name = self._resolve(str(waiting.name))
                children[number] = self.expand(waiting, False, True, depth + 1)
        if not children:
            return [(config, entry.final_package())]
        return [one for child in reversed(children) if isinstance(child, list) for one in child]

    def _resolve(self, name: str) -> str:
        def choice(match: re.Match[str]) -> str:
            value = self.known.get(match[1])
            if not isinstance(value, str):
                raise Unsupported(f"interpolation {match[0]} in a defaults list")
            return value

        resolved = _CHOICE.sub(choice, name)
        if "${" in resolved:
            raise Unsupported(f"interpolation {name} in a defaults list")
        return resolved


def compose(folder: str, name: str, overrides: Sequence[tuple[str, Origin]], read: Read) -> Map:
    """Return the composition of ``folder/name.yaml`` without Hydra's own node.

    Args:
        folder: the config folder.
        name: the primary config.
        overrides: words of the command line, each with the place of its value for the provenance.
        read: returns the content of a file of the checkout; None when there is none.

    Raises:
        Unsupported: something that this composer does not do, or that Hydra would refuse.
    """
    composer = _Composer(folder, read)
    values: list[tuple[str, Node]] = []
    for word, origin in overrides:
        key, equals, value = word.partition("=")
        if not equals or key.startswith("~") or value[:1] in ("[", "{"):
            raise Unsupported(f"override {word}")
        bare = key.lstrip("+")
        group = bare.partition("@")[0]
        if not value or composer.file(f"{group}/{value}") is None:
            values.append((key, Leaf(value, False, origin)))
        elif key.startswith("+"):
            composer.appended.append(_Default(value, group, bare.partition("@")[2] or None))
        else:
            composer.choices[bare] = value
    merged = Map({})
    for config, package in composer.expand(_Default(name), primary=True):
        loaded = composer.file(config)
        assert loaded is not None
        content = Map({k: v for k, v in loaded[0].items.items() if k != "defaults"}, loaded[0].origin)
        merged = merge(merged, _under(package, content))
    unused = composer.choices.keys() - composer.used
    if unused:
        raise Unsupported(f"nothing to override for {', '.join(sorted(unused))}")
    for key, leaf in values:
        bare = key.lstrip("+")
        if not key.startswith("++") and _has(merged, bare) == key.startswith("+"):
            raise Unsupported(f"override {key}, which Hydra refuses")
        merged = merge(merged, _under(bare, leaf))
    hydra = merged.items.pop("hydra", None)
    if isinstance(hydra, Map) and "searchpath" in hydra.items:
        raise Unsupported("hydra.searchpath")
    return merged


def _under(package: str, node: Node) -> Map:
    for part in reversed(package.split(".") if package else []):
        node = Map({part: node})
    if not isinstance(node, Map):
        raise Unsupported("a value without a key")
    return node


def _has(tree: Map, key: str) -> bool:
    node: Node | None = tree
    for part in key.split("."):
        node = node.items.get(part) if isinstance(node, Map) else None
    return node is not None


def _package_header(source: bytes) -> str | None:
    for line in source[:512].decode("utf-8", "replace").splitlines():
        match = _HEADER.match(line.strip())
        if match is None:
            if line.strip():
                return None
        elif match[1] == "package":
            return match[2] if match[2].startswith("_global_") else f"_global_.{match[2]}"
    return None


def _entries(tree: Map) -> list[_Default]:
    """Return the defaults list of a config; entries of Hydra's own groups are left out."""
    node = tree.items.get("defaults")
    if node is None:
        return []
    if not isinstance(node, Seq):
        raise Unsupported("defaults that are no list")
    found = []
    for item in node.items:
        if isinstance(item, Leaf):
            path, _, package = item.value.partition("@")
            found.append(_Default(path, None, package or None))
        elif isinstance(item, Map) and len(item.items) == 1:
            [(key, value)] = item.items.items()
            *keywords, key = key.split(" ")
            group, _, package = key.partition("@")
            name: str | list[str] | None
            if isinstance(value, Leaf):
                name = None if value.is_null else value.value
            elif isinstance(value, Seq) and all(isinstance(one, Leaf) for one in value.items):
                name = [one.value for one in value.items if isinstance(one, Leaf)]
            else:
                raise Unsupported(f"the entry {key} of a defaults list")
            if set(keywords) - {"optional", "override"}:
                raise Unsupported(f"the entry {key} of a defaults list")
            found.append(_Default(name, group, package or None, "optional" in keywords, "override" in keywords))
        else:
            raise Unsupported("an entry of a defaults list")
    return [one for one in found if not (one.group or str(one.name)).lstrip("/").startswith("hydra/")]

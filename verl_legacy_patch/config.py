"""The configuration of a fork: what it is rewritten to, and what it leaves alone.

``.verl-patch.toml`` in the root of the checkout, or ``[tool.verl-patch]`` in its ``pyproject.toml`` (the first one
keeps upstream's file untouched, and wins). ``apply``, ``check`` and the hooks read the same file, so they agree.
The command line wins over the file, the file over the defaults.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

FILE = ".verl-patch.toml"
TABLE = "verl-patch"


class ConfigError(ValueError):
    """A configuration file that cannot be meant as it is; one line that names the file and the key."""


class Config(NamedTuple):
    """What a run does. None and empty mean: not said."""

    gpu: str | None = None
    dtype: str | None = None
    attn: str | None = None
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    safe_only: bool = False
    exclude: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    keys: Mapping[str, tuple[str, ...]] = {}
    branch: str | None = None


class Key(NamedTuple):
    """What may stand under one key of the file, for messages and for the documentation."""

    kind: str
    default: str
    meaning: str


#: Key in the file -> what it holds. The documentation shows these texts.
KEYS = {
    "gpu": Key("text", "6.1", "GPU by name or compute capability; it decides which codemods run"),
    "dtype": Key("text", "float32", "dtype to choose: float32 or float16"),
    "attn": Key("text", "eager", "attention implementation to choose: eager or sdpa"),
    "select": Key("list", "all", "codemods to run"),
    "ignore": Key("list", "none", "codemods to leave out"),
    "safe-only": Key("boolean", "false", "leave out the codemods whose result a person should review"),
    "exclude": Key("list", "none", "files and folders to leave alone, as patterns"),
    "include": Key("list", "none", "files and folders to rewrite although they are out of scope, as patterns"),
    "keys": Key("table", "none", "codemod -> further names of settings that it treats as its own"),
    "branch": Key("text", "verl-patch/float32-eager", "branch that apply creates"),
}
_CHOICES = {"dtype": ("float32", "float16"), "attn": ("eager", "sdpa")}
_WANTED = {
    "text": "a text",
    "boolean": "true or false",
    "list": "a list of texts",
    "table": "a table of lists of texts",
}


class Source(NamedTuple):
    """The file that a configuration stands in, and which keys it gives."""

    path: Path
    keys: frozenset[str]


def load(root: Path) -> tuple[Config, Source | None]:
    """Return the configuration of the checkout at ``root``, and the file that it stands in.

    Raises:
        ConfigError: the file is not TOML, or has an unknown key or a value of the wrong type.
    """
    own = root / FILE
    if os.path.lexists(own):
        return _parsed(_tables(_read(own), own), own)
    project = root / "pyproject.toml"
    if project.is_file():
        content = _read(project)
        if TABLE.encode() in content:  # others' errors in upstream's file are none of ours
            tool = _tables(content, project).get("tool", {})
            table = tool.get(TABLE) if isinstance(tool, dict) else None
            if table is not None:
                return _parsed(table, project)
    return Config(), None


def parse(table: Mapping[str, Any], path: Path) -> Config:
    """Return the configuration that a table says. See ``load`` for the errors."""
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in KEYS:
            raise ConfigError(f"{path}: unknown key {key!r}; {_hint(key)}")
        values[_name(key)] = _checked(key, value, path)
    return Config(**values)


def merge(config: Config, said: Mapping[str, Any]) -> Config:
    """Return ``config`` with what the command line said: everything that is not None."""
    return config._replace(**{key: value for key, value in said.items() if value is not None})


def show(config: Config, said: Collection[str], source: Source | None) -> list[str]:
    """Return one line per key: its value in force and where it comes from. Together they are a configuration file.

    Args:
        config: the configuration in force, the defaults of the target filled in.
        said: names that the command line gave.
        source: the file, if there is one.
    """
    rows = []
    for key, (_, default, _) in KEYS.items():
        name = _name(key)
        value = getattr(config, name)
        origin = "command line" if name in said else "default"
        if origin == "default" and source is not None and key in source.keys:
            origin = str(source.path)
        text = f"{key} = {_toml(value)}"
        if value is None or value == ():
            text = f"# {key}: {default}" if value is None or origin == "default" else text
        elif key == "keys":
            text = "\n".join([f"keys.{_toml_key(each)} = {_toml(names)}" for each, names in value.items()])
            text = text or f"# keys: {default}"
        rows.append((text, origin))
    width = max(len(line) for text, _ in rows for line in text.split("\n"))
    return [f"{line:{width}}  # {origin}" for text, origin in rows for line in text.split("\n")]


def _name(key: str) -> str:
    return key.replace("-", "_")


def _hint(key: str) -> str:
    import difflib

    close = difflib.get_close_matches(key.lower().replace("_", "-"), KEYS, 1)
    return f"did you mean {close[0]}?" if close else f"there are: {', '.join(KEYS)}"


def _toml(value: Any) -> str:
    import json

    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_key(key: str) -> str:
    return key if key.replace("-", "").replace("_", "").isalnum() and key.isascii() else _toml(key)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


def _tables(content: bytes, path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(content.decode("utf-8-sig"))  # editors on Windows put a mark in front
    except (ValueError, RecursionError) as error:  # all of its errors, those of the encoding and of a number too long
        raise ConfigError(f"{path}: not TOML in UTF-8: {error}") from None


def _parsed(table: Any, path: Path) -> tuple[Config, Source]:
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: tool.{TABLE} has to be a table")
    return parse(table, path), Source(path, frozenset(table))


def _checked(key: str, value: Any, path: Path) -> Any:
    kind = KEYS[key].kind
    if key == "gpu" and isinstance(value, float):
        value = str(value)  # 7.5 without quotes
    if kind == "text" and isinstance(value, str):
        if key in _CHOICES and value not in _CHOICES[key]:
            raise ConfigError(f"{path}: {key} is {value!r}; it can be {' or '.join(_CHOICES[key])}")
        return value
    if kind == "boolean" and isinstance(value, bool):
        return value
    if kind == "list" and _is_texts(value):
        if key in ("exclude", "include"):
            _check_patterns(key, value, path)
        return tuple(value)
    if kind == "table" and isinstance(value, dict) and all(_is_texts(names) for names in value.values()):
        return {name: tuple(names) for name, names in value.items()}
    raise ConfigError(f"{path}: {key} has to be {_WANTED[kind]}, and is {value!r}")


def _check_patterns(key: str, patterns: Sequence[str], path: Path) -> None:
    for pattern in patterns:
        if pattern.startswith("!"):
            other = "include" if key == "exclude" else "exclude"
            raise ConfigError(f"{path}: {key} has {pattern!r}; what it should not mean goes under {other}")
        if not pattern.strip("/") or ".." in pattern.split("/"):
            raise ConfigError(f"{path}: {key} has {pattern!r}, which means no file of the checkout")


def _is_texts(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(item, str) for item in value)

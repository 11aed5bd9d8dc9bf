"""The configuration of a fork: what it is rewritten to, and what it leaves alone.

``.verl-patch.toml`` in the root of the checkout, or ``[tool.verl-patch]`` in its ``pyproject.toml`` (the first one
keeps upstream's file untouched, and wins). ``apply``, ``check`` and the hooks read the same file, so they agree.
The command line wins over the file, the file over the defaults.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
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


#: Key in the file -> what it holds, for the documentation and for messages.
KEYS = {
    "gpu": ("text", "GPU by name or compute capability"),
    "dtype": ("text", "float32 or float16"),
    "attn": ("text", "eager or sdpa"),
    "select": ("list", "codemods to run"),
    "ignore": ("list", "codemods to leave out"),
    "safe-only": ("boolean", "leave out the codemods whose result a person should review"),
    "exclude": ("list", "files and folders to leave alone, as patterns"),
    "include": ("list", "files that are out of scope by default, to rewrite all the same, as patterns"),
    "keys": ("table", "codemod -> further names that it treats as its own keys"),
    "branch": ("text", "branch that apply creates"),
}
_CHOICES = {"dtype": ("float32", "float16"), "attn": ("eager", "sdpa")}


def load(root: Path) -> tuple[Config, Path | None]:
    """Return the configuration of the checkout at ``root``, and the file that it stands in.

    Raises:
        ConfigError: the file is not TOML, or has an unknown key or a value of the wrong type.
    """
    own = root / FILE
    if own.is_file():
        return parse(_read(own), own), own
    project = root / "pyproject.toml"
    if project.is_file() and b"verl-patch" in project.read_bytes():
        table = _read(project).get("tool", {}).get(TABLE)
        if table is not None:
            return parse(table, project), project
    return Config(), None


def parse(table: Mapping[str, Any], path: Path) -> Config:
    """Return the configuration that a table says. See ``load`` for the errors."""
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in KEYS:
            import difflib

            close = difflib.get_close_matches(key, KEYS, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(KEYS)}"
            raise ConfigError(f"{path}: unknown key {key!r}; {hint}")
        values[key.replace("-", "_")] = _checked(key, value, path)
    return Config(**values)


def merge(config: Config, said: Mapping[str, Any]) -> Config:
    """Return ``config`` with what the command line said: whatever is neither None, empty nor False."""
    return config._replace(**{key: value for key, value in said.items() if value not in (None, (), False)})


def show(config: Config, said: Mapping[str, Any], path: Path | None) -> list[str]:
    """Return one line per key: its value and where it comes from."""
    lines = []
    for key in KEYS:
        name = key.replace("-", "_")
        value = getattr(config, name)
        if said.get(name) not in (None, (), False):
            source = "command line"
        elif value != getattr(Config(), name):
            source = str(path)
        else:
            source = "default"
        lines.append(f"{key:10} {_text(value):40} # {source}")
    return lines


def _text(value: Any) -> str:
    import json

    return json.dumps(dict(value) if isinstance(value, Mapping) else value)


def _read(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


def _checked(key: str, value: Any, path: Path) -> Any:
    kind = KEYS[key][0]
    if kind == "text" and isinstance(value, (str, float, int)) and not isinstance(value, bool):
        if key in _CHOICES and value not in _CHOICES[key]:
            raise ConfigError(f"{path}: {key} is {value!r}; it can be {' or '.join(_CHOICES[key])}")
        return str(value)
    if kind == "boolean" and isinstance(value, bool):
        return value
    if kind == "list" and _is_texts(value):
        return tuple(value)
    if kind == "table" and isinstance(value, dict) and all(_is_texts(names) for names in value.values()):
        return {name: tuple(names) for name, names in value.items()}
    wanted = {"list": "a list of texts", "table": "a table of lists of texts", "text": "a text"}.get(kind, f"a {kind}")
    raise ConfigError(f"{path}: {key} has to be {wanted}")


def _is_texts(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(item, str) for item in value)

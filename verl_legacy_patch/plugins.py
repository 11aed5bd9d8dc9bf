"""Codemods that other distributions register: found, loaded, and looked at before one of them runs.

What comes with verl-patch has its tests. A codemod of somebody else has none here, so what would end in a traceback,
or in a rule that never finds anything, is said when it is loaded: in one line, with where it comes from.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from io import FileIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from verl_legacy_patch.codemod import Codemod

#: Third parties register ``name = package.module:Class`` here.
ENTRY_POINT_GROUP = "verl_patch.codemods"

#: What may stand in capitals in a pattern: classes such as ``\S``, and the names of groups.
_NOT_LITERAL = r"\\.|\(\?P(?:<\w+>|[=>]\w+)?"


class PluginError(Exception):
    """A registered codemod cannot be used. The text says what is wrong, and with whose.

    Attributes:
        code: the exit code.
    """

    code = 3


def plugins(base: type[Codemod], known: dict[str, Codemod]) -> Iterator[Codemod]:
    """Yield the codemods that other distributions register.

    Args:
        base: what each has to be one of.
        known: those that are there already, by name.

    Raises:
        PluginError: one cannot be loaded or cannot work.
    """
    if not any(map(_may_register, sys.path)):
        return
    from importlib.metadata import entry_points

    for entry in entry_points(group=ENTRY_POINT_GROUP):
        codemod, wrong = _loaded(entry)
        if not wrong:
            wrong = flaw(codemod) if isinstance(codemod, base) else "it is no Codemod"
        if not wrong and codemod.name in known:
            wrong = f"there is another codemod of the name {codemod.name}"
        if wrong:
            whose = entry.dist.name if entry.dist else "another package"
            raise PluginError(f"the codemod {entry.value} of {whose} cannot be used ({wrong}): repair or uninstall it")
        yield codemod


def _loaded(entry: EntryPoint) -> tuple[Codemod, str]:
    """Return what is registered, or anything and what went wrong with it: its code may raise whatever it wants."""
    try:
        return entry.load()(), ""
    except Exception as error:
        return None, f"{type(error).__name__}: {' '.join(str(error).split())}"  # type: ignore[return-value]


def flaw(codemod: Codemod) -> str:
    """Return what keeps a codemod from working although it can be loaded; empty where nothing does."""
    for name in ("words", "rules"):
        if isinstance(getattr(codemod, name, ()), str):
            return f"{name} is a text: write a tuple, with a comma behind a single one"
    for name in ("name", "words", "trigger"):
        if not getattr(codemod, name, None):
            return f"it has no {name}"
    for name, allowed in (("grade", ("safe", "review")), ("does", ("rewrites", "reports"))):
        if getattr(codemod, name) not in allowed:
            return f"{name} is neither {' nor '.join(allowed)}"
    if not codemod.summary():
        return "its module has no docstring, whose first line is what lists show"
    try:
        re.compile(codemod.trigger.encode())
    except re.error as error:
        return f"its trigger is no pattern: {error}"
    for name, text in (*(("word", word) for word in codemod.words), ("trigger", codemod.trigger)):
        plain = re.sub(_NOT_LITERAL, "", text) if name == "trigger" else text
        if plain != plain.lower():
            return f"its {name} {text} has capitals, which never match: files are searched in lower case"
    return ""


def _may_register(folder: str) -> bool:
    """Return whether something in a folder of ``sys.path`` names our group.

    A look at the files costs a tenth of what importing ``importlib.metadata`` does, which is only needed to load.
    """
    try:
        with os.scandir(folder) as entries:
            infos = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
    except OSError:  # a zip file, a folder that is not there: let the library find out
        return folder.endswith((".zip", ".whl", ".egg")) and os.path.exists(folder)  # noqa: PTH110 (no pathlib here)
    for info in infos:
        try:
            with FileIO(f"{info}/entry_points.txt") as file:
                if ENTRY_POINT_GROUP.encode() in file.readall():
                    return True
        except OSError:
            continue
    return False

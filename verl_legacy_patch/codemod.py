"""The base of every codemod, and how codemods are found.

A codemod says which byte shapes make a file worth parsing (``words``, ``trigger``) and what becomes of a
setting (``decide``). One that rewrites more than a value also looks at Python statements (``visit``).
"""

from __future__ import annotations

import copy
import inspect
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from verl_legacy_patch.capability import Capability
from verl_legacy_patch.plugins import plugins
from verl_legacy_patch.setting import Action, Edit, Grade, Setting, Site
from verl_legacy_patch.target import Target

if TYPE_CHECKING:
    from verl_legacy_patch.checkout import Checkout
    from verl_legacy_patch.languages.python import Statement

#: What the modules of ``codemods/`` are called once they are loaded, whatever else is called codemods.
_OURS = "verl_legacy_patch._codemods."


class Codemod:
    """One rule. Subclasses set the class attributes and override ``decide`` or ``visit``.

    Attributes:
        name: what the user types after ``--select``.
        grade: ``safe``, or ``review`` where a person should look at the result.
        does: ``reports`` for one that never rewrites: there is no result then, and the grade says nothing.
        words: literals in lower case, as files are searched: a file that holds none of them is never read.
        trigger: a pattern for bytes in lower case: a file without a match is never parsed, and only statements,
            scalars and words that overlap a match are looked at. So a match has to reach into the value behind a
            key, and all of them together must cover what the codemod rewrites.
        reach: how many lines a match may go beyond the line of the word in it, which spares the pattern the other
            lines of the file; None where a match need not hold a word.
        languages: the languages that it looks into, as in ``languages.SUFFIXES``; empty for all.
        when: the condition of ``applies`` in words that go on after "runs", for the documentation.
        support: modules of ``codemods/support`` that rewritten code imports from ``verl.utils``.
    """

    name: ClassVar[str]
    grade: ClassVar[Grade] = "safe"
    does: ClassVar[Literal["rewrites", "reports"]] = "rewrites"
    words: ClassVar[tuple[str, ...]]
    trigger: ClassVar[str]
    reach: ClassVar[int | None] = None
    languages: ClassVar[tuple[str, ...]] = ()
    when: ClassVar[str] = "always"
    support: ClassVar[tuple[str, ...]] = ()
    extra_keys: tuple[str, ...] = ()

    def applies(self, target: Target) -> bool:
        """Return whether this codemod has anything to do for ``target``."""
        return True

    def reads(self, language: str | None) -> bool:
        """Return whether this codemod looks into files of a language."""
        return not self.languages or language in self.languages

    def decide(self, setting: Setting, target: Target) -> Edit | None:
        """Return what should become of ``setting``; None when it is none of this codemod's business."""
        return None

    def visit(self, statement: Statement, target: Target) -> Iterable[Edit]:
        """Yield edits for a Python statement that overlaps a trigger. Settings in it are ``decide``'s."""
        return ()

    def inspect(self, source: bytes, language: str, target: Target) -> Iterable[Edit]:
        """Yield rows for a whole file in which the trigger matched: for what no single setting shows."""
        return ()

    def settle(self, sites: list[Site], checkout: Checkout) -> list[Site]:
        """Return this codemod's own sites after a look at the whole checkout; by default all of them."""
        return sites

    def added_files(self, edited: Mapping[str, list[Edit]], package: str, target: Target) -> dict[str, bytes]:
        """Return files (path in the checkout -> content) that the rewritten code needs: the ``support`` modules.

        Args:
            edited: this codemod's rewrites by path; never empty.
            package: the folder of the ``verl`` package in the checkout, such as ``verl`` or ``training/verl``.
            target: what is rewritten to.
        """
        folder = codemod_folder() / "support"
        return {f"{package}/utils/{module}.py": (folder / f"{module}.py").read_bytes() for module in self.support}

    def with_keys(self, names: Iterable[str]) -> Codemod:
        """Return a copy that treats ``names`` as its own keys too: a fork's words for the same thing."""
        twin = copy.copy(self)
        twin.extra_keys = tuple(name.lower() for name in names)
        return twin

    @classmethod
    def foreign(cls) -> bool:
        """Return whether another package has registered it."""
        return not cls.__module__.startswith(_OURS)

    # what the documentation and the reports show

    @classmethod
    def doc(cls) -> str:
        """Return the docstring of the codemod's module: summary, then the fixed headings."""
        return inspect.cleandoc(sys.modules[cls.__module__].__doc__ or cls.__doc__ or "")

    @classmethod
    def summary(cls) -> str:
        """Return the first line of the docstring."""
        return cls.doc().partition("\n")[0]

    def summary_for(self, target: Target) -> str:
        """Return the summary with what is chosen for ``target`` in place of all that can be."""
        text = self.summary().replace("float32 (or float16)", target.dtype)
        return text.replace("eager (or sdpa)", target.attn)

    @classmethod
    def needs_review(cls) -> bool:
        """Return whether it writes what a person should look at: ``--safe-only`` leaves it out."""
        return cls.does == "rewrites" and cls.grade == "review"

    @classmethod
    def why(cls) -> str:
        """Return the first statement of the docstring's Why; empty where a third party's has none."""
        found = re.search(r"^Why: (.*?)(?:\.(?=\s)|:(?=\s)|\.?(?=\n\n|\Z))", cls.doc(), re.DOTALL | re.MULTILINE)
        return " ".join(found[1].split()) if found else ""

    # shorthands for subclasses

    def rewrite(self, setting: Setting, replacement: str, reason: str = "") -> Edit:
        """Return the edit that gives ``setting`` a new value, or keeps it where it only names the value."""
        if setting.names:
            return self.keep(setting, setting.names)
        return Edit(setting.span, self.name, "rewrite", replacement, reason, self.grade, setting.full_key)

    def keep(self, setting: Setting, reason: str) -> Edit:
        """Return the row that says why ``setting`` stays: ``report`` where a person should look at it."""
        action: Action = "report" if setting.advice else "keep"
        return Edit(setting.span, self.name, action, None, reason, self.grade, setting.full_key)

    def report(self, setting: Setting, reason: str) -> Edit:
        """Return the row that asks a person to look at ``setting``."""
        return Edit(setting.span, self.name, "report", None, reason, self.grade, setting.full_key)


class SwitchCodemod(Codemod):
    """A codemod that turns boolean settings on or off, whatever the language spells a boolean.

    Attributes:
        keys: names (nearest key, without case) of the switches.
        to: the value to write: False (the default) or True.
        more: literals (not patterns) of what else ``visit`` looks for.
    """

    reach = 3
    keys: ClassVar[tuple[str, ...]]
    to: ClassVar[bool] = False
    more: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        """Derive words and trigger from the keys: the key, then the old value close behind it."""
        if "keys" in cls.__dict__:
            if isinstance(cls.keys, str):
                raise TypeError(f"keys of {cls.__name__} is a text: write a tuple, with a comma behind a single one")
            cls.keys = tuple(key.lower() for key in cls.keys)
            cls.words = (*cls.keys, *cls.more)
            cls.trigger = cls._near(cls.keys)

    @classmethod
    def _near(cls, keys: tuple[str, ...]) -> str:
        old = "false" if cls.to else "true"
        near = rf"(?:{_any(keys)})(?:[\"']?[ \t]*,\s*|(?:[^\n]|\n[ \t]*(?=default\b)){{0,80}}?){old}"
        return "|".join(filter(None, (near, _any(cls.more))))

    def with_keys(self, names: Iterable[str]) -> Codemod:
        """Return a copy with further switches, which widen its words and its trigger."""
        twin = super().with_keys(names)
        every = (*self.keys, *twin.extra_keys)
        vars(twin).update(words=(*every, *self.more), trigger=self._near(every))
        return twin

    def decide(self, setting: Setting, target: Target) -> Edit | None:
        """Flip the switch, keeping the spelling of the boolean."""
        old = "false" if self.to else "true"
        if setting.key.lower() not in (*self.keys, *self.extra_keys) or setting.value.lower() != old:
            return None
        new = "true" if self.to else "false"
        spelled = new.capitalize() if setting.value[0].isupper() else new
        return self.rewrite(setting, spelled.upper() if setting.value.isupper() else spelled)


class Rule(NamedTuple):
    """What a report codemod points at.

    Attributes:
        key: pattern for the end of the dotted key, without case.
        value: pattern for the whole value, without case.
        reason: what is wrong and what to do, in one phrase.
        below: only for cards below this compute capability; None for all.
    """

    key: str
    value: str
    reason: str
    below: Capability | None = None


class ReportCodemod(Codemod):
    """A codemod that rewrites nothing: it points at settings that a person has to decide.

    Attributes:
        rules: the settings; the first rule that fits a setting counts.
    """

    does = "reports"
    rules: ClassVar[tuple[Rule, ...]] = ()

    def decide(self, setting: Setting, target: Target) -> Edit | None:
        """Report a setting that one of the rules describes, unless the place only names its value."""
        key = setting.full_key
        for rule in self.rules:
            if rule.below is not None and target.capability >= rule.below:
                continue
            if re.fullmatch(rule.value, setting.value, re.I) and re.search(f"(?:^|[._])(?:{rule.key})$", key, re.I):
                if not setting.names:
                    return self.report(setting, rule.reason)
                return self.keep(setting, f"{setting.names}: {rule.reason}" if setting.advice else setting.names)
        return None


def _any(literals: tuple[str, ...]) -> str:
    """Return a pattern that matches any of the literals; empty for none."""
    return "|".join(map(re.escape, literals))


def codemod_folder() -> Path:
    """Return the folder of the codemods that come with verl-patch, beside the package."""
    return Path(__file__).resolve().parent.parent / "codemods"


@cache
def discover() -> dict[str, Codemod]:
    """Return all codemods by name: those of ``codemods/``, then those of the entry-point group.

    The folder is found by the place of this file, never through ``sys.path``: a checkout that holds a
    ``codemods`` package of its own must not have it imported.
    """
    found: dict[str, Codemod] = {}
    for path in sorted(codemod_folder().glob("[!_]*.py")):
        name = f"{_OURS}{path.stem}"
        spec = spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"cannot load the codemod {path}")
        module = module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Codemod) and value.__module__ == name:
                found[value.name] = value()
    for plugin in plugins(Codemod, found):
        found[plugin.name] = plugin
    return found

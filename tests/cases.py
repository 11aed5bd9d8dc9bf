"""The fixtures: small files with the right result, found by folder (``fixtures/<codemod>/<case>/``).

``before.*`` is the input and ``after.*`` the result; without ``after.*`` nothing may change. All codemods run
that apply to the target, whatever the folder. Beside them may stand

* ``target.yaml``: ``gpu``, ``dtype``, ``attn`` instead of the default target, and the ``path`` in the checkout;
* ``reports.txt``: the places that must be reported, one a line: ``LINE:COLUMN CODEMOD TEXT``. Nothing else may be;
* ``why.md``: the reason, where it is not plain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

from verl_legacy_patch.codemod import Codemod, discover
from verl_legacy_patch.rewrite import Rewritten, rewrite
from verl_legacy_patch.target import Target, make_target

ROOT = Path(__file__).resolve().parent.parent / "fixtures"


@dataclass(frozen=True)
class Fixture:
    """One case. Its folder is all there is; everything else is read from it."""

    folder: Path

    @property
    def codemod(self) -> str:
        """Return the codemod that the case is about; ``all`` for several."""
        return self.folder.parent.name

    @property
    def name(self) -> str:
        """Return ``codemod/case``."""
        return f"{self.codemod}/{self.folder.name}"

    @cached_property
    def _before(self) -> Path:
        paths = sorted(self.folder.glob("before.*"))
        if len(paths) != 1:  # while tests are collected, so it has to say itself where it is
            raise ValueError(f"fixtures/{self.name}/ has {len(paths)} files before.*, not one")
        return paths[0]

    @cached_property
    def options(self) -> dict[str, str]:
        """Return what ``target.yaml`` says."""
        path = self.folder / "target.yaml"
        return yaml.safe_load(path.read_text()) if path.exists() else {}

    @cached_property
    def before(self) -> bytes:
        """Return the input."""
        return self._before.read_bytes()

    @cached_property
    def after(self) -> bytes:
        """Return the right result."""
        path = self._before.with_name("after" + self._before.suffix)
        return path.read_bytes() if path.exists() else self.before

    @property
    def changes(self) -> bool:
        """Return whether the file is to change."""
        return self._before.with_name("after" + self._before.suffix).exists()

    @property
    def suffix(self) -> str:
        """Return the suffix, which says the language."""
        return self._before.suffix

    @property
    def path(self) -> str:
        """Return the path of the file in its checkout."""
        return self.options.get("path", f"verl/{self.folder.name.replace('-', '_')}{self.suffix}")

    @property
    def target(self) -> Target:
        """Return what to rewrite to."""
        return make_target(*(self.options.get(key) for key in ("gpu", "dtype", "attn")))

    @property
    def codemods(self) -> list[Codemod]:
        """Return the codemods that apply to the target; those that ask the whole checkout only in their own folder."""
        return [
            codemod
            for name, codemod in discover().items()
            if codemod.applies(self.target) and (name == self.codemod or type(codemod).settle is Codemod.settle)
        ]

    @property
    def reports(self) -> list[str]:
        """Return the rows that must be reported."""
        path = self.folder / "reports.txt"
        return path.read_text().splitlines() if path.exists() else []

    @cached_property
    def result(self) -> Rewritten:
        """Return the input as rewritten."""
        return self.rewrite()

    def rewrite(self, source: bytes | None = None, codemods: Sequence[Codemod] | None = None) -> Rewritten:
        """Rewrite the input, or another text in its place."""
        return rewrite(self.path, self.before if source is None else source, codemods or self.codemods, self.target)


def reported(result: Rewritten) -> list[str]:
    """Return the report rows of a result in the form of ``reports.txt``."""
    rows = [site for site in result.sites if site.action == "report"]
    return [f"{site.line}:{site.column} {site.codemod} {' '.join(site.before.split())}" for site in rows]


FIXTURES = [Fixture(folder) for folder in sorted(ROOT.glob("*/*")) if folder.is_dir()]
CHANGED = [fixture for fixture in FIXTURES if fixture.changes]

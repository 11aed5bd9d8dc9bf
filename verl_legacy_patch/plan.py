"""From a checkout to everything that would change in it: each file by itself, then what depends on other files.

Mirrors of configuration files follow the files that they repeat; code that needs a new module gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from verl_legacy_patch import suppression
from verl_legacy_patch.checkout import SOURCE_SUFFIXES, Candidate, Checkout
from verl_legacy_patch.checkout.gitio import to_bytes
from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.languages import SUFFIXES, SourceError
from verl_legacy_patch.rewrite import Rewritten, rewrite, unread
from verl_legacy_patch.scope import EVERYTHING, Scope, is_mirror
from verl_legacy_patch.setting import Edit, Site, Span
from verl_legacy_patch.target import Target

#: Called with (files done, files in all).
Progress = Callable[[int, int], None]


class Problem(NamedTuple):
    """A file that could not be rewritten: where and why."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}" if self.line else f"{self.path}: {self.message}"


class FileChange(NamedTuple):
    """A file that would be written. ``before`` is None for a new one, which ``codemod`` adds."""

    path: str
    before: bytes | None
    after: bytes
    mode: str
    edits: tuple[Edit, ...] = ()
    codemod: str = ""

    @property
    def status(self) -> str:
        """Return ``added`` or ``modified``."""
        return "added" if self.before is None else "modified"


@dataclass
class Plan:
    """Everything that would be done to a checkout."""

    target: Target
    codemods: Sequence[Codemod]
    changes: list[FileChange] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    files_read: int = 0
    within: Scope = EVERYTHING
    unused_suppressions: list[tuple[str, suppression.Unused]] = field(default_factory=list)

    def rewritten(self) -> list[Site]:
        """Return the sites that change."""
        return [site for site in self.sites if site.action == "rewrite"]

    def reported(self) -> list[Site]:
        """Return the sites that a person has to decide."""
        return [site for site in self.sites if site.action == "report"]


def make_plan(
    checkout: Checkout,
    codemods: Sequence[Codemod],
    target: Target,
    *,
    jobs: int = 1,
    progress: Progress | None = None,
    within: Scope = EVERYTHING,
) -> Plan:
    """Return what the codemods would do to a checkout. Reads only; a file that fails becomes a problem.

    Args:
        checkout: where the files come from.
        codemods: the selected ones; those that do not apply to ``target`` are left out.
        target: what to rewrite to.
        jobs: worker processes; 1 is fastest for a checkout of verl's size.
        progress: called after each file.
        within: what is out of scope.
    """
    plan = Plan(target, [codemod for codemod in codemods if codemod.applies(target)], within=within)
    candidates = _candidates(checkout, plan.codemods)
    plan.files_read = len(candidates)
    modes = {candidate.path: candidate.mode for candidate in candidates}
    results: list[Rewritten] = []
    inside = []
    for candidate in candidates:
        if reason := within.file_reason(candidate.path):
            results.append(unread(candidate.path, reason))
        else:
            inside.append(candidate)
    sources = ((candidate.path, content) for candidate, content in checkout.read(inside))
    mirrors: list[tuple[str, bytes]] = []
    ordinary = _apart(sources, mirrors)
    for done, outcome in enumerate(_rewrite_all(ordinary, plan, jobs), len(results) + 1):
        if isinstance(outcome, Problem):
            plan.problems.append(outcome)
        else:
            results.append(outcome)
        if progress is not None:
            progress(done, len(candidates))
    results += _mirrors(checkout, mirrors, results, plan)
    for result in results:
        plan.sites += result.sites
        plan.unused_suppressions += [(result.path, row) for row in result.unused_suppressions]
        if result.changed:
            edits = tuple(edit for edit in result.edits if edit.replacement is not None)
            plan.changes.append(FileChange(result.path, result.before, result.after, modes[result.path], edits))
    _add_files(checkout, plan)
    _settle(checkout, plan)
    plan.sites.sort(key=lambda site: (site.path, site.line, site.column, site.codemod))
    plan.changes.sort(key=lambda change: change.path)
    return plan


def _candidates(checkout: Checkout, codemods: Iterable[Codemod]) -> list[Candidate]:
    """Return the files with a word of a codemod that looks into files of their kind."""
    words: dict[tuple[str, ...], set[bytes]] = {(): {suppression.WORD}}
    for codemod in codemods:
        words.setdefault(codemod.languages, set()).update(word.encode() for word in codemod.words)
    found: dict[str, Candidate] = {}
    for languages, some in words.items():
        suffixes = [suffix for suffix, language in SUFFIXES.items() if language in languages] or SOURCE_SUFFIXES
        found.update((each.path, each) for each in checkout.selected(sorted(some), suffixes=suffixes))
    return sorted(found.values(), key=lambda each: to_bytes(each.path))


def _apart(sources: Iterable[tuple[str, bytes]], mirrors: list[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
    """Pass ordinary files on and put mirrors aside: they are decided when their sources are."""
    for path, content in sources:
        if is_mirror(path):
            mirrors.append((path, content))
        else:
            yield path, content


def _rewrite_all(sources: Iterable[tuple[str, bytes]], plan: Plan, jobs: int) -> Iterator[Rewritten | Problem]:
    if jobs <= 1:
        for path, content in sources:
            yield _attempt(path, content, plan.codemods, plan.target, plan.within)
        return
    from verl_legacy_patch.workers import in_workers

    keys = {codemod.name: codemod.extra_keys for codemod in plan.codemods}
    calls = ((path, content, keys, plan.target, plan.within) for path, content in sources)
    yield from in_workers(_in_worker, calls, jobs)


def _in_worker(
    path: str, content: bytes, keys: Mapping[str, Sequence[str]], target: Target, within: Scope
) -> Rewritten | Problem:
    from verl_legacy_patch.codemod import discover

    found = discover()
    return _attempt(path, content, [found[name].with_keys(extra) for name, extra in keys.items()], target, within)


def _attempt(
    path: str, content: bytes, codemods: Sequence[Codemod], target: Target, within: Scope
) -> Rewritten | Problem:
    """Rewrite a file; whatever goes wrong with it concerns this file only."""
    try:
        return rewrite(path, content, codemods, target, within)
    except SourceError as error:
        return Problem(path, error.line, str(error))
    except (KeyboardInterrupt, SystemExit, GeneratorExit, ImportError):
        raise  # none of these is about this file
    except BaseException as error:  # a panic of a native parser is no Exception
        lines = str(error).splitlines()
        return Problem(path, 0, f"{type(error).__name__}: {lines[0] if lines else 'no message'}")


def _mirrors(
    checkout: Checkout, mirrors: Sequence[tuple[str, bytes]], results: Sequence[Rewritten], plan: Plan
) -> Iterator[Rewritten]:
    """Decide the files that repeat other files."""
    if not mirrors:
        return
    from verl_legacy_patch.followers import follow_sources

    def attempt(path: str, source: bytes) -> Rewritten | None:
        outcome = _attempt(path, source, plan.codemods, plan.target, plan.within)
        return outcome if isinstance(outcome, Rewritten) else None

    for outcome in follow_sources(checkout, mirrors, results, attempt, plan.codemods, plan.target, plan.within):
        if isinstance(outcome, Rewritten):
            yield outcome
        else:
            path, error = outcome
            plan.problems.append(Problem(path, error.line, str(error)))


def _settle(checkout: Checkout, plan: Plan) -> None:
    """Let each codemod have the last word on its rows, and report what is part of another repository."""
    by_name: dict[str, list[Site]] = {}
    for site in plan.sites:
        by_name.setdefault(site.codemod, []).append(site)
    for codemod in plan.codemods:
        if codemod.name in by_name:
            by_name[codemod.name] = codemod.settle(by_name[codemod.name], checkout)
    plan.sites = [site for sites in by_name.values() for site in sites]
    for submodule in checkout.submodules():
        how = f"run verl-patch apply {submodule.path} too"
        if not submodule.checked_out:
            how = f"not checked out: git submodule update --init {submodule.path}, then {how}"
        reason = f"a submodule is a repository of its own: {how}"
        plan.sites.append(Site(submodule.path, 1, 1, 1, 1, "submodule", "report", "review", "", None, reason))


def _add_files(checkout: Checkout, plan: Plan) -> None:
    """Add the modules that rewritten code imports, to the ``verl`` package that the code belongs to."""
    packages = checkout.packages() if plan.changes else []
    for codemod in plan.codemods:
        edited: dict[str, dict[str, list[Edit]]] = {}
        for change in plan.changes:
            mine = [edit for edit in change.edits if edit.codemod == codemod.name]
            if mine:
                edited.setdefault(package_of(change.path, packages), {})[change.path] = mine
        for package, by_path in edited.items():
            if package:
                for path, content in codemod.added_files(by_path, package, plan.target).items():
                    _add(checkout, plan, path, content, codemod.name)
            elif codemod.added_files(by_path, "verl", plan.target):
                _report_missing_package(plan, codemod, by_path)


def package_of(path: str, packages: Sequence[str]) -> str:
    """Return the verl package nearest to a file: the one around it, else the first; empty for none."""
    around = [package for package in packages if path.startswith(package + "/")]
    return max(around, key=len) if around else (packages[0] if packages else "")


def _add(checkout: Checkout, plan: Plan, path: str, content: bytes, codemod: str) -> None:
    existing = checkout.read_path(path)
    if existing == content or any(change.path == path for change in plan.changes):
        return
    if existing is None:
        plan.changes.append(FileChange(path, None, content, "100644", codemod=codemod))
    elif existing.partition(b"\n")[0] == content.partition(b"\n")[0]:  # by a former version
        edit = Edit(Span(0, len(existing)), codemod, "rewrite", content.decode())
        mode = next((candidate.mode for candidate in checkout.named([path])), "100644")
        plan.changes.append(FileChange(path, existing, content, mode, (edit,), codemod))
    else:
        plan.problems.append(Problem(path, 0, "exists already with other content: rename it, it would be overwritten"))


def _report_missing_package(plan: Plan, codemod: Codemod, by_path: Mapping[str, Sequence[Edit]]) -> None:
    for index, site in enumerate(plan.sites):
        if site.codemod == codemod.name and site.path in by_path and site.action == "rewrite":
            reason = (
                "this checkout has no verl package: patch the verl that it runs with too, the module is added there"
            )
            plan.sites[index] = site._replace(reason=reason)

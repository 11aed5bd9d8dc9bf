"""From a checkout to everything that would change in it: each file by itself, then what depends on other files.

Mirrors of configuration files follow the files that they repeat; code that needs a new module gets it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from verl_legacy_patch import suppression
from verl_legacy_patch.checkout import SOURCE_SUFFIXES, Candidate, Checkout
from verl_legacy_patch.checkout.gitio import to_bytes
from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.hits import find_hits
from verl_legacy_patch.languages import SUFFIXES, SourceError
from verl_legacy_patch.rewrite import Rewritten, decide_settings, finish, rewrite, unread
from verl_legacy_patch.scope import EVERYTHING, Scope, is_mirror
from verl_legacy_patch.setting import Edit, Setting, Site, Span
from verl_legacy_patch.target import Target

if TYPE_CHECKING:
    from verl_legacy_patch import mirror

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
    """Decide the files that repeat other files, by what was decided for those."""
    if not mirrors:
        return
    read = _Reader(checkout)
    decided = _Decided(read, plan)
    for result in results:
        decided[result.path] = {edit.span: edit.replacement for edit in result.edits}
    for path, content in mirrors:
        try:
            yield _mirror(path, content, read, decided, plan)
        except SourceError as error:
            plan.problems.append(Problem(path, error.line, str(error)))


def _mirror(
    path: str, source: bytes, read: _Reader, decided: Mapping[str, Mapping[Span, str | None]], plan: Plan
) -> Rewritten:
    from verl_legacy_patch import mirror
    from verl_legacy_patch.languages.yaml import settings

    if plan.within.file_reason(path):
        return rewrite(path, source, plan.codemods, plan.target, plan.within)
    places = mirror.origins(path, source, read, read.find)

    def decide(text: bytes, only: Sequence[Span] | None) -> list[Edit]:
        hits = find_hits(text, [codemod for codemod in plan.codemods if codemod.reads("yaml")], only)
        found = list(settings(text, sorted({span for spans in hits.values() for span in spans})))
        if only is not None:  # the check of a result asks for the edited places: what follows a source stays
            found = [each for each in found if any(each.span.start <= s.end and s.start <= each.span.end for s in only)]
        follows: dict[Setting, mirror.Follow] = {}
        if places is not None and only is None:
            follows = {follow.setting: follow for follow in mirror.follow(found, places, decided)}
        edits: list[Edit] = []
        for setting in found:
            for edit in decide_settings([setting], hits, plan.target):
                edits.append(_followed(edit, follows.get(setting), setting))
        return edits

    return finish(path, source, decide, "yaml", plan.codemods)


def _followed(edit: Edit, follow: mirror.Follow | None, setting: Setting) -> Edit:
    """Return what becomes of a setting of a mirror: its source's decision, else its own."""
    if follow is None or follow.action == "unknown":
        return edit
    if follow.action == "differs":
        # the source was rewritten before (by a hook, say) and the mirror was not made anew
        new = rf"(?<![\w.-]){re.escape(edit.replacement or '')}(?![\w.-])"  # perhaps in ${oc.select:key,new}
        caught_up = edit.action == "rewrite" and re.search(new, follow.replacement or "", re.IGNORECASE)
        return edit if caught_up else replace(edit, action="keep", replacement=None, reason=follow.reason)
    replacement = follow.replacement if follow.action == "rewrite" else None
    return Edit(edit.span, edit.codemod, follow.action, replacement, follow.reason, edit.grade)


class _Decided(dict[str, Mapping[Span, "str | None"]]):
    """What becomes of the sources of mirrors; one that was not among the candidates is decided when asked for."""

    def __init__(self, read: _Reader, plan: Plan) -> None:
        super().__init__()
        self._read, self._plan = read, plan

    def get(self, path: str, default: Any = None) -> Any:
        """Return the decisions about a file, looking into it first when nobody has."""
        if path not in self:
            source = self._read(path)
            outcome = None
            if source is not None:
                outcome = _attempt(path, source, self._plan.codemods, self._plan.target, self._plan.within)
            edits = outcome.edits if isinstance(outcome, Rewritten) else ()
            self[path] = {edit.span: edit.replacement for edit in edits}
        return self[path]


class _Reader:
    """Reads configuration files: the first one asked for brings its whole folder, in one go."""

    def __init__(self, checkout: Checkout) -> None:
        self._checkout = checkout
        self._known: dict[str, bytes | None] = {}

    def __call__(self, path: str) -> bytes | None:
        if path not in self._known:
            self._load(path)
        return self._known.setdefault(path, None)

    def _load(self, path: str) -> None:
        folder = path.rpartition("/")[0]
        files = [each for each in self._checkout.list_folder(folder) if each.endswith((".yaml", ".yml"))]
        for candidate, content in self._checkout.read(self._checkout.named(files)):
            self._known[candidate.path] = content

    def find(self, suffix: str) -> list[str]:
        """Return the paths of the checkout that end with ``suffix``."""
        return [path for path in self._checkout.list_folder("") if path.endswith(suffix)]


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
            plan.sites[index] = replace(site, reason=reason)

"""A walk through the hunks of a plan: accept, skip, undo; and the plan that remains. No terminal here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from verl_legacy_patch import rewrite
from verl_legacy_patch.diff import Hunk, hunks
from verl_legacy_patch.languages import SourceError, language_of
from verl_legacy_patch.plan import FileChange, Plan, Problem
from verl_legacy_patch.setting import Edit, Places, Site, Span, splice
from verl_legacy_patch.suppression import takes_comment
from verl_legacy_patch.view import in_order

SKIPPED = "skipped in the review"


@dataclass(frozen=True)
class Item:
    """One hunk to decide about. ``hunk`` is None for a new file, which goes with the codemod that needs it."""

    change: FileChange
    hunk: Hunk | None

    @property
    def codemods(self) -> frozenset[str]:
        """The codemods that have a part in the hunk."""
        return frozenset(edit.codemod for edit in self.hunk.edits) if self.hunk else frozenset((self.change.codemod,))

    @property
    def review(self) -> bool:
        """Whether a codemod in it asks for a person's look."""
        return self.hunk is not None and any(edit.grade == "review" for edit in self.hunk.edits)


@dataclass
class Review:
    """Where the walk is, and what was decided so far (item number -> accepted)."""

    plan: Plan
    items: list[Item] = field(init=False)
    decided: dict[int, bool] = field(default_factory=dict)
    at: int = 0
    _history: list[tuple[int, dict[int, bool]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """List the hunks in reading order."""
        self.items = [
            Item(change, hunk)
            for change in in_order(self.plan)
            if change.before is not None
            for hunk in hunks(change.before, change.edits)
        ]

    @property
    def current(self) -> Item | None:
        """The hunk that is asked about; None at the end."""
        return self.items[self.at] if self.at < len(self.items) else None

    def decide(self, accept: bool) -> None:
        """Accept or skip the current hunk, and go on."""
        self._settle(lambda item, number: number == self.at, accept)

    def decide_codemod(self, accept: bool) -> None:
        """Accept or skip this and every undecided hunk whose codemods are all among the current one's."""
        names = self._current().codemods
        self._settle(lambda item, number: item.codemods <= names, accept)

    def decide_file(self, accept: bool) -> None:
        """Accept or skip this and every undecided hunk of the same file."""
        path = self._current().change.path
        self._settle(lambda item, number: item.change.path == path, accept)

    def decide_rest(self, accept: bool) -> None:
        """Accept or skip whatever is undecided."""
        self._settle(lambda item, number: True, accept)

    def undo(self) -> bool:
        """Take the last step back; False when there is none."""
        if not self._history:
            return False
        self.at, self.decided = self._history.pop()
        return True

    def back(self) -> None:
        """Go to the hunk before, to decide it again."""
        self.at = max(self.at - 1, 0)

    def _settle(self, wanted: Callable[[Item, int], bool], accept: bool) -> None:
        self._history.append((self.at, dict(self.decided)))
        for number, item in enumerate(self.items):
            if number == self.at or (number not in self.decided and wanted(item, number)):
                self.decided[number] = accept
        while self.at < len(self.items) and self.at in self.decided:
            self.at += 1

    def _current(self) -> Item:
        assert self.current is not None
        return self.current

    def skipped(self) -> list[Item]:
        """Return the hunks that were not accepted; undecided ones are skipped too."""
        return [item for number, item in enumerate(self.items) if not self.decided.get(number, False)]

    def result(self) -> Plan:
        """Return the plan with just the accepted hunks, and the new files that they need.

        A file of which only a part is accepted is checked anew; one that fails is left out, and becomes a problem.
        """
        whole = {change.path: change for change in self.plan.changes}
        dropped = {(item.change.path, edit) for item in self.skipped() if item.hunk for edit in item.hunk.edits}
        changes: list[FileChange] = []
        problems: list[Problem] = []
        for change in list(_remaining(self.plan, dropped)):
            problem = _problem(self.plan, change) if change.edits != whole[change.path].edits else None
            if problem is None:
                changes.append(change)
            else:
                problems.append(problem)
                dropped |= {(change.path, edit) for edit in change.edits}
        used = {edit.codemod for change in changes for edit in change.edits}
        changes += [change for change in self.plan.changes if change.before is None and change.codemod in used]
        return replace(
            self.plan,
            changes=sorted(changes, key=lambda change: change.path),
            sites=list(_sites(self.plan, dropped)),
            problems=[*self.plan.problems, *problems],
        )


def _problem(plan: Plan, change: FileChange) -> Problem | None:
    """Check a part of a file's edits as all of them were checked: it parses, and nothing else has changed."""

    def decide(text: bytes, only: Sequence[Span] | None) -> list[Edit]:
        found = rewrite.decide(change.path, text, plan.codemods, plan.target, only, plan.within)
        if only is None:
            return found
        asked = Places(only)  # what was skipped may stand in the same statement, and still be wanted
        return [each for each in found if asked.overlapping(each.span)]

    before = change.before or b""
    try:
        rewrite.check(before, change.after, change.edits, decide, language_of(change.path, before) or "", plan.codemods)
    except SourceError as error:
        return Problem(change.path, error.line, str(error))
    except RecursionError:
        return Problem(change.path, 0, "nested too deeply")
    return None


def _remaining(plan: Plan, dropped: set[tuple[str, Edit]]) -> Iterator[FileChange]:
    for change in plan.changes:
        edits = tuple(edit for edit in change.edits if (change.path, edit) not in dropped)
        if change.before is not None and edits:
            yield change._replace(edits=edits, after=splice(change.before, edits))


def _sites(plan: Plan, dropped: set[tuple[str, Edit]]) -> Iterator[Site]:
    """Yield the sites; those of dropped edits as kept."""
    places = {}
    for change in plan.changes:
        if change.before is not None:
            for edit in change.edits:
                if (change.path, edit) in dropped:
                    places[change.path, _line(change.before, edit.span), edit.codemod, edit.replacement] = True
    for site in plan.sites:
        if site.action == "rewrite" and (site.path, site.line, site.codemod, site.after) in places:
            yield site._replace(action="keep", after=None, reason=SKIPPED)
        else:
            yield site


def _line(source: bytes, span: Span) -> int:
    return source.count(b"\n", 0, span.start) + 1


def suppressions(plan: Plan, review: Review) -> Plan:
    """Return the plan with a ``verl-patch: keep`` comment on the line of each skipped place, where one can stand."""
    wanted: dict[str, dict[int, set[str]]] = {}
    for item in review.skipped():
        for edit in item.hunk.edits if item.hunk else ():
            assert item.change.before is not None
            line = _line(item.change.before, edit.span)
            wanted.setdefault(item.change.path, {}).setdefault(line, set()).add(edit.codemod)
    originals = {change.path: change for change in review.plan.changes}
    kept = {change.path: change for change in plan.changes}
    for path, lines in wanted.items():
        original = kept.get(path) or originals[path]._replace(edits=())
        before = original.before or b""
        language = language_of(path, before) or ""
        wished = filter(None, (_comment(before, line, names) for line, names in sorted(lines.items())))
        comments = tuple(comment for comment in wished if takes_comment(before, comment, language))
        if comments:
            edits = tuple(sorted((*original.edits, *comments), key=lambda edit: edit.span))
            kept[path] = original._replace(edits=edits, after=splice(before, edits))
    return replace(plan, changes=sorted(kept.values(), key=lambda change: change.path))


def _comment(source: bytes, line: int, names: set[str]) -> Edit | None:
    """Return the edit that ends a line with the comment; None where the line goes on in the next one."""
    start = 0
    for _ in range(line - 1):
        start = source.index(b"\n", start) + 1
    end = source.find(b"\n", start)
    end = len(source) if end < 0 else end
    text = source[start:end].rstrip(b"\r")
    if text.endswith(b"\\"):
        return None
    at = Span(start + len(text), start + len(text))
    return Edit(at, "suppression", "rewrite", f"  # verl-patch: keep[{', '.join(sorted(names))}]")

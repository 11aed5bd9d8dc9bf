"""The pure heart: the bytes of one file in, the new bytes and the sites out. No disk, no git.

Dry run, check, hook and apply all call ``rewrite`` and differ only in what they do with the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from verl_legacy_patch import suppression
from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.hits import find_hits
from verl_legacy_patch.languages import SourceError, language_of
from verl_legacy_patch.scope import EVERYTHING, Scope, setting_reason
from verl_legacy_patch.setting import Edit, Lines, Setting, Site, Span, splice
from verl_legacy_patch.target import Target

if TYPE_CHECKING:
    from verl_legacy_patch.verify import Decide

NOTEBOOK = "a notebook: its cells are not rewritten"
BY_HAND = "in a notebook, whose cells are not rewritten: change it by hand"
#: Stands for the codemod in the row of a file that nobody reads.
WHOLE_FILE = "*"


class Rewritten(NamedTuple):
    """What became of one file."""

    path: str
    before: bytes
    after: bytes
    edits: tuple[Edit, ...]
    sites: tuple[Site, ...]
    unused_suppressions: tuple[suppression.Unused, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether any byte differs."""
        return self.after != self.before


def rewrite(
    path: str, source: bytes, codemods: Sequence[Codemod], target: Target, within: Scope = EVERYTHING
) -> Rewritten:
    """Rewrite one file.

    Args:
        path: path in the checkout, with forward slashes; decides language and scope.
        source: the bytes of the file.
        codemods: those that apply to ``target``.
        target: what to rewrite to.
        within: what is out of scope.

    Raises:
        SourceError: the file cannot be read as its language says, or the result fails a check.
    """
    language = language_of(path, source) or ""
    return finish(
        path, source, lambda text, only: decide(path, text, codemods, target, only, within), language, codemods
    )


def finish(path: str, source: bytes, decide: Decide, language: str, codemods: Sequence[Codemod]) -> Rewritten:
    """Decide about a file, carry the edits out and check the result. See ``rewrite`` for the errors."""
    try:
        return _finish(path, source, decide, language, codemods)
    except RecursionError:
        raise SourceError("nested too deeply") from None


def _finish(path: str, source: bytes, decide: Decide, language: str, codemods: Sequence[Codemod]) -> Rewritten:
    decided = decide(source, None)
    edits = tuple(suppression.suppressed(source, decided))
    after = splice(source, edits)
    if after != source:
        check(source, after, edits, decide, language, codemods)
    unused = tuple(suppression.unused(source, decided, language))
    return Rewritten(path, source, after, edits, tuple(sites(path, source, edits)), unused)


def check(
    source: bytes, after: bytes, edits: Sequence[Edit], decide: Decide, language: str, codemods: Sequence[Codemod]
) -> None:
    """Check what a file would become; see ``verify`` for what and for the errors."""
    from verl_legacy_patch.verify import verify

    def triggered(text: bytes) -> Iterator[Span]:
        for found in find_hits(text, codemods).values():
            yield from found

    def again(text: bytes, only: Sequence[Span] | None) -> list[Edit]:
        return suppression.suppressed(text, decide(text, only))

    verify(language, source, after, edits, again, triggered)


def unread(path: str, reason: str) -> Rewritten:
    """Return the one row of a file that is out of scope by its path: nobody reads it."""
    return Rewritten(path, b"", b"", (), (Site(path, 1, 1, 1, 1, WHOLE_FILE, "keep", "safe", "", None, reason),))


def decide(
    path: str,
    source: bytes,
    codemods: Sequence[Codemod],
    target: Target,
    only: Sequence[Span] | None = None,
    within: Scope = EVERYTHING,
) -> list[Edit]:
    """Return what should become of each place of a file, in file order.

    Args:
        path: path in the checkout.
        source: the bytes of the file.
        codemods: those that apply to ``target``.
        target: what to rewrite to.
        only: look around these spans, in Python at the statements that touch one of them, and nowhere else.
        within: what is out of scope.

    Raises:
        SourceError: the file cannot be read as its language says.
    """
    language = language_of(path, source)
    codemods = [codemod for codemod in codemods if codemod.reads(language)]
    reason = within.file_reason(path, source) or ("" if language else _unread(path))
    if path.endswith(".ipynb") and reason == NOTEBOOK:
        return _notebook(source, codemods, target)
    if reason:
        return _left_alone(source, codemods, reason)
    hits = find_hits(source, codemods, only)
    if not hits:
        return []
    spans = sorted({span for codemod, found in hits.items() if _looks_closer(codemod) for span in found})
    edits: list[Edit] = []
    if language == "python":
        from verl_legacy_patch.languages.python import statements
        from verl_legacy_patch.languages.python.values import statement_settings

        matched = {codemod: frozenset(found) for codemod, found in hits.items()}
        for statement in statements(source, spans, only):
            edits += decide_settings(statement_settings(statement), hits, target)
            inside = statement.hits
            for codemod, found in matched.items():
                if any(hit in found for hit in inside):
                    edits += codemod.visit(statement, target)
    else:
        holders = list(adapter(language or "")(source, spans))
        edits += _agreed(holders, list(decide_settings(holders, hits, target)), hits, target)
    for codemod in hits:
        edits += codemod.inspect(source, language or "", target)
    return _settled(edits)


def _looks_closer(codemod: Codemod) -> bool:
    """Return whether a codemod is asked about settings or statements: one that only inspects files needs none read."""
    kind = type(codemod)
    return kind.decide is not Codemod.decide or kind.visit is not Codemod.visit


def decide_settings(settings: Iterable[Setting], codemods: Iterable[Codemod], target: Target) -> Iterator[Edit]:
    """Yield what the codemods want done with settings; out-of-scope ones stay, with the reason."""
    codemods = list(codemods)
    for setting in settings:
        for codemod in codemods:
            edit = codemod.decide(setting, target)
            if edit is None:
                continue
            if edit.action != "keep" and (reason := setting_reason(setting)):
                edit = edit._replace(action="keep", replacement=None, reason=reason)
            yield edit


def _agreed(found: Sequence[Setting], edits: list[Edit], codemods: Iterable[Codemod], target: Target) -> Iterator[Edit]:
    """Pass edits on; one value that stands under several keys changes only if all of its uses may.

    A YAML anchor is one place for all its aliases. (An anchor under a private key such as ``_shared`` is a mere
    holder: it has no say.)
    """
    uses: dict[Span, list[Setting]] = {}
    for setting in found:
        if setting.position in ("YAML value", "YAML alias"):
            uses.setdefault(setting.span, []).append(setting)
    names = {codemod.name: codemod for codemod in codemods}
    for edit in edits:
        others = uses.get(edit.span, ())
        if edit.action == "rewrite" and len(others) > 1:
            against = [one for one in others if not _rewrites(names[edit.codemod], one, target)]
            if against:
                keys = ", ".join(sorted(".".join(one.path) for one in against))
                reason = f"the anchor also gives {keys} its value: write both out, then run again"
                edit = edit._replace(action="report", replacement=None, reason=reason)
        yield edit


def _rewrites(codemod: Codemod, setting: Setting, target: Target) -> bool:
    return any(edit.action == "rewrite" for edit in decide_settings([setting], [codemod], target))


def sites(path: str, source: bytes, edits: Iterable[Edit]) -> Iterator[Site]:
    """Yield one row per edit, with lines and columns."""
    lines = Lines(source)
    for edit in edits:
        start, end = lines.locate(edit.span.start), lines.locate(edit.span.end)
        before = source[edit.span.start : edit.span.end].decode("utf-8", "replace")
        place = (path, *start, *end)
        after, said = edit.replacement, (edit.reason, edit.key)
        yield Site(*place, edit.codemod, edit.action, edit.grade, before, after, *said)


def adapter(language: str) -> Callable[[bytes, Sequence[Span]], Iterable[Setting]]:
    """Return what finds the settings of a language."""
    from importlib import import_module

    room = "yaml" if language == "json" else language
    settings: Callable[[bytes, Sequence[Span]], Iterable[Setting]]
    settings = import_module(f"verl_legacy_patch.languages.{room}").settings
    return settings


def _left_alone(source: bytes, codemods: Iterable[Codemod], reason: str) -> list[Edit]:
    """Return one row per codemod for a file that nobody looks into: where its trigger matches first, and how often."""
    rows = []
    for codemod, hits in find_hits(source, codemods).items():
        places = f" ({len(hits)} places)" if len(hits) > 1 else ""
        rows.append(Edit(hits[0], codemod.name, "keep", None, reason + places, codemod.grade))
    return sorted(rows, key=lambda edit: edit.span)


def _notebook(source: bytes, codemods: Sequence[Codemod], target: Target) -> list[Edit]:
    """Return the rows for a notebook: what its code chooses is reported, all else is left alone."""
    from verl_legacy_patch.languages.notebook import cells

    rows: list[Edit] = []
    for cell in cells(source) if find_hits(source, codemods) else ():
        try:
            edits = decide(cell.name, cell.text.encode(), codemods, target)
        except SourceError:
            continue  # a magic that is no Python
        for edit in edits:
            if edit.action != "keep":
                rows.append(
                    edit._replace(span=cell.locate(edit.span), action="report", replacement=None, reason=BY_HAND)
                )
    known = {edit.codemod for edit in rows}
    rows += [edit for edit in _left_alone(source, codemods, NOTEBOOK) if edit.codemod not in known]
    return _settled(rows)


def _unread(path: str) -> str:
    return NOTEBOOK if path.endswith(".ipynb") else "neither code nor configuration"


def _settled(edits: Iterable[Edit]) -> list[Edit]:
    """Merge what several keys or codemods say of the same span: the strongest action wins, once."""
    rank = {"rewrite": 0, "report": 1, "keep": 2}
    best: dict[tuple[Span, str], Edit] = {}
    for edit in edits:
        known = best.get((edit.span, edit.codemod))
        if known is None or rank[edit.action] < rank[known.action]:
            best[edit.span, edit.codemod] = edit
    return sorted(best.values(), key=lambda edit: (edit.span, edit.codemod))

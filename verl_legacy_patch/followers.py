"""The files that repeat other files: generated and legacy copies of configuration follow their sources."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from verl_legacy_patch.checkout import Checkout
from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.hits import find_hits
from verl_legacy_patch.languages import SourceError
from verl_legacy_patch.rewrite import Rewritten, decide_settings, finish, rewrite
from verl_legacy_patch.scope import Scope
from verl_legacy_patch.setting import Edit, Places, Setting, Span
from verl_legacy_patch.target import Target

if TYPE_CHECKING:
    from verl_legacy_patch import mirror

#: Decides about an ordinary file; None for one that cannot be read.
Attempt = Callable[[str, bytes], "Rewritten | None"]


def follow_sources(
    checkout: Checkout,
    mirrors: Sequence[tuple[str, bytes]],
    results: Sequence[Rewritten],
    attempt: Attempt,
    codemods: Sequence[Codemod],
    target: Target,
    within: Scope,
) -> Iterator[Rewritten | tuple[str, SourceError]]:
    """Decide the files that repeat other files, by what was decided for those.

    Args:
        checkout: where the files come from.
        mirrors: path and content of each of them.
        results: what was decided so far.
        attempt: decides about a source that is not among the results.
        codemods: those that apply to ``target``.
        target: what to rewrite to.
        within: what is out of scope.

    Yields:
        What becomes of each, or its path and why it cannot be rewritten.
    """
    read = _Reader(checkout)
    decided = _Decided(read, attempt)
    for result in results:
        decided[result.path] = {edit.span: edit.replacement for edit in result.edits}
    for path, content in mirrors:
        try:
            if within.file_reason(path):
                yield rewrite(path, content, codemods, target, within)
            else:
                yield _mirror(path, content, read, decided, codemods, target)
        except SourceError as error:
            yield path, error


def _mirror(
    path: str,
    source: bytes,
    read: _Reader,
    decided: Mapping[str, Mapping[Span, str | None]],
    codemods: Sequence[Codemod],
    target: Target,
) -> Rewritten:
    from verl_legacy_patch import mirror
    from verl_legacy_patch.languages.yaml import settings

    places = mirror.origins(path, source, read, read.find)

    def decide(text: bytes, only: Sequence[Span] | None) -> list[Edit]:
        hits = find_hits(text, [codemod for codemod in codemods if codemod.reads("yaml")], only)
        found = list(settings(text, sorted({span for spans in hits.values() for span in spans})))
        if only is not None:  # the check of a result asks for the edited places: what follows a source stays
            asked = Places(only)
            found = [each for each in found if asked.touching(each.span)]
        follows: dict[Setting, mirror.Follow] = {}
        if places is not None and only is None:
            follows = {follow.setting: follow for follow in mirror.follow(found, places, decided)}
        edits: list[Edit] = []
        for setting in found:
            for edit in decide_settings([setting], hits, target):
                edits.append(_followed(edit, follows.get(setting), setting))
        return edits

    return finish(path, source, decide, "yaml", codemods)


def _followed(edit: Edit, follow: mirror.Follow | None, setting: Setting) -> Edit:
    """Return what becomes of a setting of a mirror: its source's decision, else its own."""
    if follow is None or follow.action == "unknown":
        return edit
    if follow.action == "differs":
        # the source was rewritten before (by a hook, say) and the mirror was not made anew
        new = rf"(?<![\w.-]){re.escape(edit.replacement or '')}(?![\w.-])"  # perhaps in ${oc.select:key,new}
        caught_up = edit.action == "rewrite" and re.search(new, follow.replacement or "", re.IGNORECASE)
        return edit if caught_up else edit._replace(action="keep", replacement=None, reason=follow.reason)
    replacement = follow.replacement if follow.action == "rewrite" else None
    return Edit(edit.span, edit.codemod, follow.action, replacement, follow.reason, edit.grade)


class _Decided(dict[str, Mapping[Span, "str | None"]]):
    """What becomes of the sources of mirrors; one that was not among the candidates is decided when asked for."""

    def __init__(self, read: _Reader, attempt: Attempt) -> None:
        super().__init__()
        self._read, self._attempt = read, attempt

    def get(self, path: str, default: Any = None) -> Any:
        """Return the decisions about a file, looking into it first when nobody has."""
        if path not in self:
            source = self._read(path)
            outcome = None if source is None else self._attempt(path, source)
            edits = outcome.edits if outcome is not None else ()
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

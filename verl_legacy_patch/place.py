"""Why one line of a file is rewritten, kept or passed over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from verl_legacy_patch.checkout.gitio import show
from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.hits import find_hits
from verl_legacy_patch.languages import SourceError, language_of
from verl_legacy_patch.plan import Plan
from verl_legacy_patch.rewrite import WHOLE_FILE, adapter
from verl_legacy_patch.scope import setting_reason
from verl_legacy_patch.setting import Lines, Places, Setting, Site, Span

_LONGEST = 100
#: Where a value of a call stands that nobody would call a setting.
_PARTS = ("cast", "expression", "positional argument", "receiver")


def explain_line(path: str, source: bytes, line: int, plan: Plan) -> list[str]:
    """Return what there is to say about a line (from 1), in lines for people.

    Args:
        path: path in the checkout.
        source: the bytes of the file.
        line: the line.
        plan: the plan of just this file.
    """
    span = _span(source, line)
    text = source[span.start : span.end].decode("utf-8", "replace").strip()
    lines = [show(f"{path}:{line}"), f"  {show(text)}" if text else "  (an empty line)"]
    whole = [site for site in plan.sites if site.codemod == WHOLE_FILE]
    here = [site for site in plan.sites if site.line <= line <= site.end_line and site not in whole]
    if not here:
        unread = [site.reason for site in whole] or [_unread(path, source, plan)]
        if unread[0]:
            return [*lines, "", *(f"  Nothing in this file is rewritten: {show(reason)}." for reason in unread)]
    settings = list(_settings(path, source, span))
    for site in here:
        lines += ["", *_site(site, [one for one in settings if _covers(site, one, source)], plan)]
    if not here:
        lines += ["", *_nothing(settings, source, span, plan.codemods, text)]
    return lines


def _unread(path: str, source: bytes, plan: Plan) -> str:
    """Return why a file is left alone that holds no word of a codemod; empty for one that is read."""
    language = language_of(path, source)
    return plan.within.file_reason(path, source) or ("" if language else "neither code nor configuration")


def _site(site: Site, settings: Sequence[Setting], plan: Plan) -> Iterator[str]:
    before = _short(site.before) or "this place"
    done = {
        "rewrite": f"{before} becomes {_short(site.after or 'nothing')}"
        if site.before
        else f"adds {_short(site.after)}",
        "keep": f"{before} stays",
        "report": f"{before} is not rewritten, a person has to decide",
    }[site.action]
    yield f"  {site.codemod} ({site.grade}), column {site.column}: {done}."
    if site.reason:
        yield f"    Reason: {show(site.reason)}."
    for setting in settings:
        yield f"    Found as: {_described(setting)}."
    summary = next((mod.summary_for(plan.target) for mod in plan.codemods if mod.name == site.codemod), "")
    if summary:
        yield f"    {summary} More: verl-patch explain {site.codemod}"


def _nothing(
    settings: Sequence[Setting], source: bytes, span: Span, codemods: Sequence[Codemod], text: str
) -> Iterator[str]:
    """Yield why nothing happens on a line that no codemod said anything about."""
    hits = {mod.name: Places(found).overlapping(span) for mod, found in find_hits(source, codemods).items()}
    words = sorted(name for name, found in hits.items() if found)
    if text.startswith("#"):
        yield "  Nothing to do: the line is a comment."
    elif not words:
        yield "  Nothing to do: no codemod looks for anything that stands here."
    else:
        yield f"  Nothing to do, although {', '.join(words)} looked: what stands here is no setting of theirs."
        yield "  (Text in docstrings, messages and names is not a setting; a value counts by its key.)"
    looked = Places(hit for found in hits.values() for hit in found)
    shown = (one for one in settings if _is_setting(one) or looked.overlapping(one.span))
    yield from dict.fromkeys(f"    What stands here: {_described(setting)}{_because(setting)}." for setting in shown)


def _is_setting(setting: Setting) -> bool:
    """Return whether a value stands under a key, for people: the parts of a call do so for the program only."""
    return bool(setting.path) and setting.position not in _PARTS and not setting.names


def _because(setting: Setting) -> str:
    reason = setting_reason(setting) or setting.names
    return f"; {reason}" if reason else ""


def _described(setting: Setting) -> str:
    return show(f"{setting.position}, key {'.'.join(setting.path) or '(none)'}, value {_short(setting.value)}")


def _short(text: str | None) -> str:
    """Return a text in one line of bearable length, without the commas and line ends of what is inserted."""
    line = show(" ".join((text or "").split()).strip(" ,"))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


def _settings(path: str, source: bytes, span: Span) -> Iterator[Setting]:
    """Yield every setting of the line, whether a codemod knows its value or not."""
    language = language_of(path, source)
    try:
        # a requirement has no key, and its reader takes every string for one
        found = list(adapter(language)(source, [span])) if language and language != "requirements" else []
    except SourceError:
        return
    line = Places([span])
    yield from (one for one in found if line.overlapping(one.span))


def _covers(site: Site, setting: Setting, source: bytes) -> bool:
    return Lines(source).locate(setting.span.start) == (site.line, site.column)


def _span(source: bytes, line: int) -> Span:
    lines = source.split(b"\n")
    if not 0 < line <= len(lines):
        raise ValueError(f"the file has no line {line}")
    start = sum(len(one) + 1 for one in lines[: line - 1])
    inside = lines[line - 1]
    # from the first word to the last: a script's words are found by what a span overlaps
    return Span(start + len(inside) - len(inside.lstrip()), start + len(inside.rstrip()))

"""Why one line of a file is rewritten, kept or passed over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.hits import find_hits
from verl_legacy_patch.languages import SourceError, language_of
from verl_legacy_patch.plan import Plan
from verl_legacy_patch.rewrite import adapter
from verl_legacy_patch.scope import setting_reason
from verl_legacy_patch.setting import Setting, Site, Span


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
    lines = [f"{path}:{line}", f"  {text}" if text else "  (an empty line)"]
    whole = [site for site in plan.sites if not site.before and site.action != "rewrite" and site.line == 1]
    here = [site for site in plan.sites if site.line <= line <= site.end_line and site not in whole]
    if whole and not here:
        return [*lines, *(f"  Out of scope: {site.reason}." for site in whole)]
    settings = list(_settings(path, source, span))
    for site in here:
        lines += ["", *_site(site, [one for one in settings if _covers(site, one, source)], plan.codemods)]
    if not here:
        lines += ["", *_nothing(settings, source, span, plan.codemods, text)]
    return lines


def _site(site: Site, settings: Sequence[Setting], codemods: Iterable[Codemod]) -> Iterator[str]:
    done = {
        "rewrite": f"rewritten to {site.after!r}" if site.before else f"gets {site.after!r}",
        "keep": "kept",
        "report": "not rewritten, a person has to decide",
    }[site.action]
    yield f"  {site.codemod} ({site.grade}), column {site.column}: {site.before or 'this place'} is {done}."
    if site.reason:
        yield f"    Reason: {site.reason}."
    for setting in settings:
        yield f"    Found as: {setting.position}, key {'.'.join(setting.path) or '(none)'}, value {setting.value}."
    summary = next((codemod.summary() for codemod in codemods if codemod.name == site.codemod), "")
    if summary:
        yield f"    {summary} More: verl-patch explain {site.codemod}"


def _nothing(
    settings: Sequence[Setting], source: bytes, span: Span, codemods: Sequence[Codemod], text: str
) -> Iterator[str]:
    """Yield why nothing happens on a line that no codemod said anything about."""
    hits = find_hits(source, codemods)
    words = sorted(
        {mod.name for mod, found in hits.items() if any(h.start < span.end and h.end > span.start for h in found)}
    )
    if text.startswith("#"):
        yield "  Nothing to do: the line is a comment."
    elif not words:
        yield "  Nothing to do: no codemod looks for anything that stands here."
    else:
        yield f"  Nothing to do, although {', '.join(words)} looked: what stands here is no setting of theirs."
        yield "  (Text in docstrings, messages and names is not a setting; a value counts by its key.)"
    for setting in settings:
        reason = setting_reason(setting) or setting.names
        said = f"; {reason}" if reason else ""
        yield f"    {setting.position}, key {'.'.join(setting.path) or '(none)'}, value {setting.value}{said}"


def _settings(path: str, source: bytes, span: Span) -> Iterator[Setting]:
    """Yield every setting of the line, whether a codemod knows its value or not."""
    language = language_of(path, source)
    try:
        found = list(adapter(language)(source, [span])) if language else []
    except SourceError:
        return
    yield from (one for one in found if one.span.start < span.end and one.span.end > span.start)


def _covers(site: Site, setting: Setting, source: bytes) -> bool:
    start = source.count(b"\n", 0, setting.span.start) + 1
    at = setting.span.start - (source.rfind(b"\n", 0, setting.span.start) + 1)
    column = len(source[setting.span.start - at : setting.span.start].decode("utf-8", "replace")) + 1
    return (start, column) == (site.line, site.column)


def _span(source: bytes, line: int) -> Span:
    start = 0
    for _ in range(line - 1):
        start = source.find(b"\n", start) + 1
        if start == 0:
            raise ValueError(f"the file has no line {line}")
    end = source.find(b"\n", start)
    return Span(start, len(source) if end < 0 else end)

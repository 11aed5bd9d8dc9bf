"""Sites as other tools read them: one line each, annotations of GitHub Actions, SARIF."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from verl_legacy_patch import __version__
from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.setting import Site

HOMEPAGE = "https://pypi.org/project/verl-legacy-patch/"
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


#: The rule of comments that keep nothing, beside those of the codemods.
UNUSED = "unused-suppression"


class Note(NamedTuple):
    """Something to say about a line that is no site: a comment that keeps nothing."""

    path: str
    line: int
    text: str


def from_here(root: Path) -> Callable[[str], str]:
    """Return what shows a path of the checkout so that one can open it from the current folder."""
    try:
        here = Path.cwd().resolve()
    except OSError:  # it has been removed
        return lambda path: f"{root}/{path}"
    if root == here:
        return lambda path: path
    if here.is_relative_to(root) or root.is_relative_to(here):
        return lambda path: os.path.relpath(f"{root}/{path}", here)
    return lambda path: f"{root}/{path}"


def from_workspace(root: Path) -> Callable[[str], str]:
    """Return what shows a path as annotations of GitHub Actions do: from the top of its workspace."""
    top = os.environ.get("GITHUB_WORKSPACE")
    real = Path(top).resolve() if top else root
    before = f"{root.relative_to(real).as_posix()}/" if root != real and root.is_relative_to(real) else ""
    return lambda path: before + path


def message(site: Site) -> str:
    """Return what there is to say about a site, in one line."""
    before, after, reason = _flat(site.before), _flat(site.after or ""), _flat(site.reason)
    if site.action != "rewrite":
        return f"{before}: {reason}" if before else reason
    if not before:
        said = f"insert {after}"
    elif not after:
        said = f"remove {before}"
    else:
        said = f"{before} -> {after}"
    return f"{said} ({reason})" if reason else said


def line(site: Site | Note, shown: Callable[[str], str] = str) -> str:
    """Return ``path:line:column codemod message``, with the path as ``shown``."""
    path = _one_line(shown(site.path))
    if isinstance(site, Note):
        return f"{path}:{site.line}: {site.text}"
    return f"{path}:{site.line}:{site.column} {site.codemod} {message(site)}"


def github(site: Site | Note, shown: Callable[[str], str] = str) -> str:
    """Return the workflow command that shows a site as an annotation in a pull request."""
    place = f"file={_property(shown(site.path))},line={site.line}"
    if isinstance(site, Note):
        return f"::warning {place},title=verl-patch {UNUSED}::{_data(site.text)}"
    place += f",col={site.column},endLine={site.end_line}"
    if site.end_line == site.line:  # GitHub drops annotations with columns over several lines
        place += f",endColumn={site.end_column}"
    level = "error" if site.action == "rewrite" else "warning"
    return f"::{level} {place},title=verl-patch {site.codemod}::{_data(message(site))}"


def sarif(sites: Iterable[Site], codemods: Sequence[Codemod], notes: Iterable[Note] = ()) -> dict[str, Any]:
    """Return a SARIF 2.1.0 log of the sites, with the change as a fix."""
    rules: list[dict[str, Any]] = [
        {
            "id": codemod.name,
            "shortDescription": {"text": codemod.summary()},
            "fullDescription": {"text": codemod.doc()},
            "defaultConfiguration": {"level": "error" if codemod.grade == "safe" else "warning"},
        }
        for codemod in codemods
    ]
    summaries = {codemod.name: codemod.summary() for codemod in codemods}
    text = {"text": "A comment that keeps nothing."}
    rules.append({"id": UNUSED, "shortDescription": text, "defaultConfiguration": {"level": "note"}})
    driver = {"name": "verl-patch", "version": __version__, "informationUri": HOMEPAGE, "rules": rules}
    return {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {"ROOT": {"description": {"text": "the root of the checkout"}}},
                "results": [*(_result(site, summaries.get(site.codemod, "")) for site in sites), *map(_note, notes)],
            }
        ],
    }


def _explained(site: Site, summary: str) -> str:
    """Return what is said where the line is not seen: a list of alerts shows neither the key nor the rule."""
    key = f"{_flat(site.key)}: " if site.key else ""
    why = f". {summary}" if summary and not site.reason else ""
    return f"{site.codemod}: {key}{message(site)}{why}"


def _result(site: Site, summary: str) -> dict[str, Any]:
    region = {
        "startLine": site.line,
        "startColumn": site.column,
        "endLine": site.end_line,
        "endColumn": site.end_column,
    }
    artifact = _artifact(site.path)
    result: dict[str, Any] = {
        "ruleId": site.codemod,
        "level": "error" if site.action == "rewrite" else "note",
        "message": {"text": _explained(site, summary)},
        "locations": [{"physicalLocation": {"artifactLocation": artifact, "region": region}}],
    }
    if site.after is not None:
        replacement = {"deletedRegion": region, "insertedContent": {"text": site.after}}
        change = {"artifactLocation": artifact, "replacements": [replacement]}
        result["fixes"] = [{"description": {"text": message(site)}, "artifactChanges": [change]}]
    return result


def _note(note: Note) -> dict[str, Any]:
    place = {"artifactLocation": _artifact(note.path), "region": {"startLine": note.line}}
    locations = [{"physicalLocation": place}]
    return {"ruleId": UNUSED, "level": "note", "message": {"text": note.text}, "locations": locations}


def _artifact(path: str) -> dict[str, str]:
    from urllib.parse import quote

    return {"uri": quote(path.encode("utf-8", "surrogateescape")), "uriBaseId": "ROOT"}


def _one_line(path: str) -> str:
    from verl_legacy_patch.checkout.gitio import show

    return show(path)


def _flat(text: str) -> str:
    return " ".join(text.split())


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")

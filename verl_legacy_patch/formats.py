"""Sites as other tools read them: one line each, annotations of GitHub Actions, SARIF."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from verl_legacy_patch import __version__
from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.setting import Site

HOMEPAGE = "https://pypi.org/project/verl-legacy-patch/"
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def message(site: Site) -> str:
    """Return what there is to say about a site, in one line."""
    before, after = _flat(site.before), _flat(site.after or "")
    if site.action != "rewrite":
        return f"{before}: {site.reason}" if before else site.reason
    if not before:
        said = f"insert {after}"
    elif not after:
        said = f"remove {before}"
    else:
        said = f"{before} -> {after}"
    return f"{said} ({site.reason})" if site.reason else said


def line(site: Site) -> str:
    """Return ``path:line:column codemod message``."""
    return f"{site.path}:{site.line}:{site.column} {site.codemod} {message(site)}"


def github(site: Site) -> str:
    """Return the workflow command that shows a site as an annotation in a pull request."""
    place = f"file={_property(site.path)},line={site.line},col={site.column}"
    if site.end_line == site.line:
        place += f",endColumn={site.end_column}"
    level = "error" if site.action == "rewrite" else "warning"
    return f"::{level} {place},endLine={site.end_line},title=verl-patch {site.codemod}::{_data(message(site))}"


def sarif(sites: Iterable[Site], codemods: Sequence[Codemod]) -> dict[str, Any]:
    """Return a SARIF 2.1.0 log of the sites, with the change as a fix."""
    rules = [
        {
            "id": codemod.name,
            "shortDescription": {"text": codemod.summary()},
            "fullDescription": {"text": codemod.doc()},
            "defaultConfiguration": {"level": "error" if codemod.grade == "safe" else "warning"},
        }
        for codemod in codemods
    ]
    driver = {"name": "verl-patch", "version": __version__, "informationUri": HOMEPAGE, "rules": rules}
    return {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {"ROOT": {"description": {"text": "the root of the checkout"}}},
                "results": [_result(site) for site in sites],
            }
        ],
    }


def _result(site: Site) -> dict[str, Any]:
    from urllib.parse import quote

    region = {
        "startLine": site.line,
        "startColumn": site.column,
        "endLine": site.end_line,
        "endColumn": site.end_column,
    }
    artifact = {"uri": quote(site.path.encode("utf-8", "surrogateescape")), "uriBaseId": "ROOT"}
    result: dict[str, Any] = {
        "ruleId": site.codemod,
        "level": "error" if site.action == "rewrite" else "note",
        "message": {"text": message(site)},
        "locations": [{"physicalLocation": {"artifactLocation": artifact, "region": region}}],
    }
    if site.after is not None:
        replacement = {"deletedRegion": region, "insertedContent": {"text": site.after}}
        change = {"artifactLocation": artifact, "replacements": [replacement]}
        result["fixes"] = [{"description": {"text": message(site)}, "artifactChanges": [change]}]
    return result


def _flat(text: str) -> str:
    return " ".join(text.split())


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")

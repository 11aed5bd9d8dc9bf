"""Brings the generated parts of the documentation up to date: run it after a change of codemods, options or output.

    python scripts/docs.py            rewrite what is out of date
    python scripts/docs.py --check    name what is out of date, and exit with 1

A generated part stands between ``<!-- generated: NAME -->`` and ``<!-- end: NAME -->``; ``parts.py`` makes each from
the code, so that a table cannot say something else than the program does. The pictures come from the demo.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(HERE)]  # the latter is missing under PYTHONSAFEPATH

from parts import PARTS, Texts  # noqa: E402
from picture import picture  # noqa: E402

from verl_legacy_patch.codemod import discover  # noqa: E402

DOCUMENTS = {"README.md": "en", "README.zh.md": "zh", "docs/fork.md": "en", "docs/fork.zh.md": "zh"}
PICTURES = {"docs/dry-run.svg": picture}

_PART = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end: \2 -->)", re.DOTALL)


def wanted() -> Iterator[tuple[Path, str]]:
    """Yield every file that has generated content, with the content it should have; say what translations lack."""
    languages = {language: Texts(language) for language in DOCUMENTS.values()}
    for name, language in DOCUMENTS.items():
        yield ROOT / name, _filled((ROOT / name).read_text(encoding="utf-8"), languages[language])
    for texts in languages.values():
        for text in sorted(texts.missing):
            print(f"note: {texts.language}.yaml has no translation of: {text}", file=sys.stderr)
        for text in sorted(texts.known.keys() - texts.used):
            print(f"note: {texts.language}.yaml translates what is no longer said: {text}", file=sys.stderr)
    for name, draw in PICTURES.items():
        yield ROOT / name, draw()


def _filled(document: str, texts: Texts) -> str:
    """Return a document with its parts made anew."""
    return _PART.sub(lambda match: f"{match[1]}{PARTS[match[2]](texts).strip()}\n{match[3]}", document)


def main(arguments: list[str]) -> int:
    """Write or check; return the exit code."""
    check = arguments == ["--check"]
    if arguments and not check:
        print(__doc__, file=sys.stderr)
        return 2
    if foreign := [codemod.name for codemod in discover().values() if codemod.foreign()]:
        print(f"codemods of other packages would get into the tables: {', '.join(foreign)}. Uninstall them here first")
        return 1
    stale = 0
    for path, content in wanted():
        if path.exists() and path.read_text(encoding="utf-8") == content:
            continue
        stale += 1
        print(f"{path.relative_to(ROOT)} {'is out of date: run python scripts/docs.py' if check else 'updated'}")
        if not check:
            path.write_text(content, encoding="utf-8", newline="\n")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

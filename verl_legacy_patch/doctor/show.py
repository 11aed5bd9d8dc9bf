"""What doctor says, as lines for people and as data for programs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from verl_legacy_patch import __version__
from verl_legacy_patch.capability import DEFAULT_CAPABILITY
from verl_legacy_patch.doctor.catalogue import Entry, entries
from verl_legacy_patch.doctor.checks.machine import describe
from verl_legacy_patch.doctor.environment import Environment
from verl_legacy_patch.doctor.facts import install_torch
from verl_legacy_patch.doctor.findings import Case, Finding, Level, sentences
from verl_legacy_patch.doctor.install import Step, steps
from verl_legacy_patch.doctor.told import filled, told

#: Version of the JSON, which ``schema/doctor-1.json`` describes.
FORMAT = 1
#: The finding that is shown before anything else.
AHEAD = "own-environment"

WORDS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "fails": "will fail", "warns": "may fail", "note": "note", "colon": ": ",
        "message": "seen as", "detail": "here", "why": "why", "cure": "cure", "source": "source", "also": "see also",
        "gpus": "GPUs", "driver": "driver", "python": "Python", "torch": "PyTorch", "packages": "packages",
        "checkout": "checkout", "checked": "checked for", "none": "none",
        "fine": "Nothing found that would fail.",
        "count": "{fails} will fail, {warns} may fail.",
        "nothing": "No entry of the catalogue explains this message. Give more of the log: "
        "verl-patch doctor --message - < LOG. Or look at the machine: verl-patch doctor {checkout}",
        "empty": "There is no message to explain.",
        "nowhere": "none here; verl-patch doctor ~/verl looks at one",
        "configured": " (gpu = {gpu} in {file}; --gpu auto: for this machine)",
        "install": "install for this card and this release",
    },
    "zh": {
        "fails": "会失败", "warns": "可能失败", "note": "提示", "colon": "：",
        "message": "报错", "detail": "这里", "why": "原因", "cure": "解决", "source": "来源", "also": "另见",
        "gpus": "显卡", "driver": "驱动", "python": "Python", "torch": "PyTorch", "packages": "软件包",
        "checkout": "代码", "checked": "检查对象", "none": "无",
        "fine": "没有发现会失败的地方。",
        "count": "{fails} 项会失败，{warns} 项可能失败。",
        "nothing": "目录里没有能解释这条信息的条目。可以给出更多日志：verl-patch doctor --message - < 日志文件；"
        "或者检查这台机器：verl-patch doctor {checkout}",
        "empty": "没有要解释的信息。",
        "nowhere": "这里没有；用 verl-patch doctor ~/verl 查看一份",
        "configured": "（{file} 里的 gpu = {gpu}；--gpu auto 则按这台机器检查）",
        "install": "为这块显卡和这个版本安装",
    },
}  # fmt: skip
COLOURS: Mapping[Level, str] = {"fails": "red", "warns": "yellow", "note": "cyan"}


class Names(NamedTuple):
    """What fills the texts: the checkout and the Python as the user names them.

    Attributes:
        card: the option of ``verl-patch apply`` that names the GPU, behind a space; empty for its default.
        target: the same with dtype and attention.
        undo: what has to go before ``verl-patch apply``, where that would refuse.
        looked: the Python that was looked at, where commands should name another.
    """

    checkout: str
    python: str
    card: str = ""
    target: str = ""
    undo: str = ""
    looked: str = ""

    def values(self) -> dict[str, str]:
        """Return them ready for a command line."""
        paths = {"checkout": self.checkout, "python": self.python, "looked": self.looked or self.python}
        quoted = {name: _quoted(path) for name, path in paths.items()}
        return {**quoted, "card": self.card, "target": self.target, "undo": self.undo}


#: Columns of the words that rows begin with, in findings and in what was looked at.
_WIDTHS = {"en": 10, "zh": 7}


def _quoted(path: str) -> str:
    # a quoted slash would keep the shell from reading the tilde
    return "~/" + shlex.quote(path[2:]) if path.startswith("~/") else shlex.quote(path)


class Line(NamedTuple):
    """A line of text; ``mark`` is the beginning that is coloured by ``level``."""

    text: str
    mark: str = ""
    level: Level | None = None


def environment(found: Environment, case: Case, names: Names, language: str) -> Iterator[Line]:
    """Yield what was looked at, one line each."""
    words = WORDS[language]
    python = found.python or words["none"]
    torch = found.versions.get("torch", words["none"])
    if found.cuda:
        torch += f" (CUDA {found.cuda}; {', '.join(found.arch or ())})"
    others = [f"{name} {version}" for name, version in found.versions.items() if name != "torch"]
    rows = {
        "gpus": describe(found.cards) if found.cards else f"{words['none']} ({told(found.gpu_error, language)})",
        "driver": found.driver or "",
        "python": f"{python} ({names.looked or names.python})",
        "torch": torch,
        "packages": ", ".join(others) or words["none"],
        "checkout": f"verl {case.code.release or '?'} ({names.checkout})" if case.code else words["nowhere"],
        "checked": str(case.gpu) + (filled(words["configured"], case.configured) if case.configured else ""),
    }
    yield from (_row(words[name], text, language, "") for name, text in rows.items() if text)
    yield Line("")


def install(found: Sequence[Step], names: Names, language: str) -> Iterator[Line]:
    """Yield what to install, one line each with its source below."""
    if not found:
        return
    yield Line(WORDS[language]["install"] + WORDS[language]["colon"].rstrip())
    width = max(_WIDTHS[language], *(len(step.name) for step in found))
    for step in found:
        yield _row(step.name, filled(step.text(language), names.values()), language, width=width)
        yield _row("", step.source, language, width=width)
    yield Line("")


def _row(word: str, text: str, language: str, indent: str = "  ", width: int = 0) -> Line:
    width = width or _WIDTHS[language]
    size = sum(2 if ord(character) > 0x2E80 else 1 for character in word)
    colon = WORDS[language]["colon"].strip() if word else " " * (1 if language == "en" else 2)
    return Line(f"{indent}{word}{colon}{' ' * max(1, width + 2 - size)}{text}")


def findings(found: Sequence[Finding], names: Names, language: str) -> Iterator[Line]:
    """Yield a block for each finding but those that stand ahead of all, and how many there are."""
    words = WORDS[language]
    yield from blocks([one for one in found if one.id != AHEAD], names, language)
    counts = {level: str(sum(one.level == level for one in found)) for level in ("fails", "warns")}
    yield Line(words["fine"] if counts == {"fails": "0", "warns": "0"} else filled(words["count"], counts))


def ahead(found: Sequence[Finding], names: Names, language: str) -> Iterator[Line]:
    """Yield what has to be known before all else: that another environment should be looked at."""
    yield from blocks([one for one in found if one.id == AHEAD], names, language)


def blocks(found: Sequence[Finding], names: Names, language: str) -> Iterator[Line]:
    """Yield a block for each finding; entries that several share are explained once."""
    words = WORDS[language]
    said: set[tuple[str, str]] = set()
    for finding in found:
        entry, mark = entries()[finding.id], f"{words[finding.level]}{words['colon']}".rstrip()
        yield Line(f"{' ' if language == 'en' else ''}{entry.title[language]}", mark, finding.level)
        row = as_row(finding, names, language)
        for name in ("message", "detail", "why", "cure", "source"):
            printed = name != "message" or not row[name].startswith("(")
            once = name not in ("message", "why", "source") or (entry.id, row[name]) not in said
            if printed and once:
                yield _row(words[name], row[name], language)
            said.add((entry.id, row[name]))
        yield Line("")


def explanation(found: Sequence[Entry], names: Names, language: str) -> Iterator[Line]:
    """Yield what explains a message: the first entry in full, the others by their titles."""
    words = WORDS[language]
    for entry in found[:1]:
        yield Line(entry.title[language])
        row = entry_row(entry, names, language)
        for name in ("why", "cure", "source"):
            yield _row(words[name], row[name], language)
    for entry in found[1:]:
        yield _row(words["also"], f"{entry.title[language]} ({entry.source})", language)


def entry_row(entry: Entry, names: Names, language: str, values: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an entry as data, in one language."""
    filling = {**(values or _general()), **names.values()}
    return {
        "id": entry.id,
        "title": entry.title[language],
        "message": entry.message,
        "why": filled(entry.why[language], filling),
        "cure": filled(entry.cure[language], filling),
        "source": entry.source,
    }


def _general() -> dict[str, str]:
    """Return what stands for the values of a finding where there is none."""
    usual = {"least": "0.7.0", "numbers": "0", "quoted": "-e .", "name": "NAME", "last": "0.12.0", "newest": "v0.6.1"}
    return {**usual, "install": install_torch(DEFAULT_CAPABILITY, None, None)}  # the same for all that are covered


def as_row(finding: Finding, names: Names, language: str) -> dict[str, str]:
    """Return a finding as data: its entry, with what was found here."""
    row = entry_row(entries()[finding.id], names, language, {**_general(), **finding.values})
    if finding.cure:
        row["cure"] = filled(sentences()[finding.cure][language], {**finding.values, **names.values()})
    row["source"] = finding.source or row["source"]
    row["message"] = finding.message(row["message"])
    return {**row, "level": finding.level, "detail": filled(finding.detail(language), names.values())}


def diagnosis(found: Environment, case: Case, names: Names, rows: Sequence[Finding], language: str) -> dict[str, Any]:
    """Return everything as JSON data; the shape is part of the contract with other tools."""
    return {
        "format": FORMAT,
        "version": __version__,
        "verl_version": case.code.release if case.code else None,
        "compute_capability": str(case.gpu),
        "gpus": [
            {
                "name": card.name,
                "compute_capability": str(card.capability) if card.capability else None,
                "memory_mib": card.memory,
            }
            for card in found.cards
        ],
        "gpu_error": found.gpu_error,
        "driver": found.driver,
        "python": found.python,
        "executable": names.looked or names.python,
        "versions": dict(found.versions),
        "cuda": found.cuda,
        "arch": list(found.arch or ()),
        "install": [
            {"name": step.name, "how": filled(step.text(language), names.values()), "source": step.source}
            for step in steps(case)
        ],
        "findings": [as_row(row, names, language) for row in rows],
    }


def answer(message: str, found: Sequence[Entry], names: Names, language: str) -> dict[str, Any]:
    """Return what explains a message as JSON data."""
    rows = [entry_row(entry, names, language) for entry in found]
    return {"format": FORMAT, "version": __version__, "asked": message, "entries": rows}

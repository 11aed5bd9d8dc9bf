"""The generated parts of the documentation, each made from what the program itself says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click
import yaml
from picture import dry_run

from verl_legacy_patch import cli, config, scope
from verl_legacy_patch.capability import AMPERE, Capability
from verl_legacy_patch.codemod import discover
from verl_legacy_patch.gpus import GPUS
from verl_legacy_patch.target import Target


class Texts:
    """Looks texts up in another language; what has no translation stays as it is.

    The keys of ``zh.yaml`` are the English texts of the program: when one changes, its old translation is not used.
    """

    def __init__(self, language: str) -> None:
        self.language = language
        self.known: dict[str, str] = {}
        if language != "en":
            file = Path(__file__).with_name(f"{language}.yaml")
            known = yaml.safe_load(file.read_text(encoding="utf-8"))
            self.known = {english: text or english for english, text in known.items()}
        self.used: set[str] = set()
        self.missing: set[str] = set()

    def __call__(self, text: str) -> str:
        """Return the text in this language."""
        self.used.add(text)
        if self.known and text not in self.known:
            self.missing.add(text)
        return self.known.get(text, text)


def _table(texts: Texts, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(texts(head) for head in heads)} |", "|" + " --- |" * len(heads)]
    lines += [f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines)


def commands(texts: Texts) -> str:
    """Every command and its one line."""
    return _table(texts, ("command", "what it does"), ((f"`{name}`", texts(what)) for name, what in _commands()))


def _commands() -> Iterable[tuple[str, str]]:
    return cli.COMMANDS.items()


def options(texts: Texts) -> str:
    """The options of ``apply``. Read from the command, not from its help page, whose layout follows click's version."""
    command = cli.main.get_command(click.Context(cli.main), "apply")
    assert command is not None
    rows = [
        (f"`{', '.join(sorted(param.opts, key=len))}{_value(param)}`", texts(param.help or ""))
        for param in command.params
        if isinstance(param, click.Option) and not param.hidden
    ]
    return _table(texts, ("option", "what it does"), rows)


def _value(option: click.Option) -> str:
    if option.is_flag:
        return ""
    if isinstance(option.type, click.Choice):
        return f" {'|'.join(map(str, option.type.choices))}"
    return f" {option.metavar or 'N'}"


def codemods(texts: Texts) -> str:
    """Every codemod: name, what it does in one line, whether it rewrites or reports, grade, and when it runs."""
    rows = (
        (
            f"`{mod.name}`",
            texts(mod.summary()),
            texts(mod.does),
            texts(mod.grade) if mod.does == "rewrites" else "",
            texts(mod.when),
        )
        for mod in discover().values()
    )
    return _table(texts, ("codemod", "what it does", "rewrites or reports", "grade", "runs"), rows)


def _comma(texts: Texts) -> str:
    return "、" if texts.language == "zh" else ", "


def left_alone(texts: Texts) -> str:
    """Folders and backends out of scope."""
    rows = [(f"`{folder}/`", texts(why)) for folder, why in scope.FOLDERS.items()]
    backends = _comma(texts).join(texts(name) for name in scope.BACKENDS)
    return _table(
        texts,
        ("left alone", "why"),
        [*rows, (backends, texts("cannot run below compute capability 8.0"))],
    )


def gpus(texts: Texts) -> str:
    """The known cards, what they can do, and which codemods their target runs beyond those that all cards need."""
    heads = ("`--gpu`", "cards", "compute capability", "shared memory per block", "float16", "Triton, torch.compile")
    rows = [
        (
            f"`{gpu.name}`",
            texts(gpu.cards),
            gpu.capability,
            f"{gpu.shared_memory} KiB",
            texts(gpu.float16),
            texts("yes" if gpu.capability >= Capability(7, 0) else "no"),
        )
        for gpu in GPUS.values()
    ]
    return (
        f"{_table(texts, heads, rows)}\n\n{_table(texts, ('compute capability', 'codemods'), _per_capability(texts))}"
    )


def _per_capability(texts: Texts) -> Iterable[tuple[str, str]]:
    known = discover().values()
    always = [mod.name for mod in known if mod.applies(Target(capability=AMPERE))]
    yield texts("any"), _comma(texts).join(f"`{name}`" for name in always)
    lowest = sorted({gpu.capability for gpu in GPUS.values()})
    for capability in sorted({Capability(7, 0), AMPERE}):
        below = [each for each in lowest if each < capability]
        names = {mod.name for mod in known if mod.applies(Target(capability=below[-1]))}
        names -= {mod.name for mod in known if mod.applies(Target(capability=capability))}
        yield texts("below {}").format(capability), _comma(texts).join(f"`{name}`" for name in sorted(names))


def exit_codes(texts: Texts) -> str:
    """Every exit code."""
    return _table(texts, ("code", "meaning"), ((f"`{code}`", texts(text)) for code, text in cli.EXIT_CODES.items()))


def as_json(texts: Texts) -> str:
    """The JSON of a dry run on the demo's checkout, with one of its sites and one of its files."""
    data: dict[str, Any] = json.loads(dry_run("--format", "json").stdout)
    shown = {"path": "verl/workers/fsdp_workers.py", "action": "rewrite", "before": "bf16"}
    data["sites"] = [site for site in data["sites"] if shown.items() <= site.items()][:1]
    data["files"] = [file for file in data["files"] if file["path"] == shown["path"]]
    return f"```json\n{json.dumps(data, indent=2, ensure_ascii=False)}\n```"


def configuration(texts: Texts) -> str:
    """Every key of the configuration file."""
    rows = (
        (f"`{key}`", texts(what.kind), f"`{what.default}`", texts(what.meaning)) for key, what in config.KEYS.items()
    )
    return _table(texts, ("key", "holds", "default", "meaning"), rows)


PARTS: dict[str, Callable[[Texts], str]] = {
    "codemods": codemods,
    "commands": commands,
    "config": configuration,
    "exit-codes": exit_codes,
    "gpus": gpus,
    "json": as_json,
    "left-alone": left_alone,
    "options": options,
}

"""What is wrong with a launch script: its keys, its values, its variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from verl_legacy_patch.checkout.base import Checkout
from verl_legacy_patch.codemod import Codemod
from verl_legacy_patch.doctor.catalogue import entries
from verl_legacy_patch.doctor.checks.variables import variables
from verl_legacy_patch.doctor.facts import facts
from verl_legacy_patch.doctor.findings import Case, Finding, Level
from verl_legacy_patch.doctor.keys import unknown_keys
from verl_legacy_patch.doctor.rollout import hf_rollout
from verl_legacy_patch.languages import SourceError
from verl_legacy_patch.rewrite import rewrite
from verl_legacy_patch.setting import Site
from verl_legacy_patch.target import Target

#: Codemod -> entry of the catalogue, for what it reports in a script.
ENTRIES = {
    "dead-keys": "dead-key",
    "batched-tokens": "token-budget",
    "sequence-parallel": "sequence-parallel",
    "unsupported-backend": "unsupported-backend",
}
#: Backends that are modules of their own, by their names.
_MODULES = ("megatron", "veomni", "torchtitan")
#: The numbers in what ``batched-tokens`` reports.
_BUDGET = re.compile(
    r"(?:^(?P<budget>\d+) tokens, but )?prompt and response need (?P<needed>\d+)(?: tokens, the default budget is "
    r"(?P<default>\d+))?"
)
_TOO_SMALL = (
    "ValueError: max_num_batched_tokens ({budget}) is smaller than max_model_len ({needed}). This effectively limits "
    "the maximum sequence length to max_num_batched_tokens"
)
_PARALLEL = "When using sequence parallelism for {role}, you must enable `use_remove_padding`."
#: Variables that are looked for, beside those that nothing reads.
_NAMES = ("VLLM_ATTENTION_BACKEND", "VLLM_USE_V1")
_VALUE = r"""=("[^"\n]*"|'[^'\n]*'|[^\s;&|]*)"""


class ScriptError(ValueError):
    """A script that the shell could not read either; one line that says where."""


def check_script(
    source: bytes, name: str, checkout: Checkout, case: Case, codemods: Sequence[Codemod], target: Target
) -> Iterator[Finding]:
    """Yield what is wrong with a script.

    Args:
        source: the script.
        name: what to call it.
        checkout: what it runs.
        case: the machine that it runs on.
        codemods: those that apply to ``target``.
        target: what they rewrite to.

    Raises:
        ScriptError: it cannot be parsed.
    """
    try:
        sites = rewrite("script.sh", source, codemods, target).sites
        keys = [*unknown_keys(source, checkout), *hf_rollout(source, name, checkout)]
    except SourceError as error:
        raise ScriptError(f"{name}:{error.line}: {error}") from None
    yield from keys
    by_codemod: dict[str, list[Site]] = {}
    for site in sites:
        by_codemod.setdefault(site.codemod, []).append(site)
    lines = source.decode("utf-8", "replace").splitlines()
    for codemod in codemods:
        for site in codemod.settle(by_codemod.get(codemod.name, []), checkout):
            yield from _finding(site, _word(lines[site.line - 1], site.column - 1))
    yield from variables(replace(case, environment=replace(case.environment, variables=assigned(source))))


def _finding(site: Site, word: str) -> Iterator[Finding]:
    values = {"line": str(site.line), "word": word, "reason": site.reason, "after": site.after or ""}
    if site.action == "rewrite":
        values["new"] = word.replace(site.before, site.after or "")
        yield Finding(
            "script-value", "fails" if site.grade == "safe" else "warns", "script-value", values, "script-new"
        )
    elif site.action == "report" and site.codemod in ENTRIES:
        level: Level = "warns" if site.codemod == "dead-keys" else "fails"
        entry, cure, more = _reported(site, word)
        yield Finding(entry, level, "script-report", {**values, **more}, cure)


def _reported(site: Site, word: str) -> tuple[str, str, dict[str, str]]:
    """Return the entry for what a codemod reports, the cure where it is known here, and what fills both.

    ``seen`` is the message of this very case; empty where it is not known.
    """
    entry = ENTRIES[site.codemod]
    if entry == "unsupported-backend":
        backend = next((name for name in _MODULES if name in word.lower()), "")
        seen = f"ModuleNotFoundError: No module named '{backend}'" if backend else ""
        if "sglang" in word.lower():
            return "sglang-capability", "rollout-vllm", {"seen": entries()["sglang-capability"].message}
        return entry, "rollout-vllm" if "TensorRT" in site.reason else "", {"seen": seen}
    if entry == "token-budget" and (numbers := _BUDGET.search(site.reason)):
        budget, needed = numbers["budget"] or numbers["default"], numbers["needed"]
        return entry, "set-budget", {"needed": needed, "seen": _TOO_SMALL.format(budget=budget, needed=needed)}
    if entry == "sequence-parallel":
        role = "critic" if "critic" in word else "actor/ref policy"
        return entry, "", {"seen": _PARALLEL.format(role=role)}
    return entry, "", {"seen": entries()[entry].message}


def _word(line: str, column: int) -> str:
    """Return the word around a column."""
    start = max(line.rfind(character, 0, column) for character in " \t") + 1
    return (line[start:].split() or [""])[0].strip("\"'\\")


def assigned(source: bytes) -> Mapping[str, str]:
    """Return those variables that matter among what a script sets for what it runs."""
    names = "|".join((*_NAMES, *facts()["useless-variables"].value))
    setting = re.compile(rf"(?<![\w.$])({names}){_VALUE}")
    lines = source.decode("utf-8", "replace").splitlines()
    found = [pair for line in lines if not line.lstrip().startswith("#") for pair in setting.findall(line)]
    return {name: value.strip("\"'") for name, value in found}

"""``verl-patch doctor``: what will fail on this machine, and what cures it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from verl_legacy_patch.commands import Refused
from verl_legacy_patch.commands.options import read_run

if TYPE_CHECKING:
    from verl_legacy_patch.checkout import Checkout
    from verl_legacy_patch.doctor.catalogue import Entry
    from verl_legacy_patch.doctor.checks import Finding
    from verl_legacy_patch.doctor.environment import Environment

WORDS = {
    "en": {
        "fails": "will fail",
        "warns": "may fail",
        "why": "why",
        "cure": "cure",
        "source": "source",
        "fine": "Nothing found that would fail.",
        "nothing": "No entry of the catalogue explains this message.",
    },
    "zh": {
        "fails": "会失败",
        "warns": "可能失败",
        "why": "原因",
        "cure": "解决办法",
        "source": "来源",
        "fine": "没有发现会失败的地方。",
        "nothing": "目录里没有能解释这条信息的条目。",
    },
}


@click.command("doctor")
@click.argument("checkout", type=click.Path(path_type=Path), required=False)
@click.option("--gpu", metavar="NAME|X.Y", help="The GPU that counts. [default: the weakest of this machine]")
@click.option("--python", metavar="PATH", help="Python whose packages count. [default: the one that runs this]")
@click.option("--script", type=click.Path(path_type=Path), help="A launch script whose overrides are checked.")
@click.option("--message", metavar="TEXT", help="Explain an error message; - reads it from standard input.")
@click.option("--lang", type=click.Choice(["en", "zh"]), help="Language. [default: by LANG]")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", help="How to print it.")
def command(
    checkout: Path | None,
    gpu: str | None,
    python: str | None,
    script: Path | None,
    message: str | None,
    lang: str | None,
    output: str,
) -> int:
    """Say what will fail for the verl CHECKOUT on this machine, with the message that would be seen, why, and a cure.

    GPUs, driver, the installed packages, environment variables, the checkout and a launch script are looked at; nothing
    of the checkout is imported. Exits with 1 when something will fail.
    """
    from verl_legacy_patch.doctor.catalogue import language

    words = language(lang, os.environ)
    if message is not None:
        return _explain(sys.stdin.read() if message == "-" else message, words, str(checkout or "CHECKOUT"), output)
    from verl_legacy_patch.doctor.environment import look

    environment = look(python)
    findings = _examine(environment, checkout, gpu, script)
    if output == "json":
        _print_json(environment, findings, words, str(checkout or "CHECKOUT"))
    else:
        _print_environment(environment)
        _print_findings(findings, words, str(checkout or "CHECKOUT"))
    return 1 if any(finding.level == "fails" for finding in findings) else 0


def _examine(environment: Environment, path: Path | None, gpu: str | None, script: Path | None) -> list[Finding]:
    from verl_legacy_patch.checkout import CheckoutError, open_checkout, verl_version
    from verl_legacy_patch.doctor.checks import Case, examine
    from verl_legacy_patch.plan import make_plan
    from verl_legacy_patch.target import DEFAULT_CAPABILITY, TargetError, find_gpu

    try:
        if gpu is not None:
            capability = find_gpu(gpu)[1]
        elif environment.cards:
            capability = min(card.capability for card in environment.cards)
        else:
            capability = DEFAULT_CAPABILITY
    except TargetError as error:
        raise click.UsageError(str(error)) from None
    if path is None:
        if script is not None:
            raise click.UsageError("--script needs the CHECKOUT that the script runs with")
        return examine(Case(environment, capability))
    try:
        opened = open_checkout(path)
        run = read_run(opened.root, {"gpu": str(capability)})
        plan = make_plan(opened, run.codemods, run.target, within=run.scope)
        rewritten = [site for site in plan.rewritten() if not site.path.endswith((".sh", ".bash"))]
        packs = any(site.codemod == "remove-padding" for site in rewritten)
        findings = examine(Case(environment, capability, verl_version(opened), len(rewritten), packs))
        if script is not None:
            findings += _script(script, opened)
    except CheckoutError as error:
        raise Refused(str(error), 3) from None
    return findings


def _script(script: Path, checkout: Checkout) -> list[Finding]:
    from verl_legacy_patch.doctor.script import check_script

    try:
        return list(check_script(script.read_bytes(), checkout))
    except OSError as error:
        raise click.UsageError(f"{script}: {error.strerror}") from None


def _print_environment(found: Environment) -> None:
    cards = [f"{card.name} ({card.capability}, {card.memory / 1024:.0f} GiB)" for card in found.cards]
    click.echo(f"GPU:      {', '.join(cards) if cards else found.gpu_error}")
    if found.driver:
        click.echo(f"driver:   {found.driver}")
    versions = [f"{name} {version}" for name, version in found.versions.items()]
    cuda = f" (CUDA {found.cuda}: {', '.join(found.arch or ())})" if found.cuda else ""
    click.echo(f"Python:   {found.python}; {', '.join(versions) or 'none of the packages'}{cuda}\n")


def _print_findings(findings: Sequence[Finding], lang: str, checkout: str) -> None:
    from verl_legacy_patch.doctor.catalogue import entries

    words = WORDS[lang]
    for finding in findings:
        entry = entries()[finding.id]
        mark = click.style(words[finding.level], fg="red" if finding.level == "fails" else "yellow")
        click.echo(f"{mark}: {entry.title[lang]}")
        click.echo(f"  {finding.detail}")
        _print_entry(entry, lang, checkout, finding.detail)
    if not findings:
        click.echo(words["fine"])


def _print_entry(entry: Entry, lang: str, checkout: str, detail: str) -> None:
    words = WORDS[lang]
    why, cure = _filled(entry.why[lang], checkout, detail), _filled(entry.cure[lang], checkout, detail)
    if why != detail:
        click.echo(f"  {words['why']}: {why}")
    click.echo(f"  {words['cure']}: {cure}")
    click.echo(f"  {words['source']}: {entry.source}\n")


def _filled(text: str, checkout: str, detail: str) -> str:
    return text.replace("{checkout}", checkout).replace("{detail}", detail)


def _explain(message: str, lang: str, checkout: str, output: str) -> int:
    from verl_legacy_patch.doctor.catalogue import find

    found = find(message)
    if output == "json":
        rows = [_row(entry, lang, checkout, "") for entry in found]
        _emit({"message": message, "entries": rows})
    else:
        for entry in found[:1]:
            click.echo(entry.title[lang])
            _print_entry(entry, lang, checkout, "")
        for entry in found[1:]:
            click.echo(f"({entry.title[lang]}: {entry.source})")
    if not found:
        click.echo(WORDS[lang]["nothing"], err=True)
    return 0 if found else 1


def _print_json(found: Environment, findings: Sequence[Finding], lang: str, checkout: str) -> None:
    from verl_legacy_patch.doctor.catalogue import entries

    rows = [
        {**_row(entries()[one.id], lang, checkout, one.detail), "level": one.level, "detail": one.detail}
        for one in findings
    ]
    _emit(
        {
            "gpus": [
                {"name": c.name, "compute_capability": str(c.capability), "memory_mib": c.memory} for c in found.cards
            ],
            "driver": found.driver,
            "python": found.python,
            "versions": dict(found.versions),
            "cuda": found.cuda,
            "arch": list(found.arch or ()),
            "findings": rows,
        }
    )


def _row(entry: Entry, lang: str, checkout: str, detail: str) -> dict[str, Any]:
    why, cure = _filled(entry.why[lang], checkout, detail), _filled(entry.cure[lang], checkout, detail)
    return {"id": entry.id, "title": entry.title[lang], "why": why, "cure": cure, "source": entry.source}


def _emit(data: object) -> None:
    import json

    click.echo(json.dumps(data, ensure_ascii=False, indent=2))

"""``verl-patch doctor``: what will fail on this machine, and what cures it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from verl_legacy_patch.commands import Refused
from verl_legacy_patch.commands.completing import gpu_names
from verl_legacy_patch.commands.options import lang_option, one_of, read_config, read_run

if TYPE_CHECKING:
    from verl_legacy_patch.capability import Capability
    from verl_legacy_patch.checkout import Checkout
    from verl_legacy_patch.commands.options import Run
    from verl_legacy_patch.doctor.environment import Environment
    from verl_legacy_patch.doctor.findings import Case, Finding
    from verl_legacy_patch.doctor.show import Line, Names
    from verl_legacy_patch.target import Target

#: Stands for the Python of the environment that trains, where that is not known.
ELSEWHERE = "/path/to/venv/bin/python"


@click.command("doctor")
@click.argument("checkout", type=click.Path(path_type=Path), required=False)
@click.option(
    "--gpu",
    metavar="NAME|X.Y|auto",
    shell_complete=gpu_names,
    help="The GPU that counts. [default: the checkout's configuration, else the weakest of this machine]",
)
@click.option(
    "--python",
    metavar="PATH",
    help="Python of the environment that trains, or its folder. [default: the active environment, else verl-patch's]",
)
@click.option("--script", type=click.Path(path_type=Path), help="A launch script that is checked, too.")
@click.option("--message", metavar="TEXT", help="Explain an error message; - reads it from standard input.")
@lang_option
@click.option(
    "--format",
    "output",
    type=one_of("text", "json"),
    default="text",
    help="How to print it.",
)
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

    The current folder is the default for CHECKOUT when it is a verl tree. GPUs, driver, the installed packages,
    environment variables, the checkout and a launch script are looked at; nothing of the checkout is imported. Exits
    with 1 when something will fail, and when no entry explains a --message.
    """
    from verl_legacy_patch.doctor import show
    from verl_legacy_patch.doctor.catalogue import language

    spoken = language(lang, os.environ)
    named = _named(gpu)
    checkout = checkout or _here()
    program = _program(python)
    if message is not None:
        names = show.Names(str(checkout or "~/verl"), program or "python")
        names = _for_message(names, checkout, gpu, named)
        return _explain(_read() if message == "-" else message, names, spoken, output)
    if script is not None and checkout is None:
        raise click.UsageError("--script needs the CHECKOUT that the script runs with")
    from verl_legacy_patch.commands.output import drop_output
    from verl_legacy_patch.doctor.environment import look, usual_python
    from verl_legacy_patch.doctor.install import steps, wanted

    looked = program or usual_python(os.environ)
    environment = look(looked)
    environment.own = environment.own and program is None  # who names it means it
    names = show.Names(str(checkout or "~/verl"), ELSEWHERE if environment.own else looked, looked=looked)
    case, target, findings = _examine(environment, checkout, gpu, named, script)
    names = _for_target(names, case, target, gpu)
    try:
        if output == "json":
            _emit(show.diagnosis(environment, case, names, findings, spoken))
        else:
            _print(show.ahead(findings, names, spoken))
            _print(show.environment(environment, case, names, spoken))
            _print(show.install(steps(case) if wanted(case) else (), names, spoken))
            _print(show.findings(findings, names, spoken))
    except BrokenPipeError:  # head has seen enough: the exit code stays the same
        drop_output()
    return 1 if any(finding.level == "fails" for finding in findings) else 0


def _here() -> Path | None:
    """Return the current folder when it is a verl tree."""
    from verl_legacy_patch.checkout import CheckoutError, open_checkout

    with suppress(CheckoutError):
        return Path() if open_checkout(Path()).packages() else None
    return None


def _program(python: str | None) -> str | None:
    """Return the Python that was named, if one was."""
    from verl_legacy_patch.doctor.environment import NoPython, find_python

    try:
        return None if python is None else find_python(python)
    except NoPython as error:
        raise click.UsageError(f"--python: {error}") from None


def _named(gpu: str | None) -> Capability | None:
    """Return the GPU that was asked for; None for that of the machine."""
    from verl_legacy_patch.gpus import TargetError, find_gpu

    if gpu is None or gpu.strip().lower() == "auto":
        return None
    try:
        return find_gpu(gpu)[1]
    except TargetError as error:
        raise click.UsageError(str(error)) from None


def _examine(
    environment: Environment, path: Path | None, gpu: str | None, named: Capability | None, script: Path | None
) -> tuple[Case, Target, list[Finding]]:
    from verl_legacy_patch.capability import DEFAULT_CAPABILITY
    from verl_legacy_patch.checkout import CheckoutError, open_checkout
    from verl_legacy_patch.doctor.checks import examine, in_order
    from verl_legacy_patch.doctor.findings import Case
    from verl_legacy_patch.target import Target

    capability = named or environment.weakest() or DEFAULT_CAPABILITY
    if path is None:
        case = Case(environment, capability, planned=named is not None)
        return case, Target(capability=capability), examine(case)
    from verl_legacy_patch.branch.former import short
    from verl_legacy_patch.doctor.code import read_code
    from verl_legacy_patch.doctor.script import ScriptError, check_script
    from verl_legacy_patch.doctor.settled import settled
    from verl_legacy_patch.languages import SourceError
    from verl_legacy_patch.plan import make_plan

    try:
        opened = open_checkout(path)
        run, configured, patched = _run(opened, capability, given=gpu is not None)
        capability = run.target.capability
        plan = make_plan(opened, run.codemods, run.target, within=run.scope)
        source = script.read_bytes() if script is not None else None
        decided = settled(source, opened) if source is not None else None
        code = read_code(opened, plan)
        if patched is not None:
            code = replace(code, patched=short(patched), asked=short(run.target))
        case = Case(environment, capability, code, named is not None, decided, configured)
        findings = examine(case)
        if source is not None:
            findings += check_script(source, str(script), opened, case, plan.codemods, run.target)
    except CheckoutError as error:
        raise Refused(str(error), 3) from None
    except ScriptError as error:
        raise Refused(str(error), 4) from None
    except SourceError as error:
        raise Refused(f"{script}:{error.line}: {error}", 4) from None
    except OSError as error:
        raise click.UsageError(f"{script}: {error.strerror or error}") from None
    return case, run.target, in_order(findings)


def _run(checkout: Checkout, capability: Capability, given: bool) -> tuple[Run, dict[str, str], Target | None]:
    """Return what ``verl-patch apply`` would run with, the GPU that the configuration names where that counts, and
    what the checkout is patched for where apply would not go on with it.

    Args:
        checkout: its configuration counts, and what it is patched for where that does not say.
        capability: the GPU that was named, else that of this machine.
        given: whether --gpu was given, ``auto`` included: it wins over the configuration.
    """
    from verl_legacy_patch.branch.former import former

    config, source = read_config(checkout.root)
    by_file = source is not None and not given and (config.gpu or "auto").strip().lower() != "auto"
    configured = {"gpu": str(config.gpu), "file": source.path.name} if by_file and source is not None else {}
    said = {"gpu": config.gpu if by_file else str(capability)}
    run = read_run(checkout.root, said)
    found = former(checkout, run.target)
    if found is not None and not found.fits and (source is None or source.keys.isdisjoint(("dtype", "attn"))):
        run = read_run(checkout.root, {**said, "dtype": found.patched.dtype, "attn": found.patched.attn})
        found = former(checkout, run.target)
    return run, configured, None if found is None or found.fits else found.patched


def _for_target(names: Names, case: Case, target: Target, gpu: str | None) -> Names:
    """Return the names with the options that ``verl-patch apply`` needs for what was looked at."""
    named = gpu if case.planned else case.configured.get("gpu")
    return _with_options(names, target, named, undo=bool(case.code and case.code.patched))


def _with_options(names: Names, target: Target, gpu: str | None, *, undo: bool = False) -> Names:
    from verl_legacy_patch.capability import DEFAULT_CAPABILITY

    card = ""
    if gpu:
        card = f" --gpu {shlex.quote(gpu.strip())}"
    elif target.capability != DEFAULT_CAPABILITY:
        card = f" --gpu {target.capability}"
    usual = type(target)()
    chosen = [(name, getattr(target, name)) for name in ("dtype", "attn")]
    more = "".join(f" --{name} {value}" for name, value in chosen if value != getattr(usual, name))
    first = f"verl-patch revert {names.values()['checkout']} && " if undo else ""
    return names._replace(card=card, target=card + more, undo=first)


def _for_message(names: Names, path: Path | None, gpu: str | None, named: Capability | None) -> Names:
    """Return the names with the options of ``verl-patch apply``: as given, else as the checkout is configured."""
    from verl_legacy_patch.capability import DEFAULT_CAPABILITY
    from verl_legacy_patch.checkout import CheckoutError, open_checkout
    from verl_legacy_patch.target import Target

    capability = named or DEFAULT_CAPABILITY
    asked = gpu if named else None
    if path is not None:
        with suppress(CheckoutError):  # a message is explained wherever the checkout is
            run, configured, patched = _run(open_checkout(path), capability, given=gpu is not None)
            return _with_options(names, run.target, asked or configured.get("gpu"), undo=patched is not None)
    return _with_options(names, Target(capability=capability), asked)


def _explain(message: str, names: Names, language: str, output: str) -> int:
    from verl_legacy_patch.doctor import show
    from verl_legacy_patch.doctor.catalogue import find
    from verl_legacy_patch.doctor.told import filled

    found = find(message)
    if output == "json":
        _emit(show.answer(message, found, names, language))
    elif found:
        _print(show.explanation(found, names, language))
    if not found:
        said = show.WORDS[language]["nothing" if message.strip() else "empty"]
        click.echo(filled(said, names.values()), err=True)
    return 0 if found else 1


def _read() -> str:
    """Return standard input, whatever its encoding."""
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def _print(lines: Iterable[Line]) -> None:
    from verl_legacy_patch.doctor.show import COLOURS

    for line in lines:
        mark = click.style(line.mark, fg=COLOURS[line.level], bold=True) if line.level else line.mark
        click.echo(f"{mark}{line.text}")


def _emit(data: object) -> None:
    import json

    click.echo(json.dumps(data, ensure_ascii=False, indent=2))

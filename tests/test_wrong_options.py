"""An option that a command does not have: whose it is, or which is meant."""

from __future__ import annotations

from itertools import chain

import click
import pytest
from minis import Verl

from verl_legacy_patch import cli

COMMANDS = {name: cli.main.get_command(click.Context(cli.main), name) for name in cli.COMMANDS}
OPTIONS = {
    name: set(chain.from_iterable((*each.opts, *each.secondary_opts) for each in (command.params if command else ())))
    for name, command in COMMANDS.items()
}
EVERY = sorted({option for options in OPTIONS.values() for option in options if option.startswith("-")} - {"--help"})


@pytest.mark.parametrize("option", EVERY)
def test_an_option_of_another_command_says_whose_it_is(option: str, verl: Verl) -> None:
    owners = [name for name, options in OPTIONS.items() if option in options]
    for name in COMMANDS.keys() - set(owners) - {"completion"}:
        ran = verl(name, option)
        ran.refused(2, f"No such option '{option}' here: ", *owners, f"(see verl-patch {name} --help)")
        assert ran.err.count(" have it") == (len(owners) > 1) and "mean" not in ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["apply", "--lang", "zh"], "No such option '--lang' here: doctor and launch have it (see"),
        (["status", "--fix"], "No such option '--fix' here: check has it (see"),
        (["--lang", "zh"], "No such option '--lang' here: doctor and launch have it (see"),
        (["apply", "--grpu", "t4"], "Did you mean '--gpu'?"),
        (["apply", "--xyzzy"], "No such option '--xyzzy'"),
    ],
)
def test_the_whole_line(arguments: list[str], said: str, verl: Verl) -> None:
    verl(*arguments).refused(2, said)

"""Doctor and the checkout: the one that one stands in, its configuration, what it is patched for."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from machines import Doctor, Machine, said
from minis import Verl, make_mini
from repos import git, write

from verl_legacy_patch.checkout import open_checkout


def cures(data: dict[str, Any]) -> dict[str, str]:
    return {row["id"]: row["cure"] for row in data["findings"]}


# where one stands


def test_the_checkout_that_one_stands_in_counts(
    doctor: Doctor, verl: Verl, mini: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = doctor(mini)
    monkeypatch.chdir(mini)
    here = doctor()
    assert here["verl_version"] == there["verl_version"] == "0.5.0"
    assert cures(here)["sites-left"] == "verl-patch apply ." and said(here) == said(there)
    script = write(mini / "more", {"run.sh": "echo\n"}) or mini / "more/run.sh"
    assert "script-unread" in cures(doctor("--script", script))
    explained = verl("doctor", "--message", "No module named flash_attn", "--lang", "en").done().out.decode()
    assert "verl-patch apply . " in explained


@pytest.mark.parametrize("folder", ["", "imports"])
def test_elsewhere_one_line_says_how_to_give_one(
    folder: str, verl: Verl, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imports").mkdir()
    (tmp_path / "imports/main.py").write_text("import verl\n")
    monkeypatch.chdir(machine.folder if not folder else tmp_path / folder)
    for language, says in (
        ("en", "checkout:    none here; verl-patch doctor ~/verl"),
        ("zh", "这里没有；用 verl-patch"),
    ):
        ran = verl("doctor", "--python", machine.python, "--lang", language).done()
        assert ran.out.decode().count(says) == 1


# its configuration


@pytest.mark.parametrize(
    ("options", "checked", "target"),
    [
        ([], "7.5", " --gpu t4 --attn sdpa"),
        (["--gpu", "v100"], "7.0", " --gpu v100 --attn sdpa"),
        (["--gpu", "auto"], "6.1", " --attn sdpa"),
    ],
)
def test_the_configuration_of_the_checkout_counts(
    options: list[str], checked: str, target: str, doctor: Doctor, verl: Verl, machine: Machine, mini: Path
) -> None:
    (mini / ".verl-patch.toml").write_text('gpu = "t4"\nattn = "sdpa"\n')
    data = doctor(mini, *options)
    assert data["compute_capability"] == checked
    assert cures(data)["sites-left"] == f"verl-patch apply {mini}{target}"
    for language, says in (
        ("en", "(gpu = t4 in .verl-patch.toml; --gpu auto"),
        ("zh", ".verl-patch.toml 里的 gpu = t4"),
    ):
        out = verl("doctor", mini, "--python", machine.python, "--lang", language, *options).out.decode()
        assert (says in out) == (not options)
    ran = verl("doctor", mini, "--message", "No module named flash_attn", "--lang", "en", *options)
    assert f"verl-patch apply {mini}{target} " in ran.out.decode()


@pytest.mark.parametrize("value", ['"auto"', '"6.1"', "7.0"])
def test_other_values_of_the_configuration(value: str, doctor: Doctor, mini: Path) -> None:
    (mini / ".verl-patch.toml").write_text(f"gpu = {value}\n")
    assert doctor(mini)["compute_capability"] == ("7.0" if value == "7.0" else "6.1")


def test_a_wrong_configuration_is_one_line(verl: Verl, machine: Machine, mini: Path) -> None:
    (mini / ".verl-patch.toml").write_text('gpu = "p41"\n')
    verl("doctor", mini, "--python", machine.python).refused(2, "did you mean p40?")
    (mini / ".verl-patch.toml").write_text("gpu = [\n")
    verl("doctor", mini, "--python", machine.python).refused(2, ".verl-patch.toml", "not TOML")


# what it is patched for


def merged(root: Path) -> None:
    """Add a file as a merge from upstream does: there is something left again."""
    write(root, {"verl/workers/late.py": "import torch\n\ndtype = torch.bfloat16\n"})
    git(root, "add", "-A")
    git(root, "commit", "-qm", "merge")


def run(verl: Verl, command: str) -> None:
    """Run the commands of a cure, up to what stands behind them in brackets."""
    for each in command.partition("   (")[0].split(" && "):
        name, *words = shlex.split(each)
        assert name == "verl-patch"
        verl(*words).done()


#: What is named, what the checkout is patched for, what its configuration says.
TARGETS: list[tuple[list[str], list[str], str]] = [
    ([], [], ""),
    ([], ["--attn", "sdpa"], ""),
    ([], ["--gpu", "t4", "--dtype", "float16"], ""),
    (["--gpu", "v100"], ["--attn", "sdpa"], ""),
    (["--gpu", "p40"], ["--gpu", "t4", "--dtype", "float16"], 'attn = "sdpa"\n'),
    ([], ["--attn", "sdpa"], 'attn = "eager"\n'),
    ([], [], 'gpu = "t4"\nattn = "sdpa"\n'),
    (["--gpu", "v100"], ["--gpu", "t4"], 'gpu = "p40"\n'),
]


@pytest.mark.parametrize(("named", "target", "configured"), TARGETS)
def test_apply_takes_the_cure(
    named: list[str], target: list[str], configured: str, doctor: Doctor, verl: Verl, mini: Path
) -> None:
    """Whatever a checkout is patched for, configured for and asked about."""
    verl("apply", mini, *target).done()
    if configured:
        write(mini, {".verl-patch.toml": configured})
    merged(mini)
    found = cures(doctor(mini, *named))
    assert "sites-left" in found
    run(verl, found.get("patched-other", found["sites-left"]))
    after = cures(doctor(mini, *named))
    assert "patched-other" not in after
    if "patched-other" not in found:
        assert "sites-left" not in after
    assert open_checkout(mini).packages() == ["verl"]


def test_a_patch_for_another_target_is_said_though_nothing_is_left(doctor: Doctor, verl: Verl, tmp_path: Path) -> None:
    root = make_mini(tmp_path / "verl")
    verl("apply", root, "--attn", "sdpa").done()
    assert "patched-other" not in cures(doctor(root))  # nobody asks for another
    (root / ".verl-patch.toml").write_text('attn = "eager"\n')
    data = doctor(root)
    assert cures(data)["patched-other"] == f"verl-patch revert {root} && verl-patch apply {root}"
    assert data["findings"][0]["detail"] == "patched for float32 sdpa 6.1, asked for float32 eager 6.1"

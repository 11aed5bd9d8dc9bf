"""The command line as a program among others: streams, encodings, colours, completion, JSON."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from minis import BRANCH, CHANGED, PROJECT, TREE, Verl, make_mini, new_process
from repos import commit, git, write

from verl_legacy_patch import __version__
from verl_legacy_patch.cli import COMMANDS, EXIT_CODES
from verl_legacy_patch.commands import output

ANSI = re.compile(rb"\x1b\[[0-9;]*m")
SHELL = f"{sys.executable} -m verl_legacy_patch"


def shell(script: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of bash in which ``$V`` is the command."""
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "V": SHELL, **env}
    return subprocess.run(
        ["bash", "-c", script], cwd=cwd, env=environment, capture_output=True, timeout=60, check=False
    )


# --- JSON

KEYS = {"format", "version", "verl_version", "base", "target", "sites", "files", "summary"}
SITE_KEYS = {
    *(
        "path",
        "line",
        "column",
        "end_line",
        "end_column",
        "codemod",
        "action",
        "grade",
        "before",
        "after",
        "reason",
        "key",
    ),
}


def test_json_is_the_contract(mini: Path, verl: Verl) -> None:
    write(mini, {"verl/ünï.py": "# é\nimport torch\nx = f(é='😀', dtype=torch.bfloat16, name='é')  # 模型\n"})
    base = commit(mini)
    ran = verl("apply", mini, "--dry-run", "--format", "json")
    data = ran.data
    assert ran.err == "" or "Dry run" in ran.err
    assert set(data) >= KEYS and data["version"] == __version__ and data["verl_version"] == "0.5.0"
    assert data["base"] == base
    target = {"dtype": "float32", "attn": "eager", "gpu": None, "compute_capability": "6.1"}
    assert {key: data["target"][key] for key in target} == target
    assert {each["path"]: each["status"] for each in data["files"]} == {
        **dict.fromkeys([*CHANGED, "verl/ünï.py"], "modified"),
        "verl/utils/torch_padding.py": "added",
    }
    places = [(site["path"], site["line"], site["column"]) for site in data["sites"]]
    assert places == sorted(places)
    for site in data["sites"]:
        assert set(site) == SITE_KEYS
        assert site["action"] in ("rewrite", "keep", "report") and site["grade"] in ("safe", "review")
        assert (site["after"] is None) == (site["action"] != "rewrite")
        text = git(mini, "cat-file", "blob", f"HEAD:{site['path']}") + "\n"
        lines = text.split("\n")[site["line"] - 1 : site["end_line"]]
        lines[-1] = lines[-1][: site["end_column"] - 1]  # the end first: it may be the same line
        lines[0] = lines[0][site["column"] - 1 :]
        assert "\n".join(lines) == site["before"], site


def test_sites_lead_to_what_is_committed(mini: Path, verl: Verl) -> None:
    data = verl("apply", mini, "--dry-run", "--format", "json").data
    texts = {path: (mini / path).read_bytes().decode().split("\n") for path in CHANGED}
    for site in reversed(data["sites"]):
        if site["action"] == "rewrite":
            lines = texts[site["path"]]
            assert site["line"] == site["end_line"]
            line = lines[site["line"] - 1]
            lines[site["line"] - 1] = line[: site["column"] - 1] + site["after"] + line[site["end_column"] - 1 :]
    again = verl("apply", mini, "--format", "json")
    assert again.code == 0 and again.data["sites"] == data["sites"] and BRANCH in again.err
    assert {path: "\n".join(lines).encode() for path, lines in texts.items()} == {
        path: (mini / path).read_bytes() for path in CHANGED
    }
    assert all(json.dumps(data).isascii() for _ in [0])


def test_targets_in_json(mini: Path, verl: Verl) -> None:
    data = verl("apply", mini, "-n", "--format", "json", "--gpu", "V100", "--dtype", "float16", "--attn", "sdpa").data
    target = {"dtype": "float16", "attn": "sdpa", "gpu": "v100", "compute_capability": "7.0"}
    assert {key: data["target"][key] for key in target} == target


def test_json_without_git(config: Path, verl: Verl, tmp_path: Path) -> None:
    data = verl("apply", make_mini(tmp_path / "plain", git_too=False), "-n", "--format", "json").data
    assert data["base"] is None and len(data["files"]) == len(CHANGED) + 1


# --- streams


def test_streams_of_a_pipe(mini: Path) -> None:
    line = "x = f('a long line, so that the patch fills the pipe, ' * 100, dtype='bf16')\n"
    write(mini, {f"verl/many/f{number}.py": line * 10 for number in range(3)})
    commit(mini)
    done = shell('$V apply --dry-run 2>err | head -1; echo "${PIPESTATUS[0]}"; cat err', mini)
    assert done.stdout.startswith(b"diff --git a/examples/run.sh b/examples/run.sh\n0\n"), done
    assert b"Traceback" not in done.stdout and b"Exception ignored" not in done.stdout and done.stderr == b""
    done = shell("$V apply 2>&1 >/dev/null | head -1; echo ${PIPESTATUS[0]}; git branch --show-current", mini)
    assert done.stdout.decode().split("\n")[1:] == ["0", BRANCH, ""], done


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_closed_streams(mini: Path, closed: str) -> None:
    for command, code in (("apply --dry-run", 0), ("apply", 0), ("zzz", 2)):
        done = shell(f"$V {command} {closed}", mini)
        assert done.returncode == code, (command, done)
        assert b"Traceback" not in done.stderr + done.stdout
    assert git(mini, "symbolic-ref", "--short", "HEAD") == BRANCH and git(mini, "status", "--porcelain") == ""
    assert git(mini, "fsck", "--strict") == ""


def test_other_encodings(mini: Path, verl: Verl) -> None:
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    source = "# é\nimport torch\nx = f(dtype=torch.bfloat16)  # 模型\n"
    write(mini, {"verl/ünï/模型.py": source, "verl/la\udce9.py": source})
    commit(mini)
    plain = verl("apply", mini, "--dry-run").out
    other = new_process("apply", ".", "--dry-run", cwd=mini, env=env)
    assert other.returncode == 0 and other.stdout == plain and "模型".encode() in plain, other.stderr
    data = json.loads(new_process("apply", ".", "-n", "--format", "json", cwd=mini, env=env).stdout)
    assert {"verl/ünï/模型.py", "verl/la\udce9.py"} <= {site["path"] for site in data["sites"]}
    done = new_process("apply", mini, env=env)
    assert done.returncode == 0 and git(mini, "status", "--porcelain") == "", done.stderr


def test_no_home(mini: Path, config: Path) -> None:
    done = shell("unset HOME XDG_CONFIG_HOME USER LOGNAME; $V apply", mini)
    assert done.returncode == 0 and git(mini, "symbolic-ref", "--short", "HEAD") == BRANCH, done


def test_full_output(mini: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    for command in ("apply --dry-run", "codemods"):
        done = shell(f"$V {command} >/dev/full", mini)
        assert done.returncode == 3 and done.stderr.count(b"\n") == 1, (command, done)
        assert b"No space left on device" in done.stderr


def test_current_folder_that_is_gone(config: Path, tmp_path: Path) -> None:
    done = shell("mkdir x && cd x && rmdir ../x && $V apply", tmp_path)
    assert done.returncode == 3 and b"Traceback" not in done.stderr
    assert done.stderr.decode().splitlines()[-1].startswith("Error: . ")


# --- colours


def test_colours_of_the_patch(mini: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = verl("apply", mini, "-n").out
    assert b"\x1b" not in plain
    coloured = verl("apply", mini, "-n", "--color", "always").out
    assert b"\x1b[31m-" in coloured and b"\x1b[32m+" in coloured and ANSI.sub(b"", coloured) == plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert verl("apply", mini, "-n").out == coloured
    assert verl("apply", mini, "-n", "--color", "never").out == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert verl("apply", mini, "-n").out == plain
    assert verl("apply", mini, "-n", "--color", "always").out == coloured
    monkeypatch.setenv("FORCE_COLOR", "0")
    monkeypatch.setenv("NO_COLOR", "")
    assert verl("apply", mini, "-n").out == plain


def test_colours_elsewhere(config: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    assert b"\x1b" not in verl("codemods").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert b"\x1b[1m" in verl("codemods").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert b"\x1b" not in verl("codemods").out
    assert output.wants_colour() is False


# --- the other commands


def test_version_and_help(config: Path, verl: Verl) -> None:
    assert verl("--version").out == verl("-V").out == f"verl-patch {__version__}\n".encode()
    for arguments in ([], ["--help"], ["-h"]):
        text = verl(*arguments).out.decode()
        assert text.startswith("Usage: verl-patch [OPTIONS] COMMAND [ARGS]...")
        assert all(name in text for name in COMMANDS)
    for name in COMMANDS:
        ran = verl(name, "--help")
        assert ran.code == 0 and ran.out.startswith(f"Usage: verl-patch {name}".encode())
    assert set(EXIT_CODES) == {0, 1, 2, 3, 4, 130}


def test_as_a_module(config: Path, tmp_path: Path) -> None:
    done = new_process("--version", cwd=tmp_path)
    assert done.stdout == f"verl-patch {__version__}\n".encode() and done.returncode == 0
    done = new_process("aply", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith(b"Error: No such command 'aply'")


def test_codemods_and_explain(config: Path, verl: Verl) -> None:
    text = verl("codemods").out.decode()
    rows = json.loads(verl("codemods", "--format", "json").out)
    assert {row["name"] for row in rows} >= {"dtype", "attention", "remove-padding"}
    for row in rows:
        assert row["name"] in text and row["summary"] in text
        said = verl("explain", row["name"]).out.decode()
        assert row["summary"] in said and row["grade"] in said and "Why:" in said
    names = verl("gpus").out.decode()
    assert "p40" in names and "6.1" in names and "Tesla T4" in names


COMPLETIONS = {
    "bash": {"COMP_WORDS": "verl-patch {}", "COMP_CWORD": "1"},
    "zsh": {"COMP_WORDS": "verl-patch {}", "COMP_CWORD": "1"},
    "fish": {"COMP_WORDS": "verl-patch {}", "COMP_CWORD": "{}"},
}


@pytest.mark.parametrize("name", COMPLETIONS)
def test_completion(config: Path, verl: Verl, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script = verl("completion", name)
    assert script.code == 0 and b"_VERL_PATCH_COMPLETE" in script.out and b"verl-patch" in script.out
    for key, value in COMPLETIONS[name].items():
        monkeypatch.setenv(key, value.format("co"))
    monkeypatch.setenv("_VERL_PATCH_COMPLETE", f"{name}_complete")
    ran = verl()
    found = ran.out.decode()
    assert ran.code == 0 and "codemods" in found and "completion" in found and "apply" not in found, ran


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("apply --gpu t", ["t4"]),
        ("check --gpu v", ["v100"]),
        ("demo --gpu au", ["auto"]),
        ("doctor --gpu p1", ["p100"]),
        ("launch --gpu rtx", ["rtx20", "rtx8000"]),
        ("apply --select dt", ["dtype", "dtype-allowlist"]),
        ("check --ignore torch", ["torch-compile"]),
        ("apply --select dtype,dt", ["dtype,dtype-allowlist"]),
        ("explain pack", ["packing-guard"]),
        ("explain verl/wor", ["verl/wor"]),  # a file: the shell goes on
        ("apply --gpu nothing", []),
    ],
)
def test_completion_of_values(
    line: str, found: list[str], config: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMP_WORDS", f"verl-patch {line}")
    monkeypatch.setenv("COMP_CWORD", str(len(line.split())))
    monkeypatch.setenv("_VERL_PATCH_COMPLETE", "bash_complete")
    assert [each.partition(",")[2] for each in verl().out.decode().split()] == found


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion_in_the_shell(config: Path, verl: Verl, name: str, tmp_path: Path) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"no {name} here")
    write(tmp_path, {"bin/verl-patch": f"#!/bin/sh\nPYTHONPATH='{PROJECT}' exec {SHELL} \"$@\"\n"})
    (tmp_path / "bin/verl-patch").chmod(0o755)
    (tmp_path / "script").write_bytes(verl("completion", name).out)
    checks = {
        "bash": "source ./script; COMP_WORDS=(verl-patch co); COMP_CWORD=1; _verl_patch_completion verl-patch co;"
        ' printf "%s\\n" "${COMPREPLY[@]}"',
        "zsh": "autoload -U compinit && compinit -u; source ./script; whence _verl_patch_completion",
        "fish": "source ./script; complete -C 'verl-patch co'",
    }
    done = subprocess.run(
        [name, "-c", checks[name]],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0 and (b"codemods" in done.stdout or name == "zsh"), done
    assert TREE

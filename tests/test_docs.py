"""The documentation says what the program does: generated parts are current, names and links exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import click
import pytest

from verl_legacy_patch import __version__, cli
from verl_legacy_patch.codemod import discover

ROOT = Path(__file__).resolve().parent.parent
READMES = ("README.md", "README.zh.md")
PAIRS = (READMES, ("docs/fork.md", "docs/fork.zh.md"))
DOCUMENTS = (*(name for pair in PAIRS for name in pair), "CONTRIBUTING.md", "CHANGELOG.md")


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def shape(name: str) -> list[str]:
    """Return what has to be the same in every language: headings, code blocks, generated parts, tables' sizes."""
    lines = []
    inside = False
    for line in text(name).splitlines():
        if line.startswith("```"):
            inside = not inside
        elif inside:
            lines.append(line.partition("#")[0].rstrip())
        elif line.startswith("#"):
            lines.append("#" * (len(line) - len(line.lstrip("#"))))
        elif line.startswith("<!--"):
            lines.append(line)
        elif line.startswith("|"):
            lines.append("|" * line.replace("\\|", "").count("|"))
        elif line.startswith("<picture>"):
            lines += re.findall(r'(?:src|srcset|width)="([^"]+)"', line)
        elif line.startswith(("* ", "- ")):
            lines.append("*")
    return lines


@pytest.mark.parametrize("script", ["docs.py", "review_page.py"])
def test_generated_parts_and_pictures_are_current(script: str) -> None:
    command, env = [sys.executable, f"scripts/{script}", "--check"], {**os.environ, "PYTHONSAFEPATH": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("english", "chinese"), PAIRS)
def test_the_chinese_text_has_everything_that_the_english_one_has(english: str, chinese: str) -> None:
    assert shape(chinese) == shape(english)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_and_pictures_lead_somewhere(name: str) -> None:
    for target in re.findall(r'(?:\]\(|\b(?:src|srcset)=")([^)#"]+)', text(name)):
        if not target.startswith("https://"):
            assert ((ROOT / name).parent / target).is_file(), target


@pytest.mark.parametrize("name", DOCUMENTS)
def test_options_and_codemods_that_are_named_exist(name: str) -> None:
    context = click.Context(cli.main)
    commands = [cli.main.get_command(context, command) for command in cli.COMMANDS]
    options = {option for command in commands if command for param in command.params for option in param.opts}
    options |= {"--version", "--help", "--grep", "--no-verify"}
    for option in re.findall(r"`(?:verl-patch [\w ~/.]*)?(--[a-z][\w-]+)", text(name)):
        assert option in options, option
    for command in re.findall(r"`verl-patch ([a-z]+)", text(name)):
        assert command in cli.COMMANDS, command
    for names in re.findall(r"--(?:select|ignore) ([a-z][\w,-]+)", text(name)):
        assert set(names.split(",")) <= set(discover()), names


def test_the_branch_and_the_trailers_are_those_of_the_program() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "verl_legacy_patch").rglob("*.py"))
    for name in READMES:
        assert "verl-patch/float32-eager" in text(name)
        assert "Verl-Patch-Version" in text(name)
    assert "Verl-Patch-Version" in source


def test_the_picture_is_an_image_that_says_what_it_shows() -> None:
    svg = ET.fromstring(text("docs/dry-run.svg"))
    space = "{http://www.w3.org/2000/svg}"
    assert svg.get("role") == "img"
    assert svg.findtext(f"{space}title")
    shown = "\n".join("".join(row.itertext()) for row in svg.iter(f"{space}text"))
    assert "dtype: bfloat16" in shown
    assert "float32 + eager for compute capability 6.1" in shown


def test_the_changelog_has_this_version_or_is_about_to() -> None:
    headings = re.findall(r"^## \[([^\]]+)\]", text("CHANGELOG.md"), re.MULTILINE)
    assert headings[0] == "Unreleased" or headings[0] == __version__

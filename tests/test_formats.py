"""Sites for other programs: annotations, SARIF, Markdown, and reports in files."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from forks import LEFT
from minis import Verl, make_mini
from repos import as_nobody, git
from sarif import SCHEMA

from verl_legacy_patch import formats
from verl_legacy_patch.codemod import discover
from verl_legacy_patch.formats import Note
from verl_legacy_patch.setting import Site

SITE = Site("verl/a.py", 3, 14, 3, 20, "dtype", "rewrite", "safe", "bf16", "fp32", "")
ODD = Site("a b/100%,:ü\n#?\udcff.py", 1, 1, 2, 3, "attention", "rewrite", "review", "a\n  b", "", "why,\nso: 5%")


def one_of(**changes: Any) -> Site:
    return SITE._replace(**changes)


def test_lines() -> None:
    assert formats.line(SITE) == "verl/a.py:3:14 dtype bf16 -> fp32"
    assert formats.line(one_of(before="", after=", 'x'")) == "verl/a.py:3:14 dtype insert , 'x'"
    assert formats.line(one_of(after="", reason="not needed")) == "verl/a.py:3:14 dtype remove bf16 (not needed)"
    report = one_of(action="report", after=None, reason="decide")
    assert formats.line(report) == "verl/a.py:3:14 dtype bf16: decide"
    assert formats.line(ODD) == "a b/100%,:ü\\n#?\\udcff.py:1:1 attention remove a b (why, so: 5%)"
    assert formats.line(Note("a.py", 2, "idle")) == "a.py:2: idle"


def test_annotations_of_github() -> None:
    assert formats.github(SITE) == (
        "::error file=verl/a.py,line=3,col=14,endLine=3,endColumn=20,title=verl-patch dtype::bf16 -> fp32"
    )
    odd = formats.github(ODD)
    assert "\n" not in odd and "endColumn" not in odd
    assert odd.startswith("::error file=a b/100%25%2C%3Aü%0A#?\udcff.py,line=1,")
    assert odd.endswith("::remove a b (why, so: 5%25)")
    assert formats.github(Note("a.py", 2, "idle")).startswith("::warning file=a.py,line=2,title=verl-patch unused")


def test_sarif_is_valid_and_says_where_and_what() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    codemods = list(discover().values())
    log = json.loads(json.dumps(formats.sarif([SITE, ODD], codemods, [Note("a.py", 2, "idle")])))
    jsonschema.validate(log, SCHEMA)
    run = log["runs"][0]
    first, odd, note = run["results"]
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "verl/a.py", "uriBaseId": "ROOT"}
    assert place["region"] == {"startLine": 3, "startColumn": 14, "endLine": 3, "endColumn": 20}
    assert first["fixes"][0]["artifactChanges"][0]["replacements"][0]["insertedContent"] == {"text": "fp32"}
    uri = odd["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "a%20b/100%25%2C%3A%C3%BC%0A%23%3F%FF.py"
    rules = {rule["id"]: rule["defaultConfiguration"]["level"] for rule in run["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in run["results"]} <= rules.keys()
    assert (rules["dtype"], rules["remove-padding"], note["level"]) == ("error", "warning", "note")


def test_sarif_says_key_codemod_and_reason() -> None:
    """A list of alerts shows this text alone."""
    packing = one_of(codemod="remove-padding", before="True", after="False", key="model.use_remove_padding")
    report = one_of(codemod="dead-keys", action="report", after=None, reason="nothing reads it", key="a.dtype")
    sites = [packing, report, one_of(before="", after="check()", reason="refuses")]
    log = formats.sarif(sites, list(discover().values()))
    assert [result["message"]["text"] for result in log["runs"][0]["results"]] == [
        "remove-padding: model.use_remove_padding: True -> False. "
        "Turn sequence packing off: attention that is not flash cannot be trusted with it.",
        "dead-keys: a.dtype: bf16: nothing reads it",
        "dtype: insert check() (refuses)",
    ]


def test_sites_have_their_key(mini: Path, verl: Verl) -> None:
    sites = verl("check", mini, "--format", "json").data["sites"]
    keys = {(site["path"].rpartition("/")[2], site["codemod"]): site["key"] for site in sites}
    assert keys["run.sh", "dtype"] == "rollout.dtype"
    assert keys["trainer.yaml", "torch-compile"] == "actor.use_torch_compile"
    assert keys["actor.py", "attention"].endswith("attn_implementation")
    assert keys["packing.py", "flash-attn-import"] == ""


def test_what_the_schema_refuses() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    log = formats.sarif([SITE], [])
    log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(log, SCHEMA)
    log = formats.sarif([SITE], [])
    log["runs"][0]["results"][0]["path"] = "x"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(log, SCHEMA)


# --- through the command


def test_paths_start_where_one_is(mini: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    def paths(*arguments: str | Path) -> set[str]:
        return {line.partition(":")[0] for line in verl("check", *arguments).out.decode().splitlines()}

    monkeypatch.chdir(mini)
    assert paths("verl/workers") == paths(mini / "verl/workers") == {"verl/workers/actor.py"}
    monkeypatch.chdir(mini / "verl/utils")
    assert paths("windows.py", "../workers/actor.py") == {"windows.py", "../workers/actor.py"}
    monkeypatch.chdir(mini.parent)
    assert paths(mini.name) >= {f"{mini.name}/verl/workers/actor.py"}
    monkeypatch.chdir("/")
    assert paths(mini) >= {str(mini.relative_to("/") / "verl/workers/actor.py")}
    (mini.parent / "elsewhere").mkdir()
    monkeypatch.chdir(mini.parent / "elsewhere")
    assert paths(mini) >= {str(mini / "verl/workers/actor.py")}


def test_annotations_start_at_the_workspace(mini: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(mini / "verl")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(mini.parent))
    assert b"file=verl-clone/verl/workers/actor.py,line=" in verl("check", "workers", "--format", "github").out
    monkeypatch.delenv("GITHUB_WORKSPACE")
    assert b"file=verl/workers/actor.py,line=" in verl("check", "workers", "--format", "github").out


def test_sarif_of_a_checkout_is_valid_for_any_path(config: Path, tmp_path: Path, verl: Verl) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    root = make_mini(tmp_path / "fork", {"verl/ü #?\n.py": LEFT, "verl/b.py": "X = 1  # verl-patch: keep\n"})
    ran = verl("check", root, "--format", "sarif")
    jsonschema.validate(ran.data, SCHEMA)
    assert ran.out.isascii() and ran.code == 1
    assert len(ran.data["runs"][0]["results"]) == 11 and "remove it" in ran.out.decode()


# --- reports in files

SUFFIXES = (".html", ".json", ".md", ".patch", ".diff", ".sarif", ".txt", ".MD")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("command", ["apply", "check"])
def test_report_of_both_commands(command: str, suffix: str, mini: Path, tmp_path: Path, verl: Verl) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    file = tmp_path / f"report{suffix}"
    file.write_text("former")
    file.chmod(0o640)
    plain = verl(command, mini, *(["--dry-run"] if command == "apply" else []))
    options = ["--dry-run"] if command == "apply" else []
    ran = verl(command, mini, *options, "--report", file)
    assert (ran.code, ran.out) == (plain.code, plain.out)
    assert ran.err == f"{plain.err}Wrote {file}\n"
    content = file.read_bytes().decode()
    assert file.stat().st_mode & 0o777 == 0o640 and [p.name for p in tmp_path.glob(".report*")] == []
    if suffix == ".json":
        assert json.loads(content)["verl_version"] == "0.5.0" and json.loads(content)["unused_suppressions"] == []
    elif suffix == ".sarif":
        jsonschema.validate(json.loads(content), SCHEMA)
    elif suffix in (".patch", ".diff"):
        git(mini, "apply", "--check", str(file))
    elif suffix == ".html":
        assert content.startswith("<!") and "verl/workers/actor.py" in content
    else:
        assert "verl 0.5.0" in content and "dtype" in content
    if suffix.lower() == ".md":
        assert re.search(r"\* `verl/workers/actor.py:\d+` dtype: `torch.bfloat16 -> torch.float32`", content)
        assert all(re.match(r"[#|*]|$|verl 0\.5\.0", line) for line in content.splitlines())


def test_report_of_a_real_run_and_of_one_that_is_refused(mini: Path, tmp_path: Path, verl: Verl) -> None:
    (mini / "README.md").write_text("changed\n")
    verl("apply", mini, "--report", tmp_path / "a.json").refused(3, "uncommitted")
    assert not (tmp_path / "a.json").exists() and not list(tmp_path.glob(".a.json*"))
    git(mini, "checkout", "-q", "README.md")
    assert verl("apply", mini, "--report", tmp_path / "a.json").done().err.endswith(f"\nWrote {tmp_path}/a.json\n")
    assert len(json.loads((tmp_path / "a.json").read_text())["files"]) == 6


def test_no_room_for_the_report_means_that_nothing_is_written(mini: Path, tmp_path: Path, verl: Verl) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o555)
    with as_nobody(mini):
        before = git(mini, "status", "--porcelain")
        verl("apply", mini, "--report", closed / "a.json").refused(3, "Permission denied")
        verl("check", mini, "--fix", "--report", closed / "a.json").refused(3, "Permission denied")
        assert git(mini, "status", "--porcelain") == before == ""
        assert git(mini, "branch") == "* main"


def test_a_report_without_a_folder_is_refused_before_anything_else(mini: Path, tmp_path: Path, verl: Verl) -> None:
    (tmp_path / "link.html").symlink_to(tmp_path / "gone/a.html")
    for name, folder in (("none/a.json", "none"), ("none/deep/a.patch", "none/deep"), ("link.html", "gone")):
        for arguments in (("apply", mini, "-n"), ("apply", mini), ("check", mini), ("apply", mini, "--interactive")):
            verl(*arguments, "--report", tmp_path / name).refused(3, name, f"create the folder {tmp_path / folder}")
    assert git(mini, "branch") == "* main"


def test_errors_name_the_report_and_not_the_file_that_is_written_first(
    mini: Path, tmp_path: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fchmod", full)
    verl("check", mini, "--report", tmp_path / "a.json").refused(3, f"Error: {tmp_path}/a.json: No space left")
    assert not list(tmp_path.glob("*a.json*")) and not list(tmp_path.glob(".verl-patch*"))


def test_a_report_replaces_no_device_and_no_pipe(mini: Path, tmp_path: Path, verl: Verl) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "link.json").symlink_to("pipe.json")
    for name in ("pipe.json", "link.json"):
        verl("check", mini, "--fix", "--report", tmp_path / name).refused(3, name, "is no regular file")
    assert (tmp_path / "pipe.json").is_fifo() and git(mini, "status", "--porcelain") == ""


@pytest.mark.parametrize("name", ["report", "report.csv", "x.json.bak"])
def test_report_with_another_suffix_is_a_usage_error(name: str, mini: Path, verl: Verl) -> None:
    verl("apply", mini, "--report", name).refused(2, name, ".json", ".sarif")
    verl("check", mini, "--report", name).refused(2, name, ".md")
    assert git(mini, "branch") == "* main"


def test_report_over_several_checkouts_is_refused(mini: Path, tmp_path: Path, verl: Verl) -> None:
    other = make_mini(tmp_path / "other")
    verl("check", mini, other, "--format", "json").refused(2, "2 checkouts", "one at a time")
    verl("check", mini, other, "--report", tmp_path / "a.md").refused(2, "2 checkouts")
    both = verl("check", mini, other)
    assert both.code == 1 and len(re.findall(rb"verl/workers/actor.py:\d+:\d+ dtype", both.out)) == 2


def test_markdown_of_hostile_names(config: Path, tmp_path: Path, verl: Verl) -> None:
    root = make_mini(tmp_path / "fork", {"verl/`|<b>*\n.py": LEFT})
    assert verl("check", root, "--report", tmp_path / "a.md").code == 1
    text = (tmp_path / "a.md").read_text()
    assert "* `` verl/`|<b>*\\n.py:3 `` dtype: `torch.bfloat16 -> torch.float32`\n" in text


def test_patch_of_check_is_what_fix_writes(mini: Path, tmp_path: Path, verl: Verl) -> None:
    verl("check", mini, "--report", tmp_path / "a.patch")
    assert verl("check", mini, "--fix").code == 1
    git(mini, "add", "-A")
    git(mini, "apply", "--cached", "-R", str(tmp_path / "a.patch"))
    assert git(mini, "diff", "--cached", "--name-only") == ""

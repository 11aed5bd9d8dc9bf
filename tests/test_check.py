"""``check``: exit codes, what is read, and what is left when it fails half-way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from forks import LEFT, RIGHT
from minis import PROJECT, Verl, everything, make_mini, new_process
from repos import as_nobody, git, leftovers, python, write

from verl_legacy_patch.checkout import DirectoryCheckout
from verl_legacy_patch.checkout.selection import locate, root_of
from verl_legacy_patch.quick import nothing_to_say

LINE = "verl/a.py:3:20 dtype torch.bfloat16 -> torch.float32\n"


@pytest.fixture
def done(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verl: Verl) -> Path:
    """Return a fork without a place left, which is the current folder."""
    root = make_mini(tmp_path / "fork")
    assert verl("check", "--fix", root).code == 1
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "rewritten")
    monkeypatch.chdir(root)
    return root


def test_exit_codes_and_one_line_per_site(done: Path, verl: Verl) -> None:
    nothing = verl("check")
    assert (nothing.code, nothing.out, nothing.err) == (0, b"", "0 places left in 11 files\n")
    named = verl("check", "README.md", "verl/workers/actor.py")
    assert (named.code, named.out, named.err) == (0, b"", "")  # hooks have nothing to say mostly
    write(done, {"verl/a.py": LEFT})
    assert verl("check").code == 0  # git does not know it
    assert verl("check", "verl/a.py").code == 1  # unless it is asked about
    git(done, "add", "verl/a.py")
    left = verl("check")
    assert (left.code, left.out.decode()) == (1, LINE)
    assert left.err == (
        "1 place left in 1 file; rewrite on disk: verl-patch check --fix, with a commit: verl-patch apply\n"
    )
    fixed = verl("check", "--fix")
    assert (fixed.code, fixed.out.decode(), fixed.err) == (1, LINE, "rewrote verl/a.py\n")
    assert verl("check", "--fix").code == 0
    assert git(done, "diff", "--cached", "--name-only") == git(done, "diff", "--name-only") == "verl/a.py"


@pytest.mark.parametrize("format", ["text", "json", "github", "sarif"])
def test_a_reader_that_has_gone_changes_nothing(format: str, done: Path) -> None:
    """``check --fix | head`` rewrites all the same, and ``set -o pipefail`` sees the exit code."""
    write(done, {"verl/a.py": LEFT + "# " + "x" * 99_000})
    for fix in ([], ["--fix"]):
        reader, writer = os.pipe()
        os.close(reader)
        ran = new_process(
            "check", *fix, "--format", format, "verl/a.py", stdout=writer, stderr=-1, capture_output=False
        )
        os.close(writer)
        assert ran.returncode == 1 and b"Exception" not in ran.stderr and b"Error" not in ran.stderr, ran
        assert (RIGHT in (done / "verl/a.py").read_text()) == bool(fix)


REPORTED = "python t.py actor_rollout_ref.rollout.name=sglang\n"


def test_what_a_person_has_to_decide_is_counted_and_fails_when_that_is_asked_for(done: Path, verl: Verl) -> None:
    write(done, {"run.sh": REPORTED, "verl/a.py": LEFT})
    ran = verl("check", "run.sh", "--format", "json")
    assert (ran.code, ran.err) == (0, "") and [site["action"] for site in ran.data["sites"]] == ["report"]
    ran = verl("check", "run.sh")
    decide = "0 places left in 1 file; 1 for a person to decide"
    assert (ran.code, ran.out, ran.err) == (0, b"", f"{decide} (--strict lists them)\n")
    ran = verl("check", "run.sh", "--strict")
    assert (ran.code, ran.err) == (1, f"{decide}\n")
    assert ran.out.startswith(b"run.sh:1:44 unsupported-backend sglang: ") and ran.out.count(b"\n") == 1
    ran = verl("check", "run.sh", "verl/a.py")
    assert ran.code == 1 and ran.err.startswith(
        "1 place left in 1 file, and 1 for a person to decide (--strict lists them); rewrite on disk: "
    )
    ran = verl("check", "--fix", "run.sh", "verl/a.py")
    assert ran.err == "rewrote verl/a.py\n1 place for a person to decide (--strict lists them)\n"
    assert verl("check", "--fix", "--strict", "run.sh", "verl/a.py").code == 1
    assert b"::warning file=run.sh" in verl("check", "run.sh", "--strict", "--format", "github").out
    (result,) = verl("check", "run.sh", "--strict", "--format", "sarif").data["runs"][0]["results"]
    assert result["level"] == "note"
    assert verl("check", "--strict", "verl/workers/actor.py").code == 0
    write(done, {"run.sh": REPORTED.rstrip() + "  # verl-patch: keep[unsupported-backend]\n"})
    assert verl("check", "--strict", "run.sh").code == 0


def test_reports_have_no_grade_that_leaves_them_out(done: Path, verl: Verl) -> None:
    write(done, {"run.sh": "python t.py actor_rollout_ref.actor.ulysses_sequence_parallel_size=2\n"})
    for options in ([], ["--safe-only"]):
        assert b" sequence-parallel 2: " in verl("check", "--strict", *options, "run.sh").out


def test_json_has_what_stays_when_it_is_asked_for(done: Path, verl: Verl) -> None:
    write(done, {"verl/a.py": LEFT + "if dtype == torch.bfloat16:\n    pass\n"})
    ran, whole = (verl("check", "verl/a.py", "--format", "json", *more).data for more in ([], ["--kept"]))
    assert [site["action"] for site in ran["sites"]] == ["rewrite"]
    assert [site["action"] for site in whole["sites"]] == ["rewrite", "keep"]
    assert ran["summary"] == whole["summary"] and ran["summary"]["keep"] == 1


# --- new files


@pytest.mark.parametrize("arguments", [["mine/"], ["mine"], ["."], ["mine", "mine/deep/b.py"], ["./mine/deep/.."]])
def test_a_folder_means_its_new_files_too(arguments: list[str], done: Path, verl: Verl) -> None:
    write(done, {"mine/a.py": LEFT, "mine/deep/b.py": LEFT, "mine/run.sh": "python t.py dtype=bf16\n"})
    write(done, {"mine/ignored/c.py": LEFT, "mine/venv/d.py": LEFT, "mine/.verl-patch-x/e.py": LEFT})
    write(done, {".gitignore": "ignored/\n"})
    ran = verl("check", *arguments)
    names = sorted({line.partition(":")[0] for line in ran.out.decode().splitlines()})
    assert (ran.code, names) == (1, ["mine/a.py", "mine/deep/b.py", "mine/run.sh"])
    assert verl("check", "--fix", *arguments).code == 1
    assert (done / "mine/deep/b.py").read_text() == RIGHT and (done / "mine/ignored/c.py").read_text() == LEFT
    assert verl("check", *arguments).code == 0


def test_without_paths_there_is_a_word_about_new_files(done: Path, verl: Verl) -> None:
    write(done, {"mine/a.py": LEFT, "notes.py": "A = 1\n", "tests/b.py": LEFT, "mine/c.md": "bfloat16\n"})
    said = "not looked into, as git does not track it: mine/a.py; to do so: verl-patch check .\n"
    ran = verl("check")
    assert (ran.code, ran.out, ran.err) == (0, b"", f"0 places left in 11 files\n{said}")
    write(done, {f"mine/{name}.py": LEFT for name in "xyz"})
    assert "git does not track it: mine/a.py, mine/x.py and 2 more;" in verl("check").err
    assert "track" not in verl("check", "--format", "sarif").err + verl("check", "verl").err


def test_other_repositories_among_new_files_are_not_ours(done: Path, verl: Verl) -> None:
    make_mini(done / "mine/other")
    write(done, {"mine/a.py": LEFT})
    assert verl("check", "mine").out.decode() == LINE.replace("verl/", "mine/")
    assert "other" not in verl("check").err


def test_a_folder_without_a_file_of_git_is_named(done: Path, verl: Verl) -> None:
    write(done, {"out/a.py": LEFT, ".gitignore": "out/\n", "empty/.keep": ""})
    (done / "empty/.keep").unlink()
    for name in ("out", "empty"):
        ran = verl("check", name)
        assert ran.code == 0 and f"{name} holds no file that git tracks or could add" in ran.err
    assert verl("check", "out/a.py").code == 1
    assert "holds no file" not in verl("check", "verl", ".").err


def test_only_what_is_given_is_read(done: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    write(done, {"verl/a.py": LEFT, "verl/b.py": LEFT, "verl/workers/c.py": LEFT})
    git(done, "add", "-A")
    read: list[bytes] = []
    real = DirectoryCheckout._read
    monkeypatch.setattr(DirectoryCheckout, "_read", lambda self, path: read.append(path) or real(self, path))  # type: ignore[func-returns-value]
    assert verl("check", "verl/a.py").out.decode() == LINE
    assert set(read) == {b"verl/a.py"}
    read.clear()
    assert b"verl/workers/c.py" in verl("check", "verl/workers").out
    assert all(path.startswith(b"verl/workers/") for path in read)


@pytest.mark.parametrize("path", ["nothing.py", "verl/nothing", "verl/a.py/b"])
def test_a_path_that_is_not_there(path: str, done: Path, verl: Verl) -> None:
    verl("check", path).refused(3, path, "does not exist")


def test_nothing_found_is_no_answer_where_nothing_can_be(
    done: Path, tmp_path: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(done / "pipe.py")
    verl("check", "pipe.py").refused(3, "pipe.py", "no regular file")
    git(done, "clone", "-q", "--bare", ".", str(tmp_path / "bare"))
    verl("check", tmp_path / "bare").refused(3, "bare repository")
    verl("check", ".git").refused(3, ".git folder")
    monkeypatch.chdir(tmp_path / "bare")
    verl("check").refused(3, "bare repository")
    verl("check", "--fix", ".").refused(3, "bare repository")
    write(done, {".verl-patch.toml": 'select = ["dtype"]\nignore = ["dtype"]\n'})
    verl("check", done).refused(2, "no codemod is left", ".verl-patch.toml")
    verl("status", done).refused(2, "no codemod is left")


def test_a_folder_that_is_no_checkout(
    config: Path, tmp_path: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "other", {"sub/a.py": LEFT, "run.sh": "python t.py trainer.nothing=1\n"})
    monkeypatch.chdir(tmp_path / "other")
    for arguments in ((), (".",), ("sub",), ("--fix", tmp_path / "other")):
        verl("check", *arguments).refused(3, "is not a verl checkout")
    assert verl("check", "sub/a.py").code == 1  # a file is only what it is
    monkeypatch.setattr("verl_legacy_patch.checkout.directory.MOST_FILES", 1)
    assert verl("check", "run.sh").code == 0  # and nothing is walked for it


def test_without_git(config: Path, tmp_path: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_mini(tmp_path / "wheel", {".verl-patch.toml": 'dtype = "float16"\n'}, git_too=False)
    monkeypatch.chdir(root / "verl/workers")
    assert verl("check", "actor.py").out.count(b"torch.float16") == 1  # the configuration is found from below
    monkeypatch.chdir(root)
    assert verl("check", "--fix").code == 1
    assert verl("check").code == 0
    assert "torch.float16" in (root / "verl/workers/actor.py").read_text()


def test_without_any_sign_of_a_root_it_is_the_current_folder(
    config: Path, tmp_path: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A work tree whose repository is elsewhere (``git --git-dir``): hooks run at its top."""
    write(tmp_path / "tree", {"tests/a.py": LEFT, "src/megatron/b.py": LEFT, "src/c.py": LEFT})
    monkeypatch.chdir(tmp_path / "tree")
    ran = verl("check", "tests/a.py", "src/megatron/b.py", "src/c.py")
    assert ran.out.decode() == LINE.replace("verl/a.py", "src/c.py")
    assert root_of(tmp_path / "tree/src/c.py") == tmp_path / "tree"
    monkeypatch.chdir("/")
    assert locate(tmp_path / "tree/src/c.py")[1].endswith("tree/src/c.py")


def test_ways_to_name_a_file(done: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(done, {"verl/a.py": LEFT, "verl/ü \n.py": LEFT})
    (tmp_path / "short").symlink_to(done / "verl")
    for name in ("./verl/a.py", done / "verl/a.py", "verl/../verl/a.py", tmp_path / "short/a.py"):
        assert verl("check", name).out.decode() == LINE, name
    assert verl("check", "verl/ü \n.py").out.decode() == LINE.replace("a.py", "ü \\n.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_DIR", "/nowhere")  # as a hook of another repository would have it
    monkeypatch.setenv("GIT_WORK_TREE", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    assert verl("check", done / "verl/a.py").out.decode() == "fork/" + LINE
    assert verl("check", done).out.decode().startswith("fork/" + LINE)


def test_links_are_not_followed(done: Path, verl: Verl, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text(LEFT)
    (done / "verl/link.py").symlink_to(tmp_path / "outside.py")
    (done / "verl/dead.py").symlink_to("nowhere")
    git(done, "add", "-A")
    assert verl("check", "--fix", "verl/link.py", "verl/dead.py").code == 0
    assert verl("check", "--fix").code == 0
    assert (tmp_path / "outside.py").read_text() == LEFT


def test_submodules_are_repositories_of_their_own(config: Path, tmp_path: Path, verl: Verl) -> None:
    config.write_text(config.read_text() + '[protocol "file"]\n\tallow = always\n')
    recipe = make_mini(tmp_path / "recipe", {".verl-patch.toml": 'dtype = "float16"\n'})
    root = make_mini(tmp_path / "fork")
    git(root, "submodule", "--quiet", "add", str(recipe), "recipe")
    git(root, "commit", "-q", "-m", "recipe")
    assert b"recipe/" not in verl("check", root).out
    assert b"torch.float16" in verl("check", root / "recipe/verl/workers/actor.py").out
    assert b"torch.float16" in verl("check", root / "recipe").out


def test_comments_that_keep_nothing_are_named(done: Path, verl: Verl) -> None:
    write(done, {"verl/a.py": "A = 1  # verl-patch: keep\nB = 2  # verl-patch: keep[dtyp]\n"})
    ran = verl("check", "verl/a.py")
    assert ran.code == 0 and ran.out == b""
    assert ran.err.splitlines() == [
        "verl/a.py:1: this 'verl-patch: keep' keeps nothing, remove it",
        "verl/a.py:2: 'verl-patch: keep' names 'dtyp', which is no codemod; did you mean dtype?",
    ]
    assert len(verl("check", "verl/a.py", "--format", "json").data["unused_suppressions"]) == 2
    assert verl("check", "verl/a.py", "--format", "github").out.count(b"::warning ") == 2
    # another time the others run
    assert "remove it" not in verl("check", "verl/a.py", "--select", "attention").err


def test_syntax_errors(done: Path, verl: Verl) -> None:
    write(done, {"verl/bad.py": "def f(dtype=torch.bfloat16:\n", "verl/a.py": LEFT, "verl/other.py": "def (:\n"})
    ran = verl("check", "--fix", "verl/bad.py", "verl/a.py")
    assert ran.code == 4 and ran.out.decode() == LINE
    assert ran.err.splitlines()[0].startswith("Error: verl/bad.py:1: ") and "Traceback" not in ran.err
    assert (done / "verl/a.py").read_text() == LEFT
    assert verl("check", "verl/other.py").code == 0  # nothing in it to look at


def test_a_file_that_cannot_be_read_or_written(done: Path, verl: Verl) -> None:
    write(done, {"verl/a.py": LEFT, "verl/b.py": LEFT})
    (done / "verl/a.py").chmod(0o000)
    (done / "verl/b.py").chmod(0o444)
    with as_nobody(done):
        verl("check", "verl/a.py").refused(3, "verl/a.py", "Permission denied")
        ran = verl("check", "--fix", "verl/b.py")
        assert ran.code == 3 and "read-only" in ran.err
    assert (done / "verl/b.py").read_text() == LEFT


def test_modes_and_line_endings_stay(done: Path, verl: Verl) -> None:
    write(done, {"verl/a.py": LEFT.replace("\n", "\r\n").rstrip(), "run.sh": "#!/bin/sh\npython t.py dtype=bf16"})
    (done / "run.sh").chmod(0o755)
    assert verl("check", "--fix", "verl/a.py", "run.sh").code == 1
    assert (done / "verl/a.py").read_bytes() == RIGHT.replace("\n", "\r\n").rstrip().encode()
    assert (done / "run.sh").stat().st_mode & 0o777 == 0o755


def test_modules_of_a_former_version_are_replaced_and_others_are_not(done: Path, verl: Verl) -> None:
    module = done / "verl/utils/torch_padding.py"
    now = module.read_text()
    write(done, {"verl/a.py": "from flash_attn.bert_padding import pad_input\n"})
    module.write_text(now.replace("import torch", "import torch as former"))
    ran = verl("check", "--fix", "verl/a.py")
    assert ran.code == 1 and "rewrote verl/utils/torch_padding.py" in ran.err
    assert module.read_text() == now
    module.write_text("# my own\n")
    write(done, {"verl/a.py": "from flash_attn.bert_padding import pad_input\n"})
    ran = verl("check", "--fix", "verl/a.py")
    assert ran.code == 4 and "exists already with other content" in ran.err
    assert module.read_text() == "# my own\n"


# --- two at a time, interrupts, no room

SLOW = """
import sys, time
import verl_legacy_patch.branch.inplace as inplace
real = inplace._stage
def slow(*arguments):
    real(*arguments)
    print("staged", flush=True)
    time.sleep({seconds})
inplace._stage = slow
from verl_legacy_patch.cli import run
sys.exit(run(["check", "--fix", "verl/a.py", "verl/b.py"]))
"""


def start(root: Path, seconds: float = 1) -> subprocess.Popen[bytes]:
    process = python(SLOW.format(seconds=seconds), cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    while b"staged" not in (line := process.stdout.readline()):
        assert line, process.stderr and process.stderr.read()
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_fix_leaves_the_files(number: int, done: Path, verl: Verl) -> None:
    write(done, {"verl/a.py": LEFT, "verl/b.py": LEFT})
    before = everything(done)
    process = start(done, 30 if number == signal.SIGKILL else 1)
    os.killpg(process.pid, number)
    process.communicate()
    assert process.returncode != 0
    assert {path: entry for path, entry in everything(done).items() if ".verl-patch-" not in path} == before
    if number != signal.SIGKILL:
        assert everything(done) == before and leftovers(done / ".git") == []
    assert verl("check", "--fix", "verl/a.py", "verl/b.py").code == 1
    assert (done / "verl/a.py").read_text() == RIGHT


def test_what_a_killed_run_leaves_is_not_taken_for_sources(done: Path, verl: Verl) -> None:
    write(done, {"verl/a.py": LEFT, "verl/b.py": LEFT})
    process = start(done, 30)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    git(done, "add", "-A")
    names = [line.partition(":")[0] for line in verl("check").out.decode().splitlines()]
    assert names == ["verl/a.py", "verl/b.py"]


def test_two_fixes_at_once(done: Path, verl: Verl) -> None:
    write(done, {"verl/a.py": LEFT, "verl/b.py": LEFT})
    process = start(done)
    second = verl("check", "--fix", "verl/a.py")
    assert second.code == 3 and "another verl-patch is writing" in second.err
    process.communicate()
    assert process.returncode == 1
    assert (done / "verl/a.py").read_text() == (done / "verl/b.py").read_text() == RIGHT


def test_a_file_that_an_editor_saves_meanwhile_is_not_overwritten(done: Path) -> None:
    write(done, {"verl/a.py": LEFT, "verl/b.py": LEFT})
    process = start(done)
    write(done, {"verl/b.py": "mine\n"})
    _, err = process.communicate()
    assert process.returncode == 3 and b"has changed since it was read" in err
    assert ((done / "verl/a.py").read_text(), (done / "verl/b.py").read_text()) == (LEFT, "mine\n")


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="mounts a small disk")
def test_full_disk(config: Path, tmp_path: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(small)], check=False).returncode:
        return  # a container may not mount
    try:
        root = make_mini(small / "fork", {"verl/big.py": LEFT + "# x\n" * 100_000}, git_too=False)
        filler = small / "filler"
        with filler.open("wb", buffering=0) as file:
            for size in (65536, 4096):
                try:
                    while file.write(b"\0" * size):
                        pass
                except OSError:
                    continue
        before = everything(root)
        monkeypatch.chdir(root)
        ran = verl("check", "--fix", "verl/big.py", "verl/workers/actor.py")
        assert ran.code == 3 and "No space left" in ran.err
        assert everything(root) == before
        filler.unlink()
        assert verl("check", "--fix", "verl/big.py").code == 1
    finally:
        monkeypatch.undo()
        subprocess.run(["umount", str(small)], check=True)


def test_in_a_locale_without_unicode(done: Path) -> None:
    write(done, {"verl/ü.py": LEFT})
    for env in ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "ascii"}):
        ran = new_process("check", "verl/ü.py", cwd=done, env=env)
        assert ran.returncode == 1 and b"dtype torch.bfloat16 -> torch.float32" in ran.stdout, ran.stderr
        assert b"Traceback" not in ran.stderr


# --- the first look


def test_the_first_look_agrees_with_the_command(done: Path, verl: Verl) -> None:
    write(
        done,
        {
            "verl/a.py": LEFT,
            "verl/b.py": "X = 1  # verl-patch: keep\n",
            "verl/c.py": "import verl.utils.torch_padding\n",
        },
    )
    names = [*git(done, "ls-files").split("\n"), "verl/a.py", "verl/b.py", "verl/c.py"]
    silent = {name for name in names if nothing_to_say(["--fix", "--strict", name])}
    for name in names:
        ran = verl("check", name)
        if name in silent:
            assert (ran.code, ran.out, ran.err) == (0, b"", ""), name
    assert silent >= {"verl/__init__.py", "README.md", "verl/version/version"}
    assert silent.isdisjoint({"verl/a.py", "verl/b.py", "verl/c.py"})
    assert nothing_to_say(["verl/__init__.py", "README.md"]) and not nothing_to_say(["verl/__init__.py", "verl/a.py"])


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--fix"],
        ["."],
        ["verl"],
        ["none.py"],
        ["--format", "json", "README.md"],
        ["--help"],
        ["--", "README.md"],
        ["-"],
    ],
)
def test_the_first_look_leaves_everything_else_to_the_command(arguments: list[str], done: Path) -> None:
    assert nothing_to_say(["README.md"]) and not nothing_to_say(arguments)


@pytest.mark.parametrize(
    "text",
    [
        'gpu = "titanic"', "gpuu = 1", "select = []", 'ignore = ["dtyp"]', 'keys.dtyp = ["x"]', "gpu = [",
        'gpu = "auto"', 'select = ["dtype"]\nignore = ["dtype"]', 'select = ["remove-padding"]\nsafe-only = true',
    ],
)  # fmt: skip
def test_the_first_look_passes_over_no_wrong_configuration(text: str, done: Path) -> None:
    write(done, {".verl-patch.toml": text})
    assert not nothing_to_say(["README.md"])


def test_the_first_look_knows_the_keys_of_the_configuration(done: Path, verl: Verl) -> None:
    write(done, {".verl-patch.toml": 'keys.torch-compile = ["my_compile"]\n', "a.yaml": "my_compile: true\n"})
    assert not nothing_to_say(["a.yaml"]) and verl("check", "a.yaml").code == 1


def test_the_program_takes_the_first_look(done: Path) -> None:
    code = (
        "import os, sys; from verl_legacy_patch.__main__ import main\n"
        "leave = os._exit\n"
        "os._exit = lambda code: (print('click' in sys.modules, flush=True), leave(code))\n"
        "main()"
    )
    for name, loaded in (("README.md", b"False"), ("verl/a.py", b"True")):
        write(done, {"verl/a.py": LEFT})
        env = {**os.environ, "PYTHONPATH": str(PROJECT)}
        ran = subprocess.run(
            [sys.executable, "-c", code, "check", name], cwd=done, env=env, capture_output=True, check=False
        )
        assert ran.stdout.split()[-1] == loaded and ran.returncode == (name != "README.md")

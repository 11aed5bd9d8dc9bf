"""Which files ``check`` looks into: new ones, folders, links, submodules, the ways to name one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from forks import LEFT, LINE, RIGHT
from minis import Verl, make_mini
from repos import git, write

from verl_legacy_patch.checkout import DirectoryCheckout
from verl_legacy_patch.checkout.selection import locate, root_of

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


# --- what is given


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


# --- where nothing can be found


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


# --- without a repository


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

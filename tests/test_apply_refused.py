"""Bad input: one line on stderr, the exit code of the documentation, and a checkout that is byte for byte as before."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from minis import BRANCH, TREE, Verl, everything, make_mini, without_traces
from repos import as_nobody, commit, git, leftovers, write

from verl_legacy_patch.commands import apply, writing

BROKEN = "import torch\n\n\ndef make(:\n    return torch.bfloat16\n"


@pytest.fixture
def refused(verl: Verl, tmp_path: Path) -> Callable[..., None]:
    """Run apply, which must refuse and leave everything alone; a dry run in the same place may go well."""

    def check(root: Path, code: int, *words: str, options: tuple[str, ...] = (), traces: bool = False) -> None:
        before, locks = everything(root), leftovers(root / ".git")
        verl("apply", root, *options).refused(code, *words)
        after = everything(root)
        if traces:
            before, after = without_traces(before), without_traces(after)
        assert after == before
        if (root / ".git").is_dir():
            assert leftovers(root / ".git") == locks
            git(root, "fsck")
        assert list((tmp_path / "scratch").iterdir()) == []

    return check


Refused = Callable[..., None]


# --- what is no checkout


def test_no_directory(config: Path, verl: Verl, tmp_path: Path) -> None:
    write(tmp_path, {"file": "x"})
    for name, word in (("file", "is not a directory"), ("none", "does not exist"), ("new\nline", "new\\nline")):
        for options in ([], ["--dry-run"], ["--in-place"], ["--format", "json"]):
            verl("apply", tmp_path / name, *options).refused(3, word)
    verl("apply", tmp_path / ("n" * 300)).refused(3, "File name too long")


def test_not_verl(config: Path, refused: Refused, tmp_path: Path) -> None:
    write(tmp_path / "plain", {"main.py": "dtype = 'bf16'\n"})
    refused(tmp_path / "plain", 3, "is not a verl checkout", "verl/__init__.py")
    write(tmp_path / "repo", {"main.py": "dtype = 'bf16'\n"})
    git(tmp_path / "repo", "init", "-q")
    commit(tmp_path / "repo")
    refused(tmp_path / "repo", 3, "is not a verl checkout")


def test_no_git(config: Path, refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = make_mini(tmp_path / "plain", git_too=False)
    refused(plain, 3, "is no git repository", "--in-place")
    refused(plain, 3, "has no revision v1", options=("--base", "v1"))
    repo = make_mini(tmp_path / "repo")
    monkeypatch.setenv("PATH", str(tmp_path))
    before = everything(repo)
    refused(plain, 3, "is no git repository")
    with pytest.raises(FileNotFoundError):
        refused(repo, 3, "git is not installed")  # the check of the repository needs git itself
    assert everything(repo) == before


def test_bare_unborn_and_inside_git(
    mini: Path, refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(mini), "bare")
    refused(tmp_path / "bare", 3, "is a bare repository")
    refused(mini / ".git", 3, "is inside a .git folder")
    elsewhere = shutil.copytree(mini, tmp_path / "elsewhere")
    shutil.move(elsewhere / ".git", tmp_path / "dot.git")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "dot.git"))
    refused(elsewhere, 3, "is no git repository (GIT_DIR is not looked at")
    monkeypatch.delenv("GIT_DIR")
    new = make_mini(tmp_path / "new", git_too=False)
    git(new, "init", "-q")
    refused(new, 3, "has no commit yet")
    git(mini, "switch", "-q", "--orphan", "empty")
    git(mini, "mktree", text="")  # fsck misses it otherwise
    refused(mini, 3, "has no commit yet")


def test_broken_repository(mini: Path, verl: Verl) -> None:
    for path, content in ((".git/HEAD", b"rubbish\n"), (".git/config", b"[core\n"), (".git/index", b"rubbish")):
        old = (mini / path).read_bytes()
        (mini / path).write_bytes(content)
        before = everything(mini)
        verl("apply", mini).refused(3)
        assert everything(mini) == before
        (mini / path).write_bytes(old)
    git(mini, "update-index", "--assume-unchanged", "README.md")  # so that no file on disk stands in for its object
    sha = git(mini, "rev-parse", "HEAD:verl/workers/actor.py")
    loose = mini / ".git/objects" / sha[:2] / sha[2:]
    loose.chmod(0o644)
    loose.write_bytes(b"rubbish")
    verl("apply", mini).refused(3, sha)
    loose.unlink()
    verl("apply", mini).refused(3, sha)
    head = git(mini, "rev-parse", "HEAD")
    (mini / ".git/objects" / head[:2] / head[2:]).unlink()
    verl("apply", mini).refused(3, "HEAD", "git fsck")


# --- states of the work tree and of history


def test_dirty_tree(mini: Path, refused: Refused, verl: Verl) -> None:
    (mini / "verl/utils/names.py").write_text("mine\n")
    refused(mini, 3, "1 tracked file has uncommitted changes", "verl/utils/names.py", "--no-switch")
    git(mini, "add", "-A")
    (mini / "README.md").unlink()
    refused(mini, 3, "2 tracked files have uncommitted changes")
    before = everything(mini)
    verl("apply", mini, "--dry-run").done("Note: 2 tracked files have uncommitted changes")
    assert everything(mini) == before
    verl("apply", mini, "--no-switch").done()
    assert (mini / "verl/utils/names.py").read_text() == "mine\n" and not (mini / "README.md").exists()
    assert git(mini, "rev-parse", f"{BRANCH}^") == git(mini, "rev-parse", "main")


@pytest.mark.parametrize("base", ["nope", "", "-x", "--all", "main..main", "HEAD~7", "0" * 40, "a b", "x\ny", "HEAD:x"])
def test_unknown_base(mini: Path, refused: Refused, base: str) -> None:
    refused(mini, 3, options=(f"--base={base}",))


def test_base_that_is_no_commit(mini: Path, refused: Refused) -> None:
    refused(mini, 3, "is a tree, not a commit", options=("--base", "HEAD^{tree}"))


def test_detached_head_is_fine(mini: Path, verl: Verl) -> None:
    git(mini, "switch", "-q", "--detach")
    verl("apply", mini).done("git -C", "switch --detach")
    assert git(mini, "symbolic-ref", "--short", "HEAD") == BRANCH and git(mini, "status", "--porcelain") == ""
    assert "Verl-Patch-From" not in git(mini, "log", "-1", "--format=%B")


def test_merge_with_conflicts(mini: Path, refused: Refused, verl: Verl) -> None:
    path = "verl/workers/actor.py"
    git(mini, "switch", "-qc", "side")
    write(mini, {path: str(TREE[path]).replace("build", "load")})
    commit(mini)
    git(mini, "switch", "-q", "main")
    write(mini, {path: str(TREE[path]).replace("build", "make")})
    commit(mini)
    subprocess.run(["git", "merge", "-q", "side"], cwd=mini, capture_output=True, check=False)
    assert b"<<<<<<<" in (mini / path).read_bytes()
    refused(mini, 3, "a merge is unfinished")
    refused(mini, 4, f"{path}:5", options=("--in-place",))
    verl("apply", mini, "--no-switch").done()  # from the commit, which has no conflict
    git(mini, "add", "-A")
    git(mini, "commit", "-qm", "with markers")
    refused(mini, 4, f"{path}:5", "--keep-going", options=("--branch", "x"))


def test_untracked_file_in_the_way(mini: Path, refused: Refused) -> None:
    write(mini, {"verl/utils/torch_padding.py": "mine\n"})
    refused(mini, 3, "could not switch", "verl/utils/torch_padding.py", traces=True)
    commit(mini)
    refused(mini, 4, "verl/utils/torch_padding.py: exists already with other content")


# --- sources


@pytest.mark.parametrize("path", ["verl/broken.py", "verl/broken.yaml"])
def test_syntax_error(mini: Path, refused: Refused, verl: Verl, path: str) -> None:
    text = BROKEN if path.endswith(".py") else "a: [bf16\nb: {\n"
    write(mini, {path: text})
    commit(mini)
    refused(mini, 4, f"Error: {path}:", "nothing is written", "--keep-going")
    refused(mini, 4, path, options=("--dry-run",))
    refused(mini, 4, path, options=("--in-place",))
    refused(mini, 4, path, options=("--format", "json", "--dry-run"))
    ran = verl("apply", mini, "--keep-going")
    assert ran.code == 0 and f"Skipped: {path}:" in ran.err and "9 places" in ran.err
    assert (mini / path).read_text() == text and git(mini, "status", "--porcelain") == ""
    assert path in git(mini, "log", "-1", "--format=%B")


def test_many_broken_files_are_all_named(mini: Path, verl: Verl) -> None:
    write(mini, {f"verl/broken{number}.py": BROKEN for number in range(3)})
    commit(mini)
    before = everything(mini)
    ran = verl("apply", mini)
    assert ran.code == 4 and ran.out == b"" and everything(mini) == before
    lines = ran.err.splitlines()
    assert [line.split(":")[1].strip() for line in lines[:3]] == [f"verl/broken{number}.py" for number in range(3)]
    assert lines[3].startswith("Error: 3 files could not be rewritten; nothing is written") and len(lines) == 4


def test_broken_files_without_a_setting_do_not_matter(mini: Path, verl: Verl) -> None:
    write(
        mini, {"verl/template.py": "def {{ name }}(:\n", "verl/python2.py": "print 'hello'\n", "verl/x.sh": "if ((\n"}
    )
    commit(mini)
    verl("apply", mini).done("9 places")


def test_undecodable_bytes(mini: Path, refused: Refused, verl: Verl) -> None:
    good = "# \xe9t\xe9\nimport torch\nx = f(dtype=torch.bfloat16)\n".encode("latin-1")
    write(mini, {"verl/latin.py": b"# -*- coding: latin-1 -*-\n" + good, "verl/note.md": b"bf16 \xff\n"})
    write(mini, {"verl/bom.py": b"\xef\xbb\xbfimport torch\nx = f(dtype=torch.bfloat16)\n"})
    commit(mini)
    verl("apply", mini).done()
    assert (mini / "verl/latin.py").read_bytes() == b"# -*- coding: latin-1 -*-\n" + good.replace(
        b"bfloat16", b"float32"
    )
    assert (mini / "verl/bom.py").read_bytes() == b"\xef\xbb\xbfimport torch\nx = f(dtype=torch.float32)\n"
    git(mini, "switch", "-q", "main")
    write(mini, {"verl/bad.py": good})  # no declaration, so neither Python nor we can read it
    commit(mini)
    refused(mini, 4, "verl/bad.py", options=("--branch", "x"))


def test_unreadable_file(mini: Path, verl: Verl, tmp_path: Path) -> None:
    (mini / "verl/workers/actor.py").chmod(0)
    with as_nobody(mini):
        verl("apply", mini, "--in-place").refused(3, "cannot read", "verl/workers/actor.py", "Permission denied")
        dry = verl("apply", mini, "--dry-run").done()  # the commit can be read
        assert b"verl/workers/actor.py" in dry.out
    plain = make_mini(tmp_path / "plain", git_too=False)
    (plain / "verl/workers").chmod(0)
    with as_nobody(plain):
        verl("apply", plain, "--in-place").refused(3, "cannot read", "verl/workers")
    (plain / "verl/workers").chmod(0o755)


# --- git refuses


def test_no_name(mini: Path, refused: Refused, config: Path, verl: Verl) -> None:
    config.write_text("")
    refused(mini, 3, "git does not know who you are", "git config --global user.name")
    verl("apply", mini, "--dry-run").done()


def test_failing_signature(mini: Path, refused: Refused) -> None:
    git(mini, "config", "commit.gpgsign", "true")
    git(mini, "config", "gpg.program", "/bin/false")
    refused(mini, 3, "could not be signed", "commit.gpgsign", traces=True)


def test_failing_filter(mini: Path, refused: Refused) -> None:
    write(mini, {".gitattributes": "verl/workers/*.py filter=bad\n"})
    commit(mini)
    for name, program in (("clean", "cat"), ("smudge", "false"), ("required", "true")):
        git(mini, "config", f"filter.bad.{name}", program)
    refused(mini, 3, "all is as it was", "smudge filter bad failed", traces=True)


def test_locked(mini: Path, refused: Refused) -> None:
    for lock in (".git/index.lock", ".git/HEAD.lock", f".git/refs/heads/{BRANCH}.lock"):
        (mini / lock).parent.mkdir(parents=True, exist_ok=True)
        (mini / lock).touch()
        refused(mini, 3, f"{lock} exists: another git is at work", "remove that file", traces=True)
        (mini / lock).unlink()


@pytest.mark.parametrize("folder", ["verl/workers", "verl/utils", ".git/refs/heads", ".git/objects", ".git"])
def test_read_only(mini: Path, verl: Verl, folder: str) -> None:
    paths = [mini / folder, *(path for path in (mini / folder).rglob("*") if path.is_dir() and ".git" in folder)]
    for path in paths:
        path.chmod(0o555)
    before = without_traces(everything(mini))
    with as_nobody(mini):
        ran = verl("apply", mini)
        ran.refused(3)
        verl("apply", mini, "--dry-run").done()
    for path in paths:
        path.chmod(0o755)
    git(mini, "config", "--global", "safe.directory", "*")
    after = without_traces(everything(mini))
    for path in paths:
        before.pop(str(path.relative_to(mini)), None), after.pop(str(path.relative_to(mini)), None)
    assert after == before
    git(mini, "fsck", "--strict")


def test_another_users_repository(mini: Path, verl: Verl) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs two users")
    with as_nobody(mini, own=False):
        verl("apply", mini).refused(3, "belongs to another user", "safe.directory")


def test_hook_that_refuses_the_branch(mini: Path, refused: Refused, tmp_path: Path) -> None:
    write(tmp_path, {"hooks/reference-transaction": "#!/bin/sh\nexit 1\n"})
    (tmp_path / "hooks/reference-transaction").chmod(0o755)
    git(mini, "config", "core.hooksPath", str(tmp_path / "hooks"))
    refused(mini, 3, "could not be created", traces=True)


def test_wrong_usage(mini: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(mini)
    for arguments, words in (
        (["aply"], ("No such command", "apply")),
        (["apply", "--frmat", "json"], ("No such option", "--format")),
        (["apply", "--format", "xml"], ("'xml' is not one of", "json")),
        (["apply", "--gpu", "p41"], ("no GPU named 'p41'", "did you mean p4")),
        (["apply", "--gpu", "a100x"], ("known: p100",)),
        (["apply", "--dtype", "int8"], ("float32", "float16")),
        (["apply", "--select", "dtyp"], ("no codemod named 'dtyp'", "did you mean dtype")),
        (["apply", "--ignore", "atention"], ("did you mean attention",)),
        (["apply", "--select", "zzz"], ("there are: attention",)),
        (["apply", "-j", "0"], ("0",)),
        (["apply", "a", "b"], ("unexpected extra argument",)),
        (["explain"], ("Missing argument",)),
        (["explain", "zzz"], ("no codemod named 'zzz'",)),
        (["completion", "tcsh"], ("bash", "zsh", "fish")),
    ):
        verl(*arguments).refused(2, *words)


def test_an_option_that_shows_writes_nothing(mini: Path, refused: Refused, verl: Verl) -> None:
    """Every option whose help begins with the words below belongs to a dry run: alone it would apply the patch."""
    for_looking = {
        max(option.opts, key=len): () if getattr(option, "is_flag", False) else ("1",)
        for option in apply.command.params
        if (getattr(option, "help", "") or "").startswith("With --dry-run:")
    }
    assert set(for_looking) == {"--stat", "--summary", "--unified"}
    for name, value in for_looking.items():
        for more in ((), ("--in-place",), ("--no-switch", "--interactive"), ("--format", "json")):
            refused(mini, 2, f"{name} shows a dry run: add --dry-run", options=(name, *value, *more))
        verl("apply", mini, name, *value, "-n").done("nothing is written")
    refused(mini, 2, "--unified shows a dry run", options=("-U3",))  # the default, but asked for


def test_places_are_checked_again_before_writing_in_place(
    config: Path, verl: Verl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What somebody saves between reading and writing is not overwritten."""
    plain = make_mini(tmp_path / "plain", git_too=False)
    real = writing.write

    def slow(*arguments: object, **options: object) -> object:
        (plain / "verl/workers/actor.py").write_text("saved meanwhile\n")
        before.update(everything(plain))
        return real(*arguments, **options)  # type: ignore[arg-type]

    before: dict[str, tuple[bytes, int]] = {}
    monkeypatch.setattr("verl_legacy_patch.commands.apply.write", slow)
    verl("apply", plain, "--in-place").refused(3, "verl/workers/actor.py has changed since it was read")
    assert everything(plain) == before != {}
    shutil.rmtree(plain)

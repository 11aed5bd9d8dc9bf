"""Every kind of repository that git knows, every kind of path, and the configuration of strangers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from minis import ADDED, BRANCH, CHANGED, TREE, Verl, everything, make_mini
from repos import commit, git, make, write

pytestmark = pytest.mark.slow

SOURCE = "import torch\n\nx = f(dtype=torch.bfloat16)\n"
RESULT = "import torch\n\nx = f(dtype=torch.float32)\n"


def whole(root: Path, verl: Verl, tmp_path: Path, *, places: str = "9 places") -> None:
    """Run the whole job: the dry run equals the commit, and the work tree is clean."""
    base = git(root, "rev-parse", "HEAD")
    before = everything(root)
    dry = verl("apply", root, "--dry-run").done(places)
    assert everything(root) == before
    verl("apply", root).done(places)
    assert git(root, "rev-parse", "HEAD^") == base
    assert git(root, "symbolic-ref", "--short", "HEAD") == BRANCH
    assert git(root, "status", "--porcelain") == ""
    index = tmp_path / "an-index"
    os.environ["GIT_INDEX_FILE"] = str(index)
    try:
        git(root, "read-tree", base)
        (tmp_path / "patch").write_bytes(dry.out)
        git(root, "apply", "--cached", tmp_path / "patch")
        assert git(root, "write-tree") == git(root, "rev-parse", "HEAD^{tree}")
    finally:
        del os.environ["GIT_INDEX_FILE"]
        index.unlink()


# --- kinds of repositories


def test_line_endings_are_converted(mini: Path, verl: Verl, tmp_path: Path) -> None:
    git(mini, "config", "core.autocrlf", "true")
    for path in TREE:
        (mini / path).unlink()
    git(mini, "checkout", "-q", "--", ".")
    assert b"\r\n" in (mini / "verl/workers/actor.py").read_bytes()
    whole(mini, verl, tmp_path)
    text = (mini / "verl/workers/actor.py").read_bytes()
    assert b"torch.float32,\r\n" in text and text.count(b"\r\n") == text.count(b"\n")
    assert "\r" not in git(mini, "cat-file", "blob", "HEAD:verl/workers/actor.py")
    assert git(mini, "cat-file", "blob", "HEAD:verl/utils/windows.py").count("\r") == 5  # CRLF in the blob stays too


@pytest.mark.parametrize("eol", ["eol=crlf", "-text", "working-tree-encoding=UTF-16LE"])
def test_attributes(mini: Path, verl: Verl, tmp_path: Path, eol: str) -> None:
    write(mini, {".gitattributes": f"verl/workers/*.py {eol}\n"})
    if "UTF-16" in eol:
        write(mini, {"verl/workers/actor.py": str(TREE["verl/workers/actor.py"]).encode("utf-16-le")})
    commit(mini)
    git(mini, "rm", "-q", "--cached", "-r", ".")
    git(mini, "reset", "-q", "--hard")
    whole(mini, verl, tmp_path)


def test_filters(mini: Path, verl: Verl, tmp_path: Path) -> None:
    for name, program in (("clean", "tr 9 6"), ("smudge", "tr 6 9"), ("required", "true")):
        git(mini, "config", f"filter.odd.{name}", program)
    write(
        mini, {".gitattributes": "verl/workers/*.py filter=odd\nweights.bin filter=lfs\n", "weights.bin": "pointer\n"}
    )
    write(mini, {"verl/workers/half.py": SOURCE + "y = 6\n"})
    commit(mini)
    (mini / "verl/workers/actor.py").unlink()
    git(mini, "checkout", "-q", "--", ".")
    (mini / "verl/workers/half.py").unlink()
    git(mini, "checkout", "-q", "--", ".")
    assert b"bfloat19" in (mini / "verl/workers/half.py").read_bytes()
    whole(mini, verl, tmp_path, places="10 places")
    assert (mini / "verl/workers/half.py").read_bytes() == RESULT.encode() + b"y = 9\n"
    assert git(mini, "cat-file", "blob", "HEAD:verl/workers/half.py") == RESULT + "y = 6"


@pytest.mark.parametrize("cone", [True, False])
def test_sparse_checkout(mini: Path, verl: Verl, tmp_path: Path, cone: bool) -> None:
    git(mini, "config", "index.sparse", "true")
    git(mini, "sparse-checkout", "set", *([] if cone else ["--no-cone"]), "examples" if cone else "/examples/")
    assert not (mini / "verl/workers").exists()
    whole(mini, verl, tmp_path)
    assert not (mini / "verl/workers").exists() and "fp32" in (mini / "examples/run.sh").read_text()
    git(mini, "sparse-checkout", "disable")
    assert "float32" in (mini / "verl/workers/actor.py").read_text() and (mini / ADDED[0]).exists()
    assert git(mini, "status", "--porcelain") == ""


def test_shallow_clone_and_linked_work_tree(mini: Path, verl: Verl, tmp_path: Path) -> None:
    git(mini, "commit", "-q", "--allow-empty", "-m", "more")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{mini}", "shallow")
    whole(tmp_path / "shallow", verl, tmp_path)
    git(mini, "worktree", "add", "-q", "-b", "side", tmp_path / "linked work tree")
    before = everything(mini / "verl"), (mini / ".git/index").read_bytes(), (mini / ".git/HEAD").read_bytes()
    whole(tmp_path / "linked work tree", verl, tmp_path)
    assert (everything(mini / "verl"), (mini / ".git/index").read_bytes(), (mini / ".git/HEAD").read_bytes()) == before


def test_partial_clone_fetches_what_it_needs(mini: Path, verl: Verl, tmp_path: Path) -> None:
    git(mini, "config", "uploadpack.allowFilter", "true")
    git(mini, "config", "uploadpack.allowAnySHA1InWant", "true")
    write(mini, {"verl/more.py": SOURCE})
    commit(mini)
    git(tmp_path, "clone", "-q", "--filter=blob:none", "--no-checkout", f"file://{mini}", "partial")
    partial = tmp_path / "partial"
    verl("apply", partial, "--no-switch").done("10 places")
    git(partial, "checkout", "-q", BRANCH)
    assert git(partial, "status", "--porcelain") == "" and (partial / "verl/more.py").read_text() == RESULT
    shutil.rmtree(mini)
    git(partial, "checkout", "-q", "main")
    verl("apply", partial, "--branch", "x").done("10 places")


def test_kinds_of_index(mini: Path, verl: Verl, tmp_path: Path) -> None:
    git(mini, "config", "feature.manyFiles", "true")
    git(mini, "config", "core.splitIndex", "true")
    git(mini, "update-index", "--split-index", "--index-version", "4", "--untracked-cache")
    whole(mini, verl, tmp_path)


def test_sha256(config: Path, verl: Verl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha256")
    root = make_mini(tmp_path / "long")
    monkeypatch.delenv("GIT_DEFAULT_HASH")
    whole(root, verl, tmp_path)
    assert len(git(root, "rev-parse", "HEAD")) == 64
    git(root, "switch", "-q", "main")
    verl("apply", root).refused(3, "holds exactly this patch")


def test_separate_git_folder_and_symlinked_checkout(mini: Path, verl: Verl, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", f"--separate-git-dir={tmp_path}/elsewhere.git", str(mini), "apart")
    whole(tmp_path / "apart", verl, tmp_path)
    (tmp_path / "link").symlink_to(mini)
    verl("apply", tmp_path / "link").done(f"git -C {tmp_path}/link show")
    assert git(mini, "symbolic-ref", "--short", "HEAD") == BRANCH


def test_packed_refs_grafts_and_alternates(mini: Path, verl: Verl, tmp_path: Path) -> None:
    git(mini, "pack-refs", "--all")
    git(mini, "gc", "-q")
    git(tmp_path, "clone", "-q", "--shared", str(mini), "shared")
    whole(tmp_path / "shared", verl, tmp_path)
    whole(mini, verl, tmp_path)


# --- symlinks, submodules, modes


def test_symlinks(mini: Path, verl: Verl, tmp_path: Path) -> None:
    write(tmp_path / "outside", {"secret.py": SOURCE})
    links = {
        "verl/inside.py": "workers/actor.py",
        "verl/outside.py": str(tmp_path / "outside/secret.py"),
        "verl/folder": str(tmp_path / "outside"),
        "verl/loop.py": "loop.py",
        "verl/dangling.py": "bfloat16.py",
    }
    for path, target in links.items():
        (mini / path).symlink_to(target)
    commit(mini)
    whole(mini, verl, tmp_path)
    assert {path: str((mini / path).readlink()) for path in links} == links
    assert (tmp_path / "outside/secret.py").read_text() == SOURCE
    git(mini, "switch", "-q", "main")
    verl("apply", mini, "--in-place").done("9 places")
    assert {path: str((mini / path).readlink()) for path in links} == links
    assert (tmp_path / "outside/secret.py").read_text() == SOURCE


def test_new_module_behind_a_symlink(config: Path, verl: Verl, tmp_path: Path) -> None:
    """A folder that is a symlink is never written through, and never read as part of the checkout."""
    root = make_mini(tmp_path / "r", {"verl/utils/packing.py": "", "verl/packing.py": TREE["verl/utils/packing.py"]})
    (tmp_path / "utils").mkdir()
    shutil.rmtree(root / "verl/utils")
    (root / "verl/utils").symlink_to(tmp_path / "utils")
    commit(root)
    before = everything(root)
    for options in ([], ["--no-switch"], ["--in-place"]):
        verl("apply", root, *options).refused(3, "symlink", "verl/utils")
    assert list((tmp_path / "utils").iterdir()) == [] and everything(root) == before


def test_submodules(mini: Path, verl: Verl, tmp_path: Path) -> None:
    recipe = make(tmp_path / "recipe", {"run.py": "import verl\n" + SOURCE})
    git(mini, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(recipe), "recipe")
    commit(mini)
    entry = git(mini, "ls-tree", "HEAD", "recipe")
    (mini / "recipe/run.py").write_text("import verl\n# mine\n" + SOURCE)  # its state is not ours
    before = everything(mini / "recipe")
    dry = verl("apply", mini, "--dry-run").done("recipe")
    assert b"run.py" not in dry.out
    verl("apply", mini).done("recipe", "submodule")
    assert git(mini, "ls-tree", "HEAD", "recipe") == entry and everything(mini / "recipe") == before
    git(mini / "recipe", "checkout", "-q", "run.py")
    verl("apply", mini / "recipe").done("1 place in 1 file")
    assert git(mini / "recipe", "status", "--porcelain") == ""


def test_modes(mini: Path, verl: Verl, tmp_path: Path) -> None:
    write(mini, {"verl/tool.py": "#!/usr/bin/env python3\n" + SOURCE, "examples/not.sh": TREE["examples/run.sh"]})
    (mini / "verl/tool.py").chmod(0o755)
    commit(mini)
    git(mini, "config", "core.fileMode", "false")
    for path in ("verl/tool.py", "examples/not.sh"):
        (mini / path).chmod((mini / path).stat().st_mode ^ 0o111)
    whole(mini, verl, tmp_path, places="12 places")
    assert git(mini, "ls-tree", "HEAD", "verl/tool.py").startswith("100755")
    assert git(mini, "ls-tree", "HEAD", "examples/not.sh").startswith("100644")


# --- paths


def test_odd_paths(config: Path, verl: Verl, tmp_path: Path) -> None:
    names = ["a b.py", "q\"u'o$te.py", "new\nline.py", "tab\t.py", "ünï/模型.py", "-dash.py", ":(top).py", "[x]*.py"]
    names += ["la\udce9.py", "back\\slash.py", "HEAD", "trailing .py", "CON.py", "#x.py", "bell\a.py", "é/a b/c.py"]
    files = {f"verl/{name}": SOURCE for name in names if name != "HEAD"}
    root = make_mini(tmp_path / 'o d\'d "é"\n[x]', {**files, "HEAD": "bf16\n"})
    whole(root, verl, tmp_path, places="24 places")
    assert all((root / path).read_text() == RESULT for path in files)
    git(root, "switch", "-q", "main")
    sites = verl("apply", root, "--dry-run", "--format", "json").data["sites"]
    assert {site["path"] for site in sites} >= set(files)


def test_paths_that_differ_in_case_or_are_long(mini: Path, verl: Verl, tmp_path: Path) -> None:
    deep = "verl/" + "/".join("d" * 40 for _ in range(20)) + "/x.py"
    write(mini, {"verl/Case.py": SOURCE, "verl/case.py": SOURCE, deep: SOURCE, "verl/" + "n" * 250 + ".py": SOURCE})
    commit(mini)
    whole(mini, verl, tmp_path, places="13 places")


# --- what users have in their configuration


CONFIGURATION = """
[color]
    ui = always
    diff = always
    branch = always
    status = always
[core]
    quotepath = true
    pager = false
    fsmonitor = /bin/false
    commitGraph = true
    preloadIndex = true
    safecrlf = true
    whitespace = cr-at-eol
    commentChar = auto
    abbrev = 4
    excludesFile = /dev/null
    looseCompression = 0
[diff]
    noprefix = true
    mnemonicPrefix = true
    renames = copies
    external = /bin/false
    algorithm = patience
    submodule = log
    ignoreSubmodules = all
    orderFile = /nonexistent
[status]
    showUntrackedFiles = no
    short = true
    branch = true
    submoduleSummary = true
[grep]
    lineNumber = true
    patternType = perl
    fullName = true
    column = true
[log]
    showSignature = true
    decorate = full
    date = relative
    follow = true
[format]
    pretty = oneline
[commit]
    template = /nonexistent
    verbose = true
    cleanup = scissors
[branch]
    autoSetupMerge = always
    autoSetupRebase = always
    sort = -committerdate
[tag]
    gpgSign = true
[apply]
    whitespace = error
[alias]
    status = !false
    switch = !false
    grep = !false
    commit-tree = !false
[checkout]
    guess = true
    defaultRemote = nowhere
[submodule]
    recurse = true
[i18n]
    commitEncoding = ISO-8859-1
    logOutputEncoding = ISO-8859-1
[merge]
    conflictStyle = diff3
[advice]
    detachedHead = true
[trace2]
    normalTarget = 0
"""


def test_strange_configuration(mini: Path, verl: Verl, config: Path, tmp_path: Path) -> None:
    config.write_text(config.read_text() + CONFIGURATION)
    write(mini, {"verl/untracked.txt": "bf16"})
    (mini / ".git/info/exclude").write_text("untracked.txt\n")
    verl("apply", mini).done("9 places")
    config.write_text(config.read_text().replace(CONFIGURATION, ""))
    assert git(mini, "diff", "--name-only", "main").split() == sorted(CHANGED + ADDED)
    assert git(mini, "status", "--porcelain") == "" and git(mini, "fsck", "--strict") == ""
    git(mini, "switch", "-q", "main")
    whole_tree = git(mini, "rev-parse", f"{BRANCH}^{{tree}}")
    verl("apply", mini, "--branch", "plain").done()
    assert git(mini, "rev-parse", "HEAD^{tree}") == whole_tree


def test_hooks_that_fail(mini: Path, verl: Verl, tmp_path: Path) -> None:
    """The hooks of committing do not run (the commit is built, not committed), and a later hook undoes nothing."""
    names = (
        "pre-commit",
        "commit-msg",
        "prepare-commit-msg",
        "post-commit",
        "post-checkout",
        "pre-push",
        "pre-auto-gc",
    )
    write(tmp_path, {f"hooks/{name}": f"#!/bin/sh\necho ran >{tmp_path}/{name}\nexit 1\n" for name in names})
    for name in names:
        (tmp_path / "hooks" / name).chmod(0o755)
    git(mini, "config", "core.hooksPath", str(tmp_path / "hooks"))
    verl("apply", mini).done()
    assert git(mini, "status", "--porcelain") == "" and git(mini, "symbolic-ref", "--short", "HEAD") == BRANCH
    assert [name for name in names if (tmp_path / name).exists()] == ["post-checkout"]


def test_variables_of_another_repository(
    mini: Path, verl: Verl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make(tmp_path / "other", {"a.txt": "1\n"})
    before = everything(other)
    with monkeypatch.context() as patch:
        patch.setenv("GIT_DIR", str(other / ".git"))
        patch.setenv("GIT_WORK_TREE", str(other))
        patch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
        patch.setenv("GIT_OBJECT_DIRECTORY", str(other / ".git/objects"))
        patch.setenv("GIT_PREFIX", "verl/")
        patch.setenv("GIT_EXTERNAL_DIFF", "/bin/false")
        patch.setenv("GIT_PAGER", "/bin/false")
        patch.setenv("GIT_EDITOR", "/bin/false")
        patch.setenv("GIT_ASKPASS", "/bin/false")
        patch.setenv("GIT_TRACE", "1")
        patch.setenv("LC_ALL", "de_DE.UTF-8")
        verl("apply", mini).done("9 places")
        assert os.environ["GIT_DIR"] == str(other / ".git")
    assert everything(other) == before
    assert git(mini, "status", "--porcelain", "--branch") == f"## {BRANCH}"


def test_identity_from_the_environment_and_dates(
    mini: Path, verl: Verl, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text("")
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Zoë Ünï")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "zoe@example.com")
        monkeypatch.setenv(f"GIT_{who}_DATE", "2001-02-03T04:05:06+0000")
    verl("apply", mini).done()
    assert git(mini, "log", "-1", "--format=%an %cn %as") == "Zoë Ünï Zoë Ünï 2001-02-03"

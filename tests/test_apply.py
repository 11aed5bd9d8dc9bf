"""The main job as a user runs it: dry run, apply, apply again, and what they leave behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from minis import ADDED, BRANCH, CHANGED, TREE, Verl, everything, make_mini
from repos import commit, git, write


def tree(root: Path, revision: str = "HEAD") -> str:
    return git(root, "rev-parse", f"{revision}^{{tree}}")


def test_apply_makes_one_commit_on_a_new_branch(mini: Path, verl: Verl) -> None:
    base = git(mini, "rev-parse", "HEAD")
    write(mini, {"notes.txt": "mine"})
    ran = verl("apply", mini).done(f"verl 0.5.0 ({base[:10]})", "9 places in 5 files, and 1 new file", BRANCH)
    assert ran.out == b""
    assert git(mini, "symbolic-ref", "HEAD") == f"refs/heads/{BRANCH}"
    assert git(mini, "rev-parse", "HEAD^", "main").split() == [base, base]
    assert git(mini, "status", "--porcelain") == "?? notes.txt"
    assert sorted(git(mini, "diff", "--name-only", "main").split()) == sorted(CHANGED + ADDED)
    assert git(mini, "fsck", "--strict") == ""
    assert git(mini, "reflog", "-1", "--format=%gs").startswith("checkout: moving from main")


def test_what_the_files_look_like(mini: Path, verl: Verl) -> None:
    verl("apply", mini).done()
    new = {path: (mini / path).read_bytes().decode() for path in CHANGED}
    old = {path: content if isinstance(content, str) else content.decode() for path, content in TREE.items()}
    for path, text in new.items():
        words = {"bfloat16": "float32", "bf16": "fp32", "flash_attention_2": "eager", "compile: true": "compile: false"}
        for before, after in words.items():
            old[path] = old[path].replace(before, after)
        old[path] = old[path].replace("flash_attn.bert_padding", "verl.utils.torch_padding")
        assert text == old[path]  # CRLF, the comment, the missing last newline: all as it was
    assert (mini / "examples/run.sh").stat().st_mode & 0o111
    assert "100755" in git(mini, "ls-tree", "HEAD", "examples/run.sh")
    compile((mini / ADDED[0]).read_text(), ADDED[0], "exec")


def test_message_names_everything(mini: Path, verl: Verl) -> None:
    write(
        mini,
        {"verl/workers/fsdp.yaml": "use_remove_padding: True\n", "examples/two.sh": "x a.use_remove_padding=True\n"},
    )
    base = commit(mini)
    verl("apply", mini).done("Please review", "remove-padding: True -> False", "verl/workers/fsdp.yaml:1")
    message = git(mini, "log", "-1", "--format=%B")
    assert message.split("\n")[0] == "Choose float32 and eager attention for GPUs without bfloat16"
    assert all(len(line) <= 120 for line in message.split("\n"))
    assert "  dtype" in message and "verl/workers/fsdp.yaml:1" in message
    trailers = git(mini, "log", "-1", "--format=%(trailers:only,unfold)").strip().split("\n")
    assert trailers[1:] == ["Verl-Patch-Target: float32 eager 6.1", f"Verl-Patch-Base: {base}", "Verl-Patch-From: main"]
    assert trailers[0].startswith("Verl-Patch-Version: ")


def test_dry_run_writes_nothing_and_equals_apply(mini: Path, verl: Verl, tmp_path: Path) -> None:
    before = everything(mini)
    dry = verl("apply", mini, "--dry-run").done("Dry run: nothing is written", BRANCH)
    assert everything(mini) == before
    git(tmp_path, "clone", "-q", str(mini), "fresh")
    (tmp_path / "patch").write_bytes(dry.out)
    git(tmp_path / "fresh", "apply", "--check", tmp_path / "patch")
    git(tmp_path / "fresh", "apply", "--index", tmp_path / "patch")
    real = verl("apply", mini).done()
    assert git(tmp_path / "fresh", "write-tree") == tree(mini)
    first, second = (ran.err.split("\n\n")[:3] for ran in (dry, real))
    assert first == second  # the same summary


def test_second_apply_says_that_nothing_is_left(mini: Path, verl: Verl) -> None:
    verl("apply", mini).done()
    before = everything(mini)
    for arguments in ([], ["--dry-run"], ["--branch", "another"], ["--no-switch"]):
        ran = verl("apply", mini, *arguments).done("Nothing to rewrite")
        assert ran.out == b"" and everything(mini) == before
    # also where the branch's name is taken, and nothing of the patched state would be refused
    git(mini, "switch", "-qc", "feature")
    (mini / "README.md").write_text("dirty")
    verl("apply", mini).done("Nothing to rewrite")
    assert git(mini, "branch", "--show-current") == "feature"


def test_what_is_left_is_added_to_the_patch(mini: Path, verl: Verl) -> None:
    verl("apply", mini, "--select", "dtype").done("6 places in 4 files")
    ran = verl("apply", mini).done("3 places in 3 files", f"Added to branch {BRANCH}")
    assert git(mini, "rev-list", "--count", "main..HEAD") == "2" and ran.out == b""
    assert git(mini, "symbolic-ref", "--short", "HEAD") == BRANCH
    assert git(mini, "status", "--porcelain") == "" and git(mini, "branch", "--format=%(refname:short)").split() == [
        "main",
        BRANCH,
    ]
    whole = tree(mini)
    git(mini, "switch", "-q", "main")
    verl("apply", mini, "--branch", "at-once").done()
    assert tree(mini) == whole


def test_branch_that_exists(mini: Path, verl: Verl) -> None:
    verl("apply", mini, "--no-switch").done("the work tree is as it was", f"git -C {mini} switch {BRANCH}")
    before = everything(mini)
    same = "holds exactly this patch: git switch verl-patch/float32-eager"
    verl("apply", mini).refused(3, f"branch {BRANCH} exists already", same, "--branch")
    verl("apply", mini, "--select", "dtype").refused(3, "an earlier patch of this base (float32 eager 6.1)", "--branch")
    assert everything(mini) == before
    write(mini, {"verl/more.py": "x = 1\n"})
    base = git(mini, "rev-parse", "HEAD")
    commit(mini)
    verl("apply", mini).refused(3, f"a patch of {base[:10]}", "git branch -D")
    git(mini, "branch", "mine")
    verl("apply", mini, "--branch", "mine").refused(3, "branch mine exists already: give another name")
    verl("apply", mini, "--branch", "verl-patch").refused(3, "cannot be created beside branch verl-patch/float32-eager")
    for name in ("a..b", "-x", "HEAD", "", "@{-1}", "new\nline"):
        verl("apply", mini, f"--branch={name}").refused(3, "not a valid branch name")


def test_options_of_the_branch(mini: Path, verl: Verl) -> None:
    first = git(mini, "rev-parse", "HEAD")
    write(mini, {"verl/later.py": "import torch\nx = f(dtype=torch.bfloat16)\n"})
    commit(mini)
    (mini / "README.md").write_text("dirty")
    before = {path: entry for path, entry in everything(mini).items() if not path.startswith(".git/")}
    verl("apply", mini, "--base", "main~1", "--branch", "p40/first", "--no-switch").done("p40/first")
    assert {path: entry for path, entry in everything(mini).items() if not path.startswith(".git/")} == before
    assert git(mini, "rev-parse", "p40/first^") == first
    assert "later.py" not in git(mini, "ls-tree", "-r", "p40/first")
    assert git(mini, "symbolic-ref", "--short", "HEAD") == "main"
    git(mini, "checkout", "-q", "README.md")
    verl("apply", mini, "--base", first).done()
    assert not (mini / "verl/later.py").exists()
    assert git(mini, "status", "--porcelain") == "" and tree(mini) == tree(mini, "p40/first")


def test_undo_as_it_says(mini: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(mini)
    for start in ("main", git(mini, "rev-parse", "HEAD")):
        git(mini, "checkout", "-q", start)
        before = everything(mini / "verl"), git(mini, "for-each-ref"), git(mini, "rev-parse", "HEAD")
        ran = verl("apply").done()
        [undo] = [line for line in ran.err.split("\n") if line.startswith("  undo:")]
        steps = undo.partition("(or: ")[2].removesuffix(")") or undo.removeprefix("  undo:")
        assert os.system(f"({steps}) >/dev/null 2>&1") == 0, steps
        assert (everything(mini / "verl"), git(mini, "for-each-ref"), git(mini, "rev-parse", "HEAD")) == before


def test_targets(mini: Path, verl: Verl) -> None:
    verl("apply", mini, "--dtype", "float16", "--attn", "sdpa", "--gpu", "v100").done("verl-patch/float16-sdpa")
    text = (mini / "verl/workers/actor.py").read_text()
    assert "torch_dtype=torch.float16" in text and 'attn_implementation="sdpa"' in text
    assert "use_torch_compile: true" in (mini / "verl/trainer/config/trainer.yaml").read_text()  # Volta compiles
    assert "Verl-Patch-Target: float16 sdpa 7.0" in git(mini, "log", "-1", "--format=%B")


def test_selection(mini: Path, verl: Verl) -> None:
    def names(*arguments: str) -> set[str]:
        sites = verl("apply", mini, "--dry-run", "--format", "json", *arguments).data["sites"]
        return {site["codemod"] for site in sites if site["action"] == "rewrite"}

    assert names() == {"dtype", "attention", "torch-compile", "flash-attn-import"}
    assert names("--select", "dtype, attention") == {"dtype", "attention"}
    assert names("--ignore", "dtype,attention") == {"torch-compile", "flash-attn-import"}
    assert names("--select", "dtype,attention", "--ignore", "dtype") == {"attention"}
    write(mini, {"verl/workers/fsdp.yaml": "use_remove_padding: True\n"})
    commit(mini)
    assert "remove-padding" in names() and "remove-padding" not in names("--safe-only")


def test_in_place(config: Path, verl: Verl, tmp_path: Path) -> None:
    plain = make_mini(tmp_path / "plain", git_too=False)
    verl("apply", plain).refused(3, "no git repository", "--in-place", "no git commit to go back to", "--dry-run")
    before = everything(plain)
    copy = "rewrites the files on disk. There is no git commit to go back to: a copy"
    dry = verl("apply", plain, "--dry-run", "--in-place").done(f"The same without --dry-run {copy}")
    seen = verl("apply", plain, "--dry-run").done(f"The same with --in-place instead of --dry-run {copy}")
    assert seen.out == dry.out and everything(plain) == before and "branch" not in seen.err
    verl("apply", plain, "--in-place").done("9 places in 5 files", "The files on disk are rewritten. There is no git")
    after = everything(plain)
    assert {path for path in after if after[path] != before.get(path)} == {*CHANGED, *ADDED}
    assert (plain / "examples/run.sh").stat().st_mode & 0o777 == before["examples/run.sh"][1] & 0o777
    verl("apply", plain, "--in-place").done("Nothing to rewrite")
    assert everything(plain) == after


def test_in_place_in_a_work_tree(mini: Path, verl: Verl) -> None:
    write(mini, {"verl/untracked.py": "x = f(dtype='bf16')\n", "README.md": "dirty"})
    dry = verl("apply", mini, "-n", "--in-place").done("The same without --dry-run rewrites the files on disk.\n")
    ran = verl("apply", mini, "--in-place").done()
    assert "no git commit" not in dry.err + ran.err
    changed = git(mini, "diff", "--name-only").split()
    assert sorted(changed) == sorted(["README.md", *CHANGED]) and "bf16" in (mini / "verl/untracked.py").read_text()
    assert git(mini, "for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert "git" in ran.err.rpartition("\n\n")[2]
    for option in (["--branch", "x"], ["--base", "HEAD"], ["--no-switch"], ["--commit-per-codemod"]):
        verl("apply", mini, "--in-place", *option).refused(2, "--in-place writes files without git")


def test_workers_find_the_same(mini: Path, verl: Verl) -> None:
    environment = dict(os.environ)
    write(mini, {f"verl/many/f{number}.py": f"x{number} = f(dtype='bf16')\n" for number in range(40)})
    write(mini, {"verl/many/broken.py": "def (:\n x = 'bf16'\n"})
    commit(mini)
    runs = [verl("apply", mini, "--dry-run", "--keep-going", "-j", jobs) for jobs in "14"]
    assert runs[0] == runs[1] and runs[0].code == 0
    data = [verl("apply", mini, "--dry-run", "--keep-going", "--format", "json", "-j", jobs).data for jobs in "13"]
    assert data[0] == data[1]
    assert dict(os.environ) == environment


def test_subfolder_of_a_bigger_repository(config: Path, verl: Verl, tmp_path: Path) -> None:
    files = {f"training/{path}": content for path, content in TREE.items()}
    root = make_mini(tmp_path / "prime", files)
    dry = verl("apply", root / "training", "--dry-run").done()
    git(root, "apply", "--check", "-", text=dry.out.decode())
    verl("apply", root / "training").done("9 places in 5 files, and 1 new file")
    assert sorted(git(root, "diff", "--name-only", "main").split()) == sorted(
        f"training/{path}" for path in CHANGED + ADDED
    )

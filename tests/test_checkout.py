"""Which checkout a path means, which of its files hold a word, and what they contain."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from repos import FILES, HITS, WORDS, as_nobody, commit, git, isolate, make, write

from verl_legacy_patch.checkout import (
    SOURCE_SUFFIXES,
    CheckoutError,
    DirectoryCheckout,
    GitCheckout,
    gitio,
    open_checkout,
    verl_version,
)


@pytest.fixture(autouse=True)
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return isolate(monkeypatch, tmp_path)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make(tmp_path / "verl-clone")


def refusal(path: Path, base: str | None = None, **options: bool) -> str:
    with pytest.raises(CheckoutError) as caught:
        open_checkout(path, base, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 400
    return message


def paths(root: Path, base: str | None = None, words: list[bytes] = WORDS) -> list[str]:
    return [each.path for each in open_checkout(root, base).candidates(words)]


def opened(root: Path, base: str | None = None) -> GitCheckout:
    checkout = open_checkout(root, base)
    assert isinstance(checkout, GitCheckout)
    return checkout


# --- what is found


def test_candidates_have_path_mode_and_blob(repo: Path) -> None:
    found = opened(repo).candidates(WORDS)
    assert [each.path for each in found] == HITS
    assert [each.mode for each in found] == ["100755", "100644", "100644"]
    assert [each.sha for each in found] == [git(repo, "rev-parse", f"HEAD:{path}") for path in HITS]
    every = opened(repo).candidates(WORDS, suffixes=None)
    assert [each.path for each in every] == ["README.md", *HITS]
    assert opened(repo).candidates([]) == []
    assert opened(repo).candidates([b"no-such-word"]) == []


@pytest.mark.parametrize("base", [None, "HEAD^{commit}"])
def test_a_longer_word_is_found_after_a_shorter_one(repo: Path, base: str | None) -> None:
    checkout = opened(repo, base)
    assert [each.path for each in checkout.candidates(WORDS)] == HITS
    for words in ([b"torch.bfloat16"], [b"BFLOAT16)"], [b"bf16", b"Torch.BFloat16"], [b"import torch"], [b"bfloat16x"]):
        for suffixes in ((".py",), (".sh", ".yaml"), None, SOURCE_SUFFIXES):
            fresh = opened(repo, base).candidates(words, suffixes=suffixes)
            assert checkout.candidates(words, suffixes=suffixes) == fresh, (words, suffixes)


def test_read_gives_the_contents_in_order(repo: Path) -> None:
    checkout = opened(repo)
    contents = dict(checkout.read(checkout.candidates(WORDS)))
    assert {each.path: content.decode() for each, content in contents.items()} == {p: FILES[p] for p in HITS}
    assert list(checkout.read([])) == []


def test_read_of_many_and_large_files_does_not_block(tmp_path: Path) -> None:
    files = {f"verl/f{number:04}.py": f"# bf16 {number}\n" + "x" * (number * 20) for number in range(500)}
    checkout = opened(make(tmp_path / "many", {**FILES, **files}))
    found = [each for each in checkout.candidates([b"bf16"]) if each.path in files]
    assert len(found) == 500
    assert all(content.decode() == files[each.path] for each, content in checkout.read(found))
    started = checkout.read(found)
    next(started)
    started.close()  # a reader that stops early leaves no process behind


def test_missing_object_is_one_line(repo: Path) -> None:
    checkout = opened(repo)
    candidate = checkout.candidates(WORDS)[0]
    with pytest.raises(CheckoutError, match="cannot be read"):
        list(checkout.read([candidate._replace(sha="1" * 40)]))
    loose = repo / ".git/objects" / candidate.sha[:2] / candidate.sha[2:]
    loose.chmod(0o644)
    loose.write_bytes(b"garbage")
    assert len(list(checkout.read([candidate]))) == 1  # the file on disk is the blob
    (repo / candidate.path).unlink()
    with pytest.raises(CheckoutError) as caught:
        list(checkout.read([candidate]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("attributes", ["*.py binary\n", "*.py -diff\n", "*.py -text\n", ""])
def test_binary_looking_source_is_not_missed(tmp_path: Path, attributes: str) -> None:
    files = {**FILES, "verl/nul.py": b"x = '\0'\nd = 'bf16'\n", ".gitattributes": attributes}
    repo = make(tmp_path / "r", files)
    assert "verl/nul.py" in paths(repo)
    (repo / "setup.py").write_text("changed")
    assert "verl/nul.py" in paths(repo)  # the same when the tree is searched


@pytest.mark.parametrize("dirty", [False, True])
def test_odd_names(tmp_path: Path, dirty: bool) -> None:
    names = [
        b"a b.py",
        b"q\"uote's.py",
        b"new\nline.py",
        "ünï/模型.py".encode(),
        b"la\xe9tin.py",
        b"back\\slash.py",
    ]
    names += [b"-dash.py", b":(top)x.py", b"[glob]*.py", b"tab\t.py", b"HEAD", b"UPPER.PY"]
    repo = make(tmp_path / "odd [dir] é", {"verl/__init__.py": "x\n"})
    for name in names:
        target = os.fsencode(repo) + b"/" + name
        Path(os.fsdecode(target)).parent.mkdir(exist_ok=True)
        Path(os.fsdecode(target)).write_bytes(b"bf16 " + name)
    commit(repo)
    if dirty:
        (repo / "verl/__init__.py").write_text("y\n")
    checkout = opened(repo)
    found = list(checkout.read(checkout.candidates([b"BF16"])))
    assert sorted(gitio.to_bytes(each.path) for each, _ in found) == sorted(names)
    for each, content in found:
        assert content == b"bf16 " + gitio.to_bytes(each.path)
        assert checkout.has_file(each.path)
        assert checkout.read_path(each.path) == content


def test_user_configuration_does_not_change_the_output(repo: Path, config: Path) -> None:
    config.write_text(
        config.read_text() + "[color]\n\tui = always\n\tgrep = always\n[grep]\n\tlineNumber = true\n"
        "\tpatternType = perl\n\tcolumn = true\n[status]\n\tshowUntrackedFiles = all\n\tbranch = true\n"
        "\tshort = true\n[core]\n\tpager = false\n\tquotePath = true\n[submodule]\n\trecurse = true\n"
    )
    (repo / "untracked.py").write_text("bf16")
    assert paths(repo) == HITS
    assert opened(repo).dirty() == []


def test_environment_of_a_hook_is_not_ours(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = make(tmp_path / "other", {"a.py": "import verl\nbf16\n"})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    monkeypatch.setenv("GIT_LITERAL_PATHSPECS", "1")
    assert paths(repo) == HITS
    assert paths(repo / "verl") == HITS[1:]


# --- the base revision, not the work tree


def test_changed_files_do_not_count(repo: Path) -> None:
    (repo / "verl/utils.py").write_text("bf16\n")
    (repo / "verl/workers/actor.py").write_text("nothing\n")
    (repo / "scripts/run.sh").unlink()
    write(repo, {"verl/staged.py": "bf16"})
    git(repo, "add", "verl/staged.py", "verl/utils.py")
    checkout = opened(repo)
    assert checkout.dirty() == ["scripts/run.sh", "verl/staged.py", "verl/utils.py", "verl/workers/actor.py"]
    assert [each.path for each in checkout.candidates(WORDS)] == HITS
    assert checkout.read_path("verl/utils.py") == FILES["verl/utils.py"].encode()  # type: ignore[union-attr]
    assert not checkout.has_file("verl/staged.py")


def test_untracked_and_touched_files_are_not_dirty(repo: Path) -> None:
    write(repo, {"new.py": "bf16"})
    os.utime(repo / "verl/utils.py", (1, 1))
    before = (repo / ".git/index").read_bytes()
    assert opened(repo).dirty() == []
    assert paths(repo) == HITS
    assert (repo / ".git/index").read_bytes() == before  # reading writes nothing


def test_unmerged_files_are_dirty(repo: Path) -> None:
    git(repo, "switch", "-qc", "side")
    write(repo, {"verl/utils.py": "side\n"})
    commit(repo)
    git(repo, "switch", "-q", "main")
    write(repo, {"verl/utils.py": "main\n"})
    commit(repo)
    subprocess.run(["git", "merge", "-q", "side"], cwd=repo, capture_output=True)
    assert opened(repo).dirty() == ["verl/utils.py"]
    assert paths(repo) == HITS


def test_other_base(repo: Path) -> None:
    first = git(repo, "rev-parse", "HEAD")
    git(repo, "tag", "-am", "note", "v1")
    write(repo, {"verl/later.py": "bf16\n", "scripts/run.sh": "true\n"})
    second = commit(repo, "Later: words")
    assert opened(repo).base == second
    for base in (first, "v1", "HEAD~1", first[:10], "main^", ":/first", "HEAD@{1}"):
        assert opened(repo, base).base == first, base
        assert paths(repo, base) == HITS
    assert opened(repo, "v1").tree == git(repo, "rev-parse", "v1^{tree}")
    assert paths(repo, "main") == ["verl/later.py", *HITS[1:]]
    assert opened(repo, "HEAD").is_head and not opened(repo, "v1").is_head


def test_detached_head(repo: Path) -> None:
    git(repo, "switch", "-q", "--detach")
    assert paths(repo) == HITS


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_files_that_git_does_not_look_at(repo: Path, flag: str) -> None:
    git(repo, "update-index", flag, "verl/workers/actor.py")
    (repo / "verl/workers/actor.py").write_text("hidden change\n")
    assert paths(repo) == HITS


def test_sparse_checkout(repo: Path) -> None:
    git(repo, "sparse-checkout", "set", "scripts")
    assert not (repo / "verl/workers").exists()
    assert paths(repo) == HITS
    assert opened(repo).packages() == ["verl"]
    git(repo, "config", "index.sparse", "true")
    git(repo, "sparse-checkout", "reapply")
    assert paths(repo) == HITS


def test_shallow_clone_and_linked_worktree(repo: Path, tmp_path: Path) -> None:
    write(repo, {"verl/more.py": "x\n"})
    commit(repo)
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repo}", "shallow")
    assert paths(tmp_path / "shallow") == HITS
    assert "no revision HEAD~1" in refusal(tmp_path / "shallow", "HEAD~1")
    git(repo, "worktree", "add", "-q", "-b", "linked", tmp_path / "linked\nfolder")
    linked = opened(tmp_path / "linked\nfolder")
    assert linked.root == tmp_path / "linked\nfolder"
    assert (linked.git_dir / "index").exists()
    assert [each.path for each in linked.candidates(WORDS)] == HITS


def test_line_endings_and_filters(repo: Path) -> None:
    git(repo, "config", "core.autocrlf", "true")
    git(repo, "config", "filter.hide.smudge", "tr b x")
    git(repo, "config", "filter.hide.clean", "tr x b")
    write(repo, {".gitattributes": "actor.py filter=hide\n*.yaml working-tree-encoding=UTF-16\n"})
    write(repo, {"verl/workers/config.yaml": "dtype: bf16\n".encode("utf-16")})
    commit(repo)
    (repo / "verl/workers/actor.py").unlink()
    (repo / "verl/workers/config.yaml").unlink()
    git(repo, "checkout", "-q", "--", ".")
    assert b"xfloat16" in (repo / "verl/workers/actor.py").read_bytes()
    assert opened(repo).dirty() == []
    checkout = opened(repo)
    found = dict(checkout.read(checkout.candidates(WORDS)))
    assert [each.path for each in found] == HITS
    assert all(b"\r" not in content for content in found.values())


def test_filter_on_other_files_keeps_the_fast_way(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(repo, {".gitattributes": "*.bin filter=lfs\n", "model.bin": "bf16"})
    commit(repo)
    calls: list[list[str | bytes]] = []
    run = gitio.run

    def counted(arguments: list[str | bytes], cwd: Path) -> tuple[int, bytes, str]:
        calls.append(list(arguments))
        return run(arguments, cwd)

    monkeypatch.setattr(gitio, "run", counted)
    checkout = opened(repo)
    assert [each.path for each in checkout.candidates(WORDS)] == HITS
    assert not any(checkout.base in call for call in calls if call[0] == "grep")
    assert len(calls) <= 5  # rev-parse, status, ls-files, attributes, grep


# --- symlinks, submodules, folders


def test_symlinks_are_not_followed(repo: Path, tmp_path: Path) -> None:
    write(tmp_path / "outside", {"secret.py": "bf16"})
    (repo / "inside.py").symlink_to("verl/workers/actor.py")
    (repo / "outside.py").symlink_to(tmp_path / "outside/secret.py")
    (repo / "outside").symlink_to(tmp_path / "outside")
    (repo / "loop").symlink_to("loop")
    (repo / "bf16").symlink_to("bf16.py")
    commit(repo)
    for checkout in (open_checkout(repo), open_checkout(repo, in_place=True)):
        assert [each.path for each in checkout.candidates(WORDS)] == HITS
        assert not checkout.has_file("inside.py")
        assert checkout.read_path("outside.py") is None
        assert checkout.read_path("loop") is None
        assert "inside.py" not in checkout.list_folder("")
    (tmp_path / "link").symlink_to(repo)
    assert opened(tmp_path / "link").root == repo


def test_submodules(repo: Path, tmp_path: Path) -> None:
    assert opened(repo).submodules() == []
    recipe = make(tmp_path / "recipe", {"r.py": "import verl\nbf16\n"})
    git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(recipe), "recipe")
    commit(repo)
    checkout = opened(repo)
    assert checkout.submodules() == [("recipe", True)]
    assert [each.path for each in checkout.candidates(WORDS)] == HITS
    assert checkout.read_path("recipe") is None
    assert "recipe" not in checkout.list_folder("")
    (repo / "recipe/r.py").write_text("noise")
    assert opened(repo).dirty() == []
    assert paths(repo / "recipe") == ["r.py"]  # a repository of its own, which imports verl
    git(tmp_path, "clone", "-q", str(repo), "fresh")
    assert opened(tmp_path / "fresh").submodules() == [("recipe", False)]


def test_list_folder(repo: Path) -> None:
    for checkout in (open_checkout(repo), open_checkout(repo, in_place=True)):
        expected = ["verl/workers/__init__.py", "verl/workers/actor.py", "verl/workers/config.yaml"]
        assert checkout.list_folder("verl/workers") == checkout.list_folder("verl/workers/") == expected
        assert checkout.list_folder("verl/work") == checkout.list_folder("zzz") == []
        assert checkout.list_folder("") == sorted(FILES)
        assert (
            checkout.has_file("setup.py") and not checkout.has_file("verl") and not checkout.has_file("x/../setup.py")
        )
        assert checkout.read_path("../secret") is None


def test_subfolder_of_a_bigger_repository(tmp_path: Path) -> None:
    files = {f"training[1]/{path}": content for path, content in FILES.items()}
    repo = make(tmp_path / "prime", {**files, "eval/run.py": "bf16\n", "training1/x.py": "bf16\n"})
    checkout = opened(repo / "training[1]")
    assert checkout.root == repo
    assert checkout.packages() == ["training[1]/verl"]
    assert verl_version(checkout) == "0.5.0.dev"
    assert [each.path for each in checkout.candidates(WORDS)] == [f"training[1]/{path}" for path in HITS]
    (repo / "setup.cfg").write_text("x")
    git(repo, "add", "setup.cfg")
    again = opened(repo / "training[1]")  # the tree is searched now
    assert [each.path for each in again.candidates(WORDS)] == [f"training[1]/{path}" for path in HITS]
    assert len(paths(repo)) == 5


def test_untracked_folder_inside_a_repository_is_a_plain_one(repo: Path) -> None:
    write(repo, {f"vendor/{path}": content for path, content in FILES.items()})
    assert isinstance(open_checkout(repo / "vendor"), DirectoryCheckout)


# --- recognised by shape


@pytest.mark.parametrize(
    "files",
    [
        {"verl/__init__.py": ""},
        {"training/verl/__init__.py": ""},
        {"a/b/verl/__init__.py": ""},
        {"dapo/main.py": "import os\nfrom verl.trainer import main\n"},
        {"ragen/workers.py": "    import verl\n"},
        {"x.py": "import verl.utils as u\r\n"},
    ],
)
@pytest.mark.parametrize("with_git", [True, False])
def test_shapes(tmp_path: Path, files: dict[str, str], with_git: bool) -> None:
    if with_git:
        open_checkout(make(tmp_path / "r", files))
    else:
        write(tmp_path / "r", files)
        open_checkout(tmp_path / "r")


@pytest.mark.parametrize("files", [{"a.py": "import verlet\nx = 'verl'\n# import verl\n"}, {"overl/__init__.py": ""}])
@pytest.mark.parametrize("with_git", [True, False])
def test_not_verl(tmp_path: Path, files: dict[str, str], with_git: bool) -> None:
    if with_git:
        make(tmp_path / "r", files)
    else:
        write(tmp_path / "r", files)
    message = refusal(tmp_path / "r")
    assert "not a verl checkout" in message and "verl/__init__.py" in message and "imports verl" in message


def test_version_is_read_as_text(tmp_path: Path) -> None:
    bomb = "raise SystemExit('code of the checkout was run')\n"
    write(tmp_path / "a", {"verl/__init__.py": bomb + "__version__ = '0.2'\n"})
    assert verl_version(open_checkout(tmp_path / "a")) == "0.2"
    write(tmp_path / "b", {"verl/__init__.py": bomb})
    assert verl_version(open_checkout(tmp_path / "b")) is None
    write(tmp_path / "c", {"x.py": "import verl\n"})
    assert verl_version(open_checkout(tmp_path / "c")) is None
    write(tmp_path / "d", {"verl/__init__.py": bomb, "verl/version/version": "\n"})
    assert verl_version(open_checkout(tmp_path / "d")) is None


# --- folders without git


def test_directory(tmp_path: Path) -> None:
    root = tmp_path / "wheel"
    write(root, {**FILES, "verl-0.5.0.dist-info/METADATA": "Name: verl\n"})
    (root / "scripts/run.sh").chmod(0o755)
    for skipped in (".venv/lib/x.py", "node_modules/x.py", "verl/__pycache__/x.py", "lib/site-packages/x.py"):
        write(root, {skipped: "bf16"})
    write(root, {"myenv/pyvenv.cfg": "", "myenv/lib/x.py": "bf16"})
    checkout = open_checkout(root)
    assert isinstance(checkout, DirectoryCheckout) and checkout.base is None
    found = checkout.candidates([b"BF16", b"bFloat16"])
    assert [each.path for each in found] == HITS
    assert [each.mode for each in found] == ["100755", "100644", "100644"]
    assert [content.decode() for _, content in checkout.read(found)] == [FILES[path] for path in HITS]
    assert checkout.packages() == ["verl"] and verl_version(checkout) == "0.5.0.dev"
    assert checkout.submodules() == checkout.dirty() == []
    assert checkout.candidates([]) == []


def test_installed_package_touches_no_other(tmp_path: Path) -> None:
    for name in ("site-packages", "target"):
        site = tmp_path / name
        write(site, {**FILES, "torch/x.py": "bf16", "a-1.dist-info/RECORD": "", "b-1.dist-info/RECORD": ""})
        assert paths(site) == HITS[1:]
        assert paths(site / "verl") == HITS[1:]


def test_in_place_reads_tracked_files_from_disk(repo: Path) -> None:
    write(repo, {"verl/utils.py": "bf16\r\n", "untracked.py": "bf16"})
    (repo / "scripts/run.sh").unlink()
    checkout = open_checkout(repo, in_place=True)
    assert isinstance(checkout, DirectoryCheckout)
    found = dict(checkout.read(checkout.candidates(WORDS)))
    assert {each.path for each in found} == {"verl/utils.py", *HITS[1:]}
    assert b"bf16\r\n" in found.values()
    assert "no base revision" in refusal(repo, "HEAD", in_place=True)


def test_without_git_installed(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "plain", FILES)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert paths(tmp_path / "plain") == HITS
    assert "git is not installed" in refusal(repo)


def test_old_git(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.which("git")
    fake = tmp_path / "bin/git"
    cases = f'*version) echo git version 1.8.3.1;; *grep*) exit 129;; *) exec {real} "$@";;'
    write(tmp_path, {"bin/git": f'#!/bin/sh\ncase "$*" in {cases} esac\n'})
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent), prepend=":")
    with pytest.raises(CheckoutError, match=r"git 1\.8 is too old: verl-patch needs 2\.23"):
        opened(repo).candidates(WORDS)


# --- refused


def test_no_such_folder(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "none\nwhere")
    write(tmp_path, {"file": ""})
    assert "not a directory" in refusal(tmp_path / "file")
    (tmp_path / "loop").symlink_to("loop")
    assert "cannot open" in refusal(tmp_path / "loop")


def test_bare_and_inside_git(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repo), "bare")
    assert "bare repository" in refusal(tmp_path / "bare")
    assert "bare repository" in refusal(tmp_path / "bare/refs")
    assert "inside a .git folder" in refusal(repo / ".git")
    assert "inside a .git folder" in refusal(repo / ".git/refs")


def test_unborn_head(tmp_path: Path, repo: Path) -> None:
    write(tmp_path / "new", FILES)
    git(tmp_path / "new", "init", "-q")
    assert "no commit yet" in refusal(tmp_path / "new")
    git(repo, "switch", "-q", "--orphan", "empty")
    assert "no commit yet" in refusal(repo)
    assert paths(repo, "main") == HITS


@pytest.mark.parametrize(
    "base", ["nope", "", "-x", "--all", "^main", "main..main", "HEAD~5", "0" * 40, "a b", "x\ny", "HEAD:nope"]
)
def test_unknown_base(repo: Path, base: str) -> None:
    assert "no revision" in refusal(repo, base) or base == "0" * 40


def test_base_that_is_no_commit(repo: Path, tmp_path: Path) -> None:
    assert "is a tree, not a commit" in refusal(repo, "HEAD^{tree}")
    assert "is a blob, not a commit" in refusal(repo, "HEAD:setup.py")
    write(tmp_path / "plain", FILES)
    assert "no git repository" in refusal(tmp_path / "plain", "main")


def test_broken_repository(repo: Path, tmp_path: Path) -> None:
    write(tmp_path / "outer", {f"inner/{path}": content for path, content in FILES.items()})
    make(tmp_path / "outer")
    (tmp_path / "outer/inner/.git").mkdir()
    assert "broken" in refusal(tmp_path / "outer/inner")
    (tmp_path / "outer/inner/.git").rmdir()
    (tmp_path / "outer/inner/.git").write_text("gitdir: /nowhere\n")
    assert "broken" in refusal(tmp_path / "outer/inner")
    (repo / ".git/refs/heads/main").write_text("1" * 40 + "\n")
    assert "\n" not in refusal(repo)
    (repo / ".git/refs/heads/main").write_text("rubbish\n")
    refusal(repo)
    (repo / ".git/HEAD").unlink()
    assert "broken" in refusal(repo)
    (repo / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (repo / ".git/config").write_text("[core\n")
    refusal(repo)


def test_corrupt_index(repo: Path) -> None:
    (repo / ".git/index").write_bytes(b"rubbish")
    with pytest.raises(CheckoutError) as caught:
        open_checkout(repo)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs two users")
def test_repository_of_another_user(repo: Path) -> None:
    with as_nobody(repo, own=False):
        assert "safe.directory" in refusal(repo)
        assert "safe.directory" in refusal(repo, "main")


def test_unreadable(tmp_path: Path) -> None:
    root = tmp_path / "plain"
    write(root, FILES)
    (root / "verl/utils.py").chmod(0)
    with as_nobody(root):
        checkout = open_checkout(root)
        with pytest.raises(CheckoutError, match=r"cannot read .*verl/utils\.py: Permission denied"):
            checkout.candidates(WORDS)
        (root / "verl/workers").chmod(0)
        assert "cannot read" in refusal(root)
        (root / "verl/workers").chmod(0o755)
        root.chmod(0o600)
        assert "cannot" in refusal(root)
        root.chmod(0o755)


def test_unreadable_file_of_a_clean_work_tree(repo: Path) -> None:
    with as_nobody(repo):
        git(repo, "config", "core.fileMode", "false")
        git(repo, "config", "core.trustctime", "false")
        os.utime(repo / "verl/workers/actor.py", (1, 1))  # as new as the index, git would look inside
        git(repo, "update-index", "--refresh")
        (repo / "verl/workers/actor.py").chmod(0)
        assert opened(repo).dirty() == []
        assert paths(repo) == HITS


def test_read_only_is_enough_for_reading(repo: Path) -> None:
    for path in (*repo.rglob("*"), repo):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)
    with as_nobody(repo):
        checkout = open_checkout(repo)
        assert [content.decode() for _, content in checkout.read(checkout.candidates(WORDS))] == [
            FILES[path] for path in HITS
        ]
    for path in (repo, *repo.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)


@pytest.mark.parametrize("where", ["HOME", "TMPDIR"])
def test_a_home_is_no_checkout_although_there_is_one_in_it(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "all"
    write(home, {"unpacked/verl/__init__.py": "", "deep/er/x/verl/__init__.py": "", "a.py": "A = 1\n"})
    assert open_checkout(home).packages() == ["unpacked/verl", "deep/er/x/verl"]
    monkeypatch.setenv(where, str(home))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert f"is {home}/unpacked meant?" in refusal(home)
    assert f"is {home}/unpacked meant?" in refusal(tmp_path)  # what holds it is none, either
    assert open_checkout(home / "unpacked").packages() == ["verl"]
    write(home, {"verl/__init__.py": ""})
    assert "verl" in open_checkout(home).packages()


def test_repositories_in_a_plain_folder_are_not_part_of_it(repo: Path, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    repo.rename(outer / "clone")
    assert f"is {outer}/clone meant?" in refusal(outer)
    write(outer, {"verl/__init__.py": "", "verl/x.py": "bf16"})
    assert paths(outer) == ["verl/x.py"]


def test_a_big_folder_is_not_walked_to_find_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "big", {f"{i}/{j}/x.py": "bf16" for i in range(9) for j in range(9)})
    write(tmp_path / "big", {"8/8/a/b/verl/__init__.py": "", ".hidden/verl/__init__.py": ""})
    assert "not a verl checkout" in refusal(tmp_path / "big")
    write(tmp_path / "big", {"8/8/verl/__init__.py": ""})
    assert "8/8/verl" in open_checkout(tmp_path / "big").packages()
    monkeypatch.setattr("verl_legacy_patch.checkout.shallow.MOST_FOLDERS", 20)
    assert "not a verl checkout" in refusal(tmp_path / "big")


def test_files_that_go_during_the_walk_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "plain", {**FILES, "gone/a.py": "bf16"})
    checkout = open_checkout(tmp_path / "plain")
    found = checkout.candidates(WORDS)
    assert [each.path for each in found] == ["gone/a.py", *HITS]
    (tmp_path / "plain/gone/a.py").unlink()
    assert [each.path for each in checkout.candidates(WORDS)] == HITS
    assert [each.path for each, _ in checkout.read(found)] == HITS
    real = os.scandir

    def racing(path: bytes) -> Any:
        if os.fsdecode(path).endswith("gone/"):
            raise FileNotFoundError(2, "No such file or directory", path)
        return real(path)

    monkeypatch.setattr("os.scandir", racing)
    assert "gone/a.py" not in open_checkout(tmp_path / "plain").list_folder("")


def test_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verl_legacy_patch.checkout.directory.MOST_FILES", 3)
    write(tmp_path / "plain", FILES)
    assert "more than 3 files" in refusal(tmp_path / "plain")


def test_messages_are_one_line_with_the_reason_first() -> None:
    text = "warning: x\nerror: The following would be overwritten by checkout:\n\ta.py\n\tb.py\nPlease move\n"
    assert gitio.one_line(text) == "The following would be overwritten by checkout: a.py, b.py, Please move"
    assert gitio.one_line("hint: a\nfatal: bad \x1b[31mthing\n") == "bad \\x1b[31mthing"
    assert gitio.one_line("") == "git gave no reason"
    assert gitio.show("a\nb\udce9") == "a\\nb\\udce9"

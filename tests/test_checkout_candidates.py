"""Which files of a checkout hold a word, and what they contain."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from checkouts import opened, paths
from repos import FILES, HITS, WORDS, commit, git, make

from verl_legacy_patch.checkout import SOURCE_SUFFIXES, CheckoutError, gitio

pytestmark = pytest.mark.usefixtures("config")


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

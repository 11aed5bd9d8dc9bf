"""Checkouts without git: which files of a folder count, and how far it is walked to find out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from checkouts import paths, refusal
from repos import FILES, HITS, WORDS, isolate, write

from verl_legacy_patch.checkout import DirectoryCheckout, open_checkout, verl_version


@pytest.fixture(autouse=True)
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Hide the user's configuration, and nothing more: where temporary files go matters to a test."""
    return isolate(monkeypatch, tmp_path)


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


# --- how far a folder is walked


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

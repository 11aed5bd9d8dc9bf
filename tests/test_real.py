"""Real releases through the command line: the dry run's patch is what is committed, and the result is sound.

What Hydra makes of the rewritten configurations is in ``test_composition``.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from minis import Verl, everything
from releases import VERSIONS, release, sdist
from repos import commit, git

pytestmark = [
    pytest.mark.real,
    pytest.mark.filterwarnings("ignore:invalid escape"),
    pytest.mark.filterwarnings("ignore::SyntaxWarning"),
]


#: pip cannot download 0.2's source distribution: its setup.py reads a file that is not in it.
RELEASES = [
    (version, kind) for version in VERSIONS for kind in ("wheel", "sdist") if (version, kind) != ("0.2", "sdist")
]


@pytest.fixture(params=RELEASES, ids="-".join)
def repo(request: pytest.FixtureRequest, config: Path, tmp_path: Path) -> Path:
    """Return a release as a git repository with one commit."""
    version, kind = request.param
    root = tmp_path / "verl"
    shutil.copytree(release(version) if kind == "wheel" else sdist(version), root, symlinks=True)
    git(root, "init", "-q")
    commit(root, version)
    return root


def test_whole_job(repo: Path, verl: Verl, tmp_path: Path) -> None:
    before = everything(repo)
    dry = verl("apply", repo, "--dry-run").done()
    assert everything(repo) == before

    fresh = tmp_path / "fresh"
    git(tmp_path, "clone", "-q", str(repo), str(fresh))
    (tmp_path / "patch").write_bytes(dry.out)
    git(fresh, "apply", "--check", tmp_path / "patch")
    git(fresh, "apply", "--index", tmp_path / "patch")

    verl("apply", repo).done()
    assert git(repo, "write-tree") == git(fresh, "write-tree") == git(repo, "rev-parse", "HEAD^{tree}")
    assert git(repo, "status", "--porcelain") == "" and git(repo, "rev-parse", "HEAD^") == git(
        repo, "rev-parse", "main"
    )
    changed = git(repo, "diff", "-z", "--name-only", "main").split("\0")[:-1]
    assert changed
    modes = git(repo, "diff", "--raw", "--diff-filter=M", "main").split("\n")
    assert all(line[1:7] == line[8:14] for line in modes)  # a file keeps its mode
    for path in changed:
        _check(repo, path)

    after = everything(repo)
    again = verl("apply", repo).done("Nothing to rewrite")
    assert everything(repo) == after and again.out == b""
    git(repo, "switch", "-q", "main")
    verl("apply", repo).refused(3, "holds exactly this patch")


def _check(repo: Path, path: str) -> None:
    new = (repo / path).read_bytes()
    old = subprocess.run(["git", "cat-file", "blob", f"main:{path}"], cwd=repo, capture_output=True, check=False).stdout
    if path.endswith(".py"):
        compile(new, path, "exec")
    elif path.endswith((".yaml", ".yml")):
        list(yaml.safe_load_all(new))
    elif path.endswith(".sh"):
        assert subprocess.run(["bash", "-n"], input=new, check=False).returncode == 0, path
    if old:
        assert new.count(b"\r\n") == old.count(b"\r\n"), path
        assert new.endswith(b"\n") == old.endswith(b"\n"), path


def test_plain_folder(config: Path, verl: Verl, tmp_path: Path) -> None:
    """An unpacked wheel without git: the same files become the same."""
    plain, tracked = tmp_path / "plain", tmp_path / "tracked"
    for root in (plain, tracked):
        shutil.copytree(release(VERSIONS[-1]), root)
    git(tracked, "init", "-q")
    commit(tracked)
    verl("apply", tracked).done()
    verl("apply", plain, "--in-place").done()
    assert everything(plain) == {
        path: entry for path, entry in everything(tracked).items() if not path.startswith(".git")
    }
    verl("apply", plain, "--in-place").done("Nothing to rewrite")

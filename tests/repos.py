"""Small git repositories for tests, made by the real git and apart from the user's configuration."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534

#: A miniature checkout: a package, a script, and files that hold no setting.
FILES: dict[str, str | bytes] = {
    "README.md": "A trainer, in bfloat16.\n",
    "setup.py": "name = 'verl'\n",
    "scripts/run.sh": "#!/bin/sh\npython -m verl.main actor.dtype=bf16\n",
    "verl/__init__.py": "from .workers import actor\n",
    "verl/version/version": "0.5.0.dev\n",
    "verl/utils.py": "def add(a, b):\n    return a + b\n",
    "verl/workers/__init__.py": "",
    "verl/workers/actor.py": "import torch\n\ndtype = torch.bfloat16\n",
    "verl/workers/config.yaml": "model:\n  dtype: BFloat16\n",
}

WORDS = [b"bf16", b"bfloat16"]
HITS = ["scripts/run.sh", "verl/workers/actor.py", "verl/workers/config.yaml"]


def isolate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Hide the user's configuration and identity; return the configuration file that counts instead."""
    home = tmp_path / "home"
    home.mkdir()
    config = home / "gitconfig"
    config.write_text(
        "[user]\n\tname = Ada Tester\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n"
        "[core]\n\tfsync = none\n[gc]\n\tauto = 0\n"
    )
    for name in [name for name in os.environ if name.startswith("GIT_") or name in ("EMAIL", "XDG_CONFIG_HOME")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    return config


def git(root: Path, *arguments: str | bytes | Path, text: str | None = None) -> str:
    """Run git and return its output without the last line ending."""
    done = subprocess.run(
        ["git", *arguments], cwd=root, input=None if text is None else text.encode(), capture_output=True
    )
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")


def write(root: Path, files: Mapping[str, str | bytes]) -> None:
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)


def commit(root: Path, message: str = "change") -> str:
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", message)
    return git(root, "rev-parse", "HEAD")


def make(root: Path, files: Mapping[str, str | bytes] = FILES, **more: str | bytes) -> Path:
    """Make a repository with one commit."""
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "-q")
    write(root, {**files, **more})
    if (root / "scripts/run.sh").exists():
        (root / "scripts/run.sh").chmod(0o755)
    commit(root, "first")
    return root


@pytest.fixture
def repo(config: Path, tmp_path: Path) -> Path:
    """Return a repository with the miniature checkout."""
    return make(tmp_path / "verl-clone")


def state(root: Path) -> tuple[object, ...]:
    """Return everything that a refused or interrupted run must leave alone."""
    files = {
        str(path.relative_to(root)): (
            str(path.readlink()) if path.is_symlink() else path.read_bytes(),
            path.lstat().st_mode,
        )
        for path in sorted(root.rglob("*"))
        if ".git" not in path.relative_to(root).parts and (path.is_symlink() or path.is_file())
    }
    folders = {str(path) for path in root.rglob("*") if path.is_dir() and ".git" not in path.parts}
    return (
        files,
        folders,
        git(root, "rev-parse", "--symbolic-full-name", "HEAD"),
        git(root, "for-each-ref", "--format=%(refname) %(objectname)"),
        git(root, "status", "--porcelain"),
        git(root, "ls-files", "-s"),
    )


def leftovers(git_dir: Path) -> list[Path]:
    """Return what an unclean end would leave in a .git folder."""
    return [path for path in git_dir.rglob("*") if path.suffix == ".lock" or "verl-patch-backup" in path.name]


def interruptible() -> None:
    """Let Ctrl-C count in a child process: a shell ignores it for what it starts in the background, tests included."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def python(*arguments: str, **options: object) -> subprocess.Popen[bytes]:
    """Start a Python that finds the project, in a process group of its own (as a terminal would)."""
    options = {
        "env": {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        "start_new_session": True,
        "preexec_fn": interruptible,
        **options,
    }
    return subprocess.Popen([sys.executable, "-c", *arguments], **options)  # type: ignore[call-overload,no-any-return]


@contextmanager
def as_nobody(folder: Path, *, own: bool = True) -> Iterator[None]:
    """Run as a user for whom permissions count: root may read and write everything.

    ``own`` gives the folder to that user first.
    """
    if os.geteuid() != 0:
        yield
        return
    if not hasattr(os, "setresuid"):
        pytest.skip("cannot become another user here")
    if own:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    for path in (folder, *folder.parents):
        if path.stat().st_uid == 0 and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o055)
    groups = os.getgroups()
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, 0)
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups(groups)


def which(name: str) -> str:
    """Return the path of a program."""
    found = shutil.which(name)
    assert found
    return found

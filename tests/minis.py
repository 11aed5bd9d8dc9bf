"""A miniature verl in a git repository, and the command line run on it inside of this process."""

from __future__ import annotations

import atexit
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from repos import commit, git, isolate, write

from verl_legacy_patch.branch.history import standing
from verl_legacy_patch.checkout import GitCheckout, open_checkout
from verl_legacy_patch.cli import run
from verl_legacy_patch.codemod import discover
from verl_legacy_patch.miniature import sample
from verl_legacy_patch.plan import Plan, make_plan
from verl_legacy_patch.target import Target

PROJECT = Path(__file__).parents[1]
BRANCH = "verl-patch/float32-eager"

#: One of each: languages, line endings, modes, a missing last newline, a new module, places that stay.
TREE: dict[str, str | bytes] = {
    "README.md": "Trains in bfloat16 with flash_attention_2.\n",
    "examples/run.sh": "#!/usr/bin/env bash\nset -x\npython3 -m verl.trainer.main \\\n"
    "    actor.fsdp_config.model_dtype=bf16 \\\n    rollout.dtype=bfloat16 $@\n",
    "tests/test_actor.py": "import torch\n\nassert make(dtype=torch.bfloat16)\n",
    "verl/__init__.py": '"""A trainer."""\n',
    "verl/version/version": "0.5.0\n",
    "verl/utils/names.py": 'import torch\n\nNAMES = {"bf16": torch.bfloat16, "fp16": torch.float16}\n',
    "verl/utils/packing.py": "from flash_attn.bert_padding import index_first_axis, unpad_input\n",
    "verl/utils/windows.py": b"import torch\r\n\r\n\r\ndef make(dtype=torch.bfloat16):\r\n    return dtype\r\n",
    "verl/workers/actor.py": "import torch\nfrom transformers import AutoModel\n\n\ndef build(path):\n"
    "    return AutoModel.from_pretrained(\n        path,\n        torch_dtype=torch.bfloat16,\n"
    '        attn_implementation="flash_attention_2",\n    )\n',
    "verl/trainer/config/trainer.yaml": "actor:\n  fsdp_config:\n    model_dtype: bf16 # or fp32\n"
    "  use_torch_compile: true\nrollout:\n  dtype: bfloat16",
}
#: What of it changes, and what is new.
CHANGED = [
    "examples/run.sh",
    "verl/trainer/config/trainer.yaml",
    "verl/utils/packing.py",
    "verl/utils/windows.py",
    "verl/workers/actor.py",
]
ADDED = ["verl/utils/torch_padding.py"]


@dataclass(frozen=True)
class Ran:
    """How a run of the command ended."""

    code: int
    out: bytes
    err: str

    @property
    def data(self) -> dict[str, Any]:
        """Return the JSON on stdout."""
        data = json.loads(self.out)
        assert isinstance(data, dict)
        return data

    def refused(self, code: int, *words: str) -> None:
        """Check that it ended with one line that says these words, and nothing on stdout."""
        assert self.code == code, self
        assert self.out == b"", self
        assert self.err.startswith("Error: ") and self.err.endswith("\n") and self.err.count("\n") == 1, self.err
        assert all(word in self.err for word in words), self.err
        assert self.err.isprintable() or self.err[:-1].isprintable(), self.err

    def done(self, *words: str) -> Ran:
        """Check that it ended well and says these words."""
        assert self.code == 0, self
        assert "Traceback" not in self.err and "Error" not in self.err, self.err
        assert all(word in self.err for word in words), self.err
        return self


Verl = Callable[..., Ran]


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Hide the user's configuration; temporary files go to a folder that must be empty in the end."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    scratch.chmod(0o777)
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.setenv("TMPDIR", str(scratch))
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return isolate(monkeypatch, tmp_path)


@pytest.fixture
def verl(capfdbinary: pytest.CaptureFixture[bytes]) -> Iterator[Verl]:
    """Run the command line in this process: a new one costs half a second."""

    def call(*arguments: str | Path) -> Ran:
        capfdbinary.readouterr()
        code = run([os.fspath(each) for each in arguments])
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Ran(code, out, err.decode("utf-8", "surrogateescape"))

    yield call
    gc.enable()


@pytest.fixture
def mini(config: Path, tmp_path: Path) -> Path:
    """Return a repository with the miniature verl."""
    return make_mini(tmp_path / "verl-clone")


@pytest.fixture
def patched(mini: Path, verl: Verl) -> Path:
    """Return a repository on its patch branch."""
    verl("apply", mini).done()
    return mini


def stands(root: Path) -> list[str]:
    """Return the patch commits that nothing has undone."""
    checkout = open_checkout(root)
    assert isinstance(checkout, GitCheckout)
    return [each.sha for each in standing(checkout)]


def same_as_before(root: Path, *, but: tuple[str, ...] = ()) -> None:
    """Check that HEAD has the files of ``main``, apart from those of the user."""
    assert set(git(root, "diff", "--name-only", "main", "HEAD").split()) == set(but)
    assert git(root, "status", "--porcelain") == ""


_template: list[Path] = []


def make_mini(root: Path, more: Mapping[str, str | bytes] | None = None, *, git_too: bool = True) -> Path:
    """Make the miniature verl in a folder, with ``more`` files; the plain one in git is made once and copied."""
    files = {**TREE, **(more or {})}
    if git_too and not more and "GIT_DEFAULT_HASH" not in os.environ:
        if not _template:
            _template.append(_make(Path(tempfile.mkdtemp(dir="/tmp")) / "mini", files))
            shutil.rmtree(_template[0] / ".git/hooks")
            atexit.register(shutil.rmtree, _template[0].parent, ignore_errors=True)
        shutil.copytree(_template[0], root, symlinks=True)
        git(root, "update-index", "-q", "--refresh")
        return root
    if git_too:
        return _make(root, files)
    write(root, files)
    (root / "examples/run.sh").chmod(0o755)
    return root


def _make(root: Path, files: Mapping[str, str | bytes]) -> Path:
    root.mkdir(parents=True)
    git(root, "init", "-q")
    write(root, files)
    (root / "examples/run.sh").chmod(0o755)
    commit(root, "first")
    return root


def new_process(
    *arguments: str | Path, start: Sequence[str] = ("-m", "verl_legacy_patch"), **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run the command line in a process of its own, as ``python -m`` unless told otherwise."""
    options["env"] = {**os.environ, "PYTHONPATH": str(PROJECT), **options.get("env", {})}
    command = [sys.executable, *start, *map(os.fspath, arguments)]
    return subprocess.run(command, timeout=60, check=False, **{"capture_output": True, **options})


def everything(root: Path) -> dict[str, tuple[bytes, int]]:
    """Return content and mode of every file, link and folder, those of ``.git`` included."""
    found: dict[str, tuple[bytes, int]] = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        for name in (*folders, *files):
            path = os.path.join(folder, name)  # noqa: PTH118 (bytes)
            mode = os.lstat(path).st_mode
            if os.path.islink(path):  # noqa: PTH114
                content = os.readlink(path)  # noqa: PTH115
            else:
                content = Path(os.fsdecode(path)).read_bytes() if os.path.isfile(path) else b""  # noqa: PTH113
            found[os.fsdecode(os.path.relpath(path, os.fsencode(root)))] = (content, mode)
    return found


def without_traces(files: dict[str, tuple[bytes, int]]) -> dict[str, tuple[bytes, int]]:
    """Leave out what a try that git has undone may leave: unnamed objects, lines in a log, empty folders of refs."""
    folders = (".git/refs/heads/verl-patch",)
    logged = (".git/objects", ".git/logs")
    return {path: entry for path, entry in files.items() if path not in folders and not path.startswith(logged)}


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Return what every codemod would do to the demo's checkout."""
    root = tmp_path_factory.mktemp("sample")
    write(root, dict(sample()))
    return make_plan(open_checkout(root), list(discover().values()), Target())

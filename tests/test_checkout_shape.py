"""What makes a folder a verl checkout; which links, submodules and folders around it belong to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkouts import opened, paths, refusal
from repos import FILES, HITS, WORDS, commit, git, make, write

from verl_legacy_patch.checkout import DirectoryCheckout, open_checkout, verl_version

pytestmark = pytest.mark.usefixtures("config")


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

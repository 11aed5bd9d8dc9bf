"""``explain PATH:LINE``: each kind of line gets its reason, in words that need no knowledge of the program."""

from __future__ import annotations

from pathlib import Path

import pytest
from minis import Verl

from verl_legacy_patch.checkout.selection import SelectedFiles
from verl_legacy_patch.codemod import discover
from verl_legacy_patch.miniature import sample
from verl_legacy_patch.place import explain_line
from verl_legacy_patch.plan import make_plan
from verl_legacy_patch.target import Target


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    for path, content in [*sample(), *((name, text.encode()) for name, text in MORE.items())]:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return folder


MORE = {
    "docs/a.md": "bfloat16\n",
    "notes.rst": "bfloat16\n",
    "README.md": "# bfloat16\n",
    "a.sh": "python main.py \\\n    actor.param_dtype=bfloat16 \\\n    x=1\n",
    "verl/kept.py": "dtype = 'bfloat16'  # verl-patch: keep\n",
    "verl/odd.py": "param_dtype = 'bf16'; say(\"\x1b[31m bf16\")\n",
    "verl/long.py": f"param_dtype = pick('bfloat16', '{'x' * 300}')\nname = '{'y' * 300}'\n",
}


def explain(root: Path, path: str, line: int) -> str:
    codemods = list(discover().values())
    plan = make_plan(SelectedFiles(root, [path]), codemods, Target())
    return "\n".join(explain_line(path, (root / path).read_bytes(), line, plan))


def line_with(root: Path, path: str, text: str) -> int:
    return (root / path).read_text().partition(text)[0].count("\n") + 1


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        (
            "verl/workers/fsdp_workers.py",
            '"bf16"',
            ["dtype (safe), column", "bf16 becomes fp32.", "Found as: ", "More: verl-patch explain dtype"],
        ),
        (
            "verl/models/transformers/monkey_patch.py",
            "if model.config.model_type",
            ["packing-guard (review)", "adds from verl.utils.packing_guard", "Reason: refuses packing"],
        ),
        ("verl/workers/config/engine.py", "assert", ["stays.\n    Reason: a comparison", 'adds "float32".']),
        (
            "verl/workers/megatron_workers.py",
            "import",
            ["Nothing in this file is rewritten: Megatron cannot run below"],
        ),
        (
            "tests/utils/test_dtypes_on_cpu.py",
            "import",
            ["Nothing in this file is rewritten: tests keep what they test."],
        ),
        ("docs/a.md", "bfloat16", ["Nothing in this file is rewritten: documentation."]),
        ("notes.rst", "bfloat16", ["Nothing in this file is rewritten: neither code nor configuration."]),
        ("README.md", "bfloat16", ["Nothing in this file is rewritten: "]),
        (
            "requirements.txt",
            "flash-attn",
            ["is not rewritten, a person has to decide.", "does not install on this card"],
        ),
        ("a.sh", "bfloat16", ["bfloat16 becomes float32", "Found as: Hydra override, key actor.param_dtype"]),
        ("verl/kept.py", "dtype", ["bfloat16 stays.", "Reason: kept by a comment on the line."]),
    ],
)
def test_each_kind_of_line(root: Path, path: str, text: str, said: list[str]) -> None:
    shown = explain(root, path, line_with(root, path, text))
    assert shown.startswith(f"{path}:")
    for part in said:
        assert part in shown, shown
    assert " is gets " not in shown


def test_a_generated_line_says_what_it_follows(root: Path) -> None:
    path = "verl/trainer/config/_generated_ppo_trainer.yaml"
    shown = explain(root, path, line_with(root, path, "use_remove_padding"))
    assert "Reason: follows verl/trainer/config/" in shown


def test_lines_without_a_site(root: Path, tmp_path: Path) -> None:
    (tmp_path / "verl").mkdir()
    (tmp_path / "verl/__init__.py").write_text("")
    text = "# bf16\n\nx = 1\nprint('bfloat16 is new')\nlearning_rate = 'high'\n"
    (tmp_path / "verl/a.py").write_text(text)
    said = [explain(tmp_path, "verl/a.py", line) for line in range(1, 7)]
    assert "the line is a comment" in said[0]
    assert "(an empty line)" in said[1]
    assert "no codemod looks for anything that stands here" in said[2]
    assert "stays." in said[3] or "although dtype looked" in said[3]
    assert "What stands here: assignment, key learning_rate, value high." in said[4]
    with pytest.raises(ValueError, match="no line 7"):
        explain(tmp_path, "verl/a.py", 7)
    with pytest.raises(ValueError, match="no line 0"):
        explain(tmp_path, "verl/a.py", 0)


CALLS = """\
logger = logging.getLogger(__file__)
logger.setLevel(os.getenv("LEVEL", "WARN"))
class Engine(Base): pass
super().__init__()
self.rank = torch.distributed.get_rank()
build(config, size='a', depth=b), build(size='a')
"""


@pytest.mark.parametrize(
    ("line", "settings"),
    [(1, []), (2, ["default of getenv(), key LEVEL, value WARN"]), (3, []), (4, []), (5, []),
     (6, ["keyword argument, key size, value a", "keyword argument, key depth, value b"])],
)  # fmt: skip
def test_a_line_with_nothing_to_do_is_one_sentence_and_its_settings(
    line: int, settings: list[str], tmp_path: Path
) -> None:
    (tmp_path / "verl").mkdir()
    (tmp_path / "verl/a.py").write_text(CALLS)
    said = explain(tmp_path, "verl/a.py", line).split("\n")[3:]
    assert said[0] == "  Nothing to do: no codemod looks for anything that stands here."
    assert said[1:] == [f"    What stands here: {setting}." for setting in settings]


def test_what_a_file_says_moves_no_cursor_and_fills_no_screen(root: Path) -> None:
    assert "\x1b" not in explain(root, "verl/odd.py", 1)
    for line in explain(root, "verl/long.py", 2).split("\n")[2:]:
        assert len(line) < 200


def test_through_the_command(mini: Path, verl: Verl, monkeypatch: pytest.MonkeyPatch) -> None:
    said = verl("explain", mini / "verl/workers/actor.py:1").out.decode()
    assert said.startswith("verl/workers/actor.py:1\n")
    monkeypatch.chdir(mini / "verl")
    assert verl("explain", "workers/actor.py:1:7").out.decode() == said
    verl("explain", "workers/actor.py:0").refused(2, "has no line 0")
    verl("explain", "workers/actor.py").refused(2, "which line", "workers/actor.py:LINE")
    verl("explain", "workers/none.py").refused(2, "there is no file workers/none.py")
    verl("explain", "workers/none.py:3").refused(2, "there is no file workers/none.py")

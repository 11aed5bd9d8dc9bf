"""Scripts and commands in YAML are read by the shell adapter, in the place where they stand."""

from __future__ import annotations

import pytest
from yaml_settings import found, short

from verl_legacy_patch.languages.yaml.compare import difference
from verl_legacy_patch.setting import Edit, Span, splice

pytestmark = pytest.mark.usefixtures("loader")

SCRIPT = """\
resources: {gpus: 8}
setup: |
  # dtype=bf16 is a comment
  pip install -e .
run: |-  # the launch
  set -x
  export MODEL=ä

  python3 -m trainer \\
    actor.use_remove_padding=True \\
      'rollout.dtype=bfloat16' $@
    echo "dtype=bf16"
envs:
  DTYPE: bf16
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_script_in_a_literal_block_is_read_by_the_shell_adapter(newline: str) -> None:
    source = SCRIPT.replace("\n", newline)
    where = "in a script in YAML"
    assert short(source) == [
        ("actor.use_remove_padding", "True", f"Hydra override {where}"),
        ("rollout.dtype", "bfloat16", f"Hydra override {where}"),
        ("dtype", "bf16", f"Hydra override {where}"),
        ("envs.DTYPE", "bf16", "YAML value"),
    ]
    assert [one.names for one in found(source)] == ["", "", "a message", ""]


@pytest.mark.parametrize(
    "source",
    [
        "run: >-\n  python -m trainer\n  a.dtype=bf16\n  --x\nb: 1\n",
        "run: >\n    python -m trainer a.dtype=bf16\n",
        "args:\n  - |2\n      bash -c 'python -m trainer a.dtype=bf16'\n",
        "args: [bash, -c, 'python -m trainer a.dtype=bf16 b=1']\n",
        "run: torchrun --standalone -m trainer a.dtype=bf16\n",
        "\ufeffrun: |\n  #!/bin/bash\n  CUDA_VISIBLE_DEVICES=0 ./venv/bin/python train.py a.dtype=bf16\n",
        "a: &x |\n  python train.py a.dtype=bf16\nb: *x\n",
    ],
)
def test_scripts_in_other_scalars(source: str) -> None:
    [one] = found(source)
    assert (".".join(one.path), one.value, one.names) == ("a.dtype", "bf16", "")


@pytest.mark.parametrize(
    "source",
    [
        "run: >\n  python -m trainer\n\n  a.dtype=bf16\n",
        "run: >\n  python -m trainer\n    a.dtype=bf16\n",
        'run: "python -m trainer \\\n  a.dtype=bf16"\n',
    ],
)
def test_a_script_whose_lines_cannot_be_followed_is_left_alone(source: str) -> None:
    assert [one for one in found(source) if not one.names] == []


def test_a_rewritten_block_differs_in_the_edited_place_only() -> None:
    before = SCRIPT.encode()
    at = before.index(b"bfloat16'")
    edit = Edit(Span(at, at + 8), "dtype", "rewrite", "float32")
    after = splice(before, [edit])
    assert difference(before, after, [edit]) == ""
    assert difference(before, after.replace(b"set -x", b"set -e"), [edit]) != ""
    assert difference(before, after.replace(b"float32", b"float16"), [edit]) != ""

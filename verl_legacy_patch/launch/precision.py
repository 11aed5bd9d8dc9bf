"""In which dtype each role of a run computes: as a key of the script says, else as the checkout's code says.

float16 trains only where the step scales its loss. Where it does is not known here: the codemod ``loss-scaling`` is
asked, so that ``launch`` and ``apply`` cannot differ.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from verl_legacy_patch.capability import AMPERE
from verl_legacy_patch.launch.keys import Taken
from verl_legacy_patch.launch.shape import Shape
from verl_legacy_patch.target import Target

Role = Literal["actor", "critic", "sft"]
#: Bytes of a value.
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
#: Nodes of the configuration that may decide a role's dtype.
NODES: dict[Role, tuple[str, ...]] = {
    "actor": ("actor_rollout_ref.actor.fsdp_config",),
    "critic": ("critic.model.fsdp_config", "critic.fsdp"),
    "sft": ("engine",),
}
_ENGINE = "workers/engine/fsdp/transformer_impl.py"
#: Files with a role's training step, below the package: the first that has one is in force.
_STEPS: dict[Role, tuple[str, ...]] = {
    "actor": ("workers/actor/dp_actor.py", _ENGINE),
    "critic": ("workers/critic/dp_critic.py", _ENGINE),
    "sft": ("trainer/{trainer}.py", _ENGINE),
}
#: A dtype that is written into the step: there a key decides nothing but how the weights are stored meanwhile.
_CAST = re.compile(r"autocast\([^\n]*dtype=torch\.(bfloat16|float16|float32)\b")


class Computes(NamedTuple):
    """What a role computes in.

    Attributes:
        key: the key of the script that decides it, with its ``+``; None where the code does.
        scaled: whether its step scales the loss.
        step: the file with the step, below the package; empty where none was found.
    """

    role: Role
    dtype: str
    key: str | None
    scaled: bool
    step: str

    @property
    def hopeless(self) -> bool:
        """Whether training ends in NaN."""
        return self.dtype == "float16" and not self.scaled


def computes(role: Role, shape: Shape, taken: Taken, trainer: str, target: Target, patched: Target | None) -> Computes:
    """Return what a role computes in when the script is written for a target.

    A key never chooses float16 for a step that cannot train with it: that role stays in float32.

    Args:
        role: the role.
        shape: the checkout.
        taken: the keys that it takes.
        trainer: the module that is started.
        target: what was asked for.
        patched: what the checkout's code was rewritten for; None where it was not, or where nobody knows.
    """
    step = next((path for path in _steps(role, trainer) if ".backward(" in shape.text(path)), "")
    scaled = bool(step) and shape.scales_loss(step)
    written = _CAST.search(shape.text(step)) if step else None
    key = None if written else dtype_key(taken, NODES[role])
    if key is not None:
        dtype = target.dtype if scaled else "float32"
    elif written and written[1] != "bfloat16":  # rewritten, and not to be rewritten again
        dtype = written[1]
    elif patched is not None:
        dtype = patched.dtype
    else:
        dtype = "bfloat16" if target.capability >= AMPERE else target.dtype
    return Computes(role, dtype, key, scaled, step)


def scales(role: Role, shape: Shape, trainer: str = "main_ppo") -> bool | None:
    """Return whether a role's training step scales its loss; None where no step is found."""
    step = next((path for path in _steps(role, trainer) if ".backward(" in shape.text(path)), "")
    return shape.scales_loss(step) if step else None


def _steps(role: Role, trainer: str) -> tuple[str, ...]:
    return tuple(path.format(trainer=trainer) for path in _STEPS[role])


def dtype_key(taken: Taken, nodes: tuple[str, ...]) -> str | None:
    """Return the key that decides the dtype of a computation, as it is written; None where the code does."""
    whole = taken.write(tuple(f"{node}.dtype" for node in nodes))
    return whole or taken.write(tuple(f"{node}.mixed_precision.param_dtype" for node in nodes))

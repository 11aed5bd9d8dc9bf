"""Which part of training a file belongs to, and how much it matters: what a reviewer sorts and filters by."""

from __future__ import annotations

import re

from verl_legacy_patch.patterns import lazy
from verl_legacy_patch.scope import is_mirror

#: Role -> the words in a path that show it. The first match wins: a critic's engine is the critic's.
ROLES = {
    "generated": r"$^",  # decided by is_mirror
    "scripts": r"\.(?:sh|bash)$",
    "merger": r"merger|checkpoint(?!_engine)",
    "SFT": r"sft",
    "critic": r"critic",
    "reward": r"reward|\brm\b|prime_rm|distillation",
    "ref": r"(?:^|[/_])ref(?:[/_.]|$)",
    "rollout": r"rollout|vllm|sglang|checkpoint_engine|generation",
    "actor": r"actor",
}
SHARED = "shared"

_ROLES = {role: re.compile(pattern, re.IGNORECASE) for role, pattern in ROLES.items()}
_ASIDE = lazy(r"(?:^|/)(?:recipe|recipes|experimental)/")
#: Roles in the order of a reviewer, behind the actor and what is shared.
_AFTER = ("critic", "ref", "rollout", "reward", "SFT", "merger", "generated", "scripts")
_TRAINER = lazy(r"(?:^|/)(?:workers|trainer)/")
_EXAMPLES = lazy(r"(?:^|/)(?:examples?|scripts?|docker|tools)/")


def role_of(path: str) -> str:
    """Return the role of a file: one of ``ROLES``, or ``shared`` for code that all roles use."""
    if is_mirror(path):
        return "generated"
    return next((role for role, pattern in _ROLES.items() if pattern.search(path)), SHARED)


def importance(path: str) -> tuple[int, int, str]:
    """Return a key that puts what every run goes through first, and what repeats other files last.

    Among equals it is the way of training: actor, workers and trainer, what these share, the other roles, and last
    what turns checkpoints into models.
    """
    if is_mirror(path):
        rank = 5
    elif path.endswith((".sh", ".bash")):
        rank = 4
    elif _EXAMPLES.search(path):
        rank = 3
    elif _ASIDE.search(path):
        rank = 2
    else:
        rank = 0 if path.endswith((".py", ".pyi")) else 1
    role = role_of(path)
    if role == SHARED:
        return rank, 1 if _TRAINER.search(path) else 2, path
    return rank, 0 if role == "actor" else 3 + _AFTER.index(role), path

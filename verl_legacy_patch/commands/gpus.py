"""``verl-patch gpus``: what is known of each card."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from verl_legacy_patch.codemod import Codemod

_WIDTH = 100


@click.command("gpus")
def command() -> None:
    """Show the GPUs that are known, their limits, and which codemods run for each, with the reason."""
    from verl_legacy_patch.codemod import discover
    from verl_legacy_patch.gpus import GPUS

    click.echo(f"{'--gpu':8} {'cards':28} {'capability':10} {'shared':>7}  float16")
    for gpu in GPUS.values():
        limits = f"{gpu.capability!s:10} {gpu.shared_memory:3} KiB  {gpu.float16}"
        click.echo(f"{gpu.name:8} {gpu.cards:28} {limits}")
    for title, codemods in _groups(discover().values()):
        click.echo(f"\n{title}:")
        width = max(len(codemod.name) for codemod in codemods) + 2
        for codemod in codemods:
            name = f"  {codemod.name:{width}}"
            click.echo(click.wrap_text(codemod.why(), _WIDTH, name, " " * len(name)))
    click.echo(
        "\nAny other card can be given as its capability (--gpu 7.5). The target is float32 + eager for all: below 8.0"
        "\nno card has bfloat16 units or runs flash-attn 2. float16 + sdpa (--dtype float16 --attn sdpa) is worth a try"
        "\nfrom 7.0 on where the release scales the loss: the actor's from v0.6.1, the critic's from v0.8.0; the"
        "\nplaces that do not are listed then."
    )


def _groups(codemods: Iterable[Codemod]) -> Iterator[tuple[str, list[Codemod]]]:
    """Yield the codemods that run for the same cards, with a title that says which."""
    from verl_legacy_patch.capability import AMPERE
    from verl_legacy_patch.gpus import GPUS
    from verl_legacy_patch.target import DTYPES, Target

    capabilities = [*sorted({gpu.capability for gpu in GPUS.values()}), AMPERE]
    groups: dict[tuple[int, str], list[Codemod]] = {}
    for codemod in codemods:
        runs = [codemod.applies(Target(capability=capability)) for capability in capabilities]
        others = (dtype for dtype in DTYPES if codemod.applies(Target(dtype)))
        groups.setdefault((sum(runs), "" if any(runs) else next(others, "")), []).append(codemod)
    for (count, dtype), members in sorted(groups.items(), reverse=True):
        if count == len(capabilities):
            title = "Every card"
        elif count:
            limit = capabilities[count]
            below = ", ".join(gpu.name for gpu in GPUS.values() if gpu.capability < limit)
            title = f"Below compute capability {limit} only ({below})"
        else:
            title = f"With --dtype {dtype} only" if dtype else "No card of this table"
        yield title, members

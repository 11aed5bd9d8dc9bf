"""``verl-patch gpus``: what is known of each card."""

from __future__ import annotations

import click


@click.command("gpus")
def command() -> None:
    """Show the GPUs that are known, their limits, and which codemods run for each."""
    from verl_legacy_patch.codemod import discover
    from verl_legacy_patch.target import GPUS, Target

    click.echo(f"{'name':8} {'cards':30} {'capability':10} {'shared':>7}  float16")
    for gpu in GPUS.values():
        click.echo(f"{gpu.name:8} {gpu.cards:30} {gpu.capability!s:10} {gpu.shared_memory:3} KiB  {gpu.float16}")
    click.echo()
    codemods = discover().values()
    for capability in sorted({gpu.capability for gpu in GPUS.values()}):
        target = Target(capability=capability)
        names = [mod.name for mod in codemods if mod.applies(target)]
        click.echo(f"{capability}: float32 + eager; {', '.join(names)}")
    click.echo(
        "\nNo card below 8.0 has bfloat16 units or runs flash-attn 2. float16 and sdpa (--dtype float16 --attn sdpa)"
        "\nare worth a try from 7.0 on, where the release scales the loss: the actor from v0.6.1, the critic from v0.8.0."
    )

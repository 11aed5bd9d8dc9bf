"""The estimate as a table for people, on the terminal and in the script, and as data."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any

from verl_legacy_patch.launch.fitting import Fit
from verl_legacy_patch.launch.gpu import GIB, RESERVE, Card
from verl_legacy_patch.launch.model import Model
from verl_legacy_patch.launch.words import Words


def table(model: Model, fit: Fit, card: Card, w: Words, formulas: bool = True) -> list[str]:
    """Return the lines: a row for each part with the GiB of each phase.

    Args:
        model: its sizes.
        fit: what was chosen.
        card: what it has to fit on.
        w: the language.
        formulas: whether each row has its formula, and what the letters are stands below.
    """
    phases = fit.estimate.phases
    names = Counter(row.key for row in fit.estimate.rows)
    rows = [[w("table-unit"), "", *(w(f"phase-{phase}") for phase in phases)]]
    for row in fit.estimate.rows:
        cells = [f"{row.bytes[phase] / GIB:.2f}" if phase in row.bytes else "-" for phase in phases]
        name = w(f"row-{row.key}")
        if names[row.key] > 1:  # the same part is computed in another way in another phase
            name += f" ({w(f'phase-{next(iter(row.bytes))}')})"
        rows.append([name, row.formula.replace("2 layers", w("formula-layers")), *cells])
    rows.append([w("row-total"), "", *(f"{fit.estimate.total(phase) / GIB:.2f}" for phase in phases)])
    rows.append([w("row-card"), "", *(f"{card.usable / GIB:.2f}" for _ in phases)])
    if not formulas:
        rows = [[first, "", *rest] for first, _, *rest in rows]
    widths = [max(_width(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [_aligned(row, widths) for row in rows]
    width = 110 if w.language == "en" else 70
    reserve = w("reserve", part=RESERVE[0], more=RESERVE[1])
    return [*lines, "", *_wrapped(_symbols(model, fit, w), width), reserve] if formulas else lines


def result(fit: Fit, card: Card, w: Words) -> str:
    """Return in one line whether it fits: the phase that takes most decides."""
    worst = max(fit.estimate.phases, key=fit.estimate.total)
    facts = {"total": fit.estimate.total(worst) / GIB, "usable": card.usable / GIB, "phase": w(f"phase-{worst}")}
    return w("result-fits" if fit.fits else "result-tight", **facts)


def data(model: Model, fit: Fit, card: Card) -> dict[str, Any]:
    """Return the estimate for programs: bytes by part and phase."""
    rows = [{"part": row.key, "formula": row.formula, "bytes": _whole(row.bytes)} for row in fit.estimate.rows]
    return {
        "parameters": model.parameters,
        "counted": model.counted,
        "rows": rows,
        "total": {phase: round(fit.estimate.total(phase)) for phase in fit.estimate.phases},
        "usable": round(card.usable),
        "fits": fit.fits,
        "offload": fit.choice.offload,
        "micro_batch_size": fit.choice.micro,
    }


def _whole(values: Any) -> dict[str, int]:
    return {key: round(value) for key, value in values.items()}


def _symbols(model: Model, fit: Fit, w: Words) -> str:
    job, choice = fit.job, fit.choice
    text = w(
        "symbols",
        counted=w("counted-files" if model.counted else "counted-config"),
        gpus=job.gpus,
        micro=choice.micro,
        length=job.length,
        response=job.response,
        compute=job.compute,
        **{name: getattr(model, name) for name in model._fields if name != "counted"},
    )
    if "critic" in fit.estimate.phases and job.critic_compute != job.compute:
        text += w("symbols-critic", compute=job.critic_compute)
    if job.rollout and job.rollout_compute != job.compute:
        text += w("symbols-rollout", compute=job.rollout_compute)
    more = {"hf": f"; g = {choice.chunk}, n = {job.samples}, p = {job.prompt}"}
    more["vllm"] = f"; T = {choice.tensor}, t = {job.budget}, q = {choice.sequences}"
    return text + more.get(job.rollout or "", "")


def _wrapped(text: str, width: int) -> list[str]:
    import click

    return click.wrap_text(text, width).splitlines()


def _width(text: str) -> int:
    """Return the columns of a text on a terminal: Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    parts = []
    for column, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        space = " " * (width - _width(cell))
        if column != 1 or widths[column]:
            parts.append(cell + space if column < 2 else space + cell)
    return "  ".join(parts).rstrip()

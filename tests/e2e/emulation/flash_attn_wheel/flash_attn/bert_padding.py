"""The padding helpers of flash-attn use no kernel: they work on every card.

The harness takes the implementation that verl-patch adds to a checkout, wherever that is; what flash-attn's own do
differently (the number of results) does not matter to a run that fails for another reason.
"""

from pathlib import Path

_SOURCE = Path(__file__).parents[5] / "codemods" / "support" / "torch_padding.py"
exec(compile(_SOURCE.read_text(), str(_SOURCE), "exec"))

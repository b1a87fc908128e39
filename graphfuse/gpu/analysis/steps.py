"""Values whose last bit may decide an integer: a quotient of 2.5 that is an ulp less rounds to 2 as well as 3.

Quantisation divides by a scale and rounds half to even, and ties are common there: its quotients are exact.
"""

from __future__ import annotations

from graphfuse.dialects import block, gpu
from graphfuse.ir.core import Func, Value
from graphfuse.ir.types import Scalar

_STEPS = frozenset(block.ELEMENTWISE[name] for name in ("round", "floor", "ceil", "trunc"))
_HANDS_ON = frozenset({
    block.splat, block.broadcast, block.reshape, block.trans, gpu.convert_layout, block.select,
    block.ELEMENTWISE["min"], block.ELEMENTWISE["max"],
})  # fmt: skip


def stepped(func: Func) -> frozenset[Value]:
    """What is rounded to an integer, by a function or a cast, as it is or after a choice between values."""
    out: set[Value] = set()
    for op in reversed(list(func.walk())):  # readers first
        to = op.attrs.get("to") if op.kind is block.cast else None
        is_step = op.kind in _STEPS or (isinstance(to, Scalar) and to.is_integer)
        if is_step or (op.kind in _HANDS_ON and op.result in out):
            out.update(op.operands)
    return frozenset(out)

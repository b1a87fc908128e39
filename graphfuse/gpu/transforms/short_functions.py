"""Functions of f32 that only reach memory rounded to f16 or bf16, in the few instructions that this takes.

    %s = block.sigmoid(%u) : tile<128xf32>
    %g = block.mul(%x, %s) : tile<128xf32>
    %y = block.cast(%g) {to = bf16} : tile<128xbf16>

has `gpu.short(%u) {function = "sigmoid"}` for the first op. Between the function and every cast there are products,
quotients, signs, choices and movement, which hand a relative error on; a sum would not, as its terms may cancel. A
function that occurs several times in a product (s s, or s read by two) does so with its error: `MOST` at most.

Requires: layouts are assigned, for other passes know functions by name. Ensures: values within 2^-16 of those before,
for each time they occur. Cost: one walk.
"""

from __future__ import annotations

from graphfuse.dialects import block, gpu
from graphfuse.gpu.properties import laid_out
from graphfuse.ir.core import Func, Op, Value
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, rebuild
from graphfuse.ir.types import BF16, F16, F32, Buffer

MOST = 4
"""Times that a function may occur in what is rounded."""
_FUNCTIONS = {block.ELEMENTWISE[name]: name for name in gpu.SHORT}
_HANDS_ON = frozenset({
    block.mul, block.div, block.ELEMENTWISE["neg"], block.ELEMENTWISE["abs"], block.splat, block.broadcast,
    block.reshape, block.trans, gpu.convert_layout,
})  # fmt: skip
_HALVES = (F16, BF16)


@passing("gpu", requires=(laid_out,))
def short_functions(func: Func) -> Func:
    """Put `gpu.short` in the place of functions whose last bits are lost; nothing under `strict`."""
    if func.attrs.get("numerics") == "strict" or not any(op.kind in _FUNCTIONS for op in func.walk()):
        return func
    short = _short(func)

    def visit(old: Op, new: Op) -> Replacement | None:
        return gpu.short(*new.operands, function=_FUNCTIONS[new.kind], loc=new.loc) if old in short else None

    return rebuild(func, visit_pair=visit)


def _short(func: Func) -> set[Op]:
    """The functions that occur in halves only, and at most `MOST` times."""
    seen: dict[Value, int] = {}
    out: set[Op] = set()
    for op in reversed(list(func.walk())):  # readers first: each stands behind what it reads, if in a body of it
        if op.kind in _FUNCTIONS and block.elem_of(op.result.type) == F32 and 0 < seen.get(op.result, 0) <= MOST:
            out.add(op)
        for i, v in enumerate(op.operands):
            seen[v] = seen.get(v, 0) + _times(op, i, seen)
    return out


def _times(op: Op, operand: int, seen: dict[Value, int]) -> int:
    """How often an operand occurs in what is rounded of `op`'s result: more than `MOST` if unrounded somewhere."""
    if op.kind is block.cast:
        to = op.attrs["to"]
        return 1 if to in _HALVES else seen.get(op.result, 0) if to == F32 else MOST + 1
    if op.kind is gpu.stage:  # rounds to what the buffer holds
        buffer = op.operands[0].type
        return 1 if isinstance(buffer, Buffer) and buffer.elem in _HALVES else MOST + 1
    if op.kind in _HANDS_ON or (op.kind is block.select and operand > 0):
        return seen.get(op.result, 0)
    return MOST + 1

"""Divisors that are positive in every program of a launch, though not for all sizes and grids.

    %rows = min(%left, 8); %pm = truncmod(%at, %rows)      rows is 0 in programs beyond the last tile

A launch has numbers: whether `rows` is at least 1 in all of its programs follows from them. Where it does, the divisor
is `max(%rows, 1)`, which is the same number, and what is divided by it is seen not to be negative.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphfuse.blockopt.forms import Forms
from graphfuse.dialects import block
from graphfuse.ir.core import Func, Op
from graphfuse.ir.rewrite import rebuild
from graphfuse.ir.types import Tile
from graphfuse.symbolic import Dim, bounds, substitute, sym, symbols

PROGRAM = "program"
_DIVISIONS = tuple(block.ELEMENTWISE[n] for n in ("floordiv", "truncdiv", "floormod", "truncmod"))


def open_divisors(func: Func) -> tuple[Dim, ...]:
    """The divisors of which sizes and the grid alone do not tell that they are positive, over the program's number."""
    return tuple(dict.fromkeys(_open(func, Forms(func)).values()))


def are_positive(divisors: tuple[Dim, ...], numbers: Mapping[str, int], programs: int) -> bool:
    """Whether all are, in every program of a launch."""
    ranges = {name: (n, n) for name, n in numbers.items()} | {PROGRAM: (0, programs - 1)}
    return all(bounds(d, ranges)[0] >= 1 for d in divisors)


def guard_divisors(func: Func) -> Func:
    """For launches where they all are positive: say so."""
    found = _open(func, Forms(func))

    def guarded(old: Op, new: Op) -> Op | None:
        if old not in found:
            return None
        number, divisor = new.operands
        one = block.const(value=1, elem=block.elem_of(divisor.type))
        return new.kind(number, block.max_(divisor, one))

    return rebuild(func, visit_pair=guarded) if found else func


def _open(func: Func, forms: Forms) -> dict[Op, Dim]:
    found: dict[Op, Dim] = {}
    for op in func.walk():
        if op.kind not in _DIVISIONS or isinstance(op.types[0], Tile) or not block.elem_of(op.types[0]).is_integer:
            continue
        form = forms.form(op.operands[1])
        if form is None or bounds(form.base, forms.ranges)[0] >= 1:
            continue
        leaves = {n: forms.leaves[n].op for n in symbols(form.base) if n in forms.leaves}
        if all(leaf is not None and leaf.kind is block.program_id for leaf in leaves.values()):
            found[op] = substitute(form.base, {n: sym(PROGRAM) for n in leaves})
    return found

"""Make a tile again in the layout that a reader wants, where that is cheaper than to move it there.

    %c = gpu.convert_layout(%m) {layout = B}        %r = block.arange() {end = 64, layout = B, start = 0}
                                            becomes %c = block.lt(%r, %n)
    (%m = lt(%r, %n), %r = arange in layout A)          (%n, a splat, in layout B too)

Constants, ranges and splats cost nothing. Index arithmetic, comparisons, casts and movement of such cost the
instructions of the registers that each thread holds in the new layout; moving costs what `convert.plan` says. Never
made again: loads, products, reductions, divisions of tiles, transcendental functions, or more than `MOST` ops.

A tile is made again where it is read in another layout, not to be held shorter: the lowering, and LLVM after it, place
what is pure as far out as it can be, and ptxas computes such values again by itself where it lacks registers.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

from graphfuse.dialects import block, gpu
from graphfuse.gpu.convert import Conversion, plan
from graphfuse.gpu.properties import laid_out
from graphfuse.gpu.transforms.assign_layouts import FREE, operand_layout
from graphfuse.ir.core import Func, Op, Trait, Value, attr_dim, tile_of
from graphfuse.ir.layout import REGISTER, WARP, LinearLayout
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, rebuild
from graphfuse.ir.types import Tile
from graphfuse.symbolic import Call, Dim

MOST = 16
"""Ops that stand for one conversion at most."""
_FUNCTIONS = "add sub mul max min and or xor not shl shr neg abs eq ne lt le gt ge"
CHEAP = frozenset({
    *(block.ELEMENTWISE[name] for name in _FUNCTIONS.split()), block.select, block.cast, block.bitcast, block.assume,
})  # fmt: skip
"""Elementwise ops of a few instructions."""
_POWER_OF_TWO, _CONSTANT, _SYMBOLIC = 1, 6, 60
"""Instructions of a division by such a number."""
_FUNCTION = 8
"""Instructions of an elementwise op that is not among the cheap ones."""


@passing("gpu", requires=(laid_out,))
def rematerialise(func: Func) -> Func:
    """Replace conversions whose operand costs less to make again; what that leaves unread is still there."""
    if not any(op.kind is gpu.convert_layout for op in func.walk()):
        return func
    made: list[dict[tuple[Value, LinearLayout], Value]] = []

    def visit(new: Op) -> Replacement | None:
        if new.kind is not gpu.convert_layout:
            return None
        again = _Again(made)
        want = tile_of(new.result).layout
        assert want is not None, "a conversion has a layout"
        value = again.value(new.operands[0], want, new)
        if value is None or again.instructions > conversion(new.operands[0], want).cycles:
            return None
        made[-1].update(again.made)
        return value

    def leave() -> None:
        made.pop()

    return rebuild(func, visit, enter=lambda _: made.append({}), leave=leave)


def conversion(value: Value, want: LinearLayout) -> Conversion:
    """How a tile gets to another layout."""
    t = tile_of(value)
    assert t.layout is not None, f"{t} has no layout"
    return _planned(t.layout, want, 8 * t.elem.bytes)


@functools.lru_cache(4096)
def _planned(have: LinearLayout, want: LinearLayout, bits: int) -> Conversion:
    return plan(have, want, bits)


@dataclass
class _Again:
    """What takes the place of one conversion."""

    known: list[dict[tuple[Value, LinearLayout], Value]]
    """Made for conversions before, by block, outermost first."""
    made: dict[tuple[Value, LinearLayout], Value] = field(default_factory=dict[tuple[Value, LinearLayout], Value])
    instructions: float = 0
    """Of all warps."""

    def value(self, value: Value, want: LinearLayout, at: Op) -> Value | None:
        """A tile in another layout, of ops that are not placed yet; None if it has to be moved."""
        if not isinstance(value.type, Tile) or value.type.layout == want:
            return value
        key = (value, want)
        for seen in (*self.known, self.made):
            if key in seen:
                return seen[key]
        op = value.op
        if op is None or len(self.made) == MOST:
            return None
        out = self.value(op.operands[0], want, at) if op.kind is gpu.convert_layout else self._op(op, want, at)
        if out is not None:
            self.made[key] = out
        return out

    def _op(self, op: Op, want: LinearLayout, at: Op) -> Value | None:
        wanted = operand_layout(op, want)
        if wanted is None or not (op.kind in FREE or op.kind in CHEAP or not op.has(Trait.ELEMENTWISE)):
            return None
        found = list[Value]()
        for v in op.operands:
            if (again := self.value(v, wanted, at)) is None:
                return None  # in vain: nothing else is looked at, or each op would be as often as there are ways to it
            found.append(again)
        out = remade_in(op, found, want, at)
        if out is None:
            return None
        registers = want.distinct_registers().size(REGISTER)
        self.instructions += instructions(op) * registers * want.size(WARP)
        return out


def remade_in(op: Op, operands: Sequence[Value], want: LinearLayout, at: Op) -> Value | None:
    """An op on operands in the layouts that `operand_layout` says; None if its result is not where it is wanted."""
    attrs = {**op.attrs, "layout": want} if "layout" in op.kind.takes.attrs else op.attrs
    out = op.kind.build(operands, attrs, loc=op.loc or at.loc).result
    return out if tile_of(out).layout == want else None  # not so for a padded tile reshaped


def instructions(op: Op) -> float:
    """For one register."""
    if op.kind in FREE:
        return 0
    if op.kind is block.index:
        return _of_dim(attr_dim(op, "expr"))
    if not op.has(Trait.ELEMENTWISE):
        return 0  # it names registers
    wide = any(isinstance(v.type, Tile) and v.type.elem.bits == 64 for v in (*op.operands, op.result))
    return (1 if op.kind in CHEAP else _FUNCTION) * (2 if wide else 1)


def _of_dim(dim: Dim) -> float:
    """A product and a sum for each term, and what its functions take."""
    if isinstance(dim, int):
        return 0
    out = 0.0
    for monomial, factor in dim.terms:
        out += 1 + (factor not in (1, -1)) if monomial else 0
        for atom, _ in monomial:
            if isinstance(atom, Call):
                out += sum(map(_of_dim, atom.args)) + _division(atom)
    return out


def _division(call: Call) -> int:
    by = call.args[1]
    if call.fn in ("min", "max"):
        return 1
    if not isinstance(by, int):
        return _SYMBOLIC
    return _POWER_OF_TWO if by & by - 1 == 0 else _CONSTANT

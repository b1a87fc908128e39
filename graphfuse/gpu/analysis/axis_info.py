"""Axis info: how far integer values run by one, what they are divisible by, how far they stay equal.

Per value and dim three facts, in the sense of `AxisInfo`; they decide vector width, layouts of memory accesses, and
whether a mask is one bit for a whole vector. The law is that they never lie for any values of the symbols that
`assume` allows. Facts are about integers modulo 2^bits, so divisibility is a power of two, which wrapping keeps.

`axis_info` gives the facts of all values of a block function, `access_info` those of a memory op's addresses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphfuse.dialects import block, control, effects
from graphfuse.gpu.analysis.axis_facts import MAX_DIVISIBILITY, AxisInfo, power_of_two
from graphfuse.gpu.analysis.axis_rules import RULES, shape_of
from graphfuse.ir.core import Block, Func, Op, Value, attr_dim, attr_dims, attr_int, attr_ints, attr_strs
from graphfuse.ir.types import BOOL, I64, Ptr, Scalar, Tile
from graphfuse.symbolic import Atom, Dim, Ranges, Sym, bounds

Facts = Mapping[Value, AxisInfo]


def axis_info(func: Func, assume: Mapping[str, int] | None = None) -> dict[Value, AxisInfo]:
    """Facts of every scalar, tile and pointer.

    `assume` gives what parameters are divisible by, by name: symbols as numbers, pointers as addresses in bytes. The
    function's attribute `assume = [["n", 16], ...]` says the same in text. Without either, a pointer is aligned to
    its element.
    """
    known = {**block.promises(func), **(assume or {})}
    analysis = _Analysis(func.ranges, {name: power_of_two(d) for name, d in known.items()})
    for param in func.params:
        analysis.facts[param] = analysis.param(param)
    analysis.block(func.body)
    return analysis.facts


class _Analysis:
    def __init__(self, ranges: Ranges, assume: Mapping[str, int]) -> None:
        self.facts: dict[Value, AxisInfo] = {}
        self.ranges = ranges
        self.assume = assume

    def param(self, value: Value) -> AxisInfo:
        if isinstance(value.type, Ptr):
            return AxisInfo.uniform(max(self.assume.get(value.hint, 1), value.type.elem.bytes))
        if value.type == I64:
            return self.symbol(value.hint)
        if isinstance(value.type, Scalar) and value.type.is_integer:
            return AxisInfo.uniform(self.assume.get(value.hint, 1))
        return AxisInfo.unknown(shape_of(value.type))

    def symbol(self, name: str) -> AxisInfo:
        lo, hi = self.ranges.get(name, (0, 1))
        if name in self.ranges and lo == hi:
            return AxisInfo.constant(lo)
        return AxisInfo.uniform(self.assume.get(name, 1))

    def block(self, code: Block) -> tuple[AxisInfo, ...]:
        """Facts of the values handed to the terminator."""
        for op in code.ops[:-1]:
            self.facts.update(zip(op.results, self.op(op), strict=True))
        return tuple(self.facts[v] for v in code.terminator.operands)

    def op(self, op: Op) -> Sequence[AxisInfo]:
        if op.kind is control.for_:
            return self.loop(op)
        if op.kind is control.while_:
            return self.while_loop(op)
        if op.kind is control.if_:
            yielded = [self.block(body) for body in op.bodies]
            return [a.meet(b) for a, b in zip(*yielded, strict=True)] if len(yielded) == 2 else ()
        if op.bodies:
            for body in op.bodies:
                self.facts.update((v, AxisInfo.unknown(shape_of(v.type))) for v in body.params.values)
                self.block(body)
            return [AxisInfo.unknown(shape_of(t)) for t in op.types]
        operands = [self.facts[v] for v in op.operands]
        if not op.types:
            return ()
        if op.kind is block.index:
            return [self.index(op, operands)]
        rule = RULES.get(op.kind)
        if rule is None:
            return [AxisInfo.unknown(shape).sharpened(shape) for shape in map(shape_of, op.types)]
        return [rule(op, operands).sharpened(shape_of(op.types[0]))]

    def loop(self, op: Op) -> Sequence[AxisInfo]:
        """Carried values begin as their initial facts and only lose some, until an iteration loses none."""
        lower, _, *carried = (self.facts[v] for v in op.operands)
        induction, *params = op.body.params.values
        self.facts[induction] = AxisInfo.uniform(math.gcd(lower.divisibility[0], power_of_two(attr_int(op, "step", 1))))
        while True:
            self.facts.update(zip(params, carried, strict=True))
            met = [a.meet(b) for a, b in zip(carried, self.block(op.body), strict=True)]
            if met == carried:
                return carried
            carried = met

    def while_loop(self, op: Op) -> Sequence[AxisInfo]:
        """As `loop`; the results are what the condition hands on."""
        condition, body = op.bodies
        carried = [self.facts[v] for v in op.operands]
        while True:
            self.facts.update(zip(condition.params.values, carried, strict=True))
            _, *handed = self.block(condition)
            self.facts.update(zip(body.params.values, handed, strict=True))
            met = [a.meet(b) for a, b in zip(carried, self.block(body), strict=True)]
            if met == carried:
                return handed
            carried = met

    # index expressions

    def index(self, op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
        shape = shape_of(op.types[0])
        bound = {
            name: info if isinstance(v.type, Tile) else info.spread(shape)
            for name, v, info in zip(attr_strs(op, "names", ()), op.operands, operands, strict=True)
        }
        return self.dim(attr_dim(op, "expr"), bound, shape).sharpened(shape)

    def dim(self, dim: Dim, bound: Mapping[str, AxisInfo], shape: Sequence[int]) -> AxisInfo:
        """Facts of an expression over operands and symbols."""
        if isinstance(dim, int):
            return AxisInfo.constant(dim, shape)
        total = AxisInfo.constant(0, shape)
        for monomial, c in dim.terms:
            term = AxisInfo.constant(c, shape)
            for atom, power in monomial:
                factor = self.atom(atom, bound, shape)
                for _ in range(power):
                    term = (term * factor).sharpened(shape)
            total = (total + term).sharpened(shape)
        return total

    def atom(self, atom: Atom, bound: Mapping[str, AxisInfo], shape: Sequence[int]) -> AxisInfo:
        if isinstance(atom, Sym):
            return bound[atom.name] if atom.name in bound else self.symbol(atom.name).spread(shape)
        a, b = (self.dim(d, bound, shape) for d in atom.args)
        if atom.fn in ("min", "max"):
            return a.either(b)
        # an operand hides the symbol whose name it has, and nothing is known of its range
        visible = {n: r for n, r in self.ranges.items() if n not in bound}
        hidden = dict.fromkeys(bound, (-(1 << 62), 1 << 62))
        positive = bounds(atom.args[1], {**visible, **hidden})[0] > 0
        info = a.floordiv(b, positive=positive) if atom.fn == "floordiv" else a.mod(b, positive=positive)
        return info.sharpened(shape)


# memory ops


@dataclass(frozen=True, slots=True)
class AccessInfo:
    """What is known of a memory op's addresses and mask, per dim of its tile.

    `contiguity`: elements in a row in memory. `alignment`: of the address in bytes where such a run begins.
    `mask`: elements in aligned runs that are read, or not, together; the whole dim when there is no mask.
    """

    contiguity: tuple[int, ...]
    alignment: tuple[int, ...]
    mask: tuple[int, ...]

    def vector(self, dim: int, elem_bytes: int) -> int:
        """Elements along `dim` that one 16-byte aligned-or-smaller instruction can move, as a power of two."""
        most = min(power_of_two(self.contiguity[dim]), power_of_two(self.mask[dim]), max(1, 16 // elem_bytes))
        return min(most, max(1, power_of_two(self.alignment[dim]) // elem_bytes))


def access_info(func: Func, op: Op, facts: Facts) -> AccessInfo:
    """Facts of the addresses of a `block.load`, `store`, `load_view`, `store_view` or atomic of `func`."""
    pointer = op.operands[0].type
    assert isinstance(pointer, Ptr), f"{op.kind} is no memory op"
    base = facts[op.operands[0]].divisibility[0]
    if op.kind in (block.load, block.store, effects.atomic, effects.atomic_cas):
        shape = shape_of(op.operands[1].type)
        offsets = facts[op.operands[1]]
        masks = [facts[v] for v in op.operands[2:] if block.elem_of(v.type) == BOOL][-1:]
        if op.kind is block.store and len(op.operands) < 4:
            masks = []  # the third operand is the value
        mask = masks[0].constancy if masks else tuple(shape) or (1,)
    else:
        shape, offsets, mask = _view(func, op, facts)
    alignment = tuple(math.gcd(base, d * pointer.elem.bytes) for d in offsets.divisibility)
    return AccessInfo(offsets.contiguity, alignment, mask)


def _view(func: Func, op: Op, facts: Facts) -> tuple[tuple[int, ...], AxisInfo, tuple[int, ...]]:
    """Shape, offsets and mask of a strided view."""
    shape = shape_of(op.types[0] if op.kind is block.load_view else op.operands[2].type)
    limits = op.operands[2 if op.kind is block.load_view else 3 :]
    symbols = _Analysis(func.ranges, {p.hint: facts[p].divisibility[0] for p in func.params})
    total = facts[op.operands[1]].spread(shape)
    for d, (n, stride) in enumerate(zip(shape, attr_dims(op, "strides"), strict=True)):
        at = AxisInfo(
            tuple(n if i == d else 1 for i in range(len(shape))),
            tuple(MAX_DIVISIBILITY if i == d else 1 for i in range(len(shape))),
            tuple(1 if i == d else m for i, m in enumerate(shape)),
        )
        total = (total + (at * symbols.dim(stride, {}, shape)).sharpened(shape)).sharpened(shape)
    mask: list[int] = [*shape]
    for d, limit in zip(attr_ints(op, "limited", ()), limits, strict=True):
        mask[d] = math.gcd(shape[d], facts[limit].divisibility[0])
    return shape, total, tuple(mask) or (1,)

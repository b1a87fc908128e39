"""Axis info of block ops: one rule per op, from the facts of its operands to those of its result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from graphfuse.dialects import block
from graphfuse.gpu.analysis.axis_facts import AxisInfo, aligned_runs, constancy_only, power_of_two, runs, zip_gcd
from graphfuse.ir.core import Op, OpDef, Value, attr_dims, attr_int, attr_ints
from graphfuse.ir.types import I64, Ptr, Scalar, Tile, Type

ALLOC_ALIGNMENT = 64
"""What `block.alloc` promises."""


def shape_of(t: Type) -> tuple[int, ...]:
    """A tile's shape; () for scalars and pointers."""
    return t.shape if isinstance(t, Tile) else ()


Rule = Callable[[Op, Sequence[AxisInfo]], AxisInfo]


def _by_wide_integers(rule: Callable[[AxisInfo, AxisInfo], AxisInfo]) -> Rule:
    """A rule for i64 alone may fold constants; narrower integers wrap elsewhere."""

    def apply(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
        a, b = operands
        if not result_elem(op).is_integer:
            return constancy_only(a, b)
        info = rule(a, b)
        return info if result_elem(op) == I64 else replace(info, value=None)

    return apply


def result_elem(op: Op) -> Scalar:
    """The element of an op's only result."""
    return block.elem_of(op.types[0])


def _shift_left(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    if b.value is None or not 0 <= b.value < 62:
        return constancy_only(a, b)
    return a * b.full_of(1 << b.value)


def _shift_right(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    a, b = operands
    if b.value is None or not 0 <= b.value < min(62, result_elem(op).bits):
        return constancy_only(a, b)
    info = a.floordiv(b.full_of(1 << b.value), positive=True)
    return info if result_elem(op) == I64 else replace(info, value=None)


def _and(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    """Masking with 2^n - 1 is the remainder by 2^n."""
    for a, b in (operands, tuple(reversed(operands))):
        if result_elem(op).is_integer and b.value is not None and b.value >= 0 and b.value & b.value + 1 == 0:
            return replace(a.mod(b.full_of(b.value + 1), positive=True), value=None)
    return constancy_only(*operands)


def _compare(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    """x < y and x >= y keep their answer while x runs from a multiple of g below the next, and y is a multiple of g."""
    a, b = operands
    out = constancy_only(a, b)
    source = op.operands[0].type
    if not block.elem_of(source).is_integer:
        return out
    counting, fixed = (a, b) if op.kind in (block.lt, block.ge) else (b, a)
    return replace(out, constancy=tuple(map(max, out.constancy, aligned_runs(counting, fixed))))


def _select(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    condition, a, b = operands
    met = a.meet(b)
    contiguity = zip_gcd(met.contiguity, condition.constancy)
    return AxisInfo(contiguity, runs(contiguity, a, b), zip_gcd(met.constancy, condition.constancy))


def _assume(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    """A promise of every element, hence of those that begin a run."""
    number, (a,) = attr_int(op, "multiple_of"), operands
    divisibility = tuple(math.lcm(d, power_of_two(number)) for d in a.divisibility)
    contiguity = a.contiguity if number == 1 else (1,) * len(divisibility)
    return replace(a, contiguity=contiguity, divisibility=divisibility)


def _cast(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    (a,) = operands
    source, target = block.elem_of(op.operands[0].type), result_elem(op)
    if not (source.is_integer and target.is_integer) or op.attrs.get("saturate"):
        return constancy_only(a)
    if target.bits <= source.bits:
        contiguity = tuple(_below_sign(c, target) for c in a.contiguity)
    elif source.is_signed and _fits(op.operands[0], {}):
        contiguity = a.contiguity
    else:
        # a run that wraps around in the narrow type is broken in the wide one; aligned powers of two never wrap
        contiguity = tuple(power_of_two(math.gcd(c, d)) for c, d in zip(a.contiguity, a.divisibility, strict=True))
    return AxisInfo(contiguity, runs(contiguity, a), a.constancy)


def _fits(value: Value, known: dict[Value, bool]) -> bool:
    """Whether no run of a signed integer tile wraps around: it is made of such ones by sums that promise it (`nsw`)."""
    if value not in known:
        known[value] = _made_to_fit(value, known)
    return known[value]


def _made_to_fit(value: Value, known: dict[Value, bool]) -> bool:
    if not isinstance(value.type, Tile):
        return True  # a single number runs nowhere
    op = value.op
    if op is None:
        return False
    if op.kind is block.arange:
        half = 1 << result_elem(op).bits - 1
        return -half <= attr_int(op, "start") and attr_int(op, "end") <= half
    if op.kind in (block.const, block.splat):
        return True
    if op.kind is block.cast:
        source = block.elem_of(op.operands[0].type)
        return source.is_signed and source.bits <= result_elem(op).bits and _fits(op.operands[0], known)
    sums = op.kind in (block.add, block.sub, block.mul) and op.attrs.get("nsw") is True
    if sums or op.kind in (block.broadcast, block.reshape, block.trans, block.assume):
        return all(_fits(v, known) for v in op.operands)
    return op.kind is block.select and all(_fits(v, known) for v in op.operands[1:])


def _below_sign(run: int, elem: Scalar) -> int:
    """Runs no longer than half of what an integer can hold: aligned powers of two within them never wrap."""
    half = 1 << elem.bits - 1
    return run if run <= half else math.gcd(run, half)


# sources and shapes


def _const(op: Op, _operands: Sequence[AxisInfo]) -> AxisInfo:
    value: Any = op.attrs["value"]
    shape = shape_of(op.types[0])
    elem = result_elem(op)
    if not elem.is_integer:
        return replace(AxisInfo.unknown(shape), constancy=tuple(shape) or (1,))
    if elem == I64 or 0 <= value < 1 << elem.bits - 1:
        return AxisInfo.constant(value, shape)
    return AxisInfo.uniform(power_of_two(value), shape)


def _arange(op: Op, _operands: Sequence[AxisInfo]) -> AxisInfo:
    start, (size,) = attr_int(op, "start"), shape_of(op.types[0])
    if not result_elem(op).is_integer:
        return AxisInfo.unknown((size,))
    whole = AxisInfo((size,), (power_of_two(start),), (1,))
    contiguity = (_below_sign(size, result_elem(op)),)
    return AxisInfo(contiguity, runs(contiguity, whole), (1,))


def _broadcast(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    (a,) = operands
    before, after = shape_of(op.operands[0].type), shape_of(op.types[0])
    constancy = tuple(n if m == 1 else k for m, n, k in zip(before, after, a.constancy, strict=True))
    return AxisInfo(a.contiguity, a.divisibility, constancy, a.value) if after else a


def _trans(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    (a,) = operands
    perm = attr_ints(op, "perm")
    return a.along(perm) if perm else a


def _reshape(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    """Dims of size 1 come and go freely; otherwise only what holds along the flat order survives."""
    (a,) = operands
    before, after = shape_of(op.operands[0].type), shape_of(op.types[0])
    if not before or not after:
        return a.spread(after) if not before else replace(AxisInfo.uniform(max(a.divisibility)), value=a.value)
    if math.prod(after) == 0:
        return AxisInfo.unknown(after)
    kept = [i for i, n in enumerate(before) if n != 1]
    if [before[i] for i in kept] == [n for n in after if n != 1]:
        source = iter(kept)
        return a.along([next(source) if n != 1 else None for n in after], a.everywhere)
    last = kept[-1]
    flat = AxisInfo((a.contiguity[last],), (a.divisibility[last],), (_flat_constancy(a, before),), a.value)
    contiguity, divisibility, constancy = [1] * len(after), [a.everywhere] * len(after), [1] * len(after)
    inner = 1
    for d in reversed(range(len(after))):
        constancy[d] = math.gcd(flat.constancy[0] // inner, after[d]) if flat.constancy[0] % inner == 0 else 1
        if inner == 1:
            contiguity[d] = math.gcd(flat.contiguity[0], after[d])
            divisibility[d] = max(a.everywhere, flat.divisible_at(0, contiguity[d]))
        inner *= after[d]
    return AxisInfo(tuple(contiguity), tuple(divisibility), tuple(constancy), a.value)


def _flat_constancy(a: AxisInfo, shape: Sequence[int]) -> int:
    """Length of equal runs in row-major order."""
    run = 1
    for k, n in zip(reversed(a.constancy), reversed(shape), strict=True):
        run *= k
        if k != n:
            break
    return run


def _load(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    """Equal offsets under one mask bit read equal values."""
    return constancy_only(*operands[1:])


def _load_view(op: Op, _operands: Sequence[AxisInfo]) -> AxisInfo:
    shape, strides, limited = shape_of(op.types[0]), attr_dims(op, "strides"), attr_ints(op, "limited", ())
    same = tuple(n if s == 0 and d not in limited else 1 for d, (n, s) in enumerate(zip(shape, strides, strict=True)))
    return replace(AxisInfo.unknown(shape), constancy=same or (1,))


def _offset(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    pointer = op.types[0]
    assert isinstance(pointer, Ptr)
    base, by = operands
    return AxisInfo.uniform(math.gcd(base.divisibility[0], by.divisibility[0] * pointer.elem.bytes))


def _pointee_bytes(op: Op) -> int:
    """What an address in memory is a multiple of: that of an element."""
    pointer = op.types[0]
    assert isinstance(pointer, Ptr)
    return pointer.elem.bytes


def _elementwise(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    return constancy_only(*operands)


def _divide(rule: Callable[..., AxisInfo]) -> Rule:
    return _by_wide_integers(lambda a, b: rule(a, b, positive=b.value is not None and b.value > 0))


_ARITHMETIC: dict[str, Rule] = {
    "add": _by_wide_integers(AxisInfo.__add__),
    "sub": _by_wide_integers(AxisInfo.__sub__),
    "mul": _by_wide_integers(AxisInfo.__mul__),
    **dict.fromkeys(("min", "max"), _by_wide_integers(AxisInfo.either)),
    "floordiv": _divide(AxisInfo.floordiv),
    "floormod": _divide(AxisInfo.mod),
    "shl": _by_wide_integers(_shift_left),
    "shr": _shift_right,
    "and": _and,
    **dict.fromkeys(("lt", "ge", "gt", "le"), _compare),
}

RULES: dict[OpDef, Rule] = {
    **{kind: _ARITHMETIC.get(name, _elementwise) for name, kind in block.ELEMENTWISE.items()},
    block.fma: _elementwise,
    block.bitcast: _elementwise,
    block.select: _select,
    block.assume: _assume,
    block.pointer_at: lambda op, _operands: AxisInfo.uniform(_pointee_bytes(op)),
    block.pointer_cast: lambda _op, operands: operands[0],
    block.cast: _cast,
    block.const: _const,
    block.arange: _arange,
    block.splat: lambda op, operands: operands[0].spread(shape_of(op.types[0])),
    block.broadcast: _broadcast,
    block.trans: _trans,
    block.reshape: _reshape,
    block.load: _load,
    block.load_view: _load_view,
    block.offset: _offset,
    block.alloc: lambda _op, _operands: AxisInfo.uniform(ALLOC_ALIGNMENT),
}
"""Facts of a result from those of the operands; ops without a rule have none."""

"""`block.reduce`: in a thread's registers, then across lanes, then across warps.

A layout may spread the axis over any bits. With A the axis and O what remains, a combination of register and lane bits
whose image lies in A alone joins two values of one result: one exchange halves what is left of A. What warps hold apart
then goes through shared memory as a layout conversion, after which a thread has all parts of its results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphfuse.codegen import convert as casts
from graphfuse.codegen.arith import elementwise
from graphfuse.codegen.integers import wrap
from graphfuse.codegen.kernel import literal, register_type
from graphfuse.dialects import block
from graphfuse.dialects.elementwise import COMBINE, neutral
from graphfuse.gpu.convert import plan
from graphfuse.gpu.kernel import Kernel, ThreadTile, lowers
from graphfuse.gpu.lower_convert import convert
from graphfuse.gpu.words import butterfly, shuffled, warp_reduce
from graphfuse.ir.core import Op, attr_int
from graphfuse.ir.layout import LANE, REGISTER, WARP, Echelon, LinearLayout, null_space, tile_outs, xor_columns
from graphfuse.ir.types import F32, I32, Scalar
from graphfuse.llvm.module import Reg

_PARTS_BITS = 2
"""A thread reads up to so many bits' worth of parts by itself: one vector of 16 bytes."""


@lowers(block.reduce)
def lower_reduce(kernel: Kernel, op: Op) -> None:
    """Floats narrower than f32 are combined in f32, narrow integers in i32, and rounded or wrapped once."""
    tile, axis, kind = kernel.tile(op.operands[0]), attr_int(op, "axis"), str(op.attrs["kind"])
    wide = wide_elem(tile.elem)
    values = [widen(kernel, v, tile.elem, wide) for v in tile.vectors]
    values = masked(kernel, tile, axis, values, nothing(kind, tile.elem))
    reduced = _reduce(kernel, kind, wide, _Spread.of(tile.layout, axis), values)
    kernel.set(op, [narrow(kernel, v, wide, tile.elem) for v in reduced])


def wide_elem(elem: Scalar) -> Scalar:
    """What elements are combined in."""
    if elem.is_float:
        return F32 if elem.bits < 32 else elem
    return I32 if elem.bits < 32 else elem


def widen(kernel: Kernel, x: Reg, elem: Scalar, wide: Scalar) -> Reg:
    """An element as what it is combined in."""
    if elem.is_float:
        return casts.float_to_float(kernel, x, elem, wide)
    return kernel.convert("zext", x, "i32") if elem.name == "bool" else casts.resize(kernel, x, elem, wide)


def narrow(kernel: Kernel, x: Reg, wide: Scalar, elem: Scalar) -> Reg:
    """A result as an element again."""
    if elem.is_float:
        return casts.float_to_float(kernel, x, wide, elem)
    if elem.name == "bool":
        return kernel.compare("icmp ne", x, 0)
    return wrap(kernel, casts.resize(kernel, x, wide, elem), elem)


def nothing(kind: str, elem: Scalar) -> Reg:
    """What changes no result, as what elements are combined in."""
    wide = wide_elem(elem)
    return Reg(literal(neutral(kind, elem), wide), register_type(wide))


def masked(kernel: Kernel, tile: ThreadTile, axis: int, values: Sequence[Reg], none: Reg) -> list[Reg]:
    """The neutral element in place of what lies beyond the axis."""
    n = tile.shape[axis]
    if n == tile.layout.shape[axis]:
        return list(values)
    out: list[Reg] = []
    for r, value in enumerate(values):
        at = kernel.coordinate(tile.layout, axis, r)
        if at.text.startswith("%"):
            inside = kernel.test("ult", at, n)
            out.append(kernel.choose(inside, value, none))
        else:
            out.append(value if int(at.text) < n else none)
    return out


@dataclass(frozen=True, slots=True)
class _Spread:
    """How a layout spreads an axis: images as (what remains, axis), the axis in the low bits."""

    layout: LinearLayout
    """Of the operand, dims moved so that the axis is the last."""
    result: LinearLayout
    axis_bits: int

    @staticmethod
    def of(layout: LinearLayout, axis: int) -> _Spread:
        """For reducing dim `axis`."""
        order = [d for d in range(len(layout.outs)) if d != axis]
        return _Spread(layout.transpose([*order, axis]), layout.slice(axis), layout.outs[axis][1])

    def along(self, image: int) -> int:
        """The axis part of an image."""
        return image & (1 << self.axis_bits) - 1

    def rest(self, image: int) -> int:
        """The part that results keep."""
        return image >> self.axis_bits


def _reduce(kernel: Kernel, kind: str, wide: Scalar, spread: _Spread, values: Sequence[Reg]) -> list[Reg]:
    def combine(xs: Sequence[Reg]) -> Reg:
        """A tree, which is shorter than a chain."""
        while len(xs) > 1:
            pairs = [elementwise(kernel, COMBINE[kind], wide, xs[i : i + 2]) for i in range(0, len(xs) - 1, 2)]
            xs = [*pairs, *xs[len(xs) - len(xs) % 2 :]]
        return xs[0]

    groups, kept, done = _within_thread(spread)
    partial = [combine([values[r] for r in group]) for group in groups]
    lanes = _across_lanes(spread, kept, done)
    for _, _, along in lanes:
        done.add(along)
    if _whole_warp(lanes) and (name := _warp_instruction(kind, wide)):
        partial = [warp_reduce(kernel, name, p) for p in partial]
    else:
        for register, lane, _ in lanes:
            got = shuffled(kernel, [partial[r ^ register] for r in range(len(partial))], butterfly(kernel, lane))
            partial = [combine(pair) for pair in zip(partial, got, strict=True)]
    if done.rank == spread.axis_bits:
        return partial
    bits = spread.axis_bits - done.rank
    lanes_used = _reading_lanes(spread, bits)
    source, target = _across_warps(spread, kept, done, lanes_used)
    parts = convert(kernel, partial, plan(source, target, wide.bits))
    bits -= len(lanes_used)
    partial = [combine(parts[i << bits : i + 1 << bits]) for i in range(len(partial))]
    for lane in lanes_used:
        got = shuffled(kernel, partial, butterfly(kernel, 1 << lane))
        partial = [combine(pair) for pair in zip(partial, got, strict=True)]
    return partial


def _reading_lanes(spread: _Spread, bits: int) -> list[int]:
    """Lane bits that share out the parts of many warps: four in each thread, as one vector, instead of all.

    Such lanes hold the same results. None where there are too few, or few parts.
    """
    free = [i for i, base in enumerate(spread.result.bases(LANE)) if base == 0]
    return free[: bits - _PARTS_BITS] if bits > _PARTS_BITS and len(free) >= bits - _PARTS_BITS else []


def _within_thread(spread: _Spread) -> tuple[list[list[int]], list[int], Echelon]:
    """Registers that make each result of the thread, register bits that results keep, and what of the axis is done."""
    layout = spread.layout
    bases = layout.bases(REGISTER)
    distinct = [i for i in range(len(bases)) if not layout.free_masks().get(REGISTER, 0) >> i & 1]
    found = Echelon()
    kept = [i for i in distinct if found.add(spread.rest(bases[i]))]
    where = {spread.result.flat(register=r): r for r in range(1 << len(kept))}
    groups: list[list[int]] = [[] for _ in where]
    for number in range(1 << len(distinct)):
        r = sum((number >> i & 1) << bit for i, bit in enumerate(distinct))
        groups[where[spread.rest(layout.flat(register=r))]].append(r)
    done = Echelon()
    for combination in null_space([spread.rest(bases[i]) for i in distinct]):
        done.add(spread.along(xor_columns([bases[i] for i in distinct], combination)))
    return groups, kept, done


def _across_lanes(spread: _Spread, kept: Sequence[int], done: Echelon) -> list[tuple[int, int, int]]:
    """Exchanges (register bits, lane bits, axis part) that join what lanes of a warp hold."""
    registers = [spread.layout.bases(REGISTER)[i] for i in kept]
    columns = [*registers, *spread.layout.bases(LANE)]
    known = Echelon(done.basis)
    out: list[tuple[int, int, int]] = []
    for combination in null_space([spread.rest(c) for c in columns]):
        along = spread.along(xor_columns(columns, combination))
        if known.add(along):
            out.append((combination & (1 << len(kept)) - 1, combination >> len(kept), along))
    return out


def _whole_warp(lanes: Sequence[tuple[int, int, int]]) -> bool:
    return not any(register for register, _, _ in lanes) and Echelon([lane for _, lane, _ in lanes]).rank == 5


def _warp_instruction(kind: str, wide: Scalar) -> str:
    """The name of the `redux.sync` that does it, or nothing."""
    if not wide.is_integer or wide.bits != 32:
        return ""
    name = COMBINE[kind]
    if name in ("max", "min"):
        return name if wide.is_signed else f"u{name}"
    return name if name in ("add", "or", "and", "xor") else ""


def _across_warps(
    spread: _Spread, kept: Sequence[int], done: Echelon, lanes: Sequence[int]
) -> tuple[LinearLayout, LinearLayout]:
    """Layouts of a tile [what remains, undone part of the axis]: as warps hold it, and as threads read it.

    Each thread reads all parts, but those that differ by `lanes`, which read different ones.
    """
    pivots = {vector.bit_length() - 1 for vector in done.basis}
    left = [i for i in range(spread.axis_bits) if i not in pivots]

    def undone(along: int) -> int:
        for vector in reversed(done.basis):
            if along >> vector.bit_length() - 1 & 1:
                along ^= vector
        return sum((along >> i & 1) << n for n, i in enumerate(left))

    bits = len(left)
    outs = tile_outs((1 << spread.result.out_bits, 1 << bits))
    have = {n: [spread.rest(b) << bits | undone(spread.along(b)) for b in spread.layout.bases(n)] for n in (LANE, WARP)}
    registers = [spread.layout.bases(REGISTER)[i] for i in kept]
    have[REGISTER] = [spread.rest(b) << bits | undone(spread.along(b)) for b in registers]
    want = {n: [b << bits for b in spread.result.bases(n)] for n in (LANE, WARP)}
    inside = bits - len(lanes)
    for i, lane in enumerate(lanes):
        want[LANE][lane] = 1 << inside + i
    want[REGISTER] = [*(1 << i for i in range(inside)), *(b << bits for b in spread.result.bases(REGISTER))]
    return LinearLayout.of(have, outs), LinearLayout.of(want, outs)

"""`block.dot`: `mma.sync` where tensor cores multiply such operands, else fused multiply-adds.

The layouts that `transforms/dot_layouts.py` chose say which. An instruction's registers are looked up by the element
they hold, so nothing here depends on the order in which a layout numbers them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from graphfuse.codegen import convert as casts
from graphfuse.codegen.kernel import literal, register_type
from graphfuse.dialects import block
from graphfuse.gpu.convert import Load, Store, holders, holding, plan
from graphfuse.gpu.kernel import Kernel, ThreadTile, lowers, places
from graphfuse.gpu.lower_reduce import masked
from graphfuse.gpu.shared_access import load_group, store_shared
from graphfuse.gpu.transforms.dot_layouts import depth, instruction_elem, matrix_of, operand_layout, operand_of_boxes
from graphfuse.gpu.words import gather_words
from graphfuse.ir.core import Op
from graphfuse.ir.layout import REGISTER, LinearLayout
from graphfuse.ir.layout_families import Mma, Operand
from graphfuse.ir.types import F32, I32, Scalar
from graphfuse.llvm.module import Reg

_TYPES = {"f16": "f16", "bf16": "bf16", "f32": "tf32", "i8": "s8", "u8": "u8"}
"""What PTX calls the elements that are multiplied."""


@lowers(block.dot)
def lower_dot(kernel: Kernel, op: Op) -> None:
    """Sums of floats are f32 (f64 for f64), those of integers wrap; narrower accumulators are rounded at the end."""
    a, b, acc = (kernel.tile(v) for v in op.operands)
    elem = instruction_elem(op)
    if elem and any(operand_layout(op, i, acc.layout) != t.layout for i, t in enumerate((a, b))):
        elem = None
    out: list[Reg] = []
    for left, right, sums in zip(matrices(a), matrices(b), matrices(acc), strict=True):
        out += _product(kernel, op, left, right, sums, elem)
    kernel.set(op, out)


def matrices(tile: ThreadTile) -> list[ThreadTile]:
    """The matrices that a thread has parts of, in order."""
    found = matrix_of(tile.layout)
    assert found is not None, f"{tile.layout} has no matrices one after another"
    layout, _, count = found
    size = layout.size(REGISTER)
    parts = [tile.vectors[i * size : (i + 1) * size] for i in range(count)]
    return [ThreadTile(tile.shape[-2:], tile.elem, part, layout) for part in parts]


def _product(kernel: Kernel, op: Op, a: ThreadTile, b: ThreadTile, acc: ThreadTile, elem: Scalar | None) -> list[Reg]:
    """One product of matrices, by tensor cores if they take `elem`."""
    a, b = _cut(kernel, a, 1), _cut(kernel, b, 0)
    wide = acc.elem if acc.elem.bits >= 32 else F32 if acc.elem.is_float else I32
    sums = [casts.cast(kernel, v, acc.elem, wide) for v in acc.vectors]
    if elem:
        sums = _tensor_cores(kernel, a, b, acc.layout, sums, elem, str(op.attrs.get("precision", "ieee")))
    else:
        sums = _multiply_add(kernel, a, b, acc.layout, sums, wide)
    return [casts.cast(kernel, v, wide, acc.elem) for v in sums]


def _cut(kernel: Kernel, tile: ThreadTile, axis: int) -> ThreadTile:
    """The operand with zeros beyond the end of k, where a padded tile holds anything."""
    zero = Reg(literal(0, tile.elem), register_type(tile.elem))
    return ThreadTile(tile.shape, tile.elem, masked(kernel, tile, axis, tile.vectors, zero), tile.layout)


# tensor cores

Word = Callable[[int], Reg]


def _tensor_cores(
    kernel: Kernel, a: ThreadTile, b: ThreadTile, acc: LinearLayout, sums: Sequence[Reg], elem: Scalar, precision: str
) -> list[Reg]:
    """Instructions in the order of k, then rows, then columns: neighbours share a fragment and no accumulator."""
    k_size = depth(elem)
    left, right = _Fragments(kernel, a, 0, elem), _Fragments(kernel, b, 1, elem)
    held = holders(acc)
    columns = acc.outs[1][1]
    offsets = sorted(held)
    rows = sorted({o >> columns for o in offsets if not o >> columns & 15})
    across = sorted({o & (1 << columns) - 1 for o in offsets if not o & 7})
    pattern = Mma((1, 1)).linear((16, 8))
    out = list(sums)
    for k in range(0, a.layout.shape[1], k_size):
        for m in rows:
            for n in across:
                where = [
                    held[(m + dm) << columns | (n + dn)] for dm, dn in (pattern.apply(register=i) for i in range(4))
                ]
                got = [out[r] for r in where]
                for x, y in zip(left.words(m, k, precision), right.words(k, n, precision), strict=True):
                    got = mma(kernel, elem, a.elem, b.elem, x, y, got)
                for r, value in zip(where, got, strict=True):
                    out[r] = value
    return out


class _Fragments:
    """An operand's registers as instructions take them."""

    def __init__(self, kernel: Kernel, tile: ThreadTile, index: int, elem: Scalar) -> None:
        self.kernel, self.tile, self.index, self.elem = kernel, tile, index, elem
        layout = tile.layout
        self.held = holders(layout)
        k = depth(elem)
        self.pattern = Operand(elem.bits, index, (1, 1)).linear((16, k) if index == 0 else (k, 8))
        self.known: dict[tuple[int, int], tuple[tuple[Reg, ...], ...]] = {}

    def words(self, row: int, column: int, precision: str) -> tuple[tuple[Reg, ...], ...]:
        """The fragment at an element, as 32-bit words: once for each product that makes up the whole."""
        at = (row, column)
        if at not in self.known:
            columns = self.tile.layout.outs[1][1]
            places = [self.pattern.apply(register=i) for i in range(self.pattern.size(REGISTER))]
            values = [self.tile.vectors[self.held[(row + r) << columns | (column + c)]] for r, c in places]
            self.known[at] = self._packed(values, precision)
        return self.known[at]

    def _packed(self, values: Sequence[Reg], precision: str) -> tuple[tuple[Reg, ...], ...]:
        kernel = self.kernel
        if self.elem == F32:
            high = [_round_tf32(kernel, v) for v in values]
            if precision == "tf32":
                return (tuple(high),)
            floats = [kernel.convert("bitcast", h, "float") for h in high]
            low = [_round_tf32(kernel, kernel.binary("fsub", v, h)) for v, h in zip(values, floats, strict=True)]
            # small products first; which operand is the low one alternates between the sides
            return (tuple(low), tuple(high), tuple(high)) if self.index == 0 else (tuple(high), tuple(low), tuple(high))
        if self.tile.elem.is_float:
            values = [casts.float_to_float(kernel, v, self.tile.elem, self.elem) for v in values]
        per = 32 // self.elem.bits
        return (tuple(gather_words(kernel, values[i : i + per])[0] for i in range(0, len(values), per)),)


def _round_tf32(kernel: Kernel, x: Reg) -> Reg:
    return kernel.assembly("cvt.rna.tf32.f32 $0, $1;", x, gives=["i32"], effects=False)[0]


def mma(
    kernel: Kernel, elem: Scalar, left: Scalar, right: Scalar, a: Sequence[Reg], b: Sequence[Reg], c: Sequence[Reg]
) -> list[Reg]:
    """One instruction on words of `left` and `right`, multiplied as `elem`: `c` with their product."""
    whole = elem.is_integer
    sum_type = "s32" if whole else "f32"
    kinds = [_TYPES[e.name] for e in ((left, right) if whole else (elem, elem))]
    name = f"mma.sync.aligned.m16n8k{depth(elem)}.row.col.{sum_type}.{kinds[0]}.{kinds[1]}.{sum_type}"
    starts = itertools.accumulate((4, len(a), len(b)), initial=0)
    factors = (f"{{{places(first, count)}}}" for first, count in zip(starts, (4, len(a), len(b), 4), strict=True))
    return kernel.assembly(f"{name} {', '.join(factors)};", *a, *b, *c, gives=[x.type for x in c], effects=False)


# multiply and add


def _multiply_add(
    kernel: Kernel, a: ThreadTile, b: ThreadTile, acc: LinearLayout, sums: Sequence[Reg], wide: Scalar
) -> list[Reg]:
    """Operands through shared memory unless they come from there, one barrier, then products in the order of k."""
    k_size = a.layout.shape[1]
    left = operand_of_boxes(acc, 0, k_size)
    right = operand_of_boxes(acc, 1, k_size)
    wanted = {0: (a, left), 1: (b, right)}
    moves = {i: (t, layout) for i, (t, layout) in wanted.items() if t.layout != layout}
    fetched = dict(zip(moves, _staged(kernel, list(moves.values()), wide), strict=True)) if moves else {}
    fetch_a, fetch_b = (fetched.get(i) or _held(kernel, t, wide) for i, (t, _) in wanted.items())
    rows, columns = acc.reduce(1), acc.reduce(0)
    n_bits, k_bits = columns.out_bits, k_size.bit_length() - 1
    out = list(sums)
    for k in range(k_size):
        for r in range(len(out)):
            x = fetch_a(rows.flat(register=r) << k_bits | k)
            y = fetch_b(k << n_bits | columns.flat(register=r))
            out[r] = _fma(kernel, x, y, out[r], wide)
    return out


def _held(kernel: Kernel, tile: ThreadTile, wide: Scalar) -> Word:
    """Elements of a tile that is where it is needed."""
    held = holders(tile.layout)
    return lambda flat: casts.cast(kernel, tile.vectors[held[flat]], tile.elem, wide)


def _fma(kernel: Kernel, a: Reg, b: Reg, c: Reg, wide: Scalar) -> Reg:
    if wide.is_float:
        return kernel.intrinsic("fma", c.type, a, b, c)
    return kernel.binary("add", kernel.binary("mul", a, b), c)


def _staged(kernel: Kernel, moves: Sequence[tuple[ThreadTile, LinearLayout]], wide: Scalar) -> list[Word]:
    """Write tiles to staging memory; what comes back reads them as targets hold them, each vector on first use."""
    plans = [plan(t.layout, layout, 8 * t.elem.bytes, route="shared") for t, layout in moves]
    starts = [0]
    for p in plans:
        starts.append(-(-(starts[-1] + p.shared_bytes) // 128) * 128)
    staging, root = kernel.exchange(starts[-1])
    kernel.order(root, writes=True)
    for p, start, (tile, _) in zip(plans, starts, moves, strict=False):
        store = next(s for s in p.steps if isinstance(s, Store))
        values = [tile.vectors[r] for r in holding(tile.layout.distinct_registers(), tile.layout)]
        predicate = kernel.lacks(store.free_lanes, store.free_warps)
        store_shared(kernel, kernel.address(staging, start), store.access, values, tile.elem.bytes, predicate)
    kernel.order(root, writes=False)
    return [
        _fetcher(kernel, kernel.address(staging, start), p.steps, tile.elem, layout, wide)
        for p, start, (tile, layout) in zip(plans, starts, moves, strict=False)
    ]


def _fetcher(
    kernel: Kernel, base: Reg, steps: Sequence[object], elem: Scalar, layout: LinearLayout, wide: Scalar
) -> Word:
    load = next(s for s in steps if isinstance(s, Load))
    register_of = holders(layout)
    group_of = {r: group for group in load.access.groups for r in group}
    known: dict[int, Reg] = {}

    def fetch(flat: int) -> Reg:
        register = register_of[flat]
        if register not in known:
            group = group_of[register]
            loaded = load_group(kernel, base, load.access, group, elem.bytes, register_type(elem))
            known.update({r: casts.cast(kernel, v, elem, wide) for r, v in zip(group, loaded, strict=True)})
        return known[register]

    return fetch

"""The register-tile product: rank-1 updates, one broadcast element of a against vectors of b.

For `for k { a = load_view [M, KU]; b = load_view [KU, N]; acc = dot(a, b, acc) }` this is the microkernel of
Goto and van de Geijn (Anatomy of High-Performance Matrix Multiplication, 2008): acc stays in M * N / lanes
registers, each vector of b is loaded once, each element of a is broadcast from memory where it is used.

LLVM's scheduler moves the loads of an unrolled product together and runs out of registers when acc needs most of
them. So such a product is a loop over k, one rank-1 update each time round, and what is larger still is cut
into blocks that fit; operands that are not in memory are put there first. So is a whose elements are narrower than
the sums: a vector is widened at once, an element alone takes as many instructions.

bf16 is multiplied by pairs of k where there is an instruction for it (`vdpbf16ps`), which takes subnormals as 0:

    acc[i, n] += a[i, 2k] b[2k, n] + a[i, 2k+1] b[2k+1, n]
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from graphfuse.codegen.arith import compute_elem, elementwise
from graphfuse.codegen.control import emit_loop
from graphfuse.codegen.convert import cast
from graphfuse.codegen.kernel import integer, vector_type, width_of
from graphfuse.cpu.kernel import Kernel, Span, TileValue, lowers
from graphfuse.cpu.lower_dot_bytes import in_fours, multiply_in_fours
from graphfuse.cpu.lower_memory import View, extreme, load_element, load_lanes, load_tile, spilled
from graphfuse.dialects import block
from graphfuse.ir.core import Block, Func, Op, Value, attr_number, tile_of
from graphfuse.ir.rewrite import use_counts
from graphfuse.ir.types import BF16, F32, Scalar
from graphfuse.llvm.module import Reg
from graphfuse.targets.cpu import multiplies_pairs

UNROLLED_UPDATES = 512
"""Products with more vector multiply-adds than this are loops even if acc is small."""
PAIR = 2
"""Steps of k that one instruction takes, of bf16."""
WIDENED = 4
"""From so many steps of k on, narrow elements are widened before they are multiplied."""


def deferrable(func: Func) -> frozenset[Value]:
    """What is read, or made, where it is used: in its block, once, with nothing written in between.

    Loads by products; products of words by stores.
    """
    uses, out = use_counts(func), set[Value]()
    for inner in [func.body, *(body for op in func.walk() for body in op.bodies)]:
        out |= _deferrable_in(inner, uses)
    return frozenset(out)


def _deferrable_in(inner: Block, uses: dict[Value, int]) -> set[Value]:
    out: set[Value] = set()
    pending: set[Value] = set()
    for op in inner.ops:
        if op.kind is block.dot_words:
            out |= pending & set(op.operands)
        elif op.kind is block.dot and not _batch(op):
            out |= pending & set(op.operands[:2])
        elif op.kind is block.store_view:
            out |= {v for v in pending & {op.operands[2]} if v.op is not None and v.op.kind is block.dot_words}
        if block.may_write(op):
            pending.clear()
        if op.kind in (block.load_view, block.dot_words) and uses.get(op.result) == 1:
            pending.add(op.result)
    return out


@dataclass(frozen=True, slots=True)
class _Operand:
    """One factor: where it is in memory, or its registers."""

    kernel: Kernel
    elem: Scalar
    view: View | None
    other: bool | float
    tile: TileValue | None

    def splat(self, row: int, column: int, width: int, to: Scalar) -> Reg:
        """An element in every lane; `to` is the element computed in."""
        if self.view is not None:
            x = cast(self.kernel, load_element(self.kernel, self.view, (row, column), self.other), self.elem, to)
            return self.kernel.splat_here(x, width)
        assert self.tile is not None, "in memory or in registers"
        x = self.kernel.element_splat(self.tile, row * self.tile.columns + column, width)
        return cast(self.kernel, x, self.elem, to)

    def vector(self, row: int, index: int, span: Span, to: Scalar) -> Reg:
        """One vector of a row."""
        if self.view is not None:
            return cast(self.kernel, load_lanes(self.kernel, self.view, (row,), span, self.other), self.elem, to)
        assert self.tile is not None, "in memory or in registers"
        return cast(self.kernel, self.tile.vectors[row * len(self.tile.spans) + index], self.elem, to)

    @property
    def memory(self) -> View:
        """Where it is in memory."""
        assert self.view is not None, "in memory"
        return self.view

    def on(self, view: View) -> _Operand:
        """The factor at another place, or with other limits."""
        return replace(self, view=view)

    def limits(self, *dims: int) -> bool:
        """Whether it ends somewhere along one of these dims."""
        return self.view is not None and any(d in self.view.limits for d in dims)

    def dense(self, to: Scalar) -> _Operand:
        """The factor as memory in which all rows are there, dense along columns; `to` is its element then."""
        kernel, view = self.kernel, self.view
        if view is not None and self.elem == to and not view.limits and view.strides[1] == 1:
            return self
        tile = self.tile
        if view is not None:
            tile = TileValue(view.shape, view.elem, load_tile(kernel, view, self.other), kernel.spans(view.shape))
        assert tile is not None, "in memory or in registers"
        cast_to = [cast(kernel, v, self.elem, to) for v in tile.vectors]
        return _in_memory(kernel, _Operand(kernel, to, None, 0, TileValue(tile.shape, to, cast_to, tile.spans)))


@lowers(block.dot)
def lower_dot(kernel: Kernel, op: Op) -> None:
    """Matrix by matrix."""
    if not _batch(op):
        a, b = (_operand(kernel, v) for v in op.operands[:2])
        kernel.set(op, _product(kernel, op, a, b, kernel.tile(op.operands[2])))
        return
    out: list[Reg] = []
    for left, right, acc in zip(*(_matrices(kernel.tile(v)) for v in op.operands), strict=True):
        a, b = (_Operand(kernel, t.elem, None, 0, t) for t in (left, right))
        out += _product(kernel, op, a, b, acc)
    kernel.set(op, out)


def _batch(op: Op) -> tuple[int, ...]:
    """The dims in front of the matrices."""
    return tile_of(op.result).shape[:-2]


def _matrices(tile: TileValue) -> list[TileValue]:
    """The matrices of a tile, row by row as it is."""
    rows, columns = tile.shape[-2:]
    size = rows * len(tile.spans)
    parts = [tile.vectors[i : i + size] for i in range(0, len(tile.vectors), size)]
    return [TileValue((rows, columns), tile.elem, part, tile.spans) for part in parts]


@dataclass(frozen=True, slots=True)
class _Factors:
    """What is multiplied, and the element that this is done in."""

    kernel: Kernel
    a: _Operand
    b: _Operand
    elem: Scalar
    steps: ClassVar[int] = 1
    """Of k, that one update takes."""

    def vector(self, k: int, index: int, span: Span) -> Reg:
        """One vector of b."""
        return self.b.vector(k, index, span, self.elem)

    def splat(self, row: int, k: int, width: int) -> Reg:
        """An element of a in every lane."""
        return self.a.splat(row, k, width, self.elem)

    def multiply_add(self, a: Reg, b: Reg, c: Reg) -> Reg:
        """a b + c."""
        return _multiply_add(self.kernel, self.elem, a, b, c)


class _Pairs(_Factors):
    """Two steps of k of bf16 are one lane of f32; a is dense along k, and all of it is there."""

    __slots__ = ()
    steps = PAIR

    def vector(self, k: int, index: int, span: Span) -> Reg:
        """Both rows, lane by lane."""
        first, second = (self.b.vector(k + i, index, span, BF16) for i in range(PAIR))
        picks = [lane for i in range(span.width) for lane in (i, span.width + i)]
        return self.kernel.recast(self.kernel.shuffle(first, second, picks), _bf16s(span.width))

    def splat(self, row: int, k: int, width: int) -> Reg:
        """A pair in every lane."""
        view = self.a.memory
        scopes = self.kernel.scopes(view.pointer.root)
        pair = self.kernel.text.emit("i32", f"load i32, {view.address((row, k))}, align {BF16.bytes}{scopes}")
        return self.kernel.recast(self.kernel.splat_here(pair, width), _bf16s(width))

    def multiply_add(self, a: Reg, b: Reg, c: Reg) -> Reg:
        """Both products and the sum."""
        bits = 32 * width_of(c.type)
        return self.kernel.call(c.type, f"@llvm.x86.avx512bf16.dpbf16ps.{bits}", (c, a, b))


def _bf16s(width: int) -> str:
    return vector_type("bfloat", PAIR * width)


def _product(kernel: Kernel, op: Op, a: _Operand, b: _Operand, acc: TileValue) -> list[Reg]:
    """For k, for rows, for vectors of a row: acc = fma(splat a, b, acc)."""
    elem = compute_elem(acc.elem)
    depth = tile_of(op.operands[0]).shape[-1]
    if in_fours(a.view, b.view, elem, acc.spans, depth):
        return multiply_in_fours(kernel, a.memory, b.memory, acc.vectors, acc.spans, depth)
    sums = [cast(kernel, v, acc.elem, elem) for v in acc.vectors]
    per_vector = -(-elem.bytes * kernel.lanes // kernel.target.vector_bytes)
    held = len(sums) * per_vector
    is_small = held * 2 <= kernel.target.registers and held * depth <= UNROLLED_UPDATES
    factors = _factors(kernel, a, b, elem, acc.spans, depth)
    whole = depth - depth % factors.steps
    if whole == 1 or is_small or _fills_k(a, 1) or _fills_k(b, 0):
        rows, columns = range(len(sums) // len(acc.spans)), dict(enumerate(acc.spans))
        for k in range(0, whole, factors.steps):
            sums = _update(factors, k, sums, rows, columns)
        if whole < depth:
            sums = _update(_Factors(kernel, factors.a, b, elem), whole, sums, rows, columns)
    else:
        sums = _blocked(factors, depth, sums, acc, per_vector)
    return [cast(kernel, v, elem, acc.elem) for v in sums]


def _factors(kernel: Kernel, a: _Operand, b: _Operand, elem: Scalar, spans: Sequence[Span], depth: int) -> _Factors:
    """How they are multiplied: by pairs, or with a widened, where that is worth it."""
    if a.limits(1) or b.limits(0) or depth < PAIR:
        return _Factors(kernel, a, b, elem)
    if a.elem == b.elem == BF16 and elem == F32 and all(_has_pairs(kernel, s.width) for s in spans):
        return _Pairs(kernel, a.dense(BF16), b, elem)
    if a.elem != elem and depth >= WIDENED:
        a = a.dense(elem)
    return _Factors(kernel, a, b, elem)


def _has_pairs(kernel: Kernel, width: int) -> bool:
    """Whether pairs of bf16 are multiplied by one instruction, for so many sums; not where nothing may flush to 0."""
    if not multiplies_pairs(kernel.target) or kernel.func.attrs.get("numerics") == "strict":
        return False
    return width == 16 or (width in (4, 8) and kernel.target.has("avx512vl"))


def _fills_k(x: _Operand, dim: int) -> bool:
    """Whether steps of k past a limit still add something: the loop over k could not stop early."""
    return x.view is not None and dim in x.view.limits and x.other != 0


def _operand(kernel: Kernel, value: Value) -> _Operand:
    if value in kernel.views:
        view = kernel.views[value]
        assert value.op is not None, "only loads are deferred"
        return _Operand(kernel, view.elem, view, attr_number(value.op, "other"), None)
    tile = kernel.tile(value)
    return _Operand(kernel, tile.elem, None, 0, tile)


def _update(
    factors: _Factors, k: int, sums: Sequence[Reg], rows: Sequence[int], columns: Mapping[int, Span]
) -> list[Reg]:
    """One update of these rows and vectors of columns, of rank `factors.steps`."""
    row = [factors.vector(k, j, span) for j, span in columns.items()]
    widths = [span.width for span in columns.values()]
    out: list[Reg] = []
    at = iter(sums)
    for i in rows:
        splats = {w: factors.splat(i, k, w) for w in dict.fromkeys(widths)}
        out += [factors.multiply_add(splats[w], x, next(at)) for w, x in zip(widths, row, strict=True)]
    return out


# large products


def _blocked(factors: _Factors, depth: int, sums: list[Reg], acc: TileValue, per_vector: int) -> list[Reg]:
    """A loop over k for each block of acc that fits the registers."""
    kernel = factors.kernel
    a, b = _in_memory(kernel, factors.a), _in_memory(kernel, factors.b)
    whole = depth - depth % factors.steps
    stop = _trips(kernel, a, b, whole)
    if stop.text != str(whole):
        a, b = a.on(a.memory.unlimited(1)), b.on(b.memory.unlimited(0))
    n = len(acc.spans)
    height = len(sums) // n
    rows_inside = a.memory.limits.get(0) if a.other == 0 else None  # what is outside is zero
    if rows_inside is not None:
        a, stop = _clamp_rows(kernel, a, rows_inside, stop)
    across, down = block_shape(height, n, kernel.target.registers // per_vector)
    factors = replace(factors, a=a, b=b)
    out = list(sums)
    for i0, j0 in itertools.product(range(0, height, down), range(0, n, across)):
        rows = range(i0, min(height, i0 + down))
        columns = range(j0, min(n, j0 + across))
        places = [i * n + j for i in rows for j in columns]
        spans = {j: acc.spans[j] for j in columns}
        done = _rolled(factors, [out[p] for p in places], rows, spans, stop)
        if whole < depth:
            done = _update(_Factors(kernel, a, b, factors.elem), whole, done, rows, spans)
        for p, reg in zip(places, done, strict=True):
            out[p] = reg if rows_inside is None else _keep_outside(kernel, rows_inside, p // n, reg, out[p])
    return out


def _clamp_rows(kernel: Kernel, a: _Operand, limit: Reg, stop: Reg) -> tuple[_Operand, Reg]:
    """Rows outside repeat the last one inside, so that the loop has neither masks nor branches.

    Their sums are dropped after the loop; without any row inside it does not run.
    """
    text = kernel.text
    last = text.pure("i64", f"sub {limit}, 1", limit)
    some = text.pure("i1", f"icmp sgt {limit}, 0", limit)
    stop = text.pure("i64", f"select {some}, {stop}, i64 0", some, stop)
    return a.on(replace(a.memory.unlimited(0), last_row=last)), stop


def _keep_outside(kernel: Kernel, limit: Reg, row: int, new: Reg, old: Reg) -> Reg:
    """The new sum of a row inside, the old one of a row outside."""
    inside = kernel.text.pure("i1", f"icmp sgt {limit}, {row}", limit)
    return kernel.choose(inside, new, old)


def block_shape(height: int, vectors: int, registers: int) -> tuple[int, int]:
    """How many vectors across and rows down are accumulated at once: the least loads for each multiply-add."""
    if height * vectors + vectors + 1 <= registers:
        return vectors, height
    best = (1, 1)
    for across in range(1, vectors + 1):
        down = min(height, (registers - 1 - across) // across)
        if down < 1:
            break
        parts = -(-height // down)
        down = -(-height // parts)  # equal parts
        if across * down * (best[0] + best[1]) > best[0] * best[1] * (across + down):
            best = (across, down)
    return best


def _in_memory(kernel: Kernel, x: _Operand) -> _Operand:
    """The factor itself, or a copy in scratch memory."""
    if x.view is not None:
        return x
    assert x.tile is not None, "in memory or in registers"
    return replace(x, view=spilled(kernel, x.tile), tile=None)


def _trips(kernel: Kernel, a: _Operand, b: _Operand, depth: int) -> Reg:
    """How many steps of k are not multiplications of zero by zero."""
    limits = [v.limits[d] for v, d in ((a.memory, 1), (b.memory, 0)) if d in v.limits]
    assert not limits or a.other == b.other == 0, "limits on k leave out zeros"
    stop = integer(depth)
    for limit in limits:
        stop = extreme(kernel, "smin", limit, stop)
    return stop


def _rolled(factors: _Factors, sums: list[Reg], rows: range, columns: Mapping[int, Span], stop: Reg) -> list[Reg]:
    def step(k: Reg, phis: list[Reg]) -> list[Reg]:
        a, b = factors.a, factors.b
        at = replace(factors, a=a.on(a.memory.moved(1, k)), b=b.on(b.memory.moved(0, k)))
        return _update(at, 0, phis, rows, columns)

    is_certain = not stop.text.startswith("%")
    return emit_loop(factors.kernel, integer(0), stop, factors.steps, sums, step, is_certain=is_certain)


def _multiply_add(kernel: Kernel, elem: Scalar, a: Reg, b: Reg, c: Reg) -> Reg:
    if not elem.is_float:
        return elementwise(kernel, "add", elem, [elementwise(kernel, "mul", elem, [a, b]), c])
    if kernel.target.arch == "x86_64" and not kernel.target.has("fma"):
        return kernel.binary("fadd", kernel.binary("fmul", a, b), c)
    return kernel.intrinsic("fma", c.type, a, b, c)

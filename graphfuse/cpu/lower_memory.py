"""Loads, stores and program-local memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from graphfuse.codegen.index import emit_dim
from graphfuse.codegen.kernel import (
    PointerValue,
    constant,
    element_type,
    integer,
    literal,
    memory_type,
    register_type,
    suffix,
    vector_type,
    width_of,
)
from graphfuse.cpu.kernel import Kernel, Span, TileValue, lowers
from graphfuse.cpu.lower_shape import transpose_matrices
from graphfuse.dialects import block
from graphfuse.ir.core import Op, Value, attr_dim, attr_dims, attr_int, attr_ints, attr_number, tile_of
from graphfuse.ir.types import Scalar, Tile
from graphfuse.llvm.module import Reg
from graphfuse.symbolic import Dim, ceildiv, linear_in


@lowers(block.alloc)
def lower_alloc(kernel: Kernel, op: Op) -> None:
    """A fixed place in the scratch buffer, the same each time round a loop."""
    size = attr_dim(op, "count") * block.pointed_to(op.result).bytes
    kernel.values[op.result] = reserve(kernel, kernel.allocation_roots[op.result], size)


def reserve(kernel: Kernel, root: str, size: Dim) -> PointerValue:
    """`size` bytes of the scratch buffer, 64-byte aligned."""
    assert kernel.scratch is not None, "set before the body"
    by = emit_dim(kernel, kernel.scratch_bytes)
    kernel.scratch_bytes = kernel.scratch_bytes + ceildiv(size, 64) * 64
    if by.text == "0":
        return PointerValue(kernel.scratch, root)
    reg = kernel.text.pure("ptr", f"getelementptr i8, {kernel.scratch}, {by}", kernel.scratch, by)
    return PointerValue(reg, root)


def reserve_tile(kernel: Kernel, shape: tuple[int, ...], elem: Scalar) -> View:
    """Room for a tile in the scratch buffer, for an operand of a product or its sums."""
    root = f"s{len(kernel.allocation_roots)}d{len(kernel.spilled)}"
    kernel.spilled.append(root)
    pointer = reserve(kernel, root, math.prod(shape) * elem.bytes)
    strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    return View(kernel, pointer, pointer.reg, elem, shape, strides, {})


def spilled(kernel: Kernel, tile: TileValue) -> View:
    """A tile's copy in the scratch buffer."""
    view = reserve_tile(kernel, tile.shape, tile.elem)
    pointer = view.pointer
    places = itertools.product(*map(range, tile.shape[:-1]))
    for (lead, span), x in zip(itertools.product(places, tile.spans), tile.vectors, strict=True):
        store_vector(kernel, pointer, tile.elem, view.address((*lead, span.start)), x, view.mask(lead, span))
    return view


def advance(kernel: Kernel, pointer: Reg, elem: Scalar, by: Reg) -> Reg:
    """The pointer `by` elements further."""
    if by.text == "0":
        return pointer
    return kernel.text.pure("ptr", f"getelementptr {memory_type(elem)}, {pointer}, {by}", pointer, by)


@lowers(block.offset)
def lower_offset(kernel: Kernel, op: Op) -> None:
    """A getelementptr; it points into the same memory."""
    pointer = kernel.pointer(op.operands[0])
    reg = advance(kernel, pointer.reg, block.pointed_to(op.result), kernel.scalar(op.operands[1]))
    kernel.values[op.result] = PointerValue(reg, pointer.root)


@dataclass(frozen=True, slots=True)
class View:
    """The addresses and masks of a strided tile."""

    kernel: Kernel
    pointer: PointerValue
    start: Reg
    elem: Scalar
    shape: tuple[int, ...]
    strides: tuple[Dim, ...]
    limits: dict[int, Reg]
    """Dim to the first index that is out; dims that are always inside have none."""
    last_row: Reg | None = None
    """Rows after it are read as it is."""

    def address(self, index: Sequence[int]) -> Reg:
        """Where an element is."""
        if self.last_row is not None and index[0]:
            return self._clamped_address(self.last_row, index)
        offset: Dim = 0
        for i, stride in zip(index, self.strides, strict=True):
            offset = offset + i * stride
        fixed = offset if isinstance(offset, int) else dict(offset.terms).get((), 0)
        reg = advance(self.kernel, self.start, self.elem, emit_dim(self.kernel, offset - fixed))
        return advance(self.kernel, reg, self.elem, integer(fixed))

    def _clamped_address(self, last: Reg, index: Sequence[int]) -> Reg:
        row = extreme(self.kernel, "smin", last, integer(index[0]))
        return replace(self, last_row=None).moved(0, row).address((0, *index[1:]))

    def moved(self, dim: int, by: Reg) -> View:
        """The part that starts at an index of a dim that has no limit."""
        assert dim not in self.limits, "limits count from the start"
        stride = emit_dim(self.kernel, self.strides[dim])
        offset = by if stride.text == "1" else self.kernel.text.pure("i64", f"mul {by}, {stride.text}", by, stride)
        return replace(self, start=advance(self.kernel, self.start, self.elem, offset))

    def unlimited(self, dim: int) -> View:
        """Without the limit of a dim."""
        return replace(self, limits={d: r for d, r in self.limits.items() if d != dim})

    def inside(self, lead: Sequence[int]) -> Reg | None:
        """Whether a row is inside its limits; None if it always is."""
        out: Reg | None = None
        for dim, i in enumerate(lead):
            if dim in self.limits:
                out = self._and_above(out, self.limits[dim], i)
        return out

    def _and_above(self, condition: Reg | None, limit: Reg, i: int) -> Reg:
        """Whether a limit is above an index, and a condition holds."""
        text = self.kernel.text
        one = text.pure("i1", f"icmp sgt {limit}, {i}", limit)
        return one if condition is None else text.pure("i1", f"and {condition}, {one.text}", condition, one)

    def mask(self, lead: Sequence[int], span: Span) -> Reg | None:
        """Which lanes of a vector are inside, padding lanes not; None for all."""
        last = len(self.shape) - 1
        row = self.inside(lead)
        limit = self.limits.get(last)
        if limit is None and row is None:
            return None if span.valid == span.width else _first_lanes(span)
        if span.width == 1:
            return row if limit is None else self._and_above(row, limit, span.start)
        count = self._count(limit, row)
        lanes = f"<{span.width} x i32>"
        iota = ", ".join(f"i32 {span.start + i}" for i in range(span.width))
        wide = self.kernel.splat(count, span.width)
        return self.kernel.text.pure(vector_type("i1", span.width), f"icmp ult {lanes} <{iota}>, {wide.text}", wide)

    def _count(self, limit: Reg | None, row: Reg | None) -> Reg:
        """How many leading columns are inside, as i32: one number for all vectors of a row."""
        text = self.kernel.text
        columns = self.shape[-1]
        count = Reg(str(columns), "i32")
        if limit is not None:
            held = extreme(self.kernel, "smin", extreme(self.kernel, "smax", limit, integer(0)), integer(columns))
            count = text.pure("i32", f"trunc {held} to i32", held)
        if row is not None:
            count = text.pure("i32", f"select {row}, {count}, i32 0", row, count)
        return count


def extreme(kernel: Kernel, name: str, a: Reg, b: Reg) -> Reg:
    """The smaller (`smin`) or the larger (`smax`) of two i64."""
    symbol = f"@llvm.{name}.i64"
    kernel.declare("i64", symbol, [a, b])
    return kernel.text.pure("i64", f"call i64 {symbol}({a}, {b})", a, b)


def _first_lanes(span: Span) -> Reg:
    bits = ", ".join(f"i1 {'true' if i < span.valid else 'false'}" for i in range(span.width))
    return Reg(f"<{bits}>", vector_type("i1", span.width))


def make_view(kernel: Kernel, op: Op, type_: Tile, limits: Sequence[Value]) -> View:
    """The view an op addresses; limits that cannot bind are dropped."""
    pointer = kernel.pointer(op.operands[0])
    bound: dict[int, Reg] = {}
    for dim, limit in zip(attr_ints(op, "limited", ()), limits, strict=True):
        if limit in kernel.bounds and kernel.bounds[limit][0] >= type_.shape[dim]:
            continue
        reg = kernel.scalar(limit)
        # limited twice: the smaller counts
        bound[dim] = extreme(kernel, "smin", reg, bound[dim]) if dim in bound else reg
    start = advance(kernel, pointer.reg, type_.elem, kernel.scalar(op.operands[1]))
    return View(kernel, pointer, start, type_.elem, type_.shape, attr_dims(op, "strides"), bound)


@lowers(block.load_view)
def lower_load_view(kernel: Kernel, op: Op) -> None:
    """Vectors where the last dim is dense, one scalar where it does not move, else element by element."""
    view = make_view(kernel, op, tile_of(op.result), op.operands[2:])
    ahead = attr_int(op, "ahead", 0)
    if ahead and view.shape and view.strides[-1] == 1:
        _prefetch(kernel, view, ahead)
    if op.result in kernel.deferred:
        kernel.views[op.result] = view
        return
    kernel.set(op, load_tile(kernel, view, attr_number(op, "other")))


LINE_BYTES = 64
"""What one prefetch brings, on every processor that `target.CPUS` names."""
NEAR_BYTES = 4096
"""What is this near goes to the first-level cache; what is farther would crowd it, and waits in the second."""


def _prefetch(kernel: Kernel, view: View, ahead: int) -> None:
    """Ask for the lines of the tile `ahead` elements further on; that never faults, so limits do not matter."""
    kernel.text.module.entity("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    locality = 3 if ahead * view.elem.bytes <= NEAR_BYTES else 2
    for lead in itertools.product(*(range(d) for d in view.shape[:-1])):
        for column in range(0, view.shape[-1], LINE_BYTES // view.elem.bytes):
            at = advance(kernel, view.address((*lead, column)), view.elem, integer(ahead))
            kernel.text.line(f"call void @llvm.prefetch.p0({at}, i32 0, i32 {locality}, i32 1)")


def load_tile(kernel: Kernel, view: View, other: bool | float) -> list[Reg]:
    """All vectors of a view. Rows at the same address, under the same mask, are one load."""
    shape = view.shape
    if _is_turned(view):
        return _load_turned(kernel, view, other)
    out: list[Reg] = []
    loaded: dict[tuple[int | None, ...], list[Reg]] = {}
    spans = kernel.spans(shape)
    for lead in itertools.product(*(range(d) for d in shape[:-1])):
        key = tuple(None if view.strides[d] == 0 and d not in view.limits else i for d, i in enumerate(lead))
        if key not in loaded:
            loaded[key] = [load_lanes(kernel, view, lead, span, other) for span in spans]
        out += loaded[key]
    return out


FEW = 4
"""Turning a tile in registers pays from so many rows and columns."""


def _is_turned(view: View) -> bool:
    """Whether the columns of a tile are dense in memory, and its rows are not."""
    if len(view.shape) < 2 or view.limits or view.last_row is not None or min(view.shape[-2:]) < FEW:
        return False
    return view.strides[-2] == 1 and view.strides[-1] not in (0, 1)


def _load_turned(kernel: Kernel, view: View, other: bool | float) -> list[Reg]:
    """Columns are loaded, and made rows in registers."""
    *lead, height, width = range(len(view.shape))
    order = (*lead, width, height)
    shape = tuple(view.shape[i] for i in order)
    columns = load_tile(kernel, replace(view, shape=shape, strides=tuple(view.strides[i] for i in order)), other)
    return transpose_matrices(kernel, columns, shape)


def load_lanes(kernel: Kernel, view: View, lead: Sequence[int], span: Span, other: bool | float) -> Reg:
    """One vector of the row at `lead`."""
    stride = view.strides[-1] if view.shape else 1
    mask = view.mask(lead, span)
    index = (*lead, span.start) if view.shape else ()
    if span.width == 1:
        return load_scalar(kernel, view, index, mask, other)
    if stride == 0:
        x = kernel.splat_here(load_element(kernel, view, (*lead, 0), other), span.width)
        if len(view.shape) - 1 not in view.limits:
            return x
        assert mask is not None, "limited"
        return kernel.choose(mask, x, constant(literal(other, view.elem), register_type(view.elem), span.width))
    if stride == 1:
        return load_vector(kernel, view.pointer, view.elem, view.address(index), span.width, mask, other)
    return _load_strided(kernel, view, lead, span, mask, other)


def _load_strided(
    kernel: Kernel, view: View, lead: Sequence[int], span: Span, mask: Reg | None, other: bool | float
) -> Reg:
    if not view.limits:
        scalars = [load_scalar(kernel, view, (*lead, span.start + i), None, other) for i in range(span.valid)]
        padded = [*((s, 0) for s in scalars), *[None] * (span.width - span.valid)]
        return kernel.collect(padded, register_type(view.elem))
    assert mask is not None, "limited"
    offsets = _lane_offsets(kernel, view, span)
    return gather(kernel, view.pointer, view.elem, view.address((*lead, span.start)), offsets, mask, other)


def _lane_offsets(kernel: Kernel, view: View, span: Span) -> Reg:
    """0, stride, 2 * stride ... as i64 lanes."""
    wide = vector_type("i64", span.width)
    iota = Reg("<" + ", ".join(f"i64 {i}" for i in range(span.width)) + ">", wide)
    stride = kernel.splat(emit_dim(kernel, view.strides[-1]), span.width)
    return kernel.text.pure(wide, f"mul {iota}, {stride.text}", stride)


def from_memory(kernel: Kernel, x: Reg, elem: Scalar) -> Reg:
    """A loaded value as registers hold it."""
    if elem.name == "bool":
        return kernel.compare("icmp ne", x, integer(0, x.type))
    if elem.is_integer and elem.bits < 8:
        shift = integer(8 - elem.bits, x.type)
        return kernel.binary("ashr" if elem.is_signed else "lshr", kernel.binary("shl", x, shift), shift)
    return x


def to_memory(kernel: Kernel, x: Reg, elem: Scalar) -> Reg:
    """A register's value as memory holds it."""
    return kernel.convert("zext", x, "i8") if elem.name == "bool" else x


def load_vector(
    kernel: Kernel, pointer: PointerValue, elem: Scalar, at: Reg, width: int, mask: Reg | None, other: bool | float
) -> Reg:
    """Consecutive elements; those the mask leaves out are not touched and are `other`."""
    type_ = vector_type(memory_type(elem), width)
    scopes = kernel.scopes(pointer.root)
    if mask is None:
        loaded = kernel.text.emit(type_, f"load {type_}, {at}, align {elem.bytes}{scopes}")
        return from_memory(kernel, loaded, elem)
    symbol = f"@llvm.masked.load.{suffix(type_)}.p0"
    kernel.text.module.entity(f"declare {type_} {symbol}(ptr, {mask.type}, {type_})")
    fill = _fill(other, elem, width)
    loaded = kernel.text.emit(type_, f"call {type_} {symbol}(ptr align {elem.bytes} {at.text}, {mask}, {fill}){scopes}")
    return from_memory(kernel, loaded, elem)


def _fill(other: bool | float, elem: Scalar, width: int) -> Reg:
    """What lanes are that are not loaded."""
    moved = memory_type(elem)
    if other == 0:
        return Reg("zeroinitializer", vector_type(moved, width))
    return constant(_memory_literal(other, elem), moved, width)


def _memory_literal(other: bool | float, elem: Scalar) -> str:
    return str(int(bool(other))) if elem.name == "bool" else literal(other, elem)


def load_element(kernel: Kernel, view: View, index: Sequence[int], other: bool | float) -> Reg:
    """One element of a view, limits observed."""
    return load_scalar(kernel, view, index, view.inside(index), other)


def load_scalar(kernel: Kernel, view: View, index: Sequence[int], inside: Reg | None, other: bool | float) -> Reg:
    """One element; when it is outside a constant is read instead."""
    return read_scalar(kernel, view.pointer, view.elem, view.address(index), inside, other)


def read_scalar(
    kernel: Kernel, pointer: PointerValue, elem: Scalar, at: Reg, inside: Reg | None, other: bool | float
) -> Reg:
    """One element at an address; when it is outside a constant is read instead."""
    if inside is None:
        return load_vector(kernel, pointer, elem, at, 1, None, other)
    type_ = memory_type(elem)
    value = _memory_literal(other, elem)
    name = f"@gf.other.{type_}.{''.join(c if c.isalnum() else '_' for c in value)}"
    kernel.text.module.entity(f"{name} = private unnamed_addr constant {type_} {value}, align 8")
    safe = kernel.choose(inside, at, Reg(name, "ptr"))
    loaded = kernel.text.emit(type_, f"load {type_}, {safe}, align {elem.bytes}")
    return from_memory(kernel, loaded, elem)


def gather(
    kernel: Kernel, pointer: PointerValue, elem: Scalar, at: Reg, offsets: Reg, mask: Reg | None, other: bool | float
) -> Reg:
    """`at[offsets]` where the mask is set."""
    width = width_of(offsets.type)
    moved = memory_type(elem)
    type_, pointers = vector_type(moved, width), vector_type("ptr", width)
    where = kernel.text.emit(pointers, f"getelementptr {moved}, {at}, {offsets}")
    mask = mask or constant("true", "i1", width)
    symbol = f"@llvm.masked.gather.{suffix(type_)}.v{width}p0"
    kernel.text.module.entity(f"declare {type_} {symbol}({pointers}, {mask.type}, {type_})")
    operands = f"{pointers} align {elem.bytes} {where.text}, {mask}, {_fill(other, elem, width)}"
    loaded = kernel.text.emit(type_, f"call {type_} {symbol}({operands}){kernel.scopes(pointer.root)}")
    return from_memory(kernel, loaded, elem)


# stores


@lowers(block.store_view)
def lower_store_view(kernel: Kernel, op: Op) -> None:
    """As `load_view`."""
    value = op.operands[2]
    view = make_view(kernel, op, tile_of(value), op.operands[3:])
    if (multiply := kernel.products.get(value)) is not None:
        if not view.limits and view.strides[-1] == 1:
            multiply(view)
            return
        sums = reserve_tile(kernel, view.shape, view.elem)
        multiply(sums)
        kernel.values[value] = kernel.make(value.type, load_tile(kernel, sums, 0))
    tile = kernel.tile(value)
    vectors = iter(tile.vectors)
    stream = bool(op.attrs.get("stream", False))
    kernel.streams |= stream
    for lead in itertools.product(*(range(d) for d in view.shape[:-1])):
        for span in tile.spans:
            _store_vector(kernel, view, lead, span, next(vectors), stream)


def _store_vector(kernel: Kernel, view: View, lead: Sequence[int], span: Span, x: Reg, stream: bool) -> None:
    mask = view.mask(lead, span)
    index = (*lead, span.start) if view.shape else ()
    if span.width == 1:
        store_scalar(kernel, view.pointer, view.elem, view.address(index), x, mask)
    elif view.strides[len(view.shape) - 1] == 1:
        if stream and mask is None and span.width * view.elem.bytes == kernel.target.vector_bytes:
            _stream_vector(kernel, view, view.address(index), x)
        elif mask is not None and not view.limits and not kernel.target.has("avx512f"):
            _store_pieces(kernel, view, lead, span, x)
        else:
            store_vector(kernel, view.pointer, view.elem, view.address(index), x, mask)
    elif view.limits:
        assert mask is not None, "limited"
        offsets = _lane_offsets(kernel, view, span)
        scatter(kernel, view.pointer, view.elem, view.address((*lead, span.start)), offsets, x, mask)
    else:
        for i in range(span.valid):
            one = kernel.shuffle(x, None, [i])
            store_scalar(kernel, view.pointer, view.elem, view.address((*lead, span.start + i)), one, None)


def _store_pieces(kernel: Kernel, view: View, lead: Sequence[int], span: Span, x: Reg) -> None:
    """The first lanes of a vector by whole ones: a masked store takes AMD's processors a dozen cycles and more."""
    x, begin = to_memory(kernel, x, view.elem), 0
    while left := span.valid - begin:
        width = 1 << (left.bit_length() - 1)
        piece = kernel.shuffle(x, None, range(begin, begin + width))
        at = view.address((*lead, span.start + begin))
        kernel.text.line(f"store {piece}, {at}, align {view.elem.bytes}{kernel.scopes(view.pointer.root)}")
        begin += width


def _stream_vector(kernel: Kernel, view: View, at: Reg, x: Reg) -> None:
    """A whole aligned vector past the cache; `lower._lower_function` fences at the end of the kernel."""
    x = to_memory(kernel, x, view.elem)
    scopes = kernel.scopes(view.pointer.root)
    kernel.text.line(f"store {x}, {at}, align {kernel.target.vector_bytes}{scopes}, !nontemporal !{{i32 1}}")


def store_vector(kernel: Kernel, pointer: PointerValue, elem: Scalar, at: Reg, x: Reg, mask: Reg | None) -> None:
    """Consecutive elements; those the mask leaves out are not touched."""
    x = to_memory(kernel, x, elem)
    scopes = kernel.scopes(pointer.root)
    if mask is None:
        kernel.text.line(f"store {x}, {at}, align {elem.bytes}{scopes}")
        return
    mask = _opaque(kernel, mask) if element_type(x.type) in ("i8", "i16", "i32") else mask
    symbol = f"@llvm.masked.store.{suffix(x.type)}.p0"
    kernel.text.module.entity(f"declare void {symbol}({x.type}, ptr, {mask.type})")
    kernel.text.line(f"call void {symbol}({x}, ptr align {elem.bytes} {at.text}, {mask}){scopes}")


def _opaque(kernel: Kernel, mask: Reg) -> Reg:
    """A mask that LLVM cannot know to leave a single lane.

    With AVX-512, where a masked store can narrow its elements, it would make that a scalar store of what was not
    narrowed: beyond the element.
    """
    if not kernel.target.has("avx512f"):
        return mask
    text, width = kernel.text, width_of(mask.type)
    bits = text.emit(f"i{width}", f"bitcast {mask} to i{width}")
    wide = bits if width >= 32 else text.emit("i32", f"zext {bits} to i32")
    hidden = text.emit(wide.type, f'call {wide.type} asm "", "=r,0"({wide})')
    narrow = hidden if width >= 32 else text.emit(bits.type, f"trunc {hidden} to {bits.type}")
    return text.emit(mask.type, f"bitcast {narrow} to {mask.type}")


def store_scalar(kernel: Kernel, pointer: PointerValue, elem: Scalar, at: Reg, x: Reg, inside: Reg | None) -> None:
    """One element, behind a branch when it may be outside."""
    x = to_memory(kernel, x, elem)
    text = kernel.text
    store = f"store {x}, {at}, align {elem.bytes}{kernel.scopes(pointer.root)}"
    if inside is None:
        text.line(store)
        return
    write, after = text.fresh("write"), text.fresh("after")
    text.line(f"br {inside}, label %{write}, label %{after}")
    text.start(write)
    text.line(store)
    text.line(f"br label %{after}")
    text.start(after)


def scatter(
    kernel: Kernel, pointer: PointerValue, elem: Scalar, at: Reg, offsets: Reg, x: Reg, mask: Reg | None
) -> None:
    """`at[offsets] = x` where the mask is set, lane after lane."""
    x = to_memory(kernel, x, elem)
    width = width_of(offsets.type)
    pointers = vector_type("ptr", width)
    where = kernel.text.emit(pointers, f"getelementptr {element_type(x.type)}, {at}, {offsets}")
    mask = mask or constant("true", "i1", width)
    symbol = f"@llvm.masked.scatter.{suffix(x.type)}.v{width}p0"
    kernel.text.module.entity(f"declare void {symbol}({x.type}, {pointers}, {mask.type})")
    scopes = kernel.scopes(pointer.root)
    kernel.text.line(f"call void {symbol}({x}, {pointers} align {elem.bytes} {where.text}, {mask}){scopes}")


# computed addresses


def _lane_mask(kernel: Kernel, mask: Reg | None, span: Span) -> Reg | None:
    """The given mask without padding lanes."""
    if span.valid == span.width:
        return mask
    if mask is None:
        return _first_lanes(span)
    return kernel.binary("and", mask, _first_lanes(span))


def _offsets(kernel: Kernel, op: Op, masked_by: int) -> Iterator[tuple[Reg, Reg | None]]:
    """The offsets of a load or a store in each register, and which lanes of it count; one operand may be a mask."""
    offsets = kernel.tile(op.operands[1])
    mask = kernel.tile(op.operands[masked_by]) if len(op.operands) > masked_by else None
    for i, by in enumerate(offsets.vectors):
        yield by, _lane_mask(kernel, mask.vectors[i] if mask else None, offsets.spans[i % len(offsets.spans)])


def _step(offsets: Value) -> Dim | None:
    """How far apart neighbours in a row of offsets are, if that is one number all along it."""
    op = offsets.op
    if not isinstance(offsets.type, Tile) or (op is not None and op.kind is block.splat):
        return 0
    if op is None:
        return None
    if op.kind is block.arange:
        return 1
    if op.kind in (block.reshape, block.broadcast):
        (source,) = op.operands
        shape, last = tile_of(source).shape, offsets.type.shape[-1]
        rows = math.prod(shape[:-1]) == 1 or op.kind is block.broadcast
        is_same = bool(shape) and shape[-1] == last and rows
        return _step(source) if is_same else 0 if (shape[-1:] or (1,)) == (1,) or last == 1 else None
    return _index_step(op) if op.kind is block.index else None


def _index_step(op: Op) -> Dim | None:
    """That of an expression that is linear in what varies along the row."""
    total: Dim = 0
    names = op.attrs["names"]
    assert isinstance(names, tuple), "one for each operand"
    for name, operand in zip(names, op.operands, strict=True):
        step = _step(operand)
        if step is None:
            return None
        if step != 0:
            found = linear_in(attr_dim(op, "expr"), str(name))
            if found is None:
                return None
            total = total + found[0] * step
    return total


@lowers(block.load)
def lower_load(kernel: Kernel, op: Op) -> None:
    """Vectors where offsets are consecutive, else a gather; or one element."""
    pointer, elem, other = kernel.pointer(op.operands[0]), block.pointed_to(op.operands[0]), attr_number(op, "other")
    is_dense = _step(op.operands[1]) == 1
    out: list[Reg] = []
    for by, mask in _offsets(kernel, op, 2):
        if width_of(by.type) == 1:
            at = advance(kernel, pointer.reg, elem, by)
            out.append(read_scalar(kernel, pointer, elem, at, mask, other))
        elif is_dense:
            at = advance(kernel, pointer.reg, elem, kernel.shuffle(by, None, [0]))
            out.append(load_vector(kernel, pointer, elem, at, width_of(by.type), mask, other))
        else:
            out.append(gather(kernel, pointer, elem, pointer.reg, by, mask, other))
    kernel.set(op, out)


@lowers(block.store)
def lower_store(kernel: Kernel, op: Op) -> None:
    """Vectors where offsets are consecutive, else a scatter; or one element."""
    is_dense = _step(op.operands[1]) == 1
    pointer, value = kernel.pointer(op.operands[0]), kernel.tile(op.operands[2])
    for x, (by, mask) in zip(value.vectors, _offsets(kernel, op, 3), strict=True):
        if width_of(by.type) == 1:
            store_scalar(kernel, pointer, value.elem, advance(kernel, pointer.reg, value.elem, by), x, mask)
        elif is_dense:
            at = advance(kernel, pointer.reg, value.elem, kernel.shuffle(by, None, [0]))
            store_vector(kernel, pointer, value.elem, at, x, mask)
        else:
            scatter(kernel, pointer, value.elem, pointer.reg, by, x, mask)

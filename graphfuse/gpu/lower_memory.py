"""Loads and stores: what a thread holds of a tile, in vectors of up to 16 bytes.

Registers whose elements follow one another in memory move in one instruction when axis info proves the run, its
alignment, and that the mask is the same for all of it. Predicated accesses are inline assembly, for LLVM would branch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from graphfuse.codegen.index import emit_dim
from graphfuse.codegen.integers import wrap
from graphfuse.codegen.kernel import PointerValue, integer, memory_type, register_type
from graphfuse.dialects import block
from graphfuse.gpu.analysis.axis_info import access_info
from graphfuse.gpu.analysis.memory_access import vector_width
from graphfuse.gpu.convert import holding
from graphfuse.gpu.kernel import GLOBAL, Kernel, layout_of, lowers, space_of, vector_of, when
from graphfuse.ir.core import Op, Value, attr_dim, attr_dims, attr_ints, attr_number, attr_scalar, tile_of
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.layout import LinearLayout
from graphfuse.ir.types import Ptr, Scalar, Tile, Type
from graphfuse.llvm.module import Reg
from graphfuse.symbolic import Dim, ceildiv
from graphfuse.targets.machine import SHARED_ALLOC_BYTES

_MAX_IMMEDIATE = 1 << 23
"""Of an access: 24 bits with a sign, in machine code."""
_MOST_LIMIT = (1 << 31) - 1
"""Of positions, which are compared in 32 bits."""


_PRIORITIES = 74
"""The version of PTX that has places in the first cache (`L1::evict_first`)."""


@dataclass(frozen=True, slots=True)
class Access:
    """One instruction: registers in memory order, the address of the first, and when it happens (None: always)."""

    registers: tuple[int, ...]
    address: Reg
    displacement: int
    """Bytes to add to the address."""
    predicate: Reg | None


# pointers


@lowers(block.alloc)
def lower_alloc(kernel: Kernel, op: Op) -> None:
    """Shared memory if it is small or said to be that, else a slice of global scratch."""
    elem, count = attr_scalar(op, "elem"), attr_dim(op, "count")
    wanted = bool(op.attrs.get("shared", False))
    root = f"alloc{len(kernel.roots)}"
    kernel.roots[op.result] = root
    if isinstance(count, int) and (wanted or kernel.shared_bytes + count * elem.bytes <= SHARED_ALLOC_BYTES):
        at = kernel.shared_memory(kernel.shared_bytes)
        kernel.shared_bytes += -(-count * elem.bytes // 128) * 128
        kernel.values[op.result] = PointerValue(at, root)
        return
    start = kernel.scratch_bytes
    nbytes: Dim = count * elem.bytes
    at = kernel.text.emit(GLOBAL, f"getelementptr i8, {kernel.scratch}, {emit_dim(kernel, start)}")
    kernel.values[op.result] = PointerValue(at, root)
    kernel.scratch_bytes = start + ceildiv(nbytes, 128) * 128


@lowers(block.offset)
def lower_offset(kernel: Kernel, op: Op) -> None:
    """Pointer arithmetic."""
    pointer = kernel.pointer(op.operands[0])
    type_ = op.operands[0].type
    assert isinstance(type_, Ptr)
    at = element_address(kernel, pointer.reg, type_.elem, kernel.scalar(op.operands[1]))
    kernel.values[op.result] = PointerValue(at, pointer.root)


# strided views


@lowers(block.load_view)
def lower_load_view(kernel: Kernel, op: Op) -> None:
    """A strided tile."""
    kernel.order(kernel.pointer(op.operands[0]).root, writes=False)
    _load(kernel, op, view_accesses(kernel, op, tile_of(op.result), op.operands[2:], stores=False))


@lowers(block.store_view)
def lower_store_view(kernel: Kernel, op: Op) -> None:
    """Write a strided tile, each element by one thread."""
    tile, type_ = kernel.tile(op.operands[2]), tile_of(op.operands[2])
    kernel.order(kernel.pointer(op.operands[0]).root, writes=True)
    for access in view_accesses(kernel, op, type_, op.operands[3:], stores=True):
        values = [tile.vectors[r] for r in access.registers]
        store_one(kernel, tile.elem, values, access, relaxed=is_relaxed(op), cache=cache_of(op))


def view_accesses(kernel: Kernel, op: Op, type_: Tile, limits: Sequence[Value], *, stores: bool) -> Iterator[Access]:
    """The instructions of a `load_view` or `store_view`."""
    layout = layout_of(type_)
    strides = attr_dims(op, "strides")
    pointer = kernel.pointer(op.operands[0])
    size = type_.elem.bytes
    base = element_address(kernel, pointer.reg, type_.elem, kernel.scalar(op.operands[1]))
    limited = dict(zip(attr_ints(op, "limited", ()), limits, strict=True))
    # the layout may have more elements than the tile, and a limit may lie beyond those of the tile
    sizes = zip(type_.shape, type_.padded_shape, strict=True)
    inside = {d: n for d, (n, padded) in enumerate(sizes) if n != padded}
    bounds = {d: limit_of(kernel, v, inside.get(d, _MOST_LIMIT)) for d, v in limited.items()}
    bounds |= {d: integer(n, "i32") for d, n in inside.items() if d not in limited}
    owner = kernel.owns(layout) if stores else None
    for registers in access_groups(kernel, op, type_, layout):
        first = registers[0]
        predicate = owner
        for d, bound in bounds.items():
            predicate = kernel.both(predicate, kernel.test("slt", kernel.coordinate(layout, d, first), bound))
        address, displacement = strided_address(kernel, base, layout, strides, size, first)
        yield Access(registers, address, displacement, predicate)


def strided_address(
    kernel: Kernel, base: Reg, layout: LinearLayout, strides: Sequence[Dim], size: int, register: int
) -> tuple[Reg, int]:
    """The address of the element in a register: one per thread, registers apart by constants where that is so."""
    address, constant = base, 0
    for d, stride in enumerate(strides):
        if stride == 0:
            continue
        shift = sum(b for _, b in layout.outs[d + 1 :])
        bits = layout.outs[d][1]
        moved = layout.flat(register=register) >> shift & (1 << bits) - 1
        if isinstance(stride, int) and not kernel.reach(layout, shift, bits) & moved:
            at = kernel.spread(layout, shift, bits)
            constant += moved * stride * size
        else:
            at = kernel.coordinate(layout, d, register)
        address = advance(kernel, address, at, stride, size, (1 << bits) - 1)
    if not -_MAX_IMMEDIATE < constant < _MAX_IMMEDIATE:
        return kernel.address(address, integer(constant)), 0
    return address, constant


def advance(kernel: Kernel, address: Reg, at: Reg, stride: Dim, size: int, most: int) -> Reg:
    """The address `at * stride` elements further."""
    if at.text == "0":
        return address
    if isinstance(stride, int):
        step = stride * size
        if abs(step) * most < 1 << 31:
            by = kernel.operate("mul nsw", at, step) if step != 1 else at
            wide = kernel.text.pure("i64", f"sext {by} to i64", by) if by.text.startswith("%") else Reg(by.text, "i64")
        else:
            wide = kernel.operate("mul nsw", kernel.widen_index(at), step)
    else:
        wide = kernel.operate("mul nsw", kernel.widen_index(at), emit_dim(kernel, stride * size))
    return kernel.address(address, wide)


def limit_of(kernel: Kernel, value: Value, most: int = _MOST_LIMIT) -> Reg:
    """A limit as an i32, no higher than `most`: coordinates are far below the largest."""
    limit = kernel.scalar(value)
    if not limit.text.startswith("%"):
        return integer(max(-1, min(int(limit.text), most)), "i32")
    return kernel.shortened(kernel.extreme("smax", kernel.extreme("smin", limit, most), -1))


def access_groups(kernel: Kernel, op: Op, type_: Tile, layout: LinearLayout) -> list[tuple[int, ...]]:
    """The registers that move together, in memory order; registers that only hold copies belong to their original."""
    width, axis = _width(kernel, op, type_, layout)
    shift = sum(b for _, b in layout.outs[axis + 1 :]) if layout.outs else 0
    by_start: dict[int, list[int]] = {}
    for r in distinct(layout):
        by_start.setdefault(layout.flat(register=r) & ~((width - 1) << shift), []).append(r)
    return [tuple(sorted(rs, key=lambda r: layout.flat(register=r))) for rs in by_start.values()]


def distinct(layout: LinearLayout) -> tuple[int, ...]:
    """Registers that do not hold what an earlier one holds."""
    return holding(layout.distinct_registers(), layout)


def _width(kernel: Kernel, op: Op, type_: Tile, layout: LinearLayout) -> tuple[int, int]:
    """Elements per instruction, and the dim they run along."""
    if not type_.shape:
        return 1, 0
    info = access_info(kernel.func, op, kernel.facts)
    best = (1, len(type_.shape) - 1)
    for d in range(len(type_.shape)):
        run = info.vector(d, type_.elem.bytes)
        while type_.shape[d] != type_.padded_shape[d] and type_.shape[d] % run:
            run //= 2
        if run > 1:
            best = max(best, (vector_width(layout, run, run, type_.elem.bytes, d), d))
    return best


def element_address(kernel: Kernel, base: Reg, elem: Scalar, offset: Reg) -> Reg:
    """The address `offset` elements further."""
    if offset.text == "0":
        return base
    return kernel.text.pure(base.type, f"getelementptr {memory_type(elem)}, {base}, {offset}", base, offset)


# gathers and scatters


@lowers(block.load)
def lower_load(kernel: Kernel, op: Op) -> None:
    """A gather, or one element that every thread reads."""
    kernel.order(kernel.pointer(op.operands[0]).root, writes=False)
    _load(kernel, op, element_accesses(kernel, op, op.types[0], op.operands[2:]))


@lowers(block.store)
def lower_store(kernel: Kernel, op: Op) -> None:
    """A scatter; a scalar is written by the first thread.

    Of equal offsets in one tile the element that is written last is not defined to be the last one: a kernel that
    needs an order makes it with a loop.
    """
    pointer, _, source, *mask = op.operands
    kernel.order(kernel.pointer(pointer).root, writes=True)
    value = kernel.registers(source)
    for access in element_accesses(kernel, op, source.type, mask, stores=True):
        values = [value.vectors[r] for r in access.registers]
        store_one(kernel, value.elem, values, access, relaxed=is_relaxed(op), cache=cache_of(op))


def element_accesses(
    kernel: Kernel, op: Op, type_: Type, mask: Sequence[Value], *, stores: bool = False, most: int = 0
) -> Iterator[Access]:
    """The instructions of a gather, or of what one thread does to each element; for no more than `most`, if given."""
    pointer, offsets = kernel.pointer(op.operands[0]).reg, kernel.registers(op.operands[1]).vectors
    masks = kernel.registers(mask[0]).vectors if mask else None
    owner, groups = kernel.is_first_thread if stores else None, [(0,)]
    if isinstance(type_, Tile):
        owner = kernel.owns(layout_of(type_)) if stores else None
        groups = access_groups(kernel, op, type_, layout_of(type_))
    for group in groups:
        step = most or len(group)
        for registers in (group[i : i + step] for i in range(0, len(group), step)):
            first = registers[0]
            predicate = kernel.both(owner, masks[first] if masks else None)
            if isinstance(type_, Tile):
                predicate = kernel.both(predicate, inside_shape(kernel, type_, first))
            at = element_address(kernel, pointer, block.elem_of(type_), offsets[first])
            yield Access(registers, at, 0, predicate)


def inside_shape(kernel: Kernel, type_: Tile, register: int) -> Reg | None:
    """Whether a register's element is one of the tile's, whose layout may have more; None if all are."""
    out: Reg | None = None
    for d, (n, padded) in enumerate(zip(type_.shape, type_.padded_shape, strict=True)):
        if n != padded:
            at = kernel.coordinate(layout_of(type_), d, register)
            out = kernel.both(out, kernel.test("ult", at, n))
    return out


# instructions


def _load(kernel: Kernel, op: Op, accesses: Iterator[Access]) -> None:
    """Emit loads and define the op's result."""
    (type_,), other = op.types, attr_number(op, "other")
    elem, count = block.elem_of(type_), len(kernel.type_parts(type_))
    out: list[Reg | None] = [None] * count
    for access in accesses:
        for r, value in zip(access.registers, load_one(kernel, elem, access, other, cache_of(op)), strict=True):
            out[r] = value
    if isinstance(type_, Tile):
        out = [out[r] for r in holding(layout_of(type_), layout_of(type_))]
    kernel.set(op, [v for v in out if v is not None])


def _words(nbytes: int) -> list[str]:
    """The registers of an instruction that moves so many bytes: words of at most 32 bits, or two of 64."""
    if nbytes <= 4:
        return [f"i{8 * nbytes}"]
    return ["i32"] * (nbytes // 4)


def cache_of(op: Op) -> str:
    """The hint of an access, if it has one."""
    return str(op.attrs.get("cache", ""))


def _cached(kernel: Kernel, cache: str, address: Reg) -> str:
    """A hint as instructions on global memory take it; those of places in the first cache are of PTX 7.4 on."""
    if not cache or space_of(address) != "global":
        return ""
    if not cache.startswith("evict"):
        return f".{cache}"
    if ptx_version(kernel) >= _PRIORITIES:
        return f".L1::{cache}"
    return ".cs" if cache == "evict_first" else ""


def ptx_version(kernel: Kernel) -> int:
    """As features have it: 74 is 7.4."""
    return max(int(f[3:]) for f in kernel.target.feature_set if f.startswith("ptx"))


def load_one(kernel: Kernel, elem: Scalar, access: Access, other: float, cache: str = "") -> list[Reg]:
    """The elements that one instruction loads, or `other`."""
    n, nbytes, address = len(access.registers), elem.bytes * len(access.registers), access.address
    hint = _cached(kernel, cache, address)
    if access.predicate is None and not hint:
        at, type_ = kernel.address(address, access.displacement), _memory_vector(elem, n)
        return _unpack(kernel, elem, kernel.text.emit(type_, f"load {type_}, {at}, align {nbytes}"), n)
    words = _words(nbytes)
    count, (vector, names) = len(words), vector_of(0, len(words))
    registers = ["i16" if w == "i8" else w for w in words]
    fill = zip(registers, _fill_words(elem, other, n, words[0]), strict=True)
    clear = "".join(f"mov.b{t[1:]} ${i}, {value};\n" for i, (t, value) in enumerate(fill))
    kind = "u8" if nbytes == 1 else f"b{words[0][1:]}"
    load = f"ld.{space_of(address)}{hint}{vector}.{kind} {names}, [${count}+{access.displacement}];"
    if access.predicate is None:
        got = kernel.assembly(load, address, gives=registers)
    else:
        text = when(load, count + 1, clear)
        got = kernel.assembly(text, address, kernel.flag(access.predicate), gives=registers, early=True)
    word = kernel.convert("trunc", got[0], words[0])
    return _unpack(kernel, elem, word if count == 1 else kernel.joined(got), n)


def _fill_words(elem: Scalar, other: float, n: int, word: str) -> list[str]:
    """The value of masked elements, repeated over the words of an instruction, as PTX constants."""
    with np.errstate(over="ignore"):
        one = np.asarray(other).astype(numpy_dtype(elem)).tobytes()
    return [str(w) for w in np.frombuffer(one * n, f"u{int(word[1:]) // 8}")]


def _memory_vector(elem: Scalar, n: int) -> str:
    """The LLVM type of n elements in memory, in words that instructions have."""
    size = elem.bytes * n
    if n == 1:
        return memory_type(elem)
    if elem.bytes >= 4:
        return f"<{n} x {memory_type(elem)}>"
    return f"<{size // 4} x i32>" if size > 4 else f"i{8 * size}"


def _unpack(kernel: Kernel, elem: Scalar, loaded: Reg, n: int) -> list[Reg]:
    """The elements in what a load gave."""
    memory, want = memory_type(elem), register_type(elem)
    whole = kernel.recast(loaded, memory if n == 1 else f"<{n} x {memory}>")
    out = [whole] if n == 1 else kernel.elements(whole)
    if memory != want:
        return [kernel.compare("icmp ne", r, 0) for r in out]
    return [wrap(kernel, r, elem) for r in out] if elem.is_integer else out  # bits above i4 may be anything


def is_relaxed(op: Op) -> bool:
    """Whether what a store writes may be written by others at the same time."""
    return bool(op.attrs.get("relaxed", False))


def store_one(
    kernel: Kernel, elem: Scalar, values: Sequence[Reg], access: Access, *, relaxed: bool = False, cache: str = ""
) -> None:
    """Store elements by one instruction."""
    n, nbytes, address = len(values), elem.bytes * len(values), access.address
    parts = [kernel.convert("zext", v, memory_type(elem)) for v in values]
    packed = parts[0] if n == 1 else kernel.recast(kernel.joined(parts), _memory_vector(elem, n))
    hint = "" if relaxed else _cached(kernel, cache, address)
    if access.predicate is None and not relaxed and not hint:
        kernel.text.line(f"store {packed}, {kernel.address(address, access.displacement)}, align {nbytes}")
        return
    words = _as_words(kernel, packed, nbytes)
    vector, names = vector_of(1 if access.predicate is None else 2, len(words))
    how = "relaxed.gpu." if relaxed else ""
    store = f"st.{how}{space_of(address)}{hint}{vector}.b{min(8 * nbytes, 32)} [$0+{access.displacement}], {names};"
    if access.predicate is None:
        kernel.assembly(store, address, *words)
    else:
        kernel.assembly(when(store, 1), address, kernel.flag(access.predicate), *words)


def _as_words(kernel: Kernel, packed: Reg, nbytes: int) -> list[Reg]:
    """What an assembly store takes."""
    if nbytes == 1:
        return [kernel.convert("zext", packed, "i16")]
    words = _words(nbytes)
    if len(words) == 1:
        return [kernel.recast(packed, words[0])]
    return kernel.elements(kernel.recast(packed, f"<{len(words)} x i32>"))

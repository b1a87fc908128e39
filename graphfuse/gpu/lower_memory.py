"""Loads and stores: what a thread holds of a tile, in vectors of up to 16 bytes.

Registers whose elements follow one another in memory move in one instruction when axis info proves the run, its
alignment, and that the mask is the same for all of it. Predicated accesses are inline assembly, for LLVM would branch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphfuse.codegen.index import emit_dim
from graphfuse.codegen.integers import wrap
from graphfuse.codegen.kernel import PointerValue, integer, literal, memory_type, register_type
from graphfuse.dialects import block
from graphfuse.gpu.analysis.axis_info import access_info
from graphfuse.gpu.analysis.memory_access import vector_width
from graphfuse.gpu.kernel import GLOBAL, Kernel, ThreadTile, layout_of, lowers
from graphfuse.ir.core import Op, Value, attr_dim, attr_dims, attr_ints, attr_number, attr_scalar, tile_of
from graphfuse.ir.layout import REGISTER, LinearLayout
from graphfuse.ir.types import Ptr, Scalar, Tile, Type
from graphfuse.llvm.module import Reg
from graphfuse.symbolic import Dim, ceildiv

SHARED_ALLOC_BYTES = 32 << 10
"""`block.alloc` of a known size up to this is shared memory, else global memory of the program's own."""
_MAX_IMMEDIATE = 1 << 23
"""Of an access: 24 bits with a sign, in machine code."""
_MOST_LIMIT = (1 << 31) - 1
"""Of positions, which are compared in 32 bits."""


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
    """Shared memory if it is small, else a slice of global scratch."""
    elem, count = attr_scalar(op, "elem"), attr_dim(op, "count")
    root = f"alloc{len(kernel.roots)}"
    kernel.roots[op.result] = root
    if isinstance(count, int) and kernel.shared_bytes + count * elem.bytes <= SHARED_ALLOC_BYTES:
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
    by = kernel.scalar(op.operands[1])
    reg = kernel.text.pure(
        pointer.reg.type, f"getelementptr {memory_type(type_.elem)}, {pointer.reg}, {by}", pointer.reg, by
    )
    kernel.values[op.result] = PointerValue(reg, pointer.root)


# strided views


@lowers(block.load_view)
def lower_load_view(kernel: Kernel, op: Op) -> None:
    """A strided tile."""
    type_ = tile_of(op.result)
    kernel.order(kernel.pointer(op.operands[0]).root, writes=False)
    other = literal(attr_number(op, "other"), type_.elem)
    _load(kernel, op, type_, view_accesses(kernel, op, type_, op.operands[2:], stores=False), other)


@lowers(block.store_view)
def lower_store_view(kernel: Kernel, op: Op) -> None:
    """Write a strided tile, each element by one thread."""
    tile, type_ = kernel.tile(op.operands[2]), tile_of(op.operands[2])
    kernel.order(kernel.pointer(op.operands[0]).root, writes=True)
    for access in view_accesses(kernel, op, type_, op.operands[3:], stores=True):
        _store_one(kernel, tile.elem, [tile.vectors[r] for r in access.registers], access)


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
        address = _advance(kernel, address, at, stride, size, (1 << bits) - 1)
    if not -_MAX_IMMEDIATE < constant < _MAX_IMMEDIATE:
        address = kernel.text.pure(address.type, f"getelementptr i8, {address}, i64 {constant}", address)
        constant = 0
    return address, constant


def _advance(kernel: Kernel, address: Reg, at: Reg, stride: Dim, size: int, most: int) -> Reg:
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
    return kernel.text.pure(address.type, f"getelementptr i8, {address}, {wide}", address, wide)


def limit_of(kernel: Kernel, value: Value, most: int = _MOST_LIMIT) -> Reg:
    """A limit as an i32, no higher than `most`: coordinates are far below the largest."""
    limit = kernel.scalar(value)
    if not limit.text.startswith("%"):
        return integer(max(-1, min(int(limit.text), most)), "i32")
    for name, bound in (("smin", most), ("smax", -1)):
        symbol = f"@llvm.{name}.i64"
        kernel.text.module.entity(f"declare i64 {symbol}(i64, i64)")
        limit = kernel.text.pure("i64", f"call i64 {symbol}({limit}, i64 {bound})", limit)
    return kernel.text.pure("i32", f"trunc {limit} to i32", limit)


def access_groups(kernel: Kernel, op: Op, type_: Tile, layout: LinearLayout) -> list[tuple[int, ...]]:
    """The registers that move together, in memory order; registers that only hold copies belong to their original."""
    width, axis = _width(kernel, op, type_, layout)
    distinct = _distinct(layout)
    shift = sum(b for _, b in layout.outs[axis + 1 :]) if layout.outs else 0
    by_start: dict[int, list[int]] = {}
    for r in distinct:
        by_start.setdefault(layout.flat(register=r) & ~((width - 1) << shift), []).append(r)
    return [tuple(sorted(rs, key=lambda r: layout.flat(register=r))) for rs in by_start.values()]


def _distinct(layout: LinearLayout) -> list[int]:
    """Registers that do not hold what an earlier one holds."""
    seen: dict[int, int] = {}
    for r in range(layout.size(REGISTER)):
        seen.setdefault(layout.flat(register=r), r)
    return list(seen.values())


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
    pointer = kernel.pointer(op.operands[0])
    kernel.order(pointer.root, writes=False)
    type_ = op.types[0]
    other = literal(attr_number(op, "other"), block.elem_of(type_))
    masks = kernel.registers(op.operands[2]).vectors if len(op.operands) > 2 else None
    _load(kernel, op, type_, _gather_accesses(kernel, op, type_, masks, None), other)


@lowers(block.store)
def lower_store(kernel: Kernel, op: Op) -> None:
    """A scatter; a scalar is written by the first thread.

    Of equal offsets in one tile the element that is written last is not defined to be the last one: a kernel that
    needs an order makes it with a loop.
    """
    pointer, _, source, *mask = op.operands
    kernel.order(kernel.pointer(pointer).root, writes=True)
    value = kernel.registers(source)
    masks = kernel.registers(mask[0]).vectors if mask else None
    owner = kernel.owns(value.layout) if isinstance(value, ThreadTile) else kernel.test("eq", kernel.thread, 0)
    for access in _gather_accesses(kernel, op, source.type, masks, owner):
        _store_one(kernel, value.elem, [value.vectors[r] for r in access.registers], access)


def _gather_accesses(
    kernel: Kernel, op: Op, type_: Type, masks: Sequence[Reg] | None, owner: Reg | None
) -> Iterator[Access]:
    pointer = kernel.pointer(op.operands[0])
    offsets = kernel.registers(op.operands[1]).vectors
    groups = [(0,)]
    elem = type_ if isinstance(type_, Scalar) else None
    if isinstance(type_, Tile):
        elem = type_.elem
        groups = access_groups(kernel, op, type_, layout_of(type_))
    assert elem is not None
    for registers in groups:
        first = registers[0]
        predicate = kernel.both(owner, masks[first] if masks else None)
        if isinstance(type_, Tile):
            predicate = kernel.both(predicate, inside_shape(kernel, type_, first))
        yield Access(registers, element_address(kernel, pointer.reg, elem, offsets[first]), 0, predicate)


def inside_shape(kernel: Kernel, type_: Tile, register: int) -> Reg | None:
    """Whether a register's element is one of the tile's, whose layout may have more; None if all are."""
    out: Reg | None = None
    for d, (n, padded) in enumerate(zip(type_.shape, type_.padded_shape, strict=True)):
        if n != padded:
            at = kernel.coordinate(layout_of(type_), d, register)
            out = kernel.both(out, kernel.test("ult", at, n))
    return out


# instructions


def _load(kernel: Kernel, op: Op, type_: Type, accesses: Iterator[Access], other: str) -> None:
    """Emit loads and define the op's result."""
    elem = block.elem_of(op.types[0])
    count = len(kernel.type_parts(op.types[0]))
    out: list[Reg | None] = [None] * count
    for access in accesses:
        for r, value in zip(access.registers, _load_one(kernel, elem, access, other), strict=True):
            out[r] = value
    if isinstance(type_, Tile):
        first = {layout_of(type_).flat(register=r): r for r in reversed(range(count))}
        out = [out[first[layout_of(type_).flat(register=r)]] for r in range(count)]
    kernel.set(op, [v for v in out if v is not None])


def _words(nbytes: int) -> list[str]:
    """The registers of an instruction that moves so many bytes: words of at most 32 bits, or two of 64."""
    if nbytes <= 4:
        return [f"i{8 * nbytes}"]
    return ["i32"] * (nbytes // 4)


def _load_one(kernel: Kernel, elem: Scalar, access: Access, other: str) -> list[Reg]:
    n, size = len(access.registers), elem.bytes
    text = kernel.text
    address = access.address
    space = "global" if address.type == GLOBAL else "shared"
    if access.predicate is None:
        at = kernel.address(address, access.displacement)
        return _unpack(
            kernel,
            elem,
            [text.emit(_memory_vector(elem, n), f"load {_memory_vector(elem, n)}, {at}, align {n * size}")],
            n,
        )
    words = _words(n * size)
    register = {"i8": "i16", "i16": "i16", "i32": "i32"}
    constraint = {"i8": "h", "i16": "h", "i32": "r"}
    k = len(words)
    suffix = {"i8": "u8", "i16": "b16", "i32": "b32"}[words[0]]
    vector = "" if k == 1 else f".v{k}"
    names = ", ".join(f"${i}" for i in range(k))
    target = names if k == 1 else f"{{{names}}}"
    fill = _fill_words(elem, other, n, words)
    defaults = "".join(
        f"mov.{'b16' if w != 'i32' else 'b32'} ${i}, {v};\n" for i, (w, v) in enumerate(zip(words, fill, strict=True))
    )
    flag = text.pure("i32", f"zext {access.predicate} to i32", access.predicate)
    template = (
        f"{{\n.reg .pred p;\nsetp.ne.b32 p, ${k + 1}, 0;\n{defaults}"
        f"@p ld.{space}{vector}.{suffix} {target}, [${k}+{access.displacement}];\n}}"
    )
    constraints = ",".join([f"=&{constraint[w]}" for w in words] + ["l" if address.type == GLOBAL else "r", "r"])
    types = [register[w] for w in words]
    result = types[0] if k == 1 else "{ " + ", ".join(types) + " }"
    got = kernel.assembly(result, template, constraints, address, flag)
    regs = [got] if k == 1 else kernel.parts(got, types)
    if words[0] == "i8":
        regs = [text.emit("i8", f"trunc {regs[0]} to i8")]
    return _unpack(kernel, elem, regs, n)


def _fill_words(elem: Scalar, other: str, n: int, words: Sequence[str]) -> list[str]:
    """The value of masked elements, repeated over the words of an instruction, as PTX constants."""
    bits = _literal_bits(elem, other)
    packed = 0
    for i in range(n):
        packed |= bits << 8 * elem.bytes * i
    out: list[str] = []
    for w in words:
        width = int(w[1:])
        out.append(str(packed & (1 << width) - 1))
        packed >>= width
    return out


def _literal_bits(elem: Scalar, text: str) -> int:
    if text in ("true", "false"):
        return int(text == "true")
    if text.startswith("0x"):
        value = struct.unpack("<d", int(text, 16).to_bytes(8, "little"))[0]
        return int(text, 16) if elem.bits == 64 else int.from_bytes(struct.pack("<f", value), "little")
    return int(text) & (1 << 8 * elem.bytes) - 1


def _memory_vector(elem: Scalar, n: int) -> str:
    """The LLVM type of n elements in memory, in words that instructions have."""
    size = elem.bytes * n
    if n == 1:
        return memory_type(elem)
    if elem.bytes >= 4:
        return f"<{n} x {memory_type(elem)}>"
    return f"<{size // 4} x i32>" if size > 4 else f"i{8 * size}"


def _unpack(kernel: Kernel, elem: Scalar, regs: Sequence[Reg], n: int) -> list[Reg]:
    """The elements in what a load gave."""
    text = kernel.text
    memory, want = memory_type(elem), register_type(elem)
    out: list[Reg] = []
    if len(regs) > 1:  # words of an assembly load
        whole = Reg("poison", f"<{len(regs)} x i32>")
        for i, r in enumerate(regs):
            whole = text.emit(whole.type, f"insertelement {whole}, {r}, i32 {i}")
        regs = [whole]
    (reg,) = regs
    if n == 1:
        out = [reg if reg.type == memory else text.emit(memory, f"bitcast {reg} to {memory}")]
    else:
        wanted = f"<{n} x {memory}>"
        vector = reg if reg.type == wanted else text.emit(wanted, f"bitcast {reg} to {wanted}")
        out = [text.emit(memory, f"extractelement {vector}, i32 {i}") for i in range(n)]
    if memory != want:
        return [kernel.compare("icmp ne", r, 0) for r in out]
    return [wrap(kernel, r, elem) for r in out] if elem.is_integer else out  # bits above i4 may be anything


def _store_one(kernel: Kernel, elem: Scalar, values: Sequence[Reg], access: Access) -> None:
    n, size = len(values), elem.bytes
    text = kernel.text
    memory = memory_type(elem)
    parts = [v if v.type == memory else text.emit(memory, f"zext {v} to {memory}") for v in values]
    if n == 1:
        packed = parts[0]
    else:
        packed = Reg("poison", f"<{n} x {memory}>")
        for i, v in enumerate(parts):
            packed = text.emit(packed.type, f"insertelement {packed}, {v}, i32 {i}")
        want = _memory_vector(elem, n)
        packed = packed if packed.type == want else text.emit(want, f"bitcast {packed} to {want}")
    if access.predicate is None:
        text.line(f"store {packed}, {kernel.address(access.address, access.displacement)}, align {n * size}")
        return
    words = _as_words(kernel, packed, n * size)
    space = "global" if access.address.type == GLOBAL else "shared"
    k = len(words)
    names = ", ".join(f"${i + 2}" for i in range(k))
    suffix = {"i16": "b8" if size * n == 1 else "b16", "i32": "b32"}[words[0].type]
    vector = "" if k == 1 else f".v{k}"
    source = names if k == 1 else f"{{{names}}}"
    flag = text.pure("i32", f"zext {access.predicate} to i32", access.predicate)
    template = (
        f"{{\n.reg .pred p;\nsetp.ne.b32 p, $1, 0;\n"
        f"@p st.{space}{vector}.{suffix} [$0+{access.displacement}], {source};\n}}"
    )
    constraint = {"i16": "h", "i32": "r"}
    constraints = ",".join(["l" if access.address.type == GLOBAL else "r", "r", *(constraint[w.type] for w in words)])
    kernel.assembly("void", template, constraints, access.address, flag, *words)


def _as_words(kernel: Kernel, packed: Reg, nbytes: int) -> list[Reg]:
    """What an assembly store takes."""
    text = kernel.text
    if nbytes == 1:
        return [text.emit("i16", f"zext {packed} to i16")]
    words = _words(nbytes)
    if len(words) == 1:
        return [packed if packed.type == words[0] else text.emit(words[0], f"bitcast {packed} to {words[0]}")]
    wanted = f"<{len(words)} x i32>"
    vector = packed if packed.type == wanted else text.emit(wanted, f"bitcast {packed} to {wanted}")
    return [text.emit("i32", f"extractelement {vector}, i32 {i}") for i in range(len(words))]

"""Products of warpgroups: `wgmma` on shared buffers, its descriptors, and its accumulators.

Accumulators are LLVM values tied to the operands of the assembly, so they stay in their registers. `ptxas` serialises
every `wgmma` of a kernel if something else defines or reads them while a group is in flight, which decides the forms
below: no zeroed accumulators but a predicate that ignores them, and a last wait that all later reads depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphfuse.codegen.kernel import integer
from graphfuse.dialects import gpu
from graphfuse.gpu.kernel import Kernel, layout_of, lowers, places
from graphfuse.gpu.lower_hopper import WARPGROUP, buffer_of, pack, position
from graphfuse.ir.core import Op, Value, attr_int, attr_ints, attr_scalar, tile_of
from graphfuse.ir.layout import REGISTER
from graphfuse.ir.types import Buffer, Scalar, Tile
from graphfuse.llvm.module import Reg

ROWS = 64
"""Rows of one instruction."""
STEP_BYTES = 32
"""Of K in one instruction."""
_ADDRESS_MASK = 0x3FFFF
"""In a cluster the bits above are the block's number, which would spill into other fields of a descriptor."""
_MODES = {128: 1, 64: 2, 32: 3}
_TYPES = {"f16": "f16", "bf16": "bf16", "f32": "tf32", "f8e4m3": "e4m3", "f8e5m2": "e5m2", "i8": "s8", "u8": "u8"}


@dataclass(frozen=True, slots=True)
class Descriptor:
    """How `wgmma` finds a matrix in a swizzled buffer (PTX ISA, "Matrix descriptor"). All in bytes but `along_k`."""

    buffer: Buffer
    along_k: bool
    """Whether rows of the buffer run along K, else along M or N."""

    @property
    def high(self) -> int:
        """The upper word: stride between groups of eight rows, and the swizzle."""
        return _MODES[self.buffer.swizzle] << 30 | 8 * self.buffer.swizzle >> 4

    @property
    def low(self) -> int:
        """The lower word without the address: where rows run along M or N, the stride between panels."""
        return (1 if self.along_k else self.panel >> 4) << 16

    @property
    def panel(self) -> int:
        """From one panel to the next."""
        return self.buffer.shape[1] * self.buffer.swizzle

    def rows(self, count: int) -> int:
        """From row 0 of A (column 0 of B) to row `count`, a multiple of 64."""
        if self.along_k:
            return count * self.buffer.swizzle
        return count * self.buffer.elem.bytes // self.buffer.swizzle * self.panel

    @property
    def steps(self) -> int:
        """Instructions along K."""
        return self.buffer.shape[2 if self.along_k else 1] * self.buffer.elem.bytes // STEP_BYTES

    def step(self, i: int) -> int:
        """From K = 0 to the K of instruction i."""
        if not self.along_k:
            return i * (STEP_BYTES // self.buffer.elem.bytes) * self.buffer.swizzle
        panel, within = divmod(i * STEP_BYTES, self.buffer.swizzle)
        return panel * self.panel + within


@lowers(gpu.undefined)
def lower_undefined(kernel: Kernel, op: Op) -> None:
    """LLVM's undef, not poison: it may be carried around a loop and handed to assembly."""
    kernel.set(op, [Reg("undef", t) for t, _ in kernel.type_parts(op.types[0])])


@lowers(gpu.wgmma)
def lower_wgmma(kernel: Kernel, op: Op) -> None:
    """One assembly for the whole group: 64 rows x all columns x 32 bytes of K for each instruction."""
    left, ring_b, slot, acc, keep, *a_slot = op.operands
    b = Descriptor(buffer_of(ring_b), bool(op.attrs.get("transpose_b")))
    tile, type_ = kernel.tile(acc), tile_of(acc)
    rows, n = type_.shape
    assert kernel.role, "products are made by warps with roles"
    warpgroups = kernel.role.threads // WARPGROUP
    slabs = rows // (ROWS * warpgroups)
    used = _columns_below(type_)
    values = [tile.vectors[r] for r in used]
    count = len(values)
    here = kernel.scalar(slot)
    base_b = _descriptor(kernel, ring_b, b, here, integer(0, "i32"))
    flag = kernel.flag(kernel.scalar(keep))
    if isinstance(left.type, Tile):
        words = [kernel.tile(left).vectors[r] for r in _columns_below(left.type)]
        steps, a_transposes, elem_a = len(words) // slabs // 4, "", b.buffer.elem
        factor = _from_registers(2 * count + 2, steps)
    else:
        a = Descriptor(buffer_of(left), not op.attrs.get("transpose_a"))
        group = kernel.operate("lshr", kernel.warp, 2) if warpgroups > 1 else integer(0, "i32")
        down = kernel.operate("mul", group, a.rows(ROWS)) if warpgroups > 1 else group
        words = [_descriptor(kernel, left, a, kernel.scalar(a_slot[0]) if a_slot else here, down)]
        steps, a_transposes, elem_a = a.steps, f", {int(not a.along_k)}", a.buffer.elem
        factor = _from_shared(2 * count + 2, a, ROWS * warpgroups)
    form = _Form(type_.elem, n, slabs, elem_a, b, a_transposes)
    text = _group(form, factor, steps, 2 * count)
    got = kernel.assembly(text, base_b, flag, *words, changes=values)
    kernel.set(op, _changed(tile.vectors, used, got))


@lowers(gpu.pack)
def lower_pack(kernel: Kernel, op: Op) -> None:
    """The words of A's fragments in their order: its layout is an accumulator's, one column for two."""
    elem = attr_scalar(op, "elem")
    halves = kernel.tile(op.operands[0]).vectors
    words: list[Reg] = []
    for low, high in zip(halves[::2], halves[1::2], strict=True):
        if low.type == "float":
            words += kernel.assembly(f"cvt.rn.{elem.name}x2.f32 $0, $2, $1;", low, high, gives=["i32"])
        else:
            words.append(pack(kernel, elem, low, high))
    kernel.set(op, words)


def _descriptor(kernel: Kernel, ring: Value, matrix: Descriptor, slot: Reg, displacement: Reg) -> Reg:
    base = kernel.operate("and", kernel.operate("add", kernel.pointer(ring).reg, displacement), _ADDRESS_MASK)
    base = kernel.operate("lshr", base, 4)
    base = kernel.operate("or", base, matrix.low)
    moved = kernel.operate("mul", position(kernel, slot), matrix.buffer.slot_bytes >> 4)
    wide = kernel.widen_index(kernel.operate("add", base, moved))
    return kernel.operate("or", wide, matrix.high << 32)


Factor = Callable[[int, int], tuple[str, str]]
"""What comes before an instruction, and its operand A, by its number along K and its slab."""


def _from_shared(at: int, matrix: Descriptor, rows: int) -> Factor:
    """A in shared memory: operand `at` of the assembly is its descriptor; slabs are `rows` rows apart."""
    return lambda step, slab: (f"add.s64 da, ${at}, {matrix.step(step) + matrix.rows(rows * slab) >> 4};", "da")


def _from_registers(at: int, steps: int) -> Factor:
    """A in registers: operands from `at` on are words, four for each of `steps` instructions along K."""
    return lambda step, slab: ("", f"{{{places(at + 4 * (slab * steps + step), 4)}}}")


@dataclass(frozen=True, slots=True)
class _Form:
    """An instruction: element of the sums, columns, slabs of rows, A's element, B, and A's last immediate."""

    sum: Scalar
    n: int
    slabs: int
    a: Scalar
    b: Descriptor
    a_transposes: str

    @property
    def name(self) -> str:
        """The opcode."""
        sum_ = "s32" if self.sum.name == "i32" else "f32"
        kinds = f"{_TYPES[self.a.name]}.{_TYPES[self.b.buffer.elem.name]}"
        return f"wgmma.mma_async.sync.aligned.m64n{self.n}k{STEP_BYTES // self.a.bytes}.{sum_}.{kinds}"

    @property
    def tail(self) -> str:
        """The immediates."""
        signs = "" if self.sum.name == "i32" else ", 1, 1"
        return signs + (f"{self.a_transposes}, {int(not self.b.along_k)}" if self.b.buffer.elem.bytes == 2 else "")


def _group(form: _Form, factor: Factor, steps: int, operand: int) -> str:
    """The text: `operand` is the number of B's descriptor, then comes the flag that keeps the accumulator."""
    lines = [
        "{",
        ".reg .pred p, q;",
        ".reg .b64 da, db;",
        f"setp.ne.b32 p, ${operand + 1}, 0;",
        "setp.eq.b32 q, 0, 0;",
        "wgmma.fence.sync.aligned;",
    ]
    n = form.n
    for i in range(steps):
        lines.append(f"add.s64 db, ${operand}, {form.b.step(i) >> 4};")
        for s in range(form.slabs):
            registers = places(s * n // 2, n // 2)
            before, a = factor(i, s)
            lines += [before] if before else []
            lines.append(f"{form.name} {{{registers}}}, {a}, db, {'q' if i else 'p'}{form.tail};")
    return "\n".join([*lines, "wgmma.commit_group.sync.aligned;", "}"])


@lowers(gpu.wgmma_wait)
def lower_wgmma_wait(kernel: Kernel, op: Op) -> None:
    """Accumulators go through the assembly, so that nothing reads them earlier."""
    wait = f"wgmma.wait_group.sync.aligned {attr_int(op, 'pending', 0)};"
    if op.attrs.get("fence"):
        wait += "\nfence.acq_rel.cta;"
    if not op.operands:
        kernel.assembly(wait)
        return
    for result, operand in zip(op.results, op.operands, strict=True):
        type_, values = tile_of(operand), kernel.tile(operand).vectors
        used = _columns_below(type_)
        got = kernel.assembly(wait, changes=[values[r] for r in used])
        kernel.values[result] = kernel.make(type_, _changed(values, used, got))


def _columns_below(type_: Tile) -> list[int]:
    """Registers whose elements are in the tile, not in its padding."""
    layout = layout_of(type_)
    return [r for r in range(layout.size(REGISTER)) if layout.apply(register=r)[1] < type_.shape[1]]


def _changed(values: Sequence[Reg], used: Sequence[int], got: Sequence[Reg]) -> list[Reg]:
    """All registers of a tile, those that are used changed."""
    new = dict(zip(used, got, strict=True))
    return [new.get(r, x) for r, x in enumerate(values)]


@lowers(gpu.part)
def lower_part(kernel: Kernel, op: Op) -> None:
    """Which register of the operand has the element of each of the result's."""
    tile, start, layout = kernel.tile(op.operands[0]), attr_ints(op, "start"), layout_of(tile_of(op.result))
    held = {tile.layout.apply(register=r): r for r in reversed(range(tile.layout.size(REGISTER)))}
    found = (layout.apply(register=r) for r in range(layout.size(REGISTER)))
    kernel.set(op, [tile.vectors[held[tuple(map(sum, zip(at, start, strict=True)))]] for at in found])

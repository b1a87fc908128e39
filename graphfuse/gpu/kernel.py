"""What GPU lowerings share: tiles spread over the threads of a block, coordinates, predicates, scratch memory.

A thread holds the elements of a tile that the tile's layout gives it, one LLVM scalar each, in the order of the
layout's register number. Scalars are the same in every thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from graphfuse.artifact import TensorMap
from graphfuse.codegen import kernel as shared
from graphfuse.codegen.kernel import Operand, Registers, integer, operand, register_type
from graphfuse.gpu import float8
from graphfuse.gpu.analysis.axis_info import Facts
from graphfuse.gpu.analysis.steps import stepped
from graphfuse.ir.core import Func, OpDef, Value
from graphfuse.ir.layout import LANE, REGISTER, WARP, LinearLayout
from graphfuse.ir.types import Ptr, Scalar, Tile, Type
from graphfuse.llvm.module import FunctionText, Reg
from graphfuse.symbolic import Dim
from graphfuse.targets import Target

GLOBAL, SHARED = "ptr addrspace(1)", "ptr addrspace(3)"
"""LLVM types of addresses."""
WARP_SIZE = 32
"""Threads, on every part."""
EXCHANGE_BYTES = 1024
"""Of each of the two places that small amounts go through by turns: a word for each of 256 threads."""
STAGING = ("staging", "exchange0", "exchange1")
"""Shared memory that ops use for a moment: for much, and two places for little."""

LOWERINGS: dict[OpDef, shared.AnyLowering] = {}
"""How ops become LLVM IR where the GPU has its own way."""
FUNCTIONS: dict[str, shared.Function] = {}
"""Elementwise functions of floats that the GPU has instructions or shorter forms for."""


lowers = partial(shared.lowers_into, LOWERINGS)


@dataclass(frozen=True, slots=True)
class Role:
    """The warps that run one body of a block whose warps do different things (`gpu.warp_specialize`)."""

    warp: Reg
    """The warp's number in its group."""
    group: Reg
    """The group's number, an i32."""
    groups: int
    """How many groups there are."""
    threads: int
    """Of a group."""
    barrier: Reg
    """The number of the group's hardware barrier, an i32."""
    single: bool
    """One thread alone."""


class ThreadTile(Registers):
    """The elements of a tile that this thread holds; a scalar has no layout."""

    __slots__ = ("layout",)

    def __init__(self, shape: tuple[int, ...], elem: Scalar, vectors: Sequence[Reg], layout: LinearLayout) -> None:
        assert len(vectors) == layout.size(REGISTER), f"{len(vectors)} registers for {layout}"
        super().__init__(shape, elem, vectors)
        self.layout = layout


class Kernel(shared.Kernel):
    """The state of lowering one function for `warps` warps a block."""

    lowerings: ClassVar[dict[OpDef, shared.AnyLowering]] = LOWERINGS
    functions: ClassVar[dict[str, shared.Function]] = FUNCTIONS
    helpers: ClassVar[str] = "alwaysinline"

    def __init__(self, func: Func, target: Target, text: FunctionText, warps: int, facts: Facts) -> None:
        super().__init__(func, target, text)
        self.warps = warps
        self.facts = facts
        """Contiguity and divisibility of every value, see `analysis/axis_info.py`."""
        self.roots: dict[Value, str] = {}
        """Pointers to the memory they point into."""
        self.dirty: dict[str, str] = {}
        """Memory to what happened to it since the last barrier: letters `r`, `w`, and `a` for atomics."""
        self.shared_bytes = 0
        """Shared memory that lives as long as the program (`block.alloc`)."""
        self.staging_bytes = 0
        """Shared memory for conversions and reductions, which each use for a moment."""
        self.exchanges = 0
        """How many of those were small."""
        self.exchange_start = 0
        """Where the two places for them are."""
        self.scratch_bytes: Dim = 0
        """Global memory per program."""
        self.scratch = Reg("%program_scratch", GLOBAL)
        """This program's global memory."""
        self.flags = 0
        """32-bit flags of each block, which lie before its scratch memory; see `lower_stream.py`."""
        self.role: Role | None = None
        """Set while a body is lowered that only some warps run."""
        self.read = frozenset(v for op in func.walk() for v in op.operands)
        """Values that some op reads."""
        self.stepped = stepped(func)
        """Values whose last bit may decide an integer."""
        self.maps: list[TensorMap] = []
        """Tensors that are copied in boxes; `%map0`, `%map1`, ... are the parameters that describe them."""

    @property
    def compute_capability(self) -> int:
        """The architecture as a number: 90 for sm_90a."""
        return int("".join(c for c in self.target.cpu if c.isdigit()))

    # programs

    def position(self, axis: int) -> Reg:
        """The number of the block along an axis."""
        if axis == 0:
            return super().position(0)
        return self.widen_index(self.special(f"ctaid.{'xyz'[axis]}"))

    def count(self, axis: int) -> Reg:
        """How many blocks there are along an axis."""
        return self.widen_index(self.special(f"nctaid.{'xyz'[axis]}"))

    # values

    def type_parts(self, type_: Type) -> list[tuple[str, int]]:
        """One LLVM scalar per register of the layout."""
        if isinstance(type_, Tile):
            return [(register_type(type_.elem), 1)] * layout_of(type_).size(REGISTER)
        if isinstance(type_, Scalar):
            return [(register_type(type_), 1)]
        assert isinstance(type_, Ptr), f"no registers for {type_}"
        return [(GLOBAL, 1)]

    def make(self, type_: Type, vectors: Sequence[Reg]) -> Registers:
        """A tile or scalar of an IR type."""
        if isinstance(type_, Tile):
            return ThreadTile(type_.shape, type_.elem, vectors, layout_of(type_))
        assert isinstance(type_, Scalar), f"no registers for {type_}"
        return Registers((), type_, vectors)

    def tile(self, value: Value) -> ThreadTile:
        """A tile."""
        found = self.values[value]
        assert isinstance(found, ThreadTile), f"{value} is not a tile"
        return found

    # conversions

    def to_float8(self, xs: Sequence[Reg], to: Scalar, *, saturate: bool) -> list[Reg] | None:
        """See `float8`."""
        return float8.from_f32(self, xs, to, saturate=saturate) if float8.is_native(self) else None

    def from_float8(self, xs: Sequence[Reg], source: Scalar) -> list[Reg] | None:
        """See `float8`."""
        return float8.to_f32(self, xs, source) if float8.is_native(self) else None

    # threads

    def special(self, name: str) -> Reg:
        """A special register such as `tid.x`, read once."""
        symbol = f"@llvm.nvvm.read.ptx.sreg.{name}"
        self.text.module.entity(f"declare i32 {symbol}()")
        return self.text.pure("i32", f"call i32 {symbol}()")

    @property
    def thread(self) -> Reg:
        """The thread's number in its block."""
        return self.special("tid.x")

    @property
    def lane(self) -> Reg:
        """The thread's number in its warp."""
        return self.operate("and", self.thread, WARP_SIZE - 1)

    @property
    def warp(self) -> Reg:
        """The warp's number in its block, or in its group where warps have roles."""
        if self.role:
            return self.role.warp
        return self.operate("lshr", self.thread, 5)

    def operate(self, name: str, a: Reg, b: Operand) -> Reg:
        """A pure instruction on two operands of one type, placed as far out as it can be."""
        b = operand(b, a.type)
        return self.text.pure(a.type, f"{name} {a}, {b.text}", a, b)

    def test(self, predicate: str, a: Reg, b: Operand) -> Reg:
        """A pure comparison."""
        b = operand(b, a.type)
        return self.text.pure("i1", f"icmp {predicate} {a}, {b.text}", a, b)

    def select(self, condition: Reg, a: Operand, b: Operand) -> Reg:
        """A pure choice; one of the two is a register."""
        type_ = next(x.type for x in (a, b) if isinstance(x, Reg))
        a, b = operand(a, type_), operand(b, type_)
        return self.text.pure(type_, f"select {condition}, {a}, {b}", condition, a, b)

    def widen_index(self, x: Reg) -> Reg:
        """A non-negative i32 as an i64."""
        if x.type == "i64":
            return x
        if not x.text.startswith("%"):
            return Reg(x.text, "i64")
        return self.text.pure("i64", f"zext {x} to i64", x)

    def spread(self, layout: LinearLayout, shift: int, bits: int) -> Reg:
        """What lane and warp contribute to bits `shift..shift + bits` of the packed output, shifted down, as an i32."""
        mask = (1 << bits) - 1
        total: Reg | None = None
        pieces: list[tuple[Reg, int, int, int]] = []
        for name, source in ((LANE, self.lane), (WARP, self.warp)):
            for i, base in enumerate(layout.bases(name)):
                if image := base >> shift & mask:
                    pieces.append((source, i, 1, image))
        for source, first, width, image in _runs(pieces):
            part = self.operate("lshr", source, first) if first else source
            part = self.operate("and", part, (1 << width) - 1)
            part = self.operate("mul", part, image) if image != 1 else part
            total = part if total is None else self.operate("xor", total, part)
        return total if total is not None else integer(0, "i32")

    def coordinate(self, layout: LinearLayout, dim: int, register: int) -> Reg:
        """Where along `dim` of its tile the thread's element in `register` is, as an i32."""
        shift = sum(b for _, b in layout.outs[dim + 1 :])
        bits = layout.outs[dim][1]
        moved = layout.flat(register=register) >> shift & (1 << bits) - 1
        return self.displaced(self.spread(layout, shift, bits), moved, self.reach(layout, shift, bits))

    def displaced(self, at: Reg, by: int, reach: int) -> Reg:
        """`at ^ by`; a plain sum where `at` never has bits of `by`, which address arithmetic can fold."""
        if not by:
            return at
        if not at.text.startswith("%"):
            return integer(int(at.text) ^ by, "i32")
        return self.operate("xor" if reach & by else "add nuw nsw", at, by)

    def reach(self, layout: LinearLayout, shift: int, bits: int) -> int:
        """The bits of an output that lane or warp may set."""
        out = 0
        for name in (LANE, WARP):
            for base in layout.bases(name):
                out |= base >> shift & (1 << bits) - 1
        return out

    def owns(self, layout: LinearLayout) -> Reg | None:
        """Whether this thread is the first of those that hold the same elements; None if every thread is."""
        masks = layout.free_masks()
        return self.lacks(masks.get(LANE, 0), masks.get(WARP, 0))

    def lacks(self, lanes: int, warps: int) -> Reg | None:
        """Whether this thread's numbers have none of these bits; None when there are none to have."""
        out: Reg | None = None
        for source, bits in ((self.lane, lanes), (self.warp, warps)):
            if bits:
                out = self.both(out, self.test("eq", self.operate("and", source, bits), 0))
        return out

    def both(self, a: Reg | None, b: Reg | None) -> Reg | None:
        """The conjunction of predicates, None being true."""
        if a is None or b is None:
            return a if b is None else b
        return self.operate("and", a, b)

    # synchronisation and memory

    def barrier(self) -> None:
        """All threads of the block meet, and see each other's writes."""
        self.dirty.clear()
        if self.role:
            self.assembly(f"bar.sync $0, {self.role.threads};", self.role.barrier)
            return
        self.text.module.entity("declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32) convergent nounwind")
        self.text.line("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")

    def order(self, root: str, *, writes: bool, atomic: bool = False) -> None:
        """A barrier if other threads may have touched this memory in a way that the coming access must not overtake.

        Atomics are not ordered among one another. Where a root is not known (""), it may be any.
        """
        before = "".join(happened for other, happened in self.dirty.items() if _meet(root, other))
        if before.replace("a", "") if atomic else before.replace("r", "") or (writes and before):
            self.barrier()
        self.dirty[root] = "".join(sorted({*self.dirty.get(root, ""), "a" if atomic else "w" if writes else "r"}))

    @property
    def is_first_thread(self) -> Reg:
        """Whether this is the block's first thread."""
        return self.test("eq", self.thread, 0)

    @property
    def is_first_lane(self) -> Reg:
        """Whether this is the first thread of its warp."""
        return self.test("eq", self.lane, 0)

    def flag(self, condition: Reg) -> Reg:
        """A predicate as an i32, for assembly."""
        return self.text.pure("i32", f"zext {condition} to i32", condition)

    def shortened(self, x: Reg, type_: str = "i32") -> Reg:
        """An integer that fits a narrower type, as that."""
        return self.text.pure(type_, f"trunc {x} to {type_}", x) if x.text.startswith("%") else Reg(x.text, type_)

    def extreme(self, name: str, x: Reg, bound: int) -> Reg:
        """`smin` or `smax`, of integers, with a number; pure."""
        symbol = f"@llvm.{name}.{x.type}"
        self.text.module.entity(f"declare {x.type} {symbol}({x.type}, {x.type})")
        return self.text.pure(x.type, f"call {x.type} {symbol}({x}, {x.type} {bound})", x)

    def shared_memory(self, offset: int) -> Reg:
        """The address of a byte of the block's shared memory."""
        self.text.module.entity("@graphfuse_shared = external addrspace(3) global [0 x i8], align 1024")
        return self.address(Reg("@graphfuse_shared", SHARED), offset)

    def staging(self, nbytes: int) -> Reg:
        """Shared memory for a moment: its users order themselves by `order("staging", ...)`."""
        self.staging_bytes = max(self.staging_bytes, nbytes)
        return Reg("%staging", SHARED)

    def exchange(self, nbytes: int) -> tuple[Reg, str]:
        """Shared memory for a moment, and what `order` calls it.

        Small amounts come from two places by turns: the barrier between the writes and reads of one also lies between
        the reads of the other and the writes that follow.
        """
        if nbytes > EXCHANGE_BYTES:
            return self.staging(nbytes), STAGING[0]
        if not self.exchanges:
            self.exchange_start = -(-self.shared_bytes // 128) * 128
            self.shared_bytes = self.exchange_start + 2 * EXCHANGE_BYTES
        turn = self.exchanges % 2
        self.exchanges += 1
        return self.shared_memory(self.exchange_start + turn * EXCHANGE_BYTES), STAGING[1 + turn]

    def address(self, base: Reg, offset_bytes: Reg | int) -> Reg:
        """An address some bytes further."""
        if isinstance(offset_bytes, int):
            if not offset_bytes:
                return base
            offset_bytes = integer(offset_bytes, "i32")
        return self.text.pure(base.type, f"getelementptr i8, {base}, {offset_bytes}", base, offset_bytes)

    # inline assembly

    def assembly(
        self,
        template: str,
        *operands: Reg,
        gives: Sequence[str] = (),
        changes: Sequence[Reg] = (),
        early: bool = False,
        effects: bool = True,
    ) -> list[Reg]:
        """Inline PTX; with `effects` it stays where it is and orders memory.

        Its results, of the types `gives`, are `$0`, `$1` and so on, the operands follow them; with `early` results are
        written before the last operand is read. What it `changes` are results that begin as these registers.
        """
        types = [*gives, *(r.type for r in changes)]
        constraints = [f"={'&' if early else ''}{_CONSTRAINTS[t]}" for t in types]
        constraints += [str(len(gives) + i) for i in range(len(changes))] + [_CONSTRAINTS[r.type] for r in operands]
        constraints += ["~{memory}"] if effects else []
        code = template.replace("\\", "\\5C").replace('"', "\\22").replace("\n", "\\0A")
        result = "void" if not types else types[0] if len(types) == 1 else f"{{ {', '.join(types)} }}"
        call = f'call {result} asm {"sideeffect " if effects else ""}"{code}", "{",".join(constraints)}"'
        call += f"({', '.join(map(str, (*changes, *operands)))}){' convergent nounwind' if effects else ''}"
        if not types:
            self.text.line(call)
            return []
        got = self.text.emit(result, call)
        if len(types) == 1:
            return [got]
        return [self.text.emit(t, f"extractvalue {got}, {i}") for i, t in enumerate(types)]


_CONSTRAINTS = {
    "i1": "b", "i16": "h", "i32": "r", "i64": "l", "float": "f", "double": "d", "ptr": "l", GLOBAL: "l", SHARED: "r",
}  # fmt: skip
"""What inline assembly calls registers of a type."""


def places(first: int, count: int) -> str:
    """So many operands of inline assembly, in a row."""
    return ", ".join(f"${first + i}" for i in range(count))


def vector_of(first: int, count: int) -> tuple[str, str]:
    """The suffix of an instruction that moves so many words at once, and its operands from number `first` on."""
    return (f".v{count}", f"{{{places(first, count)}}}") if count > 1 else ("", places(first, count))


def space_of(address: Reg) -> str:
    """What instructions call the memory that an address points to."""
    return "global" if address.type == GLOBAL else "shared"


def when(instruction: str, flag: int, clear: str = "") -> str:
    """An instruction that happens where operand `flag` is not 0; what `clear` says happens before it in any case."""
    return f"{{\n.reg .pred p;\nsetp.ne.b32 p, ${flag}, 0;\n{clear}@p {instruction}\n}}"


def until(test: str, registers: str = "") -> str:
    """A loop of inline assembly that goes on until what `test` says has made predicate `p` true."""
    return f"{{\n.reg .pred p;\n{registers}WAIT:\n{test}\n@p bra DONE;\nbra WAIT;\nDONE:\n}}"


def layout_of(type_: Tile) -> LinearLayout:
    """The layout a tile type must have by now."""
    assert type_.layout is not None, f"{type_} has no layout"
    return type_.layout


def _runs(pieces: Sequence[tuple[Reg, int, int, int]]) -> list[tuple[Reg, int, int, int]]:
    """Joins bits of one source that follow one another and whose images double: one shift and mask for all."""
    out: list[tuple[Reg, int, int, int]] = []
    for source, bit, _, image in pieces:
        if out:
            last, first, width, base = out[-1]
            single = not base & base - 1  # several bits would carry into one another
            if single and last is source and bit == first + width and image == base << width:
                out[-1] = (source, first, width + 1, base)
                continue
        out.append((source, bit, 1, image))
    return out


def _meet(a: str, b: str) -> bool:
    """Whether two roots may be the same memory, for the order of a program: one that is not known is any tensor."""
    return a == b or (not (a and b) and not (a + b).startswith((*STAGING, "shared")))

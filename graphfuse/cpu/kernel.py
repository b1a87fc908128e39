"""What every lowering shares: tile values as LLVM vectors, the state of one kernel, the table of lowerings.

A tile is cut row by row (its last dim) into vectors of `lanes` elements; the rest of a row is one shorter
vector, padded to a power of two with lanes that hold anything. The cut depends on the shape only, so tiles of
one shape pair up vector by vector whatever their elements. A vector of one lane is an LLVM scalar.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphfuse.errors import UnsupportedError
from graphfuse.ir.core import Func, Op, OpDef, Value
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.types import Scalar, Tile, Type
from graphfuse.llvm.module import FunctionText, Reg
from graphfuse.symbolic import Dim
from graphfuse.target import Target

if TYPE_CHECKING:
    from graphfuse.cpu.lower_memory import View

Lowering = Callable[["Kernel", Op], None]
LOWERINGS: dict[OpDef, Lowering] = {}
"""How each op of the block dialect becomes LLVM IR."""


def lowers(*kinds: OpDef) -> Callable[[Lowering], Lowering]:
    """Register a lowering."""

    def register(fn: Lowering) -> Lowering:
        for kind in kinds:
            LOWERINGS[kind] = fn
        return fn

    return register


class Span(NamedTuple):
    """One vector of a row: its first column, how many columns it holds, how many lanes it has."""

    start: int
    valid: int
    width: int


@functools.cache
def row_spans(columns: int, lanes: int) -> tuple[Span, ...]:
    """How a row is cut into vectors."""
    spans = [Span(at, lanes, lanes) for at in range(0, columns - lanes + 1, lanes)]
    if rest := columns % lanes:
        spans.append(Span(columns - rest, rest, 1 << (rest - 1).bit_length()))
    return tuple(spans)


class TileValue:
    """A tile, or a scalar (shape `()`), in registers: the vectors row by row."""

    __slots__ = ("elem", "scalars", "shape", "spans", "vectors")

    def __init__(
        self,
        shape: tuple[int, ...],
        elem: Scalar,
        vectors: Sequence[Reg],
        spans: tuple[Span, ...],
        scalars: Mapping[int, Reg] | None = None,
    ) -> None:
        assert len(vectors) == math.prod(shape[:-1]) * len(spans), "one register for each vector"
        self.shape, self.elem, self.vectors, self.spans = shape, elem, tuple(vectors), spans
        self.scalars = scalars or {}
        """Elements that are at hand as scalars, by row-major position."""

    @property
    def columns(self) -> int:
        """Elements in a row."""
        return self.shape[-1] if self.shape else 1

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return math.prod(self.shape[:-1])

    def widths(self) -> list[int]:
        """The lanes of each vector."""
        return [s.width for s in self.spans] * self.rows

    def locate(self, position: int) -> tuple[Reg, int]:
        """The vector and the lane of the element at a row-major position."""
        row, column = divmod(position, self.columns)
        lanes = self.spans[0].width
        index = min(column // lanes, len(self.spans) - 1)
        return self.vectors[row * len(self.spans) + index], column - self.spans[index].start


class PointerValue(NamedTuple):
    """An address and the memory it is known to point into (empty: any)."""

    reg: Reg
    root: str


KernelValue = TileValue | PointerValue

_LLVM_FLOATS = {"f32": "float", "f64": "double"}
_SUFFIX = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}


def register_type(elem: Scalar) -> str:
    """The LLVM type of an element in a register.

    Floats narrower than f32 are their bits: where a processor lacks them, LLVM moves even a `half` or `bfloat`
    through library calls.
    """
    if elem.name == "bool":
        return "i1"
    return _LLVM_FLOATS.get(elem.name, f"i{max(8, elem.bits)}")


def memory_type(elem: Scalar) -> str:
    """The LLVM type of an element in memory."""
    return "i8" if elem.name == "bool" else register_type(elem)


def vector_type(element: str, width: int) -> str:
    """The LLVM type of `width` lanes."""
    return element if width == 1 else f"<{width} x {element}>"


def element_type(type_: str) -> str:
    """The element of an LLVM vector type; a scalar is its own."""
    return type_.rpartition(" ")[2].rstrip(">")


def width_of(type_: str) -> int:
    """The lanes of an LLVM type."""
    return int(type_[1:].partition(" ")[0]) if type_.startswith("<") else 1


def suffix(type_: str) -> str:
    """How an intrinsic's name spells a type."""
    element = element_type(type_)
    name = "p0" if element == "ptr" else _SUFFIX.get(element, element)
    return f"v{width_of(type_)}{name}" if type_.startswith("<") else name


def literal(value: bool | float, elem: Scalar) -> str:
    """A constant of `elem` as LLVM spells it."""
    if elem.name == "bool":
        return "true" if value else "false"
    if elem.is_integer:
        bits = max(8, elem.bits)
        whole = int(value) & ((1 << elem.bits) - 1)
        if elem.is_signed and whole >> (elem.bits - 1):
            whole -= 1 << elem.bits
        return str(whole - (1 << bits) if whole >> (bits - 1) else whole)
    with np.errstate(over="ignore"):
        stored = np.asarray(float(value)).astype(numpy_dtype(elem))
    bits = int.from_bytes(stored.tobytes(), "little")
    if elem.name in _LLVM_FLOATS:
        return float_text(float(stored.astype(np.float64)))
    width = 8 * stored.itemsize
    return str(bits - (1 << width) if bits >> (width - 1) else bits)


def float_text(value: float) -> str:
    """An f32 or f64 constant."""
    return f"0x{int.from_bytes(np.float64(value).tobytes(), 'little'):016X}"


def constant(text: str, element: str, width: int = 1) -> Reg:
    """A constant, splatted over `width` lanes."""
    if width == 1:
        return Reg(text, element)
    return Reg(f"splat ({element} {text})", vector_type(element, width))


def integer(value: int, type_: str = "i64") -> Reg:
    """An integer constant of a scalar or vector type."""
    return constant(str(value), element_type(type_), width_of(type_))


class Kernel:
    """The state of lowering one function."""

    def __init__(self, func: Func, target: Target, text: FunctionText, lanes: int) -> None:
        self.func, self.target, self.text, self.lanes = func, target, text, lanes
        self.values: dict[Value, KernelValue] = {}
        self.bounds: dict[Value, tuple[int, int]] = {}
        """What is known of i64 values."""
        self.symbols: dict[str, Reg] = {}
        self.ranges: dict[str, tuple[int, int]] = dict(func.ranges)
        self.program: Reg | None = None
        self.scratch: Reg | None = None
        self.scratch_bytes: Dim = 0
        self.streams = False
        """Whether a store went past the cache, so that the kernel must fence before it ends."""
        self.groups: dict[str, str] = {}
        """Memory to the set of memories it may overlap with."""
        self.deferred: frozenset[Value] = frozenset()
        """Loads that are emitted element by element where they are used."""
        self.views: dict[Value, View] = {}
        """Where deferred loads read."""
        self.spilled: list[str] = []
        """Memory that holds operands of products."""
        self.allocation_roots: dict[Value, str] = {}

    # values

    def tile(self, value: Value) -> TileValue:
        """A tile or a scalar."""
        found = self.values[value]
        assert isinstance(found, TileValue), f"{value} is not a tile"
        return found

    def scalar(self, value: Value) -> Reg:
        """A scalar's register."""
        tile = self.tile(value)
        assert tile.shape == (), f"{value} is not a scalar"
        return tile.vectors[0]

    def pointer(self, value: Value) -> PointerValue:
        """A pointer."""
        found = self.values[value]
        assert isinstance(found, PointerValue), f"{value} is not a pointer"
        return found

    def spans(self, shape: tuple[int, ...]) -> tuple[Span, ...]:
        """How the rows of a shape are cut."""
        return row_spans(shape[-1] if shape else 1, self.lanes)

    def make(self, type_: Type, vectors: Sequence[Reg], scalars: Mapping[int, Reg] | None = None) -> TileValue:
        """A tile or scalar of an IR type."""
        if isinstance(type_, Tile):
            return TileValue(type_.shape, type_.elem, vectors, self.spans(type_.shape), scalars)
        assert isinstance(type_, Scalar), f"no registers for {type_}"
        return TileValue((), type_, vectors, self.spans(()))

    def set(self, op: Op, vectors: Sequence[Reg], scalars: Mapping[int, Reg] | None = None) -> None:
        """Define an op's only result."""
        self.values[op.result] = self.make(op.types[0], vectors, scalars)

    def type_parts(self, type_: Type) -> list[tuple[str, int]]:
        """The LLVM element and lanes of each register of an IR type."""
        if isinstance(type_, Tile):
            widths = [s.width for s in self.spans(type_.shape)] * math.prod(type_.shape[:-1])
            return [(register_type(type_.elem), w) for w in widths]
        if isinstance(type_, Scalar):
            return [(register_type(type_), 1)]
        return [("ptr", 1)]

    # instructions

    def intrinsic(self, name: str, type_: str, *operands: Reg, overload: str = "", result: str = "") -> Reg:
        """Call `llvm.<name>.<overload>`, by default overloaded on `type_`, its result."""
        symbol = f"@llvm.{name}.{overload or suffix(type_)}"
        self.declare(type_, symbol, operands)
        return self.text.emit(type_, f"call {type_} {symbol}({', '.join(map(str, operands))})")

    def declare(self, type_: str, symbol: str, operands: Sequence[Reg]) -> None:
        """Declare an external symbol from a use of it."""
        self.text.module.entity(f"declare {type_} {symbol}({', '.join(r.type for r in operands)})")

    def binary(self, name: str, a: Reg, b: Reg) -> Reg:
        """An instruction on two operands of one type."""
        return self.text.emit(a.type, f"{name} {a}, {b.text}")

    def compare(self, name: str, a: Reg, b: Reg) -> Reg:
        """`icmp` or `fcmp` with its predicate."""
        return self.text.emit(vector_type("i1", width_of(a.type)), f"{name} {a}, {b.text}")

    def choose(self, condition: Reg, a: Reg, b: Reg) -> Reg:
        """Lanewise `condition ? a : b`."""
        return self.text.emit(a.type, f"select {condition}, {a}, {b}")

    def convert(self, name: str, x: Reg, element: str) -> Reg:
        """A conversion to another element."""
        type_ = vector_type(element, width_of(x.type))
        return x if type_ == x.type else self.text.emit(type_, f"{name} {x} to {type_}")

    def splat(self, x: Reg, width: int) -> Reg:
        """A scalar in every lane."""
        if width == 1:
            return x
        if not x.text.startswith("%"):
            return constant(x.text, x.type, width)
        type_ = vector_type(x.type, width)
        first = self.text.pure(type_, f"insertelement {type_} poison, {x}, i64 0", x)
        return self.text.pure(
            type_, f"shufflevector {first}, {type_} poison, <{width} x i32> zeroinitializer", first
        )

    def splat_here(self, x: Reg, width: int) -> Reg:
        """A scalar in every lane, not moved out of loops."""
        if width == 1:
            return x
        type_ = vector_type(x.type, width)
        first = self.text.emit(type_, f"insertelement {type_} poison, {x}, i64 0")
        return self.shuffle(first, None, [0] * width)

    def element(self, tile: TileValue, position: int) -> Reg:
        """One element as a scalar."""
        if position in tile.scalars:
            return tile.scalars[position]
        vector, lane = tile.locate(position)
        if width_of(vector.type) == 1:
            return vector
        return self.text.emit(element_type(vector.type), f"extractelement {vector}, i64 {lane}")

    def element_splat(self, tile: TileValue, position: int, width: int) -> Reg:
        """One element in every lane."""
        if position in tile.scalars:
            return self.splat(tile.scalars[position], width)
        vector, lane = tile.locate(position)
        if width_of(vector.type) == 1:
            return self.splat(vector, width)
        return self.shuffle(vector, None, [lane] * width)

    def shuffle(self, a: Reg, b: Reg | None, picks: Sequence[int | None]) -> Reg:
        """Lanes of `a`, then `b` counted on; None is any lane. One pick gives a scalar."""
        width = width_of(a.type)
        if len(picks) == 1:
            at = picks[0] or 0
            source, lane = (a, at) if at < width or b is None else (b, at - width)
            return self.text.emit(element_type(a.type), f"extractelement {source}, i64 {lane}")
        if len(picks) == width and all(p in (None, i) for i, p in enumerate(picks)):
            return a
        type_ = vector_type(element_type(a.type), len(picks))
        if set(picks) <= {0, None}:
            mask = "zeroinitializer"
        else:
            mask = "<" + ", ".join("i32 poison" if p is None else f"i32 {p}" for p in picks) + ">"
        other = f"{a.type} poison" if b is None else str(b)
        return self.text.emit(type_, f"shufflevector {a}, {other}, <{len(picks)} x i32> {mask}")

    def collect(self, sources: Sequence[tuple[Reg, int] | None], element: str) -> Reg:
        """A vector of lanes picked from anywhere; None is any lane."""
        if len(sources) == 1:
            assert sources[0] is not None
            reg, lane = sources[0]
            return reg if width_of(reg.type) == 1 else self.shuffle(reg, None, [lane])
        regs = list(dict.fromkeys(s[0] for s in sources if s is not None))
        width = len(sources)
        if all(width_of(r.type) == 1 for r in regs):
            return self._insert_all(sources, element)
        if len(regs) <= 2:
            wide = max(width_of(r.type) for r in regs)
            a, b = (self.widen(r, wide) for r in (regs[0], regs[-1]))
            picks = [None if s is None else s[1] + (0 if s[0] is regs[0] else wide) for s in sources]
            return self.shuffle(a, b if len(regs) == 2 else None, picks)
        half = set(regs[: len(regs) // 2])
        left = self.collect([s if s is not None and s[0] in half else None for s in sources], element)
        right = self.collect([s if s is not None and s[0] not in half else None for s in sources], element)
        picks = [None if s is None else i if s[0] in half else width + i for i, s in enumerate(sources)]
        return self.shuffle(left, right, picks)

    def _insert_all(self, sources: Sequence[tuple[Reg, int] | None], element: str) -> Reg:
        type_ = vector_type(element, len(sources))
        if len({s for s in sources if s is not None}) == 1 and sources[0] is not None:
            return self.splat(sources[0][0], len(sources))
        out = Reg("poison", type_)
        for lane, source in enumerate(sources):
            if source is not None:
                out = self.text.emit(type_, f"insertelement {out}, {source[0]}, i64 {lane}")
        return out

    def widen(self, x: Reg, width: int) -> Reg:
        """The same lanes at the front of a wider vector."""
        have = width_of(x.type)
        if have == width:
            return x
        if have == 1:
            type_ = vector_type(x.type, width)
            return self.text.emit(type_, f"insertelement {type_} poison, {x}, i64 0")
        return self.shuffle(x, None, [i if i < have else None for i in range(width)])

    def regroup(self, type_: Tile, sources: Sequence[tuple[Reg, int]]) -> list[Reg]:
        """The vectors of a tile from the register and lane of each element, row-major."""
        element = register_type(type_.elem)
        out: list[Reg] = []
        columns = type_.shape[-1] if type_.shape else 1
        for row in range(math.prod(type_.shape[:-1])):
            for span in self.spans(type_.shape):
                first = row * columns + span.start
                picked: list[tuple[Reg, int] | None] = [*sources[first : first + span.valid]]
                out.append(self.collect(picked + [None] * (span.width - span.valid), element))
        return out

    # memory that may overlap

    def scopes(self, root: str) -> str:
        """The alias metadata of an access to `root`."""
        if root not in self.groups:
            return ""
        module = self.text.module
        own = self.groups[root]
        domain = module.distinct("!{!self}", self.func.name)
        names = sorted(set(self.groups.values()))
        scope = {n: module.distinct(f"!{{!self, {domain}}}", f"{self.func.name} {n}") for n in names}
        mine = module.metadata(f"!{{{scope[own]}}}")
        others = [scope[n] for n in names if n != own]
        text = f", !alias.scope {mine}"
        return f"{text}, !noalias {module.metadata('!{' + ', '.join(others) + '}')}" if others else text

    # ops

    def lower_ops(self, ops: Sequence[Op]) -> None:
        """Lower a block's ops but its terminator."""
        for op in ops:
            if op.kind not in LOWERINGS:
                raise UnsupportedError(f"{op.kind.name} cannot be compiled for {self.target}", op.loc)
            LOWERINGS[op.kind](self, op)

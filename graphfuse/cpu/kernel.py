"""What CPU lowerings share: tile values as LLVM vectors, the state of one kernel, the table of lowerings.

A tile is cut row by row (its last dim) into vectors of `lanes` elements; the rest of a row is one shorter
vector, padded to a power of two with lanes that hold anything. The cut depends on the shape only, so tiles of
one shape pair up vector by vector whatever their elements. A vector of one lane is an LLVM scalar.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from graphfuse.codegen import kernel as shared
from graphfuse.codegen.index import emit_dim
from graphfuse.codegen.kernel import Registers, element_type, integer, register_type, vector_type, width_of
from graphfuse.dialects import block
from graphfuse.ir.core import Func, Op, OpDef, Value
from graphfuse.ir.types import Scalar, Tile, Type
from graphfuse.llvm.module import FunctionText, Reg
from graphfuse.symbolic import Dim
from graphfuse.targets import Target

if TYPE_CHECKING:
    from graphfuse.cpu.lower_dot_words import TileRegisters
    from graphfuse.cpu.lower_memory import View

TRUNCATIONS = {
    4: ("sse2.cvttps2dq", "sse2"),
    8: ("avx.cvtt.ps2dq.256", "avx"),
    16: ("avx512.mask.cvttps2dq.512", "avx512f"),
}
"""Instructions that truncate f32 to i32, by lanes, and the feature that has them."""

LOWERINGS: dict[OpDef, shared.AnyLowering] = {}
"""How ops become LLVM IR where the CPU has its own way."""


lowers = functools.partial(shared.lowers_into, LOWERINGS)


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


class TileValue(Registers):
    """A tile, or a scalar (shape `()`), in registers: the vectors row by row."""

    __slots__ = ("scalars", "spans")

    def __init__(
        self,
        shape: tuple[int, ...],
        elem: Scalar,
        vectors: Sequence[Reg],
        spans: tuple[Span, ...],
        scalars: Mapping[int, Reg] | None = None,
    ) -> None:
        assert len(vectors) == math.prod(shape[:-1]) * len(spans), "one register for each vector"
        super().__init__(shape, elem, vectors)
        self.spans = spans
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

    def row(self, number: int) -> tuple[Reg, ...]:
        """The vectors of a row."""
        n = len(self.spans)
        return self.vectors[number * n : (number + 1) * n]

    def locate(self, position: int) -> tuple[Reg, int]:
        """The vector and the lane of the element at a row-major position."""
        row, column = divmod(position, self.columns)
        lanes = self.spans[0].width
        index = min(column // lanes, len(self.spans) - 1)
        return self.vectors[row * len(self.spans) + index], column - self.spans[index].start


class Kernel(shared.Kernel):
    """The state of lowering one function."""

    lowerings: ClassVar[dict[OpDef, shared.AnyLowering]] = LOWERINGS

    def __init__(self, func: Func, target: Target, text: FunctionText, lanes: int) -> None:
        super().__init__(func, target, text)
        self.lanes = lanes
        self.grid: tuple[Reg, ...] = ()
        """The grid, where it is given at launch."""
        self.scratch: Reg | None = None
        self.scratch_bytes: Dim = 0
        self.streams = False
        """Whether a store went past the cache, so that the kernel must fence before it ends."""
        self.uses_tiles = False
        """Whether registers of tiles are used, which the kernel must release before it ends."""
        self.tiles: TileRegisters | None = None
        """What they hold, where that is the same for all products."""
        self.groups: dict[str, str] = {}
        """Memory to the set of memories it may overlap with."""
        self.deferred: frozenset[Value] = frozenset()
        """Loads and products that are emitted where they are used."""
        self.views: dict[Value, View] = {}
        """Where deferred loads read."""
        self.products: dict[Value, Callable[[View], None]] = {}
        """What leaves the sums of a deferred product in memory."""
        self.spilled: list[str] = []
        """Memory that holds operands of products."""
        self.allocation_roots: dict[Value, str] = {}

    # programs

    def position(self, axis: int) -> Reg:
        """The number of the program, taken apart where the grid has more axes than one."""
        assert self.program is not None, "set before the body"
        axes = block.grid_axes(self.func)
        if axes is not None and len(axes) == 1:
            return self.program if axis == 0 else integer(0)
        text, at = self.text, self.program
        for before in range(axis):
            at = text.pure("i64", f"udiv {at}, {self.count(before).text}", at, self.count(before))
        last = len(axes) - 1 if axes else block.MAX_GRID_RANK - 1
        if axis >= last:
            return at if axis == last else integer(0)
        return text.pure("i64", f"urem {at}, {self.count(axis).text}", at, self.count(axis))

    def count(self, axis: int) -> Reg:
        """From the slots after the arguments, where the grid is given at launch."""
        axes = block.grid_axes(self.func)
        if axes is not None:
            return emit_dim(self, axes[axis] if axis < len(axes) else 1)
        return self.grid[axis]

    # values

    def tile(self, value: Value) -> TileValue:
        """A tile or a scalar."""
        found = self.values[value]
        assert isinstance(found, TileValue), f"{value} is not a tile"
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

    def set_elements(self, op: Op, elements: Sequence[Reg]) -> None:
        """Define an op's only result by its elements, row-major."""
        if isinstance(op.types[0], Tile):
            self.set(op, self.regroup(op.types[0], [(r, 0) for r in elements]), dict(enumerate(elements)))
        else:
            self.set(op, elements)

    def type_parts(self, type_: Type) -> list[tuple[str, int]]:
        """The LLVM element and lanes of each register of an IR type."""
        if isinstance(type_, Tile):
            widths = [s.width for s in self.spans(type_.shape)] * math.prod(type_.shape[:-1])
            return [(register_type(type_.elem), w) for w in widths]
        if isinstance(type_, Scalar):
            return [(register_type(type_), 1)]
        return [("ptr", 1)]

    # instructions

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
            picks = [None if s is None else s[1] + (0 if s[0] == regs[0] else wide) for s in sources]
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
                picked = [*sources[first : first + span.valid], *[None] * (span.width - span.valid)]
                out.append(self.collect(picked, element))
        return out

    # conversions

    def truncated(self, x: Reg) -> Reg | None:
        """`cvttps2dq`: LLVM makes saturating conversions of vectors lane by lane."""
        width = width_of(x.type)
        name, feature = TRUNCATIONS.get(width, ("", ""))
        if self.target.arch != "x86_64" or not name or not self.target.has(feature):
            return None
        type_, symbol = vector_type("i32", width), f"@llvm.x86.{name}"
        operands = [x]
        if feature == "avx512f":  # no lane masked, rounding as it is
            operands += [Reg("zeroinitializer", type_), integer(-1, "i16"), integer(4, "i32")]
        return self.call(type_, symbol, operands)

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

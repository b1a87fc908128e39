"""Proves that a masked gather reads windows of a tensor: a tile that TMA copies in im2col mode.

Rows of the tile are positions of a filter, flat; columns are neighbours in memory. With the row number
`row = first + lane`, the digits `image = row // (P * Q)`, `p = row // Q mod P`, `q = row mod Q`, and numbers of the
whole tile r, s, c (a tap, a channel), this is

    at = image * A + (p * sp + r) * B + (q * sq + s) * C + c + column
    x = load(pointer, at, m);  select(m, x, 0)         m: 0 <= p * sp + r < H and 0 <= q * sq + s < W and row < rows

Polynomials show it. What a condition bounds is a coordinate of the tensor; a digit without conditions is one too, in
steps of its own; what is left of the offset is where the columns begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from graphfuse.artifact import Im2col
from graphfuse.dialects import block
from graphfuse.gpu.transforms.hopper.affine import ALIGNMENT, MAX_EXTENT, Box, Scalars, split
from graphfuse.ir.core import Op, OpDef, Value, attr_dim, attr_int, attr_number, attr_strs
from graphfuse.ir.types import Ptr, Tile
from graphfuse.symbolic import (
    Atom,
    Call,
    Dim,
    Expr,
    bounds,
    ceildiv,
    exact_div,
    floordiv,
    mod,
    product,
    substitute,
    sym,
    symbols,
)

OFFSET_BITS = 16
"""That all corners, and all taps, have together."""
MOST_STEP = 8
_COMPARISONS: dict[OpDef, tuple[int, int]] = {block.ge: (1, 0), block.lt: (-1, -1)}
"""`a ? b` as `sign * (a - b) + constant >= 0`."""


@dataclass(frozen=True, slots=True)
class _Digit:
    """A digit of the row number, innermost first in lists; the outermost has the extent None until rows are known."""

    atom: Dim
    divisor: Dim
    extent: Dim | None


@dataclass(slots=True)
class _Axis:
    """A dim of the tensor: `at` is the coordinate of a row, `step * digit + tap`."""

    digit: _Digit
    extent: Dim
    stride: Dim
    step: int = 1
    lower: int = 0
    tap: Dim = 0

    @property
    def upper(self) -> Dim:
        """The last position, from the last element on."""
        assert self.digit.extent is not None
        return (self.digit.extent - 1) * self.step + self.lower - (self.extent - 1)


@dataclass(slots=True)
class _Limits:
    """What conditions say, as polynomials that are at least 0: of digits, how many rows and columns there are."""

    lower: dict[Dim, Dim] = field(default_factory=dict[Dim, Dim])
    upper: dict[Dim, Dim] = field(default_factory=dict[Dim, Dim])
    rows: Dim | None = None
    columns: Dim | None = None


def find_windows(value: Value, scalars: Scalars) -> Box | None:
    """The box in im2col mode that a gathered tile is, or None."""
    tiles = _Tiles(scalars)
    conditions: list[Dim] = []
    op = value.op
    while op is not None and op.kind is block.select:
        condition, value, other = op.operands
        found = tiles.conditions(condition)
        if found is None or not _is_zero(other):
            return None
        conditions += found
        op = value.op
    if op is None or op.kind is not block.load or ("other" in op.attrs and attr_number(op, "other") != 0):
        return None
    pointer, offsets, *mask = op.operands
    found = tiles.conditions(mask[0]) if mask else []
    at = tiles.dim(offsets)
    if found is None or at is None or tiles.first is None or pointer.op is not None:
        return None
    if scalars.alignments[pointer.hint] % ALIGNMENT:
        return None
    lanes = {tiles.lane: sym(tiles.row) - tiles.first}
    every = dict.fromkeys(substitute(c, lanes) for c in (*conditions, *found))
    return _Windows(tiles, value, substitute(at, lanes), list(every)).box(pointer)


class _Tiles:
    """Tiles of integers as polynomials of the row number, the column, and the scalars' leaves."""

    def __init__(self, scalars: Scalars) -> None:
        self.scalars = scalars
        self.lane, self.column, self.row = (_free(name, scalars) for name in ("lane", "column", "row"))
        self.first: Dim | None = None
        """The number of the tile's first row."""
        self._known: dict[Value, Dim | None] = {}

    def dim(self, value: Value) -> Dim | None:
        """The polynomial of a tile or scalar of integers; None if it is none."""
        if not isinstance(value.type, Tile):
            return self.scalars.dim(value)
        if value not in self._known:
            self._known[value] = self._compute(value)
        return self._known[value]

    def _compute(self, value: Value) -> Dim | None:
        op = value.op
        if op is None:
            return None
        if op.kind is block.const:
            return attr_int(op, "value")
        if op.kind in (block.splat, block.broadcast):
            return self.dim(op.operands[0])
        if op.kind is block.reshape:
            return self._reshaped(op)
        if op.kind is block.index:
            names = attr_strs(op, "names") if "names" in op.attrs else ()
            operands = [self.dim(v) for v in op.operands]
            known = {n: d for n, d in zip(names, operands, strict=True) if d is not None}
            return self._numbered(substitute(attr_dim(op, "expr"), known)) if len(known) == len(names) else None
        if op.kind in (block.add, block.sub, block.mul):
            a, b = (self.dim(v) for v in op.operands)
            if a is None or b is None:
                return None
            return a + b if op.kind is block.add else a - b if op.kind is block.sub else a * b
        return None

    def _reshaped(self, op: Op) -> Dim | None:
        """Only a range gets to know here which dim it runs along."""
        source, target = op.operands[0].op, op.result.type
        assert isinstance(target, Tile)
        if source is None or source.kind is not block.arange or len(target.shape) != 2:
            return None
        name = self.column if target.shape[0] == 1 else self.lane
        return sym(name) + attr_int(source, "start") if 1 in target.shape else None

    def _numbered(self, dim: Dim) -> Dim:
        """A lane of rows plus a scalar is the row number: one name, for all its digits to be of."""
        first = dim - sym(self.lane)
        if not symbols(first).isdisjoint((self.lane, self.column, self.row)) or self.first not in (None, first):
            return dim
        if self.lane not in symbols(dim):
            return dim
        self.first = first
        return sym(self.row)

    def conditions(self, value: Value) -> list[Dim] | None:
        """Polynomials that are all at least 0 where a tile of bools is true; None if it is something else."""
        op = value.op
        if op is None:
            return None
        if op.kind in (block.broadcast, block.splat):
            return self.conditions(op.operands[0])
        if op.kind is block.and_:
            a, b = (self.conditions(v) for v in op.operands)
            return None if a is None or b is None else a + b
        if op.kind in _COMPARISONS:
            a, b = (self.dim(v) for v in op.operands)
            sign, constant = _COMPARISONS[op.kind]
            return None if a is None or b is None else [(a - b) * sign + constant]
        return None


class _Windows:
    """The proof: conditions and offset taken apart."""

    def __init__(self, tiles: _Tiles, value: Value, at: Dim, conditions: list[Dim]) -> None:
        self.tiles, self.scalars, self.at = tiles, tiles.scalars, at
        assert isinstance(value.type, Tile)
        self.shape = value.type.shape
        self.elem_bytes = value.type.elem.bytes
        self.conditions = conditions
        assert tiles.first is not None
        self.first = tiles.first
        self.ranges = {**self.scalars.ranges, tiles.column: (0, self.shape[-1] - 1)}

    def box(self, pointer: Value) -> Box | None:
        """What TMA has to be told, or None."""
        assert isinstance(pointer.type, Ptr)
        digits = _digits(self.at, self.tiles.row)
        if digits is None or len(self.shape) != 2:
            return None
        limits = self._limits(digits)
        numbered = self._extents(digits, limits.rows) if limits else None
        if limits is None or numbered is None:
            return None
        axes: list[_Axis] = []
        left = self.at - sym(self.tiles.column)
        for digit in numbered:
            lower, upper = limits.lower.get(digit.atom), limits.upper.get(digit.atom)
            axis = self._axis(digit, left, lower, upper)
            if axis is None:
                return None
            axes.append(axis)
            left = left - (digit.atom * axis.step + axis.tap + axis.lower) * axis.stride
            if digit is numbered[-1] and (lower, upper) != (None, None):  # it is one image
                axes.append(_Axis(_Digit(0, 1, 1), 1, axis.stride))
        return self._made(pointer, axes, left, limits.columns)

    def _limits(self, digits: list[_Digit]) -> _Limits | None:
        """Every condition by what it is about; None if one is about something else, or two differ."""
        out = _Limits()
        row, column = sym(self.tiles.row), sym(self.tiles.column)
        for c in self.conditions:
            fits = True
            if self.tiles.column in symbols(c):
                fits = self._is_uniform(c + column) and out.columns in (None, c + column + 1)
                out.columns = c + column + 1
            elif self._is_fixed(c + row):
                fits = out.rows in (None, c + row + 1)
                out.rows = c + row + 1
            elif self._is_uniform(c):
                fits = bounds(c, self.ranges)[0] >= 0
            elif digit := self._digit_of(c, digits):
                side = out.lower if bounds(_coefficient(c, digit.atom), {})[0] > 0 else out.upper
                fits = side.setdefault(digit.atom, c) == c
            else:
                fits = False
            if not fits:
                return None
        return out

    def _made(self, pointer: Value, axes: list[_Axis], left: Dim, columns: Dim | None) -> Box | None:
        """The box, if all is within what TMA takes; `left` of the offset is the first column's."""
        inner, rank = axes[:-1], len(axes) + 1
        if not self._is_uniform(left) or not 3 <= rank <= 5:
            return None
        offset, start = split(left, self.scalars)
        low, high = bounds(start, self.ranges)
        extent = int(high) + self.shape[1] if columns is None else columns + start
        if bounds(offset, self.ranges)[0] < 0 or low < 0 or high >= MAX_EXTENT or not self._is_fixed(extent):
            return None
        bits = OFFSET_BITS // (rank - 2)
        corners: list[tuple[int, int]] = []
        for axis in inner:
            last = axis.upper
            if not isinstance(last, int) or not isinstance(axis.extent, int):
                return None
            if bounds(axis.tap, self.ranges)[1] >= 1 << bits:
                return None
            if any(not -(1 << bits - 1) <= c < 1 << bits - 1 for c in (axis.lower, last)):
                return None
            corners.append((axis.lower, last))
        numbers = (*(a.stride for a in axes), offset, start)
        if any(self.scalars.divisor(d) * self.elem_bytes % ALIGNMENT for d in numbers):
            return None
        how = Im2col(tuple(a for a, _ in corners), tuple(b for _, b in corners), tuple(a.step for a in inner))
        outer_first = axes[::-1]
        return Box(
            pointer,
            (*(a.extent for a in outer_first), extent),
            (*(a.stride for a in outer_first), 1),
            offset,
            (*(self._begin(a) for a in outer_first), start),
            rows=product([a.digit.extent or 0 for a in axes]),
            taps=tuple(a.tap for a in inner[::-1]),
            im2col=how,
        )

    def _begin(self, axis: _Axis) -> Dim:
        """The coordinate of the first row, at tap 0."""
        digit = floordiv(self.first, axis.digit.divisor)
        if axis.digit.atom == 0:
            digit = 0
        elif isinstance(axis.digit.atom, Expr) and _call_of(axis.digit.atom).fn == "mod":
            assert axis.digit.extent is not None
            digit = mod(digit, axis.digit.extent)
        return digit * axis.step + axis.lower

    def _extents(self, digits: list[_Digit], rows: Dim | None) -> list[_Digit] | None:
        """The digits with the extent of the outermost, from the number of rows."""
        last = digits[-1]
        least, high = bounds(self.first, self.ranges)
        if rows is None:  # all rows of every tile exist: then so many are none too few
            rows = ceildiv(int(high) + self.shape[0], last.divisor) * last.divisor
        outermost = exact_div(rows, last.divisor)
        if least < 0 or outermost is None or bounds(rows, self.ranges)[1] >= MAX_EXTENT:
            return None
        self.ranges[self.tiles.row] = (0, int(bounds(rows, self.ranges)[1]) - 1)
        return [*digits[:-1], _Digit(last.atom, last.divisor, outermost)]

    def _axis(self, digit: _Digit, at: Dim, lower: Dim | None, upper: Dim | None) -> _Axis | None:
        """The dim that a digit runs along: what its conditions bound, or by itself."""
        assert digit.extent is not None
        stride = _coefficient(at, digit.atom)
        if lower is None and upper is None:
            return _Axis(digit, digit.extent, stride)
        if lower is None:
            assert upper is not None
            lower = upper * -1 - bounds(upper * -1, self.ranges)[0]
        step = _coefficient(lower, digit.atom)
        tap = lower - digit.atom * step
        pixel = exact_div(stride, step)
        if not isinstance(step, int) or not 1 <= step <= MOST_STEP or pixel is None or not self._is_uniform(tap):
            return None
        low = bounds(tap, self.ranges)[0]
        extent = bounds(lower, self.ranges)[1] + 1 if upper is None else upper + lower + 1
        if not self._is_fixed(extent) or abs(low) >= MAX_EXTENT:
            return None
        return _Axis(digit, extent, pixel, step, int(low), tap - int(low))

    def _digit_of(self, condition: Dim, digits: list[_Digit]) -> _Digit | None:
        """The one digit that a condition is about."""
        for digit in digits:
            factor = _coefficient(condition, digit.atom)
            if factor != 0:
                return digit if self._is_uniform(condition - digit.atom * factor) else None
        return None

    def _is_uniform(self, dim: Dim) -> bool:
        """Whether it is the same for the whole tile."""
        return symbols(dim).isdisjoint((self.tiles.lane, self.tiles.column, self.tiles.row))

    def _is_fixed(self, dim: Dim) -> bool:
        """Whether it is the same for the whole launch."""
        return self._is_uniform(dim) and not self.scalars.varies(dim)


def _digits(at: Dim, row: str) -> list[_Digit] | None:
    """The digits of the row number that an offset is made of, innermost first; None unless they are a number's."""
    found: dict[Dim, _Digit] = {}
    for atom in _atoms(at):
        if row not in symbols(_of(atom)):
            continue
        digit = _digit(atom, row)
        if digit is None:
            return None
        found[digit.divisor] = digit
    out: list[_Digit] = []
    divisor: Dim = 1
    while (digit := found.pop(divisor, None)) is not None:
        out.append(digit)
        if digit.extent is None:
            break
        divisor = divisor * digit.extent
    return out if out and not found and out[-1].extent is None else None


def _digit(atom: Atom, row: str) -> _Digit | None:
    """`row // d mod n`, `row mod n`, `row // d`."""
    if not isinstance(atom, Call):
        return None
    (a, b), number = atom.args, sym(row)
    if atom.fn == "floordiv":
        return _Digit(_of(atom), b, None) if a == number else None
    if atom.fn != "mod":
        return None
    if a == number:
        return _Digit(_of(atom), 1, b)
    inner = _call_of(a) if isinstance(a, Expr) else None
    if inner is None or inner.fn != "floordiv" or inner.args[0] != number:
        return None
    return _Digit(_of(atom), inner.args[1], b)


def _atoms(dim: Dim) -> Iterator[Atom]:
    if isinstance(dim, Expr):
        for monomial, _ in dim.terms:
            for atom, _ in monomial:
                yield atom


def _of(atom: Atom) -> Dim:
    return Expr(((((atom, 1),), 1),))


def _call_of(dim: Expr) -> Call:
    """The function that a dim is; another one that nothing equals if it is none."""
    atoms = list(_atoms(dim))
    if len(atoms) == 1 and _of(atoms[0]) == dim and isinstance(atoms[0], Call):
        return atoms[0]
    return Call("", ())


def _coefficient(dim: Dim, atom: Dim) -> Dim:
    """What an atom is multiplied by, where it is by itself."""
    total: Dim = 0
    if isinstance(dim, Expr) and isinstance(atom, Expr):
        ((((wanted, _),), _),) = atom.terms
        for monomial, c in dim.terms:
            powers = dict(monomial)
            if powers.pop(wanted, 0) == 1:
                rest = tuple(powers.items())
                total = total + (Expr(((rest, c),)) if rest else c)
    return total


def _is_zero(value: Value) -> bool:
    op = value.op
    while op is not None and op.kind in (block.splat, block.broadcast):
        op = op.operands[0].op
    return op is not None and op.kind is block.const and attr_number(op, "value") == 0


def _free(name: str, scalars: Scalars) -> str:
    """A name that stands for nothing yet."""
    while scalars.is_taken(name):
        name += "_"
    return name

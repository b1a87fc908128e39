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
from graphfuse.gpu.transforms.hopper.affine import ALIGNMENT, MAX_EXTENT, Box, Scalars, is_backward, split
from graphfuse.ir.core import Op, OpDef, Value, attr_dim, attr_int, attr_number, attr_strs
from graphfuse.ir.types import I64, Ptr, Tile
from graphfuse.symbolic import (
    INF,
    Atom,
    Call,
    Dim,
    Expr,
    bounds,
    ceildiv,
    exact_div,
    floordiv,
    minimum,
    mod,
    product,
    substitute,
    sym,
    symbols,
)

OFFSET_BITS = 16
"""That all corners, and all taps, have together."""
MOST_STEP = 8
"""Of a tensor map (elementStrides of cuTensorMapEncodeIm2col)."""
_COMPARISONS: dict[OpDef, tuple[int, int]] = {
    block.ge: (1, 0), block.lt: (-1, -1), block.ELEMENTWISE["gt"]: (1, -1), block.ELEMENTWISE["le"]: (-1, 0),
}  # fmt: skip
"""`a ? b` as `sign * (a - b) + constant >= 0`."""
_QUOTIENTS = tuple(block.ELEMENTWISE[n] for n in ("floordiv", "truncdiv"))
_REMAINDERS = tuple(block.ELEMENTWISE[n] for n in ("floormod", "truncmod"))


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
    """Tiles of integers as polynomials of the row number, the column, and the scalars' leaves.

    A tile of rank 1 runs along what it is reshaped to: rows (`lane`) or columns. Arithmetic in less than 64 bits counts
    where it is promised not to wrap.
    """

    def __init__(self, scalars: Scalars) -> None:
        self.scalars = scalars
        self.lane, self.column, self.row = (_free(name, scalars) for name in ("lane", "column", "row"))
        self.first: Dim | None = None
        """The number of the tile's first row."""
        self._known: dict[tuple[Value, str], Dim | None] = {}

    def dim(self, value: Value, along: str = "") -> Dim | None:
        """The polynomial of a tile or scalar of integers; None if it is none."""
        if not isinstance(value.type, Tile) and value.type == I64:
            return self.scalars.dim(value)
        if (value, along) not in self._known:
            self._known[value, along] = self._compute(value, along)
        return self._known[value, along]

    def _compute(self, value: Value, along: str) -> Dim | None:
        op = value.op
        if op is None:
            return None
        if op.kind is block.const:
            return attr_int(op, "value")
        if op.kind in (block.splat, block.broadcast):
            return self.dim(op.operands[0], along)
        if op.kind is block.arange:
            return sym(along) + attr_int(op, "start") if along else None
        if op.kind is block.reshape:
            onto = self._onto(op)
            return self.dim(op.operands[0], onto) if onto else None
        if op.kind is block.index:
            names = attr_strs(op, "names") if "names" in op.attrs else ()
            operands = [self.dim(v, along) for v in op.operands]
            known = {n: d for n, d in zip(names, operands, strict=True) if d is not None}
            return self._numbered(substitute(attr_dim(op, "expr"), known)) if len(known) == len(names) else None
        return self._arithmetic(value, op, along)

    def _onto(self, op: Op) -> str:
        """What a tile of rank 1 runs along once it has two dims, one of them of one element."""
        source, target = op.operands[0].type, op.result.type
        assert isinstance(source, Tile)
        assert isinstance(target, Tile)
        if len(source.shape) != 1 or len(target.shape) != 2 or 1 not in target.shape:
            return ""
        return self.column if target.shape[0] == 1 else self.lane

    def _arithmetic(self, value: Value, op: Op, along: str) -> Dim | None:
        if op.kind is block.cast:
            return self._cast(op, along)
        if op.kind not in (block.add, block.sub, block.mul, *_QUOTIENTS, *_REMAINDERS):
            return None
        a, b = (self.dim(v, along) for v in op.operands)
        if a is None or b is None:
            return None
        if op.kind in _QUOTIENTS or op.kind in _REMAINDERS:
            return self._divided(value, op, a, b)
        if block.elem_of(value.type) != I64 and op.attrs.get("nsw", False) is not True:
            return None
        made = a + b if op.kind is block.add else a - b if op.kind is block.sub else a * b
        return self._numbered(made) if along == self.lane else made

    def _cast(self, op: Op, along: str) -> Dim | None:
        """One that keeps the number: to more bits, or of what fits."""
        source, elem = (block.elem_of(v.type) for v in (op.operands[0], op.result))
        if not (source.is_integer and elem.is_integer and source.is_signed and elem.is_signed):
            return None
        found = self.dim(op.operands[0], along)
        if found is None or elem.bits >= source.bits:
            return found
        low, high = bounds(found, self._ranges)
        return found if low >= -(1 << elem.bits - 1) and high < 1 << elem.bits - 1 else None

    def _divided(self, value: Value, op: Op, a: Dim, b: Dim) -> Dim | None:
        """Of what is not below 0, by what is positive: then it does not matter what is rounded to."""
        if bounds(a, self._ranges)[0] < 0 or bounds(b, self._ranges)[0] < 1:
            return None
        if op.kind in _REMAINDERS:
            return _remainder(a, b)
        end = self.scalars.ends.get(a)
        most = exact_div(end, b) if end is not None else None
        if isinstance(most, int) and not isinstance(value.type, Tile):  # bounds know nothing of the end of a loop
            return self.scalars.leaf(value, "tap", 0, most - 1)
        return _quotient(a, b)

    @property
    def _ranges(self) -> dict[str, tuple[int, int]]:
        least = 0 if self.first is None else int(bounds(self.first, self.scalars.ranges)[0])
        return {**self.scalars.ranges, self.lane: (0, INF), self.column: (0, INF), self.row: (least, INF)}

    def _numbered(self, dim: Dim) -> Dim:
        """A lane of rows plus a scalar is the row number: one name, for all its digits to be of."""
        first = dim - sym(self.lane)
        if not symbols(first).isdisjoint((self.lane, self.column, self.row)) or self.first not in (None, first):
            return dim
        if self.lane not in symbols(dim):
            return dim
        self.first = first
        return sym(self.row)

    def conditions(self, value: Value, along: str = "") -> list[Dim] | None:
        """Polynomials that are all at least 0 where a tile of bools is true; None if it is something else."""
        op = value.op
        if op is None:
            return None
        if op.kind in (block.broadcast, block.splat):
            return self.conditions(op.operands[0], along)
        if op.kind is block.reshape:
            onto = self._onto(op)
            return self.conditions(op.operands[0], onto) if onto else None
        if op.kind is block.and_:
            a, b = (self.conditions(v, along) for v in op.operands)
            return None if a is None or b is None else a + b
        if op.kind in _COMPARISONS:
            a, b = (self.dim(v, along) for v in op.operands)
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
        is_large = high >= MAX_EXTENT and not self.scalars.trusts
        if bounds(offset, self.ranges)[0] < 0 or low < 0 or is_large or not self._is_fixed(extent):
            return None
        bits = OFFSET_BITS // (rank - 2)
        corners: list[tuple[int, int]] = []
        for axis in inner:
            last = axis.upper
            if not isinstance(last, int):
                return None
            if bounds(axis.tap, self.ranges)[1] >= 1 << bits:
                return None
            if any(not -(1 << bits - 1) <= c < 1 << bits - 1 for c in (axis.lower, last)):
                return None
            corners.append((axis.lower, last))
        numbers = (*(a.stride for a in axes), offset, start)
        if any(self.scalars.divisor(d) * self.elem_bytes % ALIGNMENT for d in numbers):
            return None
        if any(is_backward(a.stride, self.scalars) for a in axes):
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
        first = minimum(self.first, MAX_EXTENT - 2) if self.scalars.trusts else self.first  # a division of 32 bits
        digit = floordiv(first, axis.digit.divisor)
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
        most = bounds(rows, self.ranges)[1]
        if least < 0 or outermost is None or (most >= MAX_EXTENT and not self.scalars.trusts):
            return None
        self.ranges[self.tiles.row] = (0, int(min(most, MAX_EXTENT)) - 1)
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


def _quotient(a: Dim, b: Dim) -> Dim:
    """`a // b`, where it is a digit of a number as that: `n mod (p*q) // q` is `n // q mod p`."""
    inner = _call_of(a) if isinstance(a, Expr) else None
    if inner is not None and inner.fn == "floordiv":
        return floordiv(inner.args[0], inner.args[1] * b)
    if inner is not None and inner.fn == "mod" and (left := exact_div(inner.args[1], b)) is not None:
        return mod(_quotient(inner.args[0], b), left)
    return floordiv(a, b)


def _remainder(a: Dim, b: Dim) -> Dim:
    """`a mod b`: of a remainder by a multiple of `b` as of the number itself."""
    inner = _call_of(a) if isinstance(a, Expr) else None
    is_digit = inner is not None and inner.fn == "mod" and exact_div(inner.args[1], b) is not None
    return mod(inner.args[0] if inner is not None and is_digit else a, b)


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

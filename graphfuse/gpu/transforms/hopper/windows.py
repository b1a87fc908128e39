"""Reads a masked gather as windows of a tensor: a tile that TMA copies in im2col mode.

Rows of the tile are positions of a filter, flat; columns are neighbours in memory. With the row number
`row = first + lane`, the digits `image = row // (P * Q)`, `p = row // Q mod P`, `q = row mod Q`, and numbers of the
whole tile r, s, c (a tap, a channel), this is

    at = image * A + (p * sp + r) * B + (q * sq + s) * C + c + column
    x = load(pointer, at, m);  select(m, x, 0)         m: 0 <= p * sp + r < H and 0 <= q * sq + s < W and row < rows

which `dialects.boxes` takes apart further.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.dialects import block
from graphfuse.dialects.boxes import MAX_EXTENT, NO_PADDING, Box, Digit, Unboxed, Windows
from graphfuse.gpu.transforms.hopper.affine import ARITHMETIC, Scalars, atoms_of, call_of, copied
from graphfuse.gpu.transforms.hopper.match import is_zero
from graphfuse.ir.core import Op, OpDef, Value, attr_dim, attr_int, attr_number, attr_strs, tile_of
from graphfuse.ir.types import I64, Tile
from graphfuse.symbolic import INF, Dim, bounds, ceildiv, exact_div, floordiv, mod, substitute, sym, symbols

_COMPARISONS: dict[OpDef, tuple[int, int]] = {
    block.ge: (1, 0), block.lt: (-1, -1), block.ELEMENTWISE["gt"]: (1, -1), block.ELEMENTWISE["le"]: (-1, 0),
}  # fmt: skip
"""`a ? b` as `sign * (a - b) + constant >= 0`."""
_SUMS = block.add, block.sub, block.mul
_QUOTIENTS = tuple(block.ELEMENTWISE[n] for n in ("floordiv", "truncdiv"))
_REMAINDERS = tuple(block.ELEMENTWISE[n] for n in ("floormod", "truncmod"))


NO_DIGITS = "rows are no digits of one number"


def find_windows(value: Value, scalars: Scalars) -> tuple[Value, Box]:
    """The pointer, and the box in im2col mode that a gathered tile is; raises `Unboxed`."""
    tiles, type_ = _Tiles(scalars), tile_of(value)
    conditions: list[Dim] = []
    op = value.op
    while op is not None and op.kind is block.select:
        condition, value, other = op.operands
        conditions += tiles.conditions(condition)
        if not is_zero(other):
            raise Unboxed("what it leaves out is not 0")
        op = value.op
    if op is None or op.kind is not block.load or ("other" in op.attrs and attr_number(op, "other") != 0):
        raise Unboxed("it is computed")
    pointer, offsets, *mask = op.operands
    conditions += tiles.conditions(mask[0]) if mask else []
    at = tiles.dim(offsets)
    if at is None or tiles.first is None or len(type_.shape) != 2:
        raise Unboxed("its rows are no positions of an image")
    lanes = {tiles.lane: sym(tiles.row) - tiles.first}
    every = dict.fromkeys(substitute(c, lanes) for c in conditions)
    return pointer, copied(_windows(tiles, type_, substitute(at, lanes), list(every)).box(), pointer, scalars)


def _windows(tiles: _Tiles, tile: Tile, at: Dim, conditions: Sequence[Dim]) -> Windows:
    """What conditions and offset say: how many rows and columns there are, and the digits of a row's number."""
    scalars, first = tiles.scalars, tiles.first
    assert first is not None
    row, column = sym(tiles.row), sym(tiles.column)
    lanes = {tiles.lane, tiles.column, tiles.row}
    ranges = {**scalars.ranges, tiles.column: (0, tile.shape[-1] - 1)}
    rows, columns, rest = set[Dim](), set[Dim](), list[Dim]()
    for c in conditions:
        if tiles.column in symbols(c):
            columns.add(c + column + 1)
        elif symbols(c + row).isdisjoint(lanes) and not scalars.varies(c + row):
            rows.add(c + row + 1)
        else:
            rest.append(c)
    if max(len(rows), len(columns)) > 1 or any(not symbols(c).isdisjoint(lanes) for c in columns):
        raise Unboxed(NO_PADDING)
    atoms = _digits(at, tiles.row)
    *_, (_, divisor, _) = atoms
    least, high = bounds(first, ranges)
    # without a limit all rows of every tile exist: then so many are none too few
    count = rows.pop() if rows else ceildiv(int(high) + tile.shape[0], divisor) * divisor
    outermost, most = exact_div(count, divisor), bounds(count, ranges)[1]
    if least < 0 or outermost is None or (most >= MAX_EXTENT and not scalars.trusts):
        raise Unboxed("its rows are no whole images")
    ranges[tiles.row] = (0, int(min(most, MAX_EXTENT)) - 1)
    digits = [Digit(atom, by, outermost if extent is None else extent) for atom, by, extent in atoms]
    limit, width = (columns.pop(), 1) if columns else (None, tile.shape[1])
    return Windows(scalars, at - column, digits, rest, first, ranges, lanes, 0, limit, width)


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
            names = attr_strs(op, "names", ())
            operands = [self.dim(v, along) for v in op.operands]
            known = {n: d for n, d in zip(names, operands, strict=True) if d is not None}
            return self._numbered(substitute(attr_dim(op, "expr"), known)) if len(known) == len(names) else None
        return self._arithmetic(value, op, along)

    def _onto(self, op: Op) -> str:
        """What a tile of rank 1 runs along once it has two dims, one of them of one element."""
        source, target = tile_of(op.operands[0]).shape, tile_of(op.result).shape
        if len(source) != 1 or len(target) != 2 or 1 not in target:
            return ""
        return self.column if target[0] == 1 else self.lane

    def _arithmetic(self, value: Value, op: Op, along: str) -> Dim | None:
        if op.kind is block.cast:
            return self._cast(op, along)
        if op.kind not in (*_SUMS, *_QUOTIENTS, *_REMAINDERS):
            return None
        a, b = (self.dim(v, along) for v in op.operands)
        if a is None or b is None:
            return None
        if op.kind in _QUOTIENTS or op.kind in _REMAINDERS:
            return self._divided(value, op, a, b)
        if block.elem_of(value.type) != I64 and op.attrs.get("nsw", False) is not True:
            return None
        made = ARITHMETIC[op.kind](a, b)
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

    def conditions(self, value: Value, along: str = "") -> list[Dim]:
        """Polynomials that are all at least 0 where a tile of bools is true; `Unboxed` if it is something else."""
        op = value.op
        if op is not None and op.kind in (block.broadcast, block.splat):
            return self.conditions(op.operands[0], along)
        if op is not None and op.kind is block.reshape and (onto := self._onto(op)):
            return self.conditions(op.operands[0], onto)
        if op is not None and op.kind is block.and_:
            return [c for v in op.operands for c in self.conditions(v, along)]
        if op is not None and op.kind in _COMPARISONS:
            a, b = (self.dim(v, along) for v in op.operands)
            sign, constant = _COMPARISONS[op.kind]
            if a is not None and b is not None:
                return [(a - b) * sign + constant]
        raise Unboxed("what it leaves out is decided by no comparison of indices")


_Atom = tuple[Dim, Dim, Dim | None]
"""A digit as it is written, its divisor, and its extent; None of the outermost one."""


def _digits(at: Dim, row: str) -> list[_Atom]:
    """The digits of the row number that an offset is made of, innermost first."""
    found: dict[Dim, _Atom] = {}
    for atom in atoms_of(at):
        if row in symbols(atom):
            digit = _digit(atom, row)
            found[digit[1]] = digit
    out: list[_Atom] = []
    divisor: Dim | None = 1
    while divisor is not None and (digit := found.pop(divisor, None)) is not None:
        out.append(digit)
        divisor = None if digit[2] is None else divisor * digit[2]
    if divisor is not None or found:
        raise Unboxed(NO_DIGITS)
    return out


def _digit(atom: Dim, row: str) -> _Atom:
    """`row // d mod n`, `row mod n`, `row // d`."""
    number, call = sym(row), call_of(atom)
    if call.fn in ("floordiv", "mod"):
        a, b = call.args
        if a == number:
            return (atom, b, None) if call.fn == "floordiv" else (atom, 1, b)
        inner = call_of(a)
        if call.fn == "mod" and inner.fn == "floordiv" and inner.args[0] == number:
            return atom, inner.args[1], b
    raise Unboxed(NO_DIGITS)


def _quotient(a: Dim, b: Dim) -> Dim:
    """`a // b`, where it is a digit of a number as that: `n mod (p*q) // q` is `n // q mod p`."""
    inner = call_of(a)
    if inner.fn == "floordiv":
        return floordiv(inner.args[0], inner.args[1] * b)
    if inner.fn == "mod" and (left := exact_div(inner.args[1], b)) is not None:
        return mod(_quotient(inner.args[0], b), left)
    return floordiv(a, b)


def _remainder(a: Dim, b: Dim) -> Dim:
    """`a mod b`: of a remainder by a multiple of `b` as of the number itself."""
    inner = call_of(a)
    return mod(inner.args[0] if inner.fn == "mod" and exact_div(inner.args[1], b) is not None else a, b)


def _free(name: str, scalars: Scalars) -> str:
    """A name that stands for nothing yet."""
    while scalars.is_taken(name):
        name += "_"
    return name

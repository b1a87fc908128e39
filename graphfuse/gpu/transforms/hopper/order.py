"""The order of programs of a grid of rows and columns of tiles: groups of rows, one after another.

Programs that run at the same time read `GROUP` rows of tiles and some columns, so each is read by several of them from
the second-level cache. In the order of a grid's numbers they read all rows, or one. Which program has which number is
nobody's business: programs come in no order. A grid of one axis is divided by hand, and its order is the source's.
"""

from __future__ import annotations

from graphfuse.dialects import block
from graphfuse.dialects.block import MOST_PROGRAMS
from graphfuse.gpu.transforms.hopper.affine import Scalars, atoms_of
from graphfuse.gpu.transforms.hopper.match import Operand, Product
from graphfuse.ir.core import Builder, Func, Value, dims_of
from graphfuse.symbolic import Dim, Expr, floordiv, maximum, minimum, mod, sym, symbols

GROUP = 8
"""Rows of tiles. 4096^3 and 8192^3 by 128x128 and 128x256: of 8 and 16 the one is better here, the other there."""
_NUMBER = "n"


def grouped(func: Func, product: Product, scalars: Scalars) -> Dim | None:
    """Of the program `n` the number of the one that takes its place; None where the order is not ours to choose."""
    if "axes" not in func.attrs or not isinstance(scalars.program, Expr):
        return None
    x, y, *_ = (*dims_of(func.attrs["axes"]), 1)
    n = scalars.program
    along = floordiv(n, x)
    places = mod(n, x), along if scalars.grid == x * y else mod(along, y)
    sides = [{a for o in _side(product, is_b=b) for a in _atoms(o, n)} for b in (False, True)]
    if sides not in ([{places[0]}, {places[1]}], [{places[1]}, {places[0]}]):
        return None
    if scalars.grid == x * y:
        return _order(sym(_NUMBER), x, y)
    plane = minimum(x * y, MOST_PROGRAMS)
    at = mod(sym(_NUMBER), plane)
    return sym(_NUMBER) - at + _order(at, x, y)


def _side(product: Product, *, is_b: bool) -> list[Operand]:
    numbers = {t.b if is_b else t.a for t in product.terms}
    return [product.operands[i] for i in numbers]


def _atoms(operand: Operand, program: Expr) -> list[Dim]:
    """What the tile's rows and columns in memory depend on of the program's number; not where its matrix begins."""
    atoms = (a for start in operand.box.start[-2:] for a in atoms_of(start))
    return [a for a in atoms if not symbols(program).isdisjoint(symbols(a))]


def _order(at: Dim, x: Dim, y: Dim) -> Dim:
    """`GROUP` along the first axis, all of the second, then the next group."""
    size = minimum(GROUP * y, MOST_PROGRAMS)  # with bounds: divisions are then of 32 bits
    first, at_group = floordiv(at, size) * GROUP, mod(at, size)
    rows = maximum(minimum(x - first, GROUP), 1)
    return first + mod(at_group, rows) + x * floordiv(at_group, rows)


def placed(b: Builder, order: Dim | None, program: Value) -> Value:
    """The number of the program that is made as number `program`."""
    if order is None:
        return program
    return b(block.index, program, expr=minimum(order, MOST_PROGRAMS - 1), names=(_NUMBER,), hint="placed")

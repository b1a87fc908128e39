"""Tiles made by two blocks of a cluster: each has half of the rows (or columns), and both need the other operand.

Of that one each block loads half, to the shared memory of both. So less comes from the cache: of a tile 256x256 by two
blocks two thirds. A buffer is empty again when the consumers of all blocks have read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from graphfuse.gpu.transforms.hopper.affine import Scalars
from graphfuse.gpu.transforms.hopper.epilogue import Declined
from graphfuse.gpu.transforms.hopper.match import Operand, Product
from graphfuse.ir.core import Func, Value
from graphfuse.ir.types import Tile
from graphfuse.symbolic import Dim

ALONE, TOGETHER = (1, 1), ((2, 1), (1, 2))
EIGHT = 8
"""Rows that the pattern of a swizzle repeats after: what a block loads is a multiple."""


@dataclass(frozen=True, slots=True)
class Share:
    """Blocks along the rows and the columns of a tile; `origin` is where this block's part begins."""

    rows: int = 1
    columns: int = 1
    origin: tuple[Dim, Dim] = (0, 0)
    rank: str = ""
    """The name of the block's number in polynomials."""

    @property
    def blocks(self) -> int:
        """Of a cluster."""
        return self.rows * self.columns

    def parts(self, product: Product, operand: int) -> int:
        """How many blocks load a part each of an operand, to all of them."""
        is_b = any(t.b == operand for t in product.terms)
        return self.rows if is_b else self.columns


def choices(func: Func, shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Blocks along rows and columns of a tile, the best first: what `share` says, or what `ctas` leaves open.

    Who wrote `ctas = 2` asked for two; and a large tile one block by itself has no room for.
    """
    if "share" in func.attrs:
        for blocks in (ALONE, *TOGETHER):
            if func.attrs["share"] == blocks:
                yield blocks
        return
    longer_first = TOGETHER if shape[0] >= shape[1] else TOGETHER[::-1]
    yield from (*longer_first, ALONE) if func.attrs.get("ctas") == 2 else (ALONE, *longer_first)


def shared(rank: Value, blocks: tuple[int, int], product: Product, scalars: Scalars) -> tuple[Share, Product]:
    """The product that one block makes."""
    if any(o.box.im2col for o in product.operands):
        raise Declined("windows shared by blocks")
    number = scalars.leaf(rank, "rank", 0, max(blocks) - 1)
    size = tuple(n // by for n, by in zip(product.acc.shape, blocks, strict=True))
    if any(n % by for n, by in zip(product.acc.shape, blocks, strict=True)):
        raise Declined(f"half of a tile of {product.acc.shape}")
    rows, columns = (number * n if by > 1 else 0 for n, by in zip(size, blocks, strict=True))
    share = Share(*blocks, (rows, columns), str(number))
    acc = Tile(size, product.acc.elem)
    operands = tuple(_part(share, product, i) for i in range(len(product.operands)))
    return share, replace(product, operands=operands, acc=acc)


def _part(share: Share, product: Product, number: int) -> Operand:
    operand = product.operands[number]
    is_b = any(t.b == number for t in product.terms)
    by, start = (share.columns, share.origin[1]) if is_b else (share.rows, share.origin[0])
    if by == 1:
        if operand.shape[0] % (EIGHT * share.blocks):
            raise Declined(f"half of a box of {operand.shape[0]} rows")
        return operand
    along = (1 if is_b else 0) ^ operand.transposed
    shape, at = list(operand.shape), list(operand.box.start)
    shape[along] //= by
    at[along - 2] = at[along - 2] + start
    return replace(operand, shape=(shape[0], shape[1]), box=replace(operand.box, start=tuple(at)))

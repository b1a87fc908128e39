"""What a product of matrices of halves costs as its operands lie in memory.

TMA reads rows that begin at multiples of 16 bytes, and whole sectors much faster. Where an operand's rows do not, such
as columns of 4097 halves, `mma.sync` makes the product and every element is loaded by itself: large products take twice
as long. A copy that moves the rows apart costs a launch and the way of the operand through memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphfuse.blockgen.gpu_contraction import GpuContraction
from graphfuse.blockgen.gpu_packed_tiles import FEW_ROWS, PackedTiles
from graphfuse.blockgen.gpu_tiles import SECTOR_BYTES
from graphfuse.blockgen.gpu_wgmma_tile import GAIN, Product, microseconds, wgmma_tile
from graphfuse.blockgen.kernel import Kernel, element_of
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.products import product_of
from graphfuse.dialects import control, graph
from graphfuse.dialects.boxes import Unboxed
from graphfuse.ir.core import Block, Op, Params, Trait, Value, remade
from graphfuse.ir.types import BF16, F16
from graphfuse.symbolic import Ranges, bounds, product, typical
from graphfuse.targets.machine import Machine


@dataclass(frozen=True, slots=True)
class ProductCosts:
    """Costs of products whose operands are views of memory: `fusion.products.align_rows.Costs`."""

    machine: Machine
    ranges: Ranges
    gain: ClassVar[float] = GAIN

    def stays(self, op: Op) -> bool:
        """Whether rows further apart are of no use: tensor cores are fed as it is, or cannot be."""
        if not self.machine.has_wgmma:
            return True
        elems = {element_of(v) for v in op.operands}
        if len(elems) > 1 or not elems <= {F16, BF16}:
            return True
        kernel = self._kernel(op)
        if not kernel.is_of_matrices:
            return True
        return bool(kernel.feed().boxes)

    def us(self, op: Op) -> float:
        """Microseconds of a product, and of the copies that it reads: pads of what is not known."""
        kernel = self._kernel(op)
        feed = kernel.feed()
        made = kernel.described(feed)
        if feed.boxes:
            total = microseconds(wgmma_tile(self.machine, made), self.machine, made)
        else:
            total = _loads_us(self.machine, made, element_of(op.operands[0]).bytes, by_vectors=feed.by_vectors)
        costs = self.machine.gpu.memory
        # in order: of ways that take the same time the first is chosen, and a sum in another order is another time
        pads = dict.fromkeys(v.op for v in _roots(op) if v.op is not None and v.op.kind is graph.pad)
        for (x,) in (pad.operands for pad in pads):
            if (made_by := _root(x).op) is None or made_by.kind is not graph.constant:
                moved = 2 * element_of(x).bytes * typical(product(shape_of(x)), self.ranges)
                total += costs.launch_us + moved / costs.bytes_per_us
        return total

    def scattered(self, op: Op) -> int | None:
        """The operand that a product of a row loads by elements, and takes longer to than a copy of it would.

        Each of the results loads all of it, an element of a sector at a time; a copy loads it so once.
        """
        sizes = [typical(product(shape_of(v)), self.ranges) for v in op.operands]
        side = sizes.index(min(sizes))
        x, costs = op.operands[side], self.machine.gpu.memory
        copied = costs.launch_us * costs.bytes_per_us + (SECTOR_BYTES + element_of(x).bytes) * sizes[side]
        if x.op is None or not x.op.has(Trait.MOVEMENT) or copied >= SECTOR_BYTES * max(sizes):
            return None
        kernel = self._kernel(op)
        return None if kernel.is_of_matrices or not kernel.is_apart_along_k() else side

    def is_apart(self, op: Op) -> bool:
        """Whether x of a product by codes is halves of many rows, and memory that warpgroups do not copy as it lies."""
        x, *_ = op.operands
        rows = bounds(product(shape_of(x)[:-1]), self.ranges)[0]
        if not self.machine.has_wgmma or rows <= FEW_ROWS or element_of(x) not in (F16, BF16):
            return False
        try:
            PackedTiles(*self._alone(op))
        except Unboxed:
            return True
        return False

    def _kernel(self, op: Op) -> GpuContraction:
        kernel, alone = self._alone(op)
        return GpuContraction(kernel, product_of(alone))

    def _alone(self, op: Op) -> tuple[Kernel, Op]:
        """The kernel of the product alone, whose operands are where they begin as views, and the product in it."""
        roots = tuple(dict.fromkeys(_roots(op)))
        params = Params(tuple(v.type for v in roots))
        made: dict[Value, Value] = dict(zip(roots, params.values, strict=True))
        ops: list[Op] = []

        def again(v: Value) -> Value:
            if v not in made:
                assert v.op is not None
                ops.append(remade(v.op, *map(again, v.op.operands)))
                made[v] = ops[-1].result
            return made[v]

        alone = remade(op, *map(again, op.operands))
        body = Block(params, (*ops, alone, control.yield_(alone.result)))
        region = graph.region(*roots, kernel="product", kind="contraction", bodies=(body,))
        return Kernel(region, "product", self.ranges, self.machine), alone


def _loads_us(machine: Machine, p: Product, elem_bytes: int, *, by_vectors: bool) -> float:
    """About how long a product by `mma.sync` takes whose operands are loaded element by element, or by vectors."""
    costs = machine.gpu.uncopied

    def us(rows: int, columns: int, step: float) -> float:
        waves = -(-(-(-p.m // rows) * -(-p.n // columns) * p.batch) // machine.multiprocessors)
        return waves * -(-p.k_bytes // (costs.step * elem_bytes)) * step

    if by_vectors:
        return costs.start_us + us(*costs.vectors, costs.vectors_us)
    return costs.start_us + min(us(side, side, step) for side, step in costs.step_us)


def _roots(op: Op) -> list[Value]:
    """The memory that a product reads; a convolution reads its image through the zeros around it."""
    image, *others = op.operands
    if op.kind is graph.conv:
        image = graph.unpadded(image)
    return [_root(v) for v in (image, *others)]


def _root(value: Value) -> Value:
    """The memory that a value is a view of."""
    while (
        (op := value.op) is not None and op.has(Trait.MOVEMENT) and len(op.operands) == 1 and op.kind is not graph.pad
    ):
        value = op.operands[0]
    return value

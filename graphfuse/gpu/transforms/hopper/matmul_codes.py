"""Products with codes of few bits: what words are loaded is widened in registers, of which `wgmma` takes it.

    wait for a slot; words = load; halves = widen; wait for the product before; begin the product; and again

So one line of codes is widened while another is multiplied by. Registers that `wgmma` reads may not be written before
it has ended: those of the lines of a step are others, and none is carried around the loop, for which `ptxas` would
make each product wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphfuse.dialects import block, gpu
from graphfuse.gpu.transforms import code_layouts
from graphfuse.gpu.transforms.hopper.affine import Scalars
from graphfuse.gpu.transforms.hopper.epilogue import Clones, Declined
from graphfuse.gpu.transforms.hopper.match import Product, Term
from graphfuse.gpu.transforms.hopper.matmul import MatmulRoles, Sums
from graphfuse.gpu.transforms.hopper.share import ALONE
from graphfuse.ir.core import Builder, Func, Value, remade, tile_of
from graphfuse.ir.layout import LinearLayout
from graphfuse.ir.types import BOOL


class CodeRoles(MatmulRoles):
    """The roles where every left factor is of codes."""

    every_warp = True

    def __init__(self, func: Func, scalars: Scalars, product: Product, blocks: tuple[int, int]) -> None:
        if blocks != ALONE:
            raise Declined("codes that blocks share")
        super().__init__(func, scalars, product, blocks)

    @property
    def part_rows(self) -> int:
        """All: a thread's rows lie side by side."""
        return self.whole.shape[0]

    def _layout(self, rows: int, columns: int) -> LinearLayout:
        return code_layouts.of_products(rows, columns, 4 * self.config.warpgroups)

    def producers(self) -> Sequence[Callable[[Clones, Value], None]]:
        """Codes are known, and copied before the wait for earlier launches; what they are multiplied by is not.

        Where roles are given registers, four warps must have one.
        """
        if self.config.registers:
            return super().producers()
        p = self.product
        others = [i for i in range(len(p.operands)) if i not in p.codes]

        def role(which: Sequence[int]) -> Callable[[Clones, Value], None]:
            return lambda clones, group: self._fill(clones, group, (self.zero(clones.builder),), which)

        return role(p.codes), role(others)

    def _summed(self, clones: Clones, slot: Value, ends: tuple[Value, Value]) -> Sums:
        """Codes are widened while those before them are multiplied by, in other registers."""
        ring, (first, *_) = self.ring, self.product.terms

        def step(inner: Clones, counter: Value, carried: Sequence[Value]) -> Sequence[Value]:
            slot, last, acc = carried
            b = inner.builder
            again = b(block.lt, ends[0], counter)
            ring.wait(b, slot)
            for term in self.product.terms:
                words = self._widened(b, slot, term)
                b.op(gpu.wgmma_wait, pending=0)
                if term is first:
                    self._hand_back(b, last, again)
                keep = again if term is first else b(block.const, value=True, elem=BOOL)
                operands = [words, ring.buffers[term.b], slot, acc, keep]
                transposed = self.product.is_transposed(term.b)
                acc = b.append(gpu.wgmma.build(operands, {"transpose_b": transposed})).result
            return [ring.next(b, slot), slot, acc]

        slot, last, acc = self._steps(clones, [slot, slot, *self._undefined(clones.builder)], step, ends)
        return slot, [acc], last

    def _widened(self, b: Builder, slot: Value, term: Term) -> Value:
        """The codes of a slot, as words of halves."""
        op, warps = term.coded, 4 * self.config.warpgroups
        assert op is not None, "there are codes"
        blocks, rows = tile_of(op.operands[1]).shape
        of_numbers = code_layouts.of_numbers(rows, blocks, warps)
        layouts = [code_layouts.of_lines(rows, warps), *(of_numbers for _ in op.operands[1:])]
        every = zip(term.codes, layouts, strict=True)
        tiles = [b(gpu.load_shared, self.ring.buffers[i], slot, layout=layout) for i, layout in every]
        factor = tile_of(op.result)
        made = b.append(remade(op, *tiles, layout=self._layout(*factor.shape))).result
        return b(gpu.pack, made, elem=factor.elem)

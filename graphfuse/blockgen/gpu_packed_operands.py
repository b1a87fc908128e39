"""What `graph.contract_packed` of a GPU multiplies."""

from __future__ import annotations

from graphfuse.blockgen.index import Index, reshape_index
from graphfuse.blockgen.kernel import Kernel
from graphfuse.blockgen.movement import shape_of
from graphfuse.blockgen.products import Product
from graphfuse.dialects import graph
from graphfuse.ir.core import Op, attr_int, tensor_of
from graphfuse.symbolic import Dim, product, static


class PackedOperands:
    """Rows of x, and a matrix of codes in lines, with its scales and perhaps zero points (`numbers`)."""

    def __init__(self, kernel: Kernel, op: Op) -> None:
        self.kernel, self.ev, self.result = kernel, kernel.ev, op.result
        self.x, self.codes, *self.numbers = op.operands
        *self.lead, depth = shape_of(self.x)
        self.rows, self.depth = product(self.lead), static(depth)
        self.panels, self.words, self.width = graph.panels_of(tensor_of(self.codes))
        """Panels, words of a column, and columns of a panel."""
        self.bits, self.columns = attr_int(op, "bits", 0), attr_int(op, "columns", 0)
        self.zero, self.scales = attr_int(op, "zero", 0), static(shape_of(self.numbers[0])[0])

    def work(self, *lead: Dim) -> Product:
        """The product, its rows having such dims."""
        return Product(
            self.result, self.x, self.codes, (*lead, self.columns), (self.depth,),
            lambda o, k: reshape_index((*o[:-1], *k), (*lead, self.depth), shape_of(self.x), self.kernel.space),
            lambda o, k: (*k, o[-1]),
        )  # fmt: skip

    def row_at(self, row: Dim, k: Dim) -> Index:
        """The index in x of a row's element k."""
        return self.work(self.rows).lhs_at((row, 0), (k,))

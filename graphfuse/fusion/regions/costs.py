"""What kernels cost, as far as it differs between ways to cut a graph: launches, bytes, and what is computed again.

A machine has the prices (`targets.machine.KernelCosts`). Dims of which only a range is known are taken to be typical.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphfuse.dialects import graph
from graphfuse.fusion.regions.dataflow import Dataflow
from graphfuse.fusion.regions.group import Group
from graphfuse.fusion.regions.traffic import passed
from graphfuse.ir.core import Op, Value
from graphfuse.ir.types import Tensor
from graphfuse.symbolic import Dim, Ranges, evaluate, product, sym, symbols, typical
from graphfuse.targets.machine import KernelCosts

LINE = 32
"""Rows side by side in memory that a program has at once, where rows are not contiguous."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that a kernel reads of each value, and writes."""

    reads: Mapping[Value, int]
    writes: Mapping[Value, int]


class Costs:
    """The costs of groups of ops of one block."""

    def __init__(self, flow: Dataflow, prices: KernelCosts, ranges: Ranges) -> None:
        self.flow, self.prices, self.ranges = flow, prices, ranges
        self._nbytes: dict[Value, int] = {}
        self._elements: dict[tuple[Dim, ...], int] = {}

    def elements(self, dims: tuple[Dim, ...]) -> int:
        """How many there are, typically: the same number whichever dims are merged."""
        if dims not in self._elements:
            size = product(dims)
            self._elements[dims] = evaluate(size, {name: typical(sym(name), self.ranges) for name in symbols(size)})
        return self._elements[dims]

    def nbytes(self, value: Value) -> int:
        """Bytes of a value, typically."""
        if value not in self._nbytes:
            t = value.type
            self._nbytes[value] = self.elements(t.shape) * t.elem.bytes if isinstance(t, Tensor) else 0
        return self._nbytes[value]

    def traffic(self, ops: Sequence[Op]) -> Traffic:
        """Of a kernel of some ops."""
        inside = set(ops)
        reads: dict[Value, int] = {}
        for op in ops:
            for source, ways in passed(self.flow, op):
                if source.op not in inside:
                    reads[source] = min(reads.get(source, 0) + min(map(self.nbytes, ways)), self.nbytes(source))
        return Traffic(reads, self._writes((r for op in ops for r in op.results), inside))

    def together(self, first: Traffic, second: Traffic, inside: Collection[Op]) -> Traffic:
        """Of the ops of two kernels, all of which are `inside`, in one: `second` may read what `first` computes."""
        reads = dict(first.reads)
        for v, n in second.reads.items():
            if v.op not in inside:
                reads[v] = min(reads[v] + n, self.nbytes(v)) if v in reads else n
        return Traffic(reads, self._writes((*first.writes, *second.writes), inside))

    def _writes(self, values: Iterable[Value], inside: Collection[Op]) -> dict[Value, int]:
        readers = self.flow.readers
        return {v: self.nbytes(v) for v in values if any(reader not in inside for reader in readers(v))}

    def moved(self, group: Group, traffic: Traffic) -> int:
        """Bytes from and to memory: each pass over rows that are too long to be held reads them again."""
        moved = sum(traffic.reads.values()) + sum(traffic.writes.values())
        if group.kind == "reduction":
            rows, types = self.elements(group.rows), [v.type for v in traffic.reads]
            along = (t.elem.bytes for t in types if isinstance(t, Tensor) and self.elements(t.shape) != rows)
            wide = max(along, default=1)
            beside = 1 if len(group.domain) - 1 in group.axes else LINE
            if self.elements(group.row) * wide * beside > self.prices.row_bytes:
                whole = self.elements(group.domain)
                long = sum(n for n in traffic.reads.values() if n >= whole)
                moved += (self._passes(group.ops, whole, traffic) - 1) * long
        return moved

    def _passes(self, ops: Sequence[Op], whole: int, traffic: Traffic) -> int:
        """Over a row: reductions that wait for each other, and one for results as long as it is."""
        outputs = any(n >= whole for n in traffic.writes.values())
        depth: dict[Value, int] = {}
        for op in ops:
            before = max((depth.get(s, 0) for v in op.operands for s, _ in self.flow.sources(v)), default=0)
            depth.update(dict.fromkeys(op.results, before + (op.kind is graph.reduce)))
        return max(depth.values(), default=0) + outputs

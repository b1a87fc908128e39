"""Puts small kernels that do not wait for each other into one launch.

    %q = graph.region(%x, %a) {kernel = "contraction_0", kind = "contraction"} do (...) { ... } : tensor<2048xbf16>
    %k = graph.region(%x, %b) {kernel = "contraction_1", kind = "contraction"} do (...) { ... } : tensor<512xbf16>

becomes

    %q, %k = graph.region(%x, %a, %b) {kernel = "together_0", kind = "together"} do (%0, %1, %2) {
      %q = graph.region(%0, %1) {kernel = "part_0", kind = "contraction"} do (...) { ... } : tensor<2048xbf16>
      %k = graph.region(%0, %2) {kernel = "part_1", kind = "contraction"} do (...) { ... } : tensor<512xbf16>
      yield(%q, %k)
    } : tensor<2048xbf16>, tensor<512xbf16>

of which each program does what one program of either does (`blockgen.together`). A launch costs as much as megabytes of
memory do, and the last programs of one kernel leave multiprocessors to the first of the next.

Regions of the same depth, which is the most regions on a way from the parameters, do not wait for each other. What is
written in place or over an operand waits for all that reads that before. So no group waits for itself, nor do two for
each other.

Requires: regions. Ensures: the same values. Declines: a region that writes what another of its depth reads. Cost: one
walk, and what `groups` takes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import networkx as nx

from graphfuse.dialects import control, graph
from graphfuse.fusion.regions.dataflow import operands_inside, root_of
from graphfuse.fusion.regions.outline import Kernels
from graphfuse.fusion.regions.plan import over_pairs
from graphfuse.ir.core import Block, Builder, Func, Op, Params, Value, attr_ints
from graphfuse.ir.remake import Copier

Groups = Callable[[Sequence[Op]], Sequence[Sequence[Op]]]
"""Of regions that do not wait for each other: those that are better launched together, two or more each."""


def launched_together(func: Func, groups: Groups) -> Func:
    """Make one region of each of the `groups`, in a function and in the bodies of its loops."""
    return replace(func, body=_Joiner(groups).body(func.body, func.body.params))


class _Joiner(Copier):
    def __init__(self, groups: Groups) -> None:
        super().__init__()
        self.groups, self.kernels = groups, Kernels()
        self.members: dict[Op, list[Op]] = {}
        """Of a group, by the first of them, which stands for it."""

    def op(self, op: Op) -> None:
        """Loops have bodies of regions; those of regions stay."""
        if op in self.members:
            self._together(self.members[op])
        elif op.kind is graph.loop:
            self.copy(op)
        else:
            self._place(replace(op, operands=tuple(map(self.new, op.operands))), op.results)

    def body(self, body: Block, params: Params) -> Block:
        """A block with its groups, in an order that is as it was but for them."""
        ops = body.ops[:-1]
        waits, number = _waits(ops), {op: i for i, op in enumerate(ops)}
        groups = [sorted(map(number.__getitem__, g)) for each in _side_by_side(ops, waits) for g in self.groups(each)]
        if not groups:
            return super().body(body, params)
        self.members |= {ops[group[0]]: [ops[i] for i in group] for group in groups}
        first = {i: group[0] for group in groups for i in group}
        order: nx.DiGraph[int] = nx.DiGraph()
        order.add_nodes_from(first.get(i, i) for i in range(len(ops)))
        order.add_edges_from((first.get(j, j), first.get(i, i)) for i, before in enumerate(waits) for j in before)
        placed = (ops[i] for i in nx.lexicographical_topological_sort(order))
        return super().body(replace(body, ops=(*placed, body.terminator)), params)

    def _place(self, made: Op, olds: Sequence[Value]) -> None:
        self.values.update(zip(olds, self.builder.append(made).results, strict=True))

    def _together(self, regions: Sequence[Op]) -> None:
        """One region of several; results that are written in place come first, as a region has them."""
        operands = list(dict.fromkeys(v for op in regions for v in op.operands))
        params = Params(tuple(v.type for v in operands))
        inside = dict(zip(operands, params.values, strict=True))
        body = Builder()
        in_place: dict[Value, int] = {}
        others, over = list[Value](), dict[Value, int]()
        for i, op in enumerate(regions):
            attrs = {**op.attrs, "kernel": f"part_{i}"}
            part = body.append(replace(op, operands=tuple(inside[v] for v in op.operands), attrs=attrs))
            inside.update(zip(op.results, part.results, strict=True))
            numbers = attr_ints(op, "in_place", ())
            in_place.update((r, operands.index(op.operands[n])) for n, r in zip(numbers, op.results, strict=False))
            others += op.results[len(numbers) :]
            over.update((op.results[r], operands.index(op.operands[n])) for n, r in over_pairs(op))
        results = [*in_place, *others]
        body.append(control.yield_(*(inside[r] for r in results)))
        block = body.block(params)
        attrs: dict[str, Any] = {"in_place": tuple(in_place.values())} if in_place else {}
        attrs |= {"over": tuple((n, results.index(r)) for r, n in over.items())} if over else {}
        loc = next((op.loc for op in regions if op.loc), None)
        made = graph.region(
            *map(self.new, operands),
            kernel=self.kernels.name(graph.TOGETHER, block),
            kind=graph.TOGETHER,
            bodies=(block,),
            loc=loc,
            **attrs,
        )
        self._place(made, results)


def _waits(ops: Sequence[Op]) -> list[set[int]]:
    """For each op, the numbers of those that it comes after."""
    made = {r: i for i, op in enumerate(ops) for r in op.results}
    readers = defaultdict[Value, set[int]](set)
    waits: list[set[int]] = []
    for i, op in enumerate(ops):
        read = operands_inside(op)
        before = {made[v] for v in read if v in made}
        for v in _written(op):
            before |= readers[root_of(v)]
        waits.append(before)
        for v in read:
            readers[root_of(v)].add(i)
    return waits


def _written(op: Op) -> list[Value]:
    """The operands whose memory a region changes."""
    if op.kind is not graph.region:
        return []
    return [op.operands[n] for n in (*attr_ints(op, "in_place", ()), *(n for n, _ in over_pairs(op)))]


def _side_by_side(ops: Sequence[Op], waits: Sequence[set[int]]) -> Iterator[list[Op]]:
    """Regions of one depth each, none of which writes what another reads; only where they are several."""
    depths: list[int] = []
    levels = defaultdict[int, list[Op]](list)
    for op, before in zip(ops, waits, strict=True):
        works = op.kind in (graph.region, graph.loop)
        depths.append(works + max((depths[i] for i in before), default=0))
        if op.kind is graph.region:
            levels[depths[-1]].append(op)
    for regions in levels.values():
        read = Counter(root_of(v) for op in regions for v in op.operands)
        free = [op for op in regions if all(read[root_of(v)] == 1 for v in _written(op))]
        if len(free) > 1:
            yield free

"""Cuts a block into regions: which ops become one kernel.

Each op that does work is a group at first. Of all pairs that may be one kernel, the one that saves most becomes one,
until none saves anything (ADR 0019): `legality.py` says which may, each predicate giving a reason or None, `costs.py`
what that saves. Between pairs that save the same, the consumer that comes first in the block decides, then the producer
that comes last. One that would keep reductions of the same rows apart waits for all others; on a GPU, short kernels
side by side that save only a launch are last. The groups' graph stays acyclic. The ledger has what each step saves, and
why each edge left is a cut.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import networkx as nx

from graphfuse.dialects import graph
from graphfuse.fusion.regions.attention import find_attention
from graphfuse.fusion.regions.costs import Costs, Traffic
from graphfuse.fusion.regions.dataflow import IN_MEMORY, Dataflow, operands_inside
from graphfuse.fusion.regions.group import Group, axes_of, domain_of
from graphfuse.fusion.regions.legality import (
    MAX_OPS,
    form_of,
    is_reduction,
    is_simple,
    may_follow,
    products_of,
    why_not_absorb,
    why_not_follow,
    why_not_lead,
    why_not_share,
)
from graphfuse.fusion.regions.rules import ANY, Rules
from graphfuse.ir.core import Block, Op, Trait, Value, attr_dims, attr_int, tensor_of
from graphfuse.symbolic import product

MOST_BESIDE = 8
"""Kernels that a short one is tried to be made with."""
MOST_GATHERED = 8
"""Reductions in one kernel that have nothing in common but their size: each holds registers, and what it reads stays
until the last can begin. 24 gradients of biases took 255 registers and spilled (`benchmarks.population --spills`)."""
GATHERED_BYTES = 4 << 20
"""Of results of kernels that are one for their launches alone: all must be kept from where the first is read until the
last is. Slices for forty gradients of weights, in one kernel, took 232 MiB of a backward that needs 85."""
JOINED = 8
"""Tensors that one kernel joins at most, of which each position asks."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One line of the ledger: an edge fused or cut, and why. `begins` is the first op of the producing region."""

    producer: str
    consumer: str
    fused: bool
    reason: str
    saved_bytes: str = "0"
    begins: str = ""
    saved_ns: float = 0.0
    """Of an edge that is fused, as predicted."""


@dataclass
class Partition:
    """The groups of a block in an order in which they can run, and how that came about."""

    flow: Dataflow
    groups: list[Group]
    of: dict[Op, Group]
    ledger: list[Decision]


def partition(block: Block, rules: Rules = ANY) -> Partition:
    """Group the ops of a block; transparent ops and constants belong to no group."""
    flow = Dataflow(
        block, rules.reads_padded, rules.computes_places, most_repeated=rules.most_repeated if rules.fuse else 0
    )
    return _Partitioner(flow, rules).run()


@dataclass(frozen=True, slots=True)
class _Union:
    """Two groups that may be one kernel, `first` before `second`: what that would be, and what it saves.

    For the ledger: `host` takes the ops of the other, of which it names `by`.
    """

    first: Group
    second: Group
    group: Group
    traffic: Traffic
    host: Group
    by: Op
    saved: float


class _Partitioner:
    def __init__(self, flow: Dataflow, rules: Rules) -> None:
        self.flow = flow
        self.rules = rules
        self.costs = Costs(flow, rules.costs, rules.ranges)
        self.position = {op: i for i, op in enumerate(flow.block.ops)}
        self.of: dict[Op, Group] = {}
        self.done: list[_Union] = []
        self.names: dict[Group, str] = {}
        self.view: nx.DiGraph[Group] = nx.DiGraph()
        self.order: dict[Group, int] = {}
        """A topological order of the groups."""
        self.traffic: dict[Group, Traffic] = {}
        self.moved: dict[Group, int] = {}
        self.alike: defaultdict[object, list[Group]] = defaultdict(list)
        """Groups that may be made side by side, by what they have in common."""
        self.queue: list[tuple[float, int, int, int, _Union]] = []
        self.ties = itertools.count()
        self.absorbs = self.gathers = False
        self.products: dict[tuple[Op | bool, ...], float | str] = {}

    def run(self) -> Partition:
        for group in self._first_groups():
            self._add(group, self.costs.traffic(group.ops))
        for op, group in self.of.items():
            self.view.add_edges_from((p, group) for p in self._producers(op) if p is not group)
        # what an attention reduces may be read before its last op
        in_order = nx.lexicographical_topological_sort(self.view, key=self._end)
        self.order = {group: i for i, group in enumerate(in_order)}
        if self.rules.fuse:
            self._unite()
        groups = list(nx.lexicographical_topological_sort(self.view, key=_index))
        self.names = {g: f"{g.kind} {i}" for i, g in enumerate(groups)}
        ledger = [*map(self._fused, self.done), *self._cuts()] if self.rules.fuse else []
        return Partition(self.flow, groups, self.of, ledger)

    # groups

    def _first_groups(self) -> Iterator[Group]:
        """One for each op that does work, and for each attention."""
        found = find_attention(self.flow, on_gpu=self.flow.reads_padded) if self.rules.fuse else []
        attention = {a.output: {a.scores, *a.between, a.output} for a in found}
        inside = {op for a, ops in attention.items() for op in ops if op is not a}
        numbers = itertools.count()
        for op in self.flow.block.ops:
            if op.has(Trait.TERMINATOR) or op.kind in IN_MEMORY or op in inside or self.flow.is_transparent(op):
                continue
            ops, kind, axes = (op,), "pointwise", ()
            if op in attention:
                kind = "attention"
                members = sorted(attention[op], key=self.position.__getitem__)
                ops = tuple(o for o in members if not self.flow.is_transparent(o) or o is op)
            elif is_reduction(op):
                kind, axes = "reduction", axes_of(op)
            elif op.kind in CONTRACTIONS or is_plain_convolution(op):
                kind = "contraction"
            elif is_stacking(op) and self.rules.fuse and not self._is_joined_at_once(op):
                kind = "stack"
            domain = domain_of(op) if kind == "reduction" else tensor_of(op.results[0]).shape
            yield Group(next(numbers), SPECIAL.get(op.kind, kind), ops, domain, axes)

    def _is_joined_at_once(self, op: Op) -> bool:
        """Whether a concat is of elementwise work alone: other work writes its part."""
        if not self.rules.joins_at_once or len(op.operands) > JOINED:
            return False
        seen, stack = set[Op](), [op]
        while stack:
            read = {s.op for v in stack.pop().operands for s, _ in self.flow.sources(v) if s.op is not None} - seen
            if any(not o.has(Trait.ELEMENTWISE) and o.kind not in (graph.concat, graph.constant) for o in read):
                return False
            seen |= read
            stack += read
        return True

    def _add(self, group: Group, traffic: Traffic) -> None:
        self.view.add_node(group)
        self.traffic[group] = traffic
        self.moved[group] = self.costs.moved(group, traffic)
        self.of.update(dict.fromkeys(group.ops, group))

    def _producers(self, op: Op) -> Iterator[Group]:
        """The groups whose results `op` reads, through transparent ops."""
        for v in operands_inside(op):
            for source, _ in self.flow.sources(v):
                if source.op in self.of:
                    yield self.of[source.op]

    def _end(self, group: Group) -> int:
        return self.position[group.ops[-1]]

    # the queue

    def _unite(self) -> None:
        """Make groups one, the pair that saves most first."""
        # absorbed groups have another domain, which nothing else of theirs could join
        for phase in ("join", "absorb", *(["gather"] if self.rules.gathers else [])):
            self.absorbs, self.gathers = phase != "join", phase == "gather"
            self.alike.clear()
            for group in list(self.view):
                self._offer(group)
            while self.queue:
                saved, reader, producer, _, union = heapq.heappop(self.queue)
                if union.first not in self.view or union.second not in self.view or self._way_around(union) is not None:
                    continue
                if saved == -union.saved and self._keeps_rows_apart(union):
                    heapq.heappush(self.queue, (0.0, reader, producer, next(self.ties), union))
                else:
                    self._merge(union)

    def _offer(self, group: Group) -> None:
        """Put what a group could be one kernel with into the queue: what it reads, and what is like it."""
        for producer in self.view.predecessors(group):
            self._weigh(producer, group)
        self._pair(group)

    def _pair(self, group: Group) -> None:
        for key in self._likenesses(group):
            others = self.alike[key] = [g for g in self.alike[key] if g in self.view and g is not group]
            found = [g for g in others if key in self._likenesses(g)]
            others.append(group)
            for first in found[-MOST_BESIDE:] if self.gathers else found[:1]:
                self._weigh(*sorted((first, group), key=self.order.__getitem__))

    def _weigh(self, first: Group, second: Group) -> None:
        union = self._union(first, second)
        if isinstance(union, _Union) and union.saved > 0:
            places = self.position[self._reader(first, second)], -first.index
            heapq.heappush(self.queue, (-union.saved, *places, next(self.ties), union))

    def _likenesses(self, group: Group) -> Sequence[object]:
        """What it has in common with those that could be made beside it: what it multiplies, or reads.

        Sums of the same rows read one whole operand once, whatever else each reads; others need all that they read.
        """
        if group.kind == "contraction":
            return [form] if (form := form_of(group)) is not None else []
        if self.gathers:
            return [(group.kind, group.domain, group.axes)] if self._is_short(group) else []
        reads = self.traffic[group].reads
        if group.kind == "reduction":
            whole = [v for v in reads if product(tensor_of(v).shape) == product(group.domain)]
            return [(group.domain, group.axes, self._origin(v)) for v in whole]
        return [(group.domain, frozenset(map(self._origin, reads)))] if is_simple(group) and reads else []

    def _is_short(self, group: Group) -> bool:
        """Whether a kernel takes less time than its launch, and writes its results in their own order."""
        costs, turned = self.rules.costs, (graph.permute, graph.flip)
        if not is_simple(group) and not all(op.has(Trait.ELEMENTWISE) or is_reduction(op) for op in group.ops):
            return False
        short = costs.byte * self.moved[group] < costs.launch * len(self.traffic[group].writes)
        return short and not any(u.kind in turned for op in group.ops for r in op.results for u in self.flow.uses[r])

    def _origin(self, value: Value) -> Group | Value:
        """The group that computes a value, or itself."""
        return value if value.op is None else self.of.get(value.op, value)

    # pairs

    def _union(self, first: Group, second: Group) -> _Union | Decision | None:
        """Two groups as one; or why they stay apart, if somebody may ask."""
        if not self.view.has_edge(first, second):
            return self._beside(first, second)
        cut: Decision | None = None
        alone = self.view.out_degree(first) == 1
        if may_follow(second):
            reader = self._reader(first, second)
            reason = why_not_follow(self.flow, second, first, self.rules.why_not_graft)
            if reason is None:
                return self._made(first, second, first.with_(*second.ops), first, reader)
            cut = self._cut(first, reader, reason)
        elif second.ops[0].has(Trait.ELEMENTWISE):
            cut = self._cut(first, second.ops[0], f"it is one {second.kind} kernel with what reads it")
        if is_simple(first):
            reason = why_not_lead(self.flow, first, second, alone, self.rules.why_not_graft)
            if reason is not None and self.absorbs:
                reason = why_not_absorb(self.flow, first, second, alone) and reason
            if reason is None:
                return self._made(first, second, second, second, first.ops[-1])
            if second.kind == "call":  # whoever wrote that can do something about it
                cut = self._cut(second, first.ops[-1], reason)
        if _have_one_operand(first, second):
            saved = why_not_share(self.flow, first, second, alone) or self._saved_together(first, second, meet=True)
            if not isinstance(saved, str):
                return self._made(first, second, second, second, first.ops[-1], saved)
            cut = self._cut(second, first.ops[-1], saved)
        return cut

    def _beside(self, first: Group, second: Group) -> _Union | Decision | None:
        """Two groups that read the same."""
        if first.kind == "contraction":
            saved = self._saved_together(first, second, meet=False)
            if isinstance(saved, str):
                return self._cut(first, second.ops[0], saved)
            return self._made(first, second, first, first, second.ops[0], saved)
        ops = (*first.ops, *second.ops)
        if len(ops) > MAX_OPS or sum(map(is_reduction, ops)) > MOST_GATHERED:
            return None
        union = self._made(first, second, first, first, second.ops[0])
        read_here = (n for v, n in union.traffic.writes.items() if any(map(self.of.get, self.flow.readers(v))))
        return None if self.gathers and sum(read_here) > GATHERED_BYTES else union

    def _made(
        self, first: Group, second: Group, like: Group, host: Group, by: Op, saved: float | None = None
    ) -> _Union:
        ops = tuple(sorted((*first.ops, *second.ops), key=self.position.__getitem__))
        group = replace(like, ops=ops)
        traffic = self.costs.together(self.traffic[first], self.traffic[second], group.inside)
        if saved is None:
            fewer = self.moved[first] + self.moved[second] - self.costs.moved(group, traffic)
            saved = self.rules.costs.launch + self.rules.costs.byte * fewer
        return _Union(first, second, group, traffic, host, by, saved)

    def _saved_together(self, first: Group, second: Group, *, meet: bool) -> float | str:
        products = [*products_of(first), *products_of(second)]
        key = *products, meet
        if key not in self.products:
            self.products[key] = self.rules.saved_together(products, meet=meet)
        return self.products[key]

    def _reader(self, first: Group, second: Group) -> Op:
        """The first op of a group that reads another."""
        return next((op for op in second.ops if first in self._producers(op)), second.ops[0])

    # making two groups one

    def _keeps_rows_apart(self, union: _Union) -> bool:
        """Whether a reduction that `first` needs the results of, along the same rows, would lie on a way around it."""
        first, second = union.first, union.second
        if first.kind != "reduction" or self.view.in_degree(second) < 2:
            return False
        seen, stack = {first}, [first]
        while stack:
            for group in self.view.predecessors(stack.pop()):
                if group not in seen and group.kind in ("pointwise", "reduction"):
                    seen.add(group)
                    stack += [group] if group.kind == "pointwise" else []
        rows = first.domain, first.axes
        others = {g for g in self.view.predecessors(second) if g is not first}
        return any(
            (g.kind, g.domain, g.axes) == ("reduction", *rows)
            and not others.isdisjoint(self._between(g, second, self.view.successors))
            for g in seen - {first}
        )

    def _way_around(self, union: _Union) -> Group | None:
        """What lies between two groups, so that neither could run first were they one."""
        low, high = self._in_order(union)
        behind = self._between(low, high, self.view.successors)
        return next((g for g in self.view.predecessors(high) if g in behind), None)

    def _in_order(self, union: _Union) -> list[Group]:
        return sorted((union.first, union.second), key=self.order.__getitem__)

    def _between(self, start: Group, end: Group, neighbours: Callable[[Group], Iterable[Group]]) -> set[Group]:
        """What is reached from a group, as far as it lies between that and another in the order."""
        low, high = sorted((self.order[start], self.order[end]))
        found: set[Group] = set()
        stack = [start]
        while stack:
            new = [g for g in neighbours(stack.pop()) if low < self.order[g] < high and g not in found]
            found.update(new)
            stack += new
        return found

    def _merge(self, union: _Union) -> None:
        """Put a group in the place of two."""
        group, old = union.group, (union.first, union.second)
        self.done.append(union)
        low, high = self._in_order(union)
        behind = self._between(low, high, self.view.successors)
        ahead = self._between(high, low, self.view.predecessors)
        places = sorted(self.order[g] for g in (*ahead, *behind, low, high))
        by_order = [sorted(groups, key=self.order.__getitem__) for groups in (ahead, behind)]
        self.order.update(zip((*by_order[0], group, *by_order[1]), places, strict=False))
        edges = [(p, group) for g in old for p in self.view.predecessors(g) if p not in old]
        edges += [(group, c) for g in old for c in self.view.successors(g) if c not in old]
        self._add(group, union.traffic)
        self.view.remove_nodes_from(old)
        self.view.add_edges_from(edges)
        self._offer(group)
        for consumer in self.view.successors(group):
            self._weigh(group, consumer)
            self._pair(consumer)  # two that it read are one now

    # the ledger

    def _fused(self, union: _Union) -> Decision:
        """What became one kernel, and what that saves."""
        values = [v for v in self.traffic[union.second].reads if v.op in union.first.inside]
        saved = " + ".join(f"{2 * tensor_of(v).nbytes}" for v in values) or "0"
        into, begins = self.names[self.of[union.by]], _label(union.host.ops[0])
        return Decision(
            into, _label(union.by), fused=True, reason="", saved_bytes=saved, begins=begins, saved_ns=union.saved
        )

    def _cut(self, group: Group, op: Op, reason: str) -> Decision:
        name = self.names.get(group, "")  # none, as long as nobody asks
        return Decision(name, _label(op), fused=False, reason=reason, begins=_label(group.ops[0]))

    def _cuts(self) -> Iterator[Decision]:
        """Why groups that read one another, or the same, are not one."""
        forms: dict[object, Group] = {}
        for second in self.names:
            for first in sorted(self.view.predecessors(second), key=self.order.__getitem__):
                cut = self._union(first, second)
                if isinstance(cut, _Union):
                    cut = self._cut(cut.host, cut.by, self._why_not_made(cut))
                if cut is not None:
                    yield cut
            if second.kind == "contraction" and (form := form_of(second)) is not None:
                first = forms.setdefault(form, second)
                cut = self._beside(first, second) if first is not second else None
                if isinstance(cut, Decision) and not nx.has_path(self.view, first, second):
                    yield cut

    def _why_not_made(self, union: _Union) -> str:
        if (around := self._way_around(union)) is None:
            return f"one kernel would take {-union.saved / 1e3:.1f} us more"
        if union.host is union.first:
            return f"another operand depends on the region through {self.names[around]}"
        return f"{self.names[around]} lies between"


def _label(op: Op) -> str:
    return op.loc.short if op.loc else str(op.kind)


CONTRACTIONS = (graph.contract, graph.contract_parts, graph.contract_blocks, graph.contract_packed)
SPECIAL = {
    graph.call: "call",
    graph.loop: "loop",
    graph.cumulate: "scan",
    graph.scatter_along: "scatter",
    graph.scatter_nd: "scatter",
    graph.topk: "topk",
}
"""Ops with a kind of region of their own."""


def _have_one_operand(*groups: Group) -> bool:
    """Whether all products of some contractions multiply the same value."""
    operands = {p.operands[0] for g in groups for p in products_of(g)}
    return all(g.kind == "contraction" for g in groups) and len(operands) == 1


def _index(group: Group) -> int:
    return group.index


def is_stacking(op: Op) -> bool:
    """Whether a concat lays its operands end to end in memory: every dim before its axis is 1."""
    return op.kind is graph.concat and all(d == 1 for d in tensor_of(op.result).shape[: attr_int(op, "axis")])


def is_plain_convolution(op: Op) -> bool:
    """Whether a convolution is in the form the contraction emitter takes: channels-last, unpadded, undilated input."""
    if op.kind is not graph.conv:
        return False
    padding = (*attr_dims(op, "low"), *attr_dims(op, "high"))
    spread = attr_dims(op, "input_dilation")
    return op.attrs.get("layout", "nchw") == "nhwc" and all(p == 0 for p in padding) and all(u == 1 for u in spread)

"""Cuts a block into regions: which ops become one kernel.

Ops are taken in order; each joins the latest group among its producers that may take it, or starts a group.
Joining must keep the groups' graph acyclic (checked on a networkx view) and must not leave the group without a good
schedule: `legality.py` has the predicates, each giving a reason or None. The ledger records every decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import networkx as nx

from graphfuse.dialects import graph
from graphfuse.fusion.regions.attention import find_attention
from graphfuse.fusion.regions.dataflow import Dataflow, operands_inside
from graphfuse.fusion.regions.legality import (
    MAX_OPS,
    form_of,
    products_of,
    why_not_absorb,
    why_not_after_call,
    why_not_before_call,
    why_not_follow,
    why_not_join,
    why_not_merge,
    why_not_share,
)
from graphfuse.fusion.regions.rules import ANY, Rules
from graphfuse.ir.core import Block, Op, Trait, Value, dims_of
from graphfuse.ir.types import Tensor
from graphfuse.symbolic import Dim, product


@dataclass(eq=False)
class Group:
    """Ops of one kernel to be, in order. `domain` is the shape its programs cover; rows begin at dim `split`."""

    index: int
    kind: str
    domain: tuple[Dim, ...]
    split: int = 0
    ops: list[Op] = field(default_factory=list[Op])

    def __repr__(self) -> str:
        return f"<group {self.index}: {self.kind}, {len(self.ops)} ops>"


@dataclass(frozen=True, slots=True)
class Decision:
    """One line of the ledger: an edge fused or cut, and why. `begins` is the first op of the producing region."""

    producer: str
    consumer: str
    fused: bool
    reason: str
    saved_bytes: str = "0"
    begins: str = ""


@dataclass
class Partition:
    """The groups of a block in an order in which they can run, and how that came about."""

    flow: Dataflow
    groups: list[Group]
    of: dict[Op, Group]
    ledger: list[Decision]


def partition(block: Block, rules: Rules = ANY) -> Partition:
    """Group the ops of a block; transparent ops and constants belong to no group."""
    return _Partitioner(Dataflow(block, rules.reads_padded, rules.most_repeated if rules.fuse else 0), rules).run()


class _Partitioner:
    def __init__(self, flow: Dataflow, rules: Rules) -> None:
        self.flow = flow
        self.rules = rules
        self.position = {op: i for i, op in enumerate(flow.block.ops)}
        self.of: dict[Op, Group] = {}
        self.groups: list[Group] = []
        self.ledger: list[Decision] = []
        self.view: nx.DiGraph[Group] = nx.DiGraph()
        self.attention: dict[Op, tuple[Op, frozenset[Op]]] = {}
        self.inside_attention: set[Op] = set()

    def run(self) -> Partition:
        for found in find_attention(self.flow, with_masks=self.flow.reads_padded) if self.rules.fuse else ():
            self.attention[found.output] = (found.scores, found.between)
            self.inside_attention |= {found.scores, *found.between}
        for op in self.flow.block.ops:
            if op.has(Trait.TERMINATOR) or op.kind is graph.constant or op in self.inside_attention:
                continue
            if not self.flow.is_transparent(op):
                self._place(op)
        if self.rules.fuse:
            self._release_products_of_vectors()
            # each makes room for the other: siblings share consumers once merged, and consumers become siblings
            while self._merge_siblings() or self._merge_edges(self._why_not_merge):
                pass
            self._merge_epilogues()
            self._merge_products()
            # only then: groups of another domain, which nothing else of theirs could follow
            self._merge_edges(why_not_absorb)
            self._record_left_before_calls()
        order = nx.lexicographical_topological_sort(self.view, key=_index)
        return Partition(self.flow, list(order), self.of, self.ledger)

    # placing ops

    def _place(self, op: Op) -> None:
        if op in self.attention:
            scores, between = self.attention[op]
            members = [
                o for o in self.flow.block.ops if o is scores or (o in between and not self.flow.is_transparent(o))
            ]
            self._start("attention", [*members, op], _shape(op.result))
        elif op.has(Trait.ELEMENTWISE):
            if not self._join(op, _shape(op.result)):
                self._start("pointwise", [op], _shape(op.result))
        elif op.kind is graph.reduce and is_row_reduction(op):
            domain = _shape(op.operands[0])
            split = len(domain) - len(dims_of(op.attrs["axes"]))
            if not self._join(op, domain):
                self._start("reduction", [op], domain, split)
        elif op.kind in (graph.contract, graph.contract_parts, graph.contract_blocks) or is_plain_convolution(op):
            self._start("contraction", [op], _shape(op.result))
        elif is_stacking(op) and self.rules.fuse:
            self._start("stack", [op], _shape(op.result))
        else:
            self._start(SPECIAL.get(op.kind, "pointwise"), [op], _shape(op.results[0]))

    def _start(self, kind: str, ops: list[Op], domain: tuple[Dim, ...], split: int = 0) -> None:
        group = Group(len(self.groups), kind, domain, split, [])
        self.groups.append(group)
        self.view.add_node(group)
        for op in ops:
            self._add(op, group)

    def _add(self, op: Op, group: Group) -> None:
        group.ops.append(op)
        self.of[op] = group
        for producer in self._producers(op):
            if producer is not group:
                self.view.add_edge(producer, group)

    def _producers(self, op: Op) -> Iterable[Group]:
        """The groups whose results `op` reads, through transparent ops."""
        for v in operands_inside(op):
            for source, _ in self.flow.sources(v):
                if source.op in self.of:
                    yield self.of[source.op]

    def _join(self, op: Op, domain: tuple[Dim, ...]) -> bool:
        """Try the producers' groups, latest first."""
        if not self.rules.fuse:
            return False
        candidates = sorted(set(self._producers(op)), key=lambda g: -g.index)
        for group in candidates:
            reason = self._why_not_join(op, domain, group) or self._cycle(op, group, candidates)
            self._record(op, group, reason)
            if reason is None:
                if op.kind is graph.reduce and group.kind == "pointwise":
                    group.kind = "reduction"
                    group.split = len(domain) - len(dims_of(op.attrs["axes"]))
                self._add(op, group)
                return True
        return False

    def _why_not_join(self, op: Op, domain: tuple[Dim, ...], group: Group) -> str | None:
        if group.kind == "call":
            return why_not_after_call(self.flow, [op], domain, group, self.rules.why_not_graft)
        return why_not_join(self.flow, op, domain, group)

    def _why_not_merge(self, flow: Dataflow, group: Group, consumer: Group, alone: bool) -> str | None:
        if consumer.kind == "call":
            return why_not_before_call(flow, group, consumer, alone, self.rules.why_not_graft)
        return why_not_merge(flow, group, consumer, alone)

    def _why_not_follow(self, group: Group, producer: Group) -> str | None:
        if producer.kind == "call":
            return why_not_after_call(self.flow, group.ops, group.domain, producer, self.rules.why_not_graft)
        return why_not_follow(self.flow, group, producer)

    def _cycle(self, op: Op, group: Group, candidates: list[Group]) -> str | None:
        for other in candidates:
            if other is not group and nx.has_path(self.view, group, other):
                return f"another operand depends on the region through {other.kind} {other.index}"
        return None

    # taking ops out

    def _release_products_of_vectors(self) -> None:
        """Take out of rows' kernels what is as large as their domain, made of less, and read by one other kernel.

        That one makes it from what it is made of: a norm's mean times a vector, where both are as wide as the rows.
        """
        before = len(self.groups)
        for group in [g for g in self.groups if g.kind == "reduction"]:
            released: list[Op] = []
            for op in reversed(self._made_of_less(group)):
                readers = set(self.flow.readers(op.result)) - set(released)
                into = {self.of[r] for r in readers if r.has(Trait.ELEMENTWISE)}
                if len(into) <= 1 and all(self.of.get(r) in into and _takes(self.of[r], op) for r in readers):
                    released.append(op)
            for op in reversed(released):
                group.ops.remove(op)
                self._record(op, group, "it is as large as the rows and made of less: its reader makes it")
                self._start("pointwise", [op], _shape(op.result))
        if len(self.groups) > before:
            self._connect()

    def _made_of_less(self, group: Group) -> list[Op]:
        """Elementwise ops over the whole domain of a group that read nothing as large, but for each other."""
        whole = product(group.domain)
        found: list[Op] = []
        for op in group.ops:
            if not op.has(Trait.ELEMENTWISE) or product(_shape(op.result)) != whole:
                continue
            sources = [s for v in op.operands for s, _ in self.flow.sources(v)]
            if all(s.op in found or product(_shape(s)) != whole for s in sources):
                found.append(op)
        return found

    def _connect(self) -> None:
        """The groups' graph anew."""
        self.view.clear_edges()
        for op, group in self.of.items():
            self.view.add_edges_from((p, group) for p in self._producers(op) if p is not group)

    # merging whole groups

    def _merge_edges(self, why_not: Callable[[Dataflow, Group, Group, bool], str | None]) -> bool:
        """Move pointwise groups into a consumer unless there is a reason not to; whether any moved."""
        before = len(self.groups)
        for group in list(nx.topological_sort(self.view)):
            consumers = list(self.view.successors(group)) if is_simple(group) else []
            for consumer in consumers:
                reason = why_not(self.flow, group, consumer, len(consumers) == 1) or self._detour(group, consumer)
                if reason is None:
                    self._record(group.ops[-1], consumer, reason)
                    self._merge(group, consumer)
                    break
        return len(self.groups) < before

    def _record_left_before_calls(self) -> None:
        """Why elementwise work stays in front of a called kernel: whoever wrote that can do something about it."""
        for group in self.groups:
            consumers = list(self.view.successors(group)) if is_simple(group) else []
            for consumer in consumers:
                if consumer.kind == "call":
                    reason = self._why_not_merge(self.flow, group, consumer, len(consumers) == 1)
                    self._record(group.ops[-1], consumer, reason or self._detour(group, consumer))

    def _merge_epilogues(self) -> None:
        """Move pointwise groups into a contraction, or a call, that they read: what came between had to come first."""
        for group in list(nx.topological_sort(self.view)):
            before = list(self.view.predecessors(group)) if is_simple(group) else []
            for producer in sorted((p for p in before if p.kind in WITH_EPILOGUES), key=lambda p: -p.index):
                reason = self._why_not_follow(group, producer) or self._detour(producer, group)
                self._record(group.ops[0], producer, reason)
                if reason is None:
                    self._merge(group, producer)
                    break

    def _merge_products(self) -> None:
        """Make products of one operand in one loop: those whose results meet, then any that do not wait for another."""
        for group in list(nx.topological_sort(self.view)):
            consumers = list(self.view.successors(group))
            for consumer in consumers:
                products = [*products_of(group), *products_of(consumer)]
                if not _have_one_operand(group, consumer):
                    continue
                alone = len(consumers) == 1
                reason = why_not_share(self.flow, group, consumer, alone) or self.rules.why_apart(products, meet=True)
                self._record(group.ops[-1], consumer, reason)
                if reason is None:
                    self._merge(group, consumer)
                    break
        first_of: dict[object, Group] = {}
        for group in list(nx.topological_sort(self.view)):
            if group.kind != "contraction" or (form := form_of(group)) is None:
                continue
            first = first_of.setdefault(form, group)
            if first is group or nx.has_path(self.view, first, group) or nx.has_path(self.view, group, first):
                continue
            reason = self.rules.why_apart([*products_of(first), *products_of(group)], meet=False)
            self._record(group.ops[0], first, reason)
            if reason is None:
                self._merge(group, first)

    def _detour(self, group: Group, consumer: Group) -> str | None:
        for other in self.view.successors(group):
            if other is not consumer and nx.has_path(self.view, other, consumer):
                return f"{other.kind} {other.index} lies between"
        return None

    def _merge_siblings(self) -> bool:
        """Join pointwise groups over one domain that read from exactly the same places; whether any were joined."""
        before = len(self.groups)
        by_inputs: dict[object, Group] = {}
        for group in list(nx.topological_sort(self.view)):
            if not is_simple(group) or not (origins := self._origins(group)):
                continue
            first = by_inputs.setdefault((group.domain, origins), group)
            if first is group or len(first.ops) + len(group.ops) > MAX_OPS:
                continue
            if not nx.has_path(self.view, first, group) and not nx.has_path(self.view, group, first):
                self._merge(group, first)
        return len(self.groups) < before

    def _origins(self, group: Group) -> frozenset[Group | Value]:
        """The groups, or values that no group computes, that a group reads."""
        sources = (s for op in group.ops for v in op.operands for s, _ in self.flow.sources(v))
        return frozenset(self._origin(s) for s in sources if s.op not in group.ops)

    def _origin(self, value: Value) -> Group | Value:
        return value if value.op is None else self.of.get(value.op, value)

    def _merge(self, group: Group, into: Group) -> None:
        """All ops of `group` join `into`; the groups' graph must stay acyclic, which the caller has made sure of."""
        into.ops = sorted([*group.ops, *into.ops], key=self.position.__getitem__)
        for op in group.ops:
            self.of[op] = into
        edges = [(p, into) for p in self.view.predecessors(group)] + [(into, c) for c in self.view.successors(group)]
        self.view.remove_node(group)
        self.view.add_edges_from((a, b) for a, b in edges if a is not b)
        self.groups.remove(group)

    def _record(self, op: Op, group: Group, reason: str | None) -> None:
        saved = "0"
        if reason is None:
            values = [s for v in op.operands for s, _ in self.flow.sources(v) if s.op in group.ops]
            types = [v.type for v in dict.fromkeys(values) if isinstance(v.type, Tensor)]
            saved = " + ".join(f"{2 * t.nbytes}" for t in types) or "0"
        first = group.ops[0] if group.ops else op
        self.ledger.append(
            Decision(f"{group.kind} {group.index}", _label(op), reason is None, reason or "", saved, _label(first))
        )


def _label(op: Op) -> str:
    return op.loc.short if op.loc else str(op.kind)


WITH_EPILOGUES = ("contraction", "call")
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


def _takes(reader: Group, op: Op) -> bool:
    """Whether a group may compute an op of another kernel's rows beside its own, for all that is known yet."""
    return reader.kind in ("contraction", "pointwise") and reader.domain == _shape(op.result)


def _index(group: Group) -> int:
    return group.index


def is_simple(group: Group) -> bool:
    """Whether a group is elementwise work and joining of tensors only."""
    return group.kind == "pointwise" and all(
        op.has(Trait.ELEMENTWISE) or op.kind in (graph.concat, graph.pad) for op in group.ops
    )


def is_stacking(op: Op) -> bool:
    """Whether a concat lays its operands end to end in memory: every dim before its axis is 1."""
    if op.kind is not graph.concat:
        return False
    axis = op.attrs["axis"]
    assert isinstance(axis, int)
    return all(d == 1 for d in _shape(op.result)[:axis])


def is_row_reduction(op: Op) -> bool:
    """Whether a reduction runs over trailing dims, innermost included."""
    rank = len(_shape(op.operands[0]))
    axes = dims_of(op.attrs["axes"])
    return len(axes) > 0 and sorted(axes, key=str) == sorted(range(rank - len(axes), rank), key=str)


def is_plain_convolution(op: Op) -> bool:
    """Whether a convolution is in the form the contraction emitter takes: channels-last, unpadded, undilated input."""
    if op.kind is not graph.conv:
        return False
    padding = (*dims_of(op.attrs["low"]), *dims_of(op.attrs["high"]))
    spread = dims_of(op.attrs["input_dilation"])
    return op.attrs.get("layout", "nchw") == "nhwc" and all(p == 0 for p in padding) and all(u == 1 for u in spread)


def _shape(value: Value) -> tuple[Dim, ...]:
    assert isinstance(value.type, Tensor)
    return value.type.shape

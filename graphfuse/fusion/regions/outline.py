"""Writes a partition down: each group becomes a `graph.region` op whose body is what one kernel computes.

Afterwards a block holds constants, regions, loops, reshapes of region results (views of memory), and concats whose
operands lie end to end. The first operand of a scatter is memory, which its region writes in place, but for one that is
whole. Regions with equal bodies get one kernel name. What a block returns is always written by a region of its own: a
returned parameter, constant, view by permutation or second copy becomes a copying region.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphfuse.dialects import control, graph
from graphfuse.fusion.regions.dataflow import IN_MEMORY, Dataflow, is_in_place, operands_inside, root_of
from graphfuse.fusion.regions.legality import FEW_TIMES, is_cheap
from graphfuse.fusion.regions.partition import Decision, Group, Partition, partition
from graphfuse.fusion.regions.rules import ANY, Rules
from graphfuse.ir.core import Block, Builder, Func, Op, OpDef, Params, Value, attr_ints, defined_in, tensor_of
from graphfuse.ir.printer import to_text
from graphfuse.ir.rewrite import dead_code
from graphfuse.symbolic import product

TURNED = 1 << 17
"""Elements of rows that are written across their order: more take longer, a sector of memory each, than one more
kernel (12.8 million halves on an H100: 219 us; `benchmarks.population`)."""


class Kernels:
    """Kernel names by the text of the region they compute, in order of first use."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self._count: dict[str, int] = {}

    def name(self, kind: str, body: Block) -> str:
        """The kernel of regions with this body."""
        text = kernel_text(kind, body)
        if text not in self.names:
            n = self._count.get(kind, 0)
            self._count[kind] = n + 1
            self.names[text] = f"{kind}_{n}"
        return self.names[text]


def kernel_text(kind: str, body: Block) -> str:
    """What regions that one kernel computes have in common."""
    returned = control.return_(*body.terminator.operands)
    return kind + "\n" + to_text(Func("k", replace(body, ops=(*body.ops[:-1], returned))))


def outline(func: Func, rules: Rules = ANY) -> tuple[Func, list[Decision]]:
    """Partition a function (loop bodies too) into regions; also the ledger of decisions."""
    outliner = _Outliner(func.body, lambda block: partition(block, rules), rules.turns_rows)
    return dead_code(replace(func, body=outliner.run())), outliner.ledger


@dataclass
class _Outliner:
    block: Block
    cut: Callable[[Block], Partition]
    turns_rows: bool
    kernels: Kernels = field(default_factory=Kernels)
    ledger: list[Decision] = field(default_factory=list[Decision])
    now: dict[Value, Value] = field(default_factory=dict[Value, Value])
    own: set[Value] = field(default_factory=set[Value])
    """Values written by a region of this block: the ones a terminator may name, each once."""
    stacked: set[Value] = field(default_factory=set[Value])
    """Values whose memory is part of a stack, and so cannot be an output or part of another."""

    def __post_init__(self) -> None:
        self.part = self.cut(self.block)
        self.flow: Dataflow = self.part.flow
        self.params, self.builder = replace(self.block.params), Builder()
        self.now.update(zip(self.block.params.values, self.params.values, strict=True))

    def run(self) -> Block:
        self.ledger += self.part.ledger
        for op in self.block.ops:
            if op.kind in IN_MEMORY:
                self.now[op.result] = self.builder.append(replace(op)).result
        for group in self.part.groups:
            if group.kind == "loop":
                self._loop(group.ops[0])
            elif group.kind == "stack":
                self._stack(group.ops[0])
            else:
                self._region(group)
        terminator = self.block.terminator
        returned: list[Value] = []
        for v in terminator.operands:
            returned.append(self._returned(v, returned))
        self.builder.append(terminator.kind(*returned, loc=terminator.loc))
        return self.builder.block(self.params)

    # regions

    def _region(self, group: Group) -> None:
        inside = set(group.ops)
        for op in group.ops:
            if op.kind is graph.call:
                self._operands_in_memory(op, inside)
        outputs = [r for op in group.ops for r in op.results if self._leaves(r, inside)]
        if group.kind == "pointwise":
            kinds = (graph.permute, graph.flip, graph.reshape)
            turned = [self._as_returned(v, kinds, inside) for v in outputs]
            if len(outputs) == 1 and (self.turns_rows or is_cheap(group)):
                turned = [self._repeated(outputs[0], (*kinds, graph.broadcast), inside) or turned[0]]
            # one walk writes them all
            if len(outputs) == 1 or (len({tensor_of(v).shape for v in turned}) == 1 and not set(outputs) & set(turned)):
                outputs = turned
        elif group.kind == "reduction" and self.turns_rows:
            outputs = [self._turned_rows(group, v, inside) for v in outputs]
        results = self._emit_region(group.kind, group.ops, outputs)
        for old, new in zip(outputs, results, strict=True):
            self.now[old] = new
            self.own.add(new)

    def _operands_in_memory(self, call: Op, inside: set[Op]) -> None:
        """A called kernel reads memory: what it reads through views is copied, unless the region computes it."""
        for v in call.operands:
            if v.op not in inside:
                self.now[v] = self._in_memory(v)

    def _leaves(self, value: Value, inside: set[Op]) -> bool:
        """Whether the value is read outside; the result of a call is written even if nobody reads it."""
        readers = list(self.flow.readers(value))
        unread = not readers and value.op is not None and value.op.kind is graph.call
        return unread or any(reader not in inside for reader in readers)

    def _as_returned(self, value: Value, kinds: Sequence[OpDef], inside: set[Op]) -> Value:
        """The other order of its elements in which alone whoever called reads a value: it is written in that.

        Ops `inside` have it in registers.
        """
        ends = set(self.block.terminator.operands)
        at, ops = value, 0
        while True:
            users = [op for op in self.flow.uses[at] if op not in inside]
            if at in ends or len(users) != 1:
                break
            (op,) = users
            if op.kind not in kinds:
                return value
            at, ops = op.result, ops + (op.kind is not graph.reshape)
        returned = at in ends and self.block.terminator.operands.count(at) == 1
        return at if ops and returned and users == [self.block.terminator] else value

    def _repeated(self, value: Value, kinds: Sequence[OpDef], inside: set[Op]) -> Value | None:
        """As returned, a few times over: each is computed by itself, which takes less than one more kernel."""
        made = self._as_returned(value, kinds, inside)
        whole, once = (product(tensor_of(v).shape) for v in (made, value))
        return made if isinstance(whole, int) and isinstance(once, int) and whole <= FEW_TIMES * once else None

    def _turned_rows(self, group: Group, value: Value, inside: set[Op]) -> Value:
        """As returned, if neighbours in that order are of one row, which one program has, or there are few elements."""
        size = product(group.domain)
        if product(tensor_of(value).shape) != size:
            return value
        turned = self._as_returned(value, (graph.permute,), inside)
        at, dim = turned, len(tensor_of(turned).shape) - 1
        while at != value:
            assert at.op is not None, "it is what permutes give"
            at, dim = at.op.operands[0], attr_ints(at.op, "perm")[dim]
        apart = product(tensor_of(value).shape[dim + 1 :])
        axis = next((i for i in range(len(group.domain)) if product(group.domain[i + 1 :]) == apart), None)
        is_little = isinstance(size, int) and size <= TURNED
        return turned if axis in group.axes or is_little else value

    def _emit_region(self, kind: str, ops: Sequence[Op], outputs: Sequence[Value]) -> tuple[Value, ...]:
        """A region op that computes `outputs` by `ops` and whatever transparent ops they read through."""
        produced = {r for op in ops for r in op.results}
        targets = {op: i for i, op in enumerate(filter(is_in_place, ops))}
        written = [self._in_memory(op.operands[0]) for op in targets]
        inputs = self._inputs(ops, outputs, produced)
        operands = [*written, *(self.now[v] for v in inputs)]
        params = Params(tuple(v.type for v in operands))
        inner: dict[Value, Value] = dict(zip(inputs, params.values[len(written) :], strict=True))
        body = Builder()

        def clone(value: Value) -> Value:
            if value not in inner:
                op = value.op
                assert op is not None, f"{value} is not at hand in the region"
                own = params.values[targets[op] : targets[op] + 1] if op in targets else ()
                new = replace(op, operands=(*own, *map(clone, op.operands[len(own) :])), hints=())
                body.append(new)
                inner.update(zip(op.results, new.results, strict=True))
            return inner[value]

        for op in ops:
            for r in op.results:
                clone(r)
        body.append(control.yield_(*(clone(v) for v in outputs)))
        block = body.block(params)
        name = self.kernels.name(kind, block)
        loc = ops[0].loc if ops else None
        hints = tuple(v.hint for v in outputs)
        attrs: dict[str, Any] = {"in_place": tuple(range(len(written)))} if written and outputs else {}
        region = graph.region(*operands, kernel=name, kind=kind, bodies=(block,), loc=loc, **attrs)
        return self.builder.append(replace(region, hints=hints)).results

    def _inputs(self, ops: Sequence[Op], outputs: Sequence[Value], produced: set[Value]) -> list[Value]:
        """The memory values read, in order of first use."""
        out: dict[Value, None] = {}
        called = {v for op in ops if op.kind is graph.call for v in op.operands}
        for v in [*(v for op in ops for v in op.operands[is_in_place(op) :]), *outputs]:
            in_memory = v in self.now and v not in produced
            for source, _ in [(v, ())] if in_memory and v in called else self.flow.sources(v):
                if source not in produced:
                    out[source] = None
        return list(out)

    # what loops and terminators name must be in memory

    def _in_memory(self, value: Value) -> Value:
        """`value` as memory: itself, a reshape of memory, or a copy made by a region."""
        if value in self.now:
            return self.now[value]
        op = value.op
        assert op is not None, f"{value} was not computed"
        assert self.flow.is_transparent(op), f"{value} was not computed"
        if self._is_view(value):
            base = self._in_memory(op.operands[0])
            new = self.builder.append(replace(op, operands=(base,))).result
            if base in self.own:
                self.own.add(new)
            self.now[value] = new
            return new
        return self._copy(value)

    def _is_view(self, value: Value) -> bool:
        """Whether reshapes alone lie between a value and memory."""
        if value.op is None or value.op.kind is not graph.reshape:
            return False
        (base,) = value.op.operands
        return base in self.now or self._is_view(base)

    def _copy(self, value: Value) -> Value:
        (new,) = self._emit_region("pointwise", (), (value,))
        self.own.add(new)
        return new

    def _returned(self, value: Value, before: Sequence[Value]) -> Value:
        new = self._in_memory(value)
        roots = {root_of(v) for v in before}
        if new in self.own and root_of(new) not in roots | self.stacked:
            return new
        return self._copy(value)

    def _stack(self, op: Op) -> None:
        """A concat that is memory laid end to end: each operand is written in place by a region of its own."""
        parts: list[Value] = []
        for v in op.operands:
            new = self._in_memory(v)
            taken = {root_of(p) for p in parts} | self.stacked
            parts.append(new if new in self.own and root_of(new) not in taken else self._copy(v))
        self.stacked.update(root_of(p) for p in parts)
        self.now[op.result] = self.builder.append(replace(op, operands=tuple(parts))).result
        self.own.add(self.now[op.result])

    def _loop(self, op: Op) -> None:
        carried = [self._in_memory(v) for v in op.operands]
        defined = defined_in(op.body)
        for v in operands_inside(op):
            if v not in defined and v not in self.now:
                self.now[v] = self._in_memory(v)
        body = _Outliner(op.body, self.cut, self.turns_rows, self.kernels, self.ledger, dict(self.now)).run()
        new = self.builder.append(replace(op, operands=tuple(carried), bodies=(body,)))
        self.now.update(zip(op.results, new.results, strict=True))

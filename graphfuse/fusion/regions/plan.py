"""From an outlined function to a plan: which buffer each value lives in, and the launches in order.

Buffers get lifetimes, not addresses: the runtime assigns offsets in one arena once shapes are known. Values that a
reshape only renames share a buffer. What a region writes in place has the buffer of the operand where nobody reads that
afterwards and a region of the same block has computed it; elsewhere the operand is copied first. What a region may
write over an operand has that one's buffer, if it is the arena's. A loop's carried
values live in two halves of one buffer, read and written in turn (`offset = mod(t, 2) * size`), so a loop body never
copies what it carries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from graphfuse.artifact import Buffer, BufferKind, Loop, Plan, Pointer, Scalar, Step
from graphfuse.dialects import graph
from graphfuse.fusion.regions.dataflow import operands_inside, root_of
from graphfuse.ir.core import Attr, Block, Func, Op, Value, attr_dim, attr_ints, tensor_of
from graphfuse.ir.dense import Dense
from graphfuse.symbolic import Dim, ceildiv, floordiv, minimum, mod, sym

COPIED_BYTES = 1 << 18
"""By one program of a copy."""


@dataclass(frozen=True, slots=True)
class KernelCall:
    """What a launch of a kernel needs besides its pointers: symbols, grid and work per program."""

    symbols: tuple[str, ...]
    grid: Dim
    work: Dim
    versions: tuple[tuple[str, KernelCall, Dim], ...] = ()
    """Kernels that do the same for some shapes, and a dim that is 1 for these, else 0."""


@dataclass
class Planned:
    """A plan and the constants its weight buffers hold, in order."""

    plan: Plan
    weights: list[Dense]
    shared: tuple[tuple[int, int], ...] = ()
    """Outputs that are to lie where inputs do: of those that `shared` of the function allows, what was made of."""
    over: tuple[tuple[int, int], ...] = ()
    """Buffers of the arena, each with the input in whose place it may be: from then on, nothing reads that."""


@dataclass
class _Lifetime:
    first: int
    last: int


@dataclass
class _Planner:
    calls: Mapping[str, KernelCall]
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    lives: dict[int, _Lifetime] = field(default_factory=dict[int, _Lifetime])
    weights: list[Dense] = field(default_factory=list[Dense])
    where: dict[Value, Pointer] = field(default_factory=dict[Value, Pointer])
    now: int = 0
    shared: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """Buffers of inputs and outputs that are the same memory."""
    over: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    _weight_buffers: dict[Dense, int] = field(default_factory=dict[Dense, int])

    def buffer(self, kind: BufferKind, nbytes: Dim, index: int = 0) -> int:
        self.buffers.append(Buffer(kind, nbytes, index, self.now, self.now))
        return len(self.buffers) - 1

    def touch(self, pointer: Pointer) -> Pointer:
        """Record that the current top-level step uses the buffer."""
        if self.buffers[pointer.buffer].kind == "arena":
            life = self.lives.setdefault(pointer.buffer, _Lifetime(self.now, self.now))
            life.last = max(life.last, self.now)
        return pointer

    def home(self, result: Value) -> Pointer:
        """Where a result goes: into a buffer of its own, if nobody has said."""
        if result not in self.where:
            self.where[result] = Pointer(self.buffer("arena", tensor_of(result).nbytes))
        return self.where[result]

    def constant(self, op: Op) -> None:
        dense = op.attrs["value"]
        assert isinstance(dense, Dense)
        if dense not in self._weight_buffers:  # equal ones are one: tied embeddings, say
            self._weight_buffers[dense] = self.buffer("weight", tensor_of(op.result).nbytes, len(self.weights))
            self.weights.append(dense)
        self.where[op.result] = Pointer(self._weight_buffers[dense])

    def shared_places(self, block: Block) -> None:
        """Give the parts of stacks, and what is written in place, the places of what becomes of them: that first."""
        last, inside = last_readers(block), set(block.ops)
        for op in reversed(block.ops[:-1]):
            for number, result in _in_place(op):
                root = root_of(op.operands[number])
                if dies_in(root, op, last) and root.op in inside and root.op.kind in (graph.region, graph.empty):
                    self.where.setdefault(root, self.home(result))
            if op.kind is graph.concat:
                home = self.home(op.result)
                offset: Dim = home.offset
                for part in op.operands:
                    self.where[root_of(part)] = Pointer(home.buffer, offset)
                    offset = offset + tensor_of(part).nbytes

    def steps(self, block: Block, top: bool) -> list[Step | Loop]:
        out: list[Step | Loop] = []
        self.shared_places(block)
        for op in block.ops[:-1]:
            if op.kind is graph.constant:
                self.constant(op)
            elif op.kind is graph.empty:
                self.home(op.result)
            elif op.kind is graph.concat:
                continue  # its parts were written in place
            elif op.kind is graph.reshape:
                self.where[op.result] = self.where[op.operands[0]]
            elif op.kind is graph.region:
                self.region(op, out, top)
            elif op.kind is graph.loop:
                self.loop(op, out, top)
            else:
                raise AssertionError(f"{op.kind} is not in a region")
        return out

    def region(self, op: Op, out: list[Step | Loop], top: bool) -> None:
        """A launch, after copies of what it writes in place where that is still needed."""
        kernel = str(op.attrs["kernel"])
        call = self.calls[kernel]
        read = [self.where[v] for v in op.operands]
        for number, result in _in_place(op):
            source, read[number] = read[number], self.home(result)
            if source != read[number] and (source.buffer, read[number].buffer) not in self.shared:
                out.append(self._copy(source, read[number], tensor_of(result).nbytes))
                self.now += top
        for number, result in over_pairs(op) if top else ():
            self.lie_over(op.results[result], read[number])
        general = 1 - sum((holds for *_, holds in call.versions), 0)
        for name, version, holds in ((kernel, call, general), *call.versions):
            pointers = map(self.touch, (*read, *map(self.home, op.results)))
            scalars = (Scalar(sym(name)) for name in version.symbols)
            label = op.loc.short if op.loc else ""
            out.append(Step(name, (*pointers, *scalars), version.grid * holds, version.work, label))
            self.now += top

    def lie_over(self, result: Value, operand: Pointer) -> None:
        """Where a result goes that may be where an operand is: there, or where it would be if inputs were written."""
        if result in self.where:
            return
        if self.buffers[operand.buffer].kind == "arena":
            self.where[result] = operand
        else:
            self.over.append((self.home(result).buffer, self.buffers[operand.buffer].index))

    def loop(self, op: Op, out: list[Step | Loop], top: bool) -> None:
        """Copy the initial values in, run the body on alternating halves, leave the results where they are."""
        symbol, count = str(op.attrs["symbol"]), attr_dim(op, "count")
        t = sym(symbol)
        body = op.body
        yielded = body.terminator.operands
        homes: list[int] = []
        for initial, param in zip(op.operands, body.params.values, strict=True):
            size = tensor_of(param).nbytes
            home = self.buffer("arena", 2 * size)
            homes.append(home)
            self.touch(Pointer(home))
            out.append(self._copy(self.where[initial], Pointer(home), tensor_of(initial).nbytes))
            self.now += top
            self.where[param] = Pointer(home, mod(t, 2) * size)
        for home, value in zip(homes, yielded, strict=False):
            size = tensor_of(value).nbytes
            self.where[root_of(value)] = Pointer(home, mod(t + 1, 2) * size)
        for value, result in zip(yielded[len(homes) :], op.results[len(homes) :], strict=True):
            stacked = self.touch(self.home(result))
            self.where[root_of(value)] = Pointer(stacked.buffer, stacked.offset + t * tensor_of(value).nbytes)
        steps = self.steps(body, top=False)
        for home in homes:
            self.touch(Pointer(home))
        out.append(Loop(symbol, count, tuple(steps)))
        self.now += top
        for home, value, result in zip(homes, yielded, op.results, strict=False):
            size = tensor_of(value).nbytes
            final = Pointer(home, mod(count, 2) * size)
            if result in self.where:  # the caller wants it elsewhere
                out.append(self._copy(final, self.where[result], size))
                self.now += top
            else:
                self.where[result] = final

    def _copy(self, source: Pointer, to: Pointer, nbytes: Dim) -> Step:
        self.touch(source)
        self.touch(to)
        grid, work = ceildiv(nbytes, COPIED_BYTES), 100 + floordiv(minimum(nbytes, COPIED_BYTES), 16)
        return Step("copy_bytes", (source, to, Scalar(nbytes)), grid, work, "copy")


def _in_place(op: Op) -> Iterator[tuple[int, Value]]:
    """What a region writes in place: the number of an operand, and the result that it becomes."""
    return zip(attr_ints(op, "in_place", ()), op.results, strict=False)


def shared_pairs(func: Func) -> list[tuple[int, int]]:
    """The pairs of an output and an input that may be one memory."""
    return _pairs(func.attrs.get("shared", ()))


def written_inputs(func: Func) -> set[int]:
    """The numbers of inputs in whose memory results may lie."""
    return {*(number for _, number in shared_pairs(func)), *attr_ints(func, "donated", ())}


def _pairs(of: Attr) -> list[tuple[int, int]]:
    assert isinstance(of, tuple), "pairs of numbers"
    return [cast("tuple[int, int]", p) for p in of]


def over_pairs(region: Op) -> list[tuple[int, int]]:
    """The pairs of an operand and a result that may be one memory."""
    return _pairs(region.attrs.get("over", ()))


def _is_written_over(func: Func, output: Value, param: Value) -> bool:
    """Whether an output is what scatters make of a parameter, each the last reader of what it changes."""
    last, value = last_readers(func.body), root_of(output)
    while value != param:
        found = next((number for number, r in _in_place(value.op) if r == value), None) if value.op else None
        if value.op is None or found is None:
            return False
        before = root_of(value.op.operands[found])
        if not dies_in(before, value.op, last):
            return False
        value = before
    return root_of(output) != param


def dies_in(root: Value, op: Op, last: Mapping[Value, Op]) -> bool:
    """Whether an op is the last reader of a value's memory, and reads it as one operand."""
    return last[root] is op and [root_of(v) for v in op.operands].count(root) == 1


def last_readers(block: Block) -> dict[Value, Op]:
    """The last op that reads each value's memory, itself or through reshapes; the terminator where a stack has it."""
    out: dict[Value, Op] = {}
    for op in block.ops:
        if op.kind is not graph.reshape:
            by = block.terminator if op.kind is graph.concat else op
            out.update({root_of(v): by for v in operands_inside(op) if out.get(root_of(v)) is not block.terminator})
    return out


def plan(func: Func, calls: Mapping[str, KernelCall]) -> Planned:
    """Buffers and launches of an outlined function. `calls` describes every kernel by name."""
    planner = _Planner(calls)
    for i, v in enumerate(func.params):
        planner.where[v] = Pointer(planner.buffer("input", tensor_of(v).nbytes, i))
    for i, v in enumerate(func.outputs):
        planner.where[root_of(v)] = Pointer(planner.buffer("output", tensor_of(v).nbytes, i))
    shared = tuple((o, i) for o, i in shared_pairs(func) if _is_written_over(func, func.outputs[o], func.params[i]))
    planner.shared.update((i, len(func.params) + o) for o, i in shared)
    steps = planner.steps(func.body, top=True)
    buffers = [
        replace(b, first=planner.lives[i].first, last=planner.lives[i].last) if i in planner.lives else b
        for i, b in enumerate(planner.buffers)
    ]
    return Planned(Plan(tuple(buffers), tuple(steps)), planner.weights, shared, tuple(planner.over))

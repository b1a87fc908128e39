"""One kernel under construction: its parameters, where its tensors live, and the finished block function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from graphfuse.blockgen.access import AccessAnalysis, Accesses
from graphfuse.blockgen.evaluate import Evaluator, Leaf, leaf_of
from graphfuse.blockgen.evaluate_ops import HANDLERS
from graphfuse.blockgen.index import Index, IndexSpace, coefficient, reshape_index
from graphfuse.blockgen.movement import shape_of
from graphfuse.dialects import control, graph
from graphfuse.ir.core import Attr, Block, Func, Op, Params, Trait, Value, attr_number, tensor_of
from graphfuse.ir.types import I64, Ptr, Scalar, Tensor
from graphfuse.symbolic import Dim, product
from graphfuse.targets.machine import Machine

T = TypeVar("T")


class Kernel:
    """A region being emitted: parameters are the region's inputs, its outputs, then the symbols it mentions."""

    def __init__(self, region: Op, name: str, ranges: Mapping[str, tuple[int, int]], machine: Machine) -> None:
        self.region = region
        self.name = name
        self.machine = machine
        self.schedules: tuple[str, ...] = ()
        """Names of the ways to make it, the one that a model of the time prefers first; none if there is one only."""
        self.others: tuple[str, ...] = ()
        """Names of what to make instead of the first way if it spills registers, the best first."""
        self.symbols = tuple(sorted(ranges))
        self.space = IndexSpace(ranges)
        self.ev = Evaluator(self.space, HANDLERS)
        self.body: Block = region.body
        self.outputs: tuple[Value, ...] = self.body.terminator.operands
        inputs = self.body.params.values
        tensors = [v.type for v in (*inputs, *self.outputs)]
        hints = [*(f"in{i}" for i in range(len(inputs))), *(f"out{i}" for i in range(len(self.outputs)))]
        types = tuple(Ptr(t.elem) for t in tensors if isinstance(t, Tensor))
        self.params = Params((*types, *(I64 for _ in self.symbols)), (*hints, *self.symbols))
        values = self.params.values
        for value, pointer in zip(inputs, values, strict=False):
            self.ev.leaves[value] = leaf_of(pointer, shape_of(value))
        multiplies = region.attrs.get("kind") in ("contraction", "attention")
        self.picked = frozenset(op.result for op in self.body.ops if multiplies and op.kind is graph.take)
        """Factors that are looked up by outer dims: memory, but for where each place of those has it."""
        self.stores: list[Leaf] = []
        for value, pointer in zip(self.outputs, values[len(inputs) :], strict=False):
            stream = self._stream(tensor_of(value))
            self.stores.append(replace(leaf_of(pointer, shape_of(value)), stream_elems=stream))

    def _is_large(self, type_: Tensor) -> bool:
        """Whether the tensor is too large for any cache."""
        nbytes = type_.nbytes
        return isinstance(nbytes, int) and nbytes >= self.machine.stream_bytes

    def _stream(self, type_: Tensor) -> int:
        """Elements of a vector register if the tensor is too large for any cache, else 0."""
        return self.machine.vector_bytes // type_.elem.bytes if self._is_large(type_) else 0

    def read_ahead(self, distance: Callable[[Scalar], int]) -> None:
        """From here on, loads of inputs too large for any cache prefetch `distance(element)` elements further on."""
        for value in self.body.params.values:
            if self._is_large(tensor_of(value)):
                self.ev.leaves[value] = replace(self.ev.leaves[value], ahead=distance(element_of(value)))

    def read_rows_ahead(self, reads: Accesses, across: str, along: str, extent: Dim, together: int = 1) -> None:
        """From here on, loads of inputs prefetch rows further on: each is walked `along` once, so many `together`.

        A processor that does so itself ends with each page. Of what the second-level cache has it costs nothing: only
        what the first one may have is left alone.
        """
        for value, offset in zip(reads.of, reads.offsets, strict=True):
            nbytes, pitch = tensor_of(value).nbytes, coefficient(offset, across)
            is_near = isinstance(nbytes, int) and nbytes < self.machine.l1_bytes
            if is_near or coefficient(offset, along) != 1 or not isinstance(pitch, int) or not isinstance(extent, int):
                continue
            if value in self.ev.leaves and 0 < extent <= pitch:
                page = self.machine.core.row_ahead_bytes // element_of(value).bytes
                ahead = page if extent == pitch or extent > page else page // extent * pitch
                if together > 1 and together * extent * element_of(value).bytes <= self.machine.l2_bytes // 4:
                    ahead = together * pitch
                self.ev.leaves[value] = replace(self.ev.leaves[value], ahead=ahead)

    def chosen(self, ways: Sequence[T], leaner: Sequence[T] = ()) -> T:
        """The way that the region asks for by its name, else the first, which a model of the time prefers.

        `leaner` ways hold less in registers and are slower: they are for kernels that spill.
        """
        named, spare = {str(way): way for way in ways}, {str(way): way for way in leaner}
        self.schedules = tuple(named) if len(named) > 1 else ()
        self.others = (*list(named)[1:], *spare)
        return (named | spare).get(str(self.region.attrs.get("schedule", "")), ways[0])

    @property
    def work(self) -> list[Op]:
        """The ops that compute something: neither numbers nor places, which are arithmetic of positions."""
        placed = set[Op]()
        for op in self.body.ops[:-1]:
            if op.kind is graph.full or (
                tensor_of(op.results[0]).elem == I64 and all(v.op in placed for v in op.operands)
            ):
                placed.add(op)
        return [op for op in self.body.ops[:-1] if op not in placed]

    def accesses(self, index: Index, domain: Sequence[Dim], computed: Collection[Value] = ()) -> AccessAnalysis:
        """What storing the outputs at an index of a domain reads and writes, given what is computed by then."""
        analysis = AccessAnalysis(self.space, set(self.ev.leaves), frozenset(computed), self.picked)
        for value in self.outputs:
            analysis.write(value, reshape_index(index, domain, shape_of(value), self.space))
        return analysis

    def reads(self, value: Value, index: Index, picks: Callable[[Op, Index], Dim] | None = None) -> Accesses:
        """What one value reads at an index, by itself; `picks` says where the factors that are looked up are."""
        analysis = AccessAnalysis(self.space, set(self.ev.leaves), picked=self.picked, picks=picks)
        analysis.visit(value, index)
        return analysis.found

    def store_outputs(self, index: Index, domain: Sequence[Dim], only: Collection[Value] | None = None) -> None:
        """Compute and store every output, or `only` some, at an index of a domain."""
        for value, leaf in zip(self.outputs, self.stores, strict=True):
            if only is None or value in only:
                where = reshape_index(index, domain, shape_of(value), self.space)
                self.ev.store(leaf, where, self.ev.value(value, where))

    def finish(self, grid: Dim, work: Dim, attrs: Mapping[str, Attr] | None = None) -> Func:
        """Close the function. `work` is an estimate of one program's time in nanoseconds."""
        self.ev.builder.op(control.return_)
        body = self.ev.builder.block(self.params)
        dims = tuple((name, *self.space.ranges[name]) for name in self.symbols)
        return Func(self.name, body, {"grid": grid, "work": work, **(attrs or {})}, dims)


def element_of(value: Value) -> Scalar:
    """The element of a tensor value."""
    return tensor_of(value).elem


positions = product
"""How many elements a shape has."""


def pads_zeros(op: Op) -> bool:
    """Whether it puts zeros around a tensor."""
    constant = op.kind is graph.pad and op.attrs.get("mode", "constant") == "constant"
    return constant and attr_number(op, "value") == 0


def is_view(value: Value, kernel: Kernel, *, padded: bool = False) -> bool:
    """Whether `value` is memory seen through movement ops only; `padded`: maybe with zeros around it."""
    while value not in kernel.ev.leaves:
        op = value.owner
        if value in kernel.picked and isinstance(op, Op):
            value = op.operands[0]
            continue
        if not isinstance(op, Op) or not op.has(Trait.MOVEMENT) or len(op.operands) != 1:
            return False
        if op.kind is graph.pad and not (padded and pads_zeros(op)):
            return False
        value = op.operands[0]
    return True

"""Memory in half precision: the second part of `--precision f16|bf16`, after partitioning.

    %a = graph.region(%x) {kernel = "pointwise_0", kind = "pointwise"} do (...) { ... yield(%v) } : tensor<8x64xf32>

becomes, with every region that reads %a casting what it loads,

    %a = graph.region(%x) {kernel = "pointwise_0", kind = "pointwise"} do (...) {
      ...
      %h = graph.cast(%v) {to = f16} : tensor<8x64xf16>
      yield(%h)
    } : tensor<8x64xf16>

Inside a region all is as before, in f32. What stays f32 in memory: inputs and outputs of the model; values that are not
data as `value_ranges` has it (statistics, positions, masks); partial sums; what loops carry; weights that vary along
one dim only (biases, scales), which cost no time; results and operands of regions that scan, scatter or sort.

Requires: regions; `lower_precision` before. Ensures: regions with equal bodies have one name. Cost: one sweep.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from graphfuse.dialects import control, graph
from graphfuse.fusion.precision.lower_precision import VIEWS, Halves
from graphfuse.fusion.precision.value_ranges import GATHERS, Class, Classes, classify, number_fits
from graphfuse.fusion.regions.outline import Kernels
from graphfuse.fusion.simplify.fold_constants import array_of, constant
from graphfuse.ir.core import Block, Builder, Func, Op, Params, Value, attr_number, remade, tensor_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, dead_code, rebuild
from graphfuse.ir.types import F16, F32, Scalar, Tensor

KINDS = frozenset({"pointwise", "reduction", "contraction", "attention"})
"""Kinds of regions whose operands and results may be halves: they compute what they read and write at any index."""


@passing("regions")
def store_halves(func: Func, *, to: Scalar = F16) -> Func:
    """Store what regions exchange as halves."""
    found = _Narrowing(classify(func, to), to)
    found.survey(func)
    return dead_code(rebuild(func, visit_pair=found.visit))


@dataclass
class _Narrowing:
    """Which values become halves, and the rewriting of what they pass through."""

    classes: Classes
    elem: Scalar
    readers: dict[Value, list[Op]] = field(default_factory=lambda: defaultdict(list))
    kernels: Kernels = field(default_factory=Kernels)
    chosen: set[Value] = field(default_factory=set[Value])

    def __post_init__(self) -> None:
        self.halves = Halves(self.elem)

    def survey(self, func: Func) -> None:
        """Choose."""
        for op in _outside_regions(func.body):
            for v in op.operands:
                self.readers[v].append(op)
        for op in _outside_regions(func.body):
            self.chosen.update(v for v in op.results if self._is_chosen(op, v))

    def _is_chosen(self, op: Op, value: Value) -> bool:
        if not isinstance(value.type, Tensor) or value.type.elem != F32 or not self._is_read_by_kernels(value):
            return False
        if op.kind is graph.constant:
            varies = sum(d != 1 for d in value.type.shape)
            return varies > 1 and self.classes[value] == Class.KNOWN
        if op.kind is not graph.region or op.attrs["kind"] not in KINDS:
            return False
        inner = op.body.terminator.operands[value.index]
        return self.classes[inner] == Class.ORDINARY and not self._is_partial_sum(inner, value)

    def _is_read_by_kernels(self, value: Value) -> bool:
        return all(
            self._is_read_by_kernels(r.result)
            if r.kind is graph.reshape
            else r.kind is graph.region and r.attrs["kind"] in KINDS
            for r in self.readers[value]
        )

    def _is_partial_sum(self, inner: Value, value: Value) -> bool:
        """Whether a contraction's results are added up by another region, as they are."""
        if inner.op is None or inner.op.kind is not graph.contract:
            return False
        inside = [
            reader
            for region in self.readers[value]
            if region.kind is graph.region
            for p, v in zip(region.body.params.values, region.operands, strict=True)
            if v == value
            for reader in region.body.ops
            if p in reader.operands
        ]
        return bool(inside) and all(r.kind is graph.reduce and r.attrs["kind"] == "sum" for r in inside)

    # rewriting

    def visit(self, old: Op, new: Op) -> Replacement | None:
        """What takes an op's place; a region's results may be its operands, where it only cast them."""
        if old.kind is graph.constant and old.result in self.chosen:
            array = array_of(old.result)
            assert array is not None
            return constant(self.halves.array(array), old)
        if old.kind is graph.reshape and new.operands[0].type != old.operands[0].type:
            return remade(new, *new.operands)
        return self._region(old, new) if old.kind is graph.region else None

    def _region(self, old: Op, new: Op) -> Replacement:
        narrow = {i for i, v in enumerate(old.results) if v in self.chosen}
        if not narrow and all(a.type == b.type for a, b in zip(old.operands, new.operands, strict=True)):
            return replace(new, attrs={**new.attrs, "kernel": self.kernels.name(str(old.attrs["kind"]), old.body)})
        rewriting = _Body(old.body, Params(tuple(v.type for v in new.operands)), self.elem)
        results = rewriting.run(narrow)
        free = [self._is_read_by_kernels(v) for v in old.results]
        # where each result comes from: an operand, or the region's result of that number
        sources: list[Value | int] = []
        kept: list[Value] = []
        merged: dict[Value, int] = {}
        operands = dict(zip(rewriting.params.values, new.operands, strict=True))
        for v, may_merge in zip(results, free, strict=True):
            if may_merge and v in operands:
                sources.append(operands[v])
            elif may_merge and v in merged:
                sources.append(merged[v])
            else:
                sources.append(len(kept))
                if may_merge:
                    merged[v] = len(kept)
                kept.append(v)
        if not kept:
            return tuple(v for v in sources if isinstance(v, Value))
        body = rewriting.block(kept)
        kind = str(old.attrs["kind"])
        made = graph.region(*new.operands, kernel=self.kernels.name(kind, body), kind=kind, bodies=(body,), loc=old.loc)
        hints = [""] * len(kept)
        for v, source in zip(old.results, sources, strict=True):
            if isinstance(source, int):
                hints[source] = hints[source] or v.hint
        made = replace(made, hints=tuple(hints))
        return tuple(made.results[s] if isinstance(s, int) else s for s in sources)


class _Body:
    """A region's body over parameters that may be halves: moved as such, cast where something computes with them."""

    def __init__(self, old: Block, params: Params, elem: Scalar) -> None:
        self.old, self.params, self.elem = old, params, elem
        self.builder = Builder()
        self.same: dict[Value, Value] = {}
        """New values of the old ones, in their own type."""
        self.half: dict[Value, Value] = {}
        """What is at hand as halves and was never more."""
        self.rounded: dict[Value, Value] = {}
        """Casts to halves."""
        for v, new in zip(old.params.values, params.values, strict=True):
            (self.same if v.type == new.type else self.half)[v] = new

    def run(self, narrow: set[int]) -> list[Value]:
        """The body's results, those of `narrow` as halves."""
        for op in self.old.ops[:-1]:
            self._copy(op)
        returned = self.old.terminator.operands
        return [self._as_half(v) if i in narrow else self._as_same(v) for i, v in enumerate(returned)]

    def block(self, returned: list[Value]) -> Block:
        """The new body with these results."""
        self.builder.append(control.yield_(*returned))
        return self.builder.block(self.params)

    def _copy(self, op: Op) -> None:
        if op.kind is graph.cast and op.attrs["to"] == self.elem and op.operands[0] in self.half:
            self.same[op.result] = self.half[op.operands[0]]
        elif self._moves_halves(op):
            moved = (self.half[v] if v in self.half else self._as_same(v) for v in op.operands)
            self.half[op.result] = self.builder.append(remade(op, *moved)).result
        else:
            new = self.builder.append(replace(op, operands=tuple(self._as_same(v) for v in op.operands)))
            self.same.update(zip(op.results, new.results, strict=True))
            if op.kind is graph.cast and op.attrs["to"] == self.elem:
                self.rounded.setdefault(op.operands[0], new.result)

    def _moves_halves(self, op: Op) -> bool:
        """Whether an op only moves elements (or takes the largest), all of which are at hand as halves."""
        exact = op.kind in VIEWS or op.kind in GATHERS or op.kind is graph.concat
        if op.kind is graph.reduce_window:
            exact = op.attrs["kind"] in ("max", "min")
        if op.kind is graph.pad:
            exact = number_fits(attr_number(op, "value"), self.elem)
        wide = [v for v in op.operands if tensor_of(v).elem == F32]
        return exact and bool(wide) and all(v in self.half for v in wide)

    def _as_same(self, value: Value) -> Value:
        if value not in self.same:
            self.same[value] = self.builder.append(graph.cast(self.half[value], to=F32)).result
        return self.same[value]

    def _as_half(self, value: Value) -> Value:
        if value in self.half:
            return self.half[value]
        if value not in self.rounded:
            cast = graph.cast(self._as_same(value), to=self.elem)
            self.rounded[value] = self.builder.append(cast).result
        return self.rounded[value]


def _outside_regions(block: Block) -> Iterator[Op]:
    """The ops of a block and of the loops in it."""
    for op in block.ops:
        yield op
        for body in op.bodies if op.kind is not graph.region else ():
            yield from _outside_regions(body)

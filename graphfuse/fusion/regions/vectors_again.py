"""Computes the vector of a product in the product's own kernel, where each of its blocks reads the whole vector anyway.

    %y = graph.region(%x, %g) {kind = "reduction"} do (%0, %1) { a norm } : tensor<1x2048xbf16>
    %q = graph.region(%y, %a) {kind = "contraction"} do (%2, %3) { graph.contract(%2, %3) } : tensor<1x3072xbf16>

becomes

    %q = graph.region(%x, %g, %a) {kind = "contraction"} do (%0, %1, %3) { a norm, then graph.contract(.., %3) }

A launch, and the way of a vector through the cache, take longer than a block takes to make the vector again. Which
products read one that way, and make one of what, is a target's to say.

Requires: regions. Ensures: the same values, a kernel less. Declines: what something else reads too, and what is made of
much more than itself. Cost: one walk, and what `takes` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from graphfuse.dialects import graph
from graphfuse.fusion.regions.compute_again import FILLS, VIEWS
from graphfuse.fusion.regions.dataflow import operands_inside
from graphfuse.fusion.regions.outline import Kernels
from graphfuse.ir.core import Func, Op, Params, Trait, Value, tensor_of
from graphfuse.ir.remake import Copier, Remaker, inlined
from graphfuse.symbolic import typical

KINDS = frozenset({"pointwise", "reduction"})
"""Of regions that make a vector."""
PLAIN = frozenset({"kernel", "kind"})
"""Attributes of regions that write nothing in place."""
MOST_TIMES = 4
"""The bytes of the vector that it may be made of: a norm of a sum reads three."""


def made_by_products(func: Func, takes: Callable[[Op], bool]) -> Func:
    """Products that make their vectors, where a target `takes` such regions."""
    maker = _Maker(func, takes)
    made = maker.run()
    return made if maker.made else func


class _Maker(Remaker):
    def __init__(self, func: Func, takes: Callable[[Op], bool]) -> None:
        super().__init__(func)
        self.takes, self.kernels = takes, Kernels()
        self.made: dict[Value, Op] = {}
        """Regions that products compute, on new operands, by their only result."""
        self.readers: dict[Value, list[Op]] = {}
        for op in func.body.ops:
            for v in dict.fromkeys(operands_inside(op)):
                self.readers.setdefault(v, []).append(op)

    def op(self, op: Op) -> None:
        """Leave out what products make, and make it in these."""
        if op.kind is not graph.region:
            self.copy(op)
            return
        new = replace(op, operands=tuple(map(self.new, op.operands)))
        if self._is_vector(op) and all(self.takes(_making(r, {op.result: op})) for r in self.readers[op.result]):
            self.made[op.result] = new
            return
        new = _making(new, {v: self.made[v] for v in op.operands if v in self.made})
        new = replace(new, attrs={**new.attrs, "kernel": self.kernels.name(str(op.attrs["kind"]), new.body)})
        self.values.update(zip(op.results, self.builder.append(new).results, strict=True))

    def _is_vector(self, op: Op) -> bool:
        """Whether a region makes one small thing that products alone read."""
        if op.attrs["kind"] not in KINDS or len(op.types) != 1 or not op.attrs.keys() <= PLAIN:
            return False
        readers = self.readers.get(op.result, [])
        if not readers or any(v in self.made for v in op.operands):
            return False
        nbytes, *read = (typical(tensor_of(v).nbytes, self.func.ranges) for v in (op.result, *op.operands))
        return (
            all(o.has(Trait.ELEMENTWISE) or o.kind in VIEWS | FILLS | {graph.reduce} for o in op.body.ops[:-1])
            and all(r.kind is graph.region and r.attrs["kind"] == "contraction" for r in readers)
            and all(r.attrs.keys() <= PLAIN for r in readers)
            and sum(read) <= MOST_TIMES * nbytes
        )


def _making(reader: Op, made: Mapping[Value, Op]) -> Op:
    """A region that computes some of its operands, as the regions they are the results of do."""
    if not made:
        return reader
    operands = tuple(dict.fromkeys(w for v in reader.operands for w in (made[v].operands if v in made else (v,))))
    params = Params(tuple(v.type for v in operands))
    at = dict(zip(operands, params.values, strict=True))
    copier = Copier()
    for p, v in zip(reader.body.params.values, reader.operands, strict=True):
        if v in made:
            (copier.values[p],) = inlined(made[v].body, [at[w] for w in made[v].operands], copier.builder)
        else:
            copier.values[p] = at[v]
    for op in reader.body.ops:
        copier.op(op)
    return replace(reader, operands=operands, bodies=(copier.builder.block(params),))

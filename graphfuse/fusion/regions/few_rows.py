"""Kernels for products and attentions of few rows, beside those for any: which of them runs is known when shapes are.

    %y = graph.region(%x, %w) {kernel = "contraction_0", kind = "contraction"} do (...) {
      %p = graph.contract(%x, %w) {spec = "amk,nk->amn"} : tensor<(batch)x(steps)x2048xbf16>
      ...

has a kernel for any batch and number of steps, whose tiles are those for many rows, and one each for

    batch = 1, steps = 1            one row: of known shapes
    batch = 1, steps in 1..64       few rows
    steps = 1, batch in 1..64

and of codes of few bits others for up to 8 rows.

The plan launches each with as many programs as it has, or none: `grid * is(batch = 1) * is(steps = 1)`. Launches of no
programs are dropped when a plan is bound to shapes, so that choosing takes no time in a run, and nothing but the plan
knows that there are several.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from graphfuse.dialects import graph
from graphfuse.ir.core import Attr, Op, Params, tensor_of
from graphfuse.ir.remake import Copier
from graphfuse.ir.types import Tensor, Type
from graphfuse.symbolic import Dim, Expr, Ranges, maximum, minimum, product, substitute, sym, symbols

FEW = 64
"""Rows up to which the matrix of a product takes longer to load than to multiply by."""
FEWER = 8
"""Rows up to which codes of few bits take as long to widen as to come: these have a kernel more."""
ONE = "one"
"""The suffix of the kernel for one row."""
MOST_SYMBOLS = 2
"""Of the rows: each takes a kernel more."""


@dataclass(frozen=True, slots=True)
class Version:
    """A region for some shapes: a suffix of its name, the ranges of symbols there, and 1 for such shapes, else 0."""

    suffix: str
    region: Op
    ranges: Ranges
    holds: Dim


def versions(region: Op, ranges: Ranges) -> list[Version]:
    """Of a region of products whose number of rows is not known, but may be few; none for others."""
    names = _of_rows(region)
    if not 0 < len(names) <= MOST_SYMBOLS or any(ranges.get(n, (0, 0))[0] < 1 for n in names):
        return []
    has_codes = any(op.kind is graph.contract_packed for op in region.body.ops)
    limits, out = ((FEWER, FEW) if has_codes else (FEW,)), list[Version]()
    whole: dict[str, Dim] = {}
    """1 for the shapes of a version and for fewer rows."""
    for few, limit in (("", 1), *itertools.product(names, limits)):
        within = {n: min(limit, ranges[n][1]) if n == few else 1 for n in names}
        if any(high < ranges[n][0] for n, high in within.items()) or (few in whole and ranges[few][1] <= FEWER):
            continue
        holds = product([_is_at_most(n, high) for n, high in within.items()])
        known = {n: high for n, high in within.items() if high == 1}
        left = {n: (r[0], within.get(n, r[1])) for n, r in ranges.items() if n not in known}
        made, fewer = _Binder(known).made(region), whole.get(few, whole.get("", 0))
        out.append(Version(few if limit == FEW else f"{few}_{limit}" if few else ONE, made, left, holds - fewer))
        whole[few] = holds
    return out


def _of_rows(region: Op) -> list[str]:
    """The symbols of the rows of a region's products; none where their columns have symbols, too.

    Of an attention, those of a head's queries.
    """
    products = [op for op in region.body.ops if op.kind in (graph.contract, graph.contract_packed)]
    is_attention = region.attrs["kind"] == "attention"
    found: set[str] = set()
    for op in products[:1] if is_attention else products:
        rows, columns = _dims_of(op)
        if not is_attention and any(map(symbols, columns)):
            return []
        found = found.union(*map(symbols, rows))
    return sorted(found)


def _dims_of(op: Op) -> tuple[list[Dim], list[Dim]]:
    """A product's dims of rows, and those of its columns."""
    shape = tensor_of(op.result).shape
    if op.kind is graph.contract_packed:
        return [*shape[:-1]], [shape[-1]]
    _, columns, out = graph.parse_spec(str(op.attrs["spec"]))
    named = list(zip(out, shape, strict=True))
    return [d for c, d in named if c not in columns], [d for c, d in named if c in columns]


def _is_at_most(name: str, high: int) -> Dim:
    """1 where a symbol, which is at least 1, is at most `high`; else 0."""
    return maximum(0, minimum(1, high + 1 - sym(name)))


class _Binder(Copier):
    """Makes regions with numbers in the place of symbols."""

    def __init__(self, known: Mapping[str, int]) -> None:
        super().__init__()
        self.known = known

    def made(self, region: Op) -> Op:
        """A region of other operands: those that there are have symbols."""
        operands = Params(tuple(self._type(v.type) for v in region.operands)).values
        params = Params(tuple(map(self._type, region.body.params.types)), region.body.params.hints)
        self.values.update(zip(region.body.params.values, params.values, strict=True))
        types, attrs = tuple(map(self._type, region.types)), self._attrs(region)
        return replace(region, operands=operands, types=types, attrs=attrs, bodies=(self.body(region.body, params),))

    def copy(self, op: Op) -> Op:
        """Place an op whose types and attributes have numbers."""
        bodies = tuple(self.body(b, Params(tuple(map(self._type, b.params.types)), b.params.hints)) for b in op.bodies)
        operands, types = tuple(map(self.new, op.operands)), tuple(map(self._type, op.types))
        made = replace(op, operands=operands, types=types, attrs=self._attrs(op), bodies=bodies)
        self.values.update(zip(op.results, made.results, strict=True))
        return self.builder.append(made)

    def _attrs(self, op: Op) -> Mapping[str, Attr]:
        return {name: self._attr(a) for name, a in op.attrs.items()}

    def _attr(self, attr: Attr) -> Attr:
        if isinstance(attr, tuple):
            return tuple(map(self._attr, attr))
        return substitute(attr, self.known) if isinstance(attr, Expr) else attr

    def _type(self, type_: Type) -> Type:
        if not isinstance(type_, Tensor):
            return type_
        return replace(type_, shape=tuple(substitute(d, self.known) for d in type_.shape))

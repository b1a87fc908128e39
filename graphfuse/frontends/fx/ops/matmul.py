"""Matrix products. Halves accumulate in f32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from graphfuse.dialects import graph
from graphfuse.frontends.emit import elem_of, shape_of
from graphfuse.frontends.fx.lowering import Call, Number, lowers, wide_elem
from graphfuse.ir.core import Value
from graphfuse.ir.types import I32

aten = torch.ops.aten
_DIFFER = "its operands' types differ"


@lowers(aten._int_mm.default)
def int_mm(c: Call, self: Value, mat2: Value) -> Value:
    """Of bytes, with their sums as i32."""
    return c.e.contract(self, mat2, "mk,kn->mn", I32)


@lowers(aten.mm.default, spec="mk,kn->mn")
@lowers(aten.bmm.default, spec="bmk,bkn->bmn")
@lowers(aten.mv.default, spec="mk,k->m")
@lowers(aten.dot.default, aten.vdot.default, spec="k,k->")
def mm(c: Call, self: Value, *, spec: str, **given: Value) -> Value:
    (other,) = given.values()
    return product(c, self, other, spec)


def product(c: Call, a: Value, b: Value, spec: str) -> Value:
    """A contraction in the operands' element; halves are rounded once, at the end."""
    c.want(elem_of(a) == elem_of(b), _DIFFER)
    if elem_of(a).is_float:
        return c.e.contract(a, b, spec)
    c.want(elem_of(a).name != "bool", "products of bool")
    return c.e.contract(a, b, spec, elem_of(a))


@lowers(aten.addmm.default, spec="mk,kn->mn")
@lowers(aten.baddbmm.default, spec="bmk,bkn->bmn")
@lowers(aten.addmv.default, spec="mk,k->m")
@lowers(aten.addbmm.default, spec="bmk,bkn->mn")
def addmm(c: Call, self: Value, beta: Number = 1, alpha: Number = 1, *, spec: str, **given: Value) -> Value:
    """beta * x + alpha * (a @ b), rounded once; x is not read where beta is 0, so that its NaNs do not count."""
    a, b = given.values()
    c.want(len({elem_of(v) for v in (self, a, b)}) == 1, _DIFFER)
    elem = wide_elem(c.elem)
    out: Any = c.e.cast(c.e.contract(a, b, spec, elem if elem != c.elem else None), elem)
    if alpha != 1:
        out = c.map(graph.mul, out, alpha, elem=elem)
    if beta == 0:
        return c.rounded(out)
    term = self if beta == 1 else c.map(graph.mul, self, beta, elem=elem)
    return c.rounded(c.map(graph.add, out, term, elem=elem))


@lowers(aten._trilinear.default)
def trilinear(c: Call, i1: Value, i2: Value, i3: Value, sumdim: Sequence[int], **given: Any) -> Value:
    """The sum over some dims of a product of three tensors, each of which lacks some: two products, one sum."""
    rank, letters = len(shape_of(i1)) + len(given["expand1"]), "abcdefghijklmnopqrstuvwxyz"
    lacking = (given[f"expand{k}"] for k in (1, 2, 3))
    names = ["".join(letters[i] for i in range(rank) if i not in dims) for dims in lacking]
    out = "".join(letters[i] for i in range(rank) if i not in sumdim)
    between = "".join(n for n in letters[:rank] if n in names[0] + names[1] and n in names[2] + out)
    c.want(set(out) <= set("".join(names)), "the result has a dim of none of them")
    wide = wide_elem(c.elem)
    first = c.e.contract(i1, i2, f"{names[0]},{names[1]}->{between}", wide if wide != c.elem else None)
    return c.rounded(c.e.contract(first, c.e.cast(i3, wide), f"{between},{names[2]}->{out}"))

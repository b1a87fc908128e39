"""Makes attentions again of other shapes: their factors with a letter for each dim, and what lies between products."""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass

from graphfuse.dialects import graph
from graphfuse.fusion.regions.attention import Attention, find_attention
from graphfuse.fusion.regions.dataflow import Dataflow
from graphfuse.ir.core import Func, Op, Value, remade, tensor_of
from graphfuse.ir.rewrite import Replacement, dead_code, rebuild
from graphfuse.symbolic import Dim

Shape = tuple[Dim, ...]

FEW = 32
"""Queries below leave most of a tile of 64 rows empty."""


def made_again(func: Func, make: Callable[[Attention], Value | None]) -> Func:
    """The function with results of `make` in place of those of its body's attentions, but where that is None."""
    found = {a.output: a for a in find_attention(Dataflow(func.body))}
    inside = {op for a in found.values() for op in (a.scores, *a.between)}
    now: dict[Op, Op] = {}

    def visit(old: Op, new: Op) -> Replacement | None:
        if old in inside:
            now[old] = new
        a = found.get(old)
        return None if a is None else make(Attention(now[a.scores], new, frozenset(now[op] for op in a.between)))

    return dead_code(rebuild(func, visit_pair=visit)) if found else func


@dataclass(frozen=True)
class Factors:
    """Queries, keys and values of an attention, the letters of both products being the first's."""

    queries: Value
    keys: Value
    values: Value
    of_queries: str
    of_keys: str
    of_values: str
    of_scores: str
    """Keys last."""
    of_result: str
    """Elements of a value last."""
    probabilities: Value
    shape: Shape
    """Of the scores."""
    row: int
    """Which of their dims the queries are."""

    @classmethod
    def of(cls, found: Attention) -> Factors:
        """Those of an attention."""
        (queries, keys), (lhs, rhs, out) = found.scores.operands, graph.parse_spec(str(found.scores.attrs["spec"]))
        if out[-1] in lhs:
            queries, keys, lhs, rhs = keys, queries, rhs, lhs
        (p, values), (of_p, theirs, result) = (
            found.output.operands, graph.parse_spec(str(found.output.attrs["spec"])),
        )  # fmt: skip
        if p.op not in found.between:
            p, values, of_p, theirs = values, p, theirs, of_p
        letters = {result[-1]: unused(lhs + rhs + out), **dict(zip(of_p, out, strict=True))}
        of_values, of_result = ("".join(letters[c] for c in labels) for labels in (theirs, result))
        row = max(i for i, c in enumerate(out[:-1]) if c in lhs and c not in rhs)
        shape = tensor_of(found.scores.result).shape
        return cls(queries, keys, values, lhs, rhs, of_values, out, of_result, p, shape, row)

    @property
    def made(self) -> str:
        """The letters of a result in the order of the scores."""
        return self.of_scores[:-1] + self.of_result[-1]


def unused(labels: str) -> str:
    """A letter for one more dim."""
    return next(c for c in string.ascii_letters if c not in labels)


class Between:
    """Values between the products made again of other scores; `outside` has the others that they are made of."""

    def __init__(self, found: Attention, scores: Value, shape: Shape, outside: Callable[[Value], Value]) -> None:
        self.found, self.shape, self.outside = found, shape, outside
        self.made = {found.scores.result: scores}

    def value(self, v: Value) -> Value:
        """What stands for `v`."""
        if v not in self.made:
            self.made[v] = self._again(v.op) if v.op in self.found.between else self.outside(v)
        return self.made[v]

    def _again(self, op: Op) -> Value:
        operands = [self.value(v) for v in op.operands]
        if op.kind is graph.reduce:
            return remade(op, *operands, axes=(len(self.shape) - 1,)).result
        if op.kind is graph.broadcast:
            return remade(op, *operands, shape=self.shape).result
        return remade(op, *operands).result

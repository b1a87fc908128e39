"""Splits the keys of attentions that few programs would read: parts first, then their mean.

    %s = graph.contract(%q, %k) {spec = "bhqd,bhkd->bhqk"} : tensor<1x8x4x8192xf32>
    %p = softmax(%s)
    %y = graph.contract(%p, %v) {spec = "bhqk,bhkd->bhqd"} : tensor<1x8x4x64xf16>

becomes, for parts of 512 keys,

    %s = graph.contract(%q, %k16) {spec = "bhqd,bhpkd->bhqpk"} : tensor<1x8x4x16x512xf32>
    %p = softmax(%s), with %m the largest of each part and %l its sum of exponentials, 1x8x4x16x1xf32
    %o = graph.contract(%p, %v16) {spec = "bhqpk,bhpkd->bhqpd"} : tensor<1x8x4x16x64xf32>
    %y = sum of %w * %o / sum of %w over the parts, where %w = %l * exp(%m - the largest %m)

(Dao et al., Flash-Decoding for long-context inference). A part is an attention like any other: what lies between the
products is made again. If the last part is shorter, it is filled up, and what is beyond the keys is masked. How
many parts there are the target says, by bytes of keys and values: values that are a part of the keys are none besides.

Requires: own_masks. Ensures: the same values but for the order of sums. Cost: one walk for each attention.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from graphfuse.dialects import graph
from graphfuse.dialects.softmax import Softmax, find_softmax
from graphfuse.fusion.products.attention_again import Between, Factors, made_again, unused
from graphfuse.fusion.regions.attention import CHEAP, Attention
from graphfuse.fusion.simplify.fold_constants import cast_to, full
from graphfuse.fusion.simplify.simplify_movement import broadcasted, permuted, reshaped
from graphfuse.ir.core import Func, Value, remade, tensor_of
from graphfuse.ir.types import BF16, F16, F32, I64
from graphfuse.symbolic import bounds, product, static

KeyParts = Callable[[int, int, int, int, int], int]
"""Heads of keys, rows of queries of each, keys, bytes of a key and its value, elements of a value: keys of a part."""


def keys_in_parts(func: Func, key_parts: KeyParts) -> Func:
    """Attentions of the function's body, with keys in parts as a target wants them."""

    def make(found: Attention) -> Value | None:
        old, softmax = Factors.of(found), _softmax(found)
        rows, keys = old.shape[old.row], old.shape[-1]
        if softmax is None or not isinstance(rows, int) or not rows or not isinstance(keys, int):
            return None
        heads = bounds(product(old.shape[:-1]), func.ranges)[1] // static(rows)
        elements = [bounds(product(tensor_of(v).shape), func.ranges)[1] for v in (old.keys, old.values)]
        values = elements[1] // max(1, heads * keys)
        nbytes = tensor_of(old.keys).elem.bytes * sum(elements[: 1 if _is_latent(old) else 2]) // max(1, heads * keys)
        part = key_parts(heads, static(rows), keys, nbytes, values)
        return _Parts(found, old, softmax, part).result() if part < keys else None

    return made_again(func, make)


def _is_latent(old: Factors) -> bool:
    """Whether values are a part of the keys."""
    keys, values = old.keys, old.values
    while keys.op is not None and keys.op.kind is graph.reshape:
        keys = keys.op.operands[0]
    while values != keys and values.op is not None and values.op.kind in (graph.slice_, graph.reshape):
        values = values.op.operands[0]
    return values == keys


def _softmax(found: Attention) -> Softmax | None:
    """The softmax between the products, if it can be put together of those of parts."""
    reduces = sorted((op for op in found.between if op.kind is graph.reduce), key=lambda op: str(op.attrs["kind"]))
    softmax = find_softmax(reduces, Factors.of(found).probabilities)
    return softmax if softmax is not None and softmax.is_plain else None


class _Parts:
    """One attention in parts of so many keys."""

    def __init__(self, found: Attention, old: Factors, softmax: Softmax, part: int) -> None:
        self.found, self.old, self.softmax = found, old, softmax
        self.keys, self.parts = static(old.shape[-1]), -(-static(old.shape[-1]) // part)
        self.shape = (*old.shape[:-1], self.parts, part)
        self.missing = self.parts * part - self.keys
        self.letter = unused(old.of_queries + old.of_keys + old.of_result)

    def result(self) -> Value:
        """The attention's result, of its own element."""
        old, found, key = self.old, self.found, self.old.of_scores[-1]
        of_keys, of_values, of_scores = (
            labels.replace(key, self.letter + key) for labels in (old.of_keys, old.of_values, old.of_scores)
        )
        keys, values = self._cut(old.keys, old.of_keys.index(key)), self._cut(old.values, old.of_values.index(key))
        scores = remade(found.scores, old.queries, keys, spec=f"{old.of_queries},{of_keys}->{of_scores}")
        seen, shifted = Between(found, scores.result, self.shape, self._outside), self.softmax.shifted
        (z,) = self.softmax.largest.operands
        seen.made[z] = self._hidden(seen.value(z))
        seen.made[shifted.result] = graph.sub(seen.made[z], self._base(seen.value(self.softmax.base))).result
        elem = tensor_of(found.output.result).elem
        wide = F32 if elem in (F16, BF16) else elem
        spec = f"{of_scores},{of_values}->{old.of_scores[:-1]}{self.letter}{old.of_result[-1]}"
        made = remade(found.output, seen.value(old.probabilities), values, spec=spec, elem=wide).result
        largest, total = (seen.value(op.result) for op in (self.softmax.largest, self.softmax.sum))
        return cast_to(self._mean(*(cast_to(self._in_order(v), wide) for v in (largest, total, made))), elem)

    # keys in parts

    def _cut(self, x: Value, axis: int) -> Value:
        """`x` with an axis of keys in parts, the last one filled up with 0."""
        shape = tensor_of(x).shape
        if self.missing:
            high = tuple(self.missing if i == axis else 0 for i in range(len(shape)))
            x = graph.pad(x, low=(0,) * len(shape), high=high).result
        return graph.reshape(x, shape=(*shape[:axis], *self.shape[-2:], *shape[axis + 1 :])).result

    def _outside(self, v: Value) -> Value:
        """A value of the scores' shape, or one for each row of them."""
        *rows, last = tensor_of(v).shape
        if last != self.keys:
            return graph.broadcast(reshaped(v, (*rows, 1, 1)), shape=(*self.shape[:-1], 1)).result
        return self._masking(v) if self.missing else reshaped(v, self.shape)

    def _masking(self, v: Value) -> Value:
        """The same for more keys than there are, whose scores are hidden: made again of what is padded, or indices."""
        op, shape = v.op, tensor_of(v).shape
        in_parts = (*shape[:-1], *self.shape[-2:])
        if op is not None and op.kind in (graph.full, graph.iota):
            return reshaped(remade(op, shape=(*shape[:-1], math.prod(self.shape[-2:]))).result, in_parts)
        if op is not None and op.kind in CHEAP:
            return remade(op, *map(self._masking, op.operands)).result
        if op is not None and op.kind is graph.broadcast:
            (x,) = op.operands
            rows, last = tensor_of(x).shape[:-1], tensor_of(x).shape[-1:]
            inner = self._masking(x) if last == (self.keys,) else reshaped(x, (*rows, 1, *last))
            return graph.broadcast(inner, shape=in_parts).result
        return graph.reshape(self._cut(reshaped(v, (*shape, 1)), len(shape) - 1), shape=in_parts).result

    def _hidden(self, scores: Value) -> Value:
        """Scores of keys that are there, the others being -inf."""
        if not self.missing:
            return scores
        rank, (parts, part) = len(self.shape), self.shape[-2:]
        key = graph.iota(shape=(self.parts * self.shape[-1],), elem=I64, axis=0)
        is_key = graph.lt(key, full((self.parts * part,), I64, self.keys))
        seen = graph.broadcast(reshaped(is_key.result, (*(1,) * (rank - 2), parts, part)), shape=self.shape)
        return graph.select(seen, scores, full(self.shape, tensor_of(scores).elem, -math.inf)).result

    def _base(self, largest: Value) -> Value:
        """What is subtracted from scores: 0 in parts where the largest is -inf, whose sum then is 0."""
        t = tensor_of(largest)
        nothing = graph.eq(largest, full(t.shape, t.elem, -math.inf))
        base = graph.select(nothing, full(t.shape, t.elem, 0.0), largest)
        return graph.broadcast(base, shape=self.shape).result

    # results of parts

    def _in_order(self, v: Value) -> Value:
        """Something of each part, for each element of the result, in its order."""
        shape = (*self.shape[:-1], tensor_of(self.found.output.result).shape[-1])
        made, order = self.old.made[:-1], self.old.of_result[:-1]
        return permuted(broadcasted(v, shape), (*(made.index(c) for c in order), len(order), len(order) + 1))

    def _mean(self, largest: Value, total: Value, made: Value) -> Value:
        """Results of parts by their weights; a part without any key that is seen has none."""
        t = tensor_of(made)
        axis, zero = t.rank - 2, full(t.shape, t.elem, 0.0)

        def over_parts(kind: str, x: Value) -> Value:
            return graph.reduce(x, axes=(axis,), kind=kind, keepdims=True).result

        of_all = over_parts("max", largest)
        power = graph.exp(graph.sub(largest, graph.broadcast(of_all, shape=t.shape)))
        unseen = graph.eq(largest, full(t.shape, t.elem, -math.inf))
        weight = graph.select(unseen, zero, graph.mul(total, power))
        weighted = graph.select(unseen, zero, graph.mul(made, weight))
        weights = over_parts("sum", weight.result)
        mean = graph.div(over_parts("sum", weighted.result), weights).result
        some, none = tensor_of(mean).shape, full(tensor_of(mean).shape, t.elem, 0.0)
        if self.softmax.guard == "nan":
            mean = graph.select(graph.gt(weights, none), mean, none).result
        elif self.softmax.guard == "unseen":
            mean = graph.select(graph.eq(of_all, full(some, t.elem, -math.inf)), none, mean).result
        return reshaped(mean, tensor_of(self.found.output.result).shape)

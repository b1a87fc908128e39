"""Evaluate ops whose operands are known, unless the result would be much larger than what it is made from.

Owns what "known at compile time" means, for all graph passes. Before:

    %w = graph.constant() {value = dense<2xf32, [1.0 2.0]>} : tensor<2xf32>
    %b = graph.broadcast(%w) {shape = [(n), 2]} : tensor<(n)x2xf32>
    %e = graph.exp(%b) : tensor<(n)x2xf32>

After, with `broadcast` left symbolic (as `full` and `iota` are: kernels compute them for free):

    %w = graph.constant() {value = dense<2xf32, [2.7182817 7.389056]>} : tensor<2xf32>
    %e = graph.broadcast(%w) {shape = [(n), 2]} : tensor<(n)x2xf32>

Requires nothing. Ensures: no op reads only constants, except where the limit says so. Values are computed by
the interpreter in the op's own element type. Cost: one sweep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphfuse.dialects import graph
from graphfuse.fusion.simplify.patterns import made_by, operand_of
from graphfuse.interp import elementwise as ew
from graphfuse.interp.graph import evaluate_op
from graphfuse.ir.core import Func, Op, Trait, Value, attr_ints, remade, tensor_of
from graphfuse.ir.dense import Dense
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import Replacement, dead_code, readers, rebuild
from graphfuse.ir.types import Scalar, Tensor
from graphfuse.symbolic import Dim, Expr, static

Array = np.ndarray[Any, Any]
Number = bool | int | float

LIMIT_BYTES = 1 << 20
"""Results up to this size are always folded, larger ones up to `LIMIT_GROWTH` times their operands."""
LIMIT_GROWTH = 4
"""Bytes that become f32 are folded; a row that is broadcast over many is not."""
MOST_GROWN = 1 << 28
"""A result above this size is folded only if it is no larger than its operands: growth by steps has no end."""

_SYMBOLIC = frozenset({graph.constant, graph.full, graph.iota, graph.broadcast})


def array_of(v: Value) -> Array | None:
    """What a `graph.constant` holds."""
    if v.op is None or v.op.kind is not graph.constant:
        return None
    value = v.op.attrs["value"]
    assert isinstance(value, Dense)
    return value.array


def splat_of(v: Value) -> Number | None:
    """The number that a `graph.full` repeats; None for other ops and for dims."""
    if v.op is None or v.op.kind is not graph.full:
        return None
    value = v.op.attrs["value"]
    return value if isinstance(value, Number) else None


def constant(array: Array, like: Op | None = None) -> Value:
    """A new constant, at the location of `like`."""
    return graph.constant(value=Dense(array), loc=like.loc if like else None).result


def full(shape: tuple[Dim, ...], elem: Scalar, value: Number) -> Value:
    """A new tensor of one number."""
    return graph.full(shape=shape, elem=elem, value=number(value, elem)).result


def cast_to(x: Value, elem: Scalar) -> Value:
    """`x` in another element, if it is not of that."""
    return x if tensor_of(x).elem == elem else graph.cast(x, to=elem).result


def number(value: Any, elem: Scalar) -> Number:
    """A Python number as an attribute of a tensor of `elem` spells it."""
    if elem.name == "bool":
        return bool(value)
    return float(value) if elem.is_float else int(value)


def uniform(array: Array) -> Number | None:
    """The number that every element of a non-empty array is (bit for bit), if there is one."""
    if not array.size:
        return None
    few = (array.flat[0], array.flat[array.size // 2], array.flat[array.size - 1])
    if any(x.tobytes() != few[0].tobytes() for x in few):
        return None
    bits = array.view(f"u{array.itemsize}")
    if not bool(np.all(bits == bits.flat[0])):
        return None
    return number(few[0], Dense(array[:0] if array.ndim else array).elem)


def aligned(v: Value) -> Array | None:
    """A known value as an array of the same rank, of size 1 along dims that it does not vary along."""
    t, x = tensor_of(v), operand_of(v, graph.broadcast) or v
    if (array := array_of(x)) is not None:
        return array if x is v else array.reshape((1,) * (t.rank - array.ndim) + array.shape)
    value = splat_of(x)
    return None if value is None else np.asarray(ew.literal(value, t.elem)).reshape((1,) * t.rank)


def repeated(v: Value) -> Array | None:
    """A constant that is repeated, reshaped and cast, as scales of blocks are: larger than a constant should be."""
    if (op := made_by(v, graph.reshape, graph.cast)) is None:
        return None
    (x,) = op.operands
    if not tensor_of(x).is_static:  # as what is reshaped to no element may be
        return None
    if op.kind is graph.cast:
        inner = repeated(x)
        return None if inner is None else evaluate(op, [inner])[0]
    row = operand_of(x, graph.broadcast)
    if row is None or (array := array_of(row)) is None:
        return None
    whole = np.broadcast_to(array, [static(d) for d in tensor_of(x).shape])
    return whole.reshape([static(d) for d in tensor_of(v).shape])


def materialised(array: Array, t: Tensor) -> Value:
    """The value of type `t` that `aligned` would give `array` for."""
    if (value := uniform(array)) is not None:
        return full(t.shape, t.elem, value)
    if array.shape == t.shape:
        return constant(array)
    lead = next((i for i, d in enumerate(array.shape) if d != 1), array.ndim)
    return graph.broadcast(constant(array.reshape(array.shape[lead:])), shape=t.shape).result


def evaluate(op: Op, arrays: list[Array]) -> tuple[Array, ...]:
    """The results of an op of this kind and attributes on other operands."""
    return evaluate_op(remade(op, *(constant(a) for a in arrays)), arrays)


def elementwise(op: Op, arrays: list[Array]) -> Array | None:
    """An elementwise op on aligned arrays; None when the result is over the limit."""
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    if not _within_limit(int(np.prod(shape)) * tensor_of(op.result).elem.bytes, arrays):
        return None
    return evaluate(op, [np.broadcast_to(a, shape) for a in arrays])[0]


def _within_limit(result_bytes: int, arrays: list[Array]) -> bool:
    known = {id(a): a.nbytes for a in arrays}  # twice the same is as large as once
    growth = LIMIT_GROWTH if result_bytes <= MOST_GROWN else 1
    return result_bytes <= max(LIMIT_BYTES, growth * sum(known.values()))


def fold_elementwise(op: Op) -> Replacement | None:
    """f(broadcast a, broadcast b) = broadcast f(a, b), for known a and b."""
    arrays: list[Array] = []
    for v in op.operands:
        if (array := aligned(v)) is None and (array := repeated(v)) is None:
            return None
        arrays.append(array)
    out = elementwise(op, arrays)
    return None if out is None else materialised(out, tensor_of(op.result))


def _fold_any(op: Op) -> Replacement | None:
    """f(constants) is a constant."""
    arrays: list[Array] = []
    for v in op.operands:
        t = tensor_of(v)
        if not t.is_static or (array := aligned(v)) is None:
            return None
        arrays.append(array)
    types = [t for t in op.types if isinstance(t, Tensor)]
    if not all(t.is_static for t in types) or _has_symbol(op):
        return None
    if not _within_limit(sum(static(t.nbytes) for t in types), arrays):
        return None
    if op.kind is graph.permute and arrays[0].shape == tensor_of(op.operands[0]).shape:
        return constant(arrays[0].transpose(attr_ints(op, "perm")), op)  # a view: weights are large
    shapes = [[static(d) for d in tensor_of(v).shape] for v in op.operands]
    results = evaluate(op, [np.broadcast_to(a, s) for a, s in zip(arrays, shapes, strict=True)])
    return tuple(materialised(r, t) for r, t in zip(results, types, strict=True))


def _has_symbol(op: Op) -> bool:
    """Whether an attribute depends on a symbol, as where a slice begins in a loop does."""
    values = (v for a in op.attrs.values() for v in (a if isinstance(a, tuple) else (a,)))
    return any(isinstance(v, Expr) for v in values)


def fold(op: Op) -> Replacement | None:
    """Replace an op on known operands by its value."""
    if op.kind in _SYMBOLIC or not op.operands or op.bodies or not op.has(Trait.PURE):
        return None
    blocks = op.has(Trait.ELEMENTWISE) and any(array_of(v) is not None for v in op.operands)
    for v in op.operands:
        if v.op is None or (v.op.kind not in _SYMBOLIC and not (blocks and repeated(v) is not None)):
            return None
    return fold_elementwise(op) if op.has(Trait.ELEMENTWISE) else _fold_any(op)


def _shared_weights(func: Func) -> set[Op]:
    """Permutes of a constant that others read too, for contractions only: these read it by its labels instead."""
    read_by = readers(func)
    return {
        op
        for op in func.walk()
        if op.kind is graph.permute
        and array_of(op.operands[0]) is not None
        and any(reader.kind is not graph.permute for reader in read_by[op.operands[0]])
        and all(reader.kind is graph.contract for reader in read_by.get(op.result, ()))
    }


@passing("graph")
def fold_constants(func: Func) -> Func:
    """Evaluate ops whose operands are known."""
    return fold_all_but(func, lambda _: False)


def fold_all_but(func: Func, keep: Callable[[Op], bool]) -> Func:
    """Evaluate ops whose operands are known, but those of `keep`."""
    shared = _shared_weights(func)
    return dead_code(
        rebuild(func, visit_pair=lambda old, new: None if old in shared or keep(new) else fold(new)),
    )

"""What graph-dialect ops mean, in numpy: the specification.

`run` evaluates a function in its own precision; with `wide` every float tensor is f64, which gives the
values that tolerances are measured from. Speed matters only so far as whole models stay testable. This
module decides numbers; types and shapes are decided by the type rules.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# numpy's stubs leave most results partly unknown

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphfuse.dialects import graph
from graphfuse.dialects.call import arguments_of, function_of
from graphfuse.dialects.codes import BYTES, line_steps
from graphfuse.dialects.elementwise import ROUNDED_KINDS
from graphfuse.errors import GraphfuseError, InputError
from graphfuse.interp import elementwise as ew
from graphfuse.interp.arrays import (
    COMBINE,
    along,
    contract_arrays,
    correlate,
    identity,
    lanes_in_rows,
    narrowed,
    pad_axis,
    reduce_array,
    scan_array,
    unpacked,
    unpacked_lanes,
    widened,
)
from graphfuse.interp.block import launch
from graphfuse.interp.elementwise import Array
from graphfuse.interp.memory import Semantics, Symbols, attr, elementwise
from graphfuse.ir.core import Block, Func, Op, OpDef, Value, tensor_of, walk
from graphfuse.ir.dense import Dense, numpy_dtype, scalar_of
from graphfuse.ir.types import I8, Scalar, Tensor
from graphfuse.symbolic import Dim, Expr, evaluate, linear_in, substitute
from graphfuse.symbolic import symbols as symbols_of


@dataclass(frozen=True, slots=True)
class Context(Symbols):
    """What an op's meaning depends on besides its operands: symbol values, and whether floats are widened."""

    wide: bool = False

    def dtype(self, elem: Scalar) -> np.dtype[Any]:
        """The dtype that holds `elem` here."""
        return np.dtype(np.float64) if self.wide and elem.is_float else numpy_dtype(elem)

    def literal(self, value: Any, elem: Scalar) -> Array:
        """A number or dim as a 0-d array of `elem`."""
        number = self.dim(value) if isinstance(value, Expr) else value
        return np.asarray(np.float64(number)) if self.wide and elem.is_float else ew.literal(number, elem)


def run(func: Func, *inputs: Array, wide: bool = False, symbols: Mapping[str, int] | None = None) -> tuple[Array, ...]:
    """Call `func` with numpy arrays; dims are bound by the inputs' shapes and by `symbols`."""
    arrays = [np.asarray(x) for x in inputs]
    _check_elements(func, arrays, wide=wide)
    context = Context(bind(func, [x.shape for x in arrays], symbols or {}), wide)
    elems = [t.elem for t in func.body.params.types if isinstance(t, Tensor)]
    args = [x.astype(context.dtype(e), copy=False) for x, e in zip(arrays, elems, strict=True)]
    with np.errstate(all="ignore"):
        return _block(func.body, {}, args, context)


def evaluate_op(
    op: Op,
    operands: Sequence[Array],
    symbols: Mapping[str, int] | None = None,
    *,
    wide: bool = False,
    enclosing: Mapping[Value, Array] | None = None,
) -> tuple[Array, ...]:
    """The results of one op; `enclosing` are the values its bodies may read besides their parameters."""
    with np.errstate(all="ignore"):
        return _op(op, [np.asarray(x) for x in operands], dict(enclosing or {}), Context(symbols or {}, wide))


# binding inputs


def _check_elements(func: Func, arrays: Sequence[Array], *, wide: bool) -> None:
    params = func.params
    if len(arrays) != len(params):
        raise InputError(f"@{func.name}: expected {len(params)} inputs, got {len(arrays)}")
    for i, (x, v) in enumerate(zip(arrays, params, strict=True)):
        t = v.type
        if not isinstance(t, Tensor):
            raise InputError(f"@{func.name}: parameter {i} is not a tensor: {t}")
        if x.dtype != numpy_dtype(t.elem) and not (wide and t.elem.is_float and x.dtype == np.float64):
            raise InputError(f"{_input(v, i)}: expected {t.elem}, got {scalar_of(x.dtype) or x.dtype}")


def bind(func: Func, shapes: Sequence[tuple[int, ...]], symbols: Mapping[str, int]) -> dict[str, int]:
    """Symbol values from input shapes: plain symbols first, then linear expressions in one unknown."""
    values = dict(symbols)
    pending: list[tuple[str, Dim, int]] = []
    for i, (v, shape) in enumerate(zip(func.params, shapes, strict=True)):
        assert isinstance(v.type, Tensor)
        if len(shape) != v.type.rank:
            raise InputError(f"{_input(v, i)}: expected {v.type.rank} dims, got shape {shape}")
        dims = enumerate(zip(v.type.shape, shape, strict=True))
        pending += [(f"{_input(v, i)}: dim {d}", want, got) for d, (want, got) in dims]
    for _, want, got in pending:
        if isinstance(want, Expr) and str(want) in symbols_of(want):
            values.setdefault(str(want), got)
    while found := [s for _, want, got in pending if (s := _solve(want, got, values)) is not None]:
        for solved in found:  # two dims may say one symbol: the first is taken, and the other checked below
            values = solved | values
    for where, want, got in pending:
        unknown = sorted(symbols_of(want) - values.keys())
        if unknown:
            raise InputError(f"{where}: {want} = {got} does not determine {', '.join(unknown)}")
        if (size := evaluate(want, values)) != got:
            text = f"{want} = {size}" if isinstance(want, Expr) else str(size)
            raise InputError(f"{where}: expected {text}, got {got}")
    for name, (low, high) in func.ranges.items():
        if name in values and not low <= values[name] <= high:
            raise InputError(f"@{func.name}: dim {name!r} must be in {low}..{high}, got {values[name]}")
    return values


def _solve(want: Dim, got: int, values: Mapping[str, int]) -> dict[str, int] | None:
    """`c * s + k = got` for the only unknown symbol s, when that has an integer solution."""
    left = substitute(want, values)
    unknown = symbols_of(left)
    if len(unknown) != 1:
        return None
    (name,) = unknown
    if (linear := linear_in(left, name)) is None:
        return None
    factor, constant = (evaluate(d, {}) for d in linear)
    value, rest = divmod(got - constant, factor)
    return None if rest else {name: value}


def _input(v: Value, index: int) -> str:
    return f"input {v.hint!r}" if v.hint else f"input {index}"


# evaluation


def _block(block: Block, env: dict[Value, Array], args: Sequence[Array], context: Context) -> tuple[Array, ...]:
    """Run a block; values of `env` are visible, and intermediate arrays are freed after their last use."""
    env = env | dict(zip(block.params.values, args, strict=True))
    last = {v: i for i, op in enumerate(block.ops) for v in _reads(op)}
    dying: dict[int, list[Value]] = {}
    for v, i in last.items():
        dying.setdefault(i, []).append(v)
    *body, terminator = block.ops
    for i, op in enumerate(body):
        results = _op(op, [env[v] for v in op.operands], env, context)
        env.update(zip(op.results, results, strict=True))
        for v in dying.get(i, ()):
            env.pop(v, None)
    return tuple(env[v] for v in terminator.operands)


def _reads(op: Op) -> Iterator[Value]:
    yield from op.operands
    for body in op.bodies:
        for inner in walk(body):
            yield from inner.operands


def _op(op: Op, operands: Sequence[Array], env: dict[Value, Array], context: Context) -> tuple[Array, ...]:
    try:
        results = _evaluate(op, operands, env, context)
    except (ValueError, IndexError) as e:
        raise InputError(f"{op.kind}: {e}", op.loc) from e
    except GraphfuseError as e:
        raise e if e.loc else type(e)(f"{op.kind}: {e.message}", op.loc) from e
    for array, t in zip(results, op.types, strict=True):
        assert isinstance(t, Tensor)
        shape = context.dims(t.shape)
        if array.shape != shape:
            raise InputError(f"{op.kind}: the result has shape {array.shape}, its type {t} says {shape}", op.loc)
        assert array.dtype == context.dtype(t.elem), f"{op.kind}: {array.dtype} for {t}"
    return results


def _evaluate(op: Op, operands: Sequence[Array], env: dict[Value, Array], context: Context) -> tuple[Array, ...]:
    if op.kind is graph.region:
        return _block(op.body, {}, operands, context)
    if op.kind is graph.loop:
        return _loop(op, operands, env, context)
    if op.kind not in SEMANTICS:
        raise InputError(f"{op.kind} has no meaning as a graph op", op.loc)
    out = SEMANTICS[op.kind](context, op, *operands)
    return out if isinstance(out, tuple) else (np.asarray(out),)


def _loop(op: Op, operands: Sequence[Array], env: dict[Value, Array], context: Context) -> tuple[Array, ...]:
    carried, stacked = list(operands), list[list[Array]]()
    count = context.dim(attr(op, "count"))
    n = len(carried)
    for i in range(count):
        inner = Context({**context.symbols, str(attr(op, "symbol")): i}, context.wide)
        results = _block(op.body, env, carried, inner)
        carried = list(results[:n])
        stacked.append(list(results[n:]))
    if stacked:
        return (*carried, *map(np.stack, zip(*stacked, strict=True)))
    return (*carried, *(np.empty(context.dims(t.shape), context.dtype(t.elem)) for t in map(tensor_of, op.results[n:])))


def _elem(op: Op, i: int = 0) -> Scalar:
    """The element type of result i (arrays do not say it when floats are widened)."""
    return tensor_of(op.results[i]).elem


def _operand_elem(op: Op, i: int = 0) -> Scalar:
    return tensor_of(op.operands[i]).elem


# elementwise


def _cast(context: Context, op: Op, x: Array) -> Array:
    to, source = _elem(op), _operand_elem(op)
    if context.wide and to.is_float:
        return x if source.is_float else x.astype(np.float64, copy=False)
    return ew.cast(x, to, saturate=bool(attr(op, "saturate")))


def _bitcast(context: Context, op: Op, x: Array) -> Array:
    out = x
    if _elem(op) != _operand_elem(op):  # else wide floats keep what they have more
        out = ew.bitcast(x.astype(numpy_dtype(_operand_elem(op)), copy=False), _elem(op))
    return out.astype(context.dtype(_elem(op)), copy=False)


# sources


def _constant(context: Context, op: Op) -> Array:
    value = attr(op, "value")
    assert isinstance(value, Dense)
    return value.array.astype(context.dtype(value.elem), copy=False)


def _full(context: Context, op: Op) -> Array:
    value = context.literal(attr(op, "value"), _elem(op))
    return np.full(context.dims(_shape(op)), value, value.dtype)


def _empty(context: Context, op: Op) -> Array:
    """Nothing that anyone may read: no number, where there is such."""
    elem = _elem(op)
    return np.full(context.dims(_shape(op)), np.nan if elem.is_float else 0, context.dtype(elem))


def _shape(op: Op) -> tuple[Dim, ...]:
    """The shape of the op's first result."""
    return tensor_of(op.results[0]).shape


def _iota(context: Context, op: Op) -> Array:
    shape = context.dims(_shape(op))
    axis = attr(op, "axis")
    line = np.arange(shape[axis], dtype=np.int64)
    line = line.astype(context.dtype(_elem(op))) if _elem(op).is_float else ew.cast(line, _elem(op))
    return np.broadcast_to(line.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape).copy()


# reductions


def _arg_reduce(_: Context, op: Op, x: Array) -> Array:
    axis, last = attr(op, "axis"), bool(attr(op, "last"))
    wide = widened(x)
    keepdims = bool(attr(op, "keepdims"))
    if wide.shape[axis] == 0:
        shape = [1 if i == axis else d for i, d in enumerate(x.shape) if keepdims or i != axis]
        return np.zeros(shape, np.int64)
    if last:
        wide = np.flip(wide, axis)
    index = (np.argmax if attr(op, "kind") == "max" else np.argmin)(wide, axis=axis, keepdims=keepdims)
    return np.asarray(x.shape[axis] - 1 - index if last else index).astype(np.int64)


def _cumulate(_: Context, op: Op, x: Array, before: Array | None = None) -> Array:
    axis, kind = attr(op, "axis"), str(attr(op, "kind"))
    wide = np.flip(x, axis) if attr(op, "reverse") else x
    if kind in ROUNDED_KINDS and ew.elem_of(x.dtype).is_float:
        wide = wide.astype(np.float64)
    size = attr(op, "part") or max(1, x.shape[axis])
    parts = [wide[along(axis, slice(at, at + size))] for at in range(0, max(1, x.shape[axis]), size)]
    parts = [scan_array(part, axis, kind, exclusive=bool(attr(op, "exclusive"))) for part in parts]
    if before is not None:
        parts[1:] = [COMBINE[kind](before[along(axis, slice(i, i + 1))], part) for i, part in enumerate(parts[1:])]
    out = narrowed(np.concatenate(parts, axis), x.dtype)
    return np.flip(out, axis) if attr(op, "reverse") else out


def _reduce_window(context: Context, op: Op, x: Array) -> Array:
    """One dim after the other: the windows of sum, max and min are boxes."""
    kind = str(attr(op, "kind"))
    fill = identity(kind, x.dtype)
    out = widened(x)
    sizes = context.dims(_shape(op))
    names = ("window", "strides", "low", "high", "dilation")
    for axis, (k, s, lo, hi, dl) in enumerate(zip(*(attr(op, n) for n in names), strict=True)):
        if (k, s, lo, hi) == (1, 1, 0, 0):
            continue
        padded = pad_axis(out, axis, lo, hi, fill.astype(out.dtype))
        taps = [padded[along(axis, slice(t * dl, t * dl + (sizes[axis] - 1) * s + 1, s))] for t in range(k)]
        if sizes[axis] <= 0:
            raise InputError(f"dim {axis}: a window of {k} does not fit")
        out = taps[0].copy()
        for tap in taps[1:]:
            COMBINE[kind](out, tap, out=out)
    return narrowed(out, x.dtype)


# contractions


def _contract(context: Context, op: Op, a: Array, b: Array) -> Array:
    dtype = context.dtype(_elem(op))
    return contract_arrays(a.astype(dtype, copy=False), b.astype(dtype, copy=False), str(attr(op, "spec")))


def _contract_parts(context: Context, op: Op, *parts: Array) -> Array:
    dtype, spec, count = context.dtype(_elem(op)), str(attr(op, "spec")), len(parts) // 2
    wide = [p.astype(dtype, copy=False) for p in parts]
    pairs = [(i, total - i) for total in reversed(range(count)) for i in range(total + 1)]  # small ones first
    return functools.reduce(operator.add, (contract_arrays(wide[i], wide[count + j], spec) for i, j in pairs))


def _contract_blocks(context: Context, op: Op, x: Array, q: Array, s: Array) -> Array:
    dtype = context.dtype(_elem(op))
    scaled = q.astype(dtype) * np.repeat(s.astype(dtype), q.shape[1] // s.shape[1], axis=1)
    return contract_arrays(x.astype(dtype), scaled.astype(x.dtype).astype(dtype), str(attr(op, "spec")))


def _contract_packed(context: Context, op: Op, x: Array, p: Array, s: Array, *more: Array) -> Array:
    dtype, bits = context.dtype(_elem(op)), int(attr(op, "bits", 0))
    panels, _, width = graph.panels_of(tensor_of(op.operands[1]))
    if p.ndim == 3:
        codes = unpacked(p, bits, BYTES, 1)
    else:  # of each column as of one panel
        x = np.pad(x, [*[(0, 0)] * (x.ndim - 1), (0, len(p) * line_steps(bits) - x.shape[-1])])
        rows = lanes_in_rows(p).swapaxes(1, 2).reshape(-1, panels * width)
        codes = unpacked_lanes(rows, bits, 0)
        panels, width, s, more = 1, panels * width, s[None], tuple(a[None] for a in more)
    codes = codes.reshape(panels, s.shape[1], -1, width).astype(dtype)
    x = x.astype(dtype)
    if tensor_of(op.operands[0]).elem == I8:
        scale, more = more[0], more[1:]
        x = x * np.repeat(scale.astype(dtype), x.shape[-1] // s.shape[1], axis=-1)
    zero = more[0].astype(dtype)[:, :, None] if more else attr(op, "zero", 0)
    weights = (codes - zero) * s.astype(dtype)[:, :, None]
    matrix = np.moveaxis(weights.reshape(panels, -1, width), 0, 1).reshape(-1, panels * width)
    return x @ matrix[:, : int(attr(op, "columns", 0))]


def _conv(context: Context, op: Op, x: Array, w: Array) -> Array:
    dtype = context.dtype(_elem(op))
    x, w = x.astype(dtype, copy=False), w.astype(dtype, copy=False)
    spatial = x.ndim - 2
    groups, first = attr(op, "groups", 1), attr(op, "layout", "nchw") == "nchw"
    if not first:
        x = np.moveaxis(x, -1, 1)
        w = np.moveaxis(w, (-1, -2), (0, 1))
    x, w = widened(x), widened(w)
    for i in range(spatial):
        up = attr(op, "input_dilation")[i]
        size = x.shape[2 + i]
        if up > 1 and size:
            spread = np.zeros([*x.shape[: 2 + i], (size - 1) * up + 1, *x.shape[3 + i :]], x.dtype)
            spread[along(2 + i, slice(None, None, up))] = x
            x = spread
        x = pad_axis(x, 2 + i, attr(op, "low")[i], attr(op, "high")[i], np.zeros((), x.dtype))
    out = correlate(np.ascontiguousarray(x), w, attr(op, "strides"), attr(op, "dilation"), groups)
    return narrowed(out if first else np.moveaxis(out, 1, -1).copy(), dtype)


# movement


def _broadcast(context: Context, op: Op, x: Array) -> Array:
    return np.broadcast_to(x, context.dims(_shape(op)))


def _slice(context: Context, op: Op, x: Array) -> Array:
    index: list[slice] = []
    starts, sizes = (context.dims(attr(op, name)) for name in ("starts", "sizes"))
    for n, start, size, step in zip(x.shape, starts, sizes, attr(op, "steps"), strict=True):
        if size < 0 or (size and not 0 <= start <= start + (size - 1) * step < n):
            raise InputError(f"slice of {size} from {start} by {step} leaves a dim of {n}")
        index.append(slice(start, start + size * step, step) if size else slice(0, 0))
    return x[tuple(index)]


def _pad(context: Context, op: Op, x: Array) -> Array:
    low, high = context.dims(attr(op, "low")), context.dims(attr(op, "high"))
    mode: Any = attr(op, "mode", "constant")
    if any(p < 0 for p in (*low, *high)):
        raise InputError(f"padding must not be negative, got {low} and {high}")
    fill = context.literal(attr(op, "value", 0), _elem(op))
    for axis, (before, behind) in enumerate(zip(low, high, strict=True)):
        if mode == "constant":
            x = pad_axis(x, axis, before, behind, fill)
        elif before or behind:
            # by index, for numpy's own pad does not know narrow floats in every mode
            x = np.take(x, np.pad(np.arange(x.shape[axis]), (before, behind), mode=mode), axis)
    return x


# data-dependent indexing


def _from_end(indices: Array, size: int, *, clips: bool = False) -> Array:
    """Indices with negative ones counted from the end; anything else outside is an input error, but for `clips`."""
    index = indices.astype(np.int64)
    if clips:
        index = np.clip(index, -size, size - 1)
    if index.size and not (-size <= int(index.min()) and int(index.max()) < size):
        bad = index[(index < -size) | (index >= size)].reshape(-1)[0]
        raise InputError(f"index {bad} is outside a dim of {size}")
    return np.where(index < 0, index + size, index)


def _take(_: Context, op: Op, x: Array, indices: Array) -> Array:
    return np.take(x, _from_end(indices, x.shape[attr(op, "axis")]), attr(op, "axis"))


def _grid(indices: Array, axis: int, size: int, *, clips: bool = False) -> tuple[Array, ...]:
    """One index array per dim, where `indices` gives the one along `axis` and position the others."""
    grid = list(np.indices(indices.shape, sparse=True))
    grid[axis] = _from_end(indices, size, clips=clips)
    return tuple(grid)


def _take_along(_: Context, op: Op, x: Array, indices: Array) -> Array:
    axis = attr(op, "axis")
    return x[_grid(indices, axis, x.shape[axis], clips=bool(op.attrs.get("clips")))]


def _nd_index(x: Array, indices: Array, batch_dims: int, *, clips: bool) -> tuple[Array, ...]:
    batch = np.indices(indices.shape[:batch_dims], sparse=True)
    lead = indices.ndim - 1
    outer = [b.reshape(*b.shape, *[1] * (lead - batch_dims)) for b in batch]
    sizes = x.shape[batch_dims : batch_dims + indices.shape[-1]]
    return (*outer, *(_from_end(indices[..., i], n, clips=clips) for i, n in enumerate(sizes)))


def _gather_nd(context: Context, op: Op, x: Array, indices: Array) -> Array:
    index = _nd_index(x, indices, attr(op, "batch_dims", 0), clips=bool(op.attrs.get("clips")))
    return x[index] if index else np.broadcast_to(x, context.dims(_shape(op)))


def _combine_at(x: Array, index: tuple[Array, ...], updates: Array, kind: str) -> Array:
    """A copy of x, updates applied in row-major order; sums of narrow floats round once, at the end."""
    if kind == "set":
        out = x.copy()
        out[index] = updates
        return out
    out = widened(x).copy() if widened(x) is x else widened(x)
    COMBINE[kind].at(out, index, updates.astype(out.dtype))
    return narrowed(out, x.dtype)


def _scatter_along(_: Context, op: Op, x: Array, indices: Array, updates: Array) -> Array:
    grid = list(np.indices(indices.shape, sparse=True))
    grid[attr(op, "axis")] = indices.astype(np.int64)
    return _scattered(x, grid, updates, str(attr(op, "kind", "set")))


def _scatter_nd(_: Context, op: Op, x: Array, indices: Array, updates: Array) -> Array:
    kind = str(attr(op, "kind", "set"))
    if indices.shape[-1] == 0:  # every update is a whole x
        out = x[None]
        for row in updates.reshape(-1, *x.shape):
            out = _combine_at(out, (np.zeros(1, np.int64),), row[None], kind)
        return out[0]
    return _scattered(x, [i.astype(np.int64) for i in np.moveaxis(indices, -1, 0)], updates, kind)


def _scattered(x: Array, index: Sequence[Array], updates: Array, kind: str) -> Array:
    """`x` with updates of its first dims at indices that there are."""
    inside = [(-size <= i) & (i < size) for i, size in zip(index, x.shape, strict=False)]
    kept = functools.reduce(np.logical_and, inside)
    return _combine_at(x, tuple(np.broadcast_to(i, kept.shape)[kept] for i in index), updates[kept], kind)


def _topk(context: Context, op: Op, x: Array) -> tuple[Array, Array]:
    axis, k, n = attr(op, "axis"), context.dim(attr(op, "k")), x.shape[attr(op, "axis")]
    if not 0 <= k <= n:
        raise InputError(f"k must be in 0..{n}, got {k}")
    wide = widened(x)
    if attr(op, "largest", default=True):
        # a descending stable sort is the reverse of the ascending one of the reverse
        order = n - 1 - np.flip(np.argsort(np.flip(wide, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(wide, axis, kind="stable")
    order = order[along(axis, slice(0, k))].astype(np.int64)
    return np.take_along_axis(x, order, axis), order


# kernels written by hand


def _call(context: Context, op: Op, *operands: Array) -> tuple[Array, ...]:
    """Run the block function in the elements it is written for, also where floats are widened."""
    arrays = [ew.cast(np.ascontiguousarray(x), _operand_elem(op, i)) for i, x in enumerate(operands)]
    results = [np.zeros(context.dims(t.shape), numpy_dtype(t.elem)) for t in op.types if isinstance(t, Tensor)]
    unwritten = [np.zeros(x.size, np.bool_) for x in results]
    numbers = {name: context.dim(d) for name, d in arguments_of(op).items()}
    grid = context.dims(attr(op, "grid"))
    launch(function_of(op), [*arrays, *results], numbers, grid=grid, written=[*(None for _ in arrays), *unwritten])
    return tuple(x.astype(context.dtype(_elem(op, i)), copy=False) for i, x in enumerate(results))


SEMANTICS: dict[OpDef, Semantics] = {
    **{kind: elementwise(name) for name, kind in graph.ELEMENTWISE.items()},
    graph.select: lambda _context, _op, c, a, b: np.where(c, a, b),
    graph.cast: _cast,
    graph.bitcast: _bitcast,
    graph.constant: _constant,
    graph.full: _full,
    graph.empty: _empty,
    graph.iota: _iota,
    graph.reduce: lambda _context, op, x: reduce_array(
        x, attr(op, "axes"), attr(op, "kind"), keepdims=bool(attr(op, "keepdims"))
    ),
    graph.arg_reduce: _arg_reduce,
    graph.cumulate: _cumulate,
    graph.reduce_window: _reduce_window,
    graph.contract: _contract,
    graph.contract_parts: _contract_parts,
    graph.contract_blocks: _contract_blocks,
    graph.contract_packed: _contract_packed,
    graph.conv: _conv,
    graph.reshape: lambda context, op, x: x.reshape(context.dims(_shape(op))),
    graph.permute: lambda _context, op, x: x.transpose(attr(op, "perm")).copy(),
    graph.broadcast: _broadcast,
    graph.stretch: _broadcast,
    graph.slice_: _slice,
    graph.pad: _pad,
    graph.concat: lambda _context, op, *xs: np.concatenate(xs, attr(op, "axis")),
    graph.flip: lambda _context, op, x: np.flip(x, attr(op, "axes")),
    graph.take: _take,
    graph.take_along: _take_along,
    graph.gather_nd: _gather_nd,
    graph.scatter_along: _scatter_along,
    graph.scatter_nd: _scatter_nd,
    graph.topk: _topk,
    graph.call: _call,
}
"""What each op computes: (context, op, operand arrays) to an array or several. Regions and loops run their bodies."""

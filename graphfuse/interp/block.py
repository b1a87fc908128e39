"""What block-dialect ops mean, in numpy: one program after another, slow and obvious.

Memory is the caller's arrays, changed in place. With `checks`, every address is checked against its array,
and reading program-local memory before it is written is an error; a kernel generator is tested with them on.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# numpy's stubs leave most results partly unknown

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphfuse.dialects import block, control, gpu
from graphfuse.errors import GraphfuseError, InputError
from graphfuse.interp import elementwise as ew
from graphfuse.interp.elementwise import Array
from graphfuse.interp.graph import contract_arrays, reduce_array, scan_array
from graphfuse.ir.core import Block, Func, Op, OpDef, Value
from graphfuse.ir.dense import numpy_dtype, scalar_of
from graphfuse.ir.types import I64, Buffer, Ptr, Scalar, Tile
from graphfuse.symbolic import Atom, Dim, Sym, evaluate


@dataclass(frozen=True, slots=True, eq=False)
class Pointer:
    """Element `offset` of a flat array. `written` marks initialised elements of program-local memory."""

    array: Array
    offset: int = 0
    written: Array | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """One program: its number, the symbols' values, and whether memory is checked."""

    program: int
    symbols: Mapping[str, int]
    checks: bool

    def dim(self, dim: Dim) -> int:
        """The number a dim is."""
        try:
            return evaluate(dim, self.symbols)
        except KeyError as e:
            raise InputError(f"dim {e.args[0]!r} has no value") from None


def launch(func: Func, args: Sequence[Array], symbols: Mapping[str, int], *, checks: bool = True) -> None:
    """Run every program of a kernel. `args` are contiguous arrays, one per pointer, changed in place."""
    try:
        count: Any = func.attrs.get("grid", 1)
        grid = evaluate(count, symbols)
    except KeyError as e:
        raise InputError(f"@{func.name}: symbol {e.args[0]!r} has no value") from None
    for program in range(grid):
        run_program(func, args, symbols, program, checks=checks)


def run_program(
    func: Func, args: Sequence[Array], symbols: Mapping[str, int], program: int, *, checks: bool = True
) -> tuple[Array, ...]:
    """Run one program; returns what the function returns (a kernel returns nothing)."""
    values = _bind(func, args, symbols)
    with np.errstate(all="ignore"):
        return _block(func.body, dict(zip(func.params, values, strict=True)), Context(program, symbols, checks))


def _bind(func: Func, args: Sequence[Array], symbols: Mapping[str, int]) -> list[Any]:
    pointers = [v for v in func.params if isinstance(v.type, Ptr)]
    if len(pointers) != len(args):
        raise InputError(f"@{func.name}: expected {len(pointers)} arrays, got {len(args)}")
    arrays = iter(args)
    values: list[Any] = []
    for i, v in enumerate(func.params):
        if isinstance(v.type, Ptr):
            array = next(arrays)
            if array.dtype != numpy_dtype(v.type.elem) or not array.flags.c_contiguous:
                got = scalar_of(array.dtype) or array.dtype
                raise InputError(f"@{func.name}: parameter {i} must be a contiguous {v.type.elem} array, got {got}")
            values.append(Pointer(array.reshape(-1)))
        elif v.hint in symbols:
            values.append(np.asarray(symbols[v.hint], np.int64))
        else:
            raise InputError(f"@{func.name}: symbol {v.hint!r} has no value")
    return values


def _block(code: Block, env: dict[Value, Any], context: Context) -> tuple[Any, ...]:
    *body, terminator = code.ops
    for op in body:
        results = _op(op, [env[v] for v in op.operands], env, context)
        env.update(zip(op.results, results, strict=True))
    return tuple(env[v] for v in terminator.operands)


def _op(op: Op, operands: list[Any], env: dict[Value, Any], context: Context) -> tuple[Any, ...]:
    if op.kind is control.for_:
        return _for(op, operands, env, context)
    if op.kind is control.if_:
        return _if(op, operands, env, context)
    if op.kind not in SEMANTICS:
        raise InputError(f"{op.kind} has no meaning as a block op", op.loc)
    try:
        out = SEMANTICS[op.kind](context, op, *operands)
    except GraphfuseError as e:
        if e.loc is not None and e.loc is op.loc:
            raise
        raise type(e)(f"{op.kind}: program {context.program}: {e.message}", op.loc) from e
    if not op.types:
        return ()
    if not isinstance(out, Pointer):
        out = np.asarray(out)
        assert (out.shape, scalar_of(out.dtype)) == _shape_and_elem(op), f"{op.kind}: {out.dtype}{out.shape}"
    return (out,)


def _attr(op: Op, name: str, default: Any = None) -> Any:
    """An attribute, whose type the verifier has checked."""
    return op.attrs.get(name, default)


def _shape_and_elem(op: Op) -> tuple[tuple[int, ...], Scalar]:
    t = op.types[0]
    return (t.shape if isinstance(t, Tile) else ()), block.elem_of(t)


def _for(op: Op, operands: list[Any], env: dict[Value, Any], context: Context) -> tuple[Any, ...]:
    lower, upper, *carried = operands
    params = op.body.params.values
    for i in range(int(lower), int(upper), int(_attr(op, "step", 1))):
        env.update(zip(params, (np.asarray(i, np.int64), *carried), strict=True))
        carried = list(_block(op.body, env, context))
    return tuple(carried)


def _if(op: Op, operands: list[Any], env: dict[Value, Any], context: Context) -> tuple[Any, ...]:
    if bool(operands[0]):
        return _block(op.bodies[0], env, context)
    return _block(op.bodies[1], env, context) if len(op.bodies) == 2 else ()


# elementwise and sources


def _elementwise(name: str) -> Semantics:
    return lambda _context, _op, *operands: ew.apply(name, *operands)


def _elem(op: Op) -> Scalar:
    return block.elem_of(op.types[0])


def _const(_: Context, op: Op) -> Array:
    shape, elem = _shape_and_elem(op)
    return np.full(shape, ew.literal(_attr(op, "value"), elem))


def _arange(_: Context, op: Op) -> Array:
    return ew.cast(np.arange(_attr(op, "start"), _attr(op, "end"), dtype=np.int64), _elem(op))


def _index(context: Context, op: Op, *operands: Array) -> Array:
    names: Any = _attr(op, "names", ())
    expr: Any = _attr(op, "expr")
    if all(x.ndim == 0 for x in operands):
        bound = {n: int(x) for n, x in zip(names, operands, strict=True)}
        number = replace(context, symbols={**context.symbols, **bound}).dim(expr)
        return ew.literal(number, I64)
    values = {name: np.asarray(v, np.int64) for name, v in context.symbols.items()}
    values |= dict(zip(names, operands, strict=True))
    return np.broadcast_to(_evaluate(expr, values), _shape_and_elem(op)[0]).astype(np.int64)


def _evaluate(dim: Dim, values: Mapping[str, Array]) -> Array:
    """`symbolic.evaluate` over arrays, wrapping to 64 bits."""
    if isinstance(dim, int):
        return np.asarray(dim, np.int64)
    total = np.zeros((), np.int64)
    for monomial, c in dim.terms:
        term = np.asarray(c, np.int64)
        for atom, power in monomial:
            value = _evaluate_atom(atom, values)
            for _ in range(power):
                term = term * value
        total = total + term
    return total


def _evaluate_atom(atom: Atom, values: Mapping[str, Array]) -> Array:
    if isinstance(atom, Sym):
        if atom.name not in values:
            raise InputError(f"dim {atom.name!r} has no value")
        return values[atom.name]
    functions = {"floordiv": np.floor_divide, "mod": np.mod, "min": np.minimum, "max": np.maximum}
    return functions[atom.fn](*(_evaluate(d, values) for d in atom.args))


# memory


def _alloc(context: Context, op: Op) -> Pointer:
    pointer = op.types[0]
    assert isinstance(pointer, Ptr)
    count = context.dim(_attr(op, "count"))
    if pointer.elem.is_float:
        array = np.full(count, np.nan).astype(numpy_dtype(pointer.elem))
    else:
        array = np.full(count, ew.literal(0xA5A5A5A5A5A5A5A5, pointer.elem))
    return Pointer(array, 0, np.zeros(count, np.bool_))


def _offset(_: Context, _op: Op, pointer: Pointer, by: Array) -> Pointer:
    return replace(pointer, offset=pointer.offset + int(by))


def _view(
    context: Context, op: Op, shape: tuple[int, ...], base: Array, limits: Sequence[Array]
) -> tuple[Array, Array]:
    """Where each element of a strided tile is, and whether it is inside the limits."""
    where = np.asarray(base, np.int64)
    inside = np.ones(shape, np.bool_)
    grid = np.indices(shape, sparse=True)
    for i, stride in zip(grid, _attr(op, "strides"), strict=True):
        where = where + i * context.dim(stride)
    for dim, limit in zip(_attr(op, "limited", ()), limits, strict=True):
        inside = inside & (grid[dim] < int(limit))
    return np.broadcast_to(where, shape), inside


def _read(context: Context, pointer: Pointer, where: Array, mask: Array, other: Any) -> Array:
    elem = scalar_of(pointer.array.dtype)
    assert elem is not None
    out = np.full(where.shape, ew.literal(other, elem))
    index = _addresses(context, pointer, where, mask)
    if context.checks and pointer.written is not None and not pointer.written[index].all():
        raise InputError(f"read of uninitialised element {index[~pointer.written[index]][0]}")
    out[mask] = pointer.array[index]
    return out


def _write(context: Context, pointer: Pointer, where: Array, mask: Array, value: Array) -> None:
    index = _addresses(context, pointer, where, mask)
    pointer.array[index] = value[mask]
    if pointer.written is not None:
        pointer.written[index] = True


def _addresses(context: Context, pointer: Pointer, where: Array, mask: Array) -> Array:
    index = where[mask] + pointer.offset
    if context.checks and index.size:
        bad = index[(index < 0) | (index >= pointer.array.size)]
        if bad.size:
            raise InputError(f"element {bad[0]} is outside memory of {pointer.array.size} elements")
    return index


def _load_view(context: Context, op: Op, pointer: Pointer, base: Array, *limits: Array) -> Array:
    where, inside = _view(context, op, _shape_and_elem(op)[0], base, limits)
    return _read(context, pointer, where, inside, _attr(op, "other", 0))


def _store_view(context: Context, op: Op, pointer: Pointer, base: Array, value: Array, *limits: Array) -> None:
    where, inside = _view(context, op, value.shape, base, limits)
    _write(context, pointer, where, inside, value)


def _load(context: Context, op: Op, pointer: Pointer, offsets: Array, mask: Array | None = None) -> Array:
    inside = np.ones(offsets.shape, np.bool_) if mask is None else mask
    return _read(context, pointer, offsets, inside, _attr(op, "other", 0))


def _store(
    context: Context, _op: Op, pointer: Pointer, offsets: Array, value: Array, mask: Array | None = None
) -> None:
    _write(context, pointer, offsets, np.ones(offsets.shape, np.bool_) if mask is None else mask, value)


# combining


def _dot(_: Context, _op: Op, a: Array, b: Array, acc: Array) -> Array:
    elem = ew.elem_of(acc.dtype)
    product = contract_arrays(ew.cast(a, elem), ew.cast(b, elem), "mk,kn->mn")
    return ew.apply("add", acc, product)


def _reduce(_: Context, op: Op, x: Array) -> Array:
    return reduce_array(x, (_attr(op, "axis"),), str(_attr(op, "kind")))


def _scan(_: Context, op: Op, x: Array) -> Array:
    return scan_array(x, int(_attr(op, "axis")), str(_attr(op, "kind")), exclusive=bool(_attr(op, "exclusive")))


# shared memory: what a block of threads does at once happens at once


def _shared_alloc(_: Context, op: Op) -> Pointer:
    ring = op.types[0]
    assert isinstance(ring, Buffer)
    array = np.zeros(ring.shape, numpy_dtype(ring.elem))
    return Pointer(array, 0, np.zeros(ring.shape, np.bool_))


def _copy_async(
    context: Context, op: Op, pointer: Pointer, base: Array, ring: Pointer, slot: Array, go: Array, *limits: Array
) -> None:
    if not go:
        return
    order = -1 if _attr(op, "transposed") else 1
    where, inside = _view(context, op, ring.array.shape[1:][::order], base, limits)
    tile = _read(context, pointer, where, inside, 0)
    ring.array[int(slot)] = tile.T if order < 0 else tile
    assert ring.written is not None
    ring.written[int(slot)] = True


def _load_shared(context: Context, op: Op, ring: Pointer, slot: Array) -> Array:
    if context.checks and ring.written is not None and not ring.written[int(slot)].all():
        raise InputError(f"read of buffer {int(slot)}, which nobody wrote")
    tile = ring.array[int(slot)]
    return tile.T if _attr(op, "transposed") else tile


Semantics = Callable[..., Any]

SEMANTICS: dict[OpDef, Semantics] = {
    **{kind: _elementwise(name) for name, kind in block.ELEMENTWISE.items()},
    block.fma: lambda _context, _op, a, b, c: ew.fma(a, b, c),
    block.select: lambda _context, _op, c, a, b: np.where(c, a, b),
    block.cast: lambda _context, op, x: ew.cast(x, _elem(op), saturate=bool(_attr(op, "saturate"))),
    block.bitcast: lambda _context, op, x: ew.bitcast(x, _elem(op)),
    block.const: _const,
    block.program_id: lambda context, _op: np.asarray(context.program, np.int64),
    block.arange: _arange,
    block.index: _index,
    block.splat: lambda _context, op, x: np.full(_shape_and_elem(op)[0], x),
    block.broadcast: lambda _context, op, x: np.broadcast_to(x, _shape_and_elem(op)[0]),
    block.reshape: lambda _context, op, x: x.reshape(_shape_and_elem(op)[0]),
    block.trans: lambda _context, op, x: x.transpose(_attr(op, "perm")),
    block.alloc: _alloc,
    block.offset: _offset,
    block.load_view: _load_view,
    block.store_view: _store_view,
    block.load: _load,
    block.store: _store,
    block.dot: _dot,
    block.reduce: _reduce,
    block.scan: _scan,
    gpu.convert_layout: lambda _context, _op, x: x,
    gpu.shared_alloc: _shared_alloc,
    gpu.copy_async: _copy_async,
    gpu.commit: lambda _context, _op: None,
    gpu.wait_group: lambda _context, _op: None,
    gpu.load_shared: _load_shared,
}
"""What each op computes: (context, op, operands) to an array, a pointer or nothing."""

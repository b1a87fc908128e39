"""What block-dialect ops mean, in numpy: one program after another, slow and obvious.

Memory is the caller's arrays, changed in place. With `checks`, every address is checked against its array,
and reading program-local memory before it is written is an error; a kernel generator is tested with them on.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# numpy's stubs leave most results partly unknown

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphfuse.dialects import block, control, effects, gpu
from graphfuse.dialects.codes import SIDE, line_steps
from graphfuse.errors import GraphfuseError, InputError
from graphfuse.findings import Finding, FoundError
from graphfuse.interp import effects as effects_interp
from graphfuse.interp import elementwise as ew
from graphfuse.interp import gpu as gpu_interp
from graphfuse.interp import moves as moves_interp
from graphfuse.interp.arrays import lanes_in_rows, reduce_array, scan_array, unpacked_lanes, widened
from graphfuse.interp.elementwise import Array
from graphfuse.interp.memory import Context, Pointer, Semantics, attr, elementwise, read, write
from graphfuse.interp.races import Races, bits
from graphfuse.interp.roles import Cluster, Place, Role, StuckError, Wait, run
from graphfuse.ir.core import Block, Func, Op, OpDef, Value
from graphfuse.ir.dense import numpy_dtype, scalar_of
from graphfuse.ir.types import I64, Ptr, Scalar, Tile
from graphfuse.symbolic import evaluate, evaluate_with


@dataclass(frozen=True, eq=False)
class Reached:
    """A flat array that a launch reaches through addresses in memory, and maybe which of its elements may be read."""

    name: str
    array: Array
    written: Array | None = None


def launch(
    func: Func,
    args: Sequence[Array],
    symbols: Mapping[str, Any],
    *,
    grid: Sequence[int] | None = None,
    checks: bool = True,
    out: Callable[[str], object] = print,
    written: Sequence[Array | None] | None = None,
    races: list[Finding] | None = None,
    reached: Sequence[Reached] = (),
) -> list[tuple[Array, ...]]:
    """Run every program of a kernel, one after another, in a grid of its own if it does not say one.

    `args` are contiguous arrays, one per pointer, changed in place; `symbols` the scalars by name; `out` takes lines
    that are printed. `written` has for each array None, or which of its elements may be read. With `races`, programs
    that touch an element in no order are an error (`interp.races`), and notes of what is odd are put there. Addresses
    in memory are of `args` and of what is `reached`. Returns what each program returns. Where warps have roles, few
    clusters of blocks share out the programs.
    """
    sizes = grid_of(func, symbols) if grid is None else tuple(grid)
    cluster, left = 1, dict[int, Any]()
    if any(op.kind is gpu.warp_specialize for op in func.body.ops):
        cluster, split = (int(attr(func, name, 1)) for name in ("cluster", "split"))
        sizes = (min(sizes[0] * split, gpu_interp.RESIDENT * cluster),)
    options: Any = {"grid": sizes, "checks": checks, "out": out, "written": written, "reached": reached}
    if races is not None:
        assert cluster == 1, "programs of a cluster share memory of theirs"
        return _checked(func, args, symbols, math.prod(sizes), options, races)
    results: list[tuple[Array, ...]] = []
    for first in range(0, math.prod(sizes), cluster):
        together = Cluster(cluster)
        for rank in range(cluster):
            place = Place(together, rank, left=left)
            results.append(run_program(func, args, symbols, first + rank, place=place, **options))
    return results


def _checked(
    func: Func, args: Sequence[Array], symbols: Mapping[str, Any], count: int, options: Any, notes: list[Finding]
) -> list[tuple[Array, ...]]:
    """Run so many programs, and find those that race or wait for ever. They run by turns if they may wait."""
    names = [v.hint for v in func.params if isinstance(v.type, Ptr)]
    more: Sequence[Reached] = options["reached"]
    seen = Races(options["grid"], [*names, *(r.name for r in more)], [*args, *(r.array for r in more)])
    results = dict[int, tuple[Array, ...]]()

    def program(number: int) -> Callable[[Wait], None]:
        def body(wait: Wait) -> None:
            results[number] = run_program(func, args, symbols, number, place=Place(wait=wait), races=seen, **options)

        return body

    if any(op.kind is control.while_ for op in func.walk()):
        try:
            run([Role(program(n)) for n in range(count)])
        except StuckError:
            raise seen.deadlock() from None
    else:
        for number in range(count):
            results[number] = run_program(func, args, symbols, number, races=seen, **options)
    notes += seen.notes.values()
    return [results[n] for n in range(count)]


def grid_of(func: Func, symbols: Mapping[str, Any]) -> tuple[int, ...]:
    """The grid that a function says, of one program if it says none."""
    grid = attr(func, "grid", 1)
    try:
        return tuple(evaluate(n, symbols) for n in (grid if isinstance(grid, tuple) else (grid,)))
    except KeyError as e:
        raise InputError(f"@{func.name}: symbol {e.args[0]!r} has no value") from None


def run_program(
    func: Func,
    args: Sequence[Array],
    symbols: Mapping[str, Any],
    program: int,
    *,
    grid: Sequence[int] = (1,),
    checks: bool = True,
    out: Callable[[str], object] = print,
    written: Sequence[Array | None] | None = None,
    place: Place | None = None,
    races: Races | None = None,
    reached: Sequence[Reached] = (),
) -> tuple[Array, ...]:
    """Run one program; returns what the function returns (a kernel returns nothing)."""
    values = _bind(func, args, symbols, written or [None] * len(args), races)
    if races is not None:
        races.begin(program)
    dims = {name: int(n) for name, n in symbols.items() if isinstance(n, int | np.integer)}
    shadows = races.shadows[len(args) :] if races is not None else [None] * len(reached)
    memory = [v for v in values if isinstance(v, Pointer)]
    memory += [Pointer(r.array, 0, r.written, s, r.name) for r, s in zip(reached, shadows, strict=True)]
    debug = func.attrs.get("debug") is True
    context = Context(dims, program, checks, tuple(grid), debug, out, place or Place(), races, memory)
    with np.errstate(all="ignore"):
        return _block(func.body, {}, context, *values)


def _bind(
    func: Func, args: Sequence[Array], symbols: Mapping[str, int], written: Sequence[Array | None], races: Races | None
) -> list[Any]:
    pointers = [v for v in func.params if isinstance(v.type, Ptr)]
    if len(pointers) != len(args):
        raise InputError(f"@{func.name}: expected {len(pointers)} arrays, got {len(args)}")
    shadows = races.shadows[: len(args)] if races is not None else [None] * len(args)
    arrays = zip(args, written, shadows, strict=True)
    values: list[Any] = []
    for i, v in enumerate(func.params):
        if isinstance(v.type, Ptr):
            array, known, shadow = next(arrays)
            if array.dtype != numpy_dtype(v.type.elem) or not array.flags.c_contiguous:
                got = scalar_of(array.dtype) or array.dtype
                raise InputError(f"@{func.name}: parameter {i} must be a contiguous {v.type.elem} array, got {got}")
            values.append(Pointer(array.reshape(-1), 0, known, shadow, v.hint))
        elif v.hint in symbols and isinstance(v.type, Scalar):
            values.append(ew.literal(symbols[v.hint], v.type))
        else:
            raise InputError(f"@{func.name}: symbol {v.hint!r} has no value")
    return values


def _block(code: Block, env: dict[Value, Any], context: Context, *given: Any) -> tuple[Any, ...]:
    """Run a block whose parameters are `given`."""
    env.update(zip(code.params.values, given, strict=True))
    *body, terminator = code.ops
    for op in body:
        results = _op(op, [env[v] for v in op.operands], env, context)
        env.update(zip(op.results, results, strict=True))
    return tuple(env[v] for v in terminator.operands)


def _op(op: Op, operands: list[Any], env: dict[Value, Any], context: Context) -> tuple[Any, ...]:
    if op.kind in _STRUCTURED:
        return _STRUCTURED[op.kind](op, operands, env, context)
    if op.kind not in SEMANTICS:
        raise InputError(f"{op.kind} has no meaning as a block op", op.loc)
    if context.races is not None:
        context.races.op = op
    try:
        out = SEMANTICS[op.kind](context, op, *operands)
    except GraphfuseError as e:
        if e.loc is not None and e.loc is op.loc:
            raise
        message = f"{op.kind}: program {context.program}: {e.message}"
        if isinstance(e, FoundError):
            raise type(e)(message, op.loc, replace(e.about, by=e.about.by or context.who)) from e
        raise type(e)(message, op.loc) from e
    if not op.types:
        return ()
    if isinstance(out, tuple):
        return out
    if not isinstance(out, Pointer | list):
        out = np.asarray(out)
        assert (out.shape, scalar_of(out.dtype)) == _shape_and_elem(op), f"{op.kind}: {out.dtype}{out.shape}"
    return (out,)


def _shape_and_elem(op: Op) -> tuple[tuple[int, ...], Scalar]:
    t = op.types[0]
    return (t.shape if isinstance(t, Tile) else ()), block.elem_of(t)


def _for(op: Op, operands: list[Any], env: dict[Value, Any], context: Context) -> tuple[Any, ...]:
    lower, upper, *carried = operands
    for i in range(int(lower), int(upper), int(attr(op, "step", 1))):
        carried = _block(op.body, env, context, np.asarray(i, np.int64), *carried)
    return tuple(carried)


def _while(op: Op, carried: list[Any], env: dict[Value, Any], context: Context) -> tuple[Any, ...]:
    condition, body = op.bodies
    for turn in itertools.count(1):
        before, changes = carried, context.races.changes if context.races is not None else 0
        goes_on, *carried = _block(condition, env, context, *carried)
        if not bool(goes_on):
            break
        carried = list(_block(body, env, context, *carried))
        if context.races is not None:
            is_same = context.races.changes == changes and all(map(_are_same, before, carried))
            context.races.turned(op, turn, changed=not is_same, wait=context.place.wait)
    return tuple(carried)


def _are_same(a: Any, b: Any) -> bool:
    if isinstance(a, Pointer):
        return a.address == b.address
    return bool((bits(a) == bits(b)).all())


def _if(op: Op, operands: list[Any], env: dict[Value, Any], context: Context) -> tuple[Any, ...]:
    if bool(operands[0]):
        return _block(op.bodies[0], env, context)
    return _block(op.bodies[1], env, context) if len(op.bodies) == 2 else ()


def _for_tiles(op: Op, operands: list[Any], env: dict[Value, Any], context: Context) -> tuple[Any, ...]:
    group, *carried = operands
    for numbers in gpu_interp.pieces(context, op, int(group)):
        carried = _block(op.body, env, context, *(np.asarray(n, np.int64) for n in numbers), *carried)
    return tuple(carried)


def _warp_specialize(op: Op, _: list[Any], env: dict[Value, Any], context: Context) -> tuple[Any, ...]:
    """The roles of this block are made; they run when every block of the cluster has come here."""

    def role(number: int, group: int) -> Callable[[Wait], None]:
        body, warps = op.bodies[number], 1 if number in attr(op, "single", ()) else attr(op, "warps")[number]
        groups = attr(op, "groups")[number]

        def run(wait: Wait) -> None:
            place = replace(context.place, group=group, groups=groups, warps=warps, wait=wait)
            _block(body, dict(env), replace(context, place=place), np.asarray(group, np.int64))

        return run

    counts = enumerate(attr(op, "groups"))
    context.place.cluster.begin([role(number, group) for number, count in counts for group in range(count)])
    return ()


_STRUCTURED: dict[OpDef, Callable[[Op, list[Any], dict[Value, Any], Context], tuple[Any, ...]]] = {
    control.for_: _for, control.while_: _while, control.if_: _if,
    gpu.warp_specialize: _warp_specialize, gpu.for_tiles: _for_tiles,
}  # fmt: skip
"""Ops that run their bodies, which see values around them."""


# elementwise and sources


def _elem(op: Op) -> Scalar:
    return block.elem_of(op.types[0])


def _const(_: Context, op: Op) -> Array:
    shape, elem = _shape_and_elem(op)
    return np.full(shape, ew.literal(attr(op, "value"), elem))


def _index(context: Context, op: Op, *operands: Array) -> Array:
    names: Any = attr(op, "names", ())
    expr: Any = attr(op, "expr")
    if all(x.ndim == 0 for x in operands):
        bound = {n: int(x) for n, x in zip(names, operands, strict=True)}
        number = replace(context, symbols={**context.symbols, **bound}).dim(expr)
        return ew.literal(number, I64)
    values = {name: np.asarray(v, np.int64) for name, v in context.symbols.items()}
    values |= dict(zip(names, operands, strict=True))
    try:
        found = evaluate_with(_OF_ARRAYS, expr, values)
    except KeyError as e:
        raise InputError(f"dim {e.args[0]!r} has no value") from None
    return np.broadcast_to(found, _shape_and_elem(op)[0]).astype(np.int64)


_OF_ARRAYS = {"floordiv": np.floor_divide, "mod": np.mod, "min": np.minimum, "max": np.maximum}


# memory


def _alloc(context: Context, op: Op) -> Pointer:
    pointer = op.types[0]
    assert isinstance(pointer, Ptr)
    count = context.dim(attr(op, "count"))
    if pointer.elem.is_float:
        array = np.full(count, np.nan).astype(numpy_dtype(pointer.elem))
    else:
        array = np.full(count, ew.literal(0xA5A5A5A5A5A5A5A5, pointer.elem))
    return Pointer(array, 0, np.zeros(count, np.bool_))


def _view(
    context: Context, op: Op, shape: tuple[int, ...], base: Array, limits: Sequence[Array]
) -> tuple[Array, Array]:
    """Where each element of a strided tile is, and whether it is inside the limits."""
    where = np.asarray(base, np.int64)
    inside = np.ones(shape, np.bool_)
    grid = np.indices(shape, sparse=True)
    for i, stride in zip(grid, attr(op, "strides"), strict=True):
        where = where + i * context.dim(stride)
    for dim, limit in zip(attr(op, "limited", ()), limits, strict=True):
        inside = inside & (grid[dim] < int(limit))
    return np.broadcast_to(where, shape), inside


def _load_view(context: Context, op: Op, pointer: Pointer, base: Array, *limits: Array) -> Array:
    where, inside = _view(context, op, _shape_and_elem(op)[0], base, limits)
    return read(context, pointer, where, inside, attr(op, "other", 0))


def _load_box(context: Context, op: Op, pointer: Pointer, *start: Array) -> Array:
    rows, columns = _shape_and_elem(op)[0]
    where, inside = gpu_interp.box_of(context, op, start, np.arange(rows), columns)
    return read(context, pointer, where, inside, 0)


def _store_view(context: Context, op: Op, pointer: Pointer, base: Array, value: Array, *limits: Array) -> None:
    where, inside = _view(context, op, value.shape, base, limits)
    write(context, pointer, where, inside, value, relaxed="relaxed" in op.attrs)


def _load(context: Context, op: Op, pointer: Pointer, offsets: Array, mask: Any = True) -> Array:
    return read(context, pointer, offsets, np.broadcast_to(mask, offsets.shape), attr(op, "other", 0))


def _store(context: Context, op: Op, pointer: Pointer, offsets: Array, value: Array, mask: Any = True) -> None:
    inside = np.broadcast_to(mask, offsets.shape)
    write(context, pointer, offsets, inside, value, relaxed="relaxed" in op.attrs)


# combining


def _dot_bytes(_: Context, op: Op, a: Array, b: Array, acc: Array) -> Array:
    left, right = (np.ascontiguousarray(w)[..., None].view(kind).astype(np.int32) for w, kind in ((a, "u1"), (b, "i1")))
    return acc + (left * right).sum(-1, dtype=np.int32)


def _dot_codes(_: Context, op: Op, x: Array, words: Array, acc: Array) -> Array:
    codes = unpacked_lanes(words, int(attr(op, "bits")), words.ndim - 2) - int(attr(op, "zero", 0))
    return gpu_interp.multiplied(np.ascontiguousarray(x).view(numpy_dtype(attr(op, "elem"))), codes, acc)


def _widen_codes(_: Context, op: Op, words: Array, scales: Array, *points: Array) -> Array:
    bits, elem = int(attr(op, "bits")), attr(op, "elem")
    lines = lanes_in_rows(words.reshape(len(words), -1, SIDE, SIDE))
    codes = unpacked_lanes(lines, bits, 1).swapaxes(1, 2).reshape(-1, line_steps(bits))
    scale, *zero = (np.repeat(ew.cast(a, elem).T, codes.shape[1] // len(a), 1) for a in (scales, *points))
    from_zero = ew.cast(codes.astype(np.float32) - (zero[0] if zero else int(attr(op, "zero", 0))), elem)
    return ew.cast(from_zero.astype(np.float32) * scale, elem)


def _dot_words(_: Context, op: Op, a: Array, b: Array, acc: Array) -> Array:
    dtype = numpy_dtype(attr(op, "elem"))
    left = np.ascontiguousarray(a).view(dtype).reshape(len(a), -1)
    right = np.ascontiguousarray(np.moveaxis(b, -1, 0)).view(dtype).reshape(b.shape[-1], -1)
    return gpu_interp.multiplied(left, right.T, acc)


def _reduce(_: Context, op: Op, x: Array) -> Array:
    axis, kind = int(attr(op, "axis")), str(attr(op, "kind"))
    if kind in _BITWISE:
        return ew.wrap(np.asarray(_BITWISE[kind].reduce(x, axis=axis)), ew.elem_of(x.dtype))
    return reduce_array(x, (axis,), kind)


_BITWISE = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def _arg_reduce(_: Context, op: Op, x: Array) -> Array:
    index = (np.argmax if attr(op, "kind") == "max" else np.argmin)(widened(x), axis=attr(op, "axis"))
    return ew.cast(np.asarray(index, np.int64), _elem(op))


def _scan(_: Context, op: Op, x: Array) -> Array:
    axis = int(attr(op, "axis"))
    x = np.flip(x, axis) if attr(op, "reverse") else x
    out = scan_array(x, axis, str(attr(op, "kind")), exclusive=bool(attr(op, "exclusive")))
    return np.flip(out, axis) if attr(op, "reverse") else out


def _select(_: Context, _op: Op, condition: Array, a: Any, b: Any) -> Any:
    if isinstance(a, Pointer):
        return a if condition else b
    return np.where(condition, a, b)


# shared memory


def _copy_async(
    context: Context, op: Op, pointer: Pointer, base: Array, ring: Pointer, slot: Array, go: Array, *limits: Array
) -> None:
    if not go:
        return
    order = -1 if attr(op, "transposed") else 1
    where, inside = _view(context, op, ring.array.shape[1:][::order], base, limits)
    tile = read(context, pointer, where, inside, 0)
    ring.array[int(slot)] = tile.T if order < 0 else tile
    assert ring.written is not None
    ring.written[int(slot)] = True


SEMANTICS: dict[OpDef, Semantics] = {
    **{kind: elementwise(name) for name, kind in block.ELEMENTWISE.items()},
    block.fma: lambda _context, _op, a, b, c: ew.fma(a, b, c),
    block.select: _select,
    block.assume: effects_interp.assume,
    block.cast: lambda _context, op, x: ew.cast(x, _elem(op), saturate=bool(attr(op, "saturate"))),
    block.bitcast: lambda _context, op, x: ew.bitcast(x, _elem(op)),
    block.const: _const,
    block.program_id: lambda context, op: np.asarray(context.position(attr(op, "axis", 0)), np.int64),
    block.num_programs: lambda context, op: np.asarray(context.size(attr(op, "axis", 0)), np.int64),
    block.arange: lambda _context, op: ew.cast(
        np.arange(attr(op, "start"), attr(op, "end"), dtype=np.int64), _elem(op)
    ),
    block.index: _index,
    block.splat: lambda _context, op, x: np.full(_shape_and_elem(op)[0], x),
    block.broadcast: lambda _context, op, x: np.broadcast_to(x, _shape_and_elem(op)[0]),
    block.reshape: lambda _context, op, x: x.reshape(_shape_and_elem(op)[0]),
    block.trans: lambda _context, op, x: x.transpose(attr(op, "perm")),
    block.alloc: _alloc,
    block.offset: lambda _context, _op, pointer, by: replace(pointer, offset=pointer.offset + int(by)),
    block.pointer_cast: effects_interp.pointer_cast,
    block.pointer_at: effects_interp.pointer_at,
    block.pointer_diff: effects_interp.pointer_diff,
    block.address: lambda _context, _op, pointer: np.asarray(pointer.address, np.int64),
    effects.atomic: effects_interp.atomic,
    effects.atomic_cas: effects_interp.atomic_cas,
    effects.barrier: lambda _context, _op: None,
    effects.print_: effects_interp.print_,
    effects.assert_: effects_interp.assert_,
    block.load_view: _load_view,
    block.load_box: _load_box,
    block.store_view: _store_view,
    block.load: _load,
    block.store: _store,
    block.dot: lambda _context, _op, a, b, acc: gpu_interp.multiplied(a, b, acc),
    block.words: lambda _context, _op, x: np.ascontiguousarray(x).view(np.int32),
    block.dot_words: _dot_words,
    block.dot_bytes: _dot_bytes,
    block.dot_codes: _dot_codes,
    block.widen_codes: _widen_codes,
    block.reduce: _reduce,
    block.arg_reduce: _arg_reduce,
    block.scan: _scan,
    **moves_interp.SEMANTICS,
    **gpu_interp.SEMANTICS,
    gpu.copy_async: _copy_async,
}
"""What each op computes: (context, op, operands) to an array, a pointer or nothing."""

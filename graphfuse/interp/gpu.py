"""What ops of the gpu dialect mean. Layouts mean nothing; what threads begin is done at once, and done by all of them.

The roles of warps run one at a time, until they wait (`roles.py`), so a barrier that nobody completes is an error, as
are more arrivals than it counts and reads of what was never written. What only async proxies and fences get wrong is
not seen; the emulator has that (docs/emulator.md).
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# numpy's stubs leave most results partly unknown

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphfuse.dialects import gpu
from graphfuse.errors import InputError
from graphfuse.interp import elementwise as ew
from graphfuse.interp.arrays import contract_arrays
from graphfuse.interp.elementwise import Array
from graphfuse.interp.memory import Context, Pointer, attr, read, write
from graphfuse.interp.roles import Barrier
from graphfuse.ir.core import Op, OpDef, tile_of
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.types import Buffer

_POSITION = (1 << 31) - 1
"""Bits of a slot that say where it is in the ring; the highest is its phase."""
RESIDENT = 2
"""Clusters that share out the programs of a kernel with roles: as few as let each have several, and its neighbour."""


def _short(_: Context, op: Op, x: Array) -> Array:
    name = str(attr(op, "function"))
    out = ew.apply(name, x)
    return np.where(out < 2.0**-126, np.float32(0), out) if name == "exp2" else out


# shared memory and barriers


def _shared_alloc(context: Context, op: Op) -> Pointer:
    ring = op.types[0]
    assert isinstance(ring, Buffer)
    made = Pointer(np.zeros(ring.shape, numpy_dtype(ring.elem)), 0, np.zeros(ring.shape, np.bool_))
    context.place.cluster.memory[context.place.rank, op.result] = made
    return made


def _barriers(context: Context, op: Op) -> list[Barrier]:
    arrivals = attr(op, "arrivals")
    made = [Barrier(arrivals, arrivals) for _ in range(attr(op, "count"))]
    context.place.cluster.memory[context.place.rank, op.result] = made
    return made


def _at(slot: Array) -> int:
    return int(slot) & _POSITION


def _advance(_: Context, op: Op, slot: Array, by: Array | int = 1) -> Array:
    rounds, at = divmod(_at(slot) + int(by), attr(op, "size"))
    return np.asarray(at | (rounds + (int(slot) < 0)) % 2 << 31, np.int64).astype(np.int32)


def _wait(context: Context, op: Op, barriers: list[Barrier], slot: Array) -> None:
    barrier, phase = barriers[_at(slot)], int(slot < 0) ^ bool(attr(op, "previous"))
    context.place.wait(lambda: barrier.phase != phase)


def _arrive(context: Context, op: Op, barriers: list[Barrier], slot: Array, condition: Any = True) -> None:
    if condition:
        warps = context.place.warps
        barriers[_at(slot)].arrive(warps if attr(op, "every_warp") else -(-warps // 4))


def _of(context: Context, op: Op, operand: int, block: Any) -> Any:
    """The ring or the barriers that another block of the cluster has."""
    return context.place.cluster.memory[block, op.operands[operand]]


def _arrive_at(context: Context, op: Op, _barriers: list[Barrier], slot: Array) -> None:
    _of(context, op, 0, attr(op, "block"))[_at(slot)].arrive(context.place.warps)


def _release(context: Context, op: Op, _: list[Barrier], slot: Array, condition: Any = True) -> None:
    for block in range(attr(op, "blocks") if condition else 0):
        _of(context, op, 0, block)[_at(slot)].arrive(-(-context.place.warps // 4))


def _send(context: Context, op: Op, _: Pointer, value: Array, _barriers: list[Barrier], slot: Array) -> None:
    room, part = _of(context, op, 0, attr(op, "block")), attr(op, "part")
    room.array[part] = value.reshape(room.array.shape[1:])
    room.written[part] = True
    _of(context, op, 2, attr(op, "block"))[_at(slot)].arrive(context.place.warps)


def _receive(context: Context, op: Op, room: Pointer) -> Array:
    return _buffer(context, room, attr(op, "part")).reshape(tile_of(op.result).shape)


def _buffer(context: Context, ring: Pointer, at: int) -> Array:
    """A buffer of a ring, all of it."""
    if context.checks and ring.written is not None and not ring.written[at].all():
        raise InputError(f"read of buffer {at}, which nobody wrote")
    return ring.array[at].copy()  # it may be filled again while the tile is held


def _load_shared(context: Context, op: Op, ring: Pointer, slot: Array) -> Array:
    buffer = _buffer(context, ring, _at(slot))
    parts = np.split(buffer.T if attr(op, "transposed") else buffer, attr(op, "parts", 1), attr(op, "axis", 0))
    return parts[attr(op, "part", 0)]


def _store_shared(_: Context, _op: Op, ring: Pointer, slot: Array, value: Array) -> None:
    assert ring.written is not None
    words = value.shape != ring.array.shape[1:]
    value = np.ascontiguousarray(value).view(ring.array.dtype) if words else value
    ring.array[int(slot)], ring.written[int(slot)] = value, True


def _zero_rows(_: Context, op: Op, ring: Pointer) -> None:
    start = attr(op, "start")
    assert ring.written is not None
    ring.array[:, start:], ring.written[:, start:] = 0, True


# boxes


def box_of(context: Context, op: Op, at: Sequence[Array], rows: Array, columns: int) -> tuple[Array, Array]:
    """Where the elements of rows of a box are, and which of them the tensor has; `at` are its coordinates."""
    dims, strides = ([context.dim(d) for d in attr(op, name)] for name in ("dims", "strides"))
    start = [int(c) for c in at]
    *places, channel = _places(op, dims, start, rows)
    places.append(channel + np.arange(columns))
    where = np.asarray(context.dim(attr(op, "offset", 0)))
    inside = np.ones((), np.bool_)
    for i, (place, n, stride) in enumerate(zip(places, dims, strides, strict=True)):
        index = np.asarray(place) if i == len(dims) - 1 else np.reshape(place, (-1, 1))
        where, inside = where + index * stride, inside & (index >= 0) & (index < n)
    shape = (len(rows), columns)
    return np.broadcast_to(where, shape), np.broadcast_to(inside, shape)


def _places(op: Op, dims: Sequence[int], start: Sequence[int], rows: Array) -> list[Any]:
    """For each dim where the rows are: below one another, or, with `steps`, one filter's position after another."""
    *outer, row, channel = start[: len(dims)]
    if not attr(op, "steps", ()):
        return [*outer, row + rows, channel]
    out: list[Any] = []
    image, *inner = [*outer, row]
    taps = start[len(dims) :][::-1]
    corners = list(zip(*(attr(op, name) for name in ("lower", "upper", "steps")), taps, dims[-2:0:-1], strict=True))
    flat, size = rows, 1
    for at, (lower, upper, step, _, n) in zip(inner[::-1], corners, strict=True):
        flat, size = flat + (at - lower) // step * size, size * ((n - 1 + upper - lower) // step + 1)
    for lower, upper, step, tap, n in corners:
        flat, at = np.divmod(flat, (n - 1 + upper - lower) // step + 1)
        out.insert(0, lower + at * step + tap)
    return [image + flat, *out, channel]


def _tma_load(context: Context, op: Op, pointer: Pointer, ring: Pointer, slot: Array, _: Any, *start: Array) -> None:
    """A part of the rows of a box to the same place in all blocks of the cluster, or all rows to this block's."""
    parts, rank = attr(op, "parts", 1), context.place.rank
    count = (attr(op, "rows", 0) or ring.array.shape[1]) // parts
    rows = rank % parts * count + np.arange(count)
    where, inside = box_of(context, op, start, rows, ring.array.shape[2])
    tile = read(context, pointer, where, inside, 0)
    for block in range(parts) if parts > 1 else [rank]:
        memory = context.place.cluster.memory
        to, barriers = memory[block, op.operands[1]], memory[block, op.operands[3]]
        to.array[_at(slot), rows], to.written[_at(slot), rows] = tile, True
        barriers[_at(slot)].landed(tile.nbytes)


def _staged(context: Context, op: Op, staging: Pointer) -> list[int]:
    """The buffers of the warps of this group."""
    place = context.place
    own = staging.array.shape[0] // (place.warps * place.groups)
    return [(place.group * place.warps + w) * own + attr(op, "buffer", 0) for w in range(place.warps)]


def _stage(context: Context, op: Op, staging: Pointer, value: Array, *_: Any) -> None:
    buffers, first = _staged(context, op, staging), attr(op, "column", 0)
    elem = ew.elem_of(staging.array.dtype)
    columns = slice(first, first + value.shape[1])
    staging.array[buffers, :, columns] = ew.cast(value, elem).reshape(len(buffers), 16, -1)
    assert staging.written is not None
    staging.written[buffers, :, columns] = True


def _tma_store(context: Context, op: Op, pointer: Pointer, staging: Pointer, *at: Array) -> None:
    value = np.concatenate([_buffer(context, staging, b) for b in _staged(context, op, staging)])
    where, inside = box_of(context, op, at, np.arange(len(value)), value.shape[1])
    write(context, pointer, where, inside, value)


def _store_lines(context: Context, op: Op, pointer: Pointer, base: Array, staging: Pointer, *limits: Array) -> None:
    width = staging.array.shape[2] - 16 // staging.array.dtype.itemsize
    value = np.concatenate([staging.array[b, :, :width] for b in _staged(context, op, staging)])
    grid = list(np.indices(value.shape, sparse=True))
    inside = np.ones(value.shape, np.bool_)
    for dim, limit in zip(attr(op, "limited", ()), limits, strict=True):
        inside = inside & (grid[int(dim)] < int(limit))
    write(context, pointer, base + grid[0] * context.dim(attr(op, "stride")) + grid[1], inside, value)


# products


def _undefined(_: Context, op: Op) -> Array:
    tile = tile_of(op.result)
    anything = np.nan if tile.elem.is_float else 0xA5A5A5A5A5A5A5A5
    return np.full(tile.shape, ew.literal(anything, tile.elem))


def _wgmma(
    context: Context, op: Op, a: Any, b: Pointer, slot: Array, acc: Array, keep: Array, a_slot: Array | None = None
) -> Array:
    elem = ew.elem_of(acc.dtype)
    right = _buffer(context, b, _at(slot))
    if isinstance(a, Pointer):
        left = _buffer(context, a, _at(slot if a_slot is None else a_slot))
    else:
        left = a.view(right.dtype)
    left = left.T if attr(op, "transpose_a") else left
    right = right.T if attr(op, "transpose_b") else right
    return multiplied(left, right, acc if keep else np.full(acc.shape, ew.literal(0, elem)))


def multiplied(a: Array, b: Array, acc: Array) -> Array:
    """`acc + a @ b`, in the element of `acc`."""
    elem = ew.elem_of(acc.dtype)
    batch = "abcdefgh"[: acc.ndim - 2]
    product = contract_arrays(ew.cast(a, elem), ew.cast(b, elem), f"{batch}mk,{batch}kn->{batch}mn")
    return ew.apply("add", acc, product)


def _part(_: Context, op: Op, x: Array) -> Array:
    return x[tuple(slice(s, s + n) for s, n in zip(attr(op, "start"), tile_of(op.result).shape, strict=True))]


def _warpgroup(context: Context, _: Op) -> Array:
    if context.place.warps > 4:
        raise InputError("warpgroups of one role that do different things have no meaning here, only in the emulator")
    return np.asarray(0, np.int64)


# who does what


def pieces(context: Context, op: Op, group: int) -> Iterator[tuple[int, ...]]:
    """What the body of a `for_tiles` receives for each program, before what is carried."""
    tiles, blocks = context.dim(attr(op, "tiles")), context.size(0)
    if steps := attr(op, "steps", 0):
        yield from Deal(tiles, steps, blocks).pieces(context.program)
        return
    split, groups = attr(op, "split", 1), attr(op, "groups", 1)
    own, blocks = context.program // split, blocks // split
    yield from ((program,) for program in range(own + group * blocks, tiles, blocks * groups))


@dataclass(frozen=True, slots=True)
class Deal:
    """Which steps of programs fall to blocks where those of the last waves are dealt out evenly."""

    programs: int
    steps: int
    blocks: int

    @property
    def first(self) -> int:
        """The first program of which not all steps fall to one block."""
        rest = self.programs % self.blocks
        return self.programs - rest - (self.blocks if rest and self.programs >= self.blocks else 0)

    def begin(self, block: int) -> int:
        """Where a block's steps begin, counted from those of `first`."""
        each, more = divmod((self.programs - self.first) * self.steps, self.blocks)
        return block * each + block * more // self.blocks

    def pieces(self, block: int) -> Iterator[tuple[int, int, int]]:
        """Program, first step, and where steps end: what is left to others, whole programs, and those it ends."""
        begin, end = self.begin(block), self.begin(block + 1)
        last, left = divmod(end, self.steps)
        if left and begin < end:
            yield self.first + last, max(begin - last * self.steps, 0), left
        yield from ((program, 0, self.steps) for program in range(block, self.first, self.blocks))
        for program in reversed(range(begin // self.steps, last)):
            yield self.first + program, max(begin - program * self.steps, 0), self.steps


def _leave(context: Context, _: Op, acc: Array) -> None:
    context.place.left[context.program] = acc


def _collect(context: Context, op: Op, acc: Array, program: Array, first: Array) -> Array:
    dealt = Deal(context.dim(attr(op, "tiles")), attr(op, "steps"), context.size(0))
    start, block = (int(program) - dealt.first) * dealt.steps, context.program
    while first and dealt.begin(block) > start:
        block -= 1
        if block not in context.place.left:
            raise InputError(f"block {block} has left nothing")
        acc = ew.apply("add", acc, context.place.left.pop(block))
    return acc


def _nothing(_: Context, _op: Op) -> None:
    """Of a thing that is never begun without being done."""


SEMANTICS: dict[OpDef, Callable[..., Any]] = {
    gpu.convert_layout: lambda _context, _op, x: x,
    gpu.anew: lambda _context, _op, x, _turn: x,
    gpu.short: _short,
    gpu.shared_alloc: _shared_alloc,
    gpu.barriers: _barriers,
    gpu.advance: _advance,
    gpu.wait: _wait,
    gpu.arrive: _arrive,
    gpu.expect: lambda _context, op, barriers, slot: barriers[_at(slot)].arrive(nbytes=attr(op, "nbytes")),
    gpu.cluster_rank: lambda context, _op: np.asarray(context.place.rank, np.int64),
    gpu.arrive_at: _arrive_at,
    gpu.release: _release,
    gpu.send: _send,
    gpu.receive: _receive,
    gpu.tma_load: _tma_load,
    gpu.zero_rows: _zero_rows,
    gpu.stage: _stage,
    gpu.stage_lines: _stage,
    gpu.store_lines: _store_lines,
    gpu.tma_store: _tma_store,
    gpu.tma_flush: _nothing,
    gpu.commit: _nothing,
    gpu.wait_group: _nothing,
    gpu.load_shared: _load_shared,
    gpu.store_shared: _store_shared,
    gpu.wait_launches: _nothing,
    gpu.next_launch: _nothing,
    gpu.undefined: _undefined,
    gpu.pack: lambda _context, op, x: np.ascontiguousarray(ew.cast(x, attr(op, "elem"))).view(np.int32),
    gpu.wgmma: _wgmma,
    gpu.wgmma_wait: lambda _context, _op, *accumulators: accumulators,
    gpu.part: _part,
    gpu.warpgroup: _warpgroup,
    gpu.leave: _leave,
    gpu.collect: _collect,
}
"""As `interp.block.SEMANTICS`; `warp_specialize` and `for_tiles` have bodies, `copy_async` reads as views do: there."""

"""A plan at given shapes: launch records and arguments as arrays that native code reads, and the arena's layout.

Owns the step from symbolic plan to numbers. It neither holds memory nor runs anything.

A decoder sees a new shape with every token, so binding must be quick: a `Template` lists each dim of
the plan once, and a bind evaluates those few dims and gathers all arguments out of them with numpy.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphfuse.artifact import Executable, Loop, Pointer, Step
from graphfuse.errors import ArtifactError
from graphfuse.runtime.native import address_of
from graphfuse.runtime.planner import ArenaPlan, Ints, lower_bound, plan_arena
from graphfuse.runtime.weights import read_all
from graphfuse.symbolic import Dim, evaluate, evaluate_with

MAX_LAUNCHES = 1 << 22
"""More launches than any real model has in one call; a plan that asks for more is damaged."""
MAX_BYTES = 1 << 46
"""Of a buffer: a plan that asks for more is damaged, and sums of such numbers stay within 64 bits."""

INLINE_NS = 10_000
"""A launch with less work than this runs on the caller: waking threads would cost more."""
CHUNK_NS = 4_000
"""The least work worth handing to another thread."""
CHUNKS_PER_THREAD = 6
"""Enough that a late thread does not hold up the rest, few enough that claiming stays cheap."""


def choose_chunks(grid: Ints, work: Ints, threads: int) -> Ints:
    """How many programs a thread claims at once, for launches of `grid` programs of `work` ns each."""
    if threads == 1:
        return grid
    work = np.maximum(work, 1)
    fair = np.maximum(grid // (threads * CHUNKS_PER_THREAD), 1)
    worth = -(-CHUNK_NS // work)
    chunk = np.minimum(np.maximum(fair, worth), grid)
    return np.where(grid < INLINE_NS // work, grid, chunk)


@dataclass(frozen=True, slots=True, eq=False)
class Regions:
    """Which buffer each argument points into (-1: it is an integer), and where the buffers are.

    By buffer: its bytes, its number among inputs and outputs or -1, its offset in the arena or -1; a weight's address.
    What is in none of these is a weight. The numbers of `inputs` come first.
    """

    buffer_of_slot: Ints
    sizes: Ints
    io: Ints
    place: Ints
    weights: Ints
    inputs: int

    def is_constant(self, buffer: int, bases: Ints) -> bool:
        """Whether a buffer is one that no launch writes: a weight, or an input that lies apart from all results."""
        written = (self.io >= self.inputs) | (self.place >= 0)
        ends, begin = bases + self.sizes, bases[buffer]
        return not (written & (bases < begin + self.sizes[buffer]) & (begin < ends)).any()

    def bases(self, io: Ints, arena: int) -> Ints:
        """The address of every buffer, for inputs and outputs at `io`."""
        out = self.weights.copy()
        is_io, is_arena = self.io >= 0, self.place >= 0
        out[is_io] = io[self.io[is_io]]
        out[is_arena] = arena + self.place[is_arena]
        return out


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """A plan at one set of shapes.

    `args` still lacks what differs from call to call: the addresses of inputs and outputs (`io_*`) and
    of the arena (`arena_*`).

    A record is `{ptr fn, ptr args, i64 grid, i64 chunk}`. `steps` has the leaf step of each record.
    """

    values: Mapping[str, int]
    records: NDArray[np.int64]
    records_address: int
    args: NDArray[np.int64]
    io_slots: Ints
    io_index: Ints
    io_offsets: Ints
    arena_slots: Ints
    arena_offsets: Ints
    steps: Ints
    arena: ArenaPlan
    scratch_bytes: int
    inputs: int
    """Of the numbered tensors the first, which the outputs follow."""
    output_shapes: tuple[tuple[int, ...], ...]
    regions: Regions


class _Segment:
    """Consecutive steps without a loop, as index arrays into a list of dims."""

    def __init__(self, steps: Sequence[tuple[int, Step]], kernels: Mapping[str, int]) -> None:
        self.dims: dict[Dim, int] = {}
        slots: list[tuple[int, int]] = []  # buffer or -1, dim
        for _, step in steps:
            for arg in step.args:
                if isinstance(arg, Pointer):
                    slots.append((arg.buffer, self._dim(arg.offset)))
                else:
                    slots.append((-1, self._dim(arg.value)))
        self.grid = _ints([self._dim(s.grid) for _, s in steps])
        self.work = _ints([self._dim(s.work) for _, s in steps])
        self.leaf = _ints([i for i, _ in steps])
        self.kernel = _ints([kernels[s.kernel] for _, s in steps])
        self.width = _ints([len(s.args) for _, s in steps])
        self.slot_buffer = _ints([b for b, _ in slots])
        self.slot_dim = _ints([d for _, d in slots])

    def _dim(self, dim: Dim) -> int:
        return self.dims.setdefault(dim, len(self.dims))

    def table(self, values: Mapping[str, int], symbol: str, count: int) -> Ints:
        """Each dim's value in each iteration: `count` rows. Without a symbol there is one row."""
        out = np.empty((count, len(self.dims)), dtype=np.int64)
        if not symbol:
            out[0] = [evaluate(d, values) for d in self.dims]
            return out
        vectors = {**values, symbol: np.arange(count, dtype=np.int64)}
        with np.errstate(all="raise"):
            for dim, i in self.dims.items():
                out[:, i] = evaluate_with(_OF_ARRAYS, dim, vectors)
        return out


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


_OF_ARRAYS = {"floordiv": np.floor_divide, "mod": np.mod, "min": np.minimum, "max": np.maximum}


@dataclass(frozen=True, slots=True, eq=False)
class _LoopTemplate:
    symbol: str
    count: Dim
    items: tuple[_Segment | _LoopTemplate, ...]


class Template:
    """A plan prepared for binding. Made once per session. `weights` are their addresses, by default where they are."""

    def __init__(self, executable: Executable, weights: Sequence[int] | None = None) -> None:
        self.executable = executable
        plan = executable.plan
        kernels = {k.name: i for i, k in enumerate(executable.kernels)}
        self.leaves = tuple(step for _, step in plan.walk())
        self._items = _items(plan.steps, kernels, iter(range(len(self.leaves))))
        kinds = [b.kind for b in plan.buffers]
        inputs = len(executable.signature.inputs)
        # a slot that is no pointer has buffer -1: the last element of these
        self._is_io = np.array([*(k in ("input", "output") for k in kinds), False], dtype=bool)
        self._is_arena = np.array([*(k == "arena" for k in kinds), False], dtype=bool)
        self._io_index = _ints([b.index + inputs * (b.kind == "output") for b in plan.buffers] + [0])
        if weights is None:
            weights = [address_of(a) for a in read_all(executable.weights)]
        self._base = _ints([weights[b.index] if b.kind == "weight" else 0 for b in plan.buffers] + [0])
        arena = [b for b in plan.buffers if b.kind == "arena"]
        self._first, self._last = _ints([b.first for b in arena]), _ints([b.last for b in arena])
        self._is_static = all(isinstance(b.nbytes, int) for b in arena)
        self._layouts: OrderedDict[bytes, ArenaPlan] = OrderedDict()

    def sizes(self, values: Mapping[str, int]) -> Ints:
        """The bytes of every buffer."""
        sizes = [evaluate(b.nbytes, values) for b in self.executable.plan.buffers]
        for i, nbytes in enumerate(sizes):
            if not 0 <= nbytes <= MAX_BYTES:
                raise ArtifactError(f"plan: buffer {i}: expected 0..{MAX_BYTES} bytes, found {nbytes}")
        return _ints(sizes)

    def arena(self, sizes: Ints) -> ArenaPlan:
        """The arena's layout for buffers of these sizes.

        Sizes that depend on shapes are rounded up by at most 1/32, so that a sequence that grows by
        one token needs a new layout once in a while and not with every token.
        """
        exact = sizes[self._is_arena[:-1]]
        wanted = exact if self._is_static else _rounded(exact)
        key = wanted.tobytes()
        if (layout := self._layouts.get(key)) is None:
            layout = self._layouts[key] = plan_arena(wanted, self._first, self._last)
            if len(self._layouts) > 64:
                self._layouts.popitem(last=False)
        if wanted is exact:
            return layout
        aligned = -(-exact // 64) * 64
        return ArenaPlan(layout.offsets, layout.peak, lower_bound(aligned, self._first, self._last))

    def bind(self, values: Mapping[str, int], kernels: Sequence[int], threads: int) -> Bound:
        """Fix every number for these symbol values. `kernels` has the address of each kernel."""
        try:
            return self._bind(values, kernels, threads)
        except (ArithmeticError, KeyError) as e:
            raise ArtifactError(f"plan: cannot be evaluated: {e}") from None

    def _bind(self, values: Mapping[str, int], kernels: Sequence[int], threads: int) -> Bound:
        sizes = self.sizes(values)
        layout = self.arena(sizes)
        parts = [p for item in self._items for p in self._expand(item, values, sizes)]
        slots, buffer, width, kernel, leaf, grid, work = map(np.concatenate, zip(_NO_LAUNCHES, *parts, strict=True))
        args = slots + self._base[buffer]
        io, arena = np.flatnonzero(self._is_io[buffer]), np.flatnonzero(self._is_arena[buffer])
        place = np.zeros(len(sizes), dtype=np.int64)
        place[self._is_arena[:-1]] = layout.offsets
        records = np.empty((len(grid), 4), dtype=np.int64)
        records[:, 0] = _ints(kernels)[kernel]
        records[:, 1] = address_of(args) + 8 * (np.cumsum(width) - width)
        records[:, 2] = grid
        records[:, 3] = choose_chunks(grid, work, threads)
        # a kernel may assume that it is given at least one program
        used = grid > 0
        executable = self.executable
        records = np.ascontiguousarray(records[used])
        return Bound(
            values=dict(values),
            records=records,
            records_address=address_of(records),
            args=args,
            io_slots=io,
            io_index=self._io_index[buffer[io]],
            io_offsets=args[io],
            arena_slots=arena,
            arena_offsets=args[arena] + place[buffer[arena]],
            steps=leaf[used],
            arena=layout,
            scratch_bytes=self.scratch_bytes(values),
            inputs=len(executable.signature.inputs),
            output_shapes=tuple(tuple(evaluate(d, values) for d in s.shape) for s in executable.results),
            regions=Regions(
                buffer_of_slot=buffer,
                sizes=sizes,
                io=np.where(self._is_io, self._io_index, -1)[:-1],
                place=np.where(self._is_arena[:-1], place, -1),
                weights=self._base[:-1],
                inputs=len(executable.signature.inputs),
            ),
        )

    def scratch_bytes(self, values: Mapping[str, int]) -> int:
        """What one thread needs besides the arena."""
        nbytes = max((evaluate(k.scratch_bytes, values) for k in self.executable.kernels), default=0)
        if not 0 <= nbytes <= MAX_BYTES:
            raise ArtifactError(f"plan: expected 0..{MAX_BYTES} bytes of scratch, found {nbytes}")
        return nbytes

    def _expand(self, item: _Segment | _LoopTemplate, values: Mapping[str, int], sizes: Ints) -> Iterator[_Launches]:
        if isinstance(item, _Segment):
            yield self._launches(item, item.table(values, "", 1), sizes)
            return
        count = evaluate(item.count, values)
        leaves = sum(len(i.leaf) for i in item.items if isinstance(i, _Segment)) or 1
        if not 0 <= count * leaves <= MAX_LAUNCHES:
            raise ArtifactError(f"plan: expected at most {MAX_LAUNCHES} launches, found {count * leaves}")
        if len(item.items) == 1 and isinstance(item.items[0], _Segment):
            segment = item.items[0]
            yield self._launches(segment, segment.table(values, item.symbol, count), sizes)
            return
        for i in range(count):
            for inner in item.items:
                yield from self._expand(inner, {**values, item.symbol: i}, sizes)

    def _launches(self, segment: _Segment, table: Ints, sizes: Ints) -> _Launches:
        rows = len(table)
        slots = table[:, segment.slot_dim]
        is_pointer = segment.slot_buffer >= 0
        room = sizes[segment.slot_buffer[is_pointer]]
        offsets = slots[:, is_pointer]
        if ((offsets < 0) | (offsets > room)).any():
            row, column = np.argwhere((offsets < 0) | (offsets > room))[0]
            raise ArtifactError(
                f"plan: expected an offset in 0..{room[column]} into buffer "
                f"{segment.slot_buffer[is_pointer][column]}, found {offsets[row, column]}"
            )
        grid, work = table[:, segment.grid].reshape(-1), table[:, segment.work].reshape(-1)
        if ((grid < 0) | (work < 0)).any():
            raise ArtifactError(f"plan: expected grids and work of at least 0, found {min(*grid, *work)}")
        return _Launches(
            slots=slots.reshape(-1),
            buffer=np.tile(segment.slot_buffer, rows),
            width=np.tile(segment.width, rows),
            kernel=np.tile(segment.kernel, rows),
            leaf=np.tile(segment.leaf, rows),
            grid=grid,
            work=work,
        )


def scratch_on_gpu(executable: Executable, bound: Bound, multiprocessors: int) -> int:
    """Scratch bytes of the launch that needs most: its programs share none, but launches follow one another."""
    most = 0
    rows: list[list[int]] = bound.records[:, [0, 2]].tolist()
    for kernel, programs in rows:
        meta, grid = executable.kernels[kernel], programs
        if meta.launch and meta.launch.flags:
            grid = meta.launch.blocks(programs, multiprocessors)
        nbytes = evaluate(meta.scratch_bytes, bound.values)
        if not 0 <= nbytes * grid <= MAX_BYTES:
            raise ArtifactError(f"plan: expected 0..{MAX_BYTES} bytes of scratch, found {nbytes * grid}")
        most = max(most, nbytes * grid)
    return most and most + flags_on_gpu(executable, multiprocessors)


def flags_on_gpu(executable: Executable, multiprocessors: int) -> int:
    """Bytes before the scratch memory, enough for every kernel at any size."""
    launches = [k.launch for k in executable.kernels if k.launch]
    return max((n.flag_bytes(multiprocessors * n.persistent) for n in launches if n.flags), default=0)


class _Launches(NamedTuple):
    """The launches of a segment, in order; `width` is how many slots each has."""

    slots: Ints
    buffer: Ints
    width: Ints
    kernel: Ints
    leaf: Ints
    grid: Ints
    work: Ints


_NO_LAUNCHES = _Launches(*[_ints([])] * 7)


def _rounded(sizes: Ints) -> Ints:
    """Up to six significant bits, from 4 KiB on."""
    bits = np.frexp(np.maximum(sizes, 1).astype(np.float64))[1]
    unit = np.left_shift(1, np.maximum(bits.astype(np.int64) - 6, 0))
    return np.where(sizes < 4096, sizes, -(-sizes // unit) * unit)


def _items(
    steps: Sequence[Step | Loop], kernels: Mapping[str, int], numbers: Iterator[int]
) -> tuple[_Segment | _LoopTemplate, ...]:
    items: list[_Segment | _LoopTemplate] = []
    run: list[tuple[int, Step]] = []
    for step in steps:
        if isinstance(step, Step):
            run.append((next(numbers), step))
            continue
        if run:
            items.append(_Segment(run, kernels))
            run = []
        items.append(_LoopTemplate(step.symbol, step.count, _items(step.steps, kernels, numbers)))
    if run:
        items.append(_Segment(run, kernels))
    return tuple(items)

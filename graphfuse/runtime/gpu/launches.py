"""A plan at one set of shapes as launches on a GPU: arguments packed once, addresses filled in before a run."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from graphfuse.artifact import Executable, KernelMeta, Launch, Step
from graphfuse.errors import ArtifactError
from graphfuse.knobs import settings
from graphfuse.runtime.bound import Bound, flags_on_gpu, scratch_on_gpu
from graphfuse.runtime.gpu.calls import MAX_GRID, EncodedMap, KernelCall, MapSizes
from graphfuse.runtime.native import address_of
from graphfuse.runtime.pieces import Piece, pieces_of
from graphfuse.runtime.planner import Ints
from graphfuse.symbolic import evaluate
from graphfuse.targets.driver import Argument, CopyCall, Driver, DriverError, Launcher


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """A launch that is a copy from device to device: `first` is the slot of its source."""

    name: str
    step: int
    first: int


class KernelLaunch(KernelCall):
    """One launch of a kernel of a plan: a `targets.driver.LaunchCall`."""

    __slots__ = ("_table", "first", "launch", "meta", "step")

    def __init__(
        self, table: Launches, meta: KernelMeta, launch: Launch, function: int, step: int, grid: int, first: int
    ) -> None:
        super().__init__(meta, launch, function, grid)
        self._table, self.meta, self.launch = table, meta, launch
        self.step, self.first = step, first
        self.overlaps = launch.overlaps

    def arguments(self) -> Sequence[Argument]:
        """The slots, each pointer with the buffer it points into."""
        return self._table.arguments(self)


def described(item: KernelLaunch | Copy, leaves: Sequence[Step]) -> str:
    """The kernel and the node it is from, for errors; `leaves` are the steps of its plan."""
    label = leaves[item.step].label or (item.meta.label if isinstance(item, KernelLaunch) else "")
    return f"kernel {item.name!r}" + (f" (node {label!r})" if label else "")


class Launches:
    """The launches of `bound`, in order. `point` fills in the addresses; then each can be given to the driver."""

    def __init__(
        self, executable: Executable, bound: Bound, functions: Mapping[str, int], multiprocessors: int
    ) -> None:
        self.bound = bound
        self._multiprocessors = multiprocessors
        self._args = bound.args
        self._scratch = np.zeros(1, np.int64)
        self._bases = bound.regions.weights
        self.items = tuple(self._items(executable, bound, functions))
        self.scratch_bytes = scratch_on_gpu(executable, bound, multiprocessors)
        """With the flags before it."""
        self.flag_bytes = flags_on_gpu(executable, multiprocessors)
        """Of these how many at the beginning are 0 between launches: the same for all shapes."""
        self._pack()
        self._launchers: dict[tuple[int, int], Launcher | None] = {}
        self.at = 0
        """The launch that was being given to the driver when something failed."""

    def _items(self, executable: Executable, bound: Bound, functions: Mapping[str, int]) -> list[KernelLaunch | Copy]:
        items: list[KernelLaunch | Copy] = []
        starts = (bound.records[:, 1] - address_of(bound.args)) // 8
        columns = (bound.records[:, 0], starts, bound.records[:, 2], bound.steps)
        rows: list[list[int]] = np.stack(columns, axis=1).tolist()
        for kernel, first, grid, step in rows:
            meta = executable.kernels[kernel]
            if meta.launch is None:
                items.append(Copy(meta.name, step, first))
                continue
            blocks = meta.launch.blocks(grid, self._multiprocessors)
            if max(grid, blocks) > MAX_GRID:
                raise ArtifactError(f"kernel {meta.name!r}: expected at most {MAX_GRID} programs, found {grid}")
            items.append(KernelLaunch(self, meta, meta.launch, functions[meta.name], step, blocks, first))
        # a kernel may begin early behind one of ours only: what else is before it says nothing of when it may
        for before, item in pairwise([None, *items]):
            if isinstance(item, KernelLaunch):
                item.overlaps = item.overlaps and isinstance(before, KernelLaunch) and settings.pdl
        return items

    def _pack(self) -> None:
        """The address of every parameter of every launch, in one array."""
        kernels = [i for i in self.items if isinstance(i, KernelLaunch)]
        room = sum(len(k.meta.params) + 1 + len(k.launch.tensor_maps) for k in kernels)
        self._params = np.zeros(max(room, 1), np.int64)
        base, args, scratch = address_of(self._params), address_of(self._args), address_of(self._scratch)
        known: dict[tuple[str, tuple[int, ...]], list[MapSizes]] = {}  # layers are alike
        at = 0
        for k in kernels:
            k.params = base + 8 * at
            slots = len(k.meta.params)
            self._params[at : at + slots] = args + 8 * (k.first + np.arange(slots))
            self._params[at + slots] = scratch
            at += slots + 1
            if not k.launch.tensor_maps:
                continue
            symbols = self._symbols(k)
            if (sizes := known.get(key := (k.name, tuple(symbols.values())))) is None:
                sizes = known[key] = [MapSizes.of(spec, symbols) for spec in k.launch.tensor_maps]
            for spec, size in zip(k.launch.tensor_maps, sizes, strict=True):
                k.maps.append(EncodedMap(spec, size))
                self._params[at] = k.maps[-1].address
                at += 1

    def _symbols(self, k: KernelLaunch) -> dict[str, int]:
        """The integer arguments of a launch by name."""
        integers = [i for i, mode in enumerate(k.meta.params) if mode == "i"]
        return {n: int(self._args[k.first + i]) for n, i in zip(k.launch.symbols, integers, strict=True)}

    def point(self, driver: Driver, io: Sequence[int], arena: int, scratch: int) -> None:
        """Fill in where inputs and outputs (`io`, in that order), arena and scratch are."""
        bound, addresses = self.bound, np.array(io, np.int64)
        bound.args[bound.io_slots] = addresses[bound.io_index] + bound.io_offsets
        self.point_inside(arena, scratch)
        self.point_maps(driver, addresses, arena, self.items)

    def point_inside(self, arena: int, scratch: int) -> None:
        """Fill in where arena and scratch are."""
        self._args[self.bound.arena_slots] = arena + self.bound.arena_offsets
        self._scratch[0] = scratch and scratch + self.flag_bytes

    def point_maps(self, driver: Driver, addresses: Ints, arena: int, items: Sequence[KernelLaunch | Copy]) -> None:
        """Let the tensor maps of launches say where their arguments are by now."""
        self._bases = self.bound.regions.bases(addresses, arena)
        encoded = functools.cache(driver.encode_tensor_map)  # several kernels read what one wrote
        for item in items:
            if isinstance(item, KernelLaunch):
                for m in item.maps:
                    m.encode(encoded, int(self._args[item.first + m.spec.param]))

    @functools.cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The launches in pieces."""
        return pieces_of(self.bound)

    def run(self, driver: Driver, item: KernelLaunch | Copy, stream: int) -> None:
        """Give one launch to the driver."""
        if isinstance(item, KernelLaunch):
            driver.launch(item, stream)
            return
        source, to, nbytes = (int(x) for x in self._args[item.first : item.first + 3])
        driver.copy(to, source, nbytes, stream)

    def run_all(self, driver: Driver, stream: int) -> None:
        """Give all of them to the driver."""
        self.run_some(driver, stream, 0, len(self.items))

    def run_some(self, driver: Driver, stream: int, first: int, end: int) -> None:
        """Give those from `first` on, before `end`, to the driver, from native code where it can be."""
        items = self.items[first:end]
        if (first, end) not in self._launchers:
            base = address_of(self._args)
            calls = [CopyCall(base + 8 * i.first) if isinstance(i, Copy) else i for i in items]
            self._launchers[first, end] = driver.launcher(calls)
        if (launcher := self._launchers[first, end]) is not None:
            try:
                launcher(stream)
            except DriverError as e:
                self.at = first + e.launch
                raise
            return
        for self.at, item in enumerate(items, first):
            self.run(driver, item, stream)

    def arguments(self, k: KernelLaunch) -> list[Argument]:
        """The slots of a launch with the regions they point into."""
        out: list[Argument] = []
        sizes = self.bound.regions.sizes
        for i, mode in enumerate(k.meta.params):
            value, buffer = int(self._args[k.first + i]), int(self.bound.regions.buffer_of_slot[k.first + i])
            if mode == "i":
                out.append(Argument(value, mode))
            else:
                constant = self.bound.regions.is_constant(buffer, self._bases)
                out.append(Argument(value, mode, int(self._bases[buffer]), int(sizes[buffer]), constant))
        scratch = int(self._scratch[0])
        if not scratch or k.meta.scratch_bytes == 0:
            return [*out, Argument(0, "i")]
        nbytes = k.grid * evaluate(k.meta.scratch_bytes, self.bound.values)
        if not k.launch.flags:
            return [*out, Argument(scratch, "w", scratch, nbytes)]
        return [*out, Argument(scratch, "x", scratch - self.flag_bytes, self.flag_bytes + nbytes)]

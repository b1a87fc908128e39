"""Launches on a GPU, or on the emulator: arrays of the host are copied there and back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import numpy as np

from graphfuse.artifact import Executable, KernelMeta, Launch, TensorMap
from graphfuse.errors import InputError
from graphfuse.kernels.arguments import Bound, Memory, arrays_of, packed
from graphfuse.kernels.signature import Parameter
from graphfuse.kernels.specialise import MOST as ALIGNMENT
from graphfuse.runtime.gpu.calls import MAX_GRID, EncodedMap, KernelCall, MapSizes
from graphfuse.runtime.gpu.context import Context
from graphfuse.runtime.gpu.memory import Block
from graphfuse.runtime.native import address_of
from graphfuse.symbolic import evaluate
from graphfuse.targets.driver import Argument, DriverError


class _Call(KernelCall):
    """A `targets.driver.LaunchCall` with its arguments. Never overlaps: what is before it may not be ours."""

    __slots__ = ("_slots", "_table", "_values")

    def __init__(
        self, meta: KernelMeta, launch: Launch, function: int, grid: int, slots: Sequence[Argument],
        maps: Sequence[EncodedMap],
    ) -> None:  # fmt: skip
        super().__init__(meta, launch, function, grid)
        self._slots, self.maps = slots, list(maps)
        self._values = packed([a.value for a in slots])
        values = address_of(self._values) + 8 * np.arange(len(slots))
        self._table = np.array([*values, *(m.address for m in maps)], np.int64)
        self.params = address_of(self._table)

    def arguments(self) -> Sequence[Argument]:
        """The slots."""
        return self._slots


class GpuKernel:
    """A kernel loaded into a context."""

    def __init__(self, executable: Executable, parameters: Sequence[Parameter], context: Context) -> None:
        self.context, self._parameters = context, parameters
        (self.meta,) = executable.kernels
        assert self.meta.launch is not None, "compiled for a GPU"
        self.info = self.meta.launch
        with context.current():
            self._function = context.function(executable.code[executable.target], self.meta.name, self.info)
        self._lock = threading.Lock()
        self._maps: dict[tuple[int, int, MapSizes], EncodedMap] = {}

    def launch(self, bound: Bound, extra: Sequence[int], symbols: dict[str, int], programs: int) -> None:
        """Start it on torch's current stream if an array is torch's; with arrays of the host, wait and copy back."""
        if not programs:
            return
        context, driver, stream = self.context, self.context.driver, bound.stream
        held: list[Block] = []
        with self._lock, context.current():
            try:
                call, copies = self._call(bound, extra, symbols, programs, held, stream)
                try:
                    driver.launch(call, stream)
                    self._copy_back(bound, copies, stream)
                    if copies or not bound.is_torch:
                        driver.synchronize(stream)
                except DriverError as e:
                    raise context.failure(e, f"kernel {self.meta.name!r}") from None
            finally:
                for block in held:
                    context.pool.give(block, (stream,))

    @contextmanager
    def repeated(
        self, bound: Bound, extra: Sequence[int], symbols: dict[str, int], programs: int
    ) -> Generator[Callable[[], None]]:
        """What starts one launch again and again and waits for nothing; arrays of the host are copied there once."""
        context, stream = self.context, bound.stream
        held: list[Block] = []
        with context.current():
            try:
                with self._lock:
                    call, _ = self._call(bound, extra, symbols, programs, held, stream)

                def run() -> None:
                    try:
                        if programs:
                            context.driver.launch(call, stream)
                    except DriverError as e:
                        raise context.failure(e, f"kernel {self.meta.name!r}") from None

                yield run
            finally:
                for block in held:
                    context.pool.give(block, (stream,))

    def _call(
        self, bound: Bound, extra: Sequence[int], symbols: dict[str, int], programs: int, held: list[Block], stream: int
    ) -> tuple[_Call, dict[int, int]]:
        """A launch whose arguments are on the GPU, and where those are that were copied; `held` gets what it needs."""
        blocks = self.info.blocks(programs, self.context.info.multiprocessors)
        if blocks > MAX_GRID:
            raise InputError(f"kernel {self.meta.name!r}: expected at most {MAX_GRID} programs, found {programs}")
        copies = self._copies(bound, held, stream)
        scratch = evaluate(self.meta.scratch_bytes, symbols) * blocks
        slots = self._slots(bound, copies, extra, (self.info.flag_bytes(blocks), scratch), held, stream)
        maps = [self._map(m, slots[m.param].value, symbols) for m in self.info.tensor_maps]
        return _Call(self.meta, self.info, self._function, blocks, slots, maps), copies

    def _copies(self, bound: Bound, held: list[Block], stream: int) -> dict[int, int]:
        """The addresses of copies of what is on the host, by where it is. Arrays that overlap there overlap here."""
        arrays = (m for _, m in arrays_of(self._parameters, bound.memory))
        host = sorted({(m.address, m.address + m.nbytes) for m in arrays if m.gpu < 0})
        spans: list[tuple[int, int, list[int]]] = []
        for start, end in host:
            if spans and start < spans[-1][1]:
                spans[-1] = spans[-1][0], max(end, spans[-1][1]), [*spans[-1][2], start]
            else:
                spans.append((start, end, [start]))
        copies: dict[int, int] = {}
        for start, end, group in spans:
            shift = start % ALIGNMENT  # what is known of an address holds of its copy's
            block = self.context.pool.take(max(end - start, 1) + shift, f"kernel {self.meta.name!r}", stream)
            held.append(block)
            if end > start:
                self.context.driver.copy_in(block.address + shift, start, end - start, stream)
            copies.update((at, block.address + shift + at - start) for at in group)
        return copies

    def _copy_back(self, bound: Bound, copies: dict[int, int], stream: int) -> None:
        modes = {p.name: mode for p, mode in zip(self._parameters, self.meta.params, strict=False)}
        for p, m in arrays_of(self._parameters, bound.memory):
            if m.gpu < 0 and m.nbytes and modes.get(p.name, p.mode) != "r":
                self.context.driver.copy_out(m.address, copies[m.address], m.nbytes, stream)

    def _slots(
        self,
        bound: Bound,
        copies: dict[int, int],
        extra: Sequence[int],
        scratch: tuple[int, int],
        held: list[Block],
        stream: int,
    ) -> list[Argument]:
        out: list[Argument] = []
        for i, (slot, memory) in enumerate(zip(bound.slots, bound.memory, strict=True)):
            if memory is None:
                out.append(Argument(slot, self.meta.params[i]))
                continue
            p = self._parameters[i]
            # what a kernel does not write it must not find unset: it may read what it has not written
            mode = "r" if self.meta.params[i] == "r" else "x"
            if memory.entries:
                out.append(self._table(p, memory, copies, held, stream))
                continue
            address = _place(memory, copies)
            out.append(Argument(address, mode, address, memory.nbytes, name=p.name, elem=p.elem.name))
        out += [Argument(value, "i") for value in extra]
        address, (flags, nbytes) = 0, scratch
        if nbytes:
            held.append(self.context.pool.take(flags + nbytes, f"scratch memory of kernel {self.meta.name!r}", stream))
            address = held[-1].address
        if flags:
            zeros = np.zeros(flags, np.uint8)
            self.context.driver.copy_in(address, zeros.ctypes.data, flags, stream)
        return [*out, Argument(address and address + flags, "x", address, flags + nbytes)]

    def _table(self, p: Parameter, memory: Memory, copies: dict[int, int], held: list[Block], stream: int) -> Argument:
        """A list of arrays: their addresses on the GPU, put there."""
        found = {m.address: _place(m, copies) for m in memory.entries if m}
        table = packed([found[m.address] if m else 0 for m in memory.entries])
        held.append(self.context.pool.take(table.nbytes, f"addresses of kernel {self.meta.name!r}", stream))
        self.context.driver.copy_in(held[-1].address, address_of(table), table.nbytes, stream)
        arrays = arrays_of([p], [memory])
        reached = tuple(
            Argument(found[m.address], q.mode, found[m.address], m.nbytes, name=q.name, elem=q.elem.name)
            for q, m in arrays
        )
        at = held[-1].address
        return Argument(at, "r", at, table.nbytes, name=p.name, elem=p.elem.name, reached=reached)

    def _map(self, spec: TensorMap, pointer: int, symbols: dict[str, int]) -> EncodedMap:
        sizes = MapSizes.of(spec, symbols)
        key = (id(spec), pointer, sizes)
        if key not in self._maps:
            if len(self._maps) > 256:
                self._maps.clear()
            self._maps[key] = EncodedMap(spec, sizes)
            self._maps[key].encode(self.context.driver.encode_tensor_map, pointer)
        return self._maps[key]


def _place(memory: Memory, copies: dict[int, int]) -> int:
    """Where an array is on the GPU."""
    return copies[memory.address] if memory.gpu < 0 else memory.address


def resources(meta: KernelMeta) -> dict[str, int]:
    """What the assembler said of a GPU kernel."""
    if meta.launch is None:
        return {}
    return {
        "threads": meta.launch.threads,
        "registers": meta.launch.registers,
        "spill_bytes": meta.launch.spill_bytes,
        "shared_bytes": meta.launch.shared_bytes + max(meta.launch.static_shared_bytes, 0),
    }

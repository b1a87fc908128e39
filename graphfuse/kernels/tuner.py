"""A kernel with alternatives: at sizes it has not seen, all are compiled and timed, and the fastest stays.

What a configuration writes while it is timed is put back: arrays that the kernel may write are saved before and
restored after, so a kernel that works in place is tuned like any other. How time is taken: `timing.py`.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import operator
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np

from graphfuse.errors import GraphfuseError, UsageError
from graphfuse.frontends.tc import SourceError
from graphfuse.kernels.arguments import Bound, Memory, arrays_of
from graphfuse.kernels.configs import Config, Space
from graphfuse.kernels.kernel import MOST_SIZES, Grid, Kernel
from graphfuse.kernels.on_gpu import resources
from graphfuse.kernels.signature import Parameter
from graphfuse.kernels.source import choose, compiled
from graphfuse.kernels.timing import ON_CPU, ON_GPU, Clock, CpuClock, GpuClock, close, race
from graphfuse.kernels.tuned import Key, Record, default_record, parse_config
from graphfuse.llvm.host import host_target
from graphfuse.runtime.session import available_cores

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Row:
    """How one configuration did, in how many rounds. `us` is None where `why` says that it was left out."""

    config: Config
    us: float | None
    registers: int = -1
    spill_bytes: int = -1
    shared_bytes: int = -1
    why: str = ""
    rounds: int = 1

    def __str__(self) -> str:
        took = f"{self.us:10.1f} us, {self.rounds}x" if self.us is not None else f"{'-':>17}"
        held = f"  {self.registers:3} registers  {self.shared_bytes:6} bytes shared" if self.registers >= 0 else ""
        return f"{took}  {self.config}{held}{'  ' + self.why if self.why else ''}"


class TunedKernel:
    """As `Kernel`, with a configuration for each set of sizes, on each device."""

    def __init__(
        self,
        text: str,
        filename: str,
        name: str | None,
        space: Space,
        *,
        device: str = "",
        threads: int | None = None,
        record: Record | None = None,
        switches: Sequence[str] | None = None,
    ) -> None:
        self.space, self._text, self._filename, self._wanted = space, text, filename, name
        self._device, self._threads, self._switches = device, threads, switches
        self._record = record or default_record()
        self._points = list(space.points())
        if not self._points:
            raise UsageError(f"{filename}: no configuration satisfies {' and '.join(map(repr, space.require))}")
        self._kernels: dict[str, Kernel] = {}
        self._chosen: dict[object, Kernel] = {}
        """By `_sizes_on`."""
        self._recent: dict[object, Kernel] = {}
        """Of these the ones on the host, by `_numbers`."""
        self._lock = threading.Lock()
        self.table: list[Row] = []
        """What the last tuning run found, the fastest first."""
        self._source = hashlib.sha256("\n".join([text, repr(space)]).encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self._first.name

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """What it takes."""
        return self._first.parameters

    @functools.cached_property
    def _first(self) -> Kernel:
        """The first that compiles; if none does, what is wrong with the first."""
        failures: list[SourceError] = []
        for point in self._points:
            try:
                return self.variant(point)
            except SourceError as e:
                failures.append(e)
        raise failures[0]

    def __repr__(self) -> str:
        return f"<kernel {self.name} with {len(self._points)} configurations>"

    def __getitem__(self, grid: Grid) -> Callable[..., None]:
        """What launches one program for each point of a grid, tuned if the sizes are new."""
        return lambda *args, **named: self.launch(grid, args, named)

    def __call__(self, *args: Any, **named: Any) -> NoReturn:
        """Say what is missing."""
        self._first(*args, **named)

    def launch(self, grid: Grid, args: Sequence[Any], named: Mapping[str, Any] | None = None) -> None:
        """Choose the configuration for these sizes, finding it if need be; then launch."""
        if not named and (kernel := self._of_last_time(args)) is not None and kernel.launch_on_host(grid, args):
            return
        bound = self._first.bind(args, named)
        kernel = self._choice(bound, grid, args, named)
        if bound.gpu in (None, -1):
            if len(self._recent) >= MOST_SIZES:
                self._recent.clear()
            self._recent[self._numbers(bound.slots)] = kernel
            kernel.launch(grid, args, named)
        else:
            # types may be macros: then the slots of another configuration are others
            kernel.start(grid, bound if kernel.parameters == self.parameters else kernel.bind(args, named))

    def _of_last_time(self, args: Sequence[Any]) -> Kernel | None:
        """What was chosen for such numbers when all arrays were on the host."""
        try:
            return self._recent.get(self._numbers(args))
        except (TypeError, IndexError):  # no numbers, or too few
            return None

    def chosen(self, grid: Grid, args: Sequence[Any], named: Mapping[str, Any] | None = None) -> Kernel:
        """The kernel in the configuration for these arguments."""
        return self._choice(self._first.bind(args, named), grid, args, named)

    def tune(self, grid: Grid, args: Sequence[Any], named: Mapping[str, Any] | None = None) -> list[Row]:
        """Time all configurations on these arguments, whatever was chosen before; the fastest first."""
        bound = self._first.bind(args, named)
        with self._lock:
            self._chosen[self._sizes_on(bound)] = self.variant(self._tuned(grid, args, named, bound))
            self._recent.clear()
        return self.table

    def _choice(self, bound: Bound, grid: Grid, args: Sequence[Any], named: Mapping[str, Any] | None) -> Kernel:
        sizes = self._sizes_on(bound)
        with self._lock:
            if sizes not in self._chosen:
                kept = self._record.get(self._key(bound)) if self._record else None
                found = parse_config(kept) if kept else None
                if found not in self._points:
                    found = self._tuned(grid, args, named, bound)
                assert found is not None, "one of the points"
                self._chosen[sizes] = self.variant(found)
            return self._chosen[sizes]

    def export(self, path: Path) -> int:
        """Write all choices that are kept to a lock file; how many there are."""
        return self._record.export(path) if self._record is not None else Record(path).export(path)

    def variant(self, config: Config) -> Kernel:
        """The kernel in one configuration."""
        if str(config) not in self._kernels:
            self._kernels[str(config)] = self._compiled(config)
        return self._kernels[str(config)]

    def _compiled(self, config: Config) -> Kernel:
        found = compiled(self._text, self._filename, config.defines, self._switches)
        one = choose(found, self._wanted, self._filename)
        kernel = Kernel(one.func, config.defines, **config.options, device=self._device, threads=self._threads)
        kernel.retune = tuple(p.name for p in one.params if "retune" in p.attributes)
        return kernel

    @functools.cached_property
    def _tuned_for(self) -> tuple[int, ...]:
        """Which parameters a choice depends on: where the source says `__retune` those, else all integers."""
        first = self._first
        integers = [i for i, p in enumerate(first.parameters) if not p.is_pointer and p.elem.is_integer]
        return tuple(i for i in integers if not first.retune or first.parameters[i].name in first.retune)

    @functools.cached_property
    def _numbers(self) -> Callable[[Sequence[Any]], object]:
        """The values that a choice depends on, of arguments or their slots."""
        wanted = self._tuned_for
        if not wanted:
            return lambda _: ()
        return cast("Callable[[Sequence[Any]], object]", operator.itemgetter(*wanted))

    def _sizes(self, slots: Sequence[int]) -> list[int]:
        """Of these parameters the values: with `__retune` as they are, else the powers of two that hold them."""
        values = [slots[i] for i in self._tuned_for]
        return values if self._first.retune else [1 << max(v - 1, 0).bit_length() for v in values]

    def _sizes_on(self, bound: Bound) -> object:
        """What tells choices apart in this process, cheap to find: every launch looks here."""
        return -1 if bound.gpu is None else bound.gpu, *self._sizes(bound.slots)

    def _key(self, bound: Bound) -> Key:
        """What tells choices apart in the record."""
        first = self._first
        names = [first.parameters[i].name for i in self._tuned_for]
        sizes = sorted(zip(names, self._sizes(bound.slots), strict=True))
        where = first.place(bound)
        cores = self._threads or available_cores()
        device = first.context(where).info.name if where.is_gpu else f"{host_target()}, {cores} threads"
        return Key(first.name, self._source, device, tuple(sizes))

    def _tuned(self, grid: Grid, args: Sequence[Any], named: Mapping[str, Any] | None, bound: Bound) -> Config:
        first = self._first
        points = self._points if first.place(bound).is_gpu else _one_for_each_source(self._points)
        rows = self._prepared(points, grid, args, named)
        alive = [r for r in rows if not r.why]
        if not alive:
            reasons = "; ".join(f"{r.config}: {r.why}" for r in rows[:3])
            raise UsageError(f"kernel {first.name!r}: none of {len(rows)} configurations can be compiled: {reasons}")
        with _kept(first, bound):
            timed = self._raced(alive, grid, args, named, bound)
        self.table = timed + [r for r in rows if r.why]
        best = self.table[0]
        log.info("%s: %d configurations, fastest %s at %.1f us", first.name, len(timed), best.config, best.us)
        for row in self.table:
            log.debug("%s: %s", first.name, row)
        if self._record is not None:
            self._record.put(self._key(bound), str(best.config), best.us or 0.0)
        return best.config

    def _prepared(
        self, points: Sequence[Config], grid: Grid, args: Sequence[Any], named: Mapping[str, Any] | None
    ) -> list[Row]:
        """Compile all, several at a time. Out are those that cannot be, and those that spill where others do not."""

        def prepare(config: Config) -> Row:
            try:
                meta = self.variant(config).prepare(grid, args, named)
            except GraphfuseError as e:
                return Row(config, None, why=e.message)
            held = resources(meta)
            registers, spilled, shared = (held.get(n, -1) for n in ("registers", "spill_bytes", "shared_bytes"))
            return Row(config, None, registers, spilled, shared)

        with ThreadPoolExecutor(available_cores()) as pool:
            rows = list(pool.map(prepare, points))
        if any(not r.why and r.spill_bytes <= 0 for r in rows):
            rows = [replace(r, why=f"spills {r.spill_bytes} bytes") if r.spill_bytes > 0 else r for r in rows]
        return rows

    def _raced(
        self, rows: Sequence[Row], grid: Grid, args: Sequence[Any], named: Mapping[str, Any] | None, bound: Bound
    ) -> list[Row]:
        """All in a short round, then in long ones those that came close: the fastest first."""
        where = self._first.place(bound)
        timing = ON_GPU if where.is_gpu else ON_CPU
        kernels = [self.variant(r.config) for r in rows]
        with _clock(self._first, bound) as clock:
            found: dict[int, float] = {}
            for i, kernel in enumerate(kernels):
                with kernel.repeated(grid, args, named) as run:
                    if not found and timing.heat:
                        clock.us(run, 0, timing.heat)
                    found[i] = clock.us(run, *timing.short)
            with ExitStack() as stack:
                runs = {i: stack.enter_context(kernels[i].repeated(grid, args, named)) for i in close(found)}
                last = race(runs, clock, timing)
        order = sorted(found, key=lambda i: (bool(last) and i not in last, last.get(i, found[i])))
        return [replace(rows[i], us=last.get(i, found[i]), rounds=timing.rounds if i in last else 1) for i in order]


@contextmanager
def _clock(kernel: Kernel, bound: Bound) -> Generator[Clock]:
    where = kernel.place(bound)
    if not where.is_gpu:
        yield CpuClock()
        return
    nbytes = sum(m.nbytes for _, m in arrays_of(kernel.parameters, bound.memory))
    with GpuClock(kernel.context(where), bound.stream, nbytes) as clock:
        yield clock


def _one_for_each_source(points: Sequence[Config]) -> list[Config]:
    """A CPU knows of macros only."""
    return list({tuple(p.defines.items()): p for p in reversed(points)}.values())[::-1]


@contextmanager
def _kept(kernel: Kernel, bound: Bound) -> Generator[None]:
    """The arrays that a kernel may write are afterwards as they were."""
    with ExitStack() as stack:
        for p, memory in arrays_of(kernel.parameters, bound.memory):
            if p.mode != "r" and memory.nbytes:
                stack.enter_context(_kept_on_gpu(kernel, bound, memory) if memory.gpu >= 0 else _kept_on_host(memory))
        yield


@contextmanager
def _kept_on_host(memory: Memory) -> Generator[None]:
    kept = _view(memory).copy()
    try:
        yield
    finally:
        _view(memory)[:] = kept


@contextmanager
def _kept_on_gpu(kernel: Kernel, bound: Bound, memory: Memory) -> Generator[None]:
    context, stream = kernel.context(kernel.place(bound)), bound.stream
    with context.current():
        block = context.pool.take(memory.nbytes, "arrays kept while tuning", stream)
        context.driver.copy(block.address, memory.address, memory.nbytes, stream)
    try:
        yield
    finally:
        with context.current():
            context.driver.copy(memory.address, block.address, memory.nbytes, stream)
            context.pool.give(block, (stream,))


def _view(memory: Memory) -> Any:
    return np.ctypeslib.as_array((ctypes.c_uint8 * memory.nbytes).from_address(memory.address))

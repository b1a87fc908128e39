"""Tries the ways to make a graph's kernels: `graphfuse compile --tune`, `mode="max-autotune"`, `Options(tuning=...)`.

A region that can be made in several ways has one by its name (`schedule=`); without, a model of the time chooses. Here
each such region is compiled by itself in every way and timed on this machine, on memory of its own. What is fastest is
written into the region, so that the artifact's IR says it, and kept (`kernels/tuned.py`) for the next compilation:

    %2 = graph.region(%0, %1) {kernel = "contraction_0", kind = "contraction", schedule = "p128x192 share=2x1"}
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import replace
from typing import Protocol

import numpy as np

from graphfuse import compiler
from graphfuse.artifact import Array, Executable, TensorSpec, elem_dtype
from graphfuse.blockgen.lower import region_symbols
from graphfuse.devices import driver_of
from graphfuse.dialects import control, graph
from graphfuse.dialects.ranges import ranges_of
from graphfuse.errors import GraphfuseError, UsageError
from graphfuse.fusion.regions.apart import apart
from graphfuse.fusion.regions.outline import kernel_text
from graphfuse.fusion.regions.partition import Decision
from graphfuse.ir.core import Block, Func, Op, Params, Value
from graphfuse.ir.remake import inlined
from graphfuse.ir.rewrite import Replacement, rebuild
from graphfuse.kernels.timing import ON_CPU, Clock, CpuClock, GpuClock, Run, Timing, close, race
from graphfuse.kernels.tuned import Key, default_record
from graphfuse.knobs import Options, Tuning, settings
from graphfuse.llvm.host import host_target
from graphfuse.runtime.device import Device
from graphfuse.runtime.direct import Direct
from graphfuse.runtime.gpu.context import Context, context_of
from graphfuse.runtime.gpu.direct import GpuDirect
from graphfuse.runtime.native import address_of, aligned_bytes
from graphfuse.runtime.session import available_cores
from graphfuse.runtime.workspace import Shared
from graphfuse.symbolic import evaluate, sym, typical
from graphfuse.targets import Target
from graphfuse.targets.backend import Ranges, backend_of

log = logging.getLogger(__name__)

APART = "apart"
"""The way of a product and what is done with it that is two kernels."""
MOST = 12
"""Ways that are tried: of many the model of the time has the best among the first."""
GAIN = 1.02
"""Times at least that another way is faster than what is chosen unasked: less is noise."""
ON_GPU = Timing(0.3, (0.05, 0.03), (0.08, 0.08), 3)
"""Shorter than for a kernel written by hand: a model has many."""
RANDOM = 1 << 20
"""Numbers that arrays repeat."""
COMPARED = 1 << 20
"""Elements, from the first and from the last on, of each result."""
CLOSE_TO = {2: 2.0**-5, 4: 1e-3, 8: 1e-9}
"""How far a result may be from the first way's, in units of its largest element, by bytes of an element."""


def build(func: Func, target: Target, options: Options) -> Executable:
    """Compile `@main` for a target, tuned if the options say where."""
    choose = Tuner(target, options, options.tuning).tuned if options.tuning is not None else None
    return compiler.build(func, target, options, choose)


class Bench(Protocol):
    """Arrays on a machine, and what times what runs on them."""

    @property
    def clock(self) -> Clock:
        """Its clock."""
        ...

    def run_of(self, executable: Executable, symbols: Mapping[str, int]) -> Run:
        """What runs it on the arrays."""
        ...

    def results(self) -> list[Array]:
        """What runs have written."""
        ...


class Machine(Protocol):
    """What runs and times kernels."""

    name: str
    """What choices are kept for."""
    timing: Timing

    def bench(self, inputs: Sequence[Array], results: Sequence[Array]) -> AbstractContextManager[Bench, bool | None]:
        """With copies of `inputs` and room for `results`."""
        ...


class Tuner:
    """Finds the fastest way to make each region of a graph, for one target. Called by the compiler.

    Args:
        target: What is compiled for: this processor, or what the GPU to time on runs best.
        options: Of the compilation.
        tuning: Where kernels are timed; a GPU's are on the first GPU unless it names one.

    Raises UsageError for a target that this machine does not run.
    """

    def __init__(self, target: Target, options: Options, tuning: Tuning) -> None:
        self._target, self._options = target, replace(options, tuning=None)
        self._machine: Machine = _Gpu(target, tuning) if target.is_gpu else _Cpu(target, tuning)
        self._record = default_record()

    def tuned(self, regions: Func) -> tuple[Func, list[Decision]]:
        """The regions with the names of the fastest schedules, and what was found."""
        ranges = ranges_of(regions)
        ops = {str(op.attrs["kernel"]): op for op in regions.walk() if op.kind is graph.region}
        ways = {n: w for n, op in ops.items() if len(w := self._ways(op, ranges)) > 1}
        chosen = {n: kept for n, tried in ways.items() if (kept := self._kept(ops[n])) in tried}
        found = [Decision("schedule", name, fused=False, reason=f"{way} (kept)") for name, way in chosen.items()]
        with ThreadPoolExecutor(settings.threads or available_cores()) as pool:
            made = {
                name: {way: pool.submit(copy_context().run, self._made, func) for way, func in tried.items()}
                for name, tried in ways.items()
                if name not in chosen
            }
            for i, (name, futures) in enumerate(made.items(), 1):
                log.info("tuning %s (%d of %d)", name, i, len(made))
                chosen[name], decision = self._fastest(ops[name], name, futures, ranges)
                found.append(decision)
        two: dict[str, Func] = {}
        for name in (n for n, way in chosen.items() if way == APART):
            two[name], more = self.tuned(ways[name][APART])
            found += more

        def remade(op: Op) -> Replacement | None:
            name = str(op.attrs.get("kernel", "")) if op.kind is graph.region else ""
            if name in two:
                return inlined(two[name].body, op.operands)
            return _scheduled(op, op.operands, chosen[name]) if name in chosen else None

        return rebuild(regions, remade), found

    def _ways(self, region: Op, ranges: Ranges) -> dict[str, Func]:
        """Graphs that compute the region, by what they are called; first as it is made unasked."""
        if region.attrs.get("in_place"):
            return {}
        backend = backend_of(self._target)
        named = {way: alone(region, way, ranges) for way in backend.schedules(region, ranges)[:MOST] or ("",)}
        two = apart(region, backend.rules(ranges, ranges))
        if two is None:
            return named
        whole = next(iter(named.values()))
        return {**named, APART: replace(whole, body=two)}

    def _made(self, func: Func) -> Executable:
        return compiler.build_regions(func, self._target, self._options)

    def _fastest(
        self, region: Op, name: str, futures: Mapping[str, Future[Executable]], ranges: Ranges
    ) -> tuple[str, Decision]:
        """The way that wins, and by how much."""
        made: dict[str, Executable] = {}
        for way, future in futures.items():
            try:
                made[way] = future.result()
            except GraphfuseError as e:
                log.warning("%s: %s cannot be compiled: %s", name, way, e.message)
        made = _without_spills(made)
        unasked = next(iter(futures))
        times = self._times(name, made, ranges) if len(made) > 1 else {}
        best = min(times, key=times.__getitem__, default=unasked)
        if unasked in times and times[unasked] < GAIN * times[best]:
            best = unasked
        us = times.get(best, 0.0)
        if times and self._record:
            self._record.put(self._key(region), best, us)
        beside = f"; unasked {unasked}: {times[unasked]:.2f} us" if unasked in times and best != unasked else ""
        return best, Decision(
            "schedule", name, fused=False, reason=f"{best}: {us:.2f} us, of {len(times)} ways{beside}"
        )

    def _times(self, name: str, made: Mapping[str, Executable], ranges: Ranges) -> dict[str, float]:
        """Microseconds of all, by long rounds of those that come close to the fastest."""
        first, timing = next(iter(made.values())), self._machine.timing
        symbols = {n: typical(sym(n), ranges) for n, _, _ in first.signature.dims}
        inputs = [_filled(spec, symbols, seed) for seed, spec in enumerate(first.signature.inputs)]
        results = [np.empty(_shape(spec, symbols), elem_dtype(spec.elem)) for spec in first.signature.outputs]
        with self._machine.bench(inputs, results) as bench:
            runs = {way: bench.run_of(executable, symbols) for way, executable in made.items()}
            expected: list[Array] = []
            for way in list(runs):
                runs[way]()
                found = bench.results()
                expected = expected or found
                if not all(map(_agree, expected, found)):
                    log.warning("%s: %s gives other results, and is left out: please report it", name, way)
                    del runs[way]
            if timing.heat:
                bench.clock.us(next(iter(runs.values())), 0, timing.heat)
            times = {way: bench.clock.us(run, *timing.short) for way, run in runs.items()}
            last = race({way: runs[way] for way in close(times)}, bench.clock, timing)
            for way, us in times.items():
                log.debug("%s: %s: %.2f us", name, way, last.get(way, us))
            return last or times

    def _key(self, region: Op) -> Key:
        text = kernel_text(str(region.attrs["kind"]), region.body) + repr(self._options)
        source = hashlib.sha256(f"{self._target!r}\n{text}".encode()).hexdigest()[:16]
        return Key(str(region.attrs["kind"]), source, self._machine.name, ())

    def _kept(self, region: Op) -> str | None:
        return self._record.get(self._key(region)) if self._record else None


def alone(region: Op, schedule: str, ranges: Ranges) -> Func:
    """A graph of the region alone, made so."""
    params = Params(tuple(v.type for v in region.operands))
    op = _scheduled(region, params.values, schedule)
    inputs, outputs = (tuple(f"{n}{i}" for i in range(len(of))) for n, of in (("i", params.values), ("o", op.results)))
    dims = tuple((n, *ranges[n]) for n in sorted(region_symbols(region)))
    attrs = {"inputs": inputs, "outputs": outputs, "promised": True}
    return Func("main", Block(params, (op, control.return_(*op.results))), attrs, dims)


def _scheduled(region: Op, operands: Sequence[Value], schedule: str) -> Op:
    attrs = {**region.attrs, "schedule": schedule} if schedule else region.attrs
    return replace(region, operands=tuple(operands), attrs=attrs)


def _without_spills(made: Mapping[str, Executable]) -> dict[str, Executable]:
    """Those that do not spill registers, if there are some."""

    def spills(executable: Executable) -> bool:
        return any(k.launch is not None and k.launch.spill_bytes > 0 for k in executable.kernels)

    return {way: e for way, e in made.items() if not spills(e)} or dict(made)


def _shape(spec: TensorSpec, symbols: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(d, symbols) for d in spec.shape)


def _filled(spec: TensorSpec, symbols: Mapping[str, int], seed: int) -> Array:
    """Random numbers; zeros in place of whole numbers that may be places, and no mask hides anything."""
    shape, dtype = _shape(spec, symbols), elem_dtype(spec.elem)
    random = np.random.default_rng(seed)
    if spec.elem in ("i8", "u8"):
        numbers = random.integers(0, 127, RANDOM).astype(dtype)
    elif dtype.kind in "iub":
        numbers = np.full(1, dtype.kind == "b", dtype)
    else:
        numbers = random.standard_normal(RANDOM, np.float32).astype(dtype)
    return np.resize(numbers, shape)


def _agree(expected: Array, found: Array) -> bool:
    """Whether two ways give about the same."""
    if expected.dtype.kind in "iub":
        return bool((expected == found).all())
    a, b = (x.astype(np.float64) for x in (expected, found))
    numbers = np.isfinite(a)
    largest = np.abs(a[numbers]).max(initial=0.0)
    same = (numbers == np.isfinite(b)).all()
    return bool(same and (np.abs(a - b)[numbers] <= CLOSE_TO.get(expected.dtype.itemsize, 1.0) * largest).all())


class _Cpu:
    """This processor."""

    timing = ON_CPU

    def __init__(self, target: Target, tuning: Tuning) -> None:
        if target != host_target():
            raise UsageError(f"tuning: expected {host_target()}, which this machine is, found {target}")
        self._shared = Shared(tuning.threads or settings.threads or available_cores())
        self.name = f"{target}, {self._shared.threads} threads"

    @contextmanager
    def bench(self, inputs: Sequence[Array], results: Sequence[Array]) -> Generator[_CpuBench]:
        """See `Machine`."""
        yield _CpuBench(self._shared, inputs, results)


class _CpuBench:
    """Arrays that begin at whole lines."""

    def __init__(self, shared: Shared, inputs: Sequence[Array], results: Sequence[Array]) -> None:
        self.clock = CpuClock()
        self._shared = shared
        self._arrays = [_aligned(x) for x in (*inputs, *results)]
        self._results = self._arrays[len(inputs) :]

    def run_of(self, executable: Executable, symbols: Mapping[str, int]) -> Run:
        """See `Bench`."""
        direct, addresses = Direct(executable, self._shared), [address_of(x) for x in self._arrays]
        values = tuple(symbols[n] for n in direct.symbols)
        return lambda: direct.run(values, addresses)

    def results(self) -> list[Array]:
        """See `Bench`."""
        flat = (x.reshape(-1) for x in self._results)
        return [np.concatenate([x[:COMPARED], x[-COMPARED:]]) for x in flat]


def _aligned(array: Array) -> Array:
    made = aligned_bytes(array.nbytes).view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


class _Gpu:
    """A GPU."""

    timing = ON_GPU

    def __init__(self, target: Target, tuning: Tuning) -> None:
        named = Device.parse(tuning.device)
        device = named if named.is_gpu else Device("cuda")
        self._context = context_of(driver_of(device), device.index)
        best = f"{target.kind}:{self._context.info.best_target}"
        if str(target) != best:
            raise UsageError(f"tuning: expected {best}, which {device} runs best, found {target}")
        self.name = self._context.info.name

    @contextmanager
    def bench(self, inputs: Sequence[Array], results: Sequence[Array]) -> Generator[_GpuBench]:
        """See `Machine`."""
        driver = self._context.driver
        with ExitStack() as stack:
            stack.enter_context(self._context.current())
            stream = driver.create_stream()
            stack.callback(driver.destroy_stream, stream)
            bench = _GpuBench(self._context, stream, stack, inputs, results)
            stack.callback(driver.synchronize, stream)
            yield bench


class _GpuBench:
    """Arrays in memory of a GPU, which go with `stack`."""

    def __init__(
        self, context: Context, stream: int, stack: ExitStack, inputs: Sequence[Array], results: Sequence[Array]
    ) -> None:
        self._context, self._stream, self._stack = context, stream, stack
        self.clock = stack.enter_context(GpuClock(context, stream, sum(x.nbytes for x in (*inputs, *results))))
        self._inputs = [self._filled(x) for x in inputs]
        self._results = [(self._memory(x.nbytes), x) for x in results]

    def run_of(self, executable: Executable, symbols: Mapping[str, int]) -> Run:
        """See `Bench`."""
        direct = GpuDirect(executable, self._context.driver, self._context.ordinal, self._zeroed)
        launches = direct.bind(tuple(symbols[n] for n in direct.symbols))
        arena = self._memory(launches.bound.arena.peak)
        addresses = [*self._inputs, *(address for address, _ in self._results)]
        return lambda: direct.run(launches, addresses, arena, self._stream)

    def results(self) -> list[Array]:
        """See `Bench`."""
        driver, found = self._context.driver, list[Array]()
        for address, like in self._results:
            size, nbytes = min(COMPARED, like.size), like.itemsize
            ends = np.empty((2, size), like.dtype)
            for part, first in zip(ends, (0, like.size - size), strict=True):
                driver.copy_out(address_of(part), address + first * nbytes, size * nbytes, self._stream)
            driver.synchronize(self._stream)
            found.append(ends)
        return found

    def _memory(self, nbytes: int) -> int:
        block = self._context.pool.take(max(nbytes, 1), "arrays of tuning", self._stream)
        self._stack.callback(self._context.pool.give, block, (self._stream,))
        return block.address

    def _filled(self, array: Array) -> int:
        address, dense = self._memory(array.nbytes), np.ascontiguousarray(array)
        self._context.driver.copy_in(address, address_of(dense), dense.nbytes, self._stream)
        self._context.driver.synchronize(self._stream)
        return address

    def _zeroed(self, nbytes: int) -> int:
        return self._filled(np.zeros(nbytes, np.uint8))

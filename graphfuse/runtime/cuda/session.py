"""Runs an executable on a GPU: the same calls as `graphfuse.runtime.session.Session`.

Kernels run on torch's current stream when an input is a torch tensor on the GPU, else on a stream of the session's
own. A run with the addresses of an earlier one is recorded as a CUDA graph, those after it replay that.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphfuse.artifact import Executable, Signature, elem_dtype
from graphfuse.errors import DeviceError
from graphfuse.gpu_driver import Driver, DriverError
from graphfuse.runtime.binding import Binder
from graphfuse.runtime.bound import Template
from graphfuse.runtime.cuda.arrays import DeviceArray, Operand, Reader, current_stream, is_cuda_tensor
from graphfuse.runtime.cuda.context import Context, choose_variant, context_of
from graphfuse.runtime.cuda.graphs import Graphs, Recorder
from graphfuse.runtime.cuda.launches import Copy, KernelLaunch, Launches, described
from graphfuse.runtime.cuda.memory import Block, Pinned
from graphfuse.runtime.cuda.outputs import Output, make_outputs
from graphfuse.runtime.cuda.quick import Quick
from graphfuse.runtime.cuda.transfer import copy_in, copy_out, offsets, upload
from graphfuse.runtime.planner import ArenaPlan
from graphfuse.runtime.session import MAX_BOUND, Memory, Profile, StepTime, available_cores, memory

log = logging.getLogger(__name__)

WEIGHTS, ARENA, SCRATCH = "weights", "intermediate tensors", "scratch"
_NO_BLOCK = Block(0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class _Shaped:
    """A plan at one set of shapes."""

    launches: Launches
    graphs: Graphs


class _Held:
    """What a session holds on the GPU, apart from it so that it can be released after the session is gone."""

    def __init__(self, context: Context, *, graphs: bool) -> None:
        self.context = context
        self.stream = 0
        self.blocks: dict[str, Block] = {}
        self.recorder = Recorder(context.driver, works=graphs)
        self.pinned = Pinned(context.driver)

    def block(self, what: str, nbytes: int, stream: int) -> Block:
        """Memory of the session's own that only grows. Freeing waits for earlier work that may still use it."""
        block = self.blocks.get(what)
        if block is None or block.nbytes < nbytes:
            if block is not None:
                self.context.driver.free(self.blocks.pop(what).address)
            block = self.blocks[what] = self.context.pool.take(nbytes, what, stream)
        return block

    def shrink(self, stream: int) -> None:
        """Give back all but the weights: what did not fit this time must not stand in the way of smaller shapes."""
        with contextlib.suppress(DriverError):
            self.context.driver.synchronize(stream)
            for what in [b for b in self.blocks if b != WEIGHTS]:
                self.context.driver.free(self.blocks.pop(what).address)

    def release(self) -> None:
        """Give everything back; what is lost already is gone."""
        with contextlib.suppress(DeviceError), self.context.current():
            driver = self.context.driver
            if self.stream:
                driver.synchronize(self.stream)
            self.recorder.close()
            for block in self.blocks.values():
                driver.free(block.address)
            self.pinned.close()
            if self.stream:
                driver.destroy_stream(self.stream)
        self.stream, self.blocks = 0, {}


class CudaSession:
    """A model loaded on a GPU. Safe to call from several threads: runs take turns.

    Inputs may be on the host or on the GPU. Outputs are numpy arrays, torch tensors if an input is one on the GPU, or
    `DeviceArray` if another library has an input there.
    """

    def __init__(self, executable: Executable, driver: Driver, ordinal: int = 0, *, graphs: bool = True) -> None:
        self.context = context_of(driver, ordinal)
        self.executable = choose_variant(executable, self.context.info)
        self.threads = available_cores()
        """Of the host; for those who compare with it."""
        self._driver = driver
        self._binder = Binder(executable.signature)
        self._reader = Reader(executable.signature, self._binder, self.context)
        self._code = self.executable.code[self.executable.target]
        self._shaped: OrderedDict[tuple[tuple[int, ...], ...], _Shaped] = OrderedDict()
        self._lock = threading.Lock()
        self._held = _Held(self.context, graphs=graphs)
        self._template: Template | None = None
        self._functions: dict[str, int] = {}
        self._last_stream = 0
        self._quick: Quick | None = None
        self._replay: Callable[[int, int], int] | None = None
        self._finalizer = weakref.finalize(self, self._held.release)

    @property
    def signature(self) -> Signature:
        """What the model takes and gives."""
        return self.executable.signature

    def __enter__(self) -> CudaSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the memory; a later run takes it again."""
        with self._lock:
            self._held.release()
            self._shaped.clear()
            self._template = None

    def run(self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Outputs by name. Those that `out` has an array for are written into it: numpy's, or a torch tensor."""
        if (found := self._replayed(inputs, out or {})) is not None:
            return found
        outputs, _ = self._run(inputs, out or {}, timed=False)
        return outputs

    def profile(self, inputs: Mapping[str, Any]) -> Profile:
        """As `run`, one kernel after another, with the time of each step."""
        outputs, ns = self._run(inputs, {}, timed=True)
        template = self._prepared()
        shaped = next(reversed(self._shaped.values()))
        steps = shaped.launches.bound.steps
        time = np.zeros(len(template.leaves), np.int64)
        np.add.at(time, steps, np.array(ns, np.int64))
        count = np.bincount(steps, minlength=len(template.leaves))
        rows = zip(template.leaves, count, time, strict=True)
        return Profile(outputs, tuple(StepTime(s.kernel, s.label, int(n), int(t)) for s, n, t in rows))

    def memory(self, shapes: Mapping[str, tuple[int, ...]]) -> Memory:
        """What running at these input shapes takes."""
        values = self._binder.bind([tuple(shapes[s.name]) for s in self.signature.inputs])
        return memory(self.executable, values, 1)

    def arena_plan(self, inputs: Mapping[str, Any]) -> ArenaPlan:
        """Where the intermediate tensors of such a run lie."""
        shapes = tuple(tuple(inputs[s.name].shape) for s in self.signature.inputs)
        with self._lock, self.context.current():
            return self._bind(shapes).launches.bound.arena

    # one run

    def _replayed(self, inputs: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any] | None:
        """The run, if it is the graph of an earlier one (`quick.py`)."""
        quick, replay = self._quick, self._replay
        if quick is None or replay is None:
            return None
        addresses: list[int] = []
        with self._lock:
            shapes, held, stream = quick.read(inputs, addresses), self._held.blocks, quick.stream()
            if shapes is None or (shaped := self._shaped.get(shapes)) is None:
                return None
            if stream != self._last_stream or self.context.lost or quick.is_forked():
                return None
            launches = shaped.launches
            arena, scratch = held.get(ARENA, _NO_BLOCK), held.get(SCRATCH, _NO_BLOCK)
            if arena.nbytes < launches.bound.arena.peak or scratch.nbytes < launches.scratch_bytes:
                return None
            outputs = quick.outputs(launches.bound.output_shapes, given, addresses)
            if outputs is None:
                return None
            graph = shaped.graphs.get((*addresses, arena.address, launches.scratch_bytes and scratch.address))
            if graph is None:
                return None
            self._shaped.move_to_end(shapes)
            if result := replay(graph, stream):
                raise self.context.failure(self._driver.error(result), "the graph of a run")
            return outputs

    def _run(
        self, inputs: Mapping[str, Any], given: Mapping[str, Any], *, timed: bool
    ) -> tuple[dict[str, Any], list[int]]:
        with self._lock, self.context.current():
            stream = self._stream(inputs)
            operands = self._reader.operands(inputs, stream)
            shaped = self._bind(tuple(o.shape for o in operands))
            self._order(stream)
            shapes = shaped.launches.bound.output_shapes
            outputs = make_outputs(self.context, self.signature, shapes, operands, given, stream)
            try:
                addresses, is_reading = self._place(shaped, operands, outputs, stream)
            except DeviceError:
                self._held.shrink(stream)
                raise
            ns = self._execute(shaped, addresses, stream, timed=timed)
            # other libraries know nothing of this stream, and may have their arrays back after the call
            is_reading |= any(o.origin == "device" for o in operands)
            self._finish(outputs, stream, must_wait=is_reading)
            if self._quick is None and self._held.recorder.works and all(o.origin == "torch" for o in operands):
                self._quick = Quick.of(self.signature, self.context.ordinal)
                self._replay = self._driver.replayer(self.context.handle)
            return {o.spec.name: o.finished() for o in outputs}, ns

    def _stream(self, inputs: Mapping[str, Any]) -> int:
        if any(is_cuda_tensor(v) for v in inputs.values()):
            return current_stream(self.context.ordinal)
        if not self._held.stream:
            self._held.stream = self._driver.create_stream()
        return self._held.stream

    def _order(self, stream: int) -> None:
        """The arena is one for all streams: work on this one begins after that on the one before it."""
        if stream != self._last_stream and self._held.blocks:
            event = self._driver.create_event()
            self._driver.record(event, self._last_stream)
            self._driver.wait(stream, event)
            self._driver.destroy_event(event)
        self._last_stream = stream

    def _prepared(self) -> Template:
        """The plan with its weights on the device and its kernels loaded."""
        if self._template is None:
            metas = self.executable.kernels
            self._functions = {
                k.name: self.context.function(self._code, k.name, k.launch) for k in metas if k.launch is not None
            }
            self._template = Template(self.executable, upload(self._driver, self.executable.weights, self._weights))
        return self._template

    def _weights(self, nbytes: int) -> int:
        return self._held.block(WEIGHTS, nbytes, self._last_stream).address

    def _bind(self, shapes: tuple[tuple[int, ...], ...]) -> _Shaped:
        if (shaped := self._shaped.get(shapes)) is not None:
            self._shaped.move_to_end(shapes)
            return shaped
        values = self._binder.bind(shapes)
        bound = self._prepared().bind(values, range(len(self.executable.kernels)), 1)
        launches = Launches(self.executable, bound, self._functions, self.context.info.multiprocessors)
        shaped = self._shaped[shapes] = _Shaped(launches, Graphs(self._held.recorder))
        if len(self._shaped) > MAX_BOUND:
            self._shaped.popitem(last=False)[1].graphs.drop()
        log.debug("bound %s: %d launches, arena %d bytes", values, len(bound.records), bound.arena.peak)
        return shaped

    def _place(
        self, shaped: _Shaped, operands: Sequence[Operand], outputs: Sequence[Output], stream: int
    ) -> tuple[tuple[int, ...], bool]:
        """Find every tensor an address and copy in what is on the host.

        The addresses of inputs, outputs, arena and scratch, and whether the host's memory is still being read.
        """
        hosts = [o.host for o in operands if o.host is not None]
        returned = [o for o in outputs if o.on_host]
        places, total = offsets([*(a.nbytes for a in hosts), *(o.nbytes for o in returned)])
        base = self._held.block("inputs and outputs", total, stream).address if places else 0
        found = iter(base + p for p in places)
        io = [next(found) if o.host is not None else o.address for o in operands]
        for output in returned:
            output.address = next(found)
        items = [(a, o.host) for a, o in zip(io, operands, strict=True) if o.host is not None]
        is_reading = copy_in(self._driver, self._held.pinned, items, stream)
        launches = shaped.launches
        arena = self._held.block(ARENA, launches.bound.arena.peak, stream).address
        scratch = launches.scratch_bytes and self._scratch(launches, stream)
        return (*io, *(o.address for o in outputs), arena, scratch), is_reading

    def _scratch(self, launches: Launches, stream: int) -> int:
        """Scratch memory, whose flags are 0."""
        before = self._held.blocks.get(SCRATCH)
        block = self._held.block(SCRATCH, launches.scratch_bytes, stream)
        if block is not before and launches.flag_bytes:
            zeros = np.zeros(launches.flag_bytes, np.uint8)
            self._driver.copy_in(block.address, zeros.ctypes.data, zeros.nbytes, stream)
            self._driver.synchronize(stream)
        return block.address

    def _execute(self, shaped: _Shaped, addresses: tuple[int, ...], stream: int, *, timed: bool) -> list[int]:
        launches = shaped.launches
        *io, arena, scratch = addresses
        graph = None if timed else shaped.graphs.get(addresses)
        if graph is None:
            self.context.guarded("tensor maps", lambda: launches.point(self._driver, io, arena, scratch))
        if timed:
            return self._timed(launches, stream)
        if graph is None and launches.items:
            graph = shaped.graphs.record(addresses, lambda s: launches.run_all(self._driver, s), self._last_stream)
        if graph is not None:
            self.context.guarded("the graph of a run", lambda: self._driver.launch_graph(graph, stream))
            return []
        self.context.guarded(
            lambda: self._describe(launches.items[launches.at]), lambda: launches.run_all(self._driver, stream)
        )
        return []

    def _launch(self, launches: Launches, item: KernelLaunch | Copy, stream: int) -> None:
        self.context.guarded(self._describe(item), lambda: launches.run(self._driver, item, stream))

    def _describe(self, item: KernelLaunch | Copy) -> str:
        return described(item, self._prepared().leaves)

    def _timed(self, launches: Launches, stream: int) -> list[int]:
        """One at a time, so that whatever goes wrong has a name."""
        start, end = self._driver.create_event(), self._driver.create_event()
        ns: list[int] = []
        for item in launches.items:
            self._driver.record(start, stream)
            self._launch(launches, item, stream)
            self._driver.record(end, stream)
            self.context.guarded(self._describe(item), lambda: self._driver.synchronize(stream))
            ns.append(int(self._driver.elapsed_ms(start, end) * 1e6))
        self._driver.destroy_event(start)
        self._driver.destroy_event(end)
        return ns

    def _finish(self, outputs: Sequence[Output], stream: int, *, must_wait: bool) -> None:
        """Copy to the host what goes there. What goes to another library has to be complete."""
        hosts = [o for o in outputs if o.on_host]
        for o in hosts:
            o.value = np.empty(o.shape, elem_dtype(o.spec.elem))
        if hosts:
            items = [(o.address, o.value) for o in hosts]
            self.context.guarded(self._suspects(), lambda: copy_out(self._driver, self._held.pinned, items, stream))
        elif must_wait or any(isinstance(o.value, DeviceArray) for o in outputs):
            self.context.guarded(self._suspects(), lambda: self._driver.synchronize(stream))

    def _suspects(self) -> str:
        """Kernels report nothing when they fail; the wait after them does."""
        names = [k.name for k in self.executable.kernels if k.launch is not None]
        few = ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")
        return f"a kernel failed, one of {few} (GRAPHFUSE_DEBUG=1 runs them one at a time and names it)"

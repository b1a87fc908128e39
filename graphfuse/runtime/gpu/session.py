"""Runs an executable on a GPU: the same calls as `graphfuse.runtime.session.Session`.

Kernels run on torch's current stream when an input is a torch tensor on the GPU, else on a stream of the session's
own. A run with the addresses of an earlier one is recorded as a graph, those after it replay that. Each of several
callers at once has memory, a stream and graphs of its own (`callers.py`); weights and code are there once.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphfuse.artifact import Array, Executable, elem_dtype
from graphfuse.errors import DeviceError
from graphfuse.runtime.apart import check_states
from graphfuse.runtime.bound import Template
from graphfuse.runtime.callers import Callers
from graphfuse.runtime.gpu.arrays import DeviceArray, Operand, Reader, current_stream, is_cuda_tensor
from graphfuse.runtime.gpu.context import Context, choose_variant, context_of
from graphfuse.runtime.gpu.graphs import Graphs, Recorder
from graphfuse.runtime.gpu.launches import KernelLaunch, Launches, described
from graphfuse.runtime.gpu.memory import Block, NoRoomError, Pinned
from graphfuse.runtime.gpu.outputs import Output, make_outputs, span_of
from graphfuse.runtime.gpu.quick import Quick
from graphfuse.runtime.gpu.transfer import copy_in, copy_out, offsets, uploading
from graphfuse.runtime.session import MAX_BOUND, BaseSession, Profile, available_cores
from graphfuse.targets.driver import Driver, LaunchRecord

log = logging.getLogger(__name__)

WEIGHTS, ARENA, SCRATCH = "weights", "intermediate tensors", "scratch"
_NO_BLOCK = Block(0, 0)
MOST_CALLERS = 4
"""At once: enough that copies to, kernels, and copies back of three overlap."""


@dataclass(frozen=True, slots=True, eq=False)
class _Shaped:
    """A plan at one set of shapes."""

    launches: Launches
    graphs: Graphs


_Ran = tuple[dict[str, Any], Launches, list[int]]
"""Outputs by name, what was launched, and the ns of each launch, if they were timed."""


class _Caller:
    """What one of the callers at once has on the GPU, and the plans whose arguments it writes."""

    def __init__(self, context: Context, *, graphs: bool) -> None:
        self.context = context
        self.stream = self.last_stream = 0
        self.blocks: dict[str, Block] = {}
        self.shaped: OrderedDict[tuple[tuple[int, ...], ...], _Shaped] = OrderedDict()
        self.recorder = Recorder(context.driver, works=graphs)
        self.pinned = Pinned(context.driver)

    def block(self, what: str, nbytes: int, stream: int) -> Block:
        """Memory of its own that only grows. Freeing waits for earlier work that may still use it."""
        block = self.blocks.get(what)
        if block is None or block.nbytes < nbytes:
            if block is not None:
                self.context.driver.free(self.blocks.pop(what).address)
            block = self.blocks[what] = self.context.pool.take(nbytes, what, stream)
        return block

    def order(self, stream: int) -> None:
        """Its memory is one for all streams: work on this one begins after that on the one before it."""
        if stream != self.last_stream and self.blocks:
            driver = self.context.driver
            event = driver.create_event()
            driver.record(event, self.last_stream)
            driver.wait(stream, event)
            driver.destroy_event(event)
        self.last_stream = stream

    def scratch(self, launches: Launches, stream: int) -> int:
        """Scratch memory, whose flags are 0."""
        before = self.blocks.get(SCRATCH)
        block = self.block(SCRATCH, launches.scratch_bytes, stream)
        if block is not before and launches.flag_bytes:
            zeros = np.zeros(launches.flag_bytes, np.uint8)
            self.context.driver.copy_in(block.address, zeros.ctypes.data, zeros.nbytes, stream)
            self.context.driver.synchronize(stream)
        return block.address

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
        self.shaped.clear()


class _Loaded:
    """A model's kernels and weights on the GPU, when they were first needed; apart from the session, which may go."""

    def __init__(self, context: Context, executable: Executable) -> None:
        self.context, self.executable = context, executable
        self._lock = threading.Lock()
        self._block: Block | None = None
        self._ready: tuple[Template, dict[str, int]] | None = None

    def ready(self) -> tuple[Template, dict[str, int]]:
        """The plan, and its kernels by name. The context is current."""
        with self._lock:
            if self._ready is None:
                try:
                    with uploading(self.context, self.executable.weights, self._weights) as places:
                        self.context.driver.launcher(())  # the native code that gives launches is made once
                        self._ready = Template(self.executable, places), self.context.functions(self.executable)
                except BaseException:
                    self.release()
                    raise
            return self._ready

    def release(self) -> None:
        """Give the memory back."""
        block, self._block, self._ready = self._block, None, None
        if block is not None:
            with contextlib.suppress(DeviceError), self.context.current():
                self.context.driver.free(block.address)

    def _weights(self, nbytes: int) -> int:
        if self._block is None:
            self._block = self.context.pool.take(nbytes, WEIGHTS, 0)
        return self._block.address


def _release(callers: Callers[_Caller], loaded: _Loaded) -> None:
    callers.close_idle()
    loaded.release()


class GpuSession(BaseSession):
    """A model loaded on a GPU. Safe to call from several threads, up to `MOST_CALLERS` of which run at the same time.

    Inputs may be on the host or on the GPU. Outputs are numpy arrays, torch tensors if an input is one on the GPU, or
    `DeviceArray` if another library has an input there.
    """

    def __init__(self, executable: Executable, driver: Driver, ordinal: int = 0, *, graphs: bool = True) -> None:
        self.context = context_of(driver, ordinal)
        super().__init__(choose_variant(executable, self.context.info))
        self.threads = available_cores()  # for those who compare with the host
        self._driver = driver
        self._states = {
            self.signature.outputs[output].name: self.signature.inputs[number].name
            for output, number in self.executable.shared
        }
        """Of outputs that lie where inputs do, by name."""
        self._reader = Reader(executable.signature, self._binder, self.context)
        self._callers = Callers(functools.partial(_Caller, self.context, graphs=graphs), _Caller.release, MOST_CALLERS)
        self._leaves = tuple(step for _, step in self.executable.plan.walk())
        self._loaded = _Loaded(self.context, self.executable)
        self._quick: Quick | None = None
        self._replay: Callable[[int, int], int] | None = None
        self._finalizer = weakref.finalize(self, _release, self._callers, self._loaded)

    def prepare(self) -> None:
        """Load code and weights, if that is not done yet."""
        with self.context.current():
            self._loaded.ready()

    def close(self) -> None:
        """Free the memory; a later run takes it again."""
        self._callers.close(self._loaded.release)

    def run(
        self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None, *, over: bool = False
    ) -> dict[str, Any]:
        """Outputs by name. Those that `out` has an array for are written into it: numpy's, or a torch tensor.

        `over`: inputs on the GPU that are states are written over, and are the outputs that they become.
        """
        self._binder.check_out(out or {})
        if (found := self._replayed(inputs, out or {}, over=over)) is not None:
            return found
        outputs, _, _ = self._run(inputs, out or {}, over=over, timed=False)
        return outputs

    def resident(self, elem: str, array: Array) -> DeviceArray:
        """A copy of a contiguous array where kernels may write over it."""
        with self.context.current():
            block = self.context.pool.take(array.nbytes, "an array", 0)
            self._driver.copy_in(block.address, array.ctypes.data, array.nbytes, 0)
            self._driver.synchronize(0)
            return DeviceArray(self.context, block, elem, array.shape)

    def profile(self, inputs: Mapping[str, Any]) -> Profile:
        """As `run`, one kernel after another, with the time of each step."""
        outputs, launches, ns = self._run(inputs, {}, over=False, timed=True)
        return self._profile(outputs, launches.bound, ns)

    @contextlib.contextmanager
    def tracing(self) -> Generator[Callable[[Mapping[str, Any]], Profile]]:
        """Inside, what is called runs as `run` does, by graphs where they are, and says when the GPU did what.

        Raises DeviceError where nothing sees that (`Driver.tracing`).
        """
        with self._driver.tracing() as seen:
            yield lambda inputs: self._traced(inputs, seen)

    def _traced(self, inputs: Mapping[str, Any], seen: Callable[[], list[LaunchRecord]]) -> Profile:
        outputs, launches, _ = self._run(inputs, {}, over=False, timed=False)
        if any(is_cuda_tensor(v) for v in inputs.values()):
            with self.context.current():
                self._driver.synchronize(current_stream(self.context.ordinal))
        wanted = [i.name if isinstance(i, KernelLaunch) else "" for i in launches.items]
        # what is given back without a launch of its own may have been copied before the first
        records = seen()[-len(wanted) :] if wanted else []
        if [r.name for r in records] != wanted:
            raise DeviceError(f"expected records of {len(wanted)} launches, found {len(records)}, or others")
        steps = launches.bound.steps.tolist()
        profile = self._profile(outputs, launches.bound, [r.end - r.start for r in records])
        return replace(profile, records=tuple(zip(steps, records, strict=True)))

    # one run

    def _replayed(self, inputs: Mapping[str, Any], given: Mapping[str, Any], *, over: bool) -> dict[str, Any] | None:
        """The run, if it is the graph of an earlier one (`quick.py`)."""
        quick, replay = self._quick, self._replay
        if quick is None or replay is None or (self._states and not over):
            return None
        if over:
            given = {**given, **{output: inputs.get(name) for output, name in self._states.items()}}
        caller = self._callers.take()
        try:
            addresses: list[int] = []
            shapes, held, stream = quick.read(inputs, addresses), caller.blocks, quick.stream()
            if shapes is None or (shaped := caller.shaped.get(shapes)) is None:
                return None
            if stream != caller.last_stream or self.context.lost or quick.is_forked():
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
            caller.shaped.move_to_end(shapes)
            if result := replay(graph, stream):
                raise self.context.failure(self._driver.error(result), "the graph of a run")
            return outputs
        finally:
            self._callers.give(caller)

    def _run(self, inputs: Mapping[str, Any], given: Mapping[str, Any], *, over: bool, timed: bool) -> _Ran:
        with contextlib.suppress(NoRoomError):  # then there is one caller at a time from here on
            return self._run_once(inputs, given, over=over, timed=timed)
        try:
            return self._run_once(inputs, given, over=over, timed=timed)
        except NoRoomError:
            self._callers.limit(MOST_CALLERS)  # it does not fit alone either
            raise

    def _run_once(self, inputs: Mapping[str, Any], given: Mapping[str, Any], *, over: bool, timed: bool) -> _Ran:
        caller = self._callers.take()
        try:
            with self.context.current():
                stream = self._stream(caller, inputs)
                operands = self._reader.operands(inputs, stream)
                shaped = self._bind(caller, tuple(o.shape for o in operands))
                caller.order(stream)
                launches = shaped.launches
                shapes = launches.bound.output_shapes
                states = self._places(inputs, operands) if over else {}
                outputs = make_outputs(self.context, self.signature, shapes, operands, given, states, stream)
                addresses, is_reading = self._place(caller, launches, operands, outputs, stream)
                for output, number in self.executable.shared:
                    to, source = addresses[len(operands) + output], addresses[number]
                    if to != source:
                        self._driver.copy(to, source, outputs[output].nbytes, stream)
                ns = self._execute(shaped, addresses, stream, timed=timed)
                # other libraries know nothing of this stream, and may have their arrays back after the call
                is_reading |= any(o.origin == "device" for o in operands)
                self._finish(caller, outputs, stream, must_wait=is_reading)
                if self._quick is None and caller.recorder.works and all(o.origin == "torch" for o in operands):
                    self._replay = self._driver.replayer(self.context.handle)
                    self._quick = Quick.of(self.signature, self.context.ordinal)
                return {o.spec.name: o.finished() for o in outputs}, launches, ns
        except NoRoomError:
            caller.release()  # what did not fit this time must not stand in the way of smaller shapes
            self._callers.limit(1)
            raise
        finally:
            self._callers.give(caller)

    def _places(self, inputs: Mapping[str, Any], operands: Sequence[Operand]) -> dict[str, tuple[Any, Operand]]:
        """The states, by the names of what they become."""
        inside, outside = self.signature.inputs, self.signature.outputs
        placed = [(o, s) for o, s in zip(operands, inside, strict=True) if o.host is None]
        spans = ((o.address, len(span_of(o.address, s, o.shape)), s.name) for o, s in placed)
        check_states(spans, set(self._states.values()))
        return {outside[o].name: (inputs[inside[i].name], operands[i]) for o, i in self.executable.shared}

    def _stream(self, caller: _Caller, inputs: Mapping[str, Any]) -> int:
        if any(is_cuda_tensor(v) for v in inputs.values()):
            return current_stream(self.context.ordinal)
        if not caller.stream:
            caller.stream = self._driver.create_stream()
        return caller.stream

    def _bind(self, caller: _Caller, shapes: tuple[tuple[int, ...], ...]) -> _Shaped:
        if (shaped := caller.shaped.get(shapes)) is not None:
            caller.shaped.move_to_end(shapes)
            return shaped
        values = self._binder.bind(shapes)
        template, functions = self._loaded.ready()
        bound = template.bind(values, range(len(self.executable.kernels)), 1)
        launches = Launches(self.executable, bound, functions, self.context.info.multiprocessors)
        shaped = caller.shaped[shapes] = _Shaped(launches, Graphs(caller.recorder))
        if len(caller.shaped) > MAX_BOUND:
            caller.shaped.popitem(last=False)[1].graphs.drop()
        log.debug("bound %s: %d launches, arena %d bytes", values, len(bound.records), bound.arena.peak)
        return shaped

    def _place(
        self, caller: _Caller, launches: Launches, operands: Sequence[Operand], outputs: Sequence[Output], stream: int
    ) -> tuple[tuple[int, ...], bool]:
        """Find every tensor an address and copy in what is on the host.

        The addresses of inputs, outputs, arena and scratch, and whether the host's memory is still being read.
        """
        hosts = [o.host for o in operands if o.host is not None]
        returned = [o for o in outputs if o.on_host]
        places, total = offsets([*(a.nbytes for a in hosts), *(o.nbytes for o in returned)])
        base = caller.block("inputs and outputs", total, stream).address if places else 0
        found = iter(base + p for p in places)
        io = [next(found) if o.host is not None else o.address for o in operands]
        for output in returned:
            output.address = next(found)
        items = [(a, o.host) for a, o in zip(io, operands, strict=True) if o.host is not None]
        is_reading = copy_in(self._driver, caller.pinned, items, stream)
        arena = caller.block(ARENA, launches.bound.arena.peak, stream).address
        scratch = launches.scratch_bytes and caller.scratch(launches, stream)
        return (*io, *(o.address for o in outputs), arena, scratch), is_reading

    def _execute(self, shaped: _Shaped, addresses: tuple[int, ...], stream: int, *, timed: bool) -> list[int]:
        launches = shaped.launches
        *io, arena, scratch = addresses
        graph = None if timed else shaped.graphs.get(addresses)
        if graph is None:
            self.context.guarded("tensor maps", lambda: launches.point(self._driver, io, arena, scratch))
        if timed:
            return self._timed(launches, stream)
        if graph is None and launches.items:
            graph = shaped.graphs.record(addresses, lambda s: launches.run_all(self._driver, s), stream)
        if graph is not None:
            self.context.guarded("the graph of a run", lambda: self._driver.launch_graph(graph, stream))
            return []
        self.context.guarded(
            lambda: described(launches.items[launches.at], self._leaves), lambda: launches.run_all(self._driver, stream)
        )
        return []

    def _timed(self, launches: Launches, stream: int) -> list[int]:
        """One at a time, so that whatever goes wrong has a name."""
        start, end = self._driver.create_event(), self._driver.create_event()
        ns: list[int] = []
        for item in launches.items:
            what = described(item, self._leaves)
            self._driver.record(start, stream)
            self.context.guarded(what, lambda item=item: launches.run(self._driver, item, stream))
            self._driver.record(end, stream)
            self.context.guarded(what, lambda: self._driver.synchronize(stream))
            ns.append(int(self._driver.elapsed_ms(start, end) * 1e6))
        self._driver.destroy_event(start)
        self._driver.destroy_event(end)
        return ns

    def _finish(self, caller: _Caller, outputs: Sequence[Output], stream: int, *, must_wait: bool) -> None:
        """Copy to the host what goes there. What goes to another library has to be complete."""
        hosts = [o for o in outputs if o.on_host]
        for o in hosts:
            o.value = np.empty(o.shape, elem_dtype(o.spec.elem))
        if hosts:
            items = [(o.address, o.value) for o in hosts]
            self.context.guarded(self._suspects(), lambda: copy_out(self._driver, caller.pinned, items, stream))
        elif must_wait or any(isinstance(o.value, DeviceArray) for o in outputs):
            self.context.guarded(self._suspects(), lambda: self._driver.synchronize(stream))

    def _suspects(self) -> str:
        """Kernels report nothing when they fail; the wait after them does."""
        names = [k.name for k in self.executable.kernels if k.launch is not None]
        few = ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")
        return f"a kernel failed, one of {few} (GRAPHFUSE_DEBUG=1 runs them one at a time and names it)"

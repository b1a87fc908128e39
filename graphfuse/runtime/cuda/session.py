"""Runs an executable on a GPU: the same calls as `graphfuse.runtime.session.Session`.

Kernels run on torch's current stream when an input is a torch tensor on the GPU, else on a stream of the session's
own. The second run with the same addresses is recorded as a CUDA graph, the ones after it replay that.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphfuse.artifact import Executable, Signature, elem_dtype
from graphfuse.errors import DeviceError, GraphfuseError, InputError
from graphfuse.runtime.binding import Binder
from graphfuse.runtime.bound import Template
from graphfuse.runtime.cuda.arrays import (
    ALIGNMENT,
    DeviceArray,
    Operand,
    Reader,
    current_stream,
    is_cuda_tensor,
    torch_dtype,
    torch_module,
)
from graphfuse.runtime.cuda.context import Context, choose_variant, context_of
from graphfuse.runtime.cuda.driver import Driver, DriverError
from graphfuse.runtime.cuda.launches import Copy, KernelLaunch, Launches
from graphfuse.runtime.cuda.memory import Block, Pinned
from graphfuse.runtime.planner import ArenaPlan
from graphfuse.runtime.session import MAX_BOUND, Memory, Profile, StepTime, available_cores, memory

log = logging.getLogger(__name__)

WEIGHTS = "weights"
MAX_GRAPHS = 8
"""How many sets of addresses a set of shapes remembers a graph for."""
STAGED = 32 << 20
"""Host arrays from this size on are copied by the driver from where they are, not through pinned memory."""


@dataclass(slots=True, eq=False)
class _Shaped:
    """A plan at one set of shapes, and graphs of it by addresses; `seen` are the addresses of earlier runs."""

    launches: Launches
    graphs: OrderedDict[tuple[int, ...], int] = field(default_factory=OrderedDict[tuple[int, ...], int])
    seen: OrderedDict[tuple[int, ...], None] = field(default_factory=OrderedDict[tuple[int, ...], None])

    def is_known(self, addresses: tuple[int, ...]) -> bool:
        """Whether an earlier run had the same addresses; remembers them. Allocators hand out the same few in turn."""
        known = addresses in self.seen
        self.seen[addresses] = None
        self.seen.move_to_end(addresses)
        if len(self.seen) > 2 * MAX_GRAPHS:
            self.seen.popitem(last=False)
        return known


@dataclass(slots=True, eq=False)
class _Output:
    """Where one output goes: `address` on the device, and then to the host if `host` has its place in staging."""

    name: str
    shape: tuple[int, ...]
    elem: str
    address: int = 0
    nbytes: int = 0
    staged: int = -1
    value: Any = None
    given: Any = None


class _Held:
    """What a session holds on the GPU, apart from it so that it can be released after the session is gone."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.stream = 0
        self.blocks: dict[str, Block] = {}
        self.executables: list[int] = []
        self.pinned = Pinned(context.driver)

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
            for executable in self.executables:
                driver.destroy_executable(executable)
            for block in self.blocks.values():
                driver.free(block.address)
            self.pinned.close()
            if self.stream:
                driver.destroy_stream(self.stream)
        self.stream, self.blocks, self.executables = 0, {}, []


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
        self._graphs = graphs
        self._shaped: OrderedDict[tuple[tuple[int, ...], ...], _Shaped] = OrderedDict()
        self._lock = threading.Lock()
        self._held = _Held(self.context)
        self._template: Template | None = None
        self._functions: dict[str, int] = {}
        self._last_stream = 0
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

    def _run(
        self, inputs: Mapping[str, Any], given: Mapping[str, Any], *, timed: bool
    ) -> tuple[dict[str, Any], list[int]]:
        with self._lock, self.context.current():
            stream = self._stream(inputs)
            operands = self._reader.operands(inputs, stream)
            shaped = self._bind(tuple(o.shape for o in operands))
            self._order(stream)
            outputs = self._outputs(shaped, operands, given)
            try:
                addresses = self._place(shaped, operands, outputs, stream)
            except DeviceError:
                self._held.shrink(stream)
                raise
            ns = self._execute(shaped, addresses, stream, timed=timed)
            return self._results(shaped, operands, outputs, stream), ns

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
            self._template = Template(self.executable, self._upload())
        return self._template

    def _upload(self) -> list[int]:
        """Copy the weights to the device; where each is."""
        weights = self.executable.weights
        offsets, total = _offsets([w.array.nbytes for w in weights])
        base = self._block(WEIGHTS, total).address
        for w, offset in zip(weights, offsets, strict=True):
            array = np.ascontiguousarray(w.array)
            if array.nbytes:
                self._driver.copy_in(base + offset, array.ctypes.data, array.nbytes, 0)
        self._driver.synchronize(0)
        return [base + offset for offset in offsets]

    def _bind(self, shapes: tuple[tuple[int, ...], ...]) -> _Shaped:
        if (shaped := self._shaped.get(shapes)) is not None:
            self._shaped.move_to_end(shapes)
            return shaped
        values = self._binder.bind(shapes)
        bound = self._prepared().bind(values, range(len(self.executable.kernels)), 1)
        shaped = self._shaped[shapes] = _Shaped(Launches(self.executable, bound, self._functions))
        if len(self._shaped) > MAX_BOUND:
            _, old = self._shaped.popitem(last=False)
            for executable in old.graphs.values():
                self._drop(executable)
        log.debug("bound %s: %d launches, arena %d bytes", values, len(bound.records), bound.arena.peak)
        return shaped

    def _block(self, what: str, nbytes: int) -> Block:
        """Memory of the session's own that only grows. Who grows it waits, as earlier work may still use it."""
        block = self._held.blocks.get(what)
        if block is None or block.nbytes < nbytes:
            if block is not None:
                self._driver.free(block.address)
                del self._held.blocks[what]
            block = self._held.blocks[what] = self.context.pool.take(nbytes, what, self._last_stream)
        return block

    def _outputs(self, shaped: _Shaped, operands: Sequence[Operand], given: Mapping[str, Any]) -> list[_Output]:
        specs, shapes = self.signature.outputs, shaped.launches.bound.output_shapes
        origins = {o.origin for o in operands}
        names = [s.name for s in specs]
        for name in given:
            if name not in names:
                raise InputError(f"no output {name!r}: expected one of {', '.join(map(repr, names))}")
        out: list[_Output] = []
        for spec, shape in zip(specs, shapes, strict=True):
            nbytes = int(np.prod(shape, dtype=np.int64)) * elem_dtype(spec.elem).itemsize
            output = _Output(spec.name, shape, spec.elem, nbytes=nbytes, given=given.get(spec.name))
            if output.given is not None:
                self._use_given(output)
            elif "torch" in origins and torch_dtype(spec.elem) is not None:
                output.value = torch_module().empty(
                    shape, dtype=torch_dtype(spec.elem), device=f"cuda:{self.context.ordinal}"
                )
                output.address = int(output.value.data_ptr())
            elif origins & {"torch", "device"}:
                block = self.context.pool.take(nbytes, f"output {spec.name!r}", self._last_stream)
                output.value = DeviceArray(self.context, block, spec.elem, shape)
                output.address = block.address
            out.append(output)
        return out

    def _use_given(self, output: _Output) -> None:
        """Write in place where that is possible, else by a copy at the end."""
        array: Any = output.given
        on_gpu = is_cuda_tensor(array)
        wanted: Any = torch_dtype(output.elem) if on_gpu else elem_dtype(output.elem)
        fits = getattr(array, "dtype", None) == wanted
        if on_gpu:
            fits = fits and array.device.index == self.context.ordinal
        else:
            fits = fits and isinstance(output.given, np.ndarray) and output.given.flags.writeable
        if not fits or tuple(array.shape) != output.shape:
            raise InputError(
                f"output {output.name!r}: expected a writable {wanted} array of shape {output.shape}, "
                f"found {getattr(array, 'dtype', type(array).__name__)} of shape {tuple(getattr(array, 'shape', ()))}"
            )
        if on_gpu:
            is_usable = array.is_contiguous() and array.data_ptr() % ALIGNMENT == 0
            output.value = array if is_usable else torch_module().empty_like(array).contiguous()
            output.address = int(output.value.data_ptr())

    def _place(
        self, shaped: _Shaped, operands: Sequence[Operand], outputs: Sequence[_Output], stream: int
    ) -> tuple[int, ...]:
        """Find every tensor an address, and copy in what is on the host. Inputs, outputs, arena, scratch."""
        hosts = [o.host.nbytes if o.host is not None else -1 for o in operands]
        hosts += [o.nbytes if o.value is None else -1 for o in outputs]
        offsets, total = _offsets([n for n in hosts if n >= 0])
        base = self._block("inputs and outputs", total).address if offsets else 0
        places = iter(offsets)
        addresses = [o.address if o.host is None else base + next(places) for o in operands]
        for output in outputs:
            if output.value is None:
                output.staged = next(places)
                output.address = base + output.staged
        self._copy_in(operands, addresses, base, total, stream)
        arena = self._block("intermediate tensors", shaped.launches.bound.arena.peak)
        scratch = self._block("scratch", shaped.launches.scratch_bytes).address if shaped.launches.scratch_bytes else 0
        return (*addresses, *(o.address for o in outputs), arena.address, scratch)

    def _copy_in(
        self, operands: Sequence[Operand], addresses: Sequence[int], base: int, total: int, stream: int
    ) -> None:
        """Small arrays through pinned memory in one go, large ones from where they are."""
        small = [
            (a - base, o.host) for o, a in zip(operands, addresses, strict=True) if o.host is not None and o.host.nbytes
        ]
        for offset, array in small:
            if array.nbytes > STAGED:
                self._driver.copy_in(base + offset, array.ctypes.data, array.nbytes, stream)
        small = [(offset, array) for offset, array in small if array.nbytes <= STAGED]
        if not small:
            return
        self._driver.synchronize(stream)  # the run before may still be reading what is there
        end = max(offset + array.nbytes for offset, array in small)
        room = self._held.pinned.room(total)
        for offset, array in small:
            room[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)
        self._driver.copy_in(base, room.ctypes.data, end, stream)

    def _execute(self, shaped: _Shaped, addresses: tuple[int, ...], stream: int, *, timed: bool) -> list[int]:
        launches = shaped.launches
        *io, arena, scratch = addresses
        executable = None if timed else shaped.graphs.get(addresses)
        if executable is None:
            self._guarded("tensor maps", lambda: launches.point(self._driver, io, arena, scratch))
        if timed:
            return self._timed(launches, stream)
        if executable is None and self._graphs and len(launches.items) > 1 and shaped.is_known(addresses):
            executable = self._record(shaped, addresses)
        if executable is not None:
            shaped.graphs.move_to_end(addresses)
            self._guarded("the graph of a run", lambda: self._driver.launch_graph(executable, stream))
            return []
        for item in launches.items:
            self._launch(launches, item, stream)
        return []

    def _launch(self, launches: Launches, item: KernelLaunch | Copy, stream: int) -> None:
        self._guarded(self._describe(item), lambda: launches.run(self._driver, item, stream))

    def _describe(self, item: KernelLaunch | Copy) -> str:
        """The kernel and the node it is from."""
        leaf = self._prepared().leaves[item.step]
        label = leaf.label or (item.meta.label if isinstance(item, KernelLaunch) else "")
        return f"kernel {item.name!r}" + (f" (node {label!r})" if label else "")

    def _guarded(self, what: str, work: Any) -> None:
        """Say what the driver, or the emulator, was doing when it fails."""
        try:
            work()
        except DriverError as e:
            raise self.context.failure(e, what) from None
        except DeviceError:
            raise
        except GraphfuseError as e:
            raise DeviceError(f"{self.context.where}: {what}: {e.message}", e.loc) from None

    def _timed(self, launches: Launches, stream: int) -> list[int]:
        """One at a time, so that whatever goes wrong has a name."""
        start, end = self._driver.create_event(), self._driver.create_event()
        ns: list[int] = []
        for item in launches.items:
            self._driver.record(start, stream)
            self._launch(launches, item, stream)
            self._driver.record(end, stream)
            self._guarded(self._describe(item), lambda: self._driver.synchronize(stream))
            ns.append(int(self._driver.elapsed_ms(start, end) * 1e6))
        self._driver.destroy_event(start)
        self._driver.destroy_event(end)
        return ns

    def _record(self, shaped: _Shaped, addresses: tuple[int, ...]) -> int | None:
        """A graph of the launches; None where the driver cannot, and then it is not asked again."""
        driver = self._driver
        if not self._held.stream:
            self._held.stream = driver.create_stream()  # torch's default stream cannot be recorded
        stream = self._held.stream
        try:
            driver.begin_capture(stream)
            try:
                for item in shaped.launches.items:
                    shaped.launches.run(driver, item, stream)
            finally:
                graph = driver.end_capture(stream)
            executable = self._instantiated(shaped, graph)
            driver.destroy_graph(graph)
        except DriverError as e:
            if e.is_sticky:
                raise
            log.warning("launches are not recorded as a graph: %s", e)
            self._graphs = False
            return None
        shaped.graphs[addresses] = executable
        return executable

    def _instantiated(self, shaped: _Shaped, graph: int) -> int:
        """The graph, in the oldest one's place when there are many: changing addresses is cheaper than a new one."""
        if len(shaped.graphs) >= MAX_GRAPHS:
            _, oldest = shaped.graphs.popitem(last=False)
            self._driver.synchronize(self._last_stream)
            if self._driver.update(oldest, graph):
                return oldest
            self._drop(oldest)
        executable = self._driver.instantiate(graph)
        self._held.executables.append(executable)
        return executable

    def _drop(self, executable: int) -> None:
        self._held.executables.remove(executable)
        self._driver.destroy_executable(executable)

    def _results(
        self, shaped: _Shaped, operands: Sequence[Operand], outputs: Sequence[_Output], stream: int
    ) -> dict[str, Any]:
        hosts = [o for o in outputs if o.staged >= 0]
        if hosts:
            self._copy_out(hosts, stream)
        elif any(o.origin == "device" for o in operands):
            # other libraries know nothing of this stream
            self._synchronize(shaped, stream)
        for o in outputs:
            if o.given is not None and o.value is not o.given:
                if is_cuda_tensor(o.given):
                    o.given.copy_(o.value)
                else:
                    o.given[...] = o.value
                o.value = o.given
        return {o.name: o.value for o in outputs}

    def _copy_out(self, outputs: Sequence[_Output], stream: int) -> None:
        begin = min(o.staged for o in outputs)
        end = max(o.staged + o.nbytes for o in outputs)
        small = end - begin <= STAGED
        room = self._held.pinned.room(end - begin) if small else None
        for o in outputs:
            o.value = np.empty(o.shape, elem_dtype(o.elem))
            if room is None and o.nbytes:
                self._driver.copy_out(o.value.ctypes.data, o.address, o.nbytes, stream)
        if room is not None and end > begin:
            base = outputs[0].address - outputs[0].staged
            self._driver.copy_out(room.ctypes.data, base + begin, end - begin, stream)
        self._guarded(self._suspects(), lambda: self._driver.synchronize(stream))
        for o in outputs:
            if room is not None and o.nbytes:
                o.value.reshape(-1).view(np.uint8)[...] = room[o.staged - begin : o.staged - begin + o.nbytes]

    def _synchronize(self, shaped: _Shaped, stream: int) -> None:
        self._guarded(self._suspects(), lambda: self._driver.synchronize(stream))

    def _suspects(self) -> str:
        """Kernels report nothing when they fail; the wait after them does."""
        names = [k.name for k in self.executable.kernels if k.launch is not None]
        few = ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")
        return f"a kernel failed, one of {few} (GRAPHFUSE_DEBUG=1 runs them one at a time and names it)"


def _offsets(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where things of these sizes go one after the other, each at a multiple of 256, and where they end."""
    out: list[int] = []
    end = 0
    for size in sizes:
        out.append(end)
        end += -(-size // 256) * 256
    return out, end

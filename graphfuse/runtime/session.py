"""Runs an executable: one call of native code per run, whatever the number of kernels.

Shapes become numbers in `bound.py`, inputs are checked in `binding.py`, native code is linked in `native.py`, and runs
on the threads and in the memory of `workspace.py`, of which each of several callers at once has one (`callers.py`).
"""

from __future__ import annotations

import functools
import logging
import math
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np

from graphfuse.artifact import Array, Executable, Signature, elem_dtype
from graphfuse.errors import InputError, UsageError
from graphfuse.knobs import settings
from graphfuse.llvm.host import available_cores
from graphfuse.runtime.apart import check_apart, check_states
from graphfuse.runtime.binding import Binder
from graphfuse.runtime.bound import Bound, Template, scratch_on_gpu
from graphfuse.runtime.callers import Callers
from graphfuse.runtime.lent import LARGE, lent_bytes
from graphfuse.runtime.native import ALIGN, NativeCode, address_of, aligned_bytes
from graphfuse.runtime.planner import ArenaPlan
from graphfuse.runtime.ready import Ready
from graphfuse.runtime.turns import Made, Turns, Wiring
from graphfuse.runtime.workspace import Workspace, workspaces
from graphfuse.targets.driver import LaunchRecord
from graphfuse.targets.memory import physical_bytes
from graphfuse.targets.profiles.nvidia import GPUS
from graphfuse.value_checks import FINE, look

log = logging.getLogger(__name__)

MAX_BOUND = 64
"""How many sets of shapes a session remembers for each of its callers."""
_ALIGNED_FROM = 4096
"""Smaller outputs are numpy's own: aligning takes longer than their stores could save."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """How long the launches of one step took in one run, in ns, and in the next (`warm_ns`), where there was one."""

    kernel: str
    label: str
    launches: int
    ns: int
    warm_ns: int = 0


@dataclass(frozen=True, slots=True)
class Profile:
    """The outputs of a run and the time of each step, in plan order.

    `records` are what a GPU's driver saw, if that was asked: of each launch, with the number of its step.
    """

    outputs: dict[str, Array]
    steps: tuple[StepTime, ...]
    records: tuple[tuple[int, LaunchRecord], ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes a model takes at given shapes. `arena_bound` is the least any placement could need.

    Scratch memory is per thread on a CPU, per program of a launch on a GPU.
    """

    arena: int
    arena_bound: int
    weights: int
    scratch: int


class BaseSession:
    """What sessions on a CPU and on a GPU have in common."""

    threads: int
    """Of the host."""

    def __init__(self, executable: Executable) -> None:
        self.executable = executable
        self._binder = Binder(executable.signature)

    @property
    def signature(self) -> Signature:
        """What the model takes and gives."""
        return self.executable.signature

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prepare(self) -> None:
        """Load code and weights, if that is not done yet."""

    def close(self) -> None:
        """Free the memory; a later run takes it again."""
        raise NotImplementedError

    def memory(self, shapes: Mapping[str, tuple[int, ...]]) -> Memory:
        """What running at these input shapes takes."""
        return memory(self.executable, self._values(shapes), self.threads)

    def arena_plan(self, inputs: Mapping[str, Any]) -> ArenaPlan:
        """Where the intermediate tensors of such a run lie."""
        template = Template(self.executable, [0] * len(self.executable.weights))
        return template.arena(template.sizes(self._values({name: x.shape for name, x in inputs.items()})))

    def _values(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
        return self._binder.bind([tuple(shapes[s.name]) for s in self.signature.inputs])

    def _profile(self, outputs: dict[str, Any], bound: Bound, ns: Sequence[int]) -> Profile:
        """The time of each launch as that of its step."""
        leaves = [step for _, step in self.executable.plan.walk()]
        time = np.zeros(len(leaves), np.int64)
        np.add.at(time, bound.steps, np.array(ns, np.int64))
        rows = zip(leaves, np.bincount(bound.steps, minlength=len(leaves)), time, strict=True)
        return Profile(outputs, tuple(StepTime(s.kernel, s.label, int(n), int(t)) for s, n, t in rows))


class Session(BaseSession):
    """A loaded model. Safe to call from several threads, which run at the same time (`workspaces` says how many).

    Sessions that are called one within the other, as parts of one model, may share `callers`; then closing those is
    not theirs.
    """

    def __init__(
        self, executable: Executable, threads: int | None = None, callers: Callers[Workspace] | None = None
    ) -> None:
        super().__init__(executable)
        self.threads = thread_count(threads)
        self._native = NativeCode(executable)
        self._template = Template(executable)
        self._kernels = [self._native.kernels[k.name] for k in executable.kernels]
        self._dtypes = tuple(elem_dtype(s.elem) for s in executable.results)
        self._names = tuple(s.name for s in executable.signature.outputs)
        self._callers = callers or workspaces(self.threads)
        self._turns: weakref.WeakKeyDictionary[Ready, dict[object, Turns]] = weakref.WeakKeyDictionary()
        """Of plans that are the bodies of loops; whoever has a plan has its turns."""
        if callers is None:
            self._finalizer = weakref.finalize(self, self._callers.close_idle)

    def close(self) -> None:
        """Stop the threads and free the memory; a later run starts them again."""
        self._callers.close()

    def run(
        self, inputs: Mapping[str, Any], out: Mapping[str, Array] | None = None, *, over: bool = False
    ) -> dict[str, Array]:
        """Outputs by name. Inputs are numpy arrays or DLPack objects, by name.

        Outputs are in fresh memory, but for those that `out` has an array for: writable, of the output's shape and
        dtype. Such an array is written in place (by a copy when it is not contiguous and 64-byte aligned, or overlaps
        an input). `over`: inputs that are states are written over, and are the outputs that they become.
        """
        arrays = self._binder.arrays(inputs)
        places = self._written_over(arrays, inputs) if over else {}
        outputs, _, _ = self._run(arrays, out or {}, places)
        results = dict(zip(self._names, outputs, strict=True))
        for name, array in (out or {}).items():
            if results[name] is not array:
                array[...] = results[name]
                results[name] = array
        return results

    def call(self, values: Sequence[Any]) -> list[Array]:
        """`run` for callers that know the signature: inputs and outputs stand in its order."""
        return self._run([self._binder.array(i, value) for i, value in enumerate(values)], {}, {})[0]

    def resident(self, elem: str, array: Array) -> Array:
        """A copy of a contiguous array where kernels may write over it."""
        placed = aligned_empty(array.shape, elem_dtype(elem))
        placed[...] = array
        return placed

    def repeat(self, values: Sequence[Any], wiring: Wiring, most: int) -> Made | None:
        """Run it turn after turn, `most` times at most: `values` are those of the first turn.

        None where what it makes does not have the shape of what it is fed to, or where that would not be worth it.
        """
        arrays = [self._binder.array(i, value) for i, value in enumerate(values)]
        workspace = self._callers.take()
        try:
            ready = self._bind(workspace, tuple(a.shape for a in arrays))
            outputs = list(zip(ready.bound.output_shapes, self._dtypes, strict=True))
            known = self._turns.setdefault(ready, {})
            if (turns := known.get(wiring.key)) is None:
                turns = Turns.of(ready.bound, [(a.shape, a.dtype) for a in arrays], outputs, wiring, most)
                if turns is None:
                    return None
                known[wiring.key] = turns
            look = functools.partial(self._look_at_all, ready.bound) if self.executable.checks else None
            return turns.run(workspace, ready, arrays, wiring, most, look)
        finally:
            self._callers.give(workspace)

    def _look_at_all(self, bound: Bound, reports: Array) -> None:
        """Raise the first error that turns reported."""
        for report in reports[(reports != FINE).any(1)][:1].tolist():
            look(self.executable.checks, report, bound.values)

    def profile(self, inputs: Mapping[str, Any]) -> Profile:
        """As `run`, with the time of each step."""
        outputs, bound, ns = self._run(self._binder.arrays(inputs), {}, {}, timed=True)
        return self._profile(dict(zip(self._names, outputs, strict=True)), bound, ns)

    def _written_over(self, arrays: Sequence[Array], inputs: Mapping[str, Any]) -> dict[str, Array]:
        """The states, by the names of what they become."""
        specs, states = self.signature.inputs, dict[str, Array]()
        for _, number in self.executable.shared:
            name, array = specs[number].name, arrays[number]
            given: Any = inputs[name]
            is_moved = array is not given and isinstance(given, np.ndarray)
            is_copy = is_moved and address_of(array) != address_of(cast("Array", given))
            if is_copy or not array.flags.writeable:
                raise InputError(f"input {name!r}: expected a contiguous array to write over, found one that is not")
            states[name] = array
        check_states(((address_of(a), a.nbytes, s.name) for a, s in zip(arrays, specs, strict=True)), states)
        return {self._names[output]: arrays[number] for output, number in self.executable.shared}

    def _run(
        self, arrays: list[Array], out: Mapping[str, Array], places: Mapping[str, Array], *, timed: bool = False
    ) -> tuple[list[Array], Bound, list[int]]:
        """The outputs, the plan at these shapes, and the time of each launch where they are timed."""
        workspace, ns = self._callers.take(), list[int]()
        try:
            ready = self._bind(workspace, tuple(a.shape for a in arrays))
            outputs = self._outputs(ready.bound, out, arrays, places)
            for output, number in self.executable.shared:
                if outputs[output] is not arrays[number]:
                    outputs[output][...] = arrays[number]
            # the addresses of this call
            ready.place([address_of(a) for a in (*arrays, *outputs)], workspace.arena(ready.peak))
            if timed:
                ns = workspace.profile(ready.records, ready.count, ready.scratch_bytes)
            else:
                workspace.run(ready.records, ready.count, ready.scratch_bytes)
        finally:
            self._callers.give(workspace)
        # take the report on checks out of the outputs, and raise if one failed
        if checks := self.executable.checks:
            look(checks, outputs.pop().tolist(), ready.bound.values)
        return outputs, ready.bound, ns

    def _bind(self, workspace: Workspace, shapes: tuple[tuple[int, ...], ...]) -> Ready:
        """The plan at these shapes, as the caller that has this workspace has it."""
        if (known := workspace.ready.get(self._template)) is None:
            workspace.adopt(self._native)
            known = workspace.ready[self._template] = OrderedDict()
        if (ready := known.get(shapes)) is not None:
            known.move_to_end(shapes)
            return ready
        values = self._binder.bind(shapes)
        bound = self._template.bind(values, self._kernels, self.threads)
        shaped = zip(bound.output_shapes, self._dtypes, strict=True)
        outputs = sum(math.prod(shape) * dtype.itemsize for shape, dtype in shaped)
        if (needed := bound.arena.peak + outputs) > physical_bytes():
            raise InputError(f"these shapes need {needed} bytes of memory, which is not available")
        ready = known[shapes] = Ready(bound)
        if len(known) > MAX_BOUND:
            known.popitem(last=False)
        log.debug("bound %s: %d launches, arena %d bytes", values, len(bound.records), bound.arena.peak)
        return ready

    def _outputs(
        self, bound: Bound, given: Mapping[str, Array], inputs: Sequence[Array], places: Mapping[str, Array]
    ) -> list[Array]:
        place = {**self._given(bound, given, inputs), **places} if given else places
        try:
            if not place:
                return [*map(aligned_empty, bound.output_shapes, self._dtypes)]
            # behind the outputs there may be a report
            specs = zip((*self._names, ""), bound.output_shapes, self._dtypes, strict=False)
            return [place[name] if name in place else aligned_empty(shape, dtype) for name, shape, dtype in specs]
        except (MemoryError, ValueError):
            raise InputError(f"outputs {bound.output_shapes} do not fit into memory") from None

    def _given(self, bound: Bound, given: Mapping[str, Array], inputs: Sequence[Array]) -> dict[str, Array]:
        """Those of the caller's arrays that are written in place."""
        self._binder.check_out(given)
        wanted = dict(zip(self._names, zip(bound.output_shapes, self._dtypes, strict=False), strict=False))
        for name, array in given.items():
            shape, dtype = wanted[name]
            is_array = isinstance(cast("object", array), np.ndarray)
            if not is_array or (array.shape, array.dtype) != (shape, dtype) or not array.flags.writeable:
                found = f"{array.dtype} of shape {array.shape}" if is_array else type(array).__name__
                raise InputError(f"output {name!r}: expected a writable {dtype} array of shape {shape}, found {found}")
        check_apart(given)
        # while a kernel writes an output, it or a later one may still read an input
        return {
            name: array
            for name, array in given.items()
            if _is_aligned(array) and not any(np.may_share_memory(array, x) for x in inputs)
        }


def memory(executable: Executable, values: Mapping[str, int], threads: int) -> Memory:
    """What running at these symbol values takes. Needs no native code, so it works for any target."""
    template = Template(executable, [0] * len(executable.weights))
    plan = template.arena(template.sizes(values))
    weights = sum(w.nbytes for w in executable.weights)
    if executable.is_gpu:
        bound = template.bind(values, range(len(executable.kernels)), 1)
        scratch = scratch_on_gpu(executable, bound, GPUS[executable.target.partition(":")[2]].machine.multiprocessors)
    else:
        scratch = template.scratch_bytes(values) * threads
    return Memory(plan.peak, plan.lower_bound, weights, scratch)


def thread_count(threads: int | None) -> int:
    """How many threads to use: as asked for, else as the knob says, else all cores there are."""
    if threads is None:
        threads = settings.threads
    if threads is None:
        return available_cores()
    if not 1 <= threads <= 1024:
        raise UsageError(f"threads: expected 1..1024, got {threads}")
    return threads


def _is_aligned(array: Array) -> bool:
    return array.flags.c_contiguous and address_of(array) % ALIGN == 0


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array that kernels may write where it lies."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < _ALIGNED_FROM:
        return np.empty(shape, dtype)
    return (lent_bytes if nbytes >= LARGE else aligned_bytes)(nbytes).view(dtype).reshape(shape)

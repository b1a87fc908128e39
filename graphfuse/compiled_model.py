"""A compiled model as callers have it: called, profiled, interpreted, saved, looked into."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphfuse import usage
from graphfuse.artifact import HOST_VALUES, Array, Executable, Signature
from graphfuse.devices import driver_of
from graphfuse.errors import ArtifactError, InputError, printable
from graphfuse.knobs import settings
from graphfuse.llvm.host import parse_target
from graphfuse.runtime import gfx
from graphfuse.runtime.callers import Callers
from graphfuse.runtime.device import Device, on_host
from graphfuse.runtime.native import choose_cpu
from graphfuse.runtime.report import report
from graphfuse.runtime.session import Profile, Session
from graphfuse.runtime.workspace import Workspace
from graphfuse.stages import artifact_precision, graph_func
from graphfuse.targets import Target
from graphfuse.value_checks import look

if TYPE_CHECKING:
    from graphfuse.host.session import HostSession
    from graphfuse.ir.core import Func
    from graphfuse.runtime.gpu.session import GpuSession

log = logging.getLogger(__name__)

WARM_RUNS, WARM_SECONDS = 3, 0.1
"""Runs behind the first that a profile makes: one, and more while they are short."""
CHECKED = {"f32": 1e-3, "f16": 2e-2, "bf16": 1e-1}
"""How far results may be from the interpreter's under `GRAPHFUSE_CHECK`, by precision."""


class CompiledModel:
    """A compiled model: call it with inputs by name, get outputs by name. Made by `graphfuse.compile` and `load`.

    Code is loaded at the first call, so a model for another machine can be saved from here. It never changes: threads
    may share it, and it can be pickled and copied. On a GPU inputs may be there or on the host; where an input is on
    the GPU, outputs are (docs/running-on-gpu.md).
    """

    def __init__(
        self,
        executable: Executable,
        threads: int | None = None,
        device: str | Device = "",
        callers: Callers[Workspace] | None = None,
        *,
        name: str = "",
    ) -> None:
        self.executable, self.name = executable, name
        self.device = device if isinstance(device, Device) else Device.parse(device)
        self._threads, self._callers = threads, callers

    @functools.cached_property
    def session(self) -> Session | GpuSession | HostSession:
        """What runs it: `run(inputs, out=)` writes outputs into given arrays (docs/serving.md)."""
        if self.executable.host is not None:
            return self._host_session()
        if not self.device.is_gpu:
            return Session(choose_cpu(self.executable), self._threads, self._callers)
        from graphfuse.runtime.gpu.session import GpuSession

        driver = driver_of(self.device, gpu_target_of(self.executable).cpu)
        return GpuSession(self.executable, driver, self.device.index)

    def prepare(self) -> None:
        """Load code and weights, which else the first call does.

        Raises:
            ArtifactError: There is no code for this machine, or what is there is damaged.
            DeviceError: There is no such GPU, or it has too little memory.
        """
        self.session.prepare()

    @property
    def signature(self) -> Signature:
        """Inputs, outputs and the ranges of symbolic dims."""
        return self.executable.signature

    def __repr__(self) -> str:
        """Such as `<CompiledModel m.onnx for cpu:znver4: (x: f32[n, 4]) -> (y: f32[n, 4])>`."""
        takes, gives = (", ".join(map(self.signature.text, s)) for s in (self.signature.inputs, self.signature.outputs))
        targets = ", ".join(v.target for v in self.executable.variants)
        name = f" {self.name}" if self.name else ""
        return printable(f"<CompiledModel{name} for {targets}: ({takes}) -> ({gives})>")

    def __call__(self, *given: Any, **named: Any) -> dict[str, Any]:
        """Run: `model({"x": x})`, `model(x=x)` or `model(x)`, in the signature's order.

        Args:
            given: One mapping of names to arrays, or arrays in the order of `signature.inputs`.
            named: Arrays by name. All are numpy's, torch's, or anything with `__dlpack__`, of the signature's dtypes:
                nothing is converted.

        Returns:
            New arrays by the names of outputs: numpy's, on a GPU torch's or `DeviceArray` if an input was there.

        Raises:
            InputError: A name, dtype, rank or dim does not fit the signature; an index is out of range.
            ArtifactError: There is no code for this machine.
            DeviceError: The GPU is not there, is out of memory, or failed.
        """
        feed = self.feed(given, named)
        if self.executable.host is not None:  # the settings below are for its parts
            return self.session.run(feed)
        if settings.interpret:
            return self.interpret(feed)
        outputs = self._timed(feed) if settings.debug else self.session.run(feed)
        if settings.check:
            self._check(feed, outputs)
        return outputs

    def feed(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs by name of a call that gave these: what `session.run` takes. Raises InputError."""
        if not given or all(g is None for g in given):
            return dict(named)
        names = [s.name for s in self.signature.inputs]
        if len(given) == 1 and isinstance(given[0], Mapping):
            placed = dict(cast("Mapping[str, Any]", given[0]))
        elif len(given) > len(names):
            raise InputError(f"expected up to {len(names)} inputs ({', '.join(names)}), found {len(given)}")
        else:
            placed = dict(zip(names, given, strict=False))
        if twice := sorted(placed.keys() & named.keys()):
            raise InputError(f"input {twice[0]!r} is given twice")
        return {**placed, **named}

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (gfx.dumps(self.executable), self._threads, str(self.device), self.name)

    def __copy__(self) -> CompiledModel:
        """Another model of the same executable, which is never changed."""
        return CompiledModel(self.executable, self._threads, self.device, name=self.name)

    def __deepcopy__(self, _: object) -> CompiledModel:
        return self.__copy__()

    def profile(self, inputs: Mapping[str, Any]) -> Profile:
        """Run on inputs by name, each step timed, and take the least of up to three runs more.

        The first run loads code and weights. For many runs see `graphfuse.profiling`.
        """
        first, end = self.session.profile(inputs), time.perf_counter() + WARM_SECONDS
        steps = first.steps
        for _ in range(WARM_RUNS):
            again = self.session.profile(inputs).steps
            if len(again) != len(steps):  # Python runs it, and something in it is random
                break
            times = [min(s.warm_ns or t.ns, t.ns) for s, t in zip(steps, again, strict=True)]
            steps = tuple(dataclasses.replace(s, warm_ns=ns) for s, ns in zip(steps, times, strict=True))
            if time.perf_counter() > end:
                break
        return Profile(first.outputs, steps)

    def interpret(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Run the graph IR in numpy: the specification, and slow. Inputs by name, outputs in host memory by name."""
        if self.executable.host is not None:
            return self._host_session(interpreted=True).run(inputs)
        from graphfuse.interp.graph import run
        from graphfuse.runtime.binding import Binder

        binder = Binder(self.signature)
        arrays = binder.arrays(inputs)
        symbols = binder.bind([a.shape for a in arrays])
        names = (s.name for s in self.signature.outputs)
        results = list(run(self._graph, *arrays, symbols=symbols))
        if checks := self.executable.checks:
            look(checks, results.pop().tolist(), symbols)
        return dict(zip(names, results, strict=True))

    def _host_session(self, *, interpreted: bool = False) -> HostSession:
        # Python's operators import onnx, which other models need not
        from graphfuse.host.session import HostSession

        variant = self._on_gpu() if self.device.is_gpu else choose_cpu(self.executable)

        def load(part: Executable, callers: Callers[Workspace]) -> CompiledModel:
            return CompiledModel(part, self._threads, self.device, callers)

        return HostSession(variant, self._threads, load, interpreted=interpreted)

    def _on_gpu(self) -> Executable:
        """The variant for the device; interpreted, it needs none."""
        from graphfuse.runtime.gpu.context import choose_variant, context_of

        driver = driver_of(self.device, gpu_target_of(self.executable).cpu)
        return choose_variant(self.executable, context_of(driver, self.device.index).info)

    @functools.cached_property
    def _graph(self) -> Func:
        return graph_func(self.executable)

    def _timed(self, feed: Mapping[str, Any]) -> dict[str, Array]:
        profile = self.profile(feed)
        for s in profile.steps:
            us = s.ns / 1e3, s.warm_ns / 1e3
            log.warning("%10.1f us, then %.1f us  %-24s x%d  %s", *us, s.kernel, s.launches, s.label)
        return profile.outputs

    def _check(self, feed: Mapping[str, Any], outputs: Mapping[str, Array]) -> None:
        tolerance = CHECKED[artifact_precision(self.executable)]
        others = {s.name for s in self.signature.outputs if s.elem in HOST_VALUES}
        for name, expected in self.interpret({k: on_host(v) for k, v in feed.items()}).items():
            if name in others:
                continue  # texts, or a sequence: Python makes them either way
            found = np.asarray(on_host(outputs[name])).astype(np.float64)
            wanted = np.asarray(expected).astype(np.float64)
            scale = float(np.std(wanted[np.isfinite(wanted)])) if wanted.size else 0.0
            bad = ~np.isclose(found, wanted, rtol=tolerance, atol=tolerance * scale + 1e-6, equal_nan=True)
            if bad.any():
                at = tuple(int(i) for i in np.argwhere(bad)[0])
                raise AssertionError(
                    f"output {name!r} differs from the interpreter at {at}: {found[at]} and {wanted[at]}"
                )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the artifact, whole or not at all. Raises FileError."""
        gfx.save(self.executable, usage.path("path", path))

    def inspect(self, dims: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Kernels, steps, traffic (bytes) and memory (bytes) as plain data, at these values of symbolic dims.

        It is what `graphfuse inspect --json` prints. Dims that are not given are the least allowed, from 1 on.
        """
        return report(self.executable, dims)


def _unpickled(data: bytes, threads: int | None, device: str, name: str = "") -> CompiledModel:
    return CompiledModel(gfx.loads(data), threads, device, name=name)


def gpu_target_of(executable: Executable) -> Target:
    """The first GPU that it has code for."""
    found = next((v for v in executable.variants if v.is_gpu), None)
    if found is None:
        raise ArtifactError(f"there is code for {executable.target} only: compile it for a GPU, such as cuda:sm_90a")
    return parse_target(found.target)

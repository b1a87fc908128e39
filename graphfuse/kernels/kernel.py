"""A kernel as callers see it: `k[grid](x, y, n)`, compiled when it is called with something new."""

from __future__ import annotations

import functools
import math
import operator
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn, TypeAlias, cast

from graphfuse import usage
from graphfuse.artifact import Executable, KernelMeta
from graphfuse.blockopt.divisors import are_positive
from graphfuse.blockopt.grid import AXES
from graphfuse.devices import driver_of
from graphfuse.dialects.block import MOST_PROGRAMS, SCHEDULES
from graphfuse.errors import InputError, UsageError
from graphfuse.frontends.tc.kernel import LAUNCH, MOST
from graphfuse.ir.core import Attr, Func
from graphfuse.kernels.arguments import Bound, bind, in_order
from graphfuse.kernels.build import build
from graphfuse.kernels.call_ir import Seen
from graphfuse.kernels.host_arguments import HostArguments
from graphfuse.kernels.on_cpu import CpuKernel
from graphfuse.kernels.on_gpu import GpuKernel
from graphfuse.kernels.signature import Parameter, parameters
from graphfuse.kernels.specialise import Facts, asked_of, check_promises, facts, general, specialised
from graphfuse.llvm.host import host_target, parse_target
from graphfuse.runtime.device import Device
from graphfuse.runtime.gpu.context import Context, context_of
from graphfuse.symbolic import Dim
from graphfuse.targets import Target
from graphfuse.targets.backend import backend_of

Grid: TypeAlias = "int | Sequence[int] | Callable[[Macros], int | Sequence[int]]"

MOST_SIZES = 1024
"""For which it is kept what a launch's numbers say."""


class UnknownMacroError(UsageError, AttributeError, KeyError):
    """A grid asks for a macro that the kernel has none of, as an attribute or by its name."""

    __str__ = Exception.__str__


class Macros(Mapping[str, Any]):
    """The macros a kernel was compiled with, for grids that depend on them: `m.TM`, `m["TM"]`, numbers as numbers."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = {name: _number(str(value)) for name, value in values.items()}
        # found without `__getattr__`, where nothing else is called so
        self.__dict__ |= {name: value for name, value in self._values.items() if not hasattr(type(self), name)}

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            raise UnknownMacroError(f"no macro {name!r}: there are {', '.join(self._values) or 'none'}")
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # which Python asks of every object
            raise AttributeError(name)
        return self[name]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Kernel:
    """A block function to be launched, as `graphfuse.kernel` makes it: `k[grid](x, y, n)`.

    Arguments are arrays of numpy, torch, or anything with DLPack, which stay where they are and are written in place,
    lists of arrays or None for pointers to pointers, and numbers. What is known of them (types, alignment, divisors)
    is compiled in, once for each combination.

    `device` (default: where the arrays are, else the CPU) may be `emulator`. `options` are those of `LAUNCH`, as
    `num_warps=8`. With `debug` it prints, and assertions hold.
    """

    def __init__(
        self,
        func: Func,
        macros: Mapping[str, Any] | None = None,
        *,
        device: str = "",
        threads: int | None = None,
        debug: bool = False,
        **options: Any,
    ) -> None:
        launch = {LAUNCH[name]: _option(name, value) for name, value in options.items()}
        launch |= {"debug": True} if debug else {}
        self.func = replace(func, attrs={**func.attrs, **launch})
        self.macros = Macros(macros or {})
        self.parameters: tuple[Parameter, ...] = parameters(func)
        self.device = Device.parse(device) if device else None
        self._threads = threads
        self.retune: tuple[str, ...] = ()
        """Parameters whose every value is tuned for."""
        self._compiled: dict[tuple[str, Facts], CpuKernel | GpuKernel] = {}
        """By device and specialisation."""
        self._divisors: dict[Facts, tuple[Dim, ...]] = {}
        self._positive: dict[tuple[Facts, tuple[int, ...], tuple[int, ...]], bool] = {}
        self._contexts: dict[str, Context] = {}
        self._lock = threading.Lock()
        self._runs: dict[bytes, Callable[[Seen], None]] = {}
        """What launches on the host, by `HostArguments.kind`."""

    @functools.cached_property
    def host(self) -> HostArguments:
        """Reads arguments for launches on the host."""
        return HostArguments(self.name, self.parameters)

    @property
    def name(self) -> str:
        """What the source calls it."""
        return self.func.name

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(map(str, self.parameters))})>"

    def __getitem__(self, grid: Grid) -> Callable[..., None]:
        """What launches one program for each point of a grid; on a CPU it returns when all are done.

        A grid is one to three numbers, or a function that gives them for the macros: `lambda m: n // m.SIZE`.
        Launching raises InputError for arguments and grids that do not fit, DeviceError for what a GPU reports.
        """
        return lambda *args, **named: self.launch(grid, args, named)

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        """Say what is missing."""
        call = f"{self.name}[grid]({', '.join(p.name for p in self.parameters)})"
        expected = f"expected {call}, grid being how many programs run"
        raise UsageError(f"kernel {self.name!r}: called without a grid: {expected}")

    def launch(self, grid: Grid, args: Sequence[Any], named: Mapping[str, Any] | None = None) -> None:
        """Bind arguments, compile what is new about them, and start; on a CPU also finish."""
        given = grid(self.macros) if callable(grid) else grid
        if not self.launch_on_host(given, args, named):
            self.start(given, self.bind(args, named))

    def launch_on_host(self, grid: Grid, args: Sequence[Any], named: Mapping[str, Any] | None = None) -> bool:
        """`launch` if all arrays are the caller's own and on the host; whether they are."""
        seen = self.seen(grid(self.macros) if callable(grid) else grid, args, named)
        if seen is None:
            return False
        self._run(seen)(seen)
        return True

    def seen(self, grid: Any, args: Sequence[Any], named: Mapping[str, Any] | None = None) -> Seen | None:
        """What grid and arguments are, if it is a launch on the host; None if `bind` has to say what they are."""
        if self.device is not None and self.device.is_gpu:
            return None
        values = in_order(self.name, self.parameters, args, named) if named else args
        seen = self.host.read((grid,) if type(grid) is int else grid, values)
        if seen is False:
            seen = self.host.read(self.axes(grid), in_order(self.name, self.parameters, args, named))
        return seen or None  # a grid without programs may be larger than what is read

    def start(self, grid: Grid, bound: Bound) -> None:
        """Launch with arguments that were bound before."""
        axes = self.axes(grid)
        self._of_bound(bound, axes).launch(bound, axes, *self._sizes(bound.slots, axes))

    @contextmanager
    def repeated(
        self, grid: Grid, args: Sequence[Any], named: Mapping[str, Any] | None = None
    ) -> Generator[Callable[[], None]]:
        """What launches with the same arguments again and again, for timing: a GPU is not waited for."""
        axes = self.axes(grid)
        if (seen := self.seen(axes, args, named)) is not None:
            yield functools.partial(self._run(seen), seen)
            return
        bound = self.bind(args, named)
        with self._of_bound(bound, axes).repeated(bound, axes, *self._sizes(bound.slots, axes)) as run:
            yield run

    def _sizes(self, slots: Sequence[int], axes: Sequence[int]) -> tuple[dict[str, int], int]:
        """What symbols stand for, and how many programs there are."""
        pairs = zip(self.parameters, slots, strict=True)
        symbols = {p.name: slot for p, slot in pairs if not p.is_pointer} | dict(zip(AXES, axes, strict=False))
        return symbols, math.prod(axes)

    def prepare(self, grid: Grid, args: Sequence[Any], named: Mapping[str, Any] | None = None) -> KernelMeta:
        """Compile and load what such a launch needs."""
        return self._of_bound(self.bind(args, named), self.axes(grid)).meta

    def place(self, bound: Bound) -> Device:
        """Where it runs with these arguments."""
        where = self.device or Device("cpu" if bound.gpu in (None, -1) else "cuda", max(bound.gpu or 0, 0))
        if bound.gpu is not None and bound.gpu >= 0 and str(where) != f"cuda:{bound.gpu}":
            found = f"found some on cuda:{bound.gpu}"
            raise InputError(f"kernel {self.name!r}: expected arrays on {where} or on the host, {found}")
        return where

    def context(self, where: Device) -> Context:
        """A GPU, or the emulator."""
        if str(where) not in self._contexts:
            self._contexts[str(where)] = context_of(driver_of(where), where.index)
        return self._contexts[str(where)]

    def bind(self, args: Sequence[Any], named: Mapping[str, Any] | None = None) -> Bound:
        """Arguments as `start` takes them."""
        return bind(self.name, self.parameters, args, named)

    def axes(self, grid: Grid) -> tuple[int, ...]:
        """The sizes of a grid, without ones at its end."""
        given: Any = grid(self.macros) if callable(grid) else grid
        several = cast("Sequence[Any]", given) if isinstance(given, Sequence) else (given,)
        try:
            sizes = tuple(map(operator.index, several))
        except TypeError:
            raise InputError(f"kernel {self.name!r}: grid: expected one to three integers, found {given!r}") from None
        if not 1 <= len(sizes) <= len(AXES) or min(sizes) < 0 or math.prod(sizes) > MOST_PROGRAMS:
            what = f"one to three numbers that multiply to at most {MOST_PROGRAMS}"
            raise InputError(f"kernel {self.name!r}: grid: expected {what}, found {given!r}")
        while len(sizes) > 1 and sizes[-1] == 1:
            sizes = sizes[:-1]
        return sizes

    def compile(self, target: Target | str, axes: int = 1, known: Facts | None = None) -> Executable:
        """Ahead of any call: for arguments of which only what the source promises is known, grids of `axes` axes.

        With `known` (see `known_of`), for the arguments of a launch.
        """
        wanted, func = self._ahead(target, axes, known)
        return build(func, wanted)

    def known_of(self, grid: Sequence[int], named: Mapping[str, Any]) -> Facts:
        """What a launch with these arguments compiles in: alignments, divisors, which numbers are positive."""
        bound, axes = self.bind((), named), self.axes(grid)
        check_promises(self.name, self.parameters, bound)
        known = facts(self.parameters, bound.slots, len(axes))
        return replace(known, divides=self._divides(known, bound.slots, axes))

    def _ahead(self, target: Target | str, axes: int, known: Facts | None) -> tuple[Target, Func]:
        if not 1 <= usage.integer("axes", axes) <= len(AXES):
            raise UsageError(f"axes: expected 1 to {len(AXES)}, found {axes}")
        wanted = target if isinstance(target, Target) else parse_target(usage.text("target", target))
        return wanted, specialised(self.func, self.parameters, known or general(self.parameters, axes))

    def stage_text(self, stage: str, target: Target | str, axes: int = 1, known: Facts | None = None) -> str:
        """`llvm` or `asm` (for a GPU, PTX) of what `compile` makes."""
        wanted, func = self._ahead(target, axes, known)
        return backend_of(wanted).code_text([func], stage)

    @property
    def compiled(self) -> list[KernelMeta]:
        """What calls have compiled so far, with registers, shared bytes and so on of those for GPUs."""
        return [made.meta for made in self._compiled.values()]

    def _of_bound(self, bound: Bound, axes: Sequence[int]) -> CpuKernel | GpuKernel:
        check_promises(self.name, self.parameters, bound)
        known, where = facts(self.parameters, bound.slots, len(axes)), self.place(bound)
        return self._compiled_for(where, replace(known, divides=self._divides(known, bound.slots, axes)))

    def _run(self, seen: Seen) -> Callable[[Seen], None]:
        """What launches on the host with grids and arguments of this kind."""
        kind = self.host.kind(seen)
        run = self._runs.get(kind)
        if run is None:
            run = self._runs[kind] = self._new_run(seen)
        return run

    def _new_run(self, seen: Seen) -> Callable[[Seen], None]:
        read, where = self.host, self.device or Device("cpu")
        axes, slots = read.axes(seen), read.slots(seen)
        known = facts(self.parameters, slots, len(axes))
        code = (known, replace(known, divides=True))
        runner = self._on_cpu(where, code[self._divides(known, slots, axes)])
        depends = bool(self._divisors[known])
        if runner.here and self._threads == 1 and not depends:
            return runner.here

        def run(seen: Seen) -> None:
            axes, slots = read.axes(seen), read.slots(seen)
            found = self._on_cpu(where, code[self._divides(known, slots, axes)]) if depends else runner
            if found.here and (self._threads == 1 or math.prod(axes) == 1):
                found.here(seen)
            else:
                found.run((*slots, *axes), *self._sizes(slots, axes))

        return run

    def _on_cpu(self, where: Device, known: Facts) -> CpuKernel:
        runner = self._compiled_for(where, known)
        assert isinstance(runner, CpuKernel), "the host is no GPU"
        return runner

    def _compiled_for(self, where: Device, known: Facts) -> CpuKernel | GpuKernel:
        key = str(where), known
        with self._lock:
            if key not in self._compiled:
                self._compiled[key] = self._make(where, known)
            return self._compiled[key]

    def _divides(self, known: Facts, slots: Sequence[int], axes: Sequence[int]) -> bool:
        """Whether what is divided by is positive, if anything is; kept, as it takes a tenth of a millisecond."""
        with self._lock:
            if known not in self._divisors:
                self._divisors[known] = asked_of(self.func, self.parameters, known)
            if not self._divisors[known]:
                return False
            pairs = zip(self.parameters, slots, strict=True)
            key = known, tuple(axes), tuple(slot for p, slot in pairs if not p.is_pointer)
            if key not in self._positive:
                if len(self._positive) >= MOST_SIZES:
                    self._positive.clear()
                self._positive[key] = are_positive(self._divisors[known], *self._sizes(slots, axes))
            return self._positive[key]

    def _make(self, where: Device, known: Facts) -> CpuKernel | GpuKernel:
        func = specialised(self.func, self.parameters, known)
        if not where.is_gpu:
            asserts = func.attrs.get("debug") is True
            return CpuKernel(build(func, host_target()), self._threads, asserts=asserts)
        context = self.context(where)
        if context.driver.reads_lines:
            func = replace(func, attrs={**func.attrs, "lines": True})
        return GpuKernel(build(func, Target.parse(f"cuda:{context.info.best_target}")), self.parameters, context)


def _number(text: str) -> int | str:
    try:
        return int(text, 0)
    except ValueError:
        return text


def _option(name: str, value: Any) -> Attr:
    """A value of one of LAUNCH; raises UsageError for one that it has not."""
    if name == "schedule":
        if value not in SCHEDULES:
            raise UsageError(f"schedule: expected one of {', '.join(SCHEDULES)}, got {value!r}")
    elif not 1 <= value <= MOST[name] or (name == "num_warps" and value & (value - 1)):
        what = "a power of two up to" if name == "num_warps" else "at most"
        raise UsageError(f"{name}: expected {what} {MOST[name]}, got {value}")
    return value

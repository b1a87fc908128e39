"""Compares every compiled region with the float64 interpreter, on the inputs that region really gets."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphfuse import compiler
from graphfuse.artifact import (
    COPY,
    Array,
    Buffer,
    Executable,
    KernelMeta,
    Plan,
    Pointer,
    Scalar,
    Signature,
    Step,
    TensorSpec,
)
from graphfuse.dialects import graph
from graphfuse.interp import graph as interp
from graphfuse.ir.core import Block, Func, Op, Value, attr_dim, attr_ints, tensor_of
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.types import I64, Tensor
from graphfuse.knobs import Options
from graphfuse.llvm.loader import Library, load_object
from graphfuse.runtime.gpu.session import GpuSession
from graphfuse.runtime.native import aligned_bytes
from graphfuse.symbolic import Dim, evaluate
from graphfuse.targets import Target
from graphfuse.targets.backend import Stages, backend_of
from graphfuse.targets.driver import Driver
from graphfuse.targets.generated import Generated


@dataclass(frozen=True, slots=True)
class RegionCheck:
    """Errors of one result of one region against float64, relative to the exact result's standard deviation.

    `reference` is the maximum error of the same ops done one by one in the model's own precision; an element that is
    closer to those than to float64 counts by that distance.
    """

    kernel: str
    kind: str
    label: str
    result: int
    maximum: float
    rms: float
    reference: float

    @property
    def is_suspect(self) -> bool:
        """Whether the error is beyond what another order of operations explains."""
        return not self.maximum <= max(1e-4, min(16 * self.reference, 0.1))


def verify_regions(
    func: Func,
    target: Target,
    inputs: Sequence[Array],
    options: Options | None = None,
    driver: Driver | None = None,
    ordinal: int = 0,
) -> list[RegionCheck]:
    """Run every region of `func` as compiled and in float64, each on operands computed by the interpreter.

    Code for a GPU runs on the one that `driver` has as number `ordinal`.
    """
    done = compiler.stages(func, target, options or Options())
    symbols = interp.bind(done.regions, [a.shape for a in inputs], {})
    checker = _Checker(done, runner_of(done, target, driver, ordinal), symbols)
    checker.block(done.regions.body, dict(zip(done.regions.params, inputs, strict=True)))
    return checker.found


class _Checker:
    def __init__(self, done: Stages, runner: Runner, symbols: Mapping[str, int]) -> None:
        self.done = done
        self.runner = runner
        self.symbols = dict(symbols)
        self.found: list[RegionCheck] = []

    def block(self, block: Block, env: dict[Value, Array]) -> None:
        """Interpret a block; regions are checked on the way. A loop's body is checked at its first turn."""
        for op in block.ops[:-1]:
            operands = [env[v] for v in op.operands]
            if op.kind is graph.region:
                self._region(op, operands)
            if op.kind is graph.loop and evaluate(attr_dim(op, "count"), self.symbols) > 0:
                self._first_turn(op, operands, env)
            results = interp.evaluate_op(op, operands, self.symbols, enclosing=env)
            env.update(zip(op.results, results, strict=True))

    def _first_turn(self, op: Op, operands: list[Array], env: dict[Value, Array]) -> None:
        outer = dict(self.symbols)
        self.symbols[str(op.attrs["symbol"])] = 0
        self.block(op.body, env | dict(zip(op.body.params.values, operands, strict=True)))
        self.symbols = outer

    def _region(self, op: Op, operands: list[Array]) -> None:
        exact = interp.evaluate_op(op, [_widened(a) for a in operands], self.symbols, wide=True)
        plain = interp.evaluate_op(op, operands, self.symbols)
        native = self._launch(op, operands)
        for i, (want, ref, got) in enumerate(zip(exact, plain, native, strict=True)):
            kernel, kind, label = str(op.attrs["kernel"]), str(op.attrs["kind"]), op.loc.short if op.loc else ""
            reference, _ = _errors(ref, want, want)
            self.found.append(RegionCheck(kernel, kind, label, i, *_errors(got, want, ref), reference))

    def _launch(self, op: Op, operands: list[Array]) -> list[Array]:
        """Run the region's kernel on results filled with NaNs (or -1), so that an element it leaves out is seen.

        What it writes in place holds the operand.
        """
        outputs = [np.empty([evaluate(d, self.symbols) for d in t.shape], numpy_dtype(t.elem)) for t in _tensors(op)]
        for out in outputs:
            out.reshape(-1).view(np.uint8)[...] = 0xFF
        for number, out in zip(attr_ints(op, "in_place", ()), outputs, strict=False):
            out[...] = operands[number]
        self.runner(op, [np.ascontiguousarray(a) for a in operands], outputs, self.symbols)
        return outputs


Runner = Callable[[Op, Sequence[Array], Sequence[Array], Mapping[str, int]], None]
"""What runs kernels: fills the results of a region from its operands, at these values of symbols."""


def runner_of(done: Stages, target: Target, driver: Driver | None, ordinal: int) -> Runner:
    """What runs kernels on this processor, or on the GPU that `driver` has as number `ordinal`."""
    made = backend_of(target).code(done)
    if driver is not None:
        return GpuRunner(done, made, target, driver, ordinal)
    return _CpuRunner(done, load_object(made.code.object, list(done.kernels)), made.scratch)


def _tensors(op: Op) -> list[Tensor]:
    return [t for t in op.types if isinstance(t, Tensor)]


@dataclass(frozen=True, slots=True)
class _CpuRunner:
    """Calls a kernel for its whole grid."""

    done: Stages
    library: Library
    scratch: Mapping[str, Dim]

    def __call__(self, op: Op, operands: Sequence[Array], outputs: Sequence[Array], symbols: Mapping[str, int]) -> None:
        name = str(op.attrs["kernel"])
        func = self.done.kernels[name]
        slots = [a.ctypes.data for a in (*operands, *outputs)]
        slots += [symbols[v.hint] for v in func.params if v.type == I64]
        args = np.array(slots, np.int64)
        grid = evaluate(attr_dim(func, "grid"), symbols)
        room = aligned_bytes(evaluate(self.scratch[name], symbols))
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
        call(self.library.address(name))(args.ctypes.data, 0, grid, room.ctypes.data)


class GpuRunner:
    """Runs a kernel as a model of its own, with one step, at one set of shapes."""

    def __init__(self, done: Stages, made: Generated, target: Target, driver: Driver, ordinal: int) -> None:
        self._done, self._target, self._driver, self._ordinal = done, target, driver, ordinal
        self._made, self.texts, self.launches = made, made.texts, made.launches
        """Block functions with layouts, and what assemblers say, by kernel."""

    def __call__(self, op: Op, operands: Sequence[Array], outputs: Sequence[Array], symbols: Mapping[str, int]) -> None:
        """Fill the results of a region from its operands, at these values of symbols."""
        executable = self._alone(op, operands, outputs, symbols)
        feed = {f"in{i}": a for i, a in enumerate(operands)}
        # what the results held before comes in as bytes, and is copied into them by a step of its own
        feed |= {f"before{i}": a.reshape(-1).view(np.uint8) for i, a in enumerate(outputs)}
        with GpuSession(executable, self._driver, self._ordinal) as session:
            for array, found in zip(outputs, session.run(feed).values(), strict=True):
                array[...] = found

    def _alone(
        self, op: Op, operands: Sequence[Array], outputs: Sequence[Array], symbols: Mapping[str, int]
    ) -> Executable:
        name = str(op.attrs["kernel"])
        versions = self._done.versions.get(name, ())
        name = next((version for version, holds in versions if evaluate(holds, symbols)), name)
        func = self._done.kernels[name]
        elems = [tensor_of(v).elem.name for v in op.operands]
        inputs = [TensorSpec(f"in{i}", e, a.shape) for i, (e, a) in enumerate(zip(elems, operands, strict=True))]
        inputs += [TensorSpec(f"before{i}", "u8", (a.nbytes,)) for i, a in enumerate(outputs)]
        types = enumerate(_tensors(op))
        specs = [TensorSpec(f"out{i}", t.elem.name, a.shape) for (i, t), a in zip(types, outputs, strict=True)]
        n, k = len(operands), len(outputs)
        buffers = [Buffer("input", s.nbytes, i) for i, s in enumerate(inputs)]
        buffers += [Buffer("output", s.nbytes, i) for i, s in enumerate(specs)]
        steps = [
            Step("copy_bytes", (Pointer(n + i), Pointer(n + k + i), Scalar(a.nbytes)), 1) for i, a in enumerate(outputs)
        ]
        pointers = [Pointer(i) for i in (*range(n), *range(n + k, n + 2 * k))]
        scalars = [Scalar(symbols[v.hint]) for v in func.params if v.type == I64]
        label = op.loc.short if op.loc else ""
        steps.append(Step(name, (*pointers, *scalars), evaluate(attr_dim(func, "grid"), symbols), 1, label))
        meta = KernelMeta(
            name,
            "r" * n + "x" * k + "i" * len(scalars),
            scratch_bytes=evaluate(self._made.scratch[name], symbols),
            launch=self._made.launches[name],
        )
        target = str(self._target)
        return Executable(
            Signature(tuple(inputs), tuple(specs)),
            Plan(tuple(buffers), tuple(steps)),
            (meta, KernelMeta("copy_bytes", "rwi", COPY)),
            (),
            target,
            {target: self._made.code},
        )


def _widened(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" or array.dtype.name == "bfloat16" else array


ROUNDING = 2.0**-40
"""Of float64, after thousands of operations: a spread of less is none."""
ROUNDINGS = 4
"""Of the result's own element: a spread of less is what operands were rounded by."""


def _errors(got: Array, exact: Array, plain: Array) -> tuple[float, float]:
    """(maximum, RMS) distance of each element to the nearer of `exact` and `plain`, in standard deviations of `exact`.

    In its largest where all are one number up to roundings, as sums of a softmax are. Where a rounding decides (a
    bucket's edge, an overflow to infinity) the ops in the model's own precision are right.
    """
    if exact.size == 0:
        return 0.0, 0.0
    g, w, p = (a.astype(np.float64) for a in (got, exact, plain))
    finite = w[np.isfinite(w)]
    largest = float(np.abs(finite).max(initial=0.0)) or 1.0
    spread = float(np.std(finite / largest)) if finite.size else 0.0
    scale = largest * spread if spread > _least_spread(got.dtype) else largest
    error = np.minimum(_distances(g, w), _distances(g, p)) / scale
    return float(error.max()), float(np.sqrt(np.mean(error**2)))


def _least_spread(dtype: np.dtype[Any]) -> float:
    """In units of the largest element."""
    return max(ROUNDING, ROUNDINGS * float(np.spacing(np.ones((), dtype)))) if dtype.kind in "fV" else ROUNDING


def _distances(a: Array, b: Array) -> Array:
    """|a - b|, infinite where only one is NaN or where infinities differ."""
    with np.errstate(invalid="ignore"):
        distance = np.asarray(np.abs(a - b))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))

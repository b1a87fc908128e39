"""Compares every compiled region with the float64 interpreter, on the inputs that region really gets."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphfuse import compiler
from graphfuse.dialects import graph
from graphfuse.interp import graph as interp
from graphfuse.ir.core import Block, Func, Op, Value, attr_dim
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.types import I64, Tensor
from graphfuse.knobs import Options
from graphfuse.llvm.loader import Library, load_object
from graphfuse.symbolic import evaluate
from graphfuse.target import Target

Array = np.ndarray[Any, Any]


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
    func: Func, target: Target, inputs: Sequence[Array], options: Options | None = None
) -> list[RegionCheck]:
    """Run every region of `func` natively and in float64, each on operands computed by the interpreter."""
    done = compiler.stages(func, target, options or Options())
    code, scratch = compiler.generate_code(done.kernels, target)
    symbols = interp.bind(done.regions, [a.shape for a in inputs], {})
    checker = _Checker(done, load_object(code, list(done.kernels)), scratch, symbols)
    checker.block(done.regions.body, dict(zip(done.regions.params, inputs, strict=True)))
    return checker.found


class _Checker:
    def __init__(
        self, done: compiler.Stages, library: Library, scratch: Mapping[str, Any], symbols: Mapping[str, int]
    ) -> None:
        self.done = done
        self.library = library
        self.scratch = scratch
        self.symbols = dict(symbols)
        self.found: list[RegionCheck] = []

    def block(self, block: Block, env: dict[Value, Array]) -> None:
        """Interpret a block; regions are checked on the way. A loop's body is checked at its first turn."""
        for op in block.ops[:-1]:
            operands = [env[v] for v in op.operands]
            if op.kind is graph.region:
                self._region(op, operands)
            if op.kind is graph.loop:
                if evaluate(attr_dim(op, "count"), self.symbols) > 0:
                    self._first_turn(op, operands, env)
                results = interp.evaluate_op(op, operands, self.symbols, enclosing=env)
            else:
                results = interp.evaluate_op(op, operands, self.symbols)
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

    def _unwritten(self, t: Tensor) -> Array:
        """Room for a result, filled with NaNs (or -1) so that an element the kernel leaves out is seen."""
        out = np.empty([evaluate(d, self.symbols) for d in t.shape], numpy_dtype(t.elem))
        out.reshape(-1).view(np.uint8)[...] = 0xFF
        return out

    def _launch(self, op: Op, operands: list[Array]) -> list[Array]:
        name = str(op.attrs["kernel"])
        func = self.done.kernels[name]
        outputs = [self._unwritten(t) for t in op.types if isinstance(t, Tensor)]
        arrays = [np.ascontiguousarray(a) for a in operands] + outputs
        slots = [a.ctypes.data for a in arrays]
        slots += [self.symbols[v.hint] for v in func.params if v.type == I64]
        args = np.array(slots, np.int64)
        grid = evaluate(attr_dim(func, "grid"), self.symbols)
        room = np.zeros(evaluate(self.scratch[name], self.symbols) + 128, np.uint8)
        aligned = room.ctypes.data + (-room.ctypes.data) % 64
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
        call(self.library.address(name))(args.ctypes.data, 0, grid, aligned)
        return outputs


def _widened(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" or array.dtype.name == "bfloat16" else array


def _errors(got: Array, exact: Array, plain: Array) -> tuple[float, float]:
    """(maximum, RMS) distance of each element to the nearer of `exact` and `plain`, in standard deviations of `exact`.

    Where a rounding decides (a bucket's edge, an overflow to infinity) the ops in the model's own precision are right.
    """
    if exact.size == 0:
        return 0.0, 0.0
    g, w, p = (a.astype(np.float64) for a in (got, exact, plain))
    finite = w[np.isfinite(w)]
    scale = (float(np.std(finite)) or float(np.abs(finite).max()) or 1.0) if finite.size else 1.0
    error = np.minimum(_distances(g, w), _distances(g, p)) / scale
    return float(error.max()), float(np.sqrt(np.mean(error**2)))


def _distances(a: Array, b: Array) -> Array:
    """|a - b|, infinite where only one is NaN or where infinities differ."""
    with np.errstate(invalid="ignore"):
        distance = np.asarray(np.abs(a - b))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))

"""Compares every compiled region with the float64 interpreter, on the inputs that region really gets."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphfuse import compiler
from graphfuse.dialects import graph
from graphfuse.interp import graph as interp
from graphfuse.ir.core import Block, Func, Op, Value
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

    `reference` is the maximum error of the same ops done one by one in the model's own precision.
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
        return not self.maximum <= max(1e-4, 16 * self.reference)


def verify_regions(func: Func, target: Target, inputs: Sequence[Array], options: Options | None = None) -> list[RegionCheck]:
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
                inner = dict(env)
                inner.update(zip(op.body.params.values, operands, strict=True))
                outer = dict(self.symbols)
                self.symbols[str(op.attrs["symbol"])] = 0
                self.block(op.body, inner)
                self.symbols = outer
                results = interp.evaluate_op(op, operands, self.symbols, enclosing=env)
            else:
                results = interp.evaluate_op(op, operands, self.symbols)
            env.update(zip(op.results, results, strict=True))

    def _region(self, op: Op, operands: list[Array]) -> None:
        exact = interp.evaluate_op(op, [_widened(a) for a in operands], self.symbols, wide=True)
        plain = interp.evaluate_op(op, operands, self.symbols)
        native = self._launch(op, operands)
        for i, (want, ref, got) in enumerate(zip(exact, plain, native, strict=True)):
            maximum, rms = _errors(got, want)
            self.found.append(
                RegionCheck(
                    str(op.attrs["kernel"]), str(op.attrs["kind"]), op.loc.short if op.loc else "", i, maximum, rms, _errors(ref, want)[0]
                )
            )

    def _launch(self, op: Op, operands: list[Array]) -> list[Array]:
        name = str(op.attrs["kernel"])
        func = self.done.kernels[name]
        outputs = [
            np.zeros([evaluate(d, self.symbols) for d in t.shape], numpy_dtype(t.elem)) for t in op.types if isinstance(t, Tensor)
        ]
        arrays = [np.ascontiguousarray(a) for a in operands] + outputs
        slots = [a.ctypes.data for a in arrays]
        slots += [self.symbols[v.hint] for v in func.params if v.type == I64]
        args = np.array(slots, np.int64)
        grid = evaluate(func.attrs["grid"], self.symbols)  # type: ignore[arg-type]  # a dim
        room = np.zeros(evaluate(self.scratch[name], self.symbols) + 128, np.uint8)
        aligned = room.ctypes.data + (-room.ctypes.data) % 64
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
        call(self.library.address(name))(args.ctypes.data, 0, grid, aligned)
        return outputs


def _widened(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" or array.dtype.name == "bfloat16" else array


def _errors(got: Array, want: Array) -> tuple[float, float]:
    """(maximum, RMS) error relative to the standard deviation of `want`; infinite where non-finite values differ."""
    if want.size == 0:
        return 0.0, 0.0
    g, w = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(w)
    if not np.array_equal(np.isnan(g), np.isnan(w)) or not np.array_equal(g[~finite & ~np.isnan(w)], w[~finite & ~np.isnan(w)]):
        return math.inf, math.inf
    if not finite.any():
        return 0.0, 0.0
    scale = float(np.std(w[finite])) or float(np.abs(w[finite]).max()) or 1.0
    error = np.abs(g[finite] - w[finite]) / scale
    return float(error.max()), float(np.sqrt(np.mean(error**2)))

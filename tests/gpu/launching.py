"""Block functions on the emulator, beside the block interpreter."""

from __future__ import annotations

import numpy as np

from graphfuse.gpu import lower
from graphfuse.gpu.emulator import Buffer, Emulator
from graphfuse.gpu.pipeline import compile_functions
from graphfuse.interp.block import launch
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.parser import parse
from graphfuse.ir.types import Scalar
from graphfuse.symbolic import evaluate
from graphfuse.target import Target

SM_80, SM_90A = Target.parse("cuda:sm_80"), Target.parse("cuda:sm_90a")


def compiled(text, target=SM_80):
    """PTX and how to launch it."""
    lowered = compile_functions([parse(text)], target)
    return lower.emit_ptx(lowered), lowered.kernels[0]


def emulate(ptx, kernel, args, *, seed=0, symbols=None):
    """Run on the emulator with checks; `args` are arrays, or Buffers for results. Returns the report."""
    symbols = symbols or {}
    scratch = [0] if kernel.scratch_bytes == 0 else [Buffer(np.zeros(1 << 16, np.uint8), initialised=False)]
    grid = evaluate(kernel.grid, symbols)
    extra = list(symbols.values())
    return Emulator(ptx, seed=seed).launch(
        kernel.name, (grid,), (kernel.threads,), [*args, *extra, *scratch], shared_bytes=kernel.shared_bytes
    )


def check(text, inputs, outputs, *, target=SM_80, seed=0, symbols=None, equal=np.testing.assert_array_equal):
    """What the emulator computes is what the interpreter does; `outputs` are the shapes and elements of results."""
    wanted = [np.zeros(shape, numpy_dtype(Scalar(elem))) for shape, elem in outputs]
    launch(parse(text), [*inputs, *wanted], symbols or {})
    ptx, kernel = compiled(text, target)
    got = [np.zeros_like(w) for w in wanted]
    report = emulate(ptx, kernel, [*inputs, *(Buffer(g, initialised=False) for g in got)], seed=seed, symbols=symbols)
    for g, w in zip(got, wanted, strict=True):
        equal(g, w)
    return report


def numbers(rng, shape, elem):
    """Random elements of a type: of moderate size, with a fair share of small integers."""
    dtype = numpy_dtype(Scalar(elem))
    if elem == "bool":
        return rng.random(shape) < 0.5
    if Scalar(elem).is_integer:
        bits = Scalar(elem).bits
        low, high = (-(1 << bits - 1), 1 << bits - 1) if Scalar(elem).is_signed else (0, 1 << bits)
        return rng.integers(low, high, shape, dtype=np.int64 if bits < 64 or low else np.uint64).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)

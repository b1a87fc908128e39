"""Block functions on the emulator, beside the block interpreter."""

from __future__ import annotations

import numpy as np

from graphfuse.gpu import lower
from graphfuse.gpu.emulator import Buffer, Emulator, Im2colMap, TensorMap
from graphfuse.gpu.pipeline import compile_functions
from graphfuse.interp.block import launch
from graphfuse.ir.core import attr_ints
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.parser import parse
from graphfuse.ir.types import Scalar
from graphfuse.symbolic import evaluate
from graphfuse.targets import Target

SM_80, SM_90A = Target.parse("cuda:sm_80"), Target.parse("cuda:sm_90a")


def compiled(text, target=SM_80):
    """PTX and how to launch it."""
    lowered = compile_functions([parse(text)], target)
    return lower.emit_ptx(lowered), lowered.kernels[0]


def emulate(ptx, kernel, args, *, seed=0, symbols=None, blocks=3):
    """Run on the emulator with checks; `args` are arrays, or Buffers for results. Returns the report.

    A kernel whose blocks share out the programs gets `blocks` of them.
    """
    symbols = symbols or {}
    grid = evaluate(kernel.grid, symbols) * kernel.split
    if kernel.persistent:
        grid = min(grid, max(1, blocks // kernel.cluster) * kernel.cluster)
    nbytes = evaluate(kernel.scratch_bytes, symbols) * grid
    scratch = Buffer(np.zeros(nbytes, np.uint8), initialised=False) if nbytes else 0
    flags = -(-4 * kernel.flags * grid // 256) * 256
    if flags:
        scratch = Buffer(np.full(flags + nbytes, 255, np.uint8), name="scratch", offset=flags)
        scratch.array[:flags] = 0
    maps = [_tensor_map(spec, args[spec.param], symbols) for spec in kernel.tensor_maps]
    report = Emulator(ptx, seed=seed).launch(
        kernel.name,
        (grid,),
        (kernel.threads,),
        [*args, *symbols.values(), scratch, *maps],
        shared_bytes=kernel.shared_bytes,
        cluster=() if kernel.cluster == 1 else (kernel.cluster,),
    )
    assert not flags or not scratch.array[:flags].any(), "flags are left set"
    return report


def _tensor_map(spec, argument, symbols):
    is_result = isinstance(argument, Buffer)
    array = argument.array if is_result else argument
    dims = tuple(evaluate(d, symbols) for d in spec.dims)
    strides = tuple(evaluate(s, symbols) * array.itemsize for s in spec.strides)
    start = evaluate(spec.offset, symbols) * array.itemsize
    sizes = (array, spec.box, spec.swizzle, dims, strides)
    if spec.im2col:
        return Im2colMap(*sizes, initialised=not is_result, offset=start, how=spec.im2col)
    return TensorMap(*sizes, initialised=not is_result, offset=start)


def results(arrays):
    """Arrays as a kernel's results: nothing may be read before it was written."""
    return [Buffer(a, initialised=False) for a in arrays]


def outputs_of(region, inputs, like):
    """Arrays for what a region computes, and as a launch takes them: what is written in place holds the operand."""
    got = [np.full(a.shape, 99).astype(a.dtype) for a in like]
    written = attr_ints(region, "in_place", ()) if region else ()
    for number, out in zip(written, got, strict=False):
        out[...] = inputs[number]
    return got, [*map(Buffer, got[: len(written)]), *results(got[len(written) :])]


def check(text, inputs, outputs, *, target=SM_80, seed=0, symbols=None, equal=np.testing.assert_array_equal):
    """What the emulator computes is what the interpreter does; `outputs` are the shapes and elements of results."""
    wanted = [np.zeros(shape, numpy_dtype(Scalar(elem))) for shape, elem in outputs]
    launch(parse(text), [*inputs, *wanted], symbols or {})
    ptx, kernel = compiled(text, target)
    got = [np.zeros_like(w) for w in wanted]
    report = emulate(ptx, kernel, [*inputs, *results(got)], seed=seed, symbols=symbols)
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

"""Hand-written block functions on the emulator, beside the interpreter: grids, scalars, memory read and written."""

from __future__ import annotations

import numpy as np

from graphfuse.gpu.emulator import Emulator
from graphfuse.gpu.emulator.tensormap import Buffer
from graphfuse.interp.block import launch
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.parser import parse
from graphfuse.ir.types import Scalar
from graphfuse.ir.verifier import verify
from graphfuse.symbolic import evaluate
from tests.gpu.launching import SM_80, compiled


def scalar_argument(value, elem):
    """A scalar as the kernel's parameter holds it."""
    return np.asarray(value).astype(numpy_dtype(Scalar(elem)))[()]


def same(got, want):
    """Equal numbers; numpy does not know the NaNs of narrow floats."""
    wide = (lambda x: x) if got.dtype.kind in "biu" else (lambda x: x.astype(np.float64))
    np.testing.assert_array_equal(wide(got), wide(want))


def emulate(text, arrays, scalars=None, *, grid=None, target=SM_80, seed=0):
    """Run a kernel; arrays are changed in place. Returns the report and the PTX."""
    scalars = scalars or {}
    ptx, kernel = compiled(text, target)
    sizes = tuple(evaluate(n, scalars) for n in kernel.axes) if grid is None else tuple(grid)
    pointers, args = iter(arrays), []
    for name, type_ in zip(kernel.params, kernel.types, strict=False):
        args.append(next(pointers) if type_.startswith("ptr") else scalar_argument(scalars[name], type_))
    nbytes = evaluate(kernel.scratch_bytes, scalars) * int(np.prod(sizes))
    args.append(Buffer(np.zeros(nbytes, np.uint8), initialised=False) if nbytes else 0)
    report = Emulator(ptx, seed=seed).launch(
        kernel.name, sizes, (kernel.threads,), args, shared_bytes=kernel.shared_bytes
    )
    return report, ptx


def check(text, arrays, scalars=None, *, grid=None, target=SM_80, seed=0, equal=same):
    """After a run on the emulator memory is as after one in the interpreter. Returns the PTX."""
    func = parse(text)
    verify(func)
    want, got = [a.copy() for a in arrays], [a.copy() for a in arrays]
    launch(func, want, scalars or {}, grid=grid)
    _, ptx = emulate(text, got, scalars, grid=grid, target=target, seed=seed)
    for g, w in zip(got, want, strict=True):
        equal(g, w)
    return ptx

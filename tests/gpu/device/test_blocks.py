"""Block functions written by hand on a GPU: the tests of the emulator once more, on code for both of their targets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphfuse.interp.block import grid_of
from graphfuse.ir.parser import parse
from graphfuse.ir.types import BOOL, Scalar
from graphfuse.kernels.build import build
from graphfuse.kernels.kernel import Kernel
from graphfuse.kernels.on_gpu import GpuKernel
from graphfuse.kernels.specialise import facts, specialised
from graphfuse.runtime.device import Device
from tests.gpu import programs, test_atomics, test_combining, test_programs
from tests.gpu.launching import SM_80, compiled

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]


def launched(device, text, arrays, scalars, grid, target):
    """Run a function as `Kernel` does, but with code for a target, on arrays of the host."""
    func = parse(text)
    sizes = grid or grid_of(func, scalars)
    func = replace(func, attrs={name: value for name, value in func.attrs.items() if name != "grid"})
    pointers, args = iter(arrays), []
    for v in func.params:
        value = scalars[v.hint] if isinstance(v.type, Scalar) else next(pointers)
        args.append(bool(value) if v.type == BOOL else value)
    kernel = Kernel(func, device=device)
    context, axes, bound = kernel.context(Device.parse(device)), kernel.axes(sizes), kernel.bind(args)
    if reason := context.info.why_not(target.cpu):
        pytest.skip(reason)
    known = facts(kernel.parameters, bound.slots, len(axes))
    executable = build(specialised(kernel.func, kernel.parameters, known), target)
    GpuKernel(executable, kernel.parameters, context).launch(bound, axes, *kernel._sizes(bound.slots, axes))


@pytest.fixture(autouse=True)
def _on_the_device(device, monkeypatch):
    """`programs.check` compares the interpreter with it."""

    def emulate(text, arrays, scalars=None, *, grid=None, target=SM_80, seed=0):
        launched(device, text, arrays, scalars or {}, grid, target)
        return None, compiled(text, target)[0]

    monkeypatch.setattr(programs, "emulate", emulate)


for module in (test_atomics, test_combining, test_programs):
    tests = {name: f for name, f in vars(module).items() if name.startswith("test_") and "check" in f.__code__.co_names}
    assert tests.keys().isdisjoint(globals())
    globals().update(tests)


def test_two_thousand_blocks_share_a_lock(device):
    blocks = 2000 if device == "cuda" else 8
    x = np.random.default_rng(0).integers(-9, 9, 128 * blocks).astype(np.float32)
    text = test_atomics.LOCK.replace("grid = 4, ", "")
    total, lock = np.zeros(128, np.float32), np.zeros(1, np.int32)
    for target in (SM_80, test_atomics.SM_90A):
        total[:] = 0
        launched(device, text, [x, total, lock], {}, (blocks,), target)
        np.testing.assert_array_equal(total, x.reshape(blocks, 128).sum(0))
        assert not lock.any()

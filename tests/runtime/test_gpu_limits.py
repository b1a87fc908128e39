"""What does not fit a GPU, and arrays that are not what a kernel takes: errors by their message, or a slower way.

Drivers, architectures, streams and failing launches are in `test_gpu_runtime.py`.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from graphfuse.errors import DeviceError, InputError, TargetError
from graphfuse.gpu.assembler import assemble
from graphfuse.gpu.code import gpu_code
from graphfuse.gpu.emulator.driver import EmulatedDriver
from graphfuse.ir.parser import parse
from graphfuse.runtime.cuda.bindings import BindingsDriver
from graphfuse.runtime.gpu.session import GpuSession
from tests.gpu.launching import SM_80, SM_90A
from tests.gpu.test_pipeline_loads import matmul
from tests.runtime.fake_cuda import CUresult, FakeCuda
from tests.runtime.gpu_sample import executable
from tests.runtime.sample import WIDTH, expected, inputs
from tests.runtime.test_gpu_runtime import Foreign, on_device

TURNED = """
func @turn(%x: ptr<f32>, %out: ptr<f32>) {grid = 1, warps = 1} {
  %zero = block.const() {elem = i64, value = 0} : i64
  %t = block.load_view(%x, %zero) {shape = [256, 256], strides = [1, 256]} : tile<256x256xf32>
  block.store_view(%out, %zero, %t) {strides = [256, 1]}
  return()
}
"""


def assert_right(session, feed, **given):
    for name, array in session.run(feed | given).items():
        np.testing.assert_allclose(np.asarray(array), expected(feed)[name], rtol=1e-5, atol=1e-5)


@pytest.mark.some(1)
@pytest.mark.parametrize(("target", "room"), [(SM_80, 166912), (SM_90A, 232448)], ids=str)
def test_a_tile_that_exceeds_shared_memory(target, room):
    words = f"kernel 'turn': expected at most {room} bytes of shared memory on {target.cpu}, found 262144: its tiles"
    with pytest.raises(TargetError, match=words):
        gpu_code([parse(TURNED)], target)


def test_steps_that_exceed_shared_memory_are_fewer():
    made = gpu_code([parse(matmul((128, 128, 128), (512, 512, 512), stages=6))], SM_80)
    (launch,) = made.launches.values()
    assert 64 << 10 < launch.shared_bytes <= 166912


def test_a_tile_that_exceeds_the_registers_spills():
    """Slower, and said so."""
    (launch,) = gpu_code([parse(matmul((256, 256, 32), (512, 512, 64)))], SM_80).launches.values()
    if assemble(".version 7.0\n.target sm_80\n.address_size 64\n", "sm_80") is None:
        pytest.skip("no assembler")
    assert launch.registers == 255
    assert launch.spill_bytes > 0


def test_too_little_memory_for_the_weights():
    small = FakeCuda(memory_bytes=64)
    with pytest.raises(DeviceError, match=r"weights: \d+ bytes do not fit into the memory of cuda:0 .* are free\)"):
        GpuSession(executable(), BindingsDriver(small)).run(inputs(1))
    assert small.driver.allocated == 0


def test_too_little_memory_for_inputs():
    feed = inputs(64)
    small = FakeCuda(memory_bytes=2048)
    session = GpuSession(executable(), BindingsDriver(small))
    with pytest.raises(DeviceError, match=r"\d+ bytes do not fit into the memory of cuda:0"):
        session.run(feed)


@pytest.mark.parametrize("make", [EmulatedDriver, lambda: BindingsDriver(FakeCuda())], ids=["emulator", "bindings"])
def test_arrays_of_another_type_rank_or_shape(make):
    driver = make()
    session, feed = GpuSession(executable(), driver), inputs(3)
    x = feed["x"]
    for wrong, words in (
        (x.astype(np.float64), "input 'x': expected float32, found float64"),
        (x.astype(ml_dtypes.bfloat16), "input 'x': expected float32, found bfloat16"),
        (x[None], r"input 'x': expected (rank|2 dims|shape).*"),
        (np.zeros((3, WIDTH + 1), np.float32), rf"input 'x': .*{WIDTH}.*{WIDTH + 1}"),
        (x[:2], "expected|n "),
    ):
        for given in (wrong, on_device(driver, wrong)):
            with pytest.raises(InputError, match=words):
                session.run({**feed, "x": given})
    assert_right(session, feed)


@pytest.mark.parametrize("make", [EmulatedDriver, lambda: BindingsDriver(FakeCuda())], ids=["emulator", "bindings"])
def test_views_of_device_memory_are_copied(make):
    """Not aligned, transposed, with gaps: right all the same."""
    driver = make()
    session, feed = GpuSession(executable(), driver), inputs(3)
    x = feed["x"]
    wide = np.zeros((3, WIDTH + 3), np.float32)
    wide[:, 1 : WIDTH + 1] = x
    shifted = Foreign(on_device(driver, wide), x.shape, (WIDTH + 3, 1), 4)
    turned = Foreign(on_device(driver, np.ascontiguousarray(x.T)), x.shape, (1, 3))
    for given in (shifted, turned):
        assert_right(session, feed, x=given)


def test_a_launch_with_too_many_registers():
    fake = FakeCuda()
    session = GpuSession(executable(), BindingsDriver(fake))
    fake.fail["cuLaunchKernelEx"] = [CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES]
    with pytest.raises(DeviceError, match=r"kernel 'scale_row' \(node 'x \* w'\): CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"):
        session.run(inputs(3))
    assert_right(session, inputs(3))

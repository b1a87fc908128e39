"""Runs on bare addresses of a GPU: the caller owns all memory."""

import numpy as np
import pytest

from graphfuse.errors import DeviceError
from graphfuse.gpu.emulator.driver import EmulatedDriver
from graphfuse.runtime.cuda.bindings import BindingsDriver
from graphfuse.runtime.gpu.direct import GpuDirect
from graphfuse.runtime.gpu.launches import Launches
from tests.runtime.fake_cuda import FakeCuda
from tests.runtime.gpu_sample import FAULTY, executable
from tests.runtime.sample import expected, inputs


@pytest.fixture(params=["emulator", "bindings"])
def driver(request):
    return EmulatedDriver() if request.param == "emulator" else BindingsDriver(FakeCuda())


def run(direct, driver, n, *, pieces=False):
    """Outputs at a size, with memory that is given back afterwards."""
    feed, wanted = inputs(n), expected(inputs(n))
    given = [np.ascontiguousarray(feed[s.name]) for s in direct.executable.signature.inputs]
    outputs = [np.zeros_like(wanted[s.name]) for s in direct.executable.signature.outputs]
    launches = direct.bind((n,))
    with direct.context.current():
        addresses = [driver.alloc(a.nbytes) for a in (*given, *outputs)]
        arena = driver.alloc(max(launches.bound.arena.peak, 1))
        for address, array in zip(addresses, given, strict=False):
            driver.copy_in(address, array.ctypes.data, array.nbytes, 0)
    if pieces:
        made = [lambda a=a: a for a in addresses[len(given) :]]
        made = direct.run_in_pieces(launches, addresses[: len(given)], made, int, len(made), arena, 0)
        assert made == addresses[len(given) :]
    else:
        direct.run(launches, addresses, arena, 0)
    with direct.context.current():
        for address, array in zip(addresses[len(given) :], outputs, strict=True):
            driver.copy_out(array.ctypes.data, address, array.nbytes, 0)
        driver.synchronize(0)
        for address in (*addresses, arena):
            driver.free(address)
    return outputs


def made(model, driver):
    def zeroed(nbytes):
        address = driver.alloc(nbytes)
        zeros = np.zeros(nbytes, np.uint8)
        driver.copy_in(address, zeros.ctypes.data, nbytes, 0)
        return address

    return GpuDirect(model, driver, 0, zeroed)


@pytest.mark.parametrize("pieces", [False, True])
def test_numbers_at_every_size(driver, pieces):
    direct = made(executable(), driver)
    for n in (1, 5, 2, 5, 1):
        for found, wanted in zip(run(direct, driver, n, pieces=pieces), expected(inputs(n)).values(), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_streams_have_scratch_memory_of_their_own(monkeypatch):
    """Their launches may run at the same time; while one is captured, nothing can be allocated for it."""
    direct = made(executable(), EmulatedDriver())
    launches = direct.bind((3,))
    assert launches.scratch_bytes
    used = []
    monkeypatch.setattr(Launches, "point", lambda self, driver, io, arena, scratch: used.append(scratch))
    monkeypatch.setattr(Launches, "run_all", lambda self, driver, stream: None)
    for stream in (7, 8, 7, 8):
        direct.run(launches, [], 0, stream)
    assert used[:2] == used[2:] and used[0] != used[1]
    direct.run(launches, [], 0, 9, captures=True)
    assert used[-1] in used[:2]
    large = direct.bind((5,))
    direct.run(large, [], 0, 7)
    direct.run(large, [], 0, 9, captures=True)
    assert used[-1] == used[-2] not in used[:4], "the largest there is"


def test_the_kernel_that_fails_is_named():
    for pieces in (False, True):
        with pytest.raises(
            DeviceError, match=r"cuda:0 \(emulated sm_90a\): kernel 'scale_row' \(node 'x \* w'\): .*out of"
        ):
            run(made(executable(kernels=FAULTY), driver := EmulatedDriver()), driver, 3, pieces=pieces)

"""The GPU runtime on a device that is emulated: through the emulator's driver, and through a double of NVIDIA's.

Every test that only needs numbers runs on both; those on what the driver is asked for use the double.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import logging
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from graphfuse import devices
from graphfuse.artifact import (
    Buffer,
    Code,
    Executable,
    Im2col,
    KernelMeta,
    Launch,
    Plan,
    Pointer,
    Signature,
    Step,
    TensorMap,
    TensorSpec,
    combined,
)
from graphfuse.cli import program
from graphfuse.compiled_model import CompiledModel
from graphfuse.errors import ArtifactError, DeviceError, InputError
from graphfuse.gpu.emulator.driver import EmulatedDriver
from graphfuse.knobs import scope
from graphfuse.runtime import gfx
from graphfuse.runtime.cuda import bindings, early
from graphfuse.runtime.cuda.bindings import BindingsDriver
from graphfuse.runtime.device import Device
from graphfuse.runtime.gpu import dlpack, graphs, transfer
from graphfuse.runtime.gpu.arrays import DeviceArray
from graphfuse.runtime.gpu.context import choose_variant, context_of
from graphfuse.runtime.gpu.session import GpuSession
from graphfuse.targets.nvidia import GpuInfo
from tests.gpu.emulator.test_asynchronous import tensor_kernel
from tests.gpu.emulator.test_im2col import kernel as im2col_kernel
from tests.runtime import sample
from tests.runtime.fake_cuda import CUresult, FakeCuda
from tests.runtime.gpu_sample import FAULTY, KERNELS, executable, ptx
from tests.runtime.sample import WIDTH, expected, inputs


@pytest.fixture
def cuda():
    """The double, and its driver as `cuda.driver`."""
    fake = FakeCuda()
    return SimpleNamespace(fake=fake, driver=BindingsDriver(fake), calls=fake.calls)


@pytest.fixture(params=["emulator", "bindings"])
def driver(request):
    return EmulatedDriver() if request.param == "emulator" else BindingsDriver(FakeCuda())


def assert_right(session, n, seed=0):
    feed = inputs(n, seed)
    found, wanted = session.run(feed), expected(feed)
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        assert type(found[name]) is np.ndarray
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5)


# numbers


def test_numbers_at_every_shape(driver):
    with GpuSession(executable(), driver) as session:
        for n in (1, 5, 2, 5, 5, 5, 3, 1, 1):
            assert_right(session, n, seed=n)


def test_runs_from_a_file(tmp_path, driver):
    gfx.save(executable(), tmp_path / "m.gfx")
    assert_right(GpuSession(gfx.load(tmp_path / "m.gfx"), driver), 4)


def test_on_a_device_by_name():
    model = CompiledModel(combined([sample.executable(), executable()]), device="emulator")
    feed = inputs(3)
    np.testing.assert_array_equal(model(feed)["y"], CompiledModel(model.executable)(feed)["y"])
    assert isinstance(model.session, GpuSession)


def test_given_outputs_are_written(driver):
    session, feed = GpuSession(executable(), driver), inputs(3)
    y = np.full((3, WIDTH), 7, np.float32)
    strided = np.zeros((6, 2 * WIDTH), np.float32)[:, ::2]
    found = session.run(feed, {"y": y, "total": strided})
    assert found["y"] is y
    assert found["total"] is strided
    np.testing.assert_allclose(y, expected(feed)["y"], rtol=1e-6)
    np.testing.assert_allclose(strided, expected(feed)["total"], rtol=1e-5, atol=1e-5)
    with pytest.raises(InputError, match="no output 'z': expected one of 'y', 'total'"):
        session.run(feed, {"z": y})
    with pytest.raises(
        InputError, match=r"output 'y': expected a writable float32 array of shape \(3, 5\), found float64"
    ):
        session.run(feed, {"y": y.astype(np.float64)})


def test_profile_has_every_step(driver):
    profile = GpuSession(executable(), driver).profile(inputs(3))
    assert [(s.kernel, s.launches) for s in profile.steps] == [
        ("scale_row", 1),
        ("add", 1),
        ("copy_bytes", 1),
        ("add", 5),
    ]
    assert all(s.ns > 0 for s in profile.steps)
    np.testing.assert_allclose(profile.outputs["y"], expected(inputs(3))["y"], rtol=1e-6)


def test_bad_inputs_leave_the_session_usable(driver):
    session = GpuSession(executable(), driver)
    with pytest.raises(InputError, match="missing input 'past'"):
        session.run({"x": inputs(3)["x"]})
    with pytest.raises(InputError, match="input 'x': expected float32, found float64"):
        session.run({**inputs(3), "x": inputs(3)["x"].astype(np.float64)})
    with pytest.raises(InputError, match="expected n in 1..64, found 65"):
        session.run(inputs(65))
    assert_right(session, 3)


def test_threads_take_turns(driver):
    session = GpuSession(executable(), driver)
    failed = []

    def work(seed):
        try:
            for n in (2, 3, 2):
                assert_right(session, n, seed)
        except BaseException as e:  # noqa: BLE001
            failed.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


@pytest.mark.parametrize("staged", [0, 90, 130])
def test_arrays_too_large_for_staging(driver, monkeypatch, staged):
    """Of `x` (60 bytes) and `past` (120), none, one, and both one at a time."""
    monkeypatch.setattr(transfer, "STAGED", staged)
    session = GpuSession(executable(), driver)
    for seed in range(3):
        assert_right(session, 3, seed)
    feed = inputs(3)
    found = session.run({"x": on_device(driver, feed["x"]), "past": feed["past"]})
    np.testing.assert_allclose(found["total"].numpy(), expected(feed)["total"], rtol=1e-5, atol=1e-5)


def test_non_contiguous_host_inputs(driver):
    session, feed = GpuSession(executable(), driver), inputs(4)
    found = session.run({"x": np.asfortranarray(feed["x"]), "past": np.repeat(feed["past"], 2, axis=0)[::2]})
    np.testing.assert_allclose(found["y"], expected(feed)["y"], rtol=1e-6)


# memory, modules, graphs


def test_weights_are_uploaded_and_code_is_loaded_once(cuda):
    with GpuSession(executable(), cuda.driver) as session:
        assert_right(session, 3)
        assert cuda.calls["cuMemcpyHtoDAsync"] == 1 + 1  # all weights in one copy, all inputs in another
        for _ in range(3):
            assert_right(session, 3)
        assert cuda.calls["cuMemcpyHtoDAsync"] == 1 + 4
        assert cuda.calls["cuMemcpyDtoHAsync"] == 4
    other = GpuSession(executable(), cuda.driver)
    assert_right(other, 2)
    assert cuda.calls["cuModuleLoadDataEx"] == 1


def test_the_second_run_is_recorded_and_replayed(cuda):
    session = GpuSession(executable(), cuda.driver)
    assert_right(session, 3)
    assert cuda.calls["cuGraphLaunch"] == 0
    plain = cuda.calls["cuLaunchKernelEx"]
    for seed in range(1, 5):
        assert_right(session, 3, seed)
    assert cuda.calls["cuGraphLaunch"] == 4
    assert cuda.calls["cuGraphInstantiate"] == 1
    assert cuda.calls["cuLaunchKernelEx"] == 2 * plain


def test_without_graphs(cuda):
    session = GpuSession(executable(), cuda.driver, graphs=False)
    for seed in range(3):
        assert_right(session, 3, seed)
    assert cuda.calls["cuGraphLaunch"] == 0


@pytest.mark.parametrize("call", ["cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiate"])
def test_launches_go_on_where_graphs_fail(cuda, caplog, call):
    session = GpuSession(executable(), cuda.driver)
    cuda.fake.fail[call] = [CUresult.CUDA_ERROR_NOT_SUPPORTED]
    if call == "cuStreamEndCapture":  # the double would record for ever
        cuda.fake.driver.begin_capture = lambda stream: None
    with caplog.at_level(logging.WARNING):
        for seed in range(4):
            assert_right(session, 3, seed)
    assert "launches are not recorded as a graph: CUDA_ERROR_NOT_SUPPORTED" in caplog.text
    assert len(caplog.records) == 1
    assert cuda.calls["cuGraphLaunch"] == 0


def test_many_addresses_share_few_graphs(cuda, monkeypatch):
    monkeypatch.setattr(graphs, "MAX_GRAPHS", 3)
    session = GpuSession(executable(), cuda.driver)
    kept = []
    for seed in range(6):
        feed = {k: on_device(cuda.driver, v) for k, v in inputs(3, seed).items()}
        for _ in range(3):
            found = session.run(feed)
            address = found["y"].address
            np.testing.assert_allclose(found["y"].numpy(), expected(inputs(3, seed))["y"], rtol=1e-6)
            del found
            gc.collect()
        kept.append((feed, address))
    assert cuda.calls["cuGraphInstantiate"] <= 3
    assert cuda.calls["cuGraphExecUpdate"] >= 3
    assert cuda.calls["cuGraphLaunch"] > 0


def test_memory_is_given_back(cuda):
    context = context_of(cuda.driver, 0)
    session = GpuSession(executable(), cuda.driver)
    for n in (3, 20, 3):
        assert_right(session, n)
    assert cuda.fake.driver.allocated > 0
    session.close()
    context.pool.trim()
    assert cuda.fake.driver.allocated == 0
    assert_right(session, 4)  # and taken again
    del session
    gc.collect()
    context.pool.trim()
    assert cuda.fake.driver.allocated == 0


def test_too_little_memory(cuda):
    small = FakeCuda(memory_bytes=8 << 10)
    session = GpuSession(executable(), BindingsDriver(small))
    message = r"cuda:0 \(emulated sm_90a\)"
    with pytest.raises(DeviceError, match=rf"intermediate tensors: \d+ bytes do not fit into the memory of {message}"):
        session.run(inputs(64))
    assert_right(session, 2)  # smaller shapes still fit


def test_idle_memory_is_freed_when_there_is_no_more(cuda):
    small = FakeCuda(memory_bytes=16 << 10)
    driver = BindingsDriver(small)
    context = context_of(driver, 0)
    with context.current():
        block = context.pool.take(9 << 10, "a block", 0)
        context.pool.give(block)
        assert context.pool.take(9 << 10, "the same block", 0) is block
        context.pool.give(block)
        context.pool.take(12 << 10, "a larger one", 0)
    assert small.driver.allocated == 12 << 10


# arrays on the device


def on_device(driver, array, ordinal=0):
    context = context_of(driver, ordinal)
    with context.current():
        block = context.pool.take(array.nbytes, "a test's array", 0)
        dense = np.ascontiguousarray(array)
        driver.copy_in(block.address, dense.ctypes.data, dense.nbytes, 0)
    name = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64", np.dtype(ml_dtypes.bfloat16): "bf16"}
    return DeviceArray(context, block, name[array.dtype], array.shape)


class Foreign:
    """An array of another library on the GPU, of which only the protocol is known: a window into device memory."""

    def __init__(self, array, shape=None, strides=None, offset=0):
        self.array, self.shape, self.strides, self.offset = array, shape or array.shape, strides, offset
        self.streams = []

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, *, stream=None):
        self.streams.append(stream)
        capsule = dlpack.export(
            self, self.array.address, self.__dlpack_device__(), self.array._elem, self.shape
        )  # as the exporter has no strides of its own, they are put into the structure
        managed = next(reversed(dlpack._exports.values()))
        if self.strides:
            self.numbers = (ctypes.c_int64 * len(self.strides))(*self.strides)
            managed.managed.tensor.strides = self.numbers
        managed.managed.tensor.byte_offset = self.offset
        return capsule


def test_arrays_of_other_libraries(driver):
    session, feed = GpuSession(executable(), driver), inputs(3)
    foreign = {k: Foreign(on_device(driver, v)) for k, v in feed.items()}
    for _ in range(3):
        found = session.run(foreign)
        assert isinstance(found["y"], DeviceArray)
        np.testing.assert_allclose(found["y"].numpy(), expected(feed)["y"], rtol=1e-6)
        np.testing.assert_allclose(np.asarray(found["total"]), expected(feed)["total"], rtol=1e-5, atol=1e-5)
    assert all(s > 2 for s in foreign["x"].streams), "made ready for the session's own stream"
    assert not dlpack._exports, "given back when the run was over"


def test_results_go_in_again_without_a_copy(cuda):
    session, feed = GpuSession(executable(), cuda.driver), inputs(3)
    first = session.run({k: on_device(cuda.driver, v) for k, v in feed.items()})
    copies = cuda.calls["cuMemcpyHtoDAsync"], cuda.calls["cuMemcpyDtoHAsync"]
    second = session.run({"x": first["y"], "past": first["total"]})
    assert (cuda.calls["cuMemcpyHtoDAsync"], cuda.calls["cuMemcpyDtoHAsync"]) == copies
    wanted = expected({"x": expected(feed)["y"], "past": expected(feed)["total"]})
    np.testing.assert_allclose(second["y"].numpy(), wanted["y"], rtol=1e-6)


def test_host_and_device_inputs_together(driver):
    session, feed = GpuSession(executable(), driver), inputs(3)
    found = session.run({"x": on_device(driver, feed["x"]), "past": feed["past"]})
    np.testing.assert_allclose(found["total"].numpy(), expected(feed)["total"], rtol=1e-5, atol=1e-5)


def test_strided_and_misaligned_device_arrays_are_copied(driver):
    session, feed = GpuSession(executable(), driver), inputs(3)
    transposed = on_device(driver, np.ascontiguousarray(feed["x"].T))
    wide = np.zeros((6, WIDTH + 2), np.float32)
    wide[:, 1:-1] = feed["past"]
    window = Foreign(on_device(driver, wide), (6, WIDTH), (WIDTH + 2, 1), offset=4)
    found = session.run({"x": Foreign(transposed, (3, WIDTH), (1, 3)), "past": window})
    np.testing.assert_allclose(found["y"].numpy(), expected(feed)["y"], rtol=1e-6)
    np.testing.assert_allclose(found["total"].numpy(), expected(feed)["total"], rtol=1e-5, atol=1e-5)
    flat = np.concatenate([[0], feed["x"].reshape(-1)]).astype(np.float32)
    shifted = Foreign(on_device(driver, flat), (3, WIDTH), offset=4)
    found = session.run({"x": shifted, "past": on_device(driver, feed["past"])})
    np.testing.assert_allclose(found["y"].numpy(), expected(feed)["y"], rtol=1e-6)


def test_reversed_device_array(driver):
    session, feed = GpuSession(executable(), driver), inputs(3)
    rows = Foreign(on_device(driver, feed["x"][::-1]), (3, WIDTH), (-WIDTH, 1), offset=2 * WIDTH * 4)
    found = session.run({"x": rows, "past": on_device(driver, feed["past"])})
    np.testing.assert_allclose(found["y"].numpy(), expected(feed)["y"], rtol=1e-6)


def test_wrong_device_arrays(cuda):
    two = FakeCuda(devices=2)
    driver = BindingsDriver(two)
    session, feed = GpuSession(executable(), driver, 1), inputs(3)
    assert_right(session, 3)
    with pytest.raises(InputError, match="input 'x': expected an array on cuda:1 or on the host, found one on cuda:0"):
        session.run({**feed, "x": on_device(driver, feed["x"])})
    with pytest.raises(InputError, match="input 'x': expected an array on cuda:1 or on the host, found one on cuda:0"):
        session.run({**feed, "x": Foreign(on_device(driver, feed["x"]))})
    with pytest.raises(InputError, match="input 'x': expected f32, found f64"):
        session.run({**feed, "x": Foreign(on_device(driver, feed["x"].astype(np.float64), 1))})
    with pytest.raises(InputError, match="input 'x': expected float32, found bfloat16"):
        session.run({**feed, "x": on_device(driver, feed["x"].astype(ml_dtypes.bfloat16), 1)})


class OnHost:
    """What numpy sees of an export: host memory."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return (dlpack.KIND_CPU, 0)

    def __dlpack__(self, **_):
        return dlpack.export(self, self.array.ctypes.data, (dlpack.KIND_CPU, 0), "f32", self.array.shape)


def test_exports_are_what_numpy_reads():
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    read = np.from_dlpack(OnHost(array))
    np.testing.assert_array_equal(read, array)
    assert np.shares_memory(read, array)
    assert len(dlpack._exports) == 1
    del read
    gc.collect()
    assert not dlpack._exports
    OnHost(array).__dlpack__()  # a capsule that nobody takes
    gc.collect()
    assert not dlpack._exports


def test_imports_are_what_numpy_exports():
    array = np.arange(24, dtype=np.int16).reshape(4, 6)[:, 1::2]
    got = dlpack.Imported(array, None)
    assert (got.shape, got.strides, got.elem) == ((4, 3), (6, 2), "i16")
    assert got.address == array.ctypes.data
    assert got.device == (dlpack.KIND_CPU, 0)
    assert not dlpack.is_contiguous(got.shape, got.strides)
    before = sys.getrefcount(array)
    got.release()
    assert sys.getrefcount(array) == before - 1
    assert dlpack.is_contiguous((1, 3, 1), (99, 1, 77))
    assert dlpack.is_contiguous((0, 3), (1, 1))


# torch, as far as the runtime knows it


class Tensor:
    """A torch tensor on a GPU, over the emulated device's memory."""

    made: list[Tensor]

    def __init__(self, torch, array, contiguous=True, ordinal=0):
        self.torch, self.held = torch, on_device(torch.driver, array, ordinal)
        self.shape, self.dtype = array.shape, sys.intern(str(array.dtype))  # types are objects of their own
        self.device = SimpleNamespace(type="cuda", index=ordinal)
        self.contiguous_now = contiguous
        self.dense = self.held

    def detach(self):
        return self

    def get_device(self):
        return self.device.index

    def data_ptr(self):
        return self.held.address

    def is_contiguous(self):
        return self.contiguous_now

    def stride(self):
        return [s // self.element_size() for s in np.zeros(self.shape, self.dtype).strides]

    def element_size(self):
        return np.dtype(self.dtype).itemsize

    def is_neg(self):
        return False

    def contiguous(self):
        # what was not contiguous is `array` transposed in memory
        return self if self.contiguous_now else Tensor(self.torch, self.held.numpy().T)

    def copy_(self, other):
        self.copied = other.held.numpy()

    def numpy(self):
        return self.held.numpy()


class FakeTorch(SimpleNamespace):
    Tensor = Tensor
    float32 = "float32"

    def __init__(self, driver, stream):
        super().__init__(driver=driver, asked=[])
        self.stream = stream
        self.cuda = SimpleNamespace(current_stream=lambda ordinal: SimpleNamespace(cuda_stream=self.stream))
        self._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda ordinal: self.stream)

    def device(self, kind, index):
        return f"{kind}:{index}"

    def empty(self, shape, dtype, device):
        self.asked.append((shape, dtype, device))
        return Tensor(self, np.zeros(shape, dtype))

    def empty_like(self, tensor):
        return Tensor(self, np.zeros(tensor.shape, tensor.dtype))


@pytest.fixture(params=[0, 77])
def torch(request, cuda, monkeypatch):
    fake = FakeTorch(cuda.driver, request.param)
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


def test_torch_tensors_in_and_out(cuda, torch):
    session, feed = GpuSession(executable(), cuda.driver), inputs(3)
    tensors = {k: Tensor(torch, v) for k, v in feed.items()}
    synchronised = []
    for _ in range(3):
        found = session.run(tensors)
        synchronised.append(cuda.calls["cuStreamSynchronize"])
        assert isinstance(found["y"], Tensor)
        np.testing.assert_allclose(found["y"].numpy(), expected(feed)["y"], rtol=1e-6)
    assert torch.asked[0] == ((3, WIDTH), "float32", "cuda:0")
    # nothing waits but the copies to the host that this test makes (one a run)
    assert synchronised[2] - synchronised[1] == 1


def test_a_replay_needs_nothing_but_addresses(cuda, torch, monkeypatch):
    """What is not as plain as a replay goes the whole way, with its results and its errors."""
    session, feed = GpuSession(executable(), cuda.driver), inputs(3)
    tensors = {k: Tensor(torch, v) for k, v in feed.items()}
    out = {k: Tensor(torch, np.zeros_like(v)) for k, v in expected(feed).items()}
    for _ in range(3):
        session.run(tensors, out)
    whole = []
    go = session._run
    monkeypatch.setattr(session, "_run", lambda *a, **k: (whole.append(a), go(*a, **k))[1])

    def right(feed, tensors, out=None, *, quick):
        whole.clear()
        found = session.run(tensors, out)
        assert list(found) == list(expected(feed))
        for name, array in expected(feed).items():
            np.testing.assert_allclose(found[name].numpy(), array, rtol=1e-5, atol=1e-5)
            assert out is None or found[name] is out[name]
        assert bool(whole) is not quick

    for seed in range(3):  # other values at the same addresses
        other = inputs(3, seed)
        for k, v in other.items():
            ctypes.memmove(tensors[k].data_ptr(), v.ctypes.data, v.nbytes)
        for o in out.values():
            ctypes.memset(o.data_ptr(), 255, o.held.nbytes)
        launches = cuda.calls["cuGraphLaunch"]
        right(other, tensors, out, quick=True)
        assert cuda.calls["cuGraphLaunch"] == launches + 1
    assert not cuda.fake.current, "the context is as it was"
    right(other, tensors, quick=False)  # into new memory
    large = inputs(20)
    right(large, {k: Tensor(torch, v) for k, v in large.items()}, quick=False)
    torch.stream += 256
    right(other, tensors, out, quick=False)
    with pytest.raises(InputError, match="no output 'z'"):
        session.run(tensors, {**out, "z": out["y"]})
    with pytest.raises(InputError, match="missing input 'past'"):
        session.run({"x": tensors["x"]})
    session.close()
    right(other, tensors, out, quick=False)


def test_a_replay_that_fails(cuda, torch):
    session, feed = GpuSession(executable(), cuda.driver), inputs(3)
    tensors = {k: Tensor(torch, v) for k, v in feed.items()}
    out = {k: Tensor(torch, np.zeros_like(v)) for k, v in expected(feed).items()}
    for _ in range(3):
        session.run(tensors, out)
    cuda.fake.fail["cuGraphLaunch"] = [CUresult.CUDA_ERROR_ILLEGAL_ADDRESS]
    with pytest.raises(DeviceError, match="the graph of a run: CUDA_ERROR_ILLEGAL_ADDRESS"):
        session.run(tensors, out)
    with pytest.raises(DeviceError, match="start a new process"):
        session.run(tensors, out)


def test_torch_tensors_to_write_to(cuda, torch):
    session, feed = GpuSession(executable(), cuda.driver), inputs(3)
    tensors = {k: Tensor(torch, v) for k, v in feed.items()}
    y = Tensor(torch, np.zeros((3, WIDTH), np.float32))
    total = Tensor(torch, np.zeros((6, WIDTH), np.float32), contiguous=False)
    found = session.run(tensors, {"y": y})
    assert found["y"] is y
    np.testing.assert_allclose(y.numpy(), expected(feed)["y"], rtol=1e-6)
    assert session.run(tensors, {"total": total})["total"] is total
    np.testing.assert_allclose(total.copied, expected(feed)["total"], rtol=1e-5, atol=1e-5)
    wrong = Tensor(torch, np.zeros((3, WIDTH), np.float64))
    with pytest.raises(InputError, match="output 'y': expected a writable float32 array"):
        session.run(tensors, {"y": wrong})


def test_an_output_over_an_input(cuda, torch):
    """Row 3 of the sum is not yet read when row 2 is written."""
    session, feed = GpuSession(executable(), cuda.driver), inputs(64)
    room = Tensor(torch, np.zeros(2 * feed["past"].size, np.float32))
    past, total = Tensor(torch, feed["past"]), Tensor(torch, np.zeros_like(feed["past"]))
    past.data_ptr, total.data_ptr = room.data_ptr, lambda: room.data_ptr() + 64
    ctypes.memmove(room.data_ptr(), feed["past"].ctypes.data, feed["past"].nbytes)
    assert session.run({"x": Tensor(torch, feed["x"]), "past": past}, {"total": total})["total"] is total
    np.testing.assert_allclose(total.copied, expected(feed)["total"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("shift", "is_apart"), [(0, False), (56, False), (60, True), (-4, False), (-120, True)])
def test_two_outputs_in_one_memory(cuda, torch, shift, is_apart):
    session, feed = GpuSession(executable(), cuda.driver), inputs(3)
    room = Tensor(torch, np.zeros(1000, np.float32))
    y, total = (Tensor(torch, np.zeros_like(a)) for a in expected(feed).values())
    y.data_ptr, total.data_ptr = (lambda: room.data_ptr() + 400), (lambda: room.data_ptr() + 400 + shift)
    tensors, given = {k: Tensor(torch, v) for k, v in feed.items()}, {"y": y, "total": total}
    for _ in range(3):
        if is_apart:
            assert session.run(tensors, given) == given
            continue
        with pytest.raises(InputError, match="outputs 'y' and 'total': expected arrays that lie apart, found some"):
            session.run(tensors, given)


def test_outputs_that_overlap_themselves(cuda, torch):
    session, feed = GpuSession(executable(), cuda.driver), inputs(3)
    y = Tensor(torch, np.zeros((3, WIDTH), np.float32), contiguous=False)
    for strides in ((0, 1), (0, 0), (4, 1)):
        y.stride = lambda strides=strides: strides
        with pytest.raises(InputError, match="output 'y': expected an array whose elements lie apart"):
            session.run({k: Tensor(torch, v) for k, v in feed.items()}, {"y": y})
    room = np.zeros(100, np.float32)
    with pytest.raises(InputError, match="output 'y': expected an array whose elements lie apart"):
        session.run(feed, {"y": np.lib.stride_tricks.as_strided(room, (3, WIDTH), (4, 4))})
    with pytest.raises(InputError, match="outputs 'y' and 'total': expected arrays that lie apart"):
        session.run(feed, {"y": room[:15].reshape(3, WIDTH), "total": room[14:44].reshape(6, WIDTH)})
    with pytest.raises(InputError, match="out: expected arrays by the names of outputs, found list"):
        session.run(feed, [room])


def test_torch_tensors_elsewhere_or_of_another_type(cuda, torch):
    session, feed = GpuSession(executable(), cuda.driver), inputs(3)
    x = Tensor(torch, feed["x"])
    x.device.index = 1
    with pytest.raises(InputError, match="expected an array on cuda:0 or on the host, found one on cuda:1"):
        session.run({**feed, "x": x})
    with pytest.raises(InputError, match="input 'x': expected float32, found float64"):
        session.run({**feed, "x": Tensor(torch, feed["x"].astype(np.float64))})
    transposed = Tensor(torch, np.ascontiguousarray(feed["x"].T), contiguous=False)
    found = session.run({**feed, "x": transposed})
    np.testing.assert_allclose(found["y"].numpy(), expected(feed)["y"], rtol=1e-6)


# what goes wrong


@pytest.mark.parametrize("native", [True, False])
def test_launch_failure_names_kernel_and_node(cuda, native):
    session = GpuSession(executable(), cuda.driver)
    session.prepare()
    if not native:  # a driver that has no such function
        cuda.fake.fail["cuGetProcAddress"] = [CUresult.CUDA_ERROR_NOT_FOUND]
    call = "cuLaunchKernelEx" if native else "cuLaunchKernel"
    cuda.fake.fail[call] = [CUresult.CUDA_SUCCESS, CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES]
    with pytest.raises(DeviceError) as e:
        session.run(inputs(3))
    where = "cuda:0 (emulated sm_90a)"
    assert e.value.message == f"{where}: kernel 'add' (node '+ x'): CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
    assert_right(session, 3)  # that one is not sticky


def test_one_native_call_gives_all_launches(cuda):
    """Kernels, copies and their attributes as they were packed, whatever the addresses."""
    session = GpuSession(executable(), cuda.driver, graphs=False)
    for seed in range(3):
        assert_right(session, 3, seed)
    assert cuda.calls["cuLaunchKernelEx"] == 3 * 7
    assert cuda.calls["cuMemcpyDtoDAsync"] == 3
    assert cuda.calls["cuLaunchKernel"] == 0
    assert {k.attributes for k in cuda.fake.launched} == {()}


def test_failures_that_last(cuda):
    session, other = GpuSession(executable(), cuda.driver), GpuSession(executable(), cuda.driver)
    assert_right(session, 3)
    cuda.fake.fail["cuStreamSynchronize"] = [CUresult.CUDA_SUCCESS, CUresult.CUDA_ERROR_ILLEGAL_ADDRESS]
    with pytest.raises(DeviceError, match="a kernel failed, one of 'add', 'scale_row' .*CUDA_ERROR_ILLEGAL_ADDRESS"):
        session.run(inputs(3))
    for any_of_them in (session, other):
        with pytest.raises(
            DeviceError, match=r"failed earlier in this process \(CUDA_ERROR_ILLEGAL_ADDRESS\): start a"
        ):
            any_of_them.run(inputs(3))
    session.close()  # without a word


def test_profile_names_the_kernel_that_failed(cuda):
    session = GpuSession(executable(), cuda.driver)
    assert_right(session, 3)
    cuda.fake.fail["cuStreamSynchronize"] = [*[CUresult.CUDA_SUCCESS] * 2, CUresult.CUDA_ERROR_ILLEGAL_ADDRESS]
    with pytest.raises(DeviceError, match=r"kernel 'add' \(node '\+ x'\): CUDA_ERROR_ILLEGAL_ADDRESS"):
        session.profile(inputs(3))


def test_emulator_names_kernel_and_node():
    with pytest.raises(
        DeviceError, match=r"cuda:0 \(emulated sm_90a\): kernel 'scale_row' \(node 'x \* w'\): .*out of"
    ):
        GpuSession(executable(kernels=FAULTY), EmulatedDriver()).run(inputs(3))


def test_no_driver(monkeypatch):
    class NoLibrary(FakeCuda):
        def cuInit(self, flags):  # noqa: N802
            raise RuntimeError("Failed to dlopen libcuda.so.1")

    with pytest.raises(DeviceError, match="there is no NVIDIA driver: Failed to dlopen"):
        BindingsDriver(NoLibrary())
    nothing = FakeCuda()
    nothing.fail["cuInit"] = [CUresult.CUDA_ERROR_NO_DEVICE]
    with pytest.raises(DeviceError, match=r"there is no GPU \(CUDA_ERROR_NO_DEVICE\)"):
        BindingsDriver(nothing)
    with pytest.raises(DeviceError, match="there is no GPU"):
        GpuSession(executable(), BindingsDriver(FakeCuda(devices=0)))
    with pytest.raises(DeviceError, match="no device cuda:3: expected at most cuda:0"):
        GpuSession(executable(), BindingsDriver(FakeCuda()), 3)

    def absent(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", absent)
    bindings._opened.cache_clear()
    with pytest.raises(DeviceError, match="a GPU needs the package cuda-bindings .*: pip install 'graphfuse"):
        bindings.open_driver()


@pytest.fixture
def _anew():
    """As in a process that has begun no context."""
    early.begin_context.cache_clear()
    yield
    early.begin_context.cache_clear()


@pytest.mark.usefixtures("_anew")
@pytest.mark.parametrize(
    ("result", "asked"), [(0, ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain"]), (100, ["cuInit"])]
)
def test_a_context_is_begun_ahead(monkeypatch, result, asked):
    """Of the GPU that is asked for; what fails there is said by who opens the driver."""
    calls, done = list[tuple[str, tuple[object, ...]]](), threading.Event()

    class Library:
        def __init__(self, name):
            assert name == "libcuda.so.1"

        def __getattr__(self, name):
            return lambda *args: calls.append((name, args)) or (done.set() if name == asked[-1] else 0) or result

    monkeypatch.setattr(early.ctypes, "CDLL", Library)
    program._begin_device(["run", "m.gfx", "--device", "cuda:3", "--json"])
    devices.begin(Device.parse("cuda:3"))  # which is that one
    assert done.wait(60)
    assert [name for name, _ in calls] == asked
    assert all(args[1] == 3 for name, args in calls if name == "cuDeviceGet")


def test_begun_ahead_without_a_driver(monkeypatch):
    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(early.ctypes, "CDLL", missing)
    early._retain(0)
    devices.begin(Device.parse("cpu"))
    devices.begin(Device.parse("emulator"))


@pytest.mark.parametrize(
    ("line", "begun"),
    [
        ("run m.onnx --device cuda", [0]),
        ("generate --device=cuda:2 m.gfx", [2]),
        ("run m.onnx --device cpu", []),
        ("run m.onnx --device cudas", []),
        ("run m.onnx --prompt --device", []),
        ("compile cuda --device emulator", []),
        ("run m.onnx --device native", []),
    ],
)
def test_which_lines_begin_a_context(monkeypatch, line, begun):
    found: list[int] = []
    monkeypatch.setattr(early, "begin_context", found.append)
    program._begin_device(line.split())
    assert found == begun


def test_parts_of_a_device_array(cuda):
    session = GpuSession(executable(), cuda.driver)
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    array = session.resident("f32", values)
    np.testing.assert_array_equal(array[1, 2], values[1, 2])
    np.testing.assert_array_equal(array[1], values[1])
    np.testing.assert_array_equal(array[0, 1, 3], values[0, 1, 3])
    assert len(list(array)) == 2
    for index in (2, (0, 3), (-1, 0), (0, 0, 0, 0), "x", (0, 1.5)):
        with pytest.raises(IndexError, match=r"expected an index in \(2, 3, 4\), found"):
            array[index]


def test_driver_too_old(cuda):
    old = FakeCuda(version=11040)
    old.fail["cuModuleLoadDataEx"] = [CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION]
    with pytest.raises(DeviceError, match=r"the driver \(CUDA 11\.4\) is too old for PTX 7\.0: install a newer one"):
        GpuSession(executable(), BindingsDriver(old)).run(inputs(3))


def test_memory_facts():
    session, n = GpuSession(executable(), EmulatedDriver()), 7
    found = session.memory({"x": (n, WIDTH), "past": (2 * n, WIDTH)})
    assert found.scratch == n * WIDTH * 4  # of every row's program
    assert found.weights == 2 * WIDTH * 4
    assert found.arena == -(-n * WIDTH * 4 // 64) * 64


@pytest.mark.parametrize("result", ["NO_BINARY_FOR_GPU", "UNSUPPORTED_PTX_VERSION"])
def test_cubin_first_then_ptx(cuda, result):
    cuda.fake.fail["cuModuleLoadDataEx"] = [CUresult[f"CUDA_ERROR_{result}"]]
    assert_right(GpuSession(executable(cubin=b"not for this one"), cuda.driver), 3)
    assert cuda.calls["cuModuleLoadDataEx"] == 2
    cuda.fake.fail["cuModuleLoadDataEx"] = [CUresult.CUDA_ERROR_INVALID_IMAGE] * 2
    with pytest.raises(ArtifactError, match=r"code for sm_80 on cuda:0 .*: it is damaged \(CUDA_ERROR_INVALID_IMAGE\)"):
        GpuSession(executable(cubin=b"another"), cuda.driver).run(inputs(3))


def test_kernels_of_several_images(cuda, tmp_path):
    """The double takes PTX for a cubin. What a file says of images is compared with what is there."""
    at = KERNELS.index("define ptx_kernel void @scale_row")
    declared = KERNELS[: KERNELS.index("define")]
    images = [ptx(kernels=text).encode() for text in (KERNELS[:at], declared + KERNELS[at:])]
    assert [b"@add" in i or b"entry add" in i for i in images] == [True, False]
    source = executable(cubin=b"".join(images))

    def saved(*cubins):
        code = {target: replace(c, cubins=cubins) for target, c in source.code.items()}
        gfx.save(replace(source, code=code), tmp_path / "m.gfx")
        return gfx.load(tmp_path / "m.gfx")

    assert_right(GpuSession(saved(*map(len, images)), cuda.driver), 3)
    assert cuda.calls["cuModuleLoadDataEx"] == 2
    with pytest.raises(ArtifactError, match=rf"cubins: expected lengths that make {sum(map(len, images))} bytes"):
        saved(1, 2)


def test_an_image_of_two_codes_is_loaded_once(cuda):
    """Another image of each has a kernel of the same name."""
    at = KERNELS.index("define ptx_kernel void @scale_row")
    declared = KERNELS[: KERNELS.index("define")]
    common, one = (ptx(kernels=text).encode() for text in (KERNELS[:at], declared + KERNELS[at:]))
    context = context_of(cuda.driver, 0)

    def functions(*images):
        made = executable(cubin=b"".join(images))
        code = {target: replace(c, cubins=tuple(map(len, images))) for target, c in made.code.items()}
        return context.functions(replace(made, code=code))

    with context.current():
        found = [functions(common, other) for other in (one, one + b"// another\n", one)]
    assert cuda.calls["cuModuleLoadDataEx"] == 3
    assert found[0] == found[2]
    assert found[0]["scale_row"] != found[1]["scale_row"]


@pytest.mark.parametrize("is_old", [False, True])
def test_code_is_on_the_device_before_the_first_run(cuda, monkeypatch, is_old):
    def missing(fake, function):
        raise RuntimeError('Function "cuFuncLoad" not found')

    if is_old:
        monkeypatch.setattr(FakeCuda, "cuFuncLoad", missing)
    session = GpuSession(executable(), cuda.driver)
    session.prepare()
    assert cuda.fake.loaded == (set() if is_old else {"add", "scale_row"})
    assert cuda.calls["cuGetProcAddress"] > 0, "of what launches are made by"
    assert_right(session, 3)


def test_kernel_that_is_not_there(cuda):
    cuda.fake.fail["cuModuleGetFunction"] = [CUresult.CUDA_ERROR_NOT_FOUND]
    with pytest.raises(ArtifactError, match="kernel 'add' cannot be loaded: CUDA_ERROR_NOT_FOUND"):
        GpuSession(executable(), cuda.driver).run(inputs(3))


def gpu(major, minor):
    return GpuInfo("a GPU", major, minor, 1 << 30, 99 << 10, 4)


@pytest.mark.parametrize(
    ("have", "device", "found"),
    [
        (("sm_80", "sm_90a"), gpu(9, 0), "cuda:sm_90a"),
        (("sm_90a", "sm_80"), gpu(8, 6), "cuda:sm_80"),
        (("sm_80", "sm_86"), gpu(8, 9), "cuda:sm_86"),
        (("sm_80",), gpu(12, 0), "cuda:sm_80"),
        (("sm_80", "sm_90"), gpu(9, 0), "cuda:sm_90"),
        (("sm_90a",), gpu(10, 0), "code for cuda:sm_90a: expected sm_90a, found sm_100 (a GPU); rebuild it"),
        (("sm_90",), gpu(8, 0), "code for cuda:sm_90: expected sm_90 or newer, found sm_80 (a GPU); rebuild it"),
        ((), gpu(9, 0), "the artifact has code for cpu:host only; rebuild it with 'graphfuse compile --recompile "),
    ],
)
def test_choice_of_code(have, device, found):
    parts = [executable(a) for a in have] + [sample.executable()]
    if found.startswith("cuda:"):
        assert choose_variant(combined(parts), device).target == found
    else:
        with pytest.raises(ArtifactError) as e:
            choose_variant(combined(parts), device)
        assert e.value.message.startswith(found)
    assert (device.best_target in e.value.message) if not found.startswith("cuda:") else True


def test_shared_memory_beyond_the_machine(cuda):
    source = executable()
    kernels = tuple(
        replace(k, launch=replace(k.launch, shared_bytes=240 << 10)) if k.launch else k for k in source.kernels
    )
    with pytest.raises(DeviceError, match=r"kernel 'add' needs 245760 bytes of shared memory, a block of cuda:0"):
        GpuSession(replace(source, kernels=kernels), cuda.driver).run(inputs(3))


def test_a_forked_child_may_not_use_it(cuda, monkeypatch):
    session = GpuSession(executable(), cuda.driver)
    assert_right(session, 3)
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(DeviceError, match="cannot be used in a forked process"):
        session.run(inputs(3))


def test_contexts_are_left_as_they_were(cuda):
    cuda.fake.current.append(99)
    session = GpuSession(executable(), cuda.driver)
    assert_right(session, 3)
    with pytest.raises(InputError):
        session.run({})
    assert cuda.fake.current == [99]


# tensor maps, clusters, kernels that overlap


def tma_executable(**launch):
    """`y[4:36, 8:16] = x[4:36, 8:16]` by TMA; `raw` is the box as it lay in shared memory."""
    text = tensor_kernel(2, 1024, (8, 4), (8, 4), dump=1024).replace(
        "(.param .align 64 .b8 src[128], .param .align 64 .b8 dst[128], .param .u64 raw)",
        "(.param .u64 x, .param .u64 y, .param .u64 raw, .param .u64 n, .param .u64 scratch, "
        ".param .align 64 .b8 src[128], .param .align 64 .b8 dst[128])",
    )
    rows = sample.sym("n")
    maps = tuple(TensorMap(p, "f32", 0, (24, rows), (24,), (8, 32), 0) for p in (0, 1))
    target = "cuda:sm_90a"
    buffers = (Buffer("input", rows * 96, 0), Buffer("output", rows * 96, 0), Buffer("output", 1024, 1))
    step = Step("k", (Pointer(0), Pointer(1), Pointer(2), sample.Scalar(rows)), 1)
    return Executable(
        Signature(
            (TensorSpec("x", "f32", (rows, 24)),),
            (TensorSpec("y", "f32", (rows, 24)), TensorSpec("raw", "u8", (1024,))),
            (("n", 36, 64),),
        ),
        Plan(buffers, (step, step)),
        (KernelMeta("k", "rxwi", launch=Launch(32, symbols=("n",), tensor_maps=maps, **launch)),),
        (),
        target,
        {target: Code("sm_90a", "cuda", (), b"", text)},
        ir={},
    )


def test_tensor_maps(tmp_path, driver):
    gfx.save(tma_executable(), tmp_path / "m.gfx")
    session = GpuSession(gfx.load(tmp_path / "m.gfx"), driver)
    for n in (40, 36, 40, 40, 40):
        x = np.random.default_rng(n).standard_normal((n, 24)).astype(np.float32)
        found = session.run({"x": x})
        np.testing.assert_array_equal(found["y"][4:36, 8:16], x[4:36, 8:16])
        np.testing.assert_array_equal(found["raw"].view(np.float32).reshape(32, 8), x[4:36, 8:16])


def im2col_executable():
    """24 positions of a 3x3 filter's tap, from the second image's first on: `raw` is [positions, channels]."""
    text = im2col_kernel(4, 24 * 32, (0, -1, -1, 1), (2, 0)).replace(
        "(.param .align 64 .b8 src[128], .param .align 64 .b8 dst[128], .param .u64 raw)",
        "(.param .u64 x, .param .u64 raw, .param .u64 n, .param .u64 scratch, "
        ".param .align 64 .b8 src[128], .param .align 64 .b8 dst[128])",
    )
    n = sample.sym("n")
    maps = (
        TensorMap(0, "f16", 0, (16, 7, 5, n), (16, 112, 560), (16, 24), 0, Im2col((-1, -1), (-1, -1), (1, 1))),
        TensorMap(1, "f16", 0, (16, 24, 1, 1), (16, 384, 384), (16, 24, 1, 1), 0),
    )
    step = Step("k", (Pointer(0), Pointer(1), sample.Scalar(n)), 1)
    target = "cuda:sm_90a"
    return Executable(
        Signature((TensorSpec("x", "f16", (n, 5, 7, 16)),), (TensorSpec("raw", "f16", (24, 16)),), (("n", 2, 8),)),
        Plan((Buffer("input", n * 1120, 0), Buffer("output", 768, 0)), (step,)),
        (KernelMeta("k", "rwi", launch=Launch(32, symbols=("n",), tensor_maps=maps)),),
        (),
        target,
        {target: Code("sm_90a", "cuda", (), b"", text)},
        ir={},
    )


def test_im2col_maps(tmp_path, cuda):
    gfx.save(im2col_executable(), tmp_path / "m.gfx")
    session = GpuSession(gfx.load(tmp_path / "m.gfx"), cuda.driver)
    for n in (2, 3):
        x = np.random.default_rng(n).standard_normal((n, 5, 7, 16)).astype(np.float16)
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        want = padded[1, 0:5, 2:9].reshape(35, 16)[:24]
        np.testing.assert_array_equal(session.run({"x": x})["raw"], want)
    assert cuda.calls["cuTensorMapEncodeIm2col"] > 0


def test_tensor_maps_follow_their_tensors(cuda):
    session = GpuSession(tma_executable(), cuda.driver)
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal((40, 24)).astype(np.float32)
        held = on_device(cuda.driver, x)
        found = session.run({"x": held})
        np.testing.assert_array_equal(found["y"].numpy()[4:36, 8:16], x[4:36, 8:16])
        encoded = cuda.calls["cuTensorMapEncodeTiled"]
        session.run({"x": held}, {"y": np.empty((40, 24), np.float32)})
        cuda.calls["cuTensorMapEncodeTiled"] = 0
        session.run({"x": held}, {"y": np.empty((40, 24), np.float32)})
        assert cuda.calls["cuTensorMapEncodeTiled"] == 0, "the same addresses again"
        assert encoded > 0
        cuda.calls["cuTensorMapEncodeTiled"] = 0
        assert held is not None


def test_layers_share_tensor_maps(cuda):
    """Two launches of a kernel on the same tensors."""
    made = tma_executable()
    twice = replace(made, plan=replace(made.plan, steps=made.plan.steps * 2))
    x = np.random.default_rng(0).standard_normal((40, 24)).astype(np.float32)
    found = GpuSession(twice, cuda.driver).run({"x": x})
    np.testing.assert_array_equal(found["y"][4:36, 8:16], x[4:36, 8:16])
    assert cuda.calls["cuTensorMapEncodeTiled"] == len(made.kernels[0].launch.tensor_maps)


def test_launch_attributes(cuda):
    session = GpuSession(tma_executable(overlaps=True), cuda.driver)
    session.run({"x": np.zeros((40, 24), np.float32)})
    first, second = cuda.fake.launched
    assert first.attributes == (), "what comes before the first is not known"
    assert second.attributes == ("CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION",)
    with scope(pdl=False):
        GpuSession(tma_executable(overlaps=True), cuda.driver).run({"x": np.zeros((40, 24), np.float32)})
    assert [k.attributes for k in cuda.fake.launched[2:]] == [(), ()]


BAD_LAUNCHES = [
    (lambda k: replace(k, launch=None), "kernel 'k': expected how it is launched on cuda:sm_90a"),
    (
        lambda k: replace(k, launch=replace(k.launch, symbols=())),
        r"kernel 'k': expected a name for each of its integers, found \(\)",
    ),
    (lambda k: with_map(k, param=3), "kernel 'k': expected a tensor map of a pointer, found parameter 3"),
    (lambda k: with_map(k, swizzle=48), "kernel 'k': expected a swizzle of 0, 32, 64 or 128 bytes, found 48"),
    (lambda k: with_map(k, im2col=Im2col((), (), ())), "kernel 'k': expected im2col of 3 to 5 dims, found 2"),
    (lambda k: with_map(k, dims=(24, sample.sym("m"))), "kernel 'k': tensor map: m names the undeclared symbol 'm'"),
]


def with_map(kernel, **changes):
    first, *rest = kernel.launch.tensor_maps
    return replace(kernel, launch=replace(kernel.launch, tensor_maps=(replace(first, **changes), *rest)))


@pytest.mark.parametrize(("change", "message"), BAD_LAUNCHES, ids=[m for _, m in BAD_LAUNCHES])
def test_bad_launches_are_refused(tmp_path, change, message):
    source = tma_executable()
    with pytest.raises(ArtifactError, match=message):
        gfx.save(replace(source, kernels=tuple(change(k) for k in source.kernels)), tmp_path / "m.gfx")


# artifacts for several targets


def test_several_targets_in_one_file(tmp_path):
    parts = [sample.executable(), executable(), executable("sm_90a")]
    gfx.save(combined(parts), tmp_path / "m.gfx")
    one = tmp_path / "one.gfx"
    gfx.save(parts[0], one)
    sections = gfx.verify(tmp_path / "m.gfx")
    assert sections["weights"] == gfx.verify(one)["weights"], "equal weights are stored once"
    loaded = gfx.load(tmp_path / "m.gfx")
    assert [v.target for v in loaded.variants] == ["cpu:host", "cuda:sm_80", "cuda:sm_90a"]
    assert loaded.others[1].code["cuda:sm_90a"].ptx == ptx("sm_90a")
    feed = inputs(3)
    wanted = expected(feed)["y"]
    np.testing.assert_allclose(CompiledModel(loaded)(feed)["y"], wanted, rtol=1e-6)
    np.testing.assert_allclose(CompiledModel(loaded, device="emulator")(feed)["y"], wanted, rtol=1e-6)


def test_targets_of_different_models_are_refused(tmp_path):
    with pytest.raises(ArtifactError, match="code for 'cuda:sm_90a': expected the signature of 'cpu:host'"):
        gfx.save(combined([sample.executable(), tma_executable()]), tmp_path / "m.gfx")
    with pytest.raises(ArtifactError, match="two targets are called 'cuda:sm_80'"):
        gfx.save(combined([executable(), executable()]), tmp_path / "m.gfx")


def test_no_code_for_the_cpu():
    with pytest.raises(
        ArtifactError, match="there is code for cuda:sm_80 only: run it with device 'cuda' or 'emulator'"
    ):
        CompiledModel(executable())(inputs(3))

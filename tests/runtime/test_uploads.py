"""Weights on their way to a GPU: in windows, by several threads, checked as they pass."""

from __future__ import annotations

import os
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from graphfuse.artifact import Panels, Weight
from graphfuse.errors import ArtifactError, DeviceError
from graphfuse.gpu.emulator.driver import EmulatedDriver
from graphfuse.runtime import gfx
from graphfuse.runtime.cuda.bindings import BindingsDriver
from graphfuse.runtime.gpu import transfer
from graphfuse.runtime.gpu.context import context_of
from graphfuse.runtime.gpu.session import GpuSession
from graphfuse.runtime.weights import PIECE, StoredArray, source_of
from tests.runtime.fake_cuda import CUresult, FakeCuda
from tests.runtime.gpu_sample import executable
from tests.runtime.sample import expected, inputs

SIZES = (0, 1, 5, PIECE - 1, PIECE, 3, 0, PIECE + 1, 2 * PIECE, 7, 5 * PIECE + 100, 300)


@pytest.fixture(params=["emulator", "bindings"])
def driver(request):
    return EmulatedDriver() if request.param == "emulator" else BindingsDriver(FakeCuda())


@pytest.fixture
def cuda():
    fake = FakeCuda()
    return SimpleNamespace(fake=fake, driver=BindingsDriver(fake), calls=fake.calls)


@pytest.fixture(autouse=True)
def three_threads(monkeypatch):
    monkeypatch.setattr(transfer, "WINDOW", 2 * PIECE)
    monkeypatch.setattr(transfer, "FOR_THREAD", PIECE)
    monkeypatch.setattr(transfer, "available_cores", lambda: 3)


def some(sizes=SIZES):
    draw = np.random.default_rng(0)
    return tuple(Weight(f"w{i}", "u8", draw.integers(0, 256, n, np.uint8)) for i, n in enumerate(sizes))


def saved(path, weights=None):
    """The sample with more weights behind its own."""
    source = executable()
    gfx.save(replace(source, weights=(*source.weights, *(some() if weights is None else weights))), path)
    return path


def uploaded(driver, weights):
    """What is on the device."""
    context = context_of(driver, 0)
    with context.current():
        places = transfer.upload(context, weights, driver.alloc)
        found = [np.empty(w.nbytes, np.uint8) for w in weights]
        for place, array in zip(places, found, strict=True):
            driver.copy_out(array.ctypes.data, place, array.nbytes, 0)
    return found


def assert_same(found, weights):
    for array, w in zip(found, weights, strict=True):
        np.testing.assert_array_equal(array, np.ascontiguousarray(w.array).reshape(-1).view(np.uint8))


def assert_nothing_left(fake):
    assert fake.driver.allocated == 0
    assert not fake.driver._memory, "pinned memory"
    assert not fake.streams
    assert not fake.current


@pytest.mark.parametrize("mode", ["checked", "mapped", "unchecked"])
def test_bytes_of_a_file(tmp_path, driver, mode):
    assert_same(uploaded(driver, gfx.load(saved(tmp_path / "m.gfx"), mode).weights[2:]), some())


@pytest.mark.parametrize("sizes", [(), (0,), (0, 0), (1,), SIZES[::-1]])
def test_bytes_of_arrays(driver, sizes):
    assert_same(uploaded(driver, some(sizes)), some(sizes))


def test_what_is_not_as_it_lies_in_the_file(tmp_path, driver):
    """Every second column, what is laid out in panels, and what somebody has read already."""
    strided = Weight("strided", "f32", np.arange(900_000, dtype=np.float32).reshape(300, 3000)[:, ::2])
    _, _, whole, kept = gfx.load(saved(tmp_path / "m.gfx", some((5 * PIECE, 99)))).weights
    panels = Panels(0, 16)
    stored = StoredArray(whole.data._blob, np.dtype(np.uint8), (5 * PIECE // 8, 8), panels)
    assert kept.array is not None
    weights = strided, Weight("panels", "u8", stored), kept
    found = uploaded(driver, weights)
    assert_same(found, weights)
    np.testing.assert_array_equal(found[1], panels.of(some((5 * PIECE,))[0].array.reshape(-1, 8)).reshape(-1))


def test_windows_hold_all_bytes_once():
    weights = some()
    places, total = transfer.offsets([w.nbytes for w in weights])
    windows = list(transfer._windows(weights, places))
    assert all(0 < w.nbytes <= transfer.WINDOW for w in windows)
    assert len(windows) < len(weights) + total // transfer.WINDOW
    device = np.zeros(total, np.uint8)
    for w in reversed(windows):  # in any order
        room = device[w.begin : w.begin + w.nbytes]
        for source, at, where in w.parts:
            assert at % PIECE == 0
            source.fill(at, room[where])
    assert_same([device[p : p + w.nbytes] for p, w in zip(places, weights, strict=True)], weights)


def test_threads_share_the_work(cuda):
    uploaded(cuda.driver, some((9 * PIECE,)))
    assert cuda.calls["cuMemcpyHtoDAsync"] == 5
    assert 1 <= cuda.calls["cuMemHostAlloc"] <= 3
    assert cuda.calls["cuMemHostAlloc"] == cuda.calls["cuMemFreeHost"]
    assert cuda.calls["cuMemAlloc"] == 1


@pytest.mark.parametrize("at", [0, PIECE + 9, 2 * PIECE - 1, 4 * PIECE, 5 * PIECE + 99])
@pytest.mark.parametrize("mode", ["checked", "mapped"])
def test_a_flipped_bit_in_any_piece(tmp_path, cuda, at, mode):
    path = saved(tmp_path / "m.gfx")
    data = bytearray(path.read_bytes())
    data[data.index(some()[10].array.tobytes()) + at] ^= 4
    path.write_bytes(data)
    session = GpuSession(gfx.load(path, mode), cuda.driver)
    message = rf"m\.gfx: error: weights are corrupted: expected a checksum \w{{8}} of {5 * PIECE + 100} bytes, found"
    with pytest.raises(ArtifactError, match=message):
        session.prepare()
    assert_nothing_left(cuda.fake)


def test_a_file_that_became_shorter(tmp_path, cuda):
    path = saved(tmp_path / "m.gfx")
    session = GpuSession(gfx.load(path, "mapped"), cuda.driver)
    os.truncate(path, 4 * PIECE)
    with pytest.raises(ArtifactError, match=rf"truncated: expected \d+ bytes, found {4 * PIECE}"):
        session.prepare()
    assert_nothing_left(cuda.fake)


def test_an_empty_weight_has_a_checksum_too(tmp_path):
    weight = gfx.load(saved(tmp_path / "m.gfx")).weights[2]
    weight.data._blob.check = 1
    with pytest.raises(ArtifactError, match="weights are corrupted: expected a checksum 00000001 of 0 bytes"):
        source_of(weight).fill(0, np.empty(0, np.uint8))


@pytest.mark.parametrize(
    ("call", "before", "result", "message"),
    [
        ("cuMemcpyHtoDAsync", 2, CUresult.CUDA_ERROR_INVALID_HANDLE, r"cuda:0 \(.*\): CUDA_ERROR_INVALID_HANDLE"),
        ("cuStreamCreate", 1, CUresult.CUDA_ERROR_INVALID_HANDLE, r"cuda:0 \(.*\): CUDA_ERROR_INVALID_HANDLE"),
        ("cuMemHostAlloc", 0, CUresult.CUDA_ERROR_OUT_OF_MEMORY, r"\d+ bytes of pinned host memory are not available"),
        ("cuMemAlloc", 0, CUresult.CUDA_ERROR_OUT_OF_MEMORY, r"weights: \d+ bytes do not fit into the memory of"),
        ("cuModuleLoadDataEx", 0, CUresult.CUDA_ERROR_NOT_SUPPORTED, r"loading code for sm_80: CUDA_ERROR_NOT_SUPP"),
    ],
)  # fmt: skip
def test_what_fails_half_way_leaves_nothing(tmp_path, cuda, call, before, result, message):
    session = GpuSession(gfx.load(saved(tmp_path / "m.gfx")), cuda.driver)
    cuda.fake.fail[call] = [*[CUresult.CUDA_SUCCESS] * before, result, result]  # memory is asked for twice
    with pytest.raises(DeviceError, match=message):
        session.prepare()
    cuda.fake.fail.clear()
    assert_nothing_left(cuda.fake)
    feed = inputs(3)  # and then it works
    np.testing.assert_allclose(session.run(feed)["y"], expected(feed)["y"], rtol=1e-6)

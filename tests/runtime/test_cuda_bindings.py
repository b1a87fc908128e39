"""The calls made to `cuda.bindings.driver` are ones the real package takes: without a driver each gets as far as the
library that is not there, and no further. Its numbers are those this code knows."""

from __future__ import annotations

import ctypes
import inspect
import re
from types import SimpleNamespace

import pytest

from graphfuse.artifact import Im2col, TensorMap
from graphfuse.errors import DeviceError
from graphfuse.llvm.launch_loop import CONFIG_BYTES, STREAM_OFFSET
from graphfuse.runtime.cuda.batch import ATTRIBUTE_BYTES, Batch
from graphfuse.runtime.cuda.bindings import OLD_DRIVER, STICKY, UNUSABLE_CODE, BindingsDriver
from tests.runtime.fake_cuda import CUresult, FakeCuda

cu = pytest.importorskip("cuda.bindings.driver")
ROOM = ctypes.create_string_buffer(256)
AT = ctypes.addressof(ROOM)
PLAIN = SimpleNamespace(grid=3, threads=128, shared_bytes=0, function=5, params=AT, cluster=1, overlaps=False)
CLUSTERED = SimpleNamespace(**{**vars(PLAIN), "cluster": 2, "overlaps": True})
MAP = TensorMap(0, "bf16", 0, (64, 64), (64,), (64, 64), 128)
BYTES = TensorMap(0, "f8e4m3", 0, (64, 64), (64,), (64, 64), 0)
WINDOW = TensorMap(0, "f16", 0, (64, 7, 7, 2), (64, 448, 3136), (64, 128), 128, Im2col((-1, -1), (-1, -1), (2, 2)))
CALLS = [
    ("device_count",), ("retain", 0), ("push", 5), ("pop",), ("load_module", b"x\0"), ("function", 5, "f"),
    ("allow_shared", 5, 100), ("alloc", 10), ("free", 5), ("memory_info",), ("alloc_host", 5), ("free_host", AT),
    ("copy_in", 5, AT, 4, 7), ("copy_out", AT, 5, 4, 7), ("copy", 5, 6, 4, 7), ("create_stream",),
    ("destroy_stream", 5), ("synchronize", 5), ("create_event",), ("destroy_event", 5), ("record", 5, 5),
    ("launcher", [PLAIN]), ("wait", 5, 5), ("elapsed_ms", 5, 6), ("encode_tensor_map", MAP, 4096, (64, 64), (128,)),
    ("encode_tensor_map", WINDOW, 4096, (64, 7, 7, 2), (128, 896, 6272)),
    ("encode_tensor_map", BYTES, 4096, (64, 64), (128,)), ("launch", PLAIN, 7), ("launch", CLUSTERED, 7),
    ("begin_capture", 5), ("end_capture", 5), ("instantiate", 5), ("update", 5, 6), ("launch_graph", 5, 6),
    ("destroy_graph", 5), ("destroy_executable", 5),
]  # fmt: skip


def test_no_tensor_map_runs_backward():
    driver = BindingsDriver.__new__(BindingsDriver)
    with pytest.raises(DeviceError, match="a tensor map: expected strides of at least 0, found -128 bytes"):
        driver.encode_tensor_map(MAP, 4096, (64, 64), (-128,))


def without_driver():
    try:
        cu.cuInit(0)
    except Exception:  # noqa: BLE001
        return True
    return False


@pytest.mark.skipif(not without_driver(), reason="there is a driver: tests/gpu/device calls it")
@pytest.mark.parametrize("call", CALLS, ids=[c[0] for c in CALLS])
def test_the_package_takes_these_arguments(call):
    driver = BindingsDriver.__new__(BindingsDriver)
    driver._cu, driver._success = cu, cu.CUresult.CUDA_SUCCESS
    name, *args = call
    with pytest.raises(Exception) as e:
        getattr(driver, name)(*args)
    assert not isinstance(e.value, (TypeError, AttributeError, AssertionError, ValueError)), e.value


@pytest.mark.skipif(not without_driver(), reason="there is a driver: tests/gpu/device calls it")
@pytest.mark.parametrize("name", ["MAJOR", "MINOR"])
def test_attributes(name):
    kind = getattr(cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{name}")
    for call in (lambda: cu.cuDeviceGetAttribute(kind, cu.CUdevice(0)), lambda: cu.cuDeviceGetName(9, cu.CUdevice(0))):
        with pytest.raises(Exception) as e:
            call()
        assert not isinstance(e.value, (TypeError, AttributeError))


def test_the_double_has_the_packages_signatures():
    for name in dir(FakeCuda):
        if not name.startswith("cu") or name.startswith(("cuuint", "current")):
            continue
        doc = getattr(cu, name).__doc__.splitlines()[0]
        wanted = re.sub(r"\[[^\[\]]*(\[[^\]]*\])?[^\[\]]*\]", "", doc.partition("(")[2].rpartition(")")[0])
        count = len([p for p in wanted.split(",") if p.strip()])
        found = len(inspect.signature(vars(FakeCuda)[name]).parameters) - 1
        assert found == count, doc


def test_numbers():
    for result in CUresult:
        assert getattr(cu.CUresult, result.name).value == result.value
    known = {r.value for r in cu.CUresult}
    assert known >= STICKY | UNUSABLE_CODE.keys() | {OLD_DRIVER}
    assert cu.CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION.value == OLD_DRIVER
    assert int(cu.CUstream_flags.CU_STREAM_NON_BLOCKING) == 1


def test_packed_launches_are_the_packages_structures():
    """What the native loop hands over, byte for byte."""
    batch = Batch([CLUSTERED], 0, 0)
    config = cu.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = CLUSTERED.grid, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = CLUSTERED.threads, 1, 1
    config.sharedMemBytes, config.numAttrs = CLUSTERED.shared_bytes, 2
    cluster, overlap = cu.CUlaunchAttribute(), cu.CUlaunchAttribute()
    cluster.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    dim = cluster.value.clusterDim
    dim.x, dim.y, dim.z = CLUSTERED.cluster, 1, 1
    overlap.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    overlap.value.programmaticStreamSerializationAllowed = 1

    def content(thing, nbytes):
        return ctypes.string_at(thing if isinstance(thing, int) else int(thing.getPtr()), nbytes)

    at = int(batch._records[0, 0])
    attributes = int.from_bytes(content(at, 48)[40:], "little")
    assert content(attributes, 24) == content(cluster, 24)
    assert content(attributes + ATTRIBUTE_BYTES, 16) == content(overlap, 16)
    config.hStream = 9
    ctypes.c_uint64.from_address(at + STREAM_OFFSET).value = 9
    ours, theirs = bytearray(content(at, CONFIG_BYTES)), bytearray(content(config, CONFIG_BYTES))
    for both in (ours, theirs):
        both[40:48] = bytes(8)  # where the attributes are
        both[28:32] = both[52:56] = bytes(4)  # padding
    assert ours == theirs

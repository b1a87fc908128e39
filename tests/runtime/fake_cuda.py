"""A double of the module `cuda.bindings.driver`: its calls, results and handles, over the emulator.

Only what the runtime uses, in the form the real package has (tests/runtime/test_cuda_bindings.py compares the two).
`calls` counts; `fail` makes the next calls of a function fail.
"""

from __future__ import annotations

import ctypes
import enum
import threading
from collections import Counter
from types import SimpleNamespace

from graphfuse.artifact import Im2col, TensorMap
from graphfuse.errors import GraphfuseError
from graphfuse.gpu.emulator.driver import EmulatedDriver
from graphfuse.targets.driver import Argument


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_IMAGE = 200
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222
    CUDA_ERROR_INVALID_HANDLE = 400
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701
    CUDA_ERROR_NOT_SUPPORTED = 801
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900
    CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910


class Handle:
    """What the package returns for a stream, an event, an address: something that converts to an integer."""

    def __init__(self, value: int = 0) -> None:
        self._value = int(value)

    def __int__(self) -> int:
        return self._value


class _Named:
    """An enumeration all of whose members are their own names."""

    def __getattr__(self, name: str) -> str:
        return name


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        *((f"{of}Dim{d}", ctypes.c_uint32) for of in ("grid", "block") for d in "XYZ"),
        ("sharedMemBytes", ctypes.c_uint32),
        ("hStream", ctypes.c_uint64),
        ("attributes", ctypes.c_uint64),
        ("numAttrs", ctypes.c_uint32),
    )


ATTRIBUTES = {
    4: "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION",
    6: "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION",
}
LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
ONE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
TWO = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
COPY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p)


class CUlaunchAttribute:
    def __init__(self) -> None:
        self.id = ""
        self.value = SimpleNamespace(
            clusterDim=SimpleNamespace(x=1, y=1, z=1), programmaticStreamSerializationAllowed=0
        )


class FakeCuda:
    """The module. `driver` is the emulated one behind it."""

    CUresult = CUresult
    CUjit_option = CUfunction_attribute = CUdevice_attribute = CUstreamCaptureMode = _Named()
    CUtensorMapDataType = CUtensorMapSwizzle = CUtensorMapInterleave = CUtensorMapL2promotion = _Named()
    CUtensorMapFloatOOBfill = CUlaunchAttributeID = _Named()
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    CUdriverProcAddress_flags = SimpleNamespace(CU_GET_PROC_ADDRESS_LEGACY_STREAM=1)
    CUlaunchAttribute = CUlaunchAttribute
    CUlaunchConfig = SimpleNamespace
    cuuint64_t = cuuint32_t = Handle

    def __init__(self, arch: str = "sm_90a", *, version: int = 13000, **options) -> None:
        self.driver = EmulatedDriver(arch, **options)
        self.calls: Counter[str] = Counter()
        self.fail: dict[str, list[CUresult]] = {}
        self.version = version
        self.sticky: CUresult | None = None
        self.launched: list[SimpleNamespace] = []
        self._stacks = threading.local()
        self.streams: set[int] = set()
        self.loaded: set[str] = set()
        """Kernels whose code is on the device before they are launched."""
        self.native = {
            b"cuLaunchKernelEx": LAUNCH(self._native_launch),
            b"cuMemcpyDtoDAsync": COPY(self._native_copy),
            b"cuCtxPushCurrent": ONE(lambda context: int(self.cuCtxPushCurrent(context)[0])),
            b"cuCtxPopCurrent": ONE(lambda _: int(self.cuCtxPopCurrent()[0])),
            b"cuGraphLaunch": TWO(lambda graph, stream: int(self.cuGraphLaunch(graph, stream or 0)[0])),
        }

    @property
    def current(self) -> list[int]:
        """The contexts of this thread."""
        return self._stacks.__dict__.setdefault("contexts", [])

    def __getattribute__(self, name):
        found = object.__getattribute__(self, name)
        if not name.startswith("cu") or name.startswith(("cuuint", "current")):
            return found

        def call(*args):
            self.calls[name] += 1
            if self.sticky is not None:
                return (self.sticky,)
            if self.fail.get(name):
                result = self.fail[name].pop(0)
                if result == CUresult.CUDA_ERROR_ILLEGAL_ADDRESS:
                    self.sticky = result
                if result != CUresult.CUDA_SUCCESS:
                    return (result,)
            needs_context = not name.startswith(("cuInit", "cuDevice", "cuDriver", "cuCtxPush"))
            assert self.current or not needs_context, f"{name} without a context"
            try:
                value = found(*args)
            except MemoryError:
                return (CUresult.CUDA_ERROR_OUT_OF_MEMORY,)
            except KeyError:
                return (CUresult.CUDA_ERROR_NOT_FOUND,)
            except GraphfuseError as e:
                self.last_error = e
                self.sticky = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
                return (self.sticky,)
            if value is None:
                return (CUresult.CUDA_SUCCESS,)
            return (CUresult.CUDA_SUCCESS, *value) if isinstance(value, tuple) else (CUresult.CUDA_SUCCESS, value)

        return call

    def cuInit(self, flags):  # noqa: N802
        return None

    def cuDriverGetVersion(self):  # noqa: N802
        return self.version

    def cuDeviceGetCount(self):  # noqa: N802
        return self.driver.device_count()

    def cuDeviceGet(self, ordinal):  # noqa: N802
        return Handle(ordinal)

    def cuDeviceGetName(self, length, device):  # noqa: N802
        return self.driver.device_info(int(device)).name.encode().ljust(length, b"\0")

    def cuDeviceGetAttribute(self, kind, device):  # noqa: N802
        info = self.driver.device_info(int(device))
        values = {"MAJOR": info.major, "MINOR": info.minor, "OPTIN": info.shared_bytes, "COUNT": info.multiprocessors}
        return values[kind.rpartition("_")[2]]

    def cuDeviceTotalMem(self, device):  # noqa: N802
        return self.driver.device_info(int(device)).memory_bytes

    def cuDevicePrimaryCtxRetain(self, device):  # noqa: N802
        return Handle(self.driver.retain(int(device)))

    def cuCtxPushCurrent(self, context):  # noqa: N802
        self.current.append(int(context))

    def cuCtxPopCurrent(self):  # noqa: N802
        return Handle(self.current.pop())

    def cuModuleLoadDataEx(self, image, count, options, values):  # noqa: N802
        assert isinstance(image, bytes)
        assert isinstance(values[0], bytes), "the package takes the log's memory as bytes"
        assert count == len(options) == len(values)
        return Handle(self.driver.load_module(image))

    def cuModuleGetFunction(self, module, name):  # noqa: N802
        if name.decode() not in self.driver._modules[int(module)].module.kernels:
            raise KeyError(name)
        return Handle(self.driver.function(int(module), name.decode()))

    def cuFuncLoad(self, function):  # noqa: N802
        self.loaded.add(self.driver._functions[int(function)][1])

    def cuFuncSetAttribute(self, function, kind, value):  # noqa: N802
        self.driver.allow_shared(int(function), value)

    def cuMemAlloc(self, nbytes):  # noqa: N802
        return Handle(self.driver.alloc(nbytes))

    def cuMemFree(self, address):  # noqa: N802
        self.driver.free(int(address))

    def cuMemGetInfo(self):  # noqa: N802
        return self.driver.memory_info()

    def cuMemHostAlloc(self, nbytes, flags):  # noqa: N802
        return self.driver.alloc_host(nbytes)

    def cuMemFreeHost(self, address):  # noqa: N802
        self.driver.free_host(address)

    def cuMemcpyHtoDAsync(self, to, source, nbytes, stream):  # noqa: N802
        self.driver.copy_in(int(to), int(source), nbytes, int(stream))

    def cuMemcpyDtoHAsync(self, to, source, nbytes, stream):  # noqa: N802
        self.driver.copy_out(int(to), int(source), nbytes, int(stream))

    def cuMemcpyDtoDAsync(self, to, source, nbytes, stream):  # noqa: N802
        self.driver.copy(int(to), int(source), nbytes, int(stream))

    def cuStreamCreate(self, flags):  # noqa: N802
        assert flags == 1
        self.streams.add(stream := self.driver.create_stream())
        return Handle(stream)

    def cuStreamDestroy(self, stream):  # noqa: N802
        self.streams.remove(int(stream))
        self.driver.destroy_stream(int(stream))

    def cuStreamSynchronize(self, stream):  # noqa: N802
        self.driver.synchronize(int(stream))

    def cuStreamWaitEvent(self, stream, event, flags):  # noqa: N802
        self.driver.wait(int(stream), int(event))

    def cuEventCreate(self, flags):  # noqa: N802
        return Handle(self.driver.create_event())

    def cuEventDestroy(self, event):  # noqa: N802
        self.driver.destroy_event(int(event))

    def cuEventRecord(self, event, stream):  # noqa: N802
        self.driver.record(int(event), int(stream))

    def cuEventElapsedTime(self, start, end):  # noqa: N802
        return self.driver.elapsed_ms(int(start), int(end))

    def cuTensorMapEncodeTiled(  # noqa: N802
        self, kind, rank, address, dims, strides, box, steps, interleave, swizzle, promotion, fill
    ):
        assert rank == len(dims) == len(box) == len(steps) == len(strides) + 1
        assert (interleave, fill) == ("CU_TENSOR_MAP_INTERLEAVE_NONE", "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE")
        return self._encoded(kind, address, dims, strides, [int(b) for b in box], swizzle, None)

    def cuTensorMapEncodeIm2col(  # noqa: N802
        self, kind, rank, address, dims, strides, lower, upper, channels, pixels, steps, interleave, swizzle,
        promotion, fill,
    ):  # fmt: skip
        assert rank == len(dims) == len(steps) == len(strides) + 1 == len(lower) + 2 == len(upper) + 2
        assert (interleave, fill) == ("CU_TENSOR_MAP_INTERLEAVE_NONE", "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE")
        assert all(isinstance(n, int) for n in (*lower, *upper, channels, pixels))
        how = Im2col(tuple(lower), tuple(upper), tuple(int(s) for s in steps[1:-1]))
        return self._encoded(kind, address, dims, strides, [channels, pixels], swizzle, how)

    def _encoded(self, kind, address, dims, strides, box, swizzle, im2col):
        names = {"FLOAT32": "f32", "FLOAT16": "f16", "BFLOAT16": "bf16", "UINT8": "u8"}
        width = swizzle.removeprefix("CU_TENSOR_MAP_SWIZZLE_").removesuffix("B")
        elem = names[kind.rpartition("TYPE_")[2]]
        numbers = tuple(int(d) for d in dims), tuple(int(s) for s in strides)
        swizzled = 0 if width == "NONE" else int(width)
        spec = TensorMap(0, elem, 0, *numbers, tuple(box), swizzled, im2col)
        data = self.driver.encode_tensor_map(spec, int(address), *numbers)
        room = ctypes.create_string_buffer(data, 128)
        return SimpleNamespace(getPtr=lambda: ctypes.addressof(room))

    def cuLaunchKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, params, extra):  # noqa: N802
        assert (gy, gz, by, bz, extra) == (1, 1, 1, 1, 0)
        self._launch(function, gx, bx, shared, stream, params, 1)

    def cuLaunchKernelEx(self, config, function, params, extra):  # noqa: N802
        assert (config.gridDimY, config.gridDimZ, config.blockDimY, config.blockDimZ, extra) == (1, 1, 1, 1, 0)
        assert config.numAttrs == len(config.attrs)
        cluster = next((a.value.clusterDim.x for a in config.attrs if a.id.endswith("CLUSTER_DIMENSION")), 1)
        shape = (config.gridDimX, config.blockDimX, config.sharedMemBytes)
        self._launch(function, *shape, config.hStream, params, cluster, [a.id for a in config.attrs])

    # functions by their addresses, as native code calls them

    def cuGetProcAddress(self, symbol, version, flags):  # noqa: N802
        assert (version, flags) == (12000, 1)
        return ctypes.cast(self.native[symbol], ctypes.c_void_p).value, SimpleNamespace()

    def _native_launch(self, config, function, params, extra):
        c = Config.from_address(config)
        made = SimpleNamespace(**{name: getattr(c, name) for name, _ in Config._fields_}, attrs=[])
        for i in range(c.numAttrs):
            kind, _, x, y, z = (ctypes.c_uint32 * 5).from_address(c.attributes + 72 * i)
            value = SimpleNamespace(clusterDim=SimpleNamespace(x=x, y=y, z=z), programmaticStreamSerializationAllowed=x)
            made.attrs.append(SimpleNamespace(id=ATTRIBUTES[kind], value=value))
        return int(self.cuLaunchKernelEx(made, function, params, extra or 0)[0])

    def _native_copy(self, to, source, nbytes, stream):
        return int(self.cuMemcpyDtoDAsync(to, source, nbytes, stream or 0)[0])

    def _launch(self, function, grid, threads, shared, stream, params, cluster, attributes=()):
        """Read the arguments out of memory as the driver does: as many as the kernel has parameters."""
        emulator, name = self.driver._functions[int(function)]
        slots, maps = [], []
        for i, param in enumerate(emulator.module.kernels[name].params):
            at = ctypes.c_uint64.from_address(params + 8 * i).value
            if param.bytes == 128:
                maps.append(ctypes.string_at(at, 128))
            else:
                slots.append(self._argument(ctypes.c_uint64.from_address(at).value))
        call = SimpleNamespace(
            name=name, function=int(function), grid=grid, threads=threads, shared_bytes=shared, cluster=cluster,
            arguments=lambda: slots, tensor_maps=lambda: maps, attributes=tuple(attributes),
        )  # fmt: skip
        self.launched.append(call)
        self.driver.launch(call, int(stream))

    def _argument(self, value):
        for start, array in self.driver._memory.items():
            if start <= value < start + array.nbytes:
                return Argument(value, "x", start, array.nbytes, constant=True)  # for all a driver knows
        return Argument(value, "i")

    def cuStreamBeginCapture(self, stream, mode):  # noqa: N802
        assert mode == "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL"
        assert int(stream) > 2, "the default streams cannot be captured"
        self.driver.begin_capture(int(stream))

    def cuStreamEndCapture(self, stream):  # noqa: N802
        return Handle(self.driver.end_capture(int(stream)))

    def cuGraphInstantiate(self, graph, flags):  # noqa: N802
        return Handle(self.driver.instantiate(int(graph)))

    def cuGraphExecUpdate(self, executable, graph):  # noqa: N802
        self.driver.update(int(executable), int(graph))
        return SimpleNamespace()

    def cuGraphLaunch(self, executable, stream):  # noqa: N802
        self.driver.launch_graph(int(executable), int(stream))

    def cuGraphDestroy(self, graph):  # noqa: N802
        self.driver.destroy_graph(int(graph))

    def cuGraphExecDestroy(self, executable):  # noqa: N802
        self.driver.destroy_executable(int(executable))

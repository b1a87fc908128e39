"""NVIDIA's driver through `cuda.bindings`, which is imported when a GPU is first asked for.

Its functions return a CUresult and then their results; handles are objects that convert to integers, and integers are
taken in their place.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from graphfuse.artifact import TensorMap, elem_dtype
from graphfuse.errors import DeviceError, GraphfuseError
from graphfuse.llvm.launch_loop import launch_loop
from graphfuse.runtime.cuda.batch import Batch, Replay
from graphfuse.runtime.cuda.cupti import opened
from graphfuse.runtime.cuda.early import begin_context
from graphfuse.targets.driver import CopyCall, DriverError, LaunchCall, Launcher, LaunchRecord
from graphfuse.targets.nvidia import GpuInfo

log = logging.getLogger(__name__)

LOG_BYTES = 8192
"""Of what the driver says of PTX that it refuses."""
_OUT_OF_MEMORY = 2
"""CUDA_ERROR_OUT_OF_MEMORY."""
_NATIVE_VERSION = 12000
"""The CUDA that launches with attributes come from, as the versions of functions go."""
_GRAPH_UPDATE_FAILED = 910
"""CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE."""
_MAP_TYPES = {
    "f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "f64": "FLOAT64",
    "i32": "INT32", "u32": "UINT32", "i64": "INT64", "u64": "UINT64", "u16": "UINT16", "i16": "UINT16",
}  # fmt: skip
"""Element types that TMA knows; any other of one byte is UINT8: only a fill with NaN would tell them apart."""


UNUSABLE_CODE = {200: "it is damaged", 209: "it is for another architecture", 218: "the PTX is refused"}
"""Results of loading code that mean: this code, on this GPU, never."""
OLD_DRIVER = 222
"""`CUDA_ERROR_UNSUPPORTED_PTX_VERSION`."""
STICKY = frozenset({214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999})
"""Results after which a context is lost."""


class CudaError(DriverError):
    """A call that failed; `code` is its CUresult."""

    def __init__(self, code: int, name: str, detail: str = "") -> None:
        super().__init__(name, detail)
        self.code, self.is_sticky, self.unusable = code, code in STICKY, UNUSABLE_CODE.get(code, "")


def open_driver(arch: str = "") -> BindingsDriver:
    """The driver of this process, whatever its GPUs are. Raises DeviceError where there is none, or no GPU."""
    del arch
    return _opened()


def begin(ordinal: int) -> None:
    """Make a GPU's context, and the code that launches, in other threads; what is wrong is said when they are used."""
    begin_context(ordinal)
    threading.Thread(target=_make_loop, daemon=True).start()


def _make_loop() -> None:
    with contextlib.suppress(GraphfuseError):
        launch_loop()


@functools.cache
def _opened() -> BindingsDriver:
    try:
        module = importlib.import_module("cuda.bindings.driver")
    except ImportError as e:
        raise DeviceError(f"a GPU needs the package cuda-bindings ({e}): pip install 'graphfuse[cuda]'") from None
    return BindingsDriver(module)


def _calling(function: str) -> Callable[..., None]:
    """A method that is a function of the driver, by the same parameters, and gives nothing."""

    def method(driver: BindingsDriver, *args: int) -> None:
        driver.call(function, *args)

    return method


class BindingsDriver:
    """`graphfuse.targets.driver.Driver` over the module `cuda.bindings.driver`."""

    takes_cubins, reads_lines = True, False

    def __init__(self, module: Any) -> None:
        self._cu = module
        self._success = module.CUresult.CUDA_SUCCESS
        self.contexts: dict[int, Any] = {}
        try:
            (result,) = module.cuInit(0)
        except Exception as e:  # noqa: BLE001  # each release has its own error for a library that is not there
            raise DeviceError(f"there is no NVIDIA driver: {_line(e)}") from None
        if result != self._success:
            text = {100: "there is no GPU", 803: "the driver does not fit its own library", 34: "only a stub of it is"}
            what = text.get(int(result), "the NVIDIA driver cannot be used")
            raise DeviceError(f"{what} ({_name(result)})")

    def call(self, function: str, *args: Any) -> Any:
        """A function of the driver: what it gives besides its result. Raises CudaError."""
        result, *values = getattr(self._cu, function)(*args)
        if result != self._success:
            raise CudaError(int(result), _name(result))
        return values[0] if len(values) == 1 else tuple(values)

    def device_count(self) -> int:
        """Those that CUDA_VISIBLE_DEVICES lets see."""
        return int(self.call("cuDeviceGetCount"))

    def device_info(self, ordinal: int) -> GpuInfo:
        """From its attributes."""
        device = self.call("cuDeviceGet", ordinal)
        kinds = self._cu.CUdevice_attribute

        def attribute(name: str) -> int:
            return int(self.call("cuDeviceGetAttribute", getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{name}"), device))

        name: bytes = self.call("cuDeviceGetName", 128, device)
        return GpuInfo(
            name.split(b"\0", maxsplit=1)[0].decode(errors="replace"),
            attribute("COMPUTE_CAPABILITY_MAJOR"),
            attribute("COMPUTE_CAPABILITY_MINOR"),
            int(self.call("cuDeviceTotalMem", device)),
            attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            attribute("MULTIPROCESSOR_COUNT"),
        )

    def retain(self, ordinal: int) -> int:
        """The primary context, for as long as the process lives."""
        return int(self.call("cuDevicePrimaryCtxRetain", self.call("cuDeviceGet", ordinal)))

    push = _calling("cuCtxPushCurrent")
    pop = _calling("cuCtxPopCurrent")

    # code

    def load_module(self, image: bytes) -> int:
        """What the driver's assembler says goes into the error."""
        options = self._cu.CUjit_option
        log = bytes(LOG_BYTES)  # the bindings want bytes, and the driver writes into them
        names = [options.CU_JIT_ERROR_LOG_BUFFER, options.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        try:
            return int(self.call("cuModuleLoadDataEx", image, len(names), names, [log, LOG_BYTES]))
        except CudaError as e:
            error = CudaError(e.code, e.name, _line(log.rstrip(b"\0").decode(errors="replace")))
            if e.code == OLD_DRIVER:
                version = int(self.call("cuDriverGetVersion"))
                error.too_old = (
                    f"the driver (CUDA {version // 1000}.{version % 1000 // 10}) is too old for PTX "
                    f"{ptx_version(image)}: install a newer one, or compile where an assembler is installed "
                    "(graphfuse[cuda])"
                )
            raise error from None

    def function(self, module: int, name: str) -> int:
        """`cuModuleGetFunction`, and `cuFuncLoad`: else its first launch would load it."""
        found = int(self.call("cuModuleGetFunction", module, name.encode()))
        with contextlib.suppress(RuntimeError):  # older than CUDA 12.4
            self.call("cuFuncLoad", found)
        return found

    def allow_shared(self, function: int, nbytes: int) -> None:
        """`CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`."""
        kind = self._cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self.call("cuFuncSetAttribute", function, kind, nbytes)

    # memory

    def alloc(self, nbytes: int) -> int:
        """`cuMemAlloc`."""
        return self._allocated("cuMemAlloc", nbytes)

    free = _calling("cuMemFree")

    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes."""
        free, total = self.call("cuMemGetInfo")
        return int(free), int(total)

    def alloc_host(self, nbytes: int) -> int:
        """`cuMemHostAlloc`."""
        return self._allocated("cuMemHostAlloc", nbytes, 0)

    def _allocated(self, function: str, nbytes: int, *flags: int) -> int:
        try:
            return int(self.call(function, nbytes, *flags))
        except CudaError as e:
            if e.code == _OUT_OF_MEMORY:
                raise MemoryError(f"{nbytes} bytes") from None
            raise

    free_host = _calling("cuMemFreeHost")
    copy_in = _calling("cuMemcpyHtoDAsync")
    copy_out = _calling("cuMemcpyDtoHAsync")
    copy = _calling("cuMemcpyDtoDAsync")

    # streams

    def create_stream(self) -> int:
        """`CU_STREAM_NON_BLOCKING`."""
        return int(self.call("cuStreamCreate", int(self._cu.CUstream_flags.CU_STREAM_NON_BLOCKING)))

    destroy_stream = _calling("cuStreamDestroy")
    synchronize = _calling("cuStreamSynchronize")

    def create_event(self) -> int:
        """`cuEventCreate`."""
        return int(self.call("cuEventCreate", 0))

    destroy_event = _calling("cuEventDestroy")
    record = _calling("cuEventRecord")

    def wait(self, stream: int, event: int) -> None:
        """`cuStreamWaitEvent`."""
        self.call("cuStreamWaitEvent", stream, event, 0)

    def elapsed_ms(self, start: int, end: int) -> float:
        """`cuEventElapsedTime`."""
        return float(self.call("cuEventElapsedTime", start, end))

    def tracing(self) -> AbstractContextManager[Callable[[], list[LaunchRecord]]]:
        """By CUPTI, where it is."""
        return opened().tracing()

    # launches

    def encode_tensor_map(self, spec: TensorMap, address: int, dims: Sequence[int], strides: Sequence[int]) -> bytes:
        """`cuTensorMapEncodeTiled` or `cuTensorMapEncodeIm2col`; elements outside of the tensor read as zero."""
        if min(strides, default=0) < 0:
            raise DeviceError(f"a tensor map: expected strides of at least 0, found {min(strides)} bytes")
        cu = self._cu
        if spec.elem not in _MAP_TYPES and elem_dtype(spec.elem).itemsize != 1:
            raise DeviceError(f"TMA has no element type for {spec.elem}")
        kind = getattr(cu.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_MAP_TYPES.get(spec.elem, 'UINT8')}")
        swizzle = f"CU_TENSOR_MAP_SWIZZLE_{f'{spec.swizzle}B' if spec.swizzle else 'NONE'}"
        tensor = kind, len(dims), address, [cu.cuuint64_t(d) for d in dims], [cu.cuuint64_t(s) for s in strides]
        if spec.im2col:
            how = spec.im2col
            name, steps = "cuTensorMapEncodeIm2col", (1, *how.steps, 1)
            box: tuple[Any, ...] = (list(how.lower), list(how.upper), *spec.box)
        else:
            name, steps = "cuTensorMapEncodeTiled", (1,) * len(dims)
            box = ([cu.cuuint32_t(b) for b in spec.box],)
        found = self.call(
            name,
            *tensor,
            *box,
            [cu.cuuint32_t(s) for s in steps],
            cu.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(cu.CUtensorMapSwizzle, swizzle),
            cu.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            cu.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        return ctypes.string_at(int(found.getPtr()), 128)

    def launch(self, call: LaunchCall, stream: int) -> None:
        """`cuLaunchKernel`, or `cuLaunchKernelEx` where a launch has attributes."""
        if call.cluster == 1 and not call.overlaps:
            shape = (call.grid, 1, 1, call.threads, 1, 1, call.shared_bytes)
            self.call("cuLaunchKernel", call.function, *shape, stream, call.params, 0)
            return
        cu = self._cu
        config = cu.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = call.grid, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = call.threads, 1, 1
        config.sharedMemBytes, config.hStream = call.shared_bytes, stream
        attributes: list[Any] = []
        if call.cluster != 1:
            attribute = cu.CUlaunchAttribute()
            attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            dim = attribute.value.clusterDim
            dim.x, dim.y, dim.z = call.cluster, 1, 1
            attributes.append(attribute)
        if call.overlaps:
            attribute = cu.CUlaunchAttribute()
            attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            attribute.value.programmaticStreamSerializationAllowed = 1
            attributes.append(attribute)
        config.attrs, config.numAttrs = attributes, len(attributes)
        self.call("cuLaunchKernelEx", config, call.function, call.params, 0)

    def launcher(self, calls: Sequence[LaunchCall | CopyCall]) -> Launcher | None:
        """The native loop, if this machine can have one."""
        addresses = self._addresses("cuLaunchKernelEx", "cuMemcpyDtoDAsync")
        if not addresses:
            return None
        batch = Batch(calls, *addresses)

        def launch(stream: int) -> None:
            result, number = batch.launch(stream)
            if result:
                error = self.error(result)
                error.launch = number
                raise error

        return launch

    def replayer(self, context: int) -> Callable[[int, int], int] | None:
        """If this machine can have native code."""
        addresses = self._addresses("cuCtxPushCurrent", "cuCtxPopCurrent", "cuGraphLaunch")
        return Replay(addresses, context) if addresses else None

    def error(self, result: int) -> DriverError:
        """For what native code returned."""
        return CudaError(result, _name(self._cu.CUresult(result)))

    def _addresses(self, *names: str) -> list[int]:
        """Where functions of the driver are; nothing unless all are there."""
        flag = self._cu.CUdriverProcAddress_flags.CU_GET_PROC_ADDRESS_LEGACY_STREAM
        found: list[int] = []
        for name in names:
            try:
                address, _ = self.call("cuGetProcAddress", name.encode(), _NATIVE_VERSION, int(flag))
            except CudaError as e:
                log.info("launches go through Python: no address of %s (%s)", name, e)
                return []
            found.append(int(address))
        return found if all(found) else []

    # graphs

    def begin_capture(self, stream: int) -> None:
        """Only calls of this thread are watched: other threads go on as they like."""
        mode = self._cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self.call("cuStreamBeginCapture", stream, mode)

    def end_capture(self, stream: int) -> int:
        """`cuStreamEndCapture`."""
        return int(self.call("cuStreamEndCapture", stream))

    def instantiate(self, graph: int) -> int:
        """`cuGraphInstantiate`."""
        return int(self.call("cuGraphInstantiate", graph, 0))

    def update(self, executable: int, graph: int) -> bool:
        """`cuGraphExecUpdate`."""
        try:
            self.call("cuGraphExecUpdate", executable, graph)
        except CudaError as e:
            if e.code == _GRAPH_UPDATE_FAILED:
                return False
            raise
        return True

    launch_graph = _calling("cuGraphLaunch")
    destroy_graph = _calling("cuGraphDestroy")
    destroy_executable = _calling("cuGraphExecDestroy")


def ptx_version(image: bytes) -> str:
    """What a module's `.version` says."""
    _, _, rest = image.partition(b".version ")
    return rest.split(maxsplit=1)[0].decode() if rest else "unknown"


def _name(result: Any) -> str:
    return str(getattr(result, "name", result))


def _line(text: object) -> str:
    return " ".join(str(text).split())[:300]

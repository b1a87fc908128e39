"""`python -m tests.gpu.foreign.make`: PTX by the Triton and the NVRTC (nvidia-cuda-nvrtc) that are installed.

Neither needs a GPU. NVRTC finds CUDA's headers in the package nvidia-cuda-runtime.
"""

import ctypes
import importlib.util
import lzma
import re
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler import compile as compiled

from tests.gpu.foreign import triton_kernels

FOLDER = Path(__file__).parent
SIZES = {"num_warps": 4, "num_stages": 3}
KERNELS = {
    "softmax": ("*fp32 *fp32 i32", {"block": 1024}),
    "matmul": ("*fp16 *fp16 *fp16 i32 i32 i32 i32 i32 i32", {"rows": 64, "columns": 64, "depth": 32}),
    "attention": ("*fp16 *fp16 *fp16 *fp16 i32 i32 fp32", {"width": 64, "rows": 64, "keys": 32}),
    "layer_norm": ("*bf16 *bf16 *fp32 *fp32 i32 fp32", {"block": 256}),
    "add_at": ("*fp32 *i64 *fp32 i32", {"block": 256}),
    "scan": ("*fp32 *i32 *fp32 i32", {"block": 512}),
    "dropout": ("*fp32 *fp32 i32 fp32 i32", {"block": 256}),
    "locked": ("*i32 *fp32 *fp32 i32", {"rows": 4, "block": 128}),
}
"""The types of parameters, and the values of the constants."""


def by_triton(name: str, arch: int) -> str:
    """What is contiguous is aligned to 16, as are strides of rows: what Triton finds of torch's tensors."""
    types, constants = KERNELS[name]
    function = getattr(triton_kernels, name)
    names = function.arg_names
    signature = dict(zip(names, types.split(), strict=False)) | dict.fromkeys(constants, "constexpr")
    aligned = [i for i, n in enumerate(names) if signature[n].startswith("*") or n.endswith("row")]
    source = ASTSource(function, signature, constants, {(i,): [["tt.divisibility", 16]] for i in aligned})
    made = compiled(source, target=GPUTarget("cuda", arch, 32), options=SIZES)
    return f"// Triton {triton.__version__}, shared {made.metadata.shared}\n{made.asm['ptx']}"


def by_nvrtc(arch: int) -> str:
    """All of `kernels.cu`."""
    spec = importlib.util.find_spec("nvidia.cuda_nvrtc")
    assert spec
    assert spec.submodule_search_locations
    package = Path(spec.submodule_search_locations[0])
    lib, program, count = (
        ctypes.CDLL(str(next(package.glob("lib/libnvrtc.so.*")))),
        ctypes.c_void_p(),
        ctypes.c_size_t(),
    )
    options = [f"--gpu-architecture=compute_{arch}", f"-I{package.parent}/cuda_runtime/include", "-lineinfo"]
    words = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
    text = (FOLDER / "kernels.cu").read_bytes()
    assert lib.nvrtcCreateProgram(ctypes.byref(program), text, b"kernels.cu", 0, None, None) == 0
    assert lib.nvrtcCompileProgram(program, len(options), words) == 0
    lib.nvrtcGetPTXSize(program, ctypes.byref(count))
    out = ctypes.create_string_buffer(count.value)
    lib.nvrtcGetPTX(program, out)
    return out.value.decode()


def write(name: str, text: str) -> None:
    """Without what holds the paths of files."""
    code = re.sub(r'(\.file\s+\d+ )"(?:.*/)?([^"/]*)"', r'\1"\2"', text.partition("\t.section\t.debug")[0])
    (FOLDER / f"{name}.ptx.xz").write_bytes(lzma.compress(code.encode(), preset=9))


if __name__ == "__main__":
    for arch in (80, 90):
        for name in KERNELS:
            write(f"{name}.sm_{arch}", by_triton(name, arch))
    write("cuda.sm_80", by_nvrtc(80))

"""`python -m tests.gpu.foreign.make`: the PTX of `kernels.py` by the Triton that is installed, which needs no GPU."""

import lzma
import re
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler import compile as compiled

from tests.gpu.foreign import kernels

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


def main() -> None:
    """What is contiguous is aligned to 16, as are strides of rows: what Triton finds of torch's tensors."""
    for name, (types, constants) in KERNELS.items():
        function = getattr(kernels, name)
        names = function.arg_names
        signature = dict(zip(names, types.split(), strict=False)) | dict.fromkeys(constants, "constexpr")
        aligned = [i for i, n in enumerate(names) if signature[n].startswith("*") or n.endswith("row")]
        source = ASTSource(function, signature, constants, {(i,): [["tt.divisibility", 16]] for i in aligned})
        for arch in (80, 90):
            made = compiled(source, target=GPUTarget("cuda", arch, 32), options=SIZES)
            head = f"// Triton {triton.__version__}, shared {made.metadata.shared}\n"
            code = made.asm["ptx"].partition("\t.section\t.debug")[0]  # which holds the paths of files
            code = re.sub(r'(\.file\s+\d+ )"(?:.*/)?([^"/]*)"', r'\1"\2"', code)
            (FOLDER / f"{name}.sm_{arch}.ptx.xz").write_bytes(lzma.compress((head + code).encode(), preset=9))


if __name__ == "__main__":
    main()

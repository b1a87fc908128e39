"""Run a command as on a processor without AVX-512: `python tools/without_avx512.py python -m pytest tests/cpu`.

numpy, its BLAS, torch and graphfuse's own code do without; ONNX Runtime asks the processor and cannot be told, only
changed (`onnxruntime_without_avx512`). Where there is no AVX-512 it is the command and no more: numpy warns of what it
is to switch off and has not.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

from numpy._core import _multiarray_umath as core


def without_avx512() -> dict[str, str]:
    """The variables that take it away, with this numpy's names for it."""
    has = core.__cpu_features__
    wide = [n for n in core.__cpu_dispatch__ if has.get(n) and (n.startswith("AVX512") or n == "X86_V4")]
    if not wide:
        return {}
    return {
        "NPY_DISABLE_CPU_FEATURES": " ".join(wide),
        "OPENBLAS_CORETYPE": "Haswell",
        "ATEN_CPU_CAPABILITY": "avx2",
        "GRAPHFUSE_TARGET": "cpu:x86-64-v3",
    }


def onnxruntime_without_avx512(folder: Path) -> None:
    """Copy the installed package into a folder, without the question whether registers of AVX-512 are saved."""
    spec = importlib.util.find_spec("onnxruntime")
    assert spec is not None
    assert spec.origin is not None
    copy = folder / "onnxruntime"
    shutil.copytree(Path(spec.origin).parent, copy, ignore=shutil.ignore_patterns("libonnxruntime.so*", "__pycache__"))
    for library in copy.glob("capi/*pybind11_state*.so"):
        # xor ecx, ecx; xgetbv -> xor ecx, ecx; push 7; pop rax
        library.write_bytes(library.read_bytes().replace(b"\x31\xc9\x0f\x01\xd0", b"\x31\xc9\x6a\x07\x58"))


if __name__ == "__main__":
    os.execvpe(sys.argv[1], sys.argv[1:], os.environ | without_avx512())

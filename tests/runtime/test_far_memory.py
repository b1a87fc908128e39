"""Code and its constants are linked side by side, however scattered the free memory of a process is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import graphfuse

MODELS = Path(__file__).parents[2] / "models"

SCRIPT = """
import ctypes, mmap, sys
import numpy as np
import graphfuse

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
PAGE, SIZE = mmap.PAGESIZE, 6 << 30

def reserve(nbytes):
    return libc.mmap(None, nbytes, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)

model, image = graphfuse.load(sys.argv[1]), np.ones((1, 1, 8, 8), np.float32)
before = model({"image": image})["logits"]
block = reserve(SIZE)
for i in range(64):
    libc.munmap(block + SIZE - (2 * i + 2) * PAGE, PAGE)  # holes for constants, too small for code
while reserve(2 * PAGE) > block:
    pass  # until whatever is larger than a page lies below the block, 6 GiB from the holes
after = graphfuse.load(sys.argv[1])({"image": image})["logits"]
print("same" if np.array_equal(before, after) else "different")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="fills the address space as Linux does")
def test_code_is_near_its_constants(tmp_path: Path) -> None:
    graphfuse.compile(MODELS / "digits.onnx").save(tmp_path / "digits.gfx")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "digits.gfx")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "same"), done.stderr[-500:]

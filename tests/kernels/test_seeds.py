"""The kernels of the Triton-C manual, and of Triton's tutorials in Triton-C: on the CPU, emulated, and assembled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.kernels.running import CTYPES, Check, Job, cdiv, eps, normal, softmax_of

_NAMES_A, _NAMES_B = (("USE_A", "STRIDE_AK", "STRIDE_AM", "BROADCAST_AK", "BROADCAST_AM", "SHAPE_A"),
                      ("USE_B", "STRIDE_BK", "STRIDE_BN", "BROADCAST_BK", "BROADCAST_BN", "SHAPE_B"))  # fmt: skip
OPERANDS = {
    "a": dict(zip(_NAMES_A, ("a", "1", "lda", "newaxis,:", ":,newaxis", "TM,TK"), strict=True)),
    "^a": dict(zip(_NAMES_A, ("^a", "lda", "1", ":,newaxis", "newaxis,:", "TK,TM"), strict=True)),
    "b": dict(zip(_NAMES_B, ("b", "ldb", "1", ":,newaxis", "newaxis,:", "TK,TN"), strict=True)),
    "^b": dict(zip(_NAMES_B, ("^b", "1", "ldb", "newaxis,:", ":,newaxis", "TN,TK"), strict=True)),
}
"""The manual's options for an operand as it is and transposed."""


def _add(n: int = 96) -> Job:
    a, b, c = normal(0, n), normal(1, n), np.zeros(n, np.float32)
    return Job("seeds/add.tc", {}, (n // 32,), (n, a, b, c), [Check(c, a + b)])


def _add_sized(ctype: str, size: int) -> Job:
    n = 2 * size
    a, b, c = normal(0, n, ctype=ctype), normal(1, n, ctype=ctype), np.zeros(n, CTYPES[ctype])
    return Job("seeds/add_sized.tc", {"TYPE": ctype, "SIZE": size}, (2,), (n, a, b, c), [Check(c, a + b)])


def _add_masked(n: int) -> Job:
    a, b, c = normal(0, n), normal(1, n), np.zeros(n, np.float32)
    macros = {"TYPE": "float", "BLOCK_SIZE": 256}
    return Job("seeds/add_masked.tc", macros, (cdiv(n, 256),), (a, b, c, n), [Check(c, a + b)])


def _broadcast() -> Job:
    a, c = normal(0, 32), np.zeros(32, np.float32)
    return Job("seeds/broadcast.tc", {}, (1,), (a, c), [Check(c, a + np.float32(1))])


def _arrays() -> Job:
    z, u, v = np.zeros((16, 8), np.float32), np.zeros(16, np.float32), np.zeros((16, 32), np.float32)
    sums = 8 * 8.31
    checks = [Check(z, np.full(z.shape, 8.31), 8.31 * eps()), Check(u, np.full(u.shape, sums), 8 * sums * eps()),
              Check(v, np.full(v.shape, sums), 8 * sums * eps())]  # fmt: skip
    return Job("seeds/arrays.tc", {}, (1,), (z, u, v), checks)


def _transpose(file: str, m: int, n: int, ctype: str = "float", tile: int = 32, pad: int = 0) -> Job:
    x, y = normal(0, n, m + pad, ctype=ctype), np.zeros((m, n), CTYPES[ctype])
    macros = {"TYPE": ctype, "TM": tile, "TN": tile}
    args = (x, y, m, n, m + pad, n)
    return Job(f"seeds/{file}.tc", macros, (cdiv(m, tile), cdiv(n, tile)), args, [Check(y, x[:, :m].T)])


def _dot(
    file: str, ctype: str, mnk: tuple[int, int, int], tile: tuple[int, int, int], a: str = "a", b: str = "b",
    **macros: Any,
) -> Job:  # fmt: skip
    """A product of which what is summed is exact up to the roundings of its sums and of the result."""
    m, n, k = mnk
    left, right = normal(0, m, k, ctype=ctype), normal(1, k, n, ctype=ctype)
    want = left.astype(np.float64) @ right.astype(np.float64)
    size = np.abs(left.astype(np.float64)) @ np.abs(right.astype(np.float64))
    stored = [np.ascontiguousarray(x.T if name[0] == "^" else x) for x, name in ((left, a), (right, b))]
    lda, ldb = (x.shape[1] for x in stored)
    if file == "dot_transposed":
        # it loads a tile past the end of each
        room = np.zeros(tile[2] * max(m, n, k) + max(tile), CTYPES[ctype])
        stored = [np.concatenate([x.ravel(), room]) for x in stored]
        macros = {**OPERANDS[a], **OPERANDS[b], **macros}
    c = np.zeros((m, n), CTYPES[ctype])
    macros = {"TYPE": ctype, "TM": tile[0], "TN": tile[1], "TK": tile[2], **macros}
    grid = (cdiv(m, tile[0]), cdiv(n, tile[1]))
    if "GROUP" in macros:
        grid = (grid[0] * grid[1],)
    error = k * eps() * size.max() + eps(ctype) * np.abs(want).max()
    return Job(f"seeds/{file}.tc", macros, grid, (*stored, c, m, n, k, lda, ldb, n), [Check(c, want, error)])


def _softmax(file: str, rows: int, columns: int, tile: int, programs: int = 0) -> Job:
    x, y = 3 * normal(0, rows, columns + 3), np.full((rows, columns), np.nan, np.float32)
    row = (columns + 3, columns)
    args = (y, x, *row, rows, columns) if programs else (x, y, *row, columns)
    # the exponent is off by that of a difference of numbers up to 2^4, the rest by a few roundings
    check = Check(y, softmax_of(x[:, :columns]), 32 * eps())
    return Job(f"seeds/{file}.tc", {"BLOCK": tile}, (programs or rows,), args, [check])


TILE = (64, 64, 32)
SMALL: dict[str, Callable[[], Job]] = {
    "add": _add,
    "add sized": lambda: _add_sized("half", 256),
    "add smaller than a block": lambda: _add_sized("float", 32),
    "add masked": lambda: _add_masked(1000),
    "broadcast": _broadcast,
    "arrays": _arrays,
    "transpose": lambda: _transpose("transpose", 64, 128),
    "transpose masked": lambda: _transpose("transpose_masked", 45, 77),
    "dot": lambda: _dot("dot", "half", (128, 128, 96), TILE),
    "dot prefetch": lambda: _dot("dot_prefetch", "half", (128, 128, 96), TILE),
    "dot rematerialized": lambda: _dot("dot_rematerialized", "half", (128, 64, 64), TILE),
    **{
        f"dot {a} {b}": lambda a=a, b=b: _dot("dot_transposed", "half", (64, 128, 64), TILE, a, b)
        for a in ("a", "^a")
        for b in ("b", "^b")
    },
    "matmul": lambda: _dot("matmul", "half", (70, 90, 45), (32, 32, 16), num_stages=3),
    "matmul by tma": lambda: _dot("matmul", "half", (72, 88, 80), TILE, num_stages=2),
    "matmul grouped": lambda: _dot("matmul_grouped", "half", (136, 88, 48), TILE, GROUP=2),
    "softmax naive": lambda: _softmax("softmax_naive", 3, 300, 128),
    "softmax online": lambda: _softmax("softmax_online", 3, 300, 128),
    "softmax fused": lambda: _softmax("softmax_fused", 7, 300, 512, programs=3),
}
"""Of each kernel one that the emulator runs in a moment."""
MORE: list[Callable[[], Job]] = [
    lambda: _add_sized("float", 128),
    lambda: _add_masked(1),
    lambda: _transpose("transpose_masked", 1, 1),
    lambda: _transpose("transpose_masked", 33, 64, "half", 64, pad=5),
    lambda: _transpose("transpose", 128, 64, "double"),
    lambda: _dot("dot", "float", (64, 128, 48), (32, 64, 16)),
    lambda: _dot("matmul", "float", (1, 5, 3), (16, 16, 16)),
    lambda: _dot("matmul", "half", (33, 16, 100), (32, 32, 32)),
    lambda: _dot("matmul_grouped", "float", (100, 100, 40), (16, 32, 16), GROUP=4),
    lambda: _softmax("softmax_naive", 2, 1, 128),
    lambda: _softmax("softmax_online", 2, 1000, 256),
    lambda: _softmax("softmax_fused", 5, 512, 512, programs=5),
]
"""For the CPU besides: odd sizes, other elements."""


@pytest.mark.parametrize("name", SMALL)
def test_emulated(name: str) -> None:
    SMALL[name]().run("emulator")


@pytest.mark.parametrize("make", [*SMALL.values(), *MORE])
def test_on_the_cpu(make: Callable[[], Job]) -> None:
    make().run()


@pytest.mark.parametrize("name", SMALL)
def test_nothing_is_found(name: str) -> None:
    assert SMALL[name]().findings() == []


def test_what_the_manual_reads_past_the_end_is_found() -> None:
    job = _dot("dot_transposed", "half", (64, 64, 64), TILE)
    a, b, *rest = job.args
    (found,) = replace(job, args=(a[: 64 * 64], b[: 64 * 64], *rest)).findings()
    assert "dot_transposed.tc:" in str(found)
    assert "block.load" in found.message


@pytest.mark.parametrize("name", SMALL)
def test_assembled(name: str) -> None:
    SMALL[name]().assemble()


@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("matmul", {"num_ctas": 2, "schedule": "pingpong"}),
        ("matmul_grouped", {"num_ctas": 2, "GROUP": 2}),
        ("matmul", {"schedule": "pingpong"}),
    ],
)
def test_programs_of_two_blocks_and_turns(file: str, options: dict[str, Any]) -> None:
    kernel = _dot(file, "half", (200, 136, 80), (128, 64, 32), **options).run("emulator")
    (meta,) = kernel.compiled
    assert meta.launch is not None
    assert meta.launch.cluster == options.get("num_ctas", 1)
    assert meta.launch.threads == (384 if "schedule" in options else 256)


@pytest.mark.parametrize("file", ["dot", "dot_prefetch", "dot_transposed", "matmul", "matmul_grouped"])
def test_products_go_by_tma(file: str) -> None:
    macros = {"GROUP": 2} if file == "matmul_grouped" else {}
    kernel = _dot(file, "half", (64, 64, 64), TILE, **macros).run("emulator")
    (meta,) = kernel.compiled
    assert meta.launch is not None
    assert len(meta.launch.tensor_maps) == 3

"""Launches of the PTX in this folder, and what each has to compute."""

from __future__ import annotations

import lzma
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from graphfuse.gpu.emulator import Emulator
from graphfuse.gpu.emulator.check import Checked, Launch, Reference, check_ptx

FOLDER = Path(__file__).parent
ARCHS = ("sm_80", "sm_90")
THREADS = 128


@dataclass(frozen=True)
class Case:
    """A kernel's grid and arguments, in order, and a function that does the same to the arrays."""

    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    reference: Reference | None
    block: tuple[int, ...] = (THREADS,)

    def run(self, name: str, ptx: str, seed: int = 0) -> Checked:
        """On the emulator. What Triton adds to the parameters is scratch memory that none of these has."""
        emulator = Emulator(ptx, name=f"{name}.ptx", seed=seed)
        names = [p.name for p in emulator.kernel(name).params]
        values = (*self.arguments, *[0] * len(names))
        shared = re.match(r"// Triton.*shared (\d+)", ptx)
        launch = Launch(
            kernel=name, grid=self.grid, block=self.block, shared_bytes=int(shared[1]) if shared else 0,
            arguments=dict(zip(names, values, strict=False)),
        )  # fmt: skip
        return check_ptx(emulator, launch, self.reference)


def text(name: str, arch: str) -> str:
    """The PTX."""
    return lzma.decompress((FOLDER / f"{name}.{arch}.ptx.xz").read_bytes()).decode()


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(shape[-1]).standard_normal(shape).astype(dtype)


def softmax() -> Case:
    def reference(out, x, *_):
        e = np.exp(x - x.max(1, keepdims=True))
        out[:] = e / e.sum(1, keepdims=True)

    return Case((6,), (np.zeros((6, 700), np.float32), normal(6, 700), 700), reference)


def matmul() -> Case:
    m, n, k, row = 100, 72, 96, 80

    def reference(out, a, b, *_):
        out[:, :n] = np.maximum(a.astype(np.float32) @ b[:, :n].astype(np.float32), 0)

    arrays = np.zeros((m, row), np.float16), normal(m, k, dtype=np.float16), normal(k, row, dtype=np.float16)
    return Case((2, 2), (*arrays, m, n, k, row, k, row), reference)


def attention() -> Case:
    heads, length, width = 2, 100, 64
    q, k, v = (normal(heads, length + i, width, dtype=np.float16)[:, :length].copy() for i in range(3))

    def reference(out, q, k, v, *_):
        q, k, v = (x.astype(np.float32) for x in (q, k, v))
        scores = np.where(np.tril(np.ones((length, length), bool)), q @ k.swapaxes(1, 2) / 8, -np.inf)
        p = np.exp(scores - scores.max(2, keepdims=True))
        out[:] = p / p.sum(2, keepdims=True) @ v

    return Case((2, heads), (np.zeros_like(q), q, k, v, width, length, np.float32(1 / 8)), reference)


def layer_norm() -> Case:
    x = normal(5, 600, dtype=ml_dtypes.bfloat16)

    def reference(out, x, weight, bias, *_):
        x = x.astype(np.float32)
        out[:] = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * weight + bias

    return Case((5,), (np.zeros_like(x), x, normal(600), normal(1, 600)[0], 600, np.float32(1e-5)), reference)


def add_at() -> Case:
    def reference(out, index, x, *_):
        np.add.at(out, index, x)

    index = np.random.default_rng(0).integers(0, 50, 1000)
    return Case((4,), (np.zeros(50, np.float32), index, normal(1000), 1000), reference)


def scan() -> Case:
    def reference(out, last, x, *_):
        out[:], last[:] = np.cumsum(x, 1), np.argmax(x, 1)

    return Case((4,), (np.zeros((4, 400), np.float32), np.zeros(4, np.int32), normal(4, 400), 400), reference)


def dropout() -> Case:
    return Case((3,), (np.zeros(700, np.float32), normal(700), 700, np.float32(0.25), 7), None)


def locked() -> Case:
    def reference(_, total, x, *__):
        total[:] = x.sum(0)

    zeros = np.zeros(1, np.int32), np.zeros(100, np.float32)
    return Case((5,), (*zeros, normal(20, 100), 100), reference)


# CUDA C++


def saxpy() -> Case:
    def reference(y, x, a, _):
        y += a * x

    return Case((3,), (normal(1, 1000)[0], normal(1000), np.float32(2.5), 1000), reference)


def total() -> Case:
    def reference(out, x, _):
        out[:] = x.sum()

    return Case((4,), (np.zeros(1, np.float32), normal(1000), 1000), reference)


def transpose() -> Case:
    def reference(out, x, *_):
        out[:] = x.T

    return Case((3, 2), (np.zeros((70, 50), np.float32), normal(50, 70), 50, 70), reference, (32, 8))


def product() -> Case:
    def reference(out, a, b, *_):
        out[:] = a.astype(np.float32) @ b.astype(np.float32)

    arrays = np.zeros((20, 37), np.float16), normal(20, 40, dtype=np.float16), normal(40, 37, dtype=np.float16)
    return Case((3, 2), (*arrays, 20, 37, 40), reference, (16, 16))


def rows() -> Case:
    return replace(softmax(), grid=(2,), arguments=(np.zeros((6, 700), np.float32), normal(6, 700), 6, 700))


def last_block() -> Case:
    """The sums of blocks are no result."""
    blocks, threads, x = 5, THREADS, normal(1000)

    def reference(out, parts, x, n):
        roots = np.sqrt(np.abs(np.pad(x, (0, 2 * blocks * threads - n))).astype(np.float64))
        parts[:] = roots.reshape(2, blocks, threads).sum((0, 2))
        out[:] = parts.sum()

    return Case((blocks,), (np.zeros(1), np.zeros(blocks), x, 1000), reference)


def called() -> Case:
    def reference(out, x, n):
        wide = np.pad(x, 2, mode="edge")
        out[:] = sum(wide[i : i + n] for i in range(5)) / 5 + np.sin(x) * np.abs(x) ** 1.5

    return Case((8,), (np.zeros(1000, np.float32), normal(1000), 1000), reference)


def local() -> Case:
    def reference(out, x, _):
        for i, v in enumerate(x.tolist()):
            seen, bits = [k * k for k in range(8)], f"{v:b}"
            places = [v & 7, v & 7, v >> 1 & 7, 0, v & 3, 7]
            values = [1, seen[v & 7] + 5, bits.count("1"), 32 - v.bit_length(), v // 7, v % 11]
            seen[places[v % 6]] = values[v % 6]
            out[i] = sum(s * (k + 1) for k, s in enumerate(seen))

    return Case((4,), (np.zeros(500, np.int32), integers(500), 500), reference)


def ballots() -> Case:
    def reference(counts, masks, x, n):
        odd = np.pad(x % 2, (0, 512 - n)).reshape(16, 32)
        masks[:] = (odd << np.arange(32)).sum(1)
        counts[:10], counts[10] = np.bincount(x[x % 2 == 1] % 10, minlength=10), odd.sum(1).max()

    return Case((4,), (np.zeros(11, np.int32), np.zeros(16, np.uint32), integers(500), 500), reference)


def integers(count: int) -> np.ndarray:
    return np.random.default_rng(count).integers(0, 1000, count).astype(np.int32)


CUDA: dict[str, Callable[[], Case]] = {
    f.__name__: f for f in (saxpy, total, transpose, product, rows, last_block, called, local, ballots)
}
"""Of `kernels.cu`."""
CASES: dict[str, Callable[[], Case]] = {
    f.__name__: f for f in (softmax, matmul, attention, layer_norm, add_at, scan, dropout, locked)
}

"""Launches of the gallery's products: arguments, and what float64 says of the result with what rounding may add."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from graphfuse.artifact import Array
from graphfuse.kernels.api import kernel
from tests.kernels.places import HOST, Place, placed

FOLDER = Path(__file__).parents[2] / "models" / "kernels"
DTYPES = {"half": np.float16, "float": np.float32}
ULP = {"half": 2.0**-11, "float": 2.0**-24}
SUM = 2.0**-22
"""What sums and exponentials in f32 may be off, relative to the terms' sizes: some hundred roundings at random."""


@dataclass(frozen=True)
class Case:
    """A launch; `checks` are an array of the arguments, what it should be, and how far off an element may be."""

    file: str
    grid: tuple[int, ...]
    args: tuple[Any, ...]
    checks: tuple[tuple[Array, Array, Array], ...]
    name: str | None = None
    macros: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def kernel(self, device: str = "", **options: Any) -> Any:
        """The kernel, for a device."""
        return kernel(FOLDER / f"{self.file}.tc", self.name, device=device, **self.macros, **options)

    def run(self, device: str, place: Place = HOST, **options: Any) -> Any:
        """Launch it and compare; returns the kernel."""
        k = self.kernel(device, **options)
        args, now = placed(self.args, place)
        k[self.grid](*args)
        for found, want, error in self.checks:
            away = np.abs(now(found).astype(np.float64) - want)
            assert np.all(away <= error), f"{np.nanmax(away / error):.2f} times the error that rounding explains"
        return k


def cdiv(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def attention(
    z: int, h: int, m: int, n: int, d: int, tm: int, tn: int, *, causal: bool = False, lse: bool = False,
    heads_last: bool = False, type_: str = "half",
) -> Case:  # fmt: skip
    """`heads_last`: memory has [Z, M, H, D], as projections leave it."""
    rng = np.random.default_rng(0)

    def array(length: int) -> Array:
        if heads_last:
            return rng.standard_normal((z, length, h, d)).astype(DTYPES[type_]).transpose(0, 2, 1, 3)
        return rng.standard_normal((z, h, length, d)).astype(DTYPES[type_])

    q, k, v, o = array(m), array(n), array(n), array(m)
    scale = d**-0.5
    s = scale * (q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2))
    if causal:
        s = np.where(np.arange(n) <= np.arange(m)[:, None], s, -np.inf)
    largest = s.max(-1, keepdims=True)
    e = np.exp(s - largest)
    p, total = e / e.sum(-1, keepdims=True), largest + np.log(e.sum(-1, keepdims=True))
    want, sizes = p @ v.astype(np.float64), p @ np.abs(v.astype(np.float64))
    error = ULP[type_] * (np.abs(want) + 2 * sizes) + SUM * d * sizes
    macros: dict[str, Any] = {"TYPE": type_, "D": d, "TM": tm, "TN": tn}
    macros |= {name: 1 for name, on in (("CAUSAL", causal), ("WRITE_LSE", lse)) if on}
    strides = [x // q.itemsize for a in (q, k, v, o) for x in a.strides[:3]]
    checks = [(o, want, error)]
    if lse:
        checks.append((np.zeros((z, h, m), np.float32), total[..., 0], SUM * d * np.maximum(1, np.abs(total[..., 0]))))
    args = (q, k, v, *(c[0] for c in checks), scale, m, n, *strides)
    return Case("attention", (cdiv(m, tm), h, z), args, tuple(checks), macros=macros)


def conv(
    n: int, c: int, h: int, w: int, k: int, r: int, s: int, stride: int, pad: int, tiles: tuple[int, int, int],
    *, nchw: bool = False, type_: str = "half",
) -> Case:  # fmt: skip
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, h, w, c)).astype(DTYPES[type_])
    f = rng.standard_normal((k, r, s, c)).astype(DTYPES[type_])
    p, q = (h + 2 * pad - r) // stride + 1, (w + 2 * pad - s) // stride + 1
    padded = np.pad(x.astype(np.float64), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (r, s), (1, 2))[:, ::stride, ::stride]
    want, sizes = (
        np.einsum("npqcrs,krsc->npqk", a, b) for a, b in ((windows, f), (np.abs(windows), np.abs(f.astype(np.float64))))
    )
    if nchw:
        x, f = (np.ascontiguousarray(a.transpose(0, 3, 1, 2)) for a in (x, f))
        want, sizes = (a.transpose(0, 3, 1, 2) for a in (want, sizes))
    y = np.empty(want.shape, DTYPES[type_])
    error = ULP[type_] * np.abs(want) + SUM * sizes
    tm, tn, tk = tiles
    macros: dict[str, Any] = {"TYPE": type_, "R": r, "S": s, "STRIDE": stride, "PAD": pad, "TM": tm, "TN": tn, "TK": tk}
    macros |= {"NCHW": 1} if nchw else {}
    args = (x, f, y, n, c, h, w, k)
    return Case("conv", (cdiv(n * p * q, tm), cdiv(k, tn)), args, ((y, want, error),), macros=macros)


# blocks that are there


def layout_of(h: int, rows: int, columns: int, seed: int = 0) -> Array:
    """Which blocks of [H, rows, columns] there are: two of three, and a row and a column without any."""
    there = np.random.default_rng(seed).random((h, rows, columns)) < 0.66
    there[0, 0], there[-1, :, -1] = False, False
    there[0, -1, 0] = True
    return there


def to_blocks(dense: Array, there: Array, size: int) -> Array:
    """[Z, blocks, size, size] of [Z, H, M, N], in the order of `np.nonzero`."""
    out = [
        dense[:, h, i * size : (i + 1) * size, j * size : (j + 1) * size]
        for h, i, j in zip(*there.nonzero(), strict=True)
    ]
    return np.ascontiguousarray(np.stack(out, 1))


def spread(there: Array, size: int) -> Array:
    """Elements of [H, M, N] that blocks cover."""
    return np.repeat(np.repeat(there, size, 1), size, 2)


def lists_of(there: Array) -> Array:
    """The table of a kernel that walks rows of blocks: (begin, count) for each, then (column, block) of all."""
    number = np.full(there.shape, -1)
    number[there] = np.arange(there.sum())
    lines = there.reshape(-1, there.shape[-1])
    counts = lines.sum(1)
    begins = 2 * len(lines) + 2 * (np.cumsum(counts) - counts)
    pairs = np.stack([np.nonzero(lines)[1], number.reshape(lines.shape)[lines]], 1)
    return np.concatenate([np.stack([begins, counts], 1).reshape(-1), pairs.reshape(-1)]).astype(np.int32)


def blocksparse(mode: str, z: int, h: int, m: int, n: int, k: int, size: int, tile: int, type_: str = "half") -> Case:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((z, h, m, k)), rng.standard_normal((z, h, k, n))
    a, b = (x.astype(DTYPES[type_]) for x in (a, b))
    at = {"SDD": (m, n), "DSD": (m, k), "DDS": (k, n)}[mode]
    there = layout_of(h, at[0] // size, at[1] // size)
    mask = spread(there, size)
    if mode != "SDD":
        a, b = (a * mask, b) if mode == "DSD" else (a, b * mask)
        a, b = (x.astype(DTYPES[type_]) for x in (a, b))
    want, sizes = (f(a.astype(np.float64)) @ f(b.astype(np.float64)) for f in (np.asarray, np.abs))
    error = ULP[type_] * np.abs(want) + SUM * sizes
    macros = {"TYPE": type_, "BLOCK": size, mode: 1}
    numbers = (h, m, n, k, int(there.sum()))
    if mode == "SDD":
        want, error = (to_blocks(x, there, size) for x in (want, error))
        lut = np.stack(there.nonzero(), 1).astype(np.int32)
        grid, side = (len(lut), z), "TK"
    elif mode == "DSD":
        a, lut, grid, side = to_blocks(a, there, size), lists_of(there), (h * m // size, cdiv(n, tile), z), "TN"
    else:
        # blocks keep their numbers: those of the table are of the turned layout
        turned = there.swapaxes(1, 2)
        b = np.ascontiguousarray(to_blocks(b.swapaxes(2, 3), turned, size).swapaxes(2, 3))
        lut, grid, side = lists_of(turned), (h * n // size, cdiv(m, tile), z), "TM"
    c = np.empty(want.shape, DTYPES[type_])
    return Case("blocksparse_matmul", grid, (a, b, c, lut, *numbers), ((c, want, error),), macros=macros | {side: tile})


def blocksparse_softmax(
    z: int, h: int, m: int, n: int, size: int, *, backward: bool = False, bias: bool = False, type_: str = "half"
) -> Case:
    rng = np.random.default_rng(0)
    there = layout_of(h, m // size, n // size)
    mask, scale = spread(there, size), 0.125
    x = to_blocks(rng.standard_normal((z, h, m, n)).astype(DTYPES[type_]) * 4, there, size)
    added = rng.standard_normal((z, n)).astype(DTYPES[type_])
    scores = np.zeros((z, h, m, n))
    _put(scores, x, there, size)
    scores = np.where(mask, scores * scale + (added[:, None, None] if bias else 0), -np.inf)
    with np.errstate(invalid="ignore"):
        e = np.exp(scores - scores.max(-1, keepdims=True))
        p = np.nan_to_num(e / e.sum(-1, keepdims=True))
    width = 1 << (int(there.sum(-1).max()) * size - 1).bit_length()
    macros: dict[str, Any] = {"TYPE": type_, "BLOCK": size, "TN": width}
    lut, blocks = lists_of(there), int(there.sum())
    out, grid = np.empty_like(x), (h * m, z)
    if not backward:
        want = to_blocks(p, there, size)
        error = ULP[type_] * want + 2 * SUM * n * want + 2.0**-25
        args = (x, out, lut, *((added, n) if bias else ()), scale, blocks)
        macros |= {"APPLY_BIAS": 1} if bias else {}
        return Case("blocksparse_softmax", grid, args, ((out, want, error),), "forward", macros)
    y = to_blocks(p, there, size).astype(DTYPES[type_])
    dy = rng.standard_normal(y.shape).astype(DTYPES[type_])
    rows, gradient = np.zeros((z, h, m, n)), np.zeros((z, h, m, n))
    _put(rows, y, there, size)
    _put(gradient, dy, there, size)
    dots, sizes = ((rows * g).sum(-1, keepdims=True) for g in (gradient, np.abs(gradient)))
    want = to_blocks(scale * rows * (gradient - dots), there, size)
    error = (
        ULP[type_] * np.abs(want) + SUM * to_blocks(scale * rows * (np.abs(gradient) + sizes), there, size) + 2.0**-25
    )
    return Case(
        "blocksparse_softmax", grid, (y, dy, out, lut, scale, blocks), ((out, want, error),), "backward", macros
    )


def _put(dense: Array, blocks: Array, there: Array, size: int) -> None:
    for i, (h, r, c) in enumerate(zip(*there.nonzero(), strict=True)):
        dense[:, h, r * size : (r + 1) * size, c * size : (c + 1) * size] = blocks[:, i]


def pack4(numbers: Array, group: int) -> Array:
    """[K, N] of 0 to 15 as bytes [K / 2, N]: of a group the second half of the rows in the high halves of the first."""
    k, n = numbers.shape
    halves = numbers.reshape(k // group, 2, group // 2, n)
    return (halves[:, 0] | halves[:, 1] << 4).reshape(k // 2, n).astype(np.uint8)


def int4(m: int, n: int, k: int, group: int, tm: int, tn: int) -> Case:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((m, k)).astype(np.float16)
    numbers = rng.integers(0, 16, (k, n))
    scale = rng.uniform(0.5, 1.5, (k // group, n)).astype(np.float16)
    zero = rng.integers(0, 16, (k // group, n)).astype(np.float16)
    exact = (numbers - np.repeat(zero, group, 0).astype(np.float64)) * np.repeat(scale, group, 0).astype(np.float64)
    want, sizes = (f(a.astype(np.float64)) @ f(exact) for f in (np.asarray, np.abs))
    error = ULP["half"] * (np.abs(want) + sizes) + SUM * sizes  # weights are rounded to halves too
    c = np.empty((m, n), np.float16)
    macros = {"TYPE": "half", "GROUP": group, "TM": tm, "TN": tn}
    args = (a, pack4(numbers, group), scale, zero, c, m, n, k)
    return Case("int4_matmul", (cdiv(m, tm), cdiv(n, tn)), args, ((c, want, error),), macros=macros)


def dequantise(n: int, k: int, group: int, tn: int) -> Case:
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 16, (k, n))
    scale = rng.uniform(0.5, 1.5, (k // group, n)).astype(np.float16)
    zero = rng.integers(0, 16, (k // group, n)).astype(np.float16)
    want = (numbers - np.repeat(zero, group, 0).astype(np.float64)) * np.repeat(scale, group, 0).astype(np.float64)
    w = np.empty((k, n), np.float16)
    args = (pack4(numbers, group), scale, zero, w, n)
    macros = {"TYPE": "half", "GROUP": group, "TN": tn}
    check = (w, want, ULP["half"] * np.abs(want))  # the difference of small integers is exact
    return Case("int4_dequantise", (k // group, cdiv(n, tn)), args, (check,), macros=macros)


def grouped(
    counts: tuple[int, ...], n: int, k: int, tiles: tuple[int, int, int], activation: str = "", *, bias: bool = True,
    type_: str = "half",
) -> Case:  # fmt: skip
    rng = np.random.default_rng(0)
    m, g = sum(counts), len(counts)
    x = rng.standard_normal((m, k)).astype(DTYPES[type_])
    w = rng.standard_normal((g, k, n)).astype(DTYPES[type_])
    b = rng.standard_normal((g, n)).astype(DTYPES[type_])
    of = np.repeat(np.arange(g), counts)
    want, sizes = (
        np.einsum("mk,mkn->mn", f(x.astype(np.float64)), f(w.astype(np.float64))[of])
        + f(b.astype(np.float64))[of] * bias
        for f in (np.asarray, np.abs)
    )
    want = ACTIVATIONS[activation](want)
    error = ULP[type_] * np.abs(want) + 2 * SUM * sizes  # no slope is above 2
    y = np.empty((m, n), DTYPES[type_])
    tm, tn, tk = tiles
    macros: dict[str, Any] = {"TYPE": type_, "TM": tm, "TN": tn, "TK": tk}
    macros |= ({"ACTIVATION": activation} if activation else {}) | ({"HAS_BIAS": 1} if bias else {})
    args = (x, w, *((b,) if bias else ()), np.cumsum(counts).astype(np.int32), y, g, n, k)
    return Case("grouped_matmul", (cdiv(m, tm) + g, cdiv(n, tn)), args, ((y, want, error),), macros=macros)


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x * math.sqrt(0.5))),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


SMALLEST: Mapping[str, Callable[[], Case]] = {
    "attention": lambda: attention(1, 2, 160, 160, 64, 128, 64, causal=True, lse=True),
    "conv": lambda: conv(1, 16, 6, 5, 24, 3, 3, 1, 1, (32, 32, 16)),
    "conv by windows": lambda: conv(2, 24, 7, 9, 40, 3, 3, 1, 1, (64, 64, 32)),
    "conv by large windows": lambda: conv(1, 16, 6, 9, 24, 5, 5, 1, 2, (64, 32, 16)),
    "sdd": lambda: blocksparse("SDD", 1, 2, 64, 64, 64, 16, 32),
    "dsd": lambda: blocksparse("DSD", 1, 2, 64, 64, 64, 16, 32),
    "dds": lambda: blocksparse("DDS", 1, 2, 64, 64, 64, 16, 32),
    "softmax": lambda: blocksparse_softmax(1, 2, 32, 64, 16),
    "softmax backward": lambda: blocksparse_softmax(1, 2, 32, 64, 16, backward=True),
    "int4": lambda: int4(20, 64, 64, 32, 16, 64),
    "int4 in full": lambda: dequantise(72, 64, 32, 64),
    "grouped": lambda: grouped((5, 0, 21), 40, 48, (16, 32, 32), "relu"),
}
"""For the emulator."""

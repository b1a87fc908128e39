"""The gallery of kernels (`models/kernels`), part one: against float64, on the CPU, emulated, and assembled."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.kernels.running import CTYPES, Check, Job, cdiv, eps, normal, softmax_of

F32 = np.float32


def _power(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def softmax(rows: int, columns: int, ctype: str = "float") -> Job:
    x, y = 3 * normal(0, rows, columns + 3, ctype=ctype), np.zeros((rows, columns), CTYPES[ctype])
    args = (x, y, columns, columns + 3, columns)
    # the exponent is off by that of a difference of numbers up to 2^4, the rest by a few roundings
    check = Check(y, softmax_of(x[:, :columns]), 32 * eps() + eps(ctype))
    return Job("softmax.tc", {"TYPE": ctype, "BLOCK": _power(columns)}, (rows,), args, [check])


def _normalised(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is of mean 0 and variance 1 along some axes; the means and the reciprocal deviations."""
    wide = x.astype(np.float64)
    mean = wide.mean(axes, keepdims=True)
    rstd = 1 / np.sqrt(wide.var(axes, keepdims=True) + epsilon)
    return (wide - mean) * rstd, mean, rstd


def _gradient(x: np.ndarray, g: np.ndarray, rstd: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """What leads back through a normalisation to `x`, its result: g without its mean and its part along x."""
    along = (g * x).mean(axes, keepdims=True)
    return (g - g.mean(axes, keepdims=True) - x * along) * rstd


def layernorm(rows: int, columns: int, ctype: str = "float") -> Job:
    x, w, b = (normal(i, *s, ctype=ctype) for i, s in enumerate(((rows, columns), (columns,), (columns,))))
    y, mean, rstd = np.zeros_like(x), np.zeros(rows, F32), np.zeros(rows, F32)
    z, m, r = _normalised(x, (1,), 1e-5)
    error = columns * eps() * r.max()
    checks = [Check(y, z * w + b, 4 * error + 8 * eps(ctype)), Check(mean, m.ravel(), error),
              Check(rstd, r.ravel(), error * r.max() ** 2)]  # fmt: skip
    macros = {"TYPE": ctype, "BLOCK": _power(columns)}
    return Job("layernorm.tc", macros, (rows,), (x, w, b, y, mean, rstd, columns, 1e-5), checks, "layernorm_forward")


def layernorm_backward(rows: int, columns: int) -> Job:
    x, w, dy = normal(0, rows, columns), normal(1, columns), normal(2, rows, columns)
    z, m, r = _normalised(x, (1,), 1e-5)
    dx = np.zeros_like(x)
    want = _gradient(z, dy.astype(np.float64) * w, r, (1,))
    args = (x, w, dy, m.ravel().astype(F32), r.ravel().astype(F32), dx, columns)
    macros = {"TYPE": "float", "BLOCK": _power(columns)}
    error = columns * eps() * (1 + np.abs(want).max()) * r.max()
    return Job("layernorm.tc", macros, (rows,), args, [Check(dx, want, error)], "layernorm_backward")


def layernorm_weights(rows: int, columns: int) -> Job:
    x, dy = normal(0, rows, columns), normal(2, rows, columns)
    z, m, r = _normalised(x, (1,), 1e-5)
    dw, db = np.zeros(columns, F32), np.zeros(columns, F32)
    wide = dy.astype(np.float64)
    error = rows * eps() * np.abs(z * wide).sum(0).max()
    args = (x, dy, m.ravel().astype(F32), r.ravel().astype(F32), dw, db, rows, columns)
    macros = {"TYPE": "float", "BLOCK": 32, "ROWS": 16}
    checks = [Check(dw, (z * wide).sum(0), error), Check(db, wide.sum(0), error)]
    return Job("layernorm.tc", macros, (cdiv(columns, 32),), args, checks, "layernorm_backward_weights")


def cross_entropy(rows: int, classes: int, block: int) -> Job:
    x, labels = 3 * normal(0, rows, classes), np.random.default_rng(1).integers(0, classes, rows).astype(np.int32)
    wide = x.astype(np.float64)
    lse = np.log(np.exp(wide - wide.max()).sum(1)) + wide.max()
    loss, sums = np.zeros(rows, F32), np.zeros(rows, F32)
    error = (32 + classes / block) * eps() * 8
    checks = [Check(loss, lse - wide[np.arange(rows), labels], 2 * error), Check(sums, lse, error)]
    macros = {"TYPE": "float", "BLOCK": block}
    return Job("cross_entropy.tc", macros, (rows,), (x, labels, loss, sums, classes), checks, "cross_entropy_forward")


def cross_entropy_backward(rows: int, classes: int, block: int) -> Job:
    x, labels = 3 * normal(0, rows, classes), np.random.default_rng(1).integers(0, classes, rows).astype(np.int32)
    p, dloss, dx = softmax_of(x), normal(3, rows), np.zeros((rows, classes), F32)
    lse = (x[:, 0] - np.log(p[:, 0])).astype(F32)
    want = (p - (np.arange(classes) == labels[:, None])) * dloss[:, None]
    args = (x, labels, lse, dloss, dx, classes)
    check = Check(dx, want, 64 * eps() * np.abs(dloss).max())
    grid = (rows, cdiv(classes, block))
    return Job("cross_entropy.tc", {"TYPE": "float", "BLOCK": block}, grid, args, [check], "cross_entropy_backward")


def batchnorm(images: int, channels: int, pixels: int, block: int) -> Job:
    x, w, b = normal(0, images, channels, pixels) + F32(2), normal(1, channels), normal(2, channels)
    z, m, r = _normalised(x, (0, 2), 1e-5)
    count = images * pixels
    y, mean, rstd, ran, ran_var = (
        np.zeros_like(x),
        *(np.zeros(channels, F32) for _ in range(2)),
        *normal(3, 2, channels),
    )
    new = ran + 0.1 * (m.ravel() - ran)
    new_var = ran_var + 0.1 * (x.astype(np.float64).var((0, 2), ddof=1) - ran_var)
    error = 16 * (count / block + 8) * eps() * r.max()
    checks = [Check(y, z * w[:, None] + b[:, None], 4 * error), Check(mean, m.ravel(), error),
              Check(rstd, r.ravel(), error), Check(ran, new, error, was_set=True),
              Check(ran_var, new_var, error, was_set=True)]  # fmt: skip
    args = (x, w, b, y, mean, rstd, ran, ran_var, images, channels, pixels, 0.1, 1e-5)
    macros = {"TYPE": "float", "BLOCK": block}
    return Job("batchnorm.tc", macros, (channels,), args, checks, "batchnorm_forward")


def batchnorm_backward(images: int, channels: int, pixels: int, block: int) -> Job:
    x, w, dy = normal(0, images, channels, pixels), normal(1, channels), normal(2, images, channels, pixels)
    z, m, r = _normalised(x, (0, 2), 1e-5)
    wide = dy.astype(np.float64)
    dx, dw, db = np.zeros_like(x), np.zeros(channels, F32), np.zeros(channels, F32)
    error = images * pixels * eps() * 8 * r.max()
    checks = [Check(dx, _gradient(z, wide, r, (0, 2)) * w[:, None], error), Check(dw, (z * wide).sum((0, 2)), error),
              Check(db, wide.sum((0, 2)), error)]  # fmt: skip
    args = (x, w, dy, m.ravel().astype(F32), r.ravel().astype(F32), dx, dw, db, images, channels, pixels)
    macros = {"TYPE": "float", "BLOCK": block}
    return Job("batchnorm.tc", macros, (channels,), args, checks, "batchnorm_backward")


def rope(tokens: int, heads: int, half: int, ctype: str = "float", **macros: int) -> Job:
    x, y = (normal(i, tokens, heads, 2 * half, ctype=ctype) for i in range(2))
    positions = np.arange(tokens, dtype=np.int32)[::-1] * 3
    angle = np.arange(3 * tokens)[:, None] * 1e4 ** (-np.arange(half) / half)
    c, s = np.cos(angle).astype(F32), np.sin(angle).astype(F32)
    x1, x2 = (part.astype(np.float64) for part in (x[..., :half], x[..., half:]))
    cos, sin = (part[positions][:, None] for part in (c, -s if "BACKWARD" in macros else s))
    want = np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], -1)
    args = (x, c, s, np.ascontiguousarray(positions), y, heads)
    macros = {"TYPE": ctype, "HALF": half, "HEADS": 4, **macros}
    check = Check(y, want, 2 * eps(ctype) * np.abs(want).max())
    return Job("rope.tc", macros, (tokens, cdiv(heads, 4)), args, [check])


def topk(rows: int, columns: int, k: int, *, ties: bool = False) -> Job:
    x = normal(0, rows, columns)
    x = np.round(x) if ties else x
    x[0, : columns // 2] = -np.inf
    order = np.argsort(-x, axis=1, kind="stable")[:, :k]
    values, indices = np.zeros((rows, k), F32), np.zeros((rows, k), np.int32)
    checks = [Check(values, np.take_along_axis(x, order, 1)), Check(indices, order)]
    macros = {"TYPE": "float", "BLOCK": _power(columns), "K": k}
    return Job("topk.tc", macros, (rows,), (x, values, indices, columns), checks)


def histogram(n: int, bins: int) -> Job:
    x, counts = normal(0, n), np.ones(bins, np.int32)
    place = np.floor((x + F32(2)) * F32(bins / 4)).astype(int)
    want = 1 + np.bincount(place[(place >= 0) & (place < bins)], minlength=bins)
    macros, args = {"BINS": bins, "BLOCK": 64, "STEPS": 4}, (x, counts, n, -2.0, bins / 4)
    return Job("histogram.tc", macros, (cdiv(n, 256),), args, [Check(counts, want, was_set=True)])


def histogram_atomic(n: int, bins: int) -> Job:
    x = np.random.default_rng(0).integers(-1, bins + 1, n).astype(np.int32)
    counts = np.zeros(bins, np.int32)
    want = np.bincount(x[(x >= 0) & (x < bins)], minlength=bins)
    return Job(
        "histogram_atomic.tc",
        {"BLOCK": 256},
        (cdiv(n, 256),),
        (x, counts, n, bins),
        [Check(counts, want, was_set=True)],
    )


def cumsum(rows: int, columns: int, block: int, ctype: str = "float") -> Job:
    x, y = normal(0, rows, columns, ctype=ctype), np.zeros((rows, columns), CTYPES[ctype])
    want = np.cumsum(x.astype(np.float64), 1)
    error = columns * eps() * np.abs(want).max() + eps(ctype) * np.abs(want).max()
    macros = {"TYPE": ctype, "BLOCK": block}
    return Job("cumsum.tc", macros, (rows,), (x, y, columns), [Check(y, want, error)])


def philox(counters: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Philox 4x32-10: words of counters [n, 4]."""
    c, k = counters.astype(np.uint64), [np.uint64(w) for w in key]
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = c[:, 0] * np.uint64(0xD2511F53), c[:, 2] * np.uint64(0xCD9E8D57)
        words = (b >> np.uint64(32) ^ c[:, 1] ^ k[0], b & low, a >> np.uint64(32) ^ c[:, 3] ^ k[1], a & low)
        c = np.stack(words, 1)
        k = [(k[0] + np.uint64(0x9E3779B9)) & low, (k[1] + np.uint64(0xBB67AE85)) & low]
    return c.astype(np.uint32)


def dropout(n: int, p: float, seed: tuple[int, int], block: int, ctype: str = "float") -> Job:
    x, y = normal(0, n, ctype=ctype), np.zeros(n, CTYPES[ctype])
    counters = np.zeros((cdiv(n, 4), 4), np.uint32)
    counters[:, 0] = np.arange(len(counters))
    least = np.uint32(F32(p) * F32(2**32))
    kept = philox(counters, seed).ravel()[:n] >= least
    want = np.where(kept, x.astype(np.float64) / (1 - float(F32(p))), 0)
    macros = {"TYPE": ctype, "BLOCK": block}
    check = Check(y, want, 4 * eps(ctype) * np.abs(want).max())
    return Job("dropout.tc", macros, (cdiv(n, block),), (x, y, n, p, *seed), [check])


SMALL: dict[str, Callable[[], Job]] = {
    "softmax": lambda: softmax(3, 200),
    "layernorm": lambda: layernorm(3, 200),
    "layernorm backward": lambda: layernorm_backward(3, 200),
    "layernorm weights": lambda: layernorm_weights(37, 45),
    "cross-entropy": lambda: cross_entropy(3, 700, 256),
    "cross-entropy backward": lambda: cross_entropy_backward(3, 300, 256),
    "batchnorm": lambda: batchnorm(2, 3, 150, 128),
    "batchnorm backward": lambda: batchnorm_backward(2, 3, 150, 128),
    "rope": lambda: rope(3, 6, 16, "half"),
    "rope backward": lambda: rope(2, 4, 16, BACKWARD=1),
    "topk": lambda: topk(3, 100, 5),
    "histogram": lambda: histogram(600, 16),
    "histogram atomic": lambda: histogram_atomic(600, 40),
    "cumsum": lambda: cumsum(2, 300, 128),
    "dropout": lambda: dropout(1001, 0.3, (1234, 5), 256),
}
"""Of each kernel one that the emulator runs in a moment."""
ODD: list[Callable[[], Job]] = [
    lambda: softmax(2, 1),
    lambda: softmax(3, 1000, "half"),
    lambda: layernorm(2, 129, "half"),
    lambda: layernorm_weights(3, 100),
    lambda: cross_entropy(2, 1, 64),
    lambda: cross_entropy(2, 3001, 512),
    lambda: batchnorm(3, 2, 49, 64),
    lambda: batchnorm_backward(1, 2, 257, 64),
    lambda: rope(1, 5, 64),
    lambda: topk(2, 40, 40, ties=True),
    lambda: histogram(10, 4),
    lambda: cumsum(1, 5, 8),
    lambda: cumsum(3, 1000, 64, "half"),
    lambda: dropout(3, 0.5, (0, 0), 128),
    lambda: dropout(3000, 0.9, (1 << 31, 0xFFFFFFFF), 1024, "half"),
]
LARGE: list[Callable[[], Job]] = [
    lambda: softmax(200, 8192),
    lambda: layernorm(500, 4096),
    lambda: layernorm_backward(300, 4096),
    lambda: layernorm_weights(2048, 1000),
    lambda: cross_entropy(200, 50257, 4096),
    lambda: cross_entropy_backward(20, 50257, 4096),
    lambda: batchnorm(16, 64, 3136, 1024),
    lambda: batchnorm_backward(16, 64, 3136, 1024),
    lambda: rope(500, 32, 64, "half"),
    lambda: topk(300, 1024, 64, ties=True),
    lambda: histogram(100_000, 64),
    lambda: histogram_atomic(1_000_000, 5000),
    lambda: cumsum(100, 30_000, 1024),
    lambda: dropout(1_000_001, 0.1, (7, 9), 4096),
]


def test_philox_gives_its_published_words() -> None:
    """Of the authors' file of known answers."""
    every = 0xFFFFFFFF
    known = {(0,) * 6: "6627e8d5 e169c58d bc57ac4c 9b00dbd8", (every,) * 6: "408f276d 41c83b0e a20bc7c6 6d5451fd"}
    for words, want in known.items():
        assert " ".join(f"{w:08x}" for w in philox(np.array([words[:4]]), words[4:])[0]) == want


@pytest.mark.parametrize("make", [*SMALL.values(), *ODD])
def test_on_the_cpu(make: Callable[[], Job]) -> None:
    make().run()


@pytest.mark.parametrize("name", SMALL)
def test_nothing_is_found(name: str) -> None:
    assert SMALL[name]().findings() == []


@pytest.mark.parametrize("name", SMALL)
def test_emulated_and_assembled(name: str) -> None:
    SMALL[name]().run("emulator")
    SMALL[name]().assemble()


@pytest.mark.full
@pytest.mark.parametrize("make", LARGE)
def test_large(make: Callable[[], Job]) -> None:
    make().run()


@pytest.mark.full
@pytest.mark.parametrize("make", ODD)
def test_odd_ones_emulated(make: Callable[[], Job]) -> None:
    make().run("emulator")

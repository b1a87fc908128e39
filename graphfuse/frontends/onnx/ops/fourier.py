"""Discrete Fourier transforms of a length that is a number: fast ones by mixed radix, others as products with matrices.

A length of small prime factors is transformed in one pass for each factor p: sums of p elements, then factors
e^(2 pi i k / n) (Cooley, Tukey, Math. Comp. 19, 1965), stored so that the last pass leaves the order right, as Stockham
does and FFTPACK. The order of factors and of every sum is that of FFTPACK, which numpy has, too (but for its radix 8).

    y[.., u, l, k] = e^(2 pi i d u k / n) (sum over j of x[.., l, j, k] e^(2 pi i u j / p)),  d: factors before

A real signal of even length is a complex one of half the length (Sorensen et al., IEEE Trans. ASSP 35, 1987), so that
its first and its middle frequency are exactly real.
"""

from __future__ import annotations

import numpy as np

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of, tensor
from graphfuse.frontends.host_values import Array
from graphfuse.ir.core import Value
from graphfuse.ir.types import I64
from graphfuse.symbolic import Dim, static

LARGEST_RADIX = 11
"""A factor of p costs p * p / 2 products for p elements, and as many ops."""

Complex = tuple[Value, Value]
"""Real and imaginary parts."""


def dft_of(e: Emitter, x: Value, length: int, *, inverse: bool, onesided: bool) -> Value:
    """The transform of x [.., n, 1 or 2] along n, as [.., k, 2] (or [.., k, 1] for a one-sided inverse).

    n is cut or filled with zeros to `length` (an inverse of one side: to the frequencies that it has). Halves are
    transformed in f32.
    """
    elem, x = elem_of(x), e.wide(x)
    real = e.squeeze(e.slice(x, -1, 0, 1), -1)
    imaginary = _imaginary(e, x, shape_of(x)[-1])
    by = _by_passes if is_fast(length) else _by_matrices
    out = by(e, real, imaginary, length, inverse=inverse, onesided=onesided)
    return e.cast(e.concat([e.unsqueeze(v, -1) for v in out], tensor(real).rank), elem)


def _imaginary(e: Emitter, x: Value, parts: Dim) -> Value | None:
    """The second of the parts, if they may be two."""
    e.require("at_most", parts, 2, "parts of a complex number")
    if parts == 1:
        return None
    last = e.squeeze(e.slice(x, -1, parts - 1, 1), -1)
    return last if parts == 2 else e.select(e.map(graph.eq, e.full((), I64, parts), 2), last, 0.0)


def is_fast(length: int) -> bool:
    """Whether passes of small factors make the transform."""
    return max(radices(length), default=1) <= LARGEST_RADIX


def radices(length: int) -> list[int]:
    """The factors 4, 2 and odd primes of a length, in the order of their passes: a 2 goes first."""
    out: list[int] = []
    while length % 4 == 0:
        out.append(4)
        length //= 4
    if length % 2 == 0:
        out.insert(0, 2)
        length //= 2
    p = 3
    while length > 1:
        if p * p > length:
            p = length
        while length % p == 0:
            out.append(p)
            length //= p
        p += 2
    return out


def _turns(k: Array, length: int) -> tuple[Array, Array]:
    """cos and sin of 2 pi k / length, exact where they are 0 and 1."""
    k = k % length
    cos, sin = np.cos(2 * np.pi * k / length), np.sin(2 * np.pi * k / length)
    return np.where(4 * k % (2 * length) == length, 0.0, cos), np.where(2 * k % length == 0, 0.0, sin)


def _fitted(e: Emitter, x: Value, n: int) -> Value:
    """The last dim cut, or filled with zeros, to `n`."""
    have = static(shape_of(x)[-1])
    if have >= n:
        return e.slice(x, -1, 0, n)
    return e.pad(x, -1, 0, n - have)


# by passes


def _by_passes(
    e: Emitter, real: Value, imaginary: Value | None, length: int, *, inverse: bool, onesided: bool
) -> tuple[Value, ...]:
    sign, half = (1 if inverse else -1), length // 2 + 1
    if inverse and onesided:
        imaginary = e.full(shape_of(real), elem_of(real), 0.0) if imaginary is None else imaginary
        sides = _mirrored(e, (_fitted(e, real, half), _fitted(e, imaginary, half)), length)
        return (_scaled(e, _passes(e, sides, length, sign)[0], length),)
    real = _fitted(e, real, length)
    if imaginary is not None:
        out = _passes(e, (real, _fitted(e, imaginary, length)), length, sign)
    elif length % 2 == 0:
        out = _of_real(e, real, length, sign)
        out = out if onesided else _mirrored(e, out, length)
    else:
        out = _passes(e, (real, e.full(shape_of(real), elem_of(real), 0.0)), length, sign)
    if onesided:
        out = e.slice(out[0], -1, 0, half), e.slice(out[1], -1, 0, half)
    return (_scaled(e, out[0], length), _scaled(e, out[1], length)) if inverse else out


def _scaled(e: Emitter, x: Value, length: int) -> Value:
    return e.map(graph.mul, x, 1 / length)


def _mirrored(e: Emitter, x: Complex, length: int) -> Complex:
    """All frequencies of a real signal by its first ones: the others are their conjugates, backwards."""
    axis = tensor(x[0]).rank - 1
    if (rest := length - length // 2 - 1) == 0:
        return x
    real, imaginary = (e(graph.flip, e.slice(v, axis, 1, rest), axes=(axis,)) for v in x)
    return e.concat([x[0], real], axis), e.concat([x[1], e.map(graph.neg, imaginary)], axis)


def _of_real(e: Emitter, x: Value, length: int, sign: int) -> Complex:
    """The first `length / 2 + 1` frequencies of a real signal of even length.

    With Z the transform of its even elements plus i times its odd ones, and Z* that of the conjugates, backwards:
    (Z + Z*) / 2 + e^(2 pi i k / length) (Z - Z*) / 2i.
    """
    half, axis = length // 2, tensor(x).rank - 1
    z = _passes(e, (e.slice(x, axis, 0, half, 2), e.slice(x, axis, 1, half, 2)), half, sign)
    real, imaginary = (e.concat([v, e.slice(v, axis, 0, 1)], axis) for v in z)
    back_real, back_imaginary = (e(graph.flip, v, axes=(axis,)) for v in (real, imaginary))
    even = e.map(graph.add, real, back_real), e.map(graph.sub, imaginary, back_imaginary)
    odd = e.map(graph.add, imaginary, back_imaginary), e.map(graph.sub, back_real, real)
    out = _plus(e, even, _turned(e, odd, *_turns(np.arange(half + 1), length), sign))
    return e.map(graph.mul, out[0], 0.5), e.map(graph.mul, out[1], 0.5)


def _passes(e: Emitter, x: Complex, length: int, sign: int) -> Complex:
    """The complex transform of [.., length], without a scale."""
    lead = shape_of(x[0])[:-1]
    axis, done = len(lead), 1
    for p in radices(length):
        rest = length // (done * p)
        split = [e.reshape(v, (*lead, done, p, rest)) for v in x]
        y = _butterfly(
            e, [(e.slice(split[0], axis + 1, j, 1), e.slice(split[1], axis + 1, j, 1)) for j in range(p)], sign
        )
        real, imaginary = (
            e.concat([e.reshape(v, (*lead, 1, done, rest)) for v in part], axis) for part in zip(*y, strict=True)
        )
        x = real, imaginary
        if rest > 1:
            x = _turned(e, x, *_turns(np.arange(p)[:, None, None] * done * np.arange(rest), length), sign)
        x = e.reshape(x[0], (*lead, length)), e.reshape(x[1], (*lead, length))
        done *= p
    return x


def _butterfly(e: Emitter, x: list[Complex], sign: int) -> list[Complex]:
    """The transform of as many elements as `x` has tensors: 2, 4 or an odd number."""
    p = len(x)
    if p == 2:
        return [_plus(e, x[0], x[1]), _minus(e, x[0], x[1])]
    if p == 4:
        even, even_less = _plus(e, x[0], x[2]), _minus(e, x[0], x[2])
        odd, odd_less = _plus(e, x[1], x[3]), _minus(e, x[1], x[3])
        turned = _times_i(e, odd_less) if sign > 0 else (odd_less[1], e.map(graph.neg, odd_less[0]))
        return [_plus(e, even, odd), _plus(e, even_less, turned), _minus(e, even, odd), _minus(e, even_less, turned)]
    pairs = range(1, (p + 1) // 2)
    sums, differences = [_plus(e, x[j], x[p - j]) for j in pairs], [_minus(e, x[j], x[p - j]) for j in pairs]
    out = [x[0]] * p
    for total in sums:
        out[0] = _plus(e, out[0], total)
    for u in pairs:
        cos, sin = _turns(u * np.arange(1, p), p)
        symmetric, opposite = x[0], None
        for j in pairs:
            symmetric = _plus(e, symmetric, _times(e, sums[j - 1], cos[j - 1]))
            term = _times(e, differences[j - 1], sign * sin[j - 1])
            opposite = term if opposite is None else _plus(e, opposite, term)
        assert opposite is not None, "an odd number above 1 has pairs"
        opposite = _times_i(e, opposite)
        out[u], out[p - u] = _plus(e, symmetric, opposite), _minus(e, symmetric, opposite)
    return out


def _plus(e: Emitter, a: Complex, b: Complex) -> Complex:
    return e.map(graph.add, a[0], b[0]), e.map(graph.add, a[1], b[1])


def _minus(e: Emitter, a: Complex, b: Complex) -> Complex:
    return e.map(graph.sub, a[0], b[0]), e.map(graph.sub, a[1], b[1])


def _times(e: Emitter, a: Complex, by: float) -> Complex:
    return e.map(graph.mul, a[0], float(by)), e.map(graph.mul, a[1], float(by))


def _times_i(e: Emitter, a: Complex) -> Complex:
    return e.map(graph.neg, a[1]), a[0]


def _turned(e: Emitter, x: Complex, cos: Array, sin: Array, sign: int) -> Complex:
    """`x` times cos + sign i sin."""
    c, s = (e.cast(e.constant(v), elem_of(x[0])) for v in (cos, sign * sin))
    real = e.map(graph.sub, e.map(graph.mul, x[0], c), e.map(graph.mul, x[1], s))
    return real, e.map(graph.add, e.map(graph.mul, x[0], s), e.map(graph.mul, x[1], c))


# by matrices


def _bases(rows: int, columns: int, length: int) -> tuple[Array, Array]:
    """cos and sin of 2 pi k n / length, as [rows, columns]."""
    return _turns(np.arange(rows)[:, None] * np.arange(columns), length)


def _product(e: Emitter, x: Value, matrix: Array) -> Value:
    """x [.., n] times matrix [k, n] along the last dim."""
    lead = "abcdefgh"[: tensor(x).rank - 1]
    return e.contract(x, e.cast(e.constant(matrix), elem_of(x)), f"{lead}n,kn->{lead}k")


def _by_matrices(
    e: Emitter, real: Value, imaginary: Value | None, length: int, *, inverse: bool, onesided: bool
) -> tuple[Value, ...]:
    n = static(shape_of(real)[-1])
    if inverse and onesided:
        return (_real_inverse(e, real, imaginary, length),)
    rows = length // 2 + 1 if onesided else length
    cos, sin = _bases(rows, min(n, length), length)
    scale = 1 / length if inverse else 1.0
    real = e.slice(real, -1, 0, min(n, length))
    sign = 1.0 if inverse else -1.0
    out_real, out_imaginary = _product(e, real, cos * scale), _product(e, real, sin * (sign * scale))
    if imaginary is not None:
        imaginary = e.slice(imaginary, -1, 0, min(n, length))
        out_real = e.map(graph.sub, out_real, _product(e, imaginary, sin * (sign * scale)))
        out_imaginary = e.map(graph.add, out_imaginary, _product(e, imaginary, cos * scale))
    return out_real, out_imaginary


def _real_inverse(e: Emitter, real: Value, imaginary: Value | None, length: int) -> Value:
    """The real signal whose non-negative frequencies are given; the others are their conjugates."""
    n = static(shape_of(real)[-1])
    bins = min(n, length // 2 + 1)
    cos, sin = _bases(length, bins, length)
    weight = np.where((np.arange(bins) == 0) | (2 * np.arange(bins) == length), 1.0, 2.0) / length
    out = _product(e, e.slice(real, -1, 0, bins), cos * weight)
    if imaginary is not None:
        out = e.map(graph.sub, out, _product(e, e.slice(imaginary, -1, 0, bins), sin * weight))
    return out

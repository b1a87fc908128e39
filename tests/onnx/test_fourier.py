"""Fourier transforms beside numpy's in double precision: lengths of all kinds of factors, both ways, cut and filled."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from graphfuse.errors import UnsupportedError
from graphfuse.frontends.onnx.ops.fourier import is_fast, radices
from graphfuse.onnx_backend import Backend

LENGTHS = (1, 20, 34)
MORE = (2, 9, 10, 32, 77, 120)


def dft(x, length=None, **attributes):
    """Along the last axis but one."""
    inputs = [x] if length is None else [x, np.array(length)]
    names = ["x", "n"][: len(inputs)]
    return Backend.run_node(helper.make_node("DFT", names, ["y"], **attributes), inputs)[0]


def signal(n, parts, dtype=np.float32):
    return np.random.default_rng(n).standard_normal((3, n, parts)).astype(dtype)


def exact(x):
    wide = x.astype(np.float64)
    return wide[..., 0] + 1j * wide[..., 1] if x.shape[-1] == 2 else wide[..., 0]


def close(found, want, eps):
    found = found.astype(np.float64)
    found = found[..., 0] + 1j * found[..., 1] if found.shape[-1] == 2 else found[..., 0]
    assert found.shape == want.shape
    assert np.linalg.norm(found - want) <= 4 * eps * np.linalg.norm(want)


def test_factors():
    assert [radices(n) for n in (1, 2, 10, 32, 120, 101)] == [[], [2], [2, 5], [2, 4, 4], [2, 4, 3, 5], [101]]
    assert [is_fast(n) for n in (*LENGTHS, *MORE)] == [n != 34 for n in (*LENGTHS, *MORE)]


@pytest.mark.parametrize("n", [*LENGTHS, *(pytest.param(n, marks=pytest.mark.full) for n in MORE)])
def test_transforms(n):
    z, x, half = signal(n, 2), signal(n, 1), signal(n // 2 + 1, 2)
    eps = 2.0**-23
    close(dft(z), np.fft.fft(exact(z)), eps)
    close(dft(z, inverse=1), np.fft.ifft(exact(z)), eps)
    close(dft(x), np.fft.fft(exact(x)), eps)
    close(dft(x, onesided=1), np.fft.rfft(exact(x)), eps)
    close(dft(half, n, inverse=1, onesided=1), np.fft.irfft(exact(half), n), eps)


@pytest.mark.parametrize(("dtype", "eps"), [(np.float16, 2.0**-11), (np.float64, 2.0**-52)])
def test_other_elements(dtype, eps):
    z = signal(12, 2, dtype)
    found = dft(z)
    assert found.dtype == dtype
    close(found, np.fft.fft(exact(z)), eps)


@pytest.mark.parametrize("n", [6, pytest.param(17, marks=pytest.mark.full), 24])
def test_cut_and_filled(n):
    z, x = signal(20, 2), signal(20, 1)
    close(dft(z, n), np.fft.fft(exact(z), n), 2.0**-23)
    close(dft(x, n, onesided=1), np.fft.rfft(exact(x), n), 2.0**-23)
    close(dft(z, n, inverse=1, onesided=1), np.fft.irfft(exact(z), n), 2.0**-23)


def test_ends_of_a_real_spectrum_are_real():
    found = dft(signal(20, 1))
    np.testing.assert_array_equal(found[:, [0, 10], 1], 0)
    np.testing.assert_array_equal(found[:, 11:], found[:, 9:0:-1] * np.array([1, -1], np.float32))


def test_the_longest():
    x = signal(1 << 14, 1)[:1]
    close(dft(x, onesided=1), np.fft.rfft(exact(x)), 2.0**-22)
    with pytest.raises(UnsupportedError, match="from 1 to 8192, or to 1048576 of prime factors up to 11, got 8209"):
        dft(signal(8209, 1)[:1])


def test_frames():
    x, window = signal(64, 1), np.hanning(20).astype(np.float32)
    node = helper.make_node("STFT", ["x", "step", "window"], ["y"], onesided=1)
    (found,) = Backend.run_node(node, [x, np.array(4), window])
    frames = np.stack([exact(x)[:, at : at + 20] for at in range(0, 45, 4)], 1)
    close(found, np.fft.rfft(frames * window), 2.0**-22)
    assert helper.np_dtype_to_tensor_dtype(found.dtype) == TensorProto.FLOAT

"""Divisors that are positive because of the numbers of a launch."""

from __future__ import annotations

import numpy as np
import pytest

import graphfuse
from graphfuse.blockopt.divisors import are_positive
from graphfuse.kernels.kernel import Kernel
from graphfuse.kernels.specialise import Facts, asked_of
from tests.kernels.running import FOLDER
from tests.kernels.test_seeds import _dot

TEXT = (FOLDER / "seeds/matmul_grouped.tc").read_text()
GUARD = "max(min(cdiv(M, TM) - first, GROUP), 1)"
BARE = TEXT.replace(GUARD, "min(cdiv(M, TM) - first, GROUP)")
TILE = (64, 64, 32)


def grouped(text):
    assert GUARD in TEXT
    made = graphfuse.kernel(text, TYPE="half", TM=64, TN=64, TK=32, GROUP=2, device="emulator")
    assert isinstance(made, Kernel)
    return made


def divisors(kernel):
    return asked_of(kernel.func, kernel.parameters, Facts(1, tuple((16, True) for _ in kernel.parameters)))


def test_what_a_launch_has_to_tell():
    assert divisors(grouped(TEXT)) == ()
    (rows,) = divisors(grouped(BARE))
    sizes = {"M": 200, "N": 130, "K": 64}
    assert are_positive((rows,), sizes, 4 * 3)
    assert not are_positive((rows,), sizes, 4 * 3 + 1), "a program beyond the last tile"


@pytest.mark.parametrize("more", [0, 2, 3])
def test_products_in_groups_without_a_guard(more):
    """By TMA, unless there are programs of a group that begins beyond the last row."""
    job = _dot("matmul_grouped", "half", (136, 88, 48), TILE, GROUP=2)
    kernel, (check,) = grouped(BARE), job.checks
    programs = job.grid[0] + more
    kernel[programs](*job.args)
    np.testing.assert_allclose(check.got.astype(np.float64), check.want, rtol=0, atol=check.error)
    assert kernel.compiled[0].launch is not None
    assert len(kernel.compiled[0].launch.tensor_maps) == (0 if more == 3 else 3)


def test_both_are_kept():
    kernel = graphfuse.kernel(
        "__global__ void f(int *y, int n) {\n  int p = get_program_id(0);\n  *(y + p) = p / (n - p);\n}\n"
    )
    assert isinstance(kernel, Kernel)
    for n, programs in ((5, 5), (3, 5), (5, 5)):
        y = np.full(5, -9, np.int32)
        kernel[programs](y, n)
        want = [int(p / (n - p)) if n != p else 0 for p in range(programs)]
        assert y.tolist() == want
    assert len(kernel.compiled) == 2

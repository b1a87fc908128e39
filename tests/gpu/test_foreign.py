"""PTX that Triton and NVRTC wrote: it runs, computes what it should, and nothing is said to be wrong with it."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.gpu.emulator.check import compared
from tests.gpu.foreign import inductor
from tests.gpu.foreign.cases import ARCHS, CASES, CUDA, text


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", CASES)
def test_it_runs(name: str, arch: str) -> None:
    case, ptx = CASES[name](), text(name, arch)
    for seed in range(3):
        done = case.run(name, ptx, seed)
        assert [str(f) for f in done.findings if not f.is_note] == []
        assert all(f.loc and f.loc.file == "triton_kernels.py" for f in done.findings)


@pytest.mark.parametrize("name", CUDA)
def test_cuda_runs(name: str) -> None:
    case, ptx = CUDA[name](), text("cuda", "sm_80")
    for seed in range(3):
        assert [str(f) for f in case.run(name, ptx, seed).findings] == []


def test_what_is_dropped() -> None:
    x, out = (CASES["dropout"]().arguments[i] for i in (1, 0))
    done = CASES["dropout"]().run("dropout", text("dropout", "sm_80"))
    out = done.arguments["dropout_param_0"]
    kept = out != 0
    np.testing.assert_allclose(out[kept], x[kept] / 0.75, rtol=1e-6)
    assert 0.7 < kept.mean() < 0.8


@pytest.mark.parametrize("name", inductor.FUNCTIONS)
def test_inductor_runs(name: str) -> None:
    """What the kernels of a function leave is what eager torch does, and nothing is said to be wrong with them."""
    done = inductor.run(name)
    assert [str(f) for f in done.findings if not f.is_note] == []
    if not inductor.FUNCTIONS[name].is_random:
        for found, wanted in zip(done.results, inductor.FUNCTIONS[name].results(), strict=True):
            assert compared(name, found, inductor.as_numpy(wanted)) == []

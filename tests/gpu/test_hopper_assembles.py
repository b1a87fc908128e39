"""Products for sm_90a assemble with no wgmma serialised and hardly a spill, whatever comes after the product."""

from __future__ import annotations

import pytest

from benchmarks.gemm_kernels import Gemm
from benchmarks.gemm_regions import region_text
from graphfuse.gpu import assembler
from graphfuse.gpu.assembler import assemble
from graphfuse.gpu.lower import emit_ptx, lower
from graphfuse.gpu.pipeline import transformed
from graphfuse.ir.parser import parse
from graphfuse.target import Target

TARGET = Target.parse("cuda:sm_90a")
SHAPES = ((2048, 3072, 768), (2048, 768, 3072), (2048, 2048, 2048), (1024, 768, 768), (1024, 1024, 4096))
"""One for every schedule."""
KINDS = {"plain": {}, "bias": {"bias": True}, "residual": {"residual": True}, "gelu": {"bias": True, "gelu": True}}
MOST_SPILLED = 32
"""Bytes, stored and loaded again."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nothing_is_serialised(shape, kind):
    func = transformed(parse(region_text(Gemm(*shape, **KINDS[kind]))), TARGET)
    done = assemble(emit_ptx(lower([func], TARGET)).rstrip("\0\n") + "\n", "sm_90a")
    if done is None:
        pytest.skip("no assembler")
    assert not done.warnings
    (found,) = done.resources.values()
    assert found.spill_bytes <= MOST_SPILLED


def test_who_assembles_kernels_that_pass_registers_on(monkeypatch):
    """Not nvJitLink, which would ignore it."""
    monkeypatch.setattr(assembler, "_ptxas", lambda: "")
    monkeypatch.setattr(assembler, "_library", lambda: pytest.fail("nvJitLink was asked"))
    assert assemble("setmaxnreg.inc.sync.aligned.u32 232;", "sm_90a") is None


def test_a_note_on_registers_is_a_warning():
    log = "ptxas info    : (C7504) Potential Performance Loss: 'setmaxnreg' ignored to maintain compatibility"
    assert assembler.read_warnings(log) == (
        "(C7504) Potential Performance Loss: 'setmaxnreg' ignored to maintain compatibility",
    )

"""Products for sm_90a assemble with no wgmma serialised and hardly a spill, whatever comes after the product."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks import gemm_regions
from benchmarks.gemm_kernels import Gemm
from benchmarks.gemm_regions import region_text
from graphfuse.blockgen.gpu_wgmma_tile import WgmmaTile
from graphfuse.blockgen.lower import GPU_EMITTERS, lower_region
from graphfuse.dialects import gpu, graph
from graphfuse.fusion.regions.outline import outline
from graphfuse.fusion.regions.rules import Rules
from graphfuse.gpu import assembler
from graphfuse.gpu.assembler import assemble
from graphfuse.gpu.lower import emit_ptx, lower
from graphfuse.gpu.pipeline import transformed
from graphfuse.ir.parser import parse
from graphfuse.ir.types import F32
from graphfuse.targets import Target
from graphfuse.targets.machine import GpuMachine
from tests.blockgen.support import graph_func, region_ops

TARGET = Target.parse("cuda:sm_90a")
SHAPES = ((2048, 3072, 768), (2048, 768, 3072), (2048, 2048, 2048), (1024, 768, 768), (1024, 1024, 4096))
"""One for every schedule."""
KINDS = {"plain": {}, "bias": {"bias": True}, "residual": {"residual": True}, "gelu": {"bias": True, "gelu": True}}
MOST_SPILLED = 32
"""Bytes, stored and loaded again."""


@pytest.mark.some(10)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nothing_is_serialised(shape, kind):
    func = transformed(parse(region_text(Gemm(*shape, **KINDS[kind]))), TARGET)
    done = assemble(emit_ptx(lower([func], TARGET)).rstrip("\0\n") + "\n", "sm_90a")
    if done is None:
        pytest.skip("no assembler")
    assert not done.warnings
    (found,) = done.resources.values()
    assert 0 <= found.spill_bytes <= MOST_SPILLED


BY_ONE = "strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], input_dilation = [1, 1]"
GATHERING = {
    "a projection and it times cos": ("x: 2048x4096xf16, w: 4096x4096xf16, c: 2048x128xf16", """
        p = contract(x, w) {spec = "mk,nk->mn"}; q = reshape(p) {shape = [2048, 32, 128]}
        r = reshape(c) {shape = [2048, 1, 128]}; e = broadcast(r) {shape = [2048, 32, 128]}; y = mul(q, e)
        return(q, y)"""),
    "a number for each image and channel": (
        "x: 2x64x64x320xf16, w: 3x3x320x320xf16, t: 2x320xf16", f"""
        p = pad(x) {{low = [0, 1, 1, 0], high = [0, 1, 1, 0], value = 0.0}}
        y = conv(p, w) {{{BY_ONE}, layout = "nhwc"}}
        r = reshape(t) {{shape = [2, 1, 1, 320]}}; e = broadcast(r) {{shape = [2, 64, 64, 320]}}; z = add(y, e)
        return(z)"""),
}  # fmt: skip


@pytest.mark.parametrize("name", GATHERING)
def test_epilogues_that_gather_spill_nothing(name):
    """They did, by mma.sync in tiles of 256x256 and 128x192, as no view is what they read."""
    func, _ = outline(graph_func(*GATHERING[name]), Rules(reads_padded=True))
    (region,) = region_ops(func)
    machine = GpuMachine(has_wgmma=True)
    done = transformed(lower_region(region, "k", func.ranges, machine, GPU_EMITTERS), TARGET)
    assert any(op.kind is gpu.wgmma for op in done.walk())
    made = assemble(emit_ptx(lower([done], TARGET)).rstrip("\0\n") + "\n", "sm_90a")
    if made is None:
        pytest.skip("no assembler")
    assert not made.warnings
    assert [found.spill_bytes for found in made.resources.values()] == [0]


def gelu_by_erf(b, x, shape):
    """x / 2 (1 + erf(x / sqrt(2)))."""
    half, root, one = (b(graph.full, shape=shape, value=value, elem=F32) for value in (0.5, 2.0**-0.5, 1.0))
    return b(graph.mul, b(graph.mul, x, half), b(graph.add, b(graph.erf, b(graph.mul, x, root)), one))


@pytest.mark.parametrize("elem", ["bf16", "f16"])
def test_the_polynomials_of_erf_spill_nothing(elem, monkeypatch):
    """128 accumulators in a thread: 36 and 24 bytes were spilled where all of the bias was read ahead."""
    monkeypatch.setattr(gemm_regions, "_gelu", gelu_by_erf)
    gemm = Gemm(2048, 3072, 768, elem=elem, out=elem, bias=True, gelu=True)
    func = transformed(parse(region_text(gemm, WgmmaTile(128, 128, pingpong=True))), TARGET)
    done = assemble(emit_ptx(lower([func], TARGET)).rstrip("\0\n") + "\n", "sm_90a")
    if done is None:
        pytest.skip("no assembler")
    assert [found.spill_bytes for found in done.resources.values()] == [0]


def test_who_assembles_kernels_that_pass_registers_on(monkeypatch):
    """Not nvJitLink, which would ignore it."""
    monkeypatch.setattr(assembler, "_ptxas", lambda: "")
    monkeypatch.setattr(assembler, "_library", lambda: pytest.fail("nvJitLink was asked"))
    assert assemble("setmaxnreg.inc.sync.aligned.u32 232;", "sm_90a") is None


FORKED = """
import importlib, os, types
importlib.import_module = lambda name: types.SimpleNamespace(version=lambda: (13, 0))
from graphfuse.gpu.assembler import assembler_version
print("parent", assembler_version(), flush=True)
if os.fork() == 0:
    print("child", assembler_version() or "none", flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_does_without_the_library():
    """It died in nvJitLink where the parent had loaded that."""
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["parent", "13.0", "child", "none"]


def test_a_note_on_registers_is_a_warning():
    log = "ptxas info    : (C7504) Potential Performance Loss: 'setmaxnreg' ignored to maintain compatibility"
    assert assembler.read_warnings(log) == (
        "(C7504) Potential Performance Loss: 'setmaxnreg' ignored to maintain compatibility",
    )

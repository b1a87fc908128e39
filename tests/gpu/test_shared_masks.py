"""A mask that several attentions read is made in each of their kernels, of the least there is to read."""

from __future__ import annotations

import pytest

from graphfuse.ir.parser import parse
from tests.gpu.test_fused_products import outcome

SCORES, PLANE = "2x2x64x64xf32", "2x1x64x64"


def layer(number: int, x: str) -> str:
    """Attention of `x` to itself, with `%mask` added to its scores."""
    i = f"{x}_{number}"
    row = "tensor<2x2x64x1xf32>"
    return f"""
  %s{i} = graph.contract(%{x}, %{x}) {{elem = f32, spec = "bhqd,bhkd->bhqk"}} : tensor<{SCORES}>
  %z{i} = graph.add(%s{i}, %mask) : tensor<{SCORES}>
  %m{i} = graph.reduce(%z{i}) {{axes = [3], keepdims = true, kind = "max"}} : {row}
  %mb{i} = graph.broadcast(%m{i}) {{shape = [2, 2, 64, 64]}} : tensor<{SCORES}>
  %c{i} = graph.sub(%z{i}, %mb{i}) : tensor<{SCORES}>
  %e{i} = graph.exp(%c{i}) : tensor<{SCORES}>
  %l{i} = graph.reduce(%e{i}) {{axes = [3], keepdims = true, kind = "sum"}} : {row}
  %lb{i} = graph.broadcast(%l{i}) {{shape = [2, 2, 64, 64]}} : tensor<{SCORES}>
  %p{i} = graph.div(%e{i}, %lb{i}) : tensor<{SCORES}>
  %h{i} = graph.cast(%p{i}) {{to = f16}} : tensor<2x2x64x64xf16>
  %y{i} = graph.contract(%h{i}, %{x}) {{spec = "bhqk,bhkd->bhqd"}} : tensor<2x2x64x32xf16>"""


MASKS = {
    "vectors": ("%seen: tensor<2x64xbool>", f"""
  %row = graph.reshape(%seen) {{shape = [2, 1, 1, 64]}} : tensor<2x1x1x64xbool>
  %all = graph.broadcast(%row) {{shape = [2, 1, 64, 64]}} : tensor<{PLANE}xbool>
  %zero = graph.full() {{elem = f16, shape = [2, 1, 64, 64], value = 0.0}} : tensor<{PLANE}xf16>
  %none = graph.full() {{elem = f16, shape = [2, 1, 64, 64], value = -1000.0}} : tensor<{PLANE}xf16>
  %one = graph.select(%all, %zero, %none) : tensor<{PLANE}xf16>"""),
    "a matrix": (f"%one: tensor<{PLANE}xf16>", ""),
}  # fmt: skip
"""What is read, and how it becomes one number for each query and key."""


@pytest.mark.parametrize("name", MASKS)
def test_shared_masks(name):
    read, made = MASKS[name]
    text = f"""
func @main(%x: tensor<2x2x64x32xf16>, %v: tensor<2x2x64x32xf16>, {read}) {{{made}
  %heads = graph.broadcast(%one) {{shape = [2, 2, 64, 64]}} : tensor<2x2x64x64xf16>
  %mask = graph.cast(%heads) {{to = f32}} : tensor<{SCORES}>{layer(0, "x")}{layer(1, "v")}
  return(%yx_0, %yv_1)
}}"""
    executable = outcome(parse(text))
    assert {k.name.partition("_")[0] for k in executable.kernels} == {"attention", "copy"}
    regions = [line for line in executable.ir["regions"].splitlines() if "graph.region" in line]
    assert len(regions) == 2
    assert all(read.partition(": ")[2] in line for line in regions)
    assert not any(d["producer"] == "wgmma" for d in executable.ledger)

"""Matrix products as the compiler makes them: from graph to block function, the tile of its own choice."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from benchmarks.gemm_kernels import Gemm
from graphfuse.blockgen import gpu_contraction, gpu_matmul_tile, gpu_product_costs, gpu_tiles
from graphfuse.blockgen.gpu_matmul_tile import ProductTile
from graphfuse.blockgen.gpu_product_costs import ProductCosts
from graphfuse.blockgen.gpu_wgmma_tile import STEP_BYTES, WgmmaTile
from graphfuse.compiler import Options, stages
from graphfuse.dialects import block, control, graph
from graphfuse.gpu import graph_passes
from graphfuse.ir.core import Builder, Func, Params, Value
from graphfuse.ir.printer import to_text
from graphfuse.ir.types import F32, Tensor, scalar
from graphfuse.ir.verifier import verify
from graphfuse.targets import Target

TARGET = Target.parse("cuda:sm_90a")
ROWS: dict[str, AbstractContextManager[Any]] = {
    "as stored": patch.object(ProductCosts, "stays", lambda *_: True),
    "copied": patch.object(gpu_product_costs, "_loads_us", lambda *_, **__: 1e9),
}
"""What becomes of operands whose rows TMA cannot read, instead of what the compiler's model says."""
WHOLE = patch.object(graph_passes, "sum_parts", lambda _: lambda *_: 1)
"""No long sum is made in parts by a kernel of its own."""


def region_text(
    gemm: Gemm,
    tile: WgmmaTile | ProductTile | None = None,
    step_bytes: int = STEP_BYTES,
    attrs: Mapping[str, int] | None = None,
    target: Target = TARGET,
    group: int = gpu_tiles.GROUP,
) -> str:
    """The block function for a shape, its epilogue and its layouts; what else `gemm` says does not matter.

    As in a model of 16-bit floats: every op but GELU has their type. `tile` is one instead of the compiler's choice,
    in steps of so many bytes of K; `attrs` are put on the function; `group` tiles of rows go through the columns
    together.
    """
    if tile is None:
        return to_text(_kernel(gemm, target))
    chosen = patch.multiple(gpu_matmul_tile, wgmma_tiles=lambda *_, **__: [tile], step_bytes=lambda *_: step_bytes)
    if isinstance(tile, ProductTile):
        ways = [tile]
        chosen = patch.multiple(gpu_contraction, product_tiles=lambda *_, **__: ways, boxed_tiles=lambda *_, **__: ways)
    with chosen, WHOLE, ROWS["as stored"]:
        func = _kernel(gemm, target)
    return to_text(Func(func.name, func.body, {**func.attrs, **(attrs or {})}, func.dims))


def _kernel(gemm: Gemm, target: Target) -> Func:
    """The only kernel of a product."""
    func = product(gemm)
    done = stages(func, target, Options())
    kernels = list(done.kernels.values())
    if len(kernels) != 1:
        raise ValueError(f"expected one kernel, found {list(done.kernels)}")
    (region,) = done.region_ops.values()
    found = [v.hint for v in region.operands]
    assert found == [v.hint for v in func.params], f"the kernel takes {found}"
    return kernels[0]


def kernels_of(gemm: Gemm, target: Target = TARGET) -> dict[str, str]:
    """The block functions that the compiler makes of a product, the one that multiplies first."""
    found = stages(product(gemm), target, Options()).kernels
    order = sorted(found, key=lambda name: not any(op.kind is block.dot for op in found[name].walk()))
    return {name: to_text(found[name]) for name in order}


def product(gemm: Gemm) -> Func:
    """The graph."""
    g = gemm
    if g.gate or g.norm or g.symbolic or g.parts > 1:
        raise ValueError("expected a plain product, with bias, residual or GELU")
    params = Params(tuple(Tensor(s, scalar(g.elem)) for _, s in g.inputs), tuple(name for name, _ in g.inputs))
    values = dict(zip(params.hints, params.values, strict=True))
    b = Builder()

    def wide(name: str) -> Value:
        return b(graph.broadcast, values[name], shape=(g.m, g.n))

    spec = f"{'km' if g.ta else 'mk'},{'nk' if g.tb else 'kn'}->mn"
    out = b(graph.contract, values["a"], values["b"], spec=spec)
    if g.bias:
        out = b(graph.add, out, wide("bias"))
    if g.residual:
        out = b(graph.add, out, values["residual"])
    if g.gelu:
        out = b(graph.cast, _gelu(b, b(graph.cast, out, to=F32), (g.m, g.n)), to=scalar(g.out))
    b.append(control.return_(out))
    func = Func("main", b.block(params), {"inputs": params.hints, "outputs": ("out",)}, ())
    verify(func)
    return func


def _gelu(b: Builder, x: Value, shape: tuple[int, int]) -> Value:
    """x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""

    def number(value: float) -> Value:
        return b(graph.full, shape=shape, value=value, elem=F32)

    inner = b(graph.add, b(graph.mul, b(graph.mul, x, x), number(0.035677408136300125)), number(0.7978845608028654))
    tanh = b(graph.tanh, b(graph.mul, inner, x))
    half = b(graph.mul, x, number(0.5))
    return b(graph.add, half, b(graph.mul, half, tanh))

"""Quantised weights stay bytes where few rows are multiplied by them, and nowhere else; numbers are no further off."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from graphfuse.compiler import stages
from graphfuse.dialects import graph
from graphfuse.frontends.onnx import import_model
from graphfuse.fusion.regions.outline import outline
from graphfuse.interp import graph as interp
from graphfuse.ir.core import Func, tensor_of
from graphfuse.knobs import Options
from graphfuse.targets import Target
from graphfuse.targets.machine import GpuMachine
from tests.blockgen.support import AVX512, Case, check_blocks, graph_func

AMPERE, HOPPER = (Target.parse(f"cuda:{arch}") for arch in ("sm_80", "sm_90a"))
K, N = 288, 256
ELEMS = {"f32": (TensorProto.FLOAT, np.float32), "bf16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16)}


def dequantised(
    *, rows=32, scale="column", zero=None, stored=np.int8, block=0, transposed=False, elem="bf16", spread=100
) -> Func:
    """x @ dequantise(q), or x @ dequantise(q).T, as an exporter writes it; `zero` is subtracted."""
    rng = np.random.default_rng(0)
    onnx_elem, dtype = ELEMS[elem]
    shape = (N, K) if transposed else (K, N)
    axis = 0 if transposed else 1
    low = max(np.iinfo(stored).min, (zero or 0) - spread) if stored != ml_dtypes.int4 else -8
    high = min(np.iinfo(stored).max, (zero or 0) + spread) if stored != ml_dtypes.int4 else 7
    q = rng.integers(low, high + 1, shape).astype(stored)
    sizes = {"column": (N,), "tensor": ()}[scale] if not block else (K // block, N)
    weights = {"q": q, "s": ((1 + rng.random(sizes)) / 64).astype(dtype)}
    if zero is not None:
        weights["z"] = np.full(sizes, zero, stored)
    attrs = {"axis": 0, "block_size": block} if block else {"axis": axis}
    nodes = [helper.make_node("DequantizeLinear", list(weights), ["w"], **attrs)]
    nodes += [helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0])] if transposed else []
    nodes.append(helper.make_node("MatMul", ["x", "t" if transposed else "w"], ["y"]))
    made = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx_elem, [rows, K])],
        [helper.make_tensor_value_info("y", onnx_elem, [rows, N])],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    return import_model(helper.make_model(made, opset_imports=[helper.make_opsetid("", 23)], ir_version=10))


PRODUCTS = graph.contract, graph.contract_blocks, graph.contract_packed


def stored_as(func: Func, target=AMPERE, **options) -> list[str]:
    """The elements of what each product of the compiled function multiplies x by."""
    done = stages(func, target, Options(**options))
    products = [op for op in done.regions.walk() if op.kind in PRODUCTS]
    return [tensor_of(p.operands[1]).elem.name for p in products]


@pytest.mark.parametrize(
    "case",
    [
        {}, {"rows": 17}, {"rows": 64}, {"scale": "tensor"}, {"transposed": True}, {"stored": np.uint8, "zero": 128},
        {"zero": 3}, {"zero": 3, "scale": "tensor"}, {"stored": ml_dtypes.int4}, {"elem": "f32"},
        {"block": 32}, {"block": 96, "zero": 3}, {"stored": ml_dtypes.int4, "block": 32},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("target", [AMPERE, HOPPER], ids=str)
def test_stays_codes(case, target):
    """Bytes, or words of codes that are widened beside `wgmma`."""
    func = dequantised(**case)
    assert stored_as(func, target) == ["i32" if target == HOPPER and case.get("elem") != "f32" else "i8"]
    new = stages(func, target, Options()).regions
    x = np.random.default_rng(1).standard_normal((case.get("rows", 32), K)).astype(ELEMS[case.get("elem", "bf16")][1])
    (exact,) = interp.run(func, x.astype(np.float64), wide=True)
    before, after = (np.linalg.norm(interp.run(f, x)[0].astype(np.float64) - exact) for f in (func, new))
    assert after <= 1.1 * before


def test_bytes_without_a_sign_stay_what_they_are():
    assert stored_as(dequantised(stored=np.uint8, spread=255)) == ["u8"]


@pytest.mark.parametrize(
    "case",
    [{"rows": 128}, {"zero": 100, "spread": 250}, {"block": 16}],
    ids=["many rows", "a zero point that leaves no byte", "small blocks"],
)
def test_is_made_floats_when_compiling(case):
    assert stored_as(dequantised(**case)) == ["bf16"]


def test_under_strict_rounds_as_written():
    assert stored_as(dequantised(), numerics="strict") == ["bf16"]


def test_a_model_of_f32_multiplies_halves_under_a_precision():
    func = dequantised(elem="f32")
    done = stages(func, AMPERE, Options(precision="bf16"))
    (product,) = (op for op in done.regions.walk() if op.kind is graph.contract)
    assert [tensor_of(v).elem.name for v in product.operands] == ["bf16", "i8"]


def test_blocks_keep_their_scales():
    done = stages(dequantised(block=96), AMPERE, Options())
    (product,) = (op for op in done.regions.walk() if op.kind is graph.contract_blocks)
    assert tensor_of(product.operands[2]).shape == (N, K // 32)
    func = dequantised(elem="f32", block=32)
    regions = stages(func, AMPERE, Options(precision="bf16")).regions
    (product,) = (op for op in regions.walk() if op.kind is graph.contract_blocks)
    assert tensor_of(product.operands[0]).elem.name == "bf16"


@pytest.mark.parametrize("machine", [GpuMachine(), GpuMachine(has_wgmma=True)])
@pytest.mark.parametrize(("rows", "block"), [(1, 128), (16, 128), (16, 32), (70, 64)])
def test_blocks_of_scales(machine, rows, block):
    func = graph_func(f"x: {rows}x512xbf16, q: 80x512xi8, s: 80x{512 // block}xbf16", """
        p = contract_blocks(x, q, s) {spec = "mk,nk->mn"}; y = cast(p) {to = bf16}; return(y)""")  # fmt: skip
    check_blocks(outline(func)[0], Case("blocks", (), func).arrays({}), machine)


@pytest.mark.parametrize("machine", [AVX512, GpuMachine(), GpuMachine(has_wgmma=True)])
@pytest.mark.parametrize(("rows", "elem"), [(1, "bf16"), (16, "bf16"), (70, "f16"), (16, "f32")])
@pytest.mark.parametrize("spec", ["mk,nk->mn", "mk,kn->mn"])
def test_every_target_converts(machine, rows, elem, spec):
    q = "80x300" if spec == "mk,nk->mn" else "300x80"
    func = graph_func(f"x: {rows}x300x{elem}, q: {q}xi8", f"""
        p = contract(x, q) {{elem = f32, spec = "{spec}"}}; y = cast(p) {{to = {elem}}}; return(y)""")  # fmt: skip
    check_blocks(outline(func)[0], Case("bytes", (), func).arrays({}), machine)

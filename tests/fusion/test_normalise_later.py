"""Norms after their products are as near to the exact result as norms before them, but for means under `fast`."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from graphfuse.compiler import stages
from graphfuse.dialects import graph
from graphfuse.fusion.products.normalise_later import normalise_later
from graphfuse.interp import graph as interp
from graphfuse.ir.core import Func, tensor_of
from graphfuse.ir.parser import parse
from graphfuse.knobs import Options
from graphfuse.targets import Target
from tests.blockgen.support import region_ops

HOPPER = Target.parse("cuda:sm_90a")
K, N = 256, 24


def numbers(name: str, shape: str, values: np.ndarray, elem: str = "bf16") -> str:
    """A constant."""
    text = " ".join(str(float(v)) for v in values.astype(ml_dtypes.bfloat16).reshape(-1))
    return f"%{name} = graph.constant() {{value = dense<{shape}x{elem}, [{text}]>}} : tensor<{shape}x{elem}>"


def norm(*, mean: bool, rows: int = 32, end: str = "return(%y)") -> Func:
    """RMSNorm or layer norm of bf16, as ONNX has it, and a product."""
    rng = np.random.default_rng(1)
    wide, one, half = (f"tensor<{rows}x{d}>" for d in (f"{K}xf32", "1xf32", f"{K}xbf16"))
    centre = f"""
        %t = graph.reduce(%f) {{axes = [1], keepdims = true, kind = "sum"}} : {one}
        %a = graph.div(%t, %k) : {one}
        %ab = graph.broadcast(%a) {{shape = [{rows}, {K}]}} : {wide}
        %c = graph.sub(%f, %ab) : {wide}"""
    shift = f"""
        %hb = graph.broadcast(%h) {{shape = [{rows}, {K}]}} : {half}
        %z = graph.add(%zg, %hb) : {half}"""
    c, z = ("%c", "%z") if mean else ("%f", "%zg")
    return parse(f"""func @main(%x: {half}) {{inputs = ["x"], outputs = ["y"]}} {{
        {numbers("w", f"{K}x{N}", rng.standard_normal((K, N)))}
        {numbers("g", f"{K}", 1 + rng.standard_normal(K) / 10)}
        {numbers("h", f"{K}", rng.standard_normal(K))}
        %k = graph.full() {{elem = f32, shape = [{rows}, 1], value = {float(K)}}} : {one}
        %f = graph.cast(%x) {{to = f32}} : {wide}{centre if mean else ""}
        %q = graph.mul({c}, {c}) : {wide}
        %s = graph.reduce(%q) {{axes = [1], keepdims = true, kind = "sum"}} : {one}
        %v = graph.div(%s, %k) : {one}
        %r = graph.sqrt(%v) : {one}
        %rb = graph.broadcast(%r) {{shape = [{rows}, {K}]}} : {wide}
        %d = graph.div({c}, %rb) : {wide}
        %n = graph.cast(%d) {{to = bf16}} : {half}
        %gb = graph.broadcast(%g) {{shape = [{rows}, {K}]}} : {half}
        %zg = graph.mul(%n, %gb) : {half}{shift if mean else ""}
        %y = graph.contract({z}, %w) {{elem = f32, spec = "mk,kn->mn"}} : tensor<{rows}x{N}xf32>
        {end}
    }}""")


def errors(func: Func, new: Func, x: np.ndarray) -> tuple[float, float]:
    """Of the norm before and after the product, relative to the exact result."""
    x = x.astype(ml_dtypes.bfloat16)
    (exact,) = interp.run(func, x.astype(np.float64), wide=True)
    return tuple(
        float(np.linalg.norm(interp.run(f, x)[0].astype(np.float64) - exact) / np.linalg.norm(exact))
        for f in (func, new)
    )


def test_a_root_mean_square_loses_nothing() -> None:
    func = norm(mean=False)
    new = normalise_later(func)
    x = np.random.default_rng(0).standard_normal((32, K)) * np.geomspace(1e-4, 1e4, 32)[:, None] + 3
    before, after = errors(func, new, x)
    assert after <= before


@pytest.mark.parametrize(("mean", "bound"), [(0, 1.0), (4, 1.0), (64, 1.0)])
def test_a_mean_is_cancelled_in_f32(mean: float, bound: float) -> None:
    """bf16 itself has 8 digits for mean and deviation together, so that even at 64 deviations f32 has enough."""
    func = norm(mean=True)
    new = normalise_later(func, centred=True)
    before, after = errors(func, new, np.random.default_rng(0).standard_normal((32, K)) + mean)
    assert after <= bound * before


BIASED = f"""%c0 = graph.constant() {{value = dense<{N}xf32, [{" ".join(map(str, range(N)))}]>}} : tensor<{N}xf32>
        %cb = graph.broadcast(%c0) {{shape = [32, {N}]}} : tensor<32x{N}xf32>
        %o = graph.add(%y, %cb) : tensor<32x{N}xf32>"""


@pytest.mark.parametrize(("end", "adds"), [
    (f"{BIASED}\n        return(%o)", 2), (f"{BIASED}\n        return(%o, %y)", 3),
])  # fmt: skip
def test_a_bias_joins_the_columns(end: str, adds: int) -> None:
    """Unless something else reads the product without it. The other add is of the mean."""
    func = norm(mean=True, end=end)
    if adds == 3:
        func = replace(func, attrs={**func.attrs, "outputs": ("o", "y")})
    new = normalise_later(func, centred=True)
    after = [op for op in new.walk() if op.kind is graph.add and tensor_of(op.result).shape == (32, N)]
    assert len(after) == adds
    x = np.random.default_rng(0).standard_normal((32, K)).astype(ml_dtypes.bfloat16)
    for exact, found in zip(interp.run(func, x.astype(np.float64), wide=True), interp.run(new, x), strict=True):
        assert np.linalg.norm(found - exact) <= 0.01 * np.linalg.norm(exact)


@pytest.mark.parametrize(("mean", "numerics", "outputs"), [
    (False, "strict", K), (False, "eager", 1), (True, "eager", K), (True, "fast", 1),
])  # fmt: skip
def test_the_kernel_before_the_product_writes_a_number_a_row(mean: bool, numerics: str, outputs: int) -> None:
    done = stages(norm(mean=mean), HOPPER, Options(numerics=numerics))
    first, second = region_ops(done.regions)
    assert (first.attrs["kind"], second.attrs["kind"]) == ("reduction", "contraction")
    assert {t.shape[-1] for t in first.types} == {outputs}
    assert sum(op.kind is graph.contract for op in second.body.ops) == 1

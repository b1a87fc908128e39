"""`--precision`: what stays f32, that nothing overflows which need not, and how the choice is passed on.

The text of both passes is in `lower_precision.gf` and `store_halves.gf`; whole models are in tests/models.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphfuse
from graphfuse import api
from graphfuse.cli import main
from graphfuse.errors import UsageError
from graphfuse.fusion.precision.lower_precision import lower_precision
from graphfuse.fusion.precision.store_halves import store_halves
from graphfuse.fusion.precision.value_ranges import Class, classify, fits
from graphfuse.fusion.regions.outline import outline
from graphfuse.fusion.regions.rules import Rules
from graphfuse.interp.graph import run
from graphfuse.ir.core import Func
from graphfuse.ir.types import BF16, F16, Scalar
from graphfuse.ir.verifier import verify
from graphfuse.knobs import Options
from tests.blockgen.cases import ATTENTION, softmax
from tests.blockgen.support import Case, graph_func

SUM = 's = reduce(x) {axes = [1], kind = "sum"}'
LARGE = "l = full() {elem = f32, shape = [4, 8], value = -1e9}"
EPS = {F16: 2.0**-11, BF16: 2.0**-8}


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHFUSE_CACHE", "0")


# classes


@pytest.mark.parametrize(
    ("values", "half", "bfloat"),
    [
        ([0.1, -3.0], True, True),
        ([-np.inf, 1.0], True, True),
        ([-1e9, 0.0], False, True),
        ([float(np.finfo(np.float32).min), 0.0], False, False),
        ([2047.0, 3.0], True, False),
        ([2049.0, 3.0], False, False),
        ([2049.5, 3.0], True, True),
        ([1e-6, 1e-7], False, True),
        ([0.0, 0.0], True, True),
    ],
)
def test_constants_that_halves_can_hold(values: list[float], half: bool, bfloat: bool) -> None:
    array = np.array(values, np.float32)
    assert (fits(array, F16), fits(array, BF16)) == (half, bfloat)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = neg(x); return(y)", Class.ORDINARY),
        ("y = mul(x, x); return(y)", Class.SUM),
        ("y = exp(x); return(y)", Class.SUM),
        ('y = reduce(x) {axes = [1], kind = "sum", keepdims = true}; return(y)', Class.SUM),
        ('y = reduce(x) {axes = [1], kind = "max", keepdims = true}; return(y)', Class.ORDINARY),
        (f"{SUM}; n = full() {{elem = f32, shape = [4], value = 8.0}}; y = div(s, n); return(y)", Class.MEAN),
        (f"{SUM}; n = full() {{elem = f32, shape = [4], value = 0.125}}; y = mul(s, n); return(y)", Class.MEAN),
        ("y = cast(i) {to = f32}; return(y)", Class.INTEGER),
        ("p = cast(i) {to = f32}; y = sin(p); return(y)", Class.ORDINARY),
        ("p = cast(i) {to = f32}; y = mul(x, p); return(y)", Class.ORDINARY),
        (f"{LARGE}; y = add(x, l); return(y)", Class.WIDE),
        (f"{LARGE}; y = max(x, l); return(y)", Class.ORDINARY),
        (f"{LARGE}; z = add(x, l); y = sigmoid(z); return(y)", Class.ORDINARY),
        (f"{LARGE}; y = div(x, l); return(y)", Class.ORDINARY),
        ("t = iota() {elem = f32, shape = [16], axis = 0}; y = take(t, i) {axis = 0}; return(y)", Class.INTEGER),
        ("t = full() {elem = f32, shape = [16], value = 2.0}; y = take(t, i) {axis = 0}; return(y)", Class.ORDINARY),
    ],
)
def test_classes(body: str, expected: Class) -> None:
    func = graph_func("x: 4x8xf32, i: 4x8xi64", body)
    assert classify(func, F16)[func.outputs[0]] == expected


# numbers


def lowered(func: Func, elem: Scalar) -> Func:
    regions, _ = outline(lower_precision(func, to=elem))
    out = store_halves(regions, to=elem)
    verify(out)
    return out


def stored(func: Func) -> set[str]:
    """The types of what regions exchange."""
    return {str(t) for op in func.body.ops if op.kind.name == "graph.region" for t in op.types}


MLP = """h = contract(x, w) {spec = "mk,kn->mn"}
g = sigmoid(h)
a = mul(h, g)
y = contract(a, v) {spec = "mk,kn->mn"}
return(y)"""

RMS_NORM = """q = mul(x, x)
s = reduce(q) {axes = [1], kind = "sum", keepdims = true}
n = full() {elem = f32, shape = [6, 1], value = 32.0}
m = div(s, n)
r = sqrt(m)
b = broadcast(r) {shape = [6, 32]}
y = div(x, b)
z = contract(y, w) {spec = "mk,kn->mn"}
return(z)"""


@pytest.mark.parametrize("elem", EPS, ids=str)
@pytest.mark.parametrize(
    "case",
    [
        Case("mlp", (), graph_func("x: 16x32xf32, w: 32x24xf32, v: 24x8xf32", MLP)),
        Case("rms_norm", (), graph_func("x: 6x32xf32, w: 32x24xf32", RMS_NORM)),
        Case("softmax", (), graph_func("x: 8x64xf32", softmax(1, "8, 64"))),
        *ATTENTION,
    ],
    ids=lambda case: case.name,
)
def test_results_are_near(case: Case, elem: Scalar) -> None:
    func, sizes = case.func, case.sizes[0]
    if case.special:
        pytest.skip("infinities have no deviation")
    arrays = case.arrays(sizes)
    for want, got in zip(run(func, *arrays), run(lowered(func, elem), *arrays), strict=True):
        if want.dtype != np.float32:
            continue
        assert got.dtype == want.dtype
        assert np.abs(got - want).max() <= 16 * EPS[elem] * np.std(want)


def test_what_regions_exchange_is_halves() -> None:
    func = graph_func("x: 16x32xf32, w: 32x24xf32, v: 24x8xf32", MLP)
    assert stored(lowered(func, F16)) == {"tensor<16x32xf16>", "tensor<32x24xf16>", "tensor<24x8xf16>",
                                         "tensor<16x24xf16>", "tensor<16x8xf32>"}  # fmt: skip


def test_squares_of_large_values_do_not_overflow() -> None:
    func = graph_func("x: 6x32xf32, w: 32x24xf32", RMS_NORM)
    x, w = Case("large", (), func).arrays({})
    (want,), (got,) = run(func, x * 1e4, w), run(lowered(func, F16), x * 1e4, w)
    assert np.abs(got - want).max() <= 8 * EPS[F16] * np.std(want)


@pytest.mark.parametrize("low", [-1e9, float(np.finfo(np.float32).min), -np.inf])
@pytest.mark.parametrize("fuse", [True, False])
def test_masked_rows(low: float, fuse: bool) -> None:
    """A row of which all is masked is uniform where the mask is finite, fused or not."""
    body = f"""z = full() {{elem = f32, shape = [4, 8], value = 0.0}}
l = full() {{elem = f32, shape = [4, 8], value = {low}}}
m = select(b, z, l)
s = add(x, m)
{softmax(1, "4, 8").replace("(x", "(s")}"""
    func = graph_func("x: 4x8xf32, b: 4x8xbool", body)
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    allowed = np.tri(4, 8, dtype=bool)
    allowed[2] = np.isinf(low)  # all of a row is masked, unless that makes NaN
    regions, _ = outline(lower_precision(func, to=F16), Rules(fuse=fuse))
    (want,), (got,) = run(func, x, allowed), run(store_halves(regions, to=F16), x, allowed)
    np.testing.assert_allclose(got, want, atol=2e-3)


def test_positions_are_exact() -> None:
    """Angles of rotary embeddings at large positions."""
    body = """p = cast(i) {to = f32}
a = contract(p, f) {spec = "n,d->nd"}
c = cos(a)
y = contract(c, w) {spec = "nd,de->ne"}
return(y)"""
    func = graph_func("i: 8xi64, f: 16xf32, w: 16x4xf32", body)
    rng = np.random.default_rng(0)
    i, w = np.arange(5000, 5008), rng.standard_normal((16, 4)).astype(np.float32)
    f = (1e4 ** -np.linspace(0, 1, 16)).astype(np.float32)
    (want,), (got,) = run(func, i, f, w), run(lowered(func, F16), i, f, w)
    assert np.abs(got - want).max() <= 4 * EPS[F16] * np.std(want)


# the choice


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A linear layer and a GELU-like tail."""
    rng = np.random.default_rng(0)
    weights = {"w": (32, 64), "b": (64,), "v": (64, 16)}
    arrays = [numpy_helper.from_array((rng.standard_normal(s) / 8).astype(np.float32), n) for n, s in weights.items()]
    nodes = [("MatMul", "x w", "h"), ("Add", "h b", "c"), ("Tanh", "c", "t"), ("MatMul", "t v", "y")]
    made = helper.make_graph(
        [helper.make_node(op, i.split(), [o]) for op, i, o in nodes],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 16])],
        arrays,
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def test_the_choice_is_kept(model: Path, tmp_path: Path) -> None:
    half = graphfuse.compile(model, precision="f16")
    full = graphfuse.compile(model, options=Options(precision="f32"))
    x = np.random.default_rng(1).standard_normal((5, 32)).astype(np.float32)
    want, got = full(x=x)["y"], half(x=x)["y"]
    assert 0 < np.abs(got - want).max() < 4e-3 * np.std(want)
    weights = [sum(w.array.nbytes for w in m.executable.weights) for m in (half, full)]
    assert weights[0] < 0.6 * weights[1]
    half.save(tmp_path / "m.gfx")
    loaded = graphfuse.load(tmp_path / "m.gfx")
    assert (loaded.executable.meta["precision"], full.executable.meta["precision"]) == ("f16", "f32")
    assert np.array_equal(loaded(x=x)["y"], got)
    np.testing.assert_allclose(loaded.interpret({"x": x})["y"], got, atol=2e-3)
    again = api.recompile(tmp_path / "m.gfx")
    assert again.meta["precision"] == "f16"
    assert np.array_equal(api.CompiledModel(again)(x=x)["y"], got)
    for other in ("f32", "bf16"):
        with pytest.raises(UsageError, match=f"was compiled with precision 'f16': expected that, got '{other}'"):
            api.recompile(tmp_path / "m.gfx", precision=other)


def test_precisions_have_keys_of_their_own(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHFUSE_CACHE", str(tmp_path / "cache"))
    for precision in ("f32", "f16", "bf16", "f16"):
        assert graphfuse.compile(model, precision=precision).executable.meta["precision"] == precision


@pytest.mark.parametrize(
    ("text", "hint"),
    [("fp16", "did you mean 'f16'"), ("bf-16", "did you mean 'bf16'"), ("int8", "expected one of f32, f16, bf16")],
)
def test_unknown_precisions(model: Path, capsys: pytest.CaptureFixture[str], text: str, hint: str) -> None:
    with pytest.raises(UsageError, match=f"unknown precision '{text}'; {hint}"):
        graphfuse.compile(model, precision=text)
    assert main(["compile", str(model), "--emit", "graph", "--precision", text]) == 2
    assert f"unknown precision '{text}'; {hint}" in capsys.readouterr().err


def test_command_line(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def call(*words: str) -> str:
        assert main(list(words)) == 0
        return capsys.readouterr().out

    artifact = str(tmp_path / "m.gfx")
    call("compile", str(model), "-o", artifact, "--precision", "bf16")
    assert "precision bf16" in call("inspect", artifact)
    assert "xbf16>" in call("compile", str(model), "--emit", "regions", "--precision", "bf16")
    call("run", artifact, "--precision", "bf16", "--random")
    assert main(["run", artifact, "--precision", "f16"]) == 2
    assert f"--precision: {artifact} is an artifact, compiled with 'bf16'" in capsys.readouterr().err
    for precision in ("f16", "bf16"):
        found = json.loads(call("verify", str(model), "--json", "--precision", precision))
        assert found["regions"]
        assert all(r["ok"] for r in found["regions"])
        assert all(1e-5 < r["error"] <= r["tolerance"] for r in found.get("outputs", ()))

"""What each `numerics` allows, seen in the code it compiles and in the bits that come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import graphfuse
from graphfuse import checking, compiler
from graphfuse.api import recompile, verify_regions
from graphfuse.blockgen.numerics import COARSE, apply_numerics
from graphfuse.codegen import vecmath
from graphfuse.dialects import block, graph
from graphfuse.errors import ArtifactError, UsageError
from graphfuse.interp import graph as interp
from graphfuse.ir.core import Func, tile_of
from graphfuse.ir.parser import parse
from graphfuse.ir.passes import run as run_passes
from graphfuse.ir.types import F32, F64
from graphfuse.knobs import NUMERICS, Numerics, Options
from graphfuse.pipelines import graph_passes
from graphfuse.runtime.session import Session
from graphfuse.stages import artifact_numerics, graph_func
from graphfuse.targets import Target
from tests.interp.inputs import assert_same_numbers
from tests.machine import HOST
from tests.properties.fusion_programs import fusion_programs
from tests.properties.programs import graph_programs
from tests.properties.settings import PROGRAMS
from tests.properties.test_native_equals_interpreter import COMPILED, inputs_of, named

HAS_FMA = HOST.arch != "x86_64" or HOST.has("fma")
HALVES: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHFUSE_CACHE", "0")


def run(text: str | Func, numerics: Numerics, *inputs: Array) -> list[Array]:
    """Compile graph IR and run it natively."""
    func = parse(text) if isinstance(text, str) else text
    names = tuple(v.hint for v in func.params)
    outputs = tuple(f"y{i}" for i in range(len(func.outputs)))
    named = Func(func.name, func.body, {"inputs": names, "outputs": outputs}, func.dims)
    with Session(compiler.build(named, HOST, Options(numerics=numerics)), 1) as session:
        return list(session.run(dict(zip(names, inputs, strict=True))).values())


def kernels(text: str, numerics: Numerics, target: Target = HOST) -> str:
    """The block functions as text."""
    func = parse(text)
    done = compiler.stages(func, target, Options(numerics=numerics))
    return "".join(op.kind.name + " " for f in done.kernels.values() for op in f.walk())


def same(a: Array, b: Array) -> bool:
    return a.tobytes() == b.tobytes()


# halves

CHAIN = """
func @main(%x: tensor<64x32xELEM>, %w: tensor<32xELEM>, %b: tensor<32xELEM>) {
  %rw = graph.broadcast(%w) {shape = [64, 32]} : tensor<64x32xELEM>
  %rb = graph.broadcast(%b) {shape = [64, 32]} : tensor<64x32xELEM>
  %m = graph.mul(%x, %rw) : tensor<64x32xELEM>
  %a = graph.add(%m, %rb) : tensor<64x32xELEM>
  %q = graph.mul(%a, %a) : tensor<64x32xELEM>
  %d = graph.div(%q, %rw) : tensor<64x32xELEM>
  %c = graph.gt(%d, %a) : tensor<64x32xbool>
  %s = graph.select(%c, %d, %m) : tensor<64x32xELEM>
  %y = graph.sub(%s, %x) : tensor<64x32xELEM>
  return(%y)
}
"""


def chain_inputs(elem: str) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.uniform(0.5, 2, s).astype(HALVES[elem]) for s in ((64, 32), (32,), (32,))]


@pytest.mark.parametrize("elem", HALVES)
@pytest.mark.parametrize("numerics", ["strict", "eager"])
def test_halves_are_rounded_after_each_op(elem: str, numerics: Numerics) -> None:
    text, inputs = CHAIN.replace("ELEM", elem), chain_inputs(elem)
    (got,), (want,) = run(text, numerics, *inputs), interp.run(parse(text), *inputs)
    assert same(got, want)


@pytest.mark.parametrize("elem", HALVES)
def test_fast_rounds_a_chain_of_halves_once(elem: str) -> None:
    text, inputs = CHAIN.replace("ELEM", elem), chain_inputs(elem)
    (got,) = run(text, "fast", *inputs)
    (op_by_op,) = interp.run(parse(text), *inputs)
    (exact,) = interp.run(parse(text), *(x.astype(np.float64) for x in inputs), wide=True)
    once = exact.astype(HALVES[elem])
    # f32 may round to the other side of a tie of halves, or compare the other way, on few elements
    assert np.mean(got.view(np.uint16) == once.view(np.uint16)) > 0.99
    assert np.mean(op_by_op.view(np.uint16) == once.view(np.uint16)) < 0.8


LINEAR = """
func @main(%x: tensor<16x64xf16>, %w: tensor<64x32xf16>, %b: tensor<16x32xf16>) {
  %m = graph.contract(%x, %w) {spec = "mk,kn->mn"} : tensor<16x32xf16>
  %y = graph.add(%m, %b) : tensor<16x32xf16>
  return(%y)
}
"""


def test_a_contraction_of_halves_is_rounded_before_its_bias_except_by_fast() -> None:
    """Whole numbers, so that every sum is exact in f32, and many are not in f16 (past 2048)."""
    rng = np.random.default_rng(1)
    x, w = (rng.integers(0, 16, s).astype(np.float16) for s in ((16, 64), (64, 32)))
    b = -rng.integers(2000, 2040, (16, 32)).astype(np.float16)
    product = x.astype(np.float32) @ w.astype(np.float32)
    twice = product.astype(np.float16) + b
    once = (product + b.astype(np.float32)).astype(np.float16)
    assert not same(twice, once)
    assert same(run(LINEAR, "strict", x, w, b)[0], twice)
    assert same(run(LINEAR, "eager", x, w, b)[0], twice)
    assert same(run(LINEAR, "fast", x, w, b)[0], once)


# one rounding or two

MULTIPLY_ADD = """
func @main(%x: tensor<4096xf32>, %y: tensor<4096xf32>, %z: tensor<4096xf32>) {
  %p = graph.mul(%x, %y) : tensor<4096xf32>
  %s = graph.add(%p, %z) : tensor<4096xf32>
  %q = graph.mul(%y, %y) : tensor<4096xf32>
  %t = graph.sub(%z, %q) : tensor<4096xf32>
  %u = graph.sub(%q, %x) : tensor<4096xf32>
  return(%s, %t, %u)
}
"""


@pytest.mark.skipif(not HAS_FMA, reason="this processor rounds products")
def test_only_fast_fuses_multiply_and_add() -> None:
    x, y, z = np.random.default_rng(2).standard_normal((3, 4096), dtype=np.float32)
    two = [x * y + z, z - y * y, y * y - x]
    w = [a.astype(np.float64) for a in (x, y, z)]
    # a product of f32 is exact in f64, so that this rounds the sum to f64 and to f32
    one = [(w[0] * w[1] + w[2]), (w[2] - w[1] * w[1])]
    for numerics in ("strict", "eager"):
        assert all(same(a, b) for a, b in zip(run(MULTIPLY_ADD, numerics, x, y, z), two, strict=True))
    fast = run(MULTIPLY_ADD, "fast", x, y, z)
    assert same(fast[0], one[0].astype(np.float32)) and not same(fast[0], two[0])
    # y * y is read twice, so that fusing it would compute it twice
    assert same(fast[1], two[1]) and same(fast[2], two[2])


def test_fma_only_where_there_is_one() -> None:
    assert "block.fma" in kernels(MULTIPLY_ADD, "fast", Target.parse("cpu:x86-64-v3"))
    assert "block.fma" not in kernels(MULTIPLY_ADD, "fast", Target.parse("cpu:x86-64-v2"))
    assert "block.fma" not in kernels(MULTIPLY_ADD, "eager", Target.parse("cpu:x86-64-v3"))


SOFTMAX = """
func @main(%x: tensor<64x96xf32>) {
  %m = graph.reduce(%x) {axes = [1], keepdims = true, kind = "max"} : tensor<64x1xf32>
  %rm = graph.broadcast(%m) {shape = [64, 96]} : tensor<64x96xf32>
  %d = graph.sub(%x, %rm) : tensor<64x96xf32>
  %e = graph.exp(%d) : tensor<64x96xf32>
  %s = graph.reduce(%e) {axes = [1], keepdims = true, kind = "sum"} : tensor<64x1xf32>
  %rs = graph.broadcast(%s) {shape = [64, 96]} : tensor<64x96xf32>
  %y = graph.div(%e, %rs) : tensor<64x96xf32>
  return(%y)
}
"""


def test_fast_divides_a_row_once() -> None:
    """One region still, with one division of a number instead of one of a tile."""
    x = np.random.default_rng(3).standard_normal((64, 96), dtype=np.float32)
    (want,) = interp.run(parse(SOFTMAX), x.astype(np.float64), wide=True)
    for numerics in NUMERICS:
        (got,) = run(SOFTMAX, numerics, x)
        assert np.abs(got / want - 1).max() < 2e-6
        done = compiler.stages(parse(SOFTMAX), HOST, Options(numerics=numerics))
        assert len(done.kernels) == 1
        divisions = {
            type(op.result.type).__name__ for f in done.kernels.values() for op in f.walk() if op.kind is block.div
        }
        assert divisions == ({"Scalar"} if numerics == "fast" else {"Tile"})


# functions


def test_coarse_functions_are_those_beyond_two_ulp() -> None:
    assert set(COARSE) == {name for name, (f32, _) in vecmath.ULP.items() if f32 > 2}


@pytest.mark.parametrize("name", [n for n in COARSE if n not in graph.ELEMENTWISE])
def test_strict_functions_of_kernels_are_computed_in_f64(name: str) -> None:
    func = parse(f"""func @f(%x: ptr<f32>, %y: ptr<f32>) {{grid = 1}} {{
      %z = block.const() {{elem = i64, value = 0}} : i64
      %a = block.load_view(%x, %z) {{shape = [16], strides = [1]}} : tile<16xf32>
      %b = block.{name}(%a) : tile<16xf32>
      block.store_view(%y, %z, %b) {{strides = [1]}}
      return()
    }}""")
    made = {how: apply_numerics(func, how, has_fma=True) for how in NUMERICS}
    kind = block.ELEMENTWISE[name]
    elems = {how: [tile_of(op.result).elem for op in f.walk() if op.kind is kind] for how, f in made.items()}
    assert elems == {"strict": [F64], "eager": [F32], "fast": [F32]}


@pytest.mark.parametrize("name", [n for n in COARSE if n in graph.ELEMENTWISE])
def test_strict_functions_are_within_two_ulp(name: str) -> None:
    low, high = {"asin": (-1, 1), "atanh": (-1, 1), "acosh": (1, 50)}.get(name, (-20, 20))
    x = np.random.default_rng(4).uniform(low, high, 1 << 16).astype(np.float32)
    n = len(x)
    (got,) = run(
        f"func @main(%x: tensor<{n}xf32>) {{\n  %y = graph.{name}(%x) : tensor<{n}xf32>\n  return(%y)\n}}\n",
        "strict",
        x,
    )
    with np.errstate(all="ignore"):
        want = {"asin": np.arcsin, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "tan": np.tan}[name](
            x.astype(np.float64)
        )
    finite = np.isfinite(want)
    ulp = np.abs(got[finite] - want[finite]) / np.spacing(np.abs(want[finite]).astype(np.float32))
    assert ulp.max() < 0.51, "rounded once, from f64"


POWERS = """
func @main(%x: tensor<8x6xf32>) {
  %three = graph.full() {elem = f32, shape = [8, 6], value = 3.0} : tensor<8x6xf32>
  %cube = graph.pow(%x, %three) : tensor<8x6xf32>
  %sixth = graph.full() {elem = f32, shape = [8], value = 0.1666666716337204} : tensor<8xf32>
  %sum = graph.reduce(%cube) {axes = [1], kind = "sum"} : tensor<8xf32>
  %mean = graph.mul(%sum, %sixth) : tensor<8xf32>
  return(%mean)
}
"""


@pytest.mark.parametrize(
    ("numerics", "wanted"),
    [
        ("strict", ["pow", "reduce", "mul"]),
        ("eager", ["mul", "mul", "reduce", "div"]),
        ("fast", ["mul", "mul", "reduce", "mul"]),
    ],
)
def test_powers_and_means(numerics: Numerics, wanted: list[str]) -> None:
    after = run_passes(parse(POWERS), graph_passes(HOST, Options(numerics=numerics)), "graph")
    assert [op.kind.name.removeprefix("graph.") for op in after.walk()
            if op.kind.name not in ("graph.full", "return")] == wanted  # fmt: skip


GELU = """
func @main(%x: tensor<4096xf32>) {
  %half = graph.full() {elem = f32, shape = [4096], value = 0.5} : tensor<4096xf32>
  %one = graph.full() {elem = f32, shape = [4096], value = 1.0} : tensor<4096xf32>
  %c = graph.full() {elem = f32, shape = [4096], value = 0.8} : tensor<4096xf32>
  %u = graph.mul(%x, %c) : tensor<4096xf32>
  %t = graph.tanh(%u) : tensor<4096xf32>
  %p = graph.add(%one, %t) : tensor<4096xf32>
LINES  return(%y)
}
"""
TWO_PRODUCTS = "  %a = graph.mul(%{}, %{}) : tensor<4096xf32>\n  %y = graph.mul(%{}, %{}) : tensor<4096xf32>\n"


@pytest.mark.parametrize(
    "factors", [("x", "half", "a", "p"), ("half", "p", "x", "a"), ("x", "p", "a", "half")], ids=" ".join
)
def test_gelu_by_tanh_is_a_logistic_function_except_strictly(factors: tuple[str, ...]) -> None:
    """1 + tanh(u) cancels where u is far below 0; sigmoid does not."""
    text = GELU.replace("LINES", TWO_PRODUCTS.format(*factors))
    x = np.random.default_rng(6).uniform(-9, 9, 4096).astype(np.float32)
    want = x / (1 + np.exp(-1.6 * x.astype(np.float64)))
    for numerics in NUMERICS:
        found = kernels(text, numerics)
        assert ("block.tanh" in found) == (numerics == "strict")
        assert ("block.sigmoid" in found) == (numerics != "strict")
        (got,) = run(text, numerics, x)
        assert np.abs(got - want).max() < 1e-6
        if numerics != "strict":
            assert np.abs(got / want - 1).max() < 3e-6


def test_a_reciprocal_may_overflow_under_fast_only() -> None:
    text = """
func @main(%x: tensor<4x16xf32>, %y: tensor<4x1xf32>) {
  %r = graph.broadcast(%y) {shape = [4, 16]} : tensor<4x16xf32>
  %q = graph.div(%x, %r) : tensor<4x16xf32>
  return(%q)
}
"""
    x, y = np.full((4, 16), 1e-40, np.float32), np.full((4, 1), 1e-39, np.float32)
    assert same(run(text, "eager", x, y)[0], x / y) and same(run(text, "strict", x, y)[0], x / y)
    assert np.isinf(run(text, "fast", x, y)[0]).all()


# whole models

Nodes = Sequence[onnx.NodeProto]


def save(path: Path, nodes: Nodes, shape: Sequence[int], weights: dict[str, Array]) -> Path:
    """A model from `x` to `y`."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, name) for name, a in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def convolution(tmp_path: Path) -> Path:
    """Sigmoid written out, of batch norm, of a 3x3 convolution that Winograd's form pays for."""
    rng = np.random.default_rng(5)
    weights = {
        "w": (rng.standard_normal((32, 32, 3, 3)) / 17).astype(np.float32),
        **{n: rng.uniform(0.5, 1.5, 32).astype(np.float32) for n in ("scale", "bias", "mean", "var")},
        "one": np.ones((), np.float32),
    }
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c", "scale", "bias", "mean", "var"], ["n"]),
        node("Neg", ["n"], ["minus"]),
        node("Exp", ["minus"], ["e"]),
        node("Add", ["e", "one"], ["d"]),
        node("Div", ["one", "d"], ["y"]),
    ]
    return save(tmp_path / "m.onnx", nodes, [1, 32, 16, 16], weights)


X = np.random.default_rng(6).standard_normal((1, 32, 16, 16), dtype=np.float32)


def test_strict_keeps_the_model_s_ops(convolution: Path) -> None:
    regions = {n: graphfuse.compile(convolution, numerics=n).executable.ir["regions"] for n in NUMERICS}
    assert "anijc,aco->anijo" not in regions["strict"] and "graph.conv(" in regions["strict"]
    assert "graph.mul(" in regions["strict"], "the scale of the batch norm"
    assert "graph.exp(" in regions["strict"] and "graph.sigmoid" not in regions["strict"]
    for freer in ("eager", "fast"):
        assert "anijc,aco->anijo" in regions[freer] and "graph.conv(" not in regions[freer]
        assert "graph.mul(" not in regions[freer]
        assert "graph.sigmoid(" in regions[freer] and "graph.exp(" not in regions[freer]


@pytest.mark.parametrize("numerics", NUMERICS)
def test_every_numerics_is_right(convolution: Path, numerics: Numerics) -> None:
    rows = verify_regions(convolution, [X], numerics=numerics)
    assert rows and all(r["ok"] for r in rows)
    func = graph_func(graphfuse.compile(convolution, numerics="strict").executable)
    (want,) = interp.run(func, X.astype(np.float64), wide=True)
    assert np.abs(graphfuse.compile(convolution, numerics=numerics)(x=X)["y"] - want).max() < 1e-5


def test_the_artifact_says_and_a_recompile_keeps(convolution: Path, tmp_path: Path) -> None:
    for numerics in NUMERICS:
        path = tmp_path / f"{numerics}.gfx"
        graphfuse.compile(convolution, numerics=numerics).save(path)
        loaded = graphfuse.load(path)
        assert loaded.executable.meta["numerics"] == numerics == loaded.inspect()["meta"]["numerics"]
        assert recompile(path).meta["numerics"] == numerics
        assert all(r["ok"] for r in verify_regions(path, [X]))
    assert recompile(tmp_path / "strict.gfx", numerics="eager").meta["numerics"] == "eager"
    meta = {"numerics": "eager", "precision": "f32", "fuse": False}
    assert recompile(tmp_path / "eager.gfx", options=Options(fuse=False)).meta == meta


def test_a_recompile_cannot_be_stricter(convolution: Path, tmp_path: Path) -> None:
    """Winograd's weights are all that is left of the convolution's."""
    path = tmp_path / "m.gfx"
    graphfuse.compile(convolution).save(path)
    with pytest.raises(UsageError, match="was compiled with numerics 'eager': expected that or freer, got 'strict'"):
        recompile(path, numerics="strict")


def test_the_cache_tells_numerics_apart(convolution: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHFUSE_CACHE", str(tmp_path / "cache"))
    for numerics in (*NUMERICS, *NUMERICS):
        assert artifact_numerics(graphfuse.compile(convolution, numerics=numerics).executable) == numerics
    assert len(list((tmp_path / "cache").rglob("*.gfx"))) == len(NUMERICS)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("strct", "did you mean 'strict'?"),
        ("Fast", "did you mean 'fast'?"),
        ("x", "expected one of strict, eager, fast"),
    ],
)
def test_unknown_numerics(convolution: Path, text: str, hint: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: graphfuse.compile(convolution, numerics=text),
        lambda: graphfuse.InferenceSession(str(convolution), numerics=text),
        lambda: Options(numerics=text),  # type: ignore[arg-type]
    ]
    for call in calls:
        with pytest.raises(UsageError) as e:
            call()
        assert e.value.message == f"unknown numerics {text!r}; {hint}"


def test_an_artifact_with_unknown_numerics_is_refused(convolution: Path) -> None:
    executable = graphfuse.compile(convolution).executable
    object.__setattr__(executable, "meta", {"numerics": "exact"})
    with pytest.raises(ArtifactError, match="unknown numerics 'exact'"):
        artifact_numerics(executable)


# strict as a law


FOLDED = """func @f() {
  %v0 = graph.full() {elem = f32, shape = [4], value = 1.0} : tensor<4xf32>
  %v1 = graph.tanh(%v0) : tensor<4xf32>
  return(%v1)
}
"""


@given(text=graph_programs())
@example(text=FOLDED)
@PROGRAMS
def test_strict_graph_passes_keep_every_bit(text: str) -> None:
    """Programs without contractions: nothing is summed in another order either."""
    func = parse(text)
    assert_same_numbers(
        func, run_passes(func, graph_passes(HOST, Options(numerics="strict")), "graph"), exact=True, folded=True
    )


def test_errors_of_what_is_one_number_are_parts_of_it() -> None:
    func = named(
        parse("""func @main(%a: tensor<5x4xf32>) {
      %m = graph.reduce(%a) {axes = [1], keepdims = true, kind = "max"} : tensor<5x1xf32>
      %b = graph.broadcast(%m) {shape = [5, 4]} : tensor<5x4xf32>
      %e = graph.exp(%a) : tensor<5x4xf32>
      %s = graph.reduce(%e) {axes = [1], keepdims = true, kind = "sum"} : tensor<5x1xf32>
      %d = graph.broadcast(%s) {shape = [5, 4]} : tensor<5x4xf32>
      %p = graph.div(%e, %d) : tensor<5x4xf32>
      %t = graph.reduce(%p) {axes = [1], keepdims = true, kind = "sum"} : tensor<5x1xf32>
      return(%b, %t)
    }""")
    )
    checks = checking.verify_regions(func, HOST, inputs_of(func, {}), Options(numerics="strict"))
    assert not [c for c in checks if c.is_suspect]
    one = np.ones(4)
    assert checking._errors(one + 0.5, one, one)[0] == 0.5


@pytest.mark.parametrize("elem", ["f32", *HALVES])
def test_what_operands_were_rounded_by_is_no_spread(elem: str) -> None:
    """As of a row's largest times its sum, which are operands: 6, and what they were rounded by."""
    dtype = np.dtype(HALVES.get(elem, np.float32))
    eps = float(ml_dtypes.finfo(dtype).eps)
    exact = 6 * (1 + eps * np.array([0.3, -0.2, 0.5, -0.4]))
    found = np.full(4, 6 * (1 + eps)).astype(dtype)
    assert checking._errors(found, exact, exact)[0] < 2 * eps
    assert checking._errors((found * 2).astype(dtype), exact, exact)[0] > 0.9


def test_errors_of_what_is_enormous_are_parts_of_its_spread() -> None:
    exact = np.array([1e290, 3e300, -2e300])
    assert 0 < checking._errors(exact * (1 + 1e-9), exact, exact)[0] < 1e-8
    assert checking._errors(exact[::-1].copy(), exact, exact)[0] > 0.9


@given(text=fusion_programs(), numerics=st.sampled_from(["strict", "fast"]), elem=st.sampled_from(["f32", *HALVES]))
@COMPILED
def test_regions_of_random_programs_are_right(text: str, numerics: Numerics, elem: str) -> None:
    func = named(parse(text.replace("f32", elem)))
    checks = checking.verify_regions(func, HOST, inputs_of(func, {"n": 5}), Options(numerics=numerics))
    assert not [c for c in checks if c.is_suspect]


@pytest.mark.parametrize("numerics", ["strict", "eager", "fast"])
def test_a_sort_for_a_gpu_is_compiled_whatever_is_rounded(numerics: Numerics) -> None:
    text = """
func @main(%x: tensor<3x70xf16>) {
  %v, %i = graph.topk(%x) {axis = 1, k = 70} : tensor<3x70xf16>, tensor<3x70xi64>
  return(%v, %i)
}
"""
    assert "block.sort" in kernels(text, numerics, Target.parse("cuda:sm_90a"))

"""Kernels in IR that nobody vouches for stay inside of their tensors; those that do so anyway keep their views."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

import graphfuse
import models
from graphfuse import compiler
from graphfuse.api import recompile
from graphfuse.blockopt.calls import optimize_calls
from graphfuse.dialects import block
from graphfuse.errors import ArtifactError, InputError
from graphfuse.frontends.onnx import import_model
from graphfuse.frontends.tc_ops import read_operators
from graphfuse.interp.graph import run
from graphfuse.ir.parser import parse
from graphfuse.ir.printer import to_text
from graphfuse.ir.verifier import verify
from graphfuse.knobs import Options
from graphfuse.llvm.host import host_target
from graphfuse.runtime.session import Session
from graphfuse.stages import graph_func
from tests.kernels.test_graft import OPS, model, node, product_with_gelu

TEMPLATE = """
func @main(%x: tensor<(n)xf32>) dims (n in 1..64) {{
  %r = graph.call(%x) {{args = [(n)], elems = [f32], grid = [{grid}], name = "k", shapes = [[(n)]], symbols = ["N"]}}
    do (%a: ptr<f32>, %y: ptr<f32>, %N: i64) {{
    %p = block.program_id() : i64
    %one = block.const() {{elem = f32, shape = [8], value = 1.0}} : tile<8xf32>
    %zero = block.const() {{elem = i64, value = 0}} : i64
    {body}
    yield()
  }} : tensor<(n)xf32>
  return(%r)
}}
"""
GRID = "(floordiv(n + 7, 8))"
AT = '%at = block.index(%p) {expr = (8*p), names = ["p"]} : i64\n'
LEFT = '%left = block.index(%p) {expr = (N - 8*p), names = ["p"]} : i64\n'
LANES = "%i = block.arange() {end = 8, start = 0} : tile<8xi64>\n"


def call(body: str, grid: str = GRID):
    func = parse(TEMPLATE.format(body=body, grid=grid), "<test>")
    verify(func)
    return func


def index(name: str, expr: str, of: str = "p") -> str:
    return f'%{name} = block.index(%{of}) {{expr = ({expr}), names = ["{of}"]}} : i64\n'


def store_view(at: str, limit: str = "", strides: str = "1") -> str:
    limited = ", limited = [0]" if limit else ""
    limit = f", %{limit}" if limit else ""
    return f"block.store_view(%y, %{at}, %one{limit}) {{strides = [{strides}]{limited}}}\n"


INSIDE = {
    "limited": AT + LEFT + store_view("at", "left"),
    "loaded": AT + LEFT
    + "%v = block.load_view(%a, %at, %left) {limited = [0], shape = [8], strides = [1]} : tile<8xf32>\n"
    "block.store_view(%y, %at, %v, %left) {limited = [0], strides = [1]}",
    "local": "%m = block.alloc() {count = 8, elem = f32} : ptr<f32>\n"
    "block.store_view(%m, %zero, %one) {strides = [1]}\n" + AT + LEFT + store_view("at", "left"),
}  # fmt: skip

OUTSIDE = {
    "begins before": index("at", "8*p - 1") + LEFT + store_view("at", "left"),
    "no limit": AT + store_view("at"),
    "begins behind": index("at", "8*p + 8") + store_view("at"),
    "limit too large": AT + index("left", "N - 8*p + 1") + store_view("at", "left"),
    "stride": AT + LEFT + store_view("at", "left", "2"),
    "negative stride": AT + LEFT + store_view("at", "left", "-1"),
    "what is loaded": AT + LEFT + index("far", "8*p + 500000000")
    + "%v = block.load_view(%a, %far) {shape = [8], strides = [1]} : tile<8xf32>\n"
    "block.store_view(%y, %at, %v, %left) {limited = [0], strides = [1]}",
    "division of what wraps": index("big", "4611686018427387904*p") + 'block.print(%big) {text = "%ld"}\n'
    + '%at = block.index(%big) {expr = (floordiv(big, 4611686018427387904)), names = ["big"]} : i64\n'
    + index("left", "N - p") + store_view("at", "left"),
    "offsets": LANES + "block.store(%y, %i, %one)\n",
    "offsets of before": LANES + AT
    + '%o = block.index(%at, %i) {expr = (at + i - 20), names = ["at", "i"]} : tile<8xi64>\n'
    "block.store(%y, %o, %one)\n",
    "offset pointer": "%q = block.offset(%y, %N) : ptr<f32>\n" + "block.store_view(%q, %zero, %one) {strides = [1]}\n",
    "two offsets": "%q = block.offset(%y, %N) : ptr<f32>\n%q2 = block.offset(%q, %N) : ptr<f32>\n" + LANES
    + "block.store(%q2, %i, %one)\n",
    "scalar": '%f = block.const() {elem = f32, value = 2.0} : f32\nblock.store(%y, %N, %f)\n',
    "atomic": LANES + '%w = block.atomic(%y, %i, %one) {kind = "add"} : tile<8xf32>\n',
    "exchange": LANES + "%w = block.atomic_cas(%y, %i, %one, %one) : tile<8xf32>\n",
    "local memory": "%m = block.alloc() {count = 4, elem = f32} : ptr<f32>\n"
    "block.store_view(%m, %zero, %one) {strides = [1]}\n",
    "less than no memory": "%m = block.alloc() {count = (3 - N), elem = f32} : ptr<f32>\n"
    "block.store_view(%m, %zero, %one) {strides = [1]}\n",
    "in a loop": "%e = block.const() {elem = i64, value = 9} : i64\nfor(%zero, %e) do (%j: i64) {\n"
    + index("at", "8*j", "j") + store_view("at") + "yield()\n}\n",
}  # fmt: skip


NOT_INTERPRETED = ("atomic", "exchange", "less than no memory")
"""What the interpreter refuses for other reasons."""


def ran(func, n: int):
    x = np.arange(n, dtype=np.float32) + 2
    found = run(func, x, symbols={"n": n})
    return found[0] if isinstance(found, (list, tuple)) else found


def views(func) -> int:
    return sum(op.kind in (block.load_view, block.store_view) for op in func.walk())


def natively(func):
    named = type(func)(func.name, func.body, {**func.attrs, "inputs": ("x",), "outputs": ("y",)}, func.dims)
    session = Session(compiler.build(named, host_target(), Options()), 1)
    return lambda n: session.run({"x": np.arange(n, dtype=np.float32) + 2})["y"]


@pytest.mark.parametrize("name", INSIDE)
def test_what_stays_inside_keeps_its_views(name):
    func = call(INSIDE[name])
    confined = compiler.confined(func)
    verify(confined)
    assert views(confined) == views(optimize_calls(func))
    for n in (1, 7, 8, 61):
        np.testing.assert_array_equal(ran(confined, n), ran(func, n))


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_leaves_its_tensor_is_cut_off(name):
    func = call(OUTSIDE[name])
    confined = compiler.confined(func)
    verify(confined)
    native = natively(compiler.confined(parse(to_text(confined), "<again>")))
    if name in NOT_INTERPRETED:
        native(5)
        return
    with pytest.raises(InputError, match="is outside of"):
        for n in (5, 13, 24):
            ran(func, n)
    for n in (1, 5, 13, 64):
        found, wanted = native(n), ran(confined, n)
        np.testing.assert_array_equal(found[wanted == 1], 1)


REFUSED = {
    "it writes operand 0": LANES + "block.store(%a, %i, %one)\n",
    "it writes operand 0 ": AT + LEFT + "block.store_view(%a, %at, %one, %left) {limited = [0], strides = [1]}\n",
    "it writes operand 0  ": "%q = block.offset(%a, %N) : ptr<f32>\n" + LANES + "block.store(%q, %i, %one)\n",
    "its pointers are chosen as it runs": "%c = block.lt(%zero, %p) : bool\n%q = block.select(%c, %a, %y) : ptr<f32>\n"
    + LANES + "block.store(%q, %i, %one)\n",
    "its pointers are chosen as it runs ": "%q = for(%zero, %N, %y) do (%j: i64, %b: ptr<f32>) {\n"
    "%further = block.offset(%b, %N) : ptr<f32>\nyield(%further)\n} : ptr<f32>\n"
    + LANES + "block.store(%q, %i, %one)\n",
    "it takes ptr<f32> for ptr<f64>": "%q = block.pointer_cast(%y) {to = f64} : ptr<f64>\n"
    '%d = block.const() {elem = f64, value = 2.0} : f64\nblock.store(%q, %zero, %d)\n',
    "expected steps of up to 2147483648, found 4611686018427387904":
    "for(%zero, %N) {step = 4611686018427387904} do (%j: i64) { yield() }\n",
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_be_confined_is_refused(why):
    with pytest.raises(ArtifactError) as e:
        compiler.confined(call(REFUSED[why]))
    assert e.value.message == f"kernel 'k' cannot be rebuilt from its IR: {why.strip()}"


def test_promises_are_forgotten():
    body = (
        LANES
        + "%j = block.assume(%i) {multiple_of = 16} : tile<8xi64>\n%k = block.add(%j, %j) {nsw = true} : tile<8xi64>\n"
        + "block.store(%y, %k, %one)\n"
    )
    text = to_text(compiler.confined(call(body)))
    assert "assume" not in text and "nsw" not in text


LOOP = """
func @main(%x: tensor<(n)x4xf32>, %h: tensor<1x4xf32>) dims (n in 1..64, m in 1..2) {{
  %r, %all = graph.loop(%h) {{count = {count}, symbol = "{symbol}"}} do (%c: tensor<1x4xf32>) {{
    %row = graph.slice(%x) {{sizes = [1, 4], starts = [{start}, 0], steps = [1, 1]}} : tensor<1x4xf32>
    %s = graph.add(%c, %row) : tensor<1x4xf32>
    yield(%s, %s)
  }} : tensor<1x4xf32>, tensor<{count}x1x4xf32>
  return(%r)
}}
"""


@pytest.mark.parametrize(
    ("count", "start", "symbol", "why"),
    [
        ("(n)", "(t)", "t", ""),
        ("(n)", "(n - t - 1)", "t", ""),
        ("(n)", "(t + 1)", "t", "not proved in a loop: "),
        ("(n)", "(n - t)", "t", "not proved in a loop: "),
        ("(n + 1)", "(t)", "t", "not proved in a loop: "),
        ("(n)", "(t - 1)", "t", "not proved in a loop: "),
        ("(n)", "(4*t)", "t", "not proved in a loop: "),
        ("(n)", "(n - 1)", "m", "'m' has another meaning"),
    ],
)
def test_loops(count, start, symbol, why):
    """What is sliced depends on the iteration, so no shape of inputs tells whether it is there."""
    func = parse(LOOP.format(count=count, start=start, symbol=symbol), "<test>")
    if not why:
        compiler.confined(func)
        return
    with pytest.raises(ArtifactError) as e:
        compiler.confined(func)
    assert why in e.value.message


def test_recurrent_models_are_rebuilt():
    for name in ("bilstm", "bigru_tagger"):
        model = graphfuse.compile(models.cached(name, small=True))
        compiler.confined(graph_func(model.executable))


def test_promises_of_dims_are_forgotten():
    func = call(INSIDE["limited"])
    assert "promised" not in compiler.confined(replace(func, attrs={"promised": True})).attrs


def test_random_views():
    """Bases, strides and limits of small numbers: nothing leaves, and what is inside is written as before."""
    rng = random.Random(3)
    kept = 0
    for _ in range(60):
        scale, shift = rng.choice([0, 1, 4, 8, 8, 8]), rng.choice([-9, -1, 0, 0, 0, 0, 1, 30])
        more, stride = rng.choice([-8, -1, 0, 0, 0, 0, 1]), rng.choice(["-1", "0", "1", "1", "1", "1", "2", "(N)"])
        grid = rng.choice([GRID, GRID, "(n)", "1"])
        body = index("at", f"{scale}*p {_signed(shift)}") + index("left", f"N - {scale}*p {_signed(more - shift)}")
        func = call(body + store_view("at", rng.choice(["left", "left", ""]), stride), grid)
        confined = compiler.confined(func)
        kept += views(confined)
        for n in (1, 6, 24):
            found = ran(confined, n)
            try:
                wanted = ran(func, n)
            except InputError:
                assert not views(confined)
            else:
                np.testing.assert_array_equal(found, wanted)
    assert 5 < kept < 40, "some are inside, some are not"


def test_kernels_of_people_keep_their_views():
    """A product by hand, with a bias and GELU behind it, as an artifact has it."""
    func = optimize_calls(import_model(product_with_gelu(), kernels=read_operators(OPS)))
    assert views(compiler.confined(func)) == views(func) > 0


def test_an_artifact_that_is_rebuilt_is_confined(tmp_path):
    """The kernel writes 2 GB behind its output, in an artifact that its author compiled."""
    (tmp_path / "evil.tc").write_text(
        "// op: mine::Evil\n// inputs: x: float[N]; outputs: y: float[N]\n// macros: TM = 32\n"
        "// grid: cdiv(N, TM)\n// args: x, y, N\n__global__ void evil(float *x, float *y, int N) {\n"
        "  int r[TM] = get_program_id(0) * TM + 0 ... TM;\n  *?(r < N)(y + r) = *?(r < N)(x + r);\n"
        "  *?(r < N)(y + r + 500000000) = *?(r < N)(x + r);\n}\n"
    )
    proto = model([node("Evil", "x", "y", "mine")], {"x": ("float32", [50])}, {"y": ("float32", [50])})
    graphfuse.compile(proto, kernels=tmp_path).save(tmp_path / "m.gfx")
    rebuilt = recompile(tmp_path / "m.gfx")
    x = np.arange(50, dtype=np.float32)
    np.testing.assert_array_equal(Session(rebuilt, 1).run({"x": x})["y"], x)


def _signed(n: int) -> str:
    return f"- {-n}" if n < 0 else f"+ {n}"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('inputs = ["x"], ', "", "expected 1 different names of inputs, found None"),
        ('inputs = ["x"]', 'inputs = ["x", "x"]', "expected 1 different names of inputs"),
        ('outputs = ["y"]', "outputs = [3]", "expected 1 different names of outputs, found (3,)"),
        ('outputs = ["y"]', 'constraints = [["equal", 1]], outputs = ["y"]', "expected constraints of dims"),
        ('outputs = ["y"]', 'checks = 3, outputs = ["y"]', "expected checks of values"),
        ("tensor<(n)xf32>)", "i64)", "expected tensors as parameters, found i64"),
        ("dims (n in 1..4)", "", "tensor<(n)xf32> names the undeclared dim 'n'"),
        ("shape = [(n)]", "shape = [(m)]", "names the undeclared dim 'm'"),
    ],
)
def test_ir_says_what_a_model_takes_and_gives(old, new, why):
    text = """func @main(%x: tensor<(n)xf32>) {inputs = ["x"], outputs = ["y"]} dims (n in 1..4) {
      %z = graph.full() {elem = f32, shape = [(n)], value = 1.0} : tensor<(n)xf32>
      return(%z)
    }"""
    assert old in text
    changed = text.replace(old, new)
    if "(m)" in changed:
        changed = changed.replace(": tensor<(n)xf32>\n      return", ": tensor<(m)xf32>\n      return")
    executable = replace(compiler.build(parse(text, "<test>"), host_target(), Options()), ir={"regions": changed})
    with pytest.raises(ArtifactError) as e:
        graph_func(executable)
    assert e.value.message.startswith("IR: ") and why in e.value.message

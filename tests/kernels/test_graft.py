"""Kernels written by hand as operators of ONNX models: what is grafted onto them, what is not and why, and numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphfuse
from graphfuse.checking import verify_regions
from graphfuse.cli import main
from graphfuse.frontends.onnx import import_model
from graphfuse.frontends.tc_ops import read_operators
from graphfuse.knobs import Options
from tests.machine import HOST

OPS = Path(__file__).parents[2] / "models/kernels/ops"
EXAMPLES, MINE = "graphfuse.examples", "mine"
RNG = np.random.default_rng(0)
DTYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "int32": TensorProto.INT32}


def node(op, inputs, outputs, domain="", **attrs):
    return helper.make_node(op, inputs.split(), outputs.split(), domain=domain, name=outputs.split()[0], **attrs)


def model(nodes, inputs, outputs, weights=()):
    """`inputs` and `outputs`: names to (dtype, shape)."""
    infos = [
        [helper.make_tensor_value_info(n, DTYPES[d], s) for n, (d, s) in side.items()] for side in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "g", *infos, [numpy_helper.from_array(a, n) for n, a in dict(weights).items()])
    domains = sorted({n.domain for n in nodes} - {""})
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(d, 20 if not d else 1) for d in ("", *domains)])


def normal(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def product_with_gelu(dtype="float32"):
    """gelu(x @ w + bias) for a batch of matrices."""
    nodes = [node("MatMul", "x w", "c", EXAMPLES), node("Add", "c bias", "s"), node("Gelu", "s", "y")]
    k, n = 40, 72
    weights = {"w": (normal(k, n) / 6).astype(dtype), "bias": normal(n).astype(dtype)}
    shapes = {"x": (dtype, ["batch", 3, k])}, {"y": (dtype, ["batch", 3, n])}
    return model(nodes, *shapes, weights)


def compiled(proto, kernels=OPS, **options):
    return graphfuse.compile(proto, kernels=kernels, **options)


def ledger(m):
    """(producer, consumer, reason or `fused`) of each decision, once."""
    rows = [(d["producer"], d["consumer"], "fused" if d["fused"] else d["reason"]) for d in m.executable.ledger]
    return list(dict.fromkeys(rows))


def steps(m):
    return [step.kernel for _, step in m.executable.plan.walk()]


@pytest.mark.parametrize("batch", [1, 30])
def test_bias_and_gelu_on_a_product(batch):
    m = compiled(product_with_gelu())
    assert ledger(m) == [("call 0", "s", "fused"), ("call 0", "y", "fused")]
    assert steps(m) == ["call_0"]
    x = normal(batch, 3, 40)
    np.testing.assert_allclose(m(x=x)["y"], m.interpret({"x": x})["y"], rtol=1e-5, atol=1e-5)


@pytest.fixture
def gpu():
    """A device with a GPU's kernels."""
    return "emulator"


@pytest.mark.parametrize("batch", [1, 30])
def test_on_a_gpu_it_is_wgmma_with_an_epilogue(batch, gpu):
    m = compiled(product_with_gelu("float16"), device=gpu)
    assert steps(m) == ["call_0"]
    assert ledger(m) == [("call 0", "s", "fused"), ("call 0", "y", "fused")]
    text = m.executable.ir["block"]
    assert "gpu.wgmma" in text
    assert "gpu.tma_load" in text
    assert "block.erf" in text
    x = normal(batch, 3, 40, dtype=np.float16)
    found, wanted = (r["y"].astype(np.float64) for r in (m(x=x), m.interpret({"x": x})))
    np.testing.assert_allclose(found, wanted, rtol=4e-3, atol=4e-3)


def test_one_kernel_per_op_without_fusion():
    proto = product_with_gelu()
    m = compiled(proto, options=Options(fuse=False))
    assert steps(m)[0] == "call_0"
    assert len(steps(m)) > 3
    x = normal(5, 3, 40)
    np.testing.assert_allclose(m(x=x)["y"], compiled(proto)(x=x)["y"], rtol=1e-5, atol=1e-5)


def test_the_artifact_needs_no_front_end(tmp_path):
    m = compiled(product_with_gelu())
    m.save(tmp_path / "m.gfx")
    x = normal(2, 3, 40)
    np.save(tmp_path / "x.npy", x)
    code = """
import sys, numpy as np, graphfuse
folder = sys.argv[1]
np.save(folder + "/y.npy", graphfuse.load(folder + "/m.gfx")(x=np.load(folder + "/x.npy"))["y"])
print(*(n for n in sys.modules if n.startswith("graphfuse.frontends") or n == "onnx"))
"""
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), m(x=x)["y"])


def test_the_command_line(tmp_path, capfd):
    onnx.save(product_with_gelu(), str(tmp_path / "m.onnx"))
    made, again = str(tmp_path / "m.gfx"), str(tmp_path / "again.gfx")
    assert main(["compile", str(tmp_path / "m.onnx"), "--kernels", str(OPS), "-o", made]) == 0
    assert main(["compile", made, "--recompile", "-o", again]) == 0
    capfd.readouterr()
    assert main(["inspect", made, "--json"]) == 0
    facts = json.loads(capfd.readouterr().out)["ledger"]
    assert [(d["consumer"], d["fused"], d["saved"]) for d in facts][:1] == [("s", True, "1728*batch")]


def test_the_command_line_verifies(tmp_path, capfd):
    path, empty = str(tmp_path / "m.onnx"), tmp_path / "empty"
    onnx.save(product_with_gelu(), path)
    assert main(["verify", path, "--kernels", str(OPS)]) == 0
    out, err = capfd.readouterr()
    assert "regions against float64" in out
    assert "ONNX Runtime has no operators of --kernels, so the whole model was not compared" in err
    assert main(["verify", path, "--kernels", str(OPS), "--no-regions"]) == 2
    assert "nothing to compare with: ONNX Runtime has no operators of --kernels, and" in capfd.readouterr().err
    empty.mkdir()
    (empty / "plain.tc").write_text("void f(float *x) { *x = 1; }\n")
    assert main(["verify", path, "--kernels", str(OPS), "--kernels", str(empty)]) != 0
    wanted = "empty: error: expected .tc files that begin with a header such as '// op: domain::Name', found none"
    assert wanted in capfd.readouterr().err


def test_regions_are_verified():
    func = import_model(product_with_gelu(), kernels=read_operators(OPS))
    (check,) = verify_regions(func, HOST, [normal(4, 3, 40)])
    assert (check.kind, check.is_suspect) == ("call", False)


def test_another_kernel_is_another_artifact(tmp_path, monkeypatch):
    monkeypatch.setattr(graphfuse.knobs.settings, "cache", str(tmp_path / "cache"))
    folder = tmp_path / "kernels"
    folder.mkdir()
    proto = model([node("Twice", "x", "y", MINE)], {"x": ("float32", [8])}, {"y": ("float32", [8])})
    x = normal(8)
    for factor in (2, 3):
        (folder / "twice.tc").write_text(kernel("Twice", f"{factor} * v"))
        np.testing.assert_array_equal(compiled(proto, folder)(x=x)["y"], factor * x)


# what is not grafted

HEADER = """// op: mine::{op}
// inputs: x: float[N];  outputs: {outputs}
// macros: T = 8
// grid: (N + T - 1) / T
// args: {args}
__global__ void k(float *x __readonly, {parameters}, int N) {{
  int i[T] = get_program_id(0) * T + 0 ... T;
  float *px[T] = x + i;
  float *py[T] = y + i;
  bool inside[T] = i < N;
  float v[T] = inside ? *px : 0;
  {body}
}}
"""


def kernel(op, value="v", body="", outputs="y: float[N]", args="x, y, N", parameters="float *y"):
    """A kernel that computes something of `v`, or does something else entirely."""
    body = body or f"*?(inside) py = {value};"
    return HEADER.format(op=op, outputs=outputs, args=args, parameters=parameters, body=body)


N = 20
SQUARED = node("Mul", "y y", "z")
OTHER_TILES = "the kernel stores to other tiles than those of the tensor"
REFUSED = {
    "reads it back": (
        kernel("K", body="*?(inside) py = v; float w[T] = inside ? *py : 0; *?(inside) py = w + 1;"),
        "the kernel loads from it",
    ),
    "scatters it": (
        kernel("K", body="float *q[T] = y + (i ^ 1); *?(inside) q = v;"),
        "the kernel scatters to it",
    ),
    "stores in reverse": (
        kernel("K", body="float *q[T] = y + (N - 1 - i); *?(inside) q = v;"),
        f"{OTHER_TILES}: it is not laid out as the dense tensor [20]: strides [-1] against [1]",
    ),
    "masks another dim": (
        kernel("K", body="*?(i < N - 1) py = v; *?(i == N - 1) py = v;"),
        f"{OTHER_TILES}: its mask or its addresses are not those of a tensor [20]",
    ),
}


def tail(op="K", inner=(), outputs=("z",), shape=(N,)):
    nodes = [node(op, "x", "y", MINE), *(inner or [SQUARED])]
    return model(nodes, {"x": ("float32", shape)}, dict.fromkeys(outputs, ("float32", shape)))


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case, tmp_path):
    text, reason = REFUSED[case]
    (tmp_path / "k.tc").write_text(text)
    m = compiled(tail(), tmp_path)
    assert ledger(m) == [("call 0", "z", reason)]
    assert len(steps(m)) == 2
    x = normal(N)
    np.testing.assert_array_equal(m(x=x)["z"], m.interpret({"x": x})["z"])


COLUMNS = """// op: mine::Columns
// inputs: x: float[M, N];  outputs: y: float[M, N]
// macros: T = 8
// grid: M, (N + T - 1) / T
// args: x, y, M, N
__global__ void k(float *x __readonly, float *y, int M, int N) {
  int row = get_program_id(0);
  int i[T] = get_program_id(1) * T + 0 ... T;
  bool inside[T] = MASK;
  float *px[T] = x + row * N + i;
  float *py[T] = y + row * N + i;
  float v[T] = inside ? *px : 0;
  *?(inside) py = v + 1;
}
"""


@pytest.mark.parametrize(("mask", "n", "fused"), [("i < N", 20, True), ("true", 24, True), ("i < M * N", 24, False)])
def test_rows_are_grafted_where_columns_stay_inside(mask, n, fused, tmp_path):
    (tmp_path / "k.tc").write_text(COLUMNS.replace("MASK", mask))
    nodes = [node("Columns", "x", "y", MINE), node("Mul", "y scale", "z")]
    scale = normal(n)
    shapes = {"x": ("float32", ["m", n])}, {"z": ("float32", ["m", n])}
    m = compiled(model(nodes, *shapes, {"scale": scale}), tmp_path)
    assert (len(steps(m)) == 1) == fused, ledger(m)
    x = normal(5, n)
    np.testing.assert_allclose(m(x=x)["z"], (x + 1) * scale, rtol=1e-6)


def test_a_result_read_twice_is_also_written(tmp_path):
    (tmp_path / "k.tc").write_text(kernel("K", "2 * v"))
    m = compiled(tail(inner=[SQUARED, node("Identity", "y", "same")], outputs=("z", "same")), tmp_path)
    assert steps(m)[0] == "call_0"
    x = normal(N)
    found = m(x=x)
    np.testing.assert_array_equal(found["same"], 2 * x)
    np.testing.assert_array_equal(found["z"], (2 * x) ** 2)


def test_results_have_epilogues_of_their_own(tmp_path):
    """One store goes on with the work on it; the other result, which nobody reads, is written all the same."""
    body = "float *pq[T] = w + i; *?(inside) py = v + 1; *?(inside) pq = v * 2;"
    text = kernel(
        "K", body=body, outputs="y: float[N], w: float[N]", args="x, y, w, N", parameters="float *y, float *w"
    )
    (tmp_path / "k.tc").write_text(text)
    nodes = [node("K", "x", "y w", MINE), node("Neg", "w", "z")]
    m = compiled(model(nodes, {"x": ("float32", ["n"])}, {"z": ("float32", ["n"])}), tmp_path)
    assert ledger(m) == [("call 0", "z", "fused")]
    x = normal(13)
    np.testing.assert_array_equal(m(x=x)["z"], -2 * x)
    nodes = [node("K", "x", "y w", MINE), node("Add", "y w", "z")]
    m = compiled(model(nodes, {"x": ("float32", ["n"])}, {"z": ("float32", ["n"])}), tmp_path)
    assert ledger(m) == [("call 0", "z", "it reads several results of the call")]
    np.testing.assert_allclose(m(x=x)["z"], 3 * x + 1, rtol=1e-6)


def test_a_residual_computed_after_the_call():
    """The other operand of the epilogue comes from another kernel: it runs first."""
    nodes = [
        node("MatMul", "x w", "c", EXAMPLES), node("Softmax", "x", "p"),
        node("Add", "c p", "s"), node("Relu", "s", "z"),
    ]  # fmt: skip
    weights = {"w": normal(24, 24)}
    m = compiled(model(nodes, {"x": ("float32", ["m", 24])}, {"z": ("float32", ["m", 24])}, weights))
    assert len(steps(m)) == 2
    x = normal(9, 24)
    np.testing.assert_allclose(m(x=x)["z"], m.interpret({"x": x})["z"], rtol=1e-5, atol=1e-5)


def test_operands_that_are_views_are_copied():
    nodes = [node("Transpose", "v", "x", perm=[1, 0]), node("MatMul", "x w", "z", EXAMPLES)]
    m = compiled(model(nodes, {"v": ("float32", [24, "m"]), "w": ("float32", [24, 8])}, {"z": ("float32", ["m", 8])}))
    assert len(steps(m)) == 2
    v, w = normal(24, 11), normal(24, 8)
    np.testing.assert_allclose(m(v=v, w=w)["z"], v.T @ w, rtol=1e-5, atol=1e-5)


def test_a_kernel_keeps_its_types_in_half_precision():
    proto, x = product_with_gelu(), normal(5, 3, 40)
    m = compiled(proto, precision="f16")
    assert steps(m) == ["call_0"]
    np.testing.assert_array_equal(m(x=x)["y"], compiled(proto)(x=x)["y"])


def test_a_parameter_may_be_called_as_an_axis_of_the_grid(tmp_path):
    text = COLUMNS.replace("MASK", "i < N").replace("int M, int N", "int grid_x, int N").replace("i < M", "i < grid_x")
    (tmp_path / "k.tc").write_text(text)
    nodes, shape = [node("Columns", "x", "y", MINE), node("Neg", "y", "z")], ("float32", ["m", 20])
    m, x = compiled(model(nodes, {"x": shape}, {"z": shape}), tmp_path), normal(5, 20)
    assert steps(m) == ["call_0"]
    np.testing.assert_array_equal(m(x=x)["z"], -(x + 1))


def test_in_a_loop():
    inner = [node("MatMul", "s w", "t", EXAMPLES), node("Tanh", "t", "u"), node("Identity", "go", "goes")]
    infos = {"i": (TensorProto.INT64, []), "go": (TensorProto.BOOL, []), "s": (TensorProto.FLOAT, [9, 24])}
    results = {"goes": (TensorProto.BOOL, []), "u": (TensorProto.FLOAT, [9, 24])}
    sides = [[helper.make_tensor_value_info(n, *t) for n, t in side.items()] for side in (infos, results)]
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], body=helper.make_graph(inner, "body", *sides))
    shape = ("float32", [9, 24])
    proto = model([loop], {"x": shape}, {"y": shape}, {"n": np.array(40), "w": normal(24, 24) / 8})
    proto.opset_import.append(helper.make_opsetid(EXAMPLES, 1))
    m, x = compiled(proto), normal(9, 24)
    assert {d[1:] for d in ledger(m)} == {("u", "fused")}
    np.testing.assert_allclose(m(x=x)["y"], m.interpret({"x": x})["y"], rtol=1e-5, atol=1e-5)


def test_a_kernel_comes_before_the_function_of_the_model(tmp_path):
    (tmp_path / "k.tc").write_text(kernel("K", "2 * v"))
    proto = tail(inner=[node("Identity", "y", "z")])
    body = [helper.make_node("Neg", ["a"], ["b"])]
    proto.functions.append(helper.make_function(MINE, "K", ["a"], ["b"], body, [helper.make_opsetid("", 20)]))
    x = normal(N)
    np.testing.assert_array_equal(graphfuse.compile(proto)(x=x)["z"], -x)
    np.testing.assert_array_equal(compiled(proto, tmp_path)(x=x)["z"], 2 * x)


def test_nodes_that_do_not_fit_are_named():
    bad = model(
        [node("MatMul", "x w", "z", EXAMPLES)],
        {"x": ("float32", [4, 5]), "w": ("float32", [6, 7])},
        {"z": ("float32", [4, 7])},
    )
    with pytest.raises(
        graphfuse.GraphfuseError,
        match=r"<model>:z: error: MatMul: input 'b': expected b: T\[K, N\] = \[5, 7\], found \[6, 7\]",
    ):
        compiled(bad)

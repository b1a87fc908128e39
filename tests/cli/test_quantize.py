"""`graphfuse quantize`: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from graphfuse.cli import main
from graphfuse.cli.common import write_archive
from graphfuse.frontends.onnx import quantise

node, value = helper.make_node, helper.make_tensor_value_info


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAPHFUSE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def model(tmp_path):
    """Two products with a head that has more columns, and an output of integers."""
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.standard_normal((70, 64)) / 8, "u": rng.standard_normal((64, 100)) / 8, "b": rng.standard_normal(100),
    }  # fmt: skip
    nodes = [
        node("MatMul", ["x", "w"], ["h"], "body"), node("Relu", ["h"], ["r"]),
        node("Gemm", ["r", "u", "b"], ["y"], "head"), node("ArgMax", ["y"], ["best"], axis=1),
    ]  # fmt: skip
    outputs = [value("y", TensorProto.FLOAT, ["n", 100]), value("best", TensorProto.INT64, ["n", 1])]
    weights = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, ["n", 70])], outputs, weights)
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def quantized(capsys, *words):
    code = main(["quantize", *map(str, words)])
    out, err = capsys.readouterr()
    assert code == 0, err
    return out, err


def test_a_row_for_each_layer(capsys, model, tmp_path):
    out, err = quantized(capsys, model, "-o", tmp_path / "q.onnx", "--weights", "int4", "--dim", "n=8")
    rows = {line.split()[0]: line.split() for line in out.splitlines()}
    assert rows["body"][1:4] == ["70", "x", "64"]
    assert rows["body"][4:8] == ["17.9", "kB", "3.8", "kB"]
    assert all(0.02 < float(e) < 0.2 for e in rows["body"][-2:])
    assert rows["head"][1:4] == ["64", "x", "100"]
    assert 0.02 < float(rows["y"][1]) < 0.3
    assert rows["best"][1] == "-"
    assert out.splitlines()[-1].endswith("q.onnx: 2 layers, 43.9 kB to 8.2 kB")
    assert not err
    assert main(["verify", str(tmp_path / "q.onnx"), "--no-regions"]) == 0


def test_json_with_inputs(capsys, model, tmp_path):
    """Errors are those of the inputs that are given, and of the model as it was."""
    x = np.random.default_rng(3).standard_normal((5, 70)).astype(np.float32)
    write_archive(tmp_path / "in.npz", {"x": x})
    words = ["-o", tmp_path / "q.onnx", "--weights", "int8", "--block", 64, "--asymmetric", "--accuracy-level", 4]
    out, _ = quantized(capsys, model, *words, "--inputs", tmp_path / "in.npz", "--exclude", "b*dy", "--json")
    report = json.loads(out)
    (layer,) = report["layers"]
    assert (layer["name"], layer["weight"], layer["k"], layer["n"]) == ("head", "u", 64, 100)
    assert layer["bytes_after"] == 100 * (64 + 4 + 1)
    assert report["bytes_after"] < report["bytes_before"]
    assert report["dims"] == {}
    written = onnx.load(tmp_path / "q.onnx")
    assert [n.op_type for n in written.graph.node] == ["MatMul", "Relu", "MatMulNBits", "ArgMax"]
    assert {a.name: a.i for a in written.graph.node[2].attribute} == {
        "K": 64, "N": 100, "bits": 8, "block_size": 64, "accuracy_level": 4
    }  # fmt: skip
    of = {t.name: numpy_helper.to_array(t).astype(np.float64) for t in onnx.load(model).graph.initializer}
    q, scale, zero = (numpy_helper.to_array(t).astype(np.float64) for t in written.graph.initializer[-3:])
    found = ((q - zero[..., None]) * scale[..., None]).reshape(100, 64).T
    h = np.maximum(x @ of["w"], 0)
    np.testing.assert_allclose(layer["error"], rms(found - of["u"]) / rms(of["u"]), rtol=1e-4)
    np.testing.assert_allclose(layer["product_error"], rms(h @ (found - of["u"])) / rms(h @ of["u"]), rtol=1e-3)
    errors = {o["name"]: o["error"] for o in report["outputs"]}
    assert errors["best"] is None
    assert 1e-4 < errors["y"] < 2e-2


def rms(values):
    return np.sqrt(np.square(values).mean())


def test_a_large_model(capsys, model, tmp_path, monkeypatch):
    monkeypatch.setattr(quantise, "MOST_INSIDE", 1000)
    quantized(capsys, model, "-o", tmp_path / "q.onnx")
    assert {"q.onnx", "q.onnx.data"} <= {p.name for p in tmp_path.iterdir()}
    assert main(["verify", str(tmp_path / "q.onnx"), "--no-regions"]) == 0


def test_nothing_need_run(capsys, model, tmp_path):
    out, _ = quantized(capsys, model, "-o", tmp_path / "q.onnx", "--no-run")
    assert [line.split()[-1] for line in out.splitlines() if line.startswith(("body", "head"))] == ["-", "-"]
    assert "best" not in out


def test_a_model_that_cannot_run_is_written(capsys, model, tmp_path):
    odd = onnx.load(model)
    odd.graph.node.append(node("Nobodys", ["y"], ["z"], domain="no.such"))
    odd.opset_import.add(domain="no.such", version=1)
    odd.graph.output.append(value("z", TensorProto.FLOAT, None))
    onnx.save(odd, model)
    _, err = quantized(capsys, model, "-o", tmp_path / "q.onnx")
    assert err.startswith("note: the model was not run: ")
    assert "Nobodys" in err
    assert len(onnx.load(tmp_path / "q.onnx").graph.node) == 5


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--weights", "int2"], 2, "weights: expected int4 or int8, found 'int2'"),
        (["--weights", "fp8"], 5, "weights: fp8 is not built yet"),
        (["--block", "33"], 2, "block: expected a power of two from 16 to 256, found 33"),
        (["--exclude", "nobody"], 2, "exclude: unknown layer 'nobody': expected some of 'body', 'head'"),
        (["--exclude", "*"], 2, "no matrix to quantise"),
        (["--accuracy-level", "1"], 2, "accuracy_level: expected 0 or 4, found 1"),
        (["--no-run", "--inputs", "in.npz"], 2, "--no-run: expected no --inputs, which only a run reads"),
        (["--inputs", "nowhere.npz"], 9, "cannot read"),
        (["--dim", "m=3"], 2, "unknown dim 'm'"),
    ],
)  # fmt: skip
def test_one_error_and_nothing_written(capsys, model, tmp_path, words, code, message):
    assert main(["quantize", str(model), "-o", str(tmp_path / "q.onnx"), *words]) == code
    out, err = capsys.readouterr()
    assert message in err
    assert (out, err.count("\n")) == ("", 1)
    assert not (tmp_path / "q.onnx").exists()


def test_outputs_that_cannot_be_written(capsys, model, tmp_path):
    before = model.read_bytes()
    assert main(["quantize", str(model), "-o", str(model)]) == 2
    assert "--output: expected another file than those that are read" in capsys.readouterr().err
    assert main(["quantize", str(model), "-o", str(tmp_path / "nowhere" / "q.onnx")]) == 9
    assert "cannot write" in capsys.readouterr().err
    assert model.read_bytes() == before

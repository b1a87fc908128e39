"""Values between nodes as outputs, by name: what ONNX Runtime finds for each, whatever was fused around them."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import graphfuse
from graphfuse.cli import main
from graphfuse.errors import UsageError
from models import bert_base

DIMS = {"batch": 2, "seq": 7}


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "bert.onnx"
    bert_base.build(path, small=True)
    return path


@pytest.fixture(scope="module")
def feed():
    rng = np.random.default_rng(0)
    ids, types = (rng.integers(0, n, tuple(DIMS.values())) for n in (101, 2))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": types}


def test_values_inside_of_kernels_are_right(bert, feed):
    proto = onnx.load(bert)
    made = [o for n in proto.graph.node if n.op_type != "Constant" for o in n.output]
    names = [*made[:: len(made) // 12], "input_ids", *(t.name for t in proto.graph.initializer[:1])]
    whole = onnx.ModelProto.FromString(proto.SerializeToString())
    del whole.graph.output[:]
    whole.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names)
    ort = pytest.importorskip("onnxruntime").InferenceSession(whole.SerializeToString())
    wanted = dict(zip(names, ort.run(names, feed), strict=True))
    model = graphfuse.compile(bert, outputs=names)
    assert [s.name for s in model.signature.outputs] == names
    found = model(feed)
    for name in names:
        assert found[name].dtype == wanted[name].dtype
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-3, atol=1e-4, err_msg=name)


def test_sessions_run_to_any_value(bert, feed, tmp_path):
    session = graphfuse.InferenceSession(bert)
    own = session.get_outputs()[0].name
    inner, whole = session.run(["embeddings.Add", own], feed)
    assert inner.shape == (2, 7, 32) and np.array_equal(session.run([own], feed)[0], whole)
    with pytest.raises(
        UsageError, match=r"unknown output 'embeddings.Ad': expected a value of the graph; did you mean"
    ):
        session.run(["embeddings.Ad"], feed)
    graphfuse.compile(bert).save(tmp_path / "m.gfx")
    with pytest.raises(UsageError, match="unknown output 'embeddings.Add': expected one of 'last_hidden_state'"):
        graphfuse.InferenceSession(tmp_path / "m.gfx").run(["embeddings.Add"], feed)


def test_outputs_are_checked(bert):
    with pytest.raises(UsageError, match="output 'embeddings.Add' is named twice"):
        graphfuse.compile(bert, outputs=["embeddings.Add", "embeddings.Add"])
    with pytest.raises(UsageError, match="outputs: expected a text or several, found 3"):
        graphfuse.compile(bert, outputs=3)
    with pytest.raises(
        UsageError, match="unknown output 'qqq': expected a value of the graph, such as 'last_hidden_sta"
    ):
        graphfuse.compile(bert, outputs="qqq")


def test_values_around_host_code(tmp_path, capsys):
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Exp", ["x"], ["e"], name="exp"),
        helper.make_node("NonZero", ["e"], ["at"], name="nonzero"),
        helper.make_node("Transpose", ["at"], ["y"], name="turned"),
    ]
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, [5, 7])], [value("y", TensorProto.INT64, ["m", 2])]
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    assert main(["run", str(path), "--random", "--fetch", "at", "--fetch", "e", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["outputs"]
    assert [(r["name"], r["shape"]) for r in rows] == [("at", [2, 35]), ("e", [5, 7])]
    graphfuse.compile(path).save(tmp_path / "m.gfx")
    assert main(["run", str(tmp_path / "m.gfx"), "--random", "--fetch", "e"]) == 2
    wanted = "--fetch: expected an artifact's outputs, 'y', or a model to compile, found 'e'"
    assert wanted in capsys.readouterr().err
    assert main(["run", str(tmp_path / "m.gfx"), "--random", "--fetch", "y"]) == 0

"""`graphfuse reduce`: of a model with a planted fault the nodes at fault are left, which fail in the same way."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from graphfuse.cli import main
from graphfuse.cli.common import read_archive, write_archive
from graphfuse.cli.reduction import Ended, in_child, shortest_prefix, shortest_suffix, without_chunks
from graphfuse.codegen import arith
from graphfuse.errors import FileError, InputError

value = helper.make_tensor_value_info
node = helper.make_node
FLOAT = TensorProto.FLOAT


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAPHFUSE_CACHE", str(tmp_path / "cache"))


def model(path, *, fault="Ceil"):
    """Of 37 nodes: three branches over f32[n, 8], a branch on whether a sum is positive, a loop, three outputs."""
    rng, weights = np.random.default_rng(0), {"turns": np.array(3), "go": np.array(1, bool), "wide": np.array([-1, 8])}
    nodes, ends = [], []
    for b in range(3):
        before = "x"
        for i in range(3):
            here = f"{b}_{i}"
            weights[f"w{here}"] = rng.standard_normal((8, 8)).astype(np.float32) / 2
            nodes += [
                node("MatMul", [before, f"w{here}"], [f"m{here}"], name=f"product{here}"),
                node("Tanh", [f"m{here}"], [f"t{here}"], name=f"tanh{here}"),
                node(fault if (b, i) == (1, 1) else "Sigmoid", [f"t{here}"], [f"s{here}"], name=f"odd{here}"),
            ]
            before = f"s{here}"
        ends.append(before)
    one, other = (
        helper.make_graph([node(op, ["s1_2", "s2_2"], ["picked"])], op, [], [value("picked", FLOAT, None)])
        for op in ("Add", "Sub")
    )
    nodes += [
        node("ReduceSum", ["s0_2"], ["sum"], keepdims=0, name="sum"),
        node("Greater", ["sum", "zero"], ["positive"], name="greater"),
        node(
            "If", ["positive"], ["chosen"], name="choice", then_branch=one, else_branch=other,
        ),
        node(
            "Loop", ["turns", "go", "chosen"], ["turned"], name="loop",
            body=helper.make_graph(
                [node("Identity", ["c"], ["d"]), node("Mul", ["state", "half"], ["after"])], "c",
                [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("state", FLOAT, None)],
                [value("d", TensorProto.BOOL, []), value("after", FLOAT, None)],
            ),
        ),
        node("Reshape", ["turned", "wide"], ["flat"], name="reshape"),
        node("Softmax", ["flat"], ["y"], name="softmax"),
        node("Neg", ["s0_1"], ["z"], name="neg"),
        node("Concat", ["s2_0", "s1_0"], ["joined"], axis=1, name="concat"),
        node("Relu", ["joined"], ["w"], name="relu"),
        node("Abs", ["t2_1"], ["unused"], name="abs"),
    ]  # fmt: skip
    weights |= {"zero": np.array(0, np.float32), "half": np.array(0.5, np.float32)}
    outputs = [value("z", FLOAT, ["n", 8]), value("y", FLOAT, ["n", 8]), value("w", FLOAT, ["n", 16])]
    constants = [onnx.numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", [value("x", FLOAT, ["n", 8])], outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def reduced(capsys, tmp_path, *more, fault="Ceil"):
    """What is printed as JSON, and the model that is left."""
    source, out = model(tmp_path / "model.onnx", fault=fault), tmp_path / "left.onnx"
    code = main(["reduce", str(source), "-o", str(out), "--json", *map(str, more)])
    stdout, stderr = capsys.readouterr()
    assert code == 0, stderr
    return json.loads(stdout), onnx.load(out)


def fails_again(capsys, command):
    words = shlex.split(command)
    assert words[-0] != "" and "graphfuse" in words
    return main(words[words.index("graphfuse") + 1 :]), capsys.readouterr().err


@pytest.mark.parametrize("against", ["onnxruntime", "interpreter"])
def test_wrong_numbers_are_cut_down_to_the_operator(capsys, tmp_path, monkeypatch, against):
    if against == "onnxruntime":
        pytest.importorskip("onnxruntime")
    monkeypatch.setitem(arith.FLOAT, "ceil", arith.FLOAT["floor"])
    told, left = reduced(capsys, tmp_path, "--against", against, "--dim", "n=5")
    assert told["nodes"] == ["Ceil"] and told["of"] == 37 and told["complete"] and told["tries"] < 100
    assert [i.name for i in left.graph.input] == ["t1_1"] and read_archive(tmp_path / "left.npz")["t1_1"].shape == (
        5,
        8,
    )
    if against == "interpreter":
        monkeypatch.setenv("GRAPHFUSE_CHECK", "1")
    code, err = fails_again(capsys, told["again"])
    assert code != 0 and ("comparisons failed" in err or "differs from the interpreter" in err)


def test_two_nodes_that_fail_together_are_kept(capsys, tmp_path):
    when = f"{sys.executable} -c {shlex.quote(TWO)} {{}}"
    told, left = reduced(capsys, tmp_path, "--when", when)
    assert sorted(told["nodes"]) == ["Neg", "Softmax"] and told["kind"] == "exit status 7"
    assert [o.name for o in left.graph.output] == ["y", "z"] and told["again"] == when.replace(
        "{}", str(tmp_path / "left.onnx")
    )


TWO = """
import onnx, sys
ops = [n.op_type for n in onnx.load(sys.argv[1]).graph.node]
sys.exit(7 if {"Neg", "Softmax"} <= set(ops) else 3 if "Loop" in ops else 0)
"""


def test_a_branch_is_one_node(capsys, tmp_path):
    count = "import onnx, sys; sys.exit(any(n.op_type == 'If' for n in onnx.load(sys.argv[1]).graph.node))"
    told, left = reduced(capsys, tmp_path, "--when", f"{sys.executable} -c {shlex.quote(count)} {{}}")
    assert told["nodes"] == ["If"]
    assert {i.name for i in left.graph.input} == {"s1_2", "s2_2", "positive"}
    assert main(["run", str(tmp_path / "left.onnx"), "--inputs", str(tmp_path / "left.npz")]) == 0


def test_internal_errors_and_deaths(capsys, tmp_path, monkeypatch):
    def broken(*_):
        raise RuntimeError("planted")

    monkeypatch.setitem(arith.FLOAT, "ceil", broken)
    told, _ = reduced(capsys, tmp_path)
    assert told["nodes"] == ["Ceil"] and told["said"] == "internal error: RuntimeError: planted"
    code, err = fails_again(capsys, told["again"])
    assert code == 70 and "planted" in err
    monkeypatch.setitem(arith.FLOAT, "ceil", lambda *_: os.kill(os.getpid(), signal.SIGABRT))
    told, _ = reduced(capsys, tmp_path)
    assert told["nodes"] == ["Ceil"] and told["said"] == "the process died of SIGABRT"


@pytest.mark.full
def test_dims_stay_symbolic_where_that_is_what_it_takes(capsys, tmp_path):
    when = """
import onnx, sys
g = onnx.load(sys.argv[1]).graph
dims = [d.dim_param for i in g.input for d in i.type.tensor_type.shape.dim]
sys.exit("n" in dims and any(n.op_type == "Concat" for n in g.node))
"""
    told, left = reduced(capsys, tmp_path, "--when", f"{sys.executable} -c {shlex.quote(when)} {{}}", "--dim", "n=3")
    assert told["nodes"] == ["Concat"]
    assert all(i.type.tensor_type.shape.dim[0].dim_param == "n" for i in left.graph.input)
    assert {a.shape for a in read_archive(tmp_path / "left.npz").values()} == {(3, 8)}


@pytest.mark.full
def test_the_same_seed_finds_the_same(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(arith.FLOAT, "ceil", arith.FLOAT["floor"])
    found = []
    for _ in range(2):
        reduced(capsys, tmp_path, "--seed", "4", "--against", "interpreter")
        found.append([(tmp_path / f"left.{end}").read_bytes() for end in ("onnx", "npz")])
    assert found[0] == found[1]


def test_what_cannot_be_compiled(capsys, tmp_path):
    """Nothing can run it, so values are of the types that are known."""
    told, _ = reduced(capsys, tmp_path, fault="NoSuchOperator")
    assert told["nodes"] == ["NoSuchOperator"] and told["kind"].startswith("VerifyError in ")


def test_the_time_is_bounded(capsys, tmp_path):
    slow = f"sleep 0.4; (sleep 60; echo) & {sys.executable} -c {shlex.quote(TWO)} {{}}"
    begin = time.monotonic()
    told, left = reduced(capsys, tmp_path, "--when", slow, "--seconds", "4")
    assert not told["complete"] and time.monotonic() - begin < 15
    assert {"Neg", "Softmax"} <= {n.op_type for n in left.graph.node}


def test_nothing_to_reduce(capsys, tmp_path):
    source = model(tmp_path / "model.onnx")
    lines = {
        ("--against", "interpreter"): "expected a model that fails, found no error, and the results of interpreter",
        ("--when", "true {}"): "expected a model that fails, found that 'true {}' ends with 0",
    }
    for more, line in lines.items():
        assert main(["reduce", str(source), "-o", str(tmp_path / "left.onnx"), *more]) == 2
        assert line in capsys.readouterr().err and not (tmp_path / "left.onnx").exists()
    assert main(["reduce", str(source), "--when", "false"]) == 2
    assert "--when: expected a command with {} for the path of a model, got 'false'" in capsys.readouterr().err
    assert main(["reduce", str(source), "-o", "x.npz"]) == 2
    assert "--output: expected a name for a model, got 'x.npz'" in capsys.readouterr().err
    graph = helper.make_graph([], "g", [value("x", FLOAT, [2])], [value("x", FLOAT, [2])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "0.onnx")
    assert main(["reduce", str(tmp_path / "0.onnx"), "--when", "false {}"]) == 2
    assert "expected a model with nodes, found none" in capsys.readouterr().err
    assert main(["reduce", str(source), "-o", str(source)]) == 2
    assert "expected another file than those that are read" in capsys.readouterr().err
    assert main(["reduce", str(tmp_path / "none.onnx")]) == 9
    capsys.readouterr()
    write_archive(tmp_path / "x.npz", {"q": np.zeros(3)})
    assert main(["reduce", str(source), "--inputs", str(tmp_path / "x.npz")]) == 6
    assert "unknown input 'q': expected some of 'x'" in capsys.readouterr().err
    assert main(["verify", str(source), "--inputs", str(tmp_path / "x.npz"), "--regions"]) == 6
    assert "unknown input 'q': expected some of 'x'" in capsys.readouterr().err


@pytest.mark.full
def test_large_constants_stay_out_of_messages(capsys, tmp_path, monkeypatch):
    """Those that do not fit into one are inputs, as those of models with external data may be."""
    monkeypatch.setattr("graphfuse.frontends.onnx.part.MOST_CONSTANT_BYTES", 600)
    monkeypatch.setattr("graphfuse.frontends.onnx.load.KEPT_BYTES", 100)
    source = model(tmp_path / "model.onnx")
    proto = onnx.load(source)
    onnx.save(proto, source, save_as_external_data=True, location="weights.bin", size_threshold=100)
    out = tmp_path / "left.onnx"
    when = "import onnx, sys; sys.exit(sum(n.op_type == 'MatMul' for n in onnx.load(sys.argv[1]).graph.node) > 3)"
    assert main(["reduce", str(source), "-o", str(out), "--when", f"{sys.executable} -c {shlex.quote(when)} {{}}"]) == 0
    left = onnx.load(out)
    assert [n.op_type for n in left.graph.node] == ["MatMul"] * 4
    assert sum(len(t.raw_data) for t in left.graph.initializer) <= 600
    assert read_archive(tmp_path / "left.npz").keys() == {i.name for i in left.graph.input}
    capsys.readouterr()


# pieces


def test_halving_finds_where_it_begins_and_ends():
    tried = []

    def fails(items):
        tried.append(items)
        return {3, 11} <= set(items)

    items = tuple(range(100))
    prefix = shortest_prefix(items, fails)
    assert prefix == tuple(range(12)) and shortest_suffix(prefix, fails) == tuple(range(3, 12)) and len(tried) < 15
    assert without_chunks(items, fails) == (3, 11)
    assert without_chunks((1,), fails) == (1,)


def test_a_child_answers_dies_or_is_stopped():
    assert in_child(lambda: np.arange(1 << 18), 20).sum() == sum(range(1 << 18))
    assert in_child(lambda: os.kill(os.getpid(), signal.SIGKILL), 20) == Ended("died of SIGKILL")
    assert in_child(lambda: 1 // 0, 20) == Ended("left with 1")
    assert in_child(lambda: time.sleep(30), 0.2).how == "took longer than 0 s"


def test_archives(tmp_path):
    arrays = {"file": np.arange(3), "a/b": np.array(["é", "xyz"], object), "": np.zeros((0, 2), np.float16)}
    write_archive(tmp_path / "a.npz", arrays)
    found = read_archive(tmp_path / "a.npz")
    assert found.keys() == arrays.keys() and found["a/b"].tolist() == ["é", "xyz"] and found["a/b"].dtype == object
    (tmp_path / "b.npz").write_bytes(b"nothing")
    with pytest.raises(InputError, match="not a .npz file"):
        read_archive(tmp_path / "b.npz")
    with pytest.raises(FileError, match="cannot read: no such file"):
        read_archive(tmp_path / "c.npz")
    np.save(tmp_path / "d.npy", np.arange(3))
    with pytest.raises(InputError, match="not a .npz file"):
        read_archive(tmp_path / "d.npy")

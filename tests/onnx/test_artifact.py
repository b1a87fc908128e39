"""Artifacts of models with host code: what is in them, what they refuse, and what Python runs by its own types."""

from __future__ import annotations

import dataclasses
import gc
import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

import graphfuse
from graphfuse.api import recompile
from graphfuse.artifact_rules import check
from graphfuse.cli import main
from graphfuse.errors import ArtifactError, InputError, UnsupportedError, VerifyError
from graphfuse.host.model import OnnxModel
from graphfuse.host.program import MOST_NESTED, Constant, HostGraph, HostNode, HostPart, Texts
from graphfuse.runtime import gfx

ort = pytest.importorskip("onnxruntime")

F32 = np.float32


def model_of(text, opset=22):
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> g {text}')


PICKED = """(float[n, 3] x, float[n] keep) => (float[m, 3] y) {
    rows = Mul(x, x)
    at = NonZero(keep)
    zero = Constant<value_ints = [0]>()
    flat = Squeeze(at, zero)
    picked = Gather(rows, flat)
    y = Neg(picked)
}"""


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    path = tmp_path_factory.mktemp("host") / "m.gfx"
    graphfuse.compile(model_of(PICKED)).save(path)
    return path


def feed(*keep):
    return {"x": np.arange(3 * len(keep), dtype=F32).reshape(-1, 3), "keep": np.array(keep, F32)}


def test_an_artifact_runs_at_all_shapes(artifact):
    model = graphfuse.load(artifact)
    for keep in ([1], [0, 0], [0, 1, 0, 2, 3]):
        x = feed(*keep)
        np.testing.assert_array_equal(model(x)["y"], -(x["x"][np.flatnonzero(keep)] ** 2))
        np.testing.assert_array_equal(model.interpret(x)["y"], model(x)["y"])
    assert [s.kernel for s in model.profile(feed(1)).steps] == ["part 0", "NonZero", "part 1"]
    assert gfx.verify(artifact)["part.1"] > 0
    facts = model.inspect()
    assert (facts["host"], len(facts["code"]), facts["kinds"]) == ({"NonZero": 1}, 2, {"part": 2, "python": 1})


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_parts_share_threads(artifact):
    def threads():
        return len(list(Path("/proc/self/task").iterdir()))

    gc.collect()
    before, model = threads(), graphfuse.load(artifact, threads=3)
    model(feed(1, 0, 1))
    assert threads() - before == 2, "the caller is the third"
    del model
    gc.collect()
    assert threads() == before


def test_recompiled_parts_are_as_good(artifact):
    again = graphfuse.CompiledModel(recompile(artifact))
    np.testing.assert_array_equal(again(feed(0, 2))["y"], graphfuse.load(artifact)(feed(0, 2))["y"])


def test_from_the_shell(artifact, tmp_path, capsys):
    onnx_file, out = tmp_path / "m.onnx", tmp_path / "m.gfx"
    onnx_file.write_bytes(model_of(PICKED).SerializeToString())
    assert main(["compile", str(onnx_file), "-o", str(out)]) == 0
    assert "Python runs 2 compiled parts and NonZero (1)" in capsys.readouterr().err
    for name, array in feed(0, 1, 1).items():
        np.save(tmp_path / f"{name}.npy", array)
    given = [f"--input={n}={tmp_path / n}.npy" for n in ("x", "keep")]
    assert main(["run", str(out), *given, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["outputs"]
    assert (row["shape"], row["values"]) == ([2, 3], [-9, -16, -25, -36, -49, -64])
    assert main(["inspect", str(out)]) == 0
    assert "NonZero  python" in capsys.readouterr().out
    assert main(["verify", str(out)]) == 0
    assert main(["compile", str(onnx_file), "--emit", "graph"]) == 0
    assert capsys.readouterr().out.count("func @main") == 2
    assert main(["run", str(out), given[0]]) == InputError.exit_code
    assert capsys.readouterr().err.startswith("error: missing input 'keep': expected --input NAME=FILE.npy")


def test_loading_imports_no_onnx(artifact):
    code = f"import sys, graphfuse; graphfuse.load({str(artifact)!r}); print('onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


# inputs and files that are wrong


@pytest.mark.parametrize(
    "wrong",
    [
        {"x": np.zeros((2, 3))},
        {"x": np.zeros(2, F32)},
        {"x": np.zeros((2, 4), F32)},
        {"x": np.zeros((5, 3), F32)},
        {"x": [[1.0, 2.0, 3.0]]},
        {"z": np.zeros(1, F32)},
    ],
)
def test_wrong_inputs_get_the_errors_of_any_model(artifact, wrong):
    plain = graphfuse.compile(model_of("(float[n, 3] x, float[n] keep) => (float[n, 3] y) { y = Neg(x) }"))
    given = {**feed(1, 2), **wrong}
    messages = []
    for model in (plain, graphfuse.load(artifact)):
        with pytest.raises(InputError) as e:
            model(given)
        messages.append(str(e.value))
    assert messages[0] == messages[1]


def test_sizes_that_data_makes_unequal_are_an_error():
    text = """(float[n] x, float[n] a, float[n] b) => (float[m] y) {
        p = Compress<axis = 0>(x, ca)  q = Compress<axis = 0>(x, cb)  y = Add(p, q)
    }"""
    cast = "ca = Cast<to = 9>(a) cb = Cast<to = 9>(b)"
    model = graphfuse.compile(model_of(text.replace("{", "{ " + cast, 1)))
    x, some = np.arange(3, dtype=F32), np.array([1, 0, 1], F32)
    np.testing.assert_array_equal(model(x=x, a=some, b=some)["y"], [0, 4])
    with pytest.raises(InputError, match=r"part 1: inputs 'p' \(3\), 'q' \(2\): node 'Add#4' \(Add\): broadcast"):
        model(x=x, a=np.ones(3, F32), b=some)


def test_truncated_files_are_refused(artifact, tmp_path):
    whole, short = artifact.read_bytes(), tmp_path / "short.gfx"
    for n in (0, 10, 60, len(whole) // 2, len(whole) - 1):
        short.write_bytes(whole[:n])
        with pytest.raises(ArtifactError):
            graphfuse.load(short)


def test_corrupt_bytes_are_found(artifact, tmp_path):
    whole, rng = artifact.read_bytes(), random.Random(0)
    bad = tmp_path / "bad.gfx"
    found = 0
    for _ in range(60):
        at = rng.randrange(len(whole))
        bad.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :])
        with pytest.raises(ArtifactError) as e:
            gfx.verify(bad)
            raise ArtifactError("padding")  # between sections nothing is said
        found += e.value.message != "padding"
    assert found > 40


def good():
    return graphfuse.compile(model_of(PICKED)).executable


def changed(step, **fields):
    def change(executable):
        host = executable.host
        steps = [dataclasses.replace(s, **fields) if i == step else s for i, s in enumerate(host.steps)]
        return dataclasses.replace(executable, host=dataclasses.replace(host, steps=tuple(steps)))

    return change


def nested(depth):
    graph = HostGraph((), (), {}, ())
    for _ in range(depth):
        graph = HostGraph((), (), {}, (HostNode("If", "", "if", (), (), {}, (graph, graph)),))
    return graph


BROKEN = [
    (changed(0, part=7), "host: step 0: expected one of 2 parts, found 7"),
    (changed(1, inputs=("nobody",)), "host: step 1: reads 'nobody', which nothing before it makes"),
    (changed(1, outputs=("other",)), "host: step 2: reads 'at', which nothing before it makes"),
    (changed(1, attributes={"a": Constant(9)}), "host: step 1: expected one of 0 weights, found 9"),
    (changed(1, attributes={"a": Texts(("b",), (2,))}), "host: step 1: expected 2 texts, found 1"),
    (
        changed(1, bodies=(nested(MOST_NESTED + 1),)),
        "host: step 1" + ": step 0" * MOST_NESTED + ": expected graphs nested at most 16 deep",
    ),
    (lambda e: dataclasses.replace(e, parts=e.parts[:1]), "host: step 2: expected one of 1 parts, found 1"),
    (
        lambda e: dataclasses.replace(e, target="cuda:sm_90a"),
        "part 0: expected kernels for cuda:sm_90a, found",
    ),
    (
        lambda e: dataclasses.replace(e, host=dataclasses.replace(e.host, outputs=("x",))),
        "host: expected the inputs and outputs of the signature",
    ),
]


@pytest.mark.parametrize(("change", "message"), BROKEN, ids=[m[:40] for _, m in BROKEN])
def test_rules_of_programs(change, message, tmp_path):
    with pytest.raises(ArtifactError) as e:
        check(change(good()))
    assert e.value.message.startswith(message)
    with pytest.raises(ArtifactError):
        gfx.save(change(good()), tmp_path / "m.gfx")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"op": "Exec"}, "unknown operator ai.onnx::Exec"),
        ({"domain": "os"}, "unknown operator os::NonZero"),
        ({"op": "Loop"}, "expected 1 graphs, found 0"),
        ({"bodies": (nested(1),)}, "expected 0 graphs, found 1"),
        ({"op": "NonMaxSuppression", "bodies": (nested(1), nested(1))}, "expected 1 graphs, found 2"),
        (
            {"op": "NonMaxSuppression", "bodies": (HostGraph((), ("x",), {}, ()),)},
            "its kernel reads 'x', which nobody gives it",
        ),
    ],
)
def test_operators_are_those_that_there_are(fields, message, tmp_path):
    gfx.save(changed(1, **fields)(good()), tmp_path / "m.gfx")
    with pytest.raises(ArtifactError, match=message):
        graphfuse.load(tmp_path / "m.gfx")(feed(1))


# types of what runs between parts


def agrees(text, *feeds, opset=22):
    """One artifact against ONNX Runtime, at every feed."""
    proto = model_of(text, opset)
    model, reference = graphfuse.compile(proto), ort.InferenceSession(proto.SerializeToString())
    assert model.executable.host is not None
    for values in feeds:
        for found, want in zip(model(values).values(), reference.run(None, values), strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)
            assert (found.shape, found.dtype) == (want.shape, want.dtype)
    return model


@pytest.mark.parametrize("opset", [11, 13])
def test_parts_have_the_meanings_of_old_opsets(opset):
    agrees(
        """(float[b, 3, w] x) => (float[b, 3, w] y, int64[3, n] at) { y = Hardmax<axis = 1>(x) at = NonZero(y) }""",
        {"x": np.linspace(-3, 4, 24, dtype=F32).reshape(2, 3, 4)},
        opset=opset,
    )


def test_what_a_loop_carries_may_grow():
    agrees(
        """(float[n, 2] x) => (float[m, 2] y, float[s] sums) {
            yes = Constant<value = bool {1}>()
            y, sums = Loop<body = b (int64 i, bool c, float[a, 2] v) => (bool going, float[d, 2] w, float sum) {
                w = Concat<axis = 0>(v, x)
                sum = ReduceSum<keepdims = 0>(w)
                limit = Constant<value = float {50}>()
                going = Less(sum, limit)
            }>(, yes, x)
        }""",
        *({"x": np.full((n, 2), 1.5, F32)} for n in (1, 4, 20)),
    )


def test_a_scan_is_pythons_if_its_body_is():
    text = """(float[n] h, float[s, n] x) => (float[n] last, float[s, n] all, float[m] y) {
        last, all = Scan<num_scan_inputs = 1, body = b (float[n] v, float[n] row) => (float[n] w, float[n] copy) {
            BODY w = Tanh(sum) copy = Identity(w)
        }>(h, x)
        at = NonZero(all)
        flat = Transpose(at)
        f = Cast<to = 1>(flat)
        axis = Constant<value_ints = [1]>()
        y = ReduceSum<keepdims = 0>(f, axis)
    }"""
    feeds = [{"h": np.ones(n, F32), "x": np.eye(s, n, dtype=F32)} for n, s in ((3, 2), (1, 5))]
    model = agrees(text.replace("BODY", "sum = Add(v, row)"), *feeds)
    assert [n.op for n in model.executable.host.nodes()] == ["NonZero"]
    counted = "at0 = NonZero(row) c = Size(at0) f0 = Cast<to = 1>(c) r = Mul(row, f0) sum = Add(v, r)"
    model = agrees(text.replace("BODY", counted), *feeds)
    assert [n.op for n in model.executable.host.nodes()] == ["Scan", "NonZero", "NonZero"]


def test_a_loop_of_a_known_length_is_compiled():
    model = agrees(
        """(float[n] x) => (float[m] y) {
            five = Constant<value = int64 {5}>()
            yes = Constant<value = bool {1}>()
            last = Loop<body = b (int64 i, bool c, float[n] v) => (bool going, float[n] w) {
                going = Identity(c)
                w = Add(v, x)
            }>(five, yes, x)
            zero = Constant<value = float {0}>()
            keep = Greater(last, zero)
            y = Compress<axis = 0>(last, keep)
        }""",
        *({"x": np.arange(-2, n, dtype=F32)} for n in (1, 4)),
    )
    assert [n.op for n in model.executable.host.nodes()] == ["Compress"]


def test_dims_that_arithmetic_makes_cross_parts():
    agrees(
        """(float[1, 1, n] x) => (float[m] y) {
            p = MaxPool<kernel_shape = [4]>(x)
            at = NonZero(p)
            rows = Transpose(at)
            v = GatherND(p, rows)
            y = Neg(v)
        }""",
        *({"x": np.arange(-3, n - 3, dtype=F32).reshape(1, 1, n)} for n in (4, 5, 9)),
    )


def test_branches_may_differ_in_shape():
    agrees(
        """(float[n, 3] x, bool flip) => (float[a, b] y) {
            r = If(flip)<
                then_branch = t () => (float[n, 3] same) { same = Exp(x) },
                else_branch = e () => (float[3, n] turned) { turned = Transpose(x) }
            >
            y = Neg(r)
        }""",
        {"x": np.ones((2, 3), F32), "flip": np.ones((), np.bool_)},
        {"x": np.ones((4, 3), F32), "flip": np.zeros((), np.bool_)},
    )


def test_a_loop_that_never_runs_stacks_nothing():
    text = """(float[n] x, int64 trips, bool go) => (float[n] y, float[s, n] all) {
        y, all = Loop<body = b (int64 i, bool c, float[n] v) => (bool going, float[n] w, float[n] copy) {
            w = Add(v, v)  copy = Neg(w)  most = ReduceMax<keepdims = 0>(w)
            limit = Constant<value = float {9}>()  going = Less(most, limit)
        }>(trips, go, x)
    }"""
    model = graphfuse.compile(model_of(text))
    x = np.ones(2, F32)
    assert model(x=x, trips=np.array(0), go=np.array(1, np.bool_))["all"].shape == (0, 0)
    np.testing.assert_array_equal(
        model(x=x, trips=np.array(9), go=np.array(1, np.bool_))["all"][:, 0], [-2, -4, -8, -16]
    )


def test_sequences_between_parts():
    agrees(
        """(float[n, 3] x, int64[k] sizes) => (float[m, 3] y, int64 count) {
            pieces = SplitToSequence<axis = 0>(x, sizes)
            zero = Constant<value = int64 {0}>()
            first = SequenceAt(pieces, zero)
            twice = Add(first, first)
            more = SequenceInsert(pieces, twice)
            joined = ConcatFromSequence<axis = 0>(more)
            y = Neg(joined)
            count = SequenceLength(more)
        }""",
        {"x": np.arange(12, dtype=F32).reshape(4, 3), "sizes": np.array([1, 3])},
        {"x": np.arange(6, dtype=F32).reshape(2, 3), "sizes": np.array([2])},
    )


def test_texts_between_parts():
    node = helper.make_node("LabelEncoder", ["which"], ["text"], domain="ai.onnx.ml")
    node.attribute.append(helper.make_attribute("keys_int64s", [0, 1, 2]))
    node.attribute.append(helper.make_attribute("values_strings", ["a", "bb", "abc"]))
    match = helper.make_node("RegexFullMatch", ["text"], ["hit"], pattern="a.*")
    cast = helper.make_node("Cast", ["hit"], ["y"], to=TensorProto.FLOAT)
    infos = [helper.make_tensor_value_info(n, t, ["n"]) for n, t in (("which", 7), ("y", 1))]
    graph = helper.make_graph([node, match, cast], "g", infos[:1], infos[1:])
    opsets = [helper.make_opsetid("", 22), helper.make_opsetid("ai.onnx.ml", 4)]
    model = graphfuse.compile(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    for ids in ([0], [2, 1, 0, 1]):
        np.testing.assert_array_equal(model(which=np.array(ids))["y"], [float(i != 1) for i in ids])


SIZES = {
    "Slice": ("s = Slice(x, zero, vn, zero)", 2),
    "backwards": ("one = Constant<value_ints = [-1]>() far = Neg(big) s = Slice(x, vn, far, zero, one)", 2),
    "Range": ("r = Range(zero0, n, one0) s = Cast<to = 1>(r)", 1),
    "Reshape": ("minus = Constant<value_ints = [-1]>() d = Concat<axis = 0>(vn, minus) s = Reshape(x, d)", 2),
    "Expand": ("f = Flatten<axis = 0>(x) u = Unsqueeze(f, zero) d = Concat<axis = 0>(vn, a, a) s = Expand(u, d)", 3),
    "ConstantOfShape": ("d = Concat<axis = 0>(vn, a) s = ConstantOfShape<value = float[1] {2.5}>(d)", 2),
    "Tile": ("d = Concat<axis = 0>(vn, a) s = Tile(x, d)", 2),
    "TopK": ("s, i = TopK<axis = 0>(x, vn)", 2),
    "smallest": ("s, i = TopK<axis = 0, largest = 0>(x, vn)", 2),
    "Pad": ("d = Concat<axis = 0>(vn, vn) s = Pad(x, d, , zero)", 2),
    "Trilu": ("s = Trilu<upper = 0>(x, n)", 2),
    "OneHot": ("i = Sub(counted, four) h = OneHot<axis = 0>(i, vn, big2) s = Cast<to = 1>(h)", 3),
    "CumSum": ("g = CumSum<exclusive = 1, reverse = 1>(x, flag) s = Identity(g)", 2),
    "Split": ("rest = Sub(four, vn) d = Concat<axis = 0>(vn, rest) s, t = Split<axis = 0>(x, d)", 2),
    "Resize": ("d = Concat<axis = 0>(four, vn) s = Resize<mode = \"linear\">(x, , , d)", 2),
    "scales": ("d = Concat<axis = 0>(vn, a) f = Cast<to = 1>(d) s = Resize(x, , f)", 2),
    "region": (
        """one4 = Concat<axis = 0>(zero, a) u = Unsqueeze(x, one4) d = Concat<axis = 0>(a, a, vn, four)
        begin = Constant<value_floats = [0.0, 0.0, 0.0, 0.2]>() none4 = Constant<value_floats = [0.0, 0.0, 0.4, 0.4]>()
        f = Cast<to = 1>(d) end = Mul(f, none4) roi = Concat<axis = 0>(begin, end)
        s = Resize<coordinate_transformation_mode = "tf_crop_and_resize", mode = "linear">(u, roi, , d)""",
        4,
    ),
    "CenterCropPad": ("d = Concat<axis = 0>(vn, vn) s = CenterCropPad(x, d)", 2),
    "HannWindow": ("s = HannWindow(vn0)", 1),
    "Unsqueeze": ("s = Unsqueeze(x, vn)", 3),
    "ReduceMax": ("k = Neg(vn) s = ReduceMax<keepdims = 0>(x, k)", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_are_data(name):
    body, rank = SIZES[name]
    dims = ", ".join(f"d{i}" for i in range(rank))
    agrees(
        f"""(float[4, w] x) => (float[{dims}] y) {{
            zero = Constant<value_ints = [0]>() a = Constant<value_ints = [1]>() four = Constant<value_ints = [4]>()
            zero0 = Constant<value = int64 {{0}}>() one0 = Constant<value = int64 {{1}}>()
            big = Constant<value_ints = [100]>() none = Constant<value = float {{0}}>()
            more = Greater(x, none) counted = Cast<to = 7>(more) n = ReduceMax<keepdims = 0>(counted)
            big2 = Constant<value_ints = [3, 7]>() flag0 = Cast<to = 9>(n) flag = Cast<to = 7>(flag0)
            vn0 = Add(n, one0) vn = Unsqueeze(vn0, zero)
            {body}
            y = Neg(s)
        }}""",
        {"x": np.array([[1, -2], [3, 4], [-5, 6], [7, -8]], F32)},
        {"x": -np.ones((4, 3), F32) * np.arange(1, 5, dtype=F32)[:, None]},
    )


OPEN = {
    "MaxPool": ("v, i = MaxPool<kernel_shape = [2]>(x) c = Cast<to = 1>(i) s = Add(v, c)", 3),
    "ConvTranspose": ("s = ConvTranspose<output_shape = [6], strides = [2]>(x, x)", 3),
    "Conv": ("w = Slice(x, zero, one, one) s = Conv(w, w)", 3),
    "DFT": ("u = Unsqueeze(x, three) v = ReduceSum(x) t = Div(u, v) s = DFT(t)", 4),
    "antialias": ('s = Resize<mode = "linear", antialias = 1>(x, , , one3)', 3),
    "policy": ('s = Resize<mode = "nearest", keep_aspect_ratio_policy = "not_larger">(x, , , four3)', 3),
    "GroupQuery": ("s = Attention<q_num_heads = 2, kv_num_heads = 2>(x, x, x)", 3),
}


@pytest.mark.parametrize("name", OPEN)
def test_operators_that_are_compiled_for_numbers_run_with_dims_that_only_a_run_knows(name):
    body, rank = OPEN[name]
    agrees(
        f"""(float[b, c, w] x) => (float[{", ".join(f"d{i}" for i in range(rank))}] y) {{
            zero = Constant<value_ints = [0]>() one = Constant<value_ints = [1]>() three = Constant<value_ints = [3]>()
            one3 = Constant<value_ints = [2, 2, 1]>() four3 = Constant<value_ints = [4, 4, 4]>()
            {body}
            y = Neg(s)
        }}""",
        *({"x": np.linspace(-2, 3, 4 * width, dtype=F32).reshape(2, 2, width) ** 2} for width in (4, 6)),
        opset=23 if name == "GroupQuery" else 20,
    )


def test_values_whose_rank_only_a_run_knows():
    agrees(
        """(float[n, 3] x, bool c) => (float[m] y, int64[k] rows, float[p, 3] z, float[q, r] u) {
            zero = Constant<value_ints = [0]>() minus = Constant<value_ints = [-1]>()
            v = If<then_branch = t () => (float[n, 3] a) { a = Neg(x) },
                   else_branch = e () => (float[b, n, 3] a) { a = Unsqueeze(x, zero) }>(c)
            e = Exp(v) w = Mul(e, e) f = Reshape(w, minus) y = Sqrt(f)
            rows = Shape<start = 0, end = 1>(v)
            d = Shape(x) back = Reshape(w, d) z = Add(back, x)
            s = ReduceSum(w, minus) flat = Flatten(s) u = Neg(flat)
        }""",
        *({"x": np.arange(6, dtype=F32).reshape(2, 3), "c": np.array(c)} for c in (True, False)),
    )


def test_shape_arithmetic_is_done_in_the_part_that_needs_it():
    text = """(float[n, 4] x) => (float[m] y) {
        zero = Constant<value_ints = [0]>()
        at = NonZero(x)
        one = Constant<value_ints = [1]>()
        rows = Shape<start = 0, end = 1>(x)
        flat = Transpose(at)
        pairs = Cast<to = 1>(flat)
        top = Slice(pairs, zero, rows, zero)
        y0 = ReduceSum(top, one)
        y = Squeeze(y0, one)
    }"""
    model = agrees(text, *({"x": np.eye(n, 4, dtype=F32)} for n in (1, 3, 4)))
    assert [type(s) for s in model.executable.host.steps] == [HostNode, HostPart]


@pytest.mark.parametrize("texts", [True, False])
@pytest.mark.parametrize("op", ["SVMClassifier", "LinearClassifier"])
def test_classifiers_as_they_are_exported(op, texts, tmp_path, capsys):
    """Labels behind a Cast or as texts, probabilities as maps."""
    r = np.random.default_rng(0)
    labels = ["one", "two", "three"] if texts else [3, 5, 8]
    named = {"classlabels_strings" if texts else "classlabels_ints": labels}
    machine = {
        "vectors_per_class": [2, 1, 1], "support_vectors": r.standard_normal(8), "coefficients": r.standard_normal(8),
        "rho": r.standard_normal(3), "prob_a": [-1.0, -2, -1], "prob_b": [0.1, 0.2, 0.3], "kernel_type": "RBF",
        "kernel_params": [0.5, 0, 0],
    }  # fmt: skip
    linear = {"coefficients": r.standard_normal(6), "intercepts": r.standard_normal(3), "post_transform": "SOFTMAX"}
    given = machine if op == "SVMClassifier" else linear
    nodes = [
        helper.make_node(op, ["x"], ["label", "p"], domain="ai.onnx.ml", **given, **named),
        helper.make_node("Cast", ["label"], ["chosen"], to=TensorProto.STRING if texts else TensorProto.INT64),
        helper.make_node("Cast", ["p"], ["scores"], to=TensorProto.FLOAT),
        helper.make_node("ZipMap", ["scores"], ["maps"], domain="ai.onnx.ml", **{
            "classlabels_strings" if texts else "classlabels_int64s": labels}),
        helper.make_node("Mul", ["p", "p"], ["squares"]),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, ["n", 2])],
        [onnx.ValueInfoProto(name=n) for n in ("chosen", "maps", "squares")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    path = tmp_path / "m.gfx"
    graphfuse.compile(model).save(path)
    compiled = graphfuse.load(path)
    x = r.standard_normal((5, 2)).astype(F32)
    chosen, maps, squares = compiled(x=x).values()
    for label, row, square in zip(chosen.tolist(), maps, squares, strict=True):
        assert list(row) == labels
        assert label in labels
        np.testing.assert_allclose(np.square(list(row.values())), square, rtol=1e-6)
    assert [o.elem for o in compiled.signature.outputs] == ["text" if texts else "i64", "sequence", "f32"]
    assert main(["run", str(path), "--random", "--dim", "n=2"]) == 0
    assert "maps" in capsys.readouterr().out


COLORS = np.array([["red", "1.5"], ["blue", "-2"], ["lilac", "1e3"]])


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """Texts as an input, beside numbers: an ONNX model, and the path of its artifact."""
    ml = {"domain": "ai.onnx.ml"}
    nodes = [
        helper.make_node("Split", ["x"], ["color", "number"], axis=1, num_outputs=2),
        helper.make_node("OneHotEncoder", ["color"], ["hot"], cats_strings=["red", "blue"], **ml),
        helper.make_node(
            "LabelEncoder", ["color"], ["label"], keys_strings=["red", "blue"], values_int64s=[7, 8], **ml
        ),
        helper.make_node("Cast", ["number"], ["value"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["value", "f"], ["product"]),
        helper.make_node("Constant", [], ["at"], value_ints=[0]),
        helper.make_node("ArrayFeatureExtractor", ["x", "at"], ["same"], **ml),
    ]
    given = [helper.make_tensor_value_info(n, t, ["n", d]) for n, t, d in (("x", 8, 2), ("f", 1, 3))]
    made = {"hot": 1, "label": 7, "product": 1, "same": 8}
    graph = helper.make_graph(nodes, "g", given, [helper.make_tensor_value_info(n, t, None) for n, t in made.items()])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    path = tmp_path_factory.mktemp("texts") / "m.gfx"
    graphfuse.compile(model).save(path)
    return model, path


@pytest.mark.parametrize("dtype", [object, "U", "S"])
def test_texts_as_inputs(encoder, dtype):
    model, path = encoder
    feed = {"x": COLORS.astype(dtype), "f": np.arange(9, dtype=F32).reshape(3, 3)}
    names = [o.name for o in model.graph.output]
    wanted = ort.InferenceSession(model.SerializeToString()).run(names, {**feed, "x": COLORS.astype(object)})
    session = graphfuse.InferenceSession(path)
    assert [i.type for i in session.get_inputs()] == ["tensor(string)", "tensor(float)"]
    for found in (graphfuse.compile(model)(feed), dict(zip(names, session.run(names, feed), strict=True))):
        for name, want in zip(names, wanted, strict=True):
            np.testing.assert_array_equal(found[name], want)
            assert found[name].dtype == want.dtype


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((3, 2), F32), "'x': expected an array of texts, found float32"),
        (["red", "1"], "'x': expected an array of texts, found list"),
        (np.array([["red", 1.5]], object), "'x': expected texts, found float"),
        (COLORS[:, :1], "'x': dim 1: expected 2, found 1"),
        (COLORS[:2], "expected n = "),
    ],
)
def test_inputs_that_are_no_texts(encoder, x, message):
    with pytest.raises(InputError, match=message):
        graphfuse.load(encoder[1])(x=x, f=np.zeros((3, 3), F32))


def test_texts_on_the_command_line(encoder, tmp_path, capsys):
    np.save(tmp_path / "x.npy", COLORS)
    given = ["run", str(encoder[1]), "--random"]
    assert main([*given, "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", str(tmp_path / "out")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "same.npy"), COLORS[:, :1])
    assert np.load(tmp_path / "out" / "product.npy").shape == (3, 3)
    assert main(given) == 2
    assert "input 'x': texts cannot be made up: expected --input x=FILE.npy of run" in capsys.readouterr().err


def test_what_no_artifact_can_hold_says_so():
    with pytest.raises(UnsupportedError, match="the tensor decides a shape"):
        graphfuse.compile(model_of(PICKED), host=False)
    proto = model_of("(float[n] s) => (int64[r, n] y) { y = NonZero(s) }")
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    message = r"declares no shape.*; nor can its parts be compiled: .*input 's' declares no shape"
    with pytest.raises(UnsupportedError, match=message):
        graphfuse.compile(proto)


def test_inputs_that_are_sequences_or_may_be_nothing(tmp_path):
    text = """(seq(float[n]) s, optional(float[n]) o, int64 i)
        => (float[n] y, bool has, seq(float[n]) all, optional(float[n]) same) {
        x = SequenceAt(s, i)  y = Neg(x)  has = OptionalHasElement(o)  all = SequenceInsert(s, x)  same = Identity(o)
    }"""
    graphfuse.compile(model_of(text)).save(tmp_path / "m.gfx")
    model = graphfuse.load(tmp_path / "m.gfx")
    assert [s.elem for s in model.signature.inputs] == ["sequence", "optional", "i64"]
    assert [s.elem for s in model.signature.outputs] == ["f32", "bool", "sequence", "optional"]
    rows = [np.float32([1, 2]), np.float32([]), np.float32([3])]
    for i, row in enumerate(rows):
        out = model({"s": rows, "o": row if i else None, "i": np.int64(i)})
        np.testing.assert_array_equal(out["y"], -row)
        assert out["has"] == bool(i)
        assert [x.tolist() for x in out["all"]] == [x.tolist() for x in (*rows, row)]
        assert all(x.flags.writeable for x in out["all"])
        assert out["same"].tolist() == row.tolist() if i else out["same"] is None
    given = {"s": rows, "o": None, "i": np.int64(0)}
    for wrong, message in [
        ({"s": rows[0]}, "input 's': expected a list for a sequence, found ndarray"),
        ({"s": [np.float64([1])]}, "expected float32, found float64"),
        ({"s": [np.zeros((1, 1), np.float32)]}, "expected rank 1"),
        ({"s": [None]}, "SequenceAt|expected"),
        ({"i": np.int64(3)}, r"SequenceAt: position: expected -3\.\.2, found 3"),
        ({"more": rows[0]}, "'more'"),
    ]:
        with pytest.raises(InputError, match=message):
            model(given | wrong)
    with pytest.raises(InputError, match="missing inputs 's'"):
        model({"o": None, "i": np.int64(0)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda n: n.output.append("more"), r"expected up to 2 outputs, found 3"),
        (lambda n: n.input.append("x"), r"malformed node"),
        (lambda n: n.attribute[0].g.output.pop(), r"expected up to 1 outputs, found 2"),
    ],
)
def test_malformed_loops(change, message):
    proto = model_of(
        """(float[n] x, bool go) => (float[n] y, float[s, n] all) {
            y, all = Loop<body = b (int64 i, bool c, float[n] v) => (bool going, float[n] w, float[n] copy) {
                w = Add(v, v)  copy = Neg(w)  most = ReduceMax<keepdims = 0>(w)
                limit = Constant<value = float {9}>()  going = Less(most, limit)
            }>(, go, x)
        }"""
    )
    (node,) = proto.graph.node
    change(node)
    with pytest.raises(VerifyError, match=message):
        graphfuse.compile(proto)


def test_onnx_models_compile_by_value_before_python_runs_anything():
    model = OnnxModel(model_of("(float[n] x, int64[1] k) => (float[m] y, int64[m] i) { y, i = TopK(x, k) }"))
    model({"x": np.arange(4, dtype=F32), "k": np.array([2])})
    assert model.how == "by value"


def test_an_empty_input_of_a_model_whose_other_dims_only_a_run_knows():
    """Dims of 0 are declared on demand: those of inputs, and not those that host code counts."""
    model = OnnxModel(model_of("(float[0] x) => (float[m] y) { u = Unique(x)  y = Neg(u) }"))
    for _ in range(2):
        assert model({"x": np.zeros(0, F32)})["y"].shape == (0,)
    assert model.how == "host"

"""Models of a few hundred bytes that ask for more than there is, and models that are wrong in every other way.

`python -m tests.onnx.hostile_models` runs each of them in a process of its own with little memory to spare, and prints
what came of it, a JSON object per line.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

OPSET = onnx.defs.onnx_opset_version()
ROOM_BYTES = 1 << 30
SECONDS = 60

MODELS: dict[str, tuple[Callable[[], ModelProto], str, str]] = {}
"""By name: the model, the class of the error, and a regular expression that its message matches."""


def info(name, shape, elem=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, elem, shape)


def model(nodes, inputs=None, outputs=("y",), constants=None, opset=OPSET, functions=(), **imports):
    inputs = {"x": (2, 3)} if inputs is None else inputs
    infos = [s if isinstance(s, ValueInfoProto) else info(n, s) for n, s in inputs.items()]
    weights = [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", infos, [ValueInfoProto(name=o) for o in outputs], weights)
    opsets = [
        helper.make_opsetid("", opset),
        *(helper.make_opsetid(d.replace("_", "."), v) for d, v in imports.items()),
    ]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10)


def one(op, *inputs, shapes=None, constants=None, opset=OPSET, **attributes):
    node = helper.make_node(op, list(inputs), ["y"], name="/it", **attributes)
    return model([node], shapes, constants=constants, opset=opset)


def i64(*values):
    return np.array(values, np.int64)


def f32(*values):
    return np.array(values, np.float32)


def is_refused(name, error, words, build, *args, **kwargs):
    MODELS[name] = (lambda: build(*args, **kwargs), error, words)


TIB, OVER = (1 << 20, 1 << 20), (1 << 40, 1 << 40)
IMAGE, FILTER = {"x": (1, 1, 4, 4)}, {"w": np.ones((1, 1, 3, 3), np.float32)}

# tensors out of small constants

for size, dims, error, words in (
    ("4 TiB", TIB, "InputError", "need 4398046511104 bytes of memory"),
    ("past 64 bits", OVER, "TooLargeError", "expected up to .* bytes"),
    ("of 10,000 dims", (2,) * 10_000, "TooLargeError", "expected up to 64 dims, found 10000"),
    ("negative", (-5, 3), "VerifyError", "negative dim"),
):
    is_refused(
        f"ConstantOfShape {size}", error, words, one, "ConstantOfShape", "s", shapes={}, constants={"s": i64(*dims)}
    )
    is_refused(f"Expand {size}", error, words, one, "Expand", "x", "s", shapes={"x": (1,)}, constants={"s": i64(*dims)})
is_refused("Tile", "TooLargeError", "bytes", one, "Tile", "x", "r", constants={"r": i64(1 << 40, 1 << 20)})
for mode in ("constant", "edge", "reflect", "wrap"):
    is_refused(
        f"Pad {mode}",
        *(("VerifyError", "reflected") if mode == "reflect" else ("TooLargeError", "bytes")),
        one,
        "Pad",
        "x",
        "p",
        constants={"p": i64(*[(1 << 63) - 1] * 4)},
        mode=mode,
    )
for mode in ("nearest", "linear", "cubic"):
    big, odd = {"s": i64(1, 1, 1 << 30, 1 << 31)}, {"s": f32(1, 1, np.inf, np.nan)}
    is_refused(
        f"Resize {mode}", "TooLargeError", "positions", one, "Resize", "x", "", "", "s", shapes=IMAGE, constants=big
    )
    is_refused(
        f"Resize by inf {mode}",
        "VerifyError",
        "positive scales",
        one,
        "Resize",
        "x",
        "",
        "s",
        shapes=IMAGE,
        constants=odd,
    )
for name, bounds, error, words in (
    ("", i64(0, 1 << 60, 1), "TooLargeError", "bytes"),
    (" of tiny steps", f32(0, 3e38, 1e-38), "TooLargeError", "bytes|too large a range"),
    (" of NaN", f32(0, np.nan, 1), "VerifyError", "limit: expected a finite number"),
    (" of inf", f32(0, np.inf, 1), "VerifyError", "limit: expected a finite number"),
    (" by 0", i64(0, 5, 0), "UnsupportedError", "delta"),
):
    is_refused(
        f"Range{name}", error, words, one, "Range", *"abc", shapes={}, constants=dict(zip("abc", bounds, strict=True))
    )
INDICES = {"i": info("i", (4,), TensorProto.INT64)}
for depth, error, words in (((1 << 63) - 1, "TooLargeError", "bytes"), (-3, "VerifyError", "the depth")):
    constants = {"d": i64(depth), "v": f32(0, 1)}
    is_refused(f"OneHot {depth}", error, words, one, "OneHot", "i", "d", "v", shapes=INDICES, constants=constants)
for count, error, words in ((1 << 40, "TooLargeError", "the window"), (-4, "VerifyError", "the window")):
    is_refused(f"HannWindow {count}", error, words, one, "HannWindow", "n", shapes={}, constants={"n": np.int64(count)})
is_refused("Conv", "TooLargeError", "bytes", one, "Conv", "x", "w", shapes=IMAGE, constants=FILTER, pads=[1 << 30] * 4)
is_refused(
    "ConvTranspose", "TooLargeError", "strides", one, "ConvTranspose", "x", "w", shapes=IMAGE, constants=FILTER,
    strides=[1 << 30] * 2,
)  # fmt: skip
is_refused(
    "AveragePool", "TooLargeError", "the windows", one, "AveragePool", "x", shapes=IMAGE, kernel_shape=[1 << 40] * 2,
    pads=[1 << 39] * 4,
)  # fmt: skip
is_refused(
    "Col2Im", "TooLargeError", "the columns", one, "Col2Im", "x", "s", "b", shapes={"x": (1, 5, 5)},
    constants={"s": i64(1 << 30, 1 << 30), "b": i64(1, 5)},
)  # fmt: skip
is_refused(
    "CenterCropPad", "TooLargeError", "bytes", one, "CenterCropPad", "x", "s", constants={"s": i64(1 << 30, 1 << 30)}
)
is_refused(
    "RandomUniform", "InputError", "shape: expected up to", one, "RandomUniform", shapes={}, shape=[1 << 20, 1 << 20]
)
is_refused("Multinomial", "InputError", "sample_size", one, "Multinomial", "x", sample_size=(1 << 31) - 1)
is_refused(
    "TfIdfVectorizer", "InputError", "ngram_indexes", one, "TfIdfVectorizer", "i", shapes=INDICES, mode="TF",
    min_gram_length=1, max_gram_length=1 << 40, max_skip_count=1 << 40, ngram_counts=[0], ngram_indexes=[1 << 40],
    pool_int64s=[5],
)  # fmt: skip
is_refused("Unsqueeze", "TooLargeError", "64 dims", one, "Unsqueeze", "x", "a", constants={"a": i64(*range(10_000))})
is_refused("Transpose", "VerifyError", "perm: expected 2 dims", one, "Transpose", "x", perm=list(range(1_000_000)))
is_refused("Einsum", "VerifyError", "Einsum: term 'aaaa", one, "Einsum", "x", equation="a" * 1_000_000 + "->a")
is_refused("Sum", "TooLargeError", "16384 inputs, found 20000", one, "Sum", *(["x"] * 20_000))
is_refused(
    "SpaceToDepth", "VerifyError", "blocksize", one, "SpaceToDepth", "x", shapes={"x": (1, 4, 2, 2)}, blocksize=0
)
is_refused(
    "STFT", "VerifyError", "the step", one, "STFT", "x", "s", shapes={"x": (1, 8, 1)}, constants={"s": np.int64(0)}
)
is_refused("input of 100,000 dims", "TooLargeError", "64 dims", one, "Neg", "x", shapes={"x": (1,) * 100_000})
is_refused("input past 64 bits", "TooLargeError", "bytes", one, "Neg", "x", shapes={"x": OVER})


def grows(op, count, constants=None, start=None, elem=TensorProto.FLOAT, **attributes):
    """Each node reads the one before it twice."""
    nodes = [helper.make_node(op, [f"v{i}"] * 2, [f"v{i + 1}"], name=f"/n{i}", **attributes) for i in range(count)]
    inputs = {} if constants else {"v0": start or info("v0", (2,), elem)}
    return model(nodes, inputs, (f"v{count}",), constants)


is_refused("Concat again and again", "TooLargeError", "/n4.*bytes", grows, "Concat", 60, axis=0)
is_refused(
    "Concat of a constant again and again", "TooLargeError", "bytes", grows, "Concat", 60, {"v0": i64(1, 2)}, axis=0
)
is_refused(
    "StringConcat again and again", "InputError", "texts of up to", grows, "StringConcat", 60, elem=TensorProto.STRING
)


def squares_a_shape(count, shape):
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("ReduceSum", ["s"], ["v0"])]
    nodes += [helper.make_node("Mul", [f"v{i}"] * 2, [f"v{i + 1}"], name=f"/m{i}") for i in range(count)]
    return model([*nodes, helper.make_node("ConstantOfShape", [f"v{count}"], ["y"], name="/it")], {"x": shape})


for name, shape in (("a sum of dims", tuple("abcdefg")), ("a dim", ("n",))):  # the 64 bits that are left are large
    is_refused(f"squares of {name}", "TooLargeError|VerifyError", "/it: .*(bytes|negative)", squares_a_shape, 20, shape)

# depth, counts, loops


def deep_if(levels):
    """Built from outside to inside: a copy of a deep message is what must not happen."""
    whole = model([], {"x": (2,), "c": info("c", (), TensorProto.BOOL)})
    graph, out = whole.graph, "y"
    for k in range(levels):
        node = graph.node.add(op_type="If", name=f"/if{k}", input=["c"], output=[out])
        other = node.attribute.add(name="else_branch", type=AttributeProto.GRAPH).g
        other.node.add(op_type="Neg", input=["x"], output=["o"])
        other.output.add(name="o")
        graph, out = node.attribute.add(name="then_branch", type=AttributeProto.GRAPH).g, f"o{k}"
        graph.output.add(name=out)
    graph.node.add(op_type="Neg", input=["x"], output=[out])
    return whole


def deep_type(levels):
    whole = one("Identity", "x")
    t = whole.graph.input[0].type
    t.Clear()
    for _ in range(levels):
        t = t.sequence_type.elem_type
    t.tensor_type.elem_type = TensorProto.FLOAT
    return whole


for levels in (40, 10_000, 100_000):
    is_refused(
        f"If in If, {levels} deep", "TooLargeError", "expected graphs nested up to 30 deep, found", deep_if, levels
    )
    is_refused(
        f"sequence of sequences, {levels} deep",
        "TooLargeError",
        "expected types nested up to 30 deep",
        deep_type,
        levels,
    )


def loops(levels, trips):
    """Loops in one another, each of `trips` iterations."""
    nodes, deepest = [helper.make_node("Add", [f"v{levels}"] * 2, [f"w{levels}"])], levels
    for k in range(deepest, 0, -1):
        inputs = [info(f"i{k}", (), TensorProto.INT64), info(f"c{k}", (), TensorProto.BOOL), info(f"v{k}", (2,))]
        outputs = [info(f"d{k}", (), TensorProto.BOOL), ValueInfoProto(name=f"w{k}")]
        nodes.append(helper.make_node("Identity", [f"c{k}"], [f"d{k}"]))
        body = helper.make_graph(nodes, f"b{k}", inputs, outputs)
        nodes = [helper.make_node("Loop", ["m", "t", f"v{k - 1}"], [f"w{k - 1}"], body=body, name=f"/loop{k}")]
    constants = {"m": np.int64(trips), "t": np.array(True)}  # noqa: FBT003
    return model(nodes, {"v0": (2,)}, ("w0",), constants)


is_refused("a loop of 2**63 iterations", "TooLargeError", "/loop1: .* iterations, found", loops, 1, (1 << 63) - 1)
is_refused("loops that would be unrolled 64**7 times", "TooLargeError", "iterations, found 64 in each", loops, 7, 64)
is_refused("loops of 2**20 iterations in one another", "TooLargeError", "iterations, found", loops, 2, 1 << 20)


def chain_that_bites_its_tail(count):
    whole = model([], outputs=(f"v{count}",))
    for i in range(count):
        whole.graph.node.add(op_type="Neg", input=[f"v{i or count}"], output=[f"v{i + 1}"], name=f"/n{i}")
    return whole


is_refused("a cycle of 40,000 nodes", "VerifyError", "the graph has a cycle", chain_that_bites_its_tail, 40_000)


def branches_beside_a_chain(branches, count):
    """Every branch sees all names of the graph around it, and the last one defines one of them again."""
    whole = model([], {"x": (2,), "c": info("c", (), TensorProto.BOOL)}, outputs=(f"v{count}",))
    for i in range(count):
        whole.graph.node.add(op_type="Neg", input=[f"v{i}" if i else "x"], output=[f"v{i + 1}"], name=f"/n{i}")
    for i in range(branches):
        node = whole.graph.node.add(op_type="If", input=["c"], output=[f"w{i}"], name=f"/if{i}")
        for side in ("then_branch", "else_branch"):
            made = "b" if i + 1 < branches else "v1"
            nodes = [helper.make_node("Abs", [f"v{i + 1}"], [made], name="/abs")]
            body = helper.make_graph(nodes, "b", [], [ValueInfoProto(name=made)])
            node.attribute.append(helper.make_attribute(side, body))
    return whole


is_refused(
    "branches beside 20,000 nodes", "VerifyError", "'v1' is defined twice", branches_beside_a_chain, 5_000, 20_000
)

# functions


def function(name, *nodes, inputs=("a",), outputs=("b",), opset=OPSET):
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, list(inputs), list(outputs), list(nodes), opsets)


def call(name, source, target):
    return helper.make_node(name, [source], [target], domain="own", name=f"/{name}")


def calls(*functions):
    return model([call("f0", "x", "y")], functions=functions, own=1)


NEG = helper.make_node("Neg", ["a"], ["b"])


def chain_of_functions(count, *steps):
    """Each function calls the next one, from each name to the next one of `steps`."""
    functions = [function(f"f{i}", *(call(f"f{i + 1}", a, b) for a, b in steps)) for i in range(count)]
    return calls(*functions, function(f"f{count}", NEG))


is_refused(
    "a function that calls itself", "VerifyError", "own::f0 calls itself", calls, function("f0", call("f0", "a", "b"))
)
is_refused(
    "functions that call one another", "VerifyError", "calls itself", calls,
    function("f0", call("f1", "a", "b")), function("f1", call("f2", "a", "b")), function("f2", call("f0", "a", "b")),
)  # fmt: skip
is_refused("2**60 calls", "TooLargeError", f"found {1 << 60}", chain_of_functions, 60, ("a", "c"), ("c", "b"))
is_refused(
    "10,000 calls inside one another", "TooLargeError", "in turn, found 10000", chain_of_functions, 10_000, ("a", "b")
)
is_refused(
    "a function twice", "VerifyError", "own::f0 is defined twice", calls, function("f0", NEG), function("f0", NEG)
)
is_refused(
    "a function without its output", "VerifyError", "output 'y' is not defined", calls,
    function("f0", helper.make_node("Neg", ["a"], ["c"])),
)  # fmt: skip
is_refused("a function of a future opset", "UnsupportedError", "opset 99", calls, function("f0", NEG, opset=99))

# names and versions

is_refused("a future opset", "UnsupportedError", "opset 99, the installed", one, "Neg", "x", opset=99)
is_refused(
    "a future opset of ai.onnx.ml", "UnsupportedError", "of ai.onnx.ml", model,
    [helper.make_node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml")], ai_onnx_ml=1 << 40,
)  # fmt: skip
is_refused(
    "an unknown domain", "UnsupportedError", "nowhere::Frob", model,
    [helper.make_node("Frob", ["x"], ["y"], domain="nowhere")], nowhere=1,
)  # fmt: skip
is_refused("an unknown operator", "VerifyError", "Frob", one, "Frob", "x")
is_refused("a missing input", "VerifyError", "/it: .*input size 1", one, "Add", "x")
is_refused("an undefined input", "VerifyError", "/it: .*'nowhere' is not defined", one, "Add", "x", "nowhere")
is_refused("an operator that reads itself", "VerifyError", "cycle", one, "Add", "x", "y")
is_refused(
    "a name that is defined twice", "VerifyError", "'y' is defined twice", model,
    [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["y"])],
)  # fmt: skip
is_refused("a name of ten million letters", "VerifyError", "not defined", one, "Neg", "n" * 10_000_000)


def imports_twice():
    whole = one("Neg", "x")
    whole.opset_import.add(domain="", version=7)
    return whole


is_refused("an opset twice", "VerifyError", "the model imports ai.onnx twice, as", imports_twice)

# data


def weight(nbytes, dims, data_type=TensorProto.FLOAT, **entries):
    whole = one("Add", "x", "w")
    t = whole.graph.initializer.add(name="w", data_type=data_type, dims=dims)
    if not entries:
        t.raw_data = b"\0" * nbytes
        return whole
    t.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        t.external_data.add(key=key, value=value)
    return whole


is_refused("data too short", "VerifyError", "'w' has 7 bytes, its type needs 8", weight, 7, [2])
is_refused("data too long", "VerifyError", "'w' has 9 bytes, its type needs 8", weight, 9, [2])
is_refused("dims whose product wraps", "VerifyError", "'w' has 8 bytes", weight, 8, [(1 << 62) + 2])
is_refused("a negative dim of data", "VerifyError", "negative dim", weight, 8, [-2])
is_refused("data of an unknown type", "UnsupportedError", "number 77", weight, 8, [2], 77)
is_refused("raw data of texts", "VerifyError|UnsupportedError", "'w'|string", weight, 8, [2], TensorProto.STRING)
for name, words, entries in (
    ("outside of the folder", "outside|no folder", {"location": "../../etc/passwd"}),
    ("at an absolute path", "outside|no folder", {"location": "/etc/passwd"}),
    ("in no file", "cannot read|no folder", {"location": "no.bin"}),
    ("in a short file", "has 3 bytes|no folder", {"location": "short.bin"}),
    ("past the end", "has 3 bytes|no folder", {"location": "short.bin", "offset": "9" * 18}),
    ("at no number", "expected a number|no folder", {"location": "short.bin", "length": "1" * 5000}),
    ("in a circle of links", "no path|no folder", {"location": "loop"}),
    ("in a pipe", "not a file|no folder", {"location": "pipe"}),
    ("behind a NUL", "no path|no folder", {"location": "a\0b"}),
):
    is_refused(f"data {name}", "FileError", words, weight, 0, [300], **entries)


def tree(**changed):
    attributes = {
        "n_targets": 1, "tree_roots": [0], "nodes_featureids": [0], "nodes_truenodeids": [0], "nodes_trueleafs": [1],
        "nodes_falsenodeids": [0], "nodes_falseleafs": [1], "leaf_targetids": [0],
        "nodes_modes": numpy_helper.from_array(np.array([0], np.uint8)),
        "nodes_splits": numpy_helper.from_array(f32(0)), "leaf_weights": numpy_helper.from_array(f32(1)),
    } | changed  # fmt: skip
    return model(
        [helper.make_node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", name="/it", **attributes)], ai_onnx_ml=5
    )


is_refused("a tree that is a circle", "VerifyError", "not a tree", tree, nodes_trueleafs=[0], nodes_falseleafs=[0])
is_refused("a tree of 2**40 targets", "TooLargeError", "the weights of the leaves", tree, n_targets=1 << 40)
is_refused(
    "a tree of features that are not there", "VerifyError", "features: expected", tree, nodes_featureids=[1 << 40]
)


# running them


def inputs_of(whole):
    """Ones of the declared types; 3 for dims that are symbols."""
    backed = {t.name for t in whole.graph.initializer}
    for i in whole.graph.input:
        t = i.type.tensor_type
        if i.name not in backed:
            texts = t.elem_type == TensorProto.STRING
            dtype = object if texts else helper.tensor_dtype_to_np_dtype(t.elem_type)
            yield np.full([d.dim_value or 3 for d in t.shape.dim], "ab" if texts else 1, dtype)


def run(whole: ModelProto, folder: Path) -> Iterator[tuple[str, str, str]]:
    """How it was tried, the class of the error, and its message."""
    import graphfuse
    from graphfuse.cli import main
    from graphfuse.errors import GraphfuseError
    from graphfuse.onnx_backend import Backend

    for way, fn in (
        ("compile", lambda: graphfuse.compile(whole)),
        ("backend", lambda: Backend.prepare(whole).run(list(inputs_of(whole)))),
    ):
        try:
            fn()
            yield way, "", ""
        except GraphfuseError as e:
            yield way, type(e).__name__, str(e)
    if "deep" in sys.argv:
        return  # protobuf itself cannot write it
    path = folder / "m.onnx"
    path.write_bytes(whole.SerializeToString())
    with contextlib.redirect_stderr(io.StringIO()) as text:
        code = main(["compile", str(path), "-o", str(folder / "m.gfx")])
    yield "command", str(code), text.getvalue()


def run_all() -> None:
    """Each model in a fork of this process, which has imported everything."""
    import graphfuse
    import graphfuse.cli.compile
    import graphfuse.onnx_backend

    graphfuse.compile(one("Neg", "x"))
    for name, (build, _, _) in MODELS.items():
        sys.stdout.write(json.dumps({"name": name, **_in_fork(build, name)}) + "\n")
        sys.stdout.flush()  # a fork would write it again


def _in_fork(build, name):
    read, write = os.pipe()
    if not (child := os.fork()):
        signal.alarm(SECONDS)
        found = []
        try:
            whole = build()
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            room = pages * resource.getpagesize() + ROOM_BYTES
            resource.setrlimit(resource.RLIMIT_AS, (room, room))
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "short.bin").write_bytes(b"abc")
                (Path(folder) / "loop").symlink_to("loop")
                os.mkfifo(Path(folder) / "pipe")
                sys.argv = [*sys.argv, "deep"] if "deep" in name else sys.argv
                found += run(whole, Path(folder))
        except BaseException as e:  # noqa: BLE001  # whatever it is, the parent wants to know
            found.append(["escaped", type(e).__name__, str(e)[:500]])
        os.write(write, json.dumps(found).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return {"status": status, "found": json.loads(text or b"[]")}


if __name__ == "__main__":
    run_all()

"""ONNX models with a few things wrong in them, by the command line: an exit code and one line, whatever they are."""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import signal

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

import graphfuse.cli.run  # all that a child would have to import otherwise
import graphfuse.compiler
import graphfuse.frontends.onnx.python_ops
import graphfuse.fusion.inline
import graphfuse.host_session
import graphfuse.onnx_program
import models
from graphfuse.cli import main
from graphfuse.runtime import session

NUMBERS = (-(1 << 63), -(1 << 31), -1000, -1, 0, 1, 2, 3, 7, 64, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1)
FLOATS = (0.0, -1.0, 1e30, float("inf"), float("nan"), 0.5)
NAMES = ("", "-1", "a b", "N", "batch*2", "1+", "floordiv(n, 0)", "x" * 5000, "\x1b[31m\n")
assert session
assert graphfuse


def _small():
    """Models of a few nodes: a chain of products and norms, convolutions, and one that Python runs in part."""
    node, f32 = helper.make_node, TensorProto.FLOAT
    rng = random.Random(0)

    def info(name, shape):
        return helper.make_tensor_value_info(name, f32, shape)

    def weight(name, *shape):
        count = 1
        for d in shape:
            count *= d
        return helper.make_tensor(name, f32, shape, [rng.uniform(-1, 1) for _ in range(count)])

    def model(nodes, inputs, outputs, weights):
        graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
        whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        return whole.SerializeToString()

    yield model(
        [
            node("MatMul", ["x", "w1"], ["a"]), node("Add", ["a", "b1"], ["b"]),
            node("LayerNormalization", ["b", "g", "b1"], ["c"]), node("Relu", ["c"], ["d"]),
            node("Softmax", ["d"], ["e"], axis=-1), node("Transpose", ["e"], ["f"], perm=[0, 2, 1]),
            node("MatMul", ["e", "f"], ["y"]), node("ReduceSum", ["d", "axes"], ["z"], keepdims=0),
        ],
        [info("x", ["batch", "seq", 8])], [info("y", ["batch", "seq", "seq"]), info("z", ["batch", 16])],
        [
            weight("w1", 8, 16), weight("b1", 16), weight("g", 16),
            helper.make_tensor("axes", TensorProto.INT64, [1], [1]),
        ],
    )  # fmt: skip
    yield model(
        [
            node("Conv", ["x", "w1", "b1"], ["a"], pads=[1, 1, 1, 1]), node("Relu", ["a"], ["b"]),
            node("Conv", ["b", "w2"], ["c"], pads=[1, 1, 1, 1]), node("GlobalAveragePool", ["d"], ["y"]),
            node("MaxPool", ["c"], ["d"], kernel_shape=[2, 2], strides=[2, 2]), node("Sigmoid", ["c"], ["z"]),
        ],
        [info("x", ["batch", 3, "h", "w"])], [info("y", ["batch", 8, 1, 1]), info("z", ["batch", 8, "h", "w"])],
        [weight("w1", 8, 3, 3, 3), weight("b1", 8), weight("w2", 8, 8, 3, 3)],
    )  # fmt: skip
    yield model(
        [
            node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["b"]), node("NonZero", ["b"], ["nz"]),
            node("Transpose", ["nz"], ["nt"]), node("GatherND", ["b", "nt"], ["g"]), node("Exp", ["g"], ["y"]),
        ],
        [info("x", ["n", 8])], [info("y", ["k"])], [weight("w", 8, 8)],
    )  # fmt: skip


with np.errstate(all="ignore"):
    _NODES = [t.model.SerializeToString() for t in collect_testcases(None)]
SEEDS = [
    *_small(),
    *(models.cached(name, small=True).read_bytes() for name in ("digits", "bilstm", "dlrm")),
    *(data for data in _NODES if len(data) < 20_000),
]
OPERATORS = sorted({n.op_type for data in _NODES for n in onnx.ModelProto.FromString(data).graph.node})


def case(seed, folder):
    rng = random.Random(seed)
    # half of the seeds are models of several nodes, or what comes of one of these
    data = rng.choice(SEEDS[:6] if rng.random() < 0.3 else SEEDS)
    data = mutate_bytes(rng, data) if rng.random() < 0.3 else mutate_model(rng, data)
    model, made = folder / "m.onnx", folder / "made"
    model.write_bytes(data)
    if rng.random() < 0.5:
        return command(folder, ["compile", str(model), "-o", str(made)], made)
    return command(folder, ["run", str(model), "--random", "--output-dir", str(made)])


def command(folder, arguments, made=None):
    """Run the command line here. It exits by one of its errors, which is one line, and leaves nothing half done."""
    words = io.StringIO()
    # whoever is slow is killed; the terminal's answer to that is not of interest
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    with contextlib.redirect_stderr(words), contextlib.redirect_stdout(io.StringIO()):
        code = main(arguments)
    text = words.getvalue()
    os.write(2, text.encode("utf8", "replace"))
    assert code in range(11), f"exit code {code}"
    if code:
        assert code > 1, "an error without a class"
        lines = text.strip().split("\n")
        assert len(lines) == 1, f"{len(lines)} lines"
        assert not re.search(r"[\x00-\x08\x0b-\x1f]", text), "control characters"
        assert made is None or not made.exists(), f"{made} was written"
    assert not [p.name for p in folder.rglob("*.tmp")], "a file that is left"
    return f"exit {code}"


def mutate_bytes(rng, data):
    """Flip, overwrite, drop, insert or repeat a few bytes, or cut the file."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 12])):
        if not out:
            break
        at = rng.randrange(len(out))
        match rng.randrange(7):
            case 0:
                out[at] ^= 1 << rng.randrange(8)
            case 1:
                out[at] = rng.randrange(256)
            case 2:
                del out[at : at + rng.choice([1, 2, 7, 64, 4096])]
            case 3:
                out[at:at] = rng.randbytes(rng.choice([1, 8, 64]))
            case 4:
                out[at : at + 8] = rng.choice([b"\xff" * 8, bytes(8), rng.randbytes(8)])
            case 5:
                start, count = rng.randrange(len(out)), rng.choice([4, 16, 100])
                out[at : at + count] = out[start : start + count]
            case _:
                del out[at:]
    return bytes(out)


def mutate_model(rng, data):
    """Keep it a well-formed message, but rewire, rename, drop, overwrite or change the type of a few things in it."""
    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice([1, 1, 2, 3])):
        with contextlib.suppress(IndexError, ValueError, AttributeError):  # nothing of the kind is there
            _mutate_once(rng, model)
    return model.SerializeToString()


def _mutate_once(rng, model):
    graph = model.graph
    node = rng.choice(graph.node)
    names = ["", *(name for n in graph.node for name in (*n.input, *n.output))]
    match rng.randrange(15):
        case 0:
            a = rng.choice(node.attribute)
            a.i, a.f = rng.choice(NUMBERS), rng.choice(FLOATS)
        case 1:
            a = rng.choice([a for a in node.attribute if a.ints])
            a.ints[rng.randrange(len(a.ints))] = rng.choice(NUMBERS)
        case 2:
            node.input[rng.randrange(len(node.input))] = rng.choice(names)
        case 3:
            node.op_type = rng.choice(OPERATORS)
        case 4:
            dims = rng.choice(graph.input).type.tensor_type.shape.dim
            rng.choice(dims).dim_value = rng.choice(NUMBERS)
        case 5:
            rng.choice(graph.input).type.tensor_type.elem_type = rng.randrange(26)
        case 6:
            rng.choice(graph.input).type.tensor_type.shape.dim.add().dim_param = rng.choice(NAMES)
        case 7:
            t = rng.choice(graph.initializer)
            t.dims[rng.randrange(len(t.dims))] = rng.choice(NUMBERS)
        case 8:
            rng.choice(graph.initializer).data_type = rng.randrange(26)
        case 9:
            del node.attribute[rng.randrange(len(node.attribute))]
        case 10:
            rng.choice(model.opset_import).version = rng.randrange(-1, 30)
        case 11:
            node.input[:] = rng.choice([node.input[:-1], [*node.input, rng.choice(names)]])
        case 12:
            # numbers that an input had are known at compile time now
            i = rng.choice(graph.input)
            t = i.type.tensor_type
            shape = [d.dim_value or 2 for d in t.shape.dim]
            array = numpy_helper.to_array(helper.make_tensor(i.name, t.elem_type, [], [rng.choice(NUMBERS[2:10])]))
            graph.initializer.append(numpy_helper.from_array(array.repeat(max(1, _size(shape))).reshape(shape), i.name))
        case _:
            node.name = rng.choice(NAMES)
            rng.choice(graph.output).name = rng.choice(names)


def _size(shape):
    count = 1
    for d in shape:
        count = min(count * d, 1 << 16)
    return count

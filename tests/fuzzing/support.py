"""What several kinds use: small models, a command run here, bytes with a few things wrong in them."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import random
import re
import signal

from onnx import TensorProto, helper

from graphfuse.cli import main


class Patch:
    """Like pytest's, for a process that ends anyway."""

    def setattr(self, target, name, value):
        setattr(target, name, value)


def small_models():
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


VALUES = [
    -1, 0, 1, 2, 63, 64, 2**31, 2**62, 2**63, 10**30, 1.5, True, None, "", "n", "m", "i", "n - 5", "3*n",
    "floordiv(n, 0)", "floordiv(n, n - 3)", "mod(n, n - 3)", "n*n*n*n*n*n*n*n*n*n*n*n*n*n*n*n*n*n*n*n*n",
    "((((", "input", "arena", "output", "f32", "i4", [], {}, [0, 0], ["n"], "é" * 3000, "\x1b[31m\n",
]  # fmt: skip


def mutate_json(rng, tree):
    """Replace, drop, repeat or swap a value somewhere."""
    whole = tree
    while True:
        tree = copy.deepcopy(whole)
        places, stack = [], [tree]
        while stack:
            node = stack.pop()
            for key in list(node) if isinstance(node, dict) else range(len(node)):
                places.append((node, key))
                if isinstance(node[key], (dict, list)):
                    stack.append(node[key])
        for _ in range(rng.choice([1, 1, 2, 4])):
            node, key = rng.choice(places)
            try:
                match rng.randrange(5):
                    case 0:
                        del node[key]
                    case 1 if isinstance(node, list):
                        node.insert(key, copy.deepcopy(node[key]))
                    case 2:
                        other, where = rng.choice(places)
                        node[key], other[where] = other[where], node[key]
                    case _:
                        node[key] = copy.deepcopy(rng.choice(VALUES))
            except (KeyError, IndexError):
                continue
        try:
            json.dumps(tree)
        except (ValueError, RecursionError):  # a tree that contains itself is no JSON
            continue
        return tree

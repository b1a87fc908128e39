"""ONNX models with a few things wrong in them, by the command line: an exit code and one line, whatever they are."""

from __future__ import annotations

import contextlib
import random

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

import graphfuse.cli.run  # all that a child would have to import otherwise
import graphfuse.compiler
import graphfuse.frontends.onnx.python_ops
import graphfuse.fusion.regions.inline
import graphfuse.host.build
import graphfuse.host.session
import models
from graphfuse.runtime import session
from tests.fuzzing.support import command, mutate_bytes, small_models

NUMBERS = (-(1 << 63), -(1 << 31), -1000, -1, 0, 1, 2, 3, 7, 64, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1)
FLOATS = (0.0, -1.0, 1e30, float("inf"), float("nan"), 0.5)
NAMES = ("", "-1", "a b", "N", "batch*2", "1+", "floordiv(n, 0)", "x" * 5000, "\x1b[31m\n")
assert session
assert graphfuse


with np.errstate(all="ignore"):
    _NODES = [t.model.SerializeToString() for t in collect_testcases(None)]
SEEDS = [
    *small_models(),
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


def mutate_model(rng, data):
    """Keep it a well-formed message, but rewire, rename, drop, overwrite or change the type of a few things in it."""
    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice([1, 1, 2, 3])):
        # where there is nothing of the kind
        with contextlib.suppress(IndexError, ValueError, AttributeError, KeyError, TypeError, OverflowError):
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

"""Mutated models import, or fail with one of graphfuse's own errors: nothing else ever comes out."""

from __future__ import annotations

import random
from pathlib import Path

import onnx
import pytest

import models
from graphfuse.errors import GraphfuseError
from graphfuse.frontends.onnx import import_model

NAMES = ("digits", "bert_base", "bilstm", "unet", "dlrm")
ODD_INTS = (-1, 0, 1, 2, 7, 1000, 1 << 40, -(1 << 40), 1 << 62)


def mutate_bytes(rng: random.Random, data: bytes) -> bytes:
    """Cut the file, or overwrite a few bytes (mostly near the front, where the structure is)."""
    if rng.random() < 0.2:
        return data[: rng.randrange(len(data))]
    out = bytearray(data)
    for _ in range(rng.choice([1, 2, 5, 20])):
        out[rng.randrange(min(len(out), rng.choice([200, 3000, len(out)])))] = rng.randrange(256)
    return bytes(out)


def mutate_model(rng: random.Random, data: bytes) -> bytes:
    """Keep the file well formed, but rewire, delete or overwrite one thing in it."""
    model = onnx.ModelProto.FromString(data)
    graph = model.graph
    node = rng.choice(graph.node)
    names = [name for n in graph.node for name in (*n.input, *n.output)]
    tensor = rng.choice(graph.initializer)
    dim = rng.choice(graph.input).type.tensor_type
    match rng.randrange(11):
        case 0 if node.input:
            node.input[rng.randrange(len(node.input))] = rng.choice(names)
        case 1 if node.input:
            del node.input[rng.randrange(len(node.input))]
        case 2:
            node.op_type = rng.choice(graph.node).op_type
        case 3 if node.attribute:
            del node.attribute[rng.randrange(len(node.attribute))]
        case 4 if node.attribute:
            a = rng.choice(node.attribute)
            if a.ints:
                a.ints[rng.randrange(len(a.ints))] = rng.choice(ODD_INTS)
            else:
                a.i = rng.choice(ODD_INTS)
        case 5 if tensor.dims:
            tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(ODD_INTS)
        case 6:
            tensor.data_type = rng.randrange(30)
        case 7:
            node.output[0] = rng.choice(names)
        case 8:
            rng.choice(model.opset_import).version = rng.randrange(-1, 40)
        case 9 if dim.shape.dim:
            dim.shape.dim[0].dim_value = rng.choice(ODD_INTS)
        case _:
            dim.elem_type = rng.randrange(25)
    return model.SerializeToString()


def _run(path: Path, seed: int, count: int) -> None:
    rng = random.Random(seed)
    files = [models.cached(name, small=True).read_bytes() for name in NAMES]
    for i in range(count):
        mutate = mutate_bytes if rng.random() < 0.4 else mutate_model
        path.write_bytes(mutate(rng, rng.choice(files)))
        try:
            import_model(path)
        except GraphfuseError as e:
            assert "\n" not in str(e), f"case {i}: an error is one line: {e}"


def test_mutated_models(tmp_path: Path) -> None:
    _run(tmp_path / "m.onnx", seed=0, count=120)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1, 5))
def test_many_mutated_models(tmp_path: Path, seed: int) -> None:
    _run(tmp_path / "m.onnx", seed=seed, count=600)

"""Artifacts to be mutated, and ways to change what is in them without breaking a digest."""

from __future__ import annotations

import hashlib
import io
import json
import re
import struct
import tempfile
import zlib
from pathlib import Path

import onnx
from onnx import TensorProto, helper

import graphfuse
import graphfuse.cli.html  # all that a child would have to import otherwise
import graphfuse.cli.inspect
import graphfuse.cli.run
import graphfuse.compiler
import graphfuse.frontends.onnx.python_ops
import graphfuse.fusion.regions.inline
import graphfuse.host.session
from graphfuse.runtime import gfx
from tests.fuzzing.support import small_models

KERNEL = """// op: mine::Shift
// inputs: x: float[N]; outputs: y: float[N]
// macros: TM = 32
// grid: cdiv(N, TM)
// args: x, y, N
__global__ void shift(float *x, float *y, int N) {
  int r[TM] = get_program_id(0) * TM + 0 ... TM;
  float v[TM] = *?(r < N)(x + (N - 1 - r));
  for (int i = 0; i < 3; i += 1) { v += 1.0f; }
  *?(r < N)(y + r) = v;
}
"""


def _hand_written(folder):
    """A model of a kernel that a graph calls."""
    (folder / "shift.tc").write_text(KERNEL)
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in "xy"]
    nodes = [helper.make_node("Shift", ["x"], ["a"], domain="mine"), helper.make_node("Exp", ["a"], ["y"])]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]
    return graphfuse.compile(helper.make_model(graph, opset_imports=opsets, ir_version=10), kernels=folder)


def _made():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = [graphfuse.compile(onnx.ModelProto.FromString(data)) for data in small_models()]
        for model in (*models, _hand_written(folder)):
            model.save(folder / "m.gfx")
            yield (folder / "m.gfx").read_bytes()


SEEDS = list(_made())
_PREFIX = struct.Struct("<8sIIQ")


def _sections(data):
    _, _, length, _ = _PREFIX.unpack(data[: _PREFIX.size])
    return json.loads(data[_PREFIX.size : _PREFIX.size + length])


def with_digests(data):
    """The digests of a damaged file made right, where its header can be read."""
    try:
        head = _sections(data)
        for row in head["sections"]:
            row[5] = hashlib.sha256(data[int(row[1], 16) :][: row[2]]).hexdigest()
        text = json.dumps(head, separators=(",", ":")).encode()
        length = struct.unpack_from("<I", data, 12)[0]
    except (ValueError, KeyError, TypeError, IndexError, struct.error, AttributeError):
        return data
    if len(text) != length:
        return data
    out = bytearray(data)
    out[_PREFIX.size : _PREFIX.size + length] = text
    out[-32:] = hashlib.sha256(bytes(out[: _PREFIX.size + length])).digest()
    return bytes(out)


def rewritten(data, changes):
    """The file with the JSON of sections changed, those of parts in it too, everything else consistent."""
    head, parts = _sections(data), []
    for name, at, length, unpacked, encoding, _ in head["sections"]:
        content = data[int(at, 16) :][:length]
        kind = name.partition(".")[0]
        if kind == "part":
            content = rewritten(content, changes)
            unpacked = len(content)
        elif kind in changes:
            plain = zlib.decompress(content) if encoding == "zlib" else content
            plain = json.dumps(changes[kind](json.loads(plain)), separators=(",", ":")).encode("utf8", "replace")
            content, unpacked = zlib.compress(plain) if encoding == "zlib" else plain, len(plain)
        parts.append(gfx._Part(name, unpacked, encoding, [content]))
    file = io.BytesIO()
    gfx._write_parts(parts, file)
    return file.getvalue()


WORDS = (
    "-1", "0", "1", "9223372036854775807", "1e308", "n", "floordiv(n, 0)", "mod(n, m)", "\x1b[31m", "null", "true",
    "[]", "{}", '""', "f64", "i4", "f16", "999999999999999999999999", "min(n, 1)", "(((((", "batch", "2147483648",
    "4096", "graph.add", "graph.call", "block.store", "block.load", "%x",
)  # fmt: skip


CLASSES = {
    "number": (r"(?<![\w%])-?\d+(?:\.\d+)?",
    ("-1", "0", "1", "2", "3", "7", "8", "64", "4096", "2147483648", "1000000000")),
    "value": (r"%\w+", ()),
    "op": (r"(?:graph|block)\.\w+", ("graph.add", "graph.sub", "graph.max", "block.store", "block.load", "block.lt")),
    "elem": (r"\b(?:f32|f16|bf16|f64|i64|i32|u8|i8|bool)\b", ("f64", "i64", "i8", "bool", "f16")),
    "shape": (r"(?<=<)[\w()*+x -]+(?=x[a-z])", ("0", "1", "3", "(n)", "1x1", "65536")),
    "word": (r"(?<=[{ ])\w+(?= = )", ()),
}  # fmt: skip
"""What a token may be taken for, and what else is put in its place."""


def mutate_text(rng, text):
    """At the level of tokens: mostly one replaced by one of its kind, or by any other, dropped, or doubled."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        pattern, words = rng.choice(list(CLASSES.values()))
        alike = rng.random() < 0.8
        pattern = pattern if alike else r"-?\d+|%?[A-Za-z_.]+\d*|[\[\]{}(),:%]"
        tokens = [m.span() for m in re.finditer(pattern, text)]
        if not tokens:
            continue
        start, end = rng.choice(tokens)
        a, b = rng.choice(tokens)
        new = (
            rng.choice([text[a:b], *words])
            if alike
            else rng.choice([text[a:b], rng.choice(WORDS), "", text[start:end] * 2])
        )
        text = text[:start] + new + text[end:]
    return text

"""Rewrites a model: products with constant matrices become `MatMulNBits`, whose weights are rounded to a few bits.

Owns which nodes these are, what becomes of names and of constants, and how the model is written. How numbers are
rounded is in `rounding.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from graphfuse.errors import Loc, TooLargeError, UnsupportedError, UsageError, meant
from graphfuse.files import writing
from graphfuse.frontends.host_values import Array
from graphfuse.frontends.onnx.load import KEPT_BYTES, default_opset, read_to_rewrite, tensor_array
from graphfuse.frontends.onnx.node import MICROSOFT, attributes_of
from graphfuse.frontends.onnx.protos import all_nodes, domain_of, names_read, subgraphs
from graphfuse.frontends.onnx.rounding import Rounded, Scheme, rounded, runs_of_rows

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
"""The types that a product by codes has."""
BROADCASTING_OPSET = 7
"""From here on a Gemm adds its C by numpy's rule, as an Add does."""
BIAS = 5
"""Which input of a MatMulNBits is added."""
MOST_INSIDE = 2_000_000_000
"""Bytes of a model in one file: a message of protobuf has at most 2**31. Larger ones have a second file."""
PAGE = 4096
"""Tensors in a second file begin at multiples of this, so that it can be mapped."""


@dataclass(frozen=True)
class Layer:
    """A product whose weights were rounded."""

    name: str
    """Of the node, or of its result where the node has none."""
    weight: str
    """The initialiser that its weights were."""
    k: int
    n: int
    bytes_before: int
    bytes_after: int
    error: float
    """Of the weights: the root of the mean square of what rounding changed, in parts of that of the weights."""
    x: str
    """What is multiplied by the weights; nothing within a node's graph, whose values have no name outside."""


@dataclass(frozen=True)
class Rewritten:
    """A model without the bytes of its big initialisers, these by name, and what was done to it."""

    model: onnx.ModelProto
    raw: dict[str, Array]
    layers: tuple[Layer, ...]
    matrices: tuple[tuple[Array, Rounded], ...]
    """Of each layer: the weights [n, k] as they were, and rounded."""
    nbytes: tuple[int, int]
    """Of all constants, before and after."""


@dataclass(frozen=True, eq=False)
class _Tensor:
    """A constant of the model: an initialiser, or what a Constant holds."""

    proto: TensorProto
    name: str


@dataclass(frozen=True)
class _Constant:
    """What a name stands for: a tensor as it is or turned, and the names that it goes through."""

    tensor: _Tensor
    is_turned: bool
    names: tuple[str, ...]

    @property
    def dims(self) -> tuple[int, ...]:
        dims = tuple(self.tensor.proto.dims)
        return dims[::-1] if self.is_turned else dims


@dataclass(frozen=True)
class _Product:
    """A node to rewrite: its weights [n, k], and what is added to the product."""

    graph: onnx.GraphProto
    """Which it is in."""
    node: onnx.NodeProto
    weight: _Constant
    """[k, n]."""
    bias: str
    takes_bias: bool
    """Whether the bias is a constant of n elements, which the rewritten node adds itself."""

    @property
    def name(self) -> str:
        return self.node.name or self.node.output[0]


def quantised(
    source: Path | onnx.ModelProto,
    scheme: Scheme,
    accuracy_level: int = 0,
    exclude: Sequence[str] = (),
    progress: Callable[[str], None] = lambda _: None,
) -> Rewritten:
    """Round the weights of all products with constant matrices, but for those that `exclude` has the names of.

    Raises UsageError where there are none or a name is unknown, and UnsupportedError for weights that are not finite.
    """
    model, raw, file = read_to_rewrite(source)
    before = _constant_bytes(model, raw)
    found = [p for p in _products(model.graph, default_opset(model), scheme, {}) if p.node.output and p.node.output[0]]
    chosen = _chosen(found, exclude, file)
    names, outer = _Names(model), {o for n in model.graph.node for o in n.output}
    stored: dict[tuple[_Tensor, bool], tuple[Array, Rounded, tuple[str, ...]]] = {}
    layers: list[Layer] = []
    for p in chosen:
        progress(p.name)
        key = p.weight.tensor, p.weight.is_turned
        if key not in stored:
            w = _matrix(p, raw, file)
            codes = rounded(w, scheme)
            stored[key] = w, codes, _store(model, raw, names, p.weight.tensor.name, codes)
        w, codes, inputs = stored[key]
        layers.append(_layer(p, w, codes, is_outer=p.node.output[0] in outer))
        _rewrite(p, codes, inputs, accuracy_level, names)
    _remove_unread(model, raw, {n for p in chosen for n in p.weight.names})
    model.ir_version = max(model.ir_version, 4)  # from here on, an initialiser need not be listed as an input
    if not any(o.domain == MICROSOFT for o in model.opset_import):
        model.opset_import.add(domain=MICROSOFT, version=1)
    matrices = tuple(stored[p.weight.tensor, p.weight.is_turned][:2] for p in chosen)
    return Rewritten(model, raw, tuple(layers), matrices, (before, _constant_bytes(model, raw)))


def _layer(p: _Product, w: Array, codes: Rounded, *, is_outer: bool) -> Layer:
    error = float(np.sqrt(codes.lost / codes.total)) if codes.total else 0.0
    x = p.node.input[0] if is_outer else ""
    return Layer(p.name, p.weight.tensor.name, codes.k, len(w), w.nbytes, codes.nbytes, error, x)


# which nodes


def _products(
    graph: onnx.GraphProto, opset: int, scheme: Scheme, around: Mapping[str, _Constant]
) -> Iterator[_Product]:
    """Nodes to rewrite, those of nested graphs included; `around` are constants of the graphs outside."""
    known = dict(around)
    for t in graph.initializer:
        known[t.name] = _Constant(_Tensor(t, t.name), is_turned=False, names=(t.name,))
    for node in graph.node:
        for g in subgraphs(node):
            yield from _products(g, opset, scheme, known)
        if domain_of(node):
            continue
        if (made := _constant_of(node, known)) is not None:
            known[node.output[0]] = made
        elif (product := _product(graph, node, opset, known)) is not None:
            n, k = product.weight.dims[::-1]
            size = helper.tensor_dtype_to_np_dtype(product.weight.tensor.proto.data_type).itemsize
            if scheme.nbytes(n, k, size) < n * k * size:
                yield product


def _constant_of(node: onnx.NodeProto, known: Mapping[str, _Constant]) -> _Constant | None:
    """What a node makes of constants alone, and is a constant with a name of its own."""
    if node.op_type == "Constant":
        tensors = [a.t for a in node.attribute if a.name == "value" and a.type == onnx.AttributeProto.TENSOR]
        if not tensors:
            return None
        return _Constant(_Tensor(tensors[0], node.output[0]), is_turned=False, names=(node.output[0],))
    if node.op_type not in ("Identity", "Transpose") or (of := known.get(node.input[0])) is None:
        return None
    is_turn = node.op_type == "Transpose" and list(attributes_of(node).get("perm", [1, 0])) == [1, 0]
    if node.op_type == "Transpose" and (len(of.dims) != 2 or not is_turn):
        return None
    return _Constant(of.tensor, of.is_turned != is_turn, (*of.names, node.output[0]))


def _product(
    graph: onnx.GraphProto, node: onnx.NodeProto, opset: int, known: Mapping[str, _Constant]
) -> _Product | None:
    """What is to be rewritten of a node, if it multiplies by a constant matrix."""
    if node.op_type not in ("MatMul", "Gemm") or len(node.input) < 2 or (w := known.get(node.input[1])) is None:
        return None
    if len(w.dims) != 2 or 0 in w.dims or w.tensor.proto.data_type not in FLOATS or node.input[0] in known:
        return None
    if node.op_type == "MatMul":
        return _Product(graph, node, w, "", takes_bias=False)
    attributes = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0, **attributes_of(node)}
    if opset < BROADCASTING_OPSET or attributes["transA"] or (attributes["alpha"], attributes["beta"]) != (1.0, 1.0):
        return None
    if attributes["transB"]:
        w = _Constant(w.tensor, not w.is_turned, w.names)
    bias = node.input[2] if len(node.input) > 2 else ""
    takes = bias in known and known[bias].dims == w.dims[1:]
    return _Product(graph, node, w, bias, takes_bias=takes)


def _chosen(found: Sequence[_Product], exclude: Sequence[str], file: str) -> list[_Product]:
    names = [p.name for p in found]
    for pattern in exclude:
        if not _matching(names, [pattern]):
            shown = f"some of {', '.join(map(repr, names[:5]))}{', ...' * (len(names) > 5)}" if names else "none"
            raise UsageError(f"exclude: unknown layer {pattern!r}: expected {shown}{meant(pattern, names)}", Loc(file))
    left_out = _matching(names, exclude)
    if len(left_out) == len(set(names)):
        what = "a MatMul or Gemm by a constant matrix of f32, f16 or bf16 that gets smaller"
        but = " and is not excluded" if exclude else ""
        raise UsageError(f"no matrix to quantise: expected {what}{but}", Loc(file))
    return [p for p in found if p.name not in left_out]


def _matching(names: Sequence[str], patterns: Iterable[str]) -> set[str]:
    return {n for pattern in patterns for n in names if n == pattern or fnmatchcase(n, pattern)}


# what becomes of them


class _Names:
    """Names that are not taken."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._taken: set[str] = set(_defined([model.graph]))
        self._taken |= {n.name for n in all_nodes(model.graph.node)}

    def new(self, wanted: str) -> str:
        """This one, or with a number behind it."""
        name, i = wanted, 1
        while name in self._taken:
            name, i = f"{wanted}_{i}", i + 1
        self._taken.add(name)
        return name


def _defined(graphs: Iterable[onnx.GraphProto]) -> Iterator[str]:
    for g in graphs:
        yield from (v.name for v in (*g.input, *g.initializer))
        for node in g.node:
            yield from node.output
            yield from _defined(subgraphs(node))


def _matrix(p: _Product, raw: Mapping[str, Array], file: str) -> Array:
    """The weights [n, k] of a product, as they lie."""
    tensor = p.weight.tensor
    w = tensor_array(tensor.proto, file, None, raw.get(tensor.name))
    w = w if p.weight.is_turned else w.T
    for some in runs_of_rows(*w.shape):
        if not np.isfinite(w[some]).all():
            found = f"{p.name!r}: its weights {tensor.name!r} have a NaN or an infinity, which no code stands for"
            raise UnsupportedError(f"cannot quantise {found}; exclude it", Loc(file))
    return w


def _store(
    model: onnx.ModelProto, raw: dict[str, Array], names: _Names, weight: str, codes: Rounded
) -> tuple[str, ...]:
    """Add the initialisers of a matrix, and give what they are called."""
    arrays = {f"_q{codes.scheme.bits}": codes.codes, "_scales": codes.scales}
    arrays |= {} if codes.zeros is None else {"_zero_points": codes.zeros}
    made: list[str] = []
    for suffix, array in arrays.items():
        elem = helper.np_dtype_to_tensor_dtype(array.dtype)
        made.append(name := names.new(weight + suffix))
        model.graph.initializer.add(name=name, data_type=elem, dims=array.shape)
        raw[name] = array.reshape(-1).view(np.uint8)
    return tuple(made)


def _rewrite(p: _Product, codes: Rounded, inputs: Sequence[str], accuracy_level: int, names: _Names) -> None:
    """Make the node a product by codes; what that does not add is added by a node behind it."""
    old, attributes = p.node, {"K": codes.k, "N": len(codes.codes), "bits": codes.scheme.bits}
    attributes |= {"block_size": codes.scheme.block} | ({"accuracy_level": accuracy_level} if accuracy_level else {})
    name, reads, result = p.name, [old.input[0], *inputs], old.output[0]
    if p.takes_bias:
        reads += [""] * (BIAS - len(reads)) + [p.bias]
    is_apart = bool(p.bias) and not p.takes_bias
    made = names.new(f"{result}_product") if is_apart else result
    old.op_type, old.domain, old.output[0] = "MatMulNBits", MICROSOFT, made
    del old.input[:], old.attribute[:]
    old.input.extend(reads)
    old.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
    if is_apart:
        place = 1 + next(i for i, n in enumerate(p.graph.node) if made in n.output)
        p.graph.node.insert(place, helper.make_node("Add", [made, p.bias], [result], names.new(f"{name}_bias")))


def _remove_unread(model: onnx.ModelProto, raw: dict[str, Array], names: set[str]) -> None:
    """Remove those of the constants of these names that nothing reads any more."""
    while unread := names - names_read([model.graph]):
        _remove(model.graph, unread)
        names = names - unread
        for name in unread:
            raw.pop(name, None)


def _remove(graph: onnx.GraphProto, names: set[str]) -> None:
    for node in graph.node:
        for g in subgraphs(node):
            _remove(g, names)
    for field in (graph.initializer, graph.input, graph.value_info):
        for i in reversed([i for i, v in enumerate(field) if v.name in names]):
            del field[i]
    for i in reversed([i for i, n in enumerate(graph.node) if n.output and names.issuperset(n.output)]):
        del graph.node[i]


def _constant_bytes(model: onnx.ModelProto, raw: Mapping[str, Array]) -> int:
    """What all constants take."""
    return sum(v.nbytes for v in raw.values()) + sum(t.ByteSize() for t in _held(model.graph) if t.name not in raw)


def _held(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        yield from (a.t for a in node.attribute if a.type == onnx.AttributeProto.TENSOR)
        for g in subgraphs(node):
            yield from _held(g)


# writing


def whole(model: onnx.ModelProto, raw: Mapping[str, Array]) -> onnx.ModelProto:
    """The model with the bytes of its initialisers. Raises TooLargeError where no file could have them."""
    if (size := _file_bytes(model, raw)) > MOST_INSIDE:
        raise TooLargeError(f"expected a model of up to {MOST_INSIDE} bytes, found {size}: save it to a file")
    out = onnx.ModelProto()
    out.CopyFrom(model)
    for t in out.graph.initializer:
        if t.name in raw:
            t.raw_data = raw[t.name].tobytes()
    return out


def save(model: onnx.ModelProto, raw: Mapping[str, Array], path: Path) -> None:
    """Write a model: into one file where it fits, else with its big initialisers in a second one, `data_path(path)`.

    Nothing changes unless all could be written. Raises FileError.
    """
    if _file_bytes(model, raw) <= MOST_INSIDE:
        with writing(path) as file:
            file.write(whole(model, raw).SerializeToString())
        return
    out = onnx.ModelProto()
    out.CopyFrom(model)
    with writing(path) as file, writing(data_path(path)) as data:
        for t in out.graph.initializer:
            if t.name not in raw:
                continue
            if (bytes_of := raw[t.name]).nbytes < KEPT_BYTES:
                t.raw_data = bytes_of.tobytes()
                continue
            data.seek(-data.tell() % PAGE, 1)
            entries: dict[str, Any] = {
                "location": data_path(path).name, "offset": data.tell(), "length": bytes_of.nbytes,
            }  # fmt: skip
            t.data_location = TensorProto.EXTERNAL
            for key, value in entries.items():
                t.external_data.add(key=key, value=str(value))
            data.write(bytes_of.data)
        file.write(out.SerializeToString())


def data_path(path: Path) -> Path:
    """Where the initialisers of a large model go."""
    return path.with_name(f"{path.name}.data")


def _file_bytes(model: onnx.ModelProto, raw: Mapping[str, Array]) -> int:
    return model.ByteSize() + sum(v.nbytes for v in raw.values())

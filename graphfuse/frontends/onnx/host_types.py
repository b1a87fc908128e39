"""Types of the values between the parts of a model with host code, and what Python's operators make of them.

What onnx's own shape inference says of an operator holds here, too; it knows strings and sequences. A dim that it does
not know, such as how many elements are not 0, becomes a symbol of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import onnx
from onnx import TensorProto, helper, shape_inference

from graphfuse.errors import Loc, UnsupportedError
from graphfuse.frontends.emit import numbered
from graphfuse.frontends.host_values import Array
from graphfuse.frontends.onnx.cut import Part
from graphfuse.frontends.onnx.node import MICROSOFT, attributes_of, elem_from_onnx, elem_to_onnx
from graphfuse.frontends.onnx.protos import domain_of
from graphfuse.frontends.onnx.python_ops.call import plain
from graphfuse.frontends.onnx.specialise import tensor_proto
from graphfuse.frontends.onnx.split_classifiers import ML, OWN
from graphfuse.ir.types import BOOL, F32, I64, Scalar, Tensor
from graphfuse.symbolic import Dim, Ranges, product, substitute, symbols

MOST_CONSTANT = 1024
"""Elements up to which a constant may decide a type: shapes, axes, counts."""


@dataclass(frozen=True, slots=True)
class Strings:
    """A tensor of texts."""

    shape: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Sequenced:
    """A sequence of values of one type; None where that is not known."""

    element: ValueType | None


@dataclass(frozen=True, slots=True)
class Maybe:
    """A value of a type, or nothing; None where the type is not known."""

    element: ValueType | None


@dataclass(frozen=True, slots=True)
class Mapped:
    """A map from keys to values, ONNX's types of elements."""

    keys: int
    values: int


ValueType: TypeAlias = "Tensor | Strings | Sequenced | Maybe | Mapped"
Fresh: TypeAlias = Callable[[], Dim]
"""Makes a symbol for a dim that only a run knows."""

COUNTED = (0, 1 << 24)
"""What such a dim may be, such as how many elements are not 0."""


def joined(a: ValueType | None, b: ValueType | None, fresh: Fresh, changing: Container[Dim] = ()) -> ValueType | None:
    """What holds for both; None if that is nothing, such as for tensors of different rank.

    Dims of `a` that are known to be `changing` need no new symbol.
    """

    def dims_of(a: Sequence[Dim], b: Sequence[Dim]) -> tuple[Dim, ...]:
        return tuple(x if x == y or x in changing else fresh() for x, y in zip(a, b, strict=True))

    match a, b:
        case (Tensor(), Tensor()) if a.elem == b.elem and a.rank == b.rank:
            return Tensor(dims_of(a.shape, b.shape), a.elem)
        case (Strings(), Strings()) if len(a.shape) == len(b.shape):
            return Strings(dims_of(a.shape, b.shape))
        case (Sequenced(), Sequenced()) | (Maybe(), Maybe()):  # an empty one says nothing of its elements
            known = a.element and b.element
            element = joined(a.element, b.element, fresh, changing) if known else a.element or b.element
            return replace(a, element=element)
        case (Mapped(), Mapped()) if a == b:
            return a
        case _:
            return None


def renewed(t: ValueType | None, known: Ranges, fresh: Fresh) -> ValueType | None:
    """A type seen from outside a body: symbols that are not `known` there are others each time."""
    match t:
        case Tensor() | Strings():
            return replace(t, shape=tuple(d if symbols(d) <= known.keys() else fresh() for d in t.shape))
        case Sequenced() | Maybe():
            return replace(t, element=renewed(t.element, known, fresh))
        case Mapped() | None:
            return t


# operators


def types_made(
    node: onnx.NodeProto,
    types: Mapping[str, ValueType | None],
    constants: Mapping[str, Array],
    imports: Sequence[onnx.OperatorSetIdProto],
    fresh: Fresh,
) -> list[ValueType | None]:
    """The types of the outputs of one of Python's operators; None for those of which not even the rank is known."""
    if (made := _by_rule(node, types, constants, fresh)) is not None:
        return made
    if (made := _of_sequences(node, types, fresh)) is not None:
        return made
    if (made := _of_ml(node, types, fresh)) is not None:
        return made
    texts = _Texts()
    read = dict.fromkeys(n for n in node.input if n)
    small = {n: constants[n] for n in read if n in constants and constants[n].size <= MOST_CONSTANT}
    numeric = {n: a for n, a in small.items() if a.dtype.kind not in "OSU"}
    inputs = [_info(n, types[n], texts) for n in read if n not in numeric]
    outputs = [onnx.ValueInfoProto(name=o) for o in node.output if o]
    tensors = [tensor_proto(n, a) for n, a in numeric.items()]
    graph = helper.make_graph([node], "node", inputs, outputs, tensors)
    try:
        inferred = shape_inference.infer_shapes(helper.make_model(graph, opset_imports=imports), data_prop=True)
    except (RuntimeError, shape_inference.InferenceError):  # then Python's function says what is wrong, if anything is
        return [None] * len(node.output)
    found = {o.name: o.type for o in inferred.graph.output}
    return [texts.value_type(found[o], fresh) if o else None for o in node.output]


def _info(name: str, t: ValueType | None, texts: _Texts) -> onnx.ValueInfoProto:
    return onnx.ValueInfoProto(name=name) if t is None else onnx.ValueInfoProto(name=name, type=texts.proto(t))


def declared(t: onnx.TypeProto, fresh: Fresh) -> ValueType | None:
    """What a model declares of a value, whose dims only a run knows."""
    return _Texts().value_type(t, fresh)


class _Texts:
    """Dims as the texts that onnx takes, and back."""

    def __init__(self) -> None:
        self.dims: dict[str, Dim] = {}

    def proto(self, t: ValueType | None) -> onnx.TypeProto:
        match t:
            case Tensor():
                return helper.make_tensor_type_proto(elem_to_onnx(t.elem), self._shape(t.shape))
            case Strings():
                return helper.make_tensor_type_proto(TensorProto.STRING, self._shape(t.shape))
            case Maybe(element):
                return helper.make_optional_type_proto(onnx.TypeProto() if element is None else self.proto(element))
            case Sequenced(element) if element is not None:
                return helper.make_sequence_type_proto(self.proto(element))
            case Mapped(keys, values):
                return helper.make_map_type_proto(keys, helper.make_tensor_type_proto(values, ()))
            case _:
                return helper.make_sequence_type_proto(onnx.TypeProto())

    def _shape(self, dims: Sequence[Dim]) -> list[int | str]:
        for d in dims:
            self.dims[str(d)] = d
        return [d if isinstance(d, int) else str(d) for d in dims]

    def value_type(self, t: onnx.TypeProto, fresh: Fresh) -> ValueType | None:
        if t.HasField("sequence_type"):
            return Sequenced(self.value_type(t.sequence_type.elem_type, fresh))
        if t.HasField("optional_type"):
            return Maybe(self.value_type(t.optional_type.elem_type, fresh))
        if t.HasField("map_type"):
            return Mapped(t.map_type.key_type, t.map_type.value_type.tensor_type.elem_type)
        tensor = t.tensor_type
        if not t.HasField("tensor_type") or not tensor.elem_type or not tensor.HasField("shape"):
            return None
        # onnx also says 0 for what it has computed of dims that it does not know
        shape = tuple(d.dim_value or self.dims.get(d.dim_param) or fresh() for d in tensor.shape.dim)
        return _of_elem(tensor.elem_type, shape)


def _by_rule(
    node: onnx.NodeProto, types: Mapping[str, ValueType | None], constants: Mapping[str, Array], fresh: Fresh
) -> list[ValueType | None] | None:
    """Operators whose result has a rank that onnx does not tell, where a value decides its size."""
    x = types.get(node.input[0]) if node.input else None
    if domain_of(node) == MICROSOFT and node.op_type == "Unique" and isinstance(x, Tensor):
        count = fresh()
        return [Tensor((count,), x.elem), Tensor(x.shape, I64), Tensor((count,), I64)]
    if domain_of(node) or not node.input:
        return None
    if x is None and node.op_type == "Shape":
        return _dims_asked_for(attributes_of(node))
    if not isinstance(x, Tensor):
        return None
    match node.op_type:
        case "Slice" | "Pad" if len(node.input) > 3 and node.input[3] in constants:
            return [_opened(x, constants[node.input[3]].reshape(-1), fresh)]
        case "Split":
            return [_opened(x, [attributes_of(node).get("axis", 0)], fresh) for _ in node.output]
        case "TopK":
            best = _opened(x, [attributes_of(node).get("axis", -1)], fresh)
            return [best, replace(best, elem=I64)]
        case "STFT":
            return [Tensor((x.shape[0], fresh(), fresh(), 2), x.elem)]
        case _:
            size = types.get(node.input[1]) if len(node.input) > 1 else None
            rank = _rank_made(node, x, size if isinstance(size, Tensor) and size.rank == 1 else None)
            return None if rank is None else [Tensor(tuple(fresh() for _ in range(rank)), _elem_made(node, x.elem))]


def _opened(x: Tensor, axes: Iterable[int], fresh: Fresh) -> Tensor:
    """A tensor of which only a run knows how long it is along some axes."""
    at = {int(a) % max(x.rank, 1) for a in axes}
    return replace(x, shape=tuple(fresh() if i in at else d for i, d in enumerate(x.shape)))


def _dims_asked_for(attributes: Mapping[str, Any]) -> list[ValueType | None] | None:
    """What Shape gives of an input of unknown rank, which is taken to have the dims that are asked for."""
    start, end = int(attributes.get("start", 0)), int(attributes.get("end", -1))
    return [Tensor((end - start,), I64)] if 0 <= start < end else None


def _rank_made(node: onnx.NodeProto, x: Tensor, values: Tensor | None) -> int | None:
    """The rank of a result; `values` is the second input, if that is a vector: a shape or axes."""
    length = None if values is None else values.shape[0]
    count = length if isinstance(length, int) else None
    match node.op_type:
        case "Slice" | "Pad" | "Resize" | "Tile" | "CenterCropPad" | "MaxUnpool" | "Conv" | "ConvTranspose":
            return x.rank
        case "Range" | "HannWindow" | "HammingWindow" | "BlackmanWindow":
            return 1
        case "MelWeightMatrix":
            return 2
        case "Reshape":
            return count
        case "ConstantOfShape" if x.rank == 1 and isinstance(x.shape[0], int):
            return x.shape[0]
        case "Expand" if count is not None:
            return max(count, x.rank)
        case "Unsqueeze" | "Squeeze" if count is not None:
            return max(x.rank + (count if node.op_type == "Unsqueeze" else -count), 0)
        case name if name.startswith("Reduce") and attributes_of(node).get("keepdims", 1):
            return x.rank
        case name if name.startswith("Reduce") and count:
            return max(x.rank - count, 0)
        case _:
            return None


def _elem_made(node: onnx.NodeProto, elem: Scalar) -> Scalar:
    """The element of a result: an attribute's, else that of the first input."""
    attributes = attributes_of(node)
    if node.op_type == "ConstantOfShape":
        return elem_from_onnx(attributes["value"].data_type) if "value" in attributes else F32
    if node.op_type.endswith(("Window", "WeightMatrix")):
        return elem_from_onnx(int(attributes.get("output_datatype", TensorProto.FLOAT)))
    return elem


def _of_sequences(
    node: onnx.NodeProto, types: Mapping[str, ValueType | None], fresh: Fresh
) -> list[ValueType | None] | None:
    """Operators of sequences, which are as long as a run makes them."""
    if domain_of(node):
        return None
    given = [types[n] for n in node.input if n]
    first = given[0] if given else None
    element = first.element if isinstance(first, (Sequenced, Maybe)) else None
    attributes = attributes_of(node)
    match node.op_type:
        case "SequenceEmpty":
            return [Sequenced(None)]
        case "SequenceConstruct":
            return [Sequenced(functools.reduce(lambda a, b: joined(a, b, fresh), given))]
        case "SequenceInsert":
            return [Sequenced(joined(element, given[1], fresh) if element else given[1])]
        case "SequenceErase":
            return [first]
        case "SequenceAt":
            return [renewed(element, {}, fresh)]
        case "SequenceLength":
            return [Tensor((), I64)]
        case "Optional":
            return [Maybe(first if given else declared(attributes["type"], fresh))]
        case "OptionalHasElement":
            return [Tensor((), BOOL)]
        case "OptionalGetElement":
            return [renewed(element, {}, fresh) if isinstance(first, Maybe) else first]
        case "SplitToSequence" if isinstance(first, Tensor):
            at = int(attributes.get("axis", 0)) % max(first.rank, 1)
            dropped = len(given) == 1 and not attributes.get("keepdims", 1)
            dims = [fresh() if i == at else d for i, d in enumerate(first.shape) if i != at or not dropped]
            return [Sequenced(Tensor(tuple(dims), first.elem))]
        case "ConcatFromSequence" if isinstance(element, Tensor):
            dims = list(element.shape)
            new = bool(attributes.get("new_axis", 0))
            at = int(attributes["axis"]) % max(len(dims) + new, 1)
            dims[at : at + (not new)] = [fresh()]
            return [renewed(Tensor(tuple(dims), element.elem), {}, fresh)]
        case _:
            return None


def _of_ml(node: onnx.NodeProto, types: Mapping[str, ValueType | None], fresh: Fresh) -> list[ValueType | None] | None:
    """Operators of `ai.onnx.ml`, of whose shapes onnx says nothing."""
    if domain_of(node) not in (ML, OWN) or not node.input:
        return None
    if (x := types[node.input[0]]) is None:  # onnx crashes over trees of an input without a type
        return [None for _ in node.output]
    a = attributes_of(node)
    rows = x.shape[0] if isinstance(x, (Tensor, Strings)) and len(x.shape) > 1 else 1
    match node.op_type:
        case "ZipMap":
            named = bool(a.get("classlabels_strings"))
            return [Sequenced(Mapped(TensorProto.STRING if named else TensorProto.INT64, TensorProto.FLOAT))]
        case "DictVectorizer" if isinstance(x, Mapped):
            vocabulary = a.get("string_vocabulary") or a.get("int64_vocabulary") or ()
            return [_of_elem(x.values, (1, len(vocabulary)))]
        case "CastMap":
            width = a.get("max_map", 1) if a.get("map_form") == b"SPARSE" else fresh()
            return [_of_elem(_CASTS.get(a.get("cast_to", b""), TensorProto.FLOAT), (1, width))]
        case "ArrayFeatureExtractor" if isinstance(x, Strings) and isinstance(at := types[node.input[1]], Tensor):
            return [Strings((*(x.shape[:-1] or (1,)), product(at.shape)))]
        case "SVMClassifier" if "classes" in a:  # what makes probabilities of margins
            return [Tensor((rows, int(a["classes"])), F32)]
        case "SVMClassifier" | "LinearClassifier":  # of how many features, only a run knows
            return [Tensor((rows,), I64), Tensor((rows, fresh()), F32)]
        case "LabelEncoder" | "CategoryMapper" if isinstance(x, (Tensor, Strings)):
            return [_relabelled(node.op_type, a, x)]
        case _:
            return None


_CASTS = {b"TO_INT64": TensorProto.INT64, b"TO_STRING": TensorProto.STRING}


def _of_elem(elem: int, shape: tuple[Dim, ...]) -> ValueType:
    """A tensor of one of ONNX's elements."""
    return Strings(shape) if elem == TensorProto.STRING else Tensor(shape, elem_from_onnx(elem))


def _relabelled(op: str, a: Mapping[str, Any], x: Tensor | Strings) -> ValueType:
    if op == "CategoryMapper" or "classes_strings" in a:
        return Tensor(x.shape, I64) if isinstance(x, Strings) else Strings(x.shape)
    if "values_strings" in a:
        return Strings(x.shape)
    if (given := a.get("values_tensor")) is not None:
        return _of_elem(given.data_type, x.shape)
    return Tensor(x.shape, I64 if "values_int64s" in a else F32)


# parts


@dataclass(frozen=True, slots=True)
class PartModel:
    """A part as a model of its own. `dims` are the ranges of its symbols, `meaning` what they are outside of it."""

    model: onnx.ModelProto
    dims: Mapping[str, tuple[int, int]]
    meaning: Mapping[str, Dim]

    def outside(self, dims: Sequence[Dim]) -> tuple[Dim, ...]:
        """Dims of the part in terms of the whole model's symbols."""
        return tuple(substitute(d, self.meaning) if symbols(d) & self.meaning.keys() else d for d in dims)


def part_model(
    whole: onnx.ModelProto,
    part: Part,
    types: Mapping[str, Tensor],
    constants: Mapping[str, Array],
    bounds_of: Callable[[Dim], tuple[int, int]],
) -> PartModel:
    """A part of a model, for inputs of these types; `constants` are initialisers.

    A dim that is arithmetic on symbols is written as such where the inputs have those symbols, so that sizes that
    belong together stay so; else it is a symbol.
    """
    dims = dict.fromkeys(d for t in types.values() for d in t.shape if not isinstance(d, int))
    plain = {str(d) for d in dims if str(d).isidentifier()}
    texts = {d: str(d) for d in dims if symbols(d) <= plain}
    meaning = dict(zip(numbered("d", plain), [d for d in dims if d not in texts], strict=False))
    texts |= {d: name for name, d in meaning.items()}
    infos = [
        helper.make_tensor_value_info(n, elem_to_onnx(t.elem), [d if isinstance(d, int) else texts[d] for d in t.shape])
        for n, t in types.items()
    ]
    outputs = [onnx.ValueInfoProto(name=o) for o in part.outputs]
    tensors = [tensor_proto(n, a) for n, a in constants.items()]
    graph = helper.make_graph(part.nodes, "part", infos, outputs, tensors)
    model = helper.make_model(graph, opset_imports=whole.opset_import, ir_version=whole.ir_version)
    ranges: dict[str, tuple[int, int]] = {}
    for d in dims:
        if texts[d] in plain or texts[d] in meaning:
            low, high = bounds_of(d)
            ranges[texts[d]] = max(low, 0), max(high, 0)  # n - 3 is not negative where there is such a tensor
    return PartModel(model, ranges, meaning)


def plain_attributes(node: onnx.NodeProto, loc: Loc) -> dict[str, Any]:
    """A node's attributes as numbers, texts, lists of them and arrays; a graph is its number among the node's."""
    out: dict[str, Any] = {}
    graphs = 0
    for name, value in attributes_of(node).items():
        if isinstance(value, onnx.TypeProto):
            continue  # it decides the types of results, which are known now
        if isinstance(value, onnx.GraphProto):
            out[name], graphs = graphs, graphs + 1
        elif isinstance(value, (int, float, bytes, onnx.TensorProto)) or (
            isinstance(value, list) and all(isinstance(v, (int, float, bytes)) for v in cast("list[Any]", value))
        ):
            out[name] = plain(value)
        else:
            raise UnsupportedError(f"{node.op_type}: attribute {name!r} cannot be in an artifact", loc)
    return out

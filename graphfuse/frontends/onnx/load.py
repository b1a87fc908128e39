"""Reading ONNX models: files, external data, structure checks, function inlining, opset conversion.

Owns everything up to a clean `ModelProto` at one opset plus the big initialisers as numpy arrays (they never go
through protobuf serialisation, so the 2 GB limit does not matter). Emits no IR.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError, EncodeError
from onnx import TensorProto, checker, inliner, numpy_helper, shape_inference, version_converter

from graphfuse.errors import FileError, Loc, ParseError, UnsupportedError, UsageError, VerifyError, meant
from graphfuse.frontends.host_values import Array
from graphfuse.frontends.onnx import batched_scan, split_classifiers
from graphfuse.frontends.onnx.declared import check_bodies
from graphfuse.frontends.onnx.limits import check_calls, check_depth, check_imports
from graphfuse.frontends.onnx.node import CHANNEL_SLOPES, FLATTENED, INWARDS, OLD_MEANINGS, WHOLE_MASK, elem_from_onnx
from graphfuse.frontends.onnx.protos import all_nodes, domain_of, name_of, opset_of, set_items, subgraphs
from graphfuse.frontends.onnx.runtime_domain import name_runtime_ops
from graphfuse.frontends.onnx.specialise import free_inputs
from graphfuse.frontends.onnx.wire import read_without_weights
from graphfuse.ir.dense import numpy_dtype

KEPT_BYTES = 1024
"""Initialisers up to this size stay in the proto: version adapters read the small ones (axes, shapes, scales)."""

NATIVE_OPSET = 13
"""From here on the handlers accept a model as it is, should the converter refuse it."""

BROADCASTING_OPSET = 7
"""From here on operands are broadcast by numpy's rule."""

SAMPLING_OPSET = 11
"""From here on Resize says how coordinates are transformed."""

AXIS_OPSET = 13
"""From here on Softmax and Hardmax are along one axis; the converter sees to Softmax."""

SHORT_MASK_OPSET = 24
"""From here on a mask of Attention may end early."""

PIECES_OPSET = 18
"""From here on the last piece of a Split may be smaller."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A checked model of one opset without local functions, and the data of its big initialisers by name."""

    model: onnx.ModelProto
    weights: dict[str, Array]
    file: str
    folder: Path | None
    inputs: tuple[str, ...]
    """Names of the real inputs: those that no initialiser backs."""


def node_loc(file: str, node: onnx.NodeProto, index: int) -> Loc:
    """`file:/node/name`, or `file:node#index (OpType)` for a node without a name."""
    return Loc(file, node=node.name or f"node#{index} ({node.op_type})")


def load(
    source: str | Path | onnx.ModelProto, keep: Collection[tuple[str, str]] = (), outputs: Sequence[str] = ()
) -> Loaded:
    """Read, check and normalise a model. The caller's `ModelProto` is left as it is.

    Calls of the functions in `keep`, by domain and name, stay calls. Values named in `outputs` take the place of the
    model's own.
    """
    model, raw, file, folder = _opened(source)
    _check_versions(model, file)
    graph = model.graph
    names = _names(graph, file)
    _check_initializers(graph, file)
    _sort(names, file)
    if outputs:
        _choose_outputs(names, outputs, file)
    _drop_training_info(model)
    name_runtime_ops(model)
    inputs = free_inputs(model)
    weights = _take_weights(graph, file, folder, raw)
    _load_small_external(graph, file, folder)
    model = _normalise(model, file, keep)
    if any(o.domain == split_classifiers.ML for o in model.opset_import):
        split_classifiers.split_classifiers(model.graph, file)
    check_bodies(model, all_nodes(model.graph.node))
    return Loaded(model, weights, file, folder, inputs)


def read_whole(path: Path) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model as its file has it, its nodes in order, and the data of its big initialisers, which are inputs of it."""
    model, raw, file, folder = _opened(path)
    names = _names(model.graph, file)
    _check_initializers(model.graph, file)
    _sort(names, file)
    weights = _take_weights(model.graph, file, folder, raw)
    _load_small_external(model.graph, file, folder)
    return model, weights


def read_to_rewrite(source: Path | onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, Array], str]:
    """A model as it is, its nodes in order, and the bytes of its big initialisers, which are left without; its name.

    No tensor of it is in another file any more.
    """
    model, raw, file, folder = _opened(source)
    names = _names(model.graph, file)
    _check_initializers(model.graph, file)
    _check_versions(model, file)
    _sort(names, file)
    for t in model.graph.initializer:
        if t.name in raw or _is_small(t):
            continue
        if t.data_location == TensorProto.EXTERNAL:
            loc = Loc(file, node=t.name)
            raw[t.name] = _external_bytes(t, _nbytes(t, loc), loc, folder)
            t.data_location = TensorProto.DEFAULT
            del t.external_data[:]
        elif t.HasField("raw_data"):
            raw[t.name] = np.frombuffer(t.raw_data, np.uint8)
            t.ClearField("raw_data")
    _load_small_external(model.graph, file, folder)
    checked = onnx.ModelProto()
    checked.CopyFrom(model)
    name_runtime_ops(checked)
    _check_nodes(checked.graph, file, _checker_context(checked))
    return model, raw, file


def _opened(source: str | Path | onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, Array], str, Path | None]:
    """A model with a graph, raw data that stayed in its file, and what and where that is. A `ModelProto` is copied."""
    if isinstance(source, onnx.ModelProto):
        model, file, folder = onnx.ModelProto(), "<model>", None
        check_depth(source, file)
        model.CopyFrom(source)
        raw: dict[str, Array] = {}
    else:
        file, folder = str(source), Path(source).parent
        model, raw = _read(Path(source))
    if not model.HasField("graph"):
        raise ParseError("not an ONNX model: it has no graph", Loc(file))
    return model, raw, file, folder


def _read(path: Path) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The model, and the raw data of big initialisers, which stays in the mapped file."""
    try:
        data, raw = read_without_weights(path, KEPT_BYTES + 1)
    except OSError as e:
        raise FileError(f"cannot read {path}: {e.strerror or e}") from e
    if not data:
        raise ParseError("not an ONNX model: the file is empty", Loc(str(path)))
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RuntimeError, ValueError) as e:
        raise ParseError(f"not an ONNX model: {_first_line(e)}", Loc(str(path))) from e
    return model, raw


def _first_line(e: Exception) -> str:
    return (str(e).strip().splitlines() or [type(e).__name__])[0].strip().rstrip(".")


def default_opset(model: onnx.ModelProto) -> int:
    """The version of the default domain; 0 when the model imports none."""
    return opset_of(model.opset_import)


def _check_versions(model: onnx.ModelProto, file: str) -> None:
    opset = default_opset(model)
    if model.ir_version < 1:
        raise ParseError("not an ONNX model: it has no IR version", Loc(file))
    for imports in (model.opset_import, *(f.opset_import for f in model.functions)):
        check_imports(imports, file)
    if model.ir_version > onnx.IR_VERSION:
        message = f"the model uses IR version {model.ir_version}, the installed onnx knows up to {onnx.IR_VERSION}"
        raise UnsupportedError(message, Loc(file))
    if opset < 1:
        if model.ir_version >= 3 and not all(map(domain_of, model.graph.node)):
            raise VerifyError("the model imports no opset for the default domain", Loc(file))
        if model.ir_version < 3:
            model.opset_import.add(domain="", version=1)
    # a domain may be there twice
    imports = {domain_of(o): o.version for o in model.opset_import}
    del model.opset_import[:]
    model.opset_import.extend(onnx.helper.make_opsetid(domain, version) for domain, version in imports.items())
    if model.graph.sparse_initializer:
        raise UnsupportedError("sparse initialisers are not supported", Loc(file))


def _drop_training_info(model: onnx.ModelProto) -> None:
    del model.training_info[:]
    del model.graph.value_info[:]
    del model.graph.quantization_annotation[:]
    del model.metadata_props[:]
    del model.graph.metadata_props[:]


def _check_initializers(graph: onnx.GraphProto, file: str) -> None:
    names, inputs = [t.name for t in graph.initializer], [i.name for i in graph.input]
    if not all(names):
        raise VerifyError("an initialiser has no name", Loc(file))
    if twice := _repeated(names):
        raise VerifyError(f"initialiser {twice[0]!r} is defined twice", Loc(file))
    if twice := _repeated(inputs):
        raise VerifyError(f"input {twice[0]!r} is declared twice", Loc(file))


def _repeated(names: list[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


# names: every name defined once, before its use


@dataclass(frozen=True, slots=True)
class _Names:
    """The names in a graph, read once: getting them out of protobuf takes longer than what is done with them.

    They are in flat lists: a list for each of 100,000 nodes would be as many objects for Python to collect.
    """

    graph: onnx.GraphProto
    given: set[str]
    reads: list[str]
    """What the nodes need one after the other, the graphs inside them included."""
    first: list[int]
    """Where in `reads` each node's begin; last, where all end."""
    makes: list[str]
    makers: list[int]
    """By what is made: the index of its node."""
    nested: list[_Names]

    def needs(self) -> list[str]:
        """What the graph reads from those around it."""
        return sorted({*self.reads, *(o.name for o in self.graph.output)}.difference(self.given, self.makes))


def _names(graph: onnx.GraphProto, file: str) -> _Names:
    """Read the names, and check that they are text: protobuf hands out what is not UTF-8 as bytes."""
    names = _Names(graph, {v.name for v in (*graph.input, *graph.initializer)}, [], [0], [], [], [])
    reads, makes = names.reads, names.makes
    others: list[object] = [*names.given, *(o.name for o in graph.output)]
    others += [d.dim_param for i in graph.input for d in i.type.tensor_type.shape.dim]
    for i, n in enumerate(graph.node):
        reads += n.input
        makes += n.output
        names.makers.extend([i] * (len(makes) - len(names.makers)))
        others += (n.name, n.op_type, n.domain)
        if n.attribute:
            others += [a.name for a in n.attribute]
            inner = [_names(g, file) for g in subgraphs(n)]
            reads += [name for g in inner for name in g.needs()]
            names.nested.extend(inner)
        names.first.append(len(reads))
    for found in (others, reads, makes):
        if not {str}.issuperset(map(type, found)):
            bad = next(name for name in found if not isinstance(name, str))
            raise ParseError(f"not an ONNX model: the name {bad!r} is not UTF-8", Loc(file))
    return names


def _sort(names: _Names, file: str, outer: Sequence[Container[str]] = ()) -> None:
    """Check that names are defined once and used after; sort the nodes if only their order is wrong.

    What the graphs around it define is in `outer`.
    """
    graph = names.graph
    around = (*outer, names.given)

    def is_given(name: str) -> bool:
        return any(name in scope for scope in around)

    def error(i: int, message: str) -> VerifyError:
        return VerifyError(f"{graph.node[i].op_type}: {message}", node_loc(file, graph.node[i], i))

    maker: dict[str, int] = {}
    for name, i in zip(names.makes, names.makers, strict=True):
        if name and (name in maker or is_given(name)):
            raise error(i, f"output {name!r} is defined twice")
        if name:
            maker[name] = i
    is_sorted = True
    for i, (begin, end) in enumerate(pairwise(names.first)):
        for name in names.reads[begin:end]:
            at = maker.get(name)
            if at is not None:
                is_sorted = is_sorted and at < i
            elif name and not is_given(name):
                raise error(i, f"input {name!r} is not defined")
    for o in graph.output:
        if o.name not in maker and not is_given(o.name):
            raise VerifyError(f"output {o.name!r} is not defined", Loc(file))
    for inner in names.nested:
        _sort(inner, file, (*around, maker))
    if not is_sorted:
        order = _topological(names, maker, error)
        set_items(graph.node, [graph.node[i] for i in order])


def _choose_outputs(names: _Names, outputs: Sequence[str], file: str) -> None:
    """Make these values of the graph, whatever makes them, its outputs. Raises UsageError."""
    known = [n for n in (*names.given, *names.makes) if n]
    declared = {o.name: o for o in names.graph.output}
    for name in outputs:
        if name not in names.given and name not in names.makes:
            hint = meant(name, known) or f", such as {', '.join(map(repr, list(declared)[:3]))}"
            raise UsageError(f"unknown output {name!r}: expected a value of the graph{hint}", Loc(file))
    if twice := _repeated(list(outputs)):
        raise UsageError(f"output {twice[0]!r} is named twice", Loc(file))
    set_items(names.graph.output, [declared.get(n) or onnx.ValueInfoProto(name=n) for n in outputs])


def _topological(names: _Names, maker: dict[str, int], error: Callable[[int, str], VerifyError]) -> list[int]:
    """Node indices: nodes in the order of the file, but each after what it reads."""
    order: list[int] = []
    at_read = names.first[:-1]  # what of each node's reads is looked at next
    state = [0] * len(at_read)  # 1: being visited, 2: placed
    for root in range(len(at_read)):
        stack = [] if state[root] else [root]
        while stack:
            at = stack[-1]
            state[at] = 1
            if at_read[at] == names.first[at + 1]:
                state[at] = 2
                order.append(stack.pop())
                continue
            need = maker.get(names.reads[at_read[at]])
            at_read[at] += 1
            if need is None or state[need] == 2:
                continue
            if state[need]:
                raise error(at, "the graph has a cycle through this node")
            stack.append(need)
    return order


# initialisers


def tensor_array(t: TensorProto, file: str, folder: Path | None, raw: Array | None = None) -> Array:
    """The elements of a tensor: a view of its raw bytes (`raw`, if they were kept out of the proto) or of its file."""
    loc = Loc(file, node=t.name) if t.name else Loc(file)
    elem = elem_from_onnx(t.data_type, loc)
    dtype = numpy_dtype(elem)
    shape, packed, nbytes = tuple(t.dims), elem.bits < 8, _nbytes(t, loc)
    try:
        if t.data_location == TensorProto.EXTERNAL:
            data = _external_bytes(t, nbytes, loc, folder)
        elif raw is not None:
            data = raw
        elif t.HasField("raw_data"):
            data = np.frombuffer(t.raw_data, dtype=np.uint8)
        else:
            return np.ascontiguousarray(numpy_helper.to_array(t)).reshape(shape)
        if len(data) != nbytes:
            raise VerifyError(f"initialiser {t.name!r} has {len(data)} bytes, its type needs {nbytes}", loc)
        if packed:
            clone = TensorProto(data_type=t.data_type, dims=t.dims, raw_data=data.tobytes())
            return np.ascontiguousarray(numpy_helper.to_array(clone)).reshape(shape)
        return data.view(dtype).reshape(shape)
    except (ValueError, TypeError) as e:
        raise VerifyError(f"initialiser {t.name!r}: {_first_line(e)}", loc) from e


def _nbytes(t: TensorProto, loc: Loc) -> int:
    """How many bytes its elements are."""
    if any(d < 0 for d in t.dims):
        raise VerifyError(f"initialiser {t.name!r} has a negative dim: {tuple(t.dims)}", loc)
    count = int(np.prod(t.dims, dtype=object)) if t.dims else 1
    return -(-count * elem_from_onnx(t.data_type, loc).bits // 8)


def _external_bytes(t: TensorProto, nbytes: int, loc: Loc, folder: Path | None) -> Array:
    info = {entry.key: entry.value for entry in t.external_data}
    location = info.get("location", "")
    if folder is None:
        raise FileError(f"tensor {t.name!r} has external data {location!r}, but the model has no folder", loc)
    try:
        root = folder.resolve()
        path = (root / location).resolve()
    except (RuntimeError, ValueError, OSError) as e:  # links in a circle, a NUL
        raise FileError(f"tensor {t.name!r}: external data {location!r} is no path: {_first_line(e)}", loc) from e
    if not location or Path(location).is_absolute() or not path.is_relative_to(root):
        raise FileError(f"tensor {t.name!r}: external data {location!r} is outside the model's folder", loc)
    try:
        offset, length = (_file_number(t, info, key, loc) for key in ("offset", "length"))
        length = length or nbytes
        available = path.stat().st_size
        if not path.is_file():
            raise FileError(f"tensor {t.name!r}: external data {location!r} is not a file", loc)
        if offset < 0 or length != nbytes or offset + length > available:
            message = f"external data {location!r} has {available} bytes, {nbytes} from {offset} are needed"
            raise FileError(f"tensor {t.name!r}: {message}", loc)
        if nbytes == 0:
            return np.empty(0, dtype=np.uint8)
        return np.memmap(path, dtype=np.uint8, mode="r", offset=offset, shape=(nbytes,))
    except OSError as e:
        raise FileError(f"tensor {t.name!r}: cannot read external data {location!r}: {e.strerror or e}", loc) from e


def _file_number(t: TensorProto, info: Mapping[str, str], key: str, loc: Loc) -> int:
    text = info.get(key, "") or "0"
    if not re.fullmatch(r"-?\d{1,18}", text, flags=re.ASCII):
        raise FileError(f"tensor {t.name!r}: external data: expected a number for {key}, found {text[:40]!r}", loc)
    return int(text)


def _is_small(t: TensorProto) -> bool:
    """Whether the tensor is sure to take few bytes (whatever its element) or has none to map."""
    count = int(np.prod(t.dims, dtype=object)) if t.dims else 1
    return count * 8 <= KEPT_BYTES or t.data_type == TensorProto.STRING


def _take_weights(graph: onnx.GraphProto, file: str, folder: Path | None, raw: dict[str, Array]) -> dict[str, Array]:
    """Move big initialisers out of the proto; they become graph inputs until the model is normalised."""
    listed = {i.name for i in graph.input}
    weights: dict[str, Array] = {}
    kept: list[TensorProto] = []
    for t in graph.initializer:
        if t.name not in raw and _is_small(t):
            kept.append(t)
            continue
        weights[t.name] = tensor_array(t, file, folder, raw.get(t.name))
        if t.name not in listed:
            graph.input.append(onnx.helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)))
    set_items(graph.initializer, kept)
    return weights


def _tensors(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for n in graph.node:
        for a in n.attribute:
            if a.type == onnx.AttributeProto.TENSOR:
                yield a.t
        for g in subgraphs(n):
            yield from _tensors(g)


def _load_small_external(graph: onnx.GraphProto, file: str, folder: Path | None) -> None:
    """External data of tensors that stay in the proto becomes raw data."""
    for t in _tensors(graph):
        if t.data_location == TensorProto.EXTERNAL:
            data = tensor_array(t, file, folder)
            t.raw_data = data.tobytes()
            t.data_location = TensorProto.DEFAULT
            del t.external_data[:]


# checking and conversion


def _normalise(model: onnx.ModelProto, file: str, keep: Collection[tuple[str, str]]) -> onnx.ModelProto:
    """Check the model, inline its local functions but those to keep, convert it to the newest opset."""
    if model.ir_version < 4:  # from here on, an initialiser need not be listed as an input
        model.ir_version = 4
    try:
        _check_nodes(model.graph, file, _checker_context(model))
        if kept := [i for i, f in enumerate(model.functions) if (f.domain, f.name) in keep]:
            for i in reversed(kept):
                del model.functions[i]
        if model.functions:
            check_calls(model, file)
            model = _inlined(model)
        if default_opset(model) == batched_scan.OPSET:
            batched_scan.without_batches(model, all_nodes(model.graph.node))
        return _converted(model, file)
    except (DecodeError, EncodeError, UnicodeDecodeError) as e:
        raise ParseError(f"not an ONNX model: {_first_line(e)}", Loc(file)) from e
    except (checker.ValidationError, shape_inference.InferenceError, RuntimeError) as e:
        raise VerifyError(f"the model is not valid: {_first_line(e)}", Loc(file)) from e


def _converted(model: onnx.ModelProto, file: str) -> onnx.ModelProto:
    """The model in the newest opset; as it is where onnx cannot convert it and handlers take it."""
    opset, newest = default_opset(model), onnx.defs.onnx_opset_version()
    if opset in (0, newest):
        return model
    try:
        converted = version_converter.convert_version(model, newest)
    except (RuntimeError, ValueError, version_converter.ConvertError, shape_inference.InferenceError) as e:
        if opset >= NATIVE_OPSET:
            return model
        message = f"cannot convert the model from opset {opset} to {newest}: {_first_line(e)}"
        raise UnsupportedError(message, Loc(file)) from e
    _name_old_meanings(converted, opset)
    return converted


def _inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without local functions. Where onnx cannot convert one to its opset, handlers take it as it is."""
    try:
        return inliner.inline_local_functions(model, convert_version=True)
    except RuntimeError:
        opset = default_opset(model)
        versions = [o for f in model.functions for o in f.opset_import if not domain_of(o)]
        if min((opset, *(o.version for o in versions))) < NATIVE_OPSET:
            raise
        for o in versions:
            o.version = opset
        return inliner.inline_local_functions(model)


def _name_old_meanings(converted: onnx.ModelProto, opset: int) -> None:
    """Give converted nodes what their operators meant in `opset`, where the converter leaves it to today's defaults."""
    for n in all_nodes(converted.graph.node):
        if n.op_type == "PRelu" and opset < BROADCASTING_OPSET:
            n.attribute.append(onnx.helper.make_attribute(CHANNEL_SLOPES, 1))
        elif n.op_type == "Attention" and opset < SHORT_MASK_OPSET and not domain_of(n):
            n.attribute.append(onnx.helper.make_attribute(WHOLE_MASK, 1))
        elif n.op_type == "Split" and opset < PIECES_OPSET:
            for a in [a for a in n.attribute if a.name == "num_outputs"]:  # the converter's
                n.attribute.remove(a)
        elif n.op_type == "Hardmax" and opset < AXIS_OPSET:
            n.attribute.append(onnx.helper.make_attribute(FLATTENED, 1))
        elif n.op_type == "Resize" and opset < SAMPLING_OPSET:  # and Upsample
            n.attribute.append(onnx.helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
            n.attribute.append(onnx.helper.make_attribute("nearest_mode", INWARDS))


def _checker_context(model: onnx.ModelProto) -> checker.C.CheckerContext:
    context = checker.C.CheckerContext()
    context.ir_version = model.ir_version
    context.opset_imports = {o.domain: o.version for o in model.opset_import}
    return context


def _check_nodes(graph: onnx.GraphProto, file: str, context: checker.C.CheckerContext) -> None:
    """Run onnx's checker on every node of a domain it knows; the importer lists the others as unsupported."""
    for i, n in enumerate(graph.node):
        nested = list(subgraphs(n))
        for g in nested:
            _check_nodes(g, file, context)
        if nested or not _has_schema(n.domain):
            continue
        try:
            checker.check_node(_as_declared(n), context)
        except (checker.ValidationError, RuntimeError, ValueError) as e:
            raise VerifyError(f"{n.op_type}: {_first_line(e)}", node_loc(file, n, i)) from e
        if name_of(n) == ("", "Constant") and len(n.attribute) != 1:
            found = ", ".join(sorted(a.name for a in n.attribute)) or "none"
            raise VerifyError(f"Constant: expected one attribute, its value, found {found}", node_loc(file, n, i))


def _as_declared(node: onnx.NodeProto) -> onnx.NodeProto:
    """A node as its operator's schema knows it: a part of a converted model has attributes that the loader gave."""
    if not any(a.name in OLD_MEANINGS for a in node.attribute):
        return node
    out = onnx.NodeProto.FromString(node.SerializeToString())
    set_items(out.attribute, [a for a in out.attribute if a.name not in OLD_MEANINGS])
    return out


@functools.cache
def _has_schema(domain: str) -> bool:
    return domain in ("", "ai.onnx") or any(s.domain == domain for s in onnx.defs.get_all_schemas())

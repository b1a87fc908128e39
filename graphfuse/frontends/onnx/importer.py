"""ONNX model to graph IR: walks the nodes, keeps what each name stands for, hands each node to its handler.

Owns names, scopes, symbolic input dims and the signature. What operators mean is in `ops/`.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx

from graphfuse.dialects import control
from graphfuse.errors import GraphfuseError, Loc, ParseError, TooLargeError, UnsupportedError, UsageError, VerifyError
from graphfuse.frontends.emit import Emitter
from graphfuse.frontends.host_values import Array, Host, Tracked, UndecidedError
from graphfuse.frontends.onnx import ops
from graphfuse.frontends.onnx.functions import function_body, is_supported
from graphfuse.frontends.onnx.host import evaluate
from graphfuse.frontends.onnx.host_types import COUNTED, Strings, ValueType, declared
from graphfuse.frontends.onnx.limits import check_operands, check_rank, check_tensor
from graphfuse.frontends.onnx.load import Loaded, default_opset, load, node_loc, tensor_array
from graphfuse.frontends.onnx.node import HANDLERS, Node, UnknownValueError, attributes_of, elem_from_onnx
from graphfuse.frontends.onnx.ops.control import CONTROL, Scope
from graphfuse.frontends.onnx.protos import Name, name_of, names_read, subgraphs
from graphfuse.frontends.watched import Watched
from graphfuse.ir.core import Attr, Func, Params, Value
from graphfuse.ir.dense import scalar_of
from graphfuse.ir.rewrite import dead_code
from graphfuse.ir.types import Tensor
from graphfuse.symbolic import FUNCTIONS, Dim, parse_dim, solved, substitute, sym, symbols

if TYPE_CHECKING:
    from graphfuse.frontends.tc_ops import Operator

assert ops, "importing it registers handlers"

DEFAULT_RANGE = (1, 1 << 20)
_PAST: Mapping[tuple[str, str], tuple[int, ...]] = {
    ("", "Attention"): (4, 5),
    ("com.microsoft", "GroupQueryAttention"): (3, 4),
    ("com.microsoft", "MultiHeadAttention"): (6, 7),
}
"""Which inputs of attention are the keys and values of steps before, [.., .., steps, ..]."""

Dims = Mapping[str, "int | tuple[int, int]"]
State = Mapping[str, str]
InputTypes = tuple[dict[str, ValueType], dict[str, tuple[int, int]], tuple[tuple[str, str], ...]]


def import_model(
    source: str | Path | onnx.ModelProto,
    *,
    dims: Dims | None = None,
    bind: Mapping[str, Array] | None = None,
    kernels: Sequence[Operator] = (),
    state: State | None = None,
    outputs: Sequence[str] = (),
) -> Func:
    """Translate a model to the graph function `@main`.

    What nodes need of dims, and ranges do not prove, is listed in the attribute `constraints`.

    Args:
        source: A file or a model in memory (which needs its weights inside).
        dims: What symbolic dims may be, by name (the model's or the sanitised one): a number to fix it,
            or inclusive bounds. Undeclared ones are in 1..2**20, but the length of a past (what an input has of an
            axis along which it is only joined to something computed, such as cached keys) begins at 0.
        bind: Values of inputs that are fixed at compile time; they are no parameters any more.
        kernels: Operators that hand-written kernels implement, whatever else does.
        state: Inputs by name, each with the output that it becomes, in the same memory: the attribute `shared`.
        outputs: Values of the graph that it has as outputs; those it declares where there are none.
    """
    own = {name_of(onnx.NodeProto(domain=k.header.domain, op_type=k.header.name)): k for k in kernels}
    loaded = load(source, own.keys(), outputs)
    _refuse_unsupported(loaded, own)
    return _Importer(loaded, dims or {}, bind or {}, own, state or {}).run()


def input_types(loaded: Loaded, dims: Dims | None = None) -> InputTypes:
    """The types of a model's inputs by name, the ranges of their symbols, and names of those it calls otherwise."""
    return _Importer(loaded, dims or {}, {}, {}, {}).input_types()


def sanitise(name: str) -> str:
    """A name as an identifier of the IR."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    return f"_{word}" if word[0].isdigit() or word in FUNCTIONS or keyword.iskeyword(word) else word


def _refuse_unsupported(loaded: Loaded, own: Mapping[Name, Operator]) -> None:
    """List every operator that has no handler, before any work is done."""
    missing: dict[str, list[Loc]] = {}
    constants = {t.name for t in loaded.model.graph.initializer}
    constants |= {o for n in loaded.model.graph.node if n.op_type == "Constant" for o in n.output}
    for node, loc in _reachable(loaded.model.graph, loaded.file, constants):
        if name_of(node) not in own and not is_supported(node, default_opset(loaded.model)):
            missing.setdefault(f"{node.domain or 'ai.onnx'}::{node.op_type}", []).append(loc)
    if missing:
        lines = [
            f"{op} ({len(locs)} {'node' if len(locs) == 1 else 'nodes'}: {_some(locs)})"
            for op, locs in sorted(missing.items())
        ]
        raise UnsupportedError(f"{len(missing)} unsupported operators: {'; '.join(lines)}", Loc(loaded.file))


def _some(locs: list[Loc]) -> str:
    return ", ".join(loc.node for loc in locs[:3]) + (", ..." if len(locs) > 3 else "")


def _reachable(graph: onnx.GraphProto, file: str, constants: set[str]) -> Iterator[tuple[onnx.NodeProto, Loc]]:
    for i, n in enumerate(graph.node):
        yield n, node_loc(file, n, i)
        if n.op_type == "If" and n.input and n.input[0] in constants:
            continue  # only one branch will be looked at
        for g in subgraphs(n):
            yield from _reachable(g, file, constants)


class _Importer:
    """One import. Implements what control-flow handlers need of their surroundings."""

    def __init__(
        self, loaded: Loaded, dims: Dims, bind: Mapping[str, Array], kernels: Mapping[Name, Operator], state: State
    ) -> None:
        self.loaded, self.declared, self.bind, self.kernels = loaded, dict(dims), bind, kernels
        self.state = _spelt_out(state, loaded.inputs)
        self.e = Emitter()
        self.watched = Watched(self.e)
        self.opset = default_opset(loaded.model)
        self.steps = self.copies = 1
        self.read: set[str] = set()
        self.params: dict[Value, str] = {}
        """The model's input that each parameter is."""
        self._may_be_0: set[str] = set()
        self.dims: dict[str, Dim] = {}
        """Each dim name of the model."""
        self.names: dict[str, str] = {}
        """The symbols of dims that the model calls otherwise, by its names."""

    def run(self) -> Func:
        graph = self.loaded.model.graph
        self.read = names_read([graph])
        scope = Scope()
        params = self._params(graph, scope)
        for name, array in self.loaded.weights.items():
            elem = scalar_of(array.dtype)
            assert elem is not None, "the loader made the array"
            scope[name] = Host(array, elem)
        results = self.graph(graph, scope)
        self._check_outputs(graph, results)
        self.e.loc = None
        returned = [self.e.value(r) for r in results]
        attrs: dict[str, Attr] = {
            "inputs": tuple(n for n in self.loaded.inputs if n not in self.bind),
            "outputs": tuple(o.name for o in graph.output),
            **self.watched.output(returned),
        }
        if shared := self._shared(returned):
            attrs["shared"] = shared
        self.e.op(control.return_, *returned)
        if self.e.unproved:
            attrs["constraints"] = tuple((c.kind, c.a, c.b, c.what, c.node) for c in self.e.unproved.values())
        func = dead_code(Func("main", self.e.root.block(params), attrs))
        used = _used_symbols(func)
        if names := tuple((s, name) for name, s in self.names.items() if s in used):
            func = replace(func, attrs={**attrs, "names": names})
        return replace(func, dims=tuple((s, *self.e.ranges[s]) for s in self.e.ranges if s in used))

    def _shared(self, returned: Sequence[Value]) -> tuple[tuple[int, int], ...]:
        """The numbers of outputs and inputs that are one memory."""
        inputs, outputs = list(self.params.values()), [o.name for o in self.loaded.model.graph.output]
        pairs: list[tuple[int, int]] = []
        for before, after in self.state.items():
            for kind, name, known in (("input", before, inputs), ("output", after, outputs)):
                if name not in known:
                    raise UsageError(f"state: the model has no {kind} {name!r}; there are {', '.join(known)}")
            pair = outputs.index(after), inputs.index(before)
            types = returned[pair[0]].type, list(self.params)[pair[1]].type
            if types[0] != types[1]:
                raise UsageError(f"state: input {before!r} is {types[1]} and becomes {types[0]}: expected the same")
            pairs.append(pair)
        return tuple(sorted(pairs))

    # signature

    def input_types(self) -> InputTypes:
        """The types of the inputs, the ranges of their symbols, and names of those that the model calls otherwise."""
        by_name = {i.name: i for i in self.loaded.model.graph.input}
        self._name_dims([by_name[n] for n in self.loaded.inputs])
        types: dict[str, ValueType] = {}
        for n in self.loaded.inputs:
            if by_name[n].type.WhichOneof("value") in ("sequence_type", "optional_type", "map_type"):
                held = declared(by_name[n].type, lambda n=n: self._element_dim(n))
                assert held is not None, "its own type is known, if that of what it holds is not"
                types[n] = held
                continue
            is_text = by_name[n].type.tensor_type.elem_type == onnx.TensorProto.STRING
            types[n] = Strings(self._input_shape(by_name[n])) if is_text else self._input_type(by_name[n])
        self._check_declarations()
        return types, dict(self.e.ranges), tuple((s, name) for name, s in self.names.items())

    def _params(self, graph: onnx.GraphProto, scope: Scope) -> Params:
        by_name = {i.name: i for i in graph.input}
        if unknown := sorted(set(self.bind) - set(self.loaded.inputs)):
            raise UsageError(f"the model has no input {unknown[0]!r}; its inputs are {', '.join(self.loaded.inputs)}")
        free = [n for n in self.loaded.inputs if n not in self.bind]
        check_operands(len(free), len(graph.output), self._too_large)
        self._name_dims([by_name[n] for n in free])
        types = tuple(self._input_type(by_name[n]) for n in free)
        params = Params(types, tuple(sanitise(n) for n in free))
        scope.update(zip(free, params.values, strict=True))
        self.params = dict(zip(params.values, free, strict=True))
        for name, array in self.bind.items():
            if (elem := scalar_of(np.asarray(array).dtype)) is None:
                raise UsageError(f"input {name!r} cannot be bound to elements of type {np.asarray(array).dtype}")
            scope[name] = Host(np.asarray(array), elem)
        return params

    def _too_large(self, message: str) -> TooLargeError:
        return TooLargeError(message, Loc(self.loaded.file))

    def _name_dims(self, inputs: list[onnx.ValueInfoProto]) -> None:
        """Give each dim name of the model a symbol or a number, and check what the caller declared."""
        originals = dict.fromkeys(
            d.dim_param for i in inputs for d in i.type.tensor_type.shape.dim if d.WhichOneof("value") == "dim_param"
        )
        plain = [n for n in originals if n and not _is_formula(n, originals)]
        self._may_be_0 = _lengths_of_pasts(self.loaded.model.graph, inputs)
        for name in sorted(self.declared.keys() & set(originals) - set(plain)):
            self._declare_formula(name)
        for name in plain:
            self._declare_dim(name)
        for name in originals:
            if name and name not in self.dims:
                formula = parse_dim(name)
                self.dims[name] = substitute(formula, {s: self.dims[s] for s in symbols(formula)})
        self._unused_declarations = set(self.declared) - set(plain) - {sanitise(n) for n in plain}

    def _declare_formula(self, name: str) -> None:
        """Declare the dim that `name` is made of, such as the `n` of `2*n`, by what was declared of that."""
        given = self.declared.pop(name)
        low, high = (given, given) if isinstance(given, int) else given
        found = solved(parse_dim(name), low, high)
        if found is None or found[1] > found[2]:
            raise UsageError(f"dim {name!r}: expected what an integer makes it, got {given}")
        wanted = found[1] if isinstance(given, int) else found[1:]
        if self.declared.setdefault(found[0], wanted) != wanted:
            raise UsageError(f"dim {found[0]!r}: expected one value, got {self.declared[found[0]]} and {wanted}")

    def _new_symbol(self, symbol: str) -> str:
        while symbol in self.e.ranges:
            symbol += "_"
        return symbol

    def _declare_dim(self, name: str) -> Dim:
        """The dim called `name`: a number if the caller fixed it, else a new symbol with its range."""
        symbol = self._new_symbol(sanitise(name))
        default = (0, DEFAULT_RANGE[1]) if name in self._may_be_0 else DEFAULT_RANGE
        given = self.declared.get(name, self.declared.get(symbol, default))
        if isinstance(given, int):
            if given < 0:
                raise UsageError(f"dim {name!r} must not be negative, got {given}")
            self.dims[name] = given
            return given
        low, high = given
        if not 0 <= low <= high:
            raise UsageError(f"dim {name!r} must have a range with 0 <= low <= high, got {low}..{high}")
        self.e.ranges[symbol] = (low, high)
        if name != symbol:
            self.names[name] = symbol
        self.dims[name] = sym(symbol)
        return self.dims[name]

    def _input_type(self, info: onnx.ValueInfoProto) -> Tensor:
        shape = self._input_shape(info)
        type_ = Tensor(shape, elem_from_onnx(info.type.tensor_type.elem_type, Loc(self.loaded.file)))
        check_tensor(type_, self._too_large)
        return type_

    def _input_shape(self, info: onnx.ValueInfoProto) -> tuple[Dim, ...]:
        loc = Loc(self.loaded.file)
        if info.type.WhichOneof("value") != "tensor_type":
            kind = info.type.WhichOneof("value") or "untyped"
            raise UnsupportedError(f"input {info.name!r} is not a tensor but {kind.removesuffix('_type')}", loc)
        t = info.type.tensor_type
        if not t.HasField("shape"):
            raise UnsupportedError(f"input {info.name!r} declares no shape, not even its rank", loc)
        check_rank(len(t.shape.dim), self._too_large)
        shape: list[Dim] = []
        for i, d in enumerate(t.shape.dim):
            if d.WhichOneof("value") == "dim_value" and d.dim_value >= 0:
                shape.append(int(d.dim_value))
            elif d.WhichOneof("value") == "dim_param" and d.dim_param:
                shape.append(self.dims[d.dim_param])
            else:
                shape.append(self._unnamed_dim(f"{info.name}_dim{i}"))
        return tuple(shape)

    def _element_dim(self, name: str) -> Dim:
        """A dim of what an input holds, which is another for each element and each call."""
        symbol = self._new_symbol(f"{sanitise(name)}_{len(self.e.ranges)}")
        self.e.ranges[symbol] = COUNTED
        return sym(symbol)

    def _unnamed_dim(self, name: str) -> Dim:
        self._unused_declarations -= {name, sanitise(name)}
        return self._declare_dim(name)

    def _check_declarations(self) -> None:
        if self._unused_declarations:
            known = ", ".join(dict.fromkeys(self.dims)) or "none"
            raise UsageError(f"the model has no dim {min(self._unused_declarations)!r}; its dims are {known}")

    def _check_outputs(self, graph: onnx.GraphProto, results: tuple[Tracked, ...]) -> None:
        self._check_declarations()
        for info, result in zip(graph.output, results, strict=True):
            loc = Loc(self.loaded.file)
            if info.type.HasField("tensor_type") and info.type.tensor_type.elem_type:
                want = elem_from_onnx(info.type.tensor_type.elem_type, loc)
                got = result.type
                assert isinstance(got, Tensor)
                if got.elem != want:
                    raise VerifyError(f"output {info.name!r} is declared as {want}, the graph computes {got}", loc)

    # graphs

    def graph(self, graph: onnx.GraphProto, scope: Scope) -> tuple[Tracked, ...]:
        """Import the nodes of a graph whose inputs are in `scope`; the values of its outputs."""
        for t in graph.initializer:
            if t.name in self.read:
                array = tensor_array(t, self.loaded.file, self.loaded.folder)
                scope[t.name] = Host(array, elem_from_onnx(t.data_type, Loc(self.loaded.file)))
        for i, proto in enumerate(graph.node):
            self.node(proto, scope, node_loc(self.loaded.file, proto, i))
        try:
            return tuple(scope[o.name] for o in graph.output)
        except KeyError as e:
            raise VerifyError(f"output {e.args[0]!r} is not defined", Loc(self.loaded.file)) from None

    def node(self, proto: onnx.NodeProto, scope: Scope, loc: Loc) -> None:
        """Import one node and enter its outputs into `scope`."""
        outer = self.e.reader
        if loc is not self.e.loc:  # else it is in the body of an operator that is inlined
            self.e.reader = f"node {proto.name!r} ({proto.op_type})" if proto.name else loc.short
        self.e.loc = loc
        try:
            self._node(proto, scope, loc)
        finally:
            self.e.reader = outer

    def _node(self, proto: onnx.NodeProto, scope: Scope, loc: Loc) -> None:
        try:
            inputs = tuple(scope[n] if n else None for n in proto.input)
        except KeyError as e:
            raise VerifyError(f"{proto.op_type}: input {e.args[0]!r} is not defined", loc) from None
        wanted = tuple(bool(o) and o in self.read for o in proto.output)
        self.watched.node, self.watched.operator = loc.node, proto.op_type
        node = Node(
            proto.op_type, inputs, tuple(proto.output), wanted, loc, self.opset, proto, self.watched,
            attributes_of(proto), self.state,
        )  # fmt: skip
        check_operands(len(inputs), len(proto.output), node.too_large)
        try:
            results = self._results(node, scope)
        except UnknownValueError as e:
            e.inputs = e.inputs or self._inputs_behind(e.value)
            raise
        except GraphfuseError as e:
            raise e if e.loc else type(e)(f"{proto.op_type}: {e.message}", loc) from None
        except UndecidedError:
            raise node.unsupported("a number is not finite, or too small to count with") from None
        except (IndexError, KeyError, ValueError, TypeError, ZeroDivisionError, OverflowError) as e:
            # handlers read attributes and small constants without checking each; what trips them is the model
            raise node.error(f"malformed node: {type(e).__name__}: {e}") from e
        except MemoryError as e:
            raise node.too_large("a constant does not fit into memory") from e
        for i, (name, is_wanted) in enumerate(zip(proto.output, wanted, strict=True)):
            result = results[i] if i < len(results) else None
            if result is not None:
                check_tensor(result.type, node.too_large)
            if name and result is not None:
                scope[name] = result
            elif is_wanted:
                raise node.unsupported(f"output {i} is not supported")

    def _results(self, node: Node, scope: Scope) -> tuple[Tracked | None, ...]:
        """What the node gives: kernels written by hand come before handlers, and before bodies of functions."""
        name = domain, _ = name_of(node.proto)
        if (operator := self.kernels.get(name)) is not None:
            made = operator.call(node.values(self.e), node.attributes, same=self.e.same)
            return self.e.block.append(replace(made, loc=node.loc)).results
        if not domain:
            if (known := evaluate(node, self.e.ranges)) is not None:
                return tuple(known)
            if node.op in CONTROL:
                return CONTROL[node.op](self, node, scope)
        if (handler := HANDLERS.get(name)) is not None:
            out = handler(self.e, node)
            return out if isinstance(out, tuple) else (out,)
        return self._inline(node)

    def _inline(self, node: Node) -> tuple[Tracked | None, ...]:
        """Import the body that the ONNX standard gives the operator, with the node's loc on all its ops."""
        body = function_body(node, self.opset)
        given = zip(body.inputs, node.inputs, strict=False)
        inner = Scope({name: x for name, x in given if x is not None})
        outer_opset, outer_read = self.opset, self.read
        self.opset = body.opset
        self.read = {n for proto in body.nodes for n in proto.input} | set(body.outputs)
        for proto in body.nodes:
            self.read |= names_read(subgraphs(proto))
        try:
            for proto in body.nodes:
                self.node(proto, inner, node.loc)
        finally:
            self.opset, self.read = outer_opset, outer_read
        return tuple(inner.get(o) for o in body.outputs)

    def _inputs_behind(self, value: Value | None) -> tuple[str, ...]:
        """The model's inputs that a value is computed from; all of them where a loop's body hides that."""
        found: set[str] = set()
        seen: set[Value] = set()
        stack = [] if value is None else [value]
        while stack:
            v = stack.pop()
            if v in seen:
                continue
            seen.add(v)
            if v in self.params:
                found.add(self.params[v])
            elif v.op is None:
                return tuple(self.params.values())
            else:
                stack += v.op.operands
                stack += [o for body in v.op.bodies for inner in body.ops for o in inner.operands if o.op is not None]
        return tuple(n for n in self.params.values() if n in found)


def _spelt_out(state: State, inputs: Sequence[str]) -> State:
    """Names for patterns: what `*` stands for in an input's name it is in its output's."""
    found: dict[str, str] = {}
    for before, after in state.items():
        before_star, star, behind_star = before.partition("*")
        if not star:
            found[before] = after
            continue
        pattern = re.compile(f"{re.escape(before_star)}(.*){re.escape(behind_star)}")
        stood_for = {name: m[1] for name in inputs if (m := pattern.fullmatch(name))}
        if not stood_for or "*" not in after:
            raise UsageError(f"state: {before!r}={after!r}: expected patterns with `*`, and inputs that fit the first")
        found |= {name: after.replace("*", part, 1) for name, part in stood_for.items()}
    if len(set(found.values())) < len(found):
        raise UsageError("state: an output is what two inputs become")
    return found


def _lengths_of_pasts(graph: onnx.GraphProto, inputs: Sequence[onnx.ValueInfoProto]) -> set[str]:
    """The names of dims that are nothing but lengths of pasts; a dim without a name is called as it will be."""
    readers: dict[str, list[tuple[onnx.NodeProto, int]]] = {}
    for n in graph.node:
        for i, name in enumerate(n.input):
            readers.setdefault(name, []).append((n, i))
    inner = names_read([g for n in graph.node for g in subgraphs(n)])
    computed = {o for n in graph.node for o in n.output}
    pasts: set[str] = set()
    others: set[str] = set()
    for info in inputs:
        dims = info.type.tensor_type.shape.dim
        reads = [r for r in readers.get(info.name, ()) if r[0].op_type != "Shape"]
        for axis, d in enumerate(dims):
            joined = [_is_joined(n, i, axis, len(dims), computed) for n, i in reads]
            is_past = bool(joined) and all(joined) and info.name not in inner
            (pasts if is_past else others).add(d.dim_param or f"{info.name}_dim{axis}")
    return pasts - others


def _is_joined(node: onnx.NodeProto, index: int, axis: int, rank: int, computed: Collection[str]) -> bool:
    """Whether a node puts what it computed behind (or before) the axis of its input, which so may have no elements."""
    if name_of(node) == ("", "Concat"):
        at = next((a.i for a in node.attribute if a.name == "axis"), 0)
        return at % max(rank, 1) == axis and any(name in computed for name in node.input)
    return axis == rank - 2 and index in _PAST.get(name_of(node), ())


def _is_formula(name: str, others: Mapping[str, object]) -> bool:
    """Whether a dim's name is arithmetic on other dims' names, such as `past + 1`."""
    if name.isidentifier() or not re.search(r"[-+*]|floordiv|mod|min|max", name):
        return False
    try:
        formula = parse_dim(name)
    except ParseError:
        return False
    return bool(symbols(formula)) and all(s in others for s in symbols(formula))


def _used_symbols(func: Func) -> set[str]:
    """Symbols of the parameters: all others are made of them."""
    return {s for v in func.params if isinstance(v.type, Tensor) for d in v.type.shape for s in symbols(d)}

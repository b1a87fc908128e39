"""One ONNX node with its operands resolved, and the registry of operator handlers.

Owns how handlers see a node. Does not walk graphs (`importer.py` does).
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
import onnx
from onnx import TensorProto, helper

from graphfuse.errors import GraphfuseError, Loc, TooLargeError, UnsupportedError, VerifyError
from graphfuse.frontends.emit import Emitter
from graphfuse.frontends.host_values import Array, Host, Tracked, as_objects
from graphfuse.frontends.onnx.limits import MOST_TABLE, check_rank
from graphfuse.frontends.watched import Watched
from graphfuse.ir.core import Value
from graphfuse.ir.types import Scalar, Tensor, scalar
from graphfuse.symbolic import Dim, exact_div

_ELEMS: dict[int, str] = {
    TensorProto.FLOAT: "f32", TensorProto.DOUBLE: "f64", TensorProto.FLOAT16: "f16", TensorProto.BFLOAT16: "bf16",
    TensorProto.INT8: "i8", TensorProto.INT16: "i16", TensorProto.INT32: "i32", TensorProto.INT64: "i64",
    TensorProto.UINT8: "u8", TensorProto.UINT16: "u16", TensorProto.UINT32: "u32", TensorProto.UINT64: "u64",
    TensorProto.BOOL: "bool", TensorProto.INT4: "i4", TensorProto.UINT4: "u4", TensorProto.INT2: "i2",
    TensorProto.UINT2: "u2", TensorProto.FLOAT8E4M3FN: "f8e4m3", TensorProto.FLOAT8E4M3FNUZ: "f8e4m3fnuz",
    TensorProto.FLOAT8E5M2: "f8e5m2", TensorProto.FLOAT8E5M2FNUZ: "f8e5m2fnuz", TensorProto.FLOAT8E8M0: "f8e8m0",
    TensorProto.FLOAT4E2M1: "f4e2m1",
}  # fmt: skip
_DATA_TYPES = {v: k for k, v in _ELEMS.items()}


def elem_from_onnx(data_type: int, loc: Loc | None = None) -> Scalar:
    """The scalar of a TensorProto.DataType."""
    if data_type not in _ELEMS:
        known = data_type in TensorProto.DataType.values()
        name = str(TensorProto.DataType.Name(data_type)).lower() if known else f"number {data_type}"
        raise UnsupportedError(f"tensors of type {name} are not supported", loc)
    return scalar(_ELEMS[data_type])


def elem_to_onnx(elem: Scalar) -> int:
    """The TensorProto.DataType of a scalar."""
    return _DATA_TYPES[elem.name]


class UnknownValueError(UnsupportedError):
    """A dim, or a value that data decides, is needed at compile time; `inputs` of the model are what it depends on."""

    def __init__(self, message: str, loc: Loc | None = None, value: Value | None = None) -> None:
        super().__init__(message, loc)
        self.value = value
        self.inputs: tuple[str, ...] = ()


class Axes:
    """What is asked of axes, by something that has errors of its own."""

    __slots__ = ()

    def axis(self, axis: int, rank: int) -> int:
        """A possibly negative axis, normalised."""
        if not -rank <= axis < rank:
            raise self.error(f"axis must be in {-rank}..{rank - 1}, got {axis}")
        return axis % rank

    def axes(self, axes: Sequence[int], rank: int) -> tuple[int, ...]:
        """Possibly negative axes, normalised, in the order given."""
        out = tuple(self.axis(a, rank) for a in axes)
        if len(set(out)) != len(out):
            raise self.error(f"axes repeat: {tuple(axes)}")
        return out

    def error(self, message: str) -> GraphfuseError:
        """The error of what is wrong."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Node(Axes):
    """An ONNX node: its operands as tracked values (None where left out), attributes by name.

    `wanted` says for each output whether anything reads it; `outputs` are the names. `state` has inputs of the model
    and the outputs that they become, by name. `proto` is for handlers with subgraphs. `watched` is told of inputs whose
    values may not fit.
    """

    op: str
    inputs: tuple[Tracked | None, ...]
    outputs: tuple[str, ...]
    wanted: tuple[bool, ...]
    loc: Loc
    opset: int
    proto: onnx.NodeProto
    watched: Watched
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    state: Mapping[str, str] = field(default_factory=dict[str, str])

    # operands

    def is_state(self, i: int, output: int) -> bool:
        """Whether input `i` is one of the model's that is written over: by this output."""
        return output < len(self.outputs) and self.state.get(self.proto.input[i]) == self.outputs[output]

    def has(self, i: int) -> bool:
        """Whether input `i` is given."""
        return i < len(self.inputs) and self.inputs[i] is not None

    def input(self, i: int) -> Tracked:
        """Input `i`, which must be given."""
        x = self.inputs[i] if i < len(self.inputs) else None
        if x is None:
            raise self.error(f"input {i} is missing")
        return x

    def type(self, i: int) -> Tensor:
        """The type of input `i`."""
        t = self.input(i).type
        assert isinstance(t, Tensor)
        return t

    def value(self, e: Emitter, i: int) -> Value:
        """Input `i` as an IR value."""
        return e.value(self.input(i))

    def optional(self, e: Emitter, i: int) -> Value | None:
        """Input `i` as an IR value, None when it is left out."""
        return self.value(e, i) if self.has(i) else None

    def values(self, e: Emitter, start: int = 0) -> list[Value]:
        """All inputs from `start` on as IR values, less those at the end that are left out."""
        given = [i for i, x in enumerate(self.inputs) if x is not None]
        return [self.value(e, i) for i in range(start, max(given, default=-1) + 1)]

    def fitted(self, e: Emitter, shapes: Mapping[int, tuple[str, Sequence[Dim]]]) -> Node:
        """The node, whose inputs, where they are given, have to be of these shapes. Their names are for errors."""
        inputs = list(self.inputs)
        for i, (what, shape) in shapes.items():
            if not self.has(i):
                continue
            value = e.equalled(self.value(e, i), shape, what)
            if self.known(i) is None:
                inputs[i] = value
        return replace(self, inputs=tuple(inputs))

    def known(self, i: int) -> Array | None:
        """The elements of input `i` if they are known at compile time (dims as objects), else None."""
        x = self.inputs[i] if i < len(self.inputs) else None
        return x.array if isinstance(x, Host) else None

    def constant(self, i: int, what: str) -> Array:
        """The elements of input `i`, which must be numbers known at compile time."""
        array = self.known(i)
        self.input(i)
        if array is None or array.dtype == object:
            raise self.unknown(i, f"{what} must be known at compile time")
        return array

    def dims(self, i: int, what: str) -> tuple[Dim, ...]:
        """The elements of input `i`, a vector or scalar of dims known at compile time."""
        self._check_integers(i, what)
        return self.numbers(i, what)

    def shape(self, i: int, what: str) -> tuple[Dim, ...]:
        """The elements of input `i`, a shape known at compile time."""
        dims = self.dims(i, what)
        check_rank(len(dims), self.too_large)
        return dims

    def check_table(self, what: str, *shape: int) -> None:
        """Refuse a table that is computed at compile time if it is too large, or has a dim below 0."""
        if min(shape) < 0:
            raise self.error(f"{what}: expected dims of at least 0, found {'x'.join(map(str, shape))}")
        if math.prod(shape) > MOST_TABLE:
            raise self.too_large(f"{what}: expected up to {MOST_TABLE} elements, found {'x'.join(map(str, shape))}")

    def numbers(self, i: int, what: str) -> tuple[Any, ...]:
        """The elements of input `i`, of any type (floats with symbols are ratios), known at compile time."""
        array = self.known(i)
        self.input(i)
        if array is None:
            raise self.unknown(i, f"{what} must be known at compile time, it depends on data")
        return tuple(as_objects(array).reshape(-1))

    def ints(self, i: int, what: str) -> tuple[int, ...]:
        """The elements of input `i`, a vector or scalar of numbers known at compile time."""
        self._check_integers(i, what)
        return tuple(int(v) for v in self.constant(i, what).reshape(-1))

    def _check_integers(self, i: int, what: str) -> None:
        if not (elem := self.type(i).elem).is_integer:
            raise self.error(f"{what}: expected integers, found {elem}")

    def wants(self, i: int) -> bool:
        """Whether anything reads output `i`."""
        return i < len(self.wanted) and self.wanted[i]

    # values that only a run knows

    def index(self, e: Emitter, i: int, size: Dim, *, from_end: bool = True) -> Value:
        """Input `i` as indices into `size` elements, the last of which is -1 if they count `from_end`."""
        at = e.indices(self.value(e, i))
        self.watched.watch(at, size, from_end=from_end, operand=self.name(i))
        return at

    def within(self, e: Emitter, i: int, low: Dim, high: Dim, what: str) -> Value:
        """Input `i`, integers (`what`: lengths, positions ...) that must be in `low..high`."""
        x = self.value(e, i)
        self.watched.watch_range(x, low, high, what, self.name(i))
        return x

    def name(self, i: int) -> str:
        """What input `i` is called in messages."""
        return f"input {self.proto.input[i]!r}" if i < len(self.proto.input) else f"input {i}"

    # attributes

    def attr_int(self, name: str, default: int | None = None) -> int:
        """An integer attribute; required when there is no default."""
        return int(self._attr(name, default))

    def attr_float(self, name: str, default: float | None = None) -> float:
        """A float attribute, which is f32, a default too; required when there is no default."""
        return float(np.float32(self._attr(name, default)))

    def attr_str(self, name: str, default: str | None = None) -> str:
        """A string attribute; required when there is no default."""
        text = self._attr(name, default)
        return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)

    def attr_ints(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """An attribute of integers; required when there is no default."""
        return tuple(int(v) for v in self._attr(name, default))

    def attr_choice(self, name: str, *choices: str) -> str:
        """A string attribute that is one of a few, the first by default."""
        return one_of(name, self.attr_str(name, choices[0]), choices, self.error)

    def _attr(self, name: str, default: Any) -> Any:
        if name in self.attributes:
            return self.attributes[name]
        if default is None:
            raise self.error(f"attribute {name!r} is missing")
        return default

    # errors

    def error(self, message: str) -> VerifyError:
        """The error of a node that breaks its operator's rules."""
        return VerifyError(f"{self.op}: {message}", self.loc)

    def unfit(self, message: str, *dims: Dim) -> VerifyError | UnknownValueError:
        """The error of dims that do not fit, or of which only a run knows whether they do."""
        return self.error(message) if all(isinstance(d, int) for d in dims) else self.unknown_dim(message)

    def quotient(self, a: Dim, b: Dim, message: str) -> Dim:
        """a / b, which leaves no rest; where it does, the message says so."""
        if (found := exact_div(a, b)) is None:
            raise self.unfit(message, a, b)
        return found

    def unsupported(self, message: str) -> UnsupportedError:
        """The error of a form of the operator that is not compiled."""
        return UnsupportedError(f"{self.op}: {message}", self.loc)

    def too_large(self, message: str) -> TooLargeError:
        """The error of a node that no way of running it has the memory or time for."""
        return TooLargeError(f"{self.op}: {message}", self.loc)

    def unknown(self, i: int, message: str) -> UnknownValueError:
        """The error of a node that cannot be compiled before the value of input `i` is known."""
        x = self.input(i)
        return UnknownValueError(f"{self.op}: {message}", self.loc, x if isinstance(x, Value) else None)

    def unknown_dim(self, message: str) -> UnknownValueError:
        """The error of a node that cannot be compiled before dims are known."""
        return UnknownValueError(f"{self.op}: {message}", self.loc)


Results: TypeAlias = "Tracked | tuple[Tracked | None, ...]"
"""One per output, None for an output that nothing reads."""

Handler: TypeAlias = "Callable[[Emitter, Node], Results]"
"""Emits what a node computes."""

H = TypeVar("H", bound=Callable[..., Results])

CHANNEL_SLOPES = "graphfuse_channel_slopes"
"""An attribute that the loader gives a PRelu from before opset 7, whose slopes are of channels, whatever their rank."""

FLATTENED = "graphfuse_flattened"
"""An attribute that the loader gives a Hardmax from before opset 13, which sees all dims from its axis on as one."""

WHOLE_MASK = "graphfuse_whole_mask"
"""An attribute that the loader gives an Attention from before opset 24, whose mask has all keys, or is repeated."""

OLD_MEANINGS = (CHANNEL_SLOPES, FLATTENED, WHOLE_MASK)

INWARDS = "graphfuse_inwards"
"""A nearest_mode that the loader gives a Resize from before opset 11: floor where an axis grows, ceil where not."""

MICROSOFT = "com.microsoft"
"""The domain of the operators that ONNX Runtime adds to the standard's."""

HANDLERS: dict[tuple[str, str], Handler] = {}
"""By domain and operator."""


def onnx_op(*names: str, domain: str = "") -> Callable[[H], H]:
    """Declare the handler of operators: a function of the emitter, the node, and its inputs as IR values.

    An input whose parameter has a default may be left out, `*` is all that are left. What a handler looks at before it
    is a value, such as a shape, it leaves to be asked of the node.
    """

    def declare(handler: H) -> H:
        for name in names:
            assert (domain, name) not in HANDLERS, f"operator {name!r} is declared twice"
            HANDLERS[domain, name] = of_node(handler)
        return handler

    return declare


@functools.cache
def of_node(handler: Callable[..., Results]) -> Handler:
    """A handler as a function of emitter and node alone."""
    _, _, *asked = inspect.signature(handler).parameters.values()
    takes_all = bool(asked) and asked[-1].kind is inspect.Parameter.VAR_POSITIONAL
    named = asked[:-1] if takes_all else asked
    reads = [Node.value if p.default is p.empty else Node.optional for p in named]

    def called(e: Emitter, node: Node) -> Results:
        operands = [read(node, e, i) for i, read in enumerate(reads)]
        return handler(e, node, *operands, *(node.values(e, len(reads)) if takes_all else ()))

    return called


def one_of(what: str, found: str, choices: Sequence[str], error: Callable[[str], GraphfuseError]) -> str:
    """`found`, which has to be one of the choices."""
    if found not in choices:
        raise error(f"{what} must be {', '.join(choices[:-1])} or {choices[-1]}, got {found}")
    return found


def attributes_of(proto: onnx.NodeProto) -> dict[str, Any]:
    """A node's attributes as Python values; tensors stay protos."""
    return {a.name: helper.get_attribute_value(a) for a in proto.attribute}


def scalar_constant(node: Node, i: int, what: str) -> float | int | bool:
    """Input `i`, one number known at compile time."""
    array = node.constant(i, what)
    if array.size != 1:
        raise node.error(f"{what} must be a scalar, got {node.type(i)}")
    return np.asarray(array).reshape(-1)[0].item()

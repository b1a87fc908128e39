"""One execution of an operator by Python, and the table of what it can execute. Owns no operator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import onnx

from graphfuse.errors import InputError, Loc
from graphfuse.frontends.host_values import Array
from graphfuse.frontends.onnx.node import Axes, attributes_of, elem_from_onnx
from graphfuse.ir.dense import numpy_dtype
from graphfuse.targets.memory import physical_bytes

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Call(Axes):
    """An operator with the values of its inputs: arrays (strings as objects), lists for sequences, None for nothing."""

    op: str
    inputs: tuple[Any, ...]
    outputs: int
    loc: Loc | None
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    domain: str = ""
    compiled: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    """The inner part of the operator as machine code, where it has one."""
    memory: dict[Any, Any] = field(default_factory=dict[Any, Any])
    """What calls of the same node leave for those after them."""

    def has(self, i: int) -> bool:
        """Whether input `i` is given."""
        return i < len(self.inputs) and self.inputs[i] is not None

    def array(self, i: int) -> Array:
        """Input `i`, a tensor."""
        return cast("Array", self._given(i, np.ndarray, "a tensor"))

    def sequence(self, i: int) -> list[Any]:
        """Input `i`, a sequence."""
        return cast("list[Any]", self._given(i, list, "a sequence"))

    def _given(self, i: int, kind: type, what: str) -> object:
        value = self.inputs[i] if i < len(self.inputs) else None
        if not isinstance(value, kind):
            found = "nothing" if value is None else "a sequence" if isinstance(value, list) else "a tensor"
            raise self.error(f"input {i}: expected {what}, found {found}")
        return value

    def number(self, i: int, default: float | None = None) -> Any:
        """Input `i`, a tensor of one number."""
        if not self.has(i) and default is not None:
            return default
        array = self.array(i)
        if array.size != 1:
            raise self.error(f"input {i}: expected one element, found {array.size}")
        return array.reshape(-1)[0].item()

    def ints(self, i: int) -> list[int]:
        """Input `i`, a tensor of integers, in one row."""
        return [int(v) for v in self.array(i).reshape(-1)]

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute; texts as `str`, tensors as arrays."""
        return plain(self.attributes[name]) if name in self.attributes else default

    def once(self, name: str, make: Callable[[Call], T]) -> T:
        """What is made of attributes alone, for all calls of the node."""
        if name not in self.memory:
            self.memory[name] = make(self)
        return self.memory[name]

    def fitting(self, shape: Sequence[int], elem_bytes: int) -> tuple[int, ...]:
        """The shape of a result; MemoryError where this machine has no room for it."""
        if math.prod(shape) * elem_bytes > physical_bytes():
            raise MemoryError
        return tuple(shape)

    def dtype(self, name: str, default: int = onnx.TensorProto.FLOAT) -> np.dtype[Any]:
        """The dtype that an attribute of a TensorProto.DataType means."""
        number = int(self.get(name, default))
        if number == onnx.TensorProto.STRING:
            return np.dtype(object)
        return numpy_dtype(elem_from_onnx(number, self.loc))

    def error(self, message: str) -> InputError:
        """The error of values that the operator does not take."""
        return InputError(f"{self.op}: {message}", self.loc)


def plain(value: Any) -> Any:
    """An attribute without anything of ONNX's: texts as `str`, tensors as arrays."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, list):
        return [plain(v) for v in cast("list[Any]", value)]
    return value


PythonOp: TypeAlias = Callable[[Call], Any]
"""From a call to the result, a tuple of them for several."""

PYTHON_OPS: dict[tuple[str, str], PythonOp] = {}
"""Operators that only Python executes, by domain and name."""

ON_STRINGS: dict[tuple[str, str], PythonOp] = {}
"""Operators that are compiled, for tensors of strings, sequences and optionals."""


BY_VALUE: dict[tuple[str, str], PythonOp] = {}
"""Operators that are compiled where a value is known, for values that other parts of the model compute."""


def declares(table: dict[tuple[str, str], F]) -> Callable[..., Callable[[F], F]]:
    """A decorator of functions by the names of the operators that they are, and their domain, which enters them."""

    def of(*names: str, domain: str = "") -> Callable[[F], F]:
        def enter(fn: F) -> F:
            for name in names:
                assert (domain, name) not in table, f"operator {name!r} is declared twice"
                table[domain, name] = fn
            return fn

        return enter

    return of


python_op, on_strings, by_value = map(declares, (PYTHON_OPS, ON_STRINGS, BY_VALUE))


def call_of(node: onnx.NodeProto, inputs: tuple[Any, ...], loc: Loc | None) -> Call:
    """The call of a node."""
    return Call(node.op_type, inputs, len(node.output), loc, attributes_of(node))


def texts_of(array: Array) -> list[str]:
    """The elements of a tensor as texts, in one row."""
    flat = array.reshape(-1).tolist()
    if set(map(type, flat)) <= {str}:
        return flat
    return [v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in flat]


def strings(values: Any, shape: tuple[int, ...]) -> Array:
    """Texts as a tensor."""
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out.reshape(shape)

"""From the caller's inputs to arrays and symbol values, with an error that names the input when they do not fit.

Owns what a call may pass. Knows the signature, and nothing of plans or memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from graphfuse.artifact import TEXT, Array, Signature, TensorSpec, elem_dtype
from graphfuse.errors import ArtifactError, InputError, meant
from graphfuse.symbolic import Dim, Expr, evaluate, linear_in, product, symbols


@dataclass(frozen=True, slots=True)
class _Rule:
    """`symbol = (size of this axis - rest) / factor`, once the symbols before it are known."""

    symbol: str
    tensor: int
    axis: int
    factor: Dim
    rest: Dim


class Binder:
    """Checks inputs against a signature and solves their shapes for its symbols."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self._dtypes = tuple(np.dtype(object) if s.elem == TEXT else elem_dtype(s.elem) for s in signature.inputs)
        self._names = frozenset(s.name for s in signature.inputs)
        self._rules = tuple(_rules(signature))

    def arrays(self, inputs: Mapping[str, Any]) -> list[Array]:
        """The inputs as dense arrays in the signature's order; names and element types are checked."""
        self.check_names(inputs)
        return [self.array(i, inputs[s.name]) for i, s in enumerate(self.signature.inputs)]

    def check_names(self, inputs: Mapping[str, Any]) -> None:
        """Refuse a call that lacks an input, or has one too many."""
        if not isinstance(cast("object", inputs), (dict, Mapping)):
            raise InputError(f"inputs: expected a mapping by name, found {type(inputs).__name__}")
        if inputs.keys() ^ self._names:
            raise InputError(self._wrong_names(inputs))

    def check_out(self, given: Mapping[str, Any]) -> None:
        """Refuse what is no mapping from the names of outputs."""
        if not isinstance(cast("object", given), Mapping):
            raise InputError(f"out: expected arrays by the names of outputs, found {type(given).__name__}")
        if not given:
            return
        names = [s.name for s in self.signature.outputs]
        for name in given:
            if name not in names:
                raise InputError(f"no output {name!r}: expected one of {', '.join(map(repr, names))}")

    def array(self, index: int, value: Any) -> Array:
        """One input as a dense array; its element type is checked."""
        return _array(self.signature.inputs[index], self._dtypes[index], value)

    def bind(self, shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
        """Symbol values from the inputs' shapes, every dim and range checked."""
        specs, shown = self.signature.inputs, self.signature.shown
        for spec, shape in zip(specs, shapes, strict=True):
            if len(shape) != len(spec.shape):
                raise InputError(
                    f"input {spec.name!r}: expected rank {len(spec.shape)} {self._shape(spec.shape)}, "
                    f"found rank {len(shape)} {self._shape(shape)}"
                )
        values = {name: lo for name, lo, hi in self.signature.dims if lo == hi}
        for rule in self._rules:
            size = shapes[rule.tensor][rule.axis]
            factor, rest = evaluate(rule.factor, values), evaluate(rule.rest, values)
            if factor == 0 or (size - rest) % factor:
                spec = specs[rule.tensor]
                raise InputError(
                    f"input {spec.name!r}: dim {rule.axis}: expected {shown(spec.shape[rule.axis])} "
                    f"for an integer {shown(rule.symbol)}, found {size}"
                )
            values[rule.symbol] = (size - rest) // factor
            self._check_range(rule, values[rule.symbol], size)
        for spec, shape in zip(specs, shapes, strict=True):
            for axis, (dim, size) in enumerate(zip(spec.shape, shape, strict=True)):
                if (expected := evaluate(dim, values)) != size:
                    text = f"{shown(dim)} = {expected}" if isinstance(dim, Expr) else str(dim)
                    raise InputError(f"input {spec.name!r}: dim {axis}: expected {text}, found {size}")
        for c in self.signature.constraints:
            if not c.holds(values):
                where = [
                    f"{s.name!r} {self._shape(shape)}"
                    for s, shape in zip(specs, shapes, strict=True)
                    if not c.symbols.isdisjoint(symbols(product(d for d in s.shape if isinstance(d, Expr))))
                ]
                raise InputError(f"input{'s' * (len(where) > 1)} {', '.join(where)}: {shown(c.unmet(values))}")
        return values

    def _check_range(self, rule: _Rule, value: int, size: int) -> None:
        lo, hi = self.signature.ranges[rule.symbol]
        if not lo <= value <= hi:
            spec, shown = self.signature.inputs[rule.tensor], self.signature.shown
            dim = spec.shape[rule.axis]
            found = str(value) if str(dim) == rule.symbol else f"{value} ({shown(dim)} = {size})"
            name = shown(rule.symbol)
            raise InputError(
                f"input {spec.name!r}: dim {rule.axis}: expected {name} in {lo}..{hi}, found {found}; "
                f"compiled with --dim {name}={min(lo, value)}..{max(hi, value)} it fits"
            )

    def _shape(self, shape: Sequence[Dim]) -> str:
        return f"({', '.join(map(self.signature.shown, shape))})"

    def _wrong_names(self, inputs: Mapping[str, Any]) -> str:
        missing = [s.name for s in self.signature.inputs if s.name not in inputs]
        unknown = [str(n) for n in inputs if n not in self._names]
        if unknown:
            hint = meant(unknown[0], missing or sorted(self._names))
            wanted = ", ".join(repr(s.name) for s in self.signature.inputs) or "none"
            return f"unknown input {unknown[0]!r}: expected {wanted}{hint}"
        return f"missing input{'s' * (len(missing) > 1)} {', '.join(map(repr, missing))}"


def _rules(signature: Signature) -> list[_Rule]:
    """How to find each symbol: from an axis that is that symbol, else from one linear in it."""
    wanted = {name for name, lo, hi in signature.dims if lo != hi}
    axes = [
        (i, axis, dim)
        for i, spec in enumerate(signature.inputs)
        for axis, dim in enumerate(spec.shape)
        if isinstance(dim, Expr)
    ]
    axes.sort(key=lambda a: str(a[2]) not in wanted)  # plain symbols first
    rules: list[_Rule] = []
    while wanted:
        found = next((r for a in axes if (r := _rule(*a, wanted)) is not None), None)
        if found is None:
            raise ArtifactError(f"signature: the shapes of the inputs do not determine {', '.join(sorted(wanted))}")
        rules.append(found)
        wanted.remove(found.symbol)
    return rules


def _rule(tensor: int, axis: int, dim: Dim, wanted: set[str]) -> _Rule | None:
    unknown = symbols(dim) & wanted
    if len(unknown) != 1:
        return None
    (name,) = unknown
    linear = linear_in(dim, name)
    return _Rule(name, tensor, axis, *linear) if linear else None


def _array(spec: TensorSpec, dtype: np.dtype[Any], value: Any) -> Array:
    if spec.elem == TEXT:
        return _texts(spec, value)
    array = cast("Array", value) if isinstance(value, np.ndarray) else _imported(spec, value)
    if array.dtype != dtype:
        raise InputError(f"input {spec.name!r}: expected {dtype}, found {array.dtype}")
    flags = array.flags
    if not (flags.c_contiguous and flags.aligned):
        # not ascontiguousarray, which makes a 0-d array 1-d
        array = np.array(array, order="C", copy=True, subok=False)
    return array


def _texts(spec: TensorSpec, value: Any) -> Array:
    """Texts of any of numpy's kinds as an array of `str` objects."""
    array: Array = np.asarray(value) if isinstance(value, (np.ndarray, np.generic, str)) else np.empty(0)
    if array.dtype.kind not in "OSTU":
        found = array.dtype if isinstance(value, (np.ndarray, np.generic)) else type(value).__name__
        raise InputError(f"input {spec.name!r}: expected an array of texts, found {found}")
    texts = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in array.reshape(-1).tolist()]
    for other in set(map(type, texts)) - {str}:
        if not issubclass(other, str):
            raise InputError(f"input {spec.name!r}: expected texts, found {other.__name__}")
    out: Array = np.empty(array.size, object)
    out[:] = texts
    return out.reshape(array.shape)


def _imported(spec: TensorSpec, value: Any) -> Array:
    """An array over the memory of a DLPack object on the CPU, without a copy."""
    if isinstance(value, np.generic):
        return np.asarray(cast("Any", value))
    if not hasattr(value, "__dlpack__"):
        raise InputError(f"input {spec.name!r}: expected an array (numpy or DLPack), found {type(value).__name__}")
    try:
        device = value.__dlpack_device__()[0] if hasattr(value, "__dlpack_device__") else 1
        if hasattr(value, "resolve_neg"):  # what torch only marks as negated, DLPack hands out as it is in memory
            value = value.resolve_neg()
        if int(device) != 1:  # kDLCPU
            raise InputError(f"input {spec.name!r}: expected an array on the cpu, found DLPack device {int(device)}")
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as e:
        raise InputError(f"input {spec.name!r}: cannot be read through DLPack: {str(e).lower()}") from None

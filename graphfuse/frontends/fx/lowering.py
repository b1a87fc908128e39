"""The table from ATen operators to functions that emit graph ops, and what such a function is given.

A lowering takes the operator's arguments by the names of its schema: tensors as IR values, sizes as dims, anything
else as Python has it. Those that are one idea it takes as one, an `Arguments`; what tells apart the operators that it
is for, `lowers` says. What it takes as `axis` is the operator's `dim`, counted from 0, and no tensor is a scalar then:
one is given, and returned, as a line of one element.

    @lowers(aten.add.Tensor, aten.add.Scalar)
    def add(c: Call, self: Operand, other: Operand, alpha: Number = 1) -> Value: ...

    @lowers(aten.avg_pool2d.default, rank=2)
    @lowers(aten.avg_pool3d.default, rank=3)
    def avg_pool(c: Call, self: Value, how: Pooling, *, rank: int) -> Value: ...

Arithmetic on elements is written as a formula of terms, which know nothing of types.

    @formula(aten.silu.default)
    def silu(x: Term) -> Term: ...
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, TypeVar

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils import _pytree as pytree

from graphfuse.dialects import graph
from graphfuse.frontends.emit import Emitter, elem_of, shape_of
from graphfuse.frontends.fx.elements import DTYPES, element_of
from graphfuse.frontends.terms import Term
from graphfuse.frontends.watched import Watched
from graphfuse.ir.core import OpDef, Value
from graphfuse.ir.types import BF16, BOOL, F16, F32, Scalar, Tensor
from graphfuse.symbolic import Dim, Expr, bounds

Number: TypeAlias = "int | float | bool | Expr"
Operand: TypeAlias = "Value | Number"
Results: TypeAlias = "Value | Sequence[Value | None]"
Lowering = Callable[..., Results]
AnyLowering = TypeVar("AnyLowering", bound=Lowering)
Formula = Callable[..., Term]


class Unsupported(Exception):  # noqa: N818
    """A lowering declines: the message says why the operator is left to torch."""


LOWERINGS: dict[Any, Lowering] = {}
"""By overload, such as `aten.add.Tensor`."""


KERNELS: dict[str, str] = {}
"""The sources of operators that are kernels written by hand, by name: results depend on them."""


def fills_memory() -> bool:
    """Whether torch fills memory of no contents when it is to be deterministic: results depend on it, too."""
    settings: Any = torch.utils.deterministic
    return settings.fill_uninitialized_memory


class Arguments:
    """Arguments of an operator's schema that a lowering takes as one: a dataclass whose fields have their names."""


def lowers(*overloads: Any, **how: Any) -> Callable[[AnyLowering], AnyLowering]:
    """Register the decorated function for these overloads, for which it is given `how`, too.

    An overload that is given by name may be missing from this torch.
    """

    def register(fn: AnyLowering) -> AnyLowering:
        for overload in overloads:
            if isinstance(overload, str):
                overload = _named(overload)
                if overload is None:
                    continue
            assert overload not in LOWERINGS, f"{overload} has a lowering already"
            LOWERINGS[overload] = _by_schema(fn, how, overload)
        return fn

    return register


def formula(*overloads: Any, **how: Any) -> Callable[[Formula], Formula]:
    """Register a function of terms for these overloads: of their tensors in order, and of all else by name."""

    def register(fn: Formula) -> Formula:
        def lowering(c: Call, /, **given: Any) -> Value:
            tensors = [x for x in given.values() if isinstance(x, Value)]
            return c.compute(fn, *tensors, **how, **{k: x for k, x in given.items() if not isinstance(x, Value)})

        lowers(*overloads)(lowering)
        return fn

    return register


def _by_schema(fn: Lowering, how: Mapping[str, Any], overload: Any) -> Lowering:
    """The function of arguments by the names of the schema alone."""
    groups, is_along = groups_of(fn), "axis" in fn.__annotations__
    if not groups and not how and not is_along:
        return fn
    defaults = {a.name: a.default_value for a in overload._schema.arguments}

    @functools.wraps(fn)
    def lowering(call: Call, /, **given: Any) -> Results:
        given = {**how, **given}
        for name, kind in groups.items():
            given[name] = kind(**{f.name: given.pop(f.name) for f in fields(kind) if f.name in given})
        return _along(fn, call, given.pop("dim", defaults["dim"]), given) if is_along else fn(call, **given)

    return lowering


def _along(fn: Lowering, call: Call, dim: int, given: Mapping[str, Any]) -> Results:
    """What a lowering along one dim makes, scalars being lines of one element to it."""
    e = call.e
    given = {k: x if not isinstance(x, Value) or shape_of(x) else e.reshape(x, (1,)) for k, x in given.items()}
    first = next(x for x in given.values() if isinstance(x, Value))
    made = fn(call, axis=dim % len(shape_of(first)), **given)
    results = zip((made,) if isinstance(made, Value) else made, call.outs, strict=True)
    return [e.reshape(v, ()) if v is not None and out is not None and not out.shape else v for v, out in results]


def groups_of(fn: Lowering) -> dict[str, type[Any]]:
    """The parameters of a function that are `Arguments`."""
    kinds = {name: fn.__globals__.get(annotation) for name, annotation in fn.__annotations__.items()}
    return {name: kind for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, Arguments)}


def _named(name: str) -> Any:
    found: Any = torch.ops
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def name_of(argument: str) -> str:
    """What a lowering calls an argument of a schema."""
    return {"from": "from_"}.get(argument, argument)


def runs_on_cpu(fake: Any) -> bool:
    """Whether the part of a fake tensor is compiled for a CPU."""
    return fake.device.type == "cpu"


def wide_elem(elem: Scalar) -> Scalar:
    """What torch computes an element in."""
    return F32 if elem.is_float and elem.bits < 32 else elem


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an operator: where to emit, the types of what it returns, and torch's fake arguments and result."""

    e: Emitter
    watched: Watched
    """What is read as indices, and what integers are divided by."""
    outs: tuple[Tensor | None, ...]
    args: dict[str, Any]
    """By name of the schema, tensors as torch's fake ones."""
    result: Any
    """What torch says it returns."""
    wanted: tuple[bool, ...] = (True,)
    """Which of several results are read."""
    returned: frozenset[str] = frozenset()
    """Arguments that the graph also returns: for a gradient, if they are weights."""
    in_place: bool = False
    """Whether the result may be written over the first argument."""

    @property
    def out(self) -> Tensor:
        """The type of the first result."""
        first = self.outs[0]
        assert first is not None, "the lowering is of an operator that returns a tensor"
        return first

    @property
    def elem(self) -> Scalar:
        """The element of the first result."""
        return self.out.elem

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The shape of the first result."""
        return self.out.shape

    @property
    def on_cpu(self) -> bool:
        """Whether a CPU computes it."""
        return runs_on_cpu(pytree.tree_leaves(self.result)[0])

    def want(self, condition: bool, reason: str) -> None:
        """Decline unless `condition` holds."""
        if not condition:
            raise Unsupported(reason)

    def number(self, x: Number) -> float:
        """A number that the lowering itself computes with; it declines a size, which may change."""
        if isinstance(x, Expr):
            raise Unsupported(f"a parameter is the size {x}, which may change")
        return float(x)

    # operands

    def value(self, x: Operand, elem: Scalar | None = None, shape: Sequence[Dim] = ()) -> Value:
        """A tensor or number as a tensor of `elem` (default: the result's); a number takes `shape`."""
        elem = elem or self.elem
        if isinstance(x, Value):
            return self.e.cast(x, elem)
        return self.e.full(tuple(shape), elem, _fitting(x, elem))

    def common(self, a: Operand, b: Operand) -> Scalar:
        """The element torch promotes tensors and numbers to, before it computes."""
        dtype = torch.result_type(_stand_in(a), _stand_in(b))
        elem = element_of(dtype)
        if elem is None:
            raise Unsupported(f"no kernels compute in {dtype}")
        return elem

    def wide(self, x: Value) -> Value:
        """Halves as f32: what torch computes them in."""
        return self.e.cast(x, wide_elem(elem_of(x)))

    def term(self, x: Operand) -> Term:
        """An operand of the result's shape in what torch computes it in: halves as f32, integers by way of halves."""
        is_float = not isinstance(x, Value) or elem_of(x).is_float
        wide = self.value(x if is_float else self.value(x), wide_elem(self.elem), self.shape)
        return Term(self.e, self.e.broadcast(wide, self.shape))

    def compute(self, function: Formula, *operands: Operand, **numbers: Any) -> Value:
        """A function of terms, rounded once; integers are converted."""
        return self.rounded(function(*map(self.term, operands), **numbers).value)

    def indices(self, x: Value, size: Dim, *, from_end: bool = False, trusted: bool = False) -> Value:
        """Integers that choose among `size` elements, -1 the last of them `from_end`.

        It is an error when one of them is out of range, unless they are `trusted`.
        """
        self.want(elem_of(x).is_integer and elem_of(x).bits > 8, "its indices are a mask")
        some = 0 in shape_of(x) or bounds(size, self.e.ranges)[0] > 0
        self.want(some, "there may be nothing to choose from")
        at = self.e.indices(x)
        if not trusted:
            self.watched.watch(at, size, from_end=from_end)
        return at

    # elementwise

    def map(self, kind: OpDef, *operands: Operand, elem: Scalar | None = None) -> Value:
        """An elementwise function after promotion to `elem` (default: the result's), broadcast to the result."""
        values = [self.e.broadcast(self.value(o, elem, self.shape), self.shape) for o in operands]
        return self.e(kind, *values)

    def rounded(self, x: Value, elem: Scalar | None = None) -> Value:
        """What was computed wide, in the result's element."""
        return self.e.cast(x, elem or self.elem)

    def zeros(self, like: Value) -> Value:
        """Zeros of a value's type."""
        return self.e.full(shape_of(like), elem_of(like), 0)

    def truth(self, x: Operand) -> Value:
        """Whether elements are not zero."""
        if isinstance(x, Value):
            return x if elem_of(x) == BOOL else self.e(graph.ne, x, self.zeros(x))
        return self.e.full((), BOOL, bool(x))

    def axes(self, dims: Sequence[int] | int | None, rank: int) -> tuple[int, ...]:
        """Dims counted from 0; none or an empty list are all."""
        if isinstance(dims, int):
            dims = [dims]
        if not dims:
            return tuple(range(rank))
        return tuple(sorted({d % rank for d in dims})) if rank else ()


def _fitting(x: Number, elem: Scalar) -> Number:
    """A number as torch converts it to an element."""
    if isinstance(x, Expr):
        return x
    if elem == BOOL:
        return bool(x)
    if elem.is_float:
        # a half as it is when read: what converts it later reads this number
        return _rounded_half(float(x), DTYPES[elem]) if elem in (F16, BF16) else float(x)
    value = int(x)
    low, bits = (-(1 << (elem.bits - 1)), elem.bits) if elem.is_signed else (0, elem.bits)
    return (value - low) % (1 << bits) + low


def _rounded_half(x: float, dtype: torch.dtype) -> float:
    with unset_fake_temporarily():
        return torch.tensor(x, dtype=dtype, device="cpu").item()


def _stand_in(x: Operand) -> Any:
    """A meta tensor or number that promotes as the operand does."""
    if isinstance(x, Value):
        return torch.empty((1,) * len(shape_of(x)), dtype=DTYPES[elem_of(x)], device="meta")
    return 0 if isinstance(x, Expr) else x

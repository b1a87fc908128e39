"""What the names of a header stand for, given operands: dims, types, macros; and so the results and the grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import eq
from typing import Any

from graphfuse.errors import ParseError, UnsupportedError, VerifyError
from graphfuse.frontends.tc.types import NAMED, Arith
from graphfuse.frontends.tc_ops import expression
from graphfuse.frontends.tc_ops.expression import Arithmetic, ExpressionError
from graphfuse.frontends.tc_ops.header import Header, Part, is_type
from graphfuse.frontends.tc_ops.header import Tensor as Declared
from graphfuse.ir.types import Scalar, Tensor
from graphfuse.symbolic import Dim, Expr, product

Same = Callable[[Dim, Dim], bool]
"""Whether two dims are equal, or may be taken to be."""
C_NAMES = {t.elem: t.name for t in reversed(NAMED.values()) if isinstance(t, Arith)}
"""What the language calls an element."""


class Binding:
    """A header bound to operands; raises VerifyError where they do not fit, without a location."""

    def __init__(
        self,
        header: Header,
        operands: Sequence[Tensor],
        attributes: Mapping[str, Any],
        same: Same = eq,
        arithmetic: Arithmetic = expression.DIMS,
    ) -> None:
        self.header, self.same, self.arithmetic = header, same, arithmetic
        self.dims: dict[str, Dim] = {}
        """Dims, and then attributes and macros that are integers."""
        self.runs: dict[str, tuple[Dim, ...]] = {}
        self.types: dict[str, Scalar] = {}
        self.floats: dict[str, float] = {}
        self.macros: dict[str, str] = {}
        self._attributes(attributes)
        if len(operands) != len(header.inputs):
            wanted = ", ".join(map(str, header.inputs)) or "none"
            raise VerifyError(f"expected {len(header.inputs)} inputs ({wanted}), found {len(operands)}")
        for d, t in zip(header.inputs, operands, strict=True):
            self._bind(d, t)
        for d, t in zip(header.inputs, operands, strict=True):
            self._check(d, t)
        self.results = tuple(Tensor(self._shape(t), self._elem(t)) for t in header.outputs)

    def bind_macros(self) -> None:
        """Give macros their values."""
        for name, part in self.header.macros.items():
            self._macro(name, part)

    def grid(self) -> tuple[Dim, ...]:
        """The grid, once macros have values."""
        return tuple(self.value(p, "grid") for p in self.header.grid)

    def _attributes(self, given: Mapping[str, Any]) -> None:
        known = {a.name: a for a in self.header.attrs}
        for name in given:
            if name not in known:
                raise VerifyError(f"expected attributes among {', '.join(known) or 'none'}, found {name!r}")
        for a in self.header.attrs:
            value = given.get(a.name, a.default)
            if value is None:
                raise VerifyError(f"expected the attribute {a.name!r} ({a.kind}), found {', '.join(given) or 'none'}")
            if a.kind == "int":
                if not isinstance(value, int):
                    raise VerifyError(f"attribute {a.name!r}: expected an int, found {value!r}")
                self.dims[a.name] = int(value)
            elif not isinstance(value, int | float):
                raise VerifyError(f"attribute {a.name!r}: expected a float, found {value!r}")
            else:
                self.floats[a.name] = float(value)

    def _bind(self, d: Declared, t: Tensor) -> None:
        """Give the names that stand alone in an input's type their meaning."""
        if is_type(d.elem):
            if t.elem != self._elem(d):
                raise VerifyError(f"input {d.name!r}: expected {d}, found elements of {t.elem}")
        elif self.types.setdefault(d.elem, t.elem) != t.elem:
            raise VerifyError(f"input {d.name!r}: expected elements of {self.types[d.elem]}, found {t.elem}")
        allowed = self.header.types.get(d.elem)
        if allowed and C_NAMES.get(t.elem) not in {_canonical(name) for name in allowed}:
            raise UnsupportedError(f"input {d.name!r}: expected elements of {' or '.join(allowed)}, found {t.elem}")
        if len(d.dims) != t.rank if not d.run else len(d.dims) - 1 > t.rank:
            raise VerifyError(f"input {d.name!r}: expected {d}, found {t.rank} dims")
        shape = t.shape
        if d.run:
            lead = t.rank - len(d.dims) + 1
            run, shape = shape[:lead], (product(shape[:lead]), *shape[lead:])
            self.runs.setdefault(d.dims[0], run)
        for name, dim in zip(d.dims, shape, strict=True):
            if name.isidentifier():
                self.dims.setdefault(name, dim)

    def _check(self, d: Declared, t: Tensor) -> None:
        """Whether the shape is what the header says, now that all names are known."""
        want = self._shape(d)
        if len(want) != t.rank or not all(self.same(a, b) for a, b in zip(want, t.shape, strict=True)):
            raise VerifyError(f"input {d.name!r}: expected {d} = {_text(want)}, found {_text(t.shape)}")

    def _shape(self, d: Declared) -> tuple[Dim, ...]:
        if d.run:
            return (*self.runs[d.dims[0]], *(self._dim(text, d) for text in d.dims[1:]))
        return tuple(self._dim(text, d) for text in d.dims)

    def _dim(self, text: str, d: Declared) -> Dim:
        return self.value(Part(text, d.loc), d.name)

    def _elem(self, d: Declared) -> Scalar:
        found = NAMED.get(d.elem)
        return found.elem if isinstance(found, Arith) else self.types[d.elem]

    def value(self, part: Part, what: str) -> Dim:
        """The value of an expression."""
        try:
            return expression.value(part.text, self.dims, self.arithmetic)
        except ExpressionError as e:
            raise ParseError(f"{what}: {e}", part.loc) from None

    def _macro(self, name: str, part: Part) -> None:
        text = part.text
        if is_type(text):
            self.macros[name] = text
        elif text in self.types:
            if (spelled := C_NAMES.get(self.types[text])) is None:
                raise UnsupportedError(f"there is no kernel for elements of {self.types[text]}")
            self.macros[name] = spelled
        elif text.startswith('"'):
            self.macros[name] = text[1:-1]
        else:
            value = self.value(part, f"macros: {name}")
            if isinstance(value, Expr):
                what = f"macros: {name}: expected a number, found the symbolic {value}: fix it with --dim"
                raise ParseError(what, part.loc)
            self.macros[name] = str(value)
            self.dims[name] = value


def _canonical(name: str) -> str:
    found = NAMED[name]
    assert isinstance(found, Arith), "checked by the header"
    return C_NAMES[found.elem]


def _text(shape: Sequence[Dim]) -> str:
    return f"[{', '.join(map(str, shape))}]"

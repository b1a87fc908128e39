"""Whether every name of a header means one thing, and each one that is used is known there."""

from __future__ import annotations

from collections.abc import Iterable

from graphfuse.errors import Loc, ParseError
from graphfuse.frontends.tc_ops import expression
from graphfuse.frontends.tc_ops.expression import ExpressionError
from graphfuse.frontends.tc_ops.header import Header, is_type

MOST_AXES = 3
"""Of a grid, as a GPU launches it."""


def check(header: Header) -> Header:
    """The header; raises ParseError at the first name that is unknown or taken."""
    names = _Names(header)
    names.tensors()
    names.macros()
    names.launch()
    return header


class _Names:
    def __init__(self, header: Header) -> None:
        h = self.header = header
        self.taken: dict[str, str] = {}
        for what, declared in (("an input", h.inputs), ("an output", h.outputs), ("an attribute", h.attrs)):
            for x in declared:
                self._declare(x.name, what, x.loc)
        for name, part in h.macros.items():
            self._declare(name, "a macro", part.loc)
        for t in h.inputs:
            for d in t.dims:
                if d in self.taken:
                    found = f"found {d!r}, {self.taken[d]}"
                    raise ParseError(f"inputs: expected a name of its own for a dim, {found}", t.loc)
        self.variables = {t.elem for t in h.inputs if not is_type(t.elem)}
        dims = {d for t in h.inputs for d in t.dims if d.isidentifier()}
        self.known = dims | {a.name for a in h.attrs if a.kind == "int"}
        """Names of integers."""

    def _declare(self, name: str, what: str, loc: Loc) -> None:
        if name in self.taken:
            raise ParseError(f"expected another name for {what}, found {name!r}, {self.taken[name]}", loc)
        self.taken[name] = what

    def _expression(self, text: str, what: str, loc: Loc, others: Iterable[str] = ()) -> None:
        try:
            used = expression.names(text)
        except ExpressionError as e:
            raise ParseError(f"{what}: {e}", loc) from None
        for name in used:
            if name not in self.known:
                options = ", ".join(sorted({*self.known, *others})) or "none"
                raise ParseError(f"{what}: expected names among {options}, found {name!r}", loc)

    def tensors(self) -> None:
        """Types and dims of operands and results."""
        h = self.header
        for name in h.types:
            if name not in self.variables:
                found = f"found {name!r}"
                raise ParseError(f"types: expected a type of an input ({_list(self.variables)}), {found}", h.loc)
        for t in h.outputs:
            if not is_type(t.elem) and t.elem not in self.variables:
                what = f"outputs: expected a type, or that of an input ({_list(self.variables)})"
                raise ParseError(f"{what}, found {t.elem!r}", t.loc)
            runs = {i.dims[0] for i in h.inputs if i.run}
            if t.run and t.dims[0] not in runs:
                what = f"outputs: expected dims that an input has ({_list(f'{r}...' for r in runs)})"
                raise ParseError(f"{what}, found '{t.dims[0]}...'", t.loc)
        for t in (*h.inputs, *h.outputs):
            for d in t.dims:
                self._expression(d, "outputs" if t in h.outputs else "inputs", t.loc)

    def macros(self) -> None:
        """Values of macros, which may use those before."""
        for name, part in self.header.macros.items():
            text = part.text
            raw = len(text) > 1 and text[0] == text[-1] == '"'
            if not raw and text not in self.variables and not is_type(text):
                self._expression(text, f"macros: {name}", part.loc, self.variables)
                self.known.add(name)

    def launch(self) -> None:
        """Grid and arguments."""
        h = self.header
        for part in h.grid:
            self._expression(part.text, "grid", part.loc)
        if len(h.grid) > MOST_AXES:
            raise ParseError(f"grid: expected at most {MOST_AXES} axes, found {len(h.grid)}", h.grid[MOST_AXES].loc)
        tensors = [t.name for t in (*h.inputs, *h.outputs)]
        others = {*tensors, *(a.name for a in h.attrs)}
        for part in h.args:
            if part.text not in others and not _is_number(part.text):
                self._expression(part.text, "args", part.loc, others)
        passed = [p.text for p in h.args]
        for t in h.outputs:
            if t.name not in passed:
                what = f"args: expected the output {t.name!r} among them"
                raise ParseError(f"{what}, found {_list(passed)}", h.args[0].loc)


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

"""An operator whose meaning is a hand-written kernel: its header applied to operands gives a `graph.call`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import eq
from pathlib import Path
from typing import Any

from graphfuse.dialects import block, effects
from graphfuse.dialects.call import call_of
from graphfuse.dialects.pointers import WRITES, accesses
from graphfuse.errors import FileError, Loc, ParseError, UnsupportedError, VerifyError
from graphfuse.files import exists, read_source
from graphfuse.frontends.tc import Kernel, compile_text
from graphfuse.frontends.tc.kernel import LAUNCH
from graphfuse.frontends.tc.preprocess import texts_read
from graphfuse.frontends.tc_ops import expression
from graphfuse.frontends.tc_ops.binding import C_NAMES, Binding, Same
from graphfuse.frontends.tc_ops.header import Header, Part, parse_headers
from graphfuse.frontends.tc_ops.names import check
from graphfuse.ir.core import Attr, Block, Builder, Func, Op, Params, Value, tensor_of
from graphfuse.ir.remake import under
from graphfuse.ir.types import Ptr, Scalar, Tensor, Type
from graphfuse.symbolic import Dim

Number = bool | int | float
ALIGNMENT = 16
"""What the runtime aligns tensors to, in bytes."""


@dataclass(frozen=True, slots=True)
class Operator:
    """A header and the source that it heads."""

    header: Header
    source: str
    file: str

    def call(self, operands: Sequence[Value], attributes: Mapping[str, Any], *, same: Same = eq) -> Op:
        """The operator on operands; raises VerifyError where they do not fit, without a location."""
        return _Call(self, operands, Binding(self.header, [tensor_of(v) for v in operands], attributes, same)).op()

    def kernel(self, names: Binding) -> Kernel:
        """The kernel, its macros having values."""
        names.bind_macros()
        h = self.header
        found = {k.name: k for k in compile_text(self.source, self.file, names.macros)}
        if h.kernel is None and len(found) != 1:
            what = f"expected one kernel in the file, or a field `kernel: NAME`, found {', '.join(found) or 'none'}"
            raise ParseError(what, h.loc)
        if h.kernel is not None and h.kernel.text not in found:
            what = f"expected a kernel of the file ({', '.join(found) or 'none'})"
            raise ParseError(f"kernel: {what}, found {h.kernel.text!r}", h.kernel.loc)
        kernel = next(iter(found.values())) if h.kernel is None else found[h.kernel.text]
        if tables := block.tables(kernel.func):
            shown = next(f"{p.ctype} {p.name}" for p in kernel.params if p.name in tables)
            what = "expected pointers to numbers, as a graph says which tensors its kernels touch"
            raise UnsupportedError(f"kernel {kernel.name!r}: {what}, found '{shown}'", h.loc)
        return kernel

    def text_of_all(self) -> tuple[str, ...]:
        """The source and what it includes: all that a call depends on, the operands aside."""
        return tuple(texts_read(self.source, self.file).values())


def read_operators(*folders: str | Path) -> tuple[Operator, ...]:
    """The operators of all `.tc` files in folders, by file name; those without a header are not looked at."""
    out: list[Operator] = []
    seen: dict[str, Loc] = {}
    for folder in map(Path, folders):
        before = len(out)
        for file in _files(folder):
            text = read_source(file)
            for header in map(check, parse_headers(text, str(file))):
                if header.op in seen:
                    found = f"found another at {seen[header.op]}"
                    raise ParseError(f"op: expected one kernel for {header.op}, {found}", header.loc)
                seen[header.op] = header.loc
                out.append(Operator(header, text, str(file)))
        if len(out) == before:
            what = "expected .tc files that begin with a header such as '// op: domain::Name', found none"
            raise FileError(what, Loc(str(folder)))
    return tuple(out)


def _files(folder: Path) -> list[Path]:
    if not exists(folder) or not folder.is_dir():
        found = "found a file" if exists(folder) else "found nothing"
        raise FileError(f"expected a folder of .tc files, {found}", Loc(str(folder)))
    return sorted(folder.glob("*.tc"))


class _Call:
    """A kernel bound to what a header's names stand for."""

    def __init__(self, operator: Operator, operands: Sequence[Value], names: Binding) -> None:
        self.operator, self.header, self.operands, self.names = operator, operator.header, operands, names

    def op(self) -> Op:
        """The call."""
        h, results = self.header, self.names.results
        if kept := [str(t) for t in h.outputs if t.initial is not None]:
            what = "expected outputs that hold nothing before, as values of a graph do"
            raise UnsupportedError(f"{h.op}: {what}, found {kept[0]!r}", h.loc)
        kernel = self.operator.kernel(self.names)
        func, args = self._bound(kernel, results)
        refuse_writes(kernel, h)
        attrs: dict[str, Attr] = {**func.attrs, **{LAUNCH[name]: value for name, value in h.options.items()}}
        return call_of(replace(func, attrs=attrs), self.operands, results, self.names.grid(), args)

    def _bound(self, kernel: Kernel, results: Sequence[Tensor]) -> tuple[Func, list[Dim]]:
        """The kernel as a function of pointers to operands and results, then of the integers it takes."""
        h, old = self.header, kernel.func.params
        if any(p.pool_bytes for p in kernel.params):
            found = "found a __constant__ array"
            raise UnsupportedError(f"kernel {kernel.name!r}: expected none that a caller has to fill, {found}", h.loc)
        if len(old) != len(h.args):
            takes = ", ".join(f"{p.ctype} {p.name}" for p in kernel.params)
            loc = h.args[min(len(old), len(h.args) - 1)].loc
            raise ParseError(f"args: expected {len(old)} for {kernel.name}({takes}), found {len(h.args)}", loc)
        types = [*(tensor_of(v) for v in self.operands), *results]
        tensors = {d.name: (i, t) for i, (d, t) in enumerate(zip((*h.inputs, *h.outputs), types, strict=True))}
        numbers = [
            i for i, (p, v) in enumerate(zip(h.args, old, strict=True))
            if isinstance(v.type, Scalar) and v.type.is_integer and p.text not in tensors
        ]  # fmt: skip
        args = [self._integer(h.args[i], kernel, i) for i in numbers]
        takes = (*(Ptr(t.elem) for t in types), *(old[i].type for i in numbers))
        params = Params(takes, (*tensors, *(_symbol(old[i].hint) for i in numbers)))
        builder, now = Builder(), dict[Value, Value]()
        now.update((old[i], v) for i, v in zip(numbers, params.values[len(types) :], strict=True))
        for i, (p, v) in enumerate(zip(h.args, old, strict=True)):
            if isinstance(v.type, Ptr):
                now[v] = params.values[self._pointer(p, kernel, i, v.type, tensors)]
            elif i not in numbers:
                now[v] = self._constant(p, kernel, i, v.type, builder)
        self._check_promises(kernel, dict(zip((old[i].hint for i in numbers), args, strict=True)))
        body = under(kernel.func.body, params, now)
        return Func(kernel.name, Block(params, (*builder.ops, *body.ops))), args

    def _pointer(self, part: Part, kernel: Kernel, i: int, want: Ptr, tensors: Mapping[str, tuple[int, Tensor]]) -> int:
        expected = f"args: expected {self._parameter(kernel, i)}"
        if part.text not in tensors:
            raise ParseError(f"{expected}, an input or output ({', '.join(tensors)}), found {part.text!r}", part.loc)
        at, t = tensors[part.text]
        if t.elem != want.elem:
            raise ParseError(f"{expected}, found {part.text!r}, a tensor of {C_NAMES.get(t.elem, t.elem)}", part.loc)
        return at

    def _integer(self, part: Part, kernel: Kernel, i: int) -> Dim:
        if part.text in self.names.floats:
            found = f"found {part.text!r}, which is a float"
            raise ParseError(f"args: expected {self._parameter(kernel, i)}, an integer, {found}", part.loc)
        return self.names.value(part, "args")

    def _constant(self, part: Part, kernel: Kernel, i: int, elem: Type, builder: Builder) -> Value:
        assert isinstance(elem, Scalar), "neither a pointer nor an integer"
        if part.text in self.names.floats:
            number: Number = self.names.floats[part.text]
        else:
            try:
                number = float(part.text)
            except ValueError:
                value = self._literal(part)
                if not isinstance(value, int):
                    what = f"args: expected {self._parameter(kernel, i)}, a number"
                    raise ParseError(f"{what}, found {part.text!r}", part.loc) from None
                number = value
        number = bool(number) if elem.name == "bool" else float(number)
        return builder(block.const, value=number, elem=elem)

    def _literal(self, part: Part) -> Dim | None:
        return self.names.value(part, "args") if set(expression.names(part.text)) <= set(self.names.dims) else None

    def _parameter(self, kernel: Kernel, i: int) -> str:
        p = kernel.params[i]
        return f"'{p.ctype} {p.name}', parameter {i + 1} of {kernel.name}"

    def _check_promises(self, kernel: Kernel, args: Mapping[str, Dim]) -> None:
        """What the source promises of parameters must be true: nobody looks at run time."""
        for name, number in block.promises(kernel.func).items():
            if name not in args:
                if number > ALIGNMENT:
                    found = f"__aligned({number}) of {name!r}"
                    raise UnsupportedError(f"expected at most __aligned({ALIGNMENT}), which tensors are, found {found}")
            elif not _is_multiple(args[str(name)], number):
                what = f"kernel {kernel.name!r} promises __multipleof({number}) of {name!r}"
                raise VerifyError(f"{what}: expected such a number, found {args[str(name)]}")


GRID = ("grid_x", "grid_y", "grid_z")
"""Symbols that the compiler gives a kernel besides its own."""


def _symbol(name: str) -> str:
    return f"{name}_" if name in GRID else name


def _is_multiple(dim: Dim, n: int) -> bool:
    return dim % n == 0 if isinstance(dim, int) else all(c % n == 0 for _, c in dim.terms)


def refuse_writes(kernel: Kernel, header: Header) -> None:
    """Inputs never change, and an output without an initial value holds nothing before the kernel runs."""
    inputs = {t.name for t in header.inputs}
    outputs = {t.name for t in header.outputs if t.initial is None}
    passed = {v.hint: part.text for v, part in zip(kernel.func.params, header.args, strict=True)}
    for op, roots in accesses(kernel.func):
        names = sorted(passed[r] for r in roots)
        if op.kind in WRITES and (read := [n for n in names if n in inputs]):
            what = f"kernel {kernel.name!r}: expected to write outputs only"
            raise VerifyError(f"{what}, found one through the input {read[0]!r}", op.loc)
        if op.kind in (effects.atomic, effects.atomic_cas) and (unset := [n for n in names if n in outputs]):
            what = f"kernel {kernel.name!r}: expected plain stores, as outputs hold nothing before it runs"
            raise UnsupportedError(f"{what} (without `= 0`), found an atomic on {unset[0]!r}", op.loc)

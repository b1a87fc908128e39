"""An operator whose meaning is a hand-written kernel: its header applied to operands gives a `graph.call`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from graphfuse.dialects import block, effects
from graphfuse.dialects.call import call_of
from graphfuse.errors import FileError, Loc, ParseError, UnsupportedError, VerifyError
from graphfuse.frontends.tc import Kernel, compile_text
from graphfuse.frontends.tc.preprocess import read_include
from graphfuse.frontends.tc.source import Source
from graphfuse.frontends.tc.types import NAMED, Arith
from graphfuse.frontends.tc_ops import expression
from graphfuse.frontends.tc_ops.expression import ExpressionError
from graphfuse.frontends.tc_ops.header import Header, Part, is_type, parse_headers
from graphfuse.frontends.tc_ops.header import Tensor as Declared
from graphfuse.frontends.tc_ops.names import check
from graphfuse.ir.core import Block, Builder, Func, Op, OpDef, Params, Value, tensor_of
from graphfuse.ir.types import Ptr, Scalar, Tensor, Type
from graphfuse.symbolic import Dim, Expr, product

Same = Callable[[Dim, Dim], bool]
"""Whether two dims are equal, or may be taken to be."""
Number = bool | int | float
ALIGNMENT = 16
"""What the runtime aligns tensors to, in bytes."""

_NAMES = {t.elem: t.name for t in reversed(NAMED.values()) if isinstance(t, Arith)}
"""What the language calls an element."""


_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"(?P<name>[^"]*)"', re.M)


@dataclass(frozen=True, slots=True)
class Operator:
    """A header and the source that it heads."""

    header: Header
    source: str
    file: str

    def call(self, operands: Sequence[Value], attributes: Mapping[str, Any], *, same: Same | None = None) -> Op:
        """The operator on operands; raises VerifyError where they do not fit, without a location."""
        return _Call(self, operands, attributes, same or (lambda a, b: a == b)).op()

    def text_of_all(self) -> tuple[str, ...]:
        """The source and what it includes: all that a call depends on, the operands aside."""
        done: dict[str, str] = {}
        todo = [Source(self.file, self.source)]
        while todo:
            source = todo.pop()
            if source.name not in done:
                done[source.name] = source.text
                found = (read_include(m["name"], source) for m in _INCLUDE.finditer(source.text))
                todo += [s for s in found if s is not None]
        return tuple(done.values())


def read_operators(*folders: str | Path) -> tuple[Operator, ...]:
    """The operators of all `.tc` files in folders, by file name; those without a header are not looked at."""
    out: list[Operator] = []
    seen: dict[str, Loc] = {}
    for file in _files(folders):
        try:
            text = file.read_text(encoding="utf-8")
        except OSError as e:
            raise FileError(f"cannot read: {(e.strerror or str(e)).lower()}", Loc(str(file))) from None
        except UnicodeDecodeError as e:
            raise FileError(f"expected text in UTF-8, found a byte {e.object[e.start]:#x}", Loc(str(file))) from None
        for header in map(check, parse_headers(text, str(file))):
            if header.op in seen:
                found = f"found another at {seen[header.op]}"
                raise ParseError(f"op: expected one kernel for {header.op}, {found}", header.loc)
            seen[header.op] = header.loc
            out.append(Operator(header, text, str(file)))
    return tuple(out)


def _files(folders: Sequence[str | Path]) -> Iterator[Path]:
    for folder in map(Path, folders):
        if not folder.is_dir():
            found = "found a file" if folder.exists() else "found nothing"
            raise FileError(f"expected a folder of .tc files, {found}", Loc(str(folder)))
        yield from sorted(folder.glob("*.tc"))


class _Call:
    """One call: what the header's names stand for, and the kernel bound to them."""

    def __init__(
        self, operator: Operator, operands: Sequence[Value], attributes: Mapping[str, Any], same: Same
    ) -> None:
        self.operator, self.header, self.operands, self.same = operator, operator.header, operands, same
        self.dims: dict[str, Dim] = {}
        """Dims, and then attributes and macros that are integers."""
        self.runs: dict[str, tuple[Dim, ...]] = {}
        self.types: dict[str, Scalar] = {}
        self.floats: dict[str, float] = {}
        self.macros: dict[str, str] = {}
        self._attributes(attributes)

    def op(self) -> Op:
        """The call."""
        h = self.header
        if len(self.operands) != len(h.inputs):
            raise VerifyError(f"expected {len(h.inputs)} inputs ({_list(h.inputs)}), found {len(self.operands)}")
        for d, v in zip(h.inputs, self.operands, strict=True):
            self._bind(d, tensor_of(v))
        for d, v in zip(h.inputs, self.operands, strict=True):
            self._check(d, tensor_of(v))
        for name, part in h.macros.items():
            self._macro(name, part)
        results = [Tensor(self._shape(t), self._elem(t)) for t in h.outputs]
        grid = [self._value(p, "grid") for p in h.grid]
        kernel = self._kernel()
        func, args = self._bound(kernel, results)
        _refuse_writes(kernel.name, func, h)
        attrs = dict(func.attrs) | {n: k for n, k in (("warps", h.num_warps), ("stages", h.num_stages)) if k}
        return call_of(replace(func, attrs=attrs), self.operands, results, grid, args)

    # what names stand for

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
        if allowed and _NAMES.get(t.elem) not in {_canonical(name) for name in allowed}:
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
        return self._value(Part(text, d.loc), d.name)

    def _elem(self, d: Declared) -> Scalar:
        found = NAMED.get(d.elem)
        return found.elem if isinstance(found, Arith) else self.types[d.elem]

    def _value(self, part: Part, what: str) -> Dim:
        try:
            return expression.value(part.text, self.dims)
        except ExpressionError as e:
            raise ParseError(f"{what}: {e}", part.loc) from None

    def _macro(self, name: str, part: Part) -> None:
        text = part.text
        if is_type(text):
            self.macros[name] = text
        elif text in self.types:
            if (spelled := _NAMES.get(self.types[text])) is None:
                raise UnsupportedError(f"there is no kernel for elements of {self.types[text]}")
            self.macros[name] = spelled
        elif text.startswith('"'):
            self.macros[name] = text[1:-1]
        else:
            value = self._value(part, f"macros: {name}")
            if isinstance(value, Expr):
                what = f"macros: {name}: expected a number, found the symbolic {value}: fix it with --dim"
                raise ParseError(what, part.loc)
            self.macros[name] = str(value)
            self.dims[name] = value

    # the kernel

    def _kernel(self) -> Kernel:
        o, h = self.operator, self.header
        found = {k.name: k for k in compile_text(o.source, o.file, self.macros)}
        if h.kernel is not None:
            if h.kernel.text not in found:
                what = f"expected a kernel of the file ({', '.join(found) or 'none'})"
                raise ParseError(f"kernel: {what}, found {h.kernel.text!r}", h.kernel.loc)
            return found[h.kernel.text]
        if len(found) != 1:
            what = f"expected one kernel in the file, or a field `kernel: NAME`, found {', '.join(found) or 'none'}"
            raise ParseError(what, h.loc)
        return next(iter(found.values()))

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
        params = Params(
            (*(Ptr(t.elem) for t in types), *(old[i].type for i in numbers)),
            (*tensors, *(old[i].hint for i in numbers)),
        )
        builder, now = Builder(), dict[Value, Value]()
        now.update((old[i], v) for i, v in zip(numbers, params.values[len(types) :], strict=True))
        for i, (p, v) in enumerate(zip(h.args, old, strict=True)):
            if isinstance(v.type, Ptr):
                now[v] = params.values[self._pointer(p, kernel, i, v.type, tensors)]
            elif i not in numbers:
                now[v] = self._constant(p, kernel, i, v.type, builder)
        self._check_promises(kernel, dict(zip((old[i].hint for i in numbers), args, strict=True)))
        body = _under(kernel.func.body, params, now)
        attrs = {n: a for n, a in kernel.func.attrs.items() if n in ("debug",)}
        return Func(kernel.name, Block(params, (*builder.ops, *body.ops)), attrs), args

    def _pointer(self, part: Part, kernel: Kernel, i: int, want: Ptr, tensors: Mapping[str, tuple[int, Tensor]]) -> int:
        expected = f"args: expected {self._parameter(kernel, i)}"
        if part.text not in tensors:
            raise ParseError(f"{expected}, an input or output ({', '.join(tensors)}), found {part.text!r}", part.loc)
        at, t = tensors[part.text]
        if t.elem != want.elem:
            raise ParseError(f"{expected}, found {part.text!r}, a tensor of {_NAMES.get(t.elem, t.elem)}", part.loc)
        return at

    def _integer(self, part: Part, kernel: Kernel, i: int) -> Dim:
        if part.text in self.floats:
            found = f"found {part.text!r}, which is a float"
            raise ParseError(f"args: expected {self._parameter(kernel, i)}, an integer, {found}", part.loc)
        return self._value(part, "args")

    def _constant(self, part: Part, kernel: Kernel, i: int, elem: Type, builder: Builder) -> Value:
        assert isinstance(elem, Scalar), "neither a pointer nor an integer"
        if part.text in self.floats:
            number: Number = self.floats[part.text]
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
        return self._value(part, "args") if set(expression.names(part.text)) <= set(self.dims) else None

    def _parameter(self, kernel: Kernel, i: int) -> str:
        p = kernel.params[i]
        return f"'{p.ctype} {p.name}', parameter {i + 1} of {kernel.name}"

    def _check_promises(self, kernel: Kernel, args: Mapping[str, Dim]) -> None:
        """What the source promises of parameters must be true: nobody looks at run time."""
        promised = kernel.func.attrs.get("assume", ())
        assert isinstance(promised, tuple), "pairs"
        for pair in promised:
            assert isinstance(pair, tuple), "a pair"
            name, number = pair
            assert isinstance(number, int), "what it is divisible by"
            if name not in args:
                if number > ALIGNMENT:
                    found = f"__aligned({number}) of {name!r}"
                    raise UnsupportedError(f"expected at most __aligned({ALIGNMENT}), which tensors are, found {found}")
            elif not _is_multiple(args[str(name)], number):
                what = f"kernel {kernel.name!r} promises __multipleof({number}) of {name!r}"
                raise VerifyError(f"{what}: expected such a number, found {args[str(name)]}")


def _is_multiple(dim: Dim, n: int) -> bool:
    return dim % n == 0 if isinstance(dim, int) else all(c % n == 0 for _, c in dim.terms)


def _canonical(name: str) -> str:
    found = NAMED[name]
    assert isinstance(found, Arith), "checked by the header"
    return _NAMES[found.elem]


def _under(body: Block, params: Params, now: dict[Value, Value]) -> Block:
    """A block with other parameters, and values for its old ones."""
    ops: list[Op] = []
    for op in body.ops:
        bodies: list[Block] = []
        for b in op.bodies:
            inner = Params(b.params.types, b.params.hints)
            now.update(zip(b.params.values, inner.values, strict=True))
            bodies.append(_under(b, inner, now))
        new = replace(op, operands=tuple(now.get(v, v) for v in op.operands), bodies=tuple(bodies))
        now.update(zip(op.results, new.results, strict=True))
        ops.append(new)
    return Block(params, tuple(ops))


WRITES: dict[OpDef, str] = {
    block.store: "stores", block.store_view: "stores", effects.atomic: "adds", effects.atomic_cas: "swaps",
}  # fmt: skip


def _refuse_writes(kernel: str, func: Func, header: Header) -> None:
    """A value of a graph never changes, and a result holds nothing before the kernel runs."""
    inputs = dict(zip(func.params, header.inputs, strict=False))
    outputs = dict(zip(func.params[len(header.inputs) :], header.outputs, strict=False))
    for op in func.walk():
        if op.kind not in WRITES:
            continue
        root = op.operands[0]
        while root.op is not None and root.op.kind in (block.offset, block.pointer_cast):
            root = root.op.operands[0]
        if root in inputs:
            what = f"kernel {kernel!r}: expected to write outputs only"
            raise VerifyError(f"{what}, found one through the input {inputs[root].name!r}", op.loc)
        if root in outputs and op.kind in (effects.atomic, effects.atomic_cas):
            what = f"kernel {kernel!r}: expected plain stores, as outputs hold nothing before it runs"
            raise UnsupportedError(f"{what}, found an atomic on {outputs[root].name!r}", op.loc)


def _list(tensors: Sequence[Declared]) -> str:
    return ", ".join(map(str, tensors)) or "none"


def _text(shape: Sequence[Dim]) -> str:
    return f"[{', '.join(map(str, shape))}]"

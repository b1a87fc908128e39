"""Offsets of pointers that may not fit in 32 bits: products of two sizes that are computed as `int`.

A parameter, a program's index, what is loaded: each is a size that may be anything up to 2^31, and a sum of them, or
a constant times one of them, is taken to be the position it is meant to be. A product of two of them may be 2^62.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphfuse.frontends.tc import typed as t
from graphfuse.frontends.tc.diagnostics import Note, Reporter
from graphfuse.frontends.tc.types import Arith


def find_overflows(unit: t.Unit, report: Reporter) -> None:
    """Warn of each product of sizes in `int` that an offset of a pointer is made of."""
    finder = _Finder()
    for f in unit.functions:
        finder.gather(f)
    seen: set[t.Binary] = set()
    for add in finder.offsets:
        for product in finder.products(add.offset):
            if product in seen:
                continue
            seen.add(product)
            names = sorted({v.name for v in finder.sizes(product) if v.name})
            wide = f", as by declaring {' or '.join(map(repr, names))} as long" if names else ""
            expected = f"expected a factor of type long{wide}"
            message = f"this product of {product.elem} is an offset, and may pass 2^31: {expected}"
            notes = [] if add.at is product.at else [Note("the offset is used here", add.at.span)]
            report.warning("offset-overflow", message, product.at, notes)


class _Finder:
    """What each variable is set to, whatever the order, and which expressions are sizes."""

    def __init__(self) -> None:
        self.offsets: list[t.PointerAdd] = []
        self._values: dict[t.Variable, list[t.Expr]] = {}
        self._results: dict[t.FunctionDecl, list[t.Expr]] = {}
        self._bounded: set[t.Variable] = set()
        self._sizes: dict[t.Variable, bool] = {}

    def gather(self, f: t.FunctionDecl) -> None:
        """Note what a function sets, gives, and adds to pointers."""
        assert f.body is not None, "a unit has functions with bodies"
        results = self._results.setdefault(f, [])
        for node in t.walk(f.body):
            match node:
                case t.Assign(variable=v, value=x) | t.Let(variable=v, value=x):
                    self._values.setdefault(v, []).append(x)
                case t.Call(function=g, args=args):
                    for p, x in zip(g.params, args, strict=True):
                        self._values.setdefault(p, []).append(x)
                case t.Return(value=x) if x is not None:
                    results.append(x)
                case t.Loop(condition=t.Binary(op="<" | "<=" | "!=", left=t.Read(variable=v), right=t.Const())):
                    self._bounded.add(v)
                case t.PointerAdd():
                    self.offsets.append(node)
                case _:
                    pass

    def products(self, offset: t.Expr) -> Iterator[t.Binary]:
        """The products of sizes in 32 bits that a value is the sum, or a selection, of."""
        work: list[t.Expr] = [offset]
        done: set[t.Variable] = set()
        while work:
            x = work.pop()
            match x:
                case t.Read(variable=v) if v not in done:
                    done.add(v)
                    work += self._values.get(v, [])
                case t.Binary(op="*", left=a, right=b):
                    if _is_narrow(x) and self.is_size(a) and self.is_size(b):
                        yield x
                    else:
                        work += [b, a]
                case t.Binary(op="+" | "-" | "<<", left=a, right=b):
                    work += [b, a]
                case t.Select(then=a, other=b):
                    work += [b, a]
                case t.Call(function=f):
                    work += self._results.get(f, [])
                case t.Let(body=a) | t.Sequence(second=a) | t.Assign(value=a) | t.Unary(x=a) | t.Assume(x=a):
                    work.append(a)
                case t.Moved(x=a) | t.Convert(x=a):
                    work.append(a)
                case _:
                    pass

    def sizes(self, product: t.Binary) -> Iterator[t.Variable]:
        """The parameters among the factors of a product."""
        work: list[t.Expr] = [product]
        while work:
            match work.pop():
                case t.Read(variable=v) if v not in self._values:
                    yield v
                case t.Binary(op="*", left=a, right=b):
                    work += [a, b]
                case t.Moved(x=a) | t.Convert(x=a):
                    work.append(a)
                case _:
                    pass

    def is_size(self, x: t.Expr) -> bool:
        """Whether a value may be as large as an `int` can be."""
        match x:
            case t.Const() | t.Range() | t.Reduce(kind="argmax" | "argmin"):
                return False
            case t.Read(variable=v):
                return self._is_size_variable(v)
            case t.Binary(op="%" | "&", left=a, right=b) | t.Function(name="min", args=(a, b)):
                return self.is_size(a) and self.is_size(b)
            case t.Binary(op="+" | "-" | "*" | "<<" | "|" | "^", left=a, right=b) | t.Select(then=a, other=b):
                return self.is_size(a) or self.is_size(b)
            case t.Binary(op=op, left=a):
                return op in ("/", ">>") and self.is_size(a)
            case t.Call(function=f):
                return any(self.is_size(a) for a in self._results.get(f, []))
            case t.Convert(x=a):
                elem = a.elem
                return not (isinstance(elem, Arith) and elem.kind == "int" and elem.bits < 32) and self.is_size(a)
            case t.Let(body=a) | t.Sequence(second=a) | t.Assign(value=a) | t.Unary(x=a) | t.Assume(x=a):
                return self.is_size(a)
            case t.Moved(x=a) | t.Reduce(x=a) | t.Scan(x=a):
                return self.is_size(a)
            case _:
                return True

    def _is_size_variable(self, v: t.Variable) -> bool:
        elem = v.elem
        if not isinstance(elem, Arith) or elem.bits < 32:
            return False
        if v not in self._values:
            return True
        if v not in self._sizes:
            # what is added to itself grows, unless it counts up to a constant
            self._sizes[v] = v not in self._bounded
            self._sizes[v] = any(self.is_size(x) for x in self._values[v])
        return self._sizes[v]


def _is_narrow(x: t.Expr) -> bool:
    elem = x.elem
    return isinstance(elem, Arith) and elem.kind == "int" and elem.bits <= 32

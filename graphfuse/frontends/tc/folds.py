"""Reductions and scans by a function of the source, which must be associative.

Neighbours are combined, then neighbours of those: operands stay in their order. Of other counts than powers of two
parts that are powers are combined.
"""

from __future__ import annotations

from graphfuse.frontends.tc import ast
from graphfuse.frontends.tc import typed as t
from graphfuse.frontends.tc.check_base import Checker, bound
from graphfuse.frontends.tc.convert import broadcast, fill, reshape, to_elem
from graphfuse.frontends.tc.tokens import Token
from graphfuse.frontends.tc.types import Arith, Tile, elements, with_dim


class Fold:
    """One function, and where it is asked for."""

    def __init__(self, c: Checker, function: t.FunctionDecl, name: str, node: ast.Expr) -> None:
        self.c, self.function, self.name, self.node = c, function, name, node
        elems = [p.type for p in function.params]
        if len(elems) != 2 or elems[0] != elems[1] or not isinstance(elems[0], Arith) or function.is_kernel:
            shown = ", ".join(str(p.type) for p in function.params)
            message = f"{name}: expected a function of two numbers of one type, found {function.name}({shown})"
            c.fail("fold", message, node)
        self.elem: Arith = elems[0]
        function.called = True
        if function.result != self.elem:
            message = f"{name}: expected a function that gives {self.elem}, found {function.name}: {function.result}"
            c.fail("fold", message, node)

    def reduced(self, x: t.Expr, axis: int) -> t.Expr:
        """All elements along an axis combined."""
        x, n = to_elem(x, self.elem), x.shape[axis]
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        if n & n - 1 == 0:
            return reshape(self._halved(x, axis), shape)
        power = 1 << n.bit_length() - 1

        def parts(x: t.Expr) -> t.Expr:
            ends = (self._part(x, axis, 0, power), self._part(x, axis, power, n - power))
            return self._combined(*(self.reduced(part, axis) for part in ends))

        return bound(x, self.at, parts)

    def _halved(self, x: t.Expr, axis: int) -> t.Expr:
        """A power of two elements combined to one."""
        n = x.shape[axis]
        if n == 1:
            return x
        pairs = reshape(x, (*x.shape[:axis], n // 2, 2, *x.shape[axis + 1 :]))
        return self._halved(bound(pairs, self.at, lambda p: self._combined(*self._both(p, axis + 1))), axis)

    def scanned(self, x: t.Expr, axis: int, *, reverse: bool) -> t.Expr:
        """Each element combined with those before it, or after it."""
        x, n = to_elem(x, self.elem), x.shape[axis]
        if reverse:
            x = self._turned(x, axis)
        power = 1 << (n - 1).bit_length()
        if power > n:
            # what comes behind changes nothing
            x = bound(x, self.at, lambda x: self._cat(x, self._part(x, axis, 0, power - n), axis))
        size = 1
        while size < power:
            x = self._joined(x, axis, size, reverse=reverse)
            size *= 2
        x = self._part(x, axis, 0, n)
        return self._turned(x, axis) if reverse else x

    def _joined(self, x: t.Expr, axis: int, size: int, *, reverse: bool) -> t.Expr:
        """Runs of `size` that are scanned made runs of twice as many: later ones take in the last of those before."""
        shape, n = x.shape, x.shape[axis]
        runs = reshape(x, (*shape[:axis], n // (2 * size), 2, size, *shape[axis + 1 :]))

        def joined(runs: t.Expr) -> t.Expr:
            first = self._part(runs, axis + 1, 0, 1)
            second = self._part(runs, axis + 1, 1, 1)
            last = broadcast(self._part(first, axis + 2, size - 1, 1), second.shape)
            later = self._combined(second, last) if reverse else self._combined(last, second)
            return reshape(self._cat(first, later, axis + 1), shape)

        return bound(runs, self.at, joined)

    # pieces

    @property
    def at(self) -> Token:
        """Where ops made of it point."""
        return self.node.at

    def _combined(self, a: t.Expr, b: t.Expr) -> t.Expr:
        if elements(a.shape) == 1:
            number = self.c.apply(self.function, [reshape(a, ()), reshape(b, ())], self.node)
            out = fill(number, a.shape)
        else:
            out = self.c.apply(self.function, [a, b], self.node)
        if out.shape != a.shape:
            message = f"{self.name}: expected a result of the shape {list(a.shape)}, found {list(out.shape)}"
            self.c.fail("fold", message, self.node)
        return out

    def _both(self, x: t.Expr, axis: int) -> tuple[t.Expr, t.Expr]:
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        first, second = (reshape(self._part(x, axis, i, 1), shape) for i in range(2))
        return first, second

    def _part(self, x: t.Expr, axis: int, start: int, count: int) -> t.Expr:
        out = Tile(with_dim(x.shape, axis, count), self.elem)
        return x if out == x.type else t.Take(self.at, out, x, axis, start)

    def _turned(self, x: t.Expr, axis: int) -> t.Expr:
        return t.Take(self.at, x.type, x, axis, x.shape[axis] - 1, -1)

    def _cat(self, a: t.Expr, b: t.Expr, axis: int) -> t.Expr:
        return t.Cat(self.at, Tile(with_dim(a.shape, axis, a.shape[axis] + b.shape[axis]), self.elem), a, b, axis)

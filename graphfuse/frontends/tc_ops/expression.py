"""Integer expressions of headers, in C's notation: `(M + TM - 1) / TM`, `2 * N`, `pow2(N)`.

Values are dims: numbers, or expressions of a graph's symbols. Nothing here is negative, so `/` and `%` are those of
index arithmetic.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from graphfuse.symbolic import Dim, floordiv, maximum, minimum, mod

OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Mod)


class ExpressionError(Exception):
    """The text is no expression, or has no value; the message says what was expected and found."""


def power_of_two(n: Dim) -> int:
    """The least power of two that is not below n, which must be a number."""
    if not isinstance(n, int):
        raise ExpressionError(f"pow2: expected a number, found the symbolic {n}: fix it with --dim")
    return 1 << max(n - 1, 0).bit_length()


FUNCTIONS = {"min": 2, "max": 2, "cdiv": 2, "pow2": 1}
"""By name, the number of arguments; `cdiv` is division rounded up."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How dims are computed with; those of another library than this one have their own division and extremes."""

    divide: Callable[[Any, Any], Any]
    remainder: Callable[[Any, Any], Any]
    least: Callable[[Any, Any], Any]
    greatest: Callable[[Any, Any], Any]

    def operate(self, op: ast.operator, a: Dim, b: Dim) -> Dim:
        """The value of an operator."""
        match op:
            case ast.Add():
                return a + b
            case ast.Sub():
                return a - b
            case ast.Mult():
                return a * b
            case ast.Div():
                return self.divide(a, b)
            case _:
                return self.remainder(a, b)

    def call(self, function: str, args: list[Dim]) -> Dim:
        """The value of a function."""
        match function, args:
            case "min", [a, b]:
                return self.least(a, b)
            case "max", [a, b]:
                return self.greatest(a, b)
            case "cdiv", [a, b]:
                return self.divide(a + b - 1, b)
            case _:
                return power_of_two(args[0])


DIMS = Arithmetic(floordiv, mod, minimum, maximum)


def parse(text: str) -> ast.expr:
    """The tree of an expression."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"expected an expression such as (M + TM - 1) / TM, found {text.strip()!r}") from None


def names(text: str) -> list[str]:
    """The names in an expression, functions aside, in order; checks that it is one."""
    found: list[str] = []

    def visit(node: ast.expr) -> None:
        match node:
            case ast.Name():
                found.append(node.id)
            case ast.Constant(value=int(n)) if not isinstance(n, bool):
                pass
            case ast.BinOp(left, op, right) if isinstance(op, OPERATORS):
                visit(left)
                visit(right)
            case ast.Call(ast.Name(function), args, []):
                if (count := FUNCTIONS.get(function)) is None:
                    raise ExpressionError(f"expected one of the functions {', '.join(FUNCTIONS)}, found {function!r}")
                if len(args) != count:
                    raise ExpressionError(f"{function}: expected {count} arguments, found {len(args)}")
                for a in args:
                    visit(a)
            case _:
                what = "integers, names, + - * / % and parentheses"
                raise ExpressionError(f"expected {what}, found {ast.unparse(node)!r}")

    visit(parse(text))
    return found


def value(text: str, known: Mapping[str, Dim], arithmetic: Arithmetic = DIMS) -> Dim:
    """The value of an expression whose names are all known."""

    def visit(node: ast.expr) -> Dim:
        match node:
            case ast.Constant(value=int(n)):
                return n
            case ast.Name(name):
                return known[name]
            case ast.BinOp(left, op, right):
                a, b = visit(left), visit(right)
                if isinstance(op, ast.Div | ast.Mod) and isinstance(b, int) and b < 1:
                    raise ExpressionError(f"expected to divide by a positive number, found {ast.unparse(right)} = {b}")
                return arithmetic.operate(op, a, b)
            case ast.Call(ast.Name(function), args):
                return arithmetic.call(function, [visit(a) for a in args])
            case _:
                raise AssertionError("checked by names()")

    names(text)
    return visit(parse(text))

"""Integer expressions of headers, in C's notation: `(M + TM - 1) / TM`, `2 * N`, `pow2(N)`.

Values are dims: numbers, or expressions of a graph's symbols. Nothing here is negative, so `/` and `%` are those of
index arithmetic.
"""

from __future__ import annotations

import ast
import operator
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

    def function(self, of: type[ast.operator] | str) -> Callable[..., Dim]:
        """What an operator, or a function's name, computes."""
        found: dict[object, Callable[..., Dim]] = {
            ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: self.divide,
            ast.Mod: self.remainder, "min": self.least, "max": self.greatest, "cdiv": self.divide_up,
            "pow2": power_of_two,
        }  # fmt: skip
        return found[of]

    def divide_up(self, a: Dim, b: Dim) -> Dim:
        """The quotient, rounded up."""
        return self.divide(a + b - 1, b)


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
                return arithmetic.function(type(op))(a, b)
            case ast.Call(ast.Name(function), args):
                return arithmetic.function(function)(*map(visit, args))
            case _:
                raise AssertionError("checked by names()")

    names(text)
    return visit(parse(text))

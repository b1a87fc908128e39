"""The functions of the language: what they take, and the typed nodes they are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

from graphfuse.dialects.block import DOT_PRECISIONS
from graphfuse.dialects.effects import conversions
from graphfuse.errors import VerifyError
from graphfuse.frontends.tc import ast
from graphfuse.frontends.tc import typed as t
from graphfuse.frontends.tc.check_expr import ExprChecker, roots
from graphfuse.frontends.tc.convert import broadcast, converted, to_elem
from graphfuse.frontends.tc.memory_builtins import MEMORY_FUNCTIONS, plain_name
from graphfuse.frontends.tc.number_builtins import NUMBER_FUNCTIONS
from graphfuse.frontends.tc.tile_builtins import TILE_FUNCTIONS
from graphfuse.frontends.tc.types import (
    BOOL,
    FLOAT,
    INT,
    VOID,
    Arith,
    Element,
    Pointer,
    Tile,
    broadcast_shapes,
    with_shape,
)

Handler = Callable[["BuiltinChecker", ast.Call, str, list[t.Expr]], t.Expr]


class BuiltinChecker(ExprChecker):
    """Checks calls: of built-in functions here, of the source's own by a look-up."""

    def builtin_names(self) -> frozenset[str]:
        """The functions of the language."""
        return BUILTINS

    def call(self, node: ast.Call) -> t.Expr:
        """Check a call: of the source's functions, else of the built-in ones."""
        callee = node.function
        if not isinstance(callee, ast.Name):
            self.fail("call", "call: expected the name of a function", callee)
        symbol = self.scopes.find(callee.text)
        if isinstance(symbol, t.FunctionDecl):
            return self._own(node, symbol)
        if symbol is not None:
            found = "a type" if not isinstance(symbol, t.Variable | t.Const) else "a variable"
            self.fail("call", f"call: expected a function, found {callee.text!r}, {found}", callee)
        if callee.text in ("printf", "assert"):
            return self._debugging(node, callee.text)
        if callee.text == "dot":
            return _dot(self, node)
        if callee.text in TILE_FUNCTIONS:
            return TILE_FUNCTIONS[callee.text](self, node, callee.text)
        if (access := MEMORY_FUNCTIONS.get(plain_name(callee.text))) is not None:
            return access(self, node, callee.text)
        found = _HANDLERS.get(callee.text)
        if found is None:
            if callee.text == "calloc":
                self.fail("call", "calloc: expected at file scope, as in char __constant__ *NAME = calloc(64);", node)
            self.undefined(callee)
        handler, low, high = found
        args = [self.value(a) for a in node.args]
        self.arity(node, callee.text, low, high)
        return handler(self, node, callee.text, args)

    def _own(self, node: ast.Call, function: t.FunctionDecl) -> t.Expr:
        if function.is_kernel:
            self.fail("call", f"{function.name!r} is a kernel (__global__): it is launched, not called", node)
        self.arity(node, function.name, len(function.params))
        return self.apply(function, [self.value(arg) for arg in node.args], node, node.args)

    def apply(
        self, function: t.FunctionDecl, args: Sequence[t.Expr], node: ast.Expr, nodes: Sequence[ast.Expr] = ()
    ) -> t.Expr:
        """A call with checked arguments; `nodes` are where they are written."""
        if (value := self.constant_result(function, args, node)) is not None:
            return value
        function = self.instance(function, args, node)
        args = list(args)
        for i, param in enumerate(function.params):
            with self.conversions("argument", nodes[i] if nodes else node, f"argument {i} of {function.name}: "):
                args[i] = converted(args[i], param.type)
            if "readonly" not in param.attributes and isinstance(param.elem, Pointer):
                param.sources.update(roots(args[i]))
        if self.guards:
            message = f"{function.name!r} is called whatever the condition of '?:', '&&' or '||' is"
            self.report.warning("unconditional-call", message, node)
        function.called = True
        return t.Call(node.at, function.result, function, tuple(args))

    @abstractmethod
    def constant_result(self, function: t.FunctionDecl, args: Sequence[t.Expr], node: ast.Expr) -> t.Const | None:
        """What a constexpr function gives for constants."""

    @abstractmethod
    def instance(self, function: t.FunctionDecl, args: Sequence[t.Expr], node: ast.Expr) -> t.FunctionDecl:
        """The function for arguments of these shapes."""

    def _debugging(self, node: ast.Call, name: str) -> t.Expr:
        if name == "printf":
            if not node.args or not isinstance(node.args[0], ast.String):
                self.fail("printf", "printf: expected a string as its first argument", node)
            return self._printf(node, node.args[0].value, [self.value(a) for a in node.args[1:]])
        self.arity(node, name, 1, 2)
        message = ""
        if len(node.args) == 2:
            text = node.args[1]
            if not isinstance(text, ast.String):
                self.fail("assert", "assert: expected a string as its second argument", text)
            message = text.value
        condition = self.boolean(self.value(node.args[0]), node.args[0])
        for temp, holds in self.guards:
            # what is under a condition is asserted only where that holds
            read: t.Expr = t.Read(node.at, temp.type, temp)
            absent = self.negated(read, node.at) if holds else read
            shape = broadcast_shapes(condition.shape, temp.shape)
            operands = (broadcast(absent, shape), broadcast(condition, shape))
            condition = t.Binary(node.at, with_shape(BOOL, shape), "|", *operands)
        return t.Assert(node.at, VOID, condition, message)

    def _printf(self, node: ast.Call, text: str, values: list[t.Expr]) -> t.Expr:
        try:
            letters = conversions(text)
        except VerifyError as e:
            self.fail("printf", f"printf: {e.message}", node)
        if len(letters) != len(values):
            message = f"printf: expected {len(letters)} values for the conversions of its format, found {len(values)}"
            self.fail("printf", message, node)
        shape = self.joint_shape(node, "printf: ", *values, code="printf")
        out: list[t.Expr] = []
        for letter, x, arg in zip(letters, values, node.args[1:], strict=True):
            elem = self.number(x, arg, f"printf: value of %{letter}")
            if elem.is_float != (letter in "fFeEgG"):
                want = "a floating-point value" if letter in "fFeEgG" else "an integer"
                self.fail("printf", f"printf: %{letter}: expected {want}, found {x.type}", arg)
            elem = FLOAT if elem.is_float and elem.bits == 8 else INT if elem == BOOL else elem
            out.append(broadcast(to_elem(x, elem), shape))
        return t.Print(node.at, VOID, text.rstrip("\n"), tuple(out))


def _grid(c: BuiltinChecker, node: ast.Call, name: str, args: list[t.Expr]) -> t.Expr:
    axis = c.constant(node.args[0], f"axis of {name}")
    if not 0 <= axis <= 2:
        c.fail("arguments", f"axis of {name}: expected 0, 1 or 2, found {axis}", node.args[0])
    return t.Grid(node.at, INT, "program_id" if name == "get_program_id" else "num_programs", axis)


def _select(c: BuiltinChecker, node: ast.Call, name: str, args: list[t.Expr]) -> t.Expr:
    condition = c.boolean(args[0], node.args[0])
    then, other = c.arms(args[1], args[2], node, name)
    shape = c.joint_shape(node, f"condition of {name}: ", condition, then)
    then, other = broadcast(then, shape), broadcast(other, shape)
    return t.Select(node.at, then.type, broadcast(condition, shape), then, other)


def _dot(c: BuiltinChecker, node: ast.Call) -> t.Expr:
    """`dot(a, b[, acc][, precision])`: the precision is a word, unless the source declares it."""
    nodes = list(node.args)
    last = nodes[-1] if len(nodes) > 2 else None
    precision = ""
    if isinstance(last, ast.Name) and last.text in DOT_PRECISIONS and c.scopes.find(last.text) is None:
        precision = last.text
        nodes.pop()
    elif len(nodes) == 4:
        c.fail("arguments", f"argument 3 of dot: expected a precision, one of {', '.join(DOT_PRECISIONS)}", nodes[3])
    if not 2 <= len(nodes) <= 3:
        c.fail("arguments", f"dot: expected 2 to 4 arguments, found {len(node.args)}", node)
    left, right, *rest = (c.value(n) for n in nodes)
    tile = c.product(left, right, node, "arguments 0 and 1 of dot")
    elem = left.elem
    assert isinstance(elem, Arith)
    if precision not in ("", "ieee") and elem != FLOAT:
        c.fail("dot", f"dot: {precision} is a precision for float, found {left.type} and {right.type}", last or node)
    acc = None
    if rest:
        elem = _accumulator(c, rest[0], nodes[2], elem, tile.elem)
        tile = Tile(tile.shape, elem)
        if not (isinstance(rest[0], t.Const) and rest[0].value == 0):
            with c.conversions("dot", nodes[2], "argument 2 of dot: "):
                acc = converted(rest[0], tile)
    return t.Accumulate(node.at, tile, left, right, acc, precision or "ieee")


def _accumulator(c: BuiltinChecker, acc: t.Expr, node: ast.Expr, of: Arith, usual: Element) -> Arith:
    """The type that products are summed in: that of the accumulator, but for a literal the usual one."""
    out = c.number(acc, node, "argument 2 of dot")
    assert isinstance(usual, Arith)
    if isinstance(acc, t.Const) and (acc.weak or (out == INT and usual.is_float)):
        return usual
    least = max(of.bits, 16)
    if out.is_float != of.is_float or out.bits < least:
        kind = "floating-point numbers" if of.is_float else "integers"
        c.fail("dot", f"argument 2 of dot: expected {kind} of {least} bits or more, found {acc.type}", node)
    return out


def _barrier(c: BuiltinChecker, node: ast.Call, name: str, args: list[t.Expr]) -> t.Expr:
    return t.Barrier(node.at, VOID)


_HANDLERS: dict[str, tuple[Handler, int, int]] = {
    **dict.fromkeys(("get_program_id", "get_num_programs", "get_num_program"), (_grid, 1, 1)),
    **dict.fromkeys(("select", "where"), (_select, 3, 3)),
    "__debug_barrier": (_barrier, 0, 0),
    **NUMBER_FUNCTIONS,
}  # fmt: skip
"""What checks each function, and how many arguments it takes at least and at most."""
BUILTINS = frozenset((*_HANDLERS, *MEMORY_FUNCTIONS, *TILE_FUNCTIONS, "printf", "assert", "dot"))
"""Names that mean a function unless the source declares them otherwise."""

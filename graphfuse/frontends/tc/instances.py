"""Functions made for the shapes they are called with, and those whose values are known when a kernel is compiled."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence

from graphfuse.frontends.tc import ast
from graphfuse.frontends.tc import typed as t
from graphfuse.frontends.tc.builtins import BuiltinChecker
from graphfuse.frontends.tc.check_base import FaultError
from graphfuse.frontends.tc.diagnostics import Note, Reporter
from graphfuse.frontends.tc.types import VOID, Element, Type, Void, elements, with_shape

Shape = tuple[int, ...]


class InstanceChecker(BuiltinChecker):
    """Checks bodies again where a call asks for it."""

    def __init__(self, report: Reporter, defines: Mapping[str, str]) -> None:
        super().__init__(report, defines)
        self.result: Type = VOID
        self.jumps: frozenset[str] = frozenset()
        """What may leave the statement that is checked."""
        self.takes_shapes = False
        """Whether a local and the result have the shapes of what they are made of, if none is written."""
        self.sources: dict[t.FunctionDecl, ast.Function] = {}
        """Functions with their definitions."""
        self.instances: dict[tuple[t.FunctionDecl, tuple[Shape | None, ...]], t.FunctionDecl] = {}
        self._values: dict[tuple[t.FunctionDecl, tuple[float, ...]], t.Const | None] = {}
        self._active: list[t.FunctionDecl] = []

    @abstractmethod
    def statements(self, nodes: tuple[ast.Stmt, ...]) -> tuple[t.Stmt, ...]:
        """Check statements."""

    @abstractmethod
    def check_body(self, decl: t.FunctionDecl, node: ast.Function, *, takes_shapes: bool = False) -> None:
        """Check a function's body."""

    @contextlib.contextmanager
    def inside_function(self, decl: t.FunctionDecl, *, takes_shapes: bool = False) -> Generator[None]:
        """The body of a function: of what is around the call nothing is seen."""
        outer = self.result, self.function_name, self.jumps, self.guards, self.takes_shapes
        self.result, self.function_name, self.takes_shapes = decl.result, decl.name, takes_shapes
        self.jumps, self.guards = frozenset[str](), []
        try:
            with self.scopes.inside_file():
                yield
        finally:
            self.result, self.function_name, self.jumps, self.guards, self.takes_shapes = outer

    @contextlib.contextmanager
    def _made_for(self, function: t.FunctionDecl, args: Sequence[t.Expr], node: ast.Expr) -> Generator[None]:
        """A body that is checked for one call: errors say which, and are one for the call."""
        if function in self._active:
            names = " calls ".join(f.name for f in (*self._active[self._active.index(function) :], function))
            self.fail("recursion", f"recursion is not supported: {names}", node)
        errors = self.report.errors
        types = ", ".join(str(x.value) if isinstance(x, t.Const) else str(x.type) for x in args)
        self._active.append(function)
        try:
            with self.report.within(Note(f"in {function.name}({types}), called from here", node.span)):
                yield
        finally:
            self._active.pop()
        if self.report.errors > errors:
            raise FaultError

    def instance(self, function: t.FunctionDecl, args: Sequence[t.Expr], node: ast.Expr) -> t.FunctionDecl:
        """The function for arguments of these shapes: tiles where it takes scalars, or tiles of any shape."""
        shapes = tuple(self._shape_of(function, i, arg, node) for i, arg in enumerate(args))
        source = self.sources.get(function)
        if source is None or not (function.is_open or any(shapes)):
            return function
        if (function, shapes) not in self.instances:
            given = zip(function.params, shapes, strict=True)
            params = tuple(_with_shape(p, shape) if shape else _copy(p) for p, shape in given)
            made = t.FunctionDecl(function.name, function.at, function.result, params, is_kernel=False, called=True)
            function.called = True
            with self._made_for(function, args, node):
                self.check_body(made, source, takes_shapes=True)
            self.instances[function, shapes] = made
        return self.instances[function, shapes]

    def _shape_of(self, function: t.FunctionDecl, i: int, arg: t.Expr, node: ast.Expr) -> Shape | None:
        """The shape that a parameter takes from its argument."""
        param = function.params[i]
        if i in function.open_params:
            if not arg.shape:
                self.fail("argument", f"argument {i} of {function.name}: expected a tile, found {arg.type}", node)
            return arg.shape
        return arg.shape if not param.shape and elements(arg.shape) > 1 else None

    def constant_result(self, function: t.FunctionDecl, args: Sequence[t.Expr], node: ast.Expr) -> t.Const | None:
        """What a constexpr function gives for constants, if that can be told."""
        source = self.sources.get(function)
        constants = [x for x in args if isinstance(x, t.Const)]
        if not function.is_constexpr or source is None or source.body is None or len(constants) < len(args):
            return None
        function.called = True
        key = function, tuple(x.value for x in constants)
        if key not in self._values:
            with self._made_for(function, args, node), self.inside_function(function):
                for param, value in zip(function.params, constants, strict=True):
                    self.scopes.declare(param.name, self.as_constant(value, param.type, node), param.at)
                self._values[key] = _returned(self.statements(source.body.body))
        found = self._values[key]
        return None if found is None else t.Const(node.at, found.type, found.value)

    @abstractmethod
    def as_constant(self, value: t.Const, to: Type, node: ast.Expr) -> t.Const:
        """A constant as another type."""


def _copy(p: t.Variable) -> t.Variable:
    return t.Variable(p.name, p.type, p.at, p.attributes, p.const, initialised=True)


def _with_shape(p: t.Variable, shape: Shape) -> t.Variable:
    return t.Variable(p.name, with_shape(_elem(p), shape), p.at, p.attributes, p.const, initialised=True)


def _elem(p: t.Variable) -> Element:
    elem = p.elem
    assert not isinstance(elem, Void), "a parameter has values"
    return elem


def _returned(body: Sequence[t.Stmt]) -> t.Const | None:
    """The constant that statements give, which do nothing else but to name constants."""
    for s in _flat(body):
        match s:
            case t.Return(value=t.Const() as value):
                return value
            case t.Eval(expr=t.Assign(variable=variable)) if variable.known is not None:
                pass
            case _:
                return None
    return None


def _flat(body: Sequence[t.Stmt]) -> Iterator[t.Stmt]:
    for s in body:
        if isinstance(s, t.Block):
            yield from _flat(s.body)
        else:
            yield s

"""Semantic analysis: declarations, statements, functions. The tree as written in, the typed tree out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping
from typing import Any, ClassVar

from graphfuse.frontends.tc import ast
from graphfuse.frontends.tc import typed as t
from graphfuse.frontends.tc.check_base import FaultError
from graphfuse.frontends.tc.constants import wrap
from graphfuse.frontends.tc.convert import converted
from graphfuse.frontends.tc.diagnostics import Note, Reporter
from graphfuse.frontends.tc.instances import InstanceChecker
from graphfuse.frontends.tc.parser import ATTRIBUTES
from graphfuse.frontends.tc.scope import Symbol, Typedef
from graphfuse.frontends.tc.structure import jump_kinds
from graphfuse.frontends.tc.tokens import Token
from graphfuse.frontends.tc.types import (
    CHAR,
    VOID,
    Arith,
    Pointer,
    Tile,
    Type,
    Void,
    elem_of,
    elements,
    promoted,
    with_shape,
)

_ON_POINTERS = ("aligned", "readonly", "writeonly", "noalias")
_WITH_NUMBER = ("multipleof", "aligned")


def check_unit(
    unit: ast.Unit, report: Reporter, defines: Mapping[str, str], declared: list[Symbol] | None = None
) -> t.Unit:
    """Check a parsed file. `declared` gets all that is declared in it, also where an error ends the check."""
    checker = _Checker(report, defines)
    try:
        return checker.unit(unit)
    finally:
        if declared is not None:
            declared += checker.scopes.declared


class _Checker(InstanceChecker):
    def __init__(self, report: Reporter, defines: Mapping[str, str]) -> None:
        super().__init__(report, defines)
        self._pools: list[t.Variable] = []
        self._functions: dict[str, t.FunctionDecl] = {}
        self._bodies: list[tuple[t.FunctionDecl, ast.Function]] = []

    # files

    def unit(self, unit: ast.Unit) -> t.Unit:
        # signatures first, so that a function may be called above its definition
        for item in unit.body:
            with contextlib.suppress(FaultError):
                if isinstance(item, ast.Function):
                    self._signature(item)
                elif isinstance(item, ast.Failed):
                    self._failed(item)
                elif isinstance(item, ast.StaticAssert):
                    self._static_assert(item)
                else:
                    self._global(item)
        for decl, node in self._bodies:
            if not decl.is_open:
                self.check_body(decl, node)
        self._find_recursion()
        return t.Unit(tuple(self._finish()), tuple(self._pools))

    def _signature(self, node: ast.Function) -> None:
        try:
            self._good_signature(node)
        except FaultError:
            self.scopes.fail(node.name, node.at)
            raise

    def _good_signature(self, node: ast.Function) -> None:
        result = self._open_type(node.result.specifiers, node.result)
        params = self._parameters(node)
        if len(params) < len(node.params):
            if node.body is not None and result == VOID:
                # the body is checked all the same; calls are not
                self._bodies.append((t.FunctionDecl(node.name, node.at, result, params, node.is_global), node))
            raise FaultError
        open_params = frozenset(i for i, p in enumerate(node.params) if p.declarator.shape == ())
        before = self._functions.get(node.name)
        if node.is_global:
            if result != VOID:
                self.fail("kernel", f"a kernel gives nothing: expected void, found {result}", node.result)
            for param in params:
                if isinstance(param.type, Tile) or open_params:
                    found = f"{param.type}[]" if open_params else param.type
                    message = f"a kernel's parameter: expected a scalar or a pointer, found {found}"
                    self.fail("kernel", message, param.at)
        for attribute in node.attributes:
            self.report.warning("attribute", f"a function has no attribute {attribute.name!r}", attribute)
        if before is not None:
            if before.result != result or [p.type for p in before.params] != [p.type for p in params]:
                note = Note("declared before here", before.at.span)
                self.fail("redeclared", f"{node.name!r} is declared again with other types", node, [note])
            if node.body is not None and any(d is before for d, _ in self._bodies):
                note = Note("the first definition", before.at.span)
                self.fail("redeclared", f"function {node.name!r} is defined twice", node, [note])
            decl = before
            decl.params, decl.at = (params, node.at) if node.body is not None else (decl.params, decl.at)
            decl.is_kernel |= node.is_global
        else:
            decl = t.FunctionDecl(node.name, node.at, result, params, node.is_global)
            decl.is_constexpr = "constexpr" in node.result.specifiers.storage
            decl.is_open, decl.open_params = bool(open_params) or node.result.shape == (), open_params
            self.scopes.declare(node.name, decl, node.at)
            self._functions[node.name] = decl
        if node.body is not None:
            self._bodies.append((decl, node))
            self.sources[decl] = node

    def _open_type(self, specifiers: ast.Specifiers, node: ast.TypeName | ast.Declarator) -> Type:
        """A type; of a tile of any shape its element."""
        return self.base_type(specifiers, node.pointers) if node.shape == () else self.type_of(specifiers, node)

    def _parameters(self, node: ast.Function) -> tuple[t.Variable, ...]:
        """The parameters without errors."""
        out: list[t.Variable] = []
        for p in node.params:
            with contextlib.suppress(FaultError):
                out.append(self._parameter(p, node))
        return tuple(out)

    def _parameter(self, node: ast.Parameter, of: ast.Function) -> t.Variable:
        d = node.declarator
        type_ = self._open_type(node.specifiers, d)
        if isinstance(type_, Void):
            self.fail("type", f"parameter {d.name!r}: expected a type with values, found void", node)
        if not d.name and of.body is not None:
            self.fail("syntax", "a parameter of a definition needs a name", node)
        attributes = self._attributes(d.attributes, type_, is_parameter=True)
        words = d.pointers[-1] if d.pointers else ()  # those of the parameter: others are of what it points at
        if "restrict" in node.specifiers.qualifiers or any(w.startswith(("restrict", "__restrict")) for w in words):
            attributes["noalias"] = 0
        const = "const" in (words if d.pointers else node.specifiers.qualifiers)
        return t.Variable(d.name, type_, d.at, attributes, const, initialised=True)

    def _attributes(self, nodes: tuple[ast.Attribute, ...], of: Type, *, is_parameter: bool) -> dict[str, int]:
        out: dict[str, int] = {}
        for node in nodes:
            problem, number = self._misused(node, of, is_parameter=is_parameter)
            if problem:
                self.report.error("attribute", problem, node)
            else:
                out[node.name] = number
        return out

    def _misused(self, node: ast.Attribute, of: Type, *, is_parameter: bool) -> tuple[str, int]:
        """What is wrong with an attribute of something of that type, and its number."""
        name, number = node.name, 0
        if name not in ATTRIBUTES:
            return f"there is no attribute {name!r}: expected one of {', '.join(ATTRIBUTES)}", 0
        if not is_parameter and name != "multipleof":
            return f"__{name}: expected on a parameter, found on a local variable", 0
        if (name in _ON_POINTERS) != isinstance(elem_of(of), Pointer) or (name == "multipleof" and not _is_int(of)):
            want = "a pointer" if name in _ON_POINTERS else {"multipleof": "an integer"}.get(name, "a scalar")
            return f"__{name}: expected on {want}, found on {of}", 0
        if name == "writeonly" and isinstance(of, Pointer) and isinstance(of.to, Pointer):
            return f"__writeonly: expected on a pointer to numbers, as tables of pointers are read, found on {of}", 0
        if len(node.args) != (name in _WITH_NUMBER):
            want = "one number" if name in _WITH_NUMBER else "no arguments"
            return f"__{name}: expected {want}, found {len(node.args)}", 0
        if node.args:
            number = self.constant(node.args[0], f"__{name}")
            if number < 1 or (name == "aligned" and number & (number - 1)):
                want = "a power of two" if name == "aligned" else "a positive number"
                return f"__{name}: expected {want}, found {number}", 0
        return "", number

    def _global(self, node: ast.Declaration) -> None:
        if "typedef" in node.specifiers.storage:
            self._typedefs(node)
            return
        self._enumerated(node)
        for d in node.declarators:
            with self._declaring(d):
                self._global_variable(node, d)

    def _enumerated(self, node: ast.Declaration) -> bool:
        """Declare the constants that a declaration names; whether it has any."""
        if not isinstance(node.specifiers, ast.Enum):
            return False
        self.enumeration(node.specifiers)
        return node.specifiers.enumerators is not None

    def _global_variable(self, node: ast.Declaration, d: ast.Declarator) -> None:
        base = self.base_type(node.specifiers, d.pointers)
        init = d.init
        if isinstance(base, Pointer) and base.bank:
            match init:
                case ast.Call(function=ast.Name(text="calloc"), args=(nbytes,)) if base.to == CHAR and not d.shape:
                    size = self.constant(nbytes, "calloc")
                case _:
                    self.fail("pool", "a constant pool: expected char __constant__ *NAME = calloc(BYTES);", d)
            if size < 1:
                self.fail("pool", f"calloc: expected a positive number of bytes, found {size}", nbytes)
            pool = t.Variable(d.name, base, d.at, const=True, initialised=True, pool_bytes=size)
            self.scopes.declare(d.name, pool, d.at)
            self._pools.append(pool)
            return
        if _is_const(node) and init is not None and isinstance(base, Arith) and not d.shape:
            with self.conversions("initialiser", d, f"{d.name}: "):
                value = converted(self.value(init), base)
            if isinstance(value, t.Const):
                self.scopes.declare(d.name, t.Const(d.at, base, value.value), d.at)
                return
        expected = "expected a function, a typedef, a constant, or char __constant__ *NAME = calloc(BYTES);"
        self.fail("global", f"variables at file scope are not supported: {expected}", d)

    def _typedefs(self, node: ast.Declaration) -> None:
        for d in node.declarators:
            with self._declaring(d):
                if d.init is not None:
                    self.fail("syntax", f"typedef {d.name!r} has an initialiser", d)
                self.scopes.declare(d.name, Typedef(self.type_of(node.specifiers, d), d.at), d.at)

    @contextlib.contextmanager
    def _declaring(self, d: ast.Declarator) -> Generator[None]:
        """After an error in a declaration, its name is one that nothing is said of."""
        try:
            yield
        except FaultError:
            self.scopes.fail(d.name, d.at)

    def _failed(self, node: ast.Failed) -> list[t.Stmt]:
        for name in node.names:
            self.scopes.fail(name.text, name.at)
        return []

    def _static_assert(self, node: ast.StaticAssert) -> list[t.Stmt]:
        x = self.value(node.condition)
        if not isinstance(x, t.Const):
            self.fail("constant", f"_Static_assert: expected a constant expression, found {x.type}", node.condition)
        if not x.value:
            self.fail("static-assert", f"static assertion failed: {node.message or 'no message'}", node.condition)
        return []

    # functions

    def check_body(self, decl: t.FunctionDecl, node: ast.Function, *, takes_shapes: bool = False) -> None:
        """Check a function's body."""
        assert node.body is not None
        with self.inside_function(decl, takes_shapes=takes_shapes):
            for param in decl.params:
                self.scopes.declare(param.name, param, param.at)
            for p in node.params:
                self.scopes.fail(p.declarator.name, p.at)
            decl.body = t.Block(node.body.at, self.statements(node.body.body))
            decl.result = self.result
        # after an error something was not looked at
        unread = [] if self.report.errors else [p for p in decl.params if p.name and not p.read]
        for param in unread:
            message = f"parameter {param.name!r} of {decl.name!r} is never read"
            self.report.warning("unused-parameter", message, param.at)
        if decl.result != VOID and not _ends(decl.body) and not (takes_shapes and self.report.errors):
            note = Note("the function is declared here", decl.at.span)
            message = f"{decl.name!r} may end without a value: expected a return of {decl.result}"
            self.report.warning("no-return", message, node.body.last, [note])

    def _find_recursion(self) -> None:
        functions = (*self._functions.values(), *self.instances.values())
        bodies = {f: t.walk(f.body) if f.body else () for f in functions}
        calls = {f: [node for node in body if isinstance(node, t.Call)] for f, body in bodies.items()}
        done: set[t.FunctionDecl] = set()
        for f in calls:
            path: list[t.FunctionDecl] = []
            # depth first; a function comes off the path when its entry with `leave` is met
            work: list[tuple[t.FunctionDecl, bool]] = [(f, False)]
            while work:
                g, leave = work.pop()
                if leave:
                    path.pop()
                    done.add(g)
                elif g in path:
                    names = " calls ".join(x.name for x in (*path[path.index(g) :], g))
                    self.report.error("recursion", f"recursion is not supported: {names}", g.at)
                elif g not in done:
                    path.append(g)
                    work += [(g, True), *((call.function, False) for call in calls[g])]
        for found in calls.values():
            for call in found:
                if call.function.body is None:
                    message = f"{call.function.name!r} is declared and called, but not defined"
                    self.report.error("undefined", message, call.at, [Note("declared here", call.function.at.span)])

    def _finish(self) -> list[t.FunctionDecl]:
        """Functions with bodies; a void one that nobody calls is a kernel."""
        for f in self._functions.values():
            if f.is_kernel or f.called or (f.body is None and not f.is_open):
                continue
            if f.result == VOID and not f.is_open and not any(isinstance(p.type, Tile) for p in f.params):
                f.is_kernel = True
                message = f"{f.name!r} is taken as a kernel: nothing calls it, and it is not __global__"
                self.report.note("implicit-kernel", message, f.at)
            else:
                self.report.warning("unused-function", f"function {f.name!r} is never called", f.at)
        return [f for f in (*self._functions.values(), *self.instances.values()) if f.body is not None]

    def as_constant(self, value: t.Const, to: Type, node: ast.Expr) -> t.Const:
        """A constant as another type."""
        with self.conversions("argument", node, "argument of a constexpr function: "):
            out = converted(value, to)
        assert isinstance(out, t.Const), "constants are converted at once"
        return out

    # statements

    def statements(self, nodes: tuple[ast.Stmt, ...]) -> tuple[t.Stmt, ...]:
        """Check statements; one with an error is left out."""
        out: list[t.Stmt] = []
        for node in nodes:
            with contextlib.suppress(FaultError):
                out += self._STATEMENTS[type(node)](self, node)
        return tuple(out)

    def _scoped(self, node: ast.Stmt) -> t.Block:
        """A statement as a block with a scope of its own."""
        with self.scopes.inside():
            return t.Block(node.at, self.statements(node.body if isinstance(node, ast.Block) else (node,)))

    def _block(self, node: ast.Block) -> list[t.Stmt]:
        return [self._scoped(node)]

    def _expr_stmt(self, node: ast.ExprStmt) -> list[t.Stmt]:
        if node.expr is None:
            return []
        x = self.effect(node.expr)
        return [] if isinstance(x, t.Const) else [t.Eval(node.at, x)]

    def _declaration(self, node: ast.Declaration) -> list[t.Stmt]:
        if "typedef" in node.specifiers.storage:
            self._typedefs(node)
            return []
        for word in ("static", "extern", "__global__"):
            if word in node.specifiers.storage:
                self.fail("storage", f"a local variable: expected no storage class, found {word!r}", node)
        if not self._enumerated(node) and not node.declarators:
            self.report.warning("empty-declaration", "the declaration declares nothing", node)
        out: list[t.Stmt] = []
        for d in node.declarators:
            with self._declaring(d):
                out += self._local(node, d)
        return out

    def _local(self, node: ast.Declaration, d: ast.Declarator) -> list[t.Stmt]:
        type_ = self.type_of(node.specifiers, d)
        if isinstance(type_, Void):
            self.fail("type", f"variable {d.name!r}: expected a type with values, found void", d)
        attributes = self._attributes(d.attributes, type_, is_parameter=False)
        const = _is_const(node) and not d.pointers
        variable = t.Variable(d.name, type_, d.at, attributes)
        self.scopes.declare(d.name, variable, d.at)
        if d.init is None:
            return []
        try:
            value = self.value(d.init)
            if self.takes_shapes and not isinstance(type_, Tile) and elements(value.shape) > 1:
                type_ = variable.type = with_shape(type_, value.shape)
            with self.conversions("initialiser", d.init, f"{d.name} of type {type_}: "):
                value = converted(value, type_)
        except FaultError:
            # the variable has its type all the same: one error is enough
            variable.initialised = True
            if const:
                self.scopes.forget(d.name)
            raise
        if "multipleof" in attributes:
            value = t.Assume(d.at, type_, value, attributes["multipleof"])
        out = self.assign(variable, value, d.init)
        assert isinstance(out, t.Assign)
        variable.const = const or "const" in (d.pointers[-1] if d.pointers else ())
        if const and isinstance(value, t.Const):
            variable.known = value.value
        elif "constexpr" in node.specifiers.storage:
            self.fail("constant", f"constexpr {d.name!r}: expected a constant expression, found {value.type}", d.init)
        return [t.Eval(d.at, t.Assign(d.at, type_, variable, out.value))]

    def _condition(self, node: ast.Expr, of: str) -> t.Expr:
        x = self.boolean(self.value(node), node)
        if x.shape:
            self.fail("condition", f"condition of {of!r}: expected a scalar, found {x.type}", node)
        return x

    def _if(self, node: ast.If) -> list[t.Stmt]:
        condition = self._condition(node.condition, "if")
        then = self._scoped(node.then)
        other = self._scoped(node.other) if node.other is not None else t.Block(node.at, ())
        if isinstance(condition, t.Const):
            return [then if condition.value else other]
        return [t.If(node.at, condition, then, other)]

    def _loop_condition(self, node: ast.Expr | None, of: str) -> t.Expr | None:
        """None for a loop that has none, or always goes on."""
        x = None if node is None else self._condition(node, of)
        return None if isinstance(x, t.Const) and x.value else x

    def _loop_body(self, node: ast.Stmt) -> t.Block:
        with self._left_by("break", "continue"):
            return self._scoped(node)

    @contextlib.contextmanager
    def _left_by(self, *jumps: str) -> Generator[None, None, None]:
        """A body that these leave, until its end or an error in it."""
        outer, self.jumps = self.jumps, self.jumps | {*jumps}
        try:
            yield
        finally:
            self.jumps = outer

    def _for(self, node: ast.For) -> list[t.Stmt]:
        with self.scopes.inside():
            init = self.statements((node.init,))
            condition = self._loop_condition(node.condition, "for")
            body = self._loop_body(node.body)
            step = None if node.step is None else self.effect(node.step)
        return [t.Block(node.at, (*init, t.Loop(node.at, condition, step, body)))]

    def _while(self, node: ast.While) -> list[t.Stmt]:
        condition = self._loop_condition(node.condition, "while")
        return [t.Loop(node.at, condition, None, self._loop_body(node.body), node.body_first)]

    def _switch(self, node: ast.Switch) -> list[t.Stmt]:
        value = self.value(node.value)
        elem = value.elem
        if value.shape or not isinstance(elem, Arith) or elem.is_float:
            self.fail("condition", f"value of 'switch': expected an integer, found {value.type}", node.value)
        elem = promoted(elem)
        value = converted(value, elem)
        if not isinstance(node.body, ast.Block):
            self.fail("switch", "switch: expected its cases in braces", node.body)
        sections: list[t.Section] = []
        seen: dict[int | None, Token] = {}
        with self.scopes.inside(), self._left_by("break"):
            for cases, body in _sections(node.body):
                labels = [self._case_label(item, elem, seen) for item in cases]
                statements = t.Block(node.at, self.statements(tuple(body)))
                if labels:
                    numbers = tuple(n for n in labels if n is not None)
                    sections.append(t.Section(numbers, None in labels, statements))
                elif body:
                    self.report.warning("unreachable", "switch: this is before the first case, and never runs", body[0])
        return [t.Switch(node.at, value, tuple(sections))]

    def _case_label(self, item: ast.Label, elem: Arith, seen: dict[int | None, Token]) -> int | None:
        label = None
        if item.value is not None:
            label = wrap(self.constant(item.value, "case"), elem.bits, signed=elem.signed)
        if label in seen:
            what = "default" if label is None else f"case {label}"
            self.report.error("switch", f"{what} is given twice", item, [Note("the first one", seen[label].span)])
        seen.setdefault(label, item.at)
        return label

    def _label(self, node: ast.Label) -> list[t.Stmt]:
        if node.kind == "label":
            self.fail("goto", f"labels and goto are not supported: found label {node.at.text!r}", node)
        self.fail("switch", f"{node.kind!r}: expected directly inside the braces of a switch", node)

    def _jump(self, node: ast.Jump) -> list[t.Stmt]:
        if node.kind == "goto":
            self.fail("goto", "goto is not supported: expected if, loops, break, continue or return", node)
        if node.kind == "return":
            return [self._return(node)]
        if node.kind not in self.jumps:
            where = "a loop or a switch" if node.kind == "break" else "a loop"
            self.fail("jump", f"{node.kind!r}: expected inside {where}", node)
        return [t.Jump(node.at, node.kind)]

    def _return(self, node: ast.Jump) -> t.Stmt:
        if node.value is None:
            if self.result != VOID:
                message = f"return: expected a value of type {self.result} in {self.function_name!r}, found none"
                self.fail("return", message, node)
            return t.Return(node.at, None)
        value = self.expr(node.value)
        if self.result == VOID:
            if value.type == VOID:
                return t.Return(node.at, value)
            self.fail("return", f"return: expected no value in {self.function_name!r}, found {value.type}", node.value)
        if self.takes_shapes and not isinstance(self.result, Tile | Void):
            # the first one says which shape all have
            self.result = with_shape(self.result, value.shape)
        with self.conversions("return", node.value, f"return of {self.function_name!r}: "):
            return t.Return(node.at, converted(value, self.result))

    _STATEMENTS: ClassVar[dict[type, Callable[[Any, Any], list[t.Stmt]]]] = {
        ast.Block: _block, ast.ExprStmt: _expr_stmt, ast.Declaration: _declaration, ast.Failed: _failed,
        ast.StaticAssert: _static_assert, ast.If: _if, ast.For: _for,
        ast.While: _while, ast.Switch: _switch, ast.Label: _label, ast.Jump: _jump,
    }  # fmt: skip


def _is_const(node: ast.Declaration) -> bool:
    return "const" in node.specifiers.qualifiers or "constexpr" in node.specifiers.storage


def _is_int(of: Type) -> bool:
    elem = elem_of(of)
    return isinstance(elem, Arith) and elem.kind == "int"


def _sections(body: ast.Block) -> list[tuple[list[ast.Label], list[ast.Stmt]]]:
    """The cases of a switch that stand together, each time with what follows them."""
    out: list[tuple[list[ast.Label], list[ast.Stmt]]] = [([], [])]
    for item in body.body:
        if not isinstance(item, ast.Label) or item.kind == "label":
            out[-1][1].append(item)
            continue
        if out[-1][1]:
            out.append(([], []))
        out[-1][0].append(item)
    return out


def _ends(stmt: t.Stmt) -> bool:
    """Whether control surely does not go on behind a statement."""
    match stmt:
        case t.Block():
            return any(_ends(s) for s in stmt.body)
        case t.If():
            return _ends(stmt.then) and _ends(stmt.other)
        case t.Loop():
            return stmt.condition is None and "break" not in jump_kinds(stmt.body)
        case t.Switch():
            bodies = [s.body for s in stmt.sections]
            has_default = any(s.is_default for s in stmt.sections)
            return has_default and not any("break" in jump_kinds(b) for b in bodies) and _ends(bodies[-1])
        case t.Return():
            return True
        case _:
            return False

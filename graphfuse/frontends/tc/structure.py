"""Jumps out of the tree: a function body as branches, loops and flags, which is all that block IR has.

Before: `while (c) { if (a) break; b; }`. After: `broken = 0; while (!broken & c) { if (a) broken = 1; else b; }`.
What follows a statement that may jump goes into the branch that does not, or under a test of the flags. Flags that
nobody reads are left to liveness. Loops that count are told apart here (`Count`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from graphfuse.frontends.tc import typed as t
from graphfuse.frontends.tc.liveness import assigned
from graphfuse.frontends.tc.tokens import Token
from graphfuse.frontends.tc.types import BOOL, VOID, Arith


@dataclass(frozen=True, slots=True)
class Structured:
    """A function without jumps: what it does, and the variable that holds what it returns."""

    body: tuple[t.Flat, ...]
    result: t.Variable | None


@dataclass(frozen=True, slots=True)
class _Targets:
    """The flags that `break`, `continue` and `return` set."""

    broken: t.Variable | None
    skipped: t.Variable | None
    returned: t.Variable
    result: t.Variable | None


def structured(function: t.FunctionDecl) -> Structured:
    """Take the jumps out of a checked function."""
    assert function.body is not None, "a function that is called has a body"
    at = function.at
    returned = _flag(at)
    result = None
    if function.result != VOID:
        result = t.Variable("", function.result, at, initialised=True)
    body, _ = _sequence((function.body,), _Targets(None, None, returned, result))
    if "return" in jump_kinds(function.body):
        body.insert(0, _set(returned, at, to=False))
    return Structured(tuple(body), result)


def _flag(at: Token) -> t.Variable:
    return t.Variable("", BOOL, at, initialised=True)


def _set(flag: t.Variable, at: Token, *, to: bool) -> t.Eval:
    return t.Eval(at, t.Assign(at, BOOL, flag, t.Const(at, BOOL, int(to))))


def _none_of(flags: Sequence[t.Variable], at: Token) -> t.Expr:
    """That no flag is set."""
    return t.Unary(at, BOOL, "~", _any_of([t.Read(at, BOOL, flag) for flag in flags], at))


def _any_of(tests: Sequence[t.Expr], at: Token) -> t.Expr:
    return functools.reduce(lambda a, b: t.Binary(at, BOOL, "|", a, b), tests)


def _sequence(statements: Sequence[t.Stmt], targets: _Targets) -> tuple[list[t.Flat], bool]:
    """Statements without their jumps, and whether control surely leaves instead of reaching the end."""
    out: list[t.Flat] = []
    work = list(statements)[::-1]
    while work:
        s = work.pop()
        match s:
            case t.Block():
                work += reversed(s.body)
            case t.Eval():
                out.append(s)
            case t.Jump():
                flag = targets.broken if s.kind == "break" else targets.skipped
                assert flag is not None, "the checker places jumps"
                return [*out, _set(flag, s.at, to=True)], True
            case t.Return():
                if s.value is not None and targets.result is not None:
                    out.append(t.Eval(s.at, t.Assign(s.at, s.value.type, targets.result, s.value)))
                elif s.value is not None:
                    out.append(t.Eval(s.at, s.value))
                return [*out, _set(targets.returned, s.at, to=True)], True
            case t.If() if flags := _jumps(s, targets):
                return _leaving_branch(s, out, work[::-1], flags, targets)
            case t.If():
                then, _ = _sequence((s.then,), targets)
                other, _ = _sequence((s.other,), targets)
                out.append(t.Branch(s.at, s.condition, tuple(then), tuple(other)))
            case t.Loop() | t.Switch():
                out += _loop(s, targets) if isinstance(s, t.Loop) else _switch(s, targets)
                if flags := _jumps(s, targets):
                    return _unless(s, out, work[::-1], flags, targets)
    return out, False


def _unless(
    s: t.Stmt, out: list[t.Flat], rest: list[t.Stmt], flags: list[t.Variable], targets: _Targets
) -> tuple[list[t.Flat], bool]:
    """What follows a statement that may jump, under a test of the flags."""
    after, ends = _sequence(rest, targets)
    return [*out, *([t.Branch(s.at, _none_of(flags, s.at), tuple(after), ())] if after else [])], ends


def _leaving_branch(
    s: t.If, out: list[t.Flat], rest: list[t.Stmt], flags: list[t.Variable], targets: _Targets
) -> tuple[list[t.Flat], bool]:
    """An `if` that may jump, and what follows it."""
    then, then_ends = _sequence((s.then,), targets)
    other, other_ends = _sequence((s.other,), targets)
    ends = then_ends and other_ends
    # where one arm leaves, what follows goes into the other
    if then_ends and not other_ends:
        other, ends = _sequence((s.other, *rest), targets)
    elif other_ends and not then_ends:
        then, ends = _sequence((s.then, *rest), targets)
    out.append(t.Branch(s.at, s.condition, tuple(then), tuple(other)))
    return (out, ends) if then_ends or other_ends else _unless(s, out, rest, flags, targets)


def _jumps(s: t.Stmt, targets: _Targets) -> list[t.Variable]:
    """The flags that a statement may set for what is around it."""
    kinds = jump_kinds(s)
    flags = {"break": targets.broken, "continue": targets.skipped, "return": targets.returned}
    return [flag for kind in ("break", "continue", "return") if kind in kinds and (flag := flags[kind]) is not None]


def jump_kinds(s: t.Stmt) -> frozenset[str]:
    """The jumps in a statement that leave it."""
    kinds: frozenset[str] = frozenset()
    match s:
        case t.Jump():
            kinds = frozenset((s.kind,))
        case t.Return():
            kinds = frozenset(("return",))
        case t.Block():
            kinds = kinds.union(*map(jump_kinds, s.body))
        case t.If():
            kinds = jump_kinds(s.then) | jump_kinds(s.other)
        case t.Loop():
            kinds = jump_kinds(s.body) & {"return"}
        case t.Switch():
            kinds = kinds.union(*(jump_kinds(section.body) for section in s.sections)) - {"break"}
        case t.Eval():
            pass
    return kinds


def _loop(s: t.Loop, targets: _Targets) -> list[t.Flat]:
    broken, skipped = _flag(s.at), _flag(s.at)
    inside = _Targets(broken, skipped, targets.returned, targets.result)
    kinds = jump_kinds(s.body)
    body, _ = _sequence((s.body,), inside)
    if "continue" in kinds:
        body.insert(0, _set(skipped, s.at, to=False))
    leaving = [flag for kind, flag in (("break", broken), ("return", targets.returned)) if kind in kinds]
    if not leaving and not s.body_first and (count := _count(s, tuple(body))) is not None:
        return [count]
    if s.step is not None:
        step = t.Eval(s.at, s.step)
        body.append(t.Branch(s.at, _none_of(leaving, s.at), (step,), ()) if leaving else step)
    condition = s.condition or t.Const(s.at, BOOL, 1)
    before: list[t.Flat] = [_set(broken, s.at, to=False)] if "break" in kinds else []
    head: list[t.Flat] = body if s.body_first else []
    if leaving:
        going = _none_of(leaving, s.at)
        if isinstance(condition, t.Const):
            condition = going if condition.value else condition
        elif _is_plain(condition):
            condition = t.Binary(s.at, BOOL, "&", going, condition)
        else:
            # a condition that reads memory is not evaluated once more after a break
            test = _flag(s.at)
            evaluate = t.Eval(s.at, t.Assign(s.at, BOOL, test, condition))
            head = [*head, _set(test, s.at, to=False), t.Branch(s.at, going, (evaluate,), ())]
            condition = t.Read(s.at, BOOL, test)
    return [*before, t.While(s.at, tuple(head), condition, () if s.body_first else tuple(body))]


_PLAIN = (t.Const, t.Read, t.Convert, t.Bitcast, t.Unary, t.Binary, t.Function, t.Grid, t.Select, t.Assume)


def _is_plain(x: t.Expr, assigned: frozenset[t.Variable] | set[t.Variable] = frozenset()) -> bool:
    """Whether an expression only computes, on variables that are not among the assigned ones."""
    work: list[t.Expr] = [x]
    while work:
        node = work.pop()
        if not isinstance(node, _PLAIN) or (isinstance(node, t.Read) and node.variable in assigned):
            return False
        work += t.children(node)
    return True


def _count(s: t.Loop, body: tuple[t.Flat, ...]) -> t.Count | None:
    """The loop as one that counts, if its variable changes by its step alone and its bound does not change."""
    step = s.step
    if not isinstance(step, t.Assign) or not isinstance(s.condition, t.Binary):
        return None
    v, change = step.variable, step.value
    if not isinstance(change, t.Binary) or change.op not in ("+", "-"):
        return None
    if not isinstance(v.type, Arith) or v.type.kind != "int" or v.type.bits < 32:
        return None
    by = change.right
    if not (isinstance(change.left, t.Read) and change.left.variable is v):
        if change.op == "-" or not (isinstance(by, t.Read) and by.variable is v):
            return None
        by = change.left
    op, left, bound = s.condition.op, s.condition.left, s.condition.right
    if not _is_value_of(left, v):
        op, left, bound = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(op, op), bound, left
    down = change.op == "-"
    if isinstance(by, t.Const) and by.value < 0:
        by, down = t.Const(by.at, by.type, -by.value), not down
    changed = assigned(body) | {v}
    if not _is_value_of(left, v) or not _is_plain(bound, changed) or not _is_plain(by, changed) or v in assigned(body):
        return None
    is_one = isinstance(by, t.Const) and by.value == 1
    fits = op in ((">", ">=") if down else ("<", "<=")) or (op == "!=" and is_one)
    never = isinstance(by, t.Const) and by.value == 0
    wraps = not v.type.signed and (not is_one or op != "<")
    return t.Count(s.at, v, op, bound, by, down, body) if fits and not never and not wraps else None


def _is_value_of(x: t.Expr, v: t.Variable) -> bool:
    """Whether an expression is a variable's value, maybe as a wider type."""
    if isinstance(x, t.Convert):
        to = x.type
        assert isinstance(v.type, Arith)
        if not isinstance(to, Arith) or to.kind != "int" or to.bits < v.type.bits or not to.signed or not v.type.signed:
            return False
        x = x.x
    return isinstance(x, t.Read) and x.variable is v


def _switch(s: t.Switch, targets: _Targets) -> list[t.Flat]:
    """A switch as a chain of branches, or under flags where a section may fall through."""
    broken = _flag(s.at)
    inside = _Targets(broken, targets.skipped, targets.returned, targets.result)
    value = t.Variable("", s.value.type, s.at, initialised=True)
    out: list[t.Flat] = [t.Eval(s.at, t.Assign(s.at, s.value.type, value, s.value)), _set(broken, s.at, to=False)]
    bodies = [_sequence((section.body,), inside) for section in s.sections]
    sections = [(section, body) for section, (body, _) in zip(s.sections, bodies, strict=True)]
    if all(ends for _, ends in bodies[:-1]):
        chain: list[t.Flat] = next((body for section, body in sections if section.is_default), list[t.Flat]())
        for section, body in reversed(sections):
            if not section.is_default:
                chain = [t.Branch(s.at, _is_one_of(value, section.labels, s.at), tuple(body), tuple(chain))]
        return [*out, *chain]
    active = _flag(s.at)
    labels = tuple(n for section in s.sections for n in section.labels)
    out.append(_set(active, s.at, to=False))
    for section, body in sections:
        here = t.Read(s.at, BOOL, active)
        entered = _is_one_of(value, labels if section.is_default else section.labels, s.at)
        if section.is_default:
            other = _is_one_of(value, section.labels, s.at)
            entered = t.Binary(s.at, BOOL, "|", t.Unary(s.at, BOOL, "~", entered), other)
        condition: t.Expr = t.Binary(s.at, BOOL, "|", here, entered)
        flags = _jumps(t.Block(s.at, tuple(x.body for x in s.sections)), inside)
        if flags:
            condition = t.Binary(s.at, BOOL, "&", condition, _none_of(flags, s.at))
        out.append(t.Branch(s.at, condition, (*body, _set(active, s.at, to=True)), ()))
    return out


def _is_one_of(value: t.Variable, labels: tuple[int, ...], at: Token) -> t.Expr:
    known = t.Read(at, value.type, value)
    tests = [t.Binary(at, BOOL, "==", known, t.Const(at, value.type, n)) for n in labels]
    return _any_of(tests, at) if tests else t.Const(at, BOOL, 0)

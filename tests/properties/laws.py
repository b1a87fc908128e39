"""The laws as plain functions that raise when broken; `test_laws_bite.py` plants a bug under each."""

from __future__ import annotations

import itertools
import operator

from graphfuse import symbolic
from graphfuse.errors import GraphfuseError
from graphfuse.ir.core import Block, Func, Op
from graphfuse.ir.parser import parse, parse_module
from graphfuse.ir.printer import to_text
from graphfuse.ir.rewrite import rebuild
from graphfuse.ir.verifier import verify
from tests.interp.inputs import assert_same_numbers


def text_round_trips(text):
    """Printing what was parsed gives the text again; so it does with locations."""
    func = parse(text)
    verify(func)
    assert to_text(func) == text, f"printed\n{to_text(func)}"
    located = to_text(func, locations=True)
    assert to_text(parse(located), locations=True) == located


def parsing_is_total(text):
    """Any string is IR or a `GraphfuseError`, and what parses is verified or refused."""
    try:
        funcs = parse_module(text)
        for func in funcs:
            verify(func)
    except GraphfuseError:
        return
    for func in funcs:
        printed = to_text(func)
        assert to_text(parse(printed)) == printed


def print_order_is_fixed(text, seed):
    """The text does not depend on the order in which attributes were given."""
    func = parse(text)
    assert to_text(_shuffled(func, seed)) == to_text(func)


def _shuffled(func, seed):
    def shuffle(op):
        items = list(op.attrs.items())
        items = items[seed % (len(items) + 1) :] + items[: seed % (len(items) + 1)]
        return Op(op.kind, op.operands, dict(reversed(items)), op.types, op.bodies, op.hints, op.loc)

    return rebuild(func, shuffle)


def pass_is_sound(pass_, text):
    """A pass keeps its input, validity, numbers (every bit) and locations, and doing it twice changes nothing."""
    before = parse(text, "law.gf")
    printed = to_text(before)
    after = pass_(before)
    assert to_text(before) == printed, "the input changed"
    verify(after)
    locations = {op.loc for op in before.walk()}
    assert all(op.loc in locations for op in after.walk()), "a location was lost"
    assert len(after.outputs) == len(before.outputs)
    assert_same_numbers(before, after, exact=True)
    assert to_text(pass_(after)) == to_text(after), "not idempotent"


def rebuild_all(func):
    """Rebuild every op: the identity, through the code that replaces ops."""
    return rebuild(func, lambda op: Op(op.kind, op.operands, op.attrs, op.types, op.bodies, op.hints, None))


def returns_nothing(text):
    """The program with its results dropped, so that most of it is dead."""
    func = parse(text)
    last = func.body.terminator
    kept = last.operands[-1:] if last.operands[-1:] and last.operands[-1] not in func.params else ()
    terminator = Op(last.kind, kept, last.attrs, last.types, last.bodies, last.hints, last.loc)
    return to_text(Func(func.name, Block(func.body.params, (*func.body.ops[:-1], terminator)), func.attrs, func.dims))


# symbolic dims. A formula is (operator, left, right), a symbol name, or a number.

OPERATORS = {
    "+": (lambda a, b: a + b, operator.add),
    "-": (lambda a, b: a - b, operator.sub),
    "*": (lambda a, b: a * b, operator.mul),
    "min": ("minimum", min),
    "max": ("maximum", max),
    "floordiv": ("floordiv", operator.floordiv),
    "mod": ("mod", operator.mod),
    "ceildiv": ("ceildiv", lambda a, b: -(-a // b)),
}
"""What each operator is on dims (a function, or the name of one in `symbolic`) and on numbers."""


def dim_of(formula):
    if isinstance(formula, int):
        return formula
    if isinstance(formula, str):
        return symbolic.sym(formula)
    name, a, b = formula
    fn = OPERATORS[name][0]
    return (getattr(symbolic, fn) if isinstance(fn, str) else fn)(dim_of(a), dim_of(b))


def number_of(formula, values):
    if isinstance(formula, int):
        return formula
    if isinstance(formula, str):
        return values[formula]
    name, a, b = formula
    return OPERATORS[name][1](number_of(a, values), number_of(b, values))


def dims_mean_numbers(formula, values):
    """Evaluating a dim gives what the formula gives on numbers."""
    assert symbolic.evaluate(dim_of(formula), values) == number_of(formula, values)


def dim_text_round_trips(formula):
    dim = dim_of(formula)
    assert symbolic.parse_dim(str(dim)) == dim, str(dim)


def ring_laws(x, y, z):
    a, b, c = dim_of(x), dim_of(y), dim_of(z)
    assert a + b == b + a
    assert a * b == b * a
    assert (a + b) + c == a + (b + c)
    assert (a * b) * c == a * (b * c)
    assert a * (b + c) == a * b + a * c
    assert a - a == a + -a == 0
    assert a + 0 == a * 1 == a
    assert a * 0 == 0
    assert hash(a + b) == hash(b + a)
    assert isinstance(a - a, int)


def substitution_commutes(formula, replacements, values):
    """Substituting and then evaluating is evaluating with the replacements' values."""
    dims = {name: dim_of(f) for name, f in replacements.items()}
    inner = {name: symbolic.evaluate(d, values) for name, d in dims.items()}
    dim = dim_of(formula)
    assert symbolic.evaluate(symbolic.substitute(dim, dims), values) == symbolic.evaluate(dim, {**values, **inner})


def bounds_hold(formula, ranges, values):
    low, high = symbolic.bounds(dim_of(formula), ranges)
    value = number_of(formula, values)
    assert low <= value or low <= -symbolic.INF, f"{dim_of(formula)} = {value} below {low}"
    assert value <= high or high >= symbolic.INF, f"{dim_of(formula)} = {value} above {high}"


def exact_division_is_exact(x, y):
    a, b = dim_of(x), dim_of(y)
    quotient = symbolic.exact_div(a, b)
    assert quotient is None or quotient * b == a
    if b != 0:
        assert symbolic.exact_div(a * b, b) == a


def grid(ranges):
    """Every assignment of values inside small ranges."""
    names = sorted(ranges)
    for choice in itertools.product(*(range(lo, hi + 1) for lo, hi in (ranges[n] for n in names))):
        yield dict(zip(names, choice, strict=True))

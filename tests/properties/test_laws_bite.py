"""Each law fails on a planted bug: a law that cannot fail proves nothing."""

from __future__ import annotations

import pytest

from graphfuse import symbolic
from graphfuse.errors import GraphfuseError
from graphfuse.interp import elementwise
from graphfuse.ir import printer, rewrite
from graphfuse.ir.core import Op, Trait
from graphfuse.ir.rewrite import common_subexpressions, dead_code, rebuild
from tests.properties import laws

ZEROS = """func @f(%a: tensor<4xf32>) {
  %v0 = graph.full() {elem = f32, shape = [4], value = 0.0} : tensor<4xf32>
  %v1 = graph.full() {elem = f32, shape = [4], value = -0.0} : tensor<4xf32>
  %v2 = graph.cumulate(%a) {axis = 0, exclusive = true, kind = "sum"} : tensor<4xf32>
  return(%v0, %v1, %v2)
}
"""
STORES = """func @f(%p: ptr<f32>) {
  %v0 = block.const() {elem = i64, value = 0} : i64
  %v1 = block.load(%p, %v0) : f32
  %v2 = block.add(%v1, %v1) : f32
  block.store(%p, %v0, %v2)
  %v3 = block.load(%p, %v0) : f32
  return(%v1, %v2, %v3)
}
"""
NESTED = """func @f(%a: tensor<4xf32>) {
  %v0 = graph.full() {elem = f32, shape = [4], value = 1.0} : tensor<4xf32>
  %v3 = graph.region(%a) {kernel = "k", kind = "pointwise"} do (%v1: tensor<4xf32>) {
    %v2 = graph.full() {elem = f32, shape = [4], value = 1.0} : tensor<4xf32>
    yield(%v2)
  } : tensor<4xf32>
  return(%v0, %v3)
}
"""
DEAD = """func @f(%a: tensor<4xf32>) {
  %v0 = graph.neg(%a) : tensor<4xf32>
  %v3 = graph.loop(%a) {count = 2, symbol = "t"} do (%v1: tensor<4xf32>) {
    %v2 = graph.add(%v1, %v0) : tensor<4xf32>
    yield(%v2)
  } : tensor<4xf32>
  return(%a)
}
"""


def bites(law, *args):
    with pytest.raises((AssertionError, GraphfuseError)):
        law(*args)


@pytest.mark.parametrize("text", [ZEROS, STORES, NESTED, DEAD])
def test_the_programs_here_obey_the_laws(text):
    laws.text_round_trips(text)
    laws.print_order_is_fixed(text, 1)
    for pass_ in (dead_code, common_subexpressions, laws.rebuild_all):
        laws.pass_is_sound(pass_, text)


def test_printer_drops_an_attribute(monkeypatch):
    whole = printer.attrs_text
    fewer = lambda attrs: whole({k: v for k, v in attrs.items() if k != "exclusive"})  # noqa: E731
    monkeypatch.setattr(printer, "attrs_text", fewer)
    bites(laws.text_round_trips, ZEROS)


def test_printer_does_not_sort(monkeypatch):
    def unsorted(attrs):
        return " {" + ", ".join(f"{k} = {printer.literal(v)}" for k, v in attrs.items()) + "}" if attrs else ""

    monkeypatch.setattr(printer, "attrs_text", unsorted)
    bites(laws.print_order_is_fixed, ZEROS, 1)


def test_printer_does_not_escape_locations(monkeypatch):
    monkeypatch.setattr(printer, "literal", lambda value: f'"{value}' if isinstance(value, str) else str(value))
    bites(laws.text_round_trips, ZEROS)


def test_parser_is_not_total(monkeypatch):
    def crash(text):
        raise RecursionError

    monkeypatch.setattr("graphfuse.ir.parser.parse_dim", crash)
    with pytest.raises(RecursionError):
        laws.parsing_is_total("func @f(%x: tensor<(n)xf32>) { return() }")


def test_cse_merges_the_zeros(monkeypatch):
    monkeypatch.setattr(rewrite, "_exact", lambda value: value)
    bites(laws.pass_is_sound, common_subexpressions, ZEROS)


def test_cse_merges_loads(monkeypatch):
    real = Op.has
    monkeypatch.setattr(Op, "has", lambda op, t: real(op, t) or (t is Trait.PURE and op.kind.name == "block.load"))
    bites(laws.pass_is_sound, common_subexpressions, STORES)


def test_cse_reaches_into_regions(monkeypatch):
    real = Op.has
    monkeypatch.setattr(rewrite.Op, "has", lambda op, t: t is not Trait.ISOLATED and real(op, t))
    merged = common_subexpressions(laws.parse(NESTED))
    monkeypatch.undo()
    bites(laws.pass_is_sound, lambda _: merged, NESTED)


def test_dead_code_drops_stores(monkeypatch):
    real = Op.has
    monkeypatch.setattr(Op, "has", lambda op, t: real(op, t) or (t is Trait.PURE and op.kind.name == "block.store"))
    bites(laws.pass_is_sound, dead_code, STORES)


def test_dead_code_is_not_transitive():
    def one_layer(func):
        read = {v for op in func.walk() for v in op.operands}
        return rebuild(func, keep=lambda op: not op.has(Trait.PURE) or not read.isdisjoint(op.results))

    bites(laws.pass_is_sound, one_layer, DEAD)


def test_a_pass_forgets_locations():
    def forget(func):
        def strip(op):
            return Op(op.kind, op.operands, op.attrs, op.types, op.bodies, op.hints, laws.parse(ZEROS).body.ops[0].loc)

        return rebuild(func, strip)

    bites(laws.pass_is_sound, forget, ZEROS)


def test_a_rule_is_wrong():
    def halve(func):
        return rebuild(func, lambda op: op.operands[0] if op.kind.name == "block.add" else None)

    bites(laws.pass_is_sound, halve, STORES)


def test_wrong_floordiv(monkeypatch):
    """floor((n + 3) / 2) is not floor(n / 2) + floor(3 / 2) for odd n."""
    real = symbolic.floordiv
    monkeypatch.setattr(symbolic, "floordiv", lambda a, b: real(a - 3, b) + 3 // b)
    bites(laws.dims_mean_numbers, ("floordiv", ("+", "n", 3), 2), {"n": 5})


def test_wrong_mod(monkeypatch):
    monkeypatch.setattr(symbolic, "mod", lambda a, b: 0)
    bites(laws.dims_mean_numbers, ("mod", "n", 2), {"n": 5})


def test_wrong_extremes(monkeypatch):
    monkeypatch.setattr(symbolic, "minimum", symbolic.maximum)
    bites(laws.dims_mean_numbers, ("min", "n", "m"), {"n": 4, "m": 5})


def test_wrong_text(monkeypatch):
    monkeypatch.setattr(symbolic, "_term_text", lambda m, c: "*".join([str(abs(c)), *(str(a) for a, _ in m)]))
    bites(laws.dim_text_round_trips, ("-", ("*", "n", "n"), 2))


def test_terms_are_not_canonical(monkeypatch):
    monkeypatch.setattr(symbolic, "_mono_key", lambda m: 0)
    bites(laws.ring_laws, "n", "m", ("*", "n", "m"))


def test_wrong_substitution(monkeypatch):
    monkeypatch.setattr(symbolic, "_substitute_atom", lambda atom, values: symbolic.sym("n"))
    bites(laws.substitution_commutes, ("+", "n", "m"), {"m": ("+", "m", 1)}, {"n": 2, "m": 9})


def test_bounds_lie(monkeypatch):
    monkeypatch.setattr(symbolic, "_atom_bounds", lambda atom, ranges: (1, 2))
    bites(laws.bounds_hold, ("*", "n", "m"), {"n": (1, 9)}, {"n": 9, "m": 3})


def test_inexact_division(monkeypatch):
    monkeypatch.setattr(symbolic, "exact_div", lambda a, b: symbolic.sym("n"))
    bites(laws.exact_division_is_exact, ("+", ("*", "n", 2), 1), 2)


def test_the_interpreter_itself_is_in_the_laws(monkeypatch):
    """A pass that relies on the interpreter being deterministic sees when it is not."""
    calls = iter(range(10**6))
    monkeypatch.setitem(elementwise.FLOAT, "add", lambda a, b: a + b + next(calls))
    bites(laws.pass_is_sound, dead_code, STORES)

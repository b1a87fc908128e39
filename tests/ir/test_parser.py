"""What text tests cannot hold: limits, constants kept beside the text, hints, and several functions."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.dialects import control, graph
from graphfuse.errors import Loc, ParseError
from graphfuse.ir.core import Block, Func, Params
from graphfuse.ir.dense import Dense
from graphfuse.ir.parser import MAX_DEPTH, parse, parse_module
from graphfuse.ir.printer import to_text
from graphfuse.ir.types import F32, Tensor

DEEP = MAX_DEPTH + 1
LIMITS = [
    ("func @f(%c: bool) { " + "if(%c) do () { " * DEEP, f"bodies are nested deeper than {MAX_DEPTH}"),
    ("func @f() {a = " + "[" * (DEEP + 1) + "} { return() }", f"lists are nested deeper than {MAX_DEPTH}"),
    ("", "expected one function, got 0"),
    ("func @f() { return() } func @g() { return() }", "expected one function, got 2"),
]


@pytest.mark.parametrize(("text", "message"), LIMITS, ids=[m for _, m in LIMITS])
def test_limits(text, message):
    with pytest.raises(ParseError) as e:
        parse(text)
    assert e.value.message == message


def constant(array):
    value = graph.constant(value=Dense(array))
    return Func("f", Block(Params(()), (value, control.return_(value))))


def test_large_constants_are_beside_the_text():
    big = Dense(np.arange(99, dtype=np.int8))
    text = to_text(constant(big.array))
    assert f"dense<99xi8, sha256:{big.digest}>" in text
    assert parse(text, constants={big.digest: big}).body.ops[0].attrs["value"] == big
    with pytest.raises(ParseError, match=r"is of another size than 9xi8"):
        parse(text.replace("99x", "9x"), constants={big.digest: big})


def test_hints_from_outside_are_made_into_names():
    x = Params((Tensor((4,), F32),), ("model/x",))
    a = graph.exp(x.values[0], hint="/attn/Exp_output_0")
    b = graph.exp(a, hint="/attn/Exp_output_1", loc=Loc("m.onnx", node='/a"b\\c'))
    func = Func("f", Block(x, (a, b, control.return_(b))))
    text = to_text(func)
    assert "%_attn_Exp_output = graph.exp(%model_x)" in text
    assert "%_attn_Exp_output_0 = graph.exp(%_attn_Exp_output)" in text
    assert to_text(parse(text)) == text
    located = to_text(func, locations=True)
    assert parse(located).body.ops[1].loc == Loc("m.onnx", node='/a"b\\c')


def test_a_kernel_keeps_the_names_of_its_symbols():
    (func,) = parse_module("func @k(%p: ptr<f32>, %v0: i64, %seq_1: i64) { return() }")
    assert [v.hint for v in func.params] == ["p", "v0", "seq_1"]
    assert parse(to_text(func)).body.params.hints == func.body.params.hints

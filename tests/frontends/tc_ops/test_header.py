"""Headers of `.tc` files: what they say, and one error with its place for each mistake in them."""

# ruff: noqa: E501 (messages as they are shown)

from __future__ import annotations

import re

import pytest

from graphfuse.dialects.call import arguments_of
from graphfuse.errors import GraphfuseError, ParseError, UnsupportedError, VerifyError
from graphfuse.frontends.tc_ops.header import parse_headers
from graphfuse.frontends.tc_ops.names import check
from graphfuse.frontends.tc_ops.operator import Operator, read_operators
from graphfuse.ir.core import Params
from graphfuse.ir.types import F16, F32, F64, I32, Tensor
from graphfuse.symbolic import sym

HEADER = """// A kernel.
//
// op: my.domain::ScaledGelu
// inputs: x: T[M, N],
//   bias: T[N];   outputs: y: T[M, N];   attrs: alpha: float, steps: int = 2
// types: T = half | float
// macros: TYPE = T, TM = 32, TN = pow2(N), BODY = "v + 1, 2"
// grid: (M + TM - 1) / TM,
//       cdiv(N, TN)
// args: x, bias, y, M, N, alpha, steps
// num_warps: 8; num_stages: 3; num_ctas: 2; schedule: pingpong
"""
KERNEL = """
__global__ void k(TYPE *x, TYPE *bias, TYPE *y, int M, int N, float alpha, int steps) {
  int i[TM] = get_program_id(0) * TM + 0 ... TM;
  TYPE *px[TM] = x + i;
  TYPE *py[TM] = y + i;
  *?(i < M) py = (i < M) ? *px : 0;
}
"""


def headers(text):
    return [check(h) for h in parse_headers(text, "k.tc")]


def test_what_a_header_says():
    (h,) = headers(HEADER + KERNEL)
    assert (h.op, str(h.loc)) == ("my.domain::ScaledGelu", "k.tc:3:4")
    assert [str(t) for t in (*h.inputs, *h.outputs)] == ["x: T[M, N]", "bias: T[N]", "y: T[M, N]"]
    assert [(a.name, a.kind, a.default) for a in h.attrs] == [("alpha", "float", None), ("steps", "int", 2)]
    assert h.types == {"T": ("half", "float")}
    assert {n: p.text for n, p in h.macros.items()} == {
        "TYPE": "T", "TM": "32", "TN": "pow2(N)", "BODY": '"v + 1, 2"',
    }  # fmt: skip
    assert [(p.text, p.loc.line) for p in h.grid] == [("(M + TM - 1) / TM", 8), ("cdiv(N, TN)", 9)]
    assert [p.text for p in h.args] == ["x", "bias", "y", "M", "N", "alpha", "steps"]
    assert h.options == {"num_warps": 8, "num_stages": 3, "num_ctas": 2, "schedule": "pingpong"}
    assert h.kernel is None


def test_several_headers_and_none():
    two = HEADER + "// op: Second\n// outputs: y: float[4]\n// grid: 1\n// args: y\n// kernel: second\n"
    first, second = headers(two)
    assert (first.op, second.op, second.kernel.text) == ("my.domain::ScaledGelu", "::Second", "second")
    assert headers("// options: x\nint f;\n// op::x\n") == []


MISTAKES = [
    ("// op: my.domain::ScaledGelu", "// op: my-domain", "k.tc:3:8: error: op: expected DOMAIN::NAME or NAME, found 'my-domain'"),
    ("// args: x, bias, y, M, N, alpha, steps\n", "", "k.tc:3:4: error: args: expected this field in the header, found op, inputs,"),
    ("// op: my.domain::ScaledGelu", "// op: A, B", "k.tc:3:4: error: op: expected one entry, found 2"),
    ("// types:", "// typs:", "k.tc:6:4: error: expected one of the fields op, inputs,"),
    ("// num_warps: 8;", "// grid: 1;", "k.tc:11:4: error: grid: expected once, found again"),
    ("x: T[M, N],", "x T[M, N],", "k.tc:4:12: error: inputs: expected NAME: TYPE[DIM, ...], found 'x T[M, N]'"),
    ("x: T[M, N],", "x: T[M, N]...,", "k.tc:4:12: error: inputs: expected NAME: TYPE[DIM, ...], found"),
    ("x: T[M, N],", "x: T[M, N...],", "k.tc:4:12: error: inputs: expected NAME... as the first dim only, found 'x: T[M, N...]'"),
    ("x: T[M, N],", "x: T[2..., N],", "k.tc:4:12: error: inputs: expected a name before '...', found '2'"),
    ("x: T[M, N],", "x: T[M, N] = 0,", "k.tc:4:12: error: inputs: expected an initial value of outputs only, found"),
    ("y: T[M, N];", "y: T[M, P];", "k.tc:5:29: error: outputs: expected names among M, N, steps, found 'P'"),
    ("y: T[M, N];", "y: U[M, N];", "k.tc:5:29: error: outputs: expected a type, or that of an input (T), found 'U'"),
    ("y: T[M, N];", "y: T[M..., N];", "k.tc:5:29: error: outputs: expected dims that an input has (none), found 'M...'"),
    ("y: T[M, N];", "x: T[M, N];", "k.tc:5:29: error: expected another name for an output, found 'x', an input"),
    ("alpha: float,", "alpha: double,", "k.tc:5:50: error: attrs: expected the type float or int, found 'double'"),
    ("steps: int = 2", "steps: int = 2.5", "k.tc:5:64: error: attrs: expected a default of int, found '2.5'"),
    ("types: T = half | float", "types: T = half | f32", "k.tc:6:11: error: types: expected types such as half and float, found 'f32'"),
    ("types: T", "types: S", "k.tc:3:4: error: types: expected a type of an input (T), found 'S'"),
    ("TM = 32", "TM", "k.tc:7:22: error: macros: expected NAME = VALUE, found 'TM'"),
    ("TM = 32", "N = 32", "k.tc:4:12: error: inputs: expected a name of its own for a dim, found 'N', a macro"),
    ("pow2(N)", "pow2(N, 2)", "k.tc:7:31: error: macros: TN: pow2: expected 1 arguments, found 2"),
    ("pow2(N)", "pow3(N)", "expected one of the functions min, max, cdiv, pow2, found 'pow3'"),
    ("(M + TM - 1) / TM", "(M + TM - 1) / ", "k.tc:8:10: error: grid: expected an expression such as (M + TM - 1) / TM, found '(M"),
    ("(M + TM - 1) / TM", "M ** 2", "k.tc:8:10: error: grid: expected integers, names, + - * / % and parentheses, found 'M ** 2'"),
    ("(M + TM - 1) / TM", "1, 2, 3", "k.tc:9:10: error: grid: expected at most 3 axes, found 4"),
    ("(M + TM - 1) / TM", "1, ", "k.tc:8:13: error: grid: expected an entry before the comma, found none"),
    ("bias, y, M", "bias, z, M", "k.tc:10:19: error: args: expected names among M, N, TM, TN, alpha, bias, steps, x, y, found 'z'"),
    ("bias, y, M", "bias, M", "k.tc:10:10: error: args: expected the output 'y' among them, found M, N, alpha, bias, steps, x"),
    ("alpha, steps", "alpha,", "k.tc:10:4: error: args: expected another entry after the comma, found the end"),
    ("num_warps: 8", "num_warps: 3", "k.tc:11:15: error: num_warps: expected a power of two, found 3"),
    ("pingpong", "often", "k.tc:11:56: error: schedule: expected one of cooperative, pingpong, stream, found 'often'"),
    ("num_stages: 3", "num_stages: many", "k.tc:11:30: error: num_stages: expected a number from 1 to 16, found 'many'"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), MISTAKES, ids=lambda m: m[:24])
def test_mistakes(old, new, message):
    assert old in HEADER
    with pytest.raises(ParseError, match=re.escape(message)):
        headers(HEADER.replace(old, new, 1) + KERNEL)


# a kernel bound to operands

X, BIAS = Tensor((sym("batch"), 64), F32), Tensor((64,), F32)


def called(text=HEADER + KERNEL, types=(X, BIAS), **attrs):
    (header,) = headers(text)
    operands = Params(types).values
    return Operator(header, text, "k.tc").call(operands, {"alpha": 0.5, **attrs})


def test_a_call():
    op = called(steps=3)
    assert op.types == (X,)
    assert op.attrs["grid"] == ((sym("batch") + 31) // 32, 1)
    assert arguments_of(op) == {"M": sym("batch"), "N": 64, "steps": 3}
    assert (op.attrs["warps"], op.attrs["stages"]) == (8, 3)


def test_runs_of_dims():
    text = HEADER.replace("T[M, N]", "T[M..., N]") + KERNEL
    shape = (sym("batch"), 3, 64)
    op = called(text, (Tensor(shape, F32), BIAS))
    assert op.types == (Tensor(shape, F32),)
    assert arguments_of(op)["M"] == sym("batch") * 3
    assert called(text, (BIAS, BIAS)).types == (BIAS,)


MISFITS = [
    (HEADER, (X,), {}, "expected 2 inputs (x: T[M, N], bias: T[N]), found 1"),
    (HEADER, (X, Tensor((32,), F32)), {}, "input 'bias': expected bias: T[N] = [64], found [32]"),
    (HEADER, (BIAS, BIAS), {}, "input 'x': expected x: T[M, N], found 1 dims"),
    (HEADER, (X, Tensor((64,), F16)), {}, "input 'bias': expected elements of f32, found f16"),
    (HEADER, (Tensor((2, 64), F64), Tensor((64,), F64)), {}, "input 'x': expected elements of half or float, found f64"),
    (HEADER.replace("bias: T", "bias: int"), (X, BIAS), {}, "input 'bias': expected bias: int[N], found elements of f32"),
    (HEADER, (X, BIAS), {"beta": 1}, "expected attributes among alpha, steps, found 'beta'"),
    (HEADER, (X, BIAS), {"steps": 1.5}, "attribute 'steps': expected an int, found 1.5"),
    (HEADER, (X, BIAS), {"alpha": None}, "expected the attribute 'alpha' (float), found alpha"),
    (HEADER, (X, BIAS), {"alpha": b"relu"}, "attribute 'alpha': expected a float, found b'relu'"),
    (HEADER.replace("pow2(N)", "pow2(M)"), (X, BIAS), {}, "k.tc:7:31: error: macros: TN: pow2: expected a number, found the symbolic batch"),
    (HEADER.replace("TM = 32", "TM = M"), (X, BIAS), {}, "k.tc:7:22: error: macros: TM: expected a number, found the symbolic batch"),
    (HEADER.replace("/ TM", "/ (steps - 2)"), (X, BIAS), {}, "k.tc:8:10: error: grid: expected to divide by a positive number, found steps - 2 = 0"),
    (HEADER.replace(", steps\n", "\n"), (X, BIAS), {}, "k.tc:10:28: error: args: expected 7 for k(float* x, float* bias, float* y, int M, int N, float alpha, int steps), found 6"),
    (HEADER.replace("args: x, bias", "args: M, bias"), (X, BIAS), {}, "k.tc:10:10: error: args: expected 'float* x', parameter 1 of k, an input or output (x, bias, y), found 'M'"),
    (HEADER.replace("M, N, alpha, steps\n", "M, alpha, N, steps\n"), (X, BIAS), {}, "k.tc:10:25: error: args: expected 'int N', parameter 5 of k, an integer, found 'alpha'"),
    (HEADER.replace("bias: T[N]", "bias: int[N]"), (X, Tensor((64,), I32)), {}, "k.tc:10:13: error: args: expected 'float* bias', parameter 2 of k, found 'bias', a tensor of int"),
    (HEADER.replace("y: T[M, N]", "y: T[M, N] = 0"), (X, BIAS), {}, "expected outputs that hold nothing before, as values of a graph do, found 'y: T[M, N] = 0'"),
    (HEADER.replace("num_warps: 8", "kernel: other"), (X, BIAS), {}, "k.tc:11:12: error: kernel: expected a kernel of the file (k), found 'other'"),
]  # fmt: skip


@pytest.mark.parametrize(("header", "types", "attrs", "message"), MISFITS, ids=range(len(MISFITS)))
def test_operands_that_do_not_fit(header, types, attrs, message):
    with pytest.raises(GraphfuseError, match=re.escape(message)):
        called(header + KERNEL, types, **attrs)


BODIES = [
    ("*?(i < M) py", "*?(i < M) px", VerifyError, "kernel 'k': expected to write outputs only, found one through the input 'x'"),
    ("*?(i < M) py", "TYPE *p = M > 2 ? x : y; *?(i < M) (p + i)", VerifyError, "kernel 'k': expected to write outputs only, found one through the input 'x'"),
    ("*?(i < M) py = (i < M) ? *px : 0;", "atomic_add(py, *px);", UnsupportedError, "expected plain stores, as outputs hold nothing before it runs (without `= 0`), found an atomic on 'y'"),
    ("int M,", "int M __multipleof(16),", VerifyError, "kernel 'k' promises __multipleof(16) of 'M': expected such a number, found batch"),
    ("TYPE *x,", "TYPE *x __aligned(64),", UnsupportedError, "expected at most __aligned(16), which tensors are, found __aligned(64) of 'x'"),
    ("void k(", "void j(int *p) { *p = 1; }\n__global__ void k(", ParseError, "k.tc:3:4: error: expected one kernel in the file, or a field `kernel: NAME`, found j, k"),
    ("py = (i", "py = (j", ParseError, "k.tc:17:19: error"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "kind", "message"), BODIES, ids=range(len(BODIES)))
def test_kernels_that_are_no_operators(old, new, kind, message):
    assert old in KERNEL
    with pytest.raises(kind, match=re.escape(message)):
        called(HEADER + KERNEL.replace(old, new, 1))


def test_folders(tmp_path):
    (tmp_path / "b.tc").write_text("#include <common.h>\n" + HEADER + KERNEL)
    (tmp_path / "a.tc").write_text(KERNEL)
    (tmp_path / "common.h").write_text("#define ONE 1\n")
    (operator,) = read_operators(tmp_path)
    assert operator.header.op == "my.domain::ScaledGelu"
    assert operator.text_of_all()[1] == "#define ONE 1\n"
    (tmp_path / "c.tc").write_text(HEADER + KERNEL)
    with pytest.raises(
        ParseError,
        match=r"c.tc:3:4: error: op: expected one kernel for my.domain::ScaledGelu, found another at .*b.tc:4",
    ):
        read_operators(tmp_path)
    with pytest.raises(GraphfuseError, match="expected a folder of .tc files, found nothing"):
        read_operators(tmp_path / "none")

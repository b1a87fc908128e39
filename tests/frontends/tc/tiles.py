"""Expressions of tiles, computed on every machine: in the interpreter, on the CPU, on the emulator."""

from __future__ import annotations

import numpy as np

import graphfuse
from graphfuse.frontends.tc import compile_text
from graphfuse.interp.block import launch
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.printer import to_text
from graphfuse.ir.types import Scalar
from tests.gpu.launching import SM_80, SM_90A
from tests.gpu.programs import emulate

TYPES = {
    "bool": "bool", "char": "i8", "uint8": "u8", "short": "i16", "int": "i32", "unsigned": "u32", "long": "i64",
    "uint64": "u64", "half": "f16", "bf16": "bf16", "float": "f32", "double": "f64",
}  # fmt: skip


def array(values, elem):
    """Numbers of a type of the language."""
    return np.ascontiguousarray(values).astype(numpy_dtype(Scalar(TYPES[elem])))


def _offsets(shape):
    """The offsets of a dense tile as the language writes them."""
    terms = []
    for axis, n in enumerate(shape):
        items = ", ".join(":" if i == axis else "newaxis" for i in range(len(shape)))
        terms.append(f"(0 ... {n})[{items}] * {int(np.prod(shape[axis + 1 :], dtype=int))}")
    return " + ".join(terms)


def source(expression, inputs, out, *, before="", helpers=""):
    """A kernel: tiles `a`, `b`, ... of inputs (type, shape), a statement, and an expression, whose value is stored."""
    names = "abcd"[: len(inputs)]
    params = [f"{elem} *{name.upper()}" for name, (elem, _) in zip(names, inputs, strict=True)]
    lines = [
        f"{elem} {name}[{', '.join(map(str, shape))}] = *({name.upper()} + {_offsets(shape)});"
        for name, (elem, shape) in zip(names, inputs, strict=True)
    ]
    elem, shape = out
    dims = f"[{', '.join(map(str, shape))}]" if shape else ""
    at = f" + {_offsets(shape)}" if shape else ""
    lines += [before, f"{elem} r{dims} = {expression};", f"*(OUT{at}) = r;"]
    body = "\n  ".join(line for line in lines if line)
    return f"{helpers}\n__global__ void k({', '.join([*params, f'{elem} *OUT'])}, int n) {{\n  {body}\n}}\n"


def check(expression, arrays, elems, want, elem, *, n=0, equal=np.testing.assert_array_equal, **more):
    """The value of an expression is what is wanted, everywhere."""
    want = array(want, elem)
    inputs = [(e, x.shape) for e, x in zip(elems, arrays, strict=True)]
    text = source(expression, inputs, (elem, want.shape), **more)
    (kernel,) = compile_text(text, "k.tc", {})
    for name, run in _MACHINES.items():
        out = np.full(max(1, want.size), 77).astype(want.dtype)
        run(text, kernel.func, [*(x.reshape(-1).copy() for x in arrays), out], n)
        got = out.reshape(want.shape)
        wide = (lambda x: x) if got.dtype.kind in "biu" else (lambda x: x.astype(np.float64))
        equal(wide(got), wide(want), err_msg=f"on {name}\n{text}")


def _interpreted(_, func, arrays, n):
    launch(func, arrays, {"n": n}, grid=(1,))


def _on_cpu(text, _, arrays, n):
    graphfuse.kernel(text, device="cpu")[(1,)](*arrays, n)


def _emulated(target):
    return lambda _, func, arrays, n: emulate(to_text(func), arrays, {"n": n}, grid=(1,), target=target)


_MACHINES = {
    "the interpreter": _interpreted,
    "the CPU": _on_cpu,
    "sm_80": _emulated(SM_80),
    "sm_90a": _emulated(SM_90A),
}

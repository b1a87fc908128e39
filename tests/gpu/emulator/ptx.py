"""Kernels around one instruction: each thread loads operands, executes, stores; and how tests run PTX."""

from __future__ import annotations

import numpy as np

from graphfuse.gpu.emulator import Buffer, Emulator

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
_MEMORY = {1: "b8", 2: "b16", 4: "b32", 8: "b64"}
_REGISTER = {1: "b16", 2: "b16", 4: "b32", 8: "b64"}


def entry(body, params=(), decls="", module="", directives=""):
    """A kernel `k` with 64-bit parameters p0, p1, ... loaded into %p0, %p1 ..., %t the thread, %c the CTA."""
    listed = ",\n".join(f"\t.param .u64 {p}" for p in params)
    loads = "\n".join(f"\tld.param.u64 %{p}, [{p}];" for p in params)
    declared = "".join(f"\t.reg .b64 %{p};\n" for p in params)
    return f"""{HEAD}{module}
.visible .entry k(
{listed}
)
{directives}
{{
\t.reg .pred %q<10>;
\t.reg .b16 %h<40>;
\t.reg .b32 %r<200>;
\t.reg .f32 %f<200>;
\t.reg .b64 %d<40>;
\t.reg .f64 %e<10>;
\t.reg .b32 %t, %c;
{declared}{decls}{loads}
\tmov.u32 %t, %tid.x;
\tmov.u32 %c, %ctaid.x;
{body}
\tret;
}}
"""


def line_of(ptx, text, nth=0):
    """The number of the nth line that contains `text`."""
    return [n for n, line in enumerate(ptx.splitlines(), 1) if text in line][nth]


def launch(ptx, args, *, grid=1, block=32, shared=0, seed=0, cluster=(), checks=True, **kw):
    return Emulator(ptx, name="t.ptx", seed=seed, checks=checks, **kw).launch(
        "k", (grid,) if isinstance(grid, int) else grid, (block,), args, shared_bytes=shared, cluster=cluster
    )


def apply(instruction, inputs, out_dtype, *, outs=1, decls="", warps=1):
    """Run `instruction` on each thread: {0}, {1} ... are inputs, {d} the result ({d0}, {d1} with several)."""
    inputs = [np.asarray(x) for x in inputs]
    count = len(inputs[0]) if inputs else 32
    out_dtype = np.dtype(out_dtype)
    lines, names, declared = [], {}, ""
    for i, x in enumerate(inputs):
        size = x.dtype.itemsize
        declared += f"\t.reg .{_REGISTER[size]} %in{i};\n"
        lines += [
            f"\tmad.wide.u32 %d{i}, %t, {size}, %p{i};",
            f"\tld.global.{_MEMORY[size]} %in{i}, [%d{i}];",
        ]
        names[str(i)] = f"%in{i}"
    pred = out_dtype == np.bool_
    for k in range(outs):
        kind = "pred" if pred else _REGISTER[out_dtype.itemsize]
        declared += f"\t.reg .{kind} %out{k};\n"
        names[f"d{k}"] = f"%out{k}"
    names["d"] = "%out0"
    text = instruction
    for key, value in names.items():
        text = text.replace("{" + key + "}", value)
    lines += ["\t" + text]
    results = []
    for k in range(outs):
        at = len(inputs) + k
        size = out_dtype.itemsize
        lines += [f"\tmad.wide.u32 %d20, %t, {size}, %p{at};"]
        if pred:
            lines += [f"\tselp.u16 %h39, 1, 0, %out{k};", "\tst.global.b8 [%d20], %h39;"]
        else:
            lines += [f"\tst.global.{_MEMORY[size]} [%d20], %out{k};"]
        results.append(np.zeros(count, out_dtype))
    params = [f"p{i}" for i in range(len(inputs) + outs)]
    ptx = entry("\n".join(lines), params, declared + decls)
    launch(ptx, [*inputs, *(Buffer(r, initialised=False) for r in results)], block=count)
    return results[0] if outs == 1 else results


def bits(x, dtype):
    return np.asarray(x).view(dtype)

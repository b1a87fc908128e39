"""A small executable with hand-written kernels: everything a plan can have, and no compiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from graphfuse.artifact import (
    Buffer,
    Code,
    Executable,
    KernelMeta,
    Loop,
    Plan,
    Pointer,
    Scalar,
    Signature,
    Step,
    TensorSpec,
    Weight,
)
from graphfuse.llvm.codegen import object_code
from graphfuse.llvm.executor_ir import executor_ir
from graphfuse.llvm.host import host_target
from graphfuse.symbolic import sym


def per_program(name: str, body: str) -> str:
    """A kernel that runs `body` with `%i` once per program."""
    return f"""
define void @{name}(ptr %args, i64 %begin, i64 %end, ptr %scratch) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
{body}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


def _slot(n: int, type_: str) -> str:
    return f"  %at{n} = getelementptr i64, ptr %args, i64 {n}\n  %arg{n} = load {type_}, ptr %at{n}\n"


def _element(n: int, index: str = "%i") -> str:
    return f"  %el{n} = getelementptr float, ptr %arg{n}, i64 {index}\n"


# add: the sum of element i of the first two pointers goes to the third
_ADD = (
    "".join(_slot(n, "ptr") + _element(n) for n in range(3))
    + """
  %a = load float, ptr %el0
  %b = load float, ptr %el1
  %sum = fadd float %a, %b
  store float %sum, ptr %el2"""
)
# scale_row: arg2[i * n + k] = arg0[i * n + k] * arg1[k], k < arg3, through scratch
_SCALE = (
    "".join(_slot(n, "ptr") for n in range(3))
    + _slot(3, "i64")
    + """
  %base = mul i64 %i, %arg3
  br label %inner
inner:
  %k = phi i64 [ 0, %loop ], [ %k_next, %inner ]
  %at = add i64 %base, %k
  %x_at = getelementptr float, ptr %arg0, i64 %at
  %w_at = getelementptr float, ptr %arg1, i64 %k
  %y_at = getelementptr float, ptr %arg2, i64 %at
  %s_at = getelementptr float, ptr %scratch, i64 %k
  %x = load float, ptr %x_at
  %w = load float, ptr %w_at
  %product = fmul float %x, %w
  store float %product, ptr %s_at
  %again = load float, ptr %s_at
  store float %again, ptr %y_at
  %k_next = add i64 %k, 1
  %k_more = icmp slt i64 %k_next, %arg3
  br i1 %k_more, label %inner, label %inner_done
inner_done:"""
)


def _scale_kernel() -> str:
    return per_program("scale_row", _SCALE).replace("[ %next, %loop ]", "[ %next, %inner_done ]")


KERNELS = per_program("add", _ADD) + _scale_kernel()
WIDTH = 5


def code(kernels: str = KERNELS) -> Code:
    """The kernels and the executor as an object for this machine."""
    host = host_target()
    return Code.of(host, object_code(executor_ir(host.arch) + kernels, host))


_CODE: dict[str, Code] = {}


def executable() -> Executable:
    """`x: f32[n, 5]`, `past: f32[2*n, 5]` to `y = x * w + x` and `total`: the running sum of past's rows.

    total[0] = past[0], total[i + 1] = total[i] + past[i + 1]: a loop whose offsets follow its symbol.
    """
    n, i = sym("n"), sym("i")
    row = 4 * WIDTH
    buffers = (
        Buffer("input", n * row, 0),
        Buffer("input", n * 2 * row, 1),
        Buffer("weight", row, 0),
        Buffer("arena", n * row, first=0, last=1),
        Buffer("output", n * row, 0),
        Buffer("output", n * 2 * row, 1),
        Buffer("weight", row, 1),
    )
    steps = (
        Step("scale_row", (Pointer(0), Pointer(2), Pointer(3), Scalar(WIDTH)), n, 20, "x * w"),
        Step("add", (Pointer(3), Pointer(0), Pointer(4)), n * WIDTH, 2, "+ x"),
        Step("add", (Pointer(1), Pointer(6), Pointer(5)), WIDTH, 2, "past[0] + 0"),
        Loop(
            "i",
            n * 2 - 1,
            (
                Step(
                    "add",
                    (Pointer(5, i * row), Pointer(1, i * row + row), Pointer(5, i * row + row)),
                    WIDTH,
                    2,
                    "running sum",
                ),
            ),
        ),
    )
    kernels = (
        KernelMeta("add", "rrw", "pointwise", "Add", 0, n * WIDTH, n * 2 * row, n * row),
        KernelMeta("scale_row", "rrwi", "pointwise", "Mul", row, n * WIDTH, n * row + row, n * row),
    )
    weights = (
        Weight("w", "f32", np.arange(1, WIDTH + 1, dtype=np.float32)),
        Weight("zero", "f32", np.zeros(WIDTH, dtype=np.float32)),
    )
    signature = Signature(
        (TensorSpec("x", "f32", (n, WIDTH)), TensorSpec("past", "f32", (n * 2, WIDTH))),
        (TensorSpec("y", "f32", (n, WIDTH)), TensorSpec("total", "f32", (n * 2, WIDTH))),
        (("n", 1, 64),),
    )
    if "" not in _CODE:
        _CODE[""] = code()
    return Executable(
        signature=signature,
        plan=Plan(buffers, steps),
        kernels=kernels,
        weights=weights,
        target="cpu:host",
        code={"cpu:host": _CODE[""]},
        ir={"graph": "func @main() {\n  return()\n}\n", "block": "é\n"},
        ledger=[{"fused": ["x", "w"], "bytes": 12}],
        meta={"model": "sample"},
    )


def inputs(n: int, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Random inputs at batch `n`."""
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal((n, WIDTH), dtype=np.float32),
        "past": rng.standard_normal((2 * n, WIDTH), dtype=np.float32),
    }


def expected(feed: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """What `executable` computes, in numpy and in the same order of additions."""
    w = np.arange(1, WIDTH + 1, dtype=np.float32)
    return {"y": feed["x"] * w + feed["x"], "total": np.cumsum(feed["past"], axis=0, dtype=np.float32)}


def with_plan(source: Executable, **changes: Any) -> Executable:
    """The same executable with other buffers or steps."""
    return replace(source, plan=replace(source.plan, **changes))

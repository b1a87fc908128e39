"""Every kind of kernel that blockgen writes for a GPU, on the emulator, beside the interpreter in float64."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import graphfuse.blockgen
from graphfuse.blockgen.lower import GPU_EMITTERS, lower_region
from graphfuse.gpu.lower import emit_ptx
from graphfuse.gpu.pipeline import compile_functions
from graphfuse.interp import graph as interp
from graphfuse.symbolic import evaluate
from graphfuse.targets import Target
from graphfuse.targets.backend import backend_of
from tests.blockgen.support import assert_close, region_ops, widened
from tests.gpu.launching import emulate, outputs_of
from tests.gpu.sweep_cases import FAST, KINDS, TABLE, SweepCase


def block_function(case: SweepCase):
    """The region, and the block function that blockgen makes of it."""
    target = Target.parse(f"cuda:{case.arch}")
    machine = backend_of(target).machine
    if few := KINDS[case.kind].multiprocessors:
        machine = replace(machine, multiprocessors=few)
    func = case.case().func
    (region,) = region_ops(func)
    return region, lower_region(region, "kernel", func.ranges, machine, GPU_EMITTERS)


def sweep(case: SweepCase) -> None:
    """Compile, run at all sizes, compare."""
    made = case.case()
    region, func = block_function(case)
    lowered = compile_functions([func], Target.parse(f"cuda:{case.arch}"))
    ptx, (kernel,) = emit_ptx(lowered), lowered.kernels
    assert re.search(case.instruction, ptx)
    for values in made.sizes:
        inputs = made.arrays(values)
        plain = interp.evaluate_op(region, inputs, values)
        exact = interp.evaluate_op(region, [widened(a) for a in inputs], values, wide=True)
        got, outs = outputs_of(region, inputs, plain)
        if evaluate(kernel.grid, values):
            emulate(ptx, kernel, [*inputs, *outs], symbols={n: values[n] for n in func.ranges})
        for g, w, e in zip(got, plain, exact, strict=True):
            assert_close(g, w, e, str(case))


@pytest.mark.some(80)
@pytest.mark.parametrize("case", [pytest.param(c, marks=() if c in FAST else pytest.mark.full) for c in TABLE], ids=str)
def test_kernels(case: SweepCase) -> None:
    sweep(case)


# the table has everything

BLOCKGEN = Path(graphfuse.blockgen.__file__).parent


def emitters():
    """(File, line) of every function that writes a schedule for GPUs, and its name."""
    for path in sorted(BLOCKGEN.glob("gpu_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and re.match("_?emit(_|$)", node.name):
                yield (path.name, node.lineno), f"{path.stem}.{node.name}"


def test_every_emitter_has_a_case():
    """Functions named `emit...` in the files of GPU schedules run for some case, and every kind of region has one."""
    # calls are of kernels written by hand, which tests/kernels runs on both machines
    assert {k.region for k in KINDS.values()} == set(GPU_EMITTERS) - {"call"}
    called = set()

    def note(frame, event, arg):
        if event == "call" and frame.f_code.co_filename.startswith(str(BLOCKGEN)):
            called.add((Path(frame.f_code.co_filename).name, frame.f_code.co_firstlineno))

    for case in TABLE:
        if case.elem == "f16" and case.view == "plain" and case.arch == "sm_90a":
            sys.setprofile(note)
            try:
                block_function(case)
            finally:
                sys.setprofile(None)
    assert [name for where, name in emitters() if where not in called] == []

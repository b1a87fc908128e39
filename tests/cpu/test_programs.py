"""Hand-written block functions, native beside the interpreter: grids, scalars, atomics, batches, what combines."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from graphfuse.cpu.lower import GRID, compile_object, lower
from graphfuse.dialects.elementwise import MACHINE_FUNCTIONS, accepts
from graphfuse.interp.block import grid_of, launch
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.parser import parse
from graphfuse.ir.types import Ptr, Scalar, scalar
from graphfuse.ir.verifier import verify
from graphfuse.llvm.loader import load_object
from graphfuse.symbolic import evaluate
from graphfuse.targets import Target
from tests.blocks import IDS
from tests.gpu import test_atomics as gpu_atomics
from tests.gpu import test_combining as combining
from tests.gpu import test_programs as gpu_programs
from tests.gpu.launching import numbers
from tests.gpu.programs import same
from tests.gpu.test_dot import near
from tests.machine import HOST, host_and

TARGETS = host_and("cpu:x86-64-v3", "cpu:x86-64-v2")


class Native:
    """A kernel in this process."""

    def __init__(self, text, target=HOST):
        self.func = parse(text)
        verify(self.func)
        lowered = lower([self.func], target)
        self.info = lowered.kernels[0]
        self.library = load_object(compile_object(lowered), [self.func.name])
        signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p])
        self.call = signature(self.library.address(self.func.name))

    def slots(self, arrays, scalars, grid):
        pointers = iter(arrays)
        table = np.zeros(len(self.info.params), np.int64)
        for i, v in enumerate(self.func.params):
            raw = next(pointers).ctypes.data if isinstance(v.type, Ptr) else scalars[v.hint]
            dtype = np.int64 if isinstance(v.type, Ptr) else numpy_dtype(v.type)
            table[i : i + 1].view(np.uint8)[: np.dtype(dtype).itemsize] = np.array([raw], dtype).view(np.uint8)
        if self.info.params[-3:] == GRID:
            table[-3:] = [*grid, 1, 1][:3]
        return table

    def run(self, arrays, scalars, grid, threads=1):
        table = self.slots(arrays, scalars, grid)
        count = int(np.prod(grid))
        size = evaluate(self.info.scratch_bytes, scalars)
        cuts = [count * i // threads for i in range(threads + 1)]

        def part(begin, end):
            scratch = np.zeros(size + 64, np.uint8)
            self.call(table.ctypes.data, begin, end, -(-scratch.ctypes.data // 64) * 64)

        workers = [threading.Thread(target=part, args=cut) for cut in itertools.pairwise(cuts)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


def check(text, arrays, scalars=None, *, grid=None, targets=TARGETS[:1], threads=1,
          equal=same):  # fmt: skip
    """After a native run memory is as after one in the interpreter."""
    scalars = scalars or {}
    want = [a.copy() for a in arrays]
    func = parse(text)
    launch(func, want, scalars, grid=grid)
    for target in targets:
        got = [a.copy() for a in arrays]
        Native(text, target).run(got, scalars, grid or grid_of(func, scalars), threads)
        for g, w in zip(got, want, strict=True):
            equal(g, w)


def test_grids():
    check(IDS, [np.zeros(24, np.int64)], grid=(4, 3, 2), threads=2)
    text = IDS.replace("assume = []", "assume = [], grid = [2, 3]")
    check(text, [np.zeros(6, np.int64)], targets=TARGETS)


def test_scalars_of_every_type():
    elems = gpu_programs.ELEMS
    params = [f"%o_{e}: ptr<{e}>" for e in elems] + [f"%{e}: {e}" for e in elems]
    stores = "\n".join(f"  block.store(%o_{e}, %z, %{e})" for e in elems)
    text = f"""func @k({", ".join(params)}) {{grid = 1}} {{
  %z = block.const() {{elem = i64, value = 0}} : i64
{stores}
  return()
}}"""
    rng = np.random.default_rng(0)
    scalars = {e: numbers(rng, (1,), e)[0] for e in elems}
    check(text, [np.zeros(1, numpy_dtype(Scalar(e))) for e in elems], scalars)


@pytest.mark.parametrize("flag", [False, True])
def test_pointers(flag):
    rng = np.random.default_rng(1)
    x, y = numbers(rng, 16, "f32"), numbers(rng, 16, "f32")
    check(gpu_programs.POINTERS, [x, y, np.zeros(8, np.int64), np.zeros(8, np.int32)], {"flag": flag}, grid=(1,))


@pytest.mark.parametrize("n", [1, 27])
def test_loops_with_a_condition(n):
    check(gpu_programs.COLLATZ, [np.zeros(1, np.int64), np.zeros(128, np.float32)], {"n": n}, grid=(1,))


@pytest.mark.parametrize("n", [0, 5])
def test_what_a_condition_computes_and_a_body_turns(n):
    x = np.random.default_rng(2).integers(-4, 5, 256).astype(np.float32)
    check(gpu_programs.TURNED, [x, np.zeros(544, np.float32), np.zeros(2, np.int32)], {"n": n})


def test_lanes_of_equal_constants_are_picked():
    """Rows of a constant are vectors of one value that are not one object; the sum is read lane by lane."""
    text = """func @k(%a: ptr<i32>, %out: ptr<i32>) {grid = 1} {
  %z = block.const() {elem = i64, value = 0} : i64
  %x = block.load_view(%a, %z) {shape = [2, 4, 8], strides = [32, 8, 1]} : tile<2x4x8xi32>
  %y = block.load_view(%a, %z) {shape = [2, 8, 4], strides = [32, 4, 1]} : tile<2x8x4xi32>
  %c = block.const() {elem = i32, shape = [4, 4, 2], value = 1} : tile<4x4x2xi32>
  %t = block.trans(%c) {perm = [2, 0, 1]} : tile<2x4x4xi32>
  %d = block.dot(%x, %y, %t) : tile<2x4x4xi32>
  block.store_view(%out, %z, %d) {strides = [16, 4, 1]}
  return()
}"""
    check(text, [np.arange(64, dtype=np.int32), np.zeros(32, np.int32)], targets=TARGETS)


def test_nsw_and_casts():
    text = gpu_programs.COPY.replace("ATTRS", "assume = []").replace("512", "32")
    x = np.arange(100, dtype=np.float32)
    check(text, [x, np.zeros_like(x)], {"n": 99}, grid=(4,), targets=TARGETS)


@pytest.mark.parametrize("elem", gpu_atomics.INTEGERS + gpu_atomics.FLOATS)
@pytest.mark.parametrize("n", [4, 21])
def test_atomics(elem, n):
    rng = np.random.default_rng(n)
    text, kinds = gpu_atomics.all_kinds(elem, n)
    arrays = [numbers(rng, n, elem)]
    for _ in kinds:
        arrays += [numbers(rng, n, elem), np.zeros(n, numpy_dtype(Scalar(elem))), numbers(rng, n, elem)]
    check(text, arrays)


@pytest.mark.parametrize("elem", ["i16", "i32", "u64", "f16", "f32", "f64"])
def test_compare_and_swap(elem):
    rng = np.random.default_rng(4)
    want = np.where(numbers(rng, 64, elem) == 0, 1, numbers(rng, 64, elem)).astype(numpy_dtype(Scalar(elem)))
    x = np.where(rng.random(64) < 0.5, want, numbers(rng, 64, elem)).astype(want.dtype)
    check(gpu_atomics.CAS.replace("ELEM", elem), [x, np.zeros_like(x), want])


def test_a_lock_between_threads():
    x = np.random.default_rng(5).integers(-9, 9, 512).astype(np.float32)
    check(gpu_atomics.LOCK, [x, np.zeros(128, np.float32), np.zeros(1, np.int32)], threads=4)


@pytest.mark.parametrize(("batch", "shape", "elems"), combining.BATCHED, ids=str)
def test_batched_products(batch, shape, elems):
    rng = np.random.default_rng(0)
    (m, n, k), (ea, eb, ec) = shape, elems
    arrays = [numbers(rng, (*batch, m, k), ea), numbers(rng, (*batch, k, n), eb), numbers(rng, (*batch, m, n), ec)]
    text = combining.product(batch, shape, elems)
    check(text, [a.reshape(-1) for a in arrays], equal=near(ec))


SHAPES = pytest.mark.parametrize(("shape", "axis"), [((21,), 0), ((3, 7), 1), ((5, 21), 0), ((2, 5, 16), 1)], ids=str)


@SHAPES
@pytest.mark.parametrize(("kind", "elem"), [("maxnum", "f32"), ("minnum", "f16"), ("maxnum", "f64"), ("xor", "i8"),
                                            ("xor", "u64")])  # fmt: skip
def test_reductions(kind, elem, shape, axis):
    text, n, m = combining.reduction("reduce", shape, elem, axis, elem, f'kind = "{kind}"')
    x = combining.with_nans(np.random.default_rng(3), n, elem)
    check(text, [x, np.zeros(m, numpy_dtype(Scalar(elem)))], targets=TARGETS)
    if kind != "xor":
        check(text, [np.full_like(x, np.nan), np.zeros(m, numpy_dtype(Scalar(elem)))])


@SHAPES
@pytest.mark.parametrize("elem", ["i8", "f16", "f32"])
@pytest.mark.parametrize(("kind", "to"), [("max", "i64"), ("min", "i32")])
def test_where_the_extreme_is(kind, to, elem, shape, axis):
    text, n, m = combining.reduction("arg_reduce", shape, elem, axis, to, f'elem = {to}, kind = "{kind}"')
    rng = np.random.default_rng(5)
    for x in (rng.integers(0, 4, n).astype(numpy_dtype(Scalar(elem))), combining.with_nans(rng, n, elem)):
        check(text, [x, np.zeros(m, numpy_dtype(Scalar(to)))])


@SHAPES
@pytest.mark.parametrize(
    ("kind", "elem"), [("sum", "i32"), ("sum", "f16"), ("prod", "u64"), ("max", "f32"), ("min", "i8")]
)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_scans(exclusive, reverse, kind, elem, shape, axis):
    text, n = combining.scan(shape, elem, axis, kind, exclusive=exclusive, reverse=reverse)
    check(text, [numbers(np.random.default_rng(6), n, elem)])


def test_a_scan_is_no_chain_of_elements():
    text, _ = combining.scan((256,), "f32", 0, "sum", exclusive=False, reverse=False)
    llvm = lower([parse(text)], Target.parse("cpu:skylake")).text  # vectors of 8
    assert llvm.count("fadd <8 x float>") == 32 * 3 + 2 * 31, "in vectors, and of what came before"
    assert "fadd float" not in llvm


@pytest.mark.parametrize("elem", ["i8", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"])
def test_machine_functions(elem):
    for fn in MACHINE_FUNCTIONS:
        if accepts(fn.takes, scalar(elem)):
            text, arrays = combining.machine(fn, elem, 21)
            check(text, arrays, targets=TARGETS, equal=combining.close(fn.name, elem))


DEBUG = """func @show(%v: i32, %x: f16) {ATTRS} {
  %t = block.arange() {elem = i32, end = 1, start = -1} : tile<2xi32>
  block.print(%v, %x) {text = "v = %ld, x = %5.2f, 100%%"}
  block.print(%t, %t, %v) {text = "%d %x of %d"}
  %zero = block.const() {elem = i32, shape = [2], value = LIMIT} : tile<2xi32>
  %ok = block.lt(%t, %zero) : tile<2xbool>
  block.assert(%ok) {message = "below 100%"}
  return()
}"""


def run_debug(text):
    """In a process of its own, which an assertion ends."""
    code = f"from tests.cpu.test_programs import Native; Native({text!r}).run([], {{'v': 7, 'x': 1.5}}, (1, 2))"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ), check=False
    )


def test_lines_and_assertions():
    text = DEBUG.replace("ATTRS", "debug = true, grid = [1, 2]").replace("LIMIT", "1")
    want = []
    launch(parse(text), [], {"v": 7, "x": 1.5}, out=want.append)
    done = run_debug(text)
    assert (done.returncode, done.stdout.splitlines()) == (0, want)
    failed = run_debug(text.replace("value = 1", "value = 0"))
    assert (failed.returncode, failed.stderr) == (0, ""), "the process goes on: who launches kernels asks for `failed`"
    quiet = run_debug(text.replace("debug = true, ", "").replace("value = 1", "value = 0"))
    assert (quiet.returncode, quiet.stdout) == (0, "")


SHIFT = """func @shift(%x: ptr<f32>, %y: ptr<f32>) {grid = 1PROMISES} {
  %z = block.const() {elem = i64, value = 0} : i64
  %four = block.const() {elem = i64, value = 4} : i64
  for(%z, %four) do (%i: i64) {
    %v = block.load_view(%x, %i) {shape = [4], strides = [1]} : tile<4xf32>
    block.store_view(%y, %i, %v) {strides = [1]}
    yield()
  }
  return()
}"""


@pytest.mark.parametrize("promises", [", assume = []", ", noalias = []"])
def test_pointers_may_overlap_unless_that_is_promised(promises):
    """`y` one element behind `x`: each step reads what the one before has written."""
    memory = np.arange(16, dtype=np.float32)
    Native(SHIFT.replace("PROMISES", promises)).run([memory[:8], memory[1:9]], {}, (1,))
    want = np.arange(16, dtype=np.float32)
    for i in range(4):
        want[i + 1 : i + 5] = want[i : i + 4].copy()
    np.testing.assert_array_equal(memory, want)

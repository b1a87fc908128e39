"""Software-pipelined products on the emulator: trips, stages, masks, transpositions, elements, loops in loops."""

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphfuse.gpu.transforms.pipeline_loads import pipeline_loads
from graphfuse.interp.block import launch
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.parser import parse
from graphfuse.ir.types import Scalar
from graphfuse.ir.verifier import verify
from graphfuse.targets import Target
from graphfuse.targets.profiles.nvidia import GPUS
from tests.gpu.launching import check, compiled, numbers

LAWS = settings(max_examples=12, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))


def matmul(tile, size, elem="f16", acc="f32", *, warps=4, stages=3, left=False, right=False, dot="", outer=0):
    """x @ y in tiles; `left`, `right`: that operand is stored transposed.

    The loop runs t times; all of it in a loop of its own where `outer` says how often.
    """
    (m, n, k), (M, N, K) = tile, size  # noqa: N806  # the tile's sizes, and the matrices'
    rows, columns = -(-M // m), -(-N // n)
    at_x = f"{m}*p + {k * M}*i" if left else f"{m * K}*p + {k}*i"
    at_y = f"{n * K}*p + {k}*i" if right else f"{n}*p + {k * N}*i"
    strides_x = f"[1, {M}]" if left else f"[{K}, 1]"
    strides_y = f"[1, {K}]" if right else f"[{N}, 1]"
    c = f"tile<{m}x{n}x{acc}>"
    begin = f"%q = for(%zero, %again, %s) {{step = 1}} do (%j: i64, %old: {c}) {{" if outer else ""
    end = f"yield(%r)\n  }} : {c}" if outer else ""
    return f"""
func @f(%x: ptr<{elem}>, %y: ptr<{elem}>, %o: ptr<{acc}>, %t: i64)
    {{grid = {rows * columns}, warps = {warps}, stages = {stages}}} dims (t in 0..100) {{
  %p = block.program_id() : i64
  %pm = block.index(%p) {{expr = (floordiv(p, {columns})), names = ["p"]}} : i64
  %pn = block.index(%p) {{expr = (mod(p, {columns})), names = ["p"]}} : i64
  %lm = block.index(%pm) {{expr = ({M} - {m}*p), names = ["p"]}} : i64
  %ln = block.index(%pn) {{expr = ({N} - {n}*p), names = ["p"]}} : i64
  %zero = block.const() {{value = 0, elem = i64}} : i64
  %again = block.const() {{value = {outer}, elem = i64}} : i64
  %s = block.const() {{value = {0 if Scalar(acc).is_integer else 0.0}, elem = {acc}, shape = [{m}, {n}]}} : {c}
  {begin}
    %r = for(%zero, %t, {"%old" if outer else "%s"}) {{step = 1}} do (%i: i64, %acc: {c}) {{
      %bx = block.index(%pm, %i) {{expr = ({at_x}), names = ["p", "i"]}} : i64
      %by = block.index(%pn, %i) {{expr = ({at_y}), names = ["p", "i"]}} : i64
      %lk = block.index(%i) {{expr = ({K} - {k}*i), names = ["i"]}} : i64
      %a = block.load_view(%x, %bx, %lm, %lk) {{shape = [{m}, {k}], strides = {strides_x}, limited = [0, 1]}}
        : tile<{m}x{k}x{elem}>
      %b = block.load_view(%y, %by, %lk, %ln) {{shape = [{k}, {n}], strides = {strides_y}, limited = [0, 1]}}
        : tile<{k}x{n}x{elem}>
      %d = block.dot(%a, %b, %acc){dot} : {c}
      yield(%d)
    }} : {c}
  {end}
  %w = block.index(%pm, %pn) {{expr = ({m * N}*pm + {n}*pn), names = ["pm", "pn"]}} : i64
  block.store_view(%o, %w, {"%q" if outer else "%r"}, %lm, %ln) {{strides = [{N}, 1], limited = [0, 1]}}
  return()
}}
"""


def run(tile, size, elem="f16", acc="f32", *, trips=None, seed=0, tolerance=1e-4, **options):
    """The emulator's result is the interpreter's, of the function as it is and as it is pipelined."""
    text = matmul(tile, size, elem, acc, **options)
    (m, n, k), trips = size, -(-size[2] // tile[2]) if trips is None else trips
    rng = np.random.default_rng(seed)
    x = numbers(rng, (k, m) if options.get("left") else (m, k), elem)
    y = numbers(rng, (n, k) if options.get("right") else (k, n), elem)
    pipelined = pipeline_loads(parse(text))
    verify(pipelined)
    wanted, got = (np.zeros((m, n), numpy_dtype(Scalar(acc))) for _ in range(2))
    launch(parse(text), [x, y, wanted], {"t": trips})
    launch(pipelined, [x, y, got], {"t": trips})

    def near(a, b):
        np.testing.assert_allclose(a, b, rtol=tolerance if acc[0] == "f" else 0, atol=tolerance if acc[0] == "f" else 0)

    near(wanted, got)
    return check(text, [x, y], [((m, n), acc)], symbols={"t": trips}, seed=seed, equal=near)


def count(report, prefix):
    return sum(n for name, n in report.instructions.items() if name.startswith(prefix))


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("trips", [0, 1, 2, 3, 5])
def test_any_number_of_trips(stages, trips):
    report = run((32, 32, 32), (32, 32, 160), stages=stages, trips=trips, seed=trips)
    assert report.instructions.get("bar.sync", 0) == 4 * trips, "one barrier an iteration"
    assert not report.conflicts


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_masks_and_transpositions(left, right):
    """Copies of 16 bytes that a limit cuts short, and of 4 where rows are not aligned to more."""
    for size, instruction in (((40, 56, 72), "cp.async.cg"), ((36, 38, 50), "cp.async.ca")):
        report = run((32, 32, 32), size, left=left, right=right)
        assert count(report, instruction) > 0
        assert count(report, "ldmatrix") > 0
        assert count(report, "ld.shared") == 0
        assert not report.conflicts


def test_odd_rows_are_loaded_as_ever():
    report = run((32, 32, 32), (33, 37, 35))
    assert count(report, "cp.async") == 0


@pytest.mark.some(8)
@pytest.mark.parametrize(
    ("elem", "acc", "dot", "tolerance"),
    [
        ("bf16", "f32", "", 1e-4), ("f32", "f32", "", 1e-4), ("f32", "f32", ' {precision = "tf32"}', 3e-2),
        ("f32", "f32", ' {precision = "tf32x3"}', 1e-4), ("f64", "f64", "", 1e-11), ("i8", "i32", "", 0),
        ("f8e4m3", "f32", "", 1e-4), ("i32", "i32", "", 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("right", [False, True])
def test_elements(elem, acc, dot, tolerance, right):
    report = run((32, 32, 32), (48, 40, 80), elem, acc, dot=dot, right=right, tolerance=tolerance)
    assert count(report, "cp.async.cg") > 0


def test_multiply_add_reads_buffers_directly():
    """Nothing is staged, and neighbouring lanes meet no bank twice, whichever way the right operand lies."""
    for right in (False, True):
        report = run((64, 64, 16), (64, 64, 64), "f32", right=right)
        assert count(report, "st.shared") == 0
        assert not report.conflicts


@pytest.mark.parametrize("seed", range(3))
def test_a_loop_in_a_loop(seed):
    """The second time round the first copies must not overtake the last reads."""
    run((32, 32, 32), (32, 32, 96), outer=3, seed=seed, tolerance=1e-3)


def test_the_loop_of_a_large_tile():
    """A tile of 128x128x32 for 8 warps: what one iteration of one warp issues."""
    ptx, kernel = compiled(matmul((128, 128, 32), (4096, 4096, 4096), warps=8, right=True))
    assert kernel.shared_bytes == 3 * 2 * 128 * 32 * 2
    body = max(re.findall(r"(?ms)^\$L\w+:.*?\bbra\b", ptx), key=lambda part: part.count("mma.sync"))
    wanted = {"mma.sync": 32, "ldmatrix": 12, "cp.async.cg": 4, "bar.sync": 1, "cp.async.wait_group": 1}
    assert {name: body.count(name) for name in wanted} == wanted
    assert "prmt" not in body


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_90"])
def test_stages_fit_in_shared_memory(arch):
    target = Target.parse(f"cuda:{arch}")
    _, kernel = compiled(matmul((128, 128, 64), (4096, 4096, 4096), warps=8, stages=8), target)
    assert 64 << 10 <= kernel.shared_bytes <= GPUS[arch].machine.shared_bytes


@given(data=st.data())
@LAWS
def test_random(data):
    tile = tuple(data.draw(st.sampled_from([16, 32, 64])) for _ in range(3))
    size = tuple(data.draw(st.integers(1, 20)) * 4 for _ in range(3))
    elem, acc = data.draw(st.sampled_from([("f16", "f32"), ("bf16", "f32"), ("i8", "i32")]))
    run(
        tile, size, elem, acc,
        warps=data.draw(st.sampled_from([1, 2, 4])), stages=data.draw(st.integers(1, 4)),
        left=data.draw(st.booleans()), right=data.draw(st.booleans()), seed=data.draw(st.integers(0, 5)),
    )  # fmt: skip

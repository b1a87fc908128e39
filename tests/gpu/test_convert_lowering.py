"""`gpu.convert_layout` on the emulator: every route, every width, one conversion after another."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphfuse.gpu import lower
from graphfuse.gpu.emulator import Buffer
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.layout_families import Blocked, Mma, Operand
from graphfuse.ir.parser import parse
from graphfuse.ir.types import Scalar
from tests.gpu.launching import SM_80, emulate, numbers
from tests.gpu.layouts.strategies import any_map, distributed

LAWS = settings(max_examples=25, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
ELEMS = ("f32", "f16", "bf16", "bool", "i8", "i64", "f64", "i4", "f8e4m3")


def program(layouts, shape, elem):
    """A tile loaded in the first layout goes through all the others; each of them is stored."""
    m, n = shape
    table = "".join(f"layout #l{i} = {layout.text}\n" for i, layout in enumerate(layouts))
    outs = "".join(f", %o{i}: ptr<{elem}>" for i in range(1, len(layouts)))
    at = f"strides = [{n}, 1]"
    body = [f"%v0 = block.load_view(%x, %z) {{shape = [{m}, {n}], {at}, layout = #l0}} : tile<{m}x{n}x{elem}, #l0>"]
    body += [
        f"%v{i} = gpu.convert_layout(%v{i - 1}) {{layout = #l{i}}} : tile<{m}x{n}x{elem}, #l{i}>"
        for i in range(1, len(layouts))
    ]
    body += [f"block.store_view(%o{i}, %z, %v{i}) {{{at}}}" for i in range(1, len(layouts))]
    lines = "\n  ".join(["%z = block.const() {value = 0, elem = i64} : i64", *body, "return()"])
    return f"{table}func @f(%x: ptr<{elem}>{outs}) {{grid = 1, warps = 4}} {{\n  {lines}\n}}\n"


def run(layouts, shape, elem, seed=0):
    """Every stored tile is the one loaded; returns the report."""
    lowered = lower.lower([parse(program(layouts, shape, elem))], SM_80)
    x = numbers(np.random.default_rng(seed), shape, elem)
    outs = [np.zeros(shape, numpy_dtype(Scalar(elem))) for _ in layouts[1:]]
    results = [Buffer(o, initialised=False) for o in outs]
    report = emulate(lower.emit_ptx(lowered), lowered.kernels[0], [x, *results], seed=seed)
    for out in outs:
        np.testing.assert_array_equal(out, x)
    return report


ROWS = Blocked((1, 4), (4, 8), (4, 1), (1, 0))
COLUMNS = Blocked((4, 1), (8, 4), (1, 4), (0, 1))


@pytest.mark.parametrize("elem", ELEMS)
@pytest.mark.parametrize(
    "families",
    [
        (ROWS, COLUMNS, ROWS),
        (ROWS, Mma((2, 2)), Operand(16, 0, (2, 2)), Operand(16, 1, (2, 2))),
        (COLUMNS, Mma((4, 1))),
    ],
)
def test_families(elem, families):
    report = run([f.linear((64, 32)) for f in families], (64, 32), elem)
    assert not report.conflicts


PAIRS = Blocked((2, 2), (2, 16), (4, 1), (1, 0))
"""A warp holds the same rows as in ROWS."""


def test_warp_local_conversions_use_no_block_barrier():
    columns = Blocked((4, 1), (1, 32), (4, 1), (1, 0))
    for elem in ELEMS:
        report = run([f.linear((16, 32)) for f in (ROWS, PAIRS, columns, ROWS)], (16, 32), elem)
        assert "bar.sync" not in report.instructions


def test_narrow_elements_share_shuffles():
    """Each of four registers comes from one of two: bytes travel together, i64 in halves."""
    counts = {}
    for elem in ("i8", "f32", "i64"):
        report = run([ROWS.linear((16, 32)), PAIRS.linear((16, 32))], (16, 32), elem)
        counts[elem] = sum(n for name, n in report.instructions.items() if name.startswith("shfl")) // 4
    assert counts == {"i8": 2, "f32": 8, "i64": 16}


@pytest.mark.parametrize(
    ("elem", "index", "per_thread", "order"),
    [
        ("f16", 0, (1, 8), (1, 0)), ("f16", 0, (8, 1), (0, 1)), ("f16", 1, (1, 8), (1, 0)), ("f16", 1, (8, 1), (0, 1)),
        ("i8", 0, (1, 16), (1, 0)), ("f32", 0, (1, 4), (1, 0)), ("f32", 1, (4, 1), (0, 1)),
    ],
)  # fmt: skip
def test_operands_are_read_as_matrices(elem, index, per_thread, order):
    """Where a thread holds 16 bytes of a row of matrices; of 16-bit elements, of a column too. No bank conflicts."""
    blocked = Blocked(per_thread, (8, 4) if order == (1, 0) else (4, 8), (2, 2), order)
    operand = Operand(8 * Scalar(elem).bytes, index, (2, 2))
    report = run([blocked.linear((64, 64)), operand.linear((64, 64))], (64, 64), elem)
    assert any(name.startswith("ldmatrix") for name in report.instructions)
    assert not any(name.startswith("ld.shared") for name in report.instructions)
    assert not report.conflicts


def test_one_barrier_between_users_of_staging():
    """Store, barrier, load; barrier, store, barrier, load."""
    report = run([f.linear((64, 64)) for f in (ROWS, COLUMNS, ROWS)], (64, 64), "f32")
    assert report.instructions["bar.sync"] == 4 * 3


@given(data=st.data())
@LAWS
def test_random_families(data):
    shape = (64, 32)
    layouts = [data.draw(distributed(shape)) for _ in range(3)]
    run(layouts, shape, data.draw(st.sampled_from(ELEMS)), seed=data.draw(st.integers(0, 3)))


@given(data=st.data())
@LAWS
def test_random_maps(data):
    shape = data.draw(st.sampled_from([(16, 32), (8, 8), (64, 32)]))
    layouts = [data.draw(any_map(shape)) for _ in range(3)]
    run(layouts, shape, data.draw(st.sampled_from(ELEMS)), seed=data.draw(st.integers(0, 3)))

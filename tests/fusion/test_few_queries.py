"""Attention of few queries: heads that share keys are rows, keys are split, and every kernel of it runs on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse import compiler
from graphfuse.blockgen.gpu_key_parts import KEYS, key_parts
from graphfuse.dialects import graph
from graphfuse.fusion.products.join_heads import join_heads
from graphfuse.fusion.products.split_keys import keys_in_parts
from graphfuse.fusion.regions.outline import outline
from graphfuse.fusion.regions.rules import Rules
from graphfuse.interp.graph import run
from graphfuse.ir.core import Func, tensor_of
from graphfuse.ir.verifier import verify
from graphfuse.knobs import Options
from graphfuse.targets.machine import GpuMachine
from tests.blockgen.cases import CAUSAL, MASK, attention, softmax
from tests.blockgen.support import AVX512, Case, check_blocks, graph_func
from tests.machine import HOST

GPU = Rules(reads_padded=True)


def kernels(func: Func) -> list[object]:
    """Their kinds."""
    regions, _ = outline(func, GPU)
    return [op.attrs["kind"] for op in regions.walk() if op.kind is graph.region]


def assert_same(new: Func, case: Case) -> None:
    """The kernels of `new` make what the case does, as far as floats of its element can."""
    verify(new)
    arrays = case.arrays({})
    check_blocks(outline(new, GPU)[0], arrays, GpuMachine())
    (got,), (want,) = (run(f, *arrays) for f in (new, case.func))
    close = {np.dtype(np.float32): 1e-5}.get(want.dtype, 4e-3)
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), close, close)


@pytest.mark.parametrize(
    ("queries", "keys", "part", "body", "params", "elem"),
    [
        (1, 256, 64, MASK, ", mask: 1x1x1x256xf32", "f32"),
        (3, 199, 64, MASK, ", mask: 1x1x3x199xf32", "f32"),
        (5, 211, 32, CAUSAL.replace("(OFFSET)", "0"), "", "f32"),  # most parts have no key that is seen
        (5, 211, 32, CAUSAL.replace("(OFFSET)", "206"), "", "f32"),
        (1, 131, 64, "", "", "f16"),
    ],
)
def test_parts_of_keys_give_the_whole(
    queries: int, keys: int, part: int, body: str, params: str, elem: str
) -> None:  # fmt: skip
    case = attention("few", "1", str(queries), str(keys), 2, 24, body, params, elem=elem)
    split = keys_in_parts(case.func, lambda *_: part)
    assert kernels(split) == ["attention", "reduction"]
    assert_same(split, case)


@pytest.mark.parametrize("guard", ["", "isn = isnan(y)", "low = full() {shape = [2, 1, 1], elem = f32, value = -inf}"])
def test_rows_that_see_nothing(guard: str) -> None:
    """They are NaN, or 0 where that is wanted, also of what is NaN for another reason."""
    probabilities = softmax(2, "2, 1, 200").replace("return(y)", "").replace("(x", "(s")
    zero = "z = full() {shape = [2, 1, 200], elem = f32, value = 0.0}"
    if guard.startswith("low"):
        guard += "; row = eq(m, low); isn = broadcast(row) {shape = [2, 1, 200]}"
    func = graph_func(
        "q: 2x1x8xf32, k: 2x200x8xf32, mask: 2x1x200xf32",
        f"""p = contract(q, k) {{spec = "bqd,bkd->bqk"}}; s = add(p, mask); {probabilities}
        {f"{zero}; {guard}; w = select(isn, z, y)" if guard else "w = add(y, y)"}
        o = contract(w, k) {{spec = "bqk,bkd->bqd"}}; return(o)""",
    )
    q, k, mask = Case("few", (), func).arrays({})
    mask[0], mask[1, :, :190] = -np.inf, -np.inf
    for worst in (1.0, np.nan):
        q[1, 0, 0] = worst
        split = keys_in_parts(func, lambda *_: 64)
        assert len(kernels(split)) == (2 if guard else len(kernels(func)))
        (got,), (want,) = (run(f, q, k, mask) for f in (split, func))
        np.testing.assert_allclose(got, want, 1e-5, 1e-5)


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("order", ["bhqd", "bqhd"])
def test_heads_that_share_keys_are_rows(queries: int, order: str) -> None:
    """Also of results in another order, and with a mask for each query."""
    shape = f"1, 6, {queries}, 37"
    func = graph_func(
        f"q: 1x6x{queries}x16xf32, k: 1x2x37x16xf32, mask: 1x1x{queries}x37xf32",
        f"""k5 = reshape(k) {{shape = [1, 2, 1, 37, 16]}}; k6 = broadcast(k5) {{shape = [1, 2, 3, 37, 16]}}
        kk = reshape(k6) {{shape = [1, 6, 37, 16]}}; p = contract(q, kk) {{spec = "bhqd,bhkd->bhqk"}}
        ma = broadcast(mask) {{shape = [{shape}]}}; s = add(p, ma)
        {softmax(3, shape).replace("return(y)", "").replace("(x", "(s")}
        o = contract(y, kk) {{spec = "bhqk,bhkd->{order}"}}; return(o)""",
    )
    joined = join_heads(func)
    scores = next(op for op in joined.walk() if op.kind is graph.contract)
    assert tensor_of(scores.result).shape == (1, 2, 3 * queries, 37)
    assert_same(joined, Case("shared", (), func))
    assert_same(keys_in_parts(joined, lambda *_: 16), Case("shared", (), func))
    on_cpu = compiler.stages(func, HOST, Options()).regions
    assert {tensor_of(op.operands[0]).shape for op in on_cpu.walk() if op.kind is graph.contract} == {
        (1, 2, 3 * queries, 16), (1, 2, 3 * queries, 37),
    }  # fmt: skip
    check_blocks(outline(joined)[0], Case("shared", (), func).arrays({}), AVX512)


def test_heads_of_nothing_stay_whole() -> None:
    assert key_parts(GpuMachine())(1, 1, 128, 0, 64) == 128


@pytest.mark.parametrize(("heads", "keys"), [(1, 1 << 17), (8, 8192), (48, 4096), (140, 4096)])
def test_parts_leave_no_multiprocessor_idle(heads: int, keys: int) -> None:
    machine = GpuMachine()
    part = key_parts(machine)(heads, 4, keys, 256, 64)
    assert part % KEYS == 0
    programs = heads * -(-keys // part)
    rounds = -(-programs // machine.multiprocessors)
    assert programs > 0.8 * rounds * machine.multiprocessors


@pytest.mark.parametrize(("heads", "keys"), [(1, 64), (272, 112), (132 * 8, 8192)])
def test_what_fills_the_machine_stays_whole(heads: int, keys: int) -> None:
    assert key_parts(GpuMachine())(heads, 4, keys, 256, 64) == keys

"""Attention for sm_90a, in the emulator with its checks, beside the block interpreter."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from benchmarks.attention_regions import Attention, compiled, graph_of
from graphfuse.blockgen import gpu_attention_tile
from graphfuse.compiler import build, stages
from graphfuse.dialects import block, control, gpu
from graphfuse.gpu import assembler, graph_passes
from graphfuse.gpu.lower import emit_ptx, lower
from graphfuse.gpu.pipeline import transformed
from graphfuse.interp.block import launch
from graphfuse.ir.core import Func
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.types import scalar
from graphfuse.ir.verifier import verify
from graphfuse.knobs import Options
from graphfuse.targets import Target
from tests.gpu.test_hopper import emulate

TARGET = Target.parse("cuda:sm_90a")
ULP = {"f16": 2.0**-11, "bf16": 2.0**-8}


def inputs(attention, seed=0):
    rng = np.random.default_rng(seed)
    out = []
    for name, elem, shape in attention.inputs:
        if elem == "bool":
            real = rng.random(shape) < 0.7
            real[0, :] = False  # a batch that attends to nothing
            out.append(real)
            continue
        array = rng.standard_normal(shape).astype(np.float32)
        if name == "mask":
            array[rng.random(shape) < 0.3] = -np.inf
        out.append(array.astype(numpy_dtype(scalar(elem))))
    return out


def with_tile(attention, **fields):
    """The block function, its tile changed."""
    choose = gpu_attention_tile.attention_tiles
    with patch.object(gpu_attention_tile, "attention_tiles", lambda *args: [replace(choose(*args)[0], **fields)]):
        return compiled(attention)[0]


def check(attention, attrs=None, **fields):
    func = with_tile(attention, **{**PAIR, **fields})
    func = Func(func.name, func.body, {**func.attrs, **(attrs or {})}, func.dims)
    roles = transformed(func, TARGET)
    verify(roles)
    assert any(op.kind is gpu.wgmma for op in roles.walk()), roles.attrs.get(gpu.WITHOUT_WGMMA)
    lowered = lower([roles], TARGET)
    arrays, dtype = inputs(attention), numpy_dtype(scalar(attention.elem))
    want, got = np.zeros(attention.output, dtype), np.zeros(attention.output, dtype)
    symbols = {"k": attention.keys, "q": attention.queries} if attention.symbolic else {}
    launch(func, [*(a.reshape(-1) for a in arrays), want.reshape(-1)], symbols)
    emulate(emit_ptx(lowered), lowered.kernels[0], arrays, [got], symbols)
    # probabilities are rounded to halves, which the last bit of an exponential may move to the next one
    ulp = ULP[attention.elem]
    np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=4 * ulp, atol=2 * ulp)


PAIR = {"rows": 128, "resident": 1, "turns": True}
SMALL = Attention(1, 2, 128, 128, 64)
CAUSAL = replace(SMALL, queries=256, keys=256, causal=True)


@pytest.mark.some(11)
@pytest.mark.some(5)
@pytest.mark.parametrize(
    "attention",
    [
        SMALL,
        replace(CAUSAL, keys=384, layout="bshd"),
        replace(CAUSAL, layout="packed", queries=200, keys=200, batch=2),
        replace(SMALL, queries=200, keys=300, layout="bshd", elem="bf16"),
        replace(SMALL, depth=128, queries=129, keys=257, causal=True),
        replace(SMALL, depth=96, queries=100, keys=150, layout="bshd"),
        replace(SMALL, depth=256, queries=130, keys=100),
        replace(SMALL, depth=32, values=128, keys=100),
        replace(SMALL, queries=384, keys=384, causal=True, window=200),
        replace(SMALL, queries=300, keys=100, causal=True),
        replace(SMALL, queries=200, keys=300, symbolic=True),
        replace(SMALL, queries=100, keys=300, symbolic=True, causal=True),
        replace(SMALL, queries=200, keys=200, table=True),
        replace(CAUSAL, batch=2, layout="packed", padding=True),
    ],
    ids=str,
)
def test_attention(attention):
    check(attention)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "attention",
    [
        replace(SMALL, heads=1, depth=576, values=512, queries=64, keys=96),
        replace(SMALL, depth=320, queries=70, keys=100, layout="bshd", elem="bf16"),
        replace(CAUSAL, depth=264, values=64, queries=100, keys=200),
        replace(SMALL, heads=1, depth=640, values=72, queries=90, keys=130, symbolic=True),
    ],
    ids=str,
)
def test_deep_queries(attention):
    """In parts, each a product of its own."""
    func = compiled(attention)[0]
    assert gpu.WITHOUT_WGMMA not in func.attrs
    check(attention, rows=64, turns=False, resident=1, persistent=0)


WIDE = Attention(1, 1, 100, 150, 64, values=512)


@pytest.fixture
def keys_in_one_part(monkeypatch):
    """Few programs would have parts."""
    monkeypatch.setattr(graph_passes, "key_parts", lambda _machine: lambda _heads, _rows, keys, *_: keys)


@pytest.mark.some(3)
@pytest.mark.usefixtures("keys_in_one_part")
@pytest.mark.parametrize(
    "attention",
    [
        replace(WIDE, depth=512, elem="bf16"),
        replace(WIDE, values=384, heads=2, layout="bshd"),
        replace(WIDE, queries=90, keys=130, causal=True, symbolic=True),
        replace(WIDE, queries=200, keys=100, causal=True),
        replace(WIDE, batch=2, padding=True),
        replace(WIDE, values=600),
    ],
    ids=str,
)
def test_two_warpgroups_share_wide_results(attention):
    """The second one has its half of the columns from what the first sends it; the loops may not run at all."""
    check(attention)
    roles = transformed(compiled(attention)[0], TARGET)
    (op,) = [op for op in roles.walk() if op.kind is gpu.warp_specialize]
    assert op.attrs["warps"] == (4, 4, 4)


@pytest.mark.some(1)
@pytest.mark.usefixtures("keys_in_one_part")
@pytest.mark.parametrize("keys", [40, 100, 150])
def test_rings_go_on_from_one_wide_result_to_the_next(keys):
    """What the first sends for a tile's only block waits for what the second has read of the tile before."""
    check(replace(WIDE, queries=64, keys=keys, heads=7), {"persistent": 1})


@pytest.mark.usefixtures("keys_in_one_part")
def test_wide_results_beside_many_queries_have_no_room():
    """Two blocks of 32 keys and values beside queries of 1280 bytes each: half of the columns are a program's."""
    deep = replace(WIDE, queries=64, depth=640)
    func = transformed(compiled(deep)[0], TARGET)
    (op,) = [op for op in func.walk() if op.kind is gpu.warp_specialize]
    assert op.attrs["warps"] == (4, 4)
    assert func.attrs["grid"] == 2


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("fields", "attrs"),
    [
        ({"rows": 64}, {}),
        ({"rows": 64, "resident": 2, "query_words": True}, {}),
        ({"persistent": 1, "query_words": True}, {"ring": 2}),
        ({"turns": False}, {}),
    ],
    ids=str,
)
def test_schedules(fields, attrs):
    check(CAUSAL, attrs, **fields)


def loops_of(attention):
    func = with_tile(attention, **PAIR)
    return [op for op in func.body.ops if op.kind is control.for_]


def test_masks_are_for_the_diagonal():
    """Blocks that are seen whole have no comparisons; keys behind the diagonal are not visited."""
    some, whole = loops_of(CAUSAL)
    compares = block.ELEMENTWISE["le"]
    assert any(op.kind is compares for op in some.body.ops)
    assert not any(op.kind in (compares, block.arange) for op in whole.body.ops)
    assert len(loops_of(SMALL)) == 1


def test_a_window_has_two_edges():
    assert len(loops_of(replace(SMALL, queries=512, keys=512, causal=True, window=300))) == 3


ASSEMBLED = [Attention(4, 32, 4096, 4096, d, causal=c) for d in (64, 128) for c in (False, True)]


@pytest.mark.parametrize("attention", [*ASSEMBLED, Attention(1, 8, 4096, 4096, 512, causal=True)], ids=str)
def test_nothing_is_serialised(attention):
    func = transformed(compiled(attention)[0], TARGET)
    done = assembler.assemble(emit_ptx(lower([func], TARGET)).rstrip("\0\n") + "\n", "sm_90a")
    if done is None:
        pytest.skip("no assembler")
    assert not done.warnings
    (found,) = done.resources.values()
    assert found.spill_bytes == 0


def test_other_machines_have_mma():
    """The same region on sm_80, by `mma.sync`."""
    func, _ = compiled(SMALL, "cuda:sm_80")
    lowered = lower([transformed(func, Target.parse("cuda:sm_80"))], Target.parse("cuda:sm_80"))
    ptx = emit_ptx(lowered)
    assert "mma.sync" in ptx
    assert "wgmma" not in ptx


def test_the_ledger_says_what_was_not_done():
    """Masks from memory bound nothing; rows of 40 bytes are no boxes."""
    plain = replace(SMALL, queries=64, keys=64, table=True)
    notes = {d.reason for d in stages(graph_of(plain), TARGET, Options()).ledger if d.producer == "mask"}
    assert notes == {"no mask by indices is among what is added or chosen"}
    narrow = graph_of(replace(plain, table=False, depth=20))
    names = {"inputs": ("q", "k", "v"), "outputs": ("y",)}
    built = build(Func(narrow.name, narrow.body, names, narrow.dims), TARGET, Options())
    assert [n["reason"] for n in built.ledger if n["producer"] == "wgmma"] == ["rows that are no multiples of 16 bytes"]


WHY = {
    "queries have several dims, or more elements than shared memory has room for": replace(SMALL, depth=1280, keys=64),
    "fewer than 32 queries": replace(SMALL, queries=16),
    "operands have no element of 16 bits in common": replace(SMALL, elem="f32"),
}


@pytest.mark.parametrize("why", WHY)
def test_why_tensor_cores_are_not_fed(why):
    assert compiled(WHY[why])[0].attrs[gpu.WITHOUT_WGMMA] == why


def test_why_not():
    """Keys that are aligned to 2 bytes are no box; the reason stays on the function."""
    func, _ = compiled(replace(SMALL, depth=64))
    odd = Func(func.name, func.body, {**func.attrs, "alignments": (16, 2, 16, 16)}, func.dims)
    why = "the keys: in1 begins at no multiple of 16 bytes"
    assert transformed(odd, TARGET).attrs[gpu.WITHOUT_WGMMA] == why


def test_a_warp_that_comes_late_finds_the_phase_it_waits_for():
    """A slot is waited for twice, so it is free when every warp has passed: one for all could be two phases ahead."""
    roles = transformed(compiled(replace(CAUSAL, keys=384, layout="bshd"))[0], TARGET)
    body = next(op for op in roles.walk() if op.kind is control.for_ and any(o.kind is gpu.wgmma for o in op.body.ops))
    waits = [op.operands for op in body.body.ops if op.kind is gpu.wait]
    twice = {slot for barriers, slot in waits if waits.count((barriers, slot)) > 1}
    arrivals = [op for op in body.body.ops if op.kind is gpu.arrive and op.operands[1] in twice]
    assert arrivals
    for op in arrivals:
        empty = op.operands[0].op
        assert op.attrs["every_warp"]
        assert empty.attrs["arrivals"] % 4 == 0


@pytest.mark.full
def test_masks_from_memory_in_many_blocks():
    """With one arrival for four warps, some of these 192 programs waited for ever."""
    check(Attention(2, 12, 512, 512, 64, layout="packed", padding=True))

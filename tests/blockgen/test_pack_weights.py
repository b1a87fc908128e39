"""Weights in panels: the same values, and one copy of a table that is looked up as well as multiplied by."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.blockgen.pack_weights import pack_for_machine
from graphfuse.dialects import control, graph
from graphfuse.fusion.regions.outline import outline
from graphfuse.interp import graph as interp
from graphfuse.ir.core import Block, Builder, Func, Params
from graphfuse.ir.dense import Dense
from graphfuse.ir.types import F32, I64, Tensor
from graphfuse.ir.verifier import verify
from tests.blockgen.support import AVX2, MACHINES, check_blocks

VOCABULARY, WIDTH, TOKENS = 37, 20, 5
RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((VOCABULARY, WIDTH), dtype=np.float32)
INPUTS = [np.array([3, 36, 0, 16, -1]), RNG.standard_normal((TOKENS, WIDTH), dtype=np.float32)]


def embedding(*, tied: bool) -> Func:
    """Rows of a table, and the product of something with that table, or with another."""
    params = Params((Tensor((TOKENS,), I64), Tensor((TOKENS, WIDTH), F32)), ("tokens", "x"))
    b = Builder()
    table = b(graph.constant, value=Dense(TABLE))
    head = table if tied else b(graph.constant, value=Dense(2 * TABLE))
    rows = b(graph.take, table, params.values[0], axis=0)
    logits = b(graph.contract, params.values[1], head, spec="mk,nk->mn")
    b.op(control.return_, b(graph.neg, rows), logits)
    return Func("main", Block(params, tuple(b.ops)), {}, ())


def constants(func: Func) -> dict[str, tuple[int, ...]]:
    """Shapes of the distinct constants, by digest."""
    dense = [op.attrs["value"] for op in func.walk() if op.kind is graph.constant]
    return {d.digest: d.shape for d in dense if isinstance(d, Dense)}


def test_a_tied_table_is_stored_once() -> None:
    packed = pack_for_machine(embedding(tied=True), AVX2)
    verify(packed)
    assert list(constants(packed).values()) == [(3, WIDTH, 16)]


def test_a_table_of_its_own_stays_as_it_is() -> None:
    shapes = constants(pack_for_machine(embedding(tied=False), AVX2)).values()
    assert sorted(shapes, key=len) == [(VOCABULARY, WIDTH), (3, WIDTH, 16)]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("tied", [True, False])
def test_the_values_are_the_same(tied: bool, machine: str) -> None:
    func = embedding(tied=tied)
    packed = pack_for_machine(func, MACHINES[machine])
    for want, got in zip(interp.run(func, *INPUTS), interp.run(packed, *INPUTS), strict=True):
        assert np.array_equal(want, got)
    check_blocks(outline(packed)[0], INPUTS, MACHINES[machine])

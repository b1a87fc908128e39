"""Products with matrices of few bits against the interpreter: block programs, interpreted and compiled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from graphfuse import checking
from graphfuse.blockgen.packed_product import MANY, packed_width
from graphfuse.dialects import block, control, graph
from graphfuse.fusion.quantised.pack_codes import pack_codes
from graphfuse.fusion.regions.outline import outline
from graphfuse.interp import graph as interp
from graphfuse.ir.core import Attr, Block, Func, Op, Params, Value, tensor_of
from graphfuse.ir.dense import Dense
from graphfuse.ir.types import BF16, F16, F32, I32, Scalar, Tensor
from graphfuse.symbolic import Dim, sym
from graphfuse.targets.cpu import machine_of
from graphfuse.targets.machine import GpuMachine, Machine
from tests.blockgen.support import MACHINES, Array, Case, check_blocks
from tests.machine import HOST

N = sym("n")


@dataclass(frozen=True)
class Packed:
    """A product of x [lead.., k] with a drawn matrix, dequantised as exporters write it, and what follows of it."""

    bits: int
    k: int
    columns: int
    block: int
    points: bool = False
    in_bytes: bool = False
    turned: bool = False
    elem: Scalar = F32
    lead: tuple[Dim, ...] = (N,)
    most: int = 9
    even: bool = False
    """Whether all scales are equal."""
    zero: int | None = None
    """That of all codes, where none is drawn; else the middle one."""

    def func(self) -> Func:
        """The function, with a residual and a bias."""
        rng = np.random.default_rng(7)
        shape = (self.columns, self.k)
        codes = rng.integers(0, 1 << self.bits, shape, np.uint8)
        few = self.columns, self.k // self.block
        scale = (rng.random(few) / 16 * (not self.even) + 1 / 64).astype(np.float32)
        middle = 1 << self.bits - 1 if self.zero is None else self.zero
        zero = rng.integers(0, 1 << self.bits, few).astype(np.int32) if self.points else np.array(middle)
        params = Params((Tensor((*self.lead, self.k), self.elem), Tensor((*self.lead, self.columns), F32)), ("x", "r"))
        x, r = params.values
        ops = list[Op]()

        def add(op: Op) -> Value:
            ops.append(op)
            return op.result

        def known(array: Array) -> Value:
            return add(graph.constant(value=Dense(array)))

        def spread(array: Array) -> Value:
            if not array.shape:
                return add(graph.full(shape=shape, elem=I32, value=int(array)))
            wide = add(graph.broadcast(known(array[..., None]), shape=(*few, self.block)))
            return add(graph.reshape(wide, shape=shape))

        ints = add(graph.sub(add(graph.cast(known(codes), to=I32)), spread(zero)))
        w = add(graph.mul(add(graph.cast(ints, to=F32)), spread(scale)))
        w = w if self.elem == F32 else add(graph.cast(w, to=self.elem))
        w = add(graph.permute(w, perm=(1, 0))) if self.turned else w
        lead = "abm"[-len(self.lead) :]
        spec = f"{lead}k,{'kn' if self.turned else 'nk'}->{lead}n"
        attrs: dict[str, Attr] = {"rounded_block": self.block} if self.in_bytes else {}
        y = add(graph.contract.build([x, w], {"spec": spec, "elem": F32, **attrs}))
        out = add(graph.neg(add(graph.add(y, r))))
        ops.append(control.return_(out))
        dims = (("n", 1, self.most),) if N in self.lead else ()
        return Func("main", Block(params, tuple(ops)), {}, dims)


CASES = {
    "rows": Packed(4, 64, 40, 32),
    "points": Packed(4, 96, 33, 16, points=True, turned=True),
    "bytes": Packed(4, 128, 70, 32, in_bytes=True),
    "bytes, points": Packed(2, 128, 31, 64, points=True, in_bytes=True, turned=True),
    "bytes, even": Packed(4, 128, 40, 16, in_bytes=True, even=True),
    "even": Packed(4, 128, 40, 16, even=True),
    "long blocks": Packed(8, 512, 40, 256, points=True),
    "eight bits": Packed(8, 24, 65, 4),
    "eight bits in bytes": Packed(8, 72, 17, 8, in_bytes=True, points=True),
    "two bits, one block": Packed(2, 64, 64, 64),
    "halves": Packed(4, 64, 48, 32, elem=BF16),
    "batches": Packed(4, 32, 48, 16, lead=(2, N)),
    "many": Packed(4, 64, 72, 32, points=True, lead=(MANY + 5,)),
    "few or many": Packed(4, 32, 40, 32, most=4 * MANY),
    "many halves": Packed(8, 32, 40, 32, elem=BF16, lead=(3, MANY - 1)),
    "one": Packed(4, 64, 32, 32, lead=(1,)),
}


GPU_CASES = {
    "rows": Packed(4, 64, 40, 32),
    "points": Packed(4, 96, 33, 32, points=True, turned=True),
    "long blocks": Packed(8, 512, 40, 256, points=True, elem=F16),
    "even": Packed(4, 2048, 40, 32, even=True, elem=BF16),
    "eight bits": Packed(8, 48, 65, 16, elem=BF16),
    "far from zero": Packed(8, 48, 40, 16, zero=250),
    "below zero": Packed(4, 64, 40, 32, zero=-3, elem=F16),
    "two bits": Packed(2, 128, 64, 64, elem=F16, points=True),
    "batches": Packed(4, 64, 48, 32, lead=(2, N), elem=F16),
    "more blocks than warps": Packed(4, 1120, 32, 32, lead=(3,)),
    "tiles of rows": Packed(4, 128, 40, 64, most=70, elem=F16),
    "few or many": Packed(4, 128, 40, 128, most=40, elem=BF16),
    "one": Packed(4, 64, 32, 32, lead=(1,)),
    "one block": Packed(4, 32, 72, 32, lead=(1,), elem=F16),
    "scales of several parts, and one step": Packed(4, 512, 40, 128, lead=(70,), elem=F16),
}
GPU = GpuMachine(multiprocessors=1)
"""One multiprocessor: a program goes over all panels."""


def arrays(func: Func, n: int) -> list[Array]:
    return Case("", (), func).arrays({"n": n})


@pytest.mark.some(13)
@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_programs_compute_what_the_interpreter_does(case: Packed, machine: Machine) -> None:
    func = pack_codes(case.func(), width=packed_width(machine), least=1)
    regions, _ = outline(func)
    assert any(op.kind is graph.contract_packed for op in regions.walk())
    for n in (1, 2, 3, 4, 7) if N in case.lead else (1,):
        check_blocks(regions, arrays(func, n), machine)


@pytest.mark.parametrize("machine", [GPU, GpuMachine()], ids=["one program", "a program each"])
@pytest.mark.parametrize("case", GPU_CASES.values(), ids=GPU_CASES)
def test_programs_of_gpus(case: Packed, machine: Machine) -> None:
    func = pack_codes(case.func(), least=1, lines=True, warpgroups=True)
    regions, _ = outline(func)
    assert any(op.kind is graph.contract_packed for op in regions.walk())
    for n in (1, 9, case.most) if N in case.lead else (1,):
        kernels = check_blocks(regions, arrays(func, n), machine)
        assert any(op.kind is block.dot_codes for k in kernels for op in k.walk())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_is_the_product_that_it_was(case: Packed) -> None:
    before = case.func()
    after = pack_codes(before, width=16, least=1)
    (made,) = (op for op in after.walk() if op.kind is graph.contract_packed)
    blocks = 1 if case.even and not case.in_bytes else case.k // case.block
    assert tensor_of(made.operands[2]).shape[1] == blocks
    given = arrays(before, 5)
    (want,) = interp.run(before, *(a.astype(np.float64) for a in given), wide=True)
    (got,) = interp.run(after, *given)
    if case.in_bytes:  # an element of x is off by half of a 127th of the largest one of its block, at most
        blocks = np.abs(given[0]).reshape(*given[0].shape[:-1], -1, case.block).max(-1)
        assert 0 < np.abs(got - want).max() < blocks.max() / 254 * case.k * (1 << case.bits) * (1 / 16 + 1 / 64)
    else:
        np.testing.assert_allclose(got, want, rtol=0, atol=(1e-2 if case.elem == BF16 else 1e-5) * np.abs(want).max())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_compiled(case: Packed) -> None:
    func = pack_codes(case.func(), width=packed_width(machine_of(HOST)), least=1)
    for n in (1, 3, 8, *([MANY, 50] if case.most > MANY else [])) if N in case.lead else (1,):
        for report in checking.verify_regions(func, HOST, arrays(func, n)):
            assert not report.is_suspect, report

"""Bugs planted in the PTX of data exchange: the emulator reports each, or the numbers are wrong, as it should be.

Every barrier is dropped in turn, so that none is there without a need.
"""

import re

import numpy as np
import pytest

from graphfuse.gpu import lower
from graphfuse.gpu.emulator import Buffer, EmulatorError
from graphfuse.ir.layout import Mma
from graphfuse.ir.parser import parse
from tests.gpu.launching import SM_80, compiled, emulate, numbers
from tests.gpu.test_convert_lowering import COLUMNS, ROWS, program
from tests.gpu.test_pipeline_loads import matmul
from tests.gpu.test_reduce import SOFTMAX

SEEDS = range(4)
BARRIER = r"bar\.sync \t0;"


class Case:
    """PTX, a launch, and what it gives."""

    def __init__(self, ptx, kernel, inputs, shape, symbols=None):
        self.ptx, self.kernel, self.inputs, self.shape, self.symbols = ptx, kernel, inputs, shape, symbols
        self.right = self.run(ptx, 0)

    def run(self, ptx, seed):
        out = np.zeros(self.shape, np.float32)
        inputs = [x.copy() for x in self.inputs]
        emulate(ptx, self.kernel, [*inputs, Buffer(out, initialised=False)], seed=seed, symbols=self.symbols)
        return out

    def planted(self, pattern, replacement, which=0):
        """What comes of a change to one place: the emulator's message, `wrong` numbers, or nothing."""
        places = list(re.finditer(pattern, self.ptx))
        assert len(places) > which, f"{pattern} is not in the text"
        start, end = places[which].span()
        changed = self.ptx[:start] + re.sub(pattern, replacement, self.ptx[start:end]) + self.ptx[end:]
        for seed in SEEDS:
            try:
                out = self.run(changed, seed)
            except EmulatorError as e:
                return str(e)
            if not np.allclose(out, self.right, rtol=1e-3, atol=1e-6, equal_nan=True):
                return "wrong"
        return ""


def pipelined(**options):
    rng = np.random.default_rng(0)
    size = (40, 40, 136)
    ptx, kernel = compiled(matmul((32, 32, 32), size, **options))
    return Case(ptx, kernel, [numbers(rng, (40, 136), "f16"), numbers(rng, (136, 40), "f16")], (40, 40), {"t": 5})


def converted():
    layouts = [f.linear((64, 32)) for f in (ROWS, COLUMNS, Mma((2, 2)))]
    text = program(layouts, (64, 32), "f32")
    text = re.sub(r"%o1: ptr<f32>, |  block.store_view\(%o1.*\n", "", text)
    lowered = lower.lower([parse(text)], SM_80)
    x = numbers(np.random.default_rng(0), (64, 32), "f32")
    return Case(lower.emit_ptx(lowered), lowered.kernels[0], [x], (64, 32))


def softmax():
    ptx, kernel = compiled(SOFTMAX)
    return Case(ptx, kernel, [numbers(np.random.default_rng(0), (2, 1000), "f32")], (2, 1000), {"n": 2})


@pytest.mark.parametrize("make", [converted, softmax, pipelined])
def test_every_barrier_is_needed(make):
    case = make()
    count = len(re.findall(BARRIER, case.ptx))
    assert count == {"converted": 3, "softmax": 2, "pipelined": 1}[make.__name__]
    for i in range(count):
        message = case.planted(BARRIER, "", i)
        assert re.search("race|uninitialised", message), (i, message)


@pytest.mark.parametrize("stages", [2, 3])
def test_dropped_or_short_waits(stages):
    case = pipelined(stages=stages)
    wait = rf"cp\.async\.wait_group {stages - 2};"
    assert "in flight" in case.planted(wait, "")
    assert "in flight" in case.planted(wait, f"cp.async.wait_group {stages - 1};")


def test_a_group_that_is_not_closed():
    """One group less than the waits count on."""
    assert "in flight" in pipelined().planted(r"cp\.async\.commit_group;", "", 1)


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"setp\.lt\.s32 (.*)", r"setp.le.s32 \1"),  # a row too many
        (r"min\.s32 (.*), 8;", r"min.s32 \1, 7;"),  # part of a vector too few
        (r"max\.s32 (.*), 0;", r"max.s32 \1, 1;"),  # one element where there is none
        (r"setp\.gt\.s64 (.*), 0;", r"setp.gt.s64 \1, 5;"),  # no first copy
    ],
)
def test_wrong_masks(pattern, replacement):
    assert pipelined().planted(pattern, replacement)


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"selp\.b32 (.*), 4096, (.*)", r"selp.b32 \1, 2048, \2"),  # fills the buffer that is being read
        (r"setp\.eq\.b64 (.*), 2;", r"setp.eq.b64 \1, 1;"),  # turns round too early
        (r"add\.s64 (.*), 2;", r"add.s64 \1, 3;"),  # ends a copy too early
        (r"add\.s64 (.*), 64;", r"add.s64 \1, 32;"),  # goes half as far along k
    ],
)
def test_off_by_one(pattern, replacement):
    assert pipelined().planted(pattern, replacement)


def test_wrong_swizzles():
    case = pipelined()
    for i in range(2):  # of the left operand, of the right
        assert case.planted(r"xor\.b32 (.*), 32;", r"xor.b32 \1, 16;", i)
    assert case.planted(r"ldmatrix(.*)\.trans", r"ldmatrix\1")
    assert converted().planted(r"xor\.b32 (.*), 72;", r"xor.b32 \1, 64;")


def test_a_wrong_neutral_element():
    case = softmax()
    assert case.planted(r"selp\.f32 (.*), 0f00000000,", r"selp.f32 \1, 0f3F800000,") == "wrong"
    assert case.planted(r"shfl\.sync\.bfly\.b32 (.*), 16, 31", r"shfl.sync.bfly.b32 \1, 8, 31", 1) == "wrong"

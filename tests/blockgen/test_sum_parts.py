"""Which products are made in parts that another kernel sums."""

from __future__ import annotations

from graphfuse.blockgen.gpu_sum_parts import sum_parts
from graphfuse.ir.types import BF16, F32
from graphfuse.targets.machine import GpuMachine

HOPPER = GpuMachine(has_wgmma=True)


def test_few_tiles_of_a_deep_sum_are_made_in_parts():
    parts = sum_parts(HOPPER)(512, 512, 1, 16384, BF16)
    assert parts is not None
    assert parts >= 4
    assert 16384 % (8 * parts) == 0, "parts begin at multiples of 16 bytes"


def test_the_last_step_of_a_part_may_be_filled_up():
    assert sum_parts(HOPPER)(80, 80, 1, 32 * 34 * 34, BF16) == 16


def test_what_fills_the_machine_or_is_bound_by_memory_stays_whole():
    for m, n, k in ((4096, 4096, 4096), (2048, 768, 3072), (1024, 1024, 4096), (64, 4096, 4096), (16, 4096, 4096)):
        assert sum_parts(HOPPER)(m, n, 1, k, BF16) == 1, (m, n, k)
    assert sum_parts(HOPPER)(512, 512, 64, 16384, BF16) == 1, "a batch"


def test_a_depth_of_no_whole_parts_stays_whole():
    assert sum_parts(HOPPER)(512, 512, 1, 16384 + 1, BF16) == 1


def test_other_machines_and_elements_do_not_tell():
    assert sum_parts(GpuMachine())(512, 512, 1, 16384, BF16) is None
    assert sum_parts(HOPPER)(512, 512, 1, 16384, F32) is None
    assert sum_parts(HOPPER)(0, 512, 1, 16384, BF16) is None

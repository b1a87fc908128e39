"""Products of other elements, and of several in a step, assemble with no wgmma serialised and nothing spilled."""

from __future__ import annotations

import pytest

from benchmarks.gpu_gemm_kinds import SETS, contestants
from graphfuse.gpu.assembler import assemble
from graphfuse.gpu.lower import emit_ptx, lower
from graphfuse.gpu.pipeline import transformed
from graphfuse.ir.parser import parse
from graphfuse.targets import Target

TARGET = Target.parse("cuda:sm_90a")


@pytest.mark.parametrize("kind", SETS)
def test_nothing_is_serialised(kind):
    codes = {stage.code for stages in contestants(kind, (4096, 4096, 4096)).values() for stage in stages}
    for code in sorted(codes):
        func = transformed(parse(code), TARGET)
        done = assemble(emit_ptx(lower([func], TARGET)).rstrip("\0\n") + "\n", "sm_90a")
        if done is None:
            pytest.skip("no assembler")
        assert not done.warnings
        (found,) = done.resources.values()
        assert found.spill_bytes == 0

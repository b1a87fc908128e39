"""What is known of machines: costs are fitted by commands that there are, and a GPU with another's costs says so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from graphfuse.targets.machine import Machine
from graphfuse.targets.profiles.h200 import H200
from graphfuse.targets.profiles.nvidia import GPUS

BENCHMARKS = {path.stem for path in (Path(__file__).parents[1] / "benchmarks").glob("*.py")}
GROUPS = [Machine().core, H200.wgmma, H200.epilogue, H200.mma, H200.uncopied, H200.memory, H200.parts]


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: type(g).__name__)
def test_costs_name_the_command_that_they_are_fitted_by(group: object) -> None:
    named = re.findall(r"`(?:python -m |python )?benchmarks[./](\w+)", type(group).__doc__ or "")
    assert named
    assert BENCHMARKS.issuperset(n for n in named if n != "results")


def test_a_gpu_with_the_costs_of_another_says_so() -> None:
    assert all(p.note for arch, p in GPUS.items() if p.machine.gpu is H200 and arch != "sm_90a")


CODE = """
import sys
from graphfuse.gpu.lower import emit_ptx, lower
from graphfuse.gpu.pipeline import transformed
from graphfuse.ir.parser import parse
from graphfuse.targets import Target

target = Target.parse(f"cuda:{sys.argv[1]}")
func = parse('''func @f(%x: ptr<f32>) {grid = 1} {
  %c = block.const() {elem = f32, shape = [128], value = 1.0} : tile<128xf32>
  %at = block.arange() {end = 128, start = 0} : tile<128xi64>
  block.store(%x, %at, %c)
  return()
}''')
print(emit_ptx(lower([transformed(func, target)], target)))
"""


@pytest.mark.parametrize("arch", GPUS)
def test_llvm_makes_code_for_it(arch: str) -> None:
    """A PTX version that is too old for the architecture ends the process, which is another one therefore."""
    done = subprocess.run([sys.executable, "-c", CODE, arch], check=False, capture_output=True, text=True)
    assert f".target {arch}" in done.stdout, done.stderr[-500:]

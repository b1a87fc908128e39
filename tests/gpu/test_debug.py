"""Printing and assertions on the emulator: the interpreter's lines, in any order; nothing without `debug`."""

from __future__ import annotations

import numpy as np
import pytest

from graphfuse.errors import GraphfuseError
from graphfuse.gpu.assembler import assemble
from graphfuse.gpu.pipeline import transformed
from graphfuse.interp.block import launch
from graphfuse.ir.parser import parse
from tests.gpu.launching import SM_80, SM_90A, compiled
from tests.gpu.programs import emulate

SHOW = """func @show(%x: ptr<f16>, %v: i32) {debug = true, grid = [1, 2], warps = 2} {
  %z = block.const() {elem = i64, value = 0} : i64
  %t = block.load_view(%x, %z) {shape = [3, 5], strides = [5, 1]} : tile<3x5xf16>
  %i = block.arange() {elem = i16, end = 4, start = -4} : tile<8xi16>
  block.print(%v, %z) {text = "v = %ld, %u of 100%%"}
  block.print(%t, %v) {text = "%8.3f and %d"}
  block.print(%i, %i) {text = "%d is %x"}
  return()
}"""


@pytest.mark.parametrize("target", [SM_80, SM_90A], ids=str)
def test_lines_name_the_program_and_the_element(target):
    x = np.linspace(-2, 2, 15).astype(np.float16)
    want = []
    launch(parse(SHOW), [x], {"v": -7}, out=want.append)
    report, ptx = emulate(SHOW, [x], {"v": -7}, target=target)
    assert sorted(report.printed.splitlines()) == sorted(want)
    made = assemble(ptx, target.cpu)
    assert made is None or made.cubin, "where there is an assembler"
    report, ptx = emulate(SHOW.replace("debug = true, ", ""), [x], {"v": -7}, target=target)
    assert (report.printed, "vprintf" in ptx) == ("", False)


CHECK = """func @checked(%n: i32) {ATTRSgrid = 1} {
  %i = block.arange() {elem = i32, end = 100, start = 0} : tile<100xi32>
  %n100 = block.splat(%n) {shape = [100]} : tile<100xi32>
  %small = block.lt(%i, %n100) : tile<100xbool>
  block.assert(%small) {message = "all are below n"}
  return()
}"""


def test_assertions():
    """What a padded tile holds beyond its end is not asked."""
    text = CHECK.replace("ATTRS", "debug = true, ")
    emulate(text, [], {"n": 100})
    with pytest.raises(GraphfuseError, match="assertion failed: all are below n at <string>:5"):
        emulate(text, [], {"n": 99})
    emulate(CHECK.replace("ATTRS", ""), [], {"n": 99})
    made = assemble(compiled(text)[0], "sm_80")
    assert made is None or made.cubin, "where there is an assembler"


def test_without_debug_nothing_is_left_of_it():
    """Not even what would keep a kernel from other passes, or what is computed for an assertion alone."""
    silent = SHOW.replace("debug = true, ", "")
    kinds = {op.kind.name for op in transformed(parse(silent)).walk()}
    assert kinds <= {"return", "block.load_view", "block.const"}

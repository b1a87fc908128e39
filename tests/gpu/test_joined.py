"""Kernels that LLVM compiles one by one are one module of PTX."""

import re

from graphfuse.gpu.assembler import assemble
from graphfuse.gpu.code import gpu_code, joined
from graphfuse.gpu.emulator import Emulator
from graphfuse.ir.parser import parse
from tests.gpu.launching import SM_90A

SAID = """func @NAME(%v: i32) {debug = true, grid = [1, 1], warps = 1} {
  %t = block.arange() {elem = i32, end = 4, start = 0} : tile<4xi32>
  block.print(%t) {text = "NAME %d"}
  block.print(%t) {text = "all %d"}
  return()
}"""


def test_declarations_and_constants_stand_there_once():
    made = gpu_code([parse(SAID.replace("NAME", name)) for name in ("first", "second")], SM_90A)
    ptx = made.code.ptx
    assert list(made.launches) == ["first", "second"]
    assert ptx.count(".version") == ptx.count(".target") == len(re.findall(r"\.extern \.func[^;]*vprintf", ptx)) == 1
    texts = re.findall(r"^\.global .*?(\w+)\[", ptx, re.MULTILINE)
    assert len(texts) == len(set(texts)) == 3, "one text for both, and one for each"
    printed = Emulator(ptx).launch("second", (1,), (32,), [7, 0]).printed
    assert {line.split("] ")[1].split()[0] for line in printed.splitlines()} == {"second", "all"}
    assembled = assemble(ptx, "sm_90a")
    assert assembled is None or assembled.resources.keys() == {"first", "second"}


def test_functions_of_several_lines_are_statements():
    head = "//\n// from LLVM\n//\n\n.version 8.0\n.target sm_90a\n.address_size 64\n"
    shared = ".func (.param .b32 r) f(\n\t.param .b32 a\n)\n{\n\t{ // inner\n\tret;\n\t}\n\n}\n"
    first, second = (f"\n\t// .globl\t{name}\n{shared}\n.visible .entry {name}()\n{{\n\tret;\n}}\n" for name in "ab")
    assert joined([head + first]) == head + first
    text = joined([head + first, head + second])
    assert text.count(".func") == text.count(".version") == 1
    assert text.index(".func") < text.index(".entry a") < text.index(".entry b")

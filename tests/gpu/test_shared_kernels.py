"""Kernels that parts of a program have in common are made once, unless a plan knows something else of arguments."""

import re
from typing import Any

import numpy as np
import pytest

from graphfuse.artifact import Executable
from graphfuse.compiler import build
from graphfuse.gpu import code
from graphfuse.gpu.assembler import Assembled
from graphfuse.gpu.emulator.driver import EmulatedDriver
from graphfuse.ir.parser import parse
from graphfuse.knobs import Options
from graphfuse.runtime.gpu.session import GpuSession
from graphfuse.targets import Target
from graphfuse.targets.sharing import shared_kernels

SM_90A = Target.parse("cuda:sm_90a")
N = 64
SUMS = f'%y = graph.cumulate(%x) {{axis = 1, kind = "sum"}} : tensor<{N}x{N}xf32>'
MOST = f'%z = graph.cumulate(%y) {{axis = 0, kind = "max"}} : tensor<{N}x{N}xf32>'
PRODUCT = f'%y = graph.contract(%x, %w) {{spec = "mk,kn->mn"}} : tensor<{N}x{N}xf32>'
EYE = " ".join(str(float(i % (N + 1) == 0)) for i in range(N * N))
WEIGHT = f"%w = graph.constant() {{value = dense<{N}x{N}xf32, [{EYE}]>}} : tensor<{N}x{N}xf32>"


def built(inputs: str, *lines: str) -> Executable:
    """A part that returns what its last line computes."""
    params = ", ".join(f"%{name}: tensor<{N}x{N}xf32>" for name in inputs)
    head = f'func @main({params}) {{inputs = [{", ".join(map(repr, inputs))}], outputs = ["out"]}}'.replace("'", '"')
    text = "\n".join((*lines, f"return({lines[-1].partition(' = ')[0]})"))
    return build(parse(f"{head} {{\n{text}\n}}"), SM_90A, Options())


def results(executable: Executable, **inputs: Any) -> Any:
    return GpuSession(executable, EmulatedDriver("sm_90a")).run(inputs)["out"]


def texts(executable: Executable) -> dict[str, str]:
    """Of kernels, by name."""
    found = re.findall(r"\.entry (\w+)\((.*?)^}", executable.code[str(SM_90A)].ptx, re.DOTALL | re.MULTILINE)
    return dict(found)


def test_a_kernel_of_two_parts_is_assembled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []

    def assemble(ptx: str, _arch: str, **_: Any) -> Assembled:
        given.append(ptx)
        return Assembled(f"cubin {len(given)}".encode(), {}, ())

    monkeypatch.setattr(code, "assemble", assemble)
    with shared_kernels():
        first, second = built("x", SUMS), built("x", SUMS, MOST)
    assert len(given) == 2
    assert first.code[str(SM_90A)].images == (b"cubin 1",)
    assert second.code[str(SM_90A)].images == (b"cubin 1", b"cubin 2")
    assert texts(first).items() < texts(second).items()
    x = np.random.default_rng(0).standard_normal((N, N)).astype(np.float32)
    np.testing.assert_allclose(results(second, x=x), np.maximum.accumulate(x.cumsum(1), 0), rtol=1e-4, atol=1e-4)


def test_names_are_those_of_one_program() -> None:
    with shared_kernels():
        parts = built("y", MOST), built("x", SUMS), built("x", SUMS, MOST)
    assert [list(texts(p)) for p in parts] == [["scan_0"], ["scan_1"], ["scan_1", "scan_0"]]
    assert list(texts(built("x", SUMS))) == ["scan_0"]


def test_a_kernel_that_reads_what_another_writes_is_another() -> None:
    """Weights and inputs are written by none, and may be read before the launch in front has ended."""
    again = PRODUCT.replace("%x", "%y").replace("%y =", "%z =")
    with shared_kernels():
        ways = built("xw", PRODUCT), built("xw", PRODUCT, again), built("x", WEIGHT, PRODUCT)
    first, second, third = map(texts, ways)
    assert first == third
    assert first.keys() == second.keys()
    assert first != second
    x, eye = np.random.default_rng(0).standard_normal((N, N)).astype(np.float32), np.eye(N, dtype=np.float32)
    np.testing.assert_allclose(results(ways[1], x=x, w=eye), x, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(results(ways[2], x=x), x, rtol=1e-4, atol=1e-4)

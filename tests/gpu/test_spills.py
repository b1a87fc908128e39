"""What spills registers is made another way: what an assembler says decides, and results stay what they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from graphfuse.compiler import build
from graphfuse.gpu import code
from graphfuse.gpu.assembler import Assembled, Resources
from graphfuse.gpu.emulator.driver import EmulatedDriver
from graphfuse.ir.core import Func
from graphfuse.knobs import Options
from graphfuse.runtime.gpu.session import GpuSession
from graphfuse.targets import Target
from tests.blockgen.support import graph_func

SM_90A = Target.parse("cuda:sm_90a")
COLUMNS = """s = reduce(x) {axes = [1], keepdims = true, kind = "sum"}; b = broadcast(s) {shape = [3, 300, 64]}
    y = sub(x, b); return(y)"""


def columns() -> Func:
    """Columns less their sums, of rows that lie side by side."""
    func = graph_func("x: 3x300x64xf32", COLUMNS)
    return replace(func, attrs={"inputs": ("x",), "outputs": ("y",)})


def assembler(monkeypatch: pytest.MonkeyPatch, spilled: Sequence[int]) -> list[str]:
    """One that says of each kernel text in turn how much it spills, of the last from then on: what it was given."""
    given: list[str] = []

    def assemble(ptx: str, _arch: str, **_: Any) -> Assembled:
        if ptx not in given:
            given.append(ptx)
        resources = Resources(64, spilled[min(given.index(ptx), len(spilled) - 1)], 0)
        return Assembled(b"", {"reduction_0": resources}, ())

    monkeypatch.setattr(code, "assemble", assemble)
    return given


@pytest.mark.parametrize(
    ("spilled", "compiled", "taken"),
    [((0,), 1, 0), ((8, 4, 0), 3, 2), ((8, 8, 12, 4), 6, 3), ((8,), 6, 0)],
)
def test_the_first_that_does_not_spill_is_taken_or_what_spills_least(
    monkeypatch: pytest.MonkeyPatch, spilled: Sequence[int], compiled: int, taken: int
) -> None:
    given = assembler(monkeypatch, spilled)
    executable = build(columns(), SM_90A, Options())
    assert len(given) == compiled
    assert executable.code[str(SM_90A)].ptx == given[taken]
    (launch,) = [k.launch for k in executable.kernels if k.launch is not None]
    assert launch.spill_bytes == spilled[min(taken, len(spilled) - 1)]
    reasons = [d["reason"] for d in executable.ledger if d["producer"] == "schedule"]
    assert reasons == ["what is faster by the model of the time spills registers"] * bool(taken)
    x = np.random.default_rng(0).standard_normal((3, 300, 64)).astype(np.float32)
    found = GpuSession(executable, EmulatedDriver("sm_90a")).run({"x": x})["y"]
    np.testing.assert_allclose(found, x - x.sum(1, keepdims=True), rtol=1e-5, atol=1e-4)


def test_an_assembler_that_says_nothing_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "assemble", lambda *_, **__: Assembled(b"", {}, ()))
    executable = build(columns(), SM_90A, Options())
    assert [k.launch.spill_bytes for k in executable.kernels if k.launch is not None] == [-1]

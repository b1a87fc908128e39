"""Every node beside ONNX Runtime: its import run by the interpreter, and (in full) compiled for two machines."""

from __future__ import annotations

import pytest

import graphfuse
from tests.frontends.microsoft.attention_cases import ATTENTION, GROUPED, LINEAR
from tests.frontends.microsoft.cases import CASES, NORMS
from tests.frontends.microsoft.support import Case, check_by_runtime, compare
from tests.frontends.support import declare, onnxruntime_reference

EVERY = [*CASES, *ATTENTION, *GROUPED, *LINEAR]


@pytest.mark.parametrize("c", EVERY, ids=str)
def test_import(c: Case) -> None:
    check_by_runtime(c)


def compiled(c: Case, device: str) -> None:
    model, fed = c.model()
    want = onnxruntime_reference(model, fed)
    declare(model, want)
    got = graphfuse.compile(model, device=device, numerics="strict")(fed)
    compare(c, [got[o.name] for o in model.graph.output], want)


@pytest.mark.parametrize("c", [NORMS[0], GROUPED[5]], ids=lambda c: c.op)
def test_a_sample_on_the_emulator(c: Case) -> None:
    compiled(c, "emulator")


@pytest.mark.full
@pytest.mark.parametrize("device", ["cpu", "emulator"])
@pytest.mark.parametrize("c", EVERY, ids=str)
def test_compiled(c: Case, device: str) -> None:
    compiled(c, device)

"""What feeds a hand-written kernel, computed where it loads."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.test_graft import COLUMNS, EXAMPLES, MINE, compiled, ledger, model, node, normal, steps

BEFORE = [node("Mul", "x scale", "a"), node("Exp", "a", "e")]


def after_exp(tail, n, inputs=(), outputs=("z",)):
    shapes = {"x": ("float32", ["m", n]), **dict(inputs)}, {o: ("float32", ["m", n]) for o in outputs}
    return model([*BEFORE, *tail], *shapes, {"scale": normal(n)})


@pytest.mark.parametrize("device", ["", "emulator"])
def test_the_tile_is_computed_where_it_was_loaded(device, tmp_path):
    computed_where_it_was_loaded(device, tmp_path)


def computed_where_it_was_loaded(device, tmp_path):
    """In front of the kernel and behind it, in one launch."""
    (tmp_path / "k.tc").write_text(COLUMNS.replace("MASK", "i < N"))
    m = compiled(after_exp([node("Columns", "e", "y", MINE), node("Neg", "y", "z")], 20), tmp_path, device=device)
    assert ("call 0", "e", "fused") in ledger(m)
    assert steps(m) == ["call_0"]
    x = normal(5, 20)
    np.testing.assert_allclose(m(x=x)["z"], m.interpret({"x": x})["z"], rtol=1e-5)


def test_masked_lanes_keep_what_the_kernel_says(tmp_path):
    """exp(0) is 1: a sum over a row must not count the lanes past its end."""
    text = COLUMNS.replace("MASK", "i < N").replace("T = 8", "T = 32")
    text = text.replace("float v[T] = inside ? *px : 0;", "float v[T] = inside ? *px : 0; float s = v[+];")
    (tmp_path / "k.tc").write_text(text.replace("= v + 1", "= v / s"))
    m = compiled(after_exp([node("Columns", "e", "z", MINE)], 20), tmp_path)
    assert steps(m) == ["call_0"]
    x = normal(5, 20)
    found = m(x=x)["z"]
    np.testing.assert_allclose(found, m.interpret({"x": x})["z"], rtol=1e-5)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)


def test_both_ends_of_a_product():
    nodes = [*BEFORE, node("MatMul", "e w", "c", EXAMPLES), node("Relu", "c", "z")]
    shapes = {"x": ("float32", ["m", 40])}, {"z": ("float32", ["m", 72])}
    m = compiled(model(nodes, *shapes, {"scale": normal(40), "w": normal(40, 72)}))
    assert steps(m) == ["call_0"]
    x = normal(70, 40)
    np.testing.assert_allclose(m(x=x)["z"], m.interpret({"x": x})["z"], rtol=1e-4, atol=1e-4)


def test_wgmma_reads_its_operands_from_memory():
    half = "float16"
    nodes = [node("Relu", "x", "e"), node("MatMul", "e w", "z", EXAMPLES)]
    shapes = {"x": (half, ["m", 64])}, {"z": (half, ["m", 64])}
    m = compiled(model(nodes, *shapes, {"w": normal(64, 64, dtype=np.float16)}), device="emulator")
    reason = "a product of the kernel reads it, which copies tiles as they are in memory"
    assert ledger(m) == [("call 1", "e", reason)]
    assert "gpu.wgmma" in m.executable.ir["block"]


GATHER = "float v[T] = inside ? *(x + row * N + (i ^ 1)) : 0;"
REFUSED = [
    ("float v[T] = inside ? *px : 0;", GATHER, [], "the kernel gathers from it"),
    ("", "", ["e"], "it has to be written as well"),
]


@pytest.mark.parametrize(("old", "new", "outputs", "reason"), REFUSED, ids=["gathered", "read elsewhere"])
def test_refused(old, new, outputs, reason, tmp_path):
    (tmp_path / "k.tc").write_text(COLUMNS.replace("MASK", "i < N").replace(old, new))
    m = compiled(after_exp([node("Columns", "e", "z", MINE)], 20, outputs=["z", *outputs]), tmp_path)
    assert ledger(m)[-1] == ("call 1", "e", reason)
    assert len(steps(m)) == 2
    x = normal(5, 20)
    found, wanted = m(x=x), m.interpret({"x": x})
    np.testing.assert_allclose(found["z"], wanted["z"], rtol=1e-5)

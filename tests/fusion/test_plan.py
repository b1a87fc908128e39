"""Plans: outputs written in place, reshapes for free, loops on two halves of a buffer, lifetimes that hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given

from graphfuse.artifact import Loop, Plan, Pointer, Step
from graphfuse.dialects import graph
from graphfuse.fusion.regions import plan as plan_module
from graphfuse.fusion.regions.outline import outline
from graphfuse.fusion.regions.plan import KernelCall, Planned, plan
from graphfuse.ir.core import Func
from graphfuse.ir.parser import parse
from graphfuse.symbolic import mod, sym
from tests.properties.fusion_programs import fusion_programs
from tests.properties.settings import PROGRAMS

CHAIN = """func @main(%a: tensor<(n)x4xf32>, %w: tensor<4x4xf32>) dims (n in 1..8) {
  %m = graph.contract(%a, %w) {spec = "mk,kn->mn"} : tensor<(n)x4xf32>
  %r = graph.reshape(%m) {shape = [(4*n)]} : tensor<(4*n)xf32>
  %p = graph.cumulate(%r) {axis = 0, kind = "sum"} : tensor<(4*n)xf32>
  return(%p)
}
"""
CONSTANTS = """func @main(%a: tensor<2xf32>) {
  %c = graph.constant() {value = dense<2xf32, [1.0 2.0]>} : tensor<2xf32>
  %s = graph.add(%a, %c) : tensor<2xf32>
  %p = graph.cumulate(%s) {axis = 0, kind = "sum"} : tensor<2xf32>
  %q = graph.mul(%p, %c) : tensor<2xf32>
  return(%q, %c)
}
"""
LOOP = """func @main(%a: tensor<4xf32>, %k: tensor<(n)xf32>) dims (n in 0..8) {
  %r, %s = graph.loop(%a) {count = (n), symbol = "t"} do (%x: tensor<4xf32>) {
    %y = graph.tanh(%x) : tensor<4xf32>
    yield(%y, %x)
  } : tensor<4xf32>, tensor<(n)x4xf32>
  %q = graph.neg(%r) : tensor<4xf32>
  return(%q, %s)
}
"""


SCATTER = """func @main(%a: tensor<9x4xf32>, %i: tensor<2x1xi64>, %u: tensor<2x4xf32>) {
  %w = graph.constant() {value = dense<9x4xf32, [WEIGHT]>} : tensor<9x4xf32>
  %b = graph.exp(%a) : tensor<9x4xf32>
"""
S = "%s = graph.scatter_nd(%b, %i, %u) {} : tensor<9x4xf32>"
V = "%v = graph.slice(%b) {sizes = [2, 4], starts = [3, 0], steps = [1, 1]} : tensor<2x4xf32>"
IN_PLACE = {
    "of what is computed": f"{S} return(%s)",
    "one after the other": f"{S} %t = graph.scatter_nd(%s, %i, %u) {{}} : tensor<9x4xf32> return(%t)",
    "read before": f"""%c = graph.cumulate(%b) {{axis = 0, kind = "sum"}} : tensor<9x4xf32>
        {S} %e = graph.add(%s, %c) : tensor<9x4xf32> return(%e)""",
    "of fills": """%z = graph.full() {elem = f32, shape = [9, 4], value = 0.0} : tensor<9x4xf32>
        %s = graph.scatter_nd(%z, %i, %u) {} : tensor<9x4xf32>
        %t = graph.scatter_nd(%z, %i, %u) {kind = "add"} : tensor<9x4xf32> return(%s, %t)""",
    "of a reshape": """%r = graph.reshape(%b) {shape = [3, 3, 4]} : tensor<3x3x4xf32>
        %l = graph.broadcast(%i) {shape = [2, 2]} : tensor<2x2xi64>
        %s = graph.scatter_nd(%r, %l, %u) {} : tensor<3x3x4xf32> return(%s)""",
}
COPIED = {
    "input": "%s = graph.scatter_nd(%a, %i, %u) {} : tensor<9x4xf32> return(%s)",
    "weight": "%s = graph.scatter_nd(%w, %i, %u) {} : tensor<9x4xf32> return(%s)",
    "output": f"{S} return(%s, %b)",
    "read later": f"""{S} %c = graph.cumulate(%b) {{axis = 0, kind = "sum"}} : tensor<9x4xf32>
        %d = graph.cumulate(%s) {{axis = 0, kind = "sum"}} : tensor<9x4xf32>
        %e = graph.scatter_nd(%d, %i, %u) {{}} : tensor<9x4xf32>
        %f = graph.scatter_nd(%c, %i, %u) {{}} : tensor<9x4xf32> return(%e, %f)""",
    "read by itself": f"{V} %s = graph.scatter_nd(%b, %i, %v) {{}} : tensor<9x4xf32> return(%s)",
    "read in a loop": f"""{S} %n = graph.loop(%u) {{count = 3, symbol = "t"}} do (%x: tensor<2x4xf32>) {{
        {V} %y = graph.add(%x, %v) : tensor<2x4xf32> yield(%y) }} : tensor<2x4xf32> return(%s, %n)""",
    "read as another shape": f"""{S} %r = graph.reshape(%b) {{shape = [36]}} : tensor<36xf32>
        %n = graph.loop(%r) {{count = 3, symbol = "t"}} do (%x: tensor<36xf32>) {{
        %y = graph.neg(%x) : tensor<36xf32> yield(%y) }} : tensor<36xf32> return(%s, %n)""",
}
CARRIED = """%s = graph.loop(%b) {count = 5, symbol = "t"} do (%x: tensor<9x4xf32>) {
  %y = graph.scatter_nd(%x, %i, %u) {} : tensor<9x4xf32> yield(%y) } : tensor<9x4xf32> return(%s)"""


def scatters(body: str) -> tuple[Plan, list[tuple[Step, Step]]]:
    """The plan of a function, and its scatters, with the step before each."""
    found = planned(SCATTER.replace("WEIGHT", " ".join(["1.5"] * 36)) + body.replace(") {} :", ") :") + "}")[1].plan
    steps = [step for _, step in found.walk()]
    lifetimes_cover_all_uses(found)
    made = [(before, s) for before, s in pairwise(steps) if s.kernel.startswith("scatter")]
    assert made
    assert all(s.args[0] == s.args[-1] for _, s in made)
    return found, made


def planned(text: str) -> tuple[Func, Planned]:
    func, _ = outline(parse(text))
    names = {str(op.attrs["kernel"]) for op in func.walk() if op.kind is graph.region}
    return func, plan(func, {name: KernelCall((), 1, 1) for name in names})


def pointers(step: Step | Loop) -> Iterator[Pointer]:
    """All memory a top-level step touches."""
    if isinstance(step, Loop):
        for inner in step.steps:
            yield from pointers(inner)
    else:
        yield from (a for a in step.args if isinstance(a, Pointer))


def lifetimes_cover_all_uses(found: Plan) -> None:
    """Each arena buffer is alive at every top-level step that mentions it."""
    for i, step in enumerate(found.steps):
        for p in pointers(step):
            buffer = found.buffers[p.buffer]
            alive = buffer.kind != "arena" or buffer.first <= i <= buffer.last
            assert alive, f"buffer {p.buffer} at step {i}: {buffer}"


def kernels(steps: Sequence[Step | Loop]) -> list[str]:
    return [f"loop {s.symbol}" if isinstance(s, Loop) else s.kernel for s in steps]


@given(fusion_programs())
@PROGRAMS
def test_lifetimes_cover_all_uses(text: str) -> None:
    func, found = planned(text)
    lifetimes_cover_all_uses(found.plan)
    kinds = [b.kind for b in found.plan.buffers]
    assert kinds.count("output") == len(func.outputs)
    assert "copy_bytes" not in kernels(found.plan.steps)


def test_outputs_are_written_directly_and_reshapes_cost_nothing() -> None:
    _, found = planned(CHAIN)
    assert [b.kind for b in found.plan.buffers] == ["input", "input", "output", "arena"]
    first, second = found.plan.steps
    assert isinstance(first, Step)
    assert isinstance(second, Step)
    assert first.args[2] == second.args[0] == Pointer(3)
    assert second.args[1] == Pointer(2)


def test_a_constant_is_one_weight_and_a_returned_one_is_copied_by_a_region() -> None:
    _, found = planned(CONSTANTS)
    assert len(found.weights) == 1
    assert [b.kind for b in found.plan.buffers].count("weight") == 1
    assert "copy_bytes" not in kernels(found.plan.steps)


def test_a_loop_copies_in_once_and_alternates() -> None:
    _, found = planned(LOOP)
    lifetimes_cover_all_uses(found.plan)
    assert kernels(found.plan.steps)[:2] == ["copy_bytes", "loop t"]
    loop = found.plan.steps[1]
    assert isinstance(loop, Loop)
    t, n = sym("t"), sym("n")
    home = next(i for i, b in enumerate(found.plan.buffers) if b.nbytes == 32)
    offsets = {p.offset for p in pointers(loop) if p.buffer == home}
    assert offsets == {mod(t, 2) * 16, mod(t + 1, 2) * 16}
    assert any(p.offset == t * 16 for p in pointers(loop)), "the stacked values are written at their places"
    after = [p for s in found.plan.steps[2:] for p in pointers(s) if p.buffer == home]
    assert [p.offset for p in after] == [mod(n, 2) * 16]


def test_a_carried_value_handed_on_unchanged_is_copied_by_a_region() -> None:
    """Its two halves are different memory: it must be written even when nothing is computed."""
    func, found = planned(LOOP.replace("yield(%y, %x)", "yield(%x, %y)"))
    lifetimes_cover_all_uses(found.plan)
    (loop,) = (op for op in func.walk() if op.kind is graph.loop)
    assert loop.body.terminator.operands[0] not in loop.body.params.values


def test_the_law_finds_a_lifetime_that_ends_too_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "max", lambda a, b: a, raising=False)
    with pytest.raises(AssertionError):
        lifetimes_cover_all_uses(planned(CHAIN)[1].plan)


# what is written in place


@pytest.mark.parametrize("body", IN_PLACE.values(), ids=IN_PLACE.keys())
def test_where_an_operand_dies_it_is_written_in_place(body: str) -> None:
    found, _ = scatters(body)
    assert "copy_bytes" not in kernels(found.steps)


@pytest.mark.parametrize("body", COPIED.values(), ids=COPIED.keys())
def test_what_stays_is_copied_before_it_is_written(body: str) -> None:
    _, made = scatters(body)
    copies = [(copy, s) for copy, s in made if copy.kernel == "copy_bytes"]
    assert len(copies) == 1
    ((copy, step),) = copies
    assert copy.args[1] == step.args[0] != copy.args[0]


def test_what_a_loop_carries_is_copied_to_its_other_half() -> None:
    _, ((copy, _),) = scatters(CARRIED)
    t = sym("t")
    assert copy.kernel == "copy_bytes"
    offsets = [p.offset for p in copy.args if isinstance(p, Pointer)]
    assert offsets == [mod(t, 2) * 144, mod(t + 1, 2) * 144]

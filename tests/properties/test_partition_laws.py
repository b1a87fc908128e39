"""Regions are disjoint, cover all work, can run in order, compute the same, and every cut has a reason."""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphfuse.dialects import control, graph
from graphfuse.errors import GraphfuseError
from graphfuse.fusion.regions import legality
from graphfuse.fusion.regions import partition as partition_module
from graphfuse.fusion.regions.outline import outline
from graphfuse.fusion.regions.partition import Group, Partition, partition
from graphfuse.interp import graph as interp
from graphfuse.ir.core import Func, Op, Trait, Value, walk
from graphfuse.ir.parser import parse
from graphfuse.ir.printer import to_text
from graphfuse.ir.types import Tensor
from graphfuse.ir.verifier import verify
from graphfuse.symbolic import evaluate
from graphfuse.targets.machine import Machine
from tests.blockgen.support import AVX2, AVX512, NEON, check_blocks
from tests.interp.inputs import assert_same_numbers, observations, random_array
from tests.properties.fusion_programs import fusion_programs
from tests.properties.settings import PROGRAMS

IN_MEMORY = (graph.constant, graph.region, graph.loop, graph.reshape, graph.concat)
"""What may stand outside regions: constants, loops, and ops that only name memory (a concat is laid end to end)."""


def groups_are_a_cover(func: Func) -> Partition:
    """Each op that does work is in exactly one group, in textual order."""
    part = partition(func.body)
    members = [op for group in part.groups for op in group.ops]
    assert len(members) == len(set(members)), "an op is in two groups"
    for group in part.groups:
        assert all(part.of[op] is group for op in group.ops)
        places = [func.body.ops.index(op) for op in group.ops]
        assert places == sorted(places)
    grouped = set(members)
    for op in func.body.ops:
        idle = op.has(Trait.TERMINATOR) or op.kind is graph.constant or part.flow.is_transparent(op)
        inner = op not in grouped and _inside_attention(op, part)
        assert idle or inner or op in grouped, f"{op.kind} is in no group"
    return part


def _inside_attention(op: Op, part: Partition) -> bool:
    """Ops of an attention are copied into it like transparent ones."""
    return any(g.kind == "attention" and op in _cone(g.ops[-1], g) for g in part.groups)


def _cone(op: Op, group: Group) -> set[Op]:
    out: set[Op] = set()
    stack = [op]
    while stack:
        here = stack.pop()
        if here in out:
            continue
        out.add(here)
        if here is not group.ops[0]:
            stack += [v.op for v in here.operands if v.op is not None]
    return out


def groups_run_in_order(part: Partition) -> None:
    """A group reads only what groups before it compute: no cycle, and an order that works."""
    view: nx.DiGraph[Group] = nx.DiGraph()
    view.add_nodes_from(part.groups)
    for group in part.groups:
        for op in group.ops:
            view.add_edges_from((p, group) for p in _read_groups(op, part) if p is not group)
    assert nx.is_directed_acyclic_graph(view), "the regions depend on each other in a circle"
    place = {group: i for i, group in enumerate(part.groups)}
    assert all(place[a] < place[b] for a, b in view.edges)


def _read_groups(op: Op, part: Partition) -> Iterator[Group]:
    """The groups an op reads from, found without `Dataflow`."""
    seen: set[Value] = set()
    stack = list(op.operands)
    for body in op.bodies:
        stack += [v for inner in walk(body) for v in inner.operands]
    while stack:
        v = stack.pop()
        if v in seen or v.op is None:
            continue
        seen.add(v)
        if v.op in part.of:
            yield part.of[v.op]
        else:
            stack += v.op.operands


def outlining_keeps_the_numbers(func: Func) -> Func:
    """The outlined function is valid and computes every bit as before; so does it with regions inlined."""
    outlined, _ = outline(func)
    verify(outlined)
    assert all(op.kind in IN_MEMORY for op in outlined.body.ops[:-1])
    assert_same_numbers(func, outlined, exact=True)
    return outlined


def returns_are_written_once(outlined: Func) -> None:
    """What is returned or laid end to end is memory of this function's regions, and nothing is two places at once."""
    stacked = [v for op in outlined.body.ops if op.kind is graph.concat for v in op.operands]
    roots = [_root(v) for v in (*outlined.outputs, *stacked)]
    assert all(v.op is not None and v.op.kind in (graph.region, graph.loop, graph.concat) for v in roots)
    assert len(roots) == len(set(roots))


def _root(v: Value) -> Value:
    while v.op is not None and v.op.kind is graph.reshape:
        v = v.op.operands[0]
    return v


def kernels_are_shared(outlined: Func) -> None:
    """Two regions have one kernel exactly when they are the same text."""
    texts: dict[str, str] = {}
    for op in outlined.walk():
        if op.kind is graph.region:
            body = op.body
            ops = (*body.ops[:-1], control.return_(*body.terminator.operands))
            text = f"{op.attrs['kind']} {to_text(Func('k', type(body)(body.params, ops)))}"
            name = str(op.attrs["kernel"])
            assert texts.setdefault(name, text) == text, f"{name} is two kernels"
    assert len(set(texts.values())) == len(texts), "one kernel has two names"


def every_cut_has_a_reason(func: Func, part: Partition) -> None:
    """The ledger says why for each refusal, and why an op that could have joined begins a region of its own."""
    assert all(bool(d.reason) != d.fused for d in part.ledger)
    refused = {d.consumer for d in part.ledger if not d.fused}
    for group in part.groups:
        first = group.ops[0]
        reduces = first.kind is graph.reduce and partition_module.is_reduction(first)
        if (reduces or first.has(Trait.ELEMENTWISE)) and any(True for _ in _read_groups(first, part)):
            assert str(first.loc or first.kind) in refused, f"{first.kind} begins a region without a reason"


def all_laws(text: str) -> None:
    func = parse(text, "law.gf")
    verify(func)
    part = groups_are_a_cover(func)
    groups_run_in_order(part)
    every_cut_has_a_reason(func, part)
    outlined = outlining_keeps_the_numbers(func)
    returns_are_written_once(outlined)
    kernels_are_shared(outlined)


@given(fusion_programs())
@PROGRAMS
def test_random_programs_are_partitioned_well(text: str) -> None:
    all_laws(text)


@pytest.mark.full
@given(fusion_programs(least=8, most=30))
@PROGRAMS
def test_large_random_programs_are_partitioned_well(text: str) -> None:
    all_laws(text)


@given(fusion_programs(), st.sampled_from([AVX512, AVX2, NEON]), st.integers(1, 8))
@PROGRAMS
def test_random_regions_compute_as_blocks(text: str, machine: Machine, n: int) -> None:
    blocks_compute(text, machine, n)


def blocks_compute(text: str, machine: Machine = AVX2, n: int = 3) -> None:
    """Every region of the outlined function as block programs, with every address checked."""
    outlined, _ = outline(parse(text))
    rng = np.random.default_rng(n)
    inputs = []
    for v in outlined.params:
        assert isinstance(v.type, Tensor)
        inputs.append(random_array(rng, [evaluate(d, {"n": n}) for d in v.type.shape], v.type.elem))
    check_blocks(outlined, inputs, machine)


# programs with a trap each

TRAPS = {
    "a product of vectors that leaves and is not taken": """func @main(%a: tensor<4x4xf32>) {
  %s = graph.reduce(%a) {axes = [1], keepdims = true, kind = "sum"} : tensor<4x1xf32>
  %b = graph.broadcast(%s) {shape = [4, 4]} : tensor<4x4xf32>
  %d = graph.div(%a, %b) : tensor<4x4xf32>
  %e = graph.exp(%b) : tensor<4x4xf32>
  %f = graph.flip(%e) {axes = [0]} : tensor<4x4xf32>
  %g = graph.exp(%f) : tensor<4x4xf32>
  return(%d, %g)
}
""",
    "a permuted epilogue": """func @main(%a: tensor<4x4xf32>) {
  %m = graph.contract(%a, %a) {spec = "mk,kn->mn"} : tensor<4x4xf32>
  %t = graph.permute(%m) {perm = [1, 0]} : tensor<4x4xf32>
  %s = graph.neg(%t) : tensor<4x4xf32>
  return(%s)
}
""",
    "a permute between": """func @main(%a: tensor<4x4xf32>) {
  %e = graph.exp(%a) : tensor<4x4xf32>
  %t = graph.permute(%e) {perm = [1, 0]} : tensor<4x4xf32>
  %s = graph.add(%t, %e) : tensor<4x4xf32>
  return(%s)
}
""",
    "a row value along columns": """func @main(%a: tensor<4x4xf32>) {
  %s = graph.reduce(%a) {axes = [1], kind = "sum"} : tensor<4xf32>
  %b = graph.broadcast(%s) {shape = [4, 4]} : tensor<4x4xf32>
  %d = graph.sub(%a, %b) : tensor<4x4xf32>
  return(%d)
}
""",
    "a way out and back": """func @main(%a: tensor<4x4xf32>) {
  %e = graph.exp(%a) : tensor<4x4xf32>
  %m = graph.contract(%e, %a) {spec = "mk,kn->mn"} : tensor<4x4xf32>
  %s = graph.add(%e, %m) : tensor<4x4xf32>
  %p = graph.cumulate(%s) {axis = 1, kind = "sum"} : tensor<4x4xf32>
  %q = graph.mul(%p, %e) : tensor<4x4xf32>
  return(%q, %e)
}
""",
    "returned twice, and a parameter": """func @main(%a: tensor<4x4xf32>) {
  %e = graph.exp(%a) : tensor<4x4xf32>
  %r = graph.reshape(%e) {shape = [16]} : tensor<16xf32>
  %z = graph.full() {elem = f32, shape = [3], value = 2.0} : tensor<3xf32>
  return(%e, %r, %e, %a, %z)
}
""",
    "equal kernels": """func @main(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
  %m = graph.contract(%a, %b) {spec = "mk,kn->mn"} : tensor<4x4xf32>
  %n = graph.contract(%b, %m) {spec = "mk,kn->mn"} : tensor<4x4xf32>
  %o = graph.contract(%m, %n) {spec = "mk,nk->mn"} : tensor<4x4xf32>
  return(%o)
}
""",
    "a loop that reads around itself": """func @main(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
  %e = graph.exp(%a) : tensor<4x4xf32>
  %r, %h = graph.loop(%b) {count = 3, symbol = "t"} do (%c: tensor<4x4xf32>) {
    %m = graph.contract(%c, %e) {spec = "mk,kn->mn"} : tensor<4x4xf32>
    %d = graph.tanh(%m) : tensor<4x4xf32>
    %s = graph.slice(%d) {sizes = [1, 4], starts = [(t), 0], steps = [1, 1]} : tensor<1x4xf32>
    yield(%d, %s)
  } : tensor<4x4xf32>, tensor<3x1x4xf32>
  %q = graph.mul(%r, %e) : tensor<4x4xf32>
  return(%q, %h, %r)
}
""",
}


@pytest.mark.parametrize("name", TRAPS)
def test_traps_are_seen(name: str) -> None:
    all_laws(TRAPS[name])


def test_equal_regions_have_one_kernel() -> None:
    outlined, _ = outline(parse(TRAPS["equal kernels"]))
    names = [op.attrs["kernel"] for op in outlined.walk() if op.kind is graph.region]
    assert len(names) == 3
    assert len(set(names)) == 2


# planted bugs


def test_the_laws_find_an_ignored_permute(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product's epilogue that wants it transposed: the tile in registers is the wrong one."""
    text = TRAPS["a permuted epilogue"]
    blocks_compute(text)
    monkeypatch.setattr(legality, "_why_not_aligned", lambda flow, op, region: None)
    with pytest.raises(AssertionError):
        blocks_compute(text)


def test_the_laws_find_an_ignored_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_module._Partitioner, "_way_around", lambda self, union: None)
    text = TRAPS["a way out and back"].replace("%q = graph.mul(%p, %e)", "%q = graph.mul(%e, %p)")
    func = parse(text)
    monkeypatch.setattr(partition_module.nx, "lexicographical_topological_sort", lambda view, key: list(view.nodes))
    with pytest.raises((AssertionError, GraphfuseError, nx.NetworkXException)):
        groups_run_in_order(partition(func.body))


def test_the_laws_find_a_lost_op(monkeypatch: pytest.MonkeyPatch) -> None:
    real = partition_module._Partitioner._first_groups
    lossy = lambda self: (g for g in real(self) if g.ops[0].kind is not graph.ELEMENTWISE["exp"])  # noqa: E731
    monkeypatch.setattr(partition_module._Partitioner, "_first_groups", lossy)
    with pytest.raises(AssertionError):
        groups_are_a_cover(parse(TRAPS["a permute between"]))


def test_the_laws_find_a_shared_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "graphfuse.fusion.regions.outline._Outliner._returned", lambda self, v, before: self._in_memory(v)
    )
    outlined, _ = outline(parse(TRAPS["returned twice, and a parameter"]))
    with pytest.raises(AssertionError):
        returns_are_written_once(outlined)


def test_the_laws_find_kernels_named_by_kind_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphfuse.fusion.regions.outline.Kernels.name", lambda self, kind, body: f"{kind}_0")
    outlined, _ = outline(parse(TRAPS["equal kernels"]))
    with pytest.raises(AssertionError):
        kernels_are_shared(outlined)


def test_the_laws_find_a_silent_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_module._Partitioner, "_cuts", lambda self: ())
    func = parse(TRAPS["a permute between"].replace("add(%t, %e)", "add(%t, %t)"), "law.gf")
    with pytest.raises(AssertionError):
        every_cut_has_a_reason(func, partition(func.body))


def test_the_laws_look_at_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body with its operands exchanged is seen by the numbers."""
    func = parse(TRAPS["a row value along columns"])
    other = parse(TRAPS["a row value along columns"].replace("sub(%a, %b)", "sub(%b, %a)"))
    assert observations(func)
    with pytest.raises(AssertionError):
        assert_same_numbers(func, outline(other)[0], exact=True)
    assert interp.run(func, np.ones((4, 4), np.float32))

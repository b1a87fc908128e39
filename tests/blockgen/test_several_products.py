"""Products of one operand: which a GPU makes at once, why not the others, and that what it makes is right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphfuse.blockgen.gpu_several_products import saved_together
from graphfuse.fusion.regions.outline import outline
from graphfuse.fusion.regions.rules import Rules, always_together
from graphfuse.targets.machine import GpuMachine, Machine
from tests.blockgen.support import Case, check_blocks, graph_func, region_ops

HOPPER = GpuMachine(has_wgmma=True)
MEET = "s = sigmoid(a); y = mul(s, b); return(y)"


def pair(m, k, n, elem="bf16", spec="mk,kn->mn"):
    """Two products of x that meet."""
    w = {"mk,kn->mn": f"{k}x{n}", "mk,nk->mn": f"{n}x{k}", "bmk,bkn->bmn": f"2x{k}x{n}"}[spec]
    x = f"2x{m}x{k}" if spec.startswith("b") else f"{m}x{k}"
    body = f'a = contract(x, w) {{spec = "{spec}"}}; b = contract(x, v) {{spec = "{spec}"}}; {MEET}'
    return graph_func(f"x: {x}x{elem}, w: {w}x{elem}, v: {w}x{elem}", body)


SPREAD = graph_func("x: 96xbf16, w: 96x1024xbf16, v: 96x1024xbf16",
    'r = reshape(x) {shape = [1, 96]}; n = broadcast(r) {shape = [512, 96]};'
    f'a = contract(n, w) {{spec = "mk,kn->mn"}}; b = contract(n, v) {{spec = "mk,kn->mn"}}; {MEET}')  # fmt: skip


def reasons(func, machine=HOPPER):
    """How many regions, and what the ledger says of cuts."""
    regions, ledger = outline(func, Rules(saved_together=saved_together(machine, {})))
    return len(list(region_ops(regions))), [d.reason for d in ledger if not d.fused]


@pytest.mark.parametrize("shape", [(2048, 768, 3072), (4096, 4096, 14336), (16, 4096, 14336), (8192, 1024, 8192)])
def test_gates_are_one_kernel(shape):
    assert reasons(pair(*shape)) == (1, [])


@pytest.mark.parametrize("machine", [HOPPER, GpuMachine()])
def test_gates_of_a_vector_are_one_walk(machine):
    assert reasons(pair(1, 768, 3072), machine) == (1, [])
    assert reasons(pair(1, 768, 3072, "f32"), machine) == (1, [])


def test_products_of_a_vector_that_do_not_meet_stay_apart():
    func = graph_func("x: 1x768xbf16, w: 768x96xbf16, v: 768x96xbf16",
        'a = contract(x, w) {spec = "mk,kn->mn"}; b = contract(x, v) {spec = "mk,kn->mn"}; return(a, b)')  # fmt: skip
    apart = "products with a vector that nothing brings together are kernels of their own"
    assert reasons(func) == (2, [apart])


def test_gates_of_a_batch_are_one_kernel():
    assert reasons(pair(2048, 768, 3072, spec="bmk,bkn->bmn")) == (1, [])


@pytest.mark.parametrize(
    ("func", "reason"),
    [
        (pair(2048, 768, 3072, "f32"), "several products are of halves or bytes"),
        (SPREAD, "a product with what is spread is a reduction"),
    ],
)
def test_what_stays_apart(func, reason):
    assert reasons(func) == (2, [reason])


@pytest.mark.parametrize(("shape", "kernels"), [((16, 4096, 4096), 1), ((128, 768, 768), 1), ((8192, 1024, 8192), 3)])
def test_queries_keys_and_values_are_one_launch_where_that_is_faster(shape, kernels):
    m, k, n = shape
    products = [f'{o} = contract(x, {w}) {{spec = "mk,kn->mn"}}' for o, w in ("qu", "kv", "vw")]
    func = graph_func(f"x: {m}x{k}xbf16, u: {k}x{n}xbf16, v: {k}x{n}xbf16, w: {k}x{n}xbf16",
                      ";".join([*products, "return(q, k, v)"]))  # fmt: skip
    count, said = reasons(func)
    assert count == kernels
    assert all("us together" in r for r in said)


def test_where_a_sum_would_be_split_products_stay_apart():
    count, said = reasons(pair(64, 16384, 64))
    assert count == 2
    assert all("us together" in r for r in said)


@pytest.mark.parametrize("machine", [Machine(), replace(HOPPER, has_wgmma=False)])
def test_other_targets_have_no_schedule(machine):
    assert reasons(pair(2048, 768, 3072), machine) == (2, ["the target has no schedule for several products"])


@pytest.mark.parametrize("elem", ["bf16", "f32"])
@pytest.mark.parametrize("spec", ["mk,kn->mn", "mk,nk->mn", "bmk,bkn->bmn"])
@pytest.mark.parametrize("machine", [HOPPER, replace(HOPPER, has_wgmma=False)])
def test_blocks_equal_the_graph(elem, spec, machine):
    """Also where tiles are not boxes: a schedule that is never chosen is right all the same."""
    func = pair(70, 90, 50, elem, spec)
    regions, _ = outline(func, Rules(saved_together=always_together))
    assert len(list(region_ops(regions))) == 1
    check_blocks(regions, Case("pair", (), func).arrays({}), machine)

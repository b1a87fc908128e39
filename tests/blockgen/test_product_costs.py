"""Which operands of products are copied into rows that TMA reads well, and which products stay as they are."""

from __future__ import annotations

import pytest

from graphfuse.blockgen.gpu_product_costs import ProductCosts
from graphfuse.dialects import graph
from graphfuse.fusion.products.align_rows import cheapest_rows
from graphfuse.targets.machine import GpuMachine, Machine
from tests.blockgen.support import graph_func

HOPPER = GpuMachine(has_wgmma=True)
STAYS = ((0, 0), (0, 0))


def pads(params, spec, machine=HOPPER, dims="", before="", operands="x, w"):
    func = graph_func(params, f'{before} y = contract({operands}) {{spec = "{spec}"}}; return(y)', dims)
    (op,) = (op for op in func.walk() if op.kind is graph.contract)
    return tuple(cheapest_rows(op, ProductCosts(machine, func.ranges)))


@pytest.mark.parametrize(
    ("params", "spec", "want"),
    [
        ("x: 1000x4095xbf16, w: 1000x4097xbf16", "km,kn->mn", ((1, 1), (1, 15))),
        ("x: 511x1023xbf16, w: 1023x513xbf16", "mk,kn->mn", ((1, 1), (1, 15))),
        ("x: 1008x4095xf16, w: 4097x1008xf16", "km,nk->mn", ((1, 1), (0, 0))),
        ("x: 8x700x513xbf16, w: 8x513x704xbf16", "bmk,bkn->bmn", ((1, 15), (0, 0))),
        ("x: 1024x3x683xbf16, w: 1024x4096xbf16", "kbm,kn->bmn", ((2, 15), (0, 0))),
        ("x: 4096x31x33xbf16, w: 31x33x4096xbf16", "mkl,kln->mn", ((2, 1), (0, 0))),
    ],
)
def test_rows_become_whole_sectors(params, spec, want):
    assert pads(params, spec) == want


@pytest.mark.parametrize(
    ("params", "spec"),
    [
        ("x: 4096x1000xbf16, w: 4097x1000xbf16", "mk,nk->mn"),  # rows of 2000 bytes are read as they are
        ("x: 300x302xbf16, w: 302x301xbf16", "mk,kn->mn"),  # two copies would take longer than the product
        ("x: 3000x3001xf32, w: 3001x3000xf32", "mk,kn->mn"),
        ("x: 3000x3001xi8, w: 3001x3000xi8", "mk,kn->mn"),
        ("x: 1x3001xf16, w: 3001x3000xf16", "mk,kn->mn"),  # a vector: a reduction
        ("x: 2000x31x33xf16, w: 33x31x2000xf16", "mkl,lkn->mn"),  # dims of k that are no one dim
    ],
)
def test_others_stay(params, spec):
    assert pads(params, spec) == STAYS


def test_a_row_whose_elements_lie_apart_is_copied_for_many_columns():
    image = "v = permute(x) {perm = [2, 0, 1]}; r = reshape(v) {shape = [1, 25088]};"
    at = {"before": image, "operands": "r, w"}
    assert pads("x: 7x7x512xbf16, w: 4096x25088xbf16", "mk,nk->mn", **at) == ((1, 0), (0, 0))
    assert pads("x: 7x7x512xf32, w: 4096x25088xf32", "mk,nk->mn", **at) == ((1, 0), (0, 0))
    assert pads("x: 7x7x512xbf16, w: 2x25088xbf16", "mk,nk->mn", **at) == STAYS, "it is read twice"
    first = image.replace("2, 0, 1", "0, 1, 2")
    assert pads("x: 512x7x7xbf16, w: 4096x25088xbf16", "mk,nk->mn", before=first, operands="r, w") == STAYS
    assert pads("x: 7x7x512xbf16, w: 25088x4096xbf16", "mk,kn->mn", **at) == STAYS, "lanes are of columns"


@pytest.mark.parametrize(
    ("spec", "operands", "want"),
    [("mk,k->m", "w, v", (STAYS[0], (1, 0))), ("k,mk->m", "v, w", ((1, 0), STAYS[0]))],
)
def test_a_column_is_copied_on_either_side(spec, operands, want):
    column = "s = slice(x) {starts = [0, 3], sizes = [1031, 1], steps = [1, 1]}; v = reshape(s) {shape = [1031]};"
    params = "w: 811x1031xf32, x: 1031x17xf32"
    assert pads(params, spec, before=column, operands=operands) == want
    assert pads(params.replace("811", "2"), spec, before=column, operands=operands) == STAYS


def test_what_is_loaded_once_stays():
    turned = "t = permute(x) {perm = [1, 0]};"
    assert pads("x: 4001x3001xf32, w: 3001x4001xf32", "bk,bk->b", before=turned, operands="t, w") == STAYS


def test_other_machines_stay():
    for machine in (Machine(), GpuMachine()):
        assert pads("x: 1000x4095xbf16, w: 1000x4097xbf16", "km,kn->mn", machine) == STAYS


def test_symbolic_dims_count_where_they_are_not_rows_in_memory():
    assert pads("x: (n)x1001xbf16, w: 1001x4096xbf16", "mk,kn->mn", dims="n in 1..4096") == ((1, 7), (0, 0))
    assert pads("x: 1024x(n)xbf16, w: 1024x4096xbf16", "km,kn->mn", dims="n in 1..4096") == STAYS
    assert pads("x: 1024x(n)xbf16, w: 1024x4095xbf16", "km,kn->mn", dims="n in 1..4096") == STAYS


def test_views_are_what_memory_is():
    cut = "v = slice(w) {starts = [0, START], sizes = [1024, 2048], steps = [1, 1]};"
    at = {"dims": "", "operands": "x, v"}
    assert pads("x: 2048x1024xf16, w: 1024x4096xf16", "mk,kn->mn", before=cut.replace("START", "8"), **at) == STAYS
    odd = pads("x: 2048x1024xf16, w: 1024x4096xf16", "mk,kn->mn", before=cut.replace("START", "9"), **at)
    assert odd == ((0, 0), (1, 16)), "whole sectors, which begin elsewhere"
    same = "v = broadcast(w) {shape = [8, 1024, 2047]};"
    assert pads("x: 8x512x1024xf16, w: 1024x2047xf16", "bmk,bkn->bmn", before=same, **at) == STAYS, "repeated"


def test_positions_of_an_image_are_read_in_windows():
    image = "v = slice(x) {starts = [0, 0, 0, 0], sizes = [8, 14, 14, CHANNELS], steps = [1, 2, 2, 1]};"
    for channels, want in ((512, STAYS), (510, ((1, 2), (0, 0)))):
        params = f"x: 8x28x28x{channels}xf16, w: {channels}x1024xf16"
        before = image.replace("CHANNELS", str(channels))
        assert pads(params, "bhwk,kn->bhwn", before=before, operands="v, w") == want
    unknown = image.replace("14, 14", "(h), (h)").replace("CHANNELS", "512")
    grown = "x: 8x(2*h)x(2*h)x512xf16, w: 512x1024xf16"
    found = pads(grown, "bhwk,kn->bhwn", before=unknown, operands="v, w", dims="h in 14..16")
    assert found != STAYS, "windows need the image's size"
    one = "x: 8x28x28x512xf16, w: 8x512x1024xf16"
    before = image.replace("CHANNELS", "512")
    assert pads(one, "bhwk,bkn->bhwn", before=before, operands="v, w") == STAYS, "each with weights of its own"

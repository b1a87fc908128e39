"""What blockgen takes for boxes and windows that TMA copies is that: a tile chosen for `wgmma` gets it."""

from __future__ import annotations

import pytest

from graphfuse.compiler import stages
from graphfuse.dialects import gpu, graph
from graphfuse.dialects.gpu import WITHOUT_WGMMA
from graphfuse.gpu.pipeline import transformed
from graphfuse.knobs import Options
from graphfuse.targets.backend import backend_of
from tests.blockgen.support import graph_func
from tests.gpu.random_regions import drawn
from tests.gpu.test_fused_products import HOPPER, outcome

FEW, MANY = 6, 120


def fed(func):
    """Of each kernel of products: whether its tile is for `wgmma`, and whether it has that; and why not."""
    kernels = [k for name, k in stages(func, HOPPER, Options()).kernels.items() if name.startswith("contraction")]
    made = [transformed(k, HOPPER) for k in kernels]
    return [
        ("schedule" in k.attrs, any(op.kind is gpu.wgmma for op in m.walk()), k.attrs.get(WITHOUT_WGMMA, ""))
        for k, m in zip(kernels, made, strict=True)
    ]


def is_fed_by_boxes(func):
    """Its one product is right, and a tile for `wgmma` was chosen and made."""
    outcome(func)
    ((chosen, made, _),) = fed(func)
    assert chosen
    assert made


@pytest.mark.parametrize("kind", ["product", "bytes_product", "convolution"])
@pytest.mark.parametrize("seed", [pytest.param(s, marks=() if s < FEW else pytest.mark.full) for s in range(MANY)])
def test_tiles_for_wgmma_get_it(seed, kind):
    case = drawn(seed, 1 << 22, kind)
    for chosen, made, _ in fed(case.func):
        assert chosen == made, case.text


def convolved(shape, channels, kernel, strides, low, high, groups=1):
    taps = len(kernel)
    body = (
        f"y = conv(x, w) {{strides = {strides}, low = {low}, high = {high}, dilation = {[1] * taps}, "
        f'input_dilation = {[1] * taps}, groups = {groups}, layout = "nhwc"}}; return(y)'
    )
    sizes = ("x".join(map(str, s)) for s in ((*shape, channels), (*kernel, channels // groups, 80)))
    return graph_func(", ".join(f"{name}: {size}xf16" for name, size in zip("xw", sizes, strict=True)), body)


@pytest.mark.parametrize("channels", [96, 48, 80, 64])
def test_without_padding_channels_are_whole_steps(channels):
    """Beyond the last channel of a tap comes the next tap."""
    ((chosen, made, _),) = fed(convolved((2, 12, 12), channels, (3, 3), [1, 1], [0, 0], [0, 0]))
    assert chosen
    assert made


def test_steps_that_end_with_a_tap_are_right():
    outcome(convolved((1, 9, 9), 80, (2, 2), [1, 1], [0, 0], [0, 0]))


def test_padding_that_is_never_reached_tells_no_taps_apart():
    ((chosen, _, why),) = fed(convolved((16, 8, 5, 8), 8, (3, 3, 1), [1, 2, 2], [1, 0, 0], [0, 1, 0]))
    assert not chosen
    assert why == "8 channels of a tap or group are no whole steps"
    ((chosen, made, _),) = fed(convolved((16, 8, 5, 8), 8, (3, 3, 1), [1, 1, 2], [1, 0, 0], [0, 1, 0]))
    assert chosen
    assert made


@pytest.mark.parametrize("at", ["x: 80x1xf16, w: 96x64xf16", "x: 1x96xf16, w: 96x64xf16"])
def test_what_repeats_is_no_box(at):
    text = 'u = broadcast(x) {shape = [80, 96]}; y = contract(u, w) {spec = "mk,kn->mn"}; return(y)'
    for chosen, made, _ in fed(graph_func(at, text)):
        assert not chosen
        assert not made


def test_several_products_of_one_step():
    text = """a = contract(x, v) {spec = "mk,nk->mn"}; b = contract(x, w) {spec = "mk,nk->mn"}; s = sigmoid(a);
        y = mul(s, b); return(y)"""
    func = graph_func("x: 72x16xf16, v: 40x16xf16, w: 40x16xf16", text)
    is_fed_by_boxes(func)


@pytest.mark.parametrize("depth", [40, 136])
def test_every_part_of_a_sum_of_products_is_a_box(depth):
    text = 'y = contract_parts(a, b, v, w) {spec = "mk,kn->mn"}; return(y)'
    func = graph_func("a: 72x@xbf16, b: 72x@xbf16, v: @x48xbf16, w: @x48xbf16".replace("@", str(depth)), text)
    is_fed_by_boxes(func)


@pytest.mark.parametrize(
    ("params", "spec"),
    [
        ("x: 3x40x72xf16, w: 3x96x72xf16", "nok,nck->oc"),  # images of channels first, as gradients of weights are
        ("x: 3x72x40xbf16, w: 3x96x72xbf16", "nko,nck->oc"),
        ("x: 2x3x40x40xf16, w: 2x40x3x96xf16", "abmk,akbn->mn"),
        ("x: 3x48x72xf16, w: 48x96xf16", "nkm,kc->nmc"),  # rows of an image each
        ("x: 3x2x40x72xf16, w: 2x40x96xf16", "nakm,akc->nmc"),
    ],
)
def test_innermost_dims_of_rows_and_of_k_are_boxes(params, spec):
    func = graph_func(params, f'y = contract(x, w) {{spec = "{spec}"}}; return(y)')
    is_fed_by_boxes(func)


@pytest.mark.parametrize(
    ("params", "spec"),
    [("x: 5x48x24xf16, w: 5x24x96xf16", "nok,nkc->oc"), ("x: 5x48x24xf16, w: 48x96xf16", "nkm,kc->nmc")],
)
def test_innermost_dims_that_fill_less_than_half_of_a_tile_are_none(params, spec):
    ((chosen, _, why),) = fed(graph_func(params, f'y = contract(x, w) {{spec = "{spec}"}}; return(y)'))
    assert not chosen
    assert why == "rows, or k, are several dims that do not lie one behind the other"


CONV = (
    "conv(x, w) {strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], input_dilation = [1, 1], "
    'groups = 1, layout = "nhwc"}; return(y)'
)
ROWS = '{spec = "mk,kn->mn"}; return(y)'
WHY = {
    "warpgroups do not sum products of i8 in i8": (
        "x: 80x64xi8, w: 96x64xi8",
        'y = contract(x, w) {spec = "mk,nk->mn"}; return(y)',
    ),
    "the left operand: it has a dim of more than 2147483647 elements": ("x: 2147483648x64xf16, w: 64x96xf16", ""),
    "the left operand repeats its elements": (
        "x: 80x1xf16, w: 96x64xf16",
        "u = broadcast(x) {shape = [80, 96]}; y = contract(u, w) " + ROWS,
    ),
    "warpgroups do not multiply f32 by f32": ("x: 80x64xf32, w: 64x96xf32", ""),
    "rows, or k, are several dims that do not lie one behind the other": (
        "x: 80x8x8xf16, w: 8x8x96xf16",
        'p = permute(x) {perm = [0, 2, 1]}; y = contract(p, w) {spec = "mab,abn->mn"}; return(y)',
    ),
    "the right operand: lines lie 97 elements apart, no multiple of 16 bytes": ("x: 80x64xf16, w: 64x97xf16", ""),
    "the right operand is not contiguous along k": (
        "x: 80x64xi8, w: 64x96xi8",
        'y = contract(x, w) {spec = "mk,kn->mn", elem = i32}; return(y)',
    ),
    "the left operand: it runs backward": (
        "x: 80x64xf16, w: 64x96xf16",
        "v = flip(x) {axes = [0]}; y = contract(v, w) " + ROWS,
    ),
    "the left operand is not contiguous along k, rows or columns": (
        "x: 80x128xf16, w: 64x96xf16",
        "v = slice(x) {starts = [0, 0], sizes = [80, 64], steps = [1, 2]}; y = contract(v, w) " + ROWS,
    ),
    "windows are of f16 or bf16, not of i8": (
        "x: 2x12x12x64xi8, w: 3x3x64x80xi8",
        "y = " + CONV.replace("layout", "elem = i32, layout"),
    ),
    "the image is computed where it is read": (
        "x: 2x12x12x64xf16, w: 3x3x64x80xf16",
        "p = pad(x) {low = [0, 1, 1, 0], high = [0, 1, 1, 0], value = 1.0}; y = " + CONV.replace("(x", "(p"),
    ),
}


@pytest.mark.parametrize("why", WHY)
def test_why_tensor_cores_are_not_fed(why):
    params, body = WHY[why]
    func = graph_func(params, body or "y = contract(x, w) " + ROWS)
    assert why in [reason for _, _, reason in fed(func)]


@pytest.mark.parametrize("low", [0, 7])
def test_one_row_of_positions_whose_taps_lie_apart(low):
    conv = """conv(p, w) {strides = [1], low = [0], high = [0], dilation = [3], input_dilation = [1], groups = 1,
        layout = "nhwc"}; z = neg(y); return(z)"""
    text = f"p = pad(x) {{low = [0, {low}, 0], high = [0, 0, 0], value = 0.0}}; y = {conv}"
    func = graph_func("x: 1x83x32xbf16, w: 5x32x40xbf16", " ".join(text.split()))
    is_fed_by_boxes(func)


@pytest.mark.parametrize("spec", ["mk,kn->mn", "mk,nk->mn"])
def test_lines_of_columns_are_whole_in_a_tile(spec):
    """However many rows there are: 96 columns are lines and a half, where memory runs along the columns."""
    weight = "64x256" if spec == "mk,kn->mn" else "256x64"
    func = graph_func(f"x: 3136x64xf16, w: {weight}xf16", f'y = contract(x, w) {{spec = "{spec}"}}; return(y)')
    (region,) = [op for op in stages(func, HOPPER, Options()).regions.walk() if op.kind is graph.region]
    widths = {int(name.split()[0].split("x")[1]) for name in backend_of(HOPPER).schedules(region, {})}
    assert (96 in widths) == (spec == "mk,nk->mn")

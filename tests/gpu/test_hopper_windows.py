"""Convolutions for sm_90a: windows by TMA in im2col mode, in the emulator, against the interpreter."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest

from graphfuse.blockgen import gpu_contraction
from graphfuse.blockgen.gpu_wgmma_tile import FOR_WINDOWS, WgmmaTile
from graphfuse.blockgen.lower import GPU_EMITTERS, lower_region
from graphfuse.dialects import gpu, graph
from graphfuse.fusion.regions.outline import outline
from graphfuse.fusion.regions.rules import Rules
from graphfuse.gpu.assembler import assemble
from graphfuse.gpu.lower import emit_ptx, lower
from graphfuse.gpu.pipeline import transformed
from graphfuse.interp.block import launch
from graphfuse.ir.core import Func
from graphfuse.ir.parser import parse
from graphfuse.ir.printer import to_text
from graphfuse.ir.verifier import verify
from graphfuse.targets import Target
from graphfuse.targets.machine import GpuMachine
from tests.blockgen.cases import case
from tests.blockgen.support import launched
from tests.gpu.test_hopper import emulate
from tests.gpu.test_raise_boxes import BY_ADDRESS

TARGET = Target.parse("cuda:sm_90a")


@pytest.fixture
def by_vectors(monkeypatch):
    """Images are large enough for all multiprocessors of a test's machine."""
    monkeypatch.setattr(gpu_contraction, "ROWS", 8)


@pytest.fixture(autouse=True)
def by_windows(request, monkeypatch):
    """However few columns share rows, unless a test asks for the other way."""
    if "by_vectors" not in request.fixturenames:
        monkeypatch.setattr(gpu_contraction, "FEW_COLUMNS", 0)


@dataclass(frozen=True)
class Conv:
    """A channels-last convolution with bias and relu."""

    batch: int | str
    size: tuple[int, ...]
    channels: int
    out: int
    kernel: tuple[int, ...]
    stride: int = 1
    pad: int | tuple[tuple[int, int], ...] = 0
    dilation: int = 1
    groups: int = 1
    elem: str = "f16"
    by_result: bool = False
    """Whether a result's weights lie together, as torch has them in channels-last; else a tap's."""

    def __str__(self):
        window = "x".join(map(str, self.kernel))
        size = "x".join(map(str, self.size))
        return f"{self.batch}x{size}x{self.channels}-{self.out}-{window}-s{self.stride}-p{self.pad}-d{self.dilation}"

    @property
    def pads(self):
        return self.pad if isinstance(self.pad, tuple) else ((self.pad, self.pad),) * len(self.size)

    def case(self):
        """As a graph."""
        rank = len(self.size)
        low, high = ([0, *(p[i] for p in self.pads), 0] for i in range(2))
        padded = [n + sum(p) for n, p in zip(self.size, self.pads, strict=True)]
        taken = [(n - 1) * self.dilation + 1 for n in self.kernel]
        shape = [(n - t) // self.stride + 1 for n, t in zip(padded, taken, strict=True)]
        dims = f"({self.batch})" if isinstance(self.batch, str) else str(self.batch)
        x = "x".join([dims, *map(str, self.size), str(self.channels), self.elem])
        weights = [*map(str, self.kernel), str(self.channels // self.groups), str(self.out)]
        w = "x".join([*([weights[-1], *weights[:-1]] if self.by_result else weights), self.elem])
        turned = f"v = permute(w) {{perm = {[*range(1, rank + 2), 0]}}}; " if self.by_result else ""
        result = f"[{dims}, {', '.join(map(str, [*shape, self.out]))}]"
        image, weights = "p" if any(map(sum, self.pads)) else "x", "v" if turned else "w"
        read = f"p = pad(x) {{low = {low}, high = {high}, value = 0.0}}; " if image == "p" else ""
        body = f"""
            {read}{turned}y = conv({image}, {weights}) {{strides = {[self.stride] * rank}, low = {[0] * rank},
            high = {[0] * rank}, dilation = {[self.dilation] * rank}, input_dilation = {[1] * rank},
            groups = {self.groups}, layout = "nhwc"}}; c = broadcast(b) {{shape = {result}}}; s = add(y, c)
            z = full() {{shape = {result}, elem = {self.elem}, value = 0.0}}; r = max(s, z); return(r)"""
        body = " ".join(body.split("\n")[1:]).replace("add(y, c)", "add(y, c);")
        symbols = ("n in 1..8", ({"n": 3},)) if dims != str(self.batch) else ("", ({},))
        return case("contraction", "conv", f"x: {x}, w: {w}, b: {self.out}x{self.elem}", body, *symbols)


def compiled(found, multiprocessors=8, **attrs):
    """The region of a case, its block function, and that with roles."""
    func, _ = outline(found.func, Rules(reads_padded=True))
    (region,) = (op for op in func.walk() if op.kind is graph.region)
    machine = GpuMachine(multiprocessors=multiprocessors, has_wgmma=True)
    kernel = lower_region(region, "conv", func.ranges, machine, GPU_EMITTERS)
    kernel = Func(kernel.name, kernel.body, {**kernel.attrs, **attrs}, kernel.dims)
    verify(kernel)
    roles = transformed(kernel, TARGET)
    verify(roles)
    return region, kernel, roles


def check(found, blocks=2, ulp=2.0**-10, planted=None, by_tma=True, **attrs):
    region, kernel, roles = compiled(found, **attrs)
    loads = [op for op in roles.walk() if op.kind is gpu.tma_load]
    assert any("steps" in op.attrs for op in loads) == by_tma, "windows"
    lowered = lower([roles], TARGET)
    ptx = emit_ptx(lowered)
    assert ("im2col" in ptx) == by_tma
    for values in found.sizes:
        arrays = found.arrays(values)
        if planted is not None:
            arrays[0].reshape(-1)[planted] = np.inf
        wants = launched(kernel, region, arrays, values)
        gots = [np.zeros_like(want) for want in wants]
        emulate(ptx, lowered.kernels[0], arrays, gots, values, blocks=blocks)
        for got, want in zip(gots, wants, strict=True):
            # one rounding of the sum and one of the result, and the sum before it in another order
            wide = want.astype(np.float64)
            largest = np.abs(wide[np.isfinite(wide)]).max()
            np.testing.assert_allclose(got.astype(np.float64), wide, rtol=ulp, atol=ulp / 2 * largest)
    return ptx, lowered.kernels[0]


PLAIN = Conv(2, (9, 7), 64, 64, (3, 3), pad=1)
CASES = {
    "3x3": PLAIN,
    "bf16": replace(PLAIN, elem="bf16"),
    "stride 2": replace(PLAIN, size=(9, 11), stride=2),
    "stride 2 of an even size": replace(PLAIN, size=(10, 8), stride=2),
    "stride 3": replace(PLAIN, size=(11, 10), stride=3, elem="bf16"),
    "dilation": replace(PLAIN, dilation=2, pad=2),
    "dilation and stride": replace(PLAIN, size=(12, 11), dilation=2, stride=2, pad=1),
    "no padding": replace(PLAIN, pad=0),
    "no padding, stride 2": replace(PLAIN, pad=0, stride=2),
    "padding on one side": replace(PLAIN, pad=((0, 1), (1, 0))),
    "padding along one dim": replace(PLAIN, pad=((0, 0), (1, 1)), kernel=(2, 3)),
    "more padding than the filter": replace(PLAIN, pad=3),
    "one image": replace(PLAIN, batch=1),
    "one small image": replace(PLAIN, batch=1, size=(5, 5), channels=128),
    "any batch": replace(PLAIN, batch="n"),
    "5x5": replace(PLAIN, kernel=(5, 5), pad=2, channels=16),
    "1x1, stride 2": replace(PLAIN, kernel=(1, 1), pad=0, stride=2, channels=128),
    "channels that fill no step": replace(PLAIN, channels=72),
    "32 channels": replace(PLAIN, channels=32),
    "16 channels": replace(PLAIN, channels=16),
    "8 channels": replace(PLAIN, channels=8, elem="bf16"),
    "no padding, 72 channels": replace(PLAIN, pad=0, channels=72, batch=1),
    "no padding, 24 channels, stride 2": replace(PLAIN, pad=0, channels=24, stride=2, by_result=True),
    "no padding, 40 channels, dilation": replace(PLAIN, pad=0, channels=40, dilation=2, elem="bf16"),
    "no padding, many taps of 24 channels": replace(PLAIN, pad=0, channels=24, kernel=(7, 5), out=16, by_result=True),
    "padding along one dim, 72 channels": replace(PLAIN, pad=((0, 0), (1, 1)), channels=72, size=(6, 7)),
    "one dim, no padding, 72 channels": Conv(3, (23,), 72, 32, (5,), dilation=3),
    "three dims, no padding, 24 channels": Conv(2, (4, 5, 6), 24, 32, (2, 3, 3)),
    "results that fill no tile": replace(PLAIN, out=72),
    "rows of 16": replace(PLAIN, size=(16, 16)),
    "rows of 128": replace(PLAIN, batch=1, size=(3, 128), channels=16),
    "groups": replace(PLAIN, channels=128, out=128, groups=2),
    "weights by result": replace(PLAIN, by_result=True),
    "weights by result, channels that fill no step": replace(PLAIN, channels=72, out=72, by_result=True),
    "weights by result, 1x1, stride 2": replace(PLAIN, kernel=(1, 1), pad=0, stride=2, channels=128, by_result=True),
    "weights by result, groups": replace(PLAIN, channels=128, out=128, groups=2, by_result=True, elem="bf16"),
    "one row of positions": Conv(1, (40,), 64, 64, (3,), pad=1),
    "as many taps as a map takes": replace(PLAIN, batch=1, size=(3, 140), kernel=(1, 130), pad=1, channels=16),
    "one dim": Conv(3, (37,), 64, 64, (5,), pad=2, stride=2),
    "three dims": Conv(2, (4, 5, 6), 16, 32, (3, 3, 3), pad=1),
}


@pytest.mark.some(8)
@pytest.mark.parametrize("name", CASES)
def test_convolutions(name):
    conv = CASES[name]
    check(conv.case(), ulp=2.0**-10 if conv.elem == "f16" else 2.0**-7)


@pytest.mark.parametrize("stride", [1, 2])
def test_steps_end_with_the_last_channel_of_a_tap(stride):
    """Of an image without padding, too: results whose window does not have what is infinite stay finite."""
    conv = replace(PLAIN, pad=0, channels=24, size=(5, 8), stride=stride, batch=1)
    ptx, _ = check(conv.case(), planted=24 * (2 * 8 + 5))
    assert "im2col" in ptx


@pytest.mark.usefixtures("by_vectors")
@pytest.mark.parametrize(
    ("channels", "out", "by_tma"),
    [(8, 9, False), (24, 48, False), (40, 33, False), (32, 16, True), (24, 56, True)],
)
def test_unaligned_pixels_of_few_columns_are_read_by_threads(channels, out, by_tma):
    check(replace(PLAIN, channels=channels, out=out, size=(9, 11)).case(), by_tma=by_tma)


@pytest.mark.parametrize("out", [16, 13])
def test_narrow_sums_are_made_by_a_cluster(out):
    conv = Conv(1, (10, 9), 136, out, (7, 7), by_result=True)
    _, kernel = check(conv.case(), multiprocessors=132)
    assert kernel.split == kernel.cluster == 4


def test_one_sum_is_made_by_a_cluster():
    conv = replace(PLAIN, batch=1, size=(7, 7), channels=256)
    _, kernel = check(conv.case(), schedule="cooperative", persistent=1, split=2)
    assert kernel.split == 2


def test_residual_and_strides_of_a_view():
    """An epilogue that reads another tensor, over an image that is a part of its memory."""
    body = """
        v = slice(x) {starts = [0, 0, 0, 64], sizes = [2, 8, 8, 64], steps = [1, 1, 1, 1]};
        p = pad(v) {low = [0, 1, 1, 0], high = [0, 1, 1, 0], value = 0.0};
        y = conv(p, w) {strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], input_dilation = [1, 1],
        groups = 1, layout = "nhwc"}; s = add(y, r); return(s)"""
    found = case("contraction", "view", "x: 2x8x8x128xf16, w: 3x3x64x64xf16, r: 2x8x8x64xf16", " ".join(body.split()))
    check(found)


PER_IMAGE = {
    "plus": "o = add(y, e); return(o)",
    "times, with relu": "m = mul(y, e); z = full() {shape = [3, 8, 6, 320], elem = @E, value = 0.0}; "
    "o = max(m, z); return(o)",
    "plus, and a residual": "m = add(y, e); o = add(m, r); return(o)",
    "two results": "m = mul(y, e); n = add(y, r); return(m, n)",
}
TILES = {"chosen": (), "128x192": (WgmmaTile(128, 192),), "by turns": (WgmmaTile(128, 192, pingpong=True),)}


ELEMS = ("f16", "bf16")
FEW = (("plus", "f16", "128x192"), ("plus, and a residual", "bf16", "by turns"), ("times, with relu", "bf16", "chosen"),
       ("two results", "f16", "128x192"))  # fmt: skip
REST = [case for case in itertools.product(PER_IMAGE, ELEMS, TILES) if case not in FEW]


@pytest.mark.parametrize(("name", "elem", "tile"), [*FEW, *(pytest.param(*c, marks=pytest.mark.full) for c in REST)])
def test_a_number_for_each_image_and_channel(name, elem, tile, monkeypatch):
    """As residual blocks of diffusion models and squeeze-and-excitation have it; 320 channels are no whole tiles."""
    monkeypatch.setattr("graphfuse.blockgen.gpu_wgmma_tile.FOR_WINDOWS", TILES[tile] or FOR_WINDOWS)
    body = """
        p = pad(x) {low = [0, 1, 1, 0], high = [0, 1, 1, 0], value = 0.0};
        y = conv(p, w) {strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], input_dilation = [1, 1],
        groups = 1, layout = "nhwc"}; u = reshape(t) {shape = [3, 1, 1, 320]};
        e = broadcast(u) {shape = [3, 8, 6, 320]};""" + PER_IMAGE[name]
    params = "x: 3x8x6x16x@E, w: 3x3x16x320x@E, t: 3x320x@E" + ", r: 3x8x6x320x@E" * ("r)" in PER_IMAGE[name])
    found = case("contraction", "image", params.replace("@E", elem), " ".join(body.replace("@E", elem).split()))
    check(found, ulp=2.0**-10 if elem == "f16" else 2.0**-7)


DECLINED = {
    "f32": replace(PLAIN, elem="f32"),
    "an odd number of channels": replace(PLAIN, channels=12),
    "an odd number of results": replace(PLAIN, out=60),
    "a large stride": replace(PLAIN, size=(20, 20), stride=9),
    "many taps": replace(PLAIN, batch=1, size=(3, 140), kernel=(1, 140), pad=1, channels=16),
    "steps over the end of a group": replace(PLAIN, channels=48, out=128, groups=2),
}


@pytest.mark.parametrize("why", DECLINED)
def test_declined(why):
    """Convolutions that are no windows stay as they are, in tiles for `mma.sync`."""
    _, kernel, roles = compiled(DECLINED[why].case())
    assert "schedule" not in kernel.attrs
    assert not any(op.kind is gpu.tma_load for op in roles.walk())


CHANGES = {
    "image of fewer rows": ("p7 + p9 - 1", "p7 + p9"),
    "narrower image": ("value = 8}", "value = 7}"),
    "other steps along a row": ("+ 8*p8", "+ 16*p8"),
    "taps of another stride": ("l10 + 8*p10", "l10 + 16*p10"),
    "taps without a condition": ("p10 + p8 - 1", "p8 - 1"),
    "digits of another number": ("mod(row6, 8)", "mod(row6, 4)"),
    "digits the other way round": ("64*p7 + 8*p8", "8*p7 + 64*p8"),
    "rows by twos": ("l5 + 64*pid5", "2*l5 + 64*pid5"),
    "columns by twos": ("(l10 + 8", "(2*l10 + 8"),
    "a condition on another digit": ("block.lt(%v19, %v16)", "block.lt(%v12, %v16)"),
    "start off the grid": ("- 72)", "- 68)"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_changed_is_still_what_it_says(name):
    """Index arithmetic with one number changed: no windows any more, or others, but never the wrong ones."""
    text = to_text(BY_ADDRESS)
    old, new = CHANGES[name]
    assert old in text
    # the image begins within its memory, for offsets that now lead out of it
    changed = parse(text.replace(old, new).replace(" - 72)", " + 440)").replace(" - 68)", " + 444)"))
    verify(changed)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(3 * 2 * 8 * 8 * 8).astype(np.float16)
    w, b = (rng.standard_normal(n).astype(np.float16) / 8 for n in (9 * 8 * 8, 8))
    want, got = (np.zeros((128, 8), np.float16) for _ in range(2))
    launch(changed, [x, w, b, want.reshape(-1)], {})
    lowered = lower([transformed(changed, TARGET)], TARGET)
    emulate(emit_ptx(lowered), lowered.kernels[0], [x, w, b], [got], {})
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=2.0**-10, atol=2.0**-6)


ASSEMBLED = {
    "56x56 of 64": Conv(32, (56, 56), 64, 64, (3, 3), pad=1),
    "28x28 of 128": Conv(32, (56, 56), 128, 128, (3, 3), pad=1, stride=2),
    "7x7 of 512": Conv(32, (7, 7), 512, 512, (3, 3), pad=1),
    "7x7 of 512, one image": Conv(1, (7, 7), 512, 512, (3, 3), pad=1),
}


@pytest.mark.parametrize("name", ASSEMBLED)
def test_nothing_is_serialised(name):
    """Sizes of ResNet-50."""
    _, _, roles = compiled(ASSEMBLED[name].case(), multiprocessors=132)
    done = assemble(emit_ptx(lower([roles], TARGET)).rstrip("\0\n") + "\n", "sm_90a")
    if done is None:
        pytest.skip("no assembler")
    (found,) = done.resources.values()
    assert (done.warnings, found.spill_bytes) == ((), 0)


def test_runs_of_pixels():
    """An image of three channels as `pack_pixels` leaves it: positions are 16 bytes apart, what they read overlaps."""
    body = """
        r = reshape(x) {shape = [2, 13, 8, 8]}; v = slice(r) {starts = [0, 0, 0, 0], sizes = [2, 13, 7, 8],
        steps = [1, 1, 1, 1]}; y = conv(v, w) {strides = [2, 1], low = [0, 0], high = [0, 0], dilation = [1, 1],
        input_dilation = [1, 1], groups = 1, layout = "nhwc"}; z = neg(y); return(z)"""
    found = case("contraction", "runs", "x: 2x13x16x4xf16, w: 7x4x8x64xf16", " ".join(body.split()))
    _, kernel = check(found)
    (windows,) = (m for m in kernel.tensor_maps if m.im2col)
    assert windows.strides[0] == 8
    assert windows.box[0] == 32

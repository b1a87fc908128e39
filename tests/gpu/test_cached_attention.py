"""Attention of few queries over long keys, as a step of decoding or verifying has it: drawn, on the emulator."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

from graphfuse import compiler
from graphfuse.artifact import Executable
from graphfuse.dialects import block, control, gpu, graph
from graphfuse.gpu import graph_passes
from graphfuse.gpu.emulator.driver import EmulatedDriver
from graphfuse.ir.core import Func, attr_ints, walk
from graphfuse.ir.dense import numpy_dtype
from graphfuse.ir.parser import parse_module
from graphfuse.ir.types import Tile, scalar
from graphfuse.knobs import Options
from graphfuse.runtime.gpu.session import GpuSession
from graphfuse.targets import Target
from tests.blockgen.cases import softmax
from tests.blockgen.support import graph_func

WITH_WGMMA, WITHOUT = (Target.parse(f"cuda:{part}") for part in ("sm_90a", "sm_80"))


@dataclass(frozen=True)
class Cached:
    """`groups` heads of keys, `shared` heads of queries of each; masks hide what comes behind a query."""

    groups: int
    shared: int
    queries: int
    keys: int
    depth: int
    elem: str = "f16"
    lowest: float | None = None
    """What a mask adds to hidden scores; None: no mask."""
    is_input: bool = False
    """The mask is in memory, and hides all keys from the first query."""
    part: int = 0
    """Keys of a part; 0: as the compiler chooses."""
    latent: int = 0
    """Elements of a value, which are its key's first ones; 0: values are as long as keys, and lie elsewhere."""

    def func(self) -> Func:
        """Its graph."""
        g, r, q, k, d, e = self.groups, self.shared, self.queries, self.keys, self.depth, self.elem
        shape = f"1, {g * r}, {q}, {k}"
        cut = f"v = slice(k) {{starts = [0, 0, 0, 0], sizes = [1, {g}, {k}, {self.latent}], steps = [1, 1, 1, 1]}}; "
        many = cut * bool(self.latent) + "; ".join(
            f"{x}5 = reshape({x}) {{shape = [1, {g}, 1, {k}, {n}]}}; "
            f"{x}6 = broadcast({x}5) {{shape = [1, {g}, {r}, {k}, {n}]}}; "
            f"{x}7 = reshape({x}6) {{shape = [1, {g * r}, {k}, {n}]}}"
            for x, n in (("k", d), ("v", self.latent or d))
        )
        given = self.is_input and self.lowest is not None
        values = f", v: 1x{g}x{k}x{d}x{e}" * (not self.latent)
        params = values + f", mask: 1x1x{q}x{k}xf32" * given
        mask = f"bias = broadcast(mask) {{shape = [{shape}]}}; t = add(s, bias)" if given else ""
        mask = mask if given or self.lowest is None else (
            f"i = iota() {{shape = [{shape}], elem = i64, axis = 2}}; "
            f"j = iota() {{shape = [{shape}], elem = i64, axis = 3}}; "
            f"off = full() {{shape = [{shape}], elem = i64, value = {k - q}}}; i2 = add(i, off); seen = ge(i2, j); "
            f"zero = full() {{shape = [{shape}], elem = f32, value = 0.0}}; "
            f"low = full() {{shape = [{shape}], elem = f32, value = {self.lowest}}}; "
            "bias = select(seen, zero, low); t = add(s, bias)"
        )  # fmt: skip
        scores = "t" if mask else "s"
        return graph_func(
            f"q: 1x{g * r}x{q}x{d}x{e}, k: 1x{g}x{k}x{d}x{e}{params}",
            f"""{many}; p = contract(q, k7) {{spec = "bhqd,bhkd->bhqk", elem = f32}}
            c = full() {{shape = [{shape}], elem = f32, value = {d**-0.5}}}; s = mul(p, c); {mask}
            {softmax(3, shape).replace("return(y)", "").replace("(x", f"({scores}")}
            w = cast(y) {{to = {e}}}; o = contract(w, v7) {{spec = "bhqk,bhkd->bhqd"}}; return(o)""",
        )

    def build(self, target: Target) -> Executable:
        """Its program."""
        func = self.func()
        inputs = ("q", "k", "v", "mask") if not self.latent else ("q", "k", "mask")
        names = {"inputs": inputs[: len(func.params)], "outputs": ("y",)}
        named = Func(func.name, func.body, names, func.dims)
        if not self.part:
            return compiler.build(named, target, Options())
        with mock.patch.object(graph_passes, "key_parts", return_value=lambda *_: self.part):
            return compiler.build(named, target, Options())

    def mask(self) -> NDArray:
        """What is added to scores."""
        lowest = 0.0 if self.lowest is None else self.lowest
        seen = np.arange(self.keys) <= np.arange(self.keys - self.queries, self.keys)[:, None]
        seen[0] &= not self.is_input
        return np.where(seen, 0, lowest).astype(np.float32)[None, None]

    def inputs(self, seed: int) -> dict[str, NDArray]:
        """Standard normal numbers, and the mask."""
        rng = np.random.default_rng(seed)
        read = "k" if self.latent else "kv"
        heads = {"q": (self.groups * self.shared, self.queries), **dict.fromkeys(read, (self.groups, self.keys))}
        dtype = numpy_dtype(scalar(self.elem))
        found = {name: rng.standard_normal((1, *n, self.depth)).astype(dtype) for name, n in heads.items()}
        return found | ({"mask": self.mask()} if self.is_input and self.lowest is not None else {})

    def wanted(self, q: NDArray, k: NDArray, v: NDArray | None = None, **_: NDArray) -> NDArray:
        """In f64, but for the sum with the mask."""
        v = k[..., : self.latent] if v is None else v
        k, v = (np.repeat(x.astype(np.float64), self.shared, axis=1) for x in (k, v))
        scores = q.astype(np.float64) @ k.swapaxes(2, 3) * self.depth**-0.5
        scores = (scores.astype(np.float32) + self.mask()).astype(np.float64)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True) @ v


MASKS = (
    (None, False), (float("-inf"), False), (-65504.0, False), (-3.4e38, False), (-65504.0, True),
    (-3.4e38, True), (float(np.finfo(np.float32).min), True),
)  # fmt: skip


def drawn(seed: int) -> Cached:
    """Sizes by their logarithm; parts end at a block of keys, or anywhere."""
    draw = random.Random(seed)
    queries = draw.choice((1, 1, 2, 3, 5, 8, 16))
    keys = max(queries, round(2 ** draw.uniform(4, 8.6)))
    return Cached(
        draw.choice((1, 2)), draw.choice((1, 2, 3, 4, 8)), queries, keys, draw.choice((32, 40, 64, 96, 128)),
        draw.choice(("f16", "bf16")), *draw.choice(MASKS), part=draw.choice((0, 64, 64, 128, 48, round(keys / 3) or 1)),
    )  # fmt: skip


def check(case: Cached, target: Target, seed: int) -> Executable:
    """Results on the emulator, beside f64."""
    built, inputs = case.build(target), case.inputs(seed)
    found = GpuSession(built, EmulatedDriver(target.cpu)).run(inputs)["y"]
    tolerance = {"f16": 2e-3, "bf16": 1.6e-2}[case.elem]
    np.testing.assert_allclose(found.astype(np.float64), case.wanted(**inputs), rtol=tolerance, atol=tolerance)
    return built


@pytest.mark.some(8)
@pytest.mark.parametrize("seed", range(60))
def test_drawn(seed: int) -> None:
    check(drawn(seed), (WITH_WGMMA, WITH_WGMMA, WITHOUT)[seed % 3], seed)


SEVERAL = Cached(2, 4, 16, 512, 64, lowest=float("-inf"), part=256)
"""64 rows of one tile: heads that share keys, by queries."""


def attentions(built: Executable) -> list[Func]:
    """Its block functions with two products."""
    dots = (block.dot,)
    found = parse_module(built.ir["block"], "block")
    return [f for f in found if any(op.kind in dots or op.kind.name == "gpu.wgmma" for op in f.walk())]


@pytest.mark.parametrize("lowest", [float("-inf"), -65504.0])
def test_rows_of_heads_that_share_keys_bound_the_walk(lowest: float) -> None:
    """What a query sees follows from what is left of its row's number: blocks that all rows see have no comparisons."""
    (func,) = attentions(replace(SEVERAL, lowest=lowest).build(WITH_WGMMA))
    loops = [
        op for op in func.walk() if op.kind is control.for_ and any(o.kind.name == "gpu.wgmma" for o in walk(op.body))
    ]
    tests = ("block.le", "block.ge", "block.select")
    compared = [
        any(
            op.kind.name in tests and isinstance(t, Tile) and t.shape[-1] > 1
            for op in walk(loop.body)
            for t in op.types
        )
        for loop in loops
    ]
    assert len(loops) == 2
    assert compared[-1] is False


@pytest.mark.parametrize("keys", [500, 512])
def test_zeros_behind_the_last_part_are_the_boxes(keys: int) -> None:
    """Copies by TMA have them for nothing: the parts are no copies of keys."""
    built = check(replace(SEVERAL, keys=keys, lowest=None, part=192), WITH_WGMMA, 0)
    kinds = [
        str(op.attrs["kind"])
        for f in parse_module(built.ir["regions"], "regions")
        for op in f.walk()
        if op.kind is graph.region
    ]
    assert kinds == ["attention", "reduction"]
    (func,) = attentions(built)
    assert any(op.kind.name == "gpu.tma_load" for op in func.walk())


@pytest.mark.parametrize(("keys", "fed"), [(1100, True), (900, False)])
def test_tensor_cores_take_fewer_rows_of_long_walks(keys: int, fed: bool) -> None:
    """20 rows, of which a tile of 64 has room: three stages of copies are what long walks want."""
    (func,) = attentions(check(Cached(1, 4, 5, keys, 64, lowest=float("-inf"), part=keys), WITH_WGMMA, 0))
    assert any(op.kind.name == "gpu.tma_load" for op in func.walk()) == fed


def test_more_rows_than_a_tile_have_parts_where_the_machine_idles() -> None:
    """16 queries of 8 heads each: their keys were read by 8 programs."""
    many = Cached(1, 8, 16, 8192, 128)
    step = next(step for _, step in many.build(WITH_WGMMA).plan.walk())
    assert step.grid > 64
    full = Cached(160, 8, 16, 1024, 128)
    assert len(list(full.build(WITH_WGMMA).plan.walk())) == 1


LATENT = Cached(1, 70, 1, 200, 576, latent=512, part=200)


def columns_in_blocks(func: Func) -> int:
    """Of what shared memory has several slots for: keys, and values that lie elsewhere."""
    shapes = [attr_ints(op, "shape") for op in func.walk() if op.kind is gpu.shared_alloc]
    return sum(shape[-1] for shape in shapes if shape[0] > 1 and shape[-1] > 1)


@pytest.mark.some(4)
@pytest.mark.parametrize(
    "case",
    [
        LATENT,
        replace(LATENT, part=128, elem="bf16"),
        replace(LATENT, shared=128, queries=3, lowest=float("-inf"), elem="bf16"),
        replace(LATENT, shared=128, queries=3, lowest=-65504.0, part=64),
        replace(LATENT, queries=3, lowest=-65504.0, is_input=True),
        replace(LATENT, depth=512, keys=100, part=100),
        replace(LATENT, depth=640, keys=100, part=100),
    ],
    ids=str,
)
def test_latent_keys_are_copied_once(case: Cached) -> None:
    """Values are parts of the keys in shared memory, a half of them for each of two warpgroups."""
    (func,) = attentions(check(case, WITH_WGMMA, 0))
    (roles,) = [op for op in func.walk() if op.kind is gpu.warp_specialize]
    assert roles.attrs["warps"] == (4, 4, 4)
    assert columns_in_blocks(func) == case.depth


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("depth", "latent", "apart"), [(576, 384, 256), (320, 320, 256), (576, 520, 512), (320, 256, 0)]
)
def test_values_that_are_no_whole_parts_of_keys(depth: int, latent: int, apart: int) -> None:
    """They are copied by themselves, or where they are few multiplied by one warpgroup."""
    case = replace(LATENT, depth=depth, latent=latent, keys=100, part=100)
    (func,) = attentions(check(case, WITH_WGMMA, 0))
    assert not apart or columns_in_blocks(func) == depth + apart
    (roles,) = [op for op in func.walk() if op.kind is gpu.warp_specialize]
    assert roles.attrs["warps"] == ((4, 4, 4) if apart else (4, 4))


@pytest.mark.parametrize(("queries", "programs"), [(1, 8 * 2 * 8), (4, 8 * 8 * 2), (16, 8 * 32)])
def test_parts_of_latent_keys_leave_no_multiprocessor_idle(queries: int, programs: int) -> None:
    """Of 132: the bytes of keys that hold their values count once, and programs have 64 rows."""
    step = next(step for _, step in Cached(8, 128, queries, 8192, 576, latent=512).build(WITH_WGMMA).plan.walk())
    assert step.grid == programs

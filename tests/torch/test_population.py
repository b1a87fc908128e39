"""The population: cases come from the seed alone, fit their device, and tell where they are slow or wrong."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from threading import Barrier

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from benchmarks import population, record
from benchmarks.emulated_torch import emulated
from benchmarks.population_draw import LIMITS, Array, Case, drawn
from benchmarks.population_waits import Told
from tests.torch.test_lowerings import same

DRY = Namespace(
    dry=True, device="cpu", avx2=False, threads=1, kind="kernel", turns=False, tune=False, onnx=False, spills=False,
    memory="",
)  # fmt: skip
EMULATOR = Namespace(**vars(DRY) | {"dry": False, "device": "emulator"})


@pytest.mark.parametrize(("kind", "device"), [*(("kernel", d) for d in LIMITS), ("layer", "cuda"), ("layer", "cpu")])
def test_cases_are_drawn_from_the_seed_alone(kind: str, device: str) -> None:
    families = population.families_of(kind)
    first, again, other = ([drawn(families, seed, i, device) for i in range(3 * len(families))] for seed in (7, 7, 8))
    assert list(map(str, first)) != list(map(str, other))
    assert [(name, str(case)) for name, case in first] == [(name, str(case)) for name, case in again]
    assert all(case.fits(device) for _, case in first)
    assert {name for name, _ in first} == families.keys()


@pytest.mark.parametrize("layout", ["", "gap", "step", "turned"])
def test_arrays_have_their_shape_in_any_layout(layout: str) -> None:
    made = Array((4, 6), layout=layout).made("float16")
    assert (made.shape, made.dtype, made.is_contiguous()) == ((4, 6), torch.float16, layout == "")


def test_distinct_indices() -> None:
    assert len(set(Array((5,), below=7, distinct=True).made("float32").tolist())) == 5


def test_the_seed_is_the_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "commit", lambda: "0000000abc+changes")
    assert population.seed_of_commit() == 0xABC
    monkeypatch.setattr(record, "commit", lambda: "unknown")
    with pytest.raises(SystemExit, match="the commit is unknown here: give --seed"):
        population.seed_of_commit()


@pytest.mark.parametrize("training", [False, True])
def test_a_case_is_compared_with_float64(*, training: bool) -> None:
    case = Case("a test", (Array((8, 16)), Array((16,))), "float32", lambda x, y: (x * y).sum(-1), training=training)
    row = population.measured(case, DRY)
    assert not row["wrong"]
    assert row["raised"] == {}
    assert row["launches"] >= 1


def test_gradients_lie_as_outputs_do_and_are_the_same_numbers() -> None:
    case = Case("a test", (Array((4, 6)),), "float32", lambda x: x, training=True)
    subject, found = population.Subject(case, "cpu"), []
    for out in (torch.ones(4, 6), torch.ones(6, 4).t()):
        subject.sums([out.requires_grad_()])
        found += subject.tangents
    assert [t.stride() for t in found] == [(6, 1), (1, 4)]
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_what_a_case_waits_for_has_names() -> None:
    told = Told()
    compiled = torch.compile(lambda x: torch.sort(x.exp() + 1)[0], backend=told.backend())
    x = torch.randn(8, 1000)
    compiled(x)
    waits = " ".join(told.waits(lambda: compiled(x), "cpu"))
    assert "pointwise_0 (test_population.py" in waits
    assert "aten::sort" in waits


class Folded(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x).relu()


def test_a_module_is_exported_for_onnx_runtime() -> None:
    case = Case("a test", (Array((3, 8)),), "float32", module=Folded)
    row = population.measured(case, Namespace(**vars(DRY) | {"onnx": True}))
    assert row["raised"] == {}
    assert row["off"].keys() == {"graphfuse", "onnxruntime"}
    assert max(row["off"].values()) <= 1
    judged = population.judged(row | {"us": {"eager": 1.0, "graphfuse": 2.0, "onnxruntime": 3.0}}, {})
    assert judged["ratio"] == 1.5


def test_an_export_that_fails_is_told() -> None:
    class Unknown(Folded):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert not torch.compiler.is_exporting()
            return super().forward(x)

    case = Case("a test", (Array((3, 8)),), "float32", module=Unknown)
    row = population.measured(case, Namespace(**vars(DRY) | {"onnx": True}))
    assert row["off"] == {}
    assert row["raised"].keys() == {"export"}


def test_each_gpu_has_cases_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows_of(args: Namespace, families: object, env: dict[str, str], numbers: Iterator[int]) -> Iterator[object]:
        for number in numbers:
            barrier.wait()  # both GPUs are at work
            yield {"number": number, "gpu": env["CUDA_VISIBLE_DEVICES"], "set": env["SET"]}

    barrier = Barrier(2, timeout=60)
    monkeypatch.setattr(population, "rows_of", rows_of)
    lanes = population.lanes_of(DRY, {"SET": "1"}, ["0", "5"])
    rows = list(population.rows_of_lanes(DRY, {}, lanes, iter(range(6))))
    assert sorted(r["number"] for r in rows) == list(range(6))
    assert sorted(r["gpu"] for r in rows) == ["0"] * 3 + ["5"] * 3
    assert {r["set"] for r in rows} == {"1"}


def test_memory_is_of_both_sides() -> None:
    row = {"family": "text", "case": "", "memory": {"graphfuse": 3, "inductor": 2}, "number": 1}
    text = population.table([row, {**row, "memory": {"graphfuse": 1}}])
    assert "2 cases, not timed; memory 1.50, most 1.50" in text


def test_errors_are_in_what_is_allowed() -> None:
    exact, eager = torch.ones(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64) + 1e-3
    assert population.off([exact + 2e-3], [exact], [eager]) < 1 < population.off([exact + 5e-3], [exact], [eager])
    assert population.off([exact * float("nan")], [exact], [eager]) > 1


def test_the_table_has_the_worst_what_is_wrong_and_what_ended() -> None:
    row = {"kind": "kernel", "family": "sum", "number": 0, "case": "of ones", "launches": 1, "externs": {}, "cuts": {}}
    slow = row | {"us": {"eager": 1.0, "graphfuse": 2.0}, "wrong": True, "off": {"graphfuse": 3.0}, "waits": ["2 us"]}
    text = population.table([population.judged(slow, {}), row | {"number": 1, "ended": "after 5 s"}])
    for line in (
        "sum                 1 cases, geomean 0.50, least 0.50",
        "0.50 sum 0: of ones",
        "2 us",
        "WRONG",
        "after 5 s",
    ):
        assert line in text


# each is one kernel, which touches so many times the bytes that have to be moved at most, tables of weights with them
EMULATED = {
    "bilinear": ((2, 16, 6, 7), lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), 4),
    "uneven windows": ((2, 16, 11, 11), lambda x: F.adaptive_avg_pool2d(x, 3), 8),
    "bicubic": ((2, 16, 6, 7), lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), 11),
    "softmax over dim 1": ((3, 40, 33), lambda x: x.softmax(1), 2.2),
    "var over dim 0": ((11, 8, 130), lambda x: x.var(0), 2),
    "batch norm": ((6, 140, 5, 5), lambda x: F.batch_norm(x, None, None, training=True), 2),
    "group norm": ((2, 64, 8, 8), lambda x: F.group_norm(x, 8), 2),
    "cumsum along dim 0": ((300, 40), lambda x: x.cumsum(0), 2),
    "logcumsumexp": ((60, 1000), lambda x: x.logcumsumexp(1), 1.1),
    "a running sum that is read again by parts": ((17835,), lambda x: x.cumsum(0), 3.5),
    "max and its place": ((300, 1000), lambda x: x.max(1), 1.1),
    "min and its place in long rows": ((140, 40000), lambda x: x.min(1), 2.1),
    "max and its place in short rows": ((61, 385, 3), lambda x: x.max(2), 3),
    "argmin of columns": ((127, 24, 8), lambda x: x.argmin(0), 1.1),
    "softmax, its largest and where": ((300, 64), lambda x: x.softmax(1).max(1), 1.2),
}


@pytest.mark.parametrize("name", EMULATED)
def test_what_kernels_touch_on_the_emulator(name: str) -> None:
    shape, call, most = EMULATED[name]
    row = population.measured(Case(name, (Array(shape),), "float32", call), EMULATOR)
    assert not row["wrong"], row["off"]
    assert len(row["touched"]["launches"]) == 1
    assert row["touched"]["bytes"] < most


# each is one kernel of halves, which executes at most so many instructions for each element of 4 bytes
LONGEST = ("largest of large windows", "places in columns")
EXECUTED = {
    "largest of windows of odd channels": (((16, 99, 32, 32), "last"), lambda x: F.max_pool2d(x, 2, 2, 1), 22),
    "largest of large windows": (((4, 16, 56, 56), ""), lambda x: F.max_pool2d(x, 5, 1, 2), 200),
    "means of windows": (((8, 16, 56, 56), ""), lambda x: F.avg_pool2d(x, 2, 1, 1), 60),
    "logcumsumexp of three rows": (((3, 27072), ""), lambda x: x.logcumsumexp(0), 75),
    "logcumsumexp of short columns": (((10, 8, 342), ""), lambda x: x.logcumsumexp(1), 60),
    "deviations of short rows": (((98, 360, 9), ""), lambda x: x.std(2), 60),
    "groups of few channels": (((2, 96, 48, 48), "last"), lambda x: F.group_norm(x, 32), 55),
    "averages of windows": (((2, 37, 28, 28), ""), lambda x: F.adaptive_avg_pool2d(x, 7), 40),
    "places in columns": (((96, 20480), ""), lambda x: x.argmin(0), 25),
    "channels that are no power of two": (((2, 72, 14, 15), "last"), lambda x: F.interpolate(x, scale_factor=2), 19),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.full if n in LONGEST else ()) for n in EXECUTED])
def test_what_kernels_execute_on_the_emulator(name: str) -> None:
    (shape, layout), call, most = EXECUTED[name]
    row = population.measured(Case(name, (Array(shape, layout=layout),), "float16", call), EMULATOR)
    assert not row["wrong"], row["off"]
    assert len(row["touched"]["launches"]) == 1
    assert row["touched"]["instructions"] < most


def test_gradients_of_large_windows_on_the_emulator() -> None:
    case = Case("windows", (Array((2, 3, 9, 17)),), "float16", lambda x: F.max_pool2d(x, 5, 1, 2), training=True)
    row = population.measured(case, EMULATOR)
    assert not row["wrong"], row["off"]


@pytest.mark.parametrize("depth", [64, 128])
def test_attention_of_floats_fits_in_registers(depth: int) -> None:
    arrays = (Array((1, 2, 64, depth)),) * 3
    row = population.measured(Case("floats", arrays, "float32", F.scaled_dot_product_attention), EMULATOR)
    assert not row["wrong"], row["off"]
    assert row["touched"]["instructions"] < 2.6 * 2 * 64 / 4  # two fma for each key, and four tensors are moved


# with the warps that share the work at least
SPREAD = {
    "groups of few channels": (((3, 96, 24, 24), "last"), lambda x: F.group_norm(x, 32), 96 * 4),
    "few columns": (((1031, 17), ""), lambda x: x.softmax(0), 48),
    "extremes of few columns": (((232, 182), ""), lambda x: x.argmin(0) * 0 + x.amin(0), 40),
    "short rows": (((4176, 22), "step"), lambda x: x.softmax(1), 1000),
    "windows of few places": (((24, 6, 23, 23), ""), lambda x: F.adaptive_avg_pool2d(x, 7), 200),
}


@pytest.mark.parametrize("name", SPREAD)
def test_few_elements_are_spread_over_multiprocessors(name: str) -> None:
    (shape, layout), call, least = SPREAD[name]
    row = population.measured(Case(name, (Array(shape, layout=layout),), "bfloat16", call), EMULATOR)
    assert not row["wrong"], row["off"]
    (launch,) = row["touched"]["launches"]
    assert int(launch.split(": ")[1].split(" warps")[0]) >= least, launch


EXTREMES = [
    *(((1,), 0, 1), ((37, 1), 1, 1), ((7, 61, 5), 0, 1), ((7, 61, 5), 1, 1), ((7, 61, 5), 2, 1), ((1031,), 0, 1)),
    *(((2, 1 << 17), 1, 2), ((1, 200003), 1, 2), ((100003, 3), 0, 2), ((2, 33000, 5), 1, 2)),
]
OTHERS = (torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8)


@pytest.mark.some(7)
@pytest.mark.parametrize(
    ("shape", "axis", "launches", "dtype"),
    [
        *((*case, torch.float32) for case in EXTREMES),
        *((*case, dtype) for case, dtype in zip(EXTREMES[2:7], OTHERS, strict=True)),
        *(pytest.param(*case, dtype, marks=pytest.mark.full) for case in EXTREMES for dtype in OTHERS),
    ],
)
def test_places_of_extremes_on_the_emulator(
    shape: tuple[int, ...], axis: int, launches: int, dtype: torch.dtype
) -> None:
    """Of several that are equal the first; of rows with NaN its place; long rows in parts."""
    x = (torch.arange(torch.Size(shape).numel()) * 7919 % 101).reshape(shape).to(dtype)
    line = x.movedim(axis, 0)
    line[len(line) // 2] = line[len(line) // 3] = 110
    line[len(line) // 5] = line[-1] = 0
    if dtype.is_floating_point and line[0].numel() > 1:
        line.flatten(1)[len(line) // 2 :: 9, -1] = float("nan")
        line.flatten(1)[:, 0] = float("-inf")
    with emulated() as reports:
        same(lambda x: x.max(axis), x)
        assert len(reports) == launches
        same(lambda x: (x.argmax(axis), x.argmin(axis, keepdim=True), x.min(axis)[1]), x)


@pytest.mark.parametrize(
    ("shape", "layout", "groups"),
    [
        ((1, 40, 64, 64), "last", 4),
        pytest.param((3, 40, 64, 64), "last", 4, marks=pytest.mark.full),
        ((1, 16, 99, 99), "", 2),
    ],
)
def test_few_long_groups_are_read_twice(shape: tuple[int, ...], layout: str, groups: int) -> None:
    """By all multiprocessors for their sums, and for what they are scaled to."""
    case = Case("a test", (Array(shape, layout=layout),), "float16", lambda x: F.group_norm(x, groups))
    row = population.measured(case, EMULATOR)
    assert not row["wrong"], row["off"]
    assert [t.split("_")[0] for t in row["touched"]["launches"]] == ["reduction", "reduction", "pointwise"]
    assert row["touched"]["bytes"] < 2.7


@pytest.mark.full  # of fewer elements: EXTREMES
def test_long_rows_are_searched_in_parts_that_registers_hold() -> None:
    case = Case("in 250 parts", (Array((5_000_000,)),), "float32", lambda x: x.argmin(0))
    row = population.measured(case, EMULATOR)
    assert not row["wrong"], row["off"]
    assert len(row["touched"]["launches"]) == 2
    assert row["touched"]["bytes"] < 1.05


def test_running_sums_of_halves_are_one_kernel() -> None:
    with emulated() as reports:
        same(lambda x: x.cumsum(1), torch.randn(60, 1000, dtype=torch.float16), rtol=2e-3)
        assert len(reports) == 1


def test_keys_that_heads_share_are_read_once_on_the_emulator() -> None:
    shared = Array((1, 2, 1999, 72))

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    row = population.measured(Case("of 7", (Array((1, 14, 1, 72)), shared, shared), "float16", call), EMULATOR)
    assert not row["wrong"], row["off"]
    parts, mean = row["touched"]["launches"]
    assert parts.startswith("attention_0: 128 warps"), parts  # 32 parts for each head of keys, of two warps
    assert mean.startswith("reduction_0"), mean
    assert row["touched"]["bytes"] < 1.5


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_an_image_and_its_gradient_are_a_kernel_each(mode: str) -> None:
    call = lambda x: F.interpolate(x, scale_factor=2, mode=mode)  # noqa: E731
    row = population.measured(Case(mode, (Array((2, 3, 5, 7)),), "float16", call, training=True), EMULATOR)
    assert not row["wrong"], row["off"]
    assert len(row["touched"]["launches"]) == 2

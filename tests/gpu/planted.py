"""Mistakes planted in kernels of every family: PTX, what is changed in it, and which report finds it.

`python -m tests.gpu.planted` prints the table of docs/emulator.md.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from benchmarks.gemm_kernels import Gemm
from graphfuse.gpu.emulator import EmulatorError
from graphfuse.gpu.lower import emit_ptx
from graphfuse.gpu.pipeline import compile_functions
from graphfuse.interp import graph as interp
from graphfuse.targets import Target
from tests.gpu import test_hopper
from tests.gpu.foreign import cases as foreign
from tests.gpu.foreign import inductor
from tests.gpu.launching import compiled, emulate, numbers, outputs_of
from tests.gpu.sweep_cases import SweepCase
from tests.gpu.test_pipeline_loads import matmul
from tests.gpu.test_sweep import block_function

SEEDS = range(6)
WRONG = "other numbers"


@dataclass(frozen=True)
class Victim:
    """A kernel, its inputs, and what it should give."""

    ptx: str
    run: Callable[[str, int], list[np.ndarray]]

    def found(self, ptx: str) -> str:
        """What a changed text is reported for, with any seed: an error's message, other numbers, or nothing."""
        right = self.run(self.ptx, 0)
        for seed in SEEDS:
            try:
                got = self.run(ptx, seed)
            except EmulatorError as e:
                return str(e)
            for g, r in zip(got, right, strict=True):
                near = 1e-3 * float(np.abs(r.astype(float)).max())
                if not np.allclose(g.astype(float), r.astype(float), rtol=2e-2, atol=near, equal_nan=True):
                    return WRONG
        return ""


def _kernel(ptx, kernel, inputs, outputs, symbols=None, region=None, **options) -> Victim:
    def run(text, seed):
        got, given = outputs_of(region, inputs, outputs)
        emulate(text, kernel, [*(x.copy() for x in inputs), *given], seed=seed, symbols=symbols, **options)
        return got

    return Victim(ptx, run)


def _swept(name: str) -> Victim:
    case = SweepCase(*name.split("-"))
    made = case.case()
    region, func = block_function(case)
    lowered = compile_functions([func], Target.parse(f"cuda:{case.arch}"))
    values = made.sizes[-1]
    inputs = made.arrays(values)
    outputs = interp.evaluate_op(region, inputs, values)
    symbols = {n: values[n] for n in func.ranges}
    return _kernel(emit_ptx(lowered), lowered.kernels[0], inputs, outputs, symbols, region)


def _product(gemm: Gemm, **options) -> Victim:
    _, _, ptx, kernel = test_hopper.compiled(gemm)
    inputs = test_hopper.inputs(gemm)
    return _kernel(ptx, kernel, inputs, [np.zeros((gemm.m, gemm.n), inputs[0].dtype)], **options)


def _pipelined(stages: int) -> Victim:
    rng = np.random.default_rng(0)
    ptx, kernel = compiled(matmul((32, 32, 32), (40, 40, 136), stages=stages))
    inputs = [numbers(rng, (40, 136), "f16"), numbers(rng, (136, 40), "f16")]
    return _kernel(ptx, kernel, inputs, [np.zeros((40, 40), np.float32)], {"t": 5})


def _foreign(name: str, file: str, arch: str) -> Victim:
    case, ptx = replace((foreign.CASES | foreign.CUDA)[name](), reference=None), foreign.text(file, arch)

    def run(text, seed):
        done = case.run(name, text, seed)
        for finding in done.findings:
            if not finding.is_note:
                raise EmulatorError(finding.message, finding.loc)
        return [v for v in done.arguments.values() if isinstance(v, np.ndarray)]

    return Victim(ptx, run)


def _inductor(name: str) -> Victim:
    """Of a function's kernels, the one with the longest text."""
    texts = [launch["ptx"] for launch in inductor.taken_down()[name]["launches"]]
    number = max(range(len(texts)), key=lambda i: len(texts[i]))

    def run(text, seed):
        done = inductor.run(name, [*texts[:number], text, *texts[number + 1 :]], seed)
        for finding in done.findings:
            if not finding.is_note:
                raise EmulatorError(finding.message, finding.loc)
        return done.results

    return Victim(texts[number], run)


RING = (("ring", "2"), ("store_buffers", "2"))
FAMILIES: dict[str, Callable[[], Victim]] = {
    "pointwise": lambda: _swept("pointwise-f32-plain-odd-sm_80"),
    "transposed": lambda: _swept("turned-f32-plain-whole-sm_80"),
    "transposed odd": lambda: _swept("turned-f32-plain-odd-sm_80"),
    "rows": lambda: _swept("softmax-f32-plain-odd-sm_80"),
    "long rows": lambda: _swept("long_rows-f32-plain-odd-sm_80"),
    "columns": lambda: _swept("columns-f32-plain-whole-sm_80"),
    "positions": lambda: _swept("positions-f32-plain-odd-sm_80"),
    "product by mma": lambda: _swept("product-f16-plain-odd-sm_80"),
    "product by 4 warps": lambda: _swept("warpgroups-f16-plain-odd-sm_80"),
    "product by cp.async, 2 steps": lambda: _pipelined(2),
    "product by cp.async, 3 steps": lambda: _pipelined(3),
    "convolution": lambda: _swept("convolution-f16-plain-odd-sm_80"),
    "attention": lambda: _swept("attention-f16-plain-odd-sm_80"),
    "scan": lambda: _swept("scan-f32-plain-odd-sm_80"),
    "scan of columns": lambda: _swept("scan_columns-f32-plain-whole-sm_80"),
    "scatter": lambda: _swept("scatter_add-f32-plain-odd-sm_80"),
    "scatter to few places": lambda: _swept("scatter_few-f32-plain-odd-sm_80"),
    "topk": lambda: _swept("topk_of_columns-f32-plain-odd-sm_80"),
    "lines in order": lambda: _swept("in_order-f32-plain-odd-sm_80"),
    "product by wgmma": lambda: _product(Gemm(256, 256, 320, attrs=RING), blocks=1),
    "product by pingpong": lambda: _product(
        Gemm(192, 256, 320, (64, 128, 64), attrs=(("schedule", '"pingpong"'), ("ring", "2"))), blocks=1
    ),
    "product with odd rows": lambda: _product(Gemm(192, 61, 64, (64, 64, 64)), blocks=1),
    "product by a cluster": lambda: _product(
        Gemm(128, 128, 256, (64, 64, 64), attrs=(("split", "2"), ("ring", "2"))), blocks=2
    ),
    **{f"Triton's {name}": partial(_foreign, name, name, "sm_80") for name in foreign.CASES if name != "dropout"},
    "Triton's matmul by wgmma": partial(_foreign, "matmul", "matmul", "sm_90"),
    "Triton's attention by wgmma": partial(_foreign, "attention", "attention", "sm_90"),
    **{f"CUDA's {name}": partial(_foreign, name, "cuda", "sm_80") for name in ("total", "transpose", "last_block")},
}
"""By name; `victim` makes each once."""


@functools.cache
def victim(family: str) -> Victim:
    """A family's kernel."""
    of_inductor = family.removeprefix("Inductor's ")
    return FAMILIES[family]() if of_inductor == family else _inductor(of_inductor)


@dataclass(frozen=True)
class Bug:
    """`pattern` becomes `by` at one place after `after`; `report` is a pattern of what is said about it."""

    mistake: str
    families: tuple[str, ...]
    pattern: str
    by: str
    report: str
    which: Sequence[int] = (0,)
    """The places that are tried, one by one; none: all there are."""
    after: str = ""

    def changed(self, ptx: str) -> Iterator[str]:
        """The text with the mistake, once for every place."""
        places = list(re.compile(self.pattern, re.DOTALL).finditer(ptx, ptx.index(self.after) if self.after else 0))
        assert len(places) > max(self.which, default=0), f"{self.pattern} is not in the text"
        for m in [places[i] for i in self.which] or places:
            yield ptx[: m.start()] + m.expand(self.by) + ptx[m.end() :]


TRITON, TRITON_MMA = "Triton's {}".format, ("Triton's matmul", "Triton's attention")
INDUCTOR = "Inductor's {}".format
INDUCTOR_WGMMA = (INDUCTOR("linear"), INDUCTOR("convolution"), INDUCTOR("flex attention"))
TRITON_WGMMA = tuple(f"{name} by wgmma" for name in TRITON_MMA)
RACE = "race|uninitialised|still in flight"
BOUNDS = "out of bounds"
WGMMA = ("product by wgmma", "product by pingpong", "product by a cluster")
ODD_ROWS = ("product with odd rows",)
COPIES = ("product by cp.async, 2 steps", "product by cp.async, 3 steps")
MMA = ("product by mma", "convolution", "attention", *COPIES)
WARP_BARRIER = r"bar\.warp\.sync\s+\S+;"
BARRIER, WAIT = r"bar\.sync[ \t]+0;", r"@p bra DONE;\s*bra WAIT;"
SHUFFLE, ITSELF = r"(shfl\.sync\.bfly\.b32 [^;]*), \d+, 31", r"\1, 0, 31"
TENSOR = r"cp\.async\.bulk\.tensor\.2d\."
NEXT_ROW = r"{ .reg .b32 row; add.s32 row, \2, 1; \1row\3 }"
GUARDED = r"@%p\d+ ((?:ld|st)\.global)"
LESS, SAME = r"setp\.lt(\.[su]\d\d\s+(%p\d+),)(?!.*@!?\2 bra)", r"setp.le\1"
"""A comparison that no branch waits for: of a mask, not of a whole tile."""
BUGS = (
    # barriers of the block and of a warp
    Bug("a barrier is left out", ("transposed", "scan of columns", "attention", "product by 4 warps", *COPIES),
        BARRIER, "", RACE, which=()),
    Bug("a barrier is left out", ("long rows",), BARRIER, "", RACE, which=(0, 1)),
    Bug("a barrier is left out", ("scatter to few places",), BARRIER, "", RACE, which=()),
    Bug("a barrier is left out", ("product by mma", "convolution"), BARRIER, "", RACE, which=(1,)),
    Bug("a warp's barrier is left out", ("product by mma", "lines in order"), WARP_BARRIER, "", RACE, which=()),
    Bug("a warp's barrier is left out", ODD_ROWS, WARP_BARRIER, "", RACE, which=(1,)),
    # masks
    Bug("a mask lets one more through", ("pointwise", "rows", "long rows", "positions", "convolution", "attention"),
        LESS, SAME, BOUNDS),
    Bug("a mask lets one more through", ("transposed odd",), LESS, SAME, f"{BOUNDS}|{RACE}", which=(2, 8, 10, 16)),
    Bug("a mask lets one more through", ("product by mma",), LESS, SAME, BOUNDS, which=(0, 1, 2, 3)),
    Bug("a mask lets one more through", ("topk",), LESS, SAME, BOUNDS, which=(0, 2)),
    Bug("a mask lets one more through", COPIES, LESS, SAME, BOUNDS, which=(0, 2)),
    Bug("a bound is one too far", ("scan",), LESS, SAME, BOUNDS),
    Bug("a bound is one too far", ("scatter",), LESS, SAME, WRONG),
    Bug("a part of a vector too few", COPIES, r"min\.s32 ([^;]*), 8;", r"min.s32 \1, 7;", WRONG),
    Bug("an element where there is none", COPIES, r"max\.s32 ([^;]*), 0;", r"max.s32 \1, 1;", f"{BOUNDS}|{WRONG}"),
    # exchange between threads
    Bug("lanes exchange with themselves", ("rows",), SHUFFLE, ITSELF, WRONG, which=()),
    Bug("lanes exchange with themselves", ("columns", "positions"), SHUFFLE, ITSELF, f"{WRONG}|{BOUNDS}", which=()),
    # the upper words of places are alike
    Bug("lanes exchange with themselves", ("topk",), SHUFFLE, ITSELF, WRONG, which=(*range(9), 10, 12, 13, 14, 16)),
    Bug("lanes exchange with themselves", ("attention",), SHUFFLE, ITSELF, WRONG, which=(2, 3)),
    Bug("lanes exchange with themselves", ("scan",), SHUFFLE, ITSELF, WRONG),
    Bug("a wrong swizzle", ("transposed",), r"xor\.b32 ([^;]*), (\d+);", r"xor.b32 \1, 1\2;", f"{RACE}|{WRONG}",
        which=(0, 5, 9)),
    Bug("a wrong swizzle", ("product by mma", "attention", *COPIES), r"xor\.b32 ([^;]*), (\d+);", r"xor.b32 \1, 1\2;",
        f"misaligned|multiple of|{BOUNDS}"),
    Bug("a swizzle of half the span", COPIES, r"xor\.b32 ([^;]*), 32;", r"xor.b32 \1, 16;", f"{RACE}|{WRONG}"),
    Bug("a matrix is read untransposed", MMA, r"(ldmatrix\S*)\.trans", r"\1", WRONG),
    # copies ahead by cp.async
    Bug("no wait for a copy", COPIES, r"cp\.async\.wait_group[ \t]+\d;", "", "in flight"),
    Bug("a wait that leaves one copy more", COPIES[:1], r"cp\.async\.wait_group[ \t]+0;", "cp.async.wait_group 1;",
        "in flight"),
    Bug("a wait that leaves one copy more", COPIES[1:], r"cp\.async\.wait_group[ \t]+1;", "cp.async.wait_group 2;",
        "in flight"),
    Bug("a group of copies is not closed", COPIES, r"cp\.async\.commit_group;", "", "in flight", which=(1,)),
    Bug("a copy goes to the buffer that is being read", COPIES[1:], r"selp\.b32 ([^;]*), 4096, ([^;]*)",
        r"selp.b32 \1, 2048, \2", "in flight"),
    Bug("half as far along k", COPIES, r"add\.s64 ([^;]*), 64;", r"add.s64 \1, 32;", f"{WRONG}|{BOUNDS}"),
    # warps with roles
    Bug("no wait for a full buffer", WGMMA[:2], WAIT, "", f"{RACE}|in flight", after="setmaxnreg.inc"),
    Bug("no wait for an empty buffer", WGMMA[:2], WAIT, "", "race", after="setmaxnreg.dec"),
    Bug("no wgmma.fence", WGMMA, r"wgmma\.fence\.sync\.aligned;", "", "wgmma"),
    Bug("no wait for the last product", WGMMA, r"wgmma\.wait_group\.sync\.aligned 0;", "", "wgmma"),
    Bug("a slot is released before it is read", WGMMA, r"wgmma\.wait_group\.sync\.aligned 1;", "", "race"),
    Bug("slots are not released", WGMMA[:2], r"@p mbarrier\.arrive\.shared::cta\.b64 _, \[%r\d+\];", "", "deadlock",
        after="setmaxnreg.inc"),
    Bug("too few bytes are expected", WGMMA, r"(expect_tx\S* _, \[\S+\]), \d+", r"\1, 1024", "deadlock"),
    Bug("no fence.mbarrier_init", WGMMA, r"fence\.mbarrier_init\.release\.cluster;", "", "fence"),
    Bug("no fence.proxy.async before a store", (*WGMMA, *ODD_ROWS), r"fence\.proxy\.async\.shared::cta;", "",
        "fence.proxy.async"),
    Bug("no wait until a store has read its buffer", WGMMA, r"@p cp\.async\.bulk\.wait_group\.read \d;", "", RACE,
        which=(1,)),
    Bug("no wait until a store has read its buffer", ODD_ROWS, r"cp\.async\.bulk\.wait_group\.read 0;", "", RACE),
    Bug("a kernel ends before its stores have read", (*WGMMA, *ODD_ROWS), r"cp\.async\.bulk\.wait_group\.read 0;", "",
        "in flight|end", which=(-1,)),
    Bug("a box is one row off", WGMMA, rf"({TENSOR}shared::cluster[^;]*\{{%r\d+, )(%r\d+)(\}}[^;]*;)", NEXT_ROW, WRONG),
    Bug("a stored box is one row off", WGMMA, rf"(@p {TENSOR}global[^;]*\{{%r\d+, )(%r\d+)(\}}[^;]*;)", NEXT_ROW,
        WRONG),
    Bug("a store is not closed", ODD_ROWS, r"@p cp\.async\.bulk\.commit_group;", "", RACE),
    Bug("a row begins in the wrong half of a sector", ODD_ROWS, r"and\.b32 ([^;]*), 31;", r"and.b32 \1, 15;",
        f"{RACE}|{WRONG}"),
    # clusters
    Bug("no wait for what other blocks sent", WGMMA[2:], WAIT, "", RACE, after="st.shared::cluster.v4"),
    Bug("no wait until other blocks have read", WGMMA[2:],
        r"(acquire\.cluster\S* p, \[%r\d+\], %r\d+;)\s*@p bra DONE;\s*bra WAIT;", r"\1", "race"),
    Bug("a block ends before others have arrived there", WGMMA[2:],
        r"barrier\.cluster\.arrive;\s*barrier\.cluster\.wait;", "", "of CTA"),
    Bug("a block begins before others are ready", WGMMA[2:],
        r"barrier\.cluster\.arrive\.aligned;\s*barrier\.cluster\.wait\.aligned;", "bar.sync 0;", "race|of CTA"),
    # what Triton writes
    Bug("a barrier is left out", (TRITON("softmax"), TRITON("layer_norm"), TRITON("scan"), TRITON_MMA[0]), BARRIER, "",
        RACE, which=()),
    Bug("a barrier is left out", (TRITON_MMA[1],), BARRIER, "", RACE, which=(1, 2, 3, 4)),
    Bug("a barrier is left out", TRITON_WGMMA, BARRIER, "", RACE, which=(1, 3)),
    Bug("a barrier is left out", (TRITON("locked"),), BARRIER, "", RACE, which=()),
    Bug("a barrier is left out", (TRITON("add_at"),), BARRIER, "", RACE, which=(0, 2)),
    Bug("a mask is left out", (TRITON("softmax"),), GUARDED, r"\1", BOUNDS, which=(5, 6, 7, 13, 14, 15)),
    Bug("a mask is left out", (TRITON("layer_norm"),), GUARDED, r"\1", BOUNDS, which=()),
    Bug("a mask is left out", (TRITON("scan"),), GUARDED, r"\1", BOUNDS, which=(3, -1)),
    Bug("a mask is left out", (TRITON_MMA[0], TRITON_WGMMA[0]), GUARDED, r"\1", f"{BOUNDS}|{RACE}",
        which=(8, 15, 24, 31, *range(32, 64))),
    Bug("a mask is left out", (TRITON_MMA[1], TRITON_WGMMA[1]), GUARDED, r"\1", BOUNDS, which=(2, 3, 6, 7)),
    Bug("a mask lets one more through", (TRITON("locked"),), LESS, SAME, BOUNDS),
    Bug("no wait for a copy", (TRITON_MMA[1], TRITON_WGMMA[1]), r"cp\.async\.wait_group[ \t]+\d;", "", "in flight",
        which=()),
    Bug("a group of copies is not closed", (TRITON_MMA[1], TRITON_WGMMA[1]), r"cp\.async\.commit_group;", "",
        "in flight", which=(1, 2, 3, 4, 5)),
    Bug("a matrix is read untransposed", TRITON_MMA, r"(ldmatrix\S*)\.trans", r"\1", WRONG, which=()),
    Bug("a swizzle of twice the span", TRITON_MMA, r"xor\.b32 ([^;]*), 32;", r"xor.b32 \1, 64;", f"{RACE}|{WRONG}",
        which=()),
    Bug("lanes exchange with themselves", (TRITON("layer_norm"),), SHUFFLE, ITSELF, WRONG, which=()),
    Bug("lanes exchange with themselves", (TRITON("softmax"),), SHUFFLE, ITSELF, WRONG, which=range(7, 14)),
    Bug("no fence.proxy.async before a product", TRITON_WGMMA, r"fence\.proxy\.async\.shared::cta;", "",
        "fence.proxy.async"),
    Bug("no wgmma.fence", TRITON_WGMMA, r"wgmma\.fence\.sync\.aligned;", "", "wgmma", which=()),
    Bug("no wait for the last product", TRITON_WGMMA, r"wgmma\.wait_group\.sync\.aligned[ \t]+\d;", "",
        "wgmma|race", which=()),
    Bug("a lock is taken without acquire", (TRITON("locked"),), r"acq_rel\.gpu\.cas", "relaxed.gpu.cas", "race"),
    Bug("a lock is given back without release", (TRITON("locked"),), r"gpu\.acq_rel\.exch", "gpu.relaxed.exch", "race"),
    Bug("a store where an atomic should be", (TRITON("add_at"),),
        r"atom\.global\.gpu\.acq_rel\.add\.f32 %\w+, (\[[^]]*\]), (%\w+);", r"st.global.f32 \1, \2;", "race",
        which=()),
    # what Inductor writes
    Bug("a barrier is left out", tuple(map(INDUCTOR, (
        "softmax", "softmax, long rows", "layer norm", "rms norm", "sum by blocks that wait", "cumsum",
        "cumsum across blocks", "turned", "group norm", "batch norm", "sort", "doubles", "bits",
        "gradients of a layer norm", "linear", "linear, f32",
    ))), BARRIER, "", RACE, which=()),
    Bug("a barrier is left out", (INDUCTOR("flex attention"),), BARRIER, "", RACE, which=(1, 4, 5, 6)),
    Bug("a barrier is left out", (INDUCTOR("convolution"),), BARRIER, "", RACE, which=(2, 4, 5)),
    Bug("a mask is left out", tuple(map(INDUCTOR, (
        "layer norm", "max pool", "cat", "bilinear", "from int8", "steps", "padding", "image",
    ))), GUARDED, r"\1", BOUNDS, which=()),
    Bug("a mask is left out", (INDUCTOR("linear"), INDUCTOR("linear, f32")), GUARDED, r"\1",
        f"{BOUNDS}|{RACE}", which=()),
    Bug("a mask lets one more through", tuple(map(INDUCTOR, (
        "gelu", "cat", "padding", "buckets", "swiglu", "max pool", "bilinear",
    ))), LESS, SAME, f"{BOUNDS}|{WRONG}", which=()),
    Bug("lanes exchange with themselves", tuple(map(INDUCTOR, (
        "layer norm", "cumsum across blocks", "argmax", "group norm", "batch norm",
    ))), SHUFFLE, ITSELF, WRONG, which=()),
    Bug("no wait for a copy", INDUCTOR_WGMMA[:2], r"cp\.async\.wait_group[ \t]+\d;", "", "in flight", which=()),
    Bug("a group of copies is not closed", INDUCTOR_WGMMA[:1], r"cp\.async\.commit_group;", "", "in flight",
        which=(1, 3)),
    Bug("a group of copies is not closed", INDUCTOR_WGMMA[1:2], r"cp\.async\.commit_group;", "", "in flight",
        which=(1, 2, 3, 4, 5)),
    Bug("no wgmma.fence", INDUCTOR_WGMMA, r"wgmma\.fence\.sync\.aligned;", "", "wgmma", which=()),
    Bug("no wait for the last product", INDUCTOR_WGMMA, r"wgmma\.wait_group\.sync\.aligned[ \t]+\d;", "",
        "wgmma|race", which=()),
    Bug("no fence.proxy.async before a product", INDUCTOR_WGMMA[2:], r"fence\.proxy\.async\.shared::cta;", "",
        "fence.proxy.async"),
    Bug("a flag is read without acquire", (INDUCTOR("sum by blocks that wait"),), r"gpu\.acquire", "gpu.relaxed",
        "race"),
    Bug("a flag is raised without release", (INDUCTOR("sum by blocks that wait"),), r"gpu\.release", "gpu.relaxed",
        "race"),
    Bug("a warp's barrier is left out", (INDUCTOR("linear by TMA"),), WARP_BARRIER, "", RACE, which=()),
    Bug("no fence.proxy.tensormap", (INDUCTOR("linear by TMA"),),
        r"@%p\d+ fence\.proxy\.tensormap::generic\.acquire[^;]*;", "", "fence.proxy.tensormap", which=()),
    Bug("a tensor map of one row more", (INDUCTOR("linear by TMA"),),
        r"@%p(\d+) (tensormap\.replace\.tile\.global_dim\S+ [^,;]*, 0x1), (%r\d+);",
        r"{ .reg .b32 more; add.s32 more, \3, 1; @%p\1 \2, more; }", BOUNDS, which=()),
    Bug("an mbarrier is not initialised", (INDUCTOR("linear by TMA"),),
        r"@%p\d+ mbarrier\.init\S+ [^;]*;", "", "mbarrier", which=()),
    # what NVRTC writes
    Bug("a barrier is left out", ("CUDA's total",), BARRIER, "", RACE, which=(0, 1), after="total("),
    Bug("a barrier is left out", ("CUDA's transpose",), BARRIER, "", RACE, after="transpose("),
    Bug("a barrier is left out", ("CUDA's last_block",), BARRIER, "", RACE, which=(0, 1), after="last_block("),
    Bug("no fence around a counter", ("CUDA's last_block",), r"membar\.gl;", "", "race", which=(0, 1)),
    Bug("a mask lets one more through", ("CUDA's transpose",), r"setp\.ge\.s32", "setp.gt.s32", f"{BOUNDS}|{RACE}",
        which=range(4), after="transpose("),
    Bug("a store where an atomic should be", ("CUDA's total",),
        r"atom\.global\.add\.f32\s+%\w+, (\[[^]]*\]), (%\w+);", r"st.global.f32 \1, \2;", "race"),
    Bug("an arrival at the wrong block", WGMMA[2:], r"(mapa\S+ %r\d+, %r\d+), 1;", r"\1, 0;", "race"),
)  # fmt: skip


def rows() -> Iterator[tuple[str, str, str]]:
    """(Mistake, families, report) of the table: one row for each mistake."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for bug in BUGS:
        families, reports = found.setdefault(bug.mistake, ([], []))
        families += [f for f in bug.families if f not in families]
        reports += [r for r in bug.report.split("|") if r not in reports]
    for mistake, (families, reports) in found.items():
        yield mistake, ", ".join(families), ", ".join(reports)


def table() -> str:
    """Markdown."""
    head = "| mistake | in kernels | found as |\n|---|---|---|\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows())


if __name__ == "__main__":
    sys.stdout.write(table())

"""What things cost on a GPU, as far as schedules are chosen by it: what was fitted to an H200.

Times, rates and limits that were found by timing; what an instruction set says stands where it is used. A docstring
names the command that gives the times which such numbers are fitted to. What is fitted to another GPU is a `GpuCosts`
in its profile, of which what it does not say stays the H200's.
"""

from __future__ import annotations

from dataclasses import dataclass

By = tuple[tuple[int, float], ...]
"""What each number of something costs, or has."""
Rates = tuple[tuple[int, int, int, float], ...]
"""Tiles: rows, columns, warps, and the share of the peak rate that a multiprocessor full of them reaches."""


@dataclass(frozen=True, slots=True)
class WgmmaCosts:
    """Of products by `wgmma`: `python -m benchmarks.gpu_gemm --tiles ...`; of windows, `benchmarks.gpu_conv` likewise.

    A step is 128 bytes of K.
    """

    launch_us: float = 0.7
    """Of a kernel without work."""
    cluster_us: float = 0.67
    """More, of clusters."""
    fill_us: float = 1.22
    """Until the first step's operands are there, and from the last store to the end."""
    element_ns: float = 0.487 / 32
    """Of a step, for each element of the tile: about 4096 multiplied bytes a clock."""
    byte_ns: float = 0.00587
    """Of a step, for each byte of its operands that a block loads."""
    memory_ns: float = 0.018
    """That, of an operand that no other block loads and no cache has: `benchmarks.gpu_constants --only few`."""
    unaligned: float = 2.7
    """Times that, where rows in memory are no whole sectors of 32 bytes."""
    half_ring: float = 1.12
    """Times that, where a block is alone on its multiprocessor with half the shared memory, but for short sums."""
    short: int = 16
    """Steps of such a sum."""
    step_ns: float = 92.0
    """Of a step at least."""
    shared_step_ns: float = 142.0
    """That, where blocks wait for each other."""
    pingpong_shared: float = 1.12
    """Times a step of small tiles of two blocks, whose groups of warps take turns in both."""
    small: int = 128 * 128
    """Elements of such a tile at most."""
    few: int = 64 * 96
    """Elements of a tile whose steps are bound by barriers, at most."""
    overlapped: float = 0.22
    """Share of an epilogue that is left where another group multiplies meanwhile."""
    turn_ns: float = 350.0
    """From a tile to the next where none does."""
    wide: int = 128
    """Columns: where several products share rows, each reads them from shared memory again."""
    narrow: float = 1.1
    """Times a step, for fewer of them."""
    element_energy_us: float = 0.448e-5 / 32
    """At the limit of power: of a step, for each element of the tile."""
    byte_energy_us: float = 0.063e-7
    """The same for each byte of its operands."""
    sharpness: float = 2.0
    """Exponent of the norm that joins the limits of time and power."""
    exchange_us: By = ((2, 1.2), (4, 2.0))
    """Of a sum over so many blocks of a cluster."""
    windows_exchange_us: By = ((2, 1.6), (4, 2.5))
    """The same where blocks read other taps of an image."""
    uncached_exchange: float = 1.65
    """Times that, and what follows, where an operand comes from memory, and its blocks end at other times."""
    exchange_ns: float = 0.12
    """Of each element that a block sends."""
    clusters: By = ((2, 0.5), (4, 30 / 132))
    """Tiles that clusters of so many blocks make at once, for each multiprocessor (cuOccupancyMaxActiveClusters):
    clusters do not span parts of the machine."""
    apart_ns: float = 1 / 12000
    """Of a step of a split sum, for each byte of all blocks that run at once, as neighbours load other parts of K."""
    channel_steps: By = ((64, 1.0), (32, 1.35), (16, 2.0))
    """Channels of a step of a convolution, and what one then takes beside the first: by hand."""


@dataclass(frozen=True, slots=True)
class EpilogueCosts:
    """Of each element of a tile, by one warpgroup: `python -m benchmarks.gpu_gemm --set fused` and `--set residual`."""

    store_ns: float = 0.056
    plain_ns: float = 0.007
    """Of an op of a few instructions (a product's own cast is one)."""
    function_ns: float = 0.07
    """Of one that takes the special function unit."""
    matrix_ns: float = 0.07
    """Of a matrix that is read."""


@dataclass(frozen=True, slots=True)
class MmaCosts:
    """Of products by `mma.sync`, in clocks: `python -m benchmarks.gpu_gemm --target cuda:sm_90 --tiles ...`.

    `benchmarks/results/sweeps/mma_tiles.json` has the whole command, and its times.
    """

    multiplied: float = 4300
    """Elements of the tile times bytes of k that a multiprocessor does in a clock, if shared memory took no time."""
    moved: float = 128
    """Bytes in a clock from and to shared memory."""
    wait: float = 60
    """Of a step, in which blocks meet."""
    arrival: float = 1000
    """From a copy's start to its end."""
    ends: float = 2000
    """Of a tile before its first step and behind its last."""
    element: float = 0.06
    """Of each of its elements there."""


@dataclass(frozen=True, slots=True)
class UncopiedCosts:
    """Of products whose operands pass through registers: rates by hand, steps by `python -m benchmarks.gpu_gemm`.

    That is with odd shapes, such as `--only 300x301x302`, and `as stored` among the tiles.
    """

    narrow: Rates = (
        (128, 256, 8, 1.0), (256, 128, 8, 1.0), (128, 128, 8, 0.92), (128, 64, 4, 0.8), (64, 128, 4, 0.8),
        (64, 256, 4, 0.88), (64, 64, 4, 0.62), (32, 64, 4, 0.35), (64, 32, 4, 0.35), (16, 128, 4, 0.22),
        (16, 64, 4, 0.2), (128, 16, 4, 0.2), (64, 16, 4, 0.18), (32, 32, 4, 0.2), (16, 32, 2, 0.12),
        (32, 16, 2, 0.12), (16, 16, 1, 0.07),
    )  # fmt: skip
    """For elements of up to 2 bytes, by tensor cores."""
    wide: Rates = (
        (128, 128, 8, 1.0), (128, 64, 4, 0.9), (64, 128, 4, 0.9), (64, 64, 4, 0.75), (32, 64, 4, 0.5),
        (64, 32, 4, 0.5), (32, 32, 2, 0.4), (16, 64, 4, 0.3), (64, 16, 4, 0.3), (16, 32, 2, 0.25), (32, 16, 2, 0.25),
        (16, 16, 1, 0.15),
    )  # fmt: skip
    """For elements of 4 bytes and more: each thread a block of the result."""
    step: int = 64
    """Elements of k in a step by `mma.sync` whose operands come element by element."""
    step_us: By = ((128, 1.75), (64, 1.15), (32, 0.5))
    """Of such a step, for square tiles by their side."""
    vectors: tuple[int, int] = (128, 64)
    """Rows and columns of a tile whose operands come by vectors."""
    vectors_us: float = 0.75
    """Of a step of it, of images with 8 to 48 channels on an H100: `benchmarks.gpu_constants --only windows`."""
    start_us: float = 1.9
    """Until the first tile's operands are there, and from the last store to the end."""


@dataclass(frozen=True, slots=True)
class MemoryCosts:
    """Of kernels and the way of tensors between them, by hand: `python -m benchmarks.gpu_memory` has such kernels.

    `beside_us` and `cached_bytes_per_us` are of sums in parts: `python -m benchmarks.gpu_gemm --only 512x512x16384`.
    """

    launch_us: float = 2.0
    """Of a kernel more."""
    beside_us: float = 2.5
    """Of one more, part of which runs beside the first."""
    bytes_per_us: float = 3.5e6
    """Of a kernel that only moves data."""
    cached_bytes_per_us: float = 4.0e6
    """From and to the cache."""
    cache_bytes: int = 24 << 20
    """Of what programs that run at a time read again, with room left in the cache for the rest."""
    most_share: float = 1.4
    """Of its part of that rate, for a multiprocessor beside idle ones: `benchmarks.gpu_constants --only cached`."""
    in_flight_bytes: int = 32 << 10
    """What a multiprocessor should have asked for at any time."""
    most_repeated: int = 16384
    """Elements of a row that every kernel that reads it computes again: fewer are faster than a launch."""
    row_elements: int = 32768
    """Of 4 bytes, of a row that a block of threads holds in registers."""


@dataclass(frozen=True, slots=True)
class PartsCosts:
    """Of products of f32 by three bf16 parts of each factor: `python -m benchmarks.gpu_gemm_kinds --set f32`."""

    f32_per_us: float = 45e6
    """Operations as they are."""
    parts_per_us: float = 100e6
    """The same by parts."""
    split_per_us: float = 0.4e6
    """Elements that are split."""
    launch_us: float = 3.0
    """Of the kernel that splits an operand, with its memory's round trip."""


@dataclass(frozen=True, slots=True)
class GpuCosts:
    """What schedules for a GPU are chosen by."""

    wgmma: WgmmaCosts = WgmmaCosts()
    epilogue: EpilogueCosts = EpilogueCosts()
    mma: MmaCosts = MmaCosts()
    uncopied: UncopiedCosts = UncopiedCosts()
    memory: MemoryCosts = MemoryCosts()
    parts: PartsCosts = PartsCosts()
    short_walk: int = 1024
    """Keys of an attention that is mostly beginnings and ends: `python -m benchmarks.gpu_attention --sweep`."""


H200 = GpuCosts()
"""Also of every GPU that none were fitted to."""

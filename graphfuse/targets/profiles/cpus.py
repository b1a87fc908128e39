"""Processors that have a name: architecture, and the features that code for them may use; what a core costs."""

from __future__ import annotations

from dataclasses import dataclass

X86 = "x86_64"
ARM = "aarch64"
_V2 = "+cx16,+popcnt,+sahf,+sse,+sse2,+sse3,+ssse3,+sse4.1,+sse4.2"
_V3 = f"{_V2},+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"
_V4 = f"{_V3},+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"
_ICELAKE = f"{_V4},+avx512ifma,+avx512vbmi,+avx512vbmi2,+avx512vnni,+avx512bitalg,+avx512vpopcntdq,+gfni"
_ZEN = "+sse4a"  # LLVM moves bytes by it where nobody asked, and no other maker's processors have it
_NEON = "+neon,+fp-armv8"

CPUS: dict[str, tuple[str, str]] = {
    "x86-64": (X86, "+sse,+sse2"),
    "x86-64-v2": (X86, _V2),
    "x86-64-v3": (X86, _V3),
    "x86-64-v4": (X86, _V4),
    "haswell": (X86, _V3),
    "skylake": (X86, _V3),
    "skylake-avx512": (X86, _V4),
    "cascadelake": (X86, f"{_V4},+avx512vnni"),
    "icelake-server": (X86, _ICELAKE),
    "sapphirerapids": (X86, f"{_ICELAKE},+avx512bf16,+avx512fp16,+avxvnni,+amx-tile,+amx-bf16"),
    "znver2": (X86, f"{_V3},{_ZEN}"),
    "znver3": (X86, f"{_V3},{_ZEN}"),
    "znver4": (X86, f"{_ICELAKE},{_ZEN},+avx512bf16"),
    "znver5": (X86, f"{_ICELAKE},{_ZEN},+avx512bf16,+avxvnni"),
    "aarch64": (ARM, _NEON),
    "cortex-a72": (ARM, _NEON),
    "neoverse-n1": (ARM, f"{_NEON},+fullfp16,+dotprod,+lse"),
    "neoverse-v1": (ARM, f"{_NEON},+fullfp16,+dotprod,+lse,+bf16"),
    "neoverse-n2": (ARM, f"{_NEON},+fullfp16,+dotprod,+lse,+bf16"),
    "neoverse-v2": (ARM, f"{_NEON},+fullfp16,+dotprod,+lse,+bf16"),
    "apple-m1": (ARM, f"{_NEON},+fullfp16,+dotprod,+lse"),
}
"""Named processors: architecture and the features that code for it may use."""


@dataclass(frozen=True, slots=True)
class CoreCosts:
    """Of one core of a processor, by hand; what is of memory by `python benchmarks/cpu_memory.py`."""

    launch_ns: float = 1000.0
    """Of a kernel more, for which threads meet: `python -m benchmarks.cpu_launch` has calls of 1.1 us."""
    bytes_per_ns: float = 32.0
    """From and to memory."""
    element_ns: float = 0.15
    """Of an element that is read and written."""
    op_ns: float = 0.03
    """More, of an op on it."""
    function_ns: float = 0.6
    """The same of a transcendental function."""
    look_up_ns: float = 1.0
    """The same of a look-up in a tensor."""
    tile_ns: float = 0.1
    """Of an element of a tile in a hand-written kernel, by each op: chunks are cut by it, for which the order of
    magnitude is enough."""
    product_ns: float = 0.02
    """The same of a dot, for each multiply-add."""
    chunk: int = 4096
    """Elements that one program computes when the innermost dim is long."""
    ahead_bytes: int = 1024
    """How far ahead of a load from memory its data are asked for."""
    row_ahead_bytes: int = 4096
    """The same where rows are only read, one behind the other: a page (`python benchmarks/cpu_memory.py --fit`)."""


CORE = CoreCosts()
"""Of every processor: what differs between those met is less than what is guessed."""

"""Registers to shared memory and back, in vectors, at the offsets that a layout gives."""

from __future__ import annotations

from collections.abc import Sequence

from graphfuse.gpu.analysis.memory_access import SharedAccess
from graphfuse.gpu.kernel import SHARED, Kernel, vector_of
from graphfuse.gpu.words import gather_words, scatter_words
from graphfuse.ir.layout import LinearLayout
from graphfuse.llvm.module import Reg


def store_shared(
    kernel: Kernel, base: Reg, access: SharedAccess, values: Sequence[Reg], size: int, predicate: Reg | None = None
) -> None:
    """Write registers to shared memory, elements of `size` bytes, in vectors."""
    for group in access.groups:
        words = gather_words(kernel, [values[r] for r in group])
        at, displacement = shared_address(kernel, base, access.offsets, group[0], size)
        if predicate is None:
            at = kernel.address(at, displacement)
            stored = kernel.joined(words) if len(words) > 1 else words[0]
            kernel.text.line(f"store {stored}, {at}, align {size * len(group)}")
        else:
            _store_if(kernel, predicate, at, displacement, words)


def _store_if(kernel: Kernel, predicate: Reg, at: Reg, displacement: int, words: Sequence[Reg]) -> None:
    kind = f"b{words[0].type[1:]}"
    words = [kernel.convert("zext", w, "i16") if w.type == "i8" else w for w in words]
    vector, names = vector_of(2, len(words))
    kernel.assembly(f"@$1 st.shared{vector}.{kind} [$0+{displacement}], {names};", at, predicate, *words)


def load_shared(kernel: Kernel, base: Reg, access: SharedAccess, size: int, type_: str) -> list[Reg]:
    """Read registers of an LLVM type from shared memory, in vectors."""
    out: dict[int, Reg] = {}
    for group in access.groups:
        out |= dict(zip(group, load_group(kernel, base, access, group, size, type_), strict=True))
    return [out[r] for r in range(len(out))]


def load_group(
    kernel: Kernel, base: Reg, access: SharedAccess, group: Sequence[int], size: int, type_: str
) -> list[Reg]:
    """Read one vector."""
    nbytes = size * len(group)
    at, displacement = shared_address(kernel, base, access.offsets, group[0], size)
    at = kernel.address(at, displacement)
    if len(group) == 1 or nbytes <= 4:
        words = [kernel.text.emit(f"i{8 * nbytes}", f"load i{8 * nbytes}, {at}, align {nbytes}")]
    else:
        count = nbytes // 4
        words = kernel.elements(kernel.text.emit(f"<{count} x i32>", f"load <{count} x i32>, {at}, align {nbytes}"))
    return scatter_words(kernel, words, len(group), type_)


def shared_address(kernel: Kernel, base: Reg, offsets: LinearLayout, register: int, size: int) -> tuple[Reg, int]:
    """Where a register's element is: an address that registers share where they can, and bytes to add."""
    assert base.type == SHARED
    at, displacement = shared_offset(kernel, offsets, register, size)
    return (base if at is None else kernel.address(base, at)), displacement


def shared_offset(kernel: Kernel, offsets: LinearLayout, register: int, size: int) -> tuple[Reg | None, int]:
    """Bytes to a register's element, as an i32 that depends on the thread (None: 0) and a constant."""
    bits = offsets.out_bits
    reach, moved = kernel.reach(offsets, 0, bits), offsets.flat(register=register)
    at = kernel.displaced(kernel.spread(offsets, 0, bits), moved & reach, reach)
    if not at.text.startswith("%"):
        return None, (int(at.text) + (moved & ~reach)) * size
    return (kernel.operate("mul", at, size) if size > 1 else at), (moved & ~reach) * size

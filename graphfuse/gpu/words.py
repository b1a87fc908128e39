"""Registers as the words that instructions move: elements narrower than 32 bits packed, wider ones taken apart.

A conversion between lanes or through shared memory does not care what bits mean, so all of it works on words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphfuse.codegen.kernel import integer
from graphfuse.gpu.kernel import WARP_SIZE, Kernel
from graphfuse.llvm.module import Reg

VECTOR = 4
"""Words of one access."""
_FULL_MASK = integer(-1, "i32")
_BITS = {"float": "i32", "double": "i64", "i1": "i8"}


def as_bits(kernel: Kernel, x: Reg) -> Reg:
    """The bits of an element; a bool is a byte."""
    if x.type not in _BITS:
        return x
    return kernel.convert("zext" if x.type == "i1" else "bitcast", x, _BITS[x.type])


def from_bits(kernel: Kernel, x: Reg, type_: str) -> Reg:
    """An element of an LLVM type from its bits."""
    if type_ == "i1":
        return kernel.compare("icmp ne", x, 0)
    return kernel.convert("bitcast", x, type_)


def gather_words(kernel: Kernel, values: Sequence[Reg]) -> list[Reg]:
    """Elements of one type side by side: an i8 or i16 if that holds all, else words of 32 bits."""
    parts = [as_bits(kernel, v) for v in values]
    width = int(parts[0].type[1:])
    total = width * len(parts)
    if width == 32 or (total <= 32 and len(parts) == 1):
        return parts
    if total <= 32:
        return [kernel.recast(kernel.joined(parts), f"i{total}")]
    return kernel.elements(kernel.recast(kernel.joined(parts), f"<{total // 32} x i32>"))


def scatter_words(kernel: Kernel, words: Sequence[Reg], count: int, type_: str) -> list[Reg]:
    """The inverse of `gather_words`: `count` elements of an LLVM type."""
    bits = _BITS.get(type_, type_)
    width = int(bits[1:])
    if width == 32 or (count == 1 and len(words) == 1):
        parts = list(words)
    else:
        whole = kernel.joined(words) if len(words) > 1 else words[0]
        parts = kernel.elements(kernel.recast(whole, f"<{count} x {bits}>"))
    return [from_bits(kernel, p, type_) for p in parts]


def store_vectors(kernel: Kernel, instruction: str, at: Reg, step: int, values: Sequence[Reg]) -> None:
    """Words by four: `instruction`, such as `st.global`, puts a vector `step` bytes behind the one before."""
    for i in range(0, len(values), VECTOR):
        store = f"{instruction}.v4.b32 [$0+{i // VECTOR * step}], {{$1, $2, $3, $4}};"
        kernel.assembly(store, at, *values[i : i + VECTOR])


def load_vectors(kernel: Kernel, instruction: str, at: Reg, step: int, words: range, type_: str) -> list[Reg]:
    """Some of the words that `store_vectors` has put there."""
    loaded: list[Reg] = []
    for i in words[::VECTOR]:
        load = f"{instruction}.v4.b32 {{$0, $1, $2, $3}}, [$4+{i // VECTOR * step}];"
        loaded += kernel.assembly(load, at, gives=[type_] * VECTOR)
    return loaded


def shuffled(kernel: Kernel, values: Sequence[Reg], move: Callable[[Reg], Reg]) -> list[Reg]:
    """Elements of one type after one move between lanes, as few 32-bit words as hold them."""
    if not values:
        return []
    type_ = values[0].type
    width = int(_BITS.get(type_, type_)[1:])
    step = max(1, 32 // width)
    out: list[Reg] = []
    for start in range(0, len(values), step):
        chunk = list(values[start : start + step])
        filled = [*chunk, *[chunk[0]] * (_power(len(chunk)) - len(chunk))]
        words = gather_words(kernel, filled)
        moved = [kernel.convert("trunc", move(kernel.convert("zext", w, "i32")), w.type) for w in words]
        out += scatter_words(kernel, moved, len(filled), type_)[: len(chunk)]
    return out


def _power(n: int) -> int:
    return 1 << (n - 1).bit_length()


def butterfly(kernel: Kernel, lanes: int) -> Callable[[Reg], Reg]:
    """A word of the lane whose number differs in the bits `lanes`."""
    return lambda word: _shuffle(kernel, "bfly", word, integer(lanes, "i32"))


def from_lane(kernel: Kernel, lane: Reg) -> Callable[[Reg], Reg]:
    """A word of the lane with that number."""
    return lambda word: _shuffle(kernel, "idx", word, lane)


def _shuffle(kernel: Kernel, mode: str, word: Reg, lane: Reg) -> Reg:
    symbol = f"@llvm.nvvm.shfl.sync.{mode}.i32"
    kernel.text.module.entity(f"declare i32 {symbol}(i32, i32, i32, i32) convergent nounwind")
    clamp = integer(WARP_SIZE - 1, "i32")
    return kernel.text.emit("i32", f"call i32 {symbol}({_FULL_MASK}, {word}, {lane}, {clamp})")


def warp_reduce(kernel: Kernel, name: str, x: Reg) -> Reg:
    """`redux.sync` over the whole warp: add, and, or, min, max, umin, umax of an i32."""
    symbol = f"@llvm.nvvm.redux.sync.{name}"
    kernel.text.module.entity(f"declare i32 {symbol}(i32, i32) convergent nounwind")
    return kernel.text.emit("i32", f"call i32 {symbol}({x}, {_FULL_MASK})")


def warp_barrier(kernel: Kernel) -> None:
    """The lanes of each warp meet, and see each other's writes."""
    kernel.text.module.entity("declare void @llvm.nvvm.bar.warp.sync(i32) convergent nounwind")
    kernel.text.line(f"call void @llvm.nvvm.bar.warp.sync({_FULL_MASK})")

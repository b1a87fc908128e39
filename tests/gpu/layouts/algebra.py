"""What laws of layouts are said in, besides what the compiler needs of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphfuse.ir.layout import Echelon, LinearLayout, null_space, pack, unpack


def kernel(m: LinearLayout) -> tuple[int, ...]:
    """A basis of the packed inputs that map to 0: moving by one of them stays on the same element."""
    return null_space(m.columns)


def image(m: LinearLayout) -> tuple[int, ...]:
    """A basis of the packed outputs that are reached."""
    return Echelon(m.columns).basis


def divide(m: LinearLayout, low: LinearLayout) -> LinearLayout | None:
    """The left quotient: Q with `low * Q == m`, or None when there is none."""
    low_bits = dict(low.outs)
    outs = {k: bits - low_bits.get(k, 0) for k, bits in m.outs}
    if any(bits < 0 for bits in outs.values()) or not low_bits.keys() <= outs.keys():
        return None
    if any(len(low.bases(name)) > len(m.bases(name)) for name in low.in_names):
        return None
    ins: dict[str, list[int]] = {}
    for name, bases in m.ins:
        known = low.bases(name)
        for got, want in zip(bases, known, strict=False):
            if {k: v for k, v in unpack(got, m.outs).items() if v} != {
                k: v for k, v in unpack(want, low.outs).items() if v
            }:
                return None
        ins[name] = []
        for b in bases[len(known) :]:
            fields = unpack(b, m.outs)
            if any(v & (1 << low_bits.get(k, 0)) - 1 for k, v in fields.items()):
                return None
            ins[name].append(pack({k: v >> low_bits.get(k, 0) for k, v in fields.items()}, outs))
    return LinearLayout.of(ins, outs)


def compose(inner: LinearLayout, outer: LinearLayout) -> LinearLayout:
    """`outer` after `inner`, whose outputs are its inputs."""
    for name, bits in inner.outs:
        assert bits <= len(outer.bases(name)), f"{name} has {bits} bits, {len(outer.bases(name))} are taken"
    mapped = {name: [outer.flat(**unpack(b, inner.outs)) for b in bases] for name, bases in inner.ins}
    return LinearLayout.of(mapped, dict(outer.outs))


def invert(m: LinearLayout) -> LinearLayout:
    """The inverse of a bijection."""
    assert m.is_bijective, f"{m} is not a bijection"
    return m.pseudo_invert()


def squeeze(m: LinearLayout, axis: int) -> LinearLayout:
    """Drop a dim of size 1."""
    assert m.shape[axis] == 1, f"dim {axis} has size {m.shape[axis]}"
    return m.reduce(axis)


@dataclass(frozen=True, slots=True)
class Slice:
    """What remains of `parent` when dim `dim` of its tile is reduced away, or is yet to be broadcast to `size`."""

    dim: int
    parent: Any
    size: int

    def linear(self, shape: tuple[int, ...]) -> LinearLayout:
        """The map for a tile of `shape`, which lacks the parent's dim."""
        return self.parent.linear((*shape[: self.dim], self.size, *shape[self.dim :])).slice(self.dim)

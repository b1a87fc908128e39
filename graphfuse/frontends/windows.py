"""Windows that move over the last dims of a tensor: what convolutions and pooling of several frontends share."""

from __future__ import annotations

from dataclasses import dataclass, replace

from graphfuse.dialects import graph
from graphfuse.frontends.compositions import adjoint_weight
from graphfuse.frontends.emit import Emitter, tensor
from graphfuse.ir.core import Value
from graphfuse.ir.types import Scalar
from graphfuse.symbolic import Dim


@dataclass(frozen=True, slots=True)
class Window:
    """How a window moves: one entry per dim; paddings in front (`low`) and behind may depend on symbols."""

    size: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        """How many dims it moves over."""
        return len(self.size)

    @property
    def reach(self) -> tuple[int, ...]:
        """From the first element that one position sees to the last, per dim."""
        return tuple((k - 1) * d for k, d in zip(self.size, self.dilation, strict=True))

    @property
    def extents(self) -> tuple[int, ...]:
        """How much input one position covers, per dim."""
        return tuple(r + 1 for r in self.reach)

    def with_static_padding(self, e: Emitter, x: Value, value: float) -> tuple[Value, Window]:
        """Pad x itself where the padding depends on symbols, so that the window's own is numbers."""
        ends = list(zip(self.low, self.high, strict=True))
        apart = [not (isinstance(lo, int) and isinstance(hi, int)) for lo, hi in ends]
        if not any(apart):
            return x, self
        low, high = (tuple(p if a else 0 for p, a in zip(ps, apart, strict=True)) for ps in (self.low, self.high))
        lead = (0,) * (tensor(x).rank - self.rank)
        x = e(graph.pad, x, low=lead + low, high=lead + high, value=value)
        low, high = (tuple(0 if a else p for p, a in zip(ps, apart, strict=True)) for ps in (self.low, self.high))
        return x, replace(self, low=low, high=high)

    def reduce(self, e: Emitter, x: Value, kind: str) -> Value:
        """What is inside of each position combined."""
        lead = tensor(x).rank - self.rank
        ones, zeros = (1,) * lead, (0,) * lead
        return e(
            graph.reduce_window, x, kind=kind, window=ones + self.size, strides=ones + self.strides,
            low=zeros + self.low, high=zeros + self.high, dilation=ones + self.dilation,
        )  # fmt: skip

    def convolve(self, e: Emitter, x: Value, w: Value, groups: int, elem: Scalar | None = None) -> Value:
        """The convolution with a weight, rounded to `elem` or to its operands' element."""
        return e(
            graph.conv, x, w, strides=self.strides, low=self.low, high=self.high, dilation=self.dilation,
            input_dilation=(1,) * self.rank, groups=groups, **({"elem": elem} if elem else {}),
        )  # fmt: skip

    def spread(
        self, e: Emitter, y: Value, w: Value, groups: int, extra: tuple[int, ...], elem: Scalar | None = None
    ) -> Value:
        """The adjoint of a convolution, a transposed one; `extra` elements are added at the end of each dim."""
        return e(
            graph.conv, y, adjoint_weight(e, w, groups), strides=(1,) * self.rank,
            low=tuple(r - p for r, p in zip(self.reach, self.low, strict=True)),
            high=tuple(r - p + more for r, p, more in zip(self.reach, self.high, extra, strict=True)),
            dilation=self.dilation, input_dilation=self.strides, groups=groups, **({"elem": elem} if elem else {}),
        )  # fmt: skip

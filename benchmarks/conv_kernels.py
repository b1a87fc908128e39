"""Convolutions as the compiler makes them, channels last, with bias and relu: from graph to block function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from unittest.mock import patch

from benchmarks.gemm_regions import ROWS, WHOLE
from graphfuse.blockgen import gpu_matmul_tile
from graphfuse.blockgen.gpu_wgmma_tile import WgmmaTile
from graphfuse.compiler import Options, stages
from graphfuse.dialects import control, graph
from graphfuse.ir.core import Builder, Func, Params
from graphfuse.ir.printer import to_text
from graphfuse.ir.types import Tensor, scalar
from graphfuse.ir.verifier import verify
from graphfuse.targets import Target


@dataclass(frozen=True, slots=True)
class Conv:
    """`size` x `size` pixels of `channels`, a square filter with padding to keep the size, `out` results."""

    batch: int
    size: int
    channels: int
    out: int
    kernel: int = 1
    stride: int = 1
    residual: bool = False
    count: int = 1
    """How often a model has it."""
    elem: str = "f16"

    @property
    def pad(self) -> int:
        """On each side."""
        return self.kernel // 2

    @property
    def positions(self) -> int:
        """Of the result, along each dim."""
        return (self.size + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.batch * self.positions**2 * self.out * self.kernel**2 * self.channels

    @property
    def nbytes(self) -> int:
        """What is read and written once."""
        image = self.size // (self.stride if self.kernel == 1 else 1)
        results = self.positions**2 * self.out * (2 if self.residual else 1)
        return 2 * (self.batch * (image**2 * self.channels + results) + self.kernel**2 * self.channels * self.out)

    def __str__(self) -> str:
        steps = f" s{self.stride}" if self.stride > 1 else ""
        more = " residual" if self.residual else ""
        return f"b{self.batch} {self.size}^2 {self.channels}->{self.out} {self.kernel}x{self.kernel}{steps}{more}"


RESNET50 = (
    Conv(0, 56, 64, 64), Conv(0, 56, 64, 64, 3, count=3), Conv(0, 56, 64, 256),
    Conv(0, 56, 64, 256, residual=True, count=3), Conv(0, 56, 256, 64, count=2), Conv(0, 56, 256, 128),
    Conv(0, 56, 128, 128, 3, 2), Conv(0, 28, 128, 512, residual=True, count=4), Conv(0, 56, 256, 512, 1, 2),
    Conv(0, 28, 512, 128, count=3), Conv(0, 28, 128, 128, 3, count=3), Conv(0, 28, 512, 256),
    Conv(0, 28, 256, 256, 3, 2),
    Conv(0, 14, 256, 1024, residual=True, count=6), Conv(0, 28, 512, 1024, 1, 2), Conv(0, 14, 1024, 256, count=5),
    Conv(0, 14, 256, 256, 3, count=5), Conv(0, 14, 1024, 512), Conv(0, 14, 512, 512, 3, 2),
    Conv(0, 7, 512, 2048, residual=True, count=3), Conv(0, 14, 1024, 2048, 1, 2), Conv(0, 7, 2048, 512, count=2),
    Conv(0, 7, 512, 512, 3, count=2),
)  # fmt: skip
"""Its distinct convolutions, for any batch, but the first: a kernel before it packs the pixels."""


def conv_text(conv: Conv, tile: WgmmaTile | None = None, attrs: Mapping[str, int] | None = None) -> str:
    """The block function of a convolution of the images x with w [kh, kw, c, o], bias, and residual if there is one."""
    if tile is None:
        return to_text(_kernel(conv))
    with patch.object(gpu_matmul_tile, "wgmma_tiles", lambda *_, **__: [tile]):
        func = _kernel(conv)
    return to_text(Func(func.name, func.body, {**func.attrs, **(attrs or {})}, func.dims))


def _kernel(conv: Conv) -> Func:
    elem, c = scalar(conv.elem), conv
    result = (c.batch, c.positions, c.positions, c.out)
    shapes = {
        "x": (c.batch, c.size, c.size, c.channels),
        "w": (c.kernel, c.kernel, c.channels, c.out),
        "bias": (c.out,),
        **({"residual": result} if c.residual else {}),
    }
    params = Params(tuple(Tensor(s, elem) for s in shapes.values()), tuple(shapes))
    values = dict(zip(shapes, params.values, strict=True))
    b = Builder()
    pads = {"low": (c.pad, c.pad), "high": (c.pad, c.pad)}
    steps = {"strides": (c.stride, c.stride), "dilation": (1, 1), "input_dilation": (1, 1)}
    y = b(graph.conv, values["x"], values["w"], **pads, **steps, layout="nhwc")
    y = b(graph.add, y, b(graph.broadcast, values["bias"], shape=result))
    if c.residual:
        y = b(graph.add, y, values["residual"])
    y = b(graph.max_, y, b(graph.full, shape=result, value=0.0, elem=elem))
    b.append(control.return_(y))
    func = Func("main", b.block(params), {}, ())
    verify(func)
    with WHOLE, ROWS["as stored"]:  # one kernel: no other adds parts of a sum or copies rows
        done = stages(func, Target.parse("cuda:sm_90a"), Options())
    kernels = list(done.kernels.values())
    assert len(kernels) == 1, f"one kernel, not {list(done.kernels)}"
    (region,) = done.region_ops.values()
    found = [v.hint for v in region.operands]
    assert found == list(shapes), f"the kernel takes {found}"
    return kernels[0]

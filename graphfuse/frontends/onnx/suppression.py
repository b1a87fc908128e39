"""The kernel that chooses among the candidates of a `NonMaxSuppression`: a node that calls it, and what it takes.

What the candidates are, and in which order, Python says: `python_ops/selection.py`, which also has the kernel in numpy.
"""

from __future__ import annotations

from onnx import NodeProto, helper

from graphfuse.frontends.onnx.declared import OWN
from graphfuse.frontends.tc_ops import Operator, parse_headers
from graphfuse.ir.types import F32, I64, Tensor
from graphfuse.symbolic import Dim

INPUTS = ("corners", "begins", "ends", "most", "overlap")
OUTPUTS = ("kept", "counts")
NODE: NodeProto = helper.make_node("Suppress", INPUTS, [*OUTPUTS, "boxes"], domain=OWN)

_SOURCE = """\
// Each program has candidates begin..end, the best first. It keeps those that overlap none that it has kept.

// op: graphfuse::Suppress
// inputs: corners: float[4, N], begins: long[S], ends: long[S], most: long[1], overlap: float[1]
// outputs: kept: long[N], counts: long[S], boxes: float[4, N]
// grid: S
// args: corners, begins, ends, most, overlap, kept, counts, boxes, N

__global__ void suppress(float *corners __readonly, long *begins __readonly, long *ends __readonly,
                         long *most __readonly, float *overlap __readonly, long *kept, long *counts, float *boxes,
                         long n) {
  long segment = get_program_id(0);
  long begin = *(begins + segment), end = *(ends + segment), limit = *most;
  float too_much = *overlap;
  long count = 0;
  for (long i = begin; i < end && count < limit; i += 1) {
    float top = *(corners + i), left = *(corners + n + i);
    float bottom = *(corners + 2 * n + i), right = *(corners + 3 * n + i);
    float area = (bottom - top) * (right - left);
    int found = area > 0 ? 0 : 2;
    for (long at = 0; at < count && found == 0; at += 16) {
      long which[16] = at + 0 ... 16;
      bool inside[16] = which < count;
      float *p[16] = boxes + begin + which;
      float t[16] = inside ? *p : 0;
      float l[16] = inside ? *(p + n) : 0;
      float b[16] = inside ? *(p + 2 * n) : 0;
      float r[16] = inside ? *(p + 3 * n) : 0;
      float height[16] = min(bottom, b) - max(top, t);
      float width[16] = min(right, r) - max(left, l);
      float common[16] = height * width;
      float other[16] = (b - t) * (r - l);
      float both[16] = area + other - common;
      bool hit[16] = inside && height > 0 && width > 0 && other > 0 && both > 0 && common / both > too_much;
      int hits[16] = hit ? 1 : 0;
      found = hits[max];
    }
    if (found != 1) {
      float *p = boxes + begin + count;
      *p = top;
      *(p + n) = left;
      *(p + 2 * n) = bottom;
      *(p + 3 * n) = right;
      *(kept + begin + count) = i;
      count += 1;
    }
  }
  *(counts + segment) = count;
}
"""
(_HEADER,) = parse_headers(_SOURCE, "suppression.tc")
OPERATOR = Operator(_HEADER, _SOURCE, "suppression.tc")


def types_of(candidates: Dim, segments: Dim) -> dict[str, Tensor]:
    """The types of `INPUTS`."""
    several = Tensor((segments,), I64)
    shapes = (Tensor((4, candidates), F32), several, several, Tensor((1,), I64), Tensor((1,), F32))
    return dict(zip(INPUTS, shapes, strict=True))

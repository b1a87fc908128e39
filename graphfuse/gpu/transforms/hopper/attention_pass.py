"""Which block functions become attention by warps with roles, and by which."""

from __future__ import annotations

import logging

from graphfuse.dialects import gpu
from graphfuse.gpu.transforms.hopper.affine import Scalars
from graphfuse.gpu.transforms.hopper.attention import AttentionRoles
from graphfuse.gpu.transforms.hopper.attention_sides import SideRoles
from graphfuse.gpu.transforms.hopper.epilogue import Declined
from graphfuse.gpu.transforms.hopper.match_attention import match_attention
from graphfuse.gpu.transforms.hopper.raise_boxes import as_read, raise_boxes
from graphfuse.ir.core import Func
from graphfuse.ir.passes import passing

log = logging.getLogger(__name__)


@passing("gpu")
def hopper_attention(func: Func) -> Func:
    """The function as a TMA and `wgmma` kernel; itself, perhaps with the reason, where it cannot be one."""
    raised = raise_boxes(func)
    scalars, left = Scalars(raised), as_read(func, raised)
    try:
        attention = match_attention(raised, scalars)
        if attention is None:
            return left
        roles = AttentionRoles if attention.sides == 1 else SideRoles
        return roles(raised, scalars, attention).func()
    except Declined as reason:
        log.debug("@%s is no attention for wgmma: %s", func.name, reason)
        return Func(func.name, func.body, {gpu.WITHOUT_WGMMA: str(reason), **left.attrs}, func.dims)

"""Which block functions become products by warps with roles, and by which."""

from __future__ import annotations

import logging

from graphfuse.dialects import gpu
from graphfuse.dialects.boxes import Unboxed
from graphfuse.gpu.transforms.hopper.affine import Scalars
from graphfuse.gpu.transforms.hopper.epilogue import Declined
from graphfuse.gpu.transforms.hopper.match import match_product
from graphfuse.gpu.transforms.hopper.matmul import MatmulRoles
from graphfuse.gpu.transforms.hopper.matmul_codes import CodeRoles
from graphfuse.gpu.transforms.hopper.raise_boxes import as_read, raise_boxes
from graphfuse.gpu.transforms.hopper.share import choices
from graphfuse.ir.core import Func
from graphfuse.ir.passes import passing

log = logging.getLogger(__name__)


@passing("gpu")
def hopper_matmul(func: Func) -> Func:
    """The function as a persistent TMA and `wgmma` kernel; itself, with the reason where a tile for one was chosen."""
    raised = raise_boxes(func)
    try:
        found = match_product(raised, Scalars(raised))
        why = "" if found else "its loop is no product of boxes that TMA copies"
    except Unboxed as reason:
        found, why = None, str(reason)
    for blocks in choices(func, found.acc.shape) if found else ():
        scalars = Scalars(raised)  # each way names values of its own
        product = match_product(raised, scalars)
        assert product is not None, "it was one before"
        try:
            roles = CodeRoles if product.codes else MatmulRoles
            return roles(raised, scalars, product, blocks).func()
        except Declined as reason:
            log.debug("@%s is no product for wgmma of %d by %d blocks: %s", func.name, *blocks, reason)
            why = why or str(reason)
    return _left(as_read(func, raised), why)


def _left(func: Func, why: str) -> Func:
    """The function, every block of which makes one program."""
    attrs = {name: value for name, value in func.attrs.items() if name not in ("persistent", "split")}
    attrs = {gpu.WITHOUT_WGMMA: why, **attrs} if "schedule" in attrs else attrs
    return func if attrs == func.attrs else Func(func.name, func.body, attrs, func.dims)

"""Factors of products that are read by address say what they are tiles of: boxes, or windows of an image.

    %a = load_view(%x, %base, %limit) {shape = [64, 32], strides = [ld, 1], limited = [0]}
    %acc = dot(%a, ..)

becomes

    %a = load_box(%x, %row, %k) {shape = [64, 32], dims = [m, ld], strides = [ld, 1]}

Kernels of graphs have such ops from the start. Where TMA could not copy one factor of a function, all stay as they are;
and a kernel that does not become one of warps with roles keeps the addresses that it was written with.
"""

from __future__ import annotations

import logging

from graphfuse.dialects import block, gpu
from graphfuse.dialects.boxes import Box, Unboxed
from graphfuse.dialects.gpu import ACCUMULATED
from graphfuse.gpu.transforms.hopper.affine import Scalars, find_box
from graphfuse.gpu.transforms.hopper.epilogue import Clones
from graphfuse.gpu.transforms.hopper.roles import number
from graphfuse.gpu.transforms.hopper.windows import find_windows
from graphfuse.ir.core import Builder, Func, Op, Value, attr_dims, made_of, tile_of
from graphfuse.ir.passes import passing
from graphfuse.ir.rewrite import dead_code, rebuild, use_counts

log = logging.getLogger(__name__)


@passing("gpu")
def raise_boxes(func: Func) -> Func:
    """The function with its factors in boxes; itself, maybe with the reason, where they cannot be."""
    dots = [op for op in func.walk() if op.kind is block.dot]
    factors = dict.fromkeys(_source(v) for op in dots for v in op.operands[:2])
    kept = (block.load_box, block.widen_codes)
    found = [v for v in factors if not (v.op and v.op.kind in kept) and not _is_product(v)]
    if not found or any(tile_of(v).elem.name not in ACCUMULATED for v in factors):
        return func
    scalars = Scalars(func)
    try:
        boxes = {value: _boxed(value, scalars) for value in found}
    except Unboxed as why:
        log.debug("@%s has a factor that is no box: %s", func.name, why)
        return Func(func.name, func.body, {gpu.WITHOUT_WGMMA: f"a factor is no box: {why}", **func.attrs}, func.dims)
    func = dead_code(rebuild(func, visit_pair=lambda op, _: boxes.get(op.results[0]) if op.results else None))
    uses = use_counts(func)  # dead code has no loads
    return dead_code(rebuild(func, keep=lambda op: op.kind is not block.load or op.result in uses))


def as_read(func: Func, raised: Func) -> Func:
    """A function whose factors were raised for nothing: as it was, with the reason where they could not be."""
    return raised if raised.body is func.body else func


def _source(value: Value) -> Value:
    """What is perhaps transposed on its way to a product."""
    while value.op is not None and value.op.kind is block.trans:
        value = value.op.operands[0]
    return value


def _is_product(value: Value) -> bool:
    """Whether a factor is computed from a product, as the probabilities of attention are."""
    return any(v.op is not None and v.op.kind is block.dot for v in made_of(value))


def _boxed(value: Value, scalars: Scalars) -> Op:
    """The box that a view or a gather is; `Unboxed` if it is none."""
    op, shape = value.op, tile_of(value).shape
    if op is None or op.kind is not block.load_view:
        pointer, box = find_windows(value, scalars)
        return _load(pointer, box, shape, scalars)
    pointer = op.operands[0]
    if attr_dims(op, "strides")[-1] == 1:
        return _load(pointer, find_box(op, scalars), shape, scalars)
    box = find_box(op, scalars, (1, 0))
    return block.trans(_load(pointer, box, shape[::-1], scalars).result, perm=(1, 0))


def _load(pointer: Value, box: Box, shape: tuple[int, ...], scalars: Scalars) -> Op:
    clones = Clones(Builder(), {v: v for v in scalars.leaves.values()})  # where ops stand is up to `rebuild`
    at = [number(clones, scalars, d) for d in (*box.start, *box.taps)]
    return block.load_box.build([pointer, *at], {"shape": shape, **box.attrs()})

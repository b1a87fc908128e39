"""Lays constant operands of contractions out in the panels their kernels read.

    w [K, N]  ->  constant p [ceil(N / width), K, width];  w = slice(reshape(permute(p)))

The panels are a constant; the way back is movement ops, which fusion copies into the region and index arithmetic
cancels: the kernel sees `p[panel, k, lane]`. A look-up in a table that a contraction reads too (tied embeddings) reads
the panels as well, so that they are stored once. Requires: constants folded, convolutions channels-last. Ensures:
values are unchanged. Padding lanes are zero and never stored.

Of bytes that are multiplied by bytes, four steps along K stand together for each column, as one lane of 32 bits:

    w [K, N]  ->  constant p [ceil(N / width), K / 4, width, 4]
"""

from __future__ import annotations

from graphfuse.artifact import FOUR, Panels
from graphfuse.blockgen.evaluate import accumulator
from graphfuse.blockgen.products import are_bytes
from graphfuse.blockgen.tiling import panel_vectors
from graphfuse.dialects import graph
from graphfuse.ir.core import Func, Op, Value, attr_int, remade, tensor_of
from graphfuse.ir.dense import Dense
from graphfuse.ir.rewrite import Replacement, dead_code, rebuild
from graphfuse.ir.types import I32
from graphfuse.symbolic import Dim
from graphfuse.targets.machine import Machine

_Key = tuple[int, Panels]
"""The id of a constant, and how it is laid out."""


def pack_for_machine(func: Func, machine: Machine) -> Func:
    """Pack the constant right-hand sides of contractions and dense convolutions, for a CPU."""
    packed: dict[_Key, Dense] = {}

    def visit(op: Op) -> Replacement | None:
        if op.kind is graph.contract:
            return _pack_contract(op, machine, packed)
        if op.kind is graph.conv and op.attrs.get("groups", 1) == 1 and op.attrs.get("layout") == "nhwc":
            x, w = op.operands
            rows, last = tensor_of(op.result).shape[-2], tensor_of(w).rank - 1
            new = _packed(w, last, rows, machine, packed, _by_fours(op, w, last - 1))
            return None if new is None else remade(op, x, new)
        return None

    def share(op: Op) -> Replacement | None:
        if op.kind is not graph.take:
            return None
        table, indices = op.operands
        dense = _dense(table)
        key = None if dense is None else next((key for key in packed if key[0] == id(dense)), None)
        return None if key is None else remade(op, _unpacked(table, key, packed[key]), indices)

    return dead_code(rebuild(rebuild(func, visit), share))


def _pack_contract(op: Op, machine: Machine, packed: dict[_Key, Dense]) -> Op | None:
    a, b = op.operands
    lhs, rhs, out = graph.parse_spec(str(op.attrs["spec"]))
    if not out:
        return None
    on_right = out[-1] in rhs
    weight, labels = (b, rhs) if on_right else (a, lhs)
    if out[-1] in lhs and out[-1] in rhs:
        return None
    others = [c for c in out[:-1] if c not in labels]
    extents = [tensor_of(op.result).shape[out.index(c)] for c in others]
    rows: Dim = extents[-1] if extents else 1
    for d in extents:  # rows merge over several dims: only a single row in all counts as one
        if d != 1:
            rows = d if rows == 1 else rows
    summed = [c for c in dict.fromkeys(lhs + rhs) if c not in out]
    fours = _by_fours(op, weight, labels.index(summed[-1])) if summed and summed[-1] in labels else None
    picked = weight.op if weight.op is not None and weight.op.kind is graph.take else None
    table = weight if picked is None else picked.operands[0]
    if picked is not None and (attr_int(picked, "axis") != 0 or tensor_of(picked.operands[1]).rank != 1):
        return None
    new = _packed(table, labels.index(out[-1]), rows, machine, packed, fours)
    if new is None:
        return None
    if picked is not None:
        new = remade(picked, new, picked.operands[1]).result
    return remade(op, a, new) if on_right else remade(op, new, b)


def _by_fours(op: Op, weight: Value, axis: int) -> int | None:
    """The axis of the weight along which four bytes make a lane; None if they do not."""
    extent = tensor_of(weight).shape[axis]
    return axis if are_bytes(op) and isinstance(extent, int) and extent % FOUR == 0 else None


def _packed(
    weight: Value, axis: int, rows: Dim, machine: Machine, packed: dict[_Key, Dense], fours: int | None
) -> Value | None:
    """`weight` rebuilt from its panels along `axis`, or None when it is no constant worth packing."""
    dense = _dense(weight)
    if dense is None:
        return None
    columns = dense.shape[axis]
    elem = I32 if fours is not None else accumulator(tensor_of(weight).elem)
    width = panel_vectors(machine, elem, rows, columns) * machine.lanes(elem)
    if fours is None and (dense.array.size <= width or (axis == len(dense.shape) - 1 and columns == width)):
        return None
    key = id(dense), (panels := Panels(axis, width, fours))
    if key not in packed:
        packed[key] = Dense(panels.of(dense.array), (dense, panels))
    return _unpacked(weight, key, packed[key])


def _dense(value: Value) -> Dense | None:
    """What a constant is; None for other values."""
    if value.op is None or value.op.kind is not graph.constant:
        return None
    dense = value.op.attrs["value"]
    assert isinstance(dense, Dense)
    return dense


def _unpacked(weight: Value, key: _Key, panels: Dense) -> Value:
    """The constant `weight` by movement ops over its panels."""
    assert weight.op is not None
    axis, width, fours = key[1].axis, key[1].width, key[1].fours
    shape = tensor_of(weight).shape
    constant = graph.constant(value=panels, loc=weight.op.loc, hint=weight.hint)
    rank = len(shape)
    columns = panels.shape[0] * width
    if fours is None:
        # [panel, rest..., lane] -> [rest before axis, panel, lane, rest after axis] -> merge -> cut the padding
        perm = (*range(1, 1 + axis), 0, rank, *range(1 + axis, rank))
    else:
        # [panel, rest..., lane, 4] -> the same with the 4 behind the axis it is of
        at = dict(zip([i for i in range(rank) if i != axis], range(1, rank), strict=True))
        parts = {i: [k] for i, k in at.items()} | {axis: [0, rank], fours: [at[fours], rank + 1]}
        perm = tuple(k for i in range(rank) for k in parts[i])
    moved = graph.permute(constant, perm=perm)
    merged = graph.reshape(moved, shape=(*shape[:axis], columns, *shape[axis + 1 :]))
    if columns == shape[axis]:
        return merged.result
    return graph.slice_(merged, starts=(0,) * rank, sizes=shape, steps=(1,) * rank).result

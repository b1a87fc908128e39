"""Loads and stores of computed addresses that are strided views say so.

    %o = add(broadcast(mul(%row, %ld)), broadcast(%col)); %m = lt(%col, %n)
    %x = load(%p, %o, %m)

becomes

    %x = load_view(%p, %base, %limit) {strides = [ld, 1], limited = [1], ...}

Comparisons of the mask become limits (`limits.py`): `base + i < n` is `i < n - base`. An access stays as it is where
its addresses are no sum, or a part of its mask is no limit (one from below, say). `any` and `all` of such a mask
are comparisons of its limit.
"""

from __future__ import annotations

from typing import Any

from graphfuse.blockopt.forms import Form, Forms
from graphfuse.blockopt.limits import Limit, Limits
from graphfuse.dialects import block, control
from graphfuse.ir.core import Func, Op, attr_number
from graphfuse.ir.passes import passing
from graphfuse.ir.remake import Remaker
from graphfuse.ir.rewrite import dead_code
from graphfuse.ir.types import BOOL, I64, Tile


@passing("kernel")
def find_views(func: Func) -> Func:
    """Make views of the accesses whose addresses and masks allow it."""
    if not any(op.kind in (block.load, block.store, control.for_) for op in func.walk()):
        return func
    return dead_code(_Finder(func).run())


class _Finder(Remaker):
    def __init__(self, func: Func) -> None:
        super().__init__(func)
        self.forms = Forms(func)
        self.limits = Limits(self.forms)

    def op(self, op: Op) -> None:
        if op.kind is control.for_:
            self._loop(op)
            return
        if op.kind is block.reduce and self._asks_of_limits(op):
            return
        if op.kind not in (block.load, block.store) or not isinstance(op.operands[1].type, Tile):
            self.copy(op)
            return
        view = self._view(op)
        if view is None:
            self.copy(op)
            return
        form, limits = view
        self.builder.loc = op.loc
        base = self.forms.emit_in(self, form.base)
        ends = [self.forms.emit_in(self, limit) for _, limit in limits]
        strides, limited = form.strides, tuple(d for d, _ in limits)
        hint: dict[str, Any] = {"cache": op.attrs["cache"]} if "cache" in op.attrs else {}
        if op.kind is block.load:
            made = self.builder(
                block.load_view, self.new(op.operands[0]), base, *ends, shape=op.operands[1].type.shape,
                strides=strides, limited=limited, other=attr_number(op, "other"), **hint,
            )  # fmt: skip
            self.values[op.result] = made
            return
        operands = [self.new(op.operands[0]), base, self.new(op.operands[2]), *ends]
        self.builder.op(block.store_view, *operands, strides=strides, limited=limited, **hint)

    def _asks_of_limits(self, op: Op) -> bool:
        """Whether a row of bools is a limit, and whether any or all of them are true is said by that."""
        (mask,), kind = op.operands, op.attrs["kind"]
        if kind not in ("any", "all") or isinstance(op.types[0], Tile) or block.elem_of(mask.type) != BOOL:
            return False
        limits = self.limits.least(mask)
        if not limits or not isinstance(mask.type, Tile):
            return False
        ((_, limit),) = limits
        self.builder.loc = op.loc
        least = self.builder(block.const, value=1 if kind == "any" else mask.type.elements, elem=I64)
        self.values[op.result] = self.builder(block.ELEMENTWISE["ge"], self.forms.emit_in(self, limit), least)
        return True

    def _loop(self, op: Op) -> None:
        """Bounds as index arithmetic too: that says how often it runs."""
        for v in op.operands[:2]:
            form = self.forms.form(v)
            if form is not None and v.op is not None and v.op.kind not in (block.const, block.index):
                self.values[v] = self.forms.emit_in(self, form.base)
        self.copy(op)

    def _view(self, op: Op) -> tuple[Form, list[Limit]] | None:
        form = self.forms.form(op.operands[1])
        if form is None or not all(self.forms.is_fixed(s) for s in form.strides):
            return None
        masks = op.operands[2 if op.kind is block.load else 3 :]
        limits = self.limits.least(masks[0]) if masks else []
        return None if limits is None else (form, limits)

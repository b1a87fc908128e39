"""Atomics, element by element; printing and assertions by the C library, in functions with `debug`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from graphfuse.codegen import debug
from graphfuse.codegen.arith import elementwise
from graphfuse.codegen.convert import cast
from graphfuse.codegen.kernel import integer, register_type
from graphfuse.cpu.kernel import Kernel, TileValue, lowers
from graphfuse.cpu.lower_memory import advance
from graphfuse.dialects import block, effects
from graphfuse.ir.core import Op
from graphfuse.ir.types import F64, I64, Scalar
from graphfuse.llvm.module import Reg

_ORDERS = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
_FAILURES = {"acq_rel": "acquire", "release": "monotonic"}
"""Orders of a swap that does not happen, where they are others."""
_STDOUT = 1


# atomics


@lowers(effects.atomic, effects.atomic_cas)
def lower_atomic(kernel: Kernel, op: Op) -> None:
    """One element after another, in row-major order."""
    fixed = 4 if op.kind is effects.atomic_cas else 3
    tiles = [kernel.tile(v) for v in op.operands[1:fixed]]
    mask = kernel.tile(op.operands[fixed]) if len(op.operands) > fixed else None
    offsets, *values = tiles
    pointer, elem = kernel.pointer(op.operands[0]).reg, block.pointed_to(op.operands[0])
    out: list[Reg] = []
    for position in range(offsets.rows * offsets.columns):
        at = advance(kernel, pointer, elem, kernel.element(offsets, position))
        inside = kernel.element(mask, position) if mask else None
        out.append(_masked(kernel, op, elem, at, [kernel.element(v, position) for v in values], inside))
    kernel.set_elements(op, out)


def _masked(kernel: Kernel, op: Op, elem: Scalar, at: Reg, values: Sequence[Reg], inside: Reg | None) -> Reg:
    """One element; 0 where the mask leaves it out."""
    if inside is None:
        return _change(kernel, op, elem, at, values)
    text = kernel.text
    source, change, after = text.label, text.fresh("change"), text.fresh("after")
    before = text.reserve()
    text.line(f"br {inside}, label %{change}, label %{after}")
    with text.scope(before):
        text.start(change)
        old = _change(kernel, op, elem, at, values)
        last = text.label
        text.line(f"br label %{after}")
    text.start(after)
    zero = "0.0" if old.type in ("float", "double") else "0"
    return text.emit(old.type, f"phi {old.type} [ {old.text}, %{last} ], [ {zero}, %{source} ]")


def _change(kernel: Kernel, op: Op, elem: Scalar, at: Reg, values: Sequence[Reg]) -> Reg:
    order = _ORDERS[str(op.attrs.get("order", "relaxed"))]
    text, type_ = kernel.text, register_type(elem)
    if op.kind is effects.atomic_cas:
        compare, value = (kernel.convert("bitcast", v, f"i{elem.bits}") for v in values)
        return kernel.convert("bitcast", _swapped(kernel, elem, at, compare, value, order), type_)
    kind, (value,) = str(op.attrs["kind"]), values
    name = _instruction(kind, elem)
    if name:
        return text.emit(type_, f"atomicrmw {name} {at}, {value} {order}, align {elem.bytes}")
    return _loop(kernel, kind, elem, at, value, order)


def _instruction(kind: str, elem: Scalar) -> str:
    """LLVM's name of an operation on an element; nothing if it has none with the same result."""
    if kind == "exchange":
        return "xchg"
    if kind == "mul":
        return ""
    if elem.is_float:
        return f"f{kind}" if kind in ("add", "sub") and elem.bits >= 32 else ""
    return f"u{kind}" if kind in ("min", "max") and not elem.is_signed else kind


def _swapped(kernel: Kernel, elem: Scalar, at: Reg, compare: Reg, value: Reg, order: str) -> Reg:
    """What was there, as bits."""
    text = f"cmpxchg {at}, {compare}, {value} {order} {_FAILURES.get(order, order)}, align {elem.bytes}"
    pair = kernel.text.emit(f"{{ i{elem.bits}, i1 }}", text)
    return kernel.text.emit(f"i{elem.bits}", f"extractvalue {pair}, 0")


def _loop(kernel: Kernel, kind: str, elem: Scalar, at: Reg, value: Reg, order: str) -> Reg:
    """Read, combine, and swap in if nothing has changed, until that is so."""
    text, bits = kernel.text, f"i{elem.bits}"
    seen = text.emit(bits, f"load atomic {bits}, {at} monotonic, align {elem.bytes}")
    before, source = text.reserve(), text.label
    again, after = text.fresh("again"), text.fresh("swapped")
    text.line(f"br label %{again}")
    with text.scope(before):
        text.start(again)
        heads = text.reserve()
        old = text.phi(bits, f"%{text.fresh('old')}")
        combined = elementwise(kernel, kind, elem, [kernel.convert("bitcast", old, register_type(elem)), value])
        got = _swapped(kernel, elem, at, old, kernel.convert("bitcast", combined, bits), order)
        same = kernel.compare("icmp eq", got, old)
        latch = text.label
        text.line(f"br {same}, label %{after}, label %{again}")
        heads.append(f"  {old.text} = phi {bits} [ {seen.text}, %{source} ], [ {got.text}, %{latch} ]")
    text.start(after)
    return kernel.convert("bitcast", text.emit(bits, f"phi {bits} [ {got.text}, %{latch} ]"), register_type(elem))


@lowers(effects.barrier)
def lower_barrier(kernel: Kernel, op: Op) -> None:
    """Nothing: a program is one thread."""


# debugging


@lowers(effects.print_)
def lower_print(kernel: Kernel, op: Op) -> None:
    """A call of `dprintf` for each element."""
    if not debug.enabled(kernel):
        return
    where, shown = debug.printed(kernel, op)
    tiles = [kernel.tile(v) for v in shown]
    shape = next((t.shape for t in tiles if t.shape), ())
    text = debug.line_format(op, shape)
    for position, index in enumerate(itertools.product(*map(range, shape))):
        values = [_wide(kernel, t, position if t.shape else 0) for t in tiles]
        numbers = ", ".join(map(str, [*where, *(integer(i) for i in index), *values]))
        kernel.text.module.entity("declare i32 @dprintf(i32, ptr, ...)")
        string = debug.string(kernel, text)
        kernel.text.line(f"call i32 (i32, ptr, ...) @dprintf(i32 {_STDOUT}, ptr {string}, {numbers})")


def _wide(kernel: Kernel, tile: TileValue, position: int) -> Reg:
    return cast(kernel, kernel.element(tile, position), tile.elem, F64 if tile.elem.is_float else I64)


@lowers(effects.assert_)
def lower_assert(kernel: Kernel, op: Op) -> None:
    """What does not hold is left in `debug.failed`, and this thread runs no more programs."""
    if not debug.enabled(kernel):
        return
    tile, text = kernel.tile(op.operands[0]), kernel.text
    holds: Reg | None = None
    for position in range(tile.rows * tile.columns):
        one = kernel.element(tile, position)
        holds = one if holds is None else kernel.binary("and", holds, one)
    assert holds is not None, "a tile has elements"
    fails, after = text.fresh("fails"), text.fresh("holds")
    text.line(f"br {holds}, label %{after}, label %{fails}")
    text.start(fails)
    where = f"{op.loc}: " if op.loc else ""
    said = f": {op.attrs['message']}" if op.attrs.get("message") else ""
    message = debug.string(kernel, f"{where}assertion failed{said}")
    text.line(f"store atomic ptr {message}, ptr @{debug.failed(kernel.func.name)} release, align 8")
    text.line("br label %exit")
    text.start(after)

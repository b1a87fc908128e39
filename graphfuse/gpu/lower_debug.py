"""`block.print` and `block.assert` by what the CUDA driver brings: `vprintf` and `__assertfail`.

A line is printed by one thread, the first of those that hold the element. Lines of one tile come in no order.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from graphfuse.codegen import debug
from graphfuse.codegen.convert import cast
from graphfuse.codegen.kernel import Registers, constant
from graphfuse.dialects import effects
from graphfuse.gpu.kernel import Kernel, ThreadTile, lowers
from graphfuse.gpu.lower_memory import distinct, inside_shape
from graphfuse.ir.core import Op
from graphfuse.ir.types import F64, I64, Tile
from graphfuse.llvm.module import Reg

_GLOBAL = "addrspace(1) "


@lowers(effects.print_)
def lower_print(kernel: Kernel, op: Op) -> None:
    """A call for each element."""
    if not debug.enabled(kernel):
        return
    where, shown = debug.printed(kernel, op)
    values = [kernel.registers(v) for v in shown]
    tile = next((v for v in values if isinstance(v, ThreadTile)), None)
    text = debug.line_format(op, tile.shape if tile else ())
    if tile is None:
        first = kernel.test("eq", kernel.thread, 0)
        _when(kernel, first, text, [*where, *(_wide(kernel, v, 0) for v in values)])
        return
    owner, layout = kernel.owns(tile.layout), tile.layout
    for r in distinct(layout):
        inside = kernel.both(owner, inside_shape(kernel, Tile(tile.shape, tile.elem, layout), r))
        at = [kernel.widen_index(kernel.coordinate(layout, d, r)) for d in range(len(tile.shape))]
        numbers = [_wide(kernel, v, r if isinstance(v, ThreadTile) else 0) for v in values]
        _when(kernel, inside, text, [*where, *at, *numbers])


def _wide(kernel: Kernel, value: Registers, register: int) -> Reg:
    return cast(kernel, value.vectors[register], value.elem, F64 if value.elem.is_float else I64)


def _when(kernel: Kernel, condition: Reg | None, text: str, values: Sequence[Reg]) -> None:
    """A call of vprintf: its arguments lie in local memory, 8 bytes each."""
    out = kernel.text
    room = out.pure(f"[{len(values)} x i64]*", f"alloca [{len(values)} x i64], align 8")
    with _where(kernel, condition):
        for i, x in enumerate(values):
            at = out.emit("ptr", f"getelementptr i64, ptr {room.text}, i64 {i}")
            out.line(f"store {x}, {at}, align 8")
        out.module.entity("declare i32 @vprintf(ptr, ptr)")
        out.line(f"call i32 @vprintf({_string(kernel, text)}, ptr {room.text})")


@contextmanager
def _where(kernel: Kernel, condition: Reg | None) -> Generator[None]:
    """A block of its own, which is gone through if the condition holds."""
    out = kernel.text
    inside, after = out.fresh("inside"), out.fresh("after")
    out.line(f"br label %{inside}" if condition is None else f"br {condition}, label %{inside}, label %{after}")
    out.start(inside)
    yield
    out.line(f"br label %{after}")
    out.start(after)


def _string(kernel: Kernel, text: str) -> str:
    return f"ptr addrspacecast (ptr addrspace(1) {debug.string(kernel, text, _GLOBAL)} to ptr)"


@lowers(effects.assert_)
def lower_assert(kernel: Kernel, op: Op) -> None:
    """Threads whose elements do not all hold end the kernel."""
    if not debug.enabled(kernel):
        return
    value = kernel.registers(op.operands[0])
    fails: Reg | None = None
    for r, x in enumerate(value.vectors):
        wrong = kernel.binary("xor", x, constant("true", "i1"))
        if isinstance(value, ThreadTile):
            inside = inside_shape(kernel, Tile(value.shape, value.elem, value.layout), r)
            wrong = wrong if inside is None else kernel.binary("and", wrong, inside)
        fails = wrong if fails is None else kernel.binary("or", fails, wrong)
    out, loc = kernel.text, op.loc
    with _where(kernel, fails):
        out.module.entity("declare void @__assertfail(ptr, ptr, i32, ptr, i64)")
        texts = (str(op.attrs.get("message", "")), loc.file if loc else "", kernel.func.name)
        message, file, name = (_string(kernel, t) for t in texts)
        line = loc.line if loc else 0
        out.line(f"call void @__assertfail({message}, {file}, i32 {line}, {name}, i64 1)")

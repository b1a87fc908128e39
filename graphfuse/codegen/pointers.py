"""Pointers as numbers: casts, differences, addresses and back."""

from __future__ import annotations

from graphfuse.codegen.kernel import Kernel, PointerValue, lowers
from graphfuse.dialects import block
from graphfuse.ir.core import Op
from graphfuse.ir.types import Ptr
from graphfuse.llvm.module import Reg


@lowers(block.pointer_cast)
def lower_pointer_cast(kernel: Kernel, op: Op) -> None:
    """The same register: LLVM's pointers have no element."""
    kernel.values[op.result] = kernel.pointer(op.operands[0])


@lowers(block.pointer_diff)
def lower_pointer_diff(kernel: Kernel, op: Op) -> None:
    """Bytes apart, over the size of an element, which divides them."""
    a, b = (_number(kernel, kernel.pointer(v).reg) for v in op.operands)
    type_ = op.operands[0].type
    assert isinstance(type_, Ptr), "checked by the type rule"
    kernel.set(op, [kernel.binary("sdiv exact", kernel.binary("sub", a, b), type_.elem.bytes)])


@lowers(block.address)
def lower_address(kernel: Kernel, op: Op) -> None:
    """LLVM's ptrtoint."""
    kernel.set(op, [_number(kernel, kernel.pointer(op.operands[0]).reg)])


@lowers(block.pointer_at)
def lower_pointer_at(kernel: Kernel, op: Op) -> None:
    """LLVM's inttoptr; what it overlaps is not known."""
    ((type_, _),) = kernel.type_parts(op.types[0])
    at = kernel.text.emit(type_, f"inttoptr {kernel.scalar(op.operands[0])} to {type_}")
    kernel.values[op.result] = PointerValue(at, "")


def _number(kernel: Kernel, pointer: Reg) -> Reg:
    return kernel.text.emit("i64", f"ptrtoint {pointer} to i64")

"""What printing and assertions share on every target: when they are compiled, formats, strings."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from graphfuse.codegen.kernel import Kernel
from graphfuse.dialects.effects import CONVERSION, IDS
from graphfuse.ir.core import Op, Value, attr_number
from graphfuse.llvm.module import Reg


def enabled(kernel: Kernel) -> bool:
    """Whether `block.print` and `block.assert` do something."""
    return kernel.func.attrs.get("debug") is True


def failed(name: str) -> str:
    """The symbol of a word that is null until an assertion of the kernel fails: then, where its message is."""
    return f"{name}.failed"


def printed(kernel: Kernel, op: Op) -> tuple[Sequence[Reg], Sequence[Value]]:
    """The program's ids of a line, and what else it shows."""
    ids = int(attr_number(op, "ids"))
    where = [kernel.registers(v).vectors[0] for v in op.operands[:ids]]
    return where or [kernel.position(axis) for axis in range(IDS)], op.operands[ids:]


def line_format(op: Op, shape: Sequence[int]) -> str:
    """The format of a line for C's printf: three program ids, an index for each dim, the values, all of 64 bits."""

    def sized(m: re.Match[str]) -> str:
        return f"%{m[1]}{m[2]}{m[3]}{'ll' if m[4] in 'diuxXo' else ''}{m[4]}"

    where = f"[{', '.join(['%lld'] * len(shape))}] " if shape else ""
    return f"(%lld, %lld, %lld) {where}{CONVERSION.sub(sized, str(op.attrs['text']))}\n"


def string(kernel: Kernel, text: str, space: str = "") -> str:
    """The name of a constant with these characters and a zero."""
    raw = text.encode() + b"\0"
    name = f"@gf_text_{hashlib.sha256(raw).hexdigest()[:16]}"
    quoted = "".join(f"\\{b:02X}" for b in raw)
    kernel.text.module.entity(f'{name} = private unnamed_addr {space}constant [{len(raw)} x i8] c"{quoted}"')
    return name

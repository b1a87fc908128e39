"""What kernels take of a GPU, and how that changes: conversions by route, barriers, registers, spills, instructions.

    python tools/kernel_report.py build/models/*small*.onnx --arch sm_80 --save before.json
    python tools/kernel_report.py build/models/*small*.onnx --arch sm_80 --against before.json

Models are compiled as they are for a GPU, text of block functions (.gf) as it is. Needs an assembler but no GPU.
Conversions are counted in the text of the kernel, not as often as loops make them; instructions are those of the cubin.
"""

from __future__ import annotations

import argparse
import json
import re
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from graphfuse.compiler import stages
from graphfuse.dialects import gpu
from graphfuse.errors import GraphfuseError
from graphfuse.frontends.onnx import import_model
from graphfuse.gpu.assembler import assemble
from graphfuse.gpu.compiled_kernel import ptx_of
from graphfuse.gpu.kernel import layout_of
from graphfuse.gpu.pipeline import fitted
from graphfuse.gpu.transforms.rematerialise import conversion, tile_of
from graphfuse.ir.core import Func
from graphfuse.ir.parser import parse_module
from graphfuse.knobs import Options
from graphfuse.targets import Target

BYTES_OF_INSTRUCTION = 16


@dataclass
class Row:
    """One kernel, or the sum of several."""

    registers_only: int = 0
    shuffles: int = 0
    through_shared: int = 0
    barriers: int = 0
    registers: int = 0
    spill_bytes: int = 0
    shared_bytes: int = 0
    instructions: int = 0

    def plus(self, other: Row) -> Row:
        """Both together."""
        return Row(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def functions(path: Path, target: Target, precision: str) -> tuple[Func, ...]:
    """The block functions of a file."""
    if path.suffix == ".gf":
        return tuple(parse_module(path.read_text(), str(path)))
    options = Options(precision=precision)  # pyright: ignore[reportArgumentType]
    return tuple(stages(import_model(path), target, options).kernels.values())


def measured(func: Func, target: Target) -> Row:
    """What becomes of one block function."""
    (made,), lowered = fitted([func], target)
    row = Row(shared_bytes=lowered.kernels[0].shared_bytes)
    for op in made.walk():
        if op.kind is gpu.convert_layout:
            route = conversion(op.operands[0], layout_of(tile_of(op.result))).route
            row.registers_only += route in ("none", "registers")
            row.shuffles += route == "shuffle"
            row.through_shared += route == "shared"
    ptx = ptx_of(lowered)
    row.barriers = len(re.findall(r"\bbar(?:rier)?\.(?:cta\.)?sync\b", ptx))
    done = assemble(ptx, target.cpu)
    if done is None:
        raise SystemExit("no assembler")
    (found,) = done.resources.values()
    row.registers, row.spill_bytes = found.registers, found.spill_bytes
    code = sum(size for name, size in sections(done.cubin) if name.startswith(".text."))
    row.instructions = code // BYTES_OF_INSTRUCTION
    return row


def sections(elf: bytes) -> Iterator[tuple[str, int]]:
    """Names and sizes of the sections of a 64-bit ELF file."""
    (start,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, start + i * size) for i in range(count)]
    strings = headers[names][4]
    for name, _, _, _, _, nbytes in headers:
        at = strings + name
        yield elf[at : elf.index(b"\0", at)].decode(), nbytes


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--arch", action="append", help="default: sm_80 and sm_90a")
    parser.add_argument("--precision", default="f32")
    parser.add_argument("--save", type=Path, help="write the figures to this file")
    parser.add_argument("--against", type=Path, help="show what differs from the figures of this file")
    args = parser.parse_args()
    rows: dict[str, Row] = {}
    for arch in args.arch or ("sm_80", "sm_90a"):
        target = Target.parse(f"cuda:{arch}")
        for path in args.files:
            for func in functions(path, target, args.precision):
                try:
                    rows[f"{path.stem} {arch} {func.name}"] = measured(func, target)
                except GraphfuseError as e:
                    print(f"{path.stem} {arch} {func.name}: {e}")
    if args.save:
        args.save.write_text(json.dumps({name: asdict(row) for name, row in rows.items()}, indent=1) + "\n")
    before = {n: Row(**r) for n, r in json.loads(args.against.read_text()).items()} if args.against else {}
    show(rows, before)


def show(rows: dict[str, Row], before: dict[str, Row]) -> None:
    """A table; beside figures of before only what differs, and the sum of all."""
    print(f"{'':60}", *(f"{f.name:>15}" for f in fields(Row)))
    sums = Row(), Row()
    for name, row in rows.items():
        old = before.get(name, row)
        sums = sums[0].plus(old), sums[1].plus(row)
        if not before or old != row:
            print(line(name, old, row))
    print(line(f"{len(rows)} kernels", *sums))


def line(name: str, old: Row, new: Row) -> str:
    """`a>b` where two rows differ."""
    pairs = [(getattr(old, f.name), getattr(new, f.name)) for f in fields(Row)]
    return " ".join((f"{name:60}", *(f"{b if a == b else f'{a}>{b}':>15}" for a, b in pairs)))


if __name__ == "__main__":
    main()

"""call, of the functions that the CUDA driver brings: vprintf and __assertfail (CUDA C++ programming guide)."""

from __future__ import annotations

import numpy as np

from graphfuse.dialects.effects import CONVERSION
from graphfuse.gpu.emulator import access
from graphfuse.gpu.emulator.decode import Decoder, Source, full, instruction
from graphfuse.gpu.emulator.gang import Gang, Step
from graphfuse.gpu.emulator.heap import BASE


@instruction("call", mods="uni")
def call(d: Decoder) -> Step:
    """call: parameters are variables of the `.param` space, which the parser makes registers of."""
    names = [o.name for o in d.ops if o.kind == "sym"]
    lists = [o.items for o in d.ops if o.kind == "vec"]
    if len(names) != 1 or names[0] not in ("vprintf", "__assertfail") or not lists:
        raise d.error("expected a call of vprintf or __assertfail")
    fails = names[0] == "__assertfail"
    arguments = [d.source(o, "u32" if fails and n == 2 else "u64") for n, o in enumerate(lists[-1])]
    if fails:
        return _assertfail(arguments)
    if len(arguments) != 2:
        raise d.error("vprintf takes a format and the address of its arguments")
    return _vprintf(*arguments)


def _vprintf(read_format: Source, read_values: Source) -> Step:
    """Each lane prints a format with the numbers that lie in memory of its own; lanes come in order."""

    def step(g: Gang) -> None:
        text = _string(g, int(g.flat(full(g, read_format(g)))[0]))
        letters = [m[4] for m in CONVERSION.finditer(text) if m[4] != "%"]
        at = full(g, read_values(g)).astype(np.int64)
        words = [access.load(g, "generic", at + 8 * n, 8, 1, strong=False)[:, 0] for n in range(len(letters))]
        python = CONVERSION.sub(lambda m: f"%{m[1]}{m[2]}{m[3]}{m[4]}", text)
        for lane in range(int(g.mask.sum())):
            g.machine.report.printed += python % tuple(_number(w[lane], c) for w, c in zip(words, letters, strict=True))

    return step


def _number(word: np.uint64, letter: str) -> int | float:
    if letter in "fFeEgG":
        return float(word.view(np.float64))
    return int(word.view(np.int64)) if letter in "di" else int(word)


def _assertfail(arguments: list[Source]) -> Step:
    """The kernel gives up with a message."""

    def step(g: Gang) -> None:
        message, file, line = (int(g.flat(full(g, read(g)))[0]) for read in arguments[:3])
        said = f": {text}" if (text := _string(g, message)) else ""
        raise g.error(f"assertion failed{said} at {_string(g, file)}:{line}", about="assertion")

    return step


def _string(g: Gang, address: int) -> str:
    raw = bytes(g.machine.heap.data[address - BASE : address - BASE + 4096])
    return raw[: raw.index(0)].decode()

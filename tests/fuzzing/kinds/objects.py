"""Objects whose tables hold something else, in executables with digests that are right: linked, not run, as code is
trusted. LLVM's linker believes what it reads; it may neither end the process nor say anything."""

from __future__ import annotations

import os
import random
import struct
from dataclasses import replace

import graphfuse.runtime.gfx
from graphfuse.runtime.native import NativeCode
from tests.fuzzing.artifacts import SEEDS
from tests.fuzzing.support import mutate_bytes


def _executables():
    for data in SEEDS:
        loaded = graphfuse.runtime.gfx.loads(data)
        yield from (e for e in (loaded, *loaded.parts) if e.code)


def _tables(data):
    """Where an object's numbers are: its header and sections, and what is in those of symbols, texts, relocations."""
    at, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    places = [*range(64), *range(at, at + 64 * count)]
    for i in range(count):
        _, kind, _, _, start, size = struct.unpack_from("<IIQQQQ", data, at + 64 * i)
        places += range(start, start + size) if kind in (2, 3, 4) else ()
    return places


OBJECTS = [(e, target, _tables(e.code[target].object)) for e in _executables() for target in e.code]


def mutated(rng, data, places):
    match rng.randrange(8):
        case 0:
            return data[:64] + bytes(len(data) - 64)
        case 1:
            return mutate_bytes(rng, data)
        case _:
            out = bytearray(data)
            for _ in range(rng.choice([1, 1, 1, 2, 4])):
                at = rng.choice(places)
                out[at] = rng.choice([0, 1, 255, out[at] ^ (1 << rng.randrange(8)), rng.randrange(256)])
            return bytes(out)


def case(seed, folder):
    del folder
    rng = random.Random(seed)
    executable, target, places = rng.choice(OBJECTS)
    code = executable.code[target]
    code = replace(code, object=mutated(rng, code.object, places))
    try:
        NativeCode(replace(executable, code={target: code}, target=target))
    finally:
        assert not os.fstat(2).st_size, "something was printed"
    return "linked"

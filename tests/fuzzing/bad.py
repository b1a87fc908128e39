"""Cases that the runner must find, or let be: `python -m tests.fuzzing.bad` prints what it says of each."""

from __future__ import annotations

import ctypes
import json
import os
import sys

from graphfuse.errors import InputError
from tests.fuzzing.runner import CPU_SECONDS, run_case


def raises(error):
    def case(_seed, _folder):
        raise error

    return case


class TwoLinesError(InputError):
    def __str__(self):
        return "a\nb"


def spins(_seed, _folder):
    while True:
        pass


def writes(_seed, folder):
    (folder / "x").write_text("x")


CASES = {
    "a read of address 0": (lambda *_: ctypes.string_at(0), "!died: SIGSEGV"),
    "an abort": (lambda *_: os.abort(), "!died: SIGABRT"),
    "an exit": (lambda *_: os._exit(0), "!left with status 0"),
    "another exception": (raises(IndexError("no")), "!escaped: IndexError"),
    "an error of two lines": (raises(TwoLinesError("a")), "!an error of several lines"),
    "all memory": (lambda *_: bytearray(1 << 40), "!escaped: MemoryError"),
    "a word": (lambda *_: "word", "word"),
    "a file": (writes, "ran"),
    "an error": (raises(InputError("no")), "refused: InputError"),
}
SLOW = {"a spin": (spins, f"!over {CPU_SECONDS} s of CPU")}


if __name__ == "__main__":
    cases = SLOW if "slow" in sys.argv else CASES
    json.dump({name: run_case(case, 0)[0] for name, (case, _) in cases.items()}, sys.stdout)

"""Which steps of which programs fall to a block where the steps of the last waves are dealt out evenly (stream-K).

Of `T` programs of `S` steps, `R` are dealt out in steps: those of the last wave if it is not full, and of the full wave
before it. The others go to the blocks as they are. Of the `R * S` steps block x of `G` has those from `x * R * S / G`
on, so every block has less than two programs, and begins at most one that it does not end.

All numbers are i32, and none is larger than `2 * G * (G + S)`.
"""

from __future__ import annotations

from functools import cached_property

from graphfuse.codegen.index import emit_dim
from graphfuse.codegen.kernel import integer
from graphfuse.gpu.kernel import Kernel
from graphfuse.llvm.module import Reg
from graphfuse.symbolic import Dim


class Deal:
    """The registers of one block; what is pure is computed once, outside of loops."""

    def __init__(self, kernel: Kernel, tiles: Dim, steps: int) -> None:
        self.kernel, self.steps = kernel, integer(steps, "i32")
        self._do, self._choose = kernel.operate, kernel.select
        programs = kernel.shortened(emit_dim(kernel, tiles))
        self.own, self.blocks = kernel.special("ctaid.x"), kernel.special("nctaid.x")
        rest = self._do("urem", programs, self.blocks)
        has_full = kernel.test("uge", programs, self.blocks)
        full = self._choose(kernel.test("eq", rest, 0), 0, self.blocks)
        dealt = self._do("add", rest, self._choose(has_full, full, 0))
        self.first_dealt = self._do("sub", programs, dealt)
        """The first program that is dealt out in steps."""
        self._whole = self._do("udiv", self.first_dealt, self.blocks)
        """Programs of every block that are not."""
        everything = self._do("mul", dealt, self.steps)
        self._each = self._do("udiv", everything, self.blocks)
        self._more = self._do("urem", everything, self.blocks)

    def begin(self, block: Reg) -> Reg:
        """Where a block's steps begin, counted from those of the first program that is dealt out."""
        extra = self._do("udiv", self._do("mul", block, self._more), self.blocks)
        return self._do("add", self._do("mul", block, self._each), extra)

    @cached_property
    def _range(self) -> tuple[Reg, Reg]:
        return self.begin(self.own), self.begin(self._do("add", self.own, 1))

    @cached_property
    def _last(self) -> tuple[Reg, Reg, Reg]:
        """The program in which this block's steps end, how many of its steps are before that, 1 if there are any."""
        begin, end = self._range
        left = self._do("urem", end, self.steps)
        some = self.kernel.test("ne", left, 0)
        some = self._do("and", some, self.kernel.test("ult", begin, end))
        flag = self.kernel.flag(some)
        return self._do("udiv", end, self.steps), left, flag

    def count(self) -> Reg:
        """How many pieces there are, as an i64."""
        begin, _ = self._range
        last, _, leaves = self._last
        ends = self._do("sub", last, self._do("udiv", begin, self.steps))
        total = self._do("add", self._do("add", leaves, self._whole), ends)
        return self.kernel.widen_index(total)

    def piece(self, number: Reg) -> list[Reg]:
        """The program of a piece, its first step and where its steps end, as i64: the piece that is left comes first.

        The programs that this block ends come last, backwards, so that others have had time to leave their parts of the
        very last.
        """
        begin, _ = self._range
        last, left, leaves = self._last
        at = self._do("sub", self.kernel.shortened(number), leaves)
        is_left = self.kernel.test("slt", at, 0)
        later = self._do("sub", at, self._whole)
        tile = self._choose(is_left, last, self._do("sub", self._do("sub", last, 1), later))
        before = self._do("sub", begin, self._do("mul", tile, self.steps))
        before = self._choose(self.kernel.test("sgt", before, 0), before, 0)
        is_whole = self.kernel.test("ult", at, self._whole)  # not for the one that is left, whose number is -1
        mine = self._do("add", self.own, self._do("mul", at, self.blocks))
        program = self._choose(is_whole, mine, self._do("add", self.first_dealt, tile))
        first = self._choose(is_whole, 0, before)
        end = self._choose(is_left, left, self.steps)
        return [self.kernel.widen_index(r) for r in (program, first, end)]

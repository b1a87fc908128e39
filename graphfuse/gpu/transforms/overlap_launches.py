"""A kernel begins while the launches before it still run, and lets the next one begin before it ends.

    pid, indices, loads of constants, copies of constants    nothing that another launch may write, and no store
    gpu.wait_launches
    the rest
    gpu.next_launch
    the last stores

In each branch, where the first that needs the wait is an `if`: parts of one launch begin with constants of their own.

Why this is right. A launch C may begin when every block of the launch B before it has passed `next_launch`, or ended.
Each block of B waits before it lets C begin, and its wait is over when every launch before B has ended and its writes
are seen. So while C runs ahead of its own wait, B alone may still be running. C's wait then covers B to its end, after
which all that B wrote is seen. Before its wait C reads constants, which no launch of the run writes (weights; inputs,
but those in whose memory results lie: the first launch of a run begins when all before it has ended), and writes
nothing: neither what B still reads, though the arena may give C the memory of a tensor that B is the last to read, nor
scratch memory, which launches share. As every block waits, B ends after the launch before it did; so one wait is
enough. A launch that is not allowed to begin early (a copy, the first of a run, another library's) begins when B has
ended, as always.

Non-coherent loads (`ld.global.nc`) are for constants only: they promise that nobody writes while the kernel runs. A
function whose `noalias` pointers are no constants stays as it is: LLVM moves such loads over the wait.

Requires: layouts, and the attribute `constants` (numbers of pointers that no launch writes; `with_constants`). Ensures:
every role of warps waits for itself. The attribute `trigger` says when the next launch may begin: `early`, after the
wait; `late`, before the last stores, or by the producer once it has begun its last copy if only one block fits a
multiprocessor; `end`.

Kernels of many blocks that are over at once stay as they are: waiting and letting go take a multiprocessor some 160 ns
a block, one after the other (softmax of rows of 256 f32 on an H200: 161 us with, 129 without). They begin when those
before them have ended, as they are launched without overlap. Kernels of several waves of blocks wait, but let go by
ending: the next launch begins only when the last wave has let it, and until then every block would pay (softmax of 8192
x 8192 f32: 134.6 us with, 133.5 without).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from graphfuse.artifact import Arg, Plan, Pointer
from graphfuse.dialects import block, control, gpu
from graphfuse.gpu.alignment import arguments
from graphfuse.gpu.properties import laid_out
from graphfuse.gpu.transforms.prefetch_operands import chain
from graphfuse.ir.core import Block, Func, Op, Trait, Value, attr_ints, attr_strs
from graphfuse.ir.passes import passing
from graphfuse.ir.types import Tile, Type
from graphfuse.symbolic import bounds, product

CONSTANTS = "constants"
MANY_BLOCKS = 1 << 14
"""More than a GPU runs at once, several times over."""
LITTLE_BYTES = 6 << 10
"""At the speed of memory all multiprocessors together take so long for it as to wait and let go."""
MOST_BLOCKS = 264
"""Of a kernel that lets the next one begin: two for each of 132 multiprocessors. By hand, with cases of
`python -m benchmarks.population --family gathered,sum,rows`."""
TRIGGERS = ("early", "late", "end")
_LOCAL = frozenset({
    block.alloc, block.offset, gpu.shared_alloc, gpu.barriers, gpu.zero_rows, gpu.commit, gpu.wait,
    gpu.arrive, gpu.expect,
})  # fmt: skip
"""Ops that are no pure ones and touch no tensor."""
_READS = frozenset({block.load_view, block.load, gpu.copy_async, gpu.tma_load})
_LOADS = frozenset({block.load_view, block.load})
_STORES = frozenset({block.store_view, block.store})


def with_constants(kernels: Mapping[str, Func], plan: Plan, written: Collection[int] = ()) -> dict[str, Func]:
    """The kernels, with an attribute that names the pointers for which every step of the plan gives a constant.

    That is a weight, or an input but for those with the numbers `written`, in whose memory there may be results.
    """
    given = arguments(plan)

    def is_constant(arg: Arg) -> bool:
        if not isinstance(arg, Pointer):
            return False
        buffer = plan.buffers[arg.buffer]
        return buffer.kind == "weight" or (buffer.kind == "input" and buffer.index not in written)

    out: dict[str, Func] = {}
    for name, func in kernels.items():
        found = tuple(i for i in range(len(func.params)) if given[name, i] and all(map(is_constant, given[name, i])))
        out[name] = replace(func, attrs={**func.attrs, CONSTANTS: found}) if found else func
    return out


def constants_of(func: Func) -> frozenset[Value]:
    """Parameters that point to what no launch writes."""
    return frozenset(func.params[i] for i in attr_ints(func, CONSTANTS, ()))


@passing("gpu", requires=(laid_out,))
def overlap_launches(func: Func) -> Func:
    """Where the kernel waits for those before it, and where it lets the next one begin."""
    if _is_fleeting(func):
        return func
    if not {v.hint for v in constants_of(func)}.issuperset(attr_strs(func, "noalias", ())):
        return func
    return replace(func, body=_Overlap(func).block(func.body))


def _is_fleeting(func: Func) -> bool:
    """Whether it has many blocks of little work each."""
    if any(op.kind in (control.for_, control.while_, gpu.warp_specialize) for op in func.walk()):
        return False
    most = bounds(product(block.grid_axes(func) or (1,)), func.ranges)[1]
    return most > MANY_BLOCKS and _moved(func.body) < LITTLE_BYTES


def _has_many_blocks(func: Func) -> bool:
    """Whether it is known to have more than let the next launch begin. Roles of warps mind their own end."""
    if "trigger" in func.attrs or any(op.kind is gpu.warp_specialize for op in func.walk()):
        return False
    least = bounds(product(block.grid_axes(func) or (1,)), func.ranges)[0]
    return least > MOST_BLOCKS


def _moved(code: Block) -> int:
    """Bytes that a block reads and writes, on the longer side of branches."""
    total = 0
    for op in code.ops:
        if op.kind in _READS and op.types:
            total += _nbytes(op.types[0])
        elif op.kind in _STORES:
            total += _nbytes(op.operands[2].type)
        total += max((_moved(body) for body in op.bodies), default=0)
    return total


def _nbytes(type_: Type) -> int:
    return type_.elements * type_.elem.bytes if isinstance(type_, Tile) else 4


class _Overlap:
    """Rewrites the outermost block, or those of the roles."""

    def __init__(self, func: Func) -> None:
        self.constants = constants_of(func)
        trigger = func.attrs.get("trigger", "late")
        assert trigger in TRIGGERS, f"trigger is one of {', '.join(TRIGGERS)}"
        self.trigger = trigger
        self.lets_go = not _has_many_blocks(func)
        per_multiprocessor = func.attrs.get("persistent", 1)
        self.by_producer = trigger == "late" and per_multiprocessor == 1

    def block(self, old: Block) -> Block:
        """The block of the whole function."""
        *ops, end = old.ops
        if any(op.kind is gpu.warp_specialize for op in ops):
            return Block(old.params, (*(self._roles(op) if op.kind is gpu.warp_specialize else op for op in ops), end))
        return Block(old.params, (*self._waiting(ops, self._last_stores(ops)), end))

    def _roles(self, op: Op) -> Op:
        """Each role waits. The one that only copies in lets the next launch begin, or the one that stores."""
        single = attr_ints(op, "single", ())
        bodies: list[Block] = []
        for i, body in enumerate(op.bodies):
            *ops, end = body.ops
            lets = (i in single) == self.by_producer if single else i == 0
            bodies.append(Block(body.params, (*self._waiting(ops, len(ops) if lets else None), end)))
        return replace(op, bodies=tuple(bodies))

    def _waiting(self, ops: Sequence[Op], last: int | None) -> list[Op]:
        """Ops with a wait where the first needs it; before number `last` the next launch may begin."""
        lets = last is not None and self.lets_go
        made = self._with_wait(
            ops, [gpu.wait_launches(), *([gpu.next_launch()] if lets and self.trigger == "early" else [])]
        )
        if not lets or self.trigger == "early":
            return made
        left = len(ops) - (last if self.trigger == "late" and last is not None else len(ops))
        at = max(len(made) - left, next(i for i, op in enumerate(made) if _waits(op)) + 1)
        return [*made[:at], gpu.next_launch(), *made[at:]]

    def _with_wait(self, ops: Sequence[Op], wait: Sequence[Op]) -> list[Op]:
        """Ops with a wait where the first needs it, behind what may come before.

        If that is an `if` without results, as parts of a launch are, it is in each branch.
        """
        first = next((i for i, op in enumerate(ops) if self._touches(op)), len(ops))
        before, after = [*ops[:first]], [*ops[first:]]
        for op in self._movable(after):
            before.append(op)
            after.remove(op)
        if not after or after[0].kind is not control.if_ or after[0].types:
            return [*before, *wait, *after]
        branches = tuple(
            Block(body.params, (*self._with_wait(body.ops[:-1], wait), body.terminator)) for body in after[0].bodies
        )
        return [*before, replace(after[0], bodies=branches), *after[1:]]

    def _last_stores(self, ops: Sequence[Op]) -> int:
        """Where the stores begin that end the kernel."""
        at = len(ops)
        while at and (ops[at - 1].kind in _STORES or (ops[at - 1].has(Trait.PURE) and not ops[at - 1].bodies)):
            at -= 1
        return next((i for i in range(at, len(ops)) if ops[i].kind in _STORES), len(ops))

    # what may come before the wait

    def _touches(self, op: Op) -> bool:
        """Whether it reads what another launch may write, or writes."""
        if op.bodies:
            return any(self._touches(inner) for body in op.bodies for inner in body.ops)
        if op.has(Trait.PURE) or op.has(Trait.TERMINATOR) or op.kind in _LOCAL:
            return False
        return not (op.kind in _READS and self._is_constant(op.operands[0]))

    def _is_constant(self, pointer: Value) -> bool:
        while (op := pointer.op) is not None and op.kind is block.offset:
            pointer = op.operands[0]
        return pointer in self.constants

    def _movable(self, ops: Sequence[Op]) -> list[Op]:
        """Reads of constants before the first loop or branch, and the scalars they need.

        Copies to shared memory are those that a ring is first filled with. They become part of the first group of
        copies, whose end is waited for before anything is read.
        """
        head = list(itertools.takewhile(lambda op: not op.bodies, ops))
        copies = list(
            itertools.takewhile(lambda op: op.kind in (gpu.copy_async, gpu.commit) or op.has(Trait.PURE), head)
        )
        found: set[Op] = set()
        for op in head:
            if op.kind in _LOADS or (op.kind is gpu.copy_async and op in copies):
                needed = chain(op.operands, head)
                if self._is_constant(op.operands[0]) and all(o.has(Trait.PURE) or o in found for o in needed):
                    found.update((op, *needed))
        return [op for op in head if op in found]


def _waits(op: Op) -> bool:
    """Whether launches before have ended when it is over."""
    return op.kind is gpu.wait_launches or any(_waits(inner) for body in op.bodies for inner in body.ops)

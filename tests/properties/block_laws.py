"""What passes over kernels owe: memory after a launch, as the interpreter has it, to the last bit.

Launches are those of the gallery and the seeds, and drawn from them: ops get other numbers, kinds, operands and
attributes. An address outside of an array shows nothing, so arrays are longer than their kernels need.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest import mock

import numpy as np

from graphfuse.blockopt.grid import AXES
from graphfuse.blockopt.pipeline import PIPELINE
from graphfuse.dialects import block
from graphfuse.errors import GraphfuseError
from graphfuse.gpu.pipeline import gpu_passes
from graphfuse.interp import block as interp_block
from graphfuse.interp.block import grid_of, launch, run_program
from graphfuse.interp.memory import Context, Pointer, write
from graphfuse.ir.core import Attr, Func, Op, Trait, Value
from graphfuse.ir.passes import Pass
from graphfuse.ir.passes import run as run_passes
from graphfuse.ir.printer import to_text
from graphfuse.ir.rewrite import rebuild
from graphfuse.ir.verifier import verify
from graphfuse.kernels import specialise
from graphfuse.symbolic import Expr, floordiv
from graphfuse.targets import Target
from tests.interp.inputs import random_array
from tests.kernels import test_gallery, test_gallery_products, test_seeds
from tests.kernels.products import Case
from tests.kernels.running import Job
from tests.properties.rule_laws import BrokenLawError, lines_reached, pipeline
from tests.properties.rule_programs import TESTS, Example, of_file

Array = np.ndarray[Any, Any]
TARGETS = tuple(map(Target.parse, ("cuda:sm_80", "cuda:sm_90a")))
ALIGNED = 4096
"""Where arrays lie, as far as passes are told."""
BEYOND = 2048
"""Elements behind what a kernel needs of an array."""
MOST_BODIES = 1 << 12
"""That a launch runs: of loops, branches and programs. No launch as it is runs more than 102."""
_WORDS = {"kind": ("sum", "max", "min", "prod")}
_BY_ARITY: dict[int, tuple[Any, ...]] = {
    n: tuple(k for k in block.ELEMENTWISE.values() if k.takes.most == n) for n in (1, 2)
}


@dataclass(frozen=True, eq=False)
class Launch:
    """A function, the passes of one stage, and what it is run on."""

    name: str
    func: Func
    passes: tuple[Pass, ...]
    arrays: tuple[Array, ...]
    symbols: Mapping[str, Any]

    def result(self, func: Func) -> list[Array]:
        """Memory after every program of a function has run."""
        memory, bodies, run_body = [a.copy() for a in self.arrays], itertools.count(), interp_block._block

        def counted(*args: Any) -> tuple[Any, ...]:
            if next(bodies) > MOST_BODIES:
                raise OverflowError("a loop does not end")
            return run_body(*args)

        with mock.patch.object(interp_block, "_block", counted):
            launch(func, memory, self.symbols)
        return memory

    def races(self, want: Sequence[Array]) -> bool:
        """Whether the last program, and of a store the last element, first leaves something else: passes may choose."""
        memory = [a.copy() for a in self.arrays]
        grid = grid_of(self.func, self.symbols)
        with mock.patch.object(interp_block, "write", _write_backwards):
            for program in reversed(range(math.prod(grid))):
                run_program(self.func, memory, self.symbols, program, grid=grid)
        try:
            _same(want, memory)
        except AssertionError:
            return True
        return False


@cache
def launches() -> tuple[Launch, ...]:
    """Every kernel with small arguments, before the passes of each stage."""
    out: list[Launch] = []
    for made in (test_gallery.SMALL, test_gallery_products.SMALLEST, test_seeds.SMALL):
        for name, build in made.items():
            out += _of_job(name, build())
    return tuple(out)


def _of_job(name: str, job: Job | Case) -> Iterator[Launch]:
    kernel = job.kernel()
    axes, bound = kernel.axes(job.grid), kernel.bind(job.args)
    values = dict(zip((p.name for p in kernel.parameters), job.args, strict=True))
    slots = [ALIGNED if p.is_pointer else slot for p, slot in zip(kernel.parameters, bound.slots, strict=True)]
    rng = np.random.default_rng(0)
    given = [(values[p.name].reshape(-1), p.elem) for p in kernel.parameters if p.is_pointer]
    arrays = tuple(np.concatenate([a, random_array(rng, BEYOND, elem).astype(a.dtype)]) for a, elem in given)
    scalars = {p.name: values[p.name] for p in kernel.parameters if not p.is_pointer}
    symbols = {**scalars, **dict(zip(AXES, axes, strict=False))}
    known = specialise.facts(kernel.parameters, slots, len(axes))
    with mock.patch.object(specialise, "optimized", lambda func: func):
        func = specialise.specialised(kernel.func, kernel.parameters, known)
    yield Launch(name, func, PIPELINE, arrays, symbols)
    func = specialise.optimized(func)
    for target in TARGETS:
        yield Launch(f"{name} {target}", func, gpu_passes(func, target), arrays, symbols)


def _write_backwards(
    context: Context, pointer: Pointer, where: Array, mask: Array, value: Array, *, relaxed: bool
) -> None:
    backwards = (np.broadcast_to(x, where.shape).ravel()[::-1] for x in (where, mask, value))
    write(context, pointer, *backwards, relaxed=relaxed)


def _same(want: Sequence[Array], got: Sequence[Array]) -> None:
    for x, y in zip(want, got, strict=True):
        wide = [a.astype(np.float64) if a.dtype.kind not in "biu" else a for a in (x, y)]  # numpy knows their NaNs
        np.testing.assert_array_equal(*wide)


def keeps_memory(given: Launch) -> None:
    """Passes keep what a launch leaves in memory, and leave IR that is valid."""
    try:
        want = given.result(given.func)
    except (GraphfuseError, OverflowError, ValueError, MemoryError):
        return  # an address outside, a barrier that nobody comes to
    try:
        after = run_passes(given.func, given.passes, "law")
        _same(want, given.result(after))
    except Exception as e:
        if isinstance(e, AssertionError) and given.races(want):
            return
        raise BrokenLawError(f"{given.name}: {type(e).__name__}: {e}\n{to_text(given.func)}") from e


# drawn


def varied(func: Func, rng: random.Random) -> Func | None:
    """The function with a few ops changed, or None where none is or the type rules refuse that."""
    count = sum(1 for _ in func.walk())
    chosen = {rng.randrange(count) for _ in range(rng.choice((1, 1, 2, 3)))}
    scopes: list[list[Value]] = []
    at = itertools.count()

    def visit(op: Op) -> Op | None:
        new = _changed(op, [v for scope in scopes for v in scope], rng) if next(at) in chosen else None
        scopes[-1].extend((new or op).results)
        return new

    made = rebuild(func, visit, enter=lambda _: scopes.append([]), leave=lambda: scopes.pop() and None)
    try:
        verify(made)
    except GraphfuseError:
        return None
    return None if to_text(made) == to_text(func) else made


def _changed(op: Op, known: Sequence[Value], rng: random.Random) -> Op | None:
    if op.bodies or op.has(Trait.TERMINATOR):
        return None
    for _ in range(4):
        kind, operands, attrs = op.kind, list(op.operands), dict(op.attrs)
        how = rng.randrange(4)
        if how == 0 and op.has(Trait.ELEMENTWISE):
            kind = rng.choice(_BY_ARITY.get(len(operands), (kind,)))
        elif how == 1 and operands:
            i = rng.randrange(len(operands))
            operands[i] = rng.choice([v for v in known if v.type == operands[i].type] or operands[i : i + 1])
        elif how == 2 and len(operands) > 1:
            operands[:2] = operands[1::-1]
        elif attrs:
            name = rng.choice(sorted(attrs))
            attrs[name] = _other(name, attrs[name], rng)
        try:
            new = kind.build(operands, attrs, loc=op.loc)
        except (GraphfuseError, AssertionError, TypeError, ValueError):
            continue
        if new.types == op.types and (new.kind, new.operands, new.attrs) != (op.kind, op.operands, op.attrs):
            return new
    return None


def _other(name: str, value: Attr, rng: random.Random) -> Attr:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | Expr):
        return rng.choice((value + 1, value - 1, value * 2, floordiv(value, 2), 0))
    if isinstance(value, float):
        return rng.choice((0.0, 1.0, -value, value + 0.5, math.inf))
    if isinstance(value, str):
        return rng.choice(_WORDS.get(name, (value,)))
    if isinstance(value, tuple) and value:
        i = rng.randrange(len(value))
        return (*value[:i], _other(name, value[i], rng), *value[i + 1 :])
    return value


def drawn(seed: int, near: Sequence[Launch]) -> Launch | None:
    """The launch of a number."""
    rng = random.Random(seed)
    of = rng.choice(near)
    func = varied(of.func, rng)
    return func and Launch(f"{of.name}, {seed}", func, of.passes, of.arrays, of.symbols)


def law_of(seed: int, near: Sequence[Launch]) -> None:
    """One drawn launch through its passes."""
    if (given := drawn(seed, near)) is not None:
        keeps_memory(given)


# what comes where

TEXTS = tuple(p for part in ("blockopt", "codegen", "cpu", "gpu") for p in sorted((TESTS / part).rglob("*.gf")))


@cache
def reached() -> dict[tuple[str, int], list[Launch | Example]]:
    """The launches and text tests whose passes come to a line of a module."""
    out: dict[tuple[str, int], list[Launch | Example]] = defaultdict(list)
    for given in (*launches(), *(e for path in TEXTS for e in of_file(path))):
        passes = given.passes if isinstance(given, Launch) else pipeline(given.pipeline)
        for place in lines_reached(lambda given=given, passes=passes: run_passes(given.func, passes, "law")):
            out[place].append(given)
    return out


def near(path: str, lines: Sequence[int]) -> tuple[tuple[Launch, ...], tuple[Example, ...]]:
    """Launches and text tests that come to the last line that any comes to; where none comes to any, all launches."""
    file = str(TESTS.parent / path)
    found = next((found for n in reversed(lines) if (found := reached().get((file, n)))), [])
    some = tuple(x for x in found if isinstance(x, Launch))
    return some or launches(), tuple(x for x in found if isinstance(x, Example))

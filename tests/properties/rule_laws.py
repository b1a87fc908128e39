"""What a rewrite rule and a pass owe: the interpreter's result, to the last bit or as near as docs/numerics.md says."""

from __future__ import annotations

import itertools
import math
import random
import re
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from types import FrameType
from typing import Any

import numpy as np

from graphfuse import pipelines
from graphfuse.errors import GraphfuseError, VerifyError
from graphfuse.fusion.passes import CHANGES_ROUNDING
from graphfuse.interp import graph as interp
from graphfuse.ir.core import Func, Op
from graphfuse.ir.parser import parse_module
from graphfuse.ir.passes import PASSES, Pass, parse_pipeline, run
from graphfuse.ir.printer import module_text, to_text
from graphfuse.ir.types import Tensor
from graphfuse.ir.verifier import verify
from tests.conftest import Fired
from tests.interp.inputs import assert_same_numbers
from tests.properties.rule_programs import SEPARATOR, TESTS, Example, choices, examples, inputs, of_file, varied

assert pipelines.PASSES is PASSES, "importing it registers them all"

ROUNDS = {p.name for p in CHANGES_ROUNDING} | {
    "multiply-by-reciprocal", "attention-in-f32", "normalise-later", "dequantise-later", "split-long-sums",
    "split-long-reductions", "pack-pixels", "split-f32",
}  # fmt: skip
"""Passes whose result may differ in the last bits."""
HALVES = {"lower-precision", "store-halves"}
"""Passes that round to halves on purpose: their own tests bound that, of programs that are well conditioned."""
_SUMS = ("graph.contract", "graph.conv", "graph.reduce_window", "graph.reduce", "graph.cumulate")
_STEPS = (
    "floor", "ceil", "trunc", "round", "sign", "eq", "ne", "lt", "le", "gt", "ge", "floordiv", "floormod", "truncmod",
    "truncdiv", "isnan", "isinf", "arg_reduce", "topk", "bitcast", "cast",
)  # fmt: skip


PACKAGE = str(TESTS.parent / "graphfuse")
_STEP = {"float16": 2.0**-8, "bfloat16": 2.0**-5, "float64": 2.0**-40}
"""What results may be off by, as a part of the largest."""


DOES_NOT_RUN = (GraphfuseError, IndexError, ValueError, OverflowError, MemoryError)
"""What the interpreter raises for programs that mean nothing."""
FEW = 6
"""Elements of which most say nothing."""
_EXTREMES = ("graph.max", "graph.min", "graph.topk")
_OF_SIGNED_ZERO = ("div", "pow", "atan2", "bitcast", "sqrt")


class BrokenLawError(AssertionError):
    """A program of which a pass does not keep the result."""


def _of_floats(op: Op) -> bool:
    return any(isinstance(t, Tensor) and t.elem.is_float for t in (*op.types, *(v.type for v in op.operands)))


def sums_floats(func: Func) -> bool:
    """Whether a result depends on the order of a sum, which passes may change."""
    return any(
        op.kind.name.startswith(_SUMS) and _of_floats(op) and op.attrs.get("kind", "sum") in ("sum", "prod")
        for op in func.walk()
    )


def has_steps(func: Func) -> bool:
    """Whether a small change of a float may change much."""
    return any(op.kind.name.removeprefix("graph.") in _STEPS and _of_floats(op) for op in func.walk())


def has_extremes(func: Func) -> bool:
    """Whether the larger or the smaller of 0.0 and -0.0 may be asked for, which is either."""
    return any(
        _of_floats(op) and (op.kind.name in _EXTREMES or op.attrs.get("kind") in ("max", "min")) for op in func.walk()
    )


def powers_of_f64(func: Func) -> bool:
    """Whether there is a power in f64, which is not correctly rounded, so that a root or a product differs."""
    return any(op.kind.name == "graph.pow" and op.types[0].elem.name == "f64" for op in func.walk())  # type: ignore[union-attr]


def folds_floats(func: Func) -> bool:
    """Whether something is computed of constants alone."""
    known: set[Op] = set()
    for op in func.body.ops[:-1]:
        if all(v.op in known for v in op.operands):
            known.add(op)
            if op.operands and _of_floats(op):
                return True
    return False


def _fractions(func: Func) -> set[float]:
    """The numbers that all elements of a tensor are, where they are no whole ones."""
    values = (op.attrs["value"] for op in func.walk() if op.kind.name == "graph.full")
    return {x for x in values if isinstance(x, float) and math.isfinite(x) and x != round(x)}


def runs(func: Func, seed: int) -> bool:
    """Whether some dims fit a program."""
    for values in choices(func):
        try:
            given = inputs(func, values, np.random.default_rng(seed), awkward=False)
            interp.run(func, *given, symbols=values)
        except DOES_NOT_RUN:
            continue
        return True
    return False


def keeps_results(before: Func, passes: Sequence[Pass], seed: int) -> None:
    """Passes keep what a function computes, and leave IR that is valid.

    Where a pass changes rounding or the order of a sum, numbers are compared as far as they are determined: in f64,
    and in their own precision within what that differs from f64 by. Behind steps only most elements are.
    """
    after = before
    try:
        for pass_ in passes:
            after = pass_(after)
            verify(after)
    except Exception as e:
        if runs(before, seed):
            raise BrokenLawError(f"{type(e).__name__}: {e}\n{to_text(before)}") from e
        return  # no dims fit it
    if to_text(after) == to_text(before):
        return
    _check_types(before, after)
    exact = not sums_floats(before) and not powers_of_f64(before) and not any(p.name in ROUNDS | HALVES for p in passes)
    if not exact and any(p.name in HALVES for p in passes):
        return
    for values in choices(before):
        for awkward in (True, False) if exact else (False,):
            given = inputs(before, values, np.random.default_rng(seed), awkward=awkward)
            try:
                want = interp.run(before, *given, symbols=values)
            except DOES_NOT_RUN:
                continue  # a slice beyond the end, an index outside
            try:
                got = interp.run(after, *given, symbols=values)
                ((_exact if exact else _close)(before, after, given, values, want, got))
            except Exception as e:
                shown = "\n".join(f"{x!r}" for x in given)
                raise BrokenLawError(
                    f"{type(e).__name__}: {e}\n{', '.join(map(str, passes))} at {values}\n{to_text(before)}"
                    f"becomes\n{to_text(after)}for\n{shown}"
                ) from e


def _check_types(before: Func, after: Func) -> None:
    want, got = ([v.type for v in f.outputs] for f in (before, after))
    if [t.elem for t in want] != [t.elem for t in got]:
        raise BrokenLawError(f"results {want} became {got}\n{to_text(before)}becomes\n{to_text(after)}")


def _exact(
    before: Func, _a: Func, _given: object, _values: object, want: Sequence[object], got: Sequence[object]
) -> None:
    for x, y in zip(map(np.asarray, want), map(np.asarray, got), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        if np.issubdtype(x.dtype, np.integer) or x.dtype == np.bool_:
            same = x == y
        else:  # a NaN is one whatever its bits; 0.0 is not -0.0
            a, b = x.astype(np.float64), y.astype(np.float64)
            same = ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
        if not np.all(same) and has_extremes(before):
            if any(op.kind.name.removeprefix("graph.") in _OF_SIGNED_ZERO for op in before.walk()):
                continue
            same = same | ((x == 0) & (y == 0))
        assert np.all(same), f"{x[~same]} became {y[~same]}" if x.ndim else f"{x} became {y}"


def _close(
    before: Func, after: Func, given: Sequence[Any], values: dict[str, int], want: Sequence[Any], got: Sequence[Any]
) -> None:
    wide_want = interp.run(before, *given, symbols=values, wide=True)
    wide_got = interp.run(after, *given, symbols=values, wide=True)
    steps = has_steps(before)
    largest = np.median if steps else np.max
    folds = folds_floats(before) or not _fractions(after) <= _fractions(before)
    folds = folds or any(op.kind.name == "graph.conv" for op in before.walk())
    for results in zip(want, got, wide_want, wide_got, strict=True):
        step = _STEP.get(np.asarray(results[0]).dtype.name, 2.0**-19)
        x, y, wx, wy = (np.asarray(r).astype(np.float64) for r in results)
        assert x.shape == y.shape
        if x.size < (FEW if steps else 1):
            continue
        if not np.isfinite(wx).all() or not np.isfinite(x).all() or np.abs(x).max() > 1e4:
            return  # ill conditioned: what follows from it too
        noise, top = largest(np.abs(x - wx)), np.abs(wx).max()
        if noise > 1e-2 * top:
            return
        assert np.isfinite(wy).all(), f"{wx} became {wy}"
        if not folds:  # which rounds to the element; and so are the weights of a convolution, transformed or scaled
            assert largest(np.abs(wx - wy)) <= 2.0**-40 * top + 2.0**-18 * noise, f"in f64, {wx} became {wy}"
        assert largest(np.abs(x - y)) <= step * top + 16 * noise, f"{x} became {y}"


@cache
def pipeline(text: str) -> tuple[Pass, ...]:
    return tuple(parse_pipeline(text))


def drawn(seed: int, near: Sequence[Example]) -> tuple[Func | None, tuple[Pass, ...]]:
    """The program of a number: near one of `near`, mostly, and its passes."""
    rng = random.Random(seed)
    everything = examples()
    example = rng.choice(near if rng.random() < 0.85 else everything)
    return varied(example.func, everything, rng), pipeline(example.pipeline)


def law_of(seed: int, near: Sequence[Example]) -> None:
    """One drawn program through the passes of its example."""
    func, passes = drawn(seed, near)
    if func is not None:
        keeps_results(func, passes, seed)


def block_law() -> str:
    """What is wrong of the rules of block functions, on their examples with every element, or ""."""
    path = TESTS / "blockgen/rules_numerics.gf"
    head, _, want = path.read_text().partition(SEPARATOR)
    passes = pipeline("precise-functions, keep-wide, fuse-multiply-add")
    try:
        before = parse_module(head)
        if module_text(tuple(run(f, passes, "test") for f in before)) != want:
            return f"{path.name}: other text"
        for was, now in itertools.permutations(("f16", "bf16", "f32", "f64", "i32"), 2):
            for func in parse_module(re.sub(rf"\b{was}\b|(?<=x){was}\b", now, head)):
                try:
                    verify(func)
                    same = run(func, passes, "test")
                except VerifyError as e:
                    if _is_valid(func):
                        return f"{path.name} with {now}: {e}"
                    continue
                assert_same_numbers(func, same, halves=True)
    except Exception as e:  # noqa: BLE001 whatever a wrong rule does
        return f"{path.name}: {type(e).__name__}: {e}"
    return ""


def _is_valid(func: Func) -> bool:
    try:
        verify(func)
    except VerifyError:
        return False
    return True


def lines_reached(call: Callable[[], object]) -> set[tuple[str, int]]:
    """The files and lines of the package that a call comes to."""
    seen = set[tuple[str, int]]()

    def of_lines(frame: FrameType, _: str, __: object) -> Any:
        seen.add((frame.f_code.co_filename, frame.f_lineno))
        return of_lines

    def of_calls(frame: FrameType, event: str, arg: object) -> Any:
        return of_lines(frame, event, arg) if frame.f_code.co_filename.startswith(PACKAGE) else None

    before = sys.gettrace()
    sys.settrace(of_calls)
    try:
        call()
    finally:
        sys.settrace(before)
    return seen


@cache
def reached() -> dict[tuple[str, int], list[Example]]:
    """The examples whose passes come to a line of a module."""
    out: dict[tuple[str, int], list[Example]] = defaultdict(list)
    for e in examples():
        for place in lines_reached(lambda e=e: run(e.func, pipeline(e.pipeline), "test")):
            out[place].append(e)
    return out


def near(path: str, lines: Sequence[int]) -> tuple[Example, ...]:
    """Examples for what stands on lines of a module: those that come to the last of them that any comes to."""
    file = str(TESTS.parent / path)
    return tuple(next((found for n in reversed(lines) if (found := reached().get((file, n)))), examples()))


def own_law(example: Example) -> None:
    """The example as it is written."""
    keeps_results(example.func, pipeline(example.pipeline), 0)


def text_law(some: Sequence[Example]) -> str:
    """The first file of these examples whose passes give other text than it says, or ""."""
    for path in dict.fromkeys(e.path for e in some if e.path.suffix == ".gf"):
        head, separator, want = path.read_text().partition(SEPARATOR)
        after: list[Func] = []
        try:
            for e in of_file(path):
                with Fired() as fired:
                    after.append(run(e.func, pipeline(e.pipeline), "test"))
                if e.shows and e.shows not in fired:
                    return f"{path.name}: {e.shows} does not fire"
            got = module_text(tuple(after))
        except Exception as e:  # noqa: BLE001 whatever a wrong rule does
            return f"{path.name}: {type(e).__name__}: {e}"
        if not separator:
            want = "".join(s for s in head.splitlines(keepends=True) if not s.lstrip().startswith("//"))
        if got != want:
            return f"{path.name}: other text"
    return ""


Law = Callable[[int, Sequence[Any]], None]
"""What raises unless the program of a number, drawn near some others, is as it should be."""


def broken(
    seeds: Iterable[int], near: Sequence[Any], *, law: Law = law_of, end: float = math.inf
) -> Iterator[tuple[int, str]]:
    """The numbers of programs of which a law is broken, until a time of this process."""
    for seed in seeds:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore", RuntimeWarning)  # values are awkward on purpose
                law(seed, near)
        except BrokenLawError as e:
            yield seed, str(e)
        except Exception as e:  # noqa: BLE001 what draws programs uses what it tests
            yield seed, f"{type(e).__name__}: {e}"
        if time.process_time() > end:
            return

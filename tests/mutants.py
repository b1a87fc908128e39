"""Wrong rewrite rules, and whether the laws find them: `python -m tests.mutants --seed S --count N`, or `--list`.

A mutant is a rule of the package (a function under `@rule` or `@rule_with`, what of its module it calls, the index
rules; with `--of passes` a function of the passes of kernels) with one change: a guard dropped, two sides swapped, or a
constant off by one. Each runs in a process of its own, in which the functions of the module get the code of the changed
source; no file is touched. There the laws run until one fails:

    index     dims mean numbers, exhaustively (`tests.properties.index_laws`) and drawn (the tests of index arithmetic)
    numbers   the rules' examples, and programs drawn from those that come to the changed line, keep the interpreter's
              results (`tests.properties.rule_laws`); what the rule as it is breaks too is no finding. Of passes of
              kernels: small launches, and drawn from those, leave the same memory (`tests.properties.block_laws`)
    text      the text tests: each rule fires on its example and gives what is written there, and no more elsewhere

A mutant that survives is either in `tests.mutants_equivalent`, with the reason why it changes no result, or a hole
in the laws: the exit status is 1 then.
"""

# ruff: noqa: T201 it is a program

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import functools
import gc
import importlib
import inspect
import io
import itertools
import multiprocessing
import os
import random
import re
import signal
import sys
import time
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.mutants_equivalent import reason
from tests.properties import block_laws, index_laws, rule_laws

ROOT = Path(__file__).parents[1]
INDEX = ("graphfuse/symbolic.py", "graphfuse/blockgen/index.py")
"""Modules all of whose functions are index rules."""
BLOCK = "graphfuse/blockgen/numerics.py"
"""Rules over block functions."""
INDEX_TESTS = ("tests/test_symbolic.py", "tests/properties/test_symbolic_laws.py", "tests/blockgen/test_index_laws.py")
RULE_TESTS = tuple(sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "tests/fusion").glob("test_[cdmnsw]*.py")))
OF = {
    "rules": ("graphfuse",),
    "passes": ("graphfuse/blockopt", "graphfuse/dialects/boxes.py", "graphfuse/gpu/transforms"),
}
"""Where mutants are looked for: rules everywhere, passes of kernels in their folders, and what they ask."""
UNUSED = ("cacheprovider", "xdist", "benchmark")
"""Plugins of pytest that tests of mutants do without."""
LONGEST = 20.0
"""Seconds of a process after which a law that takes a tenth of one does not end."""
_OTHERWISE = {"sub", "div", "floordiv_", "truncdiv", "floormod", "truncmod", "pow_", "lt", "le", "gt", "ge", "shl"}
"""Constructors of ops whose operands are no equals."""

Function = ast.FunctionDef


@dataclass(frozen=True)
class Mutant:
    """A change of one expression of a module's source."""

    path: str
    function: str
    kind: str
    """guard, sides or constant."""
    first: int
    """The line on which the function begins."""
    line: int
    was: str
    now: str
    node: int
    """The position of the expression in a walk of the module."""
    new: ast.expr

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What stays the same while lines move: module, function, before, after."""
        return Path(self.path).name, self.function, self.was, self.now

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.function}: {self.kind}: {self.was} -> {self.now}"

    def code(self) -> types.CodeType:
        """The changed module."""
        tree = ast.parse(_source(ROOT / self.path))
        old = list(ast.walk(tree))[self.node]
        new = ast.copy_location(copy.deepcopy(self.new), old)
        for parent in ast.walk(tree):
            for field, value in ast.iter_fields(parent):
                if value is old:
                    setattr(parent, field, new)
                elif isinstance(value, list) and any(v is old for v in value):
                    value[:] = [new if v is old else v for v in value]
        return compile(ast.fix_missing_locations(tree), str(ROOT / self.path), "exec")


# where rules are


@functools.cache
def _source(path: Path) -> str:
    """The text of a module, read once."""
    return path.read_text()


def _is_rule(f: Function) -> bool:
    makers = ("rule", "rule_of", "rule_with")
    return any(isinstance(d, ast.Call) and ast.unparse(d.func) in makers for d in f.decorator_list)


def _called(f: ast.AST) -> set[str]:
    return {x.id for x in ast.walk(f) if isinstance(x, ast.Name)}


def is_pass(path: str) -> bool:
    """Whether a module is one of passes of kernels."""
    return any(path == place or path.startswith(f"{place}/") for place in OF["passes"])


def rule_functions(path: Path) -> list[Function]:
    """The rules of a module and, transitively, what they call of it; of index rules and passes, all functions."""
    if is_pass(path.relative_to(ROOT).as_posix()):
        return [f for f in ast.walk(ast.parse(_source(path))) if isinstance(f, Function)]
    if path.relative_to(ROOT).as_posix() not in INDEX and not re.search(r"^@rule", _source(path), re.MULTILINE):
        return []
    tree = ast.parse(_source(path))
    if path.relative_to(ROOT).as_posix() in INDEX:
        return [f for f in ast.walk(tree) if isinstance(f, Function)]
    by_name = {f.name: f for f in tree.body if isinstance(f, Function)}
    reached = {n for n, f in by_name.items() if _is_rule(f)}
    while more := {n for r in reached for n in _called(by_name[r]) if n in by_name} - reached:
        reached |= more
    return [by_name[n] for n in by_name if n in reached]


def _files(place: Path) -> Iterable[Path]:
    return place.rglob("*.py") if place.is_dir() else [place]


@functools.cache
def mutants(of: str = "rules") -> tuple[Mutant, ...]:
    """Every mutant of the rules of the package, or of the passes of kernels, in the order of its text."""
    out: list[Mutant] = []
    for path in sorted(p for place in OF[of] for p in _files(ROOT / place)):
        functions = rule_functions(path)
        if not functions or is_pass(path.relative_to(ROOT).as_posix()) != (of == "passes"):
            continue
        place = {(type(x), x.lineno, x.col_offset, x.end_lineno, x.end_col_offset): i  # type: ignore[attr-defined]
                 for i, x in enumerate(ast.walk(ast.parse(_source(path)))) if isinstance(x, ast.expr)}  # fmt: skip
        seen = set[tuple[int, str]]()
        for f in functions:
            for kind, old, new in _changes(f):
                at = place[(type(old), old.lineno, old.col_offset, old.end_lineno, old.end_col_offset)]
                was, now = ast.unparse(old), ast.unparse(new)
                if (at, now) in seen or was == now:
                    continue
                seen.add((at, now))
                out.append(Mutant(str(path.relative_to(ROOT)), f.name, kind, f.lineno, old.lineno, was, now, at, new))
    return tuple(out)


def _changes(f: Function) -> Iterator[tuple[str, ast.expr, ast.expr]]:
    annotations = {id(x) for a in _annotations(f) for x in ast.walk(a)}
    for stmt in f.body[1:] if ast.get_docstring(f) else f.body:
        for x in ast.walk(stmt):
            if id(x) in annotations:
                continue
            yield from _guards(x)
            yield from _sides(x)
            yield from _constants(x)


def _annotations(f: Function) -> Iterator[ast.expr]:
    for x in ast.walk(f):
        if isinstance(x, ast.AnnAssign) or (isinstance(x, ast.arg) and x.annotation is not None):
            yield x.annotation
        elif isinstance(x, Function) and x.returns is not None:
            yield x.returns


def _declines(body: ast.AST) -> bool:
    if isinstance(body, ast.Raise) and isinstance(body.exc, ast.Call):
        return ast.unparse(body.exc.func) in ("Declined", "Unboxed")
    return ast.unparse(body) in ("return None", "return False", "return", "None", "False")


def _guards(x: ast.AST) -> Iterator[tuple[str, ast.expr, ast.expr]]:
    """Conditions under which a rule declines, each without one of its terms."""
    if isinstance(x, ast.If) and len(x.body) == 1 and _declines(x.body[0]):
        yield from _dropped(x.test, passes=False)
    elif isinstance(x, ast.IfExp) and (_declines(x.orelse) or _declines(x.body)):
        yield from _dropped(x.test, passes=_declines(x.orelse))
    elif isinstance(x, ast.Return) and isinstance(x.value, ast.BoolOp) and isinstance(x.value.op, ast.And):
        yield from _dropped(x.value, passes=True)


def _dropped(test: ast.expr, *, passes: bool) -> Iterator[tuple[str, ast.expr, ast.expr]]:
    if isinstance(test, ast.BoolOp):
        terms, neutral = test.values, isinstance(test.op, ast.And)
    else:
        terms, neutral = [test], passes
    for term in terms:
        if not any(isinstance(y, ast.NamedExpr) for y in ast.walk(term)):
            yield "guard", term, ast.Constant(neutral)


def _sides(x: ast.AST) -> Iterator[tuple[str, ast.expr, ast.expr]]:
    if isinstance(x, ast.BinOp) and isinstance(x.op, ast.Sub | ast.Div | ast.FloorDiv | ast.Mod | ast.LShift):
        yield "sides", x, ast.BinOp(x.right, x.op, x.left)
    elif isinstance(x, ast.Compare) and len(x.ops) == 1 and isinstance(x.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
        yield "sides", x, ast.Compare(x.comparators[0], x.ops, [x.left])
    elif isinstance(x, ast.Call) and isinstance(x.func, ast.Attribute) and ast.unparse(x.func.value) == "graph":
        if x.func.attr in _OTHERWISE and len(x.args) == 2:
            yield "sides", x, ast.Call(x.func, x.args[::-1], x.keywords)
        elif x.func.attr == "select" and len(x.args) == 3:
            yield "sides", x, ast.Call(x.func, [x.args[0], x.args[2], x.args[1]], x.keywords)


def _constants(x: ast.AST) -> Iterator[tuple[str, ast.expr, ast.expr]]:
    if isinstance(x, ast.Constant) and type(x.value) in (int, float):
        yield "constant", x, ast.Constant(x.value + 1)
        if x.value >= 1:
            yield "constant", x, ast.Constant(x.value - 1)


def drawn(every: Sequence[Mutant], seed: int, count: int) -> list[Mutant]:
    """`count` mutants, as many of each kind as there can be."""
    rng = random.Random(seed)
    by_kind = [[m for m in every if m.kind == kind] for kind in ("guard", "sides", "constant")]
    for group in by_kind:
        rng.shuffle(group)
    out = [m for row in zip(*by_kind, strict=False) for m in row]
    return out[:count]


# running one


@contextlib.contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """The functions of the mutant's module have the changed code meanwhile."""
    name = mutant.path.removesuffix(".py").replace("/", ".")
    module = importlib.import_module(name)
    path = inspect.getsourcefile(module)
    new = {(c.co_qualname, c.co_firstlineno): c for c in _codes(mutant.code())}
    before: list[tuple[types.FunctionType, types.CodeType]] = []
    gc.unfreeze()  # what is frozen is not listed
    for f in gc.get_objects():
        if type(f) is types.FunctionType and f.__code__.co_filename == path:
            code = new.get((f.__code__.co_qualname, f.__code__.co_firstlineno))
            if code is not None and code != f.__code__:
                before.append((f, f.__code__))
                f.__code__ = code
    assert before, f"{mutant}: no function has the changed code"
    _forget()
    try:
        yield
    finally:
        for f, code in before:
            f.__code__ = code
        _forget()


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            yield c
            yield from _codes(c)


def _forget() -> None:
    """Empty the package's caches."""
    for f in gc.get_objects():
        if isinstance(f, functools._lru_cache_wrapper) and (f.__module__ or "").startswith("graphfuse"):
            f.cache_clear()


def found_by(mutant: Mutant, budget: float) -> str:
    """What finds a mutant within `budget` seconds of a process, or ""."""
    signal.signal(signal.SIGPROF, _does_not_end)
    if mutant.path in INDEX:
        with planted(mutant):
            signal.setitimer(signal.ITIMER_PROF, 2 * budget)
            if why := index_laws.first_broken(random.Random(0), end=time.process_time() + budget / 3):
                return f"index: {why}"
            signal.setitimer(signal.ITIMER_PROF, 5 * LONGEST)
            if why := _tests(INDEX_TESTS):
                return f"text: {why}"
    if mutant.path == BLOCK:
        with planted(mutant):
            why = rule_laws.block_law()
        return f"text: {why}" if why else ""
    lines = range(mutant.first, mutant.line + 1)
    if is_pass(mutant.path):
        near, texts = block_laws.near(mutant.path, lines)
        folder, stem = ("blockopt", "") if "/blockopt/" in mutant.path else ("gpu", Path(mutant.path).stem)
        tests = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "tests" / folder).glob(f"test_*{stem}*.py"))
        laws = Laws(near, block_laws.keeps_memory, block_laws.law_of, texts, tests)
    else:
        some = rule_laws.near(mutant.path, lines)
        laws = Laws(some, rule_laws.own_law, rule_laws.law_of, some, () if mutant.path in INDEX else RULE_TESTS)
    return laws.find(mutant, budget)


@dataclass(frozen=True)
class Laws:
    """What finds a mutant: programs near it, by themselves and drawn from; text tests; at last tests of Python."""

    near: Sequence[Any]
    own: Callable[[Any], None]
    drawn: rule_laws.Law
    texts: Sequence[rule_laws.Example]
    tests: Sequence[str]

    def find(self, mutant: Mutant, budget: float) -> str:
        """What finds it, or "", after as many seconds for what is drawn."""
        with planted(mutant):
            for program in dict.fromkeys(self.near[:60]):
                signal.setitimer(signal.ITIMER_PROF, LONGEST)
                try:
                    self.own(program)
                except rule_laws.BrokenLawError as e:
                    return f"numbers: {e}"
            text = rule_laws.text_law(self.texts[:60])
        # of what is found already, numbers are worth little more
        end, seed = time.process_time() + (budget / 20 if text else budget), 0
        while time.process_time() < end:
            with planted(mutant):
                signal.setitimer(signal.ITIMER_PROF, budget + LONGEST)
                found = rule_laws.broken(range(seed, 1 << 30), self.near, law=self.drawn, end=end)
                seed, why = next(found, (seed, ""))
            signal.setitimer(signal.ITIMER_PROF, 0)
            if why and not any(rule_laws.broken(range(seed, seed + 1), self.near, law=self.drawn)):
                return f"numbers: {seed}: {why}"
            seed += 1  # a hole in the unchanged rules, or in the law
        if text:
            return f"text: {text}"
        with planted(mutant):
            why = self.tests and _tests(self.tests)
        return f"text: {why}" if why else ""


def _does_not_end(*_: object) -> None:
    raise TimeoutError("a law does not end")


def _tests(paths: Sequence[str]) -> str:
    import pytest

    out = io.StringIO()
    options = ("-x", "-q", "-W", "ignore", *itertools.chain(*(("-p", f"no:{p}") for p in UNUSED)))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        status = pytest.main([*options, *(str(ROOT / p) for p in paths)])
    lines = [s for s in out.getvalue().splitlines() if s.startswith(("FAILED", "ERROR"))]
    return (lines or ["a test fails"])[0] if status else ""


def in_a_process(mutant: Mutant, budget: float) -> str:
    """`found_by` in a fork of this one; one that does not end is found too."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(read)
        try:
            got = found_by(mutant, budget)
        except Exception as e:  # noqa: BLE001 it breaks what draws the programs
            got = f"crash: {type(e).__name__}: {e}"
        os.write(write, got.encode()[:4096])
        os._exit(0)
    os.close(write)
    got = b"".join(iter(lambda: os.read(read, 4096), b"")).decode(errors="replace")
    os.close(read)
    _, status = os.waitpid(pid, 0)
    return got if os.WIFEXITED(status) else f"does not end: signal {os.WTERMSIG(status)}"


def judged(m: Mutant, budget: float) -> bool:
    """Run a mutant and say what finds it; whether it survives."""
    start = time.monotonic()
    verdict = in_a_process(m, budget)
    if not verdict and (why := reason(m.key)):
        verdict = f"equivalent: {why}"
    first = verdict[:160].splitlines()[0] if verdict else "SURVIVED"
    print(f"{first}  [{time.monotonic() - start:.0f} s] {m}", flush=True)
    return not verdict


def main(args: Sequence[str] | None = None) -> int:
    """Draw mutants, run each, and say which were found."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--of", choices=OF, default="rules", help="rules, or passes of kernels")
    parser.add_argument("--budget", type=float, default=60.0, help="processor seconds that a mutant gets")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--only", default="", help="mutants whose text has this in it")
    parser.add_argument("--list", action="store_true", help="count all, or with --only print them")
    given = parser.parse_args(args)
    every: Sequence[Mutant] = mutants(given.of)
    if given.only:
        every = [m for m in every if given.only in str(m)]
    if given.list:
        for kind in ("guard", "sides", "constant"):
            print(f"{kind}: {sum(m.kind == kind for m in every)}")
        print(*(every if given.only else ()), sep="\n")
        return 0
    # before any process has rules of its own
    (block_laws if given.of == "passes" else rule_laws).reached()
    chosen = every if given.only else drawn(every, given.seed, given.count)

    # processes, not threads: what a mutant runs in is forked of one of them
    with multiprocessing.get_context("fork").Pool(given.jobs) as pool:
        judge = functools.partial(judged, budget=given.budget)
        survived = sum(pool.imap_unordered(judge, chosen))
    print(f"{len(chosen) - survived} of {len(chosen)} found or equivalent")
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main())

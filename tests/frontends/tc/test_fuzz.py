"""Any text gives a result or diagnostics, in bounded time and depth: mutated kernels, seeded."""

from __future__ import annotations

import random
import time

import pytest

from graphfuse.frontends.tc import SourceError, check, compile_text
from graphfuse.ir.verifier import verify
from tests.frontends.tc.sources import POINT, PREFETCHED_DOT, SMALL

SEEDS = (PREFETCHED_DOT % 0, SMALL)
FRAGMENTS = (
    "(", ")", "[", "]", "{", "}", ";", ",", "...", "@", "^", "*", "*?(", "?", ":", "#", "##", "#define A A A\n", "A",
    '#include "k.tc"\n', "\\\n", "/*", "*/", "//", '"', "'", "0x", "1e", "9" * 60, "int ", "float x[4] = ", "if (",
    "else ", "while (1) ", "for (;;) ", "case 1:", "return ", "break;", "goto a;", "newaxis", "__attribute__((",
    "bitcast<", "sizeof", "_Generic(", "typedef ", "struct ", "\n", "\0", "\u00e9", "\ud7ff", "#if 1/0\n", "#endif\n",
    "#else\n", '#line 7 "x"\n', "(" * 70, "-" * 70, "x = " * 70, "1 ? " * 70, "#define D(x) x x\nD(D(D(D(", "{" * 130,
)  # fmt: skip


def mutated(rng):
    text = rng.choice(SEEDS)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        at, to = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        match rng.randrange(7):
            case 0:
                text = text[:at] + text[min(to, at + rng.randrange(1, 30)) :]
            case 1 | 2:
                text = text[:at] + rng.choice(FRAGMENTS) + text[at:]
            case 3:
                text = text[:at] + text[at:to][: rng.randrange(200)] * 2 + text[at:]
            case 4:
                text = text[:at] + chr(rng.randrange(32, 127)) + text[at + 1 :]
            case 5:
                words = text.split(" ")
                i, j = rng.randrange(len(words)), rng.randrange(len(words))
                words[i], words[j] = words[j], words[i]
                text = " ".join(words)
            case _:
                text = (
                    text[:at]
                    if rng.random() < 0.3
                    else text[:at] + text[rng.randrange(len(text) or 1) :][:40] + text[at:]
                )
    return text[:20_000]


def run(seed):
    text = mutated(random.Random(seed))
    start = time.perf_counter()
    try:
        for kernel in compile_text(text, "k.tc", {**POINT, "N": "8"}):
            verify(kernel.func)
    except SourceError as e:
        assert e.diagnostics
        assert str(e)
        assert [d.to_json() for d in e.diagnostics]
    assert time.perf_counter() - start < 20, f"seed {seed} takes forever"


def test_mutated_sources():
    for seed in range(400):
        run(seed)


@pytest.mark.full
@pytest.mark.parametrize("block", range(20))
def test_many_mutated_sources(block):
    for seed in range(1000 * (block + 1), 1000 * (block + 2)):
        run(seed)


OPENINGS = (
    "x = (", "{", "x = x[", "x = -", "x = *", "x = !", "x = (int)", "x = f(", "x = 1 ? ", "x = 1 ? 1 : ", "x = ",
    "x = 1 + (", "x = sizeof ", "if (1) ", "for (;;) ", "do ", "switch (1) {", "while (1) {", "x = bitcast<int>(",
)  # fmt: skip


@pytest.mark.parametrize("opening", OPENINGS)
def test_any_nesting(opening):
    head, equals, again = opening.partition("= ")
    for count in (10, 100, 1000, 5000):
        text = head + equals + again * count if again else opening * count
        with pytest.raises(SourceError):
            check(f"__global__ void k(int x) {{ x = 1; {text}", "k.tc")


def test_long_chains():
    terms = " + ".join(["x"] * 5000)
    check(f"__global__ void k(int x) {{ x = {terms}; }}", "k.tc")
    with pytest.raises(SourceError):
        check(f"__global__ void k(int x) {{ x = {' && '.join(['x'] * 5000)}; }}", "k.tc")

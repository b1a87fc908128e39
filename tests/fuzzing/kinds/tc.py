"""Triton-C with a few things wrong in it: diagnostics, a tree, block functions, standard form; nothing is compiled."""

from __future__ import annotations

import random
import re
from pathlib import Path

import graphfuse.frontends.tc.lint as tc_lint
from graphfuse.frontends.tc import Options, SourceError, compile_text, format_text, parse, parse_defines
from graphfuse.frontends.tc.ast import to_text
from graphfuse.ir.parser import parse as parse_ir
from graphfuse.ir.printer import to_text as ir_text
from graphfuse.ir.verifier import verify
from graphfuse.lsp.index import index
from tests.frontends.tc.sources import PREFETCHED_DOT, SMALL
from tests.frontends.tc.test_fuzz import FRAGMENTS

FOLDER = Path(__file__).parents[3]
GALLERY = [p.read_text() for p in sorted((FOLDER / "models" / "kernels").glob("*.tc"))]
CASES = "\n".join(p.read_text() for p in sorted((FOLDER / "tests" / "frontends" / "tc" / "cases").glob("*.txt")))
SOURCES = (PREFETCHED_DOT % 0, SMALL, *GALLERY, *re.findall(r"(?m)^__global__ .*\n(?:.*\n){0,12}?}\n", CASES))
WORDS = re.compile(r"\w+|\s+|[^\w\s]+")
BANK = sorted({w for s in SOURCES for w in WORDS.findall(s) if not w.isspace()})
NUMBERS = ("0", "1", "-1", "2", "3", "31", "32", "64", "1 << 30", "2147483647", "2147483648", "1 << 63", "1e400", "1/0")
POINTS = {"TYPE": "half", "T": "float", "STRIDE_AK": "1", "STRIDE_BK": "1"}


def defines_of(text: str) -> dict[str, str]:
    """Values for the macros that a source asks for."""
    found = {name: value for name, value in POINTS.items() if re.search(rf"\b{name}\b", text)}
    for _ in range(20):
        try:
            compile_text(text, "k.tc", found)
        except SourceError as e:
            messages = " ".join(d.message for d in e.diagnostics)
            new = {name for name in re.findall(r"'([A-Z]\w*)' is not defined", messages) if name not in found}
            if not new:
                break
            found |= dict.fromkeys(new, "16")
            continue
        break
    return found


DEFINES = {text: defines_of(text) for text in SOURCES}


def mutated(rng: random.Random, most: int = 8) -> tuple[str, dict[str, str]]:
    """A source of the corpus with some words changed, lost, doubled, swapped, or text from elsewhere in it; macros."""
    whole = rng.choice(SOURCES)
    words = WORDS.findall(whole)
    for _ in range(rng.choice((1, 1, 2, 3, most))):
        at, to = rng.randrange(len(words) + 1), rng.randrange(len(words) + 1)
        match rng.randrange(10):
            case 0:
                del words[at : at + rng.randrange(1, 12)]
            case 1:
                words.insert(at, rng.choice(FRAGMENTS))
            case 2:
                words[at:at] = words[to : to + rng.randrange(40)]
            case 3 | 4 if at < len(words):
                words[at] = rng.choice(BANK)
            case 5 if at < len(words) and to < len(words):
                words[at], words[to] = words[to], words[at]
            case 6 | 8:
                numbers = [i for i, w in enumerate(words) if w.isdigit()]
                if numbers:
                    words[rng.choice(numbers)] = rng.choice(NUMBERS)
            case 7 if words:
                text = list("".join(words))
                text[rng.randrange(len(text))] = chr(rng.choice([rng.randrange(32, 127), rng.randrange(1 << 16)]))
                words = WORDS.findall("".join(text))
            case _:
                other = WORDS.findall(rng.choice(SOURCES))
                begin = rng.randrange(len(other))
                words[at:at] = other[begin : begin + rng.randrange(60)]
    return "".join(words)[:30_000], DEFINES[whole]


def case(seed: int, folder: Path) -> str:
    rng = random.Random(seed)
    text, defines = mutated(rng)
    file = str(folder / "k.tc")
    if rng.random() < 0.2:
        formatted = format_text(text)
        assert format_text(formatted) == formatted, "standard form has a standard form of its own"
    if rng.random() < 0.1:
        index(text, file, defines)
    if rng.random() < 0.1:
        tc_lint.lint(text, file, parse_defines(["-DTM=[16,32]", "-DTYPE=[half,float]"]).points())
    switches = rng.choice([(), (), ("extra",), ("error",)])
    try:
        to_text(parse(text, file, defines, options=Options(warnings=switches)))
        kernels = compile_text(text, file, defines, options=Options(warnings=switches, debug=rng.random() < 0.3))
    except SourceError as e:
        assert e.diagnostics
        assert all(c.isprintable() or c in "\n\t" for c in str(e))
        assert [d.to_json() for d in e.diagnostics]
        return "refused"
    for kernel in kernels:
        verify(kernel.func)
        printed = ir_text(kernel.func)
        assert ir_text(parse_ir(printed)) == printed
    return "kernels" if kernels else "no kernel"

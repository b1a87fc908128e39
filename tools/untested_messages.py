"""Error messages that no test expects: `python -m tools.untested_messages --least 90`.

Of every `raise Error("literal ...")` in graphfuse/ it looks for the literal words in the tests, and prints `file:line:
message` where none of them occurs. It reads text, so it errs in favour of words that occur for another reason.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SHORTEST = 6
"""Letters of words that are looked for: fewer occur everywhere."""


class Message(NamedTuple):
    """What one raise site says."""

    place: str
    words: tuple[str, ...]
    """The literal parts."""


def messages(root: Path = ROOT) -> Iterator[Message]:
    """Of every raise site whose first argument is a string or f-string with literal words."""
    for path in sorted((root / "graphfuse").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Raise(exc=ast.Call(args=[ast.Constant(value=str(text)), *_])):
                    parts = [text]
                case ast.Raise(exc=ast.Call(args=[ast.JoinedStr(values=values), *_])):
                    parts = [str(v.value) for v in values if isinstance(v, ast.Constant)]
                case _:
                    continue
            words = tuple(w for p in parts if len(w := p.strip(" ,:;'\"()[]")) >= SHORTEST)
            if words:
                yield Message(f"{path.relative_to(root)}:{node.lineno}", words)


def untested(root: Path = ROOT) -> tuple[list[Message], int]:
    """The messages of whose words none occurs under tests/, and how many messages there are."""
    files = (p for p in (root / "tests").rglob("*") if p.suffix in (".py", ".gf", ".tc", ".txt"))
    tests = re.sub(r"\\(.)", r"\1", "\n".join(p.read_text(errors="replace") for p in files))
    every = list(messages(root))
    return [m for m in every if not any(w in tests for w in m.words)], len(every)


def main() -> int:
    """Print what is untested; 1 if less than `--least` percent is tested."""
    parser = argparse.ArgumentParser(prog="python -m tools.untested_messages", description=__doc__.partition("\n")[0])
    parser.add_argument("--least", type=float, default=0.0, metavar="PERCENT", help="exit with 1 if fewer are tested")
    least = parser.parse_args().least
    missing, count = untested()
    for m in missing:
        sys.stdout.write(f"{m.place}: {' ... '.join(m.words)}\n")
    percent = 100 * (1 - len(missing) / count)
    sys.stdout.write(f"{count - len(missing)} of {count} messages are tested: {percent:.1f} %\n")
    return int(percent < least)


if __name__ == "__main__":
    sys.exit(main())

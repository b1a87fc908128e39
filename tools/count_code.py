"""Lines of code of a package, without comments and docstrings: `python tools/count_code.py [FOLDER] [--by-package]`."""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

LAYOUT = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def count(source: str) -> tuple[int, int]:
    """Lines that hold code, and comments."""
    doc = {n for node in ast.walk(ast.parse(source)) if isinstance(node, DOCUMENTED) for n in _docstring(node)}
    code: set[int] = set()
    comments = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        comments += token.type == tokenize.COMMENT
        if token.type not in (tokenize.COMMENT, *LAYOUT):
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - doc), comments


def _docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> range:
    if ast.get_docstring(node, clean=False) is None:
        return range(0)
    first = node.body[0]
    return range(first.lineno, (first.end_lineno or first.lineno) + 1)


def main() -> None:
    """Count, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parents[1] / "graphfuse")
    parser.add_argument("--by-package", action="store_true")
    args = parser.parse_args()
    lines, comments = Counter[str](), 0
    for path in args.folder.rglob("*.py"):
        found, said = count(path.read_text())
        lines[path.relative_to(args.folder).parts[0]] += found
        comments += said
    if args.by_package:
        for name, number in lines.most_common():
            print(f"{number:6} {name}")
    print(f"{lines.total()} lines of code, {comments} comments")


if __name__ == "__main__":
    main()

"""`graphfuse opt`: passes over IR text, as text."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from graphfuse.cli.common import echo_document
from graphfuse.errors import FileError, Loc, ParseError
from graphfuse.stages import optimize_text


@click.command("opt", help="Run passes over the functions of FILE (`-`: stdin) and print the result.")
@click.argument("file")
@click.option("-p", "--passes", default="", metavar="'PASS, PASS'", help="The pipeline; none: print as parsed.")
def command(file: str, passes: str) -> None:
    """Read, run, print."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except OSError as e:
        raise FileError(f"cannot read: {(e.strerror or str(e)).lower()}", Loc(file)) from None
    except UnicodeDecodeError:
        raise ParseError("not text", Loc(file)) from None
    echo_document(optimize_text(text, passes, "<stdin>" if file == "-" else file))

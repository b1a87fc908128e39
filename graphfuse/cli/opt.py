"""`graphfuse opt`: passes over IR text, as text."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from graphfuse.cli.common import echo_document
from graphfuse.errors import FileError, Loc, ParseError
from graphfuse.files import read_source, reason
from graphfuse.stages import optimize_text

MOST_BYTES = 64 << 20
"""Of IR text, which may hold weights."""


@click.command("opt", help="Run passes over the functions of FILE (`-`: stdin) and print the result.")
@click.argument("file")
@click.option("-p", "--passes", default="", metavar="'PASS, PASS'", help="The pipeline; none: print as parsed.")
def command(file: str, passes: str) -> None:
    """Read, run, print."""
    try:
        text = sys.stdin.read() if file == "-" else read_source(Path(file), named=True, most=MOST_BYTES)
    except OSError as e:
        raise FileError(f"cannot read: {reason(e)}", Loc(file)) from None
    except UnicodeDecodeError:
        raise ParseError("not text", Loc(file)) from None
    echo_document(optimize_text(text, passes, "<stdin>" if file == "-" else file))

"""`graphfuse opt`: passes over IR text, as text."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from graphfuse.cli.common import echo_document
from graphfuse.errors import FileError, Loc, ParseError, UsageError
from graphfuse.files import read_source, reason
from graphfuse.stages import optimize_text

MOST_BYTES = 64 << 20
"""Of IR text, which may hold weights."""


@click.command("opt", help="Run passes over the functions of FILE (`-`: stdin) and print the result.")
@click.argument("file", required=False)
@click.option(
    "-p", "--passes", default="", metavar="'PASS, PASS {OPTION = VALUE}'",
    help="The pipeline; else that of the `// RUN:` line in FILE; none: print as parsed.",
)  # fmt: skip
@click.option("--list", "list_passes", is_flag=True, help="Print the passes of every level, with their options.")
@click.option("--for", "target", default="", metavar="TARGET", help="Print what runs for a target, stage by stage.")
def command(file: str | None, passes: str, list_passes: bool, target: str) -> None:
    """Read, run, print."""
    if list_passes or target:
        # which imports all that compiles
        from graphfuse import pipelines

        echo_document(pipelines.listing(target) if target else pipelines.table())
        return
    if file is None:
        raise UsageError("expected a FILE, --list or --for TARGET")
    try:
        text = sys.stdin.read() if file == "-" else read_source(Path(file), named=True, most=MOST_BYTES)
    except OSError as e:
        raise FileError(f"cannot read: {reason(e)}", Loc(file)) from None
    except UnicodeDecodeError:
        raise ParseError("not text", Loc(file)) from None
    echo_document(optimize_text(text, passes, "<stdin>" if file == "-" else file))

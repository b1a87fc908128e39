"""`graphfuse errors`: exit codes and what they mean."""

from __future__ import annotations

import inspect

import click

from graphfuse import errors
from graphfuse.cli.common import table
from graphfuse.cli.exit_codes import BROKEN_PIPE, INTERNAL_ERROR, INTERRUPTED


@click.command("errors", help="List the errors and their exit codes.")
@click.option("--markdown", is_flag=True, help="Print Markdown.")
def command(markdown: bool) -> None:
    """Print the tree of errors."""
    rows = [(0, "", "Success.")]
    for error in (errors.GraphfuseError, *errors.GraphfuseError.__subclasses__()):
        doc = inspect.getdoc(error) or ""
        if error is errors.GraphfuseError:
            doc = "A comparison failed (`verify`), or something else the other codes do not cover."
        rows.append((error.exit_code, error.__name__, doc))
    rows.append((INTERNAL_ERROR, "", "A bug in graphfuse: please report it, with the output of `--debug`."))
    rows.append((INTERRUPTED, "", "Interrupted from the keyboard."))
    rows.append((BROKEN_PIPE, "", "Whatever read the output has gone away."))
    if not markdown:
        table("", ("exit code", "error", "means"), rows, right=3)
        return
    click.echo("# Errors\n\nRendered by `make docs` from `graphfuse/errors.py`. Every error is one line on stderr,")
    click.echo("`where: error: what`, and the exit code below; `--debug` adds the traceback.\n")
    click.echo("| exit code | error | means |\n|---|---|---|")
    for code, name, doc in rows:
        click.echo(f"| {code} | {f'`{name}`' if name else ''} | {doc} |")

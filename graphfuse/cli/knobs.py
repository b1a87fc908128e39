"""`graphfuse knobs`: the environment variables and their values now."""

from __future__ import annotations

import os

import click

from graphfuse import knobs
from graphfuse.cli.common import table


@click.command("knobs", help="List the GRAPHFUSE_* environment variables.")
@click.option("--markdown", is_flag=True, help="Print Markdown.")
def command(markdown: bool) -> None:
    """Print all of them."""
    if markdown:
        click.echo("# Environment variables\n\nRendered by `make docs` from `graphfuse/knobs.py`.\n")
        click.echo(knobs.table())
        return
    rows = [(k.variable, os.environ.get(k.variable, "-"), k.values, k.doc) for k in knobs.all_knobs()]
    table("", ("variable", "set to", "values", "does"), rows, right=4)

"""`graphfuse lsp`: the language server for Triton-C."""

from __future__ import annotations

import click

from graphfuse.errors import UsageError


@click.command("lsp", help="Serve an editor of Triton-C over standard input and output.")
def command() -> None:
    """Run until the editor ends it."""
    try:
        from graphfuse.lsp.server import make_server
    except ModuleNotFoundError as e:
        raise UsageError(f"the language server needs the package {e.name}: pip install 'graphfuse[lsp]'") from None
    make_server().start_io()

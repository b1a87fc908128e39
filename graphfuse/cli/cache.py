"""`graphfuse cache`: what is kept, what to drop, what is damaged."""

from __future__ import annotations

import re

import click

from graphfuse.cli.common import echo, json_option, nbytes_text, print_json
from graphfuse.errors import ArtifactError, UsageError
from graphfuse.runtime.cache import MAX_BYTES, trusted_cache

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@click.group("cache", help="The cache of compiled models (GRAPHFUSE_CACHE says where).")
def command() -> None:
    """Its verbs are below."""


@command.command("info", help="Where it is and how much it holds.")
@json_option
def info(as_json: bool) -> None:
    """Count and add up."""
    found = trusted_cache().info()
    if as_json:
        print_json({"folder": str(found.folder), "entries": found.entries, "bytes": found.nbytes})
    else:
        echo(f"{found.folder}: {found.entries} models, {nbytes_text(found.nbytes)}")


@command.command("gc", help="Remove the models least recently used.")
@click.option("--max-size", default=str(MAX_BYTES), metavar="N[k|M|G|T]", help="Keep at most this much (8.6G).")
@click.option("--max-age-days", type=click.FloatRange(0), help="Remove what was not used for so long.")
def gc(max_size: str, max_age_days: float | None) -> None:
    """Remove and say how much."""
    if (m := re.fullmatch(r"(\d+(?:\.\d+)?)([kMGT]?)B?", max_size)) is None:
        raise UsageError(f"--max-size: expected a number with k, M, G or T, got {max_size!r}")
    age = None if max_age_days is None else max_age_days * 86400
    removed = trusted_cache().gc(int(float(m[1]) * _UNITS[m[2]]), age)
    echo(f"removed {len(removed)} models")


@command.command("verify", help="Check every digest of every model.")
@click.option("--delete", is_flag=True, help="Remove those that fail.")
def verify(delete: bool) -> None:
    """Name what fails."""
    cache = trusted_cache()
    failed = cache.verify()
    for path, reason in failed:
        echo(f"{path}: {reason}")
        if delete:
            path.unlink(missing_ok=True)
    if failed and not delete:
        raise ArtifactError(f"{len(failed)} of {cache.info().entries} models in the cache are damaged")
    echo(f"{cache.info().entries} models are sound")

"""Triton-C sources (`.tc`) to block IR: preprocessor, parser, type checker, lowering."""

from graphfuse.frontends.tc.defines import Defines, parse_defines
from graphfuse.frontends.tc.diagnostics import Diagnostic, Reporter, SourceError
from graphfuse.frontends.tc.driver import Options, check, parse, tokens

__all__ = [
    "Defines",
    "Diagnostic",
    "Options",
    "Reporter",
    "SourceError",
    "check",
    "parse",
    "parse_defines",
    "tokens",
]

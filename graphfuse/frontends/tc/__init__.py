"""Triton-C sources (`.tc`) to block IR: preprocessor, parser, type checker, lowering."""

from graphfuse.frontends.tc.defines import Defines, parse_defines
from graphfuse.frontends.tc.diagnostics import Diagnostic, Reporter, SourceError
from graphfuse.frontends.tc.driver import Options, check, compile_text, parse, tokens
from graphfuse.frontends.tc.format import format_text
from graphfuse.frontends.tc.kernel import Kernel, Parameter

__all__ = [
    "Defines", "Diagnostic", "Kernel", "Options", "Parameter", "Reporter", "SourceError", "check", "compile_text",
    "format_text", "parse", "parse_defines", "tokens",
]  # fmt: skip

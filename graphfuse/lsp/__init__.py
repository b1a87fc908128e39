"""Editing Triton-C: a language server."""

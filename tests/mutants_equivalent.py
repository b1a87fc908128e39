"""Mutants that change no result, and why: by module, function, what was there, and what the mutant has instead."""

from __future__ import annotations

EQUIVALENT: dict[tuple[str, str, str, str], str] = {}


def reason(key: tuple[str, str, str, str]) -> str:
    """Why a mutant is equivalent, or ""."""
    return EQUIVALENT.get(key, "")

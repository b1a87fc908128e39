"""What the emulator raises: one class, located in the PTX."""

from __future__ import annotations

from graphfuse.errors import TargetError


class EmulatorError(TargetError):
    """A kernel broke a rule of the machine, or uses what the emulator does not know."""

"""What the emulator raises: one class, located in the source where the PTX says, else in the PTX."""

from __future__ import annotations

from graphfuse.errors import TargetError
from graphfuse.findings import FoundError


class EmulatorError(FoundError, TargetError):
    """A kernel broke a rule of the machine, or uses what the emulator does not know."""

"""What a backend makes of kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from graphfuse.artifact import Code, Launch
from graphfuse.symbolic import Dim


@dataclass(frozen=True, slots=True)
class Generated:
    """Code of some kernels, and what is known of each by its name."""

    code: Code
    scratch: Mapping[str, Dim]
    """Bytes that one program needs besides its arguments."""
    launches: Mapping[str, Launch] = field(default_factory=dict[str, Launch])
    """How a GPU's are launched."""
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Block functions as they were lowered, where passes of the target have changed them."""

"""What nodes of trees are. Owns no node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import dataclass_transform


@dataclass_transform(frozen_default=True, eq_default=False)
class Tree:
    """A part of a tree: its subclasses are dataclasses, immutable and compared by identity."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, eq=False)(cls)

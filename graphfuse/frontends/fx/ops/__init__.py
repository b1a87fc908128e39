"""Lowerings of ATen operators, one file a family. Importing this registers all of them."""

from __future__ import annotations

from typing import Any

from graphfuse.families import import_families
from graphfuse.frontends.fx.lowering import LOWERINGS, Lowering

import_families(__name__, __path__)


def lowering_of(target: Any) -> Lowering | None:
    """The lowering of an overload."""
    return LOWERINGS.get(target)

"""What the front end hands on: a block function, and what its source says of its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from graphfuse.ir.core import Func

LAUNCH: Final = {"num_warps": "warps", "num_stages": "stages", "num_ctas": "ctas", "schedule": "schedule"}
"""How a GPU runs programs: what callers and headers say, and the attribute of the function that it is."""
MOST: Final = {"num_warps": 32, "num_stages": 16, "num_ctas": 2}
"""Of those that are numbers; warps are a power of two."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel as the source declares it.

    `attributes` are those of the language (`multipleof`, `aligned`, `readonly`, `writeonly`, `noalias`, `retune`), with
    their number or 0. A constant pool is a parameter behind the others, of `pool_bytes` bytes.
    """

    name: str
    ctype: str
    attributes: Mapping[str, int]
    pool_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel: its block function, whose parameters are `params` in order."""

    func: Func
    params: tuple[Parameter, ...]

    @property
    def name(self) -> str:
        """The function's name."""
        return self.func.name

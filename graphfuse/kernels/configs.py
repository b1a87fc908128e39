"""The points of a tuning space: macros with lists of values, how a GPU runs programs, and what must hold of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphfuse.dialects.block import SCHEDULES
from graphfuse.frontends.tc.expression import evaluate
from graphfuse.frontends.tc.kernel import LAUNCH

DEFAULT_WARPS = (4,)
"""Of a program, where nobody says: what Triton has."""
DEFAULT_STAGES = (3,)
"""Of pipelined loads: the same."""
DEFAULT_CTAS = (1,)
"""Of a program: no cluster."""
DEFAULT_SCHEDULES = (SCHEDULES[0],)


@dataclass(frozen=True, slots=True)
class Config:
    """One point."""

    defines: Mapping[str, str] = field(default_factory=dict[str, str])
    num_warps: int = DEFAULT_WARPS[0]
    num_stages: int = DEFAULT_STAGES[0]
    num_ctas: int = DEFAULT_CTAS[0]
    schedule: str = DEFAULT_SCHEDULES[0]

    def __str__(self) -> str:
        """What is as nobody asked for is left out, but for warps and stages."""
        usual = {"num_ctas": DEFAULT_CTAS[0], "schedule": DEFAULT_SCHEDULES[0]}
        said = {n: value for n, value in self.options.items() if value != usual.get(n)}
        return " ".join(f"{name}={value}" for name, value in {**self.defines, **said}.items())

    @property
    def options(self) -> dict[str, Any]:
        """What `Kernel` takes by these names."""
        return {n: getattr(self, n) for n in LAUNCH}


@dataclass(frozen=True, slots=True)
class Space:
    """All points: the product of the alternatives of every macro and of every option, where `require` holds.

    `require` are C expressions over the macros and the options that are numbers, such as `TM*TN <= 16384*num_ctas`. The
    schedules have numbers there: `cooperative` 0, `pingpong` 1, `stream` 2.
    """

    defines: Mapping[str, Sequence[str]]
    num_warps: Sequence[int] = DEFAULT_WARPS
    num_stages: Sequence[int] = DEFAULT_STAGES
    require: Sequence[str] = ()
    num_ctas: Sequence[int] = DEFAULT_CTAS
    schedule: Sequence[str] = DEFAULT_SCHEDULES

    def __len__(self) -> int:
        return math.prod(len(values) for values in (*self.defines.values(), *self._options))

    @property
    def _options(self) -> list[Sequence[Any]]:
        return [getattr(self, n) for n in LAUNCH]

    def points(self) -> Iterator[Config]:
        """Those for which all requirements hold, the last macro changing fastest."""
        for values in itertools.product(*self.defines.values()):
            defines = dict(zip(self.defines, values, strict=True))
            for options in itertools.product(*self._options):
                config = Config(defines, *options)
                if all(holds(expr, config) for expr in self.require):
                    yield config

    @property
    def varying(self) -> tuple[str, ...]:
        """The macros with more than one value."""
        return tuple(name for name, values in self.defines.items() if len(values) > 1)


def holds(expr: str, config: Config) -> bool:
    """Whether a C expression is not 0 for a point."""
    numbers = {n: str(value) for n, value in config.options.items() if isinstance(value, int)}
    numbers |= {name: str(i) for i, name in enumerate(SCHEDULES)} | {"schedule": str(SCHEDULES.index(config.schedule))}
    return evaluate(expr, {**config.defines, **numbers}, "require ") != 0

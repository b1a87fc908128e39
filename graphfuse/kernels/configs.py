"""The points of a tuning space: macros with lists of values, warps, stages, and what must hold of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from graphfuse.errors import UsageError
from graphfuse.frontends.tc import SourceError
from graphfuse.frontends.tc.expression import evaluate

DEFAULT_WARPS = (4,)
DEFAULT_STAGES = (3,)


@dataclass(frozen=True, slots=True)
class Config:
    """One point."""

    defines: Mapping[str, str] = field(default_factory=dict[str, str])
    num_warps: int = 4
    num_stages: int = 3

    def __str__(self) -> str:
        macros = (f"{k}={v}" for k, v in self.defines.items())
        return " ".join([*macros, f"num_warps={self.num_warps}", f"num_stages={self.num_stages}"])


@dataclass(frozen=True, slots=True)
class Space:
    """All points: the product of the alternatives of every macro, of warps and of stages, where `require` holds.

    `require` are C expressions over the macros, `num_warps` and `num_stages`, such as `TM*TN <= 16384`.
    """

    defines: Mapping[str, Sequence[str]]
    num_warps: Sequence[int] = DEFAULT_WARPS
    num_stages: Sequence[int] = DEFAULT_STAGES
    require: Sequence[str] = ()

    def __len__(self) -> int:
        out = len(self.num_warps) * len(self.num_stages)
        for values in self.defines.values():
            out *= len(values)
        return out

    def points(self) -> Iterator[Config]:
        """Those for which all requirements hold, the last macro changing fastest."""
        for values in itertools.product(*self.defines.values()):
            defines = dict(zip(self.defines, values, strict=True))
            for warps, stages in itertools.product(self.num_warps, self.num_stages):
                config = Config(defines, warps, stages)
                if all(holds(expr, config) for expr in self.require):
                    yield config

    @property
    def varying(self) -> tuple[str, ...]:
        """The macros with more than one value."""
        return tuple(name for name, values in self.defines.items() if len(values) > 1)


def holds(expr: str, config: Config) -> bool:
    """Whether a C expression is not 0 for a point."""
    names = {**config.defines, "num_warps": str(config.num_warps), "num_stages": str(config.num_stages)}
    try:
        return evaluate(expr, names) != 0
    except SourceError as e:
        raise UsageError(f"require {expr!r}: {e.diagnostics[0].message}") from None
    except ValueError as e:
        raise UsageError(f"require {expr!r}: {e}") from None

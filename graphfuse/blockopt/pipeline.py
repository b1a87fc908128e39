"""The passes in their order."""

from __future__ import annotations

from graphfuse.blockopt.choices import choose_in_loads
from graphfuse.blockopt.induction import count_by_trips
from graphfuse.blockopt.invariants import hoist_invariants
from graphfuse.blockopt.parameters import symbolic_parameters
from graphfuse.blockopt.prefetches import load_where_used
from graphfuse.blockopt.views import find_views
from graphfuse.ir.core import Func
from graphfuse.ir.passes import Pass, run
from graphfuse.ir.rewrite import common_subexpressions, dead_code

PIPELINE: tuple[Pass, ...] = (
    symbolic_parameters,
    common_subexpressions,
    choose_in_loads,
    hoist_invariants,
    count_by_trips,
    hoist_invariants,  # steps of what the loop no longer carries
    find_views,
    hoist_invariants,  # what is left of the addresses
    load_where_used,
    common_subexpressions,
    dead_code,
)
"""What a hand-written kernel goes through before any machine sees it."""


def optimized(func: Func) -> Func:
    """A block function with the addresses of its tiles worked out."""
    return run(func, PIPELINE, "kernel")

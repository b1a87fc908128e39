"""Which graph passes run for a GPU, and those that ask which one."""

from __future__ import annotations

from graphfuse.blockgen.gpu_key_parts import key_parts
from graphfuse.blockgen.gpu_product_costs import ProductCosts
from graphfuse.blockgen.gpu_several_products import saved_together
from graphfuse.blockgen.gpu_sum_parts import sum_parts
from graphfuse.blockgen.gpu_tiles import VECTOR_BYTES
from graphfuse.blockgen.gpu_wgmma_tile import MOST_SPLIT
from graphfuse.blockgen.gpu_whole_scatter import columns_of
from graphfuse.blockgen.lower import is_walk
from graphfuse.dialects.ranges import ranges_of
from graphfuse.errors import UsageError
from graphfuse.fusion.conv.join_groups import joined_groups
from graphfuse.fusion.conv.winograd import winograd
from graphfuse.fusion.passes import ATTENTION, BY_PARTS, PIXELS, as_stored, for_numerics
from graphfuse.fusion.precision.few_updates import narrow_updates
from graphfuse.fusion.precision.lower_precision import lower_precision
from graphfuse.fusion.precision.split_f32 import split_products
from graphfuse.fusion.products.align_rows import copy_rows
from graphfuse.fusion.products.join_heads import join_heads
from graphfuse.fusion.products.normalise_later import normalise_later
from graphfuse.fusion.products.own_masks import own_masks
from graphfuse.fusion.products.search_rows import search_rows
from graphfuse.fusion.products.split_columns import cut_columns
from graphfuse.fusion.products.split_keys import keys_in_parts
from graphfuse.fusion.products.split_long_sums import share_sums
from graphfuse.fusion.products.turn_weights import turned_weights
from graphfuse.fusion.regions.copy_scattered import copy_scattered
from graphfuse.fusion.regions.launch_together import launched_together
from graphfuse.fusion.regions.vectors_again import made_by_products
from graphfuse.fusion.regions.whole_scatters import mark_whole
from graphfuse.gpu.launch_groups import groups_of
from graphfuse.ir.core import Func
from graphfuse.ir.passes import Pass, passing
from graphfuse.ir.rewrite import dead_code
from graphfuse.ir.types import scalar
from graphfuse.knobs import Options
from graphfuse.targets import Target
from graphfuse.targets.machine import GpuMachine
from graphfuse.targets.profiles.nvidia import GPUS


def _machine(target: str) -> GpuMachine:
    profile = GPUS.get(Target.parse(target).cpu)
    if profile is None:
        raise UsageError(f"target: expected cuda:<arch>, found {target!r}")
    return profile.machine


@passing("graph", after=("merge-contractions",))
def split_columns(func: Func, *, target: str = "") -> Func:
    """Multiply by slices of a matrix, where the target makes no kernel of these products together."""
    return cut_columns(func, saved_together(_machine(target), func.ranges)) if target else cut_columns(func)


@passing("graph", after=("canonicalize",))
def split_long_sums(func: Func, *, target: str = "", strict: bool = False) -> Func:
    """Give each of the programs that the target runs at a time a part of every long sum."""
    if not target:
        return share_sums(func, strict=strict)
    machine = _machine(target)
    share = MOST_SPLIT if machine.has_wgmma else 1
    return share_sums(func, machine.multiprocessors, share, sum_parts(machine), strict=strict)


@passing("graph", after=("merge-contractions", "simplify-movement"))
def turn_weights(func: Func) -> Func:
    """Lay known matrices of products that may have one row along what is summed."""
    return turned_weights(func, ranges_of(func), VECTOR_BYTES)


@passing("graph", after=("merge-contractions", "simplify-movement"))
def align_rows(func: Func, *, target: str = "") -> Func:
    """Copy operands of products whose rows begin at addresses that the target cannot copy tiles from."""
    return copy_rows(func, ProductCosts(_machine(target), ranges_of(func)) if target else None)


@passing("graph", after=("merge-contractions", "simplify-movement"))
def join_groups(func: Func, *, target: str = "cuda:sm_90a") -> Func:
    """Make few groups of many, with zeros in the weights, where the target multiplies channels of one in long steps."""
    machine = _machine(target)
    return joined_groups(func, ProductCosts(machine, ranges_of(func)), machine.gpu.memory.launch_us)


@passing("graph")
def split_f32(func: Func, *, target: str = "cuda:sm_90a") -> Func:
    """Split operands of products of f32 where the target is faster with three bf16 parts of each."""
    return split_products(func, _machine(target).gpu.parts)


@passing("graph", after=("own-masks", "join-heads"))
def split_keys(func: Func, *, target: str = "cuda:sm_90a") -> Func:
    """Give each of the programs that the target runs at a time a part of the keys that few would read."""
    return keys_in_parts(func, key_parts(_machine(target)))


@passing("graph")
def few_updates(func: Func, *, target: str = "cuda:sm_90a") -> Func:
    """Combine few updates of halves where they land, instead of widening all that is there."""
    return narrow_updates(func, _machine(target).kernels)


@passing("graph", after=("few-updates",))
def whole_scatters(func: Func, *, target: str = "cuda:sm_90a") -> Func:
    """Let one kernel make all of a scatter's result where a program's columns fit into shared memory."""
    machine = _machine(target)
    return mark_whole(func, lambda op: columns_of(op, machine) > 0)


@passing("regions", after=("compute-again",))
def vectors_again(func: Func, *, target: str = "cuda:sm_90a") -> Func:
    """Let products make the vectors that each of their blocks reads as a whole."""
    machine, ranges = _machine(target), ranges_of(func)
    return made_by_products(func, lambda region: is_walk(region, ranges, machine))


@passing("regions")
def launch_together(func: Func, *, target: str = "cuda:sm_90a") -> Func:
    """Put small kernels that do not wait for each other into one launch."""
    return launched_together(func, groups_of(_machine(target), ranges_of(func)))


def graph_passes(target: Target, options: Options) -> tuple[Pass, ...]:
    """What runs between import and partitioning (docs/numerics.md, docs/precision.md)."""
    numerics, precision, text = options.numerics, options.precision, str(target)
    strict, has_wgmma = numerics == "strict", _machine(text).has_wgmma
    # tensor cores leave nothing to save by fewer multiplications
    passes = tuple(p for p in for_numerics(numerics) if p is not winograd)
    if not strict:
        passes = (dead_code, *as_stored(warpgroups=has_wgmma, lowered=precision != "f32"), *passes, *ATTENTION)
    if precision != "f32":
        passes = (*passes, lower_precision.given(to=scalar(precision)))
    pixels = PIXELS if has_wgmma and not strict else ()
    norms = () if strict else (normalise_later.given(centred=numerics == "fast"),)
    cuts = split_columns.given(target=text), split_long_sums.given(target=text, strict=strict)
    searches = (search_rows.given(held=_machine(text).gpu.memory.row_elements),)
    parts = (split_f32.given(target=text), *BY_PARTS) if has_wgmma and not strict and precision == "f32" else ()
    # late: no rule may see that what is added is left out again
    aligned = (join_groups.given(target=text), align_rows.given(target=text)) if has_wgmma else ()
    # nothing that finds equal values may run after `own_masks`
    few = (join_heads,) if strict else (join_heads, split_keys.given(target=text))
    # as late: equal memory that nobody has written is not one
    scattered = few_updates.given(target=text), whole_scatters.given(target=text), copy_scattered
    return (*passes, *pixels, *norms, turn_weights, *cuts, *searches, *parts, *aligned, own_masks, *few, *scattered)

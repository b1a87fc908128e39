"""Checks that hold between any two passes: scoping, terminators, and each op's type rule."""

from __future__ import annotations

from graphfuse.errors import VerifyError
from graphfuse.ir.core import Block, Func, Op, Params, Trait
from graphfuse.ir.types import listed


def verify(func: Func, known: set[Op] | None = None) -> None:
    """Raise a located `VerifyError` on the first broken invariant.

    Of the ops in `known`, which cannot have changed since, types are not checked again; all others join it.
    """
    known = set() if known is None else known
    names = [name for name, _, _ in func.dims]
    for name, lo, hi in func.dims:
        if names.count(name) > 1:
            raise VerifyError(f"@{func.name}: dim {name!r} is declared twice")
        if lo > hi:
            raise VerifyError(f"@{func.name}: dim {name!r} has an empty range {lo}..{hi}")
    _verify_block(func.body, set(), known, terminator="return")


def _verify_block(block: Block, visible: set[Op | Params], known: set[Op], terminator: str) -> None:
    scope = visible | {block.params}
    if not block.ops or block.ops[-1].kind.name != terminator:
        raise VerifyError(f"block must end in {terminator!r}", block.ops[-1].loc if block.ops else None)
    for i, op in enumerate(block.ops):
        if op.has(Trait.TERMINATOR) and i != len(block.ops) - 1:
            raise VerifyError(f"{op.kind}: terminator in mid-block", op.loc)
        _verify_op(op, scope, known)
        scope.add(op)


def _verify_op(op: Op, scope: set[Op | Params], known: set[Op]) -> None:
    for i, v in enumerate(op.operands):
        if v.owner not in scope or v.index >= len(v.owner.types):
            raise VerifyError(f"{op.kind}: operand {i} does not dominate its use", op.loc)
    inner = set["Op | Params"]() if op.has(Trait.ISOLATED) else scope
    for body in op.bodies:
        _verify_block(body, inner, known, terminator="yield")
    if op in known:
        return
    try:
        want = op.kind.result_types(op.operands, op.attrs, op.bodies)
    except VerifyError as e:
        raise VerifyError(f"{op.kind}: {e.message}", op.loc) from None
    if want != op.types:
        message = f"{op.kind}: result types are {listed(op.types)}, the rule says {listed(want)}"
        raise VerifyError(message, op.loc)
    known.add(op)
